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

// Set is one part of a data set: its training, validation or test rows. A
// position counts the rows of the part from 0, and a row the rows of the original
// file; both are in the order of the file. A Set is read-only and safe for
// concurrent use.
type Set struct {
	Part    string    // "train", "valid" or "test"
	File    string    // file or data set of the rows, for messages
	Shape   []int     // shape of one input: [1 28 28] for images, [D] for features
	Labels  []int     // integers of the data, or positions in Names; nil where targets are real numbers or unknown
	Names   []string  // the labels as words, where the data have words; nil where they have integers
	Columns []string  // names of the features; nil for images
	Targets []float64 // N×T, row-major: targets as numbers; nil for images, words and unknown targets
	Shares  []float64 // N×K, row-major: of soft labels the shares of the classes, of which Labels are the largest; else nil
	IDs     []string  // what the ID column calls each row; nil without one
	Weights []float64 // of the rows, from the column of weights; nil without one

	n        int         // number of rows
	rows     []int       // row of each position, ascending; nil if the part is the whole file
	fileRows int         // rows in the original file, all parts together
	known    []int       // labels of all parts, ascending
	held     map[int]int // place in px or x of each position whose inputs are known; nil where all are, in order
	px       pixels      // images; nil for features, and for images of real numbers
	x        []float64   // features or images of real numbers, row-major; nil otherwise
	far      *byRange    // inputs that are read where they are needed; nil where px or x has them
	lo, hi   float64     // range of x for images
	levels   bool        // images of real numbers are whole grey levels from 0 to 255
	last     bool        // the shape of images is H×W×C: see Data.ChannelsLast
	whole    bool        // inputs from px are its bytes, and not divided by 255: see Data.TakeWhole
	files    []string    // that File stands for; nil where it is one

	once struct { // range of images of real numbers that are read where they are needed, found in one pass
		sync.Mutex
		known  bool
		lo, hi float64
	}

	labelFile string // file of the labels, where it is not File
}

// pixels gives the images of a Set, from memory or drawn when they are needed.
// imageTo is safe for concurrent use.
type pixels interface {
	imageTo(dst []byte, pos int) // one byte a pixel, row-major
}

// grey holds the input p/255 of each pixel byte p.
var grey = func() (g [256]float64) {
	for i := range g {
		g[i] = float64(i) / 255
	}
	return g
}()

// Len returns the number of rows N, 0 for a part that the data do not have.
func (s *Set) Len() int { return s.n }

// Labelled reports whether the targets of the rows are known.
func (s *Set) Labelled() bool { return s.Labels != nil || s.Targets != nil }

// Width returns the number of targets T of a row: 1 for labels, 0 where the
// targets are unknown.
func (s *Set) Width() int {
	switch {
	case s.Labels != nil:
		return 1
	case s.n == 0:
		return 0
	}
	return len(s.Targets) / s.n
}

// ClassName returns a label as the data write it: its word, or its number.
func (s *Set) ClassName(label int) string {
	if label >= 0 && label < len(s.Names) {
		return s.Names[label]
	}
	return strconv.Itoa(label)
}

// Dim returns the number of inputs D, the product of Shape; 0 for an empty part.
func (s *Set) Dim() int {
	if len(s.Shape) == 0 {
		return 0
	}
	return size(s.Shape)
}

// size is the product of a shape.
func size(shape []int) int {
	d := 1
	for _, n := range shape {
		d *= n
	}
	return d
}

// Picture returns the channels, the height and the width of images.
func (s *Set) Picture() (c, h, w int) {
	n := len(s.Shape)
	if s.last {
		return s.Shape[n-1], s.Shape[n-3], s.Shape[n-2]
	}
	return s.Dim() / (s.Shape[n-1] * s.Shape[n-2]), s.Shape[n-2], s.Shape[n-1]
}

// Planes returns an image with its channels one after another.
func (s *Set) Planes(img []byte) []byte {
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
func (s *Set) Images() bool { return len(s.Shape) > 1 }

// findRange finds the range of images of real numbers, which are shown in it.
func (s *Set) findRange() {
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
func (s *Set) Levels() bool { return s.levels }

// shown is the range of numbers that images show from black to white.
func (s *Set) shown() (lo, hi float64) {
	if s.levels {
		return 0, 255
	}
	return s.lo, s.hi
}

// Range is that of the pixels of images as a network gets them unless they are scaled; from 0 to 1 of those that are
// read where they are needed.
func (s *Set) Range() (lo, hi float64) {
	switch {
	case s.far == nil && !s.bytes():
		return s.lo, s.hi
	case s.bytes() && s.whole:
		return 0, 255
	}
	return 0, 1
}

// Pixels says which numbers the pixels of images are.
func (s *Set) Pixels() string {
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

// Row returns the row of the original file at position pos.
func (s *Set) Row(pos int) int {
	if s.rows == nil {
		return pos
	}
	return s.rows[pos]
}

// Lookup returns the position of a row of the original file. The error says
// whether the row is past the end or belongs to another part.
func (s *Set) Lookup(row int) (pos int, err error) {
	fail := func(format string, a ...any) (int, error) {
		return 0, &Error{File: s.File, Place: fmt.Sprintf("row %d", row), Problem: fmt.Sprintf(format, a...), Remedy: "name another row"}
	}
	switch {
	case s.Len() == 0:
		return fail("there are no %s rows in these data", s.Part)
	case row < 0 || row >= s.fileRows:
		return fail("is past the end: the %s rows are 0 to %d", s.Part, s.fileRows-1)
	case s.rows == nil:
		return row, nil
	}
	pos, ok := slices.BinarySearch(s.rows, row)
	if !ok {
		return fail("is not one of the %d %s rows", s.Len(), s.Part)
	}
	return pos, nil
}

// Image returns a copy of the grey levels of the image at position pos,
// row-major, or nil if the rows are not images. Real numbers are shown as grey
// levels from the least to the largest of the part, or from 0 to 1 where they lie
// in there.
func (s *Set) Image(pos int) []byte {
	if !s.Images() {
		return nil
	}
	pos = s.place(pos)
	if s.px != nil {
		img := make([]byte, s.Dim())
		s.px.imageTo(img, pos)
		return img
	}
	s.inMemory()
	lo, hi := s.shown()
	return greyLevels(s.x[pos*s.Dim():(pos+1)*s.Dim()], lo, hi)
}

// greyLevels shows numbers between lo and hi.
func greyLevels(x []float64, lo, hi float64) []byte {
	img := make([]byte, len(x))
	lo, hi = min(lo, 0), max(hi, 1)
	for i, v := range x {
		img[i] = byte(255*((v-lo)/(hi-lo)) + 0.5)
	}
	return img
}

// ByRange reports whether the inputs are in their files and read where they are needed.
func (s *Set) ByRange() bool { return s.far != nil }

// Withheld tells whether the inputs of some rows were left out of the file that the rows are from.
func (s *Set) Withheld() bool { return s.held != nil && len(s.held) < s.n }

// checkKnown fails where some of the inputs at these positions, nil for all, are not known.
func (s *Set) checkKnown(pos []int) error {
	if s.held != nil && pos == nil {
		pos = make([]int, s.n)
		for p := range pos {
			pos[p] = p
		}
	}
	for _, p := range pos {
		if _, known := s.held[p]; s.held != nil && !known {
			return &Error{File: s.File, Place: fmt.Sprintf("row %d", s.Row(p)), Problem: "the inputs of this training row were left out of the file", Remedy: "give --data with the training data"}
		}
	}
	return nil
}

// place is where px or x has the inputs at position pos, which are known.
func (s *Set) place(pos int) int {
	if s.held == nil {
		return pos
	}
	at, ok := s.held[pos]
	if !ok {
		panic("dataset: inputs that are not known")
	}
	return at
}

// inMemory panics where the inputs are read by range.
func (s *Set) inMemory() {
	if s.far != nil {
		panic("dataset: inputs that are read by range")
	}
}

// ReadImage is Image for a Set whose inputs may be read where they are needed. The error is
// an *Error or the error of the context.
func (s *Set) ReadImage(ctx context.Context, pos int) ([]byte, error) {
	if err := s.checkKnown([]int{pos}); err != nil {
		return nil, err
	}
	if s.far == nil || !s.Images() {
		return s.Image(pos), nil
	}
	x := make([]float64, s.Dim())
	if err := s.far.raw(ctx, x, s.Row(pos)); err != nil {
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
func (s *Set) span(ctx context.Context) (lo, hi float64, err error) {
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
		// Call do with the numbers of all rows of s in order, as they are in the files, of few rows at a
		// time.
		b := s.far
		do := func(v []float64) { o.lo, o.hi = min(o.lo, slices.Min(v)), max(o.hi, slices.Max(v)) }
		const tile = 256
		v := make([]float64, tile*b.dim)
		for lo := 0; lo < s.Len(); lo += tile {
			hi := min(lo+tile, s.Len())
			for p := lo; p < hi; p++ {
				if n := hi - p; s.Row(hi-1)-s.Row(p) == n-1 { // the rest follow one another
					if err := b.raw(ctx, v[:n*b.dim], s.Row(p)); err != nil {
						return 0, 0, err
					}
					do(v[:n*b.dim])
					break
				}
				if err := b.raw(ctx, v[:b.dim], s.Row(p)); err != nil {
					return 0, 0, err
				}
				do(v[:b.dim])
			}
		}
		o.known = true
	}
	return o.lo, o.hi, nil
}

// Read is Matrix for a Set whose inputs may be read where they are needed. The error is an
// *Error or the error of the context.
func (s *Set) Read(ctx context.Context, pos []int) (*mat.Dense, error) {
	if err := s.checkKnown(pos); err != nil {
		return nil, err
	}
	if s.far == nil {
		return s.Matrix(pos), nil
	}
	if pos == nil {
		pos = make([]int, s.Len())
		for i := range pos {
			pos[i] = i
		}
	}
	x := mat.NewDense(len(pos), s.Dim(), nil)
	return x, s.far.readTo(ctx, s, x.RawMatrix().Data, pos)
}

// Matrix returns the inputs at the given positions (nil means all) as a
// len(pos)×D matrix: pixels divided by 255 (but see Data.TakeWhole), features as they are in the file.
// It panics if there are no rows, or where they are read by range: see Read.
func (s *Set) Matrix(pos []int) *mat.Dense {
	n := len(pos)
	if pos == nil {
		n = s.Len()
	}
	if n == 0 {
		panic("dataset: matrix of no rows")
	}
	dst := mat.NewDense(n, s.Dim(), nil)
	s.MatrixTo(dst, pos)
	return dst
}

// MatrixTo is Matrix into the caller's len(pos)×D memory.
func (s *Set) MatrixTo(dst *mat.Dense, pos []int) {
	s.inMemory()
	n, d := dst.Dims()
	if d != s.Dim() || pos == nil && n != s.Len() || pos != nil && n != len(pos) {
		panic("dataset: dimension mismatch")
	}
	const tile = 64
	// The tiles return no error and the context is never done.
	_ = par.Do(context.Background(), par.Tiles(n, tile), func(t int) error {
		lo, hi := par.Bounds(t, n, tile)
		img := make([]byte, d)
		for i := lo; i < hi; i++ {
			p := i
			if pos != nil {
				p = pos[i]
			}
			// Write the input at position pos; img is scratch of D bytes.
			dst, p := dst.RawRowView(i), s.place(p)
			if s.px == nil {
				copy(dst, s.x[p*len(dst):(p+1)*len(dst)])
				continue
			}
			s.px.imageTo(img, p)
			for j, b := range img {
				if dst[j] = grey[b]; s.whole {
					dst[j] = float64(b)
				}
			}
		}
		return nil
	})
}
