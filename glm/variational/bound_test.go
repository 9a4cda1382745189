package variational

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// A brute is the lower bound in weight space, by its definition: q = N(μ, L Lᵀ).
type brute struct {
	*testkit.Problem
	j             mat.Dense
	mu0, variance []float64
}

func newBrute(q *testkit.Problem) *brute {
	b := &brute{Problem: q, mu0: make([]float64, q.Train.P), variance: make([]float64, q.Train.P)}
	q.Train.JacobianTo(&b.j)
	q.Prior.MeanTo(b.mu0)
	q.Prior.VarianceTo(b.variance)
	return b
}

// bound returns the bound and its divergence.
func (b *brute) bound(t *testing.T, mu []float64, l *mat.Dense) (value, kl float64) {
	t.Helper()
	p, c := b.Train.P, b.C
	// KL = ½(tr Σ₀⁻¹Σ + (μ−μ₀)ᵀΣ₀⁻¹(μ−μ₀) − P + log det Σ₀ − log det Σ)
	sign, logDet := 0.0, 0.0
	logDet, sign = mat.LogDet(l)
	require.NotZero(t, sign)
	kl = -float64(p) - 2*logDet
	for i := range p {
		d := mu[i] - b.mu0[i]
		kl += d*d/b.variance[i] + math.Log(b.variance[i])
		for _, v := range l.RawRowView(i) {
			kl += v * v / b.variance[i]
		}
	}
	kl /= 2
	var f, half mat.Dense
	d := mat.NewDense(p, 1, nil)
	for i := range p {
		d.Set(i, 0, mu[i]-b.Theta[i])
	}
	f.Mul(&b.j, d)
	half.Mul(&b.j, l)
	sum := 0.0
	for i := range b.N {
		mean, cov := make([]float64, c), mat.NewDense(c, c, nil)
		rows := half.Slice(i*c, (i+1)*c, 0, p)
		cov.Mul(rows, rows.T())
		for k := range c {
			mean[k] = b.Train.F.At(i, k) + f.At(i*c+k, 0)
		}
		sum += b.expected(t, b.Y.RawRowView(i), mean, cov)
	}
	return sum - kl, kl
}

// expected returns E log p(y|f) by adaptive quadrature for one output, and for several by
// a formula or, for a softmax, by the nodes of the package, which have tests of their
// own.
func (b *brute) expected(t *testing.T, y, mean []float64, cov *mat.Dense) float64 {
	t.Helper()
	lik := b.Likelihood.(glm.Likelihood)
	if b.C == 1 {
		return integral.Expectation(func(f float64) float64 { return lik.LogProb(y, []float64{f}) }, mean[0], cov.At(0, 0))
	}
	terms, _, err := newExpectations(b.Likelihood, 1, b.C, points, 1)
	require.NoError(t, err)
	return terms[0].expectTo(nil, nil, 0, y, mean, cov.RawMatrix().Data)
}

const points = 20000

// root returns L of a posterior over the parameters with the given sites, whose precision has the entries that keep names.
func (b *brute) root(t *testing.T, s *gp.Sites, keep func(i, j int) bool) *mat.Dense {
	t.Helper()
	p, c := b.Train.P, b.C
	h := mat.NewSymDense(p, nil)
	for i := range p {
		h.SetSym(i, i, 1/b.variance[i])
	}
	for i := range b.N {
		ji := b.j.Slice(i*c, (i+1)*c, 0, p)
		var wj, jwj mat.Dense
		wj.Mul(s.Lambda.Slice(i*c, (i+1)*c, 0, c), ji)
		jwj.Mul(ji.T(), &wj)
		for r := range p {
			for k := r; k < p; k++ {
				if keep(r, k) {
					h.SetSym(r, k, h.At(r, k)+(jwj.At(r, k)+jwj.At(k, r))/2)
				}
			}
		}
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(h))
	var u mat.TriDense
	chol.UTo(&u)
	// H = UᵀU, so Σ = U⁻¹U⁻ᵀ
	var inverse mat.Dense
	require.NoError(t, inverse.Inverse(&u))
	return &inverse
}

// problems are small, so that the bound can be computed densely.
func boundProblems(t *testing.T) []*testkit.Problem {
	t.Helper()
	gauss, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2}))
	require.NoError(t, err)
	of := func(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *testkit.Problem {
		return testkit.NewProblemOf(name, seed, n, c, lik, scale, 4)
	}
	return []*testkit.Problem{
		of("gaussian", 2, 10, 2, gauss, 1),
		of("bernoulli", 3, 12, 1, glm.Bernoulli{}, 1),
		of("bernoulli-outputs", 3, 8, 2, glm.Bernoulli{}, 1),
		of("bernoulli-saturated", 4, 12, 1, glm.Bernoulli{}, 900),
		of("poisson", 5, 12, 1, glm.Poisson{}, 0.5),
		of("categorical-2", 6, 12, 2, glm.Categorical{}, 1),
		of("categorical-3", 6, 10, 3, glm.Categorical{}, 1),
		of("categorical-6", 7, 6, 6, glm.Categorical{}, 1),
	}
}

// The bound of each form is that of the definition, and no direction of mean or root of
// the covariance raises it: its slopes, by finite differences, are zero for every
// likelihood.
func TestBoundIsLargest(t *testing.T) {
	for _, q := range boundProblems(t) {
		t.Run(q.Name, func(t *testing.T) {
			if testing.Short() && q.C > 2 {
				t.Skip("integrals over several logits by brute force")
			}
			b := newBrute(q)
			o := &Options{Points: points}
			// of the slopes: rounding of the differences; quasi–Monte Carlo integrates E Λ apart
			tol := 2e-6
			if q.C > 4 {
				tol = 3e-3
			}
			f, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, with(o, Rows))
			require.NoError(t, err)
			w, err := RefineStructure(t.Context(), weightspace.Full, q.Train, q.Targets(), q.Prior, q.Theta, with(o, Parameters))
			require.NoError(t, err)
			d, err := RefineStructure(t.Context(), weightspace.Diagonal, q.Train, q.Targets(), q.Prior, q.Theta, o)
			require.NoError(t, err)
			if q.C < 4 {
				require.Empty(t, f.Warnings())
				require.Empty(t, w.Warnings())
				require.Empty(t, d.Warnings())
			}
			require.InEpsilon(t, f.ELBO.Value, w.ELBO.Value, max(1e-9, tol*1e-3))
			require.LessOrEqual(t, d.ELBO.Value, f.ELBO.Value+1e-9)

			k, err := RefineStructure(t.Context(), weightspace.Block, q.Train, q.Targets(), q.Prior, q.Theta, o)
			require.NoError(t, err)
			require.LessOrEqual(t, d.ELBO.Value, k.ELBO.Value+1e-9)
			require.LessOrEqual(t, k.ELBO.Value, f.ELBO.Value+1e-9)

			block := make([]int, q.Train.P) // of each parameter
			_, parameters := k.Weights.(*weightspace.BlockPosterior).Layers()
			for i, index := range parameters {
				for _, p := range index {
					block[p] = i
				}
			}
			for _, form := range []struct {
				*Weights
				keep func(i, j int) bool
			}{
				{w, func(i, j int) bool { return true }},
				{d, func(i, j int) bool { return i == j }},
				{k, func(i, j int) bool { return block[i] == block[j] }},
			} {
				l := b.root(t, sitesOf(form.Weights), form.keep)
				value, kl := b.bound(t, form.Center(), l)
				require.InDelta(t, value, form.ELBO.Value, 1e-8*(1+math.Abs(value)))
				require.InDelta(t, kl, form.ELBO.KL, 1e-8*(1+kl))
				rng := rand.New(rand.NewPCG(1, 1))
				for range 3 {
					require.InDelta(t, 0, b.slope(t, rng, form.Center(), l, form.keep), tol)
				}
			}
		})
	}
}

func sitesOf(w *Weights) *gp.Sites { return w.Weights.(interface{ Sites() *gp.Sites }).Sites() }

// with returns the options with a solver.
func with(o *Options, s Solver) *Options {
	d := *o
	d.Solver = s
	return &d
}

// slope returns the derivative of the bound in a random direction, of the length of a
// posterior standard deviation in every parameter.
func (b *brute) slope(t *testing.T, rng *rand.Rand, mean []float64, l *mat.Dense, keep func(i, j int) bool) float64 {
	t.Helper()
	p := len(mean)
	step := mat.NewVecDense(p, nil)
	z := mat.NewVecDense(p, nil)
	for i := range p {
		z.SetVec(i, rng.NormFloat64())
	}
	step.MulVec(l, z)
	turn := mat.NewDense(p, p, nil)
	for i := range p {
		for j := range p {
			if e := rng.NormFloat64() / math.Sqrt(float64(p)); keep(i, j) {
				turn.Set(i, j, e)
			}
		}
	}
	var lt mat.Dense
	lt.Mul(l, turn)
	at := func(h float64) float64 {
		m, root := make([]float64, p), mat.NewDense(p, p, nil)
		for i := range p {
			m[i] = mean[i] + h*step.AtVec(i)
			for j := range p {
				root.Set(i, j, l.At(i, j)+h*lt.At(i, j))
			}
		}
		v, _ := b.bound(t, m, root)
		return v
	}
	const h = 1e-3
	// fourth order
	return (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
}

// The refined posteriors keep the promises of their interfaces.
func TestConformance(t *testing.T) {
	q := testkit.NewProblemOf("categorical", 8, 9, 3, glm.Categorical{}, 1, 4)
	for _, s := range []Solver{Rows, Parameters} {
		t.Run(fmt.Sprint("solver", s), func(t *testing.T) {
			f, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &Options{Solver: s})
			require.NoError(t, err)
			gptest.Dual(t, gptest.DualCase{LatentCase: gptest.LatentCase{Kernel: q.Kernel, Test: q.Test, Tol: 1e-9}, Dual: f, Train: q.Train, SumTol: 1e-8})
		})
	}
	for _, s := range []weightspace.Structure{weightspace.Full, weightspace.Block, weightspace.Diagonal} {
		t.Run(s.String(), func(t *testing.T) {
			w, err := RefineStructure(t.Context(), s, q.Train, q.Targets(), q.Prior, q.Theta, nil)
			require.NoError(t, err)
			gptest.Weights(t, gptest.WeightsCase{LatentCase: gptest.LatentCase{Kernel: q.Kernel, Test: q.Test, Tol: 1e-9, AnyGraph: true}, Weights: w, Theta: q.Theta})
		})
	}
	t.Run("gaussian", func(t *testing.T) {
		g, err := NewPriorGaussian(q.Theta, q.Prior)
		require.NoError(t, err)
		gptest.Latent(t, gptest.LatentCase{Latent: g.Linearized(q.Theta), Kernel: q.Kernel, Test: q.Test, Tol: 1e-9, AnyGraph: true})
	})
}

// A refinement has the same bits for any number of processors.
func TestProcessors(t *testing.T) {
	q := testkit.NewProblemOf("categorical", 9, 12, 5, glm.Categorical{}, 1, 4)
	var want *Posterior
	for _, n := range []int{1, 3, 8} {
		testref.Procs(t, n)
		f, err := Refine(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &Options{Points: 256})
		require.NoError(t, err)
		if want == nil {
			want = f
			continue
		}
		require.Equal(t, want.ELBO, f.ELBO)
		require.Equal(t, want.TrainMean, f.TrainMean)
		require.Equal(t, want.TrainCov, f.TrainCov)
	}
}
