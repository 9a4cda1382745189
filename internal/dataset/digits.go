package dataset

import (
	"fmt"

	"github.com/funcgp/funcgp/internal/digits"
)

// The default and the largest numbers of rows of the built-in digits.
const (
	DigitsTrain = 20000
	DigitsTest  = 4000
	digitsMost  = 10_000_000
)

// Digits returns synthetic 28×28 handwritten digits: see package digits. Row i of a part depends on (seed, part, i) alone, so
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
		Valid: noRows("valid", name),
		Test:  digitSet(seed, 1, "test", test),
		Shape: []int{1, digits.Side, digits.Side},
	}
	known := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, s := range d.parts() {
		s.File, s.Shape, s.known = name, d.Shape, known
	}
	return d
}

func digitSet(seed, part uint64, name string, n int) *Rows {
	labels := digits.Labels(seed, part, n)
	return &Rows{Part: name, Labels: labels, n: n, fileRows: n, inputs: &inputs{draw: func(dst []byte, i int) {
		digits.DrawTo(dst, seed, part, uint64(i), labels[i])
	}}}
}
