// Package synthetic makes tables by rules that are known.
package synthetic

import (
	"math"
	"math/rand/v2"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/table"
)

// A Table draws rows of inputs x1, x2, … and a target y, which is a whole number.
type Table struct {
	About  string // what the table is
	inputs int
	salt   uint64
	draw   func(rng *rand.Rand, x []float64) (y int)
}

// Counts are counts of a Poisson distribution.
var Counts = &Table{
	About:  "counts of a Poisson distribution with log rate 1 + sin 3x₁ + x₂x₃ − x₄/2, of five inputs uniform in [−1, 1]",
	inputs: 5, salt: 0xc0047,
	draw: func(rng *rand.Rand, x []float64) int {
		for k := range x {
			x[k] = 2*rng.Float64() - 1
		}
		return poisson(rng, math.Exp(1+math.Sin(3*x[0])+x[1]*x[2]-x[3]/2))
	},
}

// Waveform has three classes of mixtures of two of three triangular waves with noise (Breiman, Friedman,
// Olshen and Stone, Classification and Regression Trees, 1984, 2.6.2).
var Waveform = &Table{
	About:  "Breiman's waveforms: three classes, each a mixture of two of three triangles at 21 points with noise of variance 1",
	inputs: 21, salt: 0x3a7e5,
	draw: func(rng *rand.Rand, x []float64) int {
		class, u := rng.IntN(3), rng.Float64()
		pair := [3][2]float64{{11, 15}, {11, 7}, {15, 7}}[class]
		triangle := func(at, centre float64) float64 { return max(0, 6-math.Abs(at-centre)) }
		for k := range x {
			at := float64(k + 1)
			x[k] = u*triangle(at, pair[0]) + (1-u)*triangle(at, pair[1]) + rng.NormFloat64()
		}
		return class
	},
}

// Rows draws n rows: inputs, n×D, and targets.
func (t *Table) Rows(rng *rand.Rand, n int) (x *mat.Dense, y []int) {
	x, y = mat.NewDense(n, t.inputs, nil), make([]int, n)
	for i := range n {
		y[i] = t.draw(rng, x.RawRowView(i))
	}
	return x, y
}

// Write writes NAME-train.csv and NAME-test.csv to dir, of so many rows. The rows are those of the seed.
func (t *Table) Write(dir, name string, train, test int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, t.salt))
	var header []string
	for k := range t.inputs {
		header = append(header, "x"+strconv.Itoa(k+1))
	}
	for _, part := range []struct {
		name string
		n    int
	}{{"-train.csv", train}, {"-test.csv", test}} {
		to := &table.Table{Header: append(header[:t.inputs:t.inputs], "y")}
		x, y := t.Rows(rng, part.n)
		for i, target := range y {
			var row []string
			for _, v := range x.RawRowView(i) {
				row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
			}
			to.Rows = append(to.Rows, append(row, strconv.Itoa(target)))
		}
		if err := to.WriteCSV(dir, name+part.name); err != nil {
			return err
		}
	}
	return nil
}

// poisson draws from a Poisson distribution by products of uniform numbers (Knuth).
func poisson(rng *rand.Rand, rate float64) int {
	k, left := -1, math.Exp(-rate)
	for product := 1.0; product > left; k++ {
		product *= rng.Float64()
	}
	return k
}
