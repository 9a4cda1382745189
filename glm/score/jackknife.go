package score

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
)

// A Jackknife makes intervals and sets for new observations by jackknife+: from the predictions of N fits, each
// without one training example.
//
// A new target of a regression is in Interval, or a new class in Set, with a probability of at least 1 − 2α, α = 1
// − coverage. In practice the probability is close to the coverage. The bound is an average over inputs. It holds
// where the examples are exchangeable and the fit does not depend on their order. A training example whose own
// prediction is unknown gets an infinite residual, which can only widen intervals and sets.
//
// The intervals are those of R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, Predictive inference with the
// jackknife+, Annals of Statistics 49, 2021. The sets are those of Y. Romano, M. Sesia, E. J. Candès,
// Classification with valid and adaptive coverage, NeurIPS 2020, with the score −log p(y|f) and without
// randomization.
//
// Several goroutines may use one Jackknife.
type Jackknife struct {
	lik     glm.Likelihood
	n, c    int // training examples, outputs
	classes int // classes of a set; 0 for intervals
	softmax bool
	scaled  bool // residuals are in units of σ, whose squares are the last outputs
	rank    int
	score   *mat.Dense // residual R_i or score s_i, N×variables; +Inf where unknown
	unknown int
}

// NewJackknife computes the scores of N training examples with targets y. Row i of mean, N×C, has the outputs at
// example i of the fit without it; a NaN marks an unknown prediction. The error is a *CoverageError for a coverage
// that N examples cannot give, and a *TargetError for a target that the likelihood does not accept, or that is not
// a class of a Bernoulli likelihood.
func NewJackknife(lik glm.Likelihood, coverage float64, y, mean *mat.Dense) (*Jackknife, error) {
	n, c := mean.Dims()
	rank, err := JackknifeRank(n, coverage)
	if err != nil {
		return nil, err
	}
	j := &Jackknife{lik: lik, n: n, c: c, rank: rank}
	variables := c
	if l, ok := lik.(glm.Logistic); ok {
		if j.classes, j.softmax = 2, l.Softmax(); j.softmax {
			j.classes, variables = c, 1
		}
	}
	if _, j.scaled = lik.(glm.Heteroscedastic); j.scaled {
		variables = lik.Targets(c)
	}
	rows, targets := y.Dims()
	if rows != n {
		panic("score: targets and predictions differ in number")
	}
	if targets != variables {
		return nil, fmt.Errorf("score: the %s likelihood has %d targets for %d outputs; jackknife+ needs one for each", lik.Name(), targets, c)
	}
	j.score = mat.NewDense(n, variables, nil)
	for i := range n {
		if err := lik.CheckY(y.RawRowView(i), c); err != nil {
			return nil, fmt.Errorf("score: training example %d: %w", i, err)
		}
		if hasNaN(mean.RawRowView(i)) {
			j.unknown++
			for v := range variables {
				j.score.Set(i, v, math.Inf(1))
			}
			continue
		}
		if err := j.scoreTo(j.score.RawRowView(i), y.RawRowView(i), mean.RawRowView(i)); err != nil {
			return nil, fmt.Errorf("score: training example %d: %w", i, err)
		}
	}
	return j, nil
}

// scoreTo writes the scores of one example with targets y and outputs f.
func (j *Jackknife) scoreTo(dst, y, f []float64) error {
	if j.classes == 0 {
		mu := make([]float64, j.c)
		j.lik.MeanTo(mu, f)
		for v := range dst {
			// R_i = |y_i − μ_−i(x_i)|, or R_i = |y_i − μ_−i(x_i)|/σ_−i(x_i)
			dst[v] = math.Abs(y[v]-mu[v]) / j.unit(mu, v)
		}
		return nil
	}
	all := make([]float64, j.classes)
	for v, k := range y {
		if !(k == math.Trunc(k) && k >= 0 && k < float64(j.classes)) {
			return &glm.TargetError{Likelihood: j.lik.Name(), Target: v, Value: k, Want: fmt.Sprintf("a class from 0 to %d for sets of classes", j.classes-1)}
		}
		j.classScoresTo(all, v, f)
		dst[v] = all[int(k)]
	}
	return nil
}

// unit returns the divisor of a residual: σ for a heteroscedastic likelihood, where mu is its response, and 1 for
// any other.
func (j *Jackknife) unit(mu []float64, variable int) float64 {
	if !j.scaled {
		return 1
	}
	return math.Sqrt(mu[j.c/2+variable])
}

// classScoresTo writes −log p(y|f) for each class y of a variable.
func (j *Jackknife) classScoresTo(dst []float64, variable int, f []float64) {
	if j.softmax {
		logRest, top := integral.SoftmaxTo(dst, f)
		for k, v := range f {
			dst[k] = logRest - (v - top)
		}
		return
	}
	// −log σ(−f) and −log σ(f)
	dst[0], dst[1] = integral.Softplus(f[variable]), integral.Softplus(-f[variable])
}

// Unknown returns the number of training examples whose own prediction is unknown.
func (j *Jackknife) Unknown() int { return j.unknown }

// Classes returns the number of classes of Set, 0 for a regression.
func (j *Jackknife) Classes() int { return j.classes }

// Interval returns the interval of one target of a new observation, in the unit of the targets. Row i of mean, N×C,
// has the outputs at the new input of the fit without example i. For counts the ends are integers ≥ 0. An infinite
// end means that the predictions of too many training examples are unknown. The interval is empty, lo > hi, where
// no integer is in it, and possibly for a coverage below one half.
func (j *Jackknife) Interval(output int, mean *mat.Dense) (lo, hi float64) {
	if j.classes > 0 {
		panic("score: classes have sets, not intervals")
	}
	j.check(mean)
	below, above, mu := make([]float64, j.n), make([]float64, j.n), make([]float64, j.c)
	for i := range j.n {
		r := j.score.At(i, output)
		if below[i], above[i] = math.Inf(-1), math.Inf(1); math.IsInf(r, 1) || hasNaN(mean.RawRowView(i)) {
			continue
		}
		j.lik.MeanTo(mu, mean.RawRowView(i))
		r *= j.unit(mu, output)
		below[i], above[i] = mu[output]-r, mu[output]+r
	}
	lo, hi = smallest(below, j.n+1-j.rank), smallest(above, j.rank)
	if _, counts := j.lik.(glm.Counting); counts {
		lo, hi = integersWithin(lo, hi)
	}
	return lo, hi
}

// Set tells for each class whether it is in the set of a new observation. mean is as for Interval. variable is the
// output of a Bernoulli likelihood, and 0 for a categorical one. The set is empty where every class is less likely
// than the true class was for nearly all training examples: the input is unlike them, or between classes.
func (j *Jackknife) Set(variable int, mean *mat.Dense) []bool {
	if j.classes == 0 {
		panic("score: numbers have intervals, not sets")
	}
	j.check(mean)
	smaller, s := make([]int, j.classes), make([]float64, j.classes)
	for i := range j.n {
		if hasNaN(mean.RawRowView(i)) {
			continue
		}
		j.classScoresTo(s, variable, mean.RawRowView(i))
		for k := range s {
			// 1[s_i < s(x*, k; −i)]
			if j.score.At(i, variable) < s[k] {
				smaller[k]++
			}
		}
	}
	in := make([]bool, j.classes)
	for k := range in {
		// Σ_i 1[…] < (1−α)(N+1)
		in[k] = smaller[k] < j.rank
	}
	return in
}

// check panics unless mean is N×C.
func (j *Jackknife) check(mean *mat.Dense) {
	if n, c := mean.Dims(); n != j.n || c != j.c {
		panic("score: predictions do not match the training examples")
	}
}

// smallest returns the k-th smallest number, k counted from 1. It sorts v.
func smallest(v []float64, k int) float64 {
	slices.Sort(v)
	return v[k-1]
}

// integersWithin returns the first and the last integer ≥ 0 in [lo, hi]. An end that differs from an integer only
// by rounding counts as that integer.
func integersWithin(lo, hi float64) (first, last float64) {
	const rounding = 1e-12
	first = math.Ceil(lo - rounding*math.Abs(lo))
	last = math.Floor(hi + rounding*math.Abs(hi))
	return math.Max(first, 0), last
}

// CoverageError reports a coverage that jackknife+ cannot give.
type CoverageError struct {
	Coverage float64
	Rows     int // training examples; 0 where no number of examples is enough
}

func (e *CoverageError) Error() string {
	if e.Rows == 0 {
		return fmt.Sprintf("score: the coverage %v is not between 0 and 1", e.Coverage)
	}
	return fmt.Sprintf("score: the coverage %v is more than N/(N+1) of N = %d training examples, the most that they can give", e.Coverage, e.Rows)
}

// JackknifeRank returns ⌈(1−α)(n+1)⌉ with 1−α the coverage. The upper end of an interval is the number with this
// rank among n, counted from the smallest; the lower end has the same rank counted from the largest. The coverage
// is taken as the decimal number that it prints as, so that .9 with n = 9 gives 9. The error is a *CoverageError
// for a coverage outside (0, 1) or above n/(n+1), that is α < 1/(n+1).
func JackknifeRank(n int, coverage float64) (int, error) {
	if !(coverage > 0 && coverage < 1) {
		return 0, &CoverageError{Coverage: coverage}
	}
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(coverage, 'g', -1, 64))
	if !ok {
		panic("score: a number does not print as one")
	}
	exact.Mul(exact, new(big.Rat).SetInt64(int64(n)+1))
	rank, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	k := int(rank.Int64())
	if rest.Sign() > 0 {
		k++
	}
	if k > n {
		return 0, &CoverageError{Coverage: coverage, Rows: n}
	}
	return k, nil
}

// ClopperPearson returns the exact confidence interval, with the given level, of a probability after hits in n
// independent trials [Clopper and Pearson 1934]. Without trials it is [0, 1].
func ClopperPearson(hits, n int, level float64) (lo, hi float64) {
	if hits < 0 || hits > n || !(level > 0 && level < 1) {
		panic("score: not a number of trials, or not a level")
	}
	lo, hi = 0, 1
	k, rest, tail := float64(hits), float64(n-hits), (1-level)/2
	if hits > 0 {
		lo = mathext.InvRegIncBeta(k, rest+1, tail)
	}
	if hits < n {
		hi = mathext.InvRegIncBeta(k+1, rest, 1-tail)
	}
	return lo, hi
}
