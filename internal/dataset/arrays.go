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

// numpyError adds the name of the file to an error in NumPy data.
func numpyError(file string, err error) error {
	if err == nil || interrupted(err) {
		return err
	}
	text, remedy, _ := strings.Cut(err.Error(), "; ")
	return &Error{File: file, Problem: text, Remedy: option.Plain(remedy)}
}

// Names of the arrays of a .npz file, by what they hold. The name of a part is appended to them,
// except that it may be missing for the training part.
var (
	inputNames  = []string{"x", "X", "inputs", "features", "images", "data"}
	targetNames = []string{"y", "Y", "targets", "labels", "target", "label"}
	columnNames = []string{"columns", "feature_names"}
	targetsName = "target_columns"
	partEndings = [3][]string{{"_train", ""}, {"_valid", "_val"}, {"_test"}} // of partNames
)

// readArrays reads one part: its inputs, its targets if there are any, and the
// names of its rows and columns. If the file lacks a part, the table is empty; lacking the first
// part is an error.
func (o *OpenOptions) readArrays(ctx context.Context, path string, l layout, endings []string) (*table, error) {
	if isArchive(path) {
		return readArchive(ctx, path, l, endings, o.MaxBytes)
	}
	files, far, err := o.far(ctx, path)
	if err != nil {
		return nil, err
	}
	t, err := storage{o.FS}.arraysByRange(ctx, path, files, l, o.MaxBytes)
	return o.held(ctx, t, far, err)
}

// readArchive reads the arrays of a .npz file whose names have one of these
// endings. The table is empty if the file has no inputs of this part and the part is optional.
func readArchive(ctx context.Context, path string, l layout, endings []string, most int64) (*table, error) {
	file, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := npy.Open(file, file.Size())
	if err != nil {
		return nil, numpyError(path, err)
	}
	t := newTable(path)
	t.real = l.real
	whole := slices.Contains(endings, "") // the whole file is read, not an optional part of it
	x, end := findArray(z, inputNames, endings)
	if x == "" && whole && z.Has("arr_0") {
		x = "arr_0" // numpy.savez gives this name to an unnamed array
	}
	if x == "" && !whole {
		return t, nil
	}
	if x == "" {
		return nil, t.errorf("call the inputs x and the targets y", "none of its arrays %s has a name of inputs", option.QuoteList(z.Names))
	}
	for _, name := range []string{l.target, l.id, l.weight} {
		if name != "" && l.like == nil && !z.Has(name) && !z.Has(name+end) {
			return nil, t.errorf(option.Textf("choose from %s", option.QuoteList(z.Names)), "there is no array %s", option.Quote(name))
		}
	}
	own := []string{end}
	if l.like == nil || whole {
		own = append(own, "")
	}
	target, _ := findArray(z, []string{l.target}, own)
	if target == "" {
		target, _ = findArray(z, targetNames, []string{end})
	}
	if target == "" && x == "arr_0" && z.Has("arr_1") {
		target = "arr_1"
	}
	ids, _ := findArray(z, []string{l.id}, own)
	weights, _ := findArray(z, []string{l.weight}, own)
	columns, _ := findArray(z, columnNames, []string{""})
	targetColumns, _ := findArray(z, []string{targetsName}, []string{""})
	// Check by the headers of the arrays that inputs, targets and names fit into the allowed memory.
	rows, need, targets := 0, 0., 1.
	for _, name := range []string{x, target, ids, weights} {
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
		if name == target && len(shape) > 1 {
			targets = float64(shape[1])
		}
		need += bytes
	}
	if need += float64(rows) * rowBytes(int(targets)); most > 0 && need > float64(most) {
		return nil, t.errorf("save the inputs and the targets as x.npy and y.npy, whose rows are read where they are needed, give fewer rows, or allow more memory",
			"its %d rows take %.0f bytes of memory, of which %d may be used", rows, need, most)
	}
	var arrays [6]*npy.Array
	for i, name := range []string{x, target, ids, weights, columns, targetColumns} {
		if name == "" {
			continue
		}
		if arrays[i], err = z.Read(name, most); err != nil {
			return nil, numpyError(path, err)
		}
	}
	inputs, y, names, ofTargets := arrays[0], arrays[1], arrays[4], arrays[5]
	if l.like != nil && l.like.Shape == nil && names != nil {
		if inputs, err = byName(inputs, names.Text, l.like.Columns, path); err != nil {
			return nil, err
		}
		names = &npy.Array{Text: l.like.Columns}
	}
	if y == nil && l.like == nil {
		return nil, t.errorf(noTargetsRemedy, "there are no targets")
	}
	if err := t.fillInputs(inputs, names); err != nil {
		return nil, err
	}
	if err := t.fillWeights(arrays[3]); err != nil {
		return nil, err
	}
	if err := t.fillIDs(arrays[2]); err != nil || y == nil {
		return t, err
	}
	if err := t.fillTargets(y, target); err != nil || ofTargets == nil {
		return t, err
	}
	if len(ofTargets.Text) != len(t.targets) {
		return nil, t.errorf("save one name a target", "%d names of targets, but %d targets", len(ofTargets.Text), len(t.targets))
	}
	t.targets = ofTargets.Text
	return t, nil
}

// findArray returns the first array whose name is one of names followed by one of endings, and that
// ending; "" for none.
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

// neighbour returns the file of targets that belongs to a file of inputs by its name, such as
// y_train.npy beside x_train.npy; "" for none.
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

// fillInputs fills in the inputs, and the names of their columns if there are any.
func (t *table) fillInputs(x, columns *npy.Array) error {
	if x.Len() == 0 || x.Text != nil {
		return t.errorf(inputsRemedy, "inputs have shape %v and the type %s", x.Shape, x.Type)
	}
	if err := t.shapeInputs(x.Shape, x.Type, x.Bytes != nil); err != nil {
		return err
	}
	if t.Shape != nil && x.Bytes != nil {
		t.px = x.Bytes
		return nil
	}
	t.x = x.Numbers()
	d := len(t.x) / t.n
	if err := finite(t.File, t.x, d, 0, feature); err != nil {
		return err
	}
	t.nameColumns(d)
	if t.Shape == nil && columns != nil {
		if len(columns.Text) != d {
			return t.errorf("save one name a column", "%d names of columns, but %d columns", len(columns.Text), d)
		}
		t.Columns = columns.Text
	}
	if twice, ok := repeated(t.Columns); ok {
		return t.errorf("rename one", "two columns have the same name %s", option.Quote(twice))
	}
	return nil
}

// repeated returns a name that occurs twice.
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

// byName selects the columns of an array whose names are in want, in the order of want, and leaves out the others.
// If no name is in want, and want has the default names of unnamed columns, it returns the array unchanged.
func byName(x *npy.Array, names, want []string, file string) (*npy.Array, error) {
	if len(x.Shape) != 2 || x.Shape[1] != len(names) || slices.Equal(names, want) {
		return x, nil
	}
	at, err := Places(names, want, nil, file, 0)
	if err != nil {
		own := newTable("")
		own.nameColumns(len(want))
		if slices.Equal(own.Columns, want) && !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(want, n) }) {
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

// Places returns the positions of the names want in the header of a file. Each must occur exactly once; a spare
// name may be missing, and its position is then -1.
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

// stem returns the name of a file without its folder and ending.
func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// nameColumns gives the columns of features the names x0, x1, ….
func (t *table) nameColumns(d int) {
	if t.Shape != nil {
		return
	}
	for j := range d {
		t.Columns = append(t.Columns, "x"+strconv.Itoa(j))
	}
}

// fillIDs fills in the names of rows, if there are any.
func (t *table) fillIDs(ids *npy.Array) error {
	if ids == nil {
		return nil
	}
	if len(ids.Shape) != 1 || ids.Len() != t.n {
		return t.errorf("save one name a row", "names of rows have shape %v, but there are %d rows", ids.Shape, t.n)
	}
	for i := range t.n {
		if ids.Text != nil {
			t.IDs = append(t.IDs, ids.Text[i])
		} else {
			t.IDs = append(t.IDs, strconv.FormatFloat(ids.Float(i), 'f', -1, 64))
		}
	}
	return nil
}

// fillWeights fills in the weights of rows, if there are any.
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
		t.Weights = append(t.Weights, v)
	}
	return nil
}

// shapeInputs sets the shape of the inputs: N×D features, or pictures N×H×W or N×C×H×W. Pictures of
// type uint8 are grey levels.
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
		t.Shape = shape[1:]
		if isBytes {
			t.Notes = []string{dividedNote}
		}
	}
	return nil
}

const inputsRemedy = "save N×D features, or N×H×W or N×C×H×W pictures, as numbers"

// fillTargets fills in the targets: N or N×T numbers, N words, or N×K one-hot rows.
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
				return &Error{File: t.File, Place: fmt.Sprintf("row %d", i), Problem: "its target is empty", Remedy: "fill it in or leave the row out"}
			}
		}
		t.words = y.Text
		return nil
	}
	t.Targets = y.Numbers()
	if err := finite(t.File, t.Targets, width, 0, target); err != nil {
		return err
	}
	if width == 1 {
		return nil
	}
	if labels := oneHot(t.Targets, width); labels != nil && !t.real {
		t.Targets, t.kinds = labels, width
		t.Notes = append(t.Notes, oneHotNote)
		return nil
	}
	if labels := largestShares(t.Targets, width); labels != nil && !t.real {
		t.Targets, t.Shares, t.kinds = labels, t.Targets, width
		t.Notes = append(t.Notes, SharesNote)
		return nil
	}
	t.targets = nil
	for j := range width {
		t.targets = append(t.targets, name+strconv.Itoa(j))
	}
	return nil
}

const oneHotNote = "each row of targets has a single one, which is taken as the label"

// SharesNote is the note on data whose rows of targets are read as shares of the classes. With a regression
// likelihood they would be read as numbers.
const SharesNote = "each row of targets has shares of 1, which are taken as soft labels"

// largestShares returns the position of the largest share of each row, and divides each row by its sum. It returns
// nil if some row is not made of shares that sum to 1.
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

// oneHot returns the position of the 1 in each row. It returns nil if some row is not one-hot, that is zeros and a
// single 1.
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
