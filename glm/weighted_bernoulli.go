package glm

import (
	"math"

	"github.com/funcgp/funcgp/glm/integral"
)

// WeightedBernoulli is Bernoulli with a weight w on the positive targets of each output, as pos_weight of PyTorch's
// BCEWithLogitsLoss: log p = w y log σ(f) + (1−y) log σ(−f), which is no density of y. It fits the posterior of a network
// that was trained with that loss (E23). Responses and integrals are those of Bernoulli.
type WeightedBernoulli struct {
	Bernoulli
	Positive []float64 // w > 0 of each output
}

var (
	_ Likelihood = WeightedBernoulli{}
	_ Logistic   = WeightedBernoulli{}
)

// Expand returns the weighted log p and writes r = w y σ(−f) − (1−y) σ(f) and Λ = diag((w y + 1 − y) p(1−p)) with
// p = σ(f).
func (l WeightedBernoulli) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, c)
	clear(lambda)
	clear(root)
	for j, v := range f {
		has, not := l.Positive[j]*y[j], 1-y[j]
		logp -= weighted(has, integral.Softplus(-v)) + weighted(not, integral.Softplus(v))
		if residual != nil {
			residual[j] = has*integral.Sigmoid(-v) - not*integral.Sigmoid(v)
		}
		if lambda != nil {
			lambda[j*c+j] = (has + not) * integral.SigmoidSlope(v)
		}
		if root != nil {
			root[j*c+j] = math.Sqrt((has + not) * integral.SigmoidSlope(v))
		}
	}
	return logp
}

// LogProb returns the weighted log p.
func (l WeightedBernoulli) LogProb(y, f []float64) float64 { return l.Expand(nil, nil, nil, y, f) }
