package reproduce

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A line is a linear network with Gaussian data, of which the mean-field optimum is
// known: the exact mean, and the inverse of each diagonal element of the exact precision.
type line struct {
	net   *network.Network
	x, y  *mat.Dense
	lik   *glm.Gaussian
	prior ntk.Prior
	mean  []float64
	sd    []float64
}

func newLine(t *testing.T) *line {
	t.Helper()
	const n, sigma2, delta = 40, 0.5, 2.0
	rng := rand.New(rand.NewPCG(4, 4))
	l := &line{x: mat.NewDense(n, 2, nil), y: mat.NewDense(n, 1, nil)}
	var err error
	l.net, err = network.Seeded(1, network.Shape{2}, network.Dense{Units: 1})
	require.NoError(t, err)
	l.lik, err = glm.NewGaussian(sigma2)
	require.NoError(t, err)
	l.prior, err = ntk.NewIsotropic(delta, []float64{0.5})
	require.NoError(t, err)
	precision, right := mat.NewSymDense(3, nil), mat.NewVecDense(3, []float64{delta / 2, delta / 2, delta / 2})
	for i := range 3 {
		precision.SetSym(i, i, delta)
	}
	for i := range n {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		y := 1 + 2*a - b + math.Sqrt(sigma2)*rng.NormFloat64()
		l.x.SetRow(i, []float64{a, b})
		l.y.Set(i, 0, y)
		j := mat.NewVecDense(3, []float64{a, b, 1})
		precision.SymRankOne(precision, 1/sigma2, j)
		right.AddScaledVec(right, y/sigma2, j)
	}
	var mean mat.VecDense
	require.NoError(t, mean.SolveVec(precision, right))
	l.mean = mean.RawVector().Data
	for i := range 3 {
		l.sd = append(l.sd, 1/math.Sqrt(precision.At(i, i)))
	}
	return l
}

// [glm table 1]: where the bound has a known optimum, Adam finds it.
func TestMeanFieldOfLinearNetwork(t *testing.T) {
	l := newLine(t)
	q, err := meanField(t.Context(), l.net.LogLik(l.lik), l.prior, l.net.Theta(), l.x, l.y, meanFieldOptions{Steps: 3000, Samples: 8, Rate: 0.003})
	require.NoError(t, err)
	for i := range l.mean {
		// the noise of the last steps, in standard deviations
		require.InDelta(t, l.mean[i], q.mean[i], 0.2*l.sd[i])
		require.InEpsilon(t, l.sd[i], math.Sqrt(q.variance[i]), 0.1)
	}
}

// What meanField descends is the gradient of KL − log p in μ and log σ at a fixed draw.
func TestMeanFieldFirstStep(t *testing.T) {
	l := newLine(t)
	const rate, sd = 1e-4, 0.3
	theta := l.net.Theta()
	q, err := meanField(t.Context(), l.net.LogLik(l.lik), l.prior, theta, l.x, l.y, meanFieldOptions{Steps: 1, Rate: rate, StartSD: sd, Seed: 7})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 0x9e3779b97f4a7c15))
	epsilon := make([]float64, len(theta))
	for i := range epsilon {
		epsilon[i] = rng.NormFloat64()
	}
	objective := func(mu, rho []float64) float64 {
		at, grad, kl := make([]float64, len(mu)), make([]float64, len(mu)), 0.0
		for i := range mu {
			s2 := math.Exp(2 * rho[i])
			at[i] = mu[i] + math.Sqrt(s2)*epsilon[i]
			kl += 0.5 * (2*s2 + 2*(mu[i]-0.5)*(mu[i]-0.5) - 1 - math.Log(2*s2))
		}
		logp, err := l.net.LogLik(l.lik).GradientTo(t.Context(), grad, at, l.x, l.y)
		require.NoError(t, err)
		return kl - logp
	}
	rho := []float64{math.Log(sd), math.Log(sd), math.Log(sd)}
	for i := range theta {
		for _, v := range []struct {
			at   []float64
			move float64
		}{{theta, q.mean[i] - theta[i]}, {rho, math.Log(q.variance[i])/2 - rho[i]}} {
			const h = 1e-5
			was := v.at[i]
			v.at[i] = was + h
			up := objective(theta, rho)
			v.at[i] = was - h
			slope := (up - objective(theta, rho)) / (2 * h)
			v.at[i] = was
			// the first step of Adam is the sign of the gradient
			require.InDelta(t, -rate*math.Copysign(1, slope), v.move, 1e-9, "slope %v", slope)
		}
	}
}

func TestMeanFieldErrors(t *testing.T) {
	l := newLine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := meanField(ctx, l.net.LogLik(l.lik), l.prior, l.net.Theta(), l.x, l.y, meanFieldOptions{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = meanField(t.Context(), l.net.LogLik(l.lik), l.prior, l.net.Theta(), l.x, l.y, meanFieldOptions{Steps: 1, Rate: math.Inf(1)})
	require.ErrorContains(t, err, "take a smaller rate")
	_, err = meanField(t.Context(), failing{}, l.prior, l.net.Theta(), l.x, l.y, meanFieldOptions{})
	require.ErrorIs(t, err, errFailing)
	require.ErrorContains(t, err, "step 0")
}

var errFailing = errors.New("failing")

type failing struct{}

func (failing) GradientTo(context.Context, []float64, []float64, *mat.Dense, *mat.Dense) (float64, error) {
	return 0, errFailing
}
