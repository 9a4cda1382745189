package weightspace_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A linearModel is f = Wx + β, with C outputs: its own linearization.
func linearModel(t *testing.T, c int) (net *network.Network, x, y *mat.Dense, w *weightspace.Posterior) {
	t.Helper()
	net = testref.Must(network.Sequential(network.Shape{3}, network.Dense{Units: c}))(t)
	rng := rand.New(rand.NewPCG(8, 8))
	x = mat.NewDense(12, 3, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	y = mat.NewDense(12, 1, nil)
	for i := range 12 {
		y.Set(i, 0, float64(rng.IntN(2)))
	}
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	prior := testref.Must(ntk.NewIsotropic(0.5, nil))(t)
	w = testref.Must(weightspace.Refit(t.Context(), b, gp.NewTargets(y, likOf(c)), prior, net.Theta(), nil))(t)
	return net, x, y, w
}

func likOf(c int) glm.Likelihood {
	if c == 1 {
		return glm.Bernoulli{}
	}
	return glm.Categorical{}
}

// On a model that is linear in θ, running it at draws of θ is drawing f: the
// BNN predictive is the GLM predictive (E11).
func TestE11BNNOfLinearModelIsGLM(t *testing.T) {
	for _, c := range []int{1, 2} {
		net, x, y, w := linearModel(t, c)
		lik := likOf(c)
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		var f, cov, want, wantSD mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), &f, &cov, b))
		mc := predictive.MonteCarlo{Samples: 10000}
		require.NoError(t, mc.PredictTo(&want, &wantSD, lik, &f, &cov))
		bnn := weightspace.NewBNN(net, w)
		bnn.Samples, bnn.Seed = 10000, 1
		d := testref.Must(bnn.Draw(t.Context(), lik, y, x))(t)
		// Five standard errors of 10000 draws of what has a deviation of .5 at
		// most, twice because both are drawn.
		const tol = 2 * 5 * 0.5 / 100
		require.True(t, mat.EqualApprox(d.Mean, &want, tol))
		var variance mat.Dense
		variance.MulElem(&wantSD, &wantSD)
		require.True(t, mat.EqualApprox(d.Epistemic, &variance, tol))

		wantLogp := make([]float64, 12)
		require.NoError(t, mc.LogPredictiveTo(wantLogp, lik, y, &f, &cov))
		for i, v := range d.LogDensity {
			require.InDelta(t, math.Exp(wantLogp[i]), math.Exp(v), tol)
		}

		// The parts of the variance of an indicator add up to p(1−p).
		for i := range 12 {
			for j := range c {
				p := d.Mean.At(i, j)
				require.InDelta(t, p*(1-p), d.Aleatoric.At(i, j)+d.Epistemic.At(i, j), 1e-12)
			}
		}
	}
}

// The draws are those of SampleTo around the center, the average is the plain
// one, and a seed gives the same bits again.
func TestE11BNNAgainstPlainAverage(t *testing.T) {
	net, x, _, w := linearModel(t, 2)
	bnn := weightspace.NewBNN(net, w)
	bnn.Samples, bnn.Seed = 21, 7
	calls := 0
	bnn.Progress = func(stage string, done, total int) {
		require.Equal(t, weightspace.StageDraws, stage)
		calls++
		require.Equal(t, []int{calls, 21}, []int{done, total})
	}
	d := testref.Must(bnn.Draw(t.Context(), glm.Categorical{}, nil, x))(t)
	require.Equal(t, 21, calls)
	bnn.Progress = nil
	again := testref.Must(bnn.Draw(t.Context(), glm.Categorical{}, nil, x))(t)
	require.Equal(t, d, again)

	var draws [][]float64
	keep := *bnn
	keep.Forward = func(ctx context.Context, theta []float64, x *mat.Dense) (*mat.Dense, error) {
		draws = append(draws, append([]float64(nil), theta...))
		return bnn.Forward(ctx, theta, x)
	}
	require.NoError(t, testref.Err(keep.Draw(t.Context(), glm.Categorical{}, nil, x)))
	require.Len(t, draws, 21)
	plain, p := mat.NewDense(12, 2, nil), make([]float64, 2)
	for _, theta := range draws {
		at := testref.Must(net.WithTheta(theta))(t)
		f := testref.Must(at.Forward(t.Context(), x))(t)
		for i := range 12 {
			glm.Categorical{}.MeanTo(p, f.RawRowView(i))
			for j := range p {
				plain.Set(i, j, plain.At(i, j)+p[j]/21)
			}
		}
	}
	require.True(t, mat.EqualApprox(d.Mean, plain, 1e-14))
}

func TestBNNRefuses(t *testing.T) {
	net, x, _, w := linearModel(t, 1)
	bnn := weightspace.NewBNN(net, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(bnn.Draw(ctx, glm.Bernoulli{}, nil, x)), context.Canceled)
	d, err := bnn.Draw(t.Context(), glm.Bernoulli{}, nil, new(mat.Dense))
	require.NoError(t, err, "no rows")
	require.Nil(t, d)

	broken := errors.New("broken")
	bnn.Forward = func(context.Context, []float64, *mat.Dense) (*mat.Dense, error) { return nil, broken }
	_, err = bnn.Draw(t.Context(), glm.Bernoulli{}, nil, x)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "draw 0")
	bnn.Samples = -1
	require.PanicsWithValue(t, "weightspace: negative number of samples", func() { bnn.Draw(t.Context(), glm.Bernoulli{}, nil, x) })
}

var _ gp.Latent = (*weightspace.Posterior)(nil)

// On a model that is linear in θ the moments of f are those of the posterior.
func TestDrawIsAllOfBNN(t *testing.T) {
	for _, c := range []int{1, 2} {
		net, x, y, w := linearModel(t, c)
		lik := likOf(c)
		bnn := weightspace.NewBNN(net, w)
		bnn.Samples, bnn.Seed = 4000, 3
		d := testref.Must(bnn.Draw(t.Context(), lik, y, x))(t)
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		var f, cov mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), &f, &cov, b))
		scale := mat.Max(&cov)
		require.True(t, mat.EqualApprox(&f, d.F, .1*scale))
		require.True(t, mat.EqualApprox(&cov, d.Cov, .1*scale))
		entropy, mutual := make([]float64, 12), make([]float64, 12)
		require.NoError(t, predictive.MonteCarlo{Samples: 4000}.EntropyTo(entropy, mutual, lik, &f, &cov))
		require.InDeltaSlice(t, entropy, d.Entropy, .03)
		require.InDeltaSlice(t, mutual, d.Mutual, .03)
		unlabelled := testref.Must(bnn.Draw(t.Context(), lik, nil, x))(t)
		require.Nil(t, unlabelled.LogDensity)
	}
}
