package sparse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A Projected is the posterior over functions given the sums of all training
// examples (E13). It is immutable and safe for concurrent use.
type Projected struct {
	b        *basis
	o        Options
	sums     *Sums
	refit    bool
	ofSubset bool

	u      blas64.Triangular // A' = I + ΦΛΦᵀ = UᵀU
	w      []float64         // A'⁻¹c
	v      []float64         // Gw: K_*Z A⁻¹c = k_*Z v
	logDet float64           // log det A'
	tile   int               // bytes of a tile of features

	mu                   sync.Mutex
	ofKernel, ofFeatures *root // roots by which the data reduce prior covariances; nil until needed
}

var (
	_ gp.CrossSolver = (*Projected)(nil)
	_ gp.SplitSolver = (*Projected)(nil)
	_ gp.BoundSolver = (*Projected)(nil)
)

// tileBytes bounds the bytes of the features of a tile of test examples.
const tileBytes = 64 << 20

// newProjected factors A' and solves for the posterior, which keeps sums. It checks
// ctx between panels of the factorization.
func newProjected(ctx context.Context, b *basis, sums *Sums, o *Options) (*Projected, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &Projected{b: b, o: *o, sums: sums, tile: tileBytes}
	r := b.rank()
	a := sums.symmetric()
	a.Data = append([]float64(nil), sums.gram...)
	for i := range r {
		a.Data[i*a.Stride+i]++
	}
	u, ok, err := dense.PotrfContext(ctx, a)
	if err != nil {
		return nil, err
	}
	if p.u = u; !ok {
		return nil, &gp.NotPDError{What: "I + ΦΛΦᵀ", N: r, Reason: "the sums are those of no data"}
	}
	p.logDet = dense.LogDet(u)
	// w = A'⁻¹c (E13), with one step of iterative refinement.
	rest := append([]float64(nil), sums.rhs...)
	p.w = make([]float64, r)
	for range 2 {
		step := append([]float64(nil), rest...)
		dense.Solve(p.u, step)
		floats.Add(p.w, step)
		// c − (I + ΦΛΦᵀ)w
		floats.SubTo(rest, sums.rhs, p.w)
		dense.Symv(-1, sums.symmetric(), dense.Vector(p.w), 1, dense.Vector(rest))
	}
	v, err := b.weights(ctx, dense.In(append([]float64(nil), p.w...), 1, r))
	p.v = v.Data
	return p, err
}

// half replaces rows φ by φU⁻¹, so that φA'⁻¹φᵀ is the product of the result
// with its transpose.
func (p *Projected) half(ctx context.Context, phi blas64.General) error {
	return dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, p.u, phi)
}

// full replaces rows φ by φA'⁻¹.
func (p *Projected) full(ctx context.Context, phi blas64.General) error {
	if err := p.half(ctx, phi); err != nil {
		return err
	}
	return dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, p.u, phi)
}

// Inducing returns the inducing examples.
func (p *Projected) Inducing() *Inducing { return p.b.z }

// IsSubset tells whether the posterior is the exact one given the inducing
// examples alone, as FitSubset and RefitSubset return it.
func (p *Projected) IsSubset() bool { return p.ofSubset }

// Rank returns the rank of K_ZZ to working precision, at most M·C, or M with
// pairs.
func (p *Projected) Rank() int { return p.b.rank() }

// Sums returns the sums over the data; they must not be changed.
func (p *Projected) Sums() *Sums { return p.sums }

// Refitted tells whether the posterior came from a refit (E9).
func (p *Projected) Refitted() bool { return p.refit }

// TraceError returns tr(K − Q)/tr K over the training examples in the sums, the
// part of the prior variance that the inducing examples do not explain. It is NaN
// for a subset of data, which does not read the other examples.
func (p *Projected) TraceError() float64 {
	if p.IsSubset() {
		return math.NaN()
	}
	// Rounding may leave a negative sum of residuals where there are none.
	return math.Max(0, p.sums.residual) / p.sums.trace
}

// At returns the posterior under prior variances multiplied by factor, at the same
// sites. For an isotropic prior of precision δ, At(δ/δ') has the precision δ'. It
// takes no pass over the data. It panics where factor is not positive and finite.
func (p *Projected) At(ctx context.Context, factor float64) (*Projected, error) {
	if !(factor > 0) || math.IsInf(factor, 1) {
		panic("sparse: a factor on the prior variance must be positive and finite")
	}
	q, err := newProjected(ctx, p.b.scaled(factor), p.sums.scaled(factor), &p.o)
	if err != nil {
		return nil, err
	}
	q.refit = p.refit
	return q, nil
}

// Warnings returns a warning of inducing-rank where K_ZZ is singular to working precision.
func (p *Projected) Warnings() []error {
	if p.b.rank() < p.b.rows() {
		return []error{linearize.NewWarning("inducing-rank", float64(p.b.rank()), float64(p.b.rows()), "",
			"The kernel of the inducing examples has %d rows and rank %d to working precision. Nothing is lost: the other rows are sums of these.", p.b.rows(), p.b.rank())}
	}
	return nil
}

// linearMean tells whether the predictive mean is m + K_*Z A⁻¹c rather than x.F.
func (p *Projected) linearMean() bool { return p.refit || p.o.Mean == gp.LinearGaussian }

var errLeadingRank = errors.New("sparse: the kernel of the inducing examples is singular to working precision, and their order is lost; pass over the data again with fewer")

// Leading returns the posterior with the first m inducing examples alone. It takes
// no pass over the data, so that one pass with M inducing examples gives the
// posteriors of all smaller numbers. As K_ZZ = LLᵀ in the order of Z, the features
// of the first m examples are the first m·C features (the first m with pairs), and
// their sums are parts of the sums.
//
// It fails with a *CountError where m is not between 1 and M. It also fails for a
// subset of data, and where K_ZZ is singular to working precision.
func (p *Projected) Leading(ctx context.Context, m int) (*Projected, error) {
	switch {
	case m < 1 || m > p.b.z.Len():
		return nil, &CountError{M: m, N: p.b.z.Len(), Pairs: p.b.z.Pairs()}
	case p.b.g.Rows > 0:
		return nil, errLeadingRank
	case p.IsSubset():
		return nil, fmt.Errorf("sparse: a subset of data has other data for every number of examples; fit it again with %d", m)
	}
	// Make the basis of the first m inducing elements.
	b := p.b
	s := *b
	s.z = &Inducing{Batch: b.z.Batch.Slice(0, m), DataOutputs: b.z.DataOutputs, Directions: dense.Slice(b.z.Directions, 0, m)}
	if b.z.Rows != nil {
		s.z.Rows = b.z.Rows[:m]
	}
	s.l.N = m * b.per
	s.trace = 0
	for i := range s.l.N {
		row := s.l.Data[i*s.l.Stride:][:i+1]
		s.trace += floats.Dot(row, row)
	}
	b = &s
	q, err := newProjected(ctx, b, p.sums.leading(b.sumsSpec()), &p.o)
	if err != nil {
		return nil, err
	}
	q.refit = p.refit
	return q, nil
}

// leading returns the sums in the leading features.
func (s *Sums) leading(o sumsSpec) *Sums {
	t := newSums(o)
	t.n, t.scalars = s.n, s.scalars
	r, all := o.rank, s.spec.rank
	copy(t.rhs, s.rhs)
	copy(t.square, s.square)
	for i := range r {
		copy(t.gram[i*r+i:(i+1)*r], s.gram[i*all+i:])
	}
	// What the dropped features explained counts as residual again.
	t.residual = math.Max(0, t.residual) + floats.Sum(s.square[r:])
	for i := r; i < all; i++ {
		t.weighted += s.gram[i*all+i]
	}
	return t
}
