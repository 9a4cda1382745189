package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/picture"
)

// InputOptions says what the user's own inputs must look like.
type InputOptions struct {
	Like     *Data          // the data of the network: shape, columns and kind of its inputs
	ID       string         // column or array that names the rows; default none
	Spare    []bool         // which columns of a table are spare, so that a file may lack them; nil for none
	Invert   picture.Choice // whether to invert pictures
	MaxBytes int64          // the most memory that the inputs may take; default no limit

	// Standard is read in place of a file named "-"; the default is standard input. Errors and notes use Name for it
	// and for rows in memory.
	Standard io.Reader
	Name     string
}

// ReadInputs reads rows of the user's own, which must have the form of the rows of the data. It
// reads them from a file, from standard input if path is "-", or from a folder of pictures. The
// first bytes of a file tell its kind:
//
//   - A PNG or JPEG picture is turned upright and fitted to the inputs.
//   - A CSV file, gzipped or not, holds features under a header with the names of
//     the data, in any order and among others, or just D numbers a row. A row of a
//     picture holds grey levels from 0 to 255.
//   - A NumPy file holds N×D numbers, pictures N×C×H×W, or one of them.
//   - A folder holds pictures, which are taken in the order of their names.
//
// The error is an *Error or, if ctx is done, its error.
func ReadInputs(ctx context.Context, path string, o *InputOptions) (*Rows, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() && path != "-" {
		// Read the pictures of a folder.
		dir := path
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, &Error{File: dir, Problem: "cannot be opened", Err: err}
		}
		t := newTable(dir)
		others := 0
		notes := map[string][]string{} // names of the files to which each note applies
		for _, e := range entries {
			switch strings.ToLower(filepath.Ext(e.Name())) {
			case ".png", ".jpg", ".jpeg":
			default:
				if !strings.HasPrefix(e.Name(), ".") {
					others++
				}
				continue
			}
			path := filepath.Join(dir, e.Name())
			f, err := openFile(ctx, path)
			if err != nil {
				return nil, err
			}
			if f.Size() < 0 {
				f.Close()
				return nil, &Error{File: path, Problem: "is not a regular file", Remedy: "take it out of the folder"}
			}
			pixels, note, err := o.picture(ctx, f, path)
			f.Close()
			if err != nil {
				return nil, err
			}
			if o.MaxBytes > 0 && int64(len(t.px)+len(pixels)) > o.MaxBytes {
				return nil, &Error{File: path, Problem: fmt.Sprintf("the pictures up to here take more than the %d bytes of memory that may be used", o.MaxBytes), Remedy: "give fewer pictures, or allow more memory"}
			}
			t.px = append(t.px, pixels...)
			t.IDs = append(t.IDs, e.Name())
			for _, text := range note {
				text = strings.TrimPrefix(text, path+": ")
				notes[text] = append(notes[text], e.Name())
			}
		}
		if t.n = len(t.IDs); t.n == 0 {
			return nil, &Error{File: dir, Problem: "holds no pictures", Remedy: "put .png, .jpg or .jpeg files there"}
		}
		for text, files := range notes {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s: %s", dir, listOf(files, func(s string) string { return " " + s })[1:], text))
		}
		slices.Sort(t.Notes)
		if others > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: left out what is no picture (%d of %d)", dir, others, others+t.n))
		}
		return o.inputs(t), nil
	}
	name, in := path, io.Reader(nil)
	if path == "-" {
		name, in = cmp.Or(o.Name, "standard input"), o.Standard
	} else {
		f, err := openFile(ctx, path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b := bufio.NewReaderSize(in, 1<<16)
	head, err := b.Peek(8)
	if interrupted(err) {
		return nil, err
	}
	switch kind := foreign(head); {
	case kind != nil && !npy.IsArchive(head):
		return nil, kind.error(name)
	case foreignByName(name) != nil && npy.IsArchive(head):
		return nil, foreignByName(name).error(name)
	case picture.Is(head):
		r, err := seekable(in, b, name, o.MaxBytes)
		if err != nil {
			return nil, err
		}
		pixels, notes, err := o.picture(ctx, r, name)
		if err != nil {
			return nil, err
		}
		t := newTable(name)
		t.n, t.px, t.Notes = 1, pixels, notes
		if o.ID != "" {
			t.IDs = []string{filepath.Base(name)}
		}
		return o.inputs(t), nil
	case npy.Is(head):
		x, err := npy.Read(b, o.MaxBytes)
		if err != nil {
			return nil, numpyError(name, err)
		}
		return o.fromArray(x, nil, name)
	case npy.IsArchive(head):
		r, err := seekable(in, b, name, o.MaxBytes)
		if err != nil {
			return nil, err
		}
		return o.archive(r, name)
	}
	t, err := o.table(b, name)
	if err != nil {
		return nil, err
	}
	return o.inputs(t), nil
}

// seeker is a source for archives and pictures, which are not read from beginning to end.
type seeker interface {
	io.ReadSeeker
	io.ReaderAt
	Size() int64
}

// mostPiped bounds what is read into memory from a pipe if no limit is set.
const mostPiped = 1 << 30

// seekable returns a regular file, rewound to its beginning. Other input is read from b into
// memory.
func seekable(in io.Reader, b *bufio.Reader, name string, most int64) (seeker, error) {
	if f, ok := in.(*inputfile.File); ok && f.Size() >= 0 {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, &Error{File: name, Problem: "cannot be read", Err: err}
		}
		return f, nil
	}
	if most <= 0 {
		most = mostPiped
	}
	all, err := io.ReadAll(io.LimitReader(b, most+1))
	if err != nil {
		if !interrupted(err) {
			err = &Error{File: name, Problem: "cannot be read", Err: err}
		}
		return nil, err
	}
	if int64(len(all)) > most {
		return nil, &Error{File: name, Problem: fmt.Sprintf("more than the %d bytes of memory that may be used", most), Remedy: "give fewer rows, or allow more memory"}
	}
	return bytes.NewReader(all), nil
}

// inputs returns the rows of a table. Their targets are unknown.
func (o *InputOptions) inputs(t *table) *Rows {
	s, like := t.Rows, o.Like
	s.Part, s.Index, s.fileRows = "file", rowsFrom(0, t.n), t.n
	s.Shape, s.Columns, s.Names, s.known = like.Shape, like.Columns, like.Names, like.Train.known
	s.whole, s.last = o.whole(), like.last
	s.findRange()
	return s
}

// levels reports whether the pictures of the data are whole grey levels from 0 to 255 stored as real numbers.
func (d *Data) levels() bool {
	for _, s := range d.parts() {
		if s.n > 0 {
			return s.levels
		}
	}
	return false
}

// whole reports whether grey levels go into the network without division by 255.
func (o *InputOptions) whole() bool { return o.Like.whole || o.Like.levels() }

// pictureOptions returns the options by which pictures are fitted to the data.
func (o *InputOptions) pictureOptions(ctx context.Context, name string) (*picture.Options, error) {
	fail := func(remedy option.Text, format string, a ...any) (*picture.Options, error) {
		return nil, &Error{File: name, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	shape := o.Like.Shape
	if len(shape) == 2 {
		shape = []int{1, shape[0], shape[1]}
	}
	if len(shape) == 3 && o.Like.last {
		shape = []int{shape[2], shape[0], shape[1]}
	}
	if len(shape) != 3 || !o.Like.Images() || shape[0] != 1 && shape[0] != 3 {
		return fail("give a CSV or NumPy file", "a picture, but inputs have shape %v", o.Like.Shape)
	}
	p := &picture.Options{Channels: shape[0], Height: shape[1], Width: shape[2], Invert: o.Invert}
	for _, s := range o.Like.parts() {
		if s.n == 0 {
			continue
		}
		lo, hi, err := s.span(ctx)
		if err != nil {
			return nil, err
		}
		if !s.bytes() && (lo < 0 || hi > 1) && !s.levels {
			return fail("prepare it as they were, and give a NumPy file", "a picture, whose grey levels are from 0 to 1, but the pictures of %s hold numbers from %.3g to %.3g", o.Like.Source, lo, hi)
		}
		if p.Border, err = s.border(ctx); err != nil {
			return nil, err
		}
		break
	}
	return p, nil
}

// Dark reports whether the border of the images is dark on average. The error is an error of
// Rows.Read.
func (d *Data) Dark(ctx context.Context) (bool, error) {
	for _, s := range d.parts() {
		if s.draw != nil {
			return true, nil // ink on black
		}
		if s.n > 0 && s.Images() {
			border, err := s.border(ctx)
			sum := 0.0
			for _, v := range border {
				sum += v
			}
			return sum < 127.5*float64(len(border)), err
		}
	}
	return false, nil
}

// mostBorders is the largest number of images whose borders are examined.
const mostBorders = 1000

// border returns the mean grey level of the borders of the first images, from 0 to 255, one number
// for each channel.
func (s *Rows) border(ctx context.Context) ([]float64, error) {
	channels, h, w := s.Picture()
	n := min(s.n, mostBorders)
	sums := make([]int, n*channels)
	if err := par.Do(ctx, n, func(pos int) error {
		img, err := s.ReadImage(ctx, pos)
		if err != nil {
			return err
		}
		img = s.Planes(img)
		for i := range h * w {
			if x, y := i%w, i/w; x > 0 && y > 0 && x < w-1 && y < h-1 {
				continue
			}
			for c := range channels {
				sums[pos*channels+c] += int(img[c*h*w+i])
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	out := make([]float64, channels)
	for i, sum := range sums {
		out[i%channels] += float64(sum)
	}
	count := float64(n * (h*w - max(0, h-2)*max(0, w-2)))
	for c := range out {
		out[c] /= count
	}
	return out, nil
}

// picture reads a picture and returns pixels in the shape of the data. Notes begin with the name of
// the picture.
func (o *InputOptions) picture(ctx context.Context, r io.ReadSeeker, name string) ([]byte, []string, error) {
	fit, err := o.pictureOptions(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	p, err := picture.Decode(r, o.MaxBytes)
	if err != nil {
		if !interrupted(err) {
			err = &Error{File: name, Problem: err.Error(), Remedy: "save it as a smaller PNG or JPEG"}
		}
		return nil, nil, err
	}
	return o.fit(p, fit, name)
}

// fit fits a picture to the shape of the data. Notes begin with the name of the picture.
func (o *InputOptions) fit(p *picture.Picture, fit *picture.Options, name string) ([]byte, []string, error) {
	in, err := picture.Fit(p, fit)
	if err != nil {
		return nil, nil, &Error{File: name, Problem: err.Error(), Remedy: "give a picture with something in it, light on dark or dark on light as the training pictures are"}
	}
	if o.Like.last {
		in.Pixels = reordered(in.Pixels, fit.Channels, len(in.Pixels)/fit.Channels)
	}
	if len(in.Notes) == 0 {
		return in.Pixels, nil, nil
	}
	return in.Pixels, []string{name + ": " + strings.Join(in.Notes, "; ")}, nil
}

// archive reads the inputs of a .npz file.
func (o *InputOptions) archive(r seeker, name string) (*Rows, error) {
	z, err := npy.Open(r, r.Size())
	if err != nil {
		return nil, numpyError(name, err)
	}
	array, end := findArray(z, inputNames, []string{"", "_test", "_train"})
	if len(z.Names) == 1 {
		array = z.Names[0]
	} else if array == "" && z.Has("arr_0") {
		array = "arr_0"
	}
	if array == "" {
		return nil, &Error{File: name, Problem: "none of its arrays " + option.QuoteList(z.Names) + " has a name of inputs", Remedy: "call the inputs x"}
	}
	x, err := z.Read(array, o.MaxBytes)
	if err != nil {
		return nil, numpyError(name, err)
	}
	if columns, _ := findArray(z, columnNames, []string{""}); columns != "" && columns != array && o.Like.Columns != nil {
		names, err := z.Read(columns, o.MaxBytes)
		if err != nil {
			return nil, numpyError(name, err)
		}
		if x, err = byName(x, names.Text, o.Like.Columns, name); err != nil {
			return nil, err
		}
	}
	var ids *npy.Array
	if id, _ := findArray(z, []string{o.ID}, []string{end}); id != "" {
		if ids, err = z.Read(id, o.MaxBytes); err != nil {
			return nil, numpyError(name, err)
		}
	}
	return o.fromArray(x, ids, name)
}

// fromArray returns the rows of an array, which may also be a single row in the shape of an input.
func (o *InputOptions) fromArray(x, ids *npy.Array, name string) (*Rows, error) {
	d := size(o.Like.Shape)
	t := newTable(name)
	if x.Text != nil || x.Len() == 0 || x.Len() != d && (len(x.Shape) < 2 || x.Len() != x.Shape[0]*d) {
		return nil, t.errorf(option.Textf("save N×%d numbers, or inputs of shape %v", d, o.Like.Shape), "inputs have shape %v and the type %s, but an input has %d numbers", x.Shape, x.Type, d)
	}
	t.n = x.Len() / d
	if x.Bytes != nil && o.Like.GreyLevels() {
		t.px = x.Bytes
	} else {
		t.x = x.Numbers()
		if err := finite(t.File, t.x, d, 0, feature); err != nil {
			return nil, err
		}
	}
	if err := t.fillIDs(ids); err != nil {
		return nil, err
	}
	return o.inputs(t), nil
}

// table reads the rows of a CSV file.
func (o *InputOptions) table(r io.Reader, name string) (*table, error) {
	in := newRecords(r, name)
	rec, err := in.next()
	if err == io.EOF {
		return nil, &Error{File: name, Problem: "is empty", Remedy: "write rows of numbers, or give a picture or a NumPy file"}
	}
	if err != nil {
		return nil, err
	}
	c, err := o.columns(in, rec)
	if err != nil {
		return nil, err
	}
	t := c.table(name)
	if err := t.fillFrom(in, c, nil, o.MaxBytes, nil); err != nil || !o.Like.GreyLevels() {
		return t, err
	}
	t.px = make([]byte, len(t.x))
	for i, v := range t.x {
		t.px[i] = byte(v)
	}
	t.x = nil
	return t, nil
}

// columns finds the features by the first record. If that is not a header, it is read again as a row.
func (o *InputOptions) columns(in *records, rec []string) (*columns, error) {
	d := size(o.Like.Shape)
	c := &columns{header: make([]string, len(rec)), id: -1, weight: -1, grey: o.Like.GreyLevels(), spare: o.Spare}
	for j := range d {
		c.features = append(c.features, j)
	}
	named := numbers(rec, in.Comma) == 0
	if in.again = !named; named {
		c.header = trimAll(rec)
		if o.ID != "" {
			c.id = slices.Index(c.header, o.ID)
		}
	}
	if named && o.Like.Columns != nil {
		var err error
		c.features, err = Places(c.header, o.Like.Columns, o.Spare, in.name, 1)
		return c, err
	}
	if c.id >= 0 && c.id < d { // the features are the columns other than the ID
		for j := c.id; j < d; j++ {
			c.features[j] = j + 1
		}
	}
	if want := d + min(c.id+1, 1); len(rec) != want {
		return nil, &Error{
			File: in.name, Line: in.line(0), Problem: fmt.Sprintf("%d numbers, want %d", len(rec), want),
			Remedy: option.Textf("write rows of inputs of shape %v", o.Like.Shape),
		}
	}
	return c, nil
}
