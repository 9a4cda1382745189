package dataset

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/option"
)

func isNumPy(path string) bool { return isNumPyFile(path) || isArchive(path) }

func isNumPyFile(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npy") }

func isArchive(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npz") }

// numpyError says in which file NumPy's data are wrong.
func numpyError(file string, err error) error {
	if err == nil || interrupted(err) {
		return err
	}
	text, remedy, _ := strings.Cut(err.Error(), "; ")
	return &Error{File: file, Problem: text, Remedy: option.Plain(remedy)}
}

// Names of the arrays of a .npz file, by what they hold. Those of a part have its
// name at the end, or for the training part none.
var (
	inputNames  = []string{"x", "X", "inputs", "features", "images", "data"}
	targetNames = []string{"y", "Y", "targets", "labels", "target", "label"}
	columnNames = []string{"columns", "feature_names"}
	targetsName = "target_columns"
	partEndings = map[string][]string{"train": {"_train", ""}, "valid": {"_valid", "_val"}, "test": {"_test"}}
)

// openNumPy reads FILE.npz or FILE.npy. The test and validation rows are other
// arrays of the same .npz file, or come from other files.
func openNumPy(ctx context.Context, path string, o *OpenOptions) (*Data, error) {
	if o.Split != nil {
		return nil, &Error{File: path, Problem: "a split was asked for", Remedy: "splits need data from a .csv file; save the parts as arrays x_train, x_valid and x_test"}
	}
	ext := filepath.Ext(path)
	d := &Data{Name: strings.TrimSuffix(filepath.Base(path), ext), Source: path, ID: o.ID, Weights: o.Weights}
	parts := []*part{{name: "train"}, {name: "valid"}, {name: "test"}}
	var first *table
	for i, file := range []string{path, o.ValidFile, o.TestFile} {
		p := parts[i]
		l := layout{id: o.ID, weight: o.Weights, like: first, real: o.RealTargets}
		endings := partEndings[p.name]
		switch {
		case file != "":
			l.target = o.Target
			endings = append(slices.Clone(endings), "", "_train")
		case isArchive(path):
			file = path
		default:
			p.table = &table{file: path}
			continue
		}
		var err error
		if p.table, err = o.readArrays(ctx, file, l, endings); err != nil {
			return nil, err
		}
		if i == 0 {
			first = p.table
		}
	}
	d.Columns, d.TargetColumns = first.columns, first.targets
	if first.shape == nil {
		d.Target = strings.Join(first.targets, ", ")
	} else {
		d.TargetColumns = nil
	}
	for _, p := range parts {
		d.Notes = append(d.Notes, p.table.notes...)
	}
	slices.Sort(d.Notes)
	d.Notes = slices.Compact(d.Notes)
	if err := d.take(parts, o.ClassNames); err != nil {
		return nil, err
	}
	return d.finish()
}

// readArrays reads one part: its inputs, its targets if there are any, and the
// names of its rows and columns. A part that the file lacks is empty, unless it is
// the first.
func (o *OpenOptions) readArrays(ctx context.Context, path string, l layout, endings []string) (*table, error) {
	if !isArchive(path) {
		files, far, err := o.far(ctx, path)
		if err != nil {
			return nil, err
		}
		t, err := storage{o.FS}.arraysByRange(ctx, path, files, l, o.MaxBytes)
		return o.held(ctx, t, far, err)
	}
	a, err := arraysOfArchive(ctx, path, l, endings, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	t := &table{file: path, real: o.RealTargets}
	if a.x == nil {
		return t, nil
	}
	if a.y == nil && l.like == nil {
		return nil, &Error{File: path, Problem: "there are no targets", Remedy: noTargetsRemedy}
	}
	return t, t.fill(a)
}

// arrays are the arrays of one part; all but x may be nil.
type arrays struct {
	x, y, ids, columns *npy.Array
	weights            *npy.Array
	targets            *npy.Array // names of the targets
	target             string     // name of y
}

// arraysOfArchive reads the arrays of a .npz file whose names have one of these
// endings. There are none where the file has no inputs of this part and they may be
// missing.
func arraysOfArchive(ctx context.Context, path string, l layout, endings []string, most int64) (*arrays, error) {
	file, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := npy.Open(file, file.Size())
	if err != nil {
		return nil, numpyError(path, err)
	}
	whole := slices.Contains(endings, "") // not only another part of the first file
	x, end := findArray(z, inputNames, endings)
	if x == "" && whole && z.Has("arr_0") {
		x = "arr_0" // what numpy.savez calls arrays without names
	}
	if x == "" && !whole {
		return &arrays{}, nil
	}
	if x == "" {
		return nil, &Error{File: path, Problem: "none of its arrays " + option.QuoteList(z.Names) + " has a name of inputs", Remedy: "call the inputs x and the targets y"}
	}
	for _, name := range []string{l.target, l.id, l.weight} {
		if name != "" && l.like == nil && !z.Has(name) && !z.Has(name+end) {
			return nil, &Error{File: path, Problem: "there is no array " + option.Quote(name), Remedy: option.Textf("choose from %s", option.QuoteList(z.Names))}
		}
	}
	a, own := &arrays{}, []string{end}
	if l.like == nil || whole {
		own = append(own, "")
	}
	if a.target, _ = findArray(z, []string{l.target}, own); a.target == "" {
		a.target, _ = findArray(z, targetNames, []string{end})
	}
	if a.target == "" && x == "arr_0" && z.Has("arr_1") {
		a.target = "arr_1"
	}
	ids, _ := findArray(z, []string{l.id}, own)
	weights, _ := findArray(z, []string{l.weight}, own)
	columns, _ := findArray(z, columnNames, []string{""})
	targetColumns, _ := findArray(z, []string{targetsName}, []string{""})
	// By the headers of the arrays the inputs with their targets and names take no more memory than they may.
	rows, need, targets := 0, 0., 1.
	for _, name := range []string{x, a.target, ids, weights} {
		if name == "" {
			continue
		}
		shape, bytes, err := z.Header(name)
		if err != nil {
			return nil, numpyError(path, err)
		}
		if name == x && len(shape) > 0 {
			rows = shape[0]
		}
		if name == a.target && len(shape) > 1 {
			targets = float64(shape[1])
		}
		need += bytes
	}
	if need += float64(rows) * rowBytes(int(targets)); most > 0 && need > float64(most) {
		return nil, &Error{File: path, Problem: fmt.Sprintf("its %d rows take %.0f bytes of memory, of which %d may be used", rows, need, most),
			Remedy: "save the inputs and the targets as x.npy and y.npy, whose rows are read where they are needed, give fewer rows, or allow more memory"}
	}
	for _, f := range []struct {
		name string
		to   **npy.Array
	}{{x, &a.x}, {a.target, &a.y}, {ids, &a.ids}, {weights, &a.weights}, {columns, &a.columns}, {targetColumns, &a.targets}} {
		if f.name == "" {
			continue
		}
		if *f.to, err = z.Read(f.name, most); err != nil {
			return nil, numpyError(path, err)
		}
	}
	if l.like != nil && l.like.shape == nil && a.columns != nil {
		if a.x, err = byName(a.x, a.columns.Text, l.like.columns, path); err != nil {
			return nil, err
		}
		a.columns = &npy.Array{Text: l.like.columns}
	}
	return a, nil
}

// findArray returns the first array of these names and endings with its ending,
// or "".
func findArray(z *npy.Archive, names, endings []string) (array, ending string) {
	for _, end := range endings {
		for _, name := range names {
			if name != "" && z.Has(name+end) {
				return name + end, end
			}
		}
	}
	return "", ""
}

// neighbour returns the file of the targets that belong to a file of inputs by its
// name, such as y_train.npy beside x_train.npy, or "".
func (p storage) neighbour(path string) string {
	dir, base := filepath.Split(path)
	for k, name := range inputNames {
		rest, ok := strings.CutPrefix(base, name)
		if !ok || rest == "" || strings.ContainsRune("abcdefghijklmnopqrstuvwxyz", rune(rest[0])) {
			continue
		}
		for _, target := range append([]string{targetNames[k]}, targetNames...) {
			other := dir + target + rest
			if info, err := p.stat(other); err == nil && info.Mode().IsRegular() {
				return other
			}
		}
	}
	return ""
}

// fill takes the table from its arrays.
func (t *table) fill(a *arrays) error {
	x := a.x
	if x.Len() == 0 || x.Text != nil {
		return t.errorf(inputsRemedy, "inputs have shape %v and the type %s", x.Shape, x.Type)
	}
	if err := t.shapeInputs(x.Shape, x.Type, x.Bytes != nil); err != nil {
		return err
	}
	if t.shape != nil && x.Bytes != nil {
		t.px = x.Bytes
	} else {
		if t.x = x.Floats; x.Bytes != nil {
			t.x = make([]float64, len(x.Bytes))
			for i, b := range x.Bytes {
				t.x[i] = float64(b)
			}
		}
		if err := finite(t.file, t.x, len(t.x)/t.n, 0, feature); err != nil {
			return err
		}
	}
	d := len(t.x) / t.n
	t.nameColumns(d)
	if t.shape == nil && a.columns != nil {
		if len(a.columns.Text) != d {
			return t.errorf("save one name a column", "%d names of columns, but %d columns", len(a.columns.Text), d)
		}
		t.columns = a.columns.Text
	}
	if twice, ok := repeated(t.columns); ok {
		return t.errorf("rename one", "two columns have the same name %s", option.Quote(twice))
	}
	if err := t.fillWeights(a.weights); err != nil {
		return err
	}
	if err := t.fillIDs(a.ids); err != nil || a.y == nil {
		return err
	}
	if err := t.fillTargets(a.y, a.target); err != nil || a.targets == nil {
		return err
	}
	if len(a.targets.Text) != len(t.targets) {
		return t.errorf("save one name a target", "%d names of targets, but %d targets", len(a.targets.Text), len(t.targets))
	}
	t.targets = a.targets.Text
	return nil
}

// repeated is a name that is there twice.
func repeated(names []string) (string, bool) {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

// byName takes those columns of an array that have names in a list, in the order of the list; others are left out.
// Where none of them is in the list, and the list is of columns that nobody named, the array is returned as it is.
func byName(x *npy.Array, names, want []string, file string) (*npy.Array, error) {
	if len(x.Shape) != 2 || x.Shape[1] != len(names) || slices.Equal(names, want) {
		return x, nil
	}
	at, err := Places(names, want, nil, file, 0)
	if err != nil {
		own := &table{}
		own.nameColumns(len(want))
		if slices.Equal(own.columns, want) && !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(want, n) }) {
			return x, nil
		}
		return nil, err
	}
	out := &npy.Array{Shape: []int{x.Shape[0], len(want)}, Type: x.Type}
	for i := range x.Shape[0] {
		for _, j := range at {
			out.Floats = append(out.Floats, x.Float(i*len(names)+j))
		}
	}
	return out, nil
}

// Places are the places of these names in the header of a file, each of which must be there once; -1 of a spare one
// that is not there.
func Places(header, want []string, spare []bool, file string, line int) ([]int, error) {
	at, many := map[string]int{}, map[string]int{}
	for j, name := range header {
		at[name] = j
		many[name]++
	}
	var twice, missing []string
	list := make([]int, len(want))
	for i, name := range want {
		switch list[i] = at[name]; many[name] {
		case 0:
			if list[i] = -1; spare == nil || !spare[i] {
				missing = append(missing, name)
			}
		case 1:
		default:
			twice = append(twice, name)
		}
	}
	if missing != nil {
		return nil, &Error{File: file, Line: line, Problem: "there is no column " + option.QuoteList(missing), Remedy: "use the column names of the data, or none"}
	}
	if twice != nil {
		return nil, &Error{File: file, Line: line, Problem: "two columns have the same name " + option.QuoteList(twice), Remedy: "rename one"}
	}
	return list, nil
}

// stem is the name of a file without its folder and ending.
func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// nameColumns names the columns of features x0, x1, ….
func (t *table) nameColumns(d int) {
	if t.shape != nil {
		return
	}
	for j := range d {
		t.columns = append(t.columns, "x"+strconv.Itoa(j))
	}
}

// fillIDs takes the names of rows, if there are any.
func (t *table) fillIDs(ids *npy.Array) error {
	if ids == nil {
		return nil
	}
	if len(ids.Shape) != 1 || ids.Len() != t.n {
		return t.errorf("save one name a row", "names of rows have shape %v, but there are %d rows", ids.Shape, t.n)
	}
	for i := range t.n {
		if ids.Text != nil {
			t.ids = append(t.ids, ids.Text[i])
		} else {
			t.ids = append(t.ids, strconv.FormatFloat(ids.Float(i), 'f', -1, 64))
		}
	}
	return nil
}

// fillWeights takes the weights of rows, if there are any.
func (t *table) fillWeights(weights *npy.Array) error {
	switch {
	case weights == nil:
		return nil
	case len(weights.Shape) != 1 || weights.Len() != t.n || weights.Text != nil:
		return t.errorf("save one number a row", "weights of rows have shape %v and the type %s, but there are %d rows", weights.Shape, weights.Type, t.n)
	}
	for i := range t.n {
		v := weights.Float(i)
		if !(v >= 0) || math.IsInf(v, 1) {
			return t.errorf(weightsRemedy, "the weight of row %d is %v", i, v)
		}
		t.weights = append(t.weights, v)
	}
	return nil
}

func (t *table) errorf(remedy option.Text, format string, a ...any) error {
	return &Error{File: t.file, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
}

// shapeInputs takes the shape of the inputs: N×D features, or pictures N×H×W or N×C×H×W, whose
// elements of the type uint8 are grey levels.
func (t *table) shapeInputs(shape []int, kind string, isBytes bool) error {
	was := shape
	switch len(shape) {
	case 1:
		shape = []int{shape[0], 1}
	case 3:
		shape = []int{shape[0], 1, shape[1], shape[2]}
	}
	if len(shape) != 2 && len(shape) != 4 {
		return t.errorf(inputsRemedy, "inputs have shape %v and the type %s", was, kind)
	}
	t.n = shape[0]
	if len(shape) == 4 {
		t.shape = shape[1:]
		if isBytes {
			t.notes = []string{dividedNote}
		}
	}
	return nil
}

const inputsRemedy = "save N×D features, or N×H×W or N×C×H×W pictures, as numbers"

// fillTargets takes the targets: N or N×T numbers, N words, or N×K rows with a
// single one, which is at the label.
func (t *table) fillTargets(y *npy.Array, name string) error {
	width := 1
	if len(y.Shape) == 2 {
		width = y.Shape[1]
	}
	if len(y.Shape) < 1 || len(y.Shape) > 2 || y.Shape[0] != t.n || width < 1 {
		return t.errorf("save one target, or as many as the network has outputs, for each row", "targets have shape %v, but there are %d rows", y.Shape, t.n)
	}
	t.targets = []string{name}
	if y.Text != nil {
		if width > 1 {
			return t.errorf("save one word a row", "targets are words of shape %v", y.Shape)
		}
		for i, w := range y.Text {
			if y.Text[i] = norm.NFC.String(strings.TrimSpace(w)); y.Text[i] == "" {
				return &Error{File: t.file, Place: fmt.Sprintf("row %d", i), Problem: "its target is empty", Remedy: "fill it in or leave the row out"}
			}
		}
		t.words = y.Text
		return nil
	}
	t.y = make([]float64, y.Len())
	for i := range t.y {
		t.y[i] = y.Float(i)
	}
	if err := finite(t.file, t.y, width, 0, target); err != nil {
		return err
	}
	if width == 1 {
		return nil
	}
	if labels := oneHot(t.y, width); labels != nil && !t.real {
		t.y, t.kinds = labels, width
		t.notes = append(t.notes, oneHotNote)
		return nil
	}
	if labels := largestShares(t.y, width); labels != nil && !t.real {
		t.y, t.shares, t.kinds = labels, t.y, width
		t.notes = append(t.notes, SharesNote)
		return nil
	}
	t.targets = nil
	for j := range width {
		t.targets = append(t.targets, name+strconv.Itoa(j))
	}
	return nil
}

const oneHotNote = "each row of targets has a single one, which is taken as the label"

// SharesNote is the note of Data whose targets would be numbers by another likelihood.
const SharesNote = "each row of targets has shares of 1, which are taken as soft labels"

// largestShares returns the places of the largest of the shares in rows that sum to 1, and divides them by their sum; nil
// where some row is different.
func largestShares(y []float64, width int) []float64 {
	labels := make([]float64, 0, len(y)/width)
	for row := range slices.Chunk(y, width) {
		sum := 0.0
		for _, v := range row {
			if !(v >= 0 && v <= 1) {
				return nil
			}
			sum += v
		}
		if !(math.Abs(sum-1) < 1e-3) {
			return nil
		}
		labels = append(labels, float64(slices.Index(row, slices.Max(row))))
	}
	for row := range slices.Chunk(y, width) {
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		for j := range row {
			row[j] /= sum
		}
	}
	return labels
}

// oneHot returns the places of the ones in rows of zeros with a single one; nil where some row is different.
func oneHot(y []float64, width int) []float64 {
	var labels []float64
	for row := range slices.Chunk(y, width) {
		at, sum := slices.Index(row, 1), 0.0
		for _, v := range row {
			sum += math.Abs(v)
		}
		if at < 0 || sum != 1 {
			return nil
		}
		labels = append(labels, float64(at))
	}
	return labels
}
