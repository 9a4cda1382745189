package gp

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// An Exact is the posterior over functions given all N training examples. Beside what a Posterior answers, it goes to other
// priors, sites and targets without forming K again.
type Exact struct {
	*Posterior
	s *rowSolver
}

// A rowSolver is the covariance given rows of a Jacobian, all of an Exact or the kept ones of a Thinned, by the factor of B.
type rowSolver struct {
	k ntk.Kernel
	x *linearize.Batch
	o Options
	// ofKept is C if the training examples are kept rows, which have one output each, and 0 otherwise.
	ofKept int

	g      gram
	tile   int       // bytes of a tile of cross-kernel
	prior  []float64 // m at the training examples, N·C
	sites  *Sites
	lambda blockDiag
	f      *factor

	b, alpha []float64 // N·C (E5)
	kalpha   []float64 // K α
	plain    []float64 // Σ C b at the training examples (E14), without refinement; nil once closure is checked
	closed   float64   // |C b − A α| of which Cross makes nothing, or 0 for closes·Σ|C b|
	mode     []float64 // f at the mode of the refit that Recondition took the memory of, N·C; nil for none

	refit    bool // the dual vector belongs to a refit (E9)
	warnings []error
}

var _ KernelSolver = (*rowSolver)(nil)

// Fit returns the posterior given the sites s of the training examples x. With
// the sites at x.F it is the Laplace posterior at the trained parameters.
//
// It fails with a *MemoryError before anything large is allocated, with a
// *NotFiniteError where a number is NaN or Inf, with a *NotPDError where the
// kernel is no covariance, and with ctx.Err(), wrapped, once ctx is done. It
// checks ctx between panels of K and of the factorization.
func Fit(ctx context.Context, k ntk.Kernel, x *linearize.Batch, s *Sites, o *Options) (*Exact, error) {
	if !s.fits(x.Len(), x.Outputs()) {
		panic("gp: sites and examples differ in size")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	e, err := newRowSolver(ctx, k, x, o)
	if err != nil {
		return nil, err
	}
	if err := e.settle(ctx, s); err != nil {
		return nil, err
	}
	if e.o.Mean == Network {
		var u Untrained
		u.Add(dense.Flat(x.F), e.prior)
		e.warnings = append(e.warnings, u.Warnings(s)...)
	}
	return e.exact(), nil
}

// exact is the posterior of all training examples at the sites that e is conditioned on.
func (e *rowSolver) exact() *Exact {
	mean := DualMean{Data: e.x, Kernel: e.k, Sites: e.sites, Alpha: e.alpha, Pseudo: e.b, Set: e.set(), Refitted: e.refit, Mean: e.o.Mean, Warnings: e.warnings}
	if e.alpha != nil {
		mean.Scatter = floats.Dot(e.alpha, e.kalpha)
	}
	return &Exact{&Posterior{Solver: e, mean: mean}, e}
}

// settle conditions e on the sites s, and checks how well its sums close.
func (e *rowSolver) settle(ctx context.Context, s *Sites) error {
	if err := e.condition(ctx, s); err != nil {
		return err
	}
	if err := e.warnClosure(ctx); err != nil {
		return err
	}
	e.warnJitter()
	return nil
}

// newRowSolver forms K and m.
func newRowSolver(ctx context.Context, k ntk.Kernel, x *linearize.Batch, o *Options) (*rowSolver, error) {
	e := &rowSolver{k: k, x: x, o: o.withDefaults(), tile: tileBytes}
	n, c := x.Len(), x.Outputs()
	if err := checkFinite("network output", x.F); err != nil {
		return nil, err
	}
	if from := e.o.Reuse; from != nil {
		if from.s.g.n != n*c {
			panic("gp: the posterior to reuse has another size or was used before")
		}
		e.o.Reuse, e.g, from.s.g = nil, from.s.g, gram{}
	} else {
		err := CheckMemory("an exact posterior", TrainingExamples, n, e.o.Memory, func(n int) int64 { return Bytes(n, c) })
		if err != nil {
			return nil, err
		}
		e.g = newGram(n * c)
	}
	e.prior = make([]float64, n*c)
	k.MeanTo(e.prior, x)
	if i := dense.NotFinite(e.prior); i >= 0 {
		return nil, &NotFiniteError{What: "prior mean", Row: i / c, Output: i % c, Value: e.prior[i]}
	}
	return e, e.g.form(ctx, k, x, &e.o)
}

// factorAt factors B at the sites s.
func (e *rowSolver) factorAt(ctx context.Context, s *Sites) (err error) {
	e.sites, e.lambda = s, newBlockDiag(s.Lambda)
	e.f, err = factorize(ctx, e.g, newBlockDiag(s.Root))
	return err
}

// condition factors B at the sites s and solves for the dual vector (E5).
func (e *rowSolver) condition(ctx context.Context, s *Sites) (err error) {
	if err := e.factorAt(ctx, s); err != nil {
		return err
	}
	// b = r + Λ(f − m) (E5)
	e.b = dense.Flat(s.F)
	floats.Sub(e.b, e.prior)
	e.lambda.mulRow(e.b, 0)
	floats.Add(e.b, dense.Flat(s.Residual))
	if e.alpha, e.kalpha, e.plain, err = e.dual(ctx, e.b); err != nil {
		return err
	}
	for _, v := range []struct {
		what string
		of   []float64
	}{{"dual vector", e.alpha}, {"posterior mean", e.kalpha}} {
		if i := dense.NotFinite(v.of); i >= 0 {
			return &NotFiniteError{What: v.what, Row: i / e.lambda.c, Output: i % e.lambda.c, Value: v.of[i], Remedy: tooLarge}
		}
	}
	return nil
}

const (
	settled  = 1e-12 // change, relative to the largest entry of K α, that ends refinement
	refining = 6     // most steps of refinement
)

// dual returns α = b − R B⁻¹ RᵀK b (E5), K α, and K α before refinement. K
// magnifies the rounding error of the solve; one step of iterative refinement,
// α += (I + ΛK)⁻¹(b − (I + ΛK) α), gains two digits in K α on a kernel that is numerically
// singular. Where a step changed K α by more than rounding, further steps follow as long
// as each halves the rest b − (I + ΛK) α.
func (e *rowSolver) dual(ctx context.Context, b []float64) (alpha, kalpha, plain []float64, err error) {
	n := len(b)
	alpha, kalpha = make([]float64, n), make([]float64, n)
	rest, step := b, make([]float64, n)
	for count := range refining {
		if err := ctx.Err(); err != nil {
			return nil, nil, nil, stopped("solving for the dual vector", err)
		}
		next, knext, left := make([]float64, n), make([]float64, n), make([]float64, n)
		// (I + ΛK)⁻¹ = I − R B⁻¹ RᵀK
		e.g.mulVecTo(step, rest)
		e.f.fullVec(step)
		for i, v := range rest {
			next[i] = alpha[i] + (v - step[i])
		}
		// b − (I + ΛK) α
		e.g.mulVecTo(knext, next)
		copy(step, knext)
		e.lambda.mulRow(step, 0)
		for i := range left {
			left[i] = b[i] - next[i] - step[i]
		}
		if count > 1 && !(floats.Norm(left, 2) < floats.Norm(rest, 2)/2) {
			break
		}
		if count == 0 {
			plain = knext
		}
		move := newton.RelativeMove(kalpha, knext)
		if alpha, kalpha, rest = next, knext, left; count > 0 && move <= settled {
			break
		}
	}
	return alpha, kalpha, plain, nil
}

// warnJitter warns where B was factored with jitter.
func (e *rowSolver) warnJitter() {
	if e.f.jitter > 0 {
		// B + εI = (1+ε)(I + RᵀKR/(1+ε)), in which Λ is divided by 1+ε.
		e.warnings = append(e.warnings, linearize.NewWarning("jitter", e.f.jitter, 0, "Raise the prior precision or the noise variance, or leave out repeated examples.",
			"The matrix I + RᵀKR, of mean diagonal %.3g, could be factored only with %.3g added to its diagonal. The result is that of noise 1 + %[2]v times as large.", e.f.mean, e.f.jitter))
	}
}

// PriorMean returns m at the training examples, N·C; it must not be changed.
func (e *Exact) PriorMean() []float64 { return e.s.prior }

// LogDet returns log det B (E4).
func (e *rowSolver) LogDet() float64 { return e.f.logDet }

// TrainingMean returns m + Kα at the training examples, N·C.
func (e *rowSolver) TrainingMean() []float64 {
	return floats.AddTo(make([]float64, e.g.n), e.prior, e.kalpha)
}

// outputs returns the number of outputs of a training example.
func (e *rowSolver) outputs() int { return e.lambda.c }

// predicted returns C, the number of outputs of an input to predict.
func (e *rowSolver) predicted() int {
	if e.ofKept > 0 {
		return e.ofKept
	}
	return e.outputs()
}
