package variational

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
)

// The integrals of σ against adaptive quadrature, whose error is 1e-10 of E|g|.
func TestLogisticAgainstQuadrature(t *testing.T) {
	for _, m := range []float64{-400, -30, -3, 0, 0.5, 7, 100} {
		for _, s := range []float64{0, 0.01, 1, 4, 9.99, 10.01, 50, 250} {
			got := meanLogistic(m, s*s)
			near := func(what string, got float64, g func(f float64) float64) {
				t.Helper()
				want := integral.Expectation(g, m, s*s)
				require.InDelta(t, want, got, 2e-10*(math.Abs(want)+1e-3), "%s at m = %v, s = %v", what, m, s)
			}
			near("log", got.log, func(f float64) float64 { return logisticAt(f).log })
			near("rest", got.rest, func(f float64) float64 { return logisticAt(f).rest })
			near("slope", got.slope, func(f float64) float64 { return logisticAt(f).slope })
		}
	}
}

// Both forms of the integrals agree where both are accurate, also far in a tail.
func TestWideLogistic(t *testing.T) {
	for _, s := range []float64{10, 13, 20} {
		for _, part := range []float64{-0.249, -0.2, 0, 0.1, 0.24} {
			m := part * s * s
			a, step := wideLogistic(m, s), 0.2/s
			var b logistic
			for k := -int(30 / step); float64(k) <= 30/step; k++ {
				z := float64(k) * step
				w, at := step*math.Exp(-0.5*z*z)/math.Sqrt(2*math.Pi), logisticAt(m+s*z)
				b.log += w * at.log
				b.rest += w * at.rest
				b.slope += w * at.slope
			}
			for _, v := range [][2]float64{{a.log, b.log}, {a.rest, b.rest}, {a.slope, b.slope}} {
				require.InEpsilon(t, v[1], v[0], 1e-11, "m = %v, s = %v", m, s)
			}
		}
	}
}

// A subject is a likelihood with targets, and the accuracy of its integrals.
type subject struct {
	name   string
	lik    gp.Likelihood
	y      []float64
	c      int
	points int
	tol    float64 // of ∂E log p/∂mean = E r
	tolCov float64 // of ∂E log p/∂cov = −½E Λ
}

// ownLikelihood has no closed form.
type ownLikelihood struct{ gp.Likelihood }

func subjects(t *testing.T) []subject {
	t.Helper()
	gauss, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2}))
	require.NoError(t, err)
	const exact, quasi = 1e-8, 1e-2
	return []subject{
		{"gaussian", gauss, []float64{0.4, -1}, 2, 4096, exact, exact},
		{"bernoulli", glm.Bernoulli{}, []float64{1}, 1, 4096, exact, exact},
		{"bernoulli-fraction", glm.Bernoulli{}, []float64{0.3, 0}, 2, 4096, exact, exact},
		{"poisson", glm.Poisson{}, []float64{3, 0}, 2, 4096, exact, exact},
		{"categorical-1", glm.Categorical{}, []float64{0}, 1, 4096, exact, exact},
		{"categorical-2", glm.Categorical{}, []float64{1}, 2, 4096, exact, exact},
		{"categorical-3", glm.Categorical{}, []float64{2}, 3, 4096, exact, exact},
		{"categorical-4", glm.Categorical{}, []float64{0}, 4, 65536, exact, exact},
		{"categorical-6", glm.Categorical{}, []float64{4}, 6, 4096, exact, quasi},
		{"own", ownLikelihood{glm.Bernoulli{}}, []float64{1}, 1, 4096, exact, exact},
		{"own-outputs", ownLikelihood{glm.Categorical{}}, []float64{2}, 3, 4096, exact, quasi},
	}
}

// E r and −½E Λ are the derivatives of E log p in mean and covariance, for every
// likelihood. (Where nodes are fixed the first holds exactly for what they integrate, and
// the second to the accuracy of quasi–Monte Carlo.)
func TestExpectationDerivatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, s := range subjects(t) {
		for _, scale := range []float64{0.3, 0.8, 1.3} {
			t.Run(fmt.Sprint(s.name, "/", scale), func(t *testing.T) {
				terms, _, err := newExpectations(s.lik, 1, s.c, s.points, 1)
				require.NoError(t, err)
				mean, cov := randomGaussian(rng, s.c, scale)
				at := func() float64 { return terms[0].expectTo(nil, nil, 0, s.y, mean, cov) }
				residual, lambda := make([]float64, s.c), make([]float64, s.c*s.c)
				require.Equal(t, at(), terms[0].expectTo(residual, lambda, 0, s.y, mean, cov))
				const h = 1e-4
				slope := func(move func(h float64)) float64 {
					move(h)
					up := at()
					move(-2 * h)
					down := at()
					move(h)
					return (up - down) / (2 * h)
				}
				for i := range s.c {
					require.InDelta(t, residual[i], slope(func(h float64) { mean[i] += h }), s.tol*(1+math.Abs(residual[i])))
					for j := range i + 1 {
						factor := -0.5
						if i != j {
							factor = -1 // both entries move
						}
						got := slope(func(h float64) {
							cov[i*s.c+j] += h
							if i != j {
								cov[j*s.c+i] += h
							}
						})
						require.InDelta(t, factor*lambda[i*s.c+j], got, s.tolCov*(1+math.Abs(lambda[i*s.c+j])))
						require.Equal(t, lambda[i*s.c+j], lambda[j*s.c+i])
					}
				}
			})
		}
	}
}

func randomGaussian(rng *rand.Rand, c int, scale float64) (mean, cov []float64) {
	root := make([]float64, c*c)
	for i := range root {
		root[i] = scale * rng.NormFloat64()
	}
	mean, cov = make([]float64, c), make([]float64, c*c)
	for i := range c {
		mean[i] = scale * rng.NormFloat64()
		for j := range c {
			for k := range c {
				cov[i*c+j] += root[i*c+k] * root[j*c+k]
			}
		}
	}
	return mean, cov
}

// Any likelihood is integrated by its Expand: a negative binomial as by adaptive quadrature, and shares of the classes as their
// mean over the classes, to the accuracy of quasi–Monte Carlo.
func TestNumericExpectation(t *testing.T) {
	negative, err := glm.NewNegativeBinomial(2.5)
	require.NoError(t, err)
	terms, noise, err := newExpectations(negative, 1, 1, 64, 1)
	require.NoError(t, err)
	require.Zero(t, noise)
	y, r, lambda := []float64{3}, make([]float64, 1), make([]float64, 1)
	at := func(f float64) (logp, r, lambda float64) {
		a, b := make([]float64, 1), make([]float64, 1)
		return negative.Expand(a, b, nil, y, []float64{f}), a[0], b[0]
	}
	logp := terms[0].expectTo(r, lambda, 0, y, []float64{0.7}, []float64{1.9})
	require.InDelta(t, integral.Expectation(func(f float64) float64 { v, _, _ := at(f); return v }, 0.7, 1.9), logp, 1e-9)
	require.InDelta(t, integral.Expectation(func(f float64) float64 { _, v, _ := at(f); return v }, 0.7, 1.9), r[0], 1e-9)
	require.InDelta(t, integral.Expectation(func(f float64) float64 { _, _, v := at(f); return v }, 0.7, 1.9), lambda[0], 1e-9)

	shares := []float64{0.2, 0.5, 0.3}
	mean, cov := randomGaussian(rand.New(rand.NewPCG(5, 5)), 3, 0.8)
	all, noise, err := newExpectations(glm.CategoricalShares{}, 1, 3, 16384, 1)
	require.NoError(t, err)
	require.NotZero(t, noise)
	one, _, err := newExpectations(glm.Categorical{}, 1, 3, 16384, 1)
	require.NoError(t, err)
	got, want, part := make([]float64, 3+9), make([]float64, 3+9), make([]float64, 3+9)
	logp, sum := all[0].expectTo(got[:3], got[3:], 0, shares, mean, cov), 0.0
	for c, q := range shares {
		sum += q * one[0].expectTo(part[:3], part[3:], 0, []float64{float64(c)}, mean, cov)
		floats.AddScaled(want, q, part)
	}
	require.InDelta(t, sum, logp, 1e-3)
	require.InDeltaSlice(t, want, got, 1e-3)
}

// E p and E[diag(p) − ppᵀ] are those of the predictive integrals, by the same or by
// other nodes.
func TestSoftmaxAgainstPredictive(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, c := range []int{2, 3, 4, 7, 10} {
		tol, points := 5e-9, 65536
		if c > 4 {
			tol, points = 5e-3, 4096 // quasi–Monte Carlo
		}
		for range 5 {
			terms, _, err := newExpectations(glm.Categorical{}, 1, c, points, 1)
			require.NoError(t, err)
			mean, cov := randomGaussian(rng, c, 1.2)
			y := float64(rng.IntN(c))
			residual, lambda := make([]float64, c), make([]float64, c*c)
			logp := terms[0].expectTo(residual, lambda, 0, []float64{y}, mean, cov)
			var p, aleatoric mat.Dense
			require.NoError(t, predictive.QMC{Tol: 1e-5}.IntegralsTo(t.Context(), &predictive.Integrals{Mean: &p, Aleatoric: &aleatoric}, glm.Categorical{}, mat.NewDense(1, c, mean), mat.NewDense(c, c, cov)))
			for j := range c {
				want := -p.At(0, j)
				if j == int(y) {
					want++
				}
				require.InDelta(t, want, residual[j], tol)
			}
			require.InDeltaSlice(t, aleatoric.RawMatrix().Data, lambda, tol)
			// Jensen: E log p ≤ log E p
			require.Less(t, logp, math.Log(p.At(0, int(y))))
		}
	}
}

// The error of quasi–Monte Carlo on four wide logits, as the package states it, where the
// trapezoid is right to 1e-10.
func TestQuasiMonteCarloError(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, v := range []struct {
		points int
		most   float64
	}{{1024, 5e-3}, {4096, 2e-3}, {16384, 1e-3}} {
		worst := 0.0
		for range 8 {
			mean, cov := randomGaussian(rng, 4, 1.3) // a variance of 7, on average
			fine, _, err := newExpectations(glm.Categorical{}, 1, 4, 65536, 1)
			require.NoError(t, err)
			coarse, _, err := newExpectations(glm.Categorical{}, 1, 4, v.points, 1)
			require.NoError(t, err)
			coarse[0].(*softmaxExpectation).qmc[0] = true
			a, b := make([]float64, 4+16), make([]float64, 4+16)
			logA := fine[0].expectTo(a[:4], a[4:], 0, []float64{1}, mean, cov)
			logB := coarse[0].expectTo(b[:4], b[4:], 0, []float64{1}, mean, cov)
			if fine[0].(*softmaxExpectation).qmc[0] {
				continue // too wide for the trapezoid
			}
			worst = max(worst, math.Abs(logA-logB))
			for i := range a {
				worst = max(worst, math.Abs(a[i]-b[i]))
			}
		}
		t.Logf("%d points: largest error of E log p, E r and E Λ %.2g", v.points, worst)
		require.Less(t, worst, v.most)
	}
}

// A likelihood whose Λ is not −∂²log p/∂f² is refused by name.
func TestFisherInformationIsRefused(t *testing.T) {
	_, _, err := newExpectations(glm.Heteroscedastic{}, 3, 2, 64, 1)
	var fisher *FisherError
	require.ErrorAs(t, err, &fisher)
	require.ErrorContains(t, err, "heteroscedastic")
}
