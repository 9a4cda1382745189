package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
)

// Rows are rows of a data set: one of its parts, rows selected from a part, or the user's own rows. They are numbered
// as in the original file. Rows are read-only and safe for concurrent use.
type Rows struct {
	Part    string    // "train", "valid" or "test"; "file" for the user's own rows
	File    string    // file or data set of the rows, for messages
	Index   []int     // number of each row in the original file; nil for 0, 1, … in a part that is the whole file
	Shape   []int     // shape of one input: [1 28 28] for images, [D] for features
	Columns []string  // names of the features; nil for images
	Names   []string  // the words of the labels 0, 1, …; nil if labels are integers
	Labels  []int     // integers of the data, or positions in Names; nil if targets are real numbers or unknown
	Class   []int     // position of the label in Classes, for selected rows; nil if Classes is nil or the targets are unknown
	Classes []int     // the selected classes, in order; nil if all rows were kept
	Targets []float64 // N×T: Class, labels or targets; nil if unknown, and in a whole part if its file has labels as bytes or words
	Shares  []float64 // N×K, row-major: for soft labels the shares of the classes; Labels are the largest ones; else nil
	IDs     []string  // the ID of each row; nil without an ID column
	Weights []float64 // the weight of each row; nil without a column of weights
	Notes   []string  // how the user's own rows were changed; each note begins with the name of a file

	*inputs
	n        int   // number of rows
	places   []int // position of each row in the inputs; nil for 0, 1, ……
	own      []int // labels before Grouped; nil if they equal Labels
	fileRows int   // rows in the original file, all parts together
	known    []int // labels of all parts, ascending

	files     []string // the files that File stands for; nil if it is a single file
	labelFile string   // file of the labels; "" if it is File
}

// inputs holds the inputs of the rows of a file, in memory or to be read when they are needed. Selections of rows
// share it.
type inputs struct {
	px     []byte                      // images, one byte for each pixel; nil for other inputs
	draw   func(dst []byte, place int) // draws an image when it is needed, safe for concurrent use; nil if px holds the images
	x      []float64                   // features or images of real numbers, row-major; nil otherwise
	far    *byRange                    // reads inputs when they are needed; nil if px or x holds them
	held   []int                       // positions whose inputs px or x holds, ascending; nil for all
	lo, hi float64                     // range of x for images
	levels bool                        // whether images of real numbers hold whole grey levels from 0 to 255
	last   bool                        // whether images have the shape H×W×C: see Data.ChannelsLast
	whole  bool                        // whether bytes of px are inputs without division by 255: see Data.TakeWhole

	once struct { // range of images of real numbers that are read by range, found in one pass
		sync.Mutex
		known  bool
		lo, hi float64
	}
}

// noRows returns a part without rows.
func noRows(part, file string) *Rows { return &Rows{Part: part, File: file, inputs: new(inputs)} }

// imageTo writes the image at a position, one byte for each pixel.
func (s *inputs) imageTo(dst []byte, place int) {
	if s.draw != nil {
		s.draw(dst, place)
		return
	}
	copy(dst, s.px[place*len(dst):(place+1)*len(dst)])
}

// grey holds the input p/255 of each pixel byte p.
var grey = func() (g [256]float64) {
	for i := range g {
		g[i] = float64(i) / 255
	}
	return g
}()

// Len returns the number of rows N; 0 for a part that the data lack.
func (s *Rows) Len() int { return s.n }

// Labelled reports whether the targets of the rows are known.
func (s *Rows) Labelled() bool { return s.Labels != nil || s.Targets != nil }

// Width returns the number of targets T of a row: 1 for labels, 0 if the targets are unknown.
func (s *Rows) Width() int {
	switch {
	case s.Labels != nil:
		return 1
	case s.n == 0:
		return 0
	}
	return len(s.Targets) / s.n
}

// ClassName returns a label as the data write it: its word, or its number.
func (s *Rows) ClassName(label int) string {
	if label >= 0 && label < len(s.Names) {
		return s.Names[label]
	}
	return strconv.Itoa(label)
}

// Dim returns the number of inputs D, the product of Shape; 0 for an empty part.
func (s *Rows) Dim() int {
	if len(s.Shape) == 0 {
		return 0
	}
	return size(s.Shape)
}

// size returns the product of a shape.
func size(shape []int) int {
	d := 1
	for _, n := range shape {
		d *= n
	}
	return d
}

// Picture returns the channels, the height and the width of images.
func (s *Rows) Picture() (c, h, w int) {
	n := len(s.Shape)
	if s.last {
		return s.Shape[n-1], s.Shape[n-3], s.Shape[n-2]
	}
	return s.Dim() / (s.Shape[n-1] * s.Shape[n-2]), s.Shape[n-2], s.Shape[n-1]
}

// Planes returns an image with its channels one after another.
func (s *Rows) Planes(img []byte) []byte {
	if !s.last || len(img) == 0 {
		return img
	}
	c, _, _ := s.Picture()
	return reordered(img, len(img)/c, c)
}

// reordered transposes an n×c matrix.
func reordered(v []byte, n, c int) []byte {
	out := make([]byte, len(v))
	for i, b := range v {
		out[i%c*n+i/c] = b
	}
	return out
}

// Images reports whether the rows are images.
func (s *Rows) Images() bool { return len(s.Shape) > 1 }

// findRange finds the range of the pixels of images of real numbers, with which they are shown.
func (s *Rows) findRange() {
	if s.x == nil || !s.Images() {
		return
	}
	s.lo, s.hi = s.x[0], s.x[0]
	for _, v := range s.x {
		if v < s.lo {
			s.lo = v
		} else if v > s.hi {
			s.hi = v
		}
	}
	s.levels = s.lo >= 0 && s.hi > 127 && s.hi <= 255 && !slices.ContainsFunc(s.x, func(v float64) bool { return v != math.Trunc(v) })
}

// Levels reports whether images of real numbers are whole grey levels from 0 to 255.
func (s *Rows) Levels() bool { return s.levels }

// shown returns the numbers that images show as black and as white.
func (s *Rows) shown() (lo, hi float64) {
	if s.levels {
		return 0, 255
	}
	return s.lo, s.hi
}

// Range returns the range of the pixels of images as a network gets them without scaling. For images of real numbers
// that are read by range it is 0 to 1.
func (s *Rows) Range() (lo, hi float64) {
	switch {
	case s.far == nil && !s.bytes():
		return s.lo, s.hi
	case s.bytes() && s.whole:
		return 0, 255
	}
	return 0, 1
}

// Pixels describes the numbers that the pixels of images are.
func (s *Rows) Pixels() string {
	switch {
	case s.bytes() && s.whole:
		return "pixels as they are, whole numbers from 0 to 255"
	case s.bytes() || s.far == nil && s.lo >= 0 && s.hi <= 1:
		return "pixels from 0 to 1"
	case s.far != nil:
		return "pixels as they are in the data"
	}
	return fmt.Sprintf("inputs as they are (from %.4g to %.4g)", s.lo, s.hi)
}

// Row returns the number of row i in the original file.
func (s *Rows) Row(i int) int {
	if s.Index == nil {
		return i
	}
	return s.Index[i]
}

// Name names row i for messages, as its file and number.
func (s *Rows) Name(i int) string {
	if s.Own() && s.fileRows == 1 {
		return s.File
	}
	return fmt.Sprintf("%s: %s row %d", s.File, s.Part, s.Row(i))
}

// String names the rows for messages.
func (s *Rows) String() string {
	if s.n == 1 {
		return s.Name(0)
	}
	return fmt.Sprintf("%s: %d %s rows from row %d", s.File, s.n, s.Part, s.Row(0))
}

// Own tells whether the rows are the user's own and not those of a data set.
func (s *Rows) Own() bool { return s.Part == "file" }

// OwnLabel returns the label of row i in the data, whether or not its class was grouped with others.
func (s *Rows) OwnLabel(i int) int {
	if s.own != nil {
		return s.own[i]
	}
	return s.Labels[i]
}

// Lookup returns the position i of the row with this number in the original file. The error says whether the number
// is past the end or belongs to another part.
func (s *Rows) Lookup(row int) (i int, err error) {
	fail := func(format string, a ...any) (int, error) {
		return 0, &Error{File: s.File, Place: fmt.Sprintf("row %d", row), Problem: fmt.Sprintf(format, a...), Remedy: "name another row"}
	}
	switch {
	case s.Len() == 0:
		return fail("there are no %s rows in these data", s.Part)
	case row < 0 || row >= s.fileRows:
		return fail("is past the end: the %s rows are 0 to %d", s.Part, s.fileRows-1)
	case s.Index == nil:
		return row, nil
	}
	i, ok := slices.BinarySearch(s.Index, row)
	if !ok {
		i = slices.Index(s.Index, row) // rows may be selected in any order
	}
	if i < 0 {
		return fail("is not one of the %d %s rows", s.Len(), s.Part)
	}
	return i, nil
}

// Image returns a copy of the grey levels of the image of row i, row-major, or nil if the rows are not images. Real
// numbers are mapped to grey levels from the smallest to the largest number of the file, or from 0 to 1 if all lie in
// this range.
func (s *Rows) Image(i int) []byte {
	if !s.Images() {
		return nil
	}
	at := s.stored(i)
	if s.bytes() && s.far == nil {
		img := make([]byte, s.Dim())
		s.imageTo(img, at)
		return img
	}
	s.inMemory()
	lo, hi := s.shown()
	return greyLevels(s.x[at*s.Dim():(at+1)*s.Dim()], lo, hi)
}

// greyLevels maps numbers between lo and hi to grey levels.
func greyLevels(x []float64, lo, hi float64) []byte {
	img := make([]byte, len(x))
	lo, hi = min(lo, 0), max(hi, 1)
	for i, v := range x {
		img[i] = byte(255*((v-lo)/(hi-lo)) + 0.5)
	}
	return img
}

// ByRange reports whether the inputs stay in their files and are read when they are needed.
func (s *Rows) ByRange() bool { return s.far != nil }

// Withheld tells whether the file of the rows lacks the inputs of some of them.
func (s *Rows) Withheld() bool { return s.held != nil && len(s.held) < s.n }

// place returns the position of row i in the inputs.
func (s *Rows) place(i int) int {
	if s.places == nil {
		return i
	}
	return s.places[i]
}

// checkKnown returns an error if the inputs of some row are not known.
func (s *Rows) checkKnown() error {
	for i := 0; s.held != nil && i < s.n; i++ {
		if _, known := slices.BinarySearch(s.held, s.place(i)); !known {
			return &Error{File: s.File, Place: fmt.Sprintf("row %d", s.Row(i)), Problem: "the inputs of this training row were left out of the file", Remedy: "give {data} with the training data"}
		}
	}
	return nil
}

// stored returns the position of row i, whose inputs must be known, in px or x.
func (s *Rows) stored(i int) int {
	if s.held == nil {
		return s.place(i)
	}
	at, ok := slices.BinarySearch(s.held, s.place(i))
	if !ok {
		panic("dataset: inputs that are not known")
	}
	return at
}

// inMemory panics if the inputs are read by range.
func (s *Rows) inMemory() {
	if s.far != nil {
		panic("dataset: inputs that are read by range")
	}
}

// ReadImage is Image for rows whose inputs may be read by range. The error is an *Error or the error of the context.
func (s *Rows) ReadImage(ctx context.Context, i int) ([]byte, error) {
	if s.far == nil || !s.Images() {
		if err := s.Slice(i, i+1).checkKnown(); err != nil {
			return nil, err
		}
		return s.Image(i), nil
	}
	x := make([]float64, s.Dim())
	if err := s.far.raw(ctx, x, s.place(i)); err != nil {
		return nil, err
	}
	if s.far.grey {
		img := make([]byte, len(x))
		for i, v := range x {
			img[i] = byte(v)
		}
		return img, nil
	}
	lo, hi, err := s.span(ctx)
	return greyLevels(x, lo, hi), err
}

// span returns the range of the numbers of images.
func (s *inputs) span(ctx context.Context) (lo, hi float64, err error) {
	if s.far == nil {
		return s.lo, s.hi, nil
	}
	if s.far.grey {
		return 0, 1, nil
	}
	o := &s.once
	o.Lock()
	defer o.Unlock()
	if !o.known {
		o.lo, o.hi = math.Inf(1), math.Inf(-1)
		const tile = 256
		v, n := make([]float64, tile*s.far.dim), s.far.len()
		for lo := 0; lo < n; lo += tile {
			part := v[:(min(lo+tile, n)-lo)*s.far.dim]
			if err := s.far.raw(ctx, part, lo); err != nil {
				return 0, 0, err
			}
			o.lo, o.hi = min(o.lo, slices.Min(part)), max(o.hi, slices.Max(part))
		}
		o.known = true
	}
	return o.lo, o.hi, nil
}

// Read is Matrix for rows whose inputs may be read by range. The error is an *Error or the error of the context.
func (s *Rows) Read(ctx context.Context) (*mat.Dense, error) {
	if err := s.checkKnown(); err != nil {
		return nil, err
	}
	if s.far == nil {
		return s.Matrix(), nil
	}
	x := mat.NewDense(s.n, s.Dim(), nil)
	return x, s.far.readTo(ctx, s, x.RawMatrix().Data)
}

// Matrix returns the inputs as an N×D matrix: pixels divided by 255 (but see Data.TakeWhole), and features unchanged
// from the file. It panics if there are no rows, or if they are read by range: see Read.
func (s *Rows) Matrix() *mat.Dense {
	if s.n == 0 {
		panic("dataset: matrix of no rows")
	}
	dst := mat.NewDense(s.n, s.Dim(), nil)
	s.MatrixTo(dst)
	return dst
}

// MatrixTo is Matrix into the caller's N×D memory.
func (s *Rows) MatrixTo(dst *mat.Dense) {
	s.inMemory()
	n, d := dst.Dims()
	if d != s.Dim() || n != s.n {
		panic("dataset: dimension mismatch")
	}
	const tile = 64
	// The tiles return no error and the context is never done.
	_ = par.Do(context.Background(), par.Tiles(n, tile), func(t int) error {
		lo, hi := par.Bounds(t, n, tile)
		img := make([]byte, d)
		for i := lo; i < hi; i++ {
			// Write the inputs of row i; img is scratch of D bytes.
			dst, at := dst.RawRowView(i), s.stored(i)
			if s.x != nil {
				copy(dst, s.x[at*len(dst):(at+1)*len(dst)])
				continue
			}
			s.imageTo(img, at)
			for j, b := range img {
				if dst[j] = grey[b]; s.whole {
					dst[j] = float64(b)
				}
			}
		}
		return nil
	})
}

// Slice returns rows lo to hi−1, which share memory with s.
func (s *Rows) Slice(lo, hi int) *Rows {
	part := *s
	part.n = hi - lo
	if s.places == nil || s.Index == nil {
		at := rowsFrom(lo, hi)
		part.places, part.Index = at, at
	}
	if s.places != nil {
		part.places = s.places[lo:hi]
	}
	if s.Index != nil {
		part.Index = s.Index[lo:hi]
	}
	part.Labels, part.Class, part.own = slice(s.Labels, lo, hi, s.n), slice(s.Class, lo, hi, s.n), slice(s.own, lo, hi, s.n)
	part.Targets, part.Shares, part.Weights = slice(s.Targets, lo, hi, s.n), slice(s.Shares, lo, hi, s.n), slice(s.Weights, lo, hi, s.n)
	part.IDs = slice(s.IDs, lo, hi, s.n)
	return &part
}

// rowsFrom returns the numbers from lo to hi−1.
func rowsFrom(lo, hi int) []int {
	at := make([]int, hi-lo)
	for i := range at {
		at[i] = lo + i
	}
	return at
}

// slice returns rows lo to hi−1 of the n rows of a table; nil for nil.
func slice[T any](v []T, lo, hi, n int) []T {
	if v == nil {
		return nil
	}
	width := len(v) / n
	return v[lo*width : hi*width]
}

// At returns the rows at these positions of s, in this order. The result shares memory with s where it can.
func (s *Rows) At(at []int) *Rows {
	part := *s
	part.n = len(at)
	all := len(at) == s.n
	for i := 0; all && i < s.n; i++ {
		all = at[i] == i
	}
	if all {
		if part.Index == nil {
			part.Index = at
		}
		return &part
	}
	if part.places = at; s.places != nil {
		part.places = gather(s.places, at, s.n)
	}
	if part.Index = at; s.Index != nil {
		part.Index = gather(s.Index, at, s.n)
	}
	part.Labels, part.Class, part.own = gather(s.Labels, at, s.n), gather(s.Class, at, s.n), gather(s.own, at, s.n)
	part.Targets, part.Shares, part.Weights = gather(s.Targets, at, s.n), gather(s.Shares, at, s.n), gather(s.Weights, at, s.n)
	part.IDs = gather(s.IDs, at, s.n)
	return &part
}

// gather returns the rows at these positions of a table of n rows; nil for nil.
func gather[T any](v []T, at []int, n int) []T {
	if v == nil {
		return nil
	}
	width := len(v) / max(1, n)
	out := make([]T, 0, len(at)*width)
	for _, p := range at {
		out = append(out, v[p*width:(p+1)*width]...)
	}
	return out
}

// Grouped returns the rows with fewer classes: class k of s becomes class to[k] of the result, whose classes have the
// labels in classes. It returns s if it has no classes.
func (s *Rows) Grouped(to, classes []int) *Rows {
	if s.Class == nil {
		return s
	}
	g := *s
	g.Classes, g.Class, g.Targets, g.Labels, g.own = slices.Clone(classes), make([]int, s.n), make([]float64, s.n), make([]int, s.n), s.Labels
	for i, k := range s.Class {
		g.Class[i], g.Targets[i], g.Labels[i] = to[k], float64(to[k]), classes[to[k]]
	}
	return &g
}
