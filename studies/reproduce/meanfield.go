package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/ntk"
)

// A gradient is a log likelihood as a function of the parameters, such as
// *network.LogLik.
type gradient interface {
	// GradientTo returns Σ log p(y|f(x;θ)) over the rows of x and y, and writes its
	// gradient in θ to dst, length P.
	GradientTo(ctx context.Context, dst, theta []float64, x, y *mat.Dense) (float64, error)
}

// meanFieldOptions are the options of meanField. Zero means a default, of which those are [glm table 1]'s that it states.
type meanFieldOptions struct {
	Steps   int     // of Adam; 0 means 5,000
	Rate    float64 // step size of Adam; 0 means 0.01
	Samples int     // draws of a step; 0 means 1
	StartSD float64 // standard deviation of every parameter at the start; 0 means 0.05
	Seed    uint64  // of the draws
}

// meanField approximates the posterior of the network itself, not of its linearization,
// by independent Gaussian parameters: Adam (Kingma and Ba, 2015) lowers
//
//	KL(q‖p) − E log p(y|f(x;θ)),  θ = μ + σε,  ε ~ N(0, I),
//
// over μ and log σ, with Samples draws of ε a step for the expectation and the
// divergence in closed form. It is the baseline MFVI of [glm table 1]. It starts at theta with the
// standard deviation StartSD, and takes all rows in each step. The errors are those of l, and ctx.Err().
func meanField(ctx context.Context, l gradient, prior ntk.Prior, theta []float64, x, y *mat.Dense, o meanFieldOptions) (*independent, error) {
	o.Steps, o.Rate, o.Samples, o.StartSD = cmp.Or(o.Steps, 5000), cmp.Or(o.Rate, 0.01), cmp.Or(o.Samples, 1), cmp.Or(o.StartSD, 0.05)
	m := newMeanFieldRun(l, prior, theta, &o)
	rng := rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15))
	for step := range o.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.step(ctx, x, y, rng); err != nil {
			return nil, fmt.Errorf("mean field, step %d: %w", step, err)
		}
	}
	q := &independent{mean: m.mean(), variance: make([]float64, len(theta))}
	for i, v := range m.logSD() {
		q.variance[i] = math.Exp(2 * v)
		if math.IsNaN(q.mean[i]) || math.IsInf(q.mean[i], 0) || !(q.variance[i] > 0) || math.IsInf(q.variance[i], 1) {
			return nil, fmt.Errorf("mean field: parameter %d ended with mean %v and variance %v; take a smaller rate", i, q.mean[i], q.variance[i])
		}
	}
	return q, nil
}

// meanFieldRun is the state of meanField. The unknowns are μ and then log σ.
type meanFieldRun struct {
	l                   gradient
	mu0, precision      []float64 // of the prior
	samples             int
	adam                adam
	unknowns, gradient  []float64 // 2·P
	theta, epsilon, one []float64 // P: a draw, its ε and its gradient
}

func newMeanFieldRun(l gradient, prior ntk.Prior, theta []float64, o *meanFieldOptions) *meanFieldRun {
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

// step takes a step of Adam.
func (m *meanFieldRun) step(ctx context.Context, x, y *mat.Dense, rng *rand.Rand) error {
	p, mean, logSD := len(m.mu0), m.mean(), m.logSD()
	for i, precision := range m.precision {
		// KL = ½ Σ [σ²/Σ₀ + (μ − μ₀)²/Σ₀ − 1 − log σ²/Σ₀]
		m.gradient[i] = (mean[i] - m.mu0[i]) * precision
		m.gradient[p+i] = math.Exp(2*logSD[i])*precision - 1
	}
	share := 1 / float64(m.samples)
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

// An independent is a Gaussian of independent parameters.
type independent struct{ mean, variance []float64 }

var _ Drawn = (*independent)(nil)

// SampleTo writes S draws of the parameters to the rows of dst, S×P, which must be
// sized. Its error is ctx.Err().
func (q *independent) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	for i := range count(dst) {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := dst.RawRowView(i)
		for j := range row {
			row[j] = q.mean[j] + math.Sqrt(q.variance[j])*rng.NormFloat64()
		}
	}
	return nil
}
