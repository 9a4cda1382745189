package variational

import (
	"math"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
)

// An expectation integrates the likelihood of one example. It is used by one
// goroutine at a time.
type expectation interface {
	// expectTo returns E log p(y|f) of example i for f ~ N(mean, cov) and writes E r (C) and
	// E Λ (C×C), where r = ∂log p/∂f and Λ = −∂²log p/∂f² (E3). A nil destination is skipped.
	expectTo(residual, lambda []float64, i int, y, mean, cov []float64) float64
}

// newExpectations returns an expectation for each worker, for the likelihood of n examples
// with c outputs, and the relative error that quasi–Monte Carlo leaves in the bound.
func newExpectations(lik gp.Likelihood, n, c, points, workers int) (terms []expectation, noise float64, err error) {
	if _, ok := lik.(gp.Scored); ok {
		name := "given"
		if l, ok := lik.(interface{ Name() string }); ok {
			name = l.Name()
		}
		return nil, 0, &FisherError{Likelihood: name}
	}
	var normals []float64
	quasi := func(dims int) error {
		noise = 1e-5
		normals, err = matchedNormals(points, dims)
		return err
	}
	var of func() expectation
	switch l := lik.(type) {
	case *glm.Gaussian:
		of = func() expectation { return gaussianExpectation{l} }
	case glm.Poisson:
		of = func() expectation { return poissonExpectation{} }
	case glm.Bernoulli:
		of = func() expectation { return bernoulliExpectation{} }
	case glm.Categorical:
		if c > 2 {
			if err := quasi(c - 1); err != nil {
				return nil, 0, err
			}
		}
		shared := &softmaxNodes{points: points, normals: normals, qmc: make([]bool, n)}
		of = func() expectation { return newSoftmaxExpectation(shared, c) }
	default:
		if c > 1 {
			if err := quasi(c); err != nil {
				return nil, 0, err
			}
		}
		of = func() expectation { return newNumericExpectation(lik, c, normals) }
	}
	for range workers {
		terms = append(terms, of())
	}
	return terms, noise, nil
}

// gaussianExpectation integrates in closed form, because log p is quadratic.
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

// poissonExpectation integrates in closed form, by the mean of a log-normal variable.
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
