package score

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
)

// NoiseFactor returns the factor on the noise covariance of a Gaussian likelihood and on the prior
// variances together under which targets are likeliest, given moments of the function without
// them: the ones of leave-one-out (E17). A common factor leaves every mean as it is and multiplies all
// covariances (E21), so that the best one is the mean of dᵀ(cov + noise)⁻¹d over rows and targets,
// d = y − mean. y and mean are N×C, cov is N·C×C. Rows with a NaN are left out. The errors are a
// *RowsError where no row is left and a *NotPDError.
func NoiseFactor(lik *glm.Gaussian, y, mean, cov *mat.Dense) (float64, error) {
	n, c := mean.Dims()
	noise := make([]float64, c*c)
	lik.NoiseTo(noise, c)
	sum, rows := 0.0, 0
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
		sum += mat.Dot(d, &u)
		rows += c
	}
	if rows == 0 {
		return 0, &RowsError{Rows: n}
	}
	return sum / float64(rows), nil
}
