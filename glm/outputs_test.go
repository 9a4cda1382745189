package glm_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// manyOutputs is a dense layer from two inputs to c outputs, linearized at n
// inputs, with its kernel and its classes.
func manyOutputs(t *testing.T, n, c int) (*linearize.Batch, *ntk.NTK, *mat.Dense) {
	t.Helper()
	net, err := network.Sequential(network.Shape{2}, network.Dense{Units: c})
	require.NoError(t, err)
	x, y := mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		x.SetRow(i, []float64{math.Cos(float64(i)), 0.5 - float64(i)})
		y.Set(i, 0, float64(i*(c/n)))
	}
	b, err := net.Linearize(context.Background(), x)
	require.NoError(t, err)
	prior, err := ntk.NewIsotropic(10, nil)
	require.NoError(t, err)
	return b, ntk.New(prior, net.Theta(), nil), y
}

func TestThousandOutputsEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a factorization of 2000 rows")
	}
	const n, c = 2, 1000
	b, k, y := manyOutputs(t, n, c)
	lik := glm.Categorical{}
	sites, err := gp.NewSites(y, b.F, lik)
	require.NoError(t, err)
	post, err := gp.Fit(context.Background(), k, b, sites, nil)
	require.NoError(t, err)
	var f, cov mat.Dense
	require.NoError(t, post.PredictTo(t.Context(), &f, &cov, b))
	for _, l := range []glm.Link{glm.MAP{}, glm.DefaultLink(lik, c), glm.Bridge{}} {
		requireProbabilities(t, l, y, &f, &cov)
	}
}

func requireProbabilities(t *testing.T, l glm.Link, y, f, cov *mat.Dense) {
	t.Helper()
	n, c := f.Dims()
	var mean, sd mat.Dense
	require.NoError(t, l.PredictTo(&mean, &sd, glm.Categorical{}, f, cov), "%T", l)
	logp := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(logp, glm.Categorical{}, y, f, cov), "%T", l)
	for i := range n {
		require.InDelta(t, 1, mat.Sum(mean.RowView(i)), 1e-10, "%T", l)
		require.InDelta(t, math.Log(mean.At(i, int(y.At(i, 0)))), logp[i], 1e-10, "%T", l)
		require.True(t, mat.Min(mean.RowView(i)) >= 0 && mat.Min(sd.RowView(i)) >= 0 && mat.Max(sd.RowView(i)) <= 0.5, "%T", l)
	}
	require.Equal(t, c, mean.RawMatrix().Cols)
}

// At ten thousand outputs the links need one C×C block, and nothing that grows
// as C³.
func TestTenThousandOutputsOfOneExample(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 2 GB")
	}
	const c = 10000
	f, cov := mat.NewDense(1, c, nil), mat.NewDense(c, c, nil)
	for j := range c {
		f.Set(0, j, math.Sin(float64(j)))
		cov.Set(j, j, 1+math.Cos(float64(j)))
	}
	y := mat.NewDense(1, 1, []float64{c - 1})
	residual := make([]float64, c)
	logp := glm.Categorical{}.Expand(residual, nil, nil, y.RawRowView(0), f.RawRowView(0))
	require.InDelta(t, 1-math.Exp(logp), residual[c-1], 1e-12)
	requireProbabilities(t, glm.DefaultLink(glm.Categorical{}, c), y, f, cov)
}

func TestTenThousandOutputsPassTheMemoryOfAnExactPosterior(t *testing.T) {
	const c = 10000
	b, k, y := manyOutputs(t, 1, c)
	var memory *gp.MemoryError
	_, err := gp.Refit(context.Background(), k, b, y, glm.Categorical{}, &gp.Options{MaxMemory: 1 << 30})
	require.ErrorAs(t, err, &memory)
}
