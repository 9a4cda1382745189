package sparse

import (
	"context"
	"math"
	"math/bits"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// preparedBytes bounds the memory of a prepared product. Where that is more, the
// kernel with the inducing examples is formed for every tile.
const preparedBytes = 1 << 30

// Cross prepares k_*Z A⁻¹ and k_*Z K_ZZ⁻¹ of the T examples of x. A tile is the
// product of these with k_Zi of its training examples, formed once for the two
// kinds of terms. Cross multiplies both by the Jacobian of Z beforehand, which takes
// 16·T·C·P bytes, unless that is more than 1 GiB. It fails with a *gp.MemoryError
// where these bytes and the features of x need more than Options.Memory.
//
// Where K_ZZ has full rank, the result is a gp.CombinedCross. Where K_ZZ is
// singular to working precision, a tile is a product of features instead. Those
// do not amplify rounding, so that the terms still add up to the mean.
func (p *Projected) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	t, c := p.checkInputs(x)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := &cross{p: p, rows: t * c}
	if t == 0 {
		return q, nil
	}
	prepared := func(t int) int64 { return memory.Mul(16, memory.Mul(memory.Mul(int64(t), int64(c)), int64(x.P))) }
	need := func(t int) int64 {
		n := memory.Mul(32, memory.Mul(memory.Mul(int64(t), int64(c)), int64(p.b.rows())))
		if kept := prepared(t); kept <= preparedBytes {
			n = memory.Add(n, kept)
		}
		return n
	}
	if err := gp.CheckMemory("a cross-kernel", gp.TestExamples, t, p.o.Memory, need); err != nil {
		return nil, err
	}
	phi, err := newFeaturesOf(p.b, q.rows).of(ctx, chunk{x: x, rows: q.rows})
	if err != nil {
		return nil, err
	}
	// k_*Z A⁻¹ = φ_*ᵀA'⁻¹Gᵀ above k_*Z K_ZZ⁻¹ = φ_*ᵀGᵀ
	both := dense.New(2*q.rows, phi.Cols)
	copy(both.Data, phi.Data)
	copy(both.Data[q.rows*both.Stride:], phi.Data)
	if err := p.full(ctx, dense.Rows(both, 0, q.rows)); err != nil {
		return nil, err
	}
	if p.b.g.Rows > 0 {
		q.weights = both
		return q, nil
	}
	weights, err := p.b.weights(ctx, both)
	if err != nil {
		return nil, err
	}
	w := mat.DenseCopyOf(dense.View(weights).T())
	q.kernel = kernelProduct{p.b.k, p.b.z.Batch, w}
	if prepared(t) <= preparedBytes {
		q.kernel = prepare(p.b.k, p.b.z.Batch, w)
	}
	return combinedCross{q}, nil
}

// Jacobian implements gp.Solver: J(x) − k_*Z (K_ZZ⁻¹ − A⁻¹) J_Z. The kernel between it and another Jacobian is the
// covariance of JointTo. It takes 8·T·C·P bytes.
func (p *Projected) Jacobian(ctx context.Context, x *linearize.Batch) (*linearize.Batch, error) {
	t, c := p.checkInputs(x)
	need := func(t int) int64 { return memory.Mul(8, memory.Mul(memory.Mul(int64(t), int64(c)), int64(x.P))) }
	if err := gp.CheckMemory("a posterior Jacobian", gp.TestExamples, t, p.o.Memory, need); err != nil {
		return nil, err
	}
	all := chunk{x: x, rows: t * c}
	k, err := newFeaturesOf(p.b, all.rows).cross(all)
	if err != nil {
		return nil, err
	}
	s, err := p.root(ctx, false)
	if err != nil {
		return nil, err
	}
	half, err := s.times(ctx, k)
	if err != nil {
		return nil, err
	}
	weights := dense.New(p.b.rows(), all.rows)
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, -1, s.General, half, 0, weights); err != nil {
		return nil, err
	}
	sum := jacobian.Sum{}
	sum.Copy(x)
	return sum.Batch, sum.Add(ctx, p.b.z.Batch, weights)
}

// prepare returns the product κ(·, z) w, prepared where k can.
func prepare(k ntk.Kernel, z *linearize.Batch, w *mat.Dense) ntk.Product {
	of, factor := unscaled(k)
	p, ok := of.(ntk.Preparer)
	if !ok {
		return kernelProduct{k, z, w}
	}
	if factor != 1 {
		w = mat.DenseCopyOf(w)
		w.Scale(factor, w)
	}
	return p.Prepare(z, w)
}

// A kernelProduct is κ(·, z) w by a kernel that prepares no products.
type kernelProduct struct {
	k ntk.Kernel
	z *linearize.Batch
	w *mat.Dense
}

// MulTo implements ntk.Product.
func (f kernelProduct) MulTo(dst *mat.Dense, a *linearize.Batch) {
	if m, ok := f.k.(ntk.MulToer); ok {
		m.MulTo(dst, a, f.z, f.w)
		return
	}
	var cross mat.Dense
	f.k.BlockTo(&cross, a, f.z)
	// A context without a deadline gives no error.
	_ = dense.GemmContext(context.Background(), blas.NoTrans, blas.NoTrans, 1, cross.RawMatrix(), f.w.RawMatrix(), 0, dst.RawMatrix())
}

// A cross computes k_*Z A⁻¹ k_Zi for the posterior terms (E13), and q_*i for the
// raw ones.
type cross struct {
	p      *Projected
	rows   int
	kernel ntk.Product // κ(·, Z) times the weights of the posterior terms, then those of the raw terms

	weights blas64.General // where K_ZZ is singular: A'⁻¹φ_* above φ_*, 2·T·C×rank

	mu   sync.Mutex
	last uint64     // checksum of the batch whose product is kept; a Source may reuse the memory of a batch
	prod *mat.Dense // n·C × 2·T·C, nil at first
}

var _ gp.Cross = (*cross)(nil)

// TileTo implements gp.Cross.
func (q *cross) TileTo(ctx context.Context, dst *mat.Dense, _ int, train *linearize.Batch, t gp.Terms) error {
	return q.tileTo(ctx, dst, train, t)
}

// A combinedCross is a cross whose training examples may be linear combinations of
// outputs.
type combinedCross struct{ *cross }

var _ gp.CombinedCross = combinedCross{}

// CombinedTo implements gp.CombinedCross, with Q in the place of κ.
func (q combinedCross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	return q.tileTo(ctx, dst, train, t)
}

func (q *cross) tileTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	if t != gp.PosteriorTerms && t != gp.RawTerms {
		panic("sparse: unknown terms")
	}
	if q.rows == 0 || train.Len() == 0 {
		dense.SizeTo(dst, 0, 0)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n := train.Len() * train.Outputs()
	dense.SizeTo(dst, q.rows, n)
	prod, err := q.product(ctx, train)
	if err != nil {
		return err
	}
	from := 0
	if t == gp.RawTerms {
		from = q.rows
	}
	dst.Copy(prod.Slice(0, n, from, from+q.rows).T())
	return nil
}

// product returns κ(train, Z) times the weights of both kinds of terms. It keeps
// the last result.
func (q *cross) product(ctx context.Context, train *linearize.Batch) (*mat.Dense, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	contents, known := contentsOf(train)
	if known && q.prod != nil && q.last == contents {
		return q.prod, nil
	}
	rows := train.Len() * train.Outputs()
	prod := mat.NewDense(rows, 2*q.rows, nil)
	if q.kernel == nil {
		phi, err := newFeaturesOf(q.p.b, rows).of(ctx, chunk{x: train, rows: rows})
		if err != nil {
			return nil, err
		}
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, phi, q.weights, 0, prod.RawMatrix()); err != nil {
			return nil, err
		}
	} else {
		q.kernel.MulTo(prod, train)
	}
	if q.prod = nil; known {
		q.prod, q.last = prod, contents
	}
	return prod, nil
}

// contentsOf returns a checksum of the numbers of b, which identifies the batch
// whatever its address. It reports false where b has blocks of a type that is not
// linearize's, whose numbers it cannot read.
func contentsOf(b *linearize.Batch) (sum uint64, ok bool) {
	sum = mix(mix(mix(0, uint64(b.Len())), uint64(b.Outputs())), uint64(len(b.Blocks)))
	sum = mixAll(mixAll(sum, b.X), b.F)
	for _, block := range b.Blocks {
		switch v := block.(type) {
		case *linearize.Outer:
			sum = mixAll(mixAll(sum, v.A), v.G)
		case *linearize.Conv:
			sum = mixAll(mixAll(sum, v.X), v.G)
		case *linearize.Embedding:
			sum = mixAll(mixAll(sum, v.Index), v.G)
		case *linearize.Full:
			sum = mixAll(sum, v.J)
		default:
			return 0, false
		}
	}
	return sum, true
}

// mixAll mixes the size and the numbers of m, which may be nil, into sum.
func mixAll(sum uint64, m *mat.Dense) uint64 {
	if m == nil {
		return mix(sum, math.MaxUint64)
	}
	r, c := m.Dims()
	sum = mix(mix(sum, uint64(r)), uint64(c))
	for i := range r {
		for _, v := range m.RawRowView(i) {
			sum = mix(sum, math.Float64bits(v))
		}
	}
	return sum
}

// mix adds v to a checksum. It is one to one in v, so that two batches that differ
// in one number never have the same checksum.
func mix(sum, v uint64) uint64 {
	return bits.RotateLeft64((sum^v)*0x9e3779b97f4a7c15, 29)
}
