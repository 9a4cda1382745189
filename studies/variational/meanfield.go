package variational

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/ntk"
)

// A Gradient is a log likelihood as a function of the parameters, such as
// *network.LogLik.
type Gradient interface {
	// GradientTo returns Σ log p(y|f(x;θ)) over the rows of x and y, and writes its
	// gradient in θ to dst, length P.
	GradientTo(ctx context.Context, dst, theta []float64, x, y *mat.Dense) (float64, error)
}

// MeanFieldOptions are the options of MeanField. Nil and zero mean the defaults, which
// are those of [glm table 1].
type MeanFieldOptions struct {
	Steps   int     // of Adam; 0 means 5,000
	Rate    float64 // step size of Adam; 0 means 0.01
	Samples int     // draws of a step; 0 means 1
	Batch   int     // examples of a step; 0 means all
	StartSD float64 // standard deviation of every parameter at the start; 0 means 0.05
	Seed    uint64  // of the draws and of the order of the examples

	// Progress, if not nil, is called from one goroutine after each step.
	Progress func(stage string, done, total int)
}

func (o *MeanFieldOptions) withDefaults(n int) (MeanFieldOptions, error) {
	var d MeanFieldOptions
	if o != nil {
		d = *o
	}
	if d.Steps < 0 || d.Samples < 0 || d.Batch < 0 {
		panic("variational: invalid options")
	}
	if d.Steps == 0 {
		d.Steps = 5000
	}
	if d.Samples == 0 {
		d.Samples = 1
	}
	if d.Rate == 0 {
		d.Rate = 0.01
	}
	if d.StartSD == 0 {
		d.StartSD = 0.05
	}
	if d.Batch == 0 || d.Batch > n {
		d.Batch = n
	}
	if !(d.Rate > 0) || !(d.StartSD > 0) || math.IsInf(d.Rate, 1) || math.IsInf(d.StartSD, 1) {
		return d, fmt.Errorf("variational: a rate of %v and a standard deviation of %v; both must be positive and finite", d.Rate, d.StartSD)
	}
	return d, nil
}

// MeanField approximates the posterior of the network itself, not of its linearization,
// by independent Gaussian parameters: Adam (Kingma and Ba, 2015) lowers
//
//	KL(q‖p) − E log p(y|f(x;θ)),  θ = μ + σε,  ε ~ N(0, I),
//
// over μ and log σ, with Options.Samples draws of ε a step for the expectation and the
// divergence in closed form. It is the baseline MFVI of [glm table 1]. It starts at theta with the
// standard deviation Options.StartSD, and predicts by weightspace.BNN. The errors are
// those of l, and ctx.Err(). MeanField panics where sizes differ.
func MeanField(ctx context.Context, l Gradient, prior ntk.Prior, theta []float64, x, y *mat.Dense, o *MeanFieldOptions) (*Independent, error) {
	n, p := dense.Count(x), len(theta)
	if n == 0 || n != dense.Count(y) || p == 0 {
		panic("variational: inputs and targets differ in rows, or there are none, or no parameters")
	}
	opt, err := o.withDefaults(n)
	if err != nil {
		return nil, err
	}
	m := newMeanFieldRun(l, prior, theta, &opt)
	rng := rand.New(rand.NewPCG(opt.Seed, 0x9e3779b97f4a7c15))
	batches := newBatches(x, y, opt.Batch, rng)
	for step := range opt.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		bx, by := batches.next()
		if err := m.step(ctx, bx, by, batches.weight(), rng); err != nil {
			return nil, fmt.Errorf("variational: step %d: %w", step, err)
		}
		if opt.Progress != nil {
			opt.Progress(StageMeanField, step+1, opt.Steps)
		}
	}
	q := &Independent{mean: m.mean(), variance: make([]float64, p)}
	for i, v := range m.logSD() {
		q.variance[i] = math.Exp(2 * v)
		if math.IsNaN(q.mean[i]) || math.IsInf(q.mean[i], 0) || !(q.variance[i] > 0) || math.IsInf(q.variance[i], 1) {
			return nil, fmt.Errorf("variational: parameter %d ended with mean %v and variance %v; take a smaller rate", i, q.mean[i], q.variance[i])
		}
	}
	return q, nil
}

// meanFieldRun is the state of MeanField. The unknowns are μ and then log σ.
type meanFieldRun struct {
	l                   Gradient
	mu0, precision      []float64 // of the prior
	samples             int
	adam                adam
	unknowns, gradient  []float64 // 2·P
	theta, epsilon, one []float64 // P: a draw, its ε and its gradient
}

func newMeanFieldRun(l Gradient, prior ntk.Prior, theta []float64, o *MeanFieldOptions) *meanFieldRun {
	p := len(theta)
	m := &meanFieldRun{l: l, samples: o.Samples, mu0: make([]float64, p), precision: make([]float64, p), adam: newAdam(2*p, o.Rate),
		unknowns: slices.Concat(theta, make([]float64, p)), gradient: make([]float64, 2*p),
		theta: make([]float64, p), epsilon: make([]float64, p), one: make([]float64, p)}
	prior.MeanTo(m.mu0)
	prior.VarianceTo(m.precision)
	for i, v := range m.precision {
		m.precision[i] = 1 / v
		m.logSD()[i] = math.Log(o.StartSD)
	}
	return m
}

func (m *meanFieldRun) mean() []float64  { return m.unknowns[:len(m.mu0)] }
func (m *meanFieldRun) logSD() []float64 { return m.unknowns[len(m.mu0):] }

// step takes a step of Adam on a batch whose examples count weight times each.
func (m *meanFieldRun) step(ctx context.Context, x, y *mat.Dense, weight float64, rng *rand.Rand) error {
	p, mean, logSD := len(m.mu0), m.mean(), m.logSD()
	for i, precision := range m.precision {
		// KL = ½ Σ [σ²/Σ₀ + (μ − μ₀)²/Σ₀ − 1 − log σ²/Σ₀]
		m.gradient[i] = (mean[i] - m.mu0[i]) * precision
		m.gradient[p+i] = math.Exp(2*logSD[i])*precision - 1
	}
	share := weight / float64(m.samples)
	for range m.samples {
		for i := range m.theta {
			m.epsilon[i] = rng.NormFloat64()
			m.theta[i] = mean[i] + math.Exp(logSD[i])*m.epsilon[i]
		}
		if _, err := m.l.GradientTo(ctx, m.one, m.theta, x, y); err != nil {
			return err
		}
		for i, g := range m.one {
			// ∂θ/∂μ = 1, ∂θ/∂log σ = σε = θ − μ
			m.gradient[i] -= share * g
			m.gradient[p+i] -= share * g * (m.theta[i] - mean[i])
		}
	}
	m.adam.step(m.unknowns, m.gradient)
	return nil
}

// An adam holds the moments of the gradient, with the usual constants.
type adam struct {
	rate float64
	m, v []float64
	t    int
}

func newAdam(n int, rate float64) adam {
	return adam{rate: rate, m: make([]float64, n), v: make([]float64, n)}
}

func (a *adam) step(x, gradient []float64) {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	a.t++
	c1, c2 := 1-math.Pow(beta1, float64(a.t)), 1-math.Pow(beta2, float64(a.t))
	for i, g := range gradient {
		a.m[i] = beta1*a.m[i] + (1-beta1)*g
		a.v[i] = beta2*a.v[i] + (1-beta2)*g*g
		x[i] -= a.rate * (a.m[i] / c1) / (math.Sqrt(a.v[i]/c2) + epsilon)
	}
}

// An Independent is a Gaussian of independent parameters.
type Independent struct{ mean, variance []float64 }

var _ weightspace.Draws = (*Independent)(nil)

// Center returns the means. They must not be changed.
func (q *Independent) Center() []float64 { return q.mean }

// Variance returns the variances. They must not be changed.
func (q *Independent) Variance() []float64 { return q.variance }

// SampleTo writes S draws of the parameters to the rows of dst, S×P, which must be
// sized. Its error is ctx.Err().
func (q *Independent) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	s, p := dst.Dims()
	if s == 0 || p != len(q.mean) {
		panic("variational: destination is not S×P")
	}
	for i := range s {
		if err := ctx.Err(); err != nil {
			return err
		}
		for j, row := 0, dst.RawRowView(i); j < p; j++ {
			row[j] = q.mean[j] + math.Sqrt(q.variance[j])*rng.NormFloat64()
		}
	}
	return nil
}
