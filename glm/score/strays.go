package score

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// strays are the log densities log q(y_i) of the rows under a distribution that ignores the inputs. The search for
// the scale of counts assumes that a share strayShare of the rows is drawn from it (E18). nil assumes no such rows.
type strays []float64

// strayShare is one row in twenty.
const strayShare = 0.05

// newStrays returns the strays of rows of counts. q is the product over columns of the geometric distribution with
// the column's mean.
func newStrays(rows *scoredRows) strays {
	y := rows.y
	n, targets := y.Dims()
	s := make(strays, n)
	for j := range targets {
		column := mat.Col(nil, j, y)
		mean := 0.0
		for i, v := range column {
			mean += rows.weight(i) * v
		}
		mean /= rows.total()
		for i, v := range column {
			// q(y) = m^y/(1 + m)^{y+1}
			logPower := 0.0
			if v > 0 {
				logPower = v * math.Log(mean)
			}
			s[i] += logPower - (v+1)*math.Log1p(mean)
		}
	}
	return s
}

// nll returns the NLL under the mixture with q. logp and weights are those of every n-th row, n = every. A density
// of zero stays zero.
func (s strays) nll(logp, weights []float64, every int) float64 {
	if s == nil {
		return weightedNLL(logp, weights)
	}
	mixed := make([]float64, len(logp))
	for k, p := range logp {
		mixed[k] = p
		if !math.IsInf(p, 0) { // a NaN stays NaN
			// log (.95 p + .05 q)
			a, b := p+math.Log1p(-strayShare), s[k*every]+math.Log(strayShare)
			mixed[k] = max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
		}
	}
	return weightedNLL(mixed, weights)
}
