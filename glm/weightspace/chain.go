package weightspace

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// checkChain returns a *NoFactorsError for a layer that a chain cannot hold.
func (l *layout) checkChain(b *linearize.Batch) error {
	const remedy = "use the structure kfac"
	for _, m := range l.matrices {
		if _, ok := b.Blocks[m.block].(*linearize.Outer); !ok {
			return &NoFactorsError{Layer: m.name, Reason: "a chain needs dense layers that are used once per example", Remedy: remedy}
		}
	}
	for _, v := range l.vectors {
		return &NoFactorsError{Layer: v.name, Reason: "a chain needs dense layers, and no matrix multiplies its parameters", Remedy: remedy}
	}
	return nil
}

// chain is the precision of Martens and Grosse (2015), "Optimizing neural networks with
// Kronecker-factored approximate curvature", section 4.3, as the constant Chain
// describes it. It combines the layers with the prior from the last to the first.
//
// With M_l the layers' blocks of KFACDamped and M_{l,l+1} = G_{l,l+1} ⊗ A_{l,l+1},
//
//	Q⁻¹ = Ξᵀ diag(S₁⁻¹, …, S_L⁻¹) Ξ,    Ψ_l = M_{l,l+1} M_{l+1}⁻¹,
//	S_l = M_l − Ψ_l M_{l+1} Ψ_lᵀ,    S_L = M_L,
//
// where Ξ is the identity but for −Ψ_l in block (l, l+1). S_l is a difference of two
// Kronecker products, which one change of basis makes diagonal.
func (c *combination) chain(ctx context.Context) error {
	n := len(c.Factors.layers)
	ratio := math.Sqrt(float64(c.Factors.n))
	scale := make([]float64, n) // v^¼
	for i, s := range c.Factors.layers {
		v, err := s.oneVariance(c.variances(s.matrixLayer))
		if err != nil {
			return err
		}
		scale[i] = math.Sqrt(math.Sqrt(v))
	}
	c.Kronecker.layers = make([]*kroneckerLayer, n)
	var afterA, afterG *side
	for i := n - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, next := c.Factors.layers[i], 0.0
		if i+1 < n {
			next = scale[i] * scale[i+1]
		}
		a, err := newSide(s.a, s.nextA, ratio, scale[i], next)
		if err != nil {
			return fmt.Errorf("weightspace: layer %s: %w", s.name, err)
		}
		g, err := newSide(s.g, s.nextG, 1/ratio, scale[i], next)
		if err != nil {
			return fmt.Errorf("weightspace: layer %s: %w", s.name, err)
		}
		l := &kroneckerLayer{matrixLayer: s.matrixLayer, d: dense.New(s.out, s.cols())}
		var lambdaA, lambdaG []float64
		var nextScale float64
		if i+1 < n {
			nextScale = scale[i+1]
			l.next = new(link)
		}
		if l.a, lambdaA, err = a.basis(afterA, scale[i], nextScale, l.linkA()); err != nil {
			return err
		}
		if l.g, lambdaG, err = g.basis(afterG, scale[i], nextScale, l.linkG()); err != nil {
			return err
		}
		c.logDet += float64(s.out)*a.l.LogDet() + float64(s.cols())*g.l.LogDet()
		for p, x := range lambdaG {
			for q, y := range lambdaA {
				// S = (K_G ⊗ K_A)⁻ᵀ (I − Λ_G ⊗ Λ_A) (K_G ⊗ K_A)⁻¹
				rest := 1 - x*y
				if !(rest > 0) {
					return &gp.NotPDError{What: "the chain at layer " + s.name, N: s.size(),
						Reason: "the products of neighbouring layers are as large as the damping lets float64 tell apart; raise the prior precision"}
				}
				dense.Row(l.d, p)[q] = 1 / rest
				c.logDet += math.Log(rest)
			}
		}
		c.Kronecker.layers[i], afterA, afterG = l, a, g
		c.Kronecker.o.Progress(StageLayers, n-i, n)
	}
	return nil
}

// A side is one factor of the layers of a chain, A or G, in whitened form.
type side struct {
	m    *mat.SymDense // ratio·v^½·S + I, with the prior variance v
	l    mat.Cholesky
	next *mat.Dense // of the products with the next layer
}

func (l *kroneckerLayer) linkA() *blas64.General {
	if l.next == nil {
		return nil
	}
	return &l.next.a
}

func (l *kroneckerLayer) linkG() *blas64.General {
	if l.next == nil {
		return nil
	}
	return &l.next.g
}

// newSide whitens and damps one factor of a layer. scale is v^¼ of the layer, and next
// its product with that of the next layer.
func newSide(s blas64.Symmetric, cross blas64.General, ratio, scale, next float64) (*side, error) {
	d := &side{m: copySymmetric(s)}
	d.m.ScaleSym(ratio*scale*scale, d.m)
	for i := range s.N {
		d.m.SetSym(i, i, d.m.At(i, i)+1)
	}
	if !d.l.Factorize(d.m) {
		return nil, notPD(s.N)
	}
	if cross.Rows > 0 {
		d.next = mat.DenseCopyOf(dense.View(cross))
		d.next.Scale(ratio*next, d.next)
	}
	return d, nil
}

// basis returns the basis K, times scale, in which both factors of S_l are diagonal,
// and the eigenvalues of the second: with M = L Lᵀ and C = M_{l,l+1} M_{l+1}⁻¹ M_{l+1,l} of
// this side, L⁻¹ C L⁻ᵀ = E Λ Eᵀ and K = L⁻ᵀE. It writes Ψᵀ K, times nextScale, to
// link. Without a next layer C is 0.
func (d *side) basis(after *side, scale, nextScale float64, link *blas64.General) (k blas64.General, values []float64, err error) {
	n := d.m.SymmetricDim()
	var l mat.TriDense
	d.l.LTo(&l)
	tri := l.RawTriangular()
	k = dense.New(n, n)
	if link == nil {
		for i := range n {
			k.Data[i*n+i] = 1
		}
		values = make([]float64, n)
	} else {
		// X = M_{l+1}⁻¹ M_{l+1,l} = Ψᵀ, and C = M_{l,l+1} X
		var x, c mat.Dense
		if err := after.l.SolveTo(&x, d.next.T()); err != nil {
			return k, nil, notPD(n)
		}
		c.Mul(d.next, &x)
		m := c.RawMatrix()
		fblas.Trsm(blas.Left, blas.NoTrans, 1, tri, m)
		fblas.Trsm(blas.Right, blas.Trans, 1, tri, m)
		if k, values, err = whitenedEigen(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: m.Stride, Data: m.Data}, filled(n, 1)); err != nil {
			return k, nil, err
		}
		fblas.Trsm(blas.Left, blas.Trans, 1, tri, k)
		*link = dense.New(after.m.SymmetricDim(), n)
		fblas.Gemm(blas.NoTrans, blas.NoTrans, nextScale, x.RawMatrix(), k, 0, *link)
		scaleAll(k.Data, scale)
		return k, values, nil
	}
	fblas.Trsm(blas.Left, blas.Trans, 1, tri, k)
	scaleAll(k.Data, scale)
	return k, values, nil
}

func scaleAll(v []float64, s float64) {
	for i := range v {
		v[i] *= s
	}
}
