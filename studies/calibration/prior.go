package calibration

import (
	"math"

	"gonum.org/v1/gonum/interp"

	"github.com/funcgp/funcgp/explain/result"
)

// A penalized scale maximizes the likelihood of the training rows by leave-one-out
// times a normal density of log s around 0.
type penalized struct {
	Deviation result.Float `json:"deviation"` // of the prior on log s
	Scale     result.Float `json:"scale"`
	NLL       result.Float `json:"nll"` // of the test rows
}

// penalize returns the penalized scales of a curve over log s, which it
// interpolates, for n training rows.
func penalize(curve []point, n int) ([]penalized, error) {
	if len(curve) == 0 {
		return nil, nil
	}
	x, loo, test := make([]float64, len(curve)), make([]float64, len(curve)), make([]float64, len(curve))
	for i, p := range curve {
		x[i], loo[i], test[i] = math.Log(float64(p.Scale)), float64(p.LOO), float64(p.NLL)
	}
	var atTraining, atTest interp.AkimaSpline
	if err := atTraining.Fit(x, loo); err != nil {
		return nil, err
	}
	if err := atTest.Fit(x, test); err != nil {
		return nil, err
	}
	var all []penalized
	for _, deviation := range []float64{2, 1} {
		best, least := 0.0, math.Inf(1)
		for logS := x[0]; logS <= x[len(x)-1]; logS += .01 {
			// −Σ log p + ½ (log s/deviation)²
			if v := float64(n)*atTraining.Predict(logS) + logS*logS/(2*deviation*deviation); v < least {
				best, least = logS, v
			}
		}
		all = append(all, penalized{result.Float(deviation), result.Float(math.Exp(best)), result.Float(atTest.Predict(best))})
	}
	return all, nil
}
