// Package quadrature computes zᵀ log(A) z for a positive definite matrix A by the Gauss rules of the Lanczos
// iteration.
package quadrature

import (
	"math"
	"slices"
)

// Log returns bounds lower ≤ zᵀ log(A) z ≤ upper for a unit vector z and a matrix A with eigenvalues of at least 1,
// from a Lanczos iteration that starts at z. diag has the m diagonal entries of its tridiagonal matrix T, and off
// has the entries beside the diagonal: m−1 of them if the Krylov space is exhausted, otherwise m. The m-th entry
// leads out of T. The Gauss rule is an upper bound, and the Gauss–Radau rule with the node 1 is a lower bound. With
// m−1 entries both are equal. lower is 0 where rounding leaves no Gauss–Radau rule. ok is false where T is not
// finite.
func Log(diag, off []float64) (lower, upper float64, ok bool) {
	m := len(diag)
	if upper, ok = logOf(diag, off[:m-1]); !ok || len(off) < m {
		return upper, upper, ok
	}
	// The Gauss–Radau rule appends the diagonal entry 1 + β²[(T − 1)⁻¹]_mm to T, which makes 1 an eigenvalue.
	d := diag[0] - 1
	for i := 1; i < m && d > 0; i++ {
		d = diag[i] - 1 - off[i-1]*off[i-1]/d
	}
	if d <= 0 {
		return 0, upper, true
	}
	lower, ok = logOf(append(diag[:m:m], 1+off[m-1]*off[m-1]/d), off)
	return math.Min(lower, upper), upper, ok
}

// logOf returns e₁ᵀ log(T) e₁ for the tridiagonal matrix T.
func logOf(diag, off []float64) (sum float64, ok bool) {
	values, first, ok := eigen(diag, off)
	for i, e := range values {
		// Eigenvalues are at least 1 up to rounding.
		sum += first[i] * first[i] * math.Log(math.Max(1, e))
	}
	return sum, ok
}

// mostSweeps is the most sweeps of the QL iteration for one eigenvalue; two or three are usual.
const mostSweeps = 100

// eigen returns the eigenvalues of a symmetric tridiagonal matrix and the first components of its unit
// eigenvectors, by the implicit QL iteration (Golub and Welsch 1969). It takes O(n²) operations; all components
// would take O(n³).
func eigen(diag, off []float64) (values, first []float64, ok bool) {
	n := len(diag)
	d, e, z := slices.Clone(diag), make([]float64, n), make([]float64, n)
	copy(e, off)
	z[0] = 1
	for l := range n {
		for sweep := 0; ; sweep++ {
			m := l
			for m < n-1 && !(math.Abs(e[m]) <= epsilon*(math.Abs(d[m])+math.Abs(d[m+1]))) {
				m++
			}
			if m == l {
				break
			}
			if sweep == mostSweeps {
				return nil, nil, false
			}
			sweepQL(d, e, z, l, m)
		}
	}
	return d, z, true
}

const epsilon = 0x1p-52

// sweepQL does one implicit QL step with Wilkinson's shift on rows l to m.
func sweepQL(d, e, z []float64, l, m int) {
	g := (d[l+1] - d[l]) / (2 * e[l])
	g = d[m] - d[l] + e[l]/(g+math.Copysign(math.Hypot(g, 1), g))
	s, c, p := 1.0, 1.0, 0.0
	for i := m - 1; i >= l; i-- {
		f, b := s*e[i], c*e[i]
		r := math.Hypot(f, g)
		if e[i+1] = r; r == 0 {
			d[i+1] -= p
			e[m] = 0
			return
		}
		s, c = f/r, g/r
		g = d[i+1] - p
		r = (d[i]-g)*s + 2*c*b
		p = s * r
		d[i+1] = g + p
		g = c*r - b
		z[i], z[i+1] = c*z[i]-s*z[i+1], s*z[i]+c*z[i+1]
	}
	d[l] -= p
	e[l], e[m] = g, 0
}
