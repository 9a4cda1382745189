package evaluate

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// EKFAC is the influence function with a Kronecker-factored Hessian whose eigenvalues are
// corrected (George et al. 2018; Grosse et al. 2023): in the eigenbasis U_G ⊗ U_A of each
// layer's factors, the Hessian is the diagonal of the GGN. It is for networks of dense
// layers.
type EKFAC struct {
	// Damping is added to the eigenvalues, as a share of their mean in the layer; 0 means
	// 0.1.
	Damping float64
}

var _ Method = EKFAC{}

// Attribute implements Method with the attribution "EK-FAC".
func (e EKFAC) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	if e.Damping == 0 {
		e.Damping = 0.1
	}
	if !(e.Damping > 0) {
		return nil, fmt.Errorf("evaluate: a damping of %v; it must be positive", e.Damping)
	}
	train, err := p.train(ctx)
	if err != nil {
		return nil, err
	}
	sites, err := gp.NewSites(gp.NewTargets(p.Y, p.Likelihood), train.F)
	if err != nil {
		return nil, err
	}
	factors, err := weightspace.SumFactors(ctx, train, sites, false, &weightspace.Options{Limits: linearize.Limits{Memory: p.MaxMemory}})
	if err != nil {
		return nil, err
	}
	x, err := p.targets(ctx, p.Network)
	if err != nil {
		return nil, err
	}
	r, err := p.losses(ctx, p.Network)
	if err != nil {
		return nil, err
	}
	scores := mat.NewDense(x.Len(), r.Len(), nil)
	for l, f := range factors.Layers() {
		own, ok := train.Blocks[l].(*linearize.Outer)
		if !ok || own.A == nil || own.Weight == nil {
			return nil, fmt.Errorf("evaluate: layer %s is not dense; EK-FAC is for networks of dense layers", f.Name)
		}
		layer := ekfacLayer{damping: e.Damping}
		if err := layer.rotate(f, own); err != nil {
			return nil, err
		}
		if err := layer.correct(ctx, own, sites.Root); err != nil {
			return nil, err
		}
		if err := layer.add(ctx, scores, x.Blocks[l].(*linearize.Outer), r.Blocks[l].(*linearize.Outer)); err != nil {
			return nil, err
		}
	}
	return []Attribution{{"EK-FAC", scores}}, nil
}

// An ekfacLayer has eigenvectors of the factors of a layer as columns, and the inverse of
// the damped eigenvalues, a row for each of U_G and a column for each of U_A.
type ekfacLayer struct {
	damping float64
	ua, ug  mat.Dense
	inverse blas64.General
}

// rotate finds the eigenvectors. Of A = Σ_n a_n a_nᵀ it takes those that the inputs of the
// training rows span, where these are fewer: a training row's gradient has no part in the
// others, and each score is a product with one.
func (l *ekfacLayer) rotate(f weightspace.LayerFactors, own *linearize.Outer) error {
	failed := errors.New("evaluate: the eigenvectors of a Kronecker factor of layer " + f.Name + " were not found")
	width, _ := f.A.Dims()
	if a := inputs(own, width); a.Rows < width {
		var s mat.SVD
		if !s.Factorize(mat.NewDense(a.Rows, width, a.Data), mat.SVDThinV) {
			return failed
		}
		s.VTo(&l.ua)
	} else if !eigenvectors(f.A, &l.ua) {
		return failed
	}
	if !eigenvectors(f.G, &l.ug) {
		return failed
	}
	return nil
}

// eigenvectors writes those of a symmetric matrix to columns, and reports whether they
// were found.
func eigenvectors(of mat.Symmetric, to *mat.Dense) bool {
	var e mat.EigenSym
	if !e.Factorize(of, true) {
		return false
	}
	e.VectorsTo(to)
	return true
}

// inputs returns the inputs of a layer, N×width, with 1 at the end where it has a bias.
func inputs(o *linearize.Outer, width int) blas64.General {
	n, in := o.A.Dims()
	a := dense.New(n, width)
	for i := range n {
		row := dense.Row(a, i)
		copy(row, o.A.RawRowView(i))
		if width > in {
			row[in] = 1
		}
	}
	return a
}

// rotated returns the inputs times U_A.
func (l *ekfacLayer) rotated(o *linearize.Outer) blas64.General {
	width, _ := l.ua.Dims()
	return product(inputs(o, width), l.ua.RawMatrix())
}

// product returns A B.
func product(a, b blas64.General) blas64.General {
	c := dense.New(a.Rows, b.Cols)
	dense.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c)
	return c
}

// correct sums the eigenvalues Σ_n Σ_c (U_Gᵀg_nc)²(U_Aᵀa_n)², with g_nc = (∂f_n/∂z)ᵀR_n[:,c].
func (l *ekfacLayer) correct(ctx context.Context, o *linearize.Outer, root *mat.Dense) error {
	a := l.rotated(o)
	g := product(o.G.RawMatrix(), l.ug.RawMatrix()) // N·C×out
	squares := dense.New(a.Rows, g.Cols)            // Σ_c (U_Gᵀg_nc)²
	err := par.Do(ctx, a.Rows, func(n int) error {
		to, c := dense.Row(squares, n), o.C
		mixed := make([]float64, g.Cols)
		for k := range c {
			clear(mixed)
			for j := range c {
				dense.Axpy(mixed, root.At(n*c+j, k), dense.Row(g, n*c+j))
			}
			for j, v := range mixed {
				to[j] += v * v
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, v := range a.Data {
		a.Data[i] = v * v
	}
	l.inverse = dense.New(g.Cols, a.Cols)
	dense.Gemm(blas.Trans, blas.NoTrans, 1, squares, a, 0, l.inverse)
	width, _ := l.ua.Dims() // the eigenvalues of vectors that are not there are 0
	damping := l.damping * floats.Sum(l.inverse.Data) / float64(g.Cols*width)
	if !(damping > 0) {
		return errors.New("evaluate: a layer whose outputs say nothing about the training rows has no EK-FAC influence")
	}
	for i, v := range l.inverse.Data {
		l.inverse.Data[i] = 1 / (v + damping)
	}
	return nil
}

// add adds Σ_jk (U_Gᵀg_t)_j(U_Aᵀa_t)_k (U_Gᵀg_n)_j(U_Aᵀa_n)_k/(λ_jk + damping) to the scores.
func (l *ekfacLayer) add(ctx context.Context, scores *mat.Dense, x, r *linearize.Outer) error {
	at, an := l.rotated(x), l.rotated(r)
	gt, gn := product(x.G.RawMatrix(), l.ug.RawMatrix()), product(r.G.RawMatrix(), l.ug.RawMatrix())
	return par.Do(ctx, at.Rows, func(t int) error {
		step := dense.New(gt.Cols, at.Cols)
		for j, g := range dense.Row(gt, t) {
			row, inverse := dense.Row(step, j), dense.Row(l.inverse, j)
			for k, a := range dense.Row(at, t) {
				row[k] = g * a * inverse[k]
			}
		}
		moved := dense.New(an.Rows, gt.Cols)
		dense.Gemm1(blas.NoTrans, blas.Trans, 1, an, step, 0, moved)
		to := scores.RawRowView(t)
		for n := range to {
			to[n] += dense.Dot(dense.Row(moved, n), dense.Row(gn, n))
		}
		return nil
	})
}
