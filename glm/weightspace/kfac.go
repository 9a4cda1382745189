package weightspace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// StageLayers is the stage of Factors.Posterior that
// Options.Progress reports: layers whose factors are combined with the prior.
const StageLayers = "layers"

// Kronecker is a posterior N(center, Q⁻¹) over the parameters whose precision Q is
// made of Kronecker products. Q is block-diagonal, with one block for each matrix
// layer and one for the scales and shifts of each other layer, or a chain of the
// matrix layers.
//
// Predicting projects the factors of each example on the eigenvectors of the
// layers' factors and does not form its Jacobian, where the batch holds factors.
type Kronecker struct {
	structured
	layers []*kroneckerLayer
	blocks []*exactBlock
}

var _ Weights = (*Kronecker)(nil)

// A kroneckerLayer is the covariance of the parameters of a matrix layer in a basis
// in which it is diagonal: as an out×cols matrix they are the center plus
// B_G (√D ∘ Z) B_Aᵀ for a standard normal Z. The prior variances are inside B.
type kroneckerLayer struct {
	*matrixLayer
	a, g blas64.General // B_A, cols×cols, and B_G, out×out
	d    blas64.General // D, out×cols
	next *link          // of a chain: nil for the last layer
}

// A link is the part of a chain that the next layer has in a layer's noise Z: it is
// less L_G (√D ∘ Z) L_Aᵀ. Both have the next layer's rows and this layer's columns.
type link struct{ a, g blas64.General }

// FitKronecker is SumFactors and Factors.Posterior; see FitStructure.
func FitKronecker(ctx context.Context, structure Structure, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	f, err := SumFactors(ctx, x, s, structure == Chain, o)
	if err != nil {
		return nil, err
	}
	return f.Posterior(ctx, structure, prior, theta, o)
}

// Posterior returns the posterior with the structure KFAC, KFACDamped, KFACDampedMean
// or Chain under a prior, around Options.Center or theta = θ*, where the examples were
// linearized.
//
// KFAC combines a layer's factors with its prior exactly. Where the prior variances of
// the layer's matrix have rank one, as when the weight has one variance and the bias
// has one, it takes eigendecompositions of both factors, whitened by the prior
// [glm A.1]. Other variances, such as one for each parameter, take the dense sum
// G ⊗ A + Σ₀⁻¹ of the layer and its Cholesky factor, 8 bytes times the square of the
// layer's parameters. The other structures need one prior variance for all parameters
// of a layer. A prior variance of zero holds a parameter at its center.
//
// The errors are a *gp.MemoryError before a dense sum is allocated, a *NoFactorsError
// for a damped layer with several prior variances, a *gp.NotPDError where numbers
// overflow, and ctx.Err(). It panics for another structure, where sizes differ, where a
// variance is negative or not finite and where a chain's products were not summed.
func (f *Factors) Posterior(ctx context.Context, structure Structure, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	switch {
	case !structure.kronecker():
		panic("weightspace: " + structure.String() + " is no structure of Kronecker factors")
	case structure == Chain && !f.chained:
		panic("weightspace: a chain needs factors between layers")
	case len(theta) != f.p:
		panic("weightspace: the length of theta is not the batch's number of parameters")
	}
	base, err := newFitting(structure, f.source, f.sites, prior, theta, o)
	if err != nil {
		return nil, err
	}
	w := &Kronecker{structured: base.structured}
	c := &combination{Factors: f, Kronecker: w}
	if err := c.checkMemory(); err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	if math.IsNaN(w.logDet) || math.IsInf(w.logDet, 0) {
		return nil, notPD(f.p)
	}
	return w, ctx.Err()
}

// kronecker tells whether the structure is made of Kronecker factors.
func (s Structure) kronecker() bool {
	return s == KFAC || s == KFACDamped || s == KFACDampedMean || s == Chain
}

// A combination combines factors with a prior, one layer after the other.
type combination struct {
	*Factors
	*Kronecker // that is being made
}

// checkMemory returns a *gp.MemoryError where the dense sums of layers exceed the
// budget.
func (c *combination) checkMemory() error {
	dense, largest, name := int64(0), 0, ""
	for _, s := range c.Factors.layers {
		if _, _, ok := rankOne(c.variances(s.matrixLayer), s.out, s.cols()); ok || c.structure != KFAC {
			continue
		}
		n := s.size()
		dense = memory.Add(dense, memory.Mul(8, memory.Mul(int64(n), int64(n))))
		if n > largest {
			largest, name = n, s.name
		}
	}
	if dense == 0 {
		return nil
	}
	op := fmt.Sprintf("the dense sum of factors and prior of layer %s, whose prior variances are not a product of one for each row and one for each column,", name)
	return gp.CheckMemory(op, gp.Parameters, largest, c.Kronecker.o.MaxMemory, func(n int) int64 {
		rest := memory.Mul(8, memory.Mul(int64(largest), int64(largest)))
		return memory.Add(dense-rest, memory.Mul(8, memory.Mul(int64(n), int64(n))))
	})
}

// variances returns the prior variances of a layer's matrix, out×cols.
func (w *structured) variances(l *matrixLayer) []float64 {
	v := make([]float64, l.size())
	l.gather(v, w.root)
	for i, r := range v {
		v[i] = r * r
	}
	return v
}

func (c *combination) run(ctx context.Context) error {
	total := len(c.Factors.layers) + len(c.layout.vectors)
	if c.structure == Chain {
		if err := c.chain(ctx); err != nil {
			return err
		}
	} else {
		for i, s := range c.Factors.layers {
			if err := c.layer(ctx, s); err != nil {
				return err
			}
			c.Kronecker.o.Progress(StageLayers, i+1, total)
		}
	}
	for i, v := range c.layout.vectors {
		h := c.exact[i]
		if err := c.exactly(ctx, v.index(), func(i, j int) float64 { return upper(h, i, j) }); err != nil {
			return err
		}
		c.Kronecker.o.Progress(StageLayers, len(c.Factors.layers)+i+1, total)
	}
	return ctx.Err()
}

// layer combines one layer with its prior.
func (c *combination) layer(ctx context.Context, s *factorSum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	variance := c.variances(s.matrixLayer)
	if c.structure != KFAC {
		v, err := s.oneVariance(variance)
		if err != nil {
			return err
		}
		ratio := 1.0
		if c.structure == KFACDamped {
			ratio = math.Sqrt(float64(c.Factors.n))
		}
		return c.damped(s, v, ratio)
	}
	row, col, ok := rankOne(variance, s.out, s.cols())
	if !ok {
		// I + Σ₀^½ (G ⊗ A) Σ₀^½
		w := s.cols()
		return c.exactly(ctx, s.index(), func(i, j int) float64 { return upper(s.g, i/w, j/w) * upper(s.a, i%w, j%w) })
	}
	l, la, lg, err := s.eigen(row, col)
	if err != nil {
		return err
	}
	for i, g := range lg {
		for j, a := range la {
			// log det(I + G̃ ⊗ Ã) = Σ log(1 + λ_i μ_j)
			dense.Row(l.d, i)[j] = 1 / (1 + g*a)
			c.logDet += math.Log1p(g * a)
		}
	}
	c.Kronecker.layers = append(c.Kronecker.layers, l)
	return nil
}

// damped combines one layer with its prior variance v = 1/δ factor by factor. The
// ratio multiplies A and divides G.
func (c *combination) damped(s *factorSum, v, ratio float64) error {
	row, col := filled(s.out, math.Sqrt(v)), filled(s.cols(), math.Sqrt(v))
	l, la, lg, err := s.eigen(row, col)
	if err != nil {
		return err
	}
	for i, g := range lg {
		for j, a := range la {
			// (1 + λ_i/ratio)(1 + ratio·μ_j)
			dense.Row(l.d, i)[j] = 1 / ((1 + g/ratio) * (1 + a*ratio))
		}
		c.logDet += float64(s.cols()) * math.Log1p(g/ratio)
	}
	for _, a := range la {
		c.logDet += float64(s.out) * math.Log1p(a*ratio)
	}
	c.Kronecker.layers = append(c.Kronecker.layers, l)
	return nil
}

// oneVariance returns the prior variance of all parameters of the layer.
func (s *factorSum) oneVariance(variance []float64) (float64, error) {
	for _, v := range variance {
		if v != variance[0] {
			return 0, &NoFactorsError{Layer: s.name, Reason: "damping needs one prior variance for all parameters of a layer",
				Remedy: "use the structure kfac, or a prior with one precision for each layer"}
		}
	}
	return variance[0], nil
}

func filled(n int, v float64) []float64 {
	c := make([]float64, n)
	for i := range c {
		c[i] = v
	}
	return c
}

// rankOne returns row and col with v_ij = row_i·col_j for the rows×cols matrix v, up to
// rounding, and false where there are none.
func rankOne(v []float64, rows, cols int) (row, col []float64, ok bool) {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	row, col = make([]float64, rows), slices.Clone(v[best/cols*cols:][:cols])
	if v[best] == 0 {
		return row, col, true
	}
	for i := range rows {
		row[i] = v[i*cols+best%cols] / v[best]
		for j, x := range v[i*cols : (i+1)*cols] {
			if math.Abs(x-row[i]*col[j]) > 1e-15*4*x {
				return nil, nil, false
			}
		}
	}
	return row, col, true
}

// upper returns entry (i, j) of a symmetric matrix.
func upper(s blas64.Symmetric, i, j int) float64 {
	if i > j {
		i, j = j, i
	}
	return s.Data[i*s.Stride+j]
}

// eigen returns the layer in the basis of the eigenvectors of its whitened factors,
// with D unset, and their eigenvalues. row and col are prior variances.
func (s *factorSum) eigen(row, col []float64) (l *kroneckerLayer, la, lg []float64, err error) {
	l = &kroneckerLayer{matrixLayer: s.matrixLayer, d: dense.New(s.out, s.cols())}
	if l.a, la, err = whitenedEigen(s.a, col); err == nil {
		l.g, lg, err = whitenedEigen(s.g, row)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("weightspace: layer %s: %w", s.name, err)
	}
	return l, la, lg, nil
}

// whitenedEigen returns V^½U and λ for V^½ S V^½ = U diag(λ) Uᵀ with the diagonal
// matrix V = diag(variance). Eigenvalues that rounding made negative are 0.
func whitenedEigen(s blas64.Symmetric, variance []float64) (basis blas64.General, values []float64, err error) {
	root := make([]float64, s.N)
	for i, v := range variance {
		root[i] = math.Sqrt(v)
	}
	m := mat.NewSymDense(s.N, nil)
	for i := range s.N {
		for j := i; j < s.N; j++ {
			m.SetSym(i, j, root[i]*s.Data[i*s.Stride+j]*root[j])
		}
	}
	var e mat.EigenSym
	if !e.Factorize(m, true) {
		return basis, nil, &gp.NotPDError{What: "a Kronecker factor", N: s.N, Reason: "its eigenvalues were not found"}
	}
	values = e.Values(nil)
	for i, v := range values {
		values[i] = math.Max(v, 0)
	}
	var u mat.Dense
	e.VectorsTo(&u)
	basis = u.RawMatrix()
	for i := range s.N {
		for j, row := 0, dense.Row(basis, i); j < s.N; j++ {
			row[j] *= root[i]
		}
	}
	return basis, values, nil
}

// index returns where the layer's parameters lie in θ, row by row of its matrix.
func (l *matrixLayer) index() []int {
	at := make([]int, 0, l.size())
	for i := range l.out {
		for j := range l.cols() {
			at = append(at, l.at(i, j))
		}
	}
	return at
}

// SampleTo writes S draws of the parameters from N(Center(), Q⁻¹) to the rows of dst,
// S×P, which must be sized. Its error is ctx.Err().
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
		if err := w.sampleLayers(ctx, row, z); err != nil {
			return err
		}
		for _, b := range w.blocks {
			if err := w.sampleBlock(ctx, b, row, z); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// sampleLayers adds the draw of the matrix layers for the standard normal z to theta.
func (w *Kronecker) sampleLayers(ctx context.Context, theta, z []float64) error {
	var before blas64.General // √D ∘ Z of the layer before
	for k, l := range w.layers {
		u := l.noise(z)
		// θ_l = center + B_G (√D ∘ Z)_l B_Aᵀ − L_G (√D ∘ Z)_{l−1} L_Aᵀ
		m, err := w.sandwich(ctx, l.g, u, l.a)
		if err != nil {
			return err
		}
		l.add(theta, 1, m)
		if k > 0 && w.layers[k-1].next != nil {
			link := w.layers[k-1].next
			if m, err = w.sandwich(ctx, link.g, before, link.a); err != nil {
				return err
			}
			l.add(theta, -1, m)
		}
		before = u
	}
	return nil
}

// noise returns √D ∘ Z for the layer's part of z.
func (l *kroneckerLayer) noise(z []float64) blas64.General {
	u := dense.New(l.out, l.cols())
	l.gather(u.Data, z)
	for i, d := range l.d.Data {
		u.Data[i] *= math.Sqrt(d)
	}
	return u
}

// add adds alpha·m, out×cols, to the layer's parameters in theta.
func (l *matrixLayer) add(theta []float64, alpha float64, m blas64.General) {
	for i := range l.out {
		for j, v := range dense.Row(m, i) {
			theta[l.at(i, j)] += alpha * v
		}
	}
}
