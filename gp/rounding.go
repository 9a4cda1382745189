package gp

import "gonum.org/v1/gonum/mat"

// SettleVariances is the one rule for posterior variances that rounding made
// negative. Where a variance is negative by at most rounding times the prior
// variance, its row and column of cov become zero. Where it is more negative,
// the error is a *NegativeVarianceError, and where it is NaN a *NotFiniteError.
// cov is square and prior holds the prior variance of each of its rows. Row i is
// output i%c of example first + i/c.
func SettleVariances(cov *mat.Dense, prior []float64, rounding float64, first, c int) error {
	for i, p := range prior {
		v := cov.At(i, i)
		switch {
		case v != v:
			return &NotFiniteError{What: "predictive variance", Row: first + i/c, Output: i % c, Value: v}
		case v >= 0:
			continue
		case v < -rounding*p:
			return &NegativeVarianceError{Row: first + i/c, Output: i % c, Variance: v, Prior: p}
		}
		for j := range prior {
			cov.Set(i, j, 0)
			cov.Set(j, i, 0)
		}
	}
	return nil
}
