package linearize_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

var (
	convNet = testkit.ConvNet
	rowsOf  = testkit.RowsOf
	whole   = testkit.Arrays
	collect = testkit.Collect
)

// The examples are the same, bit for bit, for any batches of the source and any
// size of Rebatch.
func TestSourcesAgree(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	want := whole(b)
	for _, tile := range []int{1, 3, 4, 11, 20} {
		src := linearize.NewSource(net, 11, tile, rowsOf(x))
		got, _ := collect(t, src)
		require.Equal(t, want, whole(got), "tiles of %d", tile)
		for _, size := range []int{1, 2, 5, 11, 12} {
			got, sizes := collect(t, linearize.Rebatch(src, size))
			require.Equal(t, want, whole(got), "tiles of %d in batches of %d", tile, size)
			for i, n := range sizes {
				if i < len(sizes)-1 {
					require.Equal(t, size, n)
				}
			}
		}
	}
}

func TestGather(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	rows := []int{7, 0, 10, 7}
	var parts []*linearize.Batch
	for _, r := range rows {
		parts = append(parts, b.Slice(r, r+1))
	}
	want := whole(linearize.Concat(parts...))
	stream := linearize.NewSource(net, 11, 4, rowsOf(x))
	for name, src := range map[string]linearize.Source{"batch": b, "stream": stream, "pass": bare{stream}} {
		got := testref.Must(linearize.Gather(t.Context(), src, rows))(t)
		require.Equal(t, want, whole(got), name)
	}
	require.Panics(t, func() { linearize.Gather(t.Context(), b, []int{11}) })
	require.Panics(t, func() { linearize.Gather(t.Context(), b, nil) })
}

// Concat turns blocks of an unknown kind into Full blocks with the same Jacobian.
func TestConcatOfAnyBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		a := gptest.RandomBatch(rng, 3, 2, gptest.RandomLayers(rng)...)
		b := gptest.Another(rng, a, 4)
		var ja, jb, want, got mat.Dense
		a.JacobianTo(&ja)
		b.JacobianTo(&jb)
		want.Stack(&ja, &jb)
		c := linearize.Concat(a, b)
		c.JacobianTo(&got)
		require.True(t, mat.Equal(&want, &got))
		require.Equal(t, 7, c.Len())
		for i, k := range c.Blocks {
			require.Equal(t, a.Blocks[i].Spans(), k.Spans())
		}
	}
}

// broken is a source whose batches do not match its Len.
type broken struct {
	*linearize.Batch
	first int
	n     int
}

func (s broken) Len() int { return s.n }

func (s broken) Batches(_ context.Context, yield func(int, *linearize.Batch) error) error {
	return yield(s.first, s.Batch)
}

func TestSourceErrors(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	ignore := func(int, *linearize.Batch) error { return nil }
	for _, s := range []broken{{b, 1, 11}, {b, 0, 10}, {b, 0, 12}} {
		require.Error(t, linearize.Rebatch(s, 4).Batches(t.Context(), ignore))
	}
	fail := errors.New("disk")
	src := linearize.NewSource(net, 11, 4, func(lo, hi int) (*mat.Dense, error) { return nil, fail })
	require.ErrorIs(t, src.Batches(t.Context(), ignore), fail)
	src = linearize.NewSource(net, 11, 4, func(lo, hi int) (*mat.Dense, error) { return x, nil })
	require.ErrorContains(t, src.Batches(t.Context(), ignore), "gave 11 rows")
	src = linearize.NewSource(net, 11, 4, rowsOf(x))
	require.ErrorIs(t, linearize.Rebatch(src, 3).Batches(t.Context(), func(int, *linearize.Batch) error { return fail }), fail)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, src.Batches(ctx, ignore), context.Canceled)
	bad := mat.DenseCopyOf(x)
	bad.Set(5, 0, 1/(bad.At(5, 0)-bad.At(5, 0)))
	require.ErrorContains(t, linearize.NewSource(net, 11, 4, rowsOf(bad)).Batches(t.Context(), ignore), "examples from 4")
	require.Panics(t, func() { linearize.NewSource(net, 3, 0, nil) })
	require.Panics(t, func() { linearize.Rebatch(b, 0) })
	require.Panics(t, func() { linearize.Concat() })
}

// bare is a Source without further methods.
type bare struct{ src linearize.Source }

var requireSums = testkit.RequireSums

var gaussianMatrix = testkit.RandomMatrix

func (p bare) Len() int { return p.src.Len() }

func (p bare) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return p.src.Batches(ctx, yield)
}

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

// Factored reaches the model of a source that loads its examples, and keeps the examples and the way to gather them.
func TestFactored(t *testing.T) {
	x := mat.NewDense(9, 2, nil)
	x.Apply(func(i, j int, _ float64) float64 { return float64(2*i + j) }, x)
	src := linearize.NewSource(columned{}, 9, 2, func(lo, hi int) (*mat.Dense, error) { return x.Slice(lo, hi, 0, 2).(*mat.Dense), nil })
	for name, s := range map[string]linearize.Source{
		"plain": src, "from": linearize.From(src, 2), "rest": linearize.From(notSkipping{src}, 2),
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
	b := testref.Must(columned{}.Linearize(t.Context(), x))(t)
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
