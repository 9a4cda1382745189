package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
)

// Conditioning on the same noise everywhere gives v = K_** − K_*n (K + εI)⁻¹ K_n* (E22), and
// leaves the posterior as it is. Leaving out an example in closed form is the inverse of the
// block of (K + εI)⁻¹ less ε, and what the formula gives without its rows.
func TestConditionOnUniformNoise(t *testing.T) {
	const noise = 0.03
	for _, q := range problems(t) {
		s, err := gp.NewSites(q.y, q.train.F, q.lik)
		require.NoError(t, err, q.name)
		e, err := gp.Fit(t.Context(), q.kernel, q.train, s, nil)
		require.NoError(t, err, q.name)
		var before, after, beforeCov, afterCov mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &before, &beforeCov, q.test))
		v, err := e.Condition(t.Context(), gp.UniformSites(q.n, q.c, noise))
		require.NoError(t, err, q.name)
		require.NoError(t, e.PredictTo(t.Context(), &after, &afterCov, q.test))
		require.Equal(t, before.RawMatrix().Data, after.RawMatrix().Data, q.name)
		require.Equal(t, beforeCov.RawMatrix().Data, afterCov.RawMatrix().Data, q.name)

		inner := inverse(t, plus(q.kTrain, noise, identity(q.n*q.c)))
		want := plus(q.kTest, -1, product(q.kCross, inner, q.kCross.T()))
		var cov mat.Dense
		require.NoError(t, v.PredictTo(t.Context(), nil, &cov, q.test))
		// v is a difference up to a thousand times smaller than K.
		requireClose(t, q.name+": v", &cov, diagonalBlocks(want, q.c), 1e-8)

		rows := make([]int, q.n)
		for i := range rows {
			rows[i] = i
		}
		cov.Reset()
		require.NoError(t, v.LeaveOneOutTo(t.Context(), nil, &cov, rows, q.train))
		for i := 0; i < q.n; i += 1 + q.n/20 {
			lo, hi := i*q.c, (i+1)*q.c
			own := plus(inverse(t, inner.Slice(lo, hi, lo, hi)), -noise, identity(q.c))
			requireClose(t, q.name+": left out, by the inverse", cov.Slice(lo, hi, 0, q.c), own, 1e-7)
			rest, cross := apart(q.kTrain, lo, hi)
			again := inverse(t, plus(rest, noise, identity(q.n*q.c-q.c)))
			again = plus(q.kTrain.Slice(lo, hi, lo, hi), -1, product(cross, again, cross.T()))
			requireClose(t, q.name+": left out, anew", cov.Slice(lo, hi, 0, q.c), again, 1e-7)
		}
	}
}

// apart returns k without rows and columns [lo, hi), and these rows without those columns.
func apart(k *mat.Dense, lo, hi int) (rest, cross *mat.Dense) {
	n, _ := k.Dims()
	at := func(i int) int {
		if i < lo {
			return i
		}
		return i + hi - lo
	}
	rest, cross = mat.NewDense(n-hi+lo, n-hi+lo, nil), mat.NewDense(hi-lo, n-hi+lo, nil)
	rest.Apply(func(i, j int, _ float64) float64 { return k.At(at(i), at(j)) }, rest)
	cross.Apply(func(i, j int, _ float64) float64 { return k.At(lo+i, at(j)) }, cross)
	return rest, cross
}

func TestConditionNeedsMemory(t *testing.T) {
	q := problems(t)[0]
	s, err := gp.NewSites(q.y, q.train.F, q.lik)
	require.NoError(t, err)
	e := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{MaxMemory: gp.Bytes(q.n, q.c)}))(t)
	require.NoError(t, testref.Err(e.Condition(t.Context(), gp.UniformSites(q.n, q.c, 1))))
	e, err = gp.Fit(t.Context(), q.kernel, q.train, s, &gp.Options{Reuse: e, MaxMemory: 1})
	require.NoError(t, err) // the memory is there
	testref.As[*gp.MemoryError](t, testref.Err(e.Condition(t.Context(), gp.UniformSites(q.n, q.c, 1))))
	require.Panics(t, func() { gp.UniformSites(2, 1, 0) })
}
