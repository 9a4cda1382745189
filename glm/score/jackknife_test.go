package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestJackknifeRank compares ⌈(1−α)(n+1)⌉ with integers computed from the percents,
// which have no rounding.
func TestJackknifeRank(t *testing.T) {
	for percent := 1; percent < 100; percent++ {
		coverage := testref.Must(strconv.ParseFloat("0."+strconv.Itoa(100 + percent)[1:], 64))(t)
		for _, n := range []int{1, 2, 9, 10, 19, 20, 99, 100, 123, 55000} {
			want := (percent*(n+1) + 99) / 100
			k, err := JackknifeRank(n, coverage)
			if want > n {
				// α < 1/(n+1)
				require.Greater(t, percent*(n+1), 100*n)
				e := testref.As[*CoverageError](t, err)
				require.Equal(t, CoverageError{Coverage: coverage, Rows: n}, *e)
				require.Contains(t, e.Error(), strconv.Itoa(n))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, k, "coverage %v, n = %d", coverage, n)
		}
	}
	for _, coverage := range []float64{0, 1, -0.1, 1.5, math.NaN(), math.Inf(1), 100} {
		e := testref.As[*CoverageError](t, testref.Err(JackknifeRank(100, coverage)))
		require.Zero(t, e.Rows)
		require.Contains(t, e.Error(), "between 0 and 1")
	}
}

// gaussianJackknife is a Jackknife of one output with the given scores, of targets
// that are the scores and predictions that are zero.
func gaussianJackknife(t *testing.T, coverage float64, scores ...float64) *Jackknife {
	t.Helper()
	lik := testref.Must(glm.NewGaussian(1))(t)
	j, err := NewJackknife(lik, coverage, mat.NewDense(len(scores), 1, scores), mat.NewDense(len(scores), 1, nil))
	require.NoError(t, err)
	return j
}

// TestJackknifeOrderStatistics is Barber et al. (2021), section 1.2: the ends are the
// ⌊α(n+1)⌋-th smallest of μ_−i(x*) − R_i and the ⌈(1−α)(n+1)⌉-th smallest of
// μ_−i(x*) + R_i.
func TestJackknifeOrderStatistics(t *testing.T) {
	// μ − R = −9, …, −1 plus 0, 10, …, 80: −1, 8, 17, …; μ + R = 1, 12, 23, …, 89
	var mean []float64
	scores := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for i := range scores {
		mean = append(mean, 10*float64(i))
	}
	for coverage, want := range map[float64][2]float64{
		.9: {-1, 89}, // α(n+1) = 1
		.8: {8, 78},
		.5: {35, 45}, // ranks 5 and 5
		.1: {71, 1},  // ranks 9 and 1: the interval may be empty
		.85: {
			-1, 89, // ⌊1.5⌋ = 1 and ⌈8.5⌉ = 9
		},
	} {
		lo, hi := gaussianJackknife(t, coverage, scores...).Interval(0, mat.NewDense(9, 1, mean))
		require.Equal(t, want, [2]float64{lo, hi}, "coverage %v", coverage)
	}
}

// TestJackknifeIntervalAgainstDefinition compares random intervals with sorted lists.
func TestJackknifeIntervalAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 1 + rng.IntN(30)
		y, loo, at := mat.NewDense(n, 2, nil), mat.NewDense(n, 2, nil), mat.NewDense(n, 2, nil)
		for _, m := range []*mat.Dense{y, loo, at} {
			m.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, m)
		}
		lik := testref.Must(glm.NewGaussian(1))(t)
		coverage := rng.Float64() * float64(n) / float64(n+1)
		j := testref.Must(NewJackknife(lik, coverage, y, loo))(t)
		require.Zero(t, j.Classes())
		for v := range 2 {
			var below, above []float64
			for i := range n {
				r := math.Abs(y.At(i, v) - loo.At(i, v))
				below, above = append(below, at.At(i, v)-r), append(above, at.At(i, v)+r)
			}
			slices.Sort(below)
			slices.Sort(above)
			rank := int(math.Ceil(coverage * float64(n+1)))
			lo, hi := j.Interval(v, at)
			require.Equal(t, above[rank-1], hi)
			require.Equal(t, below[n-rank], lo)
		}
	}
}

// TestJackknifeUnknownPredictionsWiden checks that an example without a prediction of
// its own counts as infinitely far, and that infinite rates give no NaN.
func TestJackknifeUnknownPredictionsWiden(t *testing.T) {
	lik := testref.Must(glm.NewGaussian(1))(t)
	const n = 19
	y, loo, at := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		y.Set(i, 0, float64(i+1))
	}
	loo.Set(0, 0, math.NaN())
	at.Set(0, 0, math.NaN())
	j := testref.Must(NewJackknife(lik, .9, y, loo))(t)
	require.Equal(t, 1, j.Unknown())
	// Scores 2, …, 19 and one that is infinite: rank 18 of 19 is 19, not 18.
	lo, hi := j.Interval(0, at)
	require.Equal(t, [2]float64{-19, 19}, [2]float64{lo, hi})
	j = testref.Must(NewJackknife(lik, .95, y, loo))(t)
	lo, hi = j.Interval(0, at)
	require.Equal(t, [2]float64{math.Inf(-1), math.Inf(1)}, [2]float64{lo, hi})

	rates := mat.NewDense(n, 1, nil)
	rates.Set(3, 0, 1e4) // a rate beyond a float64
	j = testref.Must(NewJackknife(glm.Poisson{}, .95, y, rates))(t)
	lo, hi = j.Interval(0, rates)
	require.Equal(t, [2]float64{0, math.Inf(1)}, [2]float64{lo, hi})
}

// TestJackknifeOfCounts checks that an integer lies in the interval of counts exactly
// where it lies in the interval of rates.
func TestJackknifeOfCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	identity := testref.Must(glm.NewGaussian(1))(t)
	for range 200 {
		const n = 12
		y, loo, at := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
		y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(6)) }, y)
		for _, m := range []*mat.Dense{loo, at} {
			m.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, m)
		}
		coverage := .05 + .85*rng.Float64()
		counts := testref.Must(NewJackknife(glm.Poisson{}, coverage, y, loo))(t)
		lo, hi := counts.Interval(0, at)
		exp := func(m *mat.Dense) *mat.Dense {
			var e mat.Dense
			e.Apply(func(_, _ int, v float64) float64 { return math.Exp(v) }, m)
			return &e
		}
		rates := testref.Must(NewJackknife(identity, coverage, y, exp(loo)))(t)
		from, to := rates.Interval(0, exp(at))
		for k := range 40 {
			v := float64(k)
			require.Equal(t, from <= v && v <= to, lo <= v && v <= hi, "%d in [%v, %v] and [%v, %v]", k, from, to, lo, hi)
		}
		require.True(t, lo == math.Trunc(lo) && hi == math.Trunc(hi) && lo >= 0)
	}
	// Ends that are integers but for rounding.
	lo, hi := integersWithin(math.Nextafter(3, 4), math.Nextafter(7, 6))
	require.Equal(t, [2]float64{3, 7}, [2]float64{lo, hi})
}

// TestJackknifeSetAgainstDefinition compares sets with the rule
// Σ_i 1[s_i < s(x*, y; −i)] < (1−α)(N+1) for s = 1 − p_y, ties included.
func TestJackknifeSetAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		n, c := 1+rng.IntN(25), 1+rng.IntN(4)
		var lik glm.Likelihood = glm.Categorical{}
		classes := c
		if c == 1 {
			lik, classes = glm.Bernoulli{}, 2
		}
		score := func(f []float64, k int) float64 {
			if c == 1 {
				return 1 - 1/(1+math.Exp(-float64(2*k-1)*f[0]))
			}
			sum := 0.0
			for _, v := range f {
				sum += math.Exp(v)
			}
			return 1 - math.Exp(f[k])/sum
		}
		y, loo, at := mat.NewDense(n, 1, nil), mat.NewDense(n, c, nil), mat.NewDense(n, c, nil)
		y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(classes)) }, y)
		loo.Apply(func(_, _ int, _ float64) float64 { return 3 * rng.NormFloat64() }, loo)
		at.Apply(func(i, k int, _ float64) float64 {
			if i%3 == 0 {
				return loo.At(i, k) // a tie, where the class is the example's
			}
			return 3 * rng.NormFloat64()
		}, at)
		coverage := rng.Float64() * float64(n) / float64(n+1)
		j := testref.Must(NewJackknife(lik, coverage, y, loo))(t)
		require.Equal(t, classes, j.Classes())
		in := j.Set(0, at)
		require.Len(t, in, classes)
		for k := range classes {
			smaller := 0
			for i := range n {
				if score(loo.RawRowView(i), int(y.At(i, 0))) < score(at.RawRowView(i), k) {
					smaller++
				}
			}
			require.Equal(t, float64(smaller) < coverage*float64(n+1), in[k])
		}
	}
}

// TestJackknifeSetTellsFarLogitsApart checks that the score keeps its order where
// 1 − p is 0 or 1 to rounding, and that unknown predictions put classes in.
func TestJackknifeSetTellsFarLogitsApart(t *testing.T) {
	const n = 9
	y, loo, at := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		loo.Set(i, 0, -100-float64(i)) // class 0 with 1 − p below rounding
		at.Set(i, 0, -99.5)
	}
	j := testref.Must(NewJackknife(glm.Bernoulli{}, .9, y, loo))(t)
	require.Equal(t, []bool{false, false}, j.Set(0, at), "less likely than any training example's own class")
	at.Set(0, 0, -100)
	require.Equal(t, []bool{true, false}, j.Set(0, at), "a tie")
	at.Set(0, 0, math.NaN())
	require.Equal(t, []bool{true, true}, j.Set(0, at))
}

func TestJackknifeRefusesTargets(t *testing.T) {
	zero := mat.NewDense(2, 1, nil)
	var e *glm.TargetError
	_, err := NewJackknife(glm.Bernoulli{}, .5, mat.NewDense(2, 1, []float64{0, .5}), zero)
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "training example 1")
	require.ErrorAs(t, testref.Err(NewJackknife(glm.Poisson{}, .5, mat.NewDense(2, 1, []float64{-1, 0}), zero)), &e)
	require.Panics(t, func() { _, _ = NewJackknife(glm.Poisson{}, .5, mat.NewDense(1, 1, nil), zero) })
	sets := testref.Must(NewJackknife(glm.Bernoulli{}, .5, zero, zero))(t)
	require.Panics(t, func() { sets.Interval(0, zero) })
	require.Panics(t, func() { sets.Set(0, mat.NewDense(3, 1, nil)) })
	require.Panics(t, func() { gaussianJackknife(t, .5, 1, 2).Set(0, zero) })
}

// TestJackknifeGuarantee draws exchangeable data and fits the mean, where the
// leave-one-out fits are known in closed form. Coverage is at least 1 − 2α and, for
// this stable fit, near 1 − α, also of classes and of discrete data full of ties.
func TestJackknifeGuarantee(t *testing.T) {
	const n, trials, alpha = 19, 4000, .2
	gaussian := testref.Must(glm.NewGaussian(1))(t)
	for name, draw := range map[string]struct {
		lik glm.Likelihood
		y   func(rng *rand.Rand) float64
		// f_−i from the mean of the targets without i
		f func(mean float64) float64
	}{
		"normal":  {gaussian, func(rng *rand.Rand) float64 { return rng.NormFloat64() }, func(m float64) float64 { return m }},
		"cauchy":  {gaussian, func(rng *rand.Rand) float64 { return rng.NormFloat64() / rng.NormFloat64() }, func(m float64) float64 { return m }},
		"ties":    {gaussian, func(rng *rand.Rand) float64 { return float64(rng.IntN(3)) }, func(m float64) float64 { return m }},
		"counts":  {glm.Poisson{}, func(rng *rand.Rand) float64 { return float64(rng.IntN(4) * rng.IntN(4)) }, func(m float64) float64 { return math.Log(m + .1) }},
		"classes": {glm.Bernoulli{}, func(rng *rand.Rand) float64 { return float64(rng.IntN(4) / 3) }, func(m float64) float64 { return math.Log((m + .1) / (1.1 - m)) }},
	} {
		rng := rand.New(rand.NewPCG(7, 8))
		hits := 0
		for range trials {
			y, f, sum := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil), 0.0
			for i := range n {
				y.Set(i, 0, draw.y(rng))
				sum += y.At(i, 0)
			}
			for i := range n {
				f.Set(i, 0, draw.f((sum-y.At(i, 0))/(n-1)))
			}
			j := testref.Must(NewJackknife(draw.lik, 1-alpha, y, f))(t)
			next := draw.y(rng)
			if j.Classes() > 0 {
				if j.Set(0, f)[int(next)] {
					hits++
				}
				continue
			}
			if lo, hi := j.Interval(0, f); lo <= next && next <= hi {
				hits++
			}
		}
		_, hi := ClopperPearson(hits, trials, .999)
		require.GreaterOrEqual(t, hi, 1-alpha, name)
		lo, _ := ClopperPearson(hits, trials, .999)
		require.GreaterOrEqual(t, lo, 1-2*alpha, name)
	}
}

// TestClopperPearson compares with sums of binomial probabilities: the ends are
// the probabilities at which so many hits or more, or so many or fewer, have
// probability 2.5 %.
func TestClopperPearson(t *testing.T) {
	tail := func(p float64, n, from, to int) float64 {
		sum := 0.0
		for k := from; k <= to; k++ {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(k + 1))
			c, _ := math.Lgamma(float64(n - k + 1))
			sum += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		}
		return sum
	}
	for _, c := range [][2]int{{1, 2}, {0, 10}, {10, 10}, {5, 10}, {88, 100}, {1801, 1991}} {
		k, n := c[0], c[1]
		lo, hi := ClopperPearson(k, n, .95)
		require.LessOrEqual(t, lo, float64(k)/float64(n))
		require.GreaterOrEqual(t, hi, float64(k)/float64(n))
		if k > 0 {
			require.InDelta(t, .025, tail(lo, n, k, n), 1e-9)
		} else {
			require.Zero(t, lo)
		}
		if k < n {
			require.InDelta(t, .025, tail(hi, n, 0, k), 1e-9)
		} else {
			require.Equal(t, 1.0, hi)
		}
	}
	lo, hi := ClopperPearson(0, 0, .95)
	require.Equal(t, [2]float64{0, 1}, [2]float64{lo, hi})
	require.Panics(t, func() { ClopperPearson(3, 2, .95) })
	require.Panics(t, func() { ClopperPearson(1, 2, 1) })
}
