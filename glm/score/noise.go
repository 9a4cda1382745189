package score

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
)

// NoiseFactor returns the common factor on the noise covariance of a Gaussian likelihood and on the prior variances
// under which the targets are likeliest, given leave-one-out moments of the function (E17). A common factor does
// not change the means, and multiplies all covariances (E21). The best factor is therefore the mean of dᵀ(cov +
// noise)⁻¹d over rows and targets, with d = y − mean. y and mean are N×C, cov is N·C×C, and weights has a weight for
// each row; nil means 1 each. Rows with a NaN are left out. The error is a *RowsError where no row is left, or a
// *NotPDError.
func NoiseFactor(lik *glm.Gaussian, y, mean, cov *mat.Dense, weights []float64) (float64, error) {
	n, c := mean.Dims()
	noise := make([]float64, c*c)
	lik.NoiseTo(noise, c)
	sum, rows := 0.0, 0.0
	weight, _ := weigh(weights, 0)
	d := mat.NewVecDense(c, nil)
	all := mat.NewSymDense(c, nil)
	for i := range n {
		f := mean.RawRowView(i)
		sound := true
		for a := range c {
			d.SetVec(a, y.At(i, a)-f[a])
			sound = sound && !math.IsNaN(d.AtVec(a))
			for b := a; b < c; b++ {
				v := noise[a*c+b] + (cov.At(i*c+a, b)+cov.At(i*c+b, a))/2
				sound = sound && !math.IsNaN(v)
				all.SetSym(a, b, v)
			}
		}
		if !sound {
			continue
		}
		var factor mat.Cholesky
		if !factor.Factorize(all) {
			return 0, &glm.NotPDError{N: c, Row: i}
		}
		var u mat.VecDense
		if err := factor.SolveVecTo(&u, d); err != nil {
			return 0, &glm.NotPDError{N: c, Row: i}
		}
		sum += weight(i) * mat.Dot(d, &u)
		rows += weight(i) * float64(c)
	}
	if rows == 0 {
		return 0, &RowsError{Rows: n}
	}
	return sum / rows, nil
}
