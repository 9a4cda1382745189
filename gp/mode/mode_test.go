package mode_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// TestModeE9 finds the mode of the linearized models by products alone, both exact
// ones and central differences of the network [gprior algorithm 1], and compares
// with the reference and with the factored precision.
func TestModeE9(t *testing.T) {
	for _, name := range []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs", "structures/normalized"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := testkit.OpenReference(t, name)
			theta := q.Net.Theta()
			full := testref.Must(weightspace.Refit(t.Context(), q.Train, q.Targets(), q.Prior, theta, nil))(t)
			differences := testref.Must(q.Net.Products(q.X))(t)
			diagonal := func(context.Context, *gp.Sites) (func(z []float64), error) {
				return func(z []float64) {
					for i := range z {
						z[i] /= 1 + float64(i%3)
					}
				}, nil
			}
			for what, o := range map[string]*mode.Options{
				"exact products": nil, "central differences": {Products: differences}, "any diagonal": {Precondition: diagonal},
				"given outputs": {Products: differences, Outputs: q.Train.F}, "small gradient": {Products: differences, Gradient: 1e-6},
				"preconditioner of each step": {Precondition: inverse(q)},
			} {
				if o != nil && what == "preconditioner of each step" && len(theta) > 300 {
					continue // a dense inverse takes too long
				}
				m, err := mode.Find(t.Context(), linearize.Rebatch(q.Train, 17), q.Targets(), q.Prior, theta, o)
				require.NoError(t, err, what)
				require.Empty(t, m.Warnings, what)
				tol := 1e-7
				if o != nil && o.Gradient > 0 {
					tol = 100 * o.Gradient
				}
				testref.RequireClose(t, m.Theta, q.Floats("refit_theta"), tol, what)
				testref.RequireClose(t, m.Sites.F.RawMatrix().Data, q.Floats("refit_f_train"), tol, what)
				testref.RequireClose(t, []float64{gp.NewEvidence(m.Sites.LogLik, m.Scatter, full.LogDet()).Value}, []float64{q.Scalar("refit_log_evidence")}, tol, what)
				require.LessOrEqual(t, m.GradientNorm, 1e-6, what)
				require.GreaterOrEqual(t, m.Products, m.Newton)
				if what == "preconditioner of each step" {
					require.LessOrEqual(t, m.Products, 2*(m.Newton+1), "the inverse itself solves in one step, and two where rounding remains")
				}
			}
		})
	}
}

// inverse returns the product with (I + J̃ᵀΛJ̃)⁻¹ at the sites s.
func inverse(q *testkit.Reference) func(_ context.Context, s *gp.Sites) (func(z []float64), error) {
	return func(_ context.Context, s *gp.Sites) (func(z []float64), error) {
		p := q.Train.P
		var j, lj, h mat.Dense
		q.Train.JacobianTo(&j)
		variance := make([]float64, p)
		q.Prior.VarianceTo(variance)
		j.Apply(func(_, k int, v float64) float64 { return v * math.Sqrt(variance[k]) }, &j)
		n, c := s.F.Dims()
		lj.CloneFrom(&j)
		for i := range n {
			lj.Slice(i*c, (i+1)*c, 0, p).(*mat.Dense).Mul(s.Lambda.Slice(i*c, (i+1)*c, 0, c), j.Slice(i*c, (i+1)*c, 0, p))
		}
		h.Mul(j.T(), &lj)
		for i := range p {
			h.Set(i, i, h.At(i, i)+1)
		}
		var inverse mat.Dense
		err := inverse.Inverse(&h)
		return func(z []float64) {
			var out mat.VecDense
			out.MulVec(&inverse, mat.NewVecDense(p, z))
			copy(z, out.RawVector().Data)
		}, err
	}
}

// TestProductsAlgorithm1 compares the central differences with J v, and Jᵀu by one
// backward pass with the blocks.
func TestProductsAlgorithm1(t *testing.T) {
	q := testkit.OpenReference(t, "structures/normalized")
	fast := testref.Must(q.Net.Products(q.X))(t)
	got := make([]float64, 180)
	require.NoError(t, fast.MulVecTo(t.Context(), got, q.Floats("refit_theta")))
	want := q.Floats("jv_train")
	testref.RequireClose(t, got, want, 1e-6, "J v* by differences")
	worst := 0.0
	for i, v := range want {
		worst = max(worst, math.Abs(got[i]-v))
	}
	require.Less(t, worst, 10*q.Scalar("algorithm1_largest_error"))
	exact := linearize.ProductsOf(linearize.Rebatch(q.Train, 13))
	require.NoError(t, exact.MulVecTo(t.Context(), got, q.Floats("refit_theta")))
	testref.RequireClose(t, got, want, 1e-10, "J v*")
	a, b := make([]float64, 279), make([]float64, 279)
	require.NoError(t, fast.MulTransVecTo(t.Context(), a, want))
	require.NoError(t, exact.MulTransVecTo(t.Context(), b, want))
	testref.RequireClose(t, a, b, 1e-12, "Jᵀu")
	require.NoError(t, fast.MulVecTo(t.Context(), got, make([]float64, 279)))
	require.Equal(t, make([]float64, 180), got)
}

// TestModeStops checks that a cancelled context ends the search, and that a search
// with too few steps says so.
func TestModeStops(t *testing.T) {
	q := testkit.OpenReference(t, "poisson")
	theta := q.Net.Theta()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := mode.Find(ctx, q.Train, q.Targets(), q.Prior, theta, &mode.Options{Limits: linearize.Limits{Progress: func(stage string, done, _ int) {
		require.Equal(t, gp.StageNewton, stage)
		require.Equal(t, 1, done)
		cancel()
	}}})
	require.ErrorIs(t, err, context.Canceled)
	far := make([]float64, len(theta))
	for i, v := range theta {
		far[i] = v + 0.5
	}
	at := testref.Must(q.Net.WithTheta(far))(t)
	b := testref.Must(at.Linearize(t.Context(), q.X))(t)
	m, err := mode.Find(t.Context(), b, q.Targets(), q.Prior, far, &mode.Options{MaxIter: 1, MaxProducts: 2})
	require.NoError(t, err)
	require.ErrorContains(t, linearize.FindWarning(m.Warnings, "refit-steps"), "after 1 Newton steps")
}
