package variational_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// [thesis theorem 4.1]: an update is Bayesian linear regression with the prior N(m̃, S̃),
// S̃⁻¹ = (1−γ)Σ_t⁻¹ + γΣ₀⁻¹ and m̃ = S̃((1−γ)Σ_t⁻¹μ_t + γΣ₀⁻¹μ₀), on N·S pseudo-examples, one
// for each example and draw, with the sites (γ/S)Λ and (γ/S)r at f̂_s and the Jacobian
// Ĵ_s. Over functions it is a Gaussian process with the kernel Ĵ_s(x) S̃ Ĵ_s'(x')ᵀ
// between pseudo-examples, the neural kernel sum. With VOGGN each draw has a Jacobian of
// its own; with one update from a diagonal Σ_t, S̃ is diagonal, and package gp computes
// it.
func TestTheorem41(t *testing.T) {
	for _, toy := range toys {
		q := testkit.OpenReference(t, toy)
		ref := testref.Open(t, "structures/"+toy)
		for _, u := range updates {
			for _, name := range []string{"voggn", "lgva", "oggn"} {
				key := name + "_" + u.state + "_" + u.key + "_"
				t.Run(toy+"/"+key, func(t *testing.T) {
					mu, variance := u.startOf(t, q)
					r := newRegression(t, q, u.rate, mu, variance)
					switch samples := ref.Matrix("ngvi_samples_" + u.state); name {
					case "voggn":
						for s := range 2 {
							b := linearizedAt(t, q, samples.RawRowView(s), q.X)
							r.add(t, b, b.F)
						}
					case "lgva":
						b := linearizedAt(t, q, mu, q.X)
						for s := range 2 {
							r.add(t, b, linearAt(b, mu, samples.RawRowView(s)))
						}
					default:
						b := linearizedAt(t, q, mu, q.X)
						r.add(t, b, b.F)
					}
					n := len(ref.Floats(key+"mean_test")) / q.Test.Outputs()
					x := linearizedAt(t, q, mu, q.Test.X.Slice(0, n, 0, dims(q.Test.X)).(*mat.Dense))
					post := r.fit(t)
					var mean, cov mat.Dense
					require.NoError(t, post.PredictTo(t.Context(), &mean, &cov, x))
					testref.RequireClose(t, mean.RawMatrix().Data, ref.Floats(key+"mean_test"), 1e-7, key+"mean_test")
					testref.RequireClose(t, cov.RawMatrix().Data, ref.Floats(key+"cov_test"), 1e-7, key+"cov_test")
					// log det Σ⁻¹ − log det S̃⁻¹ is that of B
					logDet := post.LogDet()
					for _, v := range r.variance {
						logDet -= math.Log(v)
					}
					require.InEpsilon(t, ref.Scalar(key+"log_det"), logDet+logDetOf(q), 1e-8)
				})
			}
		}
	}
}

// A regression is the Bayesian linear regression of theorem 4.1.
type regression struct {
	q              *testkit.Reference
	rate           float64
	mu             []float64 // μ_t
	mean, variance []float64 // of the prior N(m̃, S̃)
	prior          ntk.Prior
	batches        []*linearize.Batch
	sites          []*gp.Sites
}

func newRegression(t *testing.T, q *testkit.Reference, rate float64, mu, variance []float64) *regression {
	t.Helper()
	p := len(mu)
	r := &regression{q: q, rate: rate, mu: mu, mean: make([]float64, p), variance: make([]float64, p)}
	prior := make([]float64, p)
	q.Prior.VarianceTo(prior)
	for i := range p {
		r.variance[i] = 1 / ((1-rate)/variance[i] + rate/prior[i])
		r.mean[i] = r.variance[i] * (1 - rate) / variance[i] * mu[i] // μ₀ = 0
	}
	var err error
	r.prior, err = ntk.NewDiagonal(r.variance, r.mean)
	require.NoError(t, err)
	return r
}

// add adds the pseudo-examples of a draw: the Jacobian of b, and sites at f.
func (r *regression) add(t *testing.T, b *linearize.Batch, f *mat.Dense) {
	t.Helper()
	s, err := gp.NewSites(gp.NewTargets(r.q.Y, r.q.Likelihood), f)
	require.NoError(t, err)
	// The linear term of the theorem is (γ/S)(r + ΛĴμ_t) in θ, so the site is one at the
	// value that f_lin(x;θ) = F + Ĵ(θ − μ_t) has at μ_t.
	s.F = b.F
	r.batches, r.sites = append(r.batches, b), append(r.sites, s)
}

// fit conditions the Gaussian process on all pseudo-examples.
func (r *regression) fit(t *testing.T) *gp.Exact {
	t.Helper()
	share := r.rate / float64(len(r.sites))
	stack := func(of func(s *gp.Sites) *mat.Dense, scale float64) *mat.Dense {
		var out mat.Dense
		for i, s := range r.sites {
			if i == 0 {
				out.CloneFrom(of(s))
				continue
			}
			var both mat.Dense
			both.Stack(&out, of(s))
			out.CloneFrom(&both)
		}
		out.Scale(scale, &out)
		return &out
	}
	all := &gp.Sites{
		F:        stack(func(s *gp.Sites) *mat.Dense { return s.F }, 1),
		Residual: stack(func(s *gp.Sites) *mat.Dense { return s.Residual }, share),
		Lambda:   stack(func(s *gp.Sites) *mat.Dense { return s.Lambda }, share),
		Root:     stack(func(s *gp.Sites) *mat.Dense { return s.Root }, math.Sqrt(share)),
	}
	x := linearize.Concat(r.batches...)
	x.Model = linearize.ModelFingerprint{}
	e, err := gp.Fit(t.Context(), ntk.New(r.prior, r.mu), x, all, &gp.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	return e
}

func linearizedAt(t *testing.T, q *testkit.Reference, theta []float64, x *mat.Dense) *linearize.Batch {
	t.Helper()
	net, err := q.Net.WithTheta(theta)
	require.NoError(t, err)
	b, err := net.Linearize(t.Context(), x)
	require.NoError(t, err)
	return b
}

// linearAt returns F + J(θ − μ).
func linearAt(b *linearize.Batch, mu, theta []float64) *mat.Dense {
	n, c := b.F.Dims()
	f := make([]float64, n*c)
	b.MulVecTo(f, floats.SubTo(make([]float64, len(mu)), theta, mu))
	out := mat.NewDense(n, c, f)
	out.Add(out, b.F)
	return out
}
