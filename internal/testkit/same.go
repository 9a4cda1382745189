package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// RequireAgree fails the test if an entry differs by more than tol times the largest entry of want, or tol if that
// is below 1.
func RequireAgree(t *testing.T, what string, got, want mat.Matrix, tol float64) {
	t.Helper()
	var off mat.Dense
	off.Sub(got, want)
	scale := max(mat.Max(Absolute(want)), 1)
	require.LessOrEqual(t, mat.Max(Absolute(&off)), tol*scale, what)
}

// RequireExact compares all answers of a posterior of all rows with those of the exact posterior.
func (q *Problem) RequireExact(t *testing.T, p gp.Dual, x *gp.Exact) {
	t.Helper()
	tol := 1e-8
	if _, ok := q.Likelihood.(gp.Scored); ok {
		tol = 1e-7 // steps of Fisher scoring shorten slowly
	}
	RequireAgree(t, "α", Vec(p.Alpha()), Vec(x.Alpha()), tol)
	RequireAgree(t, "b", Vec(p.PseudoTargets()), Vec(x.PseudoTargets()), tol)
	for what, to := range map[string]func(d gp.Dual, a, b *mat.Dense) error{
		"prediction": func(d gp.Dual, a, b *mat.Dense) error { return d.PredictTo(t.Context(), a, b, q.Test) },
		"joint":      func(d gp.Dual, a, b *mat.Dense) error { return d.JointTo(t.Context(), a, b, q.Test) },
		"influence": func(d gp.Dual, a, b *mat.Dense) error {
			return d.InfluenceTo(t.Context(), a, b, dense.Range(q.N), q.Train)
		},
		"leave-one-out": func(d gp.Dual, a, b *mat.Dense) error {
			return d.LeaveOneOutTo(t.Context(), a, b, dense.Range(q.N), q.Train)
		},
	} {
		var a, b, wantA, wantB mat.Dense
		require.NoError(t, to(p, &a, &b))
		require.NoError(t, to(x, &wantA, &wantB))
		RequireAgree(t, what, &a, &wantA, tol)
		RequireAgree(t, what, &b, &wantB, tol)
	}
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		RequireAgree(t, "cross-kernel", CrossOf(t, p, q.Test, q.Train, 7, terms), CrossOf(t, x, q.Test, q.Train, q.N, terms), tol)
	}
}
