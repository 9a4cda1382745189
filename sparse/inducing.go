package sparse

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Inducing holds the M inducing elements Z. They are either examples with all
// their C outputs, and K_ZZ has M·C rows, or pairs of an example and a direction u,
// which stand for uᵀf of the example, and K_ZZ has M rows. SelectKept and
// GatherDirections make pairs. The zero Inducing has no elements; a function that needs
// some returns a *CountError.
type Inducing struct {
	// Rows are the indices of the examples in the training data, in the order of
	// Batch, or nil where the examples are no training data. Pairs may repeat an
	// index.
	Rows []int
	// Batch holds the examples with all their outputs, or the pairs as examples
	// of one output.
	Batch *linearize.Batch
	// Directions are the directions of the pairs, M×C; nil for examples.
	Directions *mat.Dense
	// DataOutputs is C for pairs. For examples, whose Batch tells C, it is 0 or C.
	DataOutputs int
}

// Len returns M.
func (z *Inducing) Len() int {
	if z == nil || z.Batch == nil || z.Batch.F == nil {
		return 0
	}
	return z.Batch.Len()
}

// Pairs tells whether the elements are pairs of an example and a direction.
func (z *Inducing) Pairs() bool { return z.Directions != nil }

// outputs returns C.
func (z *Inducing) outputs() int {
	if z.Pairs() {
		return z.DataOutputs
	}
	return z.Batch.Outputs()
}

// per returns the number of rows that an element has in K_ZZ: C, or 1 for pairs.
func (z *Inducing) per() int {
	if z.Pairs() {
		return 1
	}
	return z.Batch.Outputs()
}

// check panics where the rows or the directions do not match the elements.
func (z *Inducing) check() {
	if z.Rows != nil && len(z.Rows) != z.Batch.Len() {
		panic("sparse: rows and inducing examples differ in number")
	}
	if !z.Pairs() {
		if z.DataOutputs != 0 && z.DataOutputs != z.Batch.Outputs() {
			panic("sparse: inducing examples with another number of outputs than the data")
		}
		return
	}
	if z.Batch.Outputs() != 1 {
		panic("sparse: inducing pairs need examples of one output")
	}
	if !dense.Is(z.Directions, z.Batch.Len(), z.DataOutputs) {
		panic("sparse: inducing pairs with directions need one of the length of the outputs each")
	}
}
