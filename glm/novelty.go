package glm

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Novelty tells how unlike the training data each row is (E18). It comes from the
// unscaled predictive: a calibrated one knows too little about what is far away.
type Novelty struct {
	// Score is the entropy of the predictive in nats for a likelihood of classes,
	// and for others the predictive variance Var[y|x], noise included, summed over
	// the outputs.
	Score []float64
	// Mutual is the mutual information of y and f in nats, H[E p(y|f)] − E H[p(y|f)],
	// NaN where the link does not give it.
	Mutual []float64
}

// NoveltyOf returns the novelty of T rows with the moments of f, mean T×C and cov
// T·C×C, not scaled by a calibration. A row with a NaN has NaN. A nil link is
// DefaultLink; workers 0 means GOMAXPROCS, and the result does not depend on it. The
// errors are those of the link, *RowsError, and ctx.Err().
func NoveltyOf(ctx context.Context, link Link, lik Likelihood, mean, cov *mat.Dense, workers int) (*Novelty, error) {
	rows, err := newScoredRows(lik, nil, mean, cov)
	if err != nil {
		return nil, err
	}
	if link == nil {
		link = DefaultLink(lik, rows.c)
	}
	n := len(rows.kept)
	score, mutual := make([]float64, n), make([]float64, n)
	_, classes := lik.(Logistic)
	err = rows.each(ctx, workers, func(lo, hi int, _, mean, cov *mat.Dense) error {
		if err := informationTo(score[lo:hi], mutual[lo:hi], link, lik, mean, cov); err != nil {
			return err
		}
		if classes {
			return nil
		}
		return varianceTo(score[lo:hi], link, lik, mean, cov)
	})
	if err != nil {
		return nil, err
	}
	v := &Novelty{Score: make([]float64, rows.rows), Mutual: make([]float64, rows.rows)}
	for i := range v.Score {
		v.Score[i], v.Mutual[i] = math.NaN(), math.NaN()
	}
	for k, i := range rows.kept {
		v.Score[i], v.Mutual[i] = score[k], mutual[k]
	}
	return v, nil
}

// informationTo writes the entropy of the predictive and the mutual information. A
// link that has neither gives the entropy of its mean, and NaN.
func informationTo(entropy, mutual []float64, link Link, lik Likelihood, mean, cov *mat.Dense) error {
	if i, ok := link.(Informer); ok {
		err := i.EntropyTo(entropy, mutual, lik, mean, cov)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) {
			return err
		}
	}
	for i := range mutual {
		entropy[i], mutual[i] = math.NaN(), math.NaN()
	}
	l, ok := lik.(Logistic)
	if !ok {
		return nil
	}
	var prob mat.Dense
	if err := link.PredictTo(&prob, nil, lik, mean, cov); err != nil {
		return err
	}
	if l.Softmax() {
		EntropyTo(entropy, &prob)
		return nil
	}
	for i := range entropy {
		entropy[i] = 0
		for _, p := range prob.RawRowView(i) {
			entropy[i] -= xlogx(p) + xlogx(1-p)
		}
	}
	return nil
}

func xlogx(p float64) float64 {
	if p == 0 {
		return 0
	}
	return p * math.Log(p)
}

// varianceTo writes the predictive variance, summed over the outputs.
func varianceTo(dst []float64, link Link, lik Likelihood, mean, cov *mat.Dense) error {
	s, ok := link.(Splitter)
	if !ok {
		_, c := mean.Dims()
		if s, ok = DefaultLink(lik, c).(Splitter); !ok {
			s = MonteCarlo{}
		}
	}
	var aleatoric, epistemic mat.Dense
	if err := s.SplitTo(&aleatoric, &epistemic, lik, mean, cov); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = floats.Sum(aleatoric.RawRowView(i)) + floats.Sum(epistemic.RawRowView(i))
	}
	return nil
}

// Rank returns the share of the training scores that are smaller than score, where
// equal ones count half: a rank of .997 means that the row is more novel than 99.7 %
// of the training rows, whose scores come from their moments by leave-one-out.
// sorted ascends and holds no NaN. The rank is NaN without training scores and for a
// score of NaN.
func Rank(sorted []float64, score float64) float64 {
	if len(sorted) == 0 || math.IsNaN(score) {
		return math.NaN()
	}
	return below(sorted, score) / float64(len(sorted))
}

// SortedScores returns the numbers in ascending order without NaN, for Rank.
func SortedScores(scores []float64) []float64 {
	sorted := slices.DeleteFunc(slices.Clone(scores), math.IsNaN)
	slices.Sort(sorted)
	return sorted
}
