package linearize_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A columned is a model whose batches hold columns unless it is asked for factors.
type columned struct{ factors bool }

func (columned) Dims() (d, c, p int) { return 2, 1, 2 }

func (m columned) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, _ := x.Dims()
	f, g := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		f.Set(i, 0, x.At(i, 0)+2*x.At(i, 1))
		g.Set(i, 0, 1)
	}
	span := linearize.Span{Name: "weight", Rows: 1, Cols: 2}
	b := &linearize.Batch{X: x, F: f, P: 2}
	if m.factors {
		b.Blocks = []linearize.Block{&linearize.Outer{A: x, G: g, Weight: &span, C: 1}}
	} else {
		b.Blocks = []linearize.Block{&linearize.Full{J: x, Params: []linearize.Span{span}, C: 1}}
	}
	return b, nil
}

func (columned) Factored() linearize.Model { return columned{factors: true} }

// Factored reaches the model through every source that is made of others, and keeps
// the examples and the way to gather them.
func TestFactored(t *testing.T) {
	x := mat.NewDense(9, 2, nil)
	x.Apply(func(i, j int, _ float64) float64 { return float64(2*i + j) }, x)
	src := linearize.NewSource(columned{}, 9, 2, func(lo, hi int) (*mat.Dense, error) { return x.Slice(lo, hi, 0, 2).(*mat.Dense), nil })
	for name, s := range map[string]linearize.Source{
		"plain": src, "rebatched": linearize.Rebatch(src, 4), "chain": linearize.Chain(src, linearize.Rebatch(src, 3)),
		"without": linearize.Without(src, []int{3, 5}), "from": linearize.From(src, 2), "rest": linearize.From(notSkipping{src}, 2),
	} {
		t.Run(name, func(t *testing.T) {
			f := linearize.Factored(s)
			require.Equal(t, s.Len(), f.Len())
			var want, got mat.Dense
			require.NoError(t, s.Batches(t.Context(), func(_ int, b *linearize.Batch) error { return appendJacobian(&want, b) }))
			require.NoError(t, f.Batches(t.Context(), func(_ int, b *linearize.Batch) error {
				if name != "rest" {
					require.IsType(t, (*linearize.Outer)(nil), b.Blocks[0])
				}
				return appendJacobian(&got, b)
			}))
			require.True(t, mat.Equal(&want, &got))
			require.Equal(t, linearize.Gathers(s), linearize.Gathers(f))
		})
	}
	b, err := columned{}.Linearize(t.Context(), x)
	require.NoError(t, err)
	require.Same(t, b, linearize.Factored(b), "a batch has no model to ask")
}

// notSkipping is a source of which only the interface is known.
type notSkipping struct{ linearize.Source }

func appendJacobian(dst *mat.Dense, b *linearize.Batch) error {
	var j, all mat.Dense
	b.JacobianTo(&j)
	if dst.IsEmpty() {
		dst.CloneFrom(&j)
		return nil
	}
	all.Stack(dst, &j)
	dst.CloneFrom(&all)
	return nil
}
