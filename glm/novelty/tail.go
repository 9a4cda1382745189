package novelty

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm/score"
)

// tailShare is the share of the training examples, those with the largest distances, that the exponential
// distribution is fitted to.
const tailShare = .2

// A tail is the distribution of a distance over the training examples, each left out. Below the distance u the
// distribution is empirical. From u on it is exponential, which orders rows that are farther out than all training
// examples.
type tail struct {
	sorted []float64 // distances, ascending, without NaN
	from   float64   // u
	share  float64   // share of the examples at u and beyond
	mean   float64   // mean excess over u
}

// newTail fits the distribution to sorted, at least one number, ascending.
func newTail(sorted []float64) tail {
	n := len(sorted)
	k := int(float64(n) * (1 - tailShare))
	t := tail{sorted: sorted, from: sorted[k], share: float64(n-k) / float64(n)}
	t.mean = floats.Sum(sorted[k:])/float64(n-k) - t.from
	if !(t.mean > 1e-9*t.from) {
		// The largest distances are all equal, as happens with few examples.
		if t.mean = t.from / 10; t.mean == 0 {
			t.mean = 1
		}
	}
	return t
}

// surprise returns −log of the share of training examples with a distance larger than distance, in nats.
func (t *tail) surprise(distance float64) float64 {
	if distance >= t.from {
		// P(d > u + e) = P(d ≥ u) exp(−e/mean)
		return (distance-t.from)/t.mean - math.Log(t.share)
	}
	return -math.Log1p(-score.Rank(t.sorted, distance))
}
