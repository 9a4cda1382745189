package dataset

import (
	"fmt"
	"sync"
)

// The default and the largest numbers of rows of the built-in digits.
const (
	DigitsTrain = 20000
	DigitsTest  = 4000
	digitsMost  = 10_000_000
)

// Digits returns synthetic 28×28 handwritten digits. Each class has several
// variants of strokes, which are moved by random affine maps and elastic jitter
// and drawn with a soft pen. Row i of a part depends on (seed, part, i) alone, so
// a larger data set begins with the rows of a smaller one. Every hundred rows hold
// ten of each digit. Only labels are stored; images are drawn when they are
// needed. Sizes outside [0, 10,000,000] panic. Between processor architectures a
// pixel may differ by a grey level.
func Digits(seed uint64, train, test int) *Data {
	if min(train, test) < 0 || max(train, test) > digitsMost {
		panic("dataset: number of digits out of range")
	}
	name := fmt.Sprintf("digits (seed %d)", seed)
	d := &Data{
		Name: "digits", Source: name, IntegerLabels: true,
		Train: digitSet(seed, 0, "train", train),
		Valid: &Set{Part: "valid", File: name},
		Test:  digitSet(seed, 1, "test", test),
		Shape: []int{1, side, side},
	}
	known := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, s := range d.parts() {
		s.File, s.Shape, s.known = name, d.Shape, known
	}
	return d
}

func digitSet(seed, part uint64, name string, n int) *Set {
	labels := digitLabels(seed, part, n)
	return &Set{
		Part: name, Labels: labels, n: n, fileRows: n,
		px: &drawnPixels{seed, part, labels},
	}
}

// digitLabels shuffles ten of each digit in every block of a hundred rows.
func digitLabels(seed, part uint64, n int) []int {
	const block = 100
	labels := make([]int, (n+block-1)/block*block)
	for b := 0; b < n; b += block {
		h := newHand(seed, part+2, uint64(b/block))
		l := labels[b : b+block]
		for i := range l {
			l[i] = i % 10
		}
		for i := block - 1; i > 0; i-- {
			j := h.below(i + 1)
			l[i], l[j] = l[j], l[i]
		}
	}
	return labels[:n]
}

// drawnPixels draws each image when it is needed.
type drawnPixels struct {
	seed, part uint64
	labels     []int
}

var _ pixels = (*drawnPixels)(nil)

// pens holds pens for reuse.
var pens = sync.Pool{New: func() any { return new(pen) }}

func (p *drawnPixels) imageTo(dst []byte, pos int) {
	h := newHand(p.seed, p.part, uint64(pos))
	pen := pens.Get().(*pen)
	pen.drawTo(dst, p.labels[pos], &h)
	pens.Put(pen)
}
