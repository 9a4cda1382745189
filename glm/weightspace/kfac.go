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

// StageLayers is the stage of Factors.Posterior and Factors.Chain that
// Options.Progress reports: layers whose factors are combined with the prior.
const StageLayers = "layers"

// Damping says how the factors of a layer are combined with the prior precision δ.
// It is Damped and DampedMean that other libraries use, where δ is a damping: they
// enlarge the precision by the products of √δ and the factors. With Ā = A and
// Ḡ = G/N, the split of N between the factors changes them, and Undamped does not
// depend on it.
type Damping int

const (
	Undamped   Damping = iota // G ⊗ A + Σ₀⁻¹, exactly
	Damped                    // (√N·Ḡ + √δ·I) ⊗ (√N·Ā + √δ·I), the dampening of Ritter et al. (2018) [glm sec. 2]
	DampedMean                // (G + √δ·I) ⊗ (A + √δ·I)
	Chained                   // Damped with the products of neighbouring layers; see Factors.Chain
	dampings
)

// Kronecker is a posterior N(center, Q⁻¹) over the parameters whose precision Q is
// made of Kronecker products. Q is block-diagonal, with one block for each matrix
// layer and one for the scales and shifts of each other layer, or a chain of the
// matrix layers. The center is θ*.
//
// The mean of its function values is f(x;θ*) and their covariance J(x) Q⁻¹ J(x)ᵀ.
// Predicting projects the factors of each example on the eigenvectors of the
// layers' factors and does not form its Jacobian, where the batch holds factors.
type Kronecker struct {
	damping Damping
	n, c    int
	source  linearize.Source
	prior   ntk.Prior
	o       Options

	theta  []float64
	logLik float64 // of the training data
	logDet float64
	layers []*kroneckerLayer
	blocks []*exactBlock
}

var _ gp.Latent = (*Kronecker)(nil)

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

// FitKronecker is SumFactors and Factors.Posterior.
func FitKronecker(ctx context.Context, x linearize.Source, s *gp.Sites, damping Damping, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	f, err := SumFactors(ctx, x, s, damping == Chained, o)
	if err != nil {
		return nil, err
	}
	return f.Posterior(ctx, damping, prior, theta, o)
}

// Posterior returns the posterior under a prior around theta = θ*, where the examples
// were linearized.
//
// Undamped combines a layer's factors with its prior exactly. Where the prior
// variances of the layer's matrix have rank one, as when the weight has one variance
// and the bias has one, it takes eigendecompositions of both factors, whitened by the
// prior [glm A.1]. Other variances, such as one for each parameter, take the dense
// sum G ⊗ A + Σ₀⁻¹ of the layer and its Cholesky factor, 8 bytes times the square of
// the layer's parameters. The damped posteriors need one prior variance for all
// parameters of a layer.
//
// A prior variance of zero holds a parameter at its center. The errors are a
// *gp.MemoryError before a dense sum is allocated, a *NoFactorsError for a damped
// layer with several prior variances, a *gp.NotPDError where numbers overflow, and
// ctx.Err(). It panics where sizes differ and where a variance is negative or not
// finite.
func (f *Factors) Posterior(ctx context.Context, damping Damping, prior ntk.Prior, theta []float64, o *Options) (*Kronecker, error) {
	switch {
	case damping < 0 || damping >= dampings:
		panic("weightspace: unknown damping")
	case damping == Chained && !f.chained:
		panic("weightspace: a chain needs factors between layers")
	case len(theta) != f.p:
		panic("weightspace: the length of theta is not the batch's number of parameters")
	}
	w := &Kronecker{damping: damping, n: f.n, c: f.c, source: f.source, prior: prior, o: o.withDefaults(),
		theta: slices.Clone(theta), logLik: f.sites.LogLik}
	c := &combination{Factors: f, damping: damping, variance: variances(prior, f.p), o: &w.o}
	if err := c.checkMemory(); err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	w.layers, w.blocks, w.logDet = c.layers, c.blocks, c.logDet
	if math.IsNaN(w.logDet) || math.IsInf(w.logDet, 0) {
		return nil, notPD(f.p)
	}
	return w, ctx.Err()
}

// variances returns the diagonal of Σ₀ and panics where it is not admitted.
func variances(prior ntk.Prior, p int) []float64 {
	v := make([]float64, p)
	prior.VarianceTo(v)
	for _, s := range v {
		if !(s >= 0) || math.IsInf(s, 1) {
			panic("weightspace: prior variance is not finite and nonnegative")
		}
	}
	return v
}

// A combination combines factors with a prior, one layer after the other.
type combination struct {
	*Factors
	damping  Damping
	variance []float64 // diagonal of Σ₀
	o        *Options

	layers []*kroneckerLayer
	blocks []*exactBlock
	logDet float64
}

// checkMemory returns a *gp.MemoryError where the dense sums of layers exceed the
// budget.
func (c *combination) checkMemory() error {
	dense, largest, name := int64(0), 0, ""
	for _, s := range c.Factors.layers {
		if _, _, ok := rankOne(c.of(s), s.out, s.cols()); ok || c.damping != Undamped {
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
	return gp.CheckMemory(op, gp.Parameters, largest, c.o.MaxMemory, func(n int) int64 {
		rest := memory.Mul(8, memory.Mul(int64(largest), int64(largest)))
		return memory.Add(dense-rest, memory.Mul(8, memory.Mul(int64(n), int64(n))))
	})
}

// of returns the prior variances of a layer's matrix.
func (c *combination) of(s *factorSum) []float64 {
	v := make([]float64, s.size())
	s.gather(v, c.variance)
	return v
}

func (c *combination) run(ctx context.Context) error {
	total := len(c.Factors.layers) + len(c.layout.vectors)
	if c.damping == Chained {
		if err := c.chain(ctx); err != nil {
			return err
		}
	} else {
		for i, s := range c.Factors.layers {
			if err := c.layer(ctx, s); err != nil {
				return err
			}
			c.o.Progress(StageLayers, i+1, total)
		}
	}
	for i, v := range c.layout.vectors {
		h := c.exact[i]
		b := newExactBlock(v.index(), c.variance)
		if err := b.factor(ctx, c.o.Workers, func(i, j int) float64 { return h.Data[i*h.Stride+j] }); err != nil {
			return err
		}
		c.addBlock(b)
		c.o.Progress(StageLayers, len(c.Factors.layers)+i+1, total)
	}
	return ctx.Err()
}

func (c *combination) addBlock(b *exactBlock) {
	c.blocks, c.logDet = append(c.blocks, b), c.logDet+b.logDet
}

// layer combines one layer with its prior.
func (c *combination) layer(ctx context.Context, s *factorSum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	variance := c.of(s)
	if c.damping != Undamped {
		v, err := s.oneVariance(variance)
		if err != nil {
			return err
		}
		ratio := 1.0
		if c.damping == Damped {
			ratio = math.Sqrt(float64(c.n))
		}
		return c.damped(s, v, ratio)
	}
	row, col, ok := rankOne(variance, s.out, s.cols())
	if !ok {
		// I + Σ₀^½ (G ⊗ A) Σ₀^½
		b := newExactBlock(s.index(), c.variance)
		w := s.cols()
		err := b.factor(ctx, c.o.Workers, func(i, j int) float64 { return upper(s.g, i/w, j/w) * upper(s.a, i%w, j%w) })
		if err == nil {
			c.addBlock(b)
		}
		return err
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
	c.layers = append(c.layers, l)
	return nil
}

// damped combines one layer with its prior variance v = 1/δ factor by factor. The
// ratio multiplies A and divides G.
func (c *combination) damped(s *factorSum, v, ratio float64) error {
	row, col := constant(s.out, math.Sqrt(v)), constant(s.cols(), math.Sqrt(v))
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
	c.layers = append(c.layers, l)
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

func constant(n int, v float64) []float64 {
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

// Damping returns how the factors were combined with the prior.
func (w *Kronecker) Damping() Damping { return w.damping }

// Center returns θ*, P numbers. It must not be changed.
func (w *Kronecker) Center() []float64 { return w.theta }

// LogDet returns log det Q + log det Σ₀.
func (w *Kronecker) LogDet() float64 { return w.logDet }

// EvidenceAtTheta is the Laplace evidence at θ* (E7) with Q in the place of H. The
// sites must be those at f(x;θ*).
func (w *Kronecker) EvidenceAtTheta() gp.Evidence {
	return gp.NewEvidence(w.logLik, gp.Scatter(w.prior, w.theta), w.logDet)
}

// Warnings returns nil.
func (w *Kronecker) Warnings() []error { return nil }

// SampleTo writes S draws of the parameters from N(Center(), Q⁻¹) to the rows of dst,
// S×P, which must be sized. Its error is ctx.Err().
func (w *Kronecker) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	draws, p := dst.Dims()
	if draws == 0 || p != len(w.theta) {
		panic("weightspace: destination is not S×P")
	}
	z := make([]float64, p)
	for i := range draws {
		if err := ctx.Err(); err != nil {
			return err
		}
		for j := range z {
			z[j] = rng.NormFloat64()
		}
		row := dst.RawRowView(i)
		copy(row, w.theta)
		if err := w.sampleLayers(ctx, row, z); err != nil {
			return err
		}
		for _, b := range w.blocks {
			b.sampleTo(row, z)
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
