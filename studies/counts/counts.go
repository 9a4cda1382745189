// Package counts makes a table of counts, for networks with the Poisson likelihood.
package counts

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/funcgp/funcgp/studies/table"
)

// About says what the table is.
const About = "counts of a Poisson distribution with log rate 1 + sin 3x₁ + x₂x₃ − x₄/2, of five inputs uniform in [−1, 1]"

// Write writes NAME-train.csv and NAME-test.csv to dir, of so many rows: x1 to x5 and y. The rows are those of
// the seed.
func Write(dir, name string, train, test int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0xc0047))
	for _, part := range []struct {
		name string
		n    int
	}{{"-train.csv", train}, {"-test.csv", test}} {
		t := &table.Table{Header: []string{"x1", "x2", "x3", "x4", "x5", "y"}}
		for range part.n {
			x := make([]float64, 5)
			row := make([]string, 0, 6)
			for k := range x {
				x[k] = 2*rng.Float64() - 1
				row = append(row, strconv.FormatFloat(x[k], 'g', -1, 64))
			}
			t.Rows = append(t.Rows, append(row, strconv.Itoa(draw(rng, math.Exp(1+math.Sin(3*x[0])+x[1]*x[2]-x[3]/2)))))
		}
		if err := t.WriteCSV(dir, name+part.name); err != nil {
			return err
		}
	}
	return nil
}

// draw draws from a Poisson distribution by products of uniform numbers (Knuth).
func draw(rng *rand.Rand, rate float64) int {
	k, left := -1, math.Exp(-rate)
	for product := 1.0; product > left; k++ {
		product *= rng.Float64()
	}
	return k
}
