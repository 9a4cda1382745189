package score

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/testref"
)

// The novelty of a class is the entropy of the unscaled predictive, and the mutual
// information what the spread of f adds to the mean entropy: both against sums over
// a fine grid.
func TestNoveltyOfOneOutput(t *testing.T) {
	rng := testref.Rand(21)
	const n = 30
	mean, cov := testref.Moments(rng, n, 1, 2, 1.5)
	v := testref.Must(NoveltyOf(t.Context(), nil, glm.Bernoulli{}, mean, cov))(t)
	h := func(p float64) float64 { return -p*math.Log(p) - (1-p)*math.Log(1-p) }
	for i := range n {
		p, expected, norm := 0.0, 0.0, 0.0
		for k := -2400; k <= 2400; k++ {
			z := float64(k) / 300
			w := math.Exp(-z * z / 2)
			q := 1 / (1 + math.Exp(-mean.At(i, 0)-math.Sqrt(cov.At(i, 0))*z))
			norm += w
			p += w * q
			expected += w * h(q)
		}
		require.InDelta(t, h(p/norm), v.Score[i], 1e-9)
		if !math.IsNaN(v.Mutual[i]) {
			require.InDelta(t, h(p/norm)-expected/norm, v.Mutual[i], 1e-9)
		}
	}
}

// The novelty of a regression is the predictive variance of the targets, summed over
// the outputs.
func TestNoveltyOfARegression(t *testing.T) {
	rng := testref.Rand(22)
	mean, cov := testref.Moments(rng, 8, 2, 1, 1)
	lik := testref.Must(glm.NewGaussianVector([]float64{0.5, 2}))(t)
	v := testref.Must(NoveltyOf(t.Context(), nil, lik, mean, cov))(t)
	for i := range 8 {
		require.InDelta(t, cov.At(2*i, 0)+cov.At(2*i+1, 1)+2.5, v.Score[i], 1e-12)
	}
	mean.Set(3, 0, math.NaN())
	v = testref.Must(NoveltyOf(t.Context(), nil, lik, mean, cov))(t)
	require.True(t, math.IsNaN(v.Score[3]) && math.IsNaN(v.Mutual[3]) && !math.IsNaN(v.Score[4]))

	mean, cov = mat.NewDense(1, 1, []float64{0.3}), mat.NewDense(1, 1, []float64{0.7})
	v = testref.Must(NoveltyOf(t.Context(), nil, glm.Poisson{}, mean, cov))(t)
	// E λ + Var λ of a log-normal rate
	require.InDelta(t, math.Exp(0.65)+math.Exp(1.3)*math.Expm1(0.7), v.Score[0], 1e-12)

	var value *predictive.ValueError
	mean, cov = testref.Moments(rng, 50, 1, 1, 1)
	cov.Set(37, 0, -1)
	require.ErrorAs(t, testref.Err(NoveltyOf(t.Context(), nil, glm.Poisson{}, mean, cov)), &value)
	require.Equal(t, 37, value.Row)
}

// The novelty of more than two classes is the entropy at the logits less their mean,
// each divided by √(1 + π/8 of its variance): written here with matrices. A shift common
// to all logits, of the mean or of the covariance, does not change it.
func TestNoveltyOfSeveralClasses(t *testing.T) {
	rng := testref.Rand(24)
	const n, c = 20, 4
	mean, cov := testref.Moments(rng, n, c, 2, 3)
	v := testref.Must(NoveltyOf(t.Context(), nil, glm.Categorical{}, mean, cov))(t)
	h := mat.NewDense(c, c, nil)
	h.Apply(func(i, j int, _ float64) float64 { return map[bool]float64{true: 1}[i == j] - 1.0/c }, h)
	shifted, wider := mat.DenseCopyOf(mean), mat.DenseCopyOf(cov)
	for i := range n {
		var f, s mat.Dense
		f.Mul(h, mean.RowView(i))
		s.Mul(h, cov.Slice(i*c, (i+1)*c, 0, c))
		s.Mul(&s, h)
		z, entropy := 0.0, 0.0
		p := make([]float64, c)
		for a := range c {
			p[a] = math.Exp(f.At(a, 0) / math.Sqrt(1+math.Pi/8*s.At(a, a)))
			z += p[a]
		}
		for a := range c {
			entropy -= p[a] / z * math.Log(p[a]/z)
		}
		require.InDelta(t, entropy, v.Score[i], 1e-12)
		for a := range c {
			shifted.Set(i, a, mean.At(i, a)+7)
			for b := range c {
				wider.Set(i*c+a, b, cov.At(i*c+a, b)+40)
			}
		}
	}
	again := testref.Must(NoveltyOf(t.Context(), nil, glm.Categorical{}, shifted, wider))(t)
	require.InDeltaSlice(t, v.Score, again.Score, 1e-10)
	require.InDeltaSlice(t, v.Mutual, again.Mutual, 2e-3)
}

// A link without entropies gives no mutual information, and for several Bernoulli
// outputs, which are as many problems, the entropy of its mean.
func TestNoveltyByTheMean(t *testing.T) {
	rng := testref.Rand(23)
	mean, cov := testref.Moments(rng, 20, 4, 2, 1)
	v := testref.Must(NoveltyOf(t.Context(), predictive.Probit{}, glm.Categorical{}, mean, cov))(t)
	var prob mat.Dense
	require.True(t, math.IsNaN(v.Mutual[0]))
	// Two Bernoulli outputs are two problems.
	mean, cov = testref.Moments(rng, 5, 2, 2, 1)
	v = testref.Must(NoveltyOf(t.Context(), predictive.Probit{}, glm.Bernoulli{}, mean, cov))(t)
	require.NoError(t, predictive.Probit{}.PredictTo(&prob, nil, glm.Bernoulli{}, mean, cov))
	for i := range 5 {
		sum := 0.0
		for _, p := range prob.RawRowView(i) {
			sum -= p*math.Log(p) + (1-p)*math.Log(1-p)
		}
		require.InDelta(t, sum, v.Score[i], 1e-12)
	}
}

// The rank is the share of smaller training scores, where equal ones count half.
func TestRank(t *testing.T) {
	sorted := SortedScores([]float64{3, math.NaN(), 1, 2, 2})
	require.Equal(t, []float64{1, 2, 2, 3}, sorted)
	for score, want := range map[float64]float64{0: 0, 1: 0.125, 1.5: 0.25, 2: 0.5, 2.5: 0.75, 3: 0.875, 4: 1} {
		require.Equal(t, want, Rank(sorted, score), "%v", score)
	}
	require.Equal(t, 1.0, Rank(sorted, math.Inf(1)))
	require.Equal(t, 0.5, Rank([]float64{math.Inf(1)}, math.Inf(1)))
	require.True(t, math.IsNaN(Rank(sorted, math.NaN())) && math.IsNaN(Rank(nil, 1)))
	rng := testref.Rand(24)
	for range 50 {
		scores := make([]float64, 1+rng.IntN(30))
		for i := range scores {
			scores[i] = float64(rng.IntN(6))
		}
		v, want := float64(rng.IntN(7)-1), 0.0
		for _, s := range scores {
			if s < v {
				want++
			} else if s == v {
				want += 0.5
			}
		}
		require.Equal(t, want/float64(len(scores)), Rank(SortedScores(scores), v))
	}
}
