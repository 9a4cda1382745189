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
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A Score says how well the prediction of each row agrees with its target. A number that a likelihood does not have
// is NaN: Accuracy, ECE and Brier without classes and for fractional targets; RMSE with classes. With several Bernoulli
// outputs NLL counts a row with all its labels as one, and Accuracy, ECE and Brier are means over the N·C labels.
type Score struct {
	NLL      float64 // mean of −log p(y|x) over the rows, in nats
	StdErr   float64 // standard error of NLL, taking the rows as a sample; NaN for one row
	Accuracy float64
	ECE      float64
	Brier    float64
	RMSE     float64 // root of the mean over rows and targets of (y − E[y|x])²

	LogDensity []float64  // log p(y|x) of each row in nats, NaN for rows left out
	Response   *mat.Dense // E[y|x] of each row, N×C, by Link.PredictTo: for classes probabilities; NaN if left out
	LeftOut    int        // rows left out because their moments are NaN
}

// RowsError reports that no row can be scored: there are none, or the moments of all rows are NaN.
type RowsError struct{ Rows int }

func (e *RowsError) Error() string {
	if e.Rows == 0 {
		return "score: there are no rows to score"
	}
	return fmt.Sprintf("score: the mean or the covariance is NaN in each of the %d rows; there is none to score", e.Rows)
}

// Warnings returns the warning rows-left-out where rows were left out. Leave-one-out moments are NaN where rounding
// leaves no digits.
func (s *Score) Warnings() []error { return leftOutWarnings(s.LeftOut, len(s.LogDensity)) }

func leftOutWarnings(leftOut, rows int) []error {
	if leftOut == 0 {
		return nil
	}
	return []error{linearize.NewWarning("rows-left-out", float64(leftOut), 0, "Raise the prior precision or the noise variance.",
		"%d of %d rows are left out: their mean or covariance without themselves is not known. Scores are those of the others.", leftOut, rows)}
}

// ScoreOf scores the prediction of T rows with the moments mean, T×C, and cov, T·C×C, of f against their targets y,
// T×Targets(C). The rows are held-out rows, or training rows with their leave-one-out moments. A nil cov scores the
// plug-in prediction p(y|f = mean), that is the network alone, and ignores link. A nil link is DefaultLink. The
// error is an error of the link or of Likelihood.CheckY, which name the row, or a *RowsError.
func ScoreOf(link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense) (*Score, error) {
	return ScoreOfContext(context.Background(), link, lik, y, mean, cov)
}

// ScoreOfContext is ScoreOf that returns ctx.Err() soon after ctx is done.
func ScoreOfContext(ctx context.Context, link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense) (*Score, error) {
	return WeightedScoreOf(ctx, link, lik, y, mean, cov, nil)
}

// WeightedScoreOf is ScoreOfContext for rows with weights w_i ≥ 0, T numbers; nil means 1 each. A row of weight 2
// counts as two equal rows (E23). A row of weight 0 does not count, and its LogDensity is NaN.
func WeightedScoreOf(ctx context.Context, link predictive.Link, lik glm.Likelihood, y, mean, cov *mat.Dense, weights []float64) (*Score, error) {
	r, err := newScoredRows(lik, y, mean, cov, weights)
	if err != nil {
		return nil, err
	}
	if cov == nil {
		link = predictive.MAP{}
	}
	if link == nil {
		link = predictive.DefaultLink(lik, r.c)
	}
	lik = r.lik
	logp, response := make([]float64, len(r.kept)), mat.NewDense(len(r.kept), r.c, nil)
	err = r.each(ctx, func(lo, hi int, y, mean, cov *mat.Dense) error {
		if err := link.LogPredictiveTo(logp[lo:hi], lik, y, mean, cov); err != nil {
			return err
		}
		return link.PredictTo(dense.Slice(response, lo, hi), nil, lik, mean, cov)
	})
	if err != nil {
		return nil, err
	}
	s := &Score{LogDensity: make([]float64, r.rows), Response: mat.NewDense(r.rows, r.c, nil), LeftOut: r.leftOut}
	for i := range s.LogDensity {
		s.LogDensity[i] = math.NaN()
		floats.AddConst(math.NaN(), s.Response.RawRowView(i))
	}
	for k, i := range r.kept {
		if s.Response.SetRow(i, response.RawRowView(k)); r.share == nil || math.IsNaN(s.LogDensity[i]) {
			s.LogDensity[i] = 0
		}
		if r.share == nil {
			s.LogDensity[i] = logp[k]
		} else {
			s.LogDensity[i] += r.share[k] * logp[k]
		}
	}
	s.NLL, s.StdErr = r.nll(logp), r.standardError(logp)
	s.Accuracy, s.ECE, s.Brier, s.RMSE = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	prob, labels := ClassProbabilities(lik, r.y, response)
	each := r.weights
	if prob == nil {
		prob, labels, each = eachLabel(lik, r.y, response, r.weights)
	}
	if prob != nil {
		s.Accuracy, s.ECE, s.Brier = accuracy(prob, labels, each), ece(prob, labels, each), brier(prob, labels, each)
	} else if _, classes := lik.(glm.Logistic); !classes && lik.Targets(r.c) <= r.c {
		// Compare target j with the response of output j.
		y := r.y
		n, c := y.Dims()
		sum := 0.0
		for i := range n {
			for j := range c {
				d := y.At(i, j) - response.At(i, j)
				sum += r.weight(i) * d * d
			}
		}
		s.RMSE = math.Sqrt(sum / (r.total() * float64(c)))
	}
	return s, nil
}

// Surprising returns the k rows with the lowest log densities, the lowest first. Rows of equal density stay in order.
// It returns fewer than k rows if fewer were scored.
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

// ClassProbabilities returns the probabilities, N×K, and the N labels that the metrics of classes take, for targets
// y and the response E[y|x], N×C. For one Bernoulli output the columns are 1−p and p; otherwise the probabilities
// are the response itself. Both results are nil for a likelihood without classes, for several Bernoulli outputs,
// and where a target is not a class.
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

// eachLabel takes N rows with C Bernoulli outputs for N·C rows with one output each, and returns the
// ClassProbabilities and the weights of these. All results are nil for any other likelihood.
func eachLabel(lik glm.Likelihood, y, response *mat.Dense, weights []float64) (prob *mat.Dense, labels []int, each []float64) {
	n, c := response.Dims()
	if l, ok := lik.(glm.Logistic); !ok || l.Softmax() || lik.Targets(c) != c {
		return nil, nil, nil
	}
	one := func(m *mat.Dense) *mat.Dense {
		column := mat.NewDense(n*c, 1, nil)
		for i := range n {
			for j, v := range m.RawRowView(i) {
				column.Set(i*c+j, 0, v)
			}
		}
		return column
	}
	for _, w := range weights {
		each = append(each, slices.Repeat([]float64{w}, c)...)
	}
	prob, labels = ClassProbabilities(lik, one(y), one(response))
	return prob, labels, each
}

// weight returns the weight of a kept row.
func (s *scoredRows) weight(i int) float64 {
	if s.weights == nil {
		return 1
	}
	return s.weights[i]
}

// total returns the sum of the weights, which is the number of rows where all are 1.
func (s *scoredRows) total() float64 {
	if s.weights == nil {
		return float64(len(s.kept))
	}
	return floats.Sum(s.weights)
}

// nll returns the mean of −v over the kept rows.
func (s *scoredRows) nll(v []float64) float64 { return weightedNLL(v, s.weights) }

// weightedNLL is NLL with weights; nil stands for 1 each.
func weightedNLL(logp, weights []float64) float64 {
	if weights == nil {
		return NLL(logp)
	}
	return -stat.Mean(logp, weights)
}

// standardError returns the standard error of the mean of v over the kept rows. A row with shares of classes is kept
// several times; its entries count as one observation, their weighted mean.
func (s *scoredRows) standardError(v []float64) float64 {
	n := s.total()
	mean := -s.nll(v)
	sum := 0.0
	for i := 0; i < len(v); {
		x, w, from := v[i], s.weight(i), i
		for i++; s.share != nil && i < len(v) && s.kept[i] == s.kept[from]; i++ {
			more := s.weight(i)
			x, w = (w*x+more*v[i])/(w+more), w+more
		}
		sum += w * (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / (n - 1) / n)
}

// scoredRows holds the rows whose moments are not NaN, and whose weights are not 0.
type scoredRows struct {
	rows, c int            // number of all rows, and of outputs
	lik     glm.Likelihood // the likelihood of y; Categorical for shares of classes
	kept    []int          // positions of the rows with moments
	leftOut int            // number of rows without moments
	weights []float64      // weights of the kept rows; nil for 1 each
	// share is nil unless the targets are shares of classes. Then kept has a row once for each class with a share; the
	// label is this class, and the weight is the row's weight times the share.
	share   []float64
	y, mean *mat.Dense
	cov     *mat.Dense // nil without covariances
}

// newScoredRows checks the targets and leaves out the rows whose moments are NaN or whose weights are 0. A nil y is not
// checked, and nil weights are 1.
func newScoredRows(lik glm.Likelihood, y, mean, cov *mat.Dense, weights []float64) (*scoredRows, error) {
	n, c := mean.Dims()
	if cov != nil {
		if r, k := cov.Dims(); r != n*c || k != c {
			panic("score: covariance is not T·C×C")
		}
	}
	s := &scoredRows{rows: n, c: c, lik: lik, y: y, mean: mean, cov: cov}
	_, soft := lik.(glm.CategoricalShares)
	var labels []float64
	if y != nil {
		if r, k := y.Dims(); r != n || k != lik.Targets(c) {
			panic("score: y is not T×Targets(C)")
		}
	}
	if weights != nil && len(weights) != n {
		panic("score: weights are not T numbers")
	}
	for i := range n {
		if weights != nil && weights[i] == 0 {
			continue
		}
		if hasNaN(mean.RawRowView(i)) || cov != nil && blockHasNaN(cov, i, c) {
			s.leftOut++
			continue
		}
		if y != nil {
			if err := lik.CheckY(y.RawRowView(i), c); err != nil {
				return nil, fmt.Errorf("row %d: %w", i, err)
			}
		}
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		if y != nil && soft {
			for k, q := range y.RawRowView(i) {
				if q > 0 {
					s.kept, s.share, s.weights, labels = append(s.kept, i), append(s.share, q), append(s.weights, w*q), append(labels, float64(k))
				}
			}
			continue
		}
		s.kept = append(s.kept, i)
		if weights != nil {
			s.weights = append(s.weights, w)
		}
	}
	switch {
	case len(s.kept) == 0:
		return nil, &RowsError{Rows: n}
	case s.share != nil:
		s.lik, s.y = glm.Categorical{}, mat.NewDense(len(labels), 1, labels)
		s.mean, s.cov = takeRows(mean, s.kept, 1), takeRows(cov, s.kept, c)
	case len(s.kept) < n:
		s.y, s.mean, s.cov = takeRows(y, s.kept, 1), takeRows(mean, s.kept, 1), takeRows(cov, s.kept, c)
	}
	return s, nil
}

// takeRows returns the groups of size consecutive rows of m in a new matrix, or nil if m is nil.
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

// blockHasNaN tells whether the covariance of row i has a NaN. It reads the upper triangle.
func blockHasNaN(cov *mat.Dense, i, c int) bool {
	for j := range c {
		if hasNaN(cov.RawRowView(i*c + j)[j:]) {
			return true
		}
	}
	return false
}

// scoreTile is the number of rows in a tile of work.
const scoreTile = 16

// each calls do for each tile of rows on several workers. In an error of a link it replaces the position in the
// tile by the position among all rows.
func (s *scoredRows) each(ctx context.Context, do func(lo, hi int, y, mean, cov *mat.Dense) error) error {
	return par.Do(ctx, par.Tiles(len(s.kept), scoreTile), func(tile int) error { return s.tile(tile, do) })
}

// tile calls do for one tile.
func (s *scoredRows) tile(tile int, do func(lo, hi int, y, mean, cov *mat.Dense) error) error {
	lo, hi := par.Bounds(tile, len(s.kept), scoreTile)
	err := do(lo, hi, dense.Slice(s.y, lo, hi), dense.Slice(s.mean, lo, hi), dense.Slice(s.cov, lo*s.c, hi*s.c))
	// An error counts rows from the start of the tile.
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

// everyNth returns every k-th row.
func (s *scoredRows) everyNth(k int) *scoredRows {
	if k == 1 {
		return s
	}
	some := &scoredRows{rows: s.rows, c: s.c, lik: s.lik}
	var at []int
	for i := 0; i < len(s.kept); i += k {
		at, some.kept = append(at, i), append(some.kept, s.kept[i])
		if s.weights != nil {
			some.weights = append(some.weights, s.weights[i])
		}
	}
	some.y, some.mean, some.cov = takeRows(s.y, at, 1), takeRows(s.mean, at, 1), takeRows(s.cov, at, s.c)
	return some
}

// constantNLL returns the NLL in nats of the best prediction that ignores the inputs, plus the amount that
// leave-one-out would add for each number estimated from the T rows:
//
//   - for classes the entropy of their frequencies plus (K−1)/T, but at most log K;
//   - for counts the NLL of the likelihood at their mean rate plus 1/T;
//   - for a Gaussian or heteroscedastic likelihood the NLL of a Gaussian with the mean and variance of each target
//     plus 2/T.
//
// It is NaN for any other likelihood, for targets that are not classes, and where the targets of a regression do
// not vary. T is the sum of the weights, nil for 1 each.
func constantNLL(lik glm.Likelihood, y *mat.Dense, c int, weights []float64) float64 {
	n, targets := y.Dims()
	if weights == nil {
		weights = slices.Repeat([]float64{1}, n)
	}
	total := 0.0
	for j := range targets {
		column := mat.Col(nil, j, y)
		switch l := lik.(type) {
		case glm.Logistic:
			k := 2
			if l.Softmax() {
				k = c
			}
			total += constantClasses(column, weights, k)
		case glm.Counting:
			total += constantRate(lik, column, weights)
		case *glm.Gaussian, glm.Heteroscedastic:
			total += constantGaussian(column, weights)
		default:
			return math.NaN()
		}
	}
	return total
}

// constantClasses is constantNLL for one column of class targets from 0 to k−1.
func constantClasses(y, weights []float64, k int) float64 {
	frequency, n := make([]float64, k), floats.Sum(weights)
	for i, v := range y {
		// A fraction counts for the classes at both sides of it.
		at := min(int(v), k-1)
		rest := v - float64(at)
		frequency[at] += weights[i] * (1 - rest) / n
		if rest > 0 {
			frequency[at+1] += weights[i] * rest / n
		}
	}
	return min(integral.EntropyOf(frequency)+float64(k-1)/n, math.Log(float64(k)))
}

// constantRate is constantNLL for one column of counts.
func constantRate(lik glm.Likelihood, y, weights []float64) float64 {
	n, rate := floats.Sum(weights), 0.0
	for i, v := range y {
		rate += weights[i] * v / n
	}
	nll := 1 / n
	for i, v := range y {
		if rate > 0 {
			nll -= weights[i] * lik.LogProb([]float64{v}, []float64{math.Log(rate)}) / n
		}
	}
	return nll
}

// constantGaussian is constantNLL for one column of numbers.
func constantGaussian(y, weights []float64) float64 {
	n, mean, variance := floats.Sum(weights), 0.0, 0.0
	for i, v := range y {
		mean += weights[i] * v / n
	}
	for i, v := range y {
		variance += weights[i] * (v - mean) * (v - mean) / n
	}
	if variance == 0 {
		return math.NaN()
	}
	return integral.HalfLog2Pi + (1+math.Log(variance))/2 + 2/n
}
