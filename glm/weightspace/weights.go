package weightspace

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Weights is a Gaussian posterior N(center, Q⁻¹) over the parameters of a linearized model. Function values have
// the mean f_lin(x; center) and the covariance J(x) Q⁻¹ J(x)ᵀ. The precision Q is H = JᵀΛJ + Σ₀⁻¹, or a matrix with
// a cheaper structure in its place.
type Weights interface {
	gp.Latent
	// Center returns the mean of the parameters, P numbers. It must not be changed.
	Center() []float64
	// SampleTo writes S draws of the parameters from N(Center(), Q⁻¹) to the rows of dst, which must be S×P.
	SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error
	// LogDet returns log det Q + log det Σ₀. A parameter that is held at its center counts as if Q had its prior
	// precision.
	LogDet() float64
	// EvidenceAtTheta returns the Laplace evidence (E7) in nats with Q in place of H. Its scatter is over all
	// parameters.
	EvidenceAtTheta() gp.Evidence
	// Warnings returns warnings on what may make the posterior inaccurate.
	Warnings() []error
}

var _ Weights = (*Posterior)(nil)

// Structure is a form of the precision Q of a posterior over parameters. R is the root of Λ (E4).
type Structure int

// The structures. A fit takes one pass over the examples, and for Subnetwork two. LastLayer and Subnetwork hold all
// other parameters at the center.
const (
	Full       Structure = iota // Q = H = JᵀΛJ + Σ₀⁻¹, P×P
	Diagonal                    // the diagonal of H
	Block                       // the blocks of H of each layer, weight and bias together
	LastLayer                   // the block of H of the last layer
	Subnetwork                  // the block of H of the parameters with the largest marginal variances [note 4.2]

	// KFAC has, for each dense layer and each convolution (weight and bias together), the Kronecker product of the
	// layer's Factors plus the prior, G ⊗ A + Σ₀⁻¹ [glm eq. 8]. For layers of scales and shifts it has exact blocks
	// of H. A layer of another kind is a *NoFactorsError.
	KFAC
	// KFACDamped is KFAC with the prior precision δ of a layer as a damping of both factors, (√N·G/N + √δ·I) ⊗
	// (√N·A + √δ·I), the dampening of Ritter et al. (2018) [glm sec. 2]. It is for comparison: its precision is
	// larger than the precision of KFAC, and depends on how N is divided between the factors.
	KFACDamped
	// KFACDampedMean is KFACDamped with all of N in one factor: (G + √δ·I) ⊗ (A + √δ·I).
	KFACDampedMean
	// Chain is for networks of dense layers that are used once for each example. Let M_l be the blocks of
	// KFACDamped and M_{l,l+1} = G_{l,l+1} ⊗ A_{l,l+1} the products of neighbouring layers, in the order of a
	// batch's blocks. The block-tridiagonal matrix with these blocks [note 4.1] is indefinite for every trained
	// network in the tests, so it is no precision. Chain is instead the precision with these blocks whose inverse
	// is block-tridiagonal: the chain of Martens and Grosse (2015), "Optimizing neural networks with
	// Kronecker-factored approximate curvature", section 4.3. It is positive definite.
	Chain

	structures // number of structures
)

var structureNames = [structures]string{"full", "diag", "block", "last-layer", "subnetwork", "kfac", "kfac-damped", "kfac-damped-mean", "chain"}

// String returns the name, as ParseStructure reads it, such as "last-layer".
func (s Structure) String() string {
	if s < 0 || s >= structures {
		return fmt.Sprintf("Structure(%d)", int(s))
	}
	return structureNames[s]
}

// ParseStructure returns the structure with the given name.
func ParseStructure(name string) (Structure, error) {
	for s, n := range structureNames {
		if n == name {
			return Structure(s), nil
		}
	}
	return 0, fmt.Errorf("weightspace: there is no structure %q; the structures are %q", name, structureNames)
}

// FitStructure returns the posterior with the given structure around Options.Center, for the training examples of
// x, linearized at theta = θ*, and their sites s. It reads the examples as a stream, and forms no matrix larger
// than the structure needs. Sums run over batches of linearize.Tile examples in order, so the result does not
// depend on the batches of x. Where x is a linearize.Squarer, such as the linearize.NewSource of a network, it
// computes the diagonal of H without a Jacobian and in another order of sums.
//
// A parameter with prior variance zero is held at its center. For Full the result is a *Posterior where x is one
// *linearize.Batch and Options.Center is nil.
//
// The error is an error of x or of Fit. FitStructure panics where sizes differ, where a prior variance is negative
// or not finite, and where Options.Mean is gp.LinearGaussian, whose mean needs the whole of H, for a structure
// other than Full.
func FitStructure(ctx context.Context, structure Structure, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (Weights, error) {
	if b, ok := x.(*linearize.Batch); ok && structure == Full && (o == nil || o.Center == nil) {
		return asWeights(Fit(ctx, b, s, prior, theta, o))
	}
	if structure.kronecker() {
		return asWeights(FitKronecker(ctx, structure, x, s, prior, theta, o))
	}
	f, err := newStructured(structure, x, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	f.setCenter()
	switch structure {
	case Diagonal:
		return asWeights(f.diagonal(ctx))
	case Full, Block, LastLayer:
		return asWeights(f.layers(ctx))
	case Subnetwork:
		return asWeights(f.subnetwork(ctx))
	}
	panic("weightspace: unknown structure")
}

// layers fits the structures whose blocks consist of layers.
func (f *structured) layers(ctx context.Context) (*BlockPosterior, error) {
	b, err := linearize.First(ctx, f.x, few)
	if err != nil {
		return nil, err
	}
	switch f.structure {
	case Full:
		return f.blocks(ctx, []group{allOf(b.P)})
	case LastLayer:
		last, err := lastLayer(b, f.o.Layer)
		if err != nil {
			return nil, err
		}
		return f.blocks(ctx, []group{last})
	}
	return f.blocks(ctx, layersOf(b))
}

// asWeights returns w, or nil where err is not nil.
func asWeights[W Weights](w W, err error) (Weights, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}
