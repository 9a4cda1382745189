package autoencoder

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// The moments over drawn networks are those of the reference, whose noise is given.
func TestReferenceDraws(t *testing.T) {
	a, ref := reference(t)
	test := ref.MatrixRC("x_test", 10, 64)
	p := NewPosterior(a, ref.Floats("ggn_diagonal_exact"), 0.01, 1)
	eps := ref.MatrixRC("sample_noise", 3, len(p.h))
	d := testref.Must(p.draws(t.Context(), test, &DrawOptions{Samples: 3, Keep: 3, Progress: func(int, int) {}}, func(s int) noise {
		return func(dst []float64, lo int) { copy(dst, eps.RawRowView(s)[lo:]) }
	}))(t)
	requireClose(t, "mean", ref.Floats("sample_reconstruction_mean"), raw(d.Mean), 1e-10)
	requireClose(t, "latent mean", ref.Floats("sample_latent_mean"), raw(d.Latent), 1e-10)
	variance, latent := ref.Floats("sample_reconstruction_variance"), ref.Floats("sample_latent_variance")
	samples := ref.Floats("sample_reconstruction")
	for i := range 10 {
		e := 0.0
		for s := range 3 {
			for j, v := range samples[(s*10+i)*64 : (s*10+i+1)*64] {
				e += math.Pow(v-test.At(i, j), 2) / 3
			}
		}
		require.InEpsilon(t, e, d.Errors[i], 1e-10)
		for j := range 64 {
			require.InDelta(t, variance[i*64+j], math.Pow(d.SD.At(i, j), 2), 1e-10)
			require.InDelta(t, samples[(2*10+i)*64+j], d.Samples[2].At(i, j), 1e-10)
		}
		for j := range 2 {
			require.InDelta(t, latent[i*2+j], d.LatentCov.At(2*i+j, j), 1e-10)
		}
		require.InDelta(t, d.LatentCov.At(2*i, 1), d.LatentCov.At(2*i+1, 0), 1e-12)
	}
}

// The full and the diagonal posterior of package weightspace are those of the reference,
// for codes and reconstructions, and the one over functions is the full one.
func TestReferenceStructures(t *testing.T) {
	a, ref := reference(t)
	x, test := ref.MatrixRC("x_train", 40, 64), ref.MatrixRC("x_test", 10, 64)
	lik := testref.Must(glm.NewGaussian(1))(t)
	prior := testref.Must(ntk.NewIsotropic(0.01, nil))(t)
	sitesOf := func(x *mat.Dense) *gp.Sites {
		f := testref.Must(a.net.Forward(t.Context(), x))(t)
		return testref.Must(gp.NewSites(gp.NewTargets(x, lik), f))(t)
	}
	fitted := func(structure weightspace.Structure, x *mat.Dense) weightspace.Weights {
		src := linearize.NewSource(a.net, dense.Count(x), linearize.Tile(64), func(lo, hi int) (*mat.Dense, error) { return dense.Slice(x, lo, hi), nil })
		w, err := weightspace.FitStructure(t.Context(), structure, src, sitesOf(x), prior, a.net.Theta(), nil)
		require.NoError(t, err)
		return w
	}
	covariance := func(post gp.Latent, b *linearize.Batch) *mat.Dense {
		var cov mat.Dense
		require.NoError(t, post.PredictTo(t.Context(), nil, &cov, b))
		return &cov
	}
	all := testref.Must(a.net.Linearize(t.Context(), test))(t)
	// The posterior is one of 64 outputs: those after the code are zero.
	w := mat.NewDense(640, 66, nil)
	for i := range 10 {
		w.Set(64*i, 0, 1)
		w.Set(64*i+1, 1, 1)
	}
	codes := testref.Must(a.joint.LinearizeCombined(t.Context(), test, w))(t)
	for structure, name := range map[weightspace.Structure]string{weightspace.Full: "full", weightspace.Diagonal: "exact"} {
		post := fitted(structure, x)
		require.InEpsilon(t, ref.Scalar("log_det_"+name), post.LogDet(), 1e-9)
		var latent, variance []float64
		of, pixels := covariance(post, codes), covariance(post, all)
		for i := range 640 {
			variance = append(variance, pixels.At(i, i%64))
			if i%64 < 2 {
				latent = append(latent, of.At(i, 0), of.At(i, 1))
			}
		}
		requireClose(t, name, ref.Floats("latent_cov_"+name), latent, 1e-8)
		requireClose(t, name, ref.Floats("reconstruction_variance_"+name), variance, 1e-8)
	}
	// In function space: the posterior of a few rows, against that over the weights.
	x = dense.Slice(x, 0, 8)
	b := testref.Must(a.net.Linearize(t.Context(), x))(t)
	post := testref.Must(gp.Fit(t.Context(), ntk.New(prior, a.net.Theta()), b, sitesOf(x), nil))(t)
	few := all.Slice(0, 3)
	requireClose(t, "function space", raw(covariance(fitted(weightspace.Full, x), few)), raw(covariance(post, few)), 1e-7)
}

// The prior precision of highest evidence is that of a grid.
func TestTunePrior(t *testing.T) {
	for seed := range uint64(3) {
		a, x := small(t, 6, int(seed)+1), curves(20+10*int(seed), seed)
		p := testref.Must(Fit(t.Context(), a, x, Approximate, 1, math.Pow(10, float64(seed)-2), nil))(t)
		got := testref.Must(p.TunePrior(t.Context()))(t)
		best, at := math.Inf(-1), 0.0
		for k := range 4000 {
			delta := math.Pow(10, float64(k)/400-5)
			if e := testref.Must(p.WithPrior(delta).LogEvidence(t.Context(), x))(t); e > best {
				best, at = e, delta
			}
		}
		require.InEpsilon(t, at, got.Prior(), 0.01)
		require.GreaterOrEqual(t, testref.Must(got.LogEvidence(t.Context(), x))(t), best-1e-9*math.Abs(best))
		require.Equal(t, p.GGN(), got.GGN())
	}
	a := small(t)
	_, err := NewPosterior(a, make([]float64, len(a.net.Theta())), 1, 1).TunePrior(t.Context())
	require.ErrorContains(t, err, "no maximum")
}

// Where the posterior is narrow the draws have the covariance of the linearized network.
func TestDrawsOfNarrowPosteriors(t *testing.T) {
	a, x := small(t), curves(6, 1)
	_, _, params := a.net.Dims()
	h := make([]float64, params)
	for i := range h {
		h[i] = 1e6
	}
	p := NewPosterior(a, h, 1, 1)
	lin := testref.Must(p.Linearized(t.Context(), x))(t)
	d := testref.Must(p.Draw(t.Context(), x, &DrawOptions{Samples: 4000}))(t)
	for i := range 6 {
		for j := range 12 {
			require.InEpsilon(t, math.Sqrt(lin.Variance.At(i, j)), d.SD.At(i, j), 0.1)
		}
		for j := range 4 {
			at := lin.LatentCov.At(2*i, 0)
			require.InDelta(t, lin.LatentCov.At(2*i+j/2, j%2), d.LatentCov.At(2*i+j/2, j%2), 0.1*at)
		}
	}
	s := d.Scores(2, 0.1)
	require.InEpsilon(t, d.Errors[3]/4, s.NegLogLikelihood[3], 1e-12)
	require.InDelta(t, math.Abs(s.NegLogLikelihood[3]-0.1), s.Typicality[3], 1e-12)
	require.InEpsilon(t, stat.Mean(s.NegLogLikelihood, nil), s.Typical(), 1e-12)
	require.Nil(t, d.Scores(1, math.NaN()).Typicality)
	require.InEpsilon(t, math.Sqrt(d.LatentCov.At(0, 0))+math.Sqrt(d.LatentCov.At(1, 1)), s.LatentSD[0], 1e-12)

	// The decoder of a drawn network gives its reconstructions.
	theta := make([]float64, params)
	p.Theta(theta, 0, 1)
	moved := testref.Must(a.WithTheta(theta))(t)
	z, f, err := moved.Encode(t.Context(), x)
	require.NoError(t, err)
	again := testref.Must(moved.Decode(t.Context(), z))(t)
	requireClose(t, "decoded", raw(again), raw(mat.DenseCopyOf(f)), 1e-13)
	require.InEpsilon(t, math.Pow(mat.Norm(mat.NewVecDense(12, diff(x.RawRowView(0), f.RawRowView(0))), 2), 2), SquaredErrors(x, f)[0], 1e-12)
}

func diff(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// A trained autoencoder fills in what is missing better than noise, and known pixels are
// in the samples before the last pass.
func TestImpute(t *testing.T) {
	p, _ := trainSmall(t, TrainOptions{Batch: 20, Epochs: 100, LearningRate: 1e-2})
	x := curves(40, 3)
	known := make([]bool, 12)
	for j := 3; j < 12; j++ {
		known[j] = true
	}
	start := Start(x, known, 0)
	require.Equal(t, x.At(2, 5), start.At(2, 5))
	for i := range 40 {
		for j := range 3 {
			require.True(t, start.At(i, j) >= 0 && start.At(i, j) <= 1)
		}
	}
	calls := 0
	samples, err := p.Impute(t.Context(), x, known, &DrawOptions{Samples: 3, Rounds: 2, Progress: func(done, total int) { calls++; require.Equal(t, 3*(2+3), total) }})
	require.NoError(t, err)
	require.Len(t, samples, 3)
	require.Equal(t, 15, calls)
	missing := func(f *mat.Dense) float64 {
		e := 0.0
		for i := range 40 {
			for j := range 3 {
				e += math.Pow(f.At(i, j)-x.At(i, j), 2)
			}
		}
		return e
	}
	require.Less(t, missing(samples[0]), missing(start))
	ten := testref.Must(p.Impute(t.Context(), x, known, &DrawOptions{Samples: 3, Rounds: 10}))(t)
	byDefault := testref.Must(p.Impute(t.Context(), x, known, &DrawOptions{Samples: 3}))(t)
	require.Equal(t, raw(ten[1]), raw(byDefault[1]))

	// With one network, by hand.
	one := testref.Must(p.Impute(t.Context(), x, known, &DrawOptions{Samples: 1, Rounds: 1}))(t)
	theta := p.a.net.Theta()
	p.Theta(theta, 0, 0)
	net := testref.Must(p.a.net.WithTheta(theta))(t)
	f := testref.Must(net.Forward(t.Context(), start))(t)
	putBack(f, x, known)
	f = testref.Must(net.Forward(t.Context(), f))(t)
	requireClose(t, "by hand", raw(f), raw(one[0]), 1e-13)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(p.Impute(ctx, x, known, nil)), context.Canceled)
}

func TestAutoencodersThatAreNone(t *testing.T) {
	build := func(layers ...network.Layer) *network.Network {
		net, err := network.Sequential(network.Shape{1, 3, 2}, append([]network.Layer{network.Flatten{}}, layers...)...)
		require.NoError(t, err)
		return net
	}
	_, err := New(build(network.Dense{Units: 3}, network.Dense{Units: 5}), "")
	require.ErrorContains(t, err, "5 outputs for inputs of shape [1 3 2]")
	require.ErrorContains(t, testref.Err(New(build(network.Dense{Units: 6}), "")), "name its code")
	_, err = New(build(network.Dense{Units: 3}, network.Dense{Units: 6}), "middle")
	require.ErrorContains(t, err, `"middle"`)
	require.ErrorContains(t, testref.Err(Layers(6, []int{4, 0}, network.Tanh)), "a code of 0 numbers")
	require.ErrorContains(t, testref.Err(Layers(6, []int{0, 4}, network.Tanh)), "width 0")
	require.ErrorContains(t, testref.Err(Layers(6, nil, network.Tanh)), "no widths")

	a := small(t)
	require.ErrorContains(t, a.Check(mat.NewDense(1, 3, nil)), "rows have 3 numbers")
	x := mat.NewDense(2, 12, nil)
	require.NoError(t, a.Check(x))
	x.Set(1, 3, 255)
	e := testref.As[*RangeError](t, a.Check(x))
	require.Equal(t, RangeError{1, 3, 255}, *e)
	require.ErrorContains(t, testref.Err(Fit(t.Context(), a, x, Approximate, 1, 1, nil)), "divide grey levels by 255")
	require.ErrorContains(t, testref.Err(Fit(t.Context(), a, x, Approximate, -1, 1, nil)), "prior precision -1")
	require.Panics(t, func() { NewPosterior(a, nil, 1, 1) })
}

func TestNames(t *testing.T) {
	for _, name := range RuleNames() {
		r := testref.Must(ParseRule(name))(t)
		require.Equal(t, name, r.String())
	}
	for _, name := range CurvatureNames() {
		c := testref.Must(ParseCurvature(name))(t)
		require.Equal(t, name, c.String())
	}
	require.Error(t, testref.Err(ParseRule("x")))
	require.Error(t, testref.Err(ParseCurvature("x")))
}
