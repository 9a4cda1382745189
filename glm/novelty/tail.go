package novelty

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm/score"
)

// tailShare is the share of the training examples, those of the largest distances, to which
// an exponential distribution is fitted.
const tailShare = .2

// A tail is the distribution of a distance among training examples that are left out: the
// counts of those up to a distance u, and an exponential distribution beyond it, which
// orders rows that are farther out than all training examples.
type tail struct {
	sorted []float64 // ascending, without NaN
	from   float64   // u
	share  float64   // of the examples at u and beyond
	mean   float64   // excess over u
}

// newTail fits the distribution to at least one number, ascending.
func newTail(sorted []float64) tail {
	n := len(sorted)
	k := int(float64(n) * (1 - tailShare))
	t := tail{sorted: sorted, from: sorted[k], share: float64(n-k) / float64(n)}
	t.mean = floats.Sum(sorted[k:])/float64(n-k) - t.from
	if !(t.mean > 1e-9*t.from) {
		// The largest are all equal, as among few examples.
		if t.mean = t.from / 10; t.mean == 0 {
			t.mean = 1
		}
	}
	return t
}

// surprise returns −log of the share of training examples with a larger distance.
func (t *tail) surprise(distance float64) float64 {
	if distance >= t.from {
		// P(d > u + e) = P(d ≥ u) exp(−e/mean)
		return (distance-t.from)/t.mean - math.Log(t.share)
	}
	return -math.Log1p(-score.Rank(t.sorted, distance))
}
