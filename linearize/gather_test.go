package linearize_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A made source is built from sources that load rows of x. Its example i is row
// rows[i].
type made struct {
	name string
	src  linearize.Source
	rows []int
}

// madeSources returns a source of rows [lo, hi) of 11, as part returns it, and those that From makes of it.
func madeSources(part func(lo, hi int) linearize.Source) []made {
	span := func(lo, hi int) (rows []int) {
		for i := lo; i < hi; i++ {
			rows = append(rows, i)
		}
		return rows
	}
	all := part(0, 11)
	return []made{
		{"all", all, span(0, 11)},
		{"from", linearize.From(all, 3), span(3, 11)},
		{"from twice", linearize.From(linearize.From(all, 3), 2), span(5, 11)},
	}
}

// loader records which rows of x are loaded.
type loader struct {
	x    *mat.Dense
	rows []int
}

func (l *loader) source(m linearize.Model, lo, hi int) linearize.Source {
	return linearize.NewSource(m, hi-lo, 4, func(i, j int) (*mat.Dense, error) {
		for r := lo + i; r < lo+j; r++ {
			l.rows = append(l.rows, r)
		}
		return rowsOf(l.x)(lo+i, lo+j)
	})
}

// Sources load only the wanted rows when they gather, and give what a Batch of all examples gives, bit for bit. So do sums
// of outputs.
func TestGatherFromMadeSources(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	l := &loader{x: x}
	parts := map[string]func(lo, hi int) linearize.Source{
		"streams": func(lo, hi int) linearize.Source { return l.source(net, lo, hi) },
	}
	rng := rand.New(rand.NewPCG(4, 5))
	for kind, part := range parts {
		for _, c := range madeSources(part) {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				require.True(t, linearize.Gathers(c.src))
				require.Equal(t, len(c.rows), c.src.Len())
				for _, n := range []int{1, 2, 9} {
					own, rows := make([]int, n), make([]int, n)
					for i := range own {
						own[i] = rng.IntN(len(c.rows))
						rows[i] = c.rows[own[i]]
					}
					want := testref.Must(b.Gather(t.Context(), rows))(t)

					l.rows = nil
					got := testref.Must(linearize.Gather(t.Context(), c.src, own))(t)
					require.Equal(t, whole(want), whole(got))
					require.ElementsMatch(t, rows, l.rows)

					l.rows = nil
					w := gaussianMatrix(rng, 2*n, 2)
					sums := testref.Must(linearize.GatherCombined(t.Context(), c.src, own, w))(t)
					requireSums(t, sums, want, w)
					require.ElementsMatch(t, rows, l.rows)
				}
				require.Panics(t, func() { _, _ = linearize.Gather(t.Context(), c.src, []int{len(c.rows)}) })
				require.Panics(t, func() { _, _ = linearize.Gather(t.Context(), c.src, []int{-1}) })
			})
		}
	}
}

// Gather works on a source that is no Gatherer too, by a pass.
func TestGatherFromMadeOfOthers(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	l := &loader{x: x}
	for _, c := range madeSources(func(lo, hi int) linearize.Source {
		return bare{l.source(net, lo, hi)}
	}) {
		require.False(t, linearize.Gathers(c.src), c.name)
		want := testref.Must(b.Gather(t.Context(), []int{c.rows[3], c.rows[1]}))(t)
		got := testref.Must(linearize.Gather(t.Context(), c.src, []int{3, 1}))(t)
		require.Equal(t, whole(want), whole(got), c.name)
		want = testref.Must(b.Gather(t.Context(), c.rows[:4]))(t)
		got = testref.Must(linearize.First(t.Context(), c.src, 4))(t)
		require.Equal(t, whole(want), whole(got), c.name)
	}
	few := testref.Must(linearize.First(t.Context(), b, 100))(t)
	require.Equal(t, 11, few.Len())
	few = testref.Must(linearize.First(t.Context(), linearize.From(b, 11), 2))(t)
	require.Nil(t, few)
}

// A counted model counts the backward passes of its examples.
type counted struct {
	*network.Network
	passes int
}

func (c *counted) Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, _ := x.Dims()
	_, outputs, _ := c.Dims()
	c.passes += n * outputs
	return c.Network.Linearize(ctx, x)
}

func (c *counted) LinearizeCombined(ctx context.Context, x, w *mat.Dense) (*linearize.Batch, error) {
	n, _ := w.Dims()
	c.passes += n
	return c.Network.LinearizeCombined(ctx, x, w)
}

// In sources that load their examples, sums of outputs take one backward pass for
// each sum instead of one for each output.
func TestCombineMadeSources(t *testing.T) {
	net, x := convNet(t)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	l, model := &loader{x: x}, &counted{Network: net}
	for kind, part := range map[string]func(lo, hi int) linearize.Source{
		"streams": func(lo, hi int) linearize.Source { return l.source(model, lo, hi) },
		"others":  func(lo, hi int) linearize.Source { return bare{l.source(model, lo, hi)} },
	} {
		for _, c := range madeSources(part) {
			t.Run(fmt.Sprint(kind, "/", c.name), func(t *testing.T) {
				of := testref.Must(b.Gather(t.Context(), c.rows))(t)
				n := len(c.rows)
				for _, k := range []int{1, 2} {
					w := gaussianMatrix(rand.New(rand.NewPCG(3, uint64(k))), n*k, 2)
					model.passes, l.rows = 0, nil
					got, _ := collect(t, linearize.Combine(c.src, w))
					requireSums(t, got, of, w)
					if kind == "streams" {
						require.Equal(t, k*len(l.rows), model.passes)
					}
				}
				require.Panics(t, func() {
					_ = linearize.Combine(c.src, mat.NewDense(n+1, 2, nil)).Batches(t.Context(), func(int, *linearize.Batch) error { return nil })
				})
			})
		}
	}
	none := linearize.Combine(linearize.From(b, 11), new(mat.Dense))
	require.NoError(t, none.Batches(t.Context(), func(int, *linearize.Batch) error { panic("no examples") }))
}
