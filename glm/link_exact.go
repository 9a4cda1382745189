package glm

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Exact integrates g⁻¹ against the Gaussian of each output (E11): to 1e-10 by
// quadrature for Bernoulli, in closed form for Poisson (log-normal rate) and
// Gaussian [thesis 3.16]. The log predictive of Gaussian outputs is joint;
// that of several Bernoulli or Poisson outputs is the sum of their marginals.
type Exact struct{}

var (
	_ Link     = Exact{}
	_ Splitter = Exact{}
)

func (Exact) marginal(lik Likelihood) (Marginal, error) {
	m, ok := lik.(Marginal)
	if !ok {
		return nil, &UnsupportedError{Link: "exact", Likelihood: lik.Name()}
	}
	return m, nil
}

// PredictTo implements Link.
func (e Exact) PredictTo(mean, sd *mat.Dense, lik Likelihood, f, cov *mat.Dense) error {
	t, c := f.Dims()
	sizeTo(mean, t, c)
	sizeTo(sd, t, c)
	return e.moments(lik, f, cov, func(t, j int, m, epistemic, _ float64) {
		setAt(mean, t, j, m)
		setAt(sd, t, j, math.Sqrt(epistemic))
	})
}

// SplitTo implements Splitter.
func (e Exact) SplitTo(aleatoric, epistemic *mat.Dense, lik Likelihood, f, cov *mat.Dense) error {
	t, c := f.Dims()
	sizeTo(aleatoric, t, c)
	sizeTo(epistemic, t, c)
	return e.moments(lik, f, cov, func(t, j int, _, ep, al float64) {
		setAt(aleatoric, t, j, al)
		setAt(epistemic, t, j, ep)
	})
}

func (e Exact) moments(lik Likelihood, f, cov *mat.Dense, set func(t, j int, mean, epistemic, aleatoric float64)) error {
	m, err := e.marginal(lik)
	if err != nil {
		return err
	}
	return newPosterior(f, cov).each(func(t int, f, cov []float64) error {
		for j := range f {
			mean, epistemic, aleatoric := m.Moments(j, f[j], cov[j*len(f)+j])
			set(t, j, mean, epistemic, aleatoric)
		}
		return nil
	})
}

// LogPredictiveTo implements Link.
func (e Exact) LogPredictiveTo(dst []float64, lik Likelihood, y, f, cov *mat.Dense) error {
	m, err := e.marginal(lik)
	if err != nil {
		return err
	}
	p := newPosterior(f, cov)
	checkLog(dst, lik, y, p.t, p.c)
	return p.each(func(t int, f, cov []float64) (err error) {
		dst[t], err = m.LogMarginal(y.RawRowView(t), f, cov)
		var notPD *NotPDError
		if errors.As(err, &notPD) {
			notPD.Row = t
		}
		return err
	})
}
