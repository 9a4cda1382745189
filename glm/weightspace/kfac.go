package weightspace

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// StageLayers is the stage of Factors.Posterior in Options.Progress: it counts layers whose factors are combined
// with the prior.
const StageLayers = "layers"

// Kronecker is a posterior N(center, Q⁻¹) over the parameters whose precision Q consists of Kronecker products. Q
// is block-diagonal, with one block for each matrix layer and one for the scales and shifts of each other layer; or
// it is a chain of the matrix layers.
//
// If a batch holds the factors of each example's Jacobian, prediction projects them on the eigenvectors of the
// layers' factors and does not form the Jacobian.
type Kronecker struct {
	structured
	layers []*kroneckerLayer
	blocks []*exactBlock
}

var _ Weights = (*Kronecker)(nil)

// A kroneckerLayer is the covariance of the parameters of a matrix layer, in a basis in which it is diagonal. As an
// out×cols matrix, the parameters are the center plus B_G (√D ∘ Z) B_Aᵀ for a standard normal Z. B_G and B_A
// include the prior variances.
type kroneckerLayer struct {
	*matrixLayer
	a, g blas64.General // B_A, cols×cols, and B_G, out×out
	d    blas64.General // D, out×cols
	next *link          // link to the next layer of a chain; nil for the last layer
}

// A link carries the noise Z of a layer in a chain into the next layer, from which L_G (√D ∘ Z) L_Aᵀ is subtracted. L_G
// and L_A have the next layer's rows and this layer's columns.
type link struct{ a, g blas64.General }

// FitKronecker runs SumFactors and Factors.Posterior; see FitStructure.
func FitKronecker(ctx context.Context, structure Structure, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	f, err := SumFactors(ctx, x, s, structure == Chain, o)
	if err != nil {
		return nil, err
	}
	return f.Posterior(ctx, structure, prior, theta, o)
}

// Posterior returns the posterior with the structure KFAC, KFACDamped, KFACDampedMean or Chain under a prior. theta
// = θ* are the parameters that the examples were linearized at; the center is Options.Center or θ*.
//
// KFAC combines a layer's factors with its prior exactly. If the prior variances of the layer's matrix have rank
// one, for example one variance for the weight and one for the bias, it uses the eigendecompositions of both
// factors, whitened by the prior [glm A.1]. For other variances, such as one for each parameter, it factors the
// dense sum G ⊗ A + Σ₀⁻¹ of the layer, which takes 8 bytes times the square of the layer's parameters. The other
// structures need one prior variance for all parameters of a layer. A parameter with prior variance zero is held at
// its center. An eigendecomposition of n inputs takes about 9·n³ operations. For one prior variance in each layer
// it is computed once for all priors.
//
// The error is a *gp.MemoryError before a dense sum is allocated, a *NoFactorsError for a damped layer with several
// prior variances, a *gp.NotPDError where numbers overflow, or ctx.Err(). Posterior panics for another structure,
// where sizes differ, where a variance is negative or not finite, and for a Chain without the products of
// neighbouring layers.
func (f *Factors) Posterior(ctx context.Context, structure Structure, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	switch {
	case !structure.kronecker():
		panic("weightspace: " + structure.String() + " is no structure of Kronecker factors")
	case structure == Chain && !f.chained:
		panic("weightspace: a chain needs factors between layers")
	case len(theta) != f.p:
		panic("weightspace: the length of theta is not the batch's number of parameters")
	}
	base, err := newStructured(structure, f.source, f.sites, prior, theta, o)
	if err != nil {
		return nil, err
	}
	base.setCenter()
	w := &Kronecker{structured: *base}
	c := &combination{Factors: f, Kronecker: w}
	if err := c.checkMemory(); err != nil {
		return nil, err
	}
	// Combine all layers.
	total := len(c.Factors.layers) + len(c.layout.vectors)
	if c.structure == Chain {
		if err := c.chain(ctx); err != nil {
			return nil, err
		}
	} else {
		for i, s := range c.Factors.layers {
			if err := c.layer(ctx, s); err != nil {
				return nil, err
			}
			c.Kronecker.o.Show(StageLayers, i+1, total)
		}
	}
	for i, v := range c.layout.vectors {
		h := c.exact[i]
		if err := c.exactly(ctx, v.index(), func(i, j int) float64 { return upper(h, i, j) }); err != nil {
			return nil, err
		}
		c.Kronecker.o.Show(StageLayers, len(c.Factors.layers)+i+1, total)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if math.IsNaN(w.logDet) || math.IsInf(w.logDet, 0) {
		return nil, sites.PrecisionError(f.p)
	}
	return w, ctx.Err()
}

// kronecker tells whether the structure consists of Kronecker products.
func (s Structure) kronecker() bool {
	return s == KFAC || s == KFACDamped || s == KFACDampedMean || s == Chain
}

// SampleTo writes S draws of the parameters from N(Center(), Q⁻¹) to the rows of dst, which must be S×P. The error
// is ctx.Err().
func (w *Kronecker) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	z := make([]float64, len(w.theta))
	for i := range w.checkDraws(dst) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for j := range z {
			z[j] = rng.NormFloat64()
		}
		row := dst.RawRowView(i)
		copy(row, w.center)
		var before blas64.General // √D ∘ Z of the previous layer
		for k, l := range w.layers {
			u := dense.New(l.out, l.cols()) // √D ∘ Z
			l.gather(u.Data, z)
			floats.Mul(u.Data, l.roots())
			// θ_l = center + B_G (√D ∘ Z)_l B_Aᵀ − L_G (√D ∘ Z)_{l−1} L_Aᵀ
			m, err := w.sandwich(ctx, l.g, u, l.a)
			if err != nil {
				return err
			}
			l.add(row, 1, m)
			if k > 0 && w.layers[k-1].next != nil {
				link := w.layers[k-1].next
				if m, err = w.sandwich(ctx, link.g, before, link.a); err != nil {
					return err
				}
				l.add(row, -1, m)
			}
			before = u
		}
		for _, b := range w.blocks {
			e := dense.New(1, len(b.index))
			pick(e.Data, z, b.index)
			if err := b.h.draw(ctx, e); err != nil {
				return err
			}
			for i, p := range b.index { // Σ₀^½ U⁻¹ z
				row[p] += w.white.Root[p] * e.Data[i]
			}
		}
	}
	return ctx.Err()
}

// add adds alpha·m, out×cols, to the layer's parameters in theta.
func (l *matrixLayer) add(theta []float64, alpha float64, m blas64.General) {
	for i := range l.out {
		for j, v := range dense.Row(m, i) {
			theta[l.at(i, j)] += alpha * v
		}
	}
}
