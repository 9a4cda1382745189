package certificate

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
)

const (
	// failure is the probability that one of the bounds by random vectors does not hold. It is
	// divided among five: ‖M‖₂ from above, and two sides of each t and log det(I + M).
	failure     = 1e-6
	failureEach = failure / 5
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
		y := newKrylov(n, m.to, d.o.Seed, k)
		if k == 0 {
			first = y
			err := y.run(ctx, steps, func() bool {
				d.o.Progress(StageNorm, len(y.diag), 0)
				least, most := y.norm(failureEach)
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
	c.Norm[0], c.Norm[1] = first.norm(failureEach)
	least, most := traceBounds(traces*(1-rounding)/vectors, traces*(1+rounding)/vectors, c.Norm[1], failureEach)
	c.Norm[1] = min(c.Norm[1], most)
	c.TraceM, c.TraceMError = (least+most)/2, (most-least)/2
	c.LogDet[0], c.LogDet[1] = traceBounds(low*(1-rounding)/vectors, high*(1+rounding)/vectors, math.Log1p(c.Norm[1]), failureEach)
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
// Σa² ≤ max a · tr A. Each bound fails with the probability failure.
func traceBounds(low, high, norm, failure float64) (least, most float64) {
	v := norm * math.Log(1/failure) / vectors
	// low ≤ tr A + 2√(v tr A) + 2v, high ≥ tr A − 2√(v tr A)
	root := math.Sqrt(max(0, low-v)) - math.Sqrt(v)
	least = max(0, root) * max(0, root)
	root = math.Sqrt(v) + math.Sqrt(v+high)
	return least, root * root
}
