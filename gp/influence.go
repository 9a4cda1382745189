package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Too few digits of I − RᵀhR are left where its smallest pivot is below smallLeft,
// or, if h itself has the rounding of κ, by subtraction from κ or through inducing examples,
// below smallOfPrior·tr RᵀκR.
const smallLeft, smallOfPrior = 1e-8, 1e-9

// RemovalFrom writes q = (I − Λh)⁻¹ r of one training example, length C. Leaving
// the example out moves f(x*) by −C(x*,x_i) q to first order (E15). It is for
// implementations of Dual.InfluenceTo that have h = C(x_i,x_i) but no factor of
// all examples. root is R with Λ = R Rᵀ, r is the residual, and prior is
// κ(x_i,x_i), or nil where h was not found by subtraction from it. All matrices
// are C×C.
//
// q is NaN where I − RᵀhR has lost its digits to rounding. That is so where the
// example alone nearly fixes the function at its own input.
func RemovalFrom(q []float64, h, root, prior mat.Matrix, r []float64) {
	z := ownGain(h, root, prior)
	if z == nil {
		for i := range q {
			q[i] = math.NaN()
		}
		return
	}
	// r + R (I − RᵀhR)⁻¹ Rᵀ h r (E15)
	var u mat.VecDense
	residual, dst := mat.NewVecDense(len(r), r), mat.NewVecDense(len(q), q)
	u.MulVec(z, residual)
	dst.MulVec(root, &u)
	dst.AddVec(dst, residual)
}

// LeaveOneOutFrom writes the posterior of the function at one training input
// without the example itself (E17), the mean, length C, and the covariance, C×C. It
// is for implementations of Dual.LeaveOneOutTo that have h = C(x_i,x_i) but no
// factor of all examples. root and prior are those of RemovalFrom, f is the
// posterior mean at the input and r the residual there. A nil mean or cov is
// skipped.
//
// Both are NaN where I − RᵀhR has lost its digits to rounding. That is so where
// the example alone nearly fixes the function at its own input.
func LeaveOneOutFrom(mean []float64, cov *mat.Dense, h, root, prior mat.Matrix, f, r []float64) {
	c := len(r)
	if cov == nil {
		cov = mat.NewDense(c, c, nil)
	}
	z := ownGain(h, root, prior)
	if z == nil {
		fillNaN(cov)
	} else {
		// cov_−i = h + hR(I − RᵀhR)⁻¹Rᵀh (E17)
		var more mat.Dense
		more.Product(h, root, z)
		for i := range c {
			for j := range i + 1 {
				v := h.At(i, j) + (more.At(i, j)+more.At(j, i))/2
				cov.Set(i, j, v)
				cov.Set(j, i, v)
			}
		}
	}
	if mean != nil {
		leftOutTo(mean, cov, f, r)
	}
}

// splitRounding is how negative rounding may make a variance that is given in parts, relative to the prior variance.
const splitRounding = 1e-11

// LeaveOneOutSplit is LeaveOneOutFrom where the covariance is h + rest and the examples inform h alone, as a SplitSolver
// gives it. prior is κ(x_i,x_i); it is not read where rest is nil, which is no rest. The matrices have C×C numbers, and
// mean, f and r have C.
func LeaveOneOutSplit(mean []float64, cov, h, rest, prior *mat.Dense, root mat.Matrix, f, r []float64) {
	if rest == nil {
		LeaveOneOutFrom(mean, cov, h, root, nil, f, r)
		return
	}
	LeaveOneOutFrom(mean, cov, h, root, prior, f, r)
	if cov == nil {
		return
	}
	// cov_−i += k_ii − q_ii (E17)
	cov.Add(cov, rest)
	if SettleVariances(cov, dense.Diagonal(prior.RawMatrix()), splitRounding, 0, len(r)) != nil {
		fillNaN(cov)
	}
}

// ownGain returns (I − RᵀhR)⁻¹Rᵀh, or nil where rounding leaves no digits of it.
func ownGain(h, root, prior mat.Matrix) *mat.Dense {
	c, _ := h.Dims()
	var hr, rhr mat.Dense
	hr.Mul(h, root)
	rhr.Mul(root.T(), &hr)
	inner := mat.NewSymDense(c, nil)
	for i := range c {
		for j := i; j < c; j++ {
			// [B⁻¹]_ii = I − RᵀhR
			inner.SetSym(i, j, -(rhr.At(i, j)+rhr.At(j, i))/2)
		}
		inner.SetSym(i, i, 1+inner.At(i, i))
	}
	var chol mat.Cholesky
	if !chol.Factorize(inner) {
		return nil
	}
	least := smallLeft
	if prior != nil {
		var scaled mat.Dense
		scaled.Product(root.T(), prior, root)
		least = math.Max(smallLeft, smallOfPrior*mat.Trace(&scaled))
	}
	var u mat.TriDense
	chol.UTo(&u)
	for i := range c {
		if u.At(i, i)*u.At(i, i) < least {
			return nil
		}
	}
	z := new(mat.Dense)
	// A condition warning still carries the solution.
	_ = chol.SolveTo(z, hr.T())
	return z
}
