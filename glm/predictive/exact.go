package predictive

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
)

// Exact integrates g⁻¹ over the Gaussian of each output (E11) [glm 13]. Marginal and Coupled likelihoods compute
// the integrals themselves: Bernoulli by quadrature to 1e-10, Poisson (log-normal rate) and Gaussian in closed form
// [thesis 3.16]. For any other likelihood Exact integrates one output by Expectation and LogExpectation, with the
// accuracy stated there, and returns an *UnsupportedError for C > 1.
//
// The log predictive density of Gaussian outputs is joint. For several Bernoulli, Poisson or heteroscedastic
// targets it is the sum of the marginal ones.
type Exact struct{}

var (
	_ Link     = Exact{}
	_ Splitter = Exact{}
)

// marginal returns the integrals of lik with c outputs.
func (Exact) marginal(lik glm.Likelihood, c int) (glm.Coupled, error) {
	if m, ok := lik.(glm.Coupled); ok {
		return m, nil
	}
	if m, ok := lik.(glm.Marginal); ok {
		return apart{m}, nil
	}
	if c != 1 {
		return nil, &UnsupportedError{Link: "exact", Likelihood: lik.Name()}
	}
	return apart{oneOutput{lik}}, nil
}

// apart is a Marginal likelihood as a Coupled one, with the moments of each output by itself.
type apart struct{ glm.Marginal }

// MomentsTo implements Coupled.
func (a apart) MomentsTo(mean, epistemic, aleatoric, f, cov []float64) {
	for j, m := range f {
		mean[j], epistemic[j], aleatoric[j] = a.Moments(j, m, cov[j*len(f)+j])
	}
}

// oneOutput makes a Marginal likelihood of any likelihood with one output, by quadrature.
type oneOutput struct{ lik glm.Likelihood }

// Moments implements Marginal.
func (o oneOutput) Moments(_ int, m, v float64) (mean, epistemic, aleatoric float64) {
	var in, out [1]float64
	response := func(f float64) float64 {
		in[0] = f
		o.lik.MeanTo(out[:], in[:])
		return out[0]
	}
	mean = integral.Expectation(response, m, v)
	if v > 0 {
		// Subtract the mean first, so that a small variance keeps its digits.
		epistemic = integral.Expectation(func(f float64) float64 { d := response(f) - mean; return d * d }, m, v)
	}
	aleatoric = integral.Expectation(func(f float64) float64 {
		in[0] = f
		o.lik.VarianceTo(out[:], in[:])
		return out[0]
	}, m, v)
	return mean, epistemic, aleatoric
}

// LogMarginal implements Marginal.
func (o oneOutput) LogMarginal(y, f, cov []float64) (float64, error) {
	var in [1]float64
	return integral.LogExpectation(func(f float64) float64 {
		in[0] = f
		return o.lik.LogProb(y, in[:])
	}, f[0], cov[0]), nil
}

// PredictTo implements Link.
func (e Exact) PredictTo(mean, sd *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	return predictBy(e.moments, mean, sd, lik, f, cov)
}

// SplitTo implements Splitter.
func (e Exact) SplitTo(aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	return splitBy(e.moments, aleatoric, epistemic, lik, f, cov)
}

// A setMoments receives E g⁻¹(f), Var g⁻¹(f) and E Var[y|f] for output j of row t.
type setMoments func(t, j int, mean, epistemic, aleatoric float64)

// predictBy writes the mean and the standard deviation from the moments of a link.
func predictBy(moments func(lik glm.Likelihood, f, cov *mat.Dense, set setMoments) error, mean, sd *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	t, c := f.Dims()
	dense.SizeTo(mean, t, c)
	dense.SizeTo(sd, t, c)
	return moments(lik, f, cov, func(t, j int, m, epistemic, _ float64) {
		dense.SetAt(mean, t, j, m)
		dense.SetAt(sd, t, j, math.Sqrt(epistemic))
	})
}

// splitBy writes the aleatoric and the epistemic variance from the moments of a link.
func splitBy(moments func(lik glm.Likelihood, f, cov *mat.Dense, set setMoments) error, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	t, c := f.Dims()
	dense.SizeTo(aleatoric, t, c)
	dense.SizeTo(epistemic, t, c)
	return moments(lik, f, cov, func(t, j int, _, ep, al float64) {
		dense.SetAt(aleatoric, t, j, al)
		dense.SetAt(epistemic, t, j, ep)
	})
}

func (e Exact) moments(lik glm.Likelihood, f, cov *mat.Dense, set setMoments) error {
	p := newPosterior(f, cov)
	m, err := e.marginal(lik, p.c)
	if err != nil {
		return err
	}
	mean, epistemic, aleatoric := make([]float64, p.c), make([]float64, p.c), make([]float64, p.c)
	return p.each(func(t int, f, cov []float64) error {
		m.MomentsTo(mean, epistemic, aleatoric, f, cov)
		for j := range f {
			set(t, j, mean[j], epistemic[j], aleatoric[j])
		}
		return nil
	})
}

// LogPredictiveTo implements Link.
func (e Exact) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	p := newPosterior(f, cov)
	m, err := e.marginal(lik, p.c)
	if err != nil {
		return err
	}
	checkLog(dst, lik, y, p.t, p.c)
	return p.each(func(t int, f, cov []float64) (err error) {
		dst[t], err = m.LogMarginal(y.RawRowView(t), f, cov)
		return atRow(err, t)
	})
}

// atRow sets the row of a *NotPDError to t.
func atRow(err error, t int) error {
	var notPD *glm.NotPDError
	if errors.As(err, &notPD) {
		notPD.Row = t
	}
	return err
}
