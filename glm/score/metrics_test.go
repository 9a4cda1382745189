package score

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// Four rows of three classes, worked out by hand.
var (
	handProb = mat.NewDense(4, 3, []float64{
		0.7, 0.2, 0.1, // right
		0.3, 0.6, 0.1, // wrong, in bin (8/15, 9/15]: 0.6 is its right edge
		0.1, 0.1, 0.8, // right
		0.55, 0.05, 0.4, // right, in the same bin as the second
	})
	handLabels = []int{0, 0, 2, 0}
)

// For each class the bins by hand: of class 0 (.7), (.3) and (.55), all hits, and (.1) are alone, and so are .2, .05 and .8, .4 of the
// others; .6 and .1 of class 1 too, and two .1 of class 2 share a bin.
func TestClasswise(t *testing.T) {
	c := NewClasswise(3)
	require.True(t, math.IsNaN(c.ECE()))
	for i, y := range handLabels {
		for k, p := range handProb.RawRowView(i) {
			c.Add(k, p, k == y)
		}
	}
	require.InDelta(t, ((.3+.7+.1+.45)+(.2+.6+.1+.05)+(.1+.1+.2+.4))/4/3, c.ECE(), 1e-15)
}

func TestMetricsByHand(t *testing.T) {
	require.Equal(t, 0.75, Accuracy(handProb, handLabels))
	// .09+.04+.01 + .49+.36+.01 + .01+.01+.04 + .2025+.0025+.16
	require.InDelta(t, (0.14+0.86+0.06+0.365)/4, Brier(handProb, handLabels), 1e-15)
	// (10/15, 11/15]: |1 − .7|; (8/15, 9/15]: |1 − (.6+.55)|; (11/15, 12/15]: |1 − .8|
	require.InDelta(t, (0.3+0.15+0.2)/4, ECE(handProb, handLabels), 1e-15)
	require.InDelta(t, (0.1+0.2+2)/3, NLL([]float64{-0.1, -0.2, -2}), 1e-15)
	require.Equal(t, math.Inf(1), NLL([]float64{-1, math.Inf(-1)}))
	require.Equal(t, 3.5/4, AUROC([]float64{1, 2}, []float64{2, 3})) // pairs: 2>1, 2=2, 3>1, 3>2
}

// Bins are closed on the right, (b/15, (b+1)/15], and zero is in the first.
func TestECEBinsAreRightClosed(t *testing.T) {
	require.Equal(t, 0, eceBin(0))
	for b := range eceBins {
		edge := float64(b+1) / eceBins
		require.Equal(t, b, eceBin(edge))
		require.Equal(t, b, eceBin(math.Nextafter(edge, 0)))
		require.Equal(t, min(b+1, eceBins-1), eceBin(math.Nextafter(edge, 2)))
	}
}

func TestMetricsAgainstBruteForce(t *testing.T) {
	rng := testref.Rand(1)
	for range 50 {
		n, k := 1+rng.IntN(60), 2+rng.IntN(5)
		prob, labels := mat.NewDense(n, k, nil), make([]int, n)
		for i := range n {
			integral.SoftmaxTo(prob.RawRowView(i), testref.Vec(rng, k, 2))
			labels[i] = rng.IntN(k)
		}
		hits, brier, ece := 0.0, 0.0, 0.0
		for b := range 15 {
			count, right, confidence := 0.0, 0.0, 0.0
			for i := range n {
				p := mat.Max(prob.RowView(i))
				if !(p > float64(b)/15 && p <= float64(b+1)/15) {
					continue
				}
				count++
				confidence += p
				if prob.At(i, labels[i]) == p {
					right++
				}
			}
			hits += right
			if count > 0 {
				ece += count / float64(n) * math.Abs(right/count-confidence/count)
			}
		}
		for i := range n {
			for c := range k {
				d := prob.At(i, c)
				if c == labels[i] {
					d = 1 - d
				}
				brier += d * d / float64(n)
			}
		}
		require.InDelta(t, hits/float64(n), Accuracy(prob, labels), 1e-15)
		require.InDelta(t, ece, ECE(prob, labels), 1e-14)
		require.InDelta(t, brier, Brier(prob, labels), 1e-14)
	}
}

func TestAUROCAgainstAllPairs(t *testing.T) {
	rng := testref.Rand(2)
	for range 50 {
		in, out := make([]float64, 1+rng.IntN(40)), make([]float64, 1+rng.IntN(40))
		for i := range in {
			in[i] = float64(rng.IntN(9)) // ties
		}
		for i := range out {
			out[i] = float64(rng.IntN(12))
		}
		out[0] = math.Inf(1 - 2*rng.IntN(2))
		want := 0.0
		for _, a := range in {
			for _, b := range out {
				switch {
				case b > a:
					want++
				case b == a:
					want += 0.5
				}
			}
		}
		want /= float64(len(in) * len(out))
		require.InDelta(t, want, AUROC(in, out), 1e-14)
		require.InDelta(t, 1-want, AUROC(out, in), 1e-14)
	}
	require.Equal(t, 0.5, AUROC([]float64{math.Inf(1)}, []float64{math.Inf(1)}))
}

func TestEntropy(t *testing.T) {
	prob := mat.NewDense(3, 4, []float64{0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0, 0.5, 0.5, 0, 0})
	h := make([]float64, 3)
	EntropyTo(h, prob)
	require.InDeltaSlice(t, []float64{math.Log(4), 0, math.Ln2}, h, 1e-15)
	require.False(t, math.Signbit(h[1]))
	require.Panics(t, func() { EntropyTo(h[:2], prob) })
}

func TestMetricsOfNothingAndNaN(t *testing.T) {
	for name, got := range map[string]float64{
		"NLL":        NLL(nil),
		"Accuracy":   Accuracy(&mat.Dense{}, nil),
		"Brier":      Brier(&mat.Dense{}, nil),
		"ECE":        ECE(&mat.Dense{}, nil),
		"AUROC in":   AUROC(nil, []float64{1}),
		"AUROC out":  AUROC([]float64{1}, nil),
		"AUROC NaN":  AUROC([]float64{1, math.NaN()}, []float64{1}),
		"AUROC NaN'": AUROC([]float64{1}, []float64{math.NaN()}),
	} {
		require.True(t, math.IsNaN(got), name)
	}
	nan := mat.NewDense(2, 2, []float64{0.9, math.NaN(), 0.5, 0.5})
	for _, metric := range []func(*mat.Dense, []int) float64{Accuracy, Brier, ECE} {
		require.True(t, math.IsNaN(metric(nan, []int{0, 1})))
		require.Panics(t, func() { metric(nan, []int{0}) })
		require.Panics(t, func() { metric(nan, []int{0, 2}) })
		require.Panics(t, func() { metric(nan, []int{-1, 0}) })
	}
}

func TestTiesGoToTheFirstClass(t *testing.T) {
	prob := mat.NewDense(1, 2, []float64{0.5, 0.5})
	require.Equal(t, 1.0, Accuracy(prob, []int{0}))
	require.Equal(t, 0.0, Accuracy(prob, []int{1}))
}

func logPredictive(t testing.TB, l predictive.Link, lik glm.Likelihood, y, f, cov *mat.Dense) []float64 {
	t.Helper()
	n, _ := f.Dims()
	dst := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(dst, lik, y, f, cov))
	return dst
}

// Monte Carlo agrees with the closed forms, and the metrics compare targets with means.
func TestHeteroscedasticLinksAndScores(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(5)
	f, cov := testref.Posterior(6, 40, 4, 0.2)
	y := mat.NewDense(40, 2, nil)
	for i := range 40 {
		for j := range 2 {
			y.Set(i, j, f.At(i, j)+0.3*rng.NormFloat64())
		}
	}
	var exact, drawn, aleatoric, epistemic, a, e mat.Dense
	mc := predictive.MonteCarlo{Samples: 20000, Seed: 3}
	require.NoError(t, predictive.Exact{}.PredictTo(&exact, nil, h, f, cov))
	require.NoError(t, mc.PredictTo(&drawn, nil, h, f, cov))
	require.NoError(t, predictive.Exact{}.SplitTo(&aleatoric, &epistemic, h, f, cov))
	require.NoError(t, mc.SplitTo(&a, &e, h, f, cov))
	for i := range 40 {
		for j := range 2 {
			sd := math.Sqrt(epistemic.At(i, j))
			require.InDelta(t, exact.At(i, j), drawn.At(i, j), 5*sd/math.Sqrt(20000))
			require.InEpsilon(t, aleatoric.At(i, j), a.At(i, j), .1)
			require.InEpsilon(t, epistemic.At(i, j), e.At(i, j), .1)
		}
	}
	require.InDeltaSlice(t, logPredictive(t, predictive.Exact{}, h, y, f, cov), logPredictive(t, predictive.MonteCarlo{Samples: 20000}, h, y, f, cov), .3)
	s := testref.Must(ScoreOf(nil, h, y, f, cov))(t)
	sum := 0.0
	for i := range 40 {
		for j := range 2 {
			sum += math.Pow(y.At(i, j)-f.At(i, j), 2)
		}
	}
	require.InDelta(t, math.Sqrt(sum/80), s.RMSE, 1e-12)
	n := testref.Must(NoveltyOf(context.Background(), nil, h, f, cov))(t)
	for i, v := range n.Score {
		require.InDelta(t, aleatoric.At(i, 0)+aleatoric.At(i, 1)+epistemic.At(i, 0)+epistemic.At(i, 1), v, 1e-12)
	}
}

// Calibration finds the scale by which a covariance is wrong.
func TestE18Heteroscedastic(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(8)
	const n = 300
	f, cov, y := mat.NewDense(n, 2, nil), mat.NewDense(2*n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		// Means with variance .5 and log variances with .2, said to be ten times as wide.
		m, s := rng.NormFloat64(), rng.NormFloat64()-1
		f.SetRow(i, []float64{m, s})
		cov.Set(2*i, 0, 5)
		cov.Set(2*i+1, 1, 2)
		at, noise := m+math.Sqrt(.5)*rng.NormFloat64(), s+math.Sqrt(.2)*rng.NormFloat64()
		y.Set(i, 0, at+math.Exp(noise/2)*rng.NormFloat64())
	}
	c := testref.Must(Calibrate(context.Background(), h, y, f, cov, nil))(t)
	require.InDelta(t, math.Log(.1), math.Log(c.Scale), .8)
	require.Equal(t, 1.0, c.NoiseScale)
}

// Intervals are as wide as the noise is at their input, and hold their share.
func TestHeteroscedasticJackknife(t *testing.T) {
	h, rng := glm.Heteroscedastic{}, testref.Rand(9)
	const n = 2000
	f, y := mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		m, s := rng.NormFloat64(), 2*rng.NormFloat64()
		f.SetRow(i, []float64{m, s})
		y.Set(i, 0, m+math.Exp(s/2)*rng.NormFloat64())
	}
	j := testref.Must(NewJackknife(h, .9, y, f))(t)
	at := func(m, s float64) (lo, hi float64) {
		same := mat.NewDense(n, 2, nil)
		for i := range n {
			same.SetRow(i, []float64{m, s})
		}
		return j.Interval(0, same)
	}
	for _, s := range []float64{-2, 0, 3} {
		lo, hi := at(1, s)
		require.InEpsilon(t, 1.645, (hi-1)*math.Exp(-s/2), .06)
		require.InEpsilon(t, 1.645, (1-lo)*math.Exp(-s/2), .06)
	}
}
