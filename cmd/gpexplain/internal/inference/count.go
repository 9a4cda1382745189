package inference

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm"
)

// CountInterval returns the ends of the central 95 % interval of a new count of row
// i, nil where observations are not counts.
func (o *Predictions) CountInterval(i int) []float64 {
	if _, ok := o.Likelihood.(glm.Poisson); !ok || o.Response == nil {
		return nil
	}
	m, v := o.Mean.At(i, 0), o.Scaled.At(i, 0)
	// quantile is the smallest count y with P(Y ≤ y) ≥ p.
	quantile := func(p float64) float64 {
		below := func(y int) bool {
			return glm.Expectation(func(f float64) float64 {
				rate := math.Exp(f)
				if math.IsInf(rate, 1) {
					return 0
				}
				return mathext.GammaIncRegComp(float64(y)+1, rate)
			}, m, v) < p
		}
		high := 1
		for below(high) && high < 1<<40 {
			high *= 2
		}
		return float64(sort.Search(high, func(y int) bool { return !below(y) }))
	}
	return []float64{quantile(0.025), quantile(0.975)}
}
