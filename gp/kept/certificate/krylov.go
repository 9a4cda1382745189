package certificate

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/quadrature"
)

// A krylov is the Lanczos iteration on a positive semidefinite matrix M from a normal
// random vector z, with all of its vectors orthogonal to one another.
type krylov struct {
	mul       func(ctx context.Context, dst, v []float64) error // dst = M v
	square    float64                                           // zᵀz
	v         [][]float64                                       // the vectors, the next one last
	diag, off []float64                                         // the tridiagonal matrix
	exhausted bool                                              // the Krylov space is invariant
}

// vectorStream is the first stream of random numbers of z.
const vectorStream = 0x6b72796c6f76 << 8

// newKrylov draws the k-th vector of n numbers.
func newKrylov(n int, mul func(ctx context.Context, dst, v []float64) error, seed uint64, k int) *krylov {
	rng := rand.New(rand.NewPCG(seed, vectorStream+uint64(k)))
	z := make([]float64, n)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	y := &krylov{mul: mul, square: floats.Dot(z, z)}
	floats.Scale(1/math.Sqrt(y.square), z)
	y.v = [][]float64{z}
	return y
}

// breakdown is the value of β, relative to α, below which β is rounding.
const breakdown = 1e-13

// run makes steps until done, at most so many in all.
func (y *krylov) run(ctx context.Context, most int, done func() bool) error {
	for len(y.diag) == 0 || !done() && !y.exhausted && len(y.diag) < most {
		// Add a row to the tridiagonal matrix.
		if err := ctx.Err(); err != nil {
			return err
		}
		k := len(y.diag)
		w := make([]float64, len(y.v[k]))
		if err := y.mul(ctx, w, y.v[k]); err != nil {
			return err
		}
		alpha := floats.Dot(w, y.v[k])
		if math.IsNaN(alpha) || math.IsInf(alpha, 0) {
			return &gp.NotFiniteError{What: "covariance of all dropped rows", Value: alpha, Remedy: "raise the prior precision, or check the network's Jacobian"}
		}
		// Orthogonalize twice: a third pass would change nothing but rounding (Parlett 1998, section 6.9).
		for range 2 {
			for _, v := range y.v {
				floats.AddScaled(w, -floats.Dot(w, v), v)
			}
		}
		beta := floats.Norm(w, 2)
		y.diag, y.off = append(y.diag, alpha), append(y.off, beta)
		if y.exhausted = beta <= breakdown*max(y.diag[0], alpha); !y.exhausted {
			floats.Scale(1/beta, w)
		}
		y.v = append(y.v, w)
	}
	return nil
}

// logs returns bounds of zᵀ log(I + M) z.
func (y *krylov) logs() (lower, upper float64) {
	diag, off := make([]float64, len(y.diag)), y.off
	for i, v := range y.diag {
		diag[i] = 1 + v
	}
	if y.exhausted {
		off = off[:len(off)-1]
	}
	lower, upper, ok := quadrature.Log(diag, off)
	if !ok {
		return 0, math.Inf(1)
	}
	return lower * y.square, upper * y.square
}

// norm returns the largest Ritz value θ, which is no larger than ‖M‖₂, and an upper bound
// that fails with the probability failure.
//
// With g the component of z along M's first eigenvector, of eigenvalue ρ, and π_j the
// polynomials that are orthonormal in the measure of z on the eigenvalues, which the
// iteration finds,
//
//	g² Σ_j π_j(ρ)² ≤ 1,
//
// because g² is the measure of ρ alone (the Christoffel function). Beyond θ the sum grows
// with ρ, and g² is χ² with one degree of freedom: it is as small as its quantile with
// the probability of that. Kuczyński and Woźniakowski 1992 bound the same event before
// the iteration, by Chebyshev polynomials.
func (y *krylov) norm(failure float64) (least, most float64) {
	least, _, _, ok := y.largest()
	if !ok {
		return 0, math.Inf(1)
	}
	if y.exhausted || least == 0 {
		return least * (1 - rounding), least * (1 + rounding)
	}
	// P(g² ≤ q) = erf(√(q/2))
	q := 2 * math.Pow(math.Erfinv(failure), 2)
	above := 2 * least
	for y.christoffel(above) < 1/q {
		above *= 2
	}
	below := least
	for range 60 {
		if at := below + (above-below)/2; y.christoffel(at) < 1/q {
			below = at
		} else {
			above = at
		}
	}
	return least * (1 - rounding), above * (1 + rounding)
}

// largest returns the largest Ritz value, at least 0, the coefficients of its vector, and
// the norm of what M makes of the vector beyond the value times itself.
func (y *krylov) largest() (value float64, vector []float64, residual float64, ok bool) {
	k := len(y.diag)
	t := mat.NewSymDense(k, nil)
	for i, v := range y.diag {
		t.SetSym(i, i, v)
		if i > 0 {
			t.SetSym(i-1, i, y.off[i-1])
		}
	}
	var e mat.EigenSym
	if !e.Factorize(t, true) {
		return 0, nil, 0, false
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	vector = mat.Col(nil, k-1, &vectors)
	return max(0, e.Values(nil)[k-1]), vector, y.off[k-1] * math.Abs(vector[k-1]), true
}

// christoffel returns Σ_j π_j(x)².
func (y *krylov) christoffel(x float64) float64 {
	before, at := 0.0, 1/math.Sqrt(y.square)
	sum := at * at
	for j, beta := range y.off {
		// β_j π_{j+1} = (x − α_j) π_j − β_{j−1} π_{j−1}
		next := (x - y.diag[j]) * at
		if j > 0 {
			next -= y.off[j-1] * before
		}
		before, at = at, next/beta
		sum += at * at
	}
	return sum
}
