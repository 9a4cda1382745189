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
	"github.com/funcgp/funcgp/linearize/network"
)

// convNet has blocks of every kind: Conv, Outer and Full.
func convNet(t *testing.T) (*network.Network, *mat.Dense) {
	t.Helper()
	net := testref.Must(network.Sequential(network.Shape{1, 9, 9},
		network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.MaxPool2D{Size: 2}, network.Flatten{},
		network.Dense{Units: 5}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 2}))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	x := mat.NewDense(11, 81, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	return net, x
}

func rowsOf(x *mat.Dense) func(lo, hi int) (*mat.Dense, error) {
	return func(lo, hi int) (*mat.Dense, error) {
		_, d := x.Dims()
		return x.Slice(lo, hi, 0, d).(*mat.Dense), nil
	}
}

// whole is a copy of a batch's inputs, outputs and Jacobian.
func whole(b *linearize.Batch) []*mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	all := []*mat.Dense{mat.DenseCopyOf(b.F), &j}
	if b.X != nil {
		all = append(all, mat.DenseCopyOf(b.X))
	}
	return all
}

var collect = testkit.Collect

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

func TestChainAndWithout(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	two := linearize.Chain(b.Slice(0, 4), linearize.NewSource(net, 7, 3, func(lo, hi int) (*mat.Dense, error) { return rowsOf(x)(lo+4, hi+4) }))
	got, _ := collect(t, two)
	require.Equal(t, whole(b), whole(got))

	for _, drop := range [][]int{nil, {0}, {10}, {3, 4}, {4, 0, 10, 5}} {
		kept := linearize.Without(two, drop)
		var rows []int
		for i := range 11 {
			out := false
			for _, d := range drop {
				out = out || d == i
			}
			if !out {
				rows = append(rows, i)
			}
		}
		want := testref.Must(b.Gather(t.Context(), rows))(t)
		got, _ := collect(t, kept)
		require.Equal(t, whole(want), whole(got), "without %v", drop)
	}
	require.Panics(t, func() { linearize.Without(b, []int{1, 1}) })
	require.Panics(t, func() { linearize.Without(b, []int{-1}) })
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
