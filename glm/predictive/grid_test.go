package predictive

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// The grid of posteriors that every link must bear: means in increasing order,
// symmetric about 0, and variances.
var (
	gridMeans = func() []float64 {
		sizes := []float64{1e300, 1e100, 4e29, 1e10, 1e4, 800, 30, 3, 1, 1e-3, 1e-300}
		means := make([]float64, 0, 2*len(sizes)+1)
		for _, m := range sizes {
			means = append(means, -m)
		}
		means = append(means, 0)
		for i := range sizes {
			means = append(means, sizes[len(sizes)-1-i])
		}
		return means
	}()
	gridVariances = []float64{0, 1e-300, 1e-100, 1e-12, 1e-3, 1, 64, 65, 1e4, 1e10, 1e15, 1e30, 1e60, 1e100, 1e200, 1e300}
	gridLinks     = []Link{MAP{}, Exact{}, Probit{}, MonteCarlo{Samples: 20, Seed: 3}, Bridge{}}
)

// gridPosterior returns the grid's means with one variance.
func gridPosterior(v float64) (f, cov *mat.Dense) {
	n := len(gridMeans)
	f, cov = mat.NewDense(n, 1, gridMeans), mat.NewDense(n, 1, nil)
	for i := range n {
		cov.Set(i, 0, v)
	}
	return f, cov
}

func constant(n int, v float64) *mat.Dense {
	m := mat.NewDense(n, 1, nil)
	for i := range n {
		m.Set(i, 0, v)
	}
	return m
}

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

func eachGrid(t *testing.T, lik glm.Likelihood, run func(t *testing.T, l Link, v float64, f, cov *mat.Dense)) {
	for _, l := range gridLinks {
		if !supports(l, lik) {
			continue
		}
		t.Run(fmt.Sprintf("%T", l), func(t *testing.T) {
			for _, v := range gridVariances {
				f, cov := gridPosterior(v)
				run(t, l, v, f, cov)
			}
		})
	}
}

func TestE11GridOfBernoulli(t *testing.T) {
	n := len(gridMeans)
	eachGrid(t, glm.Bernoulli{}, func(t *testing.T, l Link, v float64, f, cov *mat.Dense) {
		mean, sd := predict(t, l, glm.Bernoulli{}, f, cov)
		yes, no := logPredictive(t, l, glm.Bernoulli{}, constant(n, 1), f, cov), logPredictive(t, l, glm.Bernoulli{}, constant(n, 0), f, cov)
		_, draws := l.(MonteCarlo)
		for i, m := range gridMeans {
			at := fmt.Sprintf("m=%v v=%v", m, v)
			p := mean.At(i, 0)
			require.True(t, p >= 0 && p <= 1 && sd.At(i, 0) >= 0 && sd.At(i, 0) <= 0.5+1e-15, at)
			require.InDelta(t, 1, math.Exp(yes[i])+math.Exp(no[i]), 1e-10, at)
			require.InDelta(t, p, math.Exp(yes[i]), 1e-10, at)
			require.False(t, math.IsInf(yes[i], 0) || math.IsInf(no[i], 0) || yes[i] > 0 || no[i] > 0, at)
			if i > 0 {
				require.GreaterOrEqual(t, p-mean.At(i-1, 0), -1e-14, at)
				require.GreaterOrEqual(t, yes[i]-yes[i-1], -1e-12*math.Abs(yes[i])-1e-14, at)
			}
			if !draws { // the draws are not symmetric
				require.InDelta(t, 1, p+mean.At(n-1-i, 0), 1e-10, at)
				require.InDelta(t, yes[i], no[n-1-i], 1e-12*math.Abs(yes[i]), at)
			}
			if v <= 1e-12 {
				require.InDelta(t, integral.Sigmoid(m), p, 1e-6, at) // the draws lie within 4 sd
				require.InDelta(t, integral.LogSigmoid(m), yes[i], 1e-6+1e-12*math.Abs(m), at)
			}
		}
	})
}

// For v → 0 the integral is σ(m), for v → ∞ it is Φ(m/√v), and in the far tail
// log E σ(f) = m + v/2.
func TestE11GridOfExactBernoulliIsAsymptotic(t *testing.T) {
	for _, v := range gridVariances {
		s := math.Sqrt(v)
		for _, m := range gridMeans {
			mean, variance, slope := glm.Bernoulli{}.Moments(0, m, v)
			logp := integral.LogMeanSigmoid(m, s)
			at := fmt.Sprintf("m=%v v=%v", m, v)
			require.InDelta(t, mean*(1-mean), variance+slope, 1e-10, at)
			switch {
			case v <= 1e-12:
				require.InDelta(t, integral.Sigmoid(m), mean, 1e-12, at)
				require.InDelta(t, integral.LogSigmoid(m), logp, 1e-12*(1+math.Abs(m)), at)
			case v >= 1e10:
				require.InDelta(t, normalCDF(m/s), mean, 1e-10, at) // m/s³ φ(m/s) less
				if m > -v/4 {
					// ∫ σ'(u) e^{−um/v} du = a/sin(πa)·π with a = |m|/v ≤ ¼, at most 1.11
					require.InDelta(t, integral.LogNormalCDF(m/s), logp, 0.11+1e-12*math.Abs(logp), at)
				}
			}
			if m < -2*v-40 {
				require.InDelta(t, m+v/2, logp, 1e-12*math.Abs(m), at)
			}
		}
	}
}

func TestE11GridOfPoisson(t *testing.T) {
	n := len(gridMeans)
	eachGrid(t, glm.Poisson{}, func(t *testing.T, l Link, v float64, f, cov *mat.Dense) {
		mean, sd := predict(t, l, glm.Poisson{}, f, cov)
		_, isExact := l.(Exact)
		for i, m := range gridMeans {
			at := fmt.Sprintf("m=%v v=%v", m, v)
			rate := mean.At(i, 0)
			require.True(t, rate >= 0 && sd.At(i, 0) >= 0, at) // and no NaN
			if i > 0 {
				require.GreaterOrEqual(t, rate, mean.At(i-1, 0), at)
			}
			if isExact {
				require.Equal(t, math.Exp(m+v/2), rate, at)
			}
		}
		for _, y := range []float64{0, 1, 3, 1e6} {
			logp := logPredictive(t, l, glm.Poisson{}, constant(n, y), f, cov)
			for i, m := range gridMeans {
				at := fmt.Sprintf("y=%v m=%v v=%v", y, m, v)
				require.True(t, logp[i] <= 1e-9, "%s: %v", at, logp[i])
				if v == 0 {
					if want := integral.LogPoisson(y, m); math.IsInf(want, -1) {
						require.Equal(t, want, logp[i], at)
					} else {
						require.InDelta(t, want, logp[i], 1e-12*(1+math.Abs(want)), at)
					}
				}
			}
		}
	})
}

// For v → ∞ no event has the probability Φ(−m/√v) of a small rate. As a function
// of f, p(y|f) is else a narrow peak of area 1/y at log y.
func TestE11GridOfExactPoissonIsAsymptotic(t *testing.T) {
	for _, v := range []float64{1e15, 1e30, 1e60, 1e100, 1e200, 1e300, math.MaxFloat64} {
		s := math.Sqrt(v)
		for _, m := range gridMeans {
			at := fmt.Sprintf("m=%v v=%v", m, v)
			want := integral.LogNormalCDF(-m / s)
			if math.Abs(m) < v/1e6 {
				require.InDelta(t, want, integral.LogMeanPoisson(0, m, s), 1e-5+1e-12*math.Abs(want), at)
			}
			for _, y := range []float64{1, 3, 1e6} {
				// The Gaussian's slope m/v there tilts the peak.
				d := (math.Log(y) - m) / s
				want := -0.5*d*d - integral.HalfLog2Pi - math.Log(s) - math.Log(y)
				if math.Abs(m) < v/1e9 {
					require.InDelta(t, want, integral.LogMeanPoisson(y, m, s), 1e-6+1e-12*math.Abs(want), at)
				}
			}
		}
	}
}

func TestE11GridOfGaussian(t *testing.T) {
	lik := testref.Must(glm.NewGaussian(0.5))(t)
	n := len(gridMeans)
	eachGrid(t, lik, func(t *testing.T, l Link, v float64, f, cov *mat.Dense) {
		mean, sd := predict(t, l, lik, f, cov)
		logp := logPredictive(t, l, lik, constant(n, 2), f, cov)
		_, isExact := l.(Exact)
		for i, m := range gridMeans {
			at := fmt.Sprintf("m=%v v=%v", m, v)
			require.InDelta(t, m, mean.At(i, 0), 1e-14*math.Abs(m)+2*math.Sqrt(v), at)
			require.True(t, sd.At(i, 0) >= 0 && sd.At(i, 0) <= 2*math.Sqrt(v)+1e-10*math.Abs(m), at)
			require.False(t, math.IsNaN(logp[i]), at)
			if isExact {
				require.Equal(t, m, mean.At(i, 0))
				d := (2 - m) / math.Sqrt(v+0.5)
				if want := -0.5*d*d - 0.5*math.Log(v+0.5) - integral.HalfLog2Pi; math.IsInf(want, -1) {
					require.Equal(t, want, logp[i], at) // below −1e308
				} else {
					require.InDelta(t, want, logp[i], 1e-12*(1+math.Abs(want)), at)
				}
			}
		}
	})
}

// One block may hold variances of very different size.
func TestE11GaussianOfUnequalVariances(t *testing.T) {
	lik := testref.Must(glm.NewGaussian(1))(t)
	f, cov := mat.NewDense(1, 3, nil), mat.NewDense(3, 3, []float64{1e300, 0, 0, 0, 1, 0, 0, 0, 1e-300})
	got := logPredictive(t, Exact{}, lik, mat.NewDense(1, 3, []float64{1, 2, 3}), f, cov)[0]
	require.InEpsilon(t, -0.5*(4.0/2+9)-3*integral.HalfLog2Pi-0.5*(300*math.Ln10+math.Ln2), got, 1e-14)
	wide := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1e100, 0, 0, 1e-100})))(t)
	require.InDelta(t, -2*integral.HalfLog2Pi-0.5, wide.LogProb([]float64{1e50, 0}, []float64{0, 0}), 1e-12)
}

// Logits and covariances of any size, the latter diagonal, of rank one, and
// with unequal variances.
func TestE11GridOfCategorical(t *testing.T) {
	const c = 3
	shapes := [][]float64{
		{1, 0, 0, 0, 1, 0, 0, 0, 1},
		{1, 1, 1, 1, 1, 1, 1, 1, 1},
		{1, 0.5, 0, 0.5, 1, -0.3, 0, -0.3, 0.2},
		{1, 0, 0, 0, 0, 0, 0, 0, 1e-20},
	}
	for _, l := range gridLinks {
		if !supports(l, glm.Categorical{}) {
			continue
		}
		t.Run(fmt.Sprintf("%T", l), func(t *testing.T) {
			_, isMAP := l.(MAP)
			_, isBridge := l.(Bridge)
			for _, v := range gridVariances {
				for _, shape := range shapes {
					cov := mat.NewDense(c, c, nil)
					cov.Scale(v, mat.NewDense(c, c, shape))
					before := 0.0
					for _, m := range gridMeans {
						at := fmt.Sprintf("m=%v v=%v shape=%v", m, v, shape)
						f := mat.NewDense(1, c, []float64{m, 0.25, -1})
						mean, sd := predict(t, l, glm.Categorical{}, f, cov)
						total := 0.0
						for k := range c {
							logp := logPredictive(t, l, glm.Categorical{}, constant(1, float64(k)), f, cov)[0]
							p := mean.At(0, k)
							require.True(t, p >= 0 && p <= 1 && sd.At(0, k) >= 0 && sd.At(0, k) <= 0.5+1e-12, at)
							require.InDelta(t, p, math.Exp(logp), 1e-10, at)
							require.LessOrEqual(t, logp, 1e-14, at)
							total += p
						}
						require.InDelta(t, 1, total, 1e-10, at)
						if !isBridge || v == 0 { // the bridge's counts need not grow with the logit
							require.GreaterOrEqual(t, mean.At(0, 0)-before, -1e-14, at)
							before = mean.At(0, 0)
						}
						if v <= 1e-12 && !isBridge || isMAP {
							p := make([]float64, c)
							glm.Categorical{}.MeanTo(p, f.RawRowView(0))
							for k := range c {
								require.InDelta(t, p[k], mean.At(0, k), 1e-5, at)
							}
						}
					}
				}
			}
		})
	}
}
