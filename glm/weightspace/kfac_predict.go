package weightspace

import (
	"context"
	"math"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo writes the mean of the T examples of x, T×C, and the covariance J(x) Q⁻¹ J(x)ᵀ of each example's
// outputs, T·C×C. Its scratch memory is about 64 MiB, or the memory for one example if that is more. The error is a
// *gp.NotFiniteError for a NaN or Inf.
func (w *Kronecker) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.eachTile(ctx, mean, cov, x, func(cov *mat.Dense, _ int, tile *linearize.Batch) error {
		for lo, step := 0, w.tile(x); lo < tile.Len(); lo += step {
			hi := min(lo+step, tile.Len())
			// Write the covariance of each example's outputs.
			cov := dense.Slice(cov, lo*w.c, hi*w.c)
			x := tile.Slice(lo, hi)
			cov.Zero()
			for k, l := range w.layers {
				if l.next == nil && !l.isIn(x) {
					root := l.roots() // x has no factors: one example at a time
					err := w.eachRows(ctx, l.matrixLayer, x, l.a, l.g, func(n int, rows blas64.General) {
						for c := range w.c {
							floats.Mul(dense.Row(rows, c), root)
						}
						addSquare(cov, n, w.c, rows)
					})
					if err != nil {
						return err
					}
					continue
				}
				p, err := w.project(ctx, k, x)
				if err != nil {
					return err
				}
				z, err := p.half(ctx, w.c)
				if err != nil {
					return err
				}
				if err := addMarginals(ctx, cov, z, w.c); err != nil {
					return err
				}
			}
			for _, b := range w.blocks {
				v, err := w.halfOf(ctx, b, x)
				if err != nil {
					return err
				}
				if err := addMarginals(ctx, cov, v, w.c); err != nil {
					return err
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// tile returns the number of examples of x to project at once.
func (w *Kronecker) tile(x *linearize.Batch) int {
	floats := 1
	for _, l := range w.layers {
		n := 3*l.size()*w.c + l.size()
		if _, ok := l.in(x); ok {
			n = 3 * (w.c*l.out + l.cols())
		}
		floats = max(floats, n)
	}
	for _, b := range w.blocks {
		floats = max(floats, 2*len(b.index)*w.c)
	}
	return max(1, panelBytes/8/floats)
}

// in returns the block of x with the factors of this layer. ok is false if x has no such block.
func (l *kroneckerLayer) in(x *linearize.Batch) (*linearize.Outer, bool) {
	for _, k := range x.Blocks {
		if o, ok := k.(*linearize.Outer); ok && sameSpan(o.Weight, l.weight) && sameSpan(o.Bias, l.bias) {
			return o, true
		}
	}
	return nil, false
}

func sameSpan(a, b *linearize.Span) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all examples of x, T·C×T·C. The error is
// a *gp.MemoryError where the covariance and the projection on a layer need more than Options.Memory.
func (w *Kronecker) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.joint(ctx, mean, cov, x, w.jointWidth(x), func() error {
		cov.Zero()
		for k := range w.layers {
			p, err := w.project(ctx, k, x)
			if err != nil {
				return err
			}
			// Add the layer's part of the joint covariance, some rows of the layer's matrix at a time.
			c := w.c
			rows, cols := dense.Count(cov), p.l.d.Cols
			step := max(1, panelBytes/8/(rows*cols))
			buf := make([]float64, rows*cols*min(step, p.l.d.Rows))
			for lo := 0; lo < p.l.d.Rows; lo += step {
				hi := min(lo+step, p.l.d.Rows)
				z := dense.Of(buf[:rows*cols*(hi-lo)], rows, cols*(hi-lo))
				each(rows, func(r int) {
					dst := dense.Row(z, r)
					for i := lo; i < hi; i++ {
						// Write √D times row i of the matrix for row r of the Jacobian.
						dst := dst[(i-lo)*cols : (i-lo+1)*cols]
						d := dense.Row(p.l.d, i)
						if p.rows.Rows > 0 {
							copy(dst, dense.Row(p.rows, r)[i*p.l.d.Cols:])
						} else {
							g := dense.Row(p.g, r)[i]
							for j, a := range dense.Row(p.a, r/c) {
								dst[j] = g * a
							}
							if p.nextA.Rows > 0 {
								dense.Axpy(dst, -dense.Row(p.nextG, r)[i], dense.Row(p.nextA, r/c))
							}
						}
						for j := range dst {
							dst[j] *= math.Sqrt(d[j])
						}
					}
				})
				if err := dense.SyrkContext(ctx, blas.NoTrans, 1, z, 1, dense.Lower(cov.RawMatrix())); err != nil {
					return err
				}
			}
		}
		for _, b := range w.blocks {
			v, err := w.halfOf(ctx, b, x)
			if err != nil {
				return err
			}
			if err := dense.SyrkContext(ctx, blas.NoTrans, 1, v, 1, dense.Lower(cov.RawMatrix())); err != nil {
				return err
			}
		}
		dense.MirrorLower(cov.RawMatrix())
		return nil
	})
}

// jointWidth returns the number of columns, with T·C rows each, that JointTo holds at once.
func (w *Kronecker) jointWidth(x *linearize.Batch) int {
	if x.Len() == 0 {
		return 0
	}
	width := 0
	for _, l := range w.layers {
		n := 3 * l.size()
		if l.isIn(x) {
			n = 2 * (l.out + l.cols())
		}
		width = max(width, n)
	}
	for _, b := range w.blocks {
		width = max(width, 2*len(b.index))
	}
	return width + panelBytes/8/(x.Len()*w.c)
}

// A projection is the Jacobian of some examples in a layer's parameters, in the basis in which the layer's
// covariance is D. Its row for output c of example n is the matrix g_nc a_nᵀ, out×cols; in a chain it is g_nc a_nᵀ
// − g'_nc a'_nᵀ with the next layer's factors. Where a batch has no factors, these matrices are formed.
type projection struct {
	a, g, nextA, nextG blas64.General // N×cols and N·C×out; nextA and nextG are empty outside a chain
	rows               blas64.General // N·C×out·cols; empty where the batch has factors

	l *kroneckerLayer
}

// project returns the projection of the examples of x on layer k.
func (w *Kronecker) project(ctx context.Context, k int, x *linearize.Batch) (*projection, error) {
	l := w.layers[k]
	p := &projection{l: l}
	var err error
	o, ok := l.in(x)
	if !ok || l.next != nil && !w.layers[k+1].isIn(x) {
		if p.rows, err = w.rowsIn(ctx, l.matrixLayer, x, l.a, l.g); err != nil || l.next == nil {
			return p, err
		}
		next, err := w.rowsIn(ctx, w.layers[k+1].matrixLayer, x, l.next.a, l.next.g)
		dense.Axpy(p.rows.Data, -1, next.Data)
		return p, err
	}
	if p.a, p.g, err = w.projectFactors(ctx, l.matrixLayer, o, l.a, l.g); err != nil || l.next == nil {
		return p, err
	}
	after, _ := w.layers[k+1].in(x)
	p.nextA, p.nextG, err = w.projectFactors(ctx, w.layers[k+1].matrixLayer, after, l.next.a, l.next.g)
	return p, err
}

func (l *kroneckerLayer) isIn(x *linearize.Batch) bool {
	_, ok := l.in(x)
	return ok
}

// projectFactors returns ã B_A and G B_G for the inputs ã and the gradients G of a layer.
func (w *Kronecker) projectFactors(ctx context.Context, l *matrixLayer, o *linearize.Outer, ba, bg blas64.General) (a, g blas64.General, err error) {
	in, grad := l.inputs(o), o.G.RawMatrix()
	a, g = dense.New(in.Rows, ba.Cols), dense.New(grad.Rows, bg.Cols)
	if err = dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, in, ba, 0, a); err == nil {
		err = dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, grad, bg, 0, g)
	}
	return a, g, err
}

// rowsIn returns B_Gᵀ M B_A for each row of the layer's Jacobian, where M is that row as an out×cols matrix.
func (w *Kronecker) rowsIn(ctx context.Context, l *matrixLayer, x *linearize.Batch, ba, bg blas64.General) (blas64.General, error) {
	out := dense.New(x.Len()*w.c, bg.Cols*ba.Cols)
	return out, w.eachRows(ctx, l, x, ba, bg, func(n int, rows blas64.General) {
		dense.Copy(dense.Rows(out, n*w.c, (n+1)*w.c), rows)
	})
}

// eachRows calls do on several workers with B_Gᵀ M B_A for the C matrices M of each example n, C×out·cols.
func (w *Kronecker) eachRows(ctx context.Context, l *matrixLayer, x *linearize.Batch, ba, bg blas64.General, do func(n int, rows blas64.General)) error {
	type memory struct{ m, m2, right, rows blas64.General }
	scratch := make([]memory, runtime.GOMAXPROCS(0))
	r := newColumnReader(x, l.index())
	return par.DoWorker(ctx, len(scratch), x.Len(), func(k, n int) error {
		s := &scratch[k]
		if s.m.Data == nil {
			*s = memory{dense.New(w.c, l.size()), dense.New(w.c, l.size()), dense.New(w.c*l.out, ba.Cols), dense.New(w.c, bg.Cols*ba.Cols)}
		}
		r.to(s.m, s.m2, x.Slice(n, n+1))
		dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, dense.Of(s.m.Data, w.c*l.out, l.cols()), ba, 0, s.right)
		for c := range w.c {
			dense.Gemm1(blas.Trans, blas.NoTrans, 1, bg, dense.Rows(s.right, c*l.out, (c+1)*l.out), 0, dense.Of(dense.Row(s.rows, c), bg.Cols, ba.Cols))
		}
		do(n, s.rows)
		return nil
	})
}

// roots returns √D, row by row.
func (l *kroneckerLayer) roots() []float64 {
	root := make([]float64, len(l.d.Data))
	for i, d := range l.d.Data {
		root[i] = math.Sqrt(d)
	}
	return root
}

// half returns Z with C rows for each example. Z Zᵀ of an example is the layer's part of its covariance.
func (p *projection) half(ctx context.Context, c int) (blas64.General, error) {
	switch {
	case p.rows.Rows > 0:
		root := p.l.roots()
		each(p.rows.Rows, func(i int) { floats.Mul(dense.Row(p.rows, i), root) })
		return p.rows, nil
	case p.nextA.Rows > 0:
		return p.halfOfChain(ctx, c)
	}
	// Σ_ij g_i g'_i D_ij a_j² = Σ_i g_i g'_i h_i with h = (a∘a) Dᵀ
	h, err := p.weighted(ctx, p.a, p.a)
	each(p.g.Rows, func(i int) {
		row := dense.Row(p.g, i)
		for j, v := range dense.Row(h, i/c) {
			row[j] *= math.Sqrt(v)
		}
	})
	return p.g, err
}

// halfOfChain is half for the factors of a layer and the next layer. For each i let M_i be the 2×2 matrix of the
// entries i of (a∘a)Dᵀ, (a∘a')Dᵀ and (a'∘a')Dᵀ. Then
//
//	Σ_ij D_ij (g_i a_j − g'_i a'_j)² = Σ_i (g_i, −g'_i) M_i (g_i, −g'_i)ᵀ,
//
// and Cholesky factors of the M_i make this a sum of squares.
func (p *projection) halfOfChain(ctx context.Context, c int) (z blas64.General, err error) {
	var h [3]blas64.General
	for k, f := range [3][2]blas64.General{{p.a, p.a}, {p.a, p.nextA}, {p.nextA, p.nextA}} {
		if h[k], err = p.weighted(ctx, f[0], f[1]); err != nil {
			return z, err
		}
	}
	out := p.g.Cols
	z = dense.New(p.g.Rows, 2*out)
	each(p.g.Rows, func(i int) {
		dst, g, next := dense.Row(z, i), dense.Row(p.g, i), dense.Row(p.nextG, i)
		h12, h22 := dense.Row(h[1], i/c), dense.Row(h[2], i/c)
		for j, h11 := range dense.Row(h[0], i/c) {
			l11, l21 := math.Sqrt(h11), 0.0
			if l11 > 0 {
				l21 = h12[j] / l11
			}
			l22 := math.Sqrt(math.Max(0, h22[j]-l21*l21))
			dst[j], dst[out+j] = g[j]*l11-next[j]*l21, -next[j]*l22
		}
	})
	return z, nil
}

// weighted returns (a∘b) Dᵀ, N×out.
func (p *projection) weighted(ctx context.Context, a, b blas64.General) (blas64.General, error) {
	product := dense.New(a.Rows, a.Cols)
	floats.MulTo(product.Data, a.Data, b.Data)
	h := dense.New(a.Rows, p.l.d.Rows)
	return h, dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, product, p.l.d, 0, h)
}

// sandwich returns B_G U B_Aᵀ.
func (w *Kronecker) sandwich(ctx context.Context, bg, u, ba blas64.General) (blas64.General, error) {
	left, out := dense.New(bg.Rows, u.Cols), dense.New(bg.Rows, ba.Rows)
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, bg, u, 0, left); err != nil {
		return out, err
	}
	return out, dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, left, ba, 0, out)
}
