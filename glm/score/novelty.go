package score

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/dense"
)

// Novelty tells how unsure the unscaled prediction of each row is (E18). The calibrated prediction is not used: it
// is too sure far from the data. Where the classes are sure, Novelty tells little about where the training data
// lie; package glm/novelty does.
type Novelty struct {
	// Score is the entropy of the prediction in nats for a likelihood of classes, and the predictive variance
	// Var[y|x] with noise, summed over targets, for any other likelihood.
	//
	// With more than two classes the prediction is softmax(f̃_c/√(1 + π/8 Σ̃_cc)), where f̃ = Hf and Σ̃ = HΣH with
	// H = I − 11ᵀ/C lack the shift common to all logits, which softmax ignores. The entropy of the integral orders
	// rows less well, because the unscaled covariance is so wide that it is near log C even for known rows.
	//
	// Measured on LeNet-5 on all of MNIST with 200 inducing examples, AUROC of the 10,000 test digits against
	// Kuzushiji-MNIST and against digits turned by 90°: Score .9885 and .9842, entropy of the integral .9809 and
	// .9850, mutual information .9797 and .9879, network alone .9659 and .9390.
	Score []float64
	// Mutual is the mutual information of y and f in nats, H[E p(y|f)] − E H[p(y|f)], or NaN where the link does
	// not compute it.
	Mutual []float64
}

// NoveltyOf returns the novelty of T rows with the moments mean, T×C, and cov, T·C×C, of f, which are not scaled by
// a calibration. A row with a NaN gets NaN. A nil link is DefaultLink. The error is an
// error of the link, a *RowsError, or ctx.Err().
func NoveltyOf(ctx context.Context, link predictive.Link, lik glm.Likelihood, mean, cov *mat.Dense) (*Novelty, error) {
	rows, err := newScoredRows(lik, nil, mean, cov, nil)
	if err != nil {
		return nil, err
	}
	if link == nil {
		link = predictive.DefaultLink(lik, rows.c)
	}
	n := len(rows.kept)
	score, mutual := make([]float64, n), make([]float64, n)
	l, classes := lik.(glm.Logistic)
	err = rows.each(ctx, func(lo, hi int, _, mean, cov *mat.Dense) error {
		if err := informationTo(score[lo:hi], mutual[lo:hi], link, lik, mean, cov); err != nil {
			return err
		}
		switch {
		case !classes:
			// Write the predictive variance, summed over the targets, which are the first outputs.
			dst := score[lo:hi]
			s, ok := link.(predictive.Splitter)
			_, c := mean.Dims()
			if !ok {
				if s, ok = predictive.DefaultLink(lik, c).(predictive.Splitter); !ok {
					s = predictive.MonteCarlo{}
				}
			}
			var aleatoric, epistemic mat.Dense
			if err := s.SplitTo(&aleatoric, &epistemic, lik, mean, cov); err != nil {
				return err
			}
			targets := min(lik.Targets(c), c)
			for i := range dst {
				dst[i] = floats.Sum(aleatoric.RawRowView(i)[:targets]) + floats.Sum(epistemic.RawRowView(i)[:targets])
			}
			return nil
		case l.Softmax() && rows.c > 2:
			// Write the entropy of softmax(f̃_c/√(1 + π/8 Σ̃_cc)), where f̃ and Σ̃ are the moments of the logits
			// less their mean over the classes.
			dst := score[lo:hi]
			c := mean.RawMatrix().Cols
			logits, prob := make([]float64, c), make([]float64, c)
			for i := range dst {
				block := dense.Slice(cov, i*c, (i+1)*c)
				total, shift := 0.0, floats.Sum(mean.RawRowView(i))/float64(c)
				for a := range c {
					total += floats.Sum(block.RawRowView(a))
				}
				for a := range c {
					// [HΣH]_aa = Σ_aa − 2/C Σ_b Σ_ab + 1/C² Σ_bc Σ_bc
					v := block.At(a, a) - 2*floats.Sum(block.RawRowView(a))/float64(c) + total/float64(c*c)
					logits[a] = (mean.At(i, a) - shift) / math.Sqrt(1+math.Pi/8*max(0, v))
				}
				glm.Categorical{}.MeanTo(prob, logits)
				dst[i] = 0
				for _, p := range prob {
					dst[i] -= xlogx(p)
				}
			}
		}
		return nil
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

// informationTo writes the entropy of the prediction and the mutual information. For a link that computes neither
// it writes the entropy of the link's mean, and NaN.
func informationTo(entropy, mutual []float64, link predictive.Link, lik glm.Likelihood, mean, cov *mat.Dense) error {
	if i, ok := link.(predictive.Informer); ok {
		err := i.EntropyTo(entropy, mutual, lik, mean, cov)
		var unsupported *predictive.UnsupportedError
		if !errors.As(err, &unsupported) {
			return err
		}
	}
	for i := range mutual {
		entropy[i], mutual[i] = math.NaN(), math.NaN()
	}
	l, ok := lik.(glm.Logistic)
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

// Rank returns the share of the training scores that are smaller than score, where a training score equal to it
// counts half. A rank of .997 means that the row is more novel than 99.7 % of the training rows. sorted has the
// scores of the training rows from their leave-one-out moments, ascending and without NaN. The rank is NaN without
// training scores, and for a score of NaN.
func Rank(sorted []float64, score float64) float64 {
	if len(sorted) == 0 || math.IsNaN(score) {
		return math.NaN()
	}
	return below(sorted, score) / float64(len(sorted))
}

// SortedScores returns the scores in ascending order without NaN, as Rank takes them.
func SortedScores(scores []float64) []float64 {
	sorted := slices.DeleteFunc(slices.Clone(scores), math.IsNaN)
	slices.Sort(sorted)
	return sorted
}
