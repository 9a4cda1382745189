package explain_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// weightedMode is f of one output at all inputs, the first n of which have targets with these weights in the
// likelihood: Newton's method by dense algebra (E5), for the kernel k and prior mean m of all inputs.
func weightedMode(t *testing.T, lik gp.Likelihood, k *mat.Dense, m []float64, y *mat.Dense, weights []float64) []float64 {
	t.Helper()
	n, all := len(weights), len(m)
	f := append([]float64(nil), m...)
	for range 300 { // of half steps, so that none goes too far
		// α = (I + ΛK)⁻¹ (r + Λ(f − m)), f = m + Kα
		a, b := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
		for i := range n {
			var r, lambda [1]float64
			lik.Expand(r[:], lambda[:], nil, y.RawRowView(i), f[i:i+1])
			b.SetVec(i, weights[i]*(r[0]+lambda[0]*(f[i]-m[i])))
			for j := range n {
				a.Set(i, j, weights[i]*lambda[0]*k.At(i, j))
			}
			a.Set(i, i, a.At(i, i)+1)
		}
		var alpha, move mat.VecDense
		require.NoError(t, alpha.SolveVec(a, b))
		move.MulVec(k.Slice(0, all, 0, n), &alpha)
		for i := range f {
			f[i] += (m[i] + move.AtVec(i) - f[i]) / 2
		}
	}
	return f
}

// TestInfluenceIsTheDifferenceAtHalfWeights compares with modes at which one row has weight 1 or 0 and all others
// one half, found by dense algebra: of a Gaussian exactly, of classes as near as two Newton steps come.
func TestInfluenceIsTheDifferenceAtHalfWeights(t *testing.T) {
	for _, lik := range []gp.Likelihood{testref.Must(glm.NewGaussian(0.3))(t), glm.Bernoulli{}} {
		_, classes := lik.(glm.Bernoulli)
		tolerance := 1e-9
		if classes {
			tolerance = 0.02
		}
		q := testkit.NewProblem("half", 5, 20, 1, lik, 1)
		at := func(precision float64) *ntk.NTK {
			return ntk.New(testref.Must(ntk.NewIsotropic(precision, nil))(t), q.Theta)
		}
		const delta = 3
		k := at(delta)
		post := testref.Must(gp.Refit(t.Context(), k, q.Train, gp.NewTargets(q.Y, lik), nil))(t)
		half := testref.Must(gp.Refit(t.Context(), at(2*delta), q.Train, gp.NewTargets(q.Y, lik), nil))(t)
		e := testref.Must(explain.New(post, k, &explain.Options{Top: q.N, Sides: true}))(t)
		rows := testref.Must(e.Explain(t.Context(), q.Test))(t)

		n, all := q.N, q.N+q.T
		kernel, m := mat.NewDense(all, all, nil), make([]float64, all)
		k.BlockTo(kernel.Slice(0, n, 0, n).(*mat.Dense), q.Train, q.Train)
		k.BlockTo(kernel.Slice(n, all, 0, n).(*mat.Dense), q.Test, q.Train)
		k.MeanTo(m[:n], q.Train)
		k.MeanTo(m[n:], q.Test)
		weights, largest := make([]float64, n), 0.0
		for i := range weights {
			weights[i] = 0.5
		}
		want := mat.NewDense(q.T, n, nil)
		for i := range n {
			weights[i] = 1
			with := weightedMode(t, lik, kernel, m, q.Y, weights)
			weights[i] = 0
			without := weightedMode(t, lik, kernel, m, q.Y, weights)
			weights[i] = 0.5
			for row := range q.T {
				want.Set(row, i, with[n+row]-without[n+row])
				largest = math.Max(largest, math.Abs(want.At(row, i)))
			}
		}
		require.Positive(t, largest)
		for row, x := range rows {
			require.Len(t, x[0].Terms, n)
			require.Nil(t, x[0].Terms[0].Influence)
			require.NoError(t, explain.AddInfluence(t.Context(), half, q.Test.Slice(row, row+1), x))
			for _, term := range append(x[0].Terms, x[0].For...) {
				require.InDelta(t, want.At(row, term.Index), *term.Influence, tolerance*largest)
			}
		}
		// A posterior of fewer examples is refused.
		fewer := testref.Must(gp.Refit(t.Context(), k, q.Train.Slice(0, 5), gp.NewTargets(mat.DenseCopyOf(q.Y.Slice(0, 5, 0, 1)), lik), nil))(t)
		require.ErrorContains(t, explain.AddInfluence(t.Context(), fewer, q.Test.Slice(0, 1), rows[0]), "half weights")
	}
}
