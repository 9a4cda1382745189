package sparse

import (
	"github.com/funcgp/funcgp/linearize"
)

// Inducing are the M inducing examples Z. Each stands for all its C outputs:
// K_ZZ has M·C rows. (Example, output) pairs are not chosen one by one.
type Inducing struct {
	// Rows are the examples' places in the training data, in the order of
	// Batch; nil where they come from elsewhere.
	Rows  []int
	Batch *linearize.Batch
}

// Len returns M.
func (z *Inducing) Len() int { return z.Batch.Len() }

// check panics where the rows do not match the examples.
func (z *Inducing) check() {
	if z.Rows != nil && len(z.Rows) != z.Batch.Len() {
		panic("sparse: rows and inducing examples differ in number")
	}
}
