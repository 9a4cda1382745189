package glm_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
)

// Every likelihood of this package and one of a user's own. The tolerance is
// h⁴ = 1e-12 times a fifth derivative, and rounding eps·|log p|/h.
func TestLikelihoodsConform(t *testing.T) {
	gaussian := testref.Must(glm.NewGaussian(0.3))(t)
	vector := testref.Must(glm.NewGaussianVector([]float64{0.1, 1, 7}))(t)
	matrix := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 0.6, 0.6, 0.5})))(t)
	overdispersed := testref.Must(glm.NewNegativeBinomial(1.7))(t)
	for _, c := range []struct {
		name    string
		lik     glm.Likelihood
		outputs int
		y       *mat.Dense
	}{
		{"gaussian/1", gaussian, 1, mat.NewDense(3, 1, []float64{-1.3, 0, 2.1})},
		{"gaussian/3", gaussian, 3, mat.NewDense(2, 3, []float64{-1.3, 0, 2.1, 0.4, 0.5, -3})},
		{"gaussian-vector/3", vector, 3, mat.NewDense(2, 3, []float64{-1.3, 0, 2.1, 0.4, 0.5, -3})},
		{"gaussian-matrix/2", matrix, 2, mat.NewDense(2, 2, []float64{-1.3, 0, 2.1, 0.4})},
		{"bernoulli/1", glm.Bernoulli{}, 1, mat.NewDense(2, 1, []float64{0, 1})},
		{"bernoulli/3", glm.Bernoulli{}, 3, mat.NewDense(3, 3, []float64{0, 1, 1, 1, 0, 0, 0.2, 0.9, 0.5})},
		{"weighted-bernoulli/3", glm.WeightedBernoulli{Positive: []float64{3, 1, .2}}, 3, mat.NewDense(3, 3, []float64{0, 1, 1, 1, 0, 0, 0.2, 0.9, 0.5})},
		{"categorical/2", glm.Categorical{}, 2, mat.NewDense(2, 1, []float64{0, 1})},
		{"categorical/5", glm.Categorical{}, 5, mat.NewDense(5, 1, []float64{0, 1, 2, 3, 4})},
		{"categorical-shares/2", glm.CategoricalShares{}, 2, mat.NewDense(2, 2, []float64{0, 1, .3, .7})},
		{"categorical-shares/4", glm.CategoricalShares{}, 4, mat.NewDense(3, 4, []float64{0, 1, 0, 0, .25, .25, .25, .25, .7, 0, .1, .2})},
		{"poisson/1", glm.Poisson{}, 1, mat.NewDense(3, 1, []float64{0, 1, 11})},
		{"poisson/3", glm.Poisson{}, 3, mat.NewDense(2, 3, []float64{0, 1, 11, 3, 2, 0})},
		{"negative-binomial/1", overdispersed, 1, mat.NewDense(3, 1, []float64{0, 1, 11})},
		{"negative-binomial/3", overdispersed, 3, mat.NewDense(2, 3, []float64{0, 1, 11, 3, 2, 0})},
		{"heteroscedastic/1", glm.Heteroscedastic{}, 2, mat.NewDense(3, 1, []float64{-1.3, 0, 2.1})},
		{"heteroscedastic/2", glm.Heteroscedastic{}, 4, mat.NewDense(2, 2, []float64{-1.3, 0, 2.1, 0.4})},
		{"own", probitBernoulli{}, 1, mat.NewDense(2, 1, []float64{0, 1})},
	} {
		t.Run(c.name, func(t *testing.T) {
			gptest.Likelihood(t, gptest.LikelihoodCase{Likelihood: c.lik, Outputs: c.outputs, Y: c.y, Scale: scaleOf(c.lik), Tol: 1e-10, Quadrature: normalTargets})
		})
	}
}

// The probit likelihood's log Φ as written there loses its digits where Φ is
// near 1, and is −Inf beyond f = 38.
func scaleOf(lik glm.Likelihood) float64 {
	if _, ok := lik.(probitBernoulli); ok {
		return 0.5
	}
	return 2
}

// normalTargets are the three-point Gauss–Hermite nodes of each target of a
// heteroscedastic likelihood, −√3, 0 and √3 in units of σ with weights 1/6, 2/3 and 1/6,
// which are exact for polynomials of degree 5; those of r rᵀ have degree 4.
func normalTargets(f []float64) (targets [][]float64, weights []float64) {
	targets, weights = [][]float64{nil}, []float64{1}
	k := len(f) / 2
	for j := range k {
		var more [][]float64
		var w []float64
		for i, y := range targets {
			for _, node := range [][2]float64{{-math.Sqrt(3), 1. / 6}, {0, 2. / 3}, {math.Sqrt(3), 1. / 6}} {
				more = append(more, append(slices.Clone(y), f[j]+math.Exp(f[k+j]/2)*node[0]))
				w = append(w, weights[i]*node[1])
			}
		}
		targets, weights = more, w
	}
	return targets, weights
}

// A probitBernoulli is p(y=1|f) = Φ(f), as a user of the library writes it.
type probitBernoulli struct{}

var _ glm.Likelihood = probitBernoulli{}

func (probitBernoulli) Name() string    { return "probit" }
func (probitBernoulli) Targets(int) int { return 1 }

func (probitBernoulli) CheckY(y []float64, c int) error {
	if c != 1 || len(y) != 1 || y[0] != 0 && y[0] != 1 {
		return fmt.Errorf("probit: the target is %v; it must be 0 or 1", y)
	}
	return nil
}

// Expand uses h = φ(f)/Φ(sf), s = ±1: r = s h and Λ = h (h + s f).
func (p probitBernoulli) Expand(residual, lambda, root, y, f []float64) float64 {
	s := 2*y[0] - 1
	h := math.Exp(-0.5*f[0]*f[0]-0.5*math.Log(2*math.Pi)) / (0.5 * math.Erfc(-s*f[0]/math.Sqrt2))
	if residual != nil {
		residual[0] = s * h
	}
	if lambda != nil {
		lambda[0] = h * (h + s*f[0])
	}
	if root != nil {
		root[0] = math.Sqrt(h * (h + s*f[0]))
	}
	return p.LogProb(y, f)
}

func (probitBernoulli) LogProb(y, f []float64) float64 {
	return math.Log(0.5 * math.Erfc(-(2*y[0]-1)*f[0]/math.Sqrt2))
}

func (probitBernoulli) MeanTo(dst, f []float64) { dst[0] = 0.5 * math.Erfc(-f[0]/math.Sqrt2) }

func (p probitBernoulli) VarianceTo(dst, f []float64) {
	p.MeanTo(dst, f)
	dst[0] *= 0.5 * math.Erfc(f[0]/math.Sqrt2)
}

// E Φ(f) = Φ(m/√(1+v)) for f ~ N(m, v): a likelihood that this package does not
// know has its exact integral.
func TestE11OwnLikelihoodOfOneOutputIsExact(t *testing.T) {
	lik := probitBernoulli{}
	link := predictive.DefaultLink(lik, 1)
	require.Equal(t, predictive.Exact{}, link)
	for _, v := range []float64{0, 1e-8, 0.3, 4, 100, 1e6, 1e30, 1e300} {
		for _, m := range []float64{-6, -0.4, 0, 2, 1e3} {
			f, cov := mat.NewDense(1, 1, []float64{m}), mat.NewDense(1, 1, []float64{v})
			at := fmt.Sprintf("m=%v v=%v", m, v)
			want := 0.5 * math.Erfc(-m/math.Sqrt(1+v)/math.Sqrt2)
			var mean, sd, aleatoric, epistemic mat.Dense
			require.NoError(t, link.PredictTo(&mean, &sd, lik, f, cov))
			require.InDelta(t, want, mean.At(0, 0), 1e-10, at)
			logp := make([]float64, 1)
			require.NoError(t, link.LogPredictiveTo(logp, lik, mat.NewDense(1, 1, []float64{1}), f, cov))
			require.InDelta(t, math.Log(want), logp[0], 1e-10*(1+math.Abs(logp[0])), at)
			require.NoError(t, link.(predictive.Splitter).SplitTo(&aleatoric, &epistemic, lik, f, cov))
			require.InDelta(t, want*(1-want), aleatoric.At(0, 0)+epistemic.At(0, 0), 1e-10, at)
			require.InDelta(t, sd.At(0, 0)*sd.At(0, 0), epistemic.At(0, 0), 1e-15, at)
		}
	}
}

// Two outputs of such a likelihood have no exact integral, and it is no
// likelihood of logits.
func TestLinksRefuseWhatAnOwnLikelihoodDoesNotSay(t *testing.T) {
	two, cov := mat.NewDense(1, 2, nil), mat.NewDense(2, 2, nil)
	var unsupported *predictive.UnsupportedError
	require.ErrorAs(t, predictive.Exact{}.PredictTo(nil, nil, probitBernoulli{}, two, cov), &unsupported)
	require.ErrorAs(t, predictive.Probit{}.PredictTo(nil, nil, probitBernoulli{}, two, cov), &unsupported)
	require.ErrorAs(t, predictive.Bridge{}.PredictTo(nil, nil, probitBernoulli{}, two, cov), &unsupported)
}
