package predictive

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
)

// Linear is the linear-Gaussian predictive (E11) [thesis eq. 3.16]: the response is linearized at the mean of f, so that
//
//	y ~ N(g⁻¹(f), G Σ Gᵀ + Var[y|f]),   G = ∂g⁻¹/∂f
//
// For classes and for a Poisson likelihood G is Λ, and Var[y|f] is the diagonal of Λ. The mean is g⁻¹(f) as for MAP: the
// covariance says how sure the probabilities are and does not move them.
//
// Linear takes Logistic and Counting likelihoods and *glm.Gaussian, for which it is Exact. The log density of classes is
// log p(y|f) as for MAP. The log density of counts is the sum of one normal log density for each count.
type Linear struct{}

var (
	_ Link     = Linear{}
	_ Splitter = Linear{}
)

// PredictTo implements Link.
func (l Linear) PredictTo(mean, sd *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	if err := l.SplitTo(nil, sd, lik, f, cov); err != nil {
		return err
	}
	if sd != nil {
		sd.Apply(func(_, _ int, v float64) float64 { return math.Sqrt(v) }, sd)
	}
	return MAP{}.PredictTo(mean, nil, lik, f, nil)
}

// SplitTo implements Splitter.
func (l Linear) SplitTo(aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	if g, ok := lik.(*glm.Gaussian); ok {
		return Exact{}.SplitTo(aleatoric, epistemic, g, f, cov)
	}
	t, c := f.Dims()
	dense.SizeTo(aleatoric, t, c)
	dense.SizeTo(epistemic, t, c)
	return l.each(lik, f, cov, func(t int, f, variance []float64) error {
		if aleatoric != nil {
			lik.VarianceTo(aleatoric.RawRowView(t), f)
		}
		if epistemic != nil {
			epistemic.SetRow(t, variance)
		}
		return nil
	})
}

// LogPredictiveTo implements Link.
func (l Linear) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	if g, ok := lik.(*glm.Gaussian); ok {
		return Exact{}.LogPredictiveTo(dst, g, y, f, cov)
	}
	t, c := f.Dims()
	checkLog(dst, lik, y, t, c)
	_, classes := lik.(glm.Logistic)
	mean, noise := make([]float64, c), make([]float64, c)
	return l.each(lik, f, cov, func(t int, f, epistemic []float64) error {
		if classes {
			dst[t] = lik.LogProb(y.RawRowView(t), f)
			return nil
		}
		lik.MeanTo(mean, f)
		lik.VarianceTo(noise, f)
		dst[t] = 0
		for j, y := range y.RawRowView(t) {
			v, d := noise[j]+epistemic[j], y-mean[j]
			dst[t] -= 0.5 * (d*d/v + math.Log(2*math.Pi*v))
		}
		return nil
	})
}

// each calls do with each row of f and the diagonal of G Σ Gᵀ, which the next row overwrites.
func (l Linear) each(lik glm.Likelihood, f, cov *mat.Dense, do func(t int, f, epistemic []float64) error) error {
	_, c := f.Dims()
	slope := make([]float64, c) // the diagonal of G; the probabilities p for a softmax
	softmax := false
	var slopeTo func(f []float64)
	switch k := lik.(type) {
	case glm.Logistic:
		if softmax = k.Softmax(); softmax {
			slopeTo = func(f []float64) { lik.MeanTo(slope, f) }
		} else {
			slopeTo = func(f []float64) { lik.VarianceTo(slope, f) }
		}
	case glm.Counting:
		slopeTo = func(f []float64) { lik.MeanTo(slope, f) }
	default:
		return &UnsupportedError{Link: "linear", Likelihood: lik.Name()}
	}
	epistemic, half := make([]float64, c), make([]float64, c)
	return newPosterior(f, cov).each(func(t int, f, cov []float64) error {
		slopeTo(f)
		if !softmax {
			for j, g := range slope {
				epistemic[j] = g * g * cov[j*c+j]
			}
			return do(t, f, epistemic)
		}
		// G = diag(p) − ppᵀ, so that (GΣGᵀ)_jj = p_j² (e_j − p)ᵀΣ(e_j − p).
		all := 0.0
		for j, p := range slope {
			half[j] = dense.Dot(cov[j*c:(j+1)*c], slope)
			all += p * half[j]
		}
		for j, p := range slope {
			epistemic[j] = p * p * max(0, cov[j*c+j]-2*half[j]+all)
		}
		return do(t, f, epistemic)
	})
}
