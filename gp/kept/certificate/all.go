package certificate

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/quadrature"
)

const (
	// failure is the probability that one of the bounds by random vectors does not hold.
	failure = 1e-6
	// statements are those that failure is divided among: ‖M‖₂ from above, and two sides of
	// each t and log det(I + M).
	statements = 5
	// vectors is the number of random vectors for the traces.
	vectors = 8
	// mostSteps bounds the Lanczos steps for ‖M‖₂.
	mostSteps = 100
	// near is how near to each other the ends of 1 + ‖M‖₂ are to be, relatively.
	near = 0.01
	// rounding is that of products with the Jacobian, which may be differences.
	rounding = 1e-6
)

// all bounds c by products with M of normal random vectors z over all dropped rows.
func (d *dropped) all(ctx context.Context, c *Certificate) error {
	n := d.rows.Len()
	need := func(n int) int64 { return memory.Mul(8*(fewSteps+4), int64(n)) }
	if err := gp.CheckMemory("a certificate from all dropped rows", "dropped rows", n, d.o.MaxMemory, need); err != nil {
		return err
	}
	steps := int(min(mostSteps, gp.MemoryBudget(d.o.MaxMemory)/(8*int64(n))-4))
	c.Failure, c.Rows = failure, n
	m := d.product()
	var first *krylov
	var traces, low, high float64 // Σ zᵀMz and the ends of Σ zᵀlog(I+M)z
	for k := range vectors {
		y := newKrylov(m, d.o.Seed, k)
		if k == 0 {
			first = y
			err := y.run(ctx, steps, func() bool {
				d.o.Progress(StageNorm, len(y.diag), 0)
				least, most := y.norm()
				return most-least <= near*(1+least)
			})
			if err != nil {
				return err
			}
		}
		var lower, upper float64
		err := y.run(ctx, min(steps, fewSteps), func() bool {
			lower, upper = y.logs()
			return upper-lower <= near*upper
		})
		if err != nil {
			return err
		}
		traces, low, high = traces+y.square*y.diag[0], low+lower, high+upper
		d.o.Progress(StageTrace, k+1, vectors)
	}
	c.Norm[0], c.Norm[1] = first.norm()
	least, most := traceBounds(traces*(1-rounding)/vectors, traces*(1+rounding)/vectors, c.Norm[1])
	c.Norm[1] = min(c.Norm[1], most)
	c.TraceM, c.TraceMError = (least+most)/2, (most-least)/2
	c.LogDet[0], c.LogDet[1] = traceBounds(low*(1-rounding)/vectors, high*(1+rounding)/vectors, math.Log1p(c.Norm[1]))
	c.LogDet[0], c.LogDet[1] = max(c.LogDet[0], leastLogDet(least, c.Norm[1])), min(c.LogDet[1], most)
	return nil
}

// fewSteps is how many Lanczos vectors the memory must hold.
const fewSteps = 20

// traceBounds returns bounds of tr A ≥ 0, ‖A‖₂ ≤ norm, from the mean of zᵀAz over the
// random vectors, which is between low and high. With A's eigenvalues a, Q = zᵀAz is
// Σ a_i χ²_i, for which (Laurent and Massart 2000, lemma 1)
//
//	P(Q ≥ tr A + 2√(x Σa²) + 2x max a) ≤ e⁻ˣ,   P(Q ≤ tr A − 2√(x Σa²)) ≤ e⁻ˣ;
//
// Σa² ≤ max a · tr A.
func traceBounds(low, high, norm float64) (least, most float64) {
	v := norm * math.Log(statements/failure) / vectors
	// low ≤ tr A + 2√(v tr A) + 2v, high ≥ tr A − 2√(v tr A)
	root := math.Sqrt(max(0, low-v)) - math.Sqrt(v)
	least = max(0, root) * max(0, root)
	root = math.Sqrt(v) + math.Sqrt(v+high)
	return least, root * root
}

// A krylov is the Lanczos iteration on M from a normal random vector z, with all of its
// vectors orthogonal to one another.
type krylov struct {
	m         *product
	square    float64     // zᵀz
	v         [][]float64 // the vectors, the next one last
	diag, off []float64   // the tridiagonal matrix
	exhausted bool        // the Krylov space is invariant
}

// vectorStream is the first stream of random numbers of z.
const vectorStream = 0x6b72796c6f76 << 8

func newKrylov(m *product, seed uint64, k int) *krylov {
	rng := rand.New(rand.NewPCG(seed, vectorStream+uint64(k)))
	z := make([]float64, m.d.rows.Len())
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	y := &krylov{m: m, square: floats.Dot(z, z)}
	floats.Scale(1/math.Sqrt(y.square), z)
	y.v = [][]float64{z}
	return y
}

// step adds a row to the tridiagonal matrix.
func (y *krylov) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k := len(y.diag)
	w := make([]float64, len(y.v[k]))
	if err := y.m.to(ctx, w, y.v[k]); err != nil {
		return err
	}
	alpha := floats.Dot(w, y.v[k])
	if math.IsNaN(alpha) || math.IsInf(alpha, 0) {
		return &gp.NotFiniteError{What: "covariance of all dropped rows", Value: alpha, Remedy: "raise the prior precision, or check the network's Jacobian"}
	}
	// Twice is enough.
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
	return nil
}

// breakdown is the β, relative to α, below which it is rounding.
const breakdown = 1e-7

// run makes steps until done, at most so many in all.
func (y *krylov) run(ctx context.Context, most int, done func() bool) error {
	for len(y.diag) == 0 || !done() && !y.exhausted && len(y.diag) < most {
		if err := y.step(ctx); err != nil {
			return err
		}
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

// norm returns the largest Ritz value θ, which is no larger than ‖M‖₂, and an upper bound.
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
func (y *krylov) norm() (least, most float64) {
	k := len(y.diag)
	t := mat.NewSymDense(k, nil)
	for i, v := range y.diag {
		t.SetSym(i, i, v)
		if i > 0 {
			t.SetSym(i-1, i, y.off[i-1])
		}
	}
	values, _, err := eigen(t)
	if err != nil {
		return 0, math.Inf(1)
	}
	least = max(0, values[k-1])
	if y.exhausted || least == 0 {
		return least, least * (1 + rounding)
	}
	// P(g² ≤ q) = erf(√(q/2))
	q := 2 * math.Pow(math.Erfinv(failure/statements), 2)
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
