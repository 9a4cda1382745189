package network

import (
	"fmt"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// An IntegerError says that a number is not in the range of an integer input. Forward and Linearize
// return it.
type IntegerError struct {
	Row, Column int
	Value       float64
	Input, Type string // name and type of the input in the model
	Low, High   int64  // the range of the type
}

var _ error = (*IntegerError)(nil)

// Error names row, column, value and range.
func (e *IntegerError) Error() string {
	return fmt.Sprintf("network: input row %d holds %v in column %d, where input %q takes whole numbers from %d to %d (%s); correct the data", e.Row, e.Value, e.Column, e.Input, e.Low, e.High, e.Type)
}

// IntegerColumns reports for each of the D numbers of a row whether it belongs to an integer input
// and so must not be scaled.
func (n *Network) IntegerColumns() []bool {
	list := make([]bool, n.prog.D)
	for _, in := range n.prog.Inputs {
		for k := range graph.Product(in.Shape) {
			list[in.Column(k)] = list[in.Column(k)] || in.Type != ""
		}
	}
	return list
}
