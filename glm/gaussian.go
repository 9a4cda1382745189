package glm

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm/integral"
)

// Gaussian is the likelihood y = f + noise with a fixed noise covariance: one variance that all outputs share, one
// variance for each output, or a full C×C matrix. It is immutable.
type Gaussian struct {
	c       int       // outputs; 0: any number, all with the same variance
	cov     []float64 // noise covariance, C×C; one number when c is 0
	root    []float64 // upper triangular R with cov⁻¹ = R Rᵀ; one number when c is 0
	logNorm float64   // ½ log det 2π cov; for one output when c is 0
}

var (
	_ Likelihood   = (*Gaussian)(nil)
	_ Marginal     = (*Gaussian)(nil)
	_ Distribution = (*Gaussian)(nil)
)

// NoiseError reports a noise variance that is not positive, or is too small or too large for its inverse to be a
// finite number. Output is −1 where all outputs share the variance.
type NoiseError struct {
	Output   int
	Variance float64
}

func (e *NoiseError) Error() string {
	if e.Output < 0 {
		return fmt.Sprintf("glm: the noise variance is %v; it must be positive and finite", e.Variance)
	}
	return fmt.Sprintf("glm: the noise variance of output %d is %v; it must be positive and finite", e.Output, e.Variance)
}

// NotPDError reports an N×N matrix that is not positive definite. Row is the position of the example whose
// covariance it is, or −1 for the noise covariance.
type NotPDError struct{ N, Row int }

func (e *NotPDError) Error() string {
	if e.Row < 0 {
		return fmt.Sprintf("glm: the %d×%d noise covariance is not positive definite", e.N, e.N)
	}
	return fmt.Sprintf("glm: row %d: the %d×%d covariance is not positive definite", e.Row, e.N, e.N)
}

// NewGaussian returns noise of the same variance σ² on every output, for any
// number of outputs. The error is a *NoiseError.
func NewGaussian(variance float64) (*Gaussian, error) {
	if !validVariance(variance) {
		return nil, &NoiseError{Output: -1, Variance: variance}
	}
	return &Gaussian{
		cov:     []float64{variance},
		root:    []float64{1 / math.Sqrt(variance)},
		logNorm: integral.HalfLog2Pi + 0.5*math.Log(variance),
	}, nil
}

// NewGaussianVector returns independent noise with one variance for each output. It panics without variances. The
// error is a *NoiseError.
func NewGaussianVector(variances []float64) (*Gaussian, error) {
	c := len(variances)
	if c == 0 {
		panic("glm: no noise variances")
	}
	g := &Gaussian{c: c, cov: make([]float64, c*c), root: make([]float64, c*c)}
	for j, v := range variances {
		if !validVariance(v) {
			return nil, &NoiseError{Output: j, Variance: v}
		}
		g.cov[j*c+j] = v
		g.root[j*c+j] = 1 / math.Sqrt(v)
		g.logNorm += integral.HalfLog2Pi + 0.5*math.Log(v)
	}
	return g, nil
}

// NewGaussianMatrix returns noise with a full C×C covariance, which is copied. It panics for an empty matrix. The
// error is a *NoiseError for a variance on the diagonal, and a *NotPDError for a matrix that is not positive
// definite.
func NewGaussianMatrix(cov mat.Symmetric) (*Gaussian, error) {
	c := cov.SymmetricDim()
	if c == 0 {
		panic("glm: empty noise covariance")
	}
	for j := range c {
		if v := cov.At(j, j); !validVariance(v) {
			return nil, &NoiseError{Output: j, Variance: v}
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(cov) {
		return nil, &NotPDError{N: c, Row: -1}
	}
	// cov = UᵀU, so cov⁻¹ = U⁻¹U⁻ᵀ and R = U⁻¹ solves U R = I
	inv := mat.NewTriDense(c, mat.Upper, nil)
	if err := inv.InverseTri(chol.RawU()); err != nil {
		return nil, &NotPDError{N: c, Row: -1}
	}
	g := &Gaussian{c: c, cov: make([]float64, c*c), root: make([]float64, c*c)}
	for i := range c {
		for j := range c {
			g.cov[i*c+j] = cov.At(i, j)
			g.root[i*c+j] = inv.At(i, j)
		}
	}
	g.logNorm = float64(c)*integral.HalfLog2Pi + 0.5*chol.LogDet()
	return g, nil
}

// ScaleNoise returns noise with t times the covariance. It panics unless t > 0. The error is a *NoiseError where a
// scaled variance is outside the range of a float64.
func (g *Gaussian) ScaleNoise(t float64) (*Gaussian, error) {
	if !(t > 0) {
		panic("glm: the scale of the noise is not positive")
	}
	s := &Gaussian{c: g.c, cov: slices.Clone(g.cov), root: slices.Clone(g.root)}
	floats.Scale(t, s.cov)
	floats.Scale(1/math.Sqrt(t), s.root)
	outputs := max(g.c, 1)
	for j := range outputs {
		if v := s.variance(j); !validVariance(v) {
			return nil, &NoiseError{Output: min(j, g.c-1), Variance: v}
		}
	}
	// ½ log det 2π tΣ
	s.logNorm = g.logNorm + 0.5*float64(outputs)*math.Log(t)
	return s, nil
}

func validVariance(v float64) bool {
	return v > 0 && !math.IsInf(v, 1) && !math.IsInf(1/v, 1)
}

// Name returns "gaussian".
func (*Gaussian) Name() string { return "gaussian" }

// Targets returns c.
func (*Gaussian) Targets(c int) int { return c }

// CheckY accepts c finite numbers. It returns an error for anything else, and where the noise covariance is for
// another number of outputs.
func (g *Gaussian) CheckY(y []float64, c int) error {
	if g.c != 0 && g.c != c {
		return fmt.Errorf("glm: the noise covariance is for %d outputs, the model has %d", g.c, c)
	}
	return checkTargets(g, y, c, "a finite number", func(v float64) bool {
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	})
}

// checkOutputs panics where the noise covariance is for another number of outputs than c.
func (g *Gaussian) checkOutputs(c int) {
	if g.c != 0 && g.c != c {
		panic("glm: noise covariance has another number of outputs")
	}
}

// NoiseTo writes the noise covariance of c outputs to dst, c·c numbers row by row.
func (g *Gaussian) NoiseTo(dst []float64, c int) {
	g.checkOutputs(c)
	if len(dst) != c*c {
		panic("glm: dst does not have c·c elements")
	}
	g.fill(dst, g.cov, c)
}

// fill writes the stored C×C matrix to dst, or one stored number to each of the c diagonal entries.
func (g *Gaussian) fill(dst, stored []float64, c int) {
	if g.c != 0 {
		copy(dst, stored)
		return
	}
	clear(dst)
	for j := range c {
		dst[j*c+j] = stored[0]
	}
}

// Whitening returns the C×C root R of the noise precision, cov⁻¹ = R Rᵀ, and ½ log det 2π cov, for c outputs.
func (g *Gaussian) Whitening(c int) (root *mat.Dense, logNorm float64) {
	g.checkOutputs(c)
	root = mat.NewDense(c, c, nil)
	g.fill(root.RawMatrix().Data, g.root, c)
	if g.c == 0 {
		return root, float64(c) * g.logNorm
	}
	return root, g.logNorm
}

// variance returns the noise variance of output j.
func (g *Gaussian) variance(j int) float64 {
	if g.c == 0 {
		return g.cov[0]
	}
	return g.cov[j*g.c+j]
}

// Expand returns log p(y|f) and writes r = Λ(y − f), the noise precision Λ and its upper triangular root R (E4)
// [thesis table 2.1].
func (g *Gaussian) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	g.checkOutputs(c)
	checkSite(residual, lambda, root, y, c, c)
	if root != nil {
		g.fill(root, g.root, c)
	}
	if g.c == 0 {
		return g.expandScalar(residual, lambda, y, f)
	}
	if lambda != nil {
		// Λ = R Rᵀ, where R is upper triangular.
		c := g.c
		for i := range c {
			for j := i; j < c; j++ {
				v := 0.0
				for k := j; k < c; k++ {
					v += g.root[i*c+k] * g.root[j*c+k]
				}
				lambda[i*c+j], lambda[j*c+i] = v, v
			}
		}
	}
	clear(residual)
	logp = -g.logNorm
	for j := range c {
		// u = Rᵀ(y − f), log p = −½uᵀu − ½ log det 2πΣ, r = R u
		u := 0.0
		for i := range j + 1 {
			u += g.root[i*c+j] * (y[i] - f[i])
		}
		logp -= 0.5 * u * u
		if residual != nil {
			for i := range j + 1 {
				residual[i] += g.root[i*c+j] * u
			}
		}
	}
	return logp
}

// SlopeTo writes zeros, because Λ does not depend on f.
func (*Gaussian) SlopeTo(u, _, f, df []float64) {
	checkSlope(u, f, df)
	clear(u)
}

func (g *Gaussian) expandScalar(residual, lambda, y, f []float64) (logp float64) {
	c := len(f)
	clear(lambda)
	for j := range f {
		// log p = −½ (y−f)²/σ² − ½ log 2πσ²
		d := y[j] - f[j]
		u := d * g.root[0]
		logp -= 0.5*u*u + g.logNorm
		if residual != nil {
			residual[j] = d / g.cov[0]
		}
		if lambda != nil {
			lambda[j*c+j] = 1 / g.cov[0]
		}
	}
	return logp
}

// LogProb returns log p(y|f).
func (g *Gaussian) LogProb(y, f []float64) float64 { return g.Expand(nil, nil, nil, y, f) }

// MeanTo writes f.
func (*Gaussian) MeanTo(dst, f []float64) {
	checkDst(dst, f)
	copy(dst, f)
}

// VarianceTo writes the noise variance of each output.
func (g *Gaussian) VarianceTo(dst, f []float64) {
	checkDst(dst, f)
	g.checkOutputs(len(f))
	for j := range dst {
		dst[j] = g.variance(j)
	}
}

// Moments returns the mean m and the variance v of f, and the noise variance of output j.
func (g *Gaussian) Moments(j int, m, v float64) (mean, epistemic, aleatoric float64) {
	return m, v, g.variance(j)
}

// LogMarginal returns log N(y; f, cov + noise) of all C outputs jointly [thesis 3.16]. The error is a *NotPDError.
func (g *Gaussian) LogMarginal(y, f, cov []float64) (float64, error) {
	c := len(f)
	total := mat.NewSymDense(c, nil)
	d := mat.NewVecDense(c, nil)
	noise := make([]float64, c*c)
	g.NoiseTo(noise, c)
	for i := range c {
		d.SetVec(i, y[i]-f[i])
		for j := i; j < c; j++ {
			total.SetSym(i, j, cov[i*c+j]+noise[i*c+j])
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(total) || smallPivot(total, chol.RawU()) {
		// The covariance is so much larger than the noise that the sum S = cov + noise loses digits of the noise.
		// Take the density from a factor cov = L Lᵀ in place of S. With the noise precision R Rᵀ, d = y − f, W =
		// RᵀL and u = Rᵀd,
		//
		//	dᵀS⁻¹d = min over z of ‖u − W z‖² + ‖z‖²,  det S = det noise · det(I + WᵀW).
		p := integral.NewPivoted(cov, c)
		c := d.Len()
		largest := 0.0
		for i := range c {
			largest = max(largest, cov[i*c+i])
		}
		if p.Least(cov) < -integral.PSDTol*(1+largest) {
			return 0, &NotPDError{N: c}
		}
		root, logNorm := g.Whitening(c)
		rt := root.T()
		if p.Rank == 0 {
			u := new(mat.VecDense)
			u.MulVec(rt, d)
			return -mat.Dot(u, u)/2 - logNorm, nil
		}
		// Solve the least squares problem with the matrix [W; I] by QR.
		both, rhs := mat.NewDense(c+p.Rank, p.Rank, nil), mat.NewDense(c+p.Rank, 1, nil)
		rhs.Slice(0, c, 0, 1).(*mat.Dense).Mul(rt, d)
		both.Slice(0, c, 0, p.Rank).(*mat.Dense).Mul(rt, mat.NewDense(c, c, p.L).Slice(0, c, 0, p.Rank))
		for k := range p.Rank {
			both.Set(c+k, k, 1)
		}
		var qr mat.QR
		qr.Factorize(both)
		var q, rest mat.Dense
		qr.QTo(&q)
		rest.Mul(q.T(), rhs)
		var r mat.Dense
		qr.RTo(&r)
		quad, logDet := 0.0, 0.0
		for i := range c + p.Rank {
			if i < p.Rank {
				logDet += math.Log(math.Abs(r.At(i, i)))
				continue
			}
			quad += rest.At(i, 0) * rest.At(i, 0)
		}
		return -quad/2 - logNorm - logDet, nil
	}
	// log p = −½ dᵀS⁻¹d − ½ log det 2πS, S = cov + noise, through S = UᵀU
	u := mat.NewVecDense(c, nil)
	if err := u.SolveVec(chol.RawU().T(), d); err != nil {
		return 0, &NotPDError{N: c}
	}
	return -0.5*mat.Dot(u, u) - float64(c)*integral.HalfLog2Pi - 0.5*chol.LogDet(), nil
}

// smallPivot tells whether total, the sum of covariance and noise with the Cholesky factor u, may have lost digits
// of the noise: whether the variance of some output given the outputs before it is below 1e-8 of its variance.
func smallPivot(total *mat.SymDense, u mat.Triangular) bool {
	for i := range total.SymmetricDim() {
		if p := u.At(i, i); p*p < 1e-8*total.At(i, i) {
			return true
		}
	}
	return false
}

// PredictiveCDF returns P(y ≤ at) = Φ((at − m)/√(v + σ²)) for f ~ N(m, v).
func (g *Gaussian) PredictiveCDF(output int, at, m, v float64) float64 {
	return 0.5 * math.Erfc((m-at)/math.Sqrt(2*(v+g.variance(output))))
}

// PredictiveQuantile returns the quantile m + √(v + σ²) Φ⁻¹(p) of y for f ~ N(m, v).
func (g *Gaussian) PredictiveQuantile(output int, p, m, v float64) float64 {
	return m + math.Sqrt(v+g.variance(output))*mathext.NormalQuantile(p)
}

// Repeated returns the noise of the t·C outputs of t examples, independent between examples.
func (g *Gaussian) Repeated(t int) *Gaussian {
	if g.c == 0 {
		return g
	}
	n := t * g.c
	all := &Gaussian{c: n, cov: make([]float64, n*n), root: make([]float64, n*n), logNorm: float64(t) * g.logNorm}
	for i := range n {
		at := i / g.c * g.c
		copy(all.cov[i*n+at:], g.cov[(i-at)*g.c:(i-at+1)*g.c])
		copy(all.root[i*n+at:], g.root[(i-at)*g.c:(i-at+1)*g.c])
	}
	return all
}
