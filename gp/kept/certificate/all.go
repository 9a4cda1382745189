package certificate

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

const (
	// failure is the probability that one of the bounds by random vectors does not hold. It is
	// divided among six: ‖M‖₂ and tr M² from above, and two sides of each t and log det(I + M).
	failure     = 1e-6
	failureEach = failure / 6
	// vectors is the number of random vectors for the traces.
	vectors = 8
	// mostSteps bounds the Lanczos steps for ‖M‖₂.
	mostSteps = 100
	// near is the relative width of the interval of 1 + ‖M‖₂ at which Lanczos steps end.
	near = 0.01
	// nearLogs is the relative width of the interval of zᵀ log(I+M) z at which Lanczos steps end. It is larger, because
	// these values differ among the vectors.
	nearLogs = 0.03
	// rounding is the relative error of products with the Jacobian, which may be difference quotients.
	rounding = 1e-6
)

// all bounds c by products with M of normal random vectors z over all dropped rows.
func (d *dropped) all(ctx context.Context, c *Certificate) error {
	n := d.rows.Len()
	need := func(n int) int64 { return memory.Mul(8*(fewSteps+4), int64(n)) }
	if err := gp.CheckMemory("a certificate from all dropped rows", "dropped rows", n, d.o.Memory, need); err != nil {
		return err
	}
	steps := int(min(mostSteps, gp.MemoryBudget(d.o.Memory)/(8*int64(n))-4))
	c.Failure, c.Rows = failure, n
	p := d.post.Rows().P
	m := &product{d: d, products: d.o.Products, variance: make([]float64, p), params: make([]float64, p), outputs: make([]float64, d.src.Len()*d.outputs())}
	if m.products == nil {
		m.products = linearize.ProductsOf(d.src)
	}
	d.prior.VarianceTo(m.variance)
	var first *krylov
	var trace, low, high float64 // means of zᵀMz and of the ends of zᵀlog(I+M)z
	var lengths []float64        // ‖Mz‖
	for k := range vectors {
		y := newKrylov(n, m.to, d.o.Seed, k)
		if k == 0 {
			first = y
			err := y.run(ctx, steps, func() bool {
				d.o.Show(StageNorm, len(y.diag), 0)
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
			return upper-lower <= nearLogs*upper
		})
		if err != nil {
			return err
		}
		trace += y.square * y.diag[0] / vectors
		lengths = append(lengths, math.Sqrt(y.square)*math.Hypot(y.diag[0], y.off[0]))
		low, high = low+lower/vectors, high+upper/vectors
		d.o.Show(StageTrace, k+1, vectors)
	}
	c.Norm[0], c.Norm[1] = first.norm(failureEach)
	norm := c.Norm[1]
	if norm == 0 {
		return nil
	}
	// tr (M/‖M‖)² from (‖Mz‖/‖M‖)², which does not underflow
	square := 0.0
	for _, v := range lengths {
		square += (v / norm) * (v / norm) / vectors
	}
	_, square = traceBounds(square, square, 1, math.Inf(1), failureEach)
	size := norm * math.Sqrt(square)
	least, most := traceBounds(trace, trace, norm, size, failureEach)
	c.Norm[1] = min(norm, most)
	c.TraceM, c.TraceMError = trace, max(trace-least, most-trace)
	// log(1+a) ≤ a, so that log(I+M) has no larger size.
	c.LogDet[0], c.LogDet[1] = traceBounds(low, high, math.Log1p(norm), size, failureEach)
	c.LogDet[0], c.LogDet[1] = max(c.LogDet[0], leastLogDet(least, norm)), min(c.LogDet[1], most)
	return nil
}

// fewSteps is how many Lanczos vectors the memory must hold.
const fewSteps = 20

// traceBounds returns bounds of tr A ≥ 0, where ‖A‖₂ ≤ norm and √tr A² ≤ size, from the mean
// of zᵀAz over the random vectors, which is between low and high. With A's eigenvalues
// a, Q = zᵀAz is Σ a_i χ²_i, for which (Laurent and Massart 2000, lemma 1)
//
//	P(Q ≥ tr A + 2√(x Σa²) + 2x max a) ≤ e⁻ˣ,   P(Q ≤ tr A − 2√(x Σa²)) ≤ e⁻ˣ,
//
// and Σa² ≤ max a · tr A too. Each bound fails with the probability failure.
func traceBounds(low, high, norm, size, failure float64) (least, most float64) {
	low, high = low*(1-rounding), high*(1+rounding)
	x := math.Log(1/failure) / vectors
	v, scatter := norm*x, 2*math.Sqrt(x)*size
	// low ≤ tr A + 2√(v tr A) + 2v, high ≥ tr A − 2√(v tr A)
	root := max(0, math.Sqrt(max(0, low-v))-math.Sqrt(v))
	least = max(root*root, low-scatter-2*v)
	root = math.Sqrt(v) + math.Sqrt(v+high)
	return least, min(root*root, high+scatter)
}
