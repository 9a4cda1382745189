package predictive

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// The distribution of a count is the sum of its probabilities, which
// LogMeanPoisson integrates in another way.
func TestPoissonPredictiveIsSumOfProbabilities(t *testing.T) {
	for _, v := range []float64{0, 1e-4, 0.3, 2} {
		for _, m := range []float64{-2, 0.5, 3} {
			sum := 0.0
			for k := range 40 {
				sum += math.Exp(integral.LogMeanPoisson(float64(k), m, math.Sqrt(v)))
				require.InDelta(t, sum, glm.Poisson{}.PredictiveCDF(0, float64(k), m, v), 1e-10, "m=%v v=%v k=%d", m, v, k)
			}
			require.Equal(t, glm.Poisson{}.PredictiveCDF(0, 3, m, v), glm.Poisson{}.PredictiveCDF(0, 3.7, m, v))
			require.Zero(t, glm.Poisson{}.PredictiveCDF(0, -1, m, v))
		}
	}
}

// A quantile is the smallest number whose distribution function reaches p.
func TestPredictiveQuantiles(t *testing.T) {
	for _, p := range []float64{0.001, 0.05, 0.5, 0.95, 0.999} {
		for _, v := range []float64{0, 0.2, 3} {
			for _, m := range []float64{-8, 0, 2, 9} {
				k := glm.Poisson{}.PredictiveQuantile(0, p, m, v)
				require.Equal(t, math.Trunc(k), k)
				require.GreaterOrEqual(t, glm.Poisson{}.PredictiveCDF(0, k, m, v), p)
				require.Less(t, glm.Poisson{}.PredictiveCDF(0, k-1, m, v), p)
			}
		}
		g := testref.Must(glm.NewGaussianVector([]float64{1, 0.25}))(t)
		require.InDelta(t, p, g.PredictiveCDF(1, g.PredictiveQuantile(1, p, 3, 2), 3, 2), 1e-14)
	}
}

func TestIntervals(t *testing.T) {
	g := testref.Must(glm.NewGaussian(0.5))(t)
	f, cov := testref.Posterior(1, 4, 2, 1)
	var lo, hi mat.Dense
	require.NoError(t, IntervalTo(t.Context(), &lo, &hi, 0.9, g, f, cov))
	for i := range 4 {
		for j := range 2 {
			half := 1.6448536269514722 * math.Sqrt(cov.At(2*i+j, j)+0.5) // Φ⁻¹(.95)
			require.InDelta(t, f.At(i, j)-half, lo.At(i, j), 1e-12)
			require.InDelta(t, f.At(i, j)+half, hi.At(i, j), 1e-12)
		}
	}
	lo, hi = mat.Dense{}, mat.Dense{}
	require.NoError(t, IntervalTo(t.Context(), &lo, &hi, 0.9, glm.Poisson{}, f, cov))
	require.True(t, mat.Min(&lo) >= 0)
	require.EqualError(t, IntervalTo(t.Context(), nil, nil, 0.9, glm.Categorical{}, f, cov), "predictive: no interval by the exact link for the categorical likelihood")
	require.Panics(t, func() { _ = IntervalTo(t.Context(), nil, nil, 1, g, f, cov) })
}

// joint returns random means, T×C, and a joint covariance, T·C×T·C.
func joint(seed uint64, t, c int) (f, cov *mat.Dense) {
	rng := testref.Rand(seed)
	return mat.NewDense(t, c, testref.Vec(rng, t*c, 1)), testref.Cov(rng, t*c, t*c+2, 0.8)
}

// The joint density of independent examples is the product of theirs, and that of one
// example is the density of the link, whatever the noise covariance.
func TestE11JointOfGaussian(t *testing.T) {
	rng := testref.Rand(4)
	for _, g := range []*glm.Gaussian{testref.Must(glm.NewGaussian(0.3))(t), testref.Must(glm.NewGaussianMatrix(symmetric(testref.Cov(rng, 3, 5, 1))))(t)} {
		const n, c = 4, 3
		f, cov := joint(2, n, c)
		y := mat.NewDense(n, c, testref.Vec(rng, n*c, 1))
		apart := mat.NewDense(n*c, n*c, nil)
		blocks := mat.NewDense(n*c, c, nil)
		for i := range n {
			own := cov.Slice(i*c, (i+1)*c, i*c, (i+1)*c)
			apart.Slice(i*c, (i+1)*c, i*c, (i+1)*c).(*mat.Dense).Copy(own)
			blocks.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Copy(own)
		}
		sum := 0.0
		for _, v := range logPredictive(t, Exact{}, g, y, f, blocks) {
			sum += v
		}
		got := testref.Must(Exact{}.JointLogPredictive(g, y, f, apart))(t)
		require.InDelta(t, sum, got, 1e-11)
		// Bayes: p(y_1 y_2 …) = p(y_1) p(y_2 … | y_1), the rest conditioned by hand.
		got = testref.Must(Exact{}.JointLogPredictive(g, y, f, cov))(t)
		noise := make([]float64, c*c)
		g.NoiseTo(noise, c)
		total, d := mat.NewDense(n*c, n*c, nil), mat.NewVecDense(n*c, nil)
		total.Copy(cov)
		for i := range n {
			for a := range c {
				for b := range c {
					total.Set(i*c+a, i*c+b, total.At(i*c+a, i*c+b)+noise[a*c+b])
				}
				d.SetVec(i*c+a, y.At(i, a)-f.At(i, a))
			}
		}
		var inverse mat.Dense
		require.NoError(t, inverse.Inverse(total))
		logDet, _ := mat.LogDet(total)
		require.InDelta(t, -mat.Inner(d, &inverse, d)/2-logDet/2-float64(n*c)*integral.HalfLog2Pi, got, 1e-10)

		var mean, aleatoric, epistemic, m, a, e mat.Dense
		require.NoError(t, Exact{}.JointTo(&mean, &aleatoric, &epistemic, g, f, cov))
		require.True(t, mat.Equal(&mean, f) && mat.EqualApprox(&epistemic, cov, 1e-15))
		require.Equal(t, noise[0], aleatoric.At(1, 0))
		require.NoError(t, MonteCarlo{Samples: 40000}.JointTo(&m, &a, &e, g, f, cov))
		require.True(t, mat.EqualApprox(&m, f, .05) && mat.EqualApprox(&e, cov, .05) && mat.EqualApprox(&a, &aleatoric, 1e-9))
	}
}

// Two correlated examples of two classes, against quadrature in two dimensions.
func TestE11JointOfClasses(t *testing.T) {
	f, cov := joint(3, 2, 1)
	y := mat.NewDense(2, 1, []float64{1, 0})
	chol := math.Sqrt(cov.At(0, 0))
	slope := cov.At(1, 0) / chol
	rest := math.Sqrt(cov.At(1, 1) - slope*slope)
	var both, first, second, total float64
	for x := -9.0; x <= 9; x += .05 {
		for z := -9.0; z <= 9; z += .05 {
			w := math.Exp(-(x*x + z*z) / 2)
			p, q := integral.Sigmoid(f.At(0, 0)+chol*x), integral.Sigmoid(f.At(1, 0)+slope*x+rest*z)
			both, first, second, total = both+w*p*(1-q), first+w*p, second+w*q, total+w
		}
	}
	both, first, second = both/total, first/total, second/total
	l := MonteCarlo{Samples: 100000}
	logp := testref.Must(l.JointLogPredictive(glm.Bernoulli{}, y, f, cov))(t)
	require.InDelta(t, math.Log(both), logp, .01)
	var mean, aleatoric, epistemic mat.Dense
	require.NoError(t, l.JointTo(&mean, &aleatoric, &epistemic, glm.Bernoulli{}, f, cov))
	require.InDelta(t, first, mean.At(0, 0), .005)
	// E[p(1−q)] = E p − E pq
	require.InDelta(t, first-both-first*second, epistemic.At(0, 1), .002)
	require.InDelta(t, first*(1-first), aleatoric.At(0, 0)+epistemic.At(0, 0), .005)
	unsupported := testref.As[*UnsupportedError](t, Exact{}.JointTo(nil, nil, nil, glm.Bernoulli{}, f, cov))
	require.ErrorAs(t, testref.Err(Exact{}.JointLogPredictive(glm.Bernoulli{}, y, f, cov)), &unsupported)
}

// Several targets are predicted each by itself, from its own block of the covariance.
func TestHeteroscedasticTargetsAreApart(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(3)
	f, cov := testref.Vec(rng, 6, 1), testref.Cov(rng, 6, 8, 1)
	y := testref.Vec(rng, 3, 1)
	got := testref.Must(h.LogMarginal(y, f, cov.RawMatrix().Data))(t)
	want := 0.0
	for j := range 3 {
		logp, err := h.LogMarginal(y[j:j+1], []float64{f[j], f[3+j]}, []float64{cov.At(j, j), cov.At(j, 3+j), cov.At(3+j, j), cov.At(3+j, 3+j)})
		require.NoError(t, err)
		want += logp
	}
	require.InDelta(t, want, got, 1e-12)
	var lo, hi mat.Dense
	require.NoError(t, IntervalTo(context.Background(), &lo, &hi, .9, h, mat.NewDense(1, 6, f), cov))
	for j := range 3 {
		require.InDelta(t, .05, h.CoupledCDF(j, lo.At(0, j), f, cov.RawMatrix().Data), 1e-9)
		require.InDelta(t, .95, h.CoupledCDF(j, hi.At(0, j), f, cov.RawMatrix().Data), 1e-9)
	}
	_, cols := lo.Dims()
	require.Equal(t, 3, cols)
}
