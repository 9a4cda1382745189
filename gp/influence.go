package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Too few digits of I − RᵀhR are left where its smallest pivot is below smallLeft,
// or, if h itself was found by subtraction from κ, below smallOfPrior·tr RᵀκR.
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
	c := len(r)
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
	if !chol.Factorize(inner) || smallestPivot(&chol) < leastLeft(root, prior) {
		for i := range q {
			q[i] = math.NaN()
		}
		return
	}
	// r + R (I − RᵀhR)⁻¹ Rᵀ h r (E15)
	var u, z mat.VecDense
	residual, dst := mat.NewVecDense(c, r), mat.NewVecDense(c, q)
	u.MulVec(hr.T(), residual)
	// A condition warning still carries the solution.
	_ = chol.SolveVecTo(&z, &u)
	dst.MulVec(root, &z)
	dst.AddVec(dst, residual)
}

// leastLeft returns the smallest pivot of I − RᵀhR that still has digits.
func leastLeft(root, prior mat.Matrix) float64 {
	if prior == nil {
		return smallLeft
	}
	var scaled mat.Dense
	scaled.Product(root.T(), prior, root)
	return math.Max(smallLeft, smallOfPrior*mat.Trace(&scaled))
}

// smallestPivot returns the smallest squared diagonal element of the factor.
func smallestPivot(c *mat.Cholesky) float64 {
	var u mat.TriDense
	c.UTo(&u)
	least := math.Inf(1)
	for i := range c.SymmetricDim() {
		least = math.Min(least, u.At(i, i)*u.At(i, i))
	}
	return least
}
