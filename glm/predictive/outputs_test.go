package predictive_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// manyOutputs is a dense layer from two inputs to c outputs, linearized at n
// inputs, with its kernel and its classes.
func manyOutputs(t *testing.T, n, c int) (*linearize.Batch, *ntk.NTK, *mat.Dense) {
	t.Helper()
	net := testref.Must(network.Sequential(network.Shape{2}, network.Dense{Units: c}))(t)
	x, y := mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		x.SetRow(i, []float64{math.Cos(float64(i)), 0.5 - float64(i)})
		y.Set(i, 0, float64(i*(c/n)))
	}
	b := testref.Must(net.Linearize(context.Background(), x))(t)
	prior := testref.Must(ntk.NewIsotropic(10, nil))(t)
	return b, ntk.New(prior, net.Theta()), y
}

func TestThousandOutputsEndToEnd(t *testing.T) {
	testref.Long(t, "needs a factorization of 2000 rows")
	const n, c = 2, 1000
	b, k, y := manyOutputs(t, n, c)
	lik := glm.Categorical{}
	sites := testref.Must(gp.NewSites(gp.NewTargets(y, lik), b.F))(t)
	post := testref.Must(gp.Fit(context.Background(), k, b, sites, nil))(t)
	var f, cov mat.Dense
	require.NoError(t, post.PredictTo(t.Context(), &f, &cov, b))
	for _, l := range []predictive.Link{predictive.MAP{}, predictive.DefaultLink(lik, c), predictive.Bridge{}} {
		requireProbabilities(t, l, y, &f, &cov)
	}
}

func requireProbabilities(t *testing.T, l predictive.Link, y, f, cov *mat.Dense) {
	t.Helper()
	n, c := f.Dims()
	var mean, sd mat.Dense
	require.NoError(t, l.PredictTo(&mean, &sd, glm.Categorical{}, f, cov), "%T", l)
	logp := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(logp, glm.Categorical{}, y, f, cov), "%T", l)
	tol := 1e-10
	if _, isQMC := l.(predictive.QMC); isQMC {
		tol = 1e-4 // other points, and many directions taken to second order
	}
	for i := range n {
		require.InDelta(t, 1, mat.Sum(mean.RowView(i)), 1e-10, "%T", l)
		require.InDelta(t, math.Log(mean.At(i, int(y.At(i, 0)))), logp[i], tol, "%T", l)
		require.True(t, mat.Min(mean.RowView(i)) >= 0 && mat.Min(sd.RowView(i)) >= 0 && mat.Max(sd.RowView(i)) <= 0.5, "%T", l)
	}
	require.Equal(t, c, mean.RawMatrix().Cols)
}

// The draws of many outputs have the covariance that is asked for, of full rank
// and of less.
func TestMonteCarloOfManyOutputs(t *testing.T) {
	const c, samples = 300, 4000
	rng := rand.New(rand.NewPCG(1, 2))
	lik := testref.Must(glm.NewGaussian(1))(t)
	for _, rank := range []int{c, 7, 1} {
		a, f := mat.NewDense(c, rank, nil), mat.NewDense(1, c, nil)
		a.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, a)
		f.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, f)
		var cov, mean, sd mat.Dense
		cov.Mul(a, a.T())
		require.NoError(t, predictive.MonteCarlo{Samples: samples, Seed: 3}.PredictTo(&mean, &sd, lik, f, &cov))
		for j := range c {
			want := math.Sqrt(cov.At(j, j))
			require.InDelta(t, f.At(0, j), mean.At(0, j), 5*want/math.Sqrt(samples), "rank %d", rank)
			require.InDelta(t, want, sd.At(0, j), 5*want/math.Sqrt(2*samples), "rank %d", rank)
		}
	}
	// One eigenvalue is negative.
	cov := mat.NewDense(c, c, nil)
	for j := range c {
		cov.Set(j, j, 1)
	}
	cov.Set(3, 8, 1.5)
	cov.Set(8, 3, 1.5)
	var e *predictive.ValueError
	require.ErrorAs(t, predictive.MonteCarlo{}.PredictTo(nil, nil, lik, mat.NewDense(1, c, nil), cov), &e)
	require.Equal(t, "eigenvalue", e.What)
	require.Less(t, e.Value, -0.5)
}

// One example of a thousand outputs is refitted.
func TestThousandOutputsOfOneExample(t *testing.T) {
	testref.Long(t, "needs factorizations of 1000 rows")
	b, k, y := manyOutputs(t, 1, 1000)
	post := testref.Must(gp.Refit(context.Background(), k, b, gp.NewTargets(y, glm.Categorical{}), &gp.Options{MaxIter: 1}))(t)
	var f mat.Dense
	require.NoError(t, post.PredictTo(t.Context(), &f, nil, b))
	require.Less(t, b.F.At(0, 0), f.At(0, 0), "the refit moves towards the class")
}

// At thousands of outputs the kernel of one example and the links need C×C
// blocks, and nothing that grows as C³.
func TestThousandsOfOutputsOfOneExample(t *testing.T) {
	testref.Long(t, "needs 0.5 GB")
	const c = 4000
	b, k, _ := manyOutputs(t, 1, c)
	var cov mat.Dense
	k.DiagTo(&cov, b)
	variance := cov.At(0, 0) // (‖x‖² + 1)/δ of every output, which are independent
	require.InDelta(t, (1+0.25+1)/10, variance, 1e-12)
	require.Equal(t, variance, cov.At(c-1, c-1))
	require.Zero(t, cov.At(c-1, 0))
	y := mat.NewDense(1, 1, []float64{c - 1})
	residual := make([]float64, c)
	logp := glm.Categorical{}.Expand(residual, nil, nil, y.RawRowView(0), b.F.RawRowView(0))
	require.InDelta(t, 1-math.Exp(logp), residual[c-1], 1e-12)
	requireProbabilities(t, predictive.DefaultLink(glm.Categorical{}, c), y, b.F, &cov)
}

// What the posterior of ten thousand outputs takes is said before it is taken.
func TestTenThousandOutputsPassTheMemoryOfAnExactPosterior(t *testing.T) {
	const c = 10000
	x := &linearize.Batch{F: mat.NewDense(1, c, nil)}
	var memory *gp.MemoryError
	_, err := gp.Refit(context.Background(), nothing{}, x, gp.NewTargets(mat.NewDense(1, 1, nil), glm.Categorical{}), &gp.Options{Limits: linearize.Limits{Memory: 1 << 30}})
	require.ErrorAs(t, err, &memory)
	require.Equal(t, gp.Bytes(1, c), memory.Needed)
}

// nothing is a kernel that must not be asked.
type nothing struct{ ntk.Kernel }
