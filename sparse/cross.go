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
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// preparedBytes bounds what is kept of a product's right side; where it takes
// more, the kernel with the inducing examples is multiplied for every tile.
const preparedBytes = 1 << 30

// Cross prepares k_*Z A⁻¹ and k_*Z K_ZZ⁻¹ of the examples of x. A tile is
// then a product of the kernel between its examples and the inducing ones
// with both, formed once for the two kinds of terms: all that is left to do
// for it is to multiply by its Jacobian, of which 16·T·C·P bytes are kept, or
// none where that is more than 1 GiB. It fails with a *gp.MemoryError where
// this and the features of x pass Options.MaxMemory.
//
// Where K_ZZ has its full rank, the result is a gp.CombinedCross. Where K_ZZ is
// singular to working precision, a tile is a product of the examples' features
// instead, in which rounding is not amplified, so that the terms still add up.
func (p *Posterior) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
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
	if err := gp.CheckMemory("a cross-kernel", gp.TestExamples, t, p.o.MaxMemory, need); err != nil {
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
	q.kernel = kernelProduct{p.b.k, p.b.z.Batch, w, p.o.Workers}
	if prepared(t) <= preparedBytes {
		q.kernel = prepare(p.b.k, p.b.z.Batch, w, p.o.Workers)
	}
	return combinedCross{q}, nil
}

// prepare returns κ(·, z) w.
func prepare(k ntk.Kernel, z *linearize.Batch, w *mat.Dense, workers int) ntk.Product {
	switch k := k.(type) {
	case ntk.Preparer:
		return k.Prepare(z, w)
	case scaledMulKernel:
		return prepareScaled(k.scaledKernel, z, w, workers)
	case scaledKernel:
		return prepareScaled(k, z, w, workers)
	}
	return kernelProduct{k, z, w, workers}
}

func prepareScaled(k scaledKernel, z *linearize.Batch, w *mat.Dense, workers int) ntk.Product {
	var times mat.Dense
	times.Scale(k.factor, w)
	return prepare(k.Kernel, z, &times, workers)
}

// formed is κ(·, z) w by a kernel that can do no more.
type kernelProduct struct {
	k       ntk.Kernel
	z       *linearize.Batch
	w       *mat.Dense
	workers int
}

// MulTo implements ntk.Product.
func (f kernelProduct) MulTo(dst *mat.Dense, a *linearize.Batch) {
	if m, ok := f.k.(ntk.MulToer); ok {
		m.MulTo(dst, a, f.z, f.w)
		return
	}
	var cross mat.Dense
	f.k.BlockTo(&cross, a, f.z)
	// Without a deadline there is no error.
	_ = fblas.GemmContext(context.Background(), f.workers, blas.NoTrans, blas.NoTrans, 1, cross.RawMatrix(), f.w.RawMatrix(), 0, dst.RawMatrix())
}

// A cross gives k_*Z A⁻¹ k_Zi (E13), and q_*i for the raw terms.
type cross struct {
	p      *Posterior
	rows   int
	kernel ntk.Product // κ(·, Z) times the weights of the posterior terms, then of the raw

	weights blas64.General // where K_ZZ is singular: A'⁻¹φ_* above φ_*, 2·T·C×rank

	mu   sync.Mutex
	last uint64     // contents of the batch whose product is kept; a Source may use a batch's memory again
	prod *mat.Dense // n·C × 2·T·C, nil at first
}

var _ gp.Cross = (*cross)(nil)

// TileTo implements gp.Cross.
func (q *cross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	if first < 0 || first+train.Len() > q.p.x.Len() {
		panic("sparse: range of training examples out of bounds")
	}
	if train.Len() > 0 && train.Outputs() != q.p.b.c {
		panic("sparse: training examples with another number of outputs")
	}
	return q.tileTo(ctx, dst, train, t)
}

// combining is a cross for any sums of outputs.
type combinedCross struct{ *cross }

var _ gp.CombinedCross = combinedCross{}

// CombinedTo implements gp.CombinedCross, with Q in the place of κ.
func (q combinedCross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	return q.tileTo(ctx, dst, train, t)
}

func (q *cross) tileTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	if t != gp.Posterior && t != gp.Raw {
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
	if t == gp.Raw {
		from = q.rows
	}
	dst.Copy(prod.Slice(0, n, from, from+q.rows).T())
	return nil
}

// product returns κ(train, Z) times the weights, formed once for both kinds of
// terms of a batch.
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
		if err := fblas.GemmContext(ctx, q.p.o.Workers, blas.NoTrans, blas.Trans, 1, phi, q.weights, 0, prod.RawMatrix()); err != nil {
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

// contentsOf returns a checksum of the numbers of b, by which another batch with
// the same numbers is known, wherever either lies in memory. It reports false
// for blocks of a kind that is not linearize's, whose numbers it cannot see.
func contentsOf(b *linearize.Batch) (sum uint64, ok bool) {
	sum = mix(mix(mix(0, uint64(b.Len())), uint64(b.Outputs())), uint64(len(b.Blocks)))
	sum = mixAll(mixAll(sum, b.X), b.F)
	for _, block := range b.Blocks {
		switch v := block.(type) {
		case *linearize.Outer:
			sum = mixAll(mixAll(sum, v.A), v.G)
		case *linearize.Conv:
			sum = mixAll(mixAll(sum, v.X), v.G)
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

// mix is one to one in v for every sum, so that two contents that differ in one
// number never have the same checksum.
func mix(sum, v uint64) uint64 {
	return bits.RotateLeft64((sum^v)*0x9e3779b97f4a7c15, 29)
}
