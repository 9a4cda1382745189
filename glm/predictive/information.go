package predictive

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
)

// An Informer computes two entropies in nats: the entropy H[E p(y|f)] of the prediction, and the mutual information
// of y and f, H[E p(y|f)] − E H[p(y|f)], the part that more training data would remove. For Gaussian outputs they
// are differential entropies. Several Bernoulli outputs count as independent, so that their entropies add up.
// Exact, QMC and MonteCarlo are Informers.
type Informer interface {
	// EntropyTo writes both numbers for each of T examples. A nil destination is skipped. The error is an error of
	// Link, or an *UnsupportedError for a Poisson likelihood and for any other likelihood that is neither Gaussian
	// nor of classes.
	EntropyTo(entropy, mutual []float64, lik glm.Likelihood, f, cov *mat.Dense) error
}

var (
	_ Informer = Exact{}
	_ Informer = QMC{}
	_ Informer = MonteCarlo{}
)

// checkEntropy panics where a destination does not have T numbers.
func checkEntropy(entropy, mutual []float64, t int) {
	if entropy != nil && len(entropy) != t || mutual != nil && len(mutual) != t {
		panic("predictive: dst does not have one element per example")
	}
}

// EntropyTo implements Informer for a Gaussian likelihood and for a Logistic likelihood whose outputs are logits by
// themselves, such as Bernoulli.
func (Exact) EntropyTo(entropy, mutual []float64, lik glm.Likelihood, f, cov *mat.Dense) error {
	t, _ := f.Dims()
	checkEntropy(entropy, mutual, t)
	p := newPosterior(f, cov)
	if g, ok := lik.(*glm.Gaussian); ok {
		return p.each(func(t int, f, cov []float64) error {
			h, info, err := gaussianInformation(g, cov, len(f))
			setTo(entropy, t, h)
			setTo(mutual, t, info)
			return atRow(err, t)
		})
	}
	if l, ok := lik.(glm.Logistic); !ok || l.Softmax() {
		return &UnsupportedError{Link: "exact", Likelihood: lik.Name(), What: "entropy"}
	}
	return p.each(func(t int, f, cov []float64) error {
		total, info := 0.0, 0.0
		for j, m := range f {
			s := math.Sqrt(cov[j*len(f)+j])
			p, _, _ := integral.SigmoidMoments(m, s)
			q, _, _ := integral.SigmoidMoments(-m, s)
			h := integral.EntropyOf([]float64{p, q})
			total += h
			info += max(h-integral.MeanBinaryEntropy(m, s), 0)
		}
		setTo(entropy, t, total)
		setTo(mutual, t, info)
		return nil
	})
}

// gaussianInformation returns the entropy ½ log det 2πe(cov + noise) and the mutual information ½ log det(I + Rᵀ
// cov R), where R Rᵀ is the noise precision.
func gaussianInformation(g *glm.Gaussian, cov []float64, c int) (entropy, mutual float64, err error) {
	root, logNorm := g.Whitening(c)
	values, err := eigenvalues(root, cov)
	if err != nil {
		return 0, 0, err
	}
	for _, v := range values {
		mutual += 0.5 * math.Log1p(max(v, 0))
	}
	return mutual + logNorm + 0.5*float64(c), mutual, nil
}

// eigenvalues returns the eigenvalues of Rᵀ cov R.
func eigenvalues(root *mat.Dense, cov []float64) ([]float64, error) {
	c := len(cov) / max(root.RawMatrix().Rows, 1)
	var half, full mat.Dense
	half.Mul(root.T(), mat.NewDense(c, c, cov))
	full.Mul(&half, root)
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(c, full.RawMatrix().Data), false) {
		return nil, &glm.NotPDError{N: c}
	}
	values := eig.Values(nil)
	if values[0] < -integral.PSDTol*(1+values[c-1]) {
		return nil, &glm.NotPDError{N: c}
	}
	return values, nil
}

// EntropyTo implements Informer for a Logistic likelihood.
func (l QMC) EntropyTo(entropy, mutual []float64, lik glm.Likelihood, f, cov *mat.Dense) error {
	softmax, err := isSoftmax("qmc", lik)
	switch {
	case err != nil:
		return err
	case !softmax:
		return Exact{}.EntropyTo(entropy, mutual, lik, f, cov)
	}
	return l.IntegralsTo(context.Background(), &Integrals{Entropy: entropy, Mutual: mutual}, lik, f, cov)
}

// EntropyTo implements Informer, for classes by the draws, for Gaussian outputs as Exact does.
func (l MonteCarlo) EntropyTo(entropy, mutual []float64, lik glm.Likelihood, f, cov *mat.Dense) error {
	logistic, ok := lik.(glm.Logistic)
	if !ok {
		return Exact{}.EntropyTo(entropy, mutual, lik, f, cov)
	}
	t, c := f.Dims()
	checkEntropy(entropy, mutual, t)
	p, mean := make([]float64, c), make([]float64, c)
	entropyOfRow := integral.EntropyOf
	if !logistic.Softmax() {
		entropyOfRow = func(p []float64) float64 { // Σ −p log p − (1−p) log(1−p)
			h := 0.0
			for _, v := range p {
				h += integral.EntropyOf([]float64{v, 1 - v})
			}
			return h
		}
	}
	return newPosterior(f, cov).each(func(t int, f, cov []float64) error {
		clear(mean)
		expected, n := 0.0, float64(l.samples())
		err := l.draw(t, f, cov, func(g []float64) {
			lik.MeanTo(p, g)
			for j, v := range p {
				mean[j] += v / n
			}
			expected += entropyOfRow(p) / n
		})
		h := entropyOfRow(mean)
		setTo(entropy, t, h)
		setTo(mutual, t, max(h-expected, 0))
		return err
	})
}
