package cg

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// Diagonal blocks, full ones, and their transposes.
func TestSiteBlocks(t *testing.T) {
	for _, c := range []struct {
		blocks      []float64
		diagonal    bool
		mul, transp []float64
	}{
		{[]float64{2, 0, 0, 3, 5, 0, 0, 7}, true, []float64{2, 6, 15, 28}, []float64{2, 6, 15, 28}},
		{[]float64{2, 1, 0, 3, 5, 0, 4, 7}, false, []float64{4, 6, 15, 40}, []float64{2, 7, 31, 28}},
	} {
		b := newSiteBlocks(c.blocks, 2)
		require.Equal(t, c.diagonal, b.diagonal)
		for trans, want := range map[bool][]float64{false: c.mul, true: c.transp} {
			v := []float64{1, 2, 3, 4}
			b.mul(column(v), 0, trans)
			require.Equal(t, want, v)
			v = []float64{3, 4}
			b.mul(column(v), 1, trans)
			require.Equal(t, want[2:], v)
		}
	}
}

// Φ is a partial Cholesky factor: Q ⪯ K whatever its rank, rest holds the
// blocks of K − Q, and more features leave less.
func TestFeatures(t *testing.T) {
	for _, c := range []int{1, 3} {
		last := math.Inf(1)
		for _, rank := range []int{c, 5, 12, 30, 60} {
			s := newTestCase(t, 20, c, rank)
			require.LessOrEqual(t, s.features.phi.Cols, rank)
			var rest mat.Dense
			rest.Sub(s.k, s.q())
			values, _ := eigen(t, &rest)
			scale := mat.Max(s.k)
			require.GreaterOrEqual(t, values[0], -1e-11*scale)
			for i := range 20 * c {
				for a := range c {
					require.InDelta(t, rest.At(i, i/c*c+a), s.features.rest[i*c+a], 1e-12*scale)
				}
			}
			_, left := s.features.left(s.lambda)
			require.LessOrEqual(t, left, last)
			last = left
		}
		require.Less(t, last, 1.0)
	}
}

// Two features cannot be made of examples with three outputs.
func TestFeaturesOfWholeExamples(t *testing.T) {
	require.Zero(t, newTestCase(t, 20, 3, 2).features.phi.Cols)
	require.Equal(t, 3, newTestCase(t, 20, 3, 5).features.phi.Cols)
}

// The image of v has the Jacobian Jᵀv, and κ with it is K v: (E2) is linear.
func TestImage(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		rows := s.data.n * s.data.c
		v := mat.NewDense(rows, 5, nil)
		v.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(3*i + j)) }, v)
		var image jacobian.Sum
		got := testref.Must(s.data.jacobianOf(t.Context(), &image, v.RawMatrix()))(t)
		var j, want, kv mat.Dense
		got.JacobianTo(&j)
		want.Mul(v.T(), s.j)
		requireNear(t, "Jᵀv", &j, &want, 1e-13)
		part := new(mat.Dense)
		image.Part(2, 4).Batch.JacobianTo(part)
		require.True(t, mat.Equal(part, j.Slice(2, 4, 0, s.data.p)))
		kv.Mul(s.k, v)
		for _, kept := range []bool{true, false} {
			d := *s.data
			if !kept {
				d.whole = nil
			}
			out := dense.New(rows, 5)
			require.NoError(t, d.mulTo(t.Context(), out, v.RawMatrix(), &image))
			requireNear(t, "K v", dense.View(out), &kv, 1e-12)
		}
	})
}

// What is kept of a stream is what was streamed.
func TestStore(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		store := batchBuilder{n: s.data.n}
		require.NoError(t, linearize.Rebatch(s.x, 4).Batches(t.Context(), func(first int, b *linearize.Batch) error {
			store.add(first, b)
			return nil
		}))
		var got mat.Dense
		store.batch.JacobianTo(&got)
		require.True(t, mat.Equal(&got, s.j))
		require.True(t, mat.Equal(store.batch.F, s.x.F))
		require.Equal(t, jacobian.Bytes(s.x), jacobian.Bytes(store.batch))
	})
}

// The plan uses what there is: first for the right-hand sides of an example,
// then for the preconditioner, the Jacobian and more right-hand sides.
func TestPlan(t *testing.T) {
	const n, c = 40, 2
	b := newTestCase(t, n, c, 4).x
	bytes := func(rank, columns int) int64 { return Bytes(n, c, b.P, rank, columns) }
	plan := func(memory int64, rank int) (memoryPlan, error) {
		return planMemory(n, b, true, &Options{MaxMemory: memory, Rank: rank})
	}
	m := testref.As[*gp.MemoryError](t, testref.Err(plan(bytes(0, c)-1, 0)))
	require.Equal(t, n-1, m.Largest)
	for _, p := range []struct {
		memory int64
		rank   int
		want   memoryPlan
	}{
		{bytes(0, c), 0, memoryPlan{columns: c}},
		{bytes(33, c), 0, memoryPlan{rank: 33, columns: c}},
		{bytes(33, 40) + jacobian.Bytes(b) + n, 33, memoryPlan{rank: 33, columns: 40, keep: true}},
		{1 << 30, -1, memoryPlan{columns: mostColumns, keep: true}},
		{1 << 30, 0, memoryPlan{rank: n * c, columns: mostColumns, keep: true}}, // no more than there are rows
	} {
		got := testref.Must(plan(p.memory, p.rank))(t)
		require.Equal(t, p.want, got)
	}
	require.Equal(t, int64(math.MaxInt64), Bytes(math.MaxInt, 10, 10, 10, 10))
}
