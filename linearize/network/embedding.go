package network

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// addTable allocates the block of n examples for the table that place k reads, unless
// an earlier place reads it too.
func (j *jacobian) addTable(k, n int) {
	p, st := j.prog, &j.prog.Places[k]
	positions := 0
	for i := range p.Places {
		if other := &p.Places[i]; other.Table != nil && other.Weight == st.Weight {
			if j.table[i] != nil {
				j.table[k] = j.table[i]
				return
			}
			positions += p.Slots[other.Input].Size
		}
	}
	b := &linearize.Embedding{Index: mat.NewDense(n, positions, nil), Table: p.TableSpan(st), C: j.c}
	b.G = mat.NewDense(n*j.c, positions*st.Table.Inner, nil)
	j.table[k] = b
	j.batch.Blocks = append(j.batch.Blocks, b)
}

// An IntegerError says that a number is none that an integer input takes. Forward and
// Linearize return one.
type IntegerError struct {
	Row, Column int
	Value       float64
	Input, Type string // of the model
	Low, High   int64  // the range of the type
}

var _ error = (*IntegerError)(nil)

// Error names row, column, value and range.
func (e *IntegerError) Error() string {
	return fmt.Sprintf("network: input row %d holds %v in column %d, where input %q takes whole numbers from %d to %d (%s); correct the data", e.Row, e.Value, e.Column, e.Input, e.Low, e.High, e.Type)
}

// IntegerColumns reports for each of the D numbers of a row whether an integer input
// takes it, so that it must not be scaled.
func (n *Network) IntegerColumns() []bool {
	list := make([]bool, n.prog.D)
	for _, in := range n.prog.Inputs {
		for k := range graph.Product(in.Shape) {
			list[in.Column(k)] = list[in.Column(k)] || in.Type != ""
		}
	}
	return list
}

// checkIntegers verifies that the columns of integer inputs hold whole numbers in the
// range of the input's type.
func (n *Network) checkIntegers(x *mat.Dense) error {
	rows, _ := x.Dims()
	for _, in := range n.prog.Inputs {
		if in.Type == "" {
			continue
		}
		for i := range rows {
			row := x.RawRowView(i)
			for k := range graph.Product(in.Shape) {
				v := row[in.Column(k)]
				if v != math.Trunc(v) || v < float64(in.Low) || v > float64(in.High) {
					return &IntegerError{Row: i, Column: in.Column(k), Value: v, Input: in.Name, Type: in.Type, Low: in.Low, High: in.High}
				}
			}
		}
	}
	return nil
}
