package network_test

import (
	"context"
	"fmt"
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

// A job is a network and inputs for it.
type job struct {
	name string
	net  *network.Network
	x    *mat.Dense
}

// zooJobs are networks that reach every kind of block, at a few inputs.
func zooJobs(t *testing.T) []job {
	net, x := convNet(t)
	list := []job{{"every block", net, x}}
	for _, e := range zoo() {
		net := build(t, e)
		d, _, _ := net.Dims()
		list = append(list, job{e.name, net, gaussianMatrix(rand.New(rand.NewPCG(5, 6)), 7, d)})
	}
	return list
}

var requireSums = testkit.RequireSums

// The Jacobian of sums of outputs consists of sums of the Jacobian's rows, if the
// network computes it and if the rows of a batch are summed.
func TestCombinedIsWeightedJacobian(t *testing.T) {
	for _, job := range zooJobs(t) {
		n, _ := job.x.Dims()
		_, c, _ := job.net.Dims()
		b := testref.Must(job.net.Linearize(t.Context(), job.x))(t)
		for _, k := range []int{1, 2, 2 * c} {
			t.Run(fmt.Sprint(job.name, "/", k), func(t *testing.T) {
				w := gaussianMatrix(rand.New(rand.NewPCG(7, uint64(k))), n*k, c)
				got := testref.Must(job.net.LinearizeCombined(t.Context(), job.x, w))(t)
				requireSums(t, got, b, w)
				got, _ = collect(t, linearize.Combine(b, w))
				requireSums(t, got, b, w)
			})
		}
	}
}

// Blocks of an unknown kind are summed as dense columns.
func TestCombinedBlocks(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n, c, k := 1+rng.IntN(300), 1+rng.IntN(4), 1+rng.IntN(3)
		b := gptest.RandomBatch(rng, n, c, gptest.RandomLayers(rng)...)
		w := gaussianMatrix(rng, n*k, c)
		got, _ := collect(t, linearize.Combine(b, w))
		requireSums(t, got, b, w)
	}
}

// A sum of one output with weight 1 is that output, bit for bit.
func TestCombinedIdentity(t *testing.T) {
	for _, job := range zooJobs(t) {
		n, _ := job.x.Dims()
		_, c, _ := job.net.Dims()
		w := mat.NewDense(n*c, c, nil)
		for i := range n * c {
			w.Set(i, i%c, 1)
		}
		want := testref.Must(job.net.Linearize(t.Context(), job.x))(t)
		got := testref.Must(job.net.LinearizeCombined(t.Context(), job.x, w))(t)
		require.Equal(t, whole(want), whole(got), job.name)
	}
}

// GatherCombined works on any source and with repeated examples, and its result
// has memory of its own.
func TestGatherCombined(t *testing.T) {
	for _, job := range zooJobs(t) {
		n, _ := job.x.Dims()
		_, c, _ := job.net.Dims()
		b := testref.Must(job.net.Linearize(t.Context(), job.x))(t)
		rng := rand.New(rand.NewPCG(8, 9))
		var rows []int
		for range 70 { // more than are summed at once
			rows = append(rows, rng.IntN(n))
		}
		for _, k := range []int{1, 2} {
			w := gaussianMatrix(rng, len(rows)*k, c)
			of := testref.Must(b.Gather(t.Context(), rows))(t)
			stream := linearize.NewSource(job.net, n, 3, rowsOf(job.x))
			for name, src := range map[string]linearize.Source{"batch": b, "stream": stream, "pass": bare{stream}} {
				t.Run(fmt.Sprint(job.name, "/", k, "/", name), func(t *testing.T) {
					got := testref.Must(linearize.GatherCombined(t.Context(), src, rows, w))(t)
					requireSums(t, got, of, w)
					require.True(t, mat.Equal(of.X, got.X))
				})
			}
		}
	}
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	_, c, _ := net.Dims()
	for _, row := range []int{-1, 11} {
		require.Panics(t, func() { _, _ = linearize.GatherCombined(t.Context(), b, []int{row}, mat.NewDense(1, c, nil)) })
	}
}

// bare is a Source without further methods.
type bare struct{ src linearize.Source }

func (p bare) Len() int { return p.src.Len() }

func (p bare) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return p.src.Batches(ctx, yield)
}

// Sums are the same, bit for bit, for any tiles, batches and numbers of
// processors. A Source that is no Combiner gives them up to rounding.
func TestCombinedSources(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	w := gaussianMatrix(rand.New(rand.NewPCG(3, 1)), 22, 2)
	want := testref.Must(net.LinearizeCombined(t.Context(), x, w))(t)
	for _, tile := range []int{1, 4, 11} {
		testref.Procs(t, tile)
		src := linearize.NewSource(net, 11, tile, rowsOf(x))
		got, _ := collect(t, linearize.Combine(src, w))
		require.Equal(t, whole(want), whole(got))
		got, sizes := collect(t, linearize.Combine(bare{src}, w))
		requireSums(t, got, b, w)
		require.LessOrEqual(t, len(sizes), 11)
	}
}

func TestCombinedSizes(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	for _, w := range []*mat.Dense{mat.NewDense(12, 2, nil), mat.NewDense(11, 3, nil), new(mat.Dense)} {
		require.Panics(t, func() { _, _ = net.LinearizeCombined(t.Context(), x, w) })
		require.Panics(t, func() {
			_ = linearize.Combine(b, w).Batches(t.Context(), func(int, *linearize.Batch) error { return nil })
		})
		require.Panics(t, func() { linearize.Combine(linearize.NewSource(net, 11, 3, rowsOf(x)), w) })
	}
	none := linearize.Combine(linearize.NewSource(net, 0, 3, rowsOf(x)), new(mat.Dense))
	require.NoError(t, none.Batches(t.Context(), func(int, *linearize.Batch) error { panic("no examples") }))
}

func BenchmarkLinearizeCombined(b *testing.B) {
	for _, j := range jobs() {
		net := testref.Must(network.Sequential(j.in, j.layers...))(b)
		d, c, p := net.Dims()
		rng := rand.New(rand.NewPCG(1, 2))
		x, w := gaussianMatrix(rng, j.n, d), gaussianMatrix(rng, 2*j.n, c)
		b.Run(fmt.Sprintf("net=%s/N=%d/C=%d/K=2/P=%d", j.name, j.n, c, p), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, testref.Err(net.LinearizeCombined(b.Context(), x, w)))
			}
		})
	}
}
