package variational

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
)

// An Expected likelihood knows its expectations under a Gaussian. The likelihoods of
// package glm need not implement it; for any other, Refine integrates Expand
// numerically.
type Expected interface {
	gp.Likelihood
	// ExpectTo returns E log p(y|f) for f ~ N(mean, cov) and writes E r (C) and
	// E Λ (C×C), where r = ∂log p/∂f and Λ = −∂²log p/∂f². A nil destination is
	// skipped.
	ExpectTo(residual, lambda, y, mean, cov []float64) float64
}

// An expectation integrates the likelihood of one example. It is used by one
// goroutine at a time.
type expectation interface {
	// expectTo is Expected.ExpectTo for example i.
	expectTo(residual, lambda []float64, i int, y, mean, cov []float64) float64
}

// A FisherError says that a likelihood gives the Fisher information as Λ, which is
// not −∂²log p/∂f², so that E Λ is not the precision at which the lower bound is largest.
type FisherError struct{ Likelihood string }

func (e *FisherError) Error() string {
	return fmt.Sprintf("variational: the %s likelihood is not log-concave, and its Λ is the Fisher information; the refinement needs a log-concave likelihood", e.Likelihood)
}

// newExpectations returns what integrates a likelihood of n examples with c outputs,
// on so many workers.
func newExpectations(lik gp.Likelihood, n, c, points, workers int) ([]expectation, error) {
	if _, ok := lik.(gp.Scored); ok {
		name := "given"
		if l, ok := lik.(interface{ Name() string }); ok {
			name = l.Name()
		}
		return nil, &FisherError{Likelihood: name}
	}
	out := make([]expectation, workers)
	var shared *softmaxNodes
	if _, ok := lik.(glm.Categorical); ok && c > 1 {
		shared = newSoftmaxNodes(n, c, points)
	}
	for w := range out {
		switch l := lik.(type) {
		case Expected:
			out[w] = givenExpectation{l}
		case *glm.Gaussian:
			out[w] = gaussianExpectation{l}
		case glm.Poisson:
			out[w] = poissonExpectation{}
		case glm.Bernoulli:
			out[w] = bernoulliExpectation{}
		case glm.Categorical:
			out[w] = newSoftmaxExpectation(shared, c)
		default:
			out[w] = newNumericExpectation(lik, c, points)
		}
	}
	return out, nil
}

// givenExpectation is that of a likelihood that knows its own.
type givenExpectation struct{ lik Expected }

func (g givenExpectation) expectTo(residual, lambda []float64, _ int, y, mean, cov []float64) float64 {
	return g.lik.ExpectTo(residual, lambda, y, mean, cov)
}

// gaussianExpectation is in closed form: log p is quadratic.
type gaussianExpectation struct{ lik *glm.Gaussian }

func (g gaussianExpectation) expectTo(residual, lambda []float64, _ int, y, mean, cov []float64) float64 {
	if lambda == nil {
		lambda = make([]float64, len(cov))
	}
	// E log p = log p(y|E f) − ½ tr Λ cov
	logp := g.lik.Expand(residual, lambda, nil, y, mean)
	for i, v := range lambda {
		logp -= v * cov[i] / 2
	}
	return logp
}

// poissonExpectation is in closed form, by the mean of a log-normal.
type poissonExpectation struct{}

func (poissonExpectation) expectTo(residual, lambda []float64, _ int, y, mean, cov []float64) float64 {
	c, logp := len(mean), 0.0
	clear(lambda)
	for j, m := range mean {
		// E e^f = e^{m + v/2}
		rate := math.Exp(m + cov[j*c+j]/2)
		lg, _ := math.Lgamma(y[j] + 1)
		logp += y[j]*m - rate - lg
		if residual != nil {
			residual[j] = y[j] - rate
		}
		if lambda != nil {
			lambda[j*c+j] = rate
		}
	}
	return logp
}

// bernoulliExpectation integrates each output by itself.
type bernoulliExpectation struct{}

func (bernoulliExpectation) expectTo(residual, lambda []float64, _ int, y, mean, cov []float64) float64 {
	c, logp := len(mean), 0.0
	clear(lambda)
	for j, m := range mean {
		one, v := y[j], cov[j*c+j]
		var up, down logistic // of log σ(f) and of log σ(−f)
		if one > 0 {
			up = meanLogistic(m, v)
		}
		if one < 1 {
			down = meanLogistic(-m, v)
		}
		logp += one*up.log + (1-one)*down.log
		if residual != nil {
			// E r = y E σ(−f) − (1 − y) E σ(f)
			residual[j] = one*up.rest - (1-one)*down.rest
		}
		if lambda != nil {
			lambda[j*c+j] = max(up.slope, down.slope)
		}
	}
	return logp
}
