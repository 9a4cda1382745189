package weightspace

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
)

// chain combines the layers with the prior, from the last layer to the first, into the precision of Martens and
// Grosse (2015), "Optimizing neural networks with Kronecker-factored approximate curvature", section 4.3 (see
// Chain).
//
// With M_l the layers' blocks of KFACDamped and M_{l,l+1} = G_{l,l+1} ⊗ A_{l,l+1} the products of neighbouring
// layers,
//
//	Q⁻¹ = Ξᵀ diag(S₁⁻¹, …, S_L⁻¹) Ξ,    Ψ_l = M_{l,l+1} M_{l+1}⁻¹,
//	S_l = M_l − Ψ_l M_{l+1} Ψ_lᵀ,    S_L = M_L,
//
// where Ξ is the identity except for −Ψ_l in block (l, l+1). S_l is a difference of two Kronecker products, and one
// change of basis makes both diagonal.
func (c *combination) chain(ctx context.Context) error {
	n := len(c.Factors.layers)
	scale := make([]float64, n+1) // v^¼ of each layer's prior variance v
	for i, s := range c.Factors.layers {
		v, err := s.oneVariance(c.variances(s.matrixLayer))
		if err != nil {
			return err
		}
		scale[i] = math.Sqrt(math.Sqrt(v))
	}
	c.Kronecker.layers = make([]*kroneckerLayer, n)
	var after [2]*side
	for i := n - 1; i >= 0; i-- {
		var err error
		if after, err = c.chainLayer(ctx, i, scale[i], scale[i+1], after); err != nil {
			return err
		}
		c.Kronecker.o.Show(StageLayers, n-i, n)
	}
	return nil
}

// chainLayer combines layer i. after has both sides of the next layer, or nil for the last one. It returns both
// sides of layer i. scale and next are v^¼ of both layers' prior variances v.
func (c *combination) chainLayer(ctx context.Context, i int, scale, next float64, after [2]*side) (sides [2]*side, err error) {
	s := c.Factors.layers[i]
	l := &kroneckerLayer{matrixLayer: s.matrixLayer, d: dense.New(s.out, s.cols())}
	ratio := math.Sqrt(float64(c.Factors.n))
	if sides[0], err = newSide(ctx, s.a, s.nextA, ratio, scale, next); err != nil {
		return sides, err
	}
	if sides[1], err = newSide(ctx, s.g, s.nextG, 1/ratio, scale, next); err != nil {
		return sides, err
	}
	var bases, links [2]blas64.General
	for k, d := range sides {
		if bases[k], links[k], err = d.basis(ctx, after[k]); err != nil {
			return sides, err
		}
		scaleAll(bases[k].Data, scale)
		scaleAll(links[k].Data, next)
	}
	l.a, l.g = bases[0], bases[1]
	if after[0] != nil {
		l.next = &link{links[0], links[1]}
	}
	c.logDet += float64(s.out)*sides[0].logDet + float64(s.cols())*sides[1].logDet
	for p, x := range sides[1].values {
		for q, y := range sides[0].values {
			// S = (K_G ⊗ K_A)⁻ᵀ (I − Λ_G ⊗ Λ_A) (K_G ⊗ K_A)⁻¹
			rest := 1 - x*y
			if !(rest > 0) {
				return sides, &gp.NotPDError{What: "the chain at layer " + s.name, N: s.size(),
					Reason: "float64 does not tell the products of neighbouring layers from those of the layers; raise the prior precision"}
			}
			dense.Row(l.d, p)[q] = 1 / rest
			c.logDet += math.Log(rest)
		}
	}
	c.Kronecker.layers[i] = l
	return sides, ctx.Err()
}

// A side is one factor of a layer in a chain, A or G, whitened by the prior and damped.
type side struct {
	u      blas64.Triangular // M = UᵀU, where M = ratio·v^½·S + I for the factor S and the prior variance v
	logDet float64           // log det M
	cross  blas64.General    // factor of the product with the next layer; empty for the last layer
	values []float64         // eigenvalues of U⁻ᵀ C U⁻¹, with C as in basis
}

// newSide whitens, damps and factors the factor s of a layer. scale and next are v^¼ of the layer and of the next
// layer.
func newSide(ctx context.Context, s blas64.Symmetric, cross blas64.General, ratio, scale, next float64) (*side, error) {
	m, d := s, &side{cross: cross}
	m.Data = slices.Clone(s.Data)
	scaleAll(m.Data, ratio*scale*scale)
	for i := range s.N {
		m.Data[i*s.Stride+i]++
	}
	d.cross.Data = slices.Clone(cross.Data)
	scaleAll(d.cross.Data, ratio*scale*next)
	var ok bool
	var err error
	if d.u, ok, err = dense.PotrfContext(ctx, m); err != nil {
		return nil, err
	}
	if !ok {
		return nil, sites.PrecisionError(m.N)
	}
	d.logDet = dense.LogDet(d.u)
	return d, nil
}

// basis returns a basis K = U⁻¹E that makes this side's factors of S_l diagonal, and ΨᵀK. Here C = M_{l,l+1}
// M_{l+1}⁻¹ M_{l+1,l} for this side, and U⁻ᵀ C U⁻¹ = E Λ Eᵀ. For the last layer C = 0.
func (d *side) basis(ctx context.Context, after *side) (k, psi blas64.General, err error) {
	n := d.u.N
	d.values = make([]float64, n)
	if after == nil {
		k = dense.New(n, n)
		for i := range n {
			k.Data[i*n+i] = 1
		}
		return k, psi, dense.TrsmContext(ctx, blas.Left, blas.NoTrans, 1, d.u, k)
	}
	// Z = U'⁻ᵀ M_{l+1,l} with the factor U' of M_{l+1}, so that C = ZᵀZ
	z := dense.New(d.cross.Cols, n)
	dense.TransposeTo(z, d.cross)
	if err := dense.TrsmContext(ctx, blas.Left, blas.Trans, 1, after.u, z); err != nil {
		return k, psi, err
	}
	half := dense.Of(slices.Clone(z.Data), z.Rows, n)
	if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, d.u, half); err != nil {
		return k, psi, err
	}
	c := symmetric(n)
	if err := dense.SyrkContext(ctx, blas.Trans, 1, half, 0, c); err != nil {
		return k, psi, err
	}
	e, err := spectrumOf(c, filled(n, 1))
	if err != nil {
		return k, psi, err
	}
	k, d.values = e.u, e.values
	if err := dense.TrsmContext(ctx, blas.Left, blas.NoTrans, 1, d.u, k); err != nil {
		return k, psi, err
	}
	// Ψᵀ = M_{l+1}⁻¹ M_{l+1,l} = U'⁻¹Z
	if err := dense.TrsmContext(ctx, blas.Left, blas.NoTrans, 1, after.u, z); err != nil {
		return k, psi, err
	}
	psi = dense.New(z.Rows, n)
	return k, psi, dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, z, k, 0, psi)
}

func scaleAll(v []float64, s float64) {
	for i := range v {
		v[i] *= s
	}
}
