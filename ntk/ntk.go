package ntk

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// NTK is the neural tangent kernel of a network and a prior (E2). It is
// read-only and safe for concurrent use.
type NTK struct {
	variance []float64                  // diagonal of Σ₀
	shift    []float64                  // μ₀ − θ*
	steps    []int                      // indices where the variance differs from the one before
	groups   []Group                    // of the prior; empty where it is one group
	budget   int                        // bytes of columns held at a time
	model    linearize.ModelFingerprint // θ* alone
}

var (
	_ Kernel  = (*NTK)(nil)
	_ MulToer = (*NTK)(nil)
)

// columnBudget is the memory for columns of the Jacobian, in bytes.
const columnBudget = 64 << 20

// New returns the kernel of networks linearized at theta = θ* under a prior. It
// does not keep theta. It panics where the prior has another number of parameters
// than theta or a variance that is negative or not finite. A variance of zero
// holds a parameter at μ₀.
func New(prior Prior, theta []float64) *NTK {
	mean := make([]float64, len(theta))
	variance := make([]float64, len(theta))
	prior.MeanTo(mean)
	prior.VarianceTo(variance)
	for i := range mean {
		mean[i] -= theta[i]
	}
	k := newNTK(variance, mean)
	k.model.Parameters = linearize.SumOf(theta)
	if g, ok := prior.(Grouped); ok {
		k.groups = g.Groups()
	}
	return k
}

func newNTK(variance, shift []float64) *NTK {
	k := &NTK{variance: variance, shift: shift, budget: columnBudget}
	for i, v := range variance {
		if !(v >= 0) || math.IsInf(v, 1) {
			panic("ntk: prior variance is not finite and nonnegative")
		}
		if i > 0 && v != variance[i-1] {
			k.steps = append(k.steps, i)
		}
	}
	return k
}

// roots returns the square roots of the variances of parameters lo to hi−1.
func (k *NTK) roots(lo, hi int) []float64 {
	root := make([]float64, hi-lo)
	for i := range root {
		root[i] = math.Sqrt(k.variance[lo+i])
	}
	return root
}

// Groups returns the number of groups of the prior, which is 1 where it has none.
func (k *NTK) Groups() int { return max(1, len(k.groups)) }

// GroupKernel returns the prior with all parameters outside group g held at
// θ*. Its kernel is K_g = s_g J_g J_gᵀ (E10), and the groups' kernels add up to the
// whole. It uses only the group's part of the Jacobian.
func (k *NTK) GroupKernel(g int) Kernel {
	if g < 0 || g >= k.Groups() {
		panic("ntk: group out of range")
	}
	if len(k.groups) == 0 {
		return k
	}
	variance, shift := make([]float64, len(k.variance)), make([]float64, len(k.shift))
	for _, s := range k.groups[g].Spans {
		lo, hi := s.Offset, s.Offset+s.Len()
		copy(variance[lo:hi], k.variance[lo:hi])
		copy(shift[lo:hi], k.shift[lo:hi])
	}
	one := newNTK(variance, shift)
	one.budget, one.model = k.budget, k.model
	return one
}

// MeanTo implements Kernel: m = F + J(μ₀−θ*) (E2). It panics where b is not linearized at
// θ* (see Mismatch).
func (k *NTK) MeanTo(dst []float64, b *linearize.Batch) {
	k.checkBatch(b)
	if d := k.Mismatch(b); d != "" {
		panic("ntk: the examples are not linearized at θ* of the kernel: " + d + "; give New the parameters of the network")
	}
	c := b.Outputs()
	if len(dst) != b.Len()*c {
		panic("ntk: mean has wrong length")
	}
	k.each(b.Len(), chunk, func(_ *scratch, e examples) {
		part, out := b.Slice(e.lo, e.hi), dst[e.lo*c:e.hi*c]
		part.MulVecTo(out, k.shift)
		for i := range e.len() {
			for j, f := range part.F.RawRowView(i) {
				out[i*c+j] += f
			}
		}
	})
}

// chunk is how many examples a goroutine takes at a time where each is computed by
// itself.
const chunk = 64

// each calls do on several goroutines for ranges of the n examples, of at most size
// examples each.
func (k *NTK) each(n, size int, do func(s *scratch, e examples)) {
	k.eachUntil(context.Background(), n, size, do)
}

// eachUntil is like each, but starts no further range once ctx is done.
func (k *NTK) eachUntil(ctx context.Context, n, size int, do func(s *scratch, e examples)) {
	k.runUntil(ctx, par.Tiles(n, size), func(s *scratch, i int) {
		lo, hi := par.Bounds(i, n, size)
		do(s, examples{lo, hi})
	})
}

// runUntil calls do on several goroutines with the numbers below n, and starts no further call once ctx is done.
func (k *NTK) runUntil(ctx context.Context, n int, do func(s *scratch, i int)) {
	// The only error is that of ctx, which the caller checks.
	_ = par.Do(ctx, n, func(i int) error {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		do(s, i)
		return nil
	})
}

func (k *NTK) checkBatch(b *linearize.Batch) {
	if b.P != len(k.variance) {
		panic("ntk: batch has another number of parameters than the prior")
	}
}

// checkPair panics unless the batches are of one network.
func (k *NTK) checkPair(a, b *linearize.Batch) {
	k.checkBatch(a)
	k.checkBatch(b)
	if len(a.Blocks) != len(b.Blocks) {
		panic("ntk: batches of different networks")
	}
	for i := range a.Blocks {
		if a != b && !slices.Equal(a.Blocks[i].Spans(), b.Blocks[i].Spans()) {
			panic("ntk: batches of different networks")
		}
	}
}

// sizeTo sizes an empty dst, and panics where another dst has the wrong size. It
// reports whether there is anything to write.
func sizeTo(dst *mat.Dense, rows, cols int) bool {
	if rows == 0 || cols == 0 {
		if !dst.IsEmpty() {
			panic("ntk: destination has wrong size")
		}
		return false
	}
	if dst.IsEmpty() {
		dst.ReuseAs(rows, cols)
	}
	if r, c := dst.Dims(); r != rows || c != cols {
		panic("ntk: destination has wrong size")
	}
	return true
}
