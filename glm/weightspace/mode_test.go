package weightspace_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
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
			ref := testref.Open(t, name)
			q := newTrained(t, ref, ref.Matrix("x_train"), ref.Matrix("y_train"), ref.Matrix("x_test"))
			full, err := weightspace.Refit(t.Context(), q.train, q.y, q.lik, q.prior, q.theta, nil)
			require.NoError(t, err)
			differences, err := q.net.Products(ref.Matrix("x_train"))
			require.NoError(t, err)
			curvature := make([]float64, len(q.theta))
			for i := range curvature {
				curvature[i] = float64(i % 3)
			}
			for what, o := range map[string]*weightspace.ModeOptions{
				"exact products": nil, "central differences": {Products: differences}, "any diagonal": {Curvature: curvature},
				"given outputs": {Products: differences, Outputs: q.train.F}, "small gradient": {Products: differences, Gradient: 1e-6},
				"preconditioner of each step": {Precondition: q.inverse},
			} {
				if o != nil && o.Precondition != nil && len(q.theta) > 300 {
					continue // a dense inverse takes too long
				}
				m, err := weightspace.FindMode(t.Context(), linearize.Rebatch(q.train, 17), q.y, q.lik, q.prior, q.theta, o)
				require.NoError(t, err, what)
				require.Empty(t, m.Warnings, what)
				tol := refitTol
				if o != nil && o.Gradient > 0 {
					tol = 100 * o.Gradient
				}
				testref.RequireClose(t, m.Theta, ref.Floats("refit_theta"), tol, what)
				testref.RequireClose(t, m.Sites.F.RawMatrix().Data, ref.Floats("refit_f_train"), tol, what)
				q.requireNear(t, "refit_log_evidence", gp.NewEvidence(m.Sites.LogLik, m.Scatter, full.LogDet()).Value, tol)
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
func (q *trained) inverse(_ context.Context, s *gp.Sites) (func(z []float64), error) {
	p := len(q.theta)
	var j, lj, h mat.Dense
	q.train.JacobianTo(&j)
	variance := make([]float64, p)
	q.prior.VarianceTo(variance)
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

// TestProductsAlgorithm1 compares the central differences with J v, and Jᵀu by one
// backward pass with the blocks.
func TestProductsAlgorithm1(t *testing.T) {
	ref := testref.Open(t, "structures/normalized")
	q := newTrained(t, ref, ref.Matrix("x_train"), ref.Matrix("y_train"), ref.Matrix("x_test"))
	fast, err := q.net.Products(ref.Matrix("x_train"))
	require.NoError(t, err)
	got := make([]float64, 180)
	require.NoError(t, fast.MulVecTo(t.Context(), got, ref.Floats("refit_theta")))
	want := ref.Floats("jv_train")
	testref.RequireClose(t, got, want, 1e-6, "J v* by differences")
	worst := 0.0
	for i, v := range want {
		worst = max(worst, math.Abs(got[i]-v))
	}
	require.Less(t, worst, 10*ref.Scalar("algorithm1_largest_error"))
	exact := linearize.ProductsOf(linearize.Rebatch(q.train, 13))
	require.NoError(t, exact.MulVecTo(t.Context(), got, ref.Floats("refit_theta")))
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
	ref := testref.Open(t, "poisson")
	q := newTrained(t, ref, ref.Matrix("x_train"), ref.Matrix("y_train"), ref.Matrix("x_test"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := weightspace.FindMode(ctx, q.train, q.y, q.lik, q.prior, q.theta, &weightspace.ModeOptions{Progress: func(stage string, done, _ int) {
		require.Equal(t, gp.StageNewton, stage)
		require.Equal(t, 1, done)
		cancel()
	}})
	require.ErrorIs(t, err, context.Canceled)
	far := make([]float64, len(q.theta))
	for i, v := range q.theta {
		far[i] = v + 0.5
	}
	at, err := q.net.WithTheta(far)
	require.NoError(t, err)
	b, err := at.Linearize(t.Context(), ref.Matrix("x_train"))
	require.NoError(t, err)
	m, err := weightspace.FindMode(t.Context(), b, q.y, q.lik, q.prior, far, &weightspace.ModeOptions{MaxIter: 1, MaxProducts: 2})
	require.NoError(t, err)
	require.ErrorContains(t, linearize.FindWarning(m.Warnings, "refit-steps"), "after 1 Newton steps")
}
