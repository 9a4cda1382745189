package ntk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// embeddings are tables in every relation of rows, positions and columns: rows that
// occur often in an example, rows that hardly any two examples share, and a table
// of one row.
var embeddings = []gptest.Layer{
	{Table: 3, In: 9, Out: 4}, {Table: 300, In: 5, Out: 7}, {Table: 1, In: 3, Out: 2}, {Table: 40, In: 1, Out: 1}, {Table: 12, In: 6, Out: 3, Hidden: true},
}

// TestEmbeddingIsDense compares the kernel of tables with J Σ₀ Jᵀ for all priors,
// under limits on memory that cut tables, and against a batch that holds the same
// Jacobian as dense columns.
func TestEmbeddingIsDense(t *testing.T) {
	for seed := range 8 {
		rng := newRand(seed)
		b := gptest.RandomBatch(rng, 1+rng.IntN(30), 1+rng.IntN(3), append(embeddings, gptest.Layer{In: 3, Out: 2})...)
		a := gptest.Another(rng, b, 1+rng.IntN(30))
		full := formed(a)
		for name, prior := range priors(t, rng, b) {
			t.Run(fmt.Sprintf("%d/%s", seed, name), func(t *testing.T) {
				theta := normal(rng, b.P)
				testref.Procs(t, 1+seed%3)
				k, want := ntk.New(prior, theta), ntk.Dense(prior, theta)
				requireSame(t, k, want, a, b)
				requireSame(t, k.WithBudget(1<<(8+seed)), want, a, b)
				requireSame(t, k, want, full, b)
				requireSame(t, k, want, b, full)
			})
		}
	}
}

// formed is a with its Jacobian as dense columns.
func formed(a *linearize.Batch) *linearize.Batch {
	full := *a
	full.Blocks = nil
	for _, block := range a.Blocks {
		j := mat.NewDense(a.Len()*a.Outputs(), linearize.Width(block), nil)
		block.TileTo(j)
		full.Blocks = append(full.Blocks, &linearize.Full{J: j, Params: block.Spans(), C: a.Outputs()})
	}
	return &full
}

// TestEmbeddingOnProcessors checks that the kernel of tables does not depend on the number
// of processors by a bit, whether it is formed or multiplied.
func TestEmbeddingOnProcessors(t *testing.T) {
	rng := newRand(3)
	b := gptest.RandomBatch(rng, 700, 2, embeddings...)
	prior := priors(t, rng, b)["mixed"]
	v := mat.NewDense(1400, 2, normal(rng, 2800))
	var block, product []*mat.Dense
	for _, procs := range []int{1, 2, 5} {
		testref.Procs(t, procs)
		k := ntk.New(prior, make([]float64, b.P))
		x, y := new(mat.Dense), new(mat.Dense)
		k.BlockTo(x, b, b)
		k.MulTo(y, b, b, v)
		block, product = append(block, x), append(product, y)
	}
	for i := range block[1:] {
		require.True(t, mat.Equal(block[0], block[i+1]))
		require.True(t, mat.Equal(product[0], product[i+1]))
	}
}

// TestEmbeddingFormsNoColumns checks that no dense columns are formed for a table of
// many rows, and that they are for one so small that they are cheaper.
func TestEmbeddingFormsNoColumns(t *testing.T) {
	for _, c := range []struct {
		layer   gptest.Layer
		columns int
	}{{gptest.Layer{Table: 5000, In: 8, Out: 16}, 0}, {gptest.Layer{Table: 3, In: 8, Out: 2}, 6}} {
		for _, own := range []bool{false, true} {
			rng := newRand(1)
			b := gptest.RandomBatch(rng, 5, 2, c.layer)
			prior := priors(t, rng, b)["isotropic"]
			if own {
				prior = priors(t, rng, b)["diagonal"]
			}
			_, _, _, _, columns := ntk.New(prior, make([]float64, b.P)).Ways(b, b)
			require.Equal(t, c.columns, columns)
			_, _, _, _, columns = ntk.New(prior, make([]float64, b.P)).Ways(b, formed(b))
			require.Equal(t, c.columns, columns)
		}
	}
}

// BenchmarkEmbedding forms the kernel of a table of 5,000 rows and 32 columns, of which
// examples read 40, and multiplies by it.
func BenchmarkEmbedding(b *testing.B) {
	batch := gptest.RandomBatch(newRand(1), 1000, 2, gptest.Layer{Table: 5000, In: 40, Out: 32})
	prior, err := ntk.NewIsotropic(1, nil)
	require.NoError(b, err)
	k := ntk.New(prior, make([]float64, batch.P))
	b.Run("Block/N=1000", func(b *testing.B) {
		for b.Loop() {
			k.BlockTo(new(mat.Dense), batch, batch)
		}
	})
	sums := formed(batch.Slice(0, 4))
	b.Run("Formed/N=1000", func(b *testing.B) {
		for b.Loop() {
			k.BlockTo(new(mat.Dense), batch, sums)
		}
	})
	v := mat.NewDense(2000, 8, normal(newRand(2), 16000))
	b.Run("Sum/N=1000", func(b *testing.B) {
		var sum jacobian.Sum
		for b.Loop() {
			sum.Reset(batch, 8)
			require.NoError(b, sum.Add(b.Context(), batch, v.RawMatrix()))
		}
	})
	b.Run("Mul/N=1000", func(b *testing.B) {
		for b.Loop() {
			k.MulTo(new(mat.Dense), batch, batch, v)
		}
	})
}

// dense returns the batch with every block as columns, in the same places.
func dense(b *linearize.Batch) *linearize.Batch {
	d := *b
	d.Blocks = nil
	for _, k := range b.Blocks {
		j := mat.NewDense(b.Len()*b.Outputs(), linearize.Width(k), nil)
		k.TileTo(j)
		d.Blocks = append(d.Blocks, &linearize.Full{J: j, Params: k.Spans(), C: b.Outputs()})
	}
	return &d
}

// TestPreparedIsProduct compares a prepared product with κ(a, b) v, for few
// columns and for so many that the kernel is formed, for examples with other
// numbers of outputs, and for blocks of another kind on either side.
func TestPreparedIsProduct(t *testing.T) {
	for seed := range 12 {
		rng := newRand(seed)
		c := 1 + rng.IntN(4)
		b := gptest.RandomBatch(rng, 1+rng.IntN(20), c, gptest.RandomLayers(rng)...)
		a := gptest.Another(rng, b, 1+rng.IntN(20))
		theta := normal(rng, b.P)
		name, prior := priorOf(t, rng, b, seed+seed/8)
		t.Run(fmt.Sprintf("%d/%s", seed, name), func(t *testing.T) {
			testref.Procs(t, 1+seed%3)
			k, want := ntk.New(prior, theta), ntk.Dense(prior, theta)
			for _, k := range []*ntk.NTK{k, k.WithBudget(1 << (6 + seed%8))} {
				for _, cols := range []int{1, 70, 400} {
					v := mat.NewDense(b.Len()*c, cols, normal(rng, b.Len()*c*cols))
					for _, b := range []*linearize.Batch{b, dense(b)} {
						p := k.Prepare(b, v)
						for _, a := range []*linearize.Batch{a, a.Output(c - 1), dense(a), a.Slice(0, 1)} {
							requireProduct(t, p, want, a, b, v)
						}
					}
				}
			}
		})
	}
}

func requireProduct(t *testing.T, p ntk.Product, k ntk.Kernel, a, b *linearize.Batch, v *mat.Dense) {
	t.Helper()
	var block, want, d mat.Dense
	k.BlockTo(&block, a, b)
	want.Mul(&block, v)
	_, cols := v.Dims()
	got := mat.NewDense(a.Len()*a.Outputs(), cols, normal(newRand(1), a.Len()*a.Outputs()*cols))
	p.MulTo(got, a)
	d.Sub(got, &want)
	var size mat.Dense
	k.BlockTo(&size, b, b)
	// sums over the examples of b of entries of the kernel times those of v
	require.LessOrEqual(t, largest(&d), tol*float64(b.Len())*max(largest(&block), largest(&size))*max(1, largest(v)))
}

// TestPreparedRows: a row is the same to the last bit whatever the others are
// and however many processors there are.
func TestPreparedRows(t *testing.T) {
	lenet := leNet(t, 150)
	k := ntk.New(priors(t, newRand(3), lenet)["diagonal"], make([]float64, lenet.P))
	z, x := lenet.Slice(0, 10), lenet.Slice(10, 150)
	p := k.Prepare(z, mat.NewDense(100, 7, normal(newRand(4), 700)))
	var want mat.Dense
	p.MulTo(&want, x)
	for _, procs := range []int{1, 3} {
		testref.Procs(t, procs)
		for _, size := range []int{1, 50, 140} {
			for lo := 0; lo < x.Len(); lo += size {
				hi := min(lo+size, x.Len())
				var got mat.Dense
				p.MulTo(&got, x.Slice(lo, hi))
				require.True(t, mat.Equal(&got, want.Slice(lo*10, hi*10, 0, 7)))
			}
		}
	}
}

func TestPreparedSizes(t *testing.T) {
	rng := newRand(2)
	b := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 3, Out: 2}, gptest.Layer{Out: 3})
	k := ntk.New(priors(t, rng, b)["isotropic"], make([]float64, b.P))
	require.Panics(t, func() { k.Prepare(b, mat.NewDense(7, 1, nil)) })
	p := k.Prepare(b, mat.NewDense(8, 3, nil))
	require.Panics(t, func() { p.MulTo(mat.NewDense(8, 2, nil), b) })
	other := gptest.RandomBatch(rng, 4, 2, gptest.Layer{In: 3, Out: 3})
	require.Panics(t, func() { p.MulTo(new(mat.Dense), other) })
	var dst mat.Dense
	p.MulTo(&dst, b.Slice(1, 1))
	require.True(t, dst.IsEmpty())
	// a sum over no examples
	k.Prepare(b.Slice(0, 0), new(mat.Dense)).MulTo(&dst, b.Slice(0, 0))
	require.True(t, dst.IsEmpty())
}
