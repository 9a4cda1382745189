package ntk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/jacobian"
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
				k, want := ntk.New(prior, theta, nil), ntk.Dense(prior, theta)
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

// TestEmbeddingWorkers checks that the kernel of tables does not depend on the number
// of workers by a bit, whether it is formed or multiplied.
func TestEmbeddingWorkers(t *testing.T) {
	rng := newRand(3)
	b := gptest.RandomBatch(rng, 700, 2, embeddings...)
	prior := priors(t, rng, b)["mixed"]
	v := mat.NewDense(1400, 2, normal(rng, 2800))
	var block, product []*mat.Dense
	for _, workers := range []int{1, 2, 5} {
		k := ntk.New(prior, make([]float64, b.P), &ntk.Options{Workers: workers})
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
			_, _, _, _, columns := ntk.New(prior, make([]float64, b.P), nil).Ways(b, b)
			require.Equal(t, c.columns, columns)
			_, _, _, _, columns = ntk.New(prior, make([]float64, b.P), nil).Ways(b, formed(b))
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
	k := ntk.New(prior, make([]float64, batch.P), nil)
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
