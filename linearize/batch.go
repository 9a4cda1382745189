package linearize

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Model is anything that can be linearized in its parameters. When a saved posterior is loaded, a model that is
// Fingerprinted is compared with the saved one exactly, and any other model by its outputs and its Jacobian to
// 1e-9. gptest.Model tests a Model.
type Model interface {
	// Dims returns the number of inputs, outputs and parameters.
	Dims() (d, c, p int)
	// Linearize returns the outputs and the Jacobian at the rows of x, N×D. It returns an error for inputs of
	// another width, and for a NaN or Inf. The numbers of an example depend on its own row alone.
	Linearize(ctx context.Context, x *mat.Dense) (*Batch, error)
}

// A Source yields linearized examples batch by batch, in order. A Batch is a Source with one batch.
type Source interface {
	// Len returns the number of examples.
	Len() int
	// Batches calls yield for all batches in order; first is the position of the batch's first example. An error of
	// yield or of ctx ends the pass and is returned.
	Batches(ctx context.Context, yield func(first int, b *Batch) error) error
}

// A Batch is the linearization of N examples. It is read-only; Slice and Output return views that share its memory.
// The zero Batch is not valid: F must be set, and may be an empty matrix.
type Batch struct {
	X      *mat.Dense       // inputs, N×D; nil if the model's inputs are not vectors
	F      *mat.Dense       // outputs f(x;θ*), N×C
	Blocks []Block          // the Jacobian; each parameter is in one block
	P      int              // parameters
	Model  ModelFingerprint // identifies the model; zero if unknown
}

var _ Source = (*Batch)(nil)

// Len returns N.
func (b *Batch) Len() int { return dense.Count(b.F) }

// Outputs returns C.
func (b *Batch) Outputs() int {
	_, c := b.F.Dims()
	return c
}

// Batches yields the batch itself.
func (b *Batch) Batches(ctx context.Context, yield func(first int, b *Batch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return yield(0, b)
}

// Slice returns a view of examples i to j−1. It panics for a range outside the batch.
func (b *Batch) Slice(i, j int) *Batch {
	if i < 0 || j < i || j > b.Len() {
		panic("linearize: slice out of range")
	}
	s := &Batch{X: dense.Slice(b.X, i, j), F: dense.Slice(b.F, i, j), P: b.P, Model: b.Model}
	for _, k := range b.Blocks {
		s.Blocks = append(s.Blocks, k.Slice(i, j))
	}
	return s
}

// Output returns a view of output c alone, a batch with C = 1. It panics unless 0 ≤ c < C.
func (b *Batch) Output(c int) *Batch {
	if c < 0 || c >= b.Outputs() {
		panic("linearize: output out of range")
	}
	raw := b.F.RawMatrix()
	raw.Data, raw.Cols = raw.Data[c:], 1
	s := &Batch{X: b.X, F: dense.View(raw), P: b.P, Model: b.Model.ofOutput(c)}
	for _, k := range b.Blocks {
		s.Blocks = append(s.Blocks, k.Output(c))
	}
	return s
}

// JacobianTo writes J, N·C×P, with columns in the order of θ. It sizes an empty dst, and panics for one of another
// size.
func (b *Batch) JacobianTo(dst *mat.Dense) {
	rows := b.Len() * b.Outputs()
	if dst.IsEmpty() {
		dst.ReuseAs(rows, b.P)
	}
	if r, c := dst.Dims(); r != rows || c != b.P {
		panic("linearize: Jacobian has wrong size")
	}
	dst.Zero()
	for _, k := range b.Blocks {
		k.JacobianTo(dst)
	}
}

// MulVecTo writes J v to dst. It panics unless v has P numbers and dst N·C.
func (b *Batch) MulVecTo(dst, v []float64) {
	if len(dst) != b.Len()*b.Outputs() || len(v) != b.P {
		panic("linearize: vector has wrong length")
	}
	clear(dst)
	for _, k := range b.Blocks {
		k.AddMulVec(dst, v)
	}
}

// MulTransVecTo writes Jᵀ u to dst. It panics unless u has N·C numbers and dst P.
func (b *Batch) MulTransVecTo(dst, u []float64) {
	if len(u) != b.Len()*b.Outputs() || len(dst) != b.P {
		panic("linearize: vector has wrong length")
	}
	clear(dst)
	for _, k := range b.Blocks {
		k.AddMulTransVec(dst, u)
	}
}
