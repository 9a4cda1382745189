package sparse

import (
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// Inducing holds the M inducing elements Z. They are examples, each with all its
// C outputs, and K_ZZ has M·C rows; or, from GatherPairs and from Select with
// Pairs, they are (example, output) pairs, and K_ZZ has M rows. The zero
// Inducing has no elements, and is a *CountError wherever some are needed.
type Inducing struct {
	// Rows are the places of the examples in the training data, in the order of
	// Batch, or nil where they come from elsewhere. Pairs may repeat a place.
	Rows []int
	// Batch holds the examples with all their outputs, or the pairs as examples
	// of one output.
	Batch *linearize.Batch
	// Outputs are the outputs of the pairs; nil for examples.
	Outputs []int
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

// Pairs tells whether they are (example, output) pairs.
func (z *Inducing) Pairs() bool { return z.Outputs != nil }

// outputs returns C.
func (z *Inducing) outputs() int {
	if z.Pairs() {
		return z.DataOutputs
	}
	return z.Batch.Outputs()
}

// per returns the number of rows of K_ZZ of an element: C, or 1 for pairs.
func (z *Inducing) per() int {
	if z.Pairs() {
		return 1
	}
	return z.Batch.Outputs()
}

// first returns the first m elements.
func (z *Inducing) first(m int) *Inducing {
	s := &Inducing{Batch: z.Batch.Slice(0, m), DataOutputs: z.DataOutputs}
	if z.Rows != nil {
		s.Rows = z.Rows[:m]
	}
	if z.Pairs() {
		s.Outputs = z.Outputs[:m]
	}
	return s
}

// named puts the output of a pair in an error about one of the elements.
func (z *Inducing) named(err error) error {
	if e, ok := err.(*gp.NotFiniteError); ok && z.Pairs() {
		e.Output = z.Outputs[e.Row]
	}
	return err
}

// check panics where the rows or the outputs do not match the elements.
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
	if len(z.Outputs) != z.Batch.Len() || z.Batch.Outputs() != 1 {
		panic("sparse: inducing pairs need an output each, and examples of one output")
	}
	for _, a := range z.Outputs {
		if a < 0 || a >= z.DataOutputs {
			panic("sparse: an inducing pair's output is not one of the data's")
		}
	}
}
