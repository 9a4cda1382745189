package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A Score says how well the predictive of each row agrees with its target. What is
// not defined for a likelihood is NaN: Accuracy, ECE and Brier without classes, and
// for several Bernoulli outputs or fractional targets; RMSE with classes.
type Score struct {
	NLL      float64 // mean of −log p(y|x) over the rows
	StdErr   float64 // standard error of NLL: the rows are a sample; NaN for one row
	Accuracy float64
	ECE      float64
	Brier    float64
	RMSE     float64 // root of the mean over rows and targets of (y − E[y|x])²

	LogDensity []float64  // log p(y|x) of each row, NaN for those left out
	Response   *mat.Dense // mean of Link.PredictTo of each row, N×C: E[y|x], for classes their probabilities; NaN for those left out
	LeftOut    int        // rows that no number counts because their moments are NaN
}

// RowsError reports that there is no row to score: there are none, or their
// moments are NaN.
type RowsError struct{ Rows int }

func (e *RowsError) Error() string {
	if e.Rows == 0 {
		return "score: there are no rows to score"
	}
	return fmt.Sprintf("score: the mean or the covariance is NaN in each of the %d rows; there is none to score", e.Rows)
}

// Warnings holds rows-left-out where the moments of rows are NaN, as moments by
// leave-one-out are where rounding leaves no digits.
func (s *Score) Warnings() []error { return leftOutWarnings(s.LeftOut, len(s.LogDensity)) }

func leftOutWarnings(leftOut, rows int) []error {
	if leftOut == 0 {
		return nil
	}
	return []error{linearize.NewWarning("rows-left-out", float64(leftOut), 0, "Raise the prior precision or the noise variance.",
		"%d of %d rows are left out: their mean or covariance without themselves is not known. Scores are those of the others.", leftOut, rows)}
}

// ScoreOf scores the predictive of T rows with the moments of f, mean T×C and cov
// T·C×C, against their targets y, T×Targets(C): moments of held-out rows, or by
// leave-one-out the moments of the training rows. A nil cov scores the plug-in
// predictive p(y|f = mean), which is the network alone; link is then not used. A nil
// link is DefaultLink. The errors are those of the link and of Likelihood.CheckY,
// which name the row, and *RowsError.
func ScoreOf(link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense) (*Score, error) {
	return ScoreOfContext(context.Background(), link, lik, y, mean, cov, 0)
}

// ScoreOfContext is ScoreOf on the given number of workers, 0 for GOMAXPROCS, which
// does not change the result. It returns ctx.Err() soon after ctx is done.
func ScoreOfContext(ctx context.Context, link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense, workers int) (*Score, error) {
	r, err := newScoredRows(lik, y, mean, cov)
	if err != nil {
		return nil, err
	}
	if cov == nil {
		link = predictive.MAP{}
	}
	if link == nil {
		link = predictive.DefaultLink(lik, r.c)
	}
	logp, response := make([]float64, len(r.kept)), mat.NewDense(len(r.kept), r.c, nil)
	err = r.each(ctx, workers, func(lo, hi int, y, mean, cov *mat.Dense) error {
		if err := link.LogPredictiveTo(logp[lo:hi], lik, y, mean, cov); err != nil {
			return err
		}
		return link.PredictTo(dense.Slice(response, lo, hi), nil, lik, mean, cov)
	})
	if err != nil {
		return nil, err
	}
	s := &Score{LogDensity: make([]float64, r.rows), Response: mat.NewDense(r.rows, r.c, nil), LeftOut: r.rows - len(r.kept)}
	for i := range s.LogDensity {
		s.LogDensity[i] = math.NaN()
		floats.AddConst(math.NaN(), s.Response.RawRowView(i))
	}
	for k, i := range r.kept {
		s.LogDensity[i] = logp[k]
		s.Response.SetRow(i, response.RawRowView(k))
	}
	s.NLL, s.StdErr = NLL(logp), standardError(logp)
	s.Accuracy, s.ECE, s.Brier, s.RMSE = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if prob, labels := ClassProbabilities(lik, r.y, response); prob != nil {
		s.Accuracy, s.ECE, s.Brier = Accuracy(prob, labels), ECE(prob, labels), Brier(prob, labels)
	} else if _, classes := lik.(glm.Logistic); !classes && lik.Targets(r.c) <= r.c {
		// Compare each target with the response of the output of the same number.
		y := r.y
		n, c := y.Dims()
		sum := 0.0
		for i := range n {
			for j := range c {
				d := y.At(i, j) - response.At(i, j)
				sum += d * d
			}
		}
		s.RMSE = math.Sqrt(sum / float64(n*c))
	}
	return s, nil
}

// Surprising returns the k rows with the lowest log density, the lowest first, and
// of equal ones the first row. It returns fewer where fewer rows are scored.
func (s *Score) Surprising(k int) []int {
	var rows []int
	for i, v := range s.LogDensity {
		if !math.IsNaN(v) {
			rows = append(rows, i)
		}
	}
	slices.SortStableFunc(rows, func(i, j int) int { return cmp.Compare(s.LogDensity[i], s.LogDensity[j]) })
	return rows[:min(k, len(rows))]
}

// ClassProbabilities returns what the metrics of classes take: for a likelihood of
// classes the probabilities, N×K, and the labels of N rows with targets y and
// response E[y|x], N×C. For one Bernoulli output the columns are 1−p and p, else
// the probabilities are response itself. Both are nil for other likelihoods, for
// several Bernoulli outputs, and where a target is no class.
func ClassProbabilities(lik glm.Likelihood, y, response *mat.Dense) (prob *mat.Dense, labels []int) {
	n, c := response.Dims()
	l, ok := lik.(glm.Logistic)
	if !ok || lik.Targets(c) != 1 || !l.Softmax() && c != 1 {
		return nil, nil
	}
	prob = response
	if !l.Softmax() {
		prob = mat.NewDense(n, 2, nil)
		for i := range n {
			p := response.At(i, 0)
			prob.SetRow(i, []float64{1 - p, p})
		}
	}
	_, k := prob.Dims()
	labels = make([]int, n)
	for i := range labels {
		v := y.At(i, 0)
		if !(v >= 0 && v < float64(k)) || v != math.Trunc(v) {
			return nil, nil
		}
		labels[i] = int(v)
	}
	return prob, labels
}

// standardError returns the standard error of the mean.
func standardError(v []float64) float64 {
	n := float64(len(v))
	mean := -NLL(v)
	sum := 0.0
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / (n - 1) / n)
}

// scoredRows are the rows whose moments are not NaN.
type scoredRows struct {
	rows, c int   // all rows, and outputs
	kept    []int // the rows with moments
	y, mean *mat.Dense
	cov     *mat.Dense // nil: none
}

// newScoredRows checks the targets and leaves out rows without moments. y may be
// nil, and is not checked then.
func newScoredRows(lik glm.Likelihood, y, mean, cov *mat.Dense) (*scoredRows, error) {
	n, c := mean.Dims()
	if cov != nil {
		if r, k := cov.Dims(); r != n*c || k != c {
			panic("score: covariance is not T·C×C")
		}
	}
	s := &scoredRows{rows: n, c: c, y: y, mean: mean, cov: cov}
	if y != nil {
		if r, k := y.Dims(); r != n || k != lik.Targets(c) {
			panic("score: y is not T×Targets(C)")
		}
	}
	for i := range n {
		if hasNaN(mean.RawRowView(i)) || cov != nil && blockHasNaN(cov, i, c) {
			continue
		}
		if y != nil {
			if err := lik.CheckY(y.RawRowView(i), c); err != nil {
				return nil, fmt.Errorf("row %d: %w", i, err)
			}
		}
		s.kept = append(s.kept, i)
	}
	switch {
	case len(s.kept) == 0:
		return nil, &RowsError{Rows: n}
	case len(s.kept) < n:
		s.y, s.mean, s.cov = takeRows(y, s.kept, 1), takeRows(mean, s.kept, 1), takeRows(cov, s.kept, c)
	}
	return s, nil
}

// takeRows returns the groups of size rows of m in a new matrix; nil stays nil.
func takeRows(m *mat.Dense, groups []int, size int) *mat.Dense {
	if m == nil {
		return nil
	}
	_, c := m.Dims()
	to := mat.NewDense(len(groups)*size, c, nil)
	for k, i := range groups {
		for j := range size {
			copy(to.RawRowView(k*size+j), m.RawRowView(i*size+j))
		}
	}
	return to
}

func hasNaN(v []float64) bool { return slices.ContainsFunc(v, math.IsNaN) }

// blockHasNaN reads the upper triangle of the covariance of row i.
func blockHasNaN(cov *mat.Dense, i, c int) bool {
	for j := range c {
		if hasNaN(cov.RawRowView(i*c + j)[j:]) {
			return true
		}
	}
	return false
}

// scoreTile is the number of rows that a worker takes at once.
const scoreTile = 16

// each passes the rows tile by tile to do, on several workers. An error of a link
// names a row of the tile, and each turns it into the row it was given.
func (s *scoredRows) each(ctx context.Context, workers int, do func(lo, hi int, y, mean, cov *mat.Dense) error) error {
	return par.Do(ctx, workers, par.Tiles(len(s.kept), scoreTile), func(tile int) error { return s.tile(tile, do) })
}

// tile passes one tile to do.
func (s *scoredRows) tile(tile int, do func(lo, hi int, y, mean, cov *mat.Dense) error) error {
	lo, hi := par.Bounds(tile, len(s.kept), scoreTile)
	err := do(lo, hi, dense.Slice(s.y, lo, hi), dense.Slice(s.mean, lo, hi), dense.Slice(s.cov, lo*s.c, hi*s.c))
	// Add the first row of a tile to the row in an error, which counts the rows that are kept.
	var value *predictive.ValueError
	var notPD *glm.NotPDError
	switch {
	case errors.As(err, &value):
		value.Row = s.kept[lo+value.Row]
	case errors.As(err, &notPD) && notPD.Row >= 0:
		notPD.Row = s.kept[lo+notPD.Row]
	}
	return err
}

// everySo returns every k-th of the rows that are kept.
func (s *scoredRows) everySo(k int) *scoredRows {
	if k == 1 {
		return s
	}
	some := &scoredRows{rows: s.rows, c: s.c}
	var at []int
	for i := 0; i < len(s.kept); i += k {
		at, some.kept = append(at, i), append(some.kept, s.kept[i])
	}
	some.y, some.mean, some.cov = takeRows(s.y, at, 1), takeRows(s.mean, at, 1), takeRows(s.cov, at, s.c)
	return some
}

// constantNLL returns what the best prediction without inputs scores, as
// Calibration.warn says; NaN for a likelihood that is none of those there, for targets
// that are no classes, and for a regression whose targets do not vary.
func constantNLL(lik glm.Likelihood, y *mat.Dense, c int) float64 {
	_, targets := y.Dims()
	total := 0.0
	for j := range targets {
		column := mat.Col(nil, j, y)
		switch l := lik.(type) {
		case glm.Logistic:
			k := 2
			if l.Softmax() {
				k = c
			}
			total += constantClasses(column, k)
		case glm.Counting:
			total += constantRate(lik, column)
		case *glm.Gaussian, glm.Heteroscedastic:
			total += constantGaussian(column)
		default:
			return math.NaN()
		}
	}
	return total
}

// constantClasses is for targets from 0 to k−1.
func constantClasses(y []float64, k int) float64 {
	frequency := make([]float64, k)
	for _, v := range y {
		// A fraction is shared by two classes.
		at := min(int(v), k-1)
		rest := v - float64(at)
		frequency[at] += (1 - rest) / float64(len(y))
		if rest > 0 {
			frequency[at+1] += rest / float64(len(y))
		}
	}
	return min(integral.EntropyOf(frequency)+float64(k-1)/float64(len(y)), math.Log(float64(k)))
}

// constantRate is for counts.
func constantRate(lik glm.Likelihood, y []float64) float64 {
	n, rate := float64(len(y)), 0.0
	for _, v := range y {
		rate += v / n
	}
	nll := 1 / n
	for _, v := range y {
		if rate > 0 {
			nll -= lik.LogProb([]float64{v}, []float64{math.Log(rate)}) / n
		}
	}
	return nll
}

// constantGaussian is for any numbers.
func constantGaussian(y []float64) float64 {
	n, mean, variance := float64(len(y)), 0.0, 0.0
	for _, v := range y {
		mean += v / n
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / n
	}
	if variance == 0 {
		return math.NaN()
	}
	return integral.HalfLog2Pi + (1+math.Log(variance))/2 + 2/n
}
