package portable_test

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/portable"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// run evaluates an output of the graph by package network.
func run(t *testing.T, a *portable.Answer, output string, x *mat.Dense) *mat.Dense {
	t.Helper()
	data := testref.Must(testref.Must(a.Model())(t).Encode())(t)
	n := testref.Must(network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: output}))(t)
	return testref.Must(n.Forward(t.Context(), x))(t)
}

// TestModel compares the graph with the library: for one variance of all parameters, which dense layers take as
// products, and for one of each, which need their Jacobian; with exact and inducing posteriors; with both means.
func TestModel(t *testing.T) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(3, 4))
	drawn := func(rows, cols int) *mat.Dense {
		m := mat.NewDense(rows, cols, nil)
		m.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, m)
		return m
	}
	n := testref.Must(network.Sequential(network.Shape{1, 6, 6}, network.Conv2D{Filters: 2, Kernel: 3}, network.Tanh,
		network.Flatten{}, network.Dense{Units: 8}, network.Sigmoid, network.Dense{Units: 3}))(t)
	_, _, p := n.Dims()
	x, at := drawn(20, 36), drawn(4, 36)
	y := mat.NewDense(20, 1, nil)
	for i := range 20 {
		y.Set(i, 0, float64(i%3))
	}
	train, test := testref.Must(n.Linearize(ctx, x))(t), testref.Must(n.Linearize(ctx, at))(t)
	sites := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Categorical{}), train.F))(t)
	each := make([]float64, p)
	for i := range each {
		each[i] = .1 + rng.Float64()
	}
	for name, prior := range map[string]ntk.Prior{
		"one variance": testref.Must(ntk.NewIsotropic(2, nil))(t),
		"each its own": testref.Must(ntk.NewDiagonal(each, nil))(t),
	} {
		k := ntk.New(prior, n.Theta())
		exact := testref.Must(gp.Fit(ctx, k, train, sites, &gp.Options{Mean: gp.LinearGaussian}))(t)
		rows := []int{1, 4, 9, 16}
		z := &sparse.Inducing{Rows: rows, Batch: testref.Must(train.Gather(ctx, rows))(t)}
		inducing := testref.Must(sparse.Fit(ctx, k, train, sites, z, &sparse.Options{Mean: gp.LinearGaussian}))(t)
		for how, post := range map[string]interface {
			gp.Dual
			gp.Reducible
		}{"exact": exact, "inducing": inducing} {
			t.Run(name+" "+how, func(t *testing.T) {
				a := &portable.Answer{Network: n, Theta: n.Theta(), PriorMean: make([]float64, p), Variance: make([]float64, p),
					Posterior: testref.Must(post.Reduction(ctx, true))(t), DualMean: true, Link: portable.Softmax,
					Top: 20, RowNumbers: numbers(20)}
				prior.MeanTo(a.PriorMean)
				prior.VarianceTo(a.Variance)
				var mean, cov mat.Dense
				require.NoError(t, post.PredictTo(ctx, &mean, &cov, test))
				near(t, &mean, run(t, a, "mean", at))
				near(t, mat.NewDense(4, 9, cov.RawMatrix().Data), run(t, a, "covariance", at))
				var probability, sd mat.Dense
				require.NoError(t, predictive.QMC{}.PredictTo(&probability, &sd, glm.Categorical{}, &mean, &cov))
				for i := range 4 {
					require.InDeltaSlice(t, probability.RawRowView(i), run(t, a, "probability", at).RawRowView(i), 5e-11)
					require.InDeltaSlice(t, sd.RawRowView(i), run(t, a, "probability_sd", at).RawRowView(i), 1e-9)
				}
				// Terms of the difference between the two largest outputs, and their sum, by the posterior's own kernel.
				cross := testref.Must(post.Cross(ctx, test))(t)
				var tile mat.Dense
				require.NoError(t, cross.TileTo(ctx, &tile, 0, train, gp.PosteriorTerms))
				b, term := post.PseudoTargets(), run(t, a, "term", at)
				for i := range 4 {
					order := []int{0, 1, 2}
					slices.SortFunc(order, func(j, k int) int { return cmp.Compare(mean.At(i, k), mean.At(i, j)) })
					want := make([]float64, 20)
					for of := range want {
						for c := range 3 {
							want[of] += (tile.At(3*i+order[0], 3*of+c) - tile.At(3*i+order[1], 3*of+c)) * b[3*of+c]
						}
					}
					slices.SortFunc(want, func(v, w float64) int { return cmp.Compare(math.Abs(w), math.Abs(v)) })
					require.InDeltaSlice(t, want, term.RawRowView(i), 1e-9)
				}
			})
		}
	}
}

// TestModelOfOneOutput compares the graph with the library for two classes: in function space and in weight space, which
// have one covariance; calibrated, with scaled inputs; the novelty too; and as a regression, by its variances.
func TestModelOfOneOutput(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(5, 6))
	n := testref.Must(network.Sequential(network.Shape{4}, network.Dense{Units: 6}, network.Tanh, network.Dense{Units: 1}))(t)
	_, _, p := n.Dims()
	x, raw := testkit.RandomMatrix(rng, 30, 4), testkit.RandomMatrix(rng, 5, 4)
	offset, scale := []float64{1, 2, 3, 4}, []float64{2, 1, .5, 1}
	at := mat.DenseCopyOf(raw)
	at.Apply(func(_, j int, v float64) float64 { return (v - offset[j]) / scale[j] }, at)
	y := mat.NewDense(30, 1, nil)
	for i := range 30 {
		y.Set(i, 0, float64(i%2))
	}
	train, test := testref.Must(n.Linearize(ctx, x))(t), testref.Must(n.Linearize(ctx, at))(t)
	sites := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Bernoulli{}), train.F))(t)
	prior := testref.Must(ntk.NewIsotropic(2, nil))(t)
	k := ntk.New(prior, n.Theta())
	exact := testref.Must(gp.Fit(ctx, k, train, sites, nil))(t)
	detector := testref.Must(novelty.Fit(ctx, k, exact, nil))(t)
	function := portable.Answer{Posterior: testref.Must(exact.Reduction(ctx, false))(t), Novelty: testref.Must(detector.Parts(ctx))(t)}
	full := testref.Must(weightspace.FitStructure(ctx, weightspace.Full, linearize.Rebatch(train, 7), sites, prior, n.Theta(), nil))(t)
	weights := portable.Answer{Weights: testref.Must(full.(*weightspace.BlockPosterior).Roots(ctx))(t)}
	var mean, cov, probability, sd mat.Dense
	require.NoError(t, exact.PredictTo(ctx, &mean, &cov, test))
	for _, a := range []portable.Answer{function, weights} {
		a.Network, a.Theta, a.PriorMean, a.Variance = n, n.Theta(), make([]float64, p), make([]float64, p)
		prior.VarianceTo(a.Variance)
		a.Offset, a.Scale, a.Temperature, a.Covariance, a.Noise, a.Shift = offset, scale, 1.5, 3, []float64{.25}, []float64{-.7}
		near(t, test.F, run(t, &a, "mean", raw))
		near(t, &cov, run(t, &a, "covariance", raw))
		functionSD, observationSD := run(t, &a, "function_sd", raw), run(t, &a, "observation_sd", raw)
		a.Link = portable.Binary
		var tempered, scaled mat.Dense
		tempered.Apply(func(_, _ int, f float64) float64 { return 1.5 * (f - .7) }, test.F)
		scaled.Scale(3, &cov)
		require.NoError(t, predictive.Exact{}.PredictTo(&probability, &sd, glm.Bernoulli{}, &tempered, &scaled))
		p, s := run(t, &a, "probability", raw), run(t, &a, "probability_sd", raw)
		for i := range 5 {
			require.InDelta(t, math.Sqrt(scaled.At(i, 0)), functionSD.At(i, 0), 1e-10)
			require.InDelta(t, math.Sqrt(scaled.At(i, 0)+.25), observationSD.At(i, 0), 1e-10)
			second := probability.At(i, probability.RawMatrix().Cols-1)
			require.InDeltaSlice(t, []float64{1 - second, second}, p.RawRowView(i), 1e-10)
			require.InDeltaSlice(t, []float64{sd.At(i, 0), sd.At(i, 0)}, s.RawRowView(i), 1e-10)
		}
		if a.Novelty != nil {
			want := make([]float64, 5)
			require.NoError(t, detector.ScoreTo(ctx, want, test))
			require.InEpsilonSlice(t, want, run(t, &a, "novelty", raw).RawMatrix().Data, 1e-10)
		}
	}
}

func numbers(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return v
}

func near(t *testing.T, want, got *mat.Dense) {
	t.Helper()
	for i := range want.RawMatrix().Rows {
		require.InDeltaSlice(t, want.RawRowView(i), got.RawRowView(i), 1e-10*(1+mat.Max(want)))
	}
}

// TestPage fills in a page. Names of classes cannot end an element.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, testref.Err(portable.ReadRuntime(dir)),
		"ort.wasm.min.mjs: there is no such file; name the folder of npm's package onnxruntime-web")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dist"), 0o700))
	for _, name := range []string{"ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dist", name), []byte(name), 0o600))
	}
	var b bytes.Buffer
	p := &portable.Page{Title: "a < b", Classes: []string{"</script>", "b"}, Width: 2, Height: 1, Model: []byte("model"),
		Runtime: testref.Must(portable.ReadRuntime(dir))(t), Rows: []portable.PageRow{{Row: 3, Label: "b", Picture: []byte{1, 2}}}}
	require.NoError(t, p.Write(&b))
	require.Contains(t, b.String(), "<title>a &lt; b</title>")
	require.Contains(t, b.String(), "MIT License")
	require.Equal(t, 2, strings.Count(b.String(), "</script>"), "two elements end, the data and the program")
}
