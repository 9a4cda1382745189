package evaluate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// RanksTo writes the ranks of v, from 1; equal numbers share the mean of their ranks.
func RanksTo(dst, v []float64) {
	if len(dst) != len(v) {
		panic("evaluate: ranks and numbers differ in length")
	}
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(v[a], v[b]) })
	for lo := 0; lo < len(order); {
		hi := lo + 1
		for hi < len(order) && v[order[hi]] == v[order[lo]] {
			hi++
		}
		for _, i := range order[lo:hi] {
			dst[i] = float64(lo+hi+1) / 2
		}
		lo = hi
	}
}

// Spearman is the correlation of the ranks of a and b. It is NaN where all numbers of
// one of them are equal, or there are fewer than two.
func Spearman(a, b []float64) float64 {
	if len(a) != len(b) {
		panic("evaluate: correlated numbers differ in length")
	}
	ra, rb := make([]float64, len(a)), make([]float64, len(b))
	RanksTo(ra, a)
	RanksTo(rb, b)
	return stat.Correlation(ra, rb, nil)
}

// PredictionsTo writes the outcome that additive scores predict for each subset, the sum
// of the scores of its training rows, S×T for S subsets and T×N scores.
func PredictionsTo(dst *mat.Dense, scores *mat.Dense, subsets [][]int) {
	rows, n := scores.Dims()
	members := mat.NewDense(len(subsets), n, nil)
	for s, list := range subsets {
		for _, i := range list {
			members.Set(s, i, 1)
		}
	}
	dst.ReuseAs(len(subsets), rows)
	dst.Mul(members, scores.T())
}

// Correlations are the Spearman correlations of each column of a with that of b over
// their rows, for S×T matrices T numbers. Of predictions with the outcomes of retrained
// networks they are the linear datamodeling scores of the T test rows (Park et al. 2023).
func Correlations(a, b mat.Matrix) []float64 {
	s, t := a.Dims()
	if bs, bt := b.Dims(); bs != s || bt != t {
		panic("evaluate: correlated matrices differ in size")
	}
	out := make([]float64, t)
	for j := range out {
		out[j] = Spearman(mat.Col(nil, j, a), mat.Col(nil, j, b))
	}
	return out
}

// A Score is a mean over test rows with what is known of its error.
type Score struct {
	Mean      float64
	Low, High float64 // 95 % interval of the mean by the bootstrap over test rows, given the subsets
	Subsets   float64 // standard error by the choice of subsets: a jackknife in ten groups
	Rows      int     // test rows with a correlation
}

// Datamodel returns the linear datamodeling score: the mean over test rows of the
// Correlations of predictions and outcomes, both S×T. Test rows whose predictions or
// outcomes are all equal have no correlation and are left out. Draws of the bootstrap are
// those of the seed.
func Datamodel(predictions, outcomes mat.Matrix, seed uint64) Score {
	rows := numbers(Correlations(predictions, outcomes))
	score := Score{Mean: stat.Mean(rows, nil), Rows: len(rows)}
	score.Low, score.High = Bootstrap(rows, 2000, 0.95, seed)
	score.Subsets = jackknife(predictions, outcomes)
	return score
}

// numbers returns those of v that are not NaN.
func numbers(v []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(v), math.IsNaN)
}

// groups is the number of groups of the jackknife over subsets.
const groups = 10

// jackknife returns the standard error of a Datamodel by the subsets, NaN with fewer than
// two subsets a group. Group k has the subsets whose number leaves the remainder k.
func jackknife(predictions, outcomes mat.Matrix) float64 {
	s, _ := predictions.Dims()
	if s < 2*groups {
		return math.NaN()
	}
	var means []float64
	for k := range groups {
		var rest []int
		for i := range s {
			if i%groups != k {
				rest = append(rest, i)
			}
		}
		means = append(means, stat.Mean(numbers(Correlations(pickRows(predictions, rest), pickRows(outcomes, rest))), nil))
	}
	// (g−1)/g Σ (θ_k − mean)², where the variance has the divisor g − 1
	return math.Sqrt(stat.Variance(means, nil) * (groups - 1) * (groups - 1) / groups)
}

// pickRows returns the given rows of m.
func pickRows(m mat.Matrix, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for i, at := range rows {
		to.SetRow(i, mat.Row(nil, at, m))
	}
	return to
}

// Bootstrap returns the interval that holds the share coverage of the means of resamples
// of v with replacement, cut equally on both sides. It is NaN without numbers.
func Bootstrap(v []float64, draws int, coverage float64, seed uint64) (low, high float64) {
	if draws < 1 || !(coverage > 0 && coverage < 1) {
		panic("evaluate: a bootstrap without draws or with a coverage outside 0 to 1")
	}
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	means := make([]float64, draws)
	for d := range means {
		sum := 0.0
		for range v {
			sum += v[rng.IntN(len(v))]
		}
		means[d] = sum / float64(len(v))
	}
	slices.Sort(means)
	tail := (1 - coverage) / 2
	return stat.Quantile(tail, stat.Empirical, means, nil), stat.Quantile(1-tail, stat.Empirical, means, nil)
}

// Ceiling returns the largest linear datamodeling score that predictions can have against
// the mean of runs runs a subset, when two runs on the same subset correlate by
// agreement: the square root of the reliability of that mean, by the formula of Spearman
// and Brown. It is NaN for an agreement below 0.
func Ceiling(agreement float64, runs int) float64 {
	k := float64(runs)
	return math.Sqrt(k * agreement / (1 + (k-1)*agreement))
}

// Outcomes returns the target of each test row in each run, S×T, from outputs of S runs,
// T×C each, and the true targets of the test rows.
func Outcomes(outputs []*mat.Dense, y *mat.Dense, target Target) *mat.Dense {
	rows, _ := y.Dims()
	to := mat.NewDense(len(outputs), rows, nil)
	for s, f := range outputs {
		for t := range rows {
			to.Set(s, t, target.Value(y.RawRowView(t), f.RawRowView(t)))
		}
	}
	return to
}
