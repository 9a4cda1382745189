package evidence

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/ntk"
)

// A Point has the evidence and its derivatives for one choice of the factors on the prior variances and on the
// noise variance.
type Point struct {
	LogFactor []float64 // log factor of each group; −Inf holds the group's parameters at the prior mean
	LogNoise  float64   // log factor of the noise variance
	Evidence  gp.Evidence
	// Gradient is the derivative in LogFactor. For Refit and HeldSites it is the total derivative, with the mode
	// moving. It is 0 where LogFactor is −Inf.
	Gradient []float64
	// Slope is the derivative in the factor itself. Where LogFactor is −Inf, a negative Slope says that the data
	// favour the group at its prior mean.
	Slope []float64
	// NoiseGradient is the derivative in LogNoise; NaN unless the likelihood is Gaussian.
	NoiseGradient float64
	// The parts of Gradient (E10); where LogFactor is −Inf, the parts of Slope.
	Trace  []float64 // tr(B⁻¹RᵀK_gR)
	Quad   []float64 // αᵀK_gα
	Moving []float64 // −½ Σ tr(C_ii dΛ_i) for Refit; nil for other forms, and where Λ is constant

	Groups   []ntk.Group // names and places of the groups, with their precisions at this point
	Warnings []error     // of the posterior at this point
}

// A Model computes the evidence of a problem at many points. Only one goroutine may use it at a time.
type Model struct {
	p       *Problem
	o       Options
	prior   *ntk.Scaled // at factors of 1
	scatter []float64   // ‖θ_g−μ_g‖²/s_g at factors of 1
	space   space
	count   int // number of evaluations
}

// A space computes posteriors in the space of functions or of weights.
type space interface {
	// at returns the posterior under a prior with these factors. The last posterior may become invalid.
	at(ctx context.Context, form Form, prior *ntk.Scaled, y *gp.Targets) (posterior, error)
}

// A posterior is a posterior of a space.
type posterior interface {
	evidence(form Form, scatter float64) gp.Evidence
	terms(ctx context.Context, form Form, y *gp.Targets) (*terms, error)
	sites() *gp.Sites
	dual() []float64 // α (E5)
	warnings() []error
}

// terms are the parts of the derivatives (E10) for each group, with a factor of 1.
type terms struct {
	trace, quad, moving []float64
	inverse             float64 // tr B⁻¹
}

// Evaluate returns the evidence of p and its derivatives for all groups, at the given prior and noise. The error is
// an error of gp.Refit.
func Evaluate(ctx context.Context, p *Problem, form Form, o *Options) (*Point, error) {
	all := o.withDefaults()
	all.PerGroup = true
	m, err := New(ctx, p, &all)
	if err != nil {
		return nil, err
	}
	return m.At(ctx, form, make([]float64, len(m.scatter)), 0)
}

// New computes what all evaluations share: the kernels of the groups, or without Options.PerGroup the kernel of all
// parameters. The error is a *gp.MemoryError before anything large is allocated, or an error of gp.Targets.CheckFor or
// ntk.NewScaled.
func New(ctx context.Context, p *Problem, o *Options) (*Model, error) {
	// Check the sizes and the targets.
	if len(p.Theta) != p.X.P {
		panic("evidence: θ* and the examples are of different networks")
	}
	if err := p.Y.CheckFor(p.X.Len(), p.X.Outputs()); err != nil {
		return nil, err
	}
	m := &Model{p: p, o: o.withDefaults()}
	var err error
	if m.prior, err = p.scaled(!m.o.PerGroup); err != nil {
		return nil, err
	}
	// Compute ‖θ_g−μ_g‖²/s_g of each group at a factor of 1.
	prior := m.prior
	mean, variance := make([]float64, len(p.Theta)), make([]float64, len(p.Theta))
	prior.MeanTo(mean)
	prior.VarianceTo(variance)
	var sums []float64
	for _, g := range prior.Groups() {
		sum := 0.0
		for _, s := range g.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				if d := p.Theta[i] - mean[i]; d != 0 {
					sum += d * d / variance[i]
				}
			}
		}
		sums = append(sums, sum)
	}
	m.scatter = sums
	m.space, err = newSpace(ctx, m)
	return m, err
}

// Groups returns the groups whose factors are variables, at factors of 1.
func (m *Model) Groups() []ntk.Group { return m.prior.Groups() }

// At returns the evidence and its derivatives after adding logFactor to the log variances of the groups and
// logNoise to the log variance of the noise. A logFactor of −Inf holds its group at the prior mean. The error is an
// error of Evaluate.
func (m *Model) At(ctx context.Context, form Form, logFactor []float64, logNoise float64) (*Point, error) {
	s, err := m.value(ctx, form, logFactor, logNoise)
	if err != nil {
		return nil, err
	}
	return s.Point, m.differentiate(ctx, s)
}

// Value returns the evidence without derivatives. It takes less than half the time of At for the forms without a
// refit, and about two thirds for the others.
func (m *Model) Value(ctx context.Context, form Form, logFactor []float64, logNoise float64) (gp.Evidence, error) {
	s, err := m.value(ctx, form, logFactor, logNoise)
	if err != nil {
		return gp.Evidence{}, err
	}
	return s.Evidence, nil
}

// A state is a Point that is being computed, with its posterior.
type state struct {
	*Point
	form   Form
	factor []float64
	prior  *ntk.Scaled
	y      *gp.Targets
	post   posterior
}

// value computes the evidence, without derivatives.
func (m *Model) value(ctx context.Context, form Form, logFactor []float64, logNoise float64) (*state, error) {
	s := &state{form: form, Point: &Point{LogFactor: append([]float64(nil), logFactor...), LogNoise: logNoise}}
	for _, c := range logFactor {
		s.factor = append(s.factor, math.Exp(c))
	}
	var err error
	if s.prior, err = m.prior.With(s.factor); err != nil {
		return nil, err
	}
	if s.y, err = m.p.noise(math.Exp(logNoise)); err != nil {
		return nil, err
	}
	s.Groups = s.prior.Groups()
	if s.post, err = m.space.at(ctx, form, s.prior, s.y); err != nil {
		return nil, err
	}
	// Compute Σ_g scatter_g / factor_g.
	scatter := m.scatter
	factor := s.factor
	sum := 0.0
	for g, v := range scatter {
		sum += over(v, factor[g])
	}
	s.Evidence = s.post.evidence(form, sum)
	s.Warnings = s.post.warnings()
	m.count++
	m.o.Show(StageEvidence, m.count, 0)
	return s, nil
}

// differentiate computes the derivatives at s, which must be the result of the last call of value.
func (m *Model) differentiate(ctx context.Context, s *state) error {
	t, err := s.post.terms(ctx, s.form, s.y)
	if err != nil {
		return err
	}
	s.Trace, s.Quad, s.Moving = t.trace, t.quad, t.moving
	s.Gradient, s.Slope = make([]float64, len(s.factor)), make([]float64, len(s.factor))
	for g, f := range s.factor {
		gain := t.quad[g]
		if s.form == AtTheta {
			// ‖θ_g−μ_g‖²/s_g² is the derivative of −‖θ_g−μ_g‖²/s_g.
			gain = over(over(m.scatter[g], f), f)
		}
		// ½ αᵀK_gα − ½ tr(B⁻¹RᵀK_gR), and for AtTheta ½ ‖θ_g−μ_g‖²/s_g in place of the first term (E10). For
		// HeldSites α is the mode's. At the mode Σ log p − ½ αᵀKα is at its maximum, so its derivative in the mode
		// is 0.
		s.Slope[g] = gain/2 - t.trace[g]/2
		if t.moving != nil {
			s.Slope[g] += t.moving[g]
			t.moving[g] *= orOne(f)
		}
		if f > 0 {
			s.Gradient[g] = f * s.Slope[g]
		}
		t.trace[g], t.quad[g] = orOne(f)*t.trace[g], orOne(f)*t.quad[g]
	}
	s.NoiseGradient = math.NaN()
	if lik, ok := s.y.Likelihood.(*glm.Gaussian); ok {
		v := s.post.dual()
		if s.form == AtTheta {
			v = dense.Flat(s.post.sites().Residual)
		}
		// ½ (y−f)ᵀΛ(y−f) − ½ tr B⁻¹ + ½ C Σ (1 − w_i), with r or α = Λ(y−f) and Λ_i = w_i Σ⁻¹
		// Compute Σ_i v_iᵀΣv_i/w_i + C Σ (1 − w_i) for vectors v, N·C, and the noise covariance Σ.
		c := m.p.X.Outputs()
		cov := make([]float64, c*c)
		lik.NoiseTo(cov, c)
		sum := 0.0
		for n := range s.y.Len() {
			v, w := v[n*c:(n+1)*c], s.y.Weight(n)
			sum += float64(c) * (1 - w)
			for i := range c {
				for j := range c {
					sum += over(v[i]*cov[i*c+j]*v[j], w)
				}
			}
		}
		s.NoiseGradient = sum/2 - t.inverse/2
	}
	return nil
}

// orOne returns f, or 1 where f is 0.
func orOne(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}
