package testkit

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// Chunked is a Source that yields a batch in pieces of Size examples, or in one piece if Size is 0.
// It is not a Gatherer.
type Chunked struct {
	B    *linearize.Batch
	Size int
}

// InTiles yields b in pieces of size examples.
func InTiles(b *linearize.Batch, size int) Chunked { return Chunked{B: b, Size: size} }

// Len implements linearize.Source.
func (c Chunked) Len() int { return c.B.Len() }

// Batches implements linearize.Source.
func (c Chunked) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	size := c.Size
	if size == 0 {
		size = c.B.Len()
	}
	for i := 0; i < c.B.Len(); i += size {
		if err := yield(i, c.B.Slice(i, min(i+size, c.B.Len()))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Inputs implements linearize.InputSource.
func (c Chunked) Inputs(ctx context.Context, yield func(*mat.Dense, linearize.ModelFingerprint) error) error {
	return c.Batches(ctx, func(_ int, b *linearize.Batch) error { return yield(b.X, b.Model) })
}

// RequireSums checks that got holds sums of the outputs of of, with the weights w.
func RequireSums(t *testing.T, got, of *linearize.Batch, w *mat.Dense) {
	t.Helper()
	n, c, k := of.Len(), of.Outputs(), got.Outputs()
	var j, sums mat.Dense
	of.JacobianTo(&j)
	got.JacobianTo(&sums)
	require.Equal(t, n, got.Len())
	for i := range n {
		weights := w.Slice(i*k, (i+1)*k, 0, c)
		var f, rows mat.Dense
		f.Mul(weights, of.F.Slice(i, i+1, 0, c).T())
		rows.Mul(weights, j.Slice(i*c, (i+1)*c, 0, of.P))
		// The sums of up to some hundred terms are added in two different orders.
		require.True(t, mat.EqualApprox(&f, got.F.Slice(i, i+1, 0, k).T(), 1e-12*(1+mat.Norm(&f, 2))))
		require.True(t, mat.EqualApprox(&rows, sums.Slice(i*k, (i+1)*k, 0, of.P), 1e-12*(1+mat.Norm(&rows, 2))))
	}
}

// Collect gathers the batches of a source into one.
func Collect(t *testing.T, s linearize.Source) (*linearize.Batch, []int) {
	t.Helper()
	var parts []*linearize.Batch
	var sizes []int
	next := 0
	require.NoError(t, s.Batches(t.Context(), func(first int, b *linearize.Batch) error {
		require.Equal(t, next, first)
		next += b.Len()
		parts, sizes = append(parts, linearize.Concat(b)), append(sizes, b.Len())
		return nil
	}))
	require.Equal(t, s.Len(), next)
	return linearize.Concat(parts...), sizes
}

// ConvNet has blocks of every kind, Conv, Outer and Full, and eleven rows of inputs.
func ConvNet(t testing.TB) (*network.Network, *mat.Dense) {
	t.Helper()
	net := testref.Must(network.Sequential(network.Shape{1, 9, 9},
		network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.MaxPool2D{Size: 2}, network.Flatten{},
		network.Dense{Units: 5}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 2}))(t)
	return net, RandomMatrix(rand.New(rand.NewPCG(1, 2)), 11, 81)
}

// RowsOf returns a function that returns rows of x.
func RowsOf(x *mat.Dense) func(lo, hi int) (*mat.Dense, error) {
	return func(lo, hi int) (*mat.Dense, error) {
		_, d := x.Dims()
		return x.Slice(lo, hi, 0, d).(*mat.Dense), nil
	}
}

// Arrays returns copies of a batch's inputs, outputs and Jacobian.
func Arrays(b *linearize.Batch) []*mat.Dense {
	all := []*mat.Dense{mat.DenseCopyOf(b.F), Jacobian(b)}
	if b.X != nil {
		all = append(all, mat.DenseCopyOf(b.X))
	}
	return all
}
