package predictive

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

var allLinks = []Link{MAP{}, Exact{}, QMC{}, Probit{}, MonteCarlo{Samples: 200, Seed: 3}, Bridge{}, Linear{}}

func supports(l Link, lik glm.Likelihood) bool {
	_, isMarginal := lik.(glm.Marginal)
	_, isLogistic := lik.(glm.Logistic)
	switch l.(type) {
	case Exact:
		_, isCoupled := lik.(glm.Coupled)
		return isMarginal || isCoupled
	case QMC, Probit, Bridge:
		return isLogistic
	case Linear:
		_, isGaussian := lik.(*glm.Gaussian)
		_, isCounting := lik.(glm.Counting)
		return isLogistic || isGaussian || isCounting
	}
	return true
}

func predict(t testing.TB, l Link, lik glm.Likelihood, f, cov *mat.Dense) (mean, sd *mat.Dense) {
	t.Helper()
	mean, sd = new(mat.Dense), new(mat.Dense)
	require.NoError(t, l.PredictTo(mean, sd, lik, f, cov))
	return mean, sd
}

func logPredictive(t testing.TB, l Link, lik glm.Likelihood, y, f, cov *mat.Dense) []float64 {
	t.Helper()
	n, _ := f.Dims()
	dst := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(dst, lik, y, f, cov))
	return dst
}

// eachSupported runs a test for every pair of link and likelihood that go
// together, with a posterior and targets of five rows.
func eachSupported(t *testing.T, run func(t *testing.T, l Link, lik glm.Likelihood, y, f, cov *mat.Dense)) {
	for _, tc := range likelihoodCases(t) {
		f, cov := testref.Posterior(5, 5, tc.c, 0.8)
		rng := testref.Rand(6)
		y := mat.NewDense(5, tc.lik.Targets(tc.c), nil)
		for i := range 5 {
			y.SetRow(i, tc.target(rng))
		}
		for _, l := range allLinks {
			if supports(l, tc.lik) {
				t.Run(fmt.Sprintf("%T/%s", l, tc.name), func(t *testing.T) { run(t, l, tc.lik, y, f, cov) })
			}
		}
	}
}

func TestE11MatchesReference(t *testing.T) {
	ref := testref.Open(t, "thesis-cnn")
	f := ref.Matrix("f_test")
	n, _ := f.Dims()
	cov := mat.NewDense(n, 1, ref.Floats("posterior_variance_test"))
	exact, _ := predict(t, Exact{}, glm.Bernoulli{}, f, cov)
	// the reference is right to 1e-14, and its variance to as much
	testref.RequireClose(t, exact.RawMatrix().Data, ref.Floats("predictive_test"), 1e-13, "predictive_test")
	probit, _ := predict(t, Probit{}, glm.Bernoulli{}, f, cov)
	testref.RequireClose(t, probit.RawMatrix().Data, ref.Floats("predictive_probit_test"), 1e-13, "predictive_probit_test")
}

// Without uncertainty every link is MAP.
func TestE11ZeroCovarianceIsMAP(t *testing.T) {
	eachSupported(t, func(t *testing.T, l Link, lik glm.Likelihood, y, f, cov *mat.Dense) {
		cov = mat.DenseCopyOf(cov)
		cov.Zero()
		want, none := predict(t, MAP{}, lik, f, nil)
		mean, sd := predict(t, l, lik, f, cov)
		testref.RequireClose(t, mean.RawMatrix().Data, want.RawMatrix().Data, 1e-13, "mean") // 200 running averages
		require.InDelta(t, 0, mat.Max(sd), 1e-14)
		require.Zero(t, mat.Norm(none, 1))
		if _, counts := lik.(glm.Counting); counts && l == (Linear{}) {
			return // its density is a normal one
		}
		testref.RequireClose(t, logPredictive(t, l, lik, y, f, cov), logPredictive(t, MAP{}, lik, y, f, nil), 1e-13, "log p")
	})
}

// For classes log p(y|x) is the logarithm of the predicted probability.
func TestE11LogPredictiveIsLogOfMean(t *testing.T) {
	eachSupported(t, func(t *testing.T, l Link, lik glm.Likelihood, y, f, cov *mat.Dense) {
		mean, _ := predict(t, l, lik, f, cov)
		logp := logPredictive(t, l, lik, y, f, cov)
		_, c := f.Dims()
		for i, got := range logp {
			switch lik.(type) {
			case glm.Categorical:
				tol := 1e-12
				if _, isQMC := l.(QMC); isQMC {
					tol = 1e-9 // another trapezoid
					if c > 4 {
						tol = 5e-3 // other points: 1e-4 of a probability of at least .03
					}
				}
				require.InDelta(t, math.Log(mean.At(i, int(y.At(i, 0)))), got, tol)
			case glm.Bernoulli:
				if _, isMC := l.(MonteCarlo); isMC && (c > 1 || y.At(i, 0) != math.Trunc(y.At(i, 0))) {
					continue // the draws are joint: see TestE11MonteCarloJoint
				}
				want := 0.0
				for j := range c {
					p := mean.At(i, j)
					want += y.At(i, j)*math.Log(p) + (1-y.At(i, j))*math.Log1p(-p)
				}
				require.InDelta(t, want, got, 1e-12)
			}
		}
	})
}

// A confident wrong prediction costs its logit, not infinity.
func TestLogPredictiveDoesNotUnderflow(t *testing.T) {
	one := mat.NewDense(1, 1, []float64{1})
	f, cov := mat.NewDense(1, 1, []float64{-800}), mat.NewDense(1, 1, []float64{0.25})
	f3, cov3 := mat.NewDense(1, 3, []float64{900, 100, 0}), mat.NewDense(3, 3, []float64{0.25, 0, 0, 0, 0.25, 0, 0, 0, 0.5})
	for _, tc := range []struct {
		l                Link
		binary, threeWay float64
		tolerance        float64
	}{
		{l: MAP{}, binary: -800, threeWay: -800},
		{l: Exact{}, binary: -799.875}, // m + v/2
		{l: Probit{}, binary: -800 / math.Sqrt(1+math.Pi/32), threeWay: -800 / math.Sqrt(1+math.Pi/32)},
		// log of the average of e^f over 1000 draws: sd of log mean is about √(e^v/S)
		{l: MonteCarlo{Seed: 1}, binary: -799.875, threeWay: -800 + 0.25, tolerance: 0.1},
		{l: Bridge{}, binary: -800},
	} {
		got := logPredictive(t, tc.l, glm.Bernoulli{}, one, f, cov)[0]
		require.InDelta(t, tc.binary, got, tc.tolerance+1e-11, "%T", tc.l)
		if tc.threeWay != 0 {
			got = logPredictive(t, tc.l, glm.Categorical{}, one, f3, cov3)[0]
			require.InDelta(t, tc.threeWay, got, tc.tolerance+1e-11, "%T", tc.l)
		}
	}
	// the bridge has e^{900} in it
	got := logPredictive(t, Bridge{}, glm.Categorical{}, one, f3, cov3)[0]
	require.False(t, math.IsInf(got, 0) || math.IsNaN(got))
	mean, sd := predict(t, Bridge{}, glm.Categorical{}, f3, cov3)
	require.InDelta(t, 1, mean.At(0, 0), 1e-15)
	require.Zero(t, sd.At(0, 0))
}

func TestE11ExactOfEachOutputIsMarginal(t *testing.T) {
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, glm.Poisson{}, testref.Must(glm.NewGaussian(0.5))(t)} {
		f, cov := testref.Posterior(1, 4, 3, 1)
		mean, sd := predict(t, Exact{}, lik, f, cov)
		for i := range 4 {
			for j := range 3 {
				one := mat.NewDense(1, 1, []float64{f.At(i, j)})
				v := mat.NewDense(1, 1, []float64{cov.At(3*i+j, j)})
				m, s := predict(t, Exact{}, lik, one, v)
				require.Equal(t, m.At(0, 0), mean.At(i, j))
				require.Equal(t, s.At(0, 0), sd.At(i, j))
			}
		}
	}
}

// Gaussian noise adds to the posterior covariance [thesis 3.16]: the joint log
// density against the one written with a determinant and a solve.
func TestThesis316GaussianPredictive(t *testing.T) {
	c, n := 3, 4
	rng := testref.Rand(2)
	noise := testref.Cov(rng, c, 5, 0.5)
	lik := testref.Must(glm.NewGaussianMatrix(symmetric(noise)))(t)
	f, cov := testref.Posterior(3, n, c, 1)
	y := mat.NewDense(n, c, testref.Vec(rng, n*c, 2))
	mean, sd := predict(t, Exact{}, lik, f, cov)
	require.True(t, mat.Equal(f, mean))
	got := logPredictive(t, Exact{}, lik, y, f, cov)
	for i := range n {
		var s mat.Dense
		s.Add(cov.Slice(i*c, (i+1)*c, 0, c), noise)
		var d, x mat.VecDense
		d.SubVec(y.RowView(i), f.RowView(i))
		require.NoError(t, x.SolveVec(&s, &d))
		logDet, _ := mat.LogDet(&s)
		want := -0.5*mat.Dot(&d, &x) - 0.5*logDet - 0.5*float64(c)*math.Log(2*math.Pi)
		require.InEpsilon(t, want, got[i], 1e-12)
		for j := range c {
			require.Equal(t, math.Sqrt(cov.At(i*c+j, j)), sd.At(i, j))
		}
	}
}

// TestThesis316Linear compares G Σ Gᵀ, with G by differences of the response, and the parts for classes and counts with Λ [thesis 3.16].
func TestThesis316Linear(t *testing.T) {
	for _, tc := range likelihoodCases(t) {
		if !supports(Linear{}, tc.lik) {
			continue
		}
		c := tc.c
		f, cov := testref.Posterior(3, 4, c, 0.8)
		mean, sd := predict(t, Linear{}, tc.lik, f, cov)
		var aleatoric, epistemic mat.Dense
		require.NoError(t, Linear{}.SplitTo(&aleatoric, &epistemic, tc.lik, f, cov))
		up, down, variance := make([]float64, c), make([]float64, c), make([]float64, c)
		for i := range 4 {
			g := mat.NewDense(c, c, nil)
			for k := range c {
				const step = 1e-5
				at := slices.Clone(f.RawRowView(i))
				at[k] += step
				tc.lik.MeanTo(up, at)
				at[k] -= 2 * step
				tc.lik.MeanTo(down, at)
				for j := range c {
					g.Set(j, k, (up[j]-down[j])/(2*step))
				}
			}
			var want mat.Dense
			want.Product(g, cov.Slice(i*c, (i+1)*c, 0, c), g.T())
			tc.lik.MeanTo(up, f.RawRowView(i))
			tc.lik.VarianceTo(variance, f.RawRowView(i))
			for j := range c {
				require.InDelta(t, want.At(j, j), epistemic.At(i, j), 1e-8*(1+want.At(j, j)), tc.name)
				require.Equal(t, math.Sqrt(epistemic.At(i, j)), sd.At(i, j), tc.name)
				require.Equal(t, up[j], mean.At(i, j), tc.name)
				require.InDelta(t, variance[j], aleatoric.At(i, j), 1e-15*(1+variance[j]), tc.name)
			}
			if _, counts := tc.lik.(glm.Counting); counts {
				y, want := mat.NewDense(4, c, nil), 0.0
				for j := range c {
					y.Set(i, j, float64(j))
					d := distuv.Normal{Mu: mean.At(i, j), Sigma: math.Sqrt(variance[j] + epistemic.At(i, j))}
					want += d.LogProb(float64(j))
				}
				require.InEpsilon(t, want, logPredictive(t, Linear{}, tc.lik, y, f, cov)[i], 1e-12)
			}
		}
	}
}

// Each Monte Carlo mean lies within five standard errors of the integral.
func TestE11MonteCarloAgainstExact(t *testing.T) {
	const samples = 20000
	mc := MonteCarlo{Samples: samples, Seed: 7}
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, glm.Poisson{}, testref.Must(glm.NewGaussian(0.5))(t)} {
		f, cov := testref.Posterior(4, 20, 2, 0.7)
		want, wantSD := predict(t, Exact{}, lik, f, cov)
		got, gotSD := predict(t, mc, lik, f, cov)
		for i := range 20 {
			for j := range 2 {
				se := wantSD.At(i, j) / math.Sqrt(samples)
				require.InDelta(t, want.At(i, j), got.At(i, j), 5*se, lik.Name())
				// a standard deviation is known to a few percent; a log-normal's tail is heavy
				require.InEpsilon(t, wantSD.At(i, j), gotSD.At(i, j), 0.15, lik.Name())
			}
		}
	}
}

// Two classes are one logit: softmax(f)₁ = σ(f₁ − f₀).
func TestE11MonteCarloTwoClassesAgainstExact(t *testing.T) {
	const samples = 20000
	f, cov := testref.Posterior(9, 20, 2, 1.5)
	d, v := twoClassLogit(f, cov)
	want, wantSD := predict(t, Exact{}, glm.Bernoulli{}, d, v)
	got, gotSD := predict(t, MonteCarlo{Samples: samples, Seed: 1}, glm.Categorical{}, f, cov)
	for i := range 20 {
		require.InDelta(t, want.At(i, 0), got.At(i, 1), 5*wantSD.At(i, 0)/math.Sqrt(samples))
		require.InDelta(t, 1, got.At(i, 0)+got.At(i, 1), 1e-14)
		require.InEpsilon(t, wantSD.At(i, 0), gotSD.At(i, 1), 0.05)
	}
}

// twoClassLogit returns f₁ − f₀ and its variance.
func twoClassLogit(f, cov *mat.Dense) (d, v *mat.Dense) {
	n, _ := f.Dims()
	d, v = mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		d.Set(i, 0, f.At(i, 1)-f.At(i, 0))
		v.Set(i, 0, cov.At(2*i, 0)+cov.At(2*i+1, 1)-2*cov.At(2*i, 1))
	}
	return d, v
}

// With a rank-one covariance all outputs move together: Σ = 11ᵀ changes no
// class probability, and independent logits with the same f share their draw.
func TestE11MonteCarloJoint(t *testing.T) {
	f := mat.NewDense(1, 3, []float64{1, 0, -2})
	ones := mat.NewDense(3, 3, []float64{4, 4, 4, 4, 4, 4, 4, 4, 4})
	want, _ := predict(t, MAP{}, glm.Categorical{}, f, nil)
	got, sd := predict(t, MonteCarlo{}, glm.Categorical{}, f, ones)
	// the root of a singular matrix is good to √eps
	require.True(t, mat.EqualApprox(want, got, 1e-6))
	require.Less(t, mat.Max(sd), 1e-6)

	same := mat.NewDense(1, 3, []float64{1, 1, 1})
	y := mat.NewDense(1, 3, []float64{1, 1, 1})
	joint := logPredictive(t, MonteCarlo{Samples: 20000}, glm.Bernoulli{}, y, same, ones)[0]
	// E σ(f)³, not (E σ(f))³
	cube := math.Log(testref.Expect(1, 2, func(f float64) float64 { p := integral.Sigmoid(f); return p * p * p }))
	require.InDelta(t, cube, joint, 0.03) // five standard errors of the mean
}

// The same draws serve every row: a row does not feel its neighbours.
func TestMonteCarloRowIsIndependentOfBatch(t *testing.T) {
	f, cov := testref.Posterior(8, 6, 3, 1)
	mc := MonteCarlo{Samples: 50, Seed: 2}
	all, allSD := predict(t, mc, glm.Categorical{}, f, cov)
	for i := range 6 {
		one, oneSD := predict(t, mc, glm.Categorical{}, f.Slice(i, i+1, 0, 3).(*mat.Dense), cov.Slice(3*i, 3*i+3, 0, 3).(*mat.Dense))
		require.Equal(t, all.RawRowView(i), one.RawRowView(0))
		require.Equal(t, allSD.RawRowView(i), oneSD.RawRowView(0))
	}
	other, _ := predict(t, MonteCarlo{Samples: 50, Seed: 3}, glm.Categorical{}, f, cov)
	require.False(t, mat.Equal(all, other))
}

// Var[y] = E Var[y|f] + Var E[y|f] [glm fig. 4].
func TestGLMFig4VarianceSplits(t *testing.T) {
	mc := MonteCarlo{Samples: 500, Seed: 1}
	for _, tc := range []struct {
		l interface {
			Link
			Splitter
		}
		lik glm.Likelihood
		c   int
	}{
		{Exact{}, glm.Bernoulli{}, 1},
		{Exact{}, glm.Bernoulli{}, 3},
		{mc, glm.Bernoulli{}, 2},
		{mc, glm.Categorical{}, 4},
	} {
		f, cov := testref.Posterior(3, 7, tc.c, 2)
		mean, sd := predict(t, tc.l, tc.lik, f, cov)
		var aleatoric, epistemic mat.Dense
		require.NoError(t, tc.l.SplitTo(&aleatoric, &epistemic, tc.lik, f, cov))
		for i := range 7 {
			for j := range tc.c {
				p := mean.At(i, j)
				require.InDelta(t, p*(1-p), aleatoric.At(i, j)+epistemic.At(i, j), 1e-14)
				require.InDelta(t, sd.At(i, j), math.Sqrt(epistemic.At(i, j)), 1e-15)
			}
		}
		require.NoError(t, tc.l.SplitTo(nil, nil, tc.lik, f, cov))
	}
}

func TestGLMFig4SplitOfGaussianAndPoisson(t *testing.T) {
	lik := testref.Must(glm.NewGaussianVector([]float64{0.5, 2}))(t)
	f, cov := testref.Posterior(3, 1, 2, 1)
	var a, e mat.Dense
	require.NoError(t, Exact{}.SplitTo(&a, &e, lik, f, cov))
	require.Equal(t, []float64{0.5, 2}, a.RawRowView(0))
	require.Equal(t, []float64{cov.At(0, 0), cov.At(1, 1)}, e.RawRowView(0))

	f, cov = mat.NewDense(1, 1, []float64{0.3}), mat.NewDense(1, 1, []float64{0.2})
	var ap, ep, am, em mat.Dense
	require.NoError(t, Exact{}.SplitTo(&ap, &ep, glm.Poisson{}, f, cov))
	require.InDelta(t, math.Exp(0.4), ap.At(0, 0), 1e-15)
	require.NoError(t, MonteCarlo{Samples: 50000}.SplitTo(&am, &em, glm.Poisson{}, f, cov))
	require.InEpsilon(t, ap.At(0, 0), am.At(0, 0), 0.01) // five standard errors
	require.InEpsilon(t, ep.At(0, 0), em.At(0, 0), 0.05)
}

func TestE11ProbitIsNearTheIntegral(t *testing.T) {
	worst := 0.0
	for _, s := range []float64{0.1, 0.5, 1, 2, 5, 20} {
		for m := -30.0; m <= 30; m += 0.25 {
			f, cov := mat.NewDense(1, 1, []float64{m}), mat.NewDense(1, 1, []float64{s * s})
			p, psd := predict(t, Probit{}, glm.Bernoulli{}, f, cov)
			q, qsd := predict(t, Exact{}, glm.Bernoulli{}, f, cov)
			worst = max(worst, math.Abs(p.At(0, 0)-q.At(0, 0)))
			require.Equal(t, qsd.At(0, 0), psd.At(0, 0))
		}
	}
	require.Less(t, worst, 0.02)
}

// softmax(f_c/√(1 + π/8 Σ_cc)) written out; a common variance keeps the order.
func TestE11MulticlassProbit(t *testing.T) {
	f, cov := testref.Posterior(1, 3, 4, 1)
	got, _ := predict(t, Probit{}, glm.Categorical{}, f, cov)
	for i := range 3 {
		g, sum := make([]float64, 4), 0.0
		for j := range g {
			g[j] = math.Exp(f.At(i, j) / math.Sqrt(1+math.Pi/8*cov.At(4*i+j, j)))
			sum += g[j]
		}
		for j := range g {
			require.InDelta(t, g[j]/sum, got.At(i, j), 1e-15)
		}
	}
}

func TestProbitSDOfTwoClassesIsExact(t *testing.T) {
	f, cov := testref.Posterior(9, 20, 2, 3)
	d, v := twoClassLogit(f, cov)
	_, want := predict(t, Exact{}, glm.Bernoulli{}, d, v)
	_, got := predict(t, Probit{}, glm.Categorical{}, f, cov)
	for i := range 20 {
		require.InDelta(t, want.At(i, 0), got.At(i, 0), 1e-13)
		require.InDelta(t, want.At(i, 0), got.At(i, 1), 1e-13)
	}
}

func TestProbitSDAgainstMonteCarlo(t *testing.T) {
	testref.Long(t, "many draws by code that TestMonteCarloOfManyOutputs runs too")
	for _, tc := range []struct {
		c          int
		scale, tol float64 // mean absolute difference; what the doc of Probit promises
	}{
		{3, 0.3, 0.002}, {10, 0.3, 0.002}, {3, 3, 0.05}, {10, 3, 0.05},
	} {
		f, cov := testref.Posterior(1, 60, tc.c, tc.scale)
		_, want := predict(t, MonteCarlo{Samples: 5000}, glm.Categorical{}, f, cov)
		_, got := predict(t, Probit{}, glm.Categorical{}, f, cov)
		got.Sub(got, want)
		got.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, got)
		require.Less(t, mat.Sum(got)/float64(60*tc.c), tc.tol, "C=%d scale=%v", tc.c, tc.scale)
	}
}

func TestProbitSDOfSaturatedLogits(t *testing.T) {
	f := mat.NewDense(2, 3, []float64{800, -800, 0, 40, 0, 0})
	cov := mat.NewDense(6, 3, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1})
	_, sd := predict(t, Probit{}, glm.Categorical{}, f, cov)
	require.Less(t, mat.Max(sd), 1e-15)
	require.GreaterOrEqual(t, mat.Min(sd), 0.0) // and no NaN
	one, oneSD := predict(t, Probit{}, glm.Categorical{}, mat.NewDense(1, 1, []float64{3}), mat.NewDense(1, 1, []float64{2}))
	require.Equal(t, []float64{1, 0}, []float64{one.At(0, 0), oneSD.At(0, 0)})
}

// The bridge undoes the Laplace approximation of a Dirichlet in the softmax
// basis, μ_k = log α_k − mean log α,
// Σ_kl = δ_kl/α_k − (1/α_k + 1/α_l − Σ 1/α / K)/K.
func TestE11BridgeInvertsLaplaceOfDirichlet(t *testing.T) {
	rng := testref.Rand(3)
	for _, k := range []int{2, 3, 4, 10} {
		alpha, inverse, logSum, total := make([]float64, k), 0.0, 0.0, 0.0
		for j := range alpha {
			alpha[j] = 0.2 + 20*rng.Float64()
			inverse += 1 / alpha[j]
			logSum += math.Log(alpha[j])
			total += alpha[j]
		}
		n := float64(k)
		f, cov := mat.NewDense(1, k, nil), mat.NewDense(k, k, nil)
		for i := range k {
			f.Set(0, i, math.Log(alpha[i])-logSum/n)
			for j := range k {
				v := -(1/alpha[i] + 1/alpha[j] - inverse/n) / n
				if i == j {
					v += 1 / alpha[i]
				}
				cov.Set(i, j, v)
			}
		}
		mean, sd := predict(t, Bridge{}, glm.Categorical{}, f, cov)
		for j, a := range alpha {
			p := a / total
			require.InEpsilon(t, p, mean.At(0, j), 1e-12)
			require.InEpsilon(t, math.Sqrt(p*(1-p)/(total+1)), sd.At(0, j), 1e-12)
		}
	}
}

// softmax does not see a shift common to all logits, random or not.
func TestBridgeIgnoresCommonShift(t *testing.T) {
	f, cov := testref.Posterior(4, 3, 4, 1)
	want, wantSD := predict(t, Bridge{}, glm.Categorical{}, f, cov)
	rng := testref.Rand(5)
	for i := range 3 {
		u := testref.Vec(rng, 4, 1) // f + s·1 with Cov(f, s) = u, Var s = 9
		for a := range 4 {
			f.Set(i, a, f.At(i, a)+7)
			for b := range 4 {
				cov.Set(4*i+a, b, cov.At(4*i+a, b)+u[a]+u[b]+9)
			}
		}
	}
	got, gotSD := predict(t, Bridge{}, glm.Categorical{}, f, cov)
	require.True(t, mat.EqualApprox(want, got, 1e-13))
	require.True(t, mat.EqualApprox(wantSD, gotSD, 1e-13))
}

// For two classes the bridge is MAP, and the Bernoulli form is the same.
func TestBridgeOfTwoClasses(t *testing.T) {
	f, cov := testref.Posterior(9, 5, 2, 2)
	d, v := twoClassLogit(f, cov)
	want, _ := predict(t, MAP{}, glm.Categorical{}, f, nil)
	mean, sd := predict(t, Bridge{}, glm.Categorical{}, f, cov)
	binary, binarySD := predict(t, Bridge{}, glm.Bernoulli{}, d, v)
	for i := range 5 {
		require.InDelta(t, want.At(i, 1), mean.At(i, 1), 1e-14)
		require.InDelta(t, want.At(i, 1), binary.At(i, 0), 1e-14)
		require.InDelta(t, sd.At(i, 1), binarySD.At(i, 0), 1e-14)
		require.InDelta(t, sd.At(i, 0), binarySD.At(i, 0), 1e-14)
	}
}

func TestDefaultLink(t *testing.T) {
	for _, lik := range []glm.Likelihood{glm.Bernoulli{}, &glm.Bernoulli{}, glm.Poisson{}, &glm.Poisson{}, testref.Must(glm.NewGaussian(1))(t)} {
		require.Equal(t, Exact{}, DefaultLink(lik, 1))
		require.Equal(t, Exact{}, DefaultLink(lik, 3))
	}
	require.Equal(t, QMC{}, DefaultLink(glm.Categorical{}, 3))
	require.Equal(t, QMC{}, DefaultLink(&glm.Categorical{}, 3))
	own := struct{ glm.Likelihood }{glm.Poisson{}} // neither Marginal nor Logistic
	require.Equal(t, Exact{}, DefaultLink(own, 1))
	require.Equal(t, MonteCarlo{}, DefaultLink(own, 2))
}

// A pointer to a likelihood has its methods, and so has one that embeds it.
func TestLinksTakePointersAndEmbedded(t *testing.T) {
	type ownBernoulli struct{ glm.Bernoulli }
	type ownCategorical struct{ *glm.Categorical }
	for _, tc := range []struct {
		want, got glm.Likelihood
		c         int
	}{
		{glm.Bernoulli{}, &glm.Bernoulli{}, 1},
		{glm.Bernoulli{}, ownBernoulli{}, 2},
		{glm.Categorical{}, &glm.Categorical{}, 3},
		{glm.Categorical{}, &ownCategorical{&glm.Categorical{}}, 3},
		{glm.Poisson{}, &glm.Poisson{}, 2},
	} {
		f, cov := testref.Posterior(5, 4, tc.c, 0.8)
		y := mat.NewDense(4, tc.want.Targets(tc.c), nil)
		for _, l := range allLinks {
			if !supports(l, tc.want) {
				continue
			}
			mean, sd := predict(t, l, tc.want, f, cov)
			gotMean, gotSD := predict(t, l, tc.got, f, cov)
			require.True(t, mat.Equal(mean, gotMean) && mat.Equal(sd, gotSD), "%T of %T", l, tc.got)
			require.Equal(t, logPredictive(t, l, tc.want, y, f, cov), logPredictive(t, l, tc.got, y, f, cov), "%T of %T", l, tc.got)
		}
	}
}

func TestLinkUnsupported(t *testing.T) {
	for _, tc := range likelihoodCases(t) {
		f, cov := testref.Posterior(1, 2, tc.c, 1)
		y := mat.NewDense(2, tc.lik.Targets(tc.c), nil)
		for _, l := range allLinks {
			errs := []error{l.PredictTo(nil, nil, tc.lik, f, cov), l.LogPredictiveTo(make([]float64, 2), tc.lik, y, f, cov)}
			if s, ok := l.(Splitter); ok {
				errs = append(errs, s.SplitTo(nil, nil, tc.lik, f, cov))
			}
			for _, err := range errs {
				if supports(l, tc.lik) {
					require.NoError(t, err)
					continue
				}
				testref.As[*UnsupportedError](t, err)
				require.ErrorContains(t, err, tc.lik.Name())
			}
		}
	}
}

func TestLinkRefusesWhatIsNoPosterior(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		f, cov []float64 // 2×2 and 4×2
		want   ValueError
		only   string // the link it concerns, "" for all but MAP
	}{
		{[]float64{0, 0, 0, nan}, []float64{1, 0, 0, 1, 1, 0, 0, 1}, ValueError{"mean", 1, 1, nan}, ""},
		{[]float64{0, 0, inf, 0}, []float64{1, 0, 0, 1, 1, 0, 0, 1}, ValueError{"mean", 1, 0, inf}, ""},
		{[]float64{0, 0, 0, 0}, []float64{1, nan, 0, 1, 1, 0, 0, 1}, ValueError{"covariance", 0, 0, nan}, ""},
		{[]float64{0, 0, 0, 0}, []float64{1, 0, 0, 1, 1, 0, 0, -0.1}, ValueError{"variance", 1, 1, -0.1}, ""},
		{[]float64{0, 0, 0, 0}, []float64{1, 0, 0, 1, 1, 3, 3, 1}, ValueError{"eigenvalue", 1, 0, -2}, "predictive.MonteCarlo"},
	} {
		f, cov := mat.NewDense(2, 2, tc.f), mat.NewDense(4, 2, tc.cov)
		y := mat.NewDense(2, 2, nil)
		for _, l := range allLinks {
			name := fmt.Sprintf("%T", l)
			if tc.only != "" && tc.only != name || name == "predictive.MAP" && tc.want.What != "mean" {
				continue
			}
			for _, err := range []error{
				l.PredictTo(nil, nil, glm.Bernoulli{}, f, cov),
				l.LogPredictiveTo(make([]float64, 2), glm.Bernoulli{}, y, f, cov),
			} {
				var got *ValueError
				require.ErrorAs(t, err, &got, name)
				require.ErrorContains(t, err, fmt.Sprintf("row %d, output %d: the %s of f", got.Row, got.Output, got.What))
				if !math.IsNaN(tc.want.Value) || !math.IsNaN(got.Value) {
					require.InDelta(t, tc.want.Value, got.Value, 1e-14)
				}
				got.Value = tc.want.Value
				require.Equal(t, fmt.Sprint(tc.want), fmt.Sprint(*got), name)
			}
		}
	}
	// a joint density needs more than variances
	lik := testref.Must(glm.NewGaussian(1))(t)
	err := Exact{}.LogPredictiveTo(make([]float64, 2), lik, mat.NewDense(2, 2, nil), mat.NewDense(2, 2, nil),
		mat.NewDense(4, 2, []float64{1, 0, 0, 1, 1, 3, 3, 1}))
	require.EqualError(t, err, "glm: row 1: the 2×2 covariance is not positive definite")
}

// A variance a little below zero is rounding of K** − …, and counts as zero.
func TestLinkTakesRoundedVariance(t *testing.T) {
	f, cov := mat.NewDense(1, 2, []float64{1, -1}), mat.NewDense(2, 2, []float64{-1e-9, 0, 0, 1})
	for _, l := range allLinks[1:] {
		mean, sd := predict(t, l, glm.Bernoulli{}, f, cov)
		require.InDelta(t, integral.Sigmoid(1), mean.At(0, 0), 1e-9)
		require.InDelta(t, 0, sd.At(0, 0), 1e-9)
		require.Equal(t, -1e-9, cov.At(0, 0)) // inputs are left as they are
	}
}

// A dirty or strided destination holds the same as a fresh one, a nil one is
// skipped, and inputs stay as they are.
func TestLinkDestinations(t *testing.T) {
	eachSupported(t, func(t *testing.T, l Link, lik glm.Likelihood, y, f, cov *mat.Dense) {
		f0, cov0 := mat.DenseCopyOf(f), mat.DenseCopyOf(cov)
		n, c := f.Dims()
		mean, sd := predict(t, l, lik, f, cov)
		big := mat.NewDense(n+2, c+3, nil)
		big.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, big)
		dirty := big.Slice(1, n+1, 2, c+2).(*mat.Dense)
		require.NoError(t, l.PredictTo(dirty, nil, lik, f, cov))
		require.True(t, mat.Equal(mean, dirty))
		require.NoError(t, l.PredictTo(nil, dirty, lik, f, cov))
		require.True(t, mat.Equal(sd, dirty))
		require.True(t, math.IsNaN(big.At(0, 0)) && math.IsNaN(big.At(n, c+2)))
		require.True(t, mat.Equal(f0, f) && mat.Equal(cov0, cov))

		// only upper triangles of cov are read
		for i := range n * c {
			for j := range i % c {
				cov0.Set(i, j, math.NaN())
			}
		}
		again, _ := predict(t, l, lik, f, cov0)
		require.True(t, mat.Equal(mean, again))

		wrong := mat.NewDense(n, c+1, nil)
		require.Panics(t, func() { _ = l.PredictTo(wrong, nil, lik, f, cov) })
		require.Panics(t, func() { _ = l.PredictTo(nil, wrong, lik, f, cov) })
		require.Panics(t, func() { _ = l.LogPredictiveTo(make([]float64, n+1), lik, y, f, cov) })
		require.Panics(t, func() { _ = l.LogPredictiveTo(make([]float64, n), lik, mat.NewDense(n, 9, nil), f, cov) })
		if _, isMAP := l.(MAP); !isMAP {
			require.Panics(t, func() { _ = l.PredictTo(nil, nil, lik, f, wrong) })
		}
	})
	require.Panics(t, func() {
		_ = MonteCarlo{Samples: -1}.PredictTo(nil, nil, glm.Bernoulli{}, mat.NewDense(1, 1, nil), mat.NewDense(1, 1, nil))
	})
}

func TestLinkIsBitIdenticalForAnyGOMAXPROCS(t *testing.T) {
	eachSupported(t, func(t *testing.T, l Link, lik glm.Likelihood, y, f, cov *mat.Dense) {
		run := func(procs int) []float64 {
			testref.Procs(t, procs)
			mean, sd := predict(t, l, lik, f, cov)
			return append(append(mean.RawMatrix().Data, sd.RawMatrix().Data...), logPredictive(t, l, lik, y, f, cov)...)
		}
		require.Equal(t, run(1), run(4))
	})
}
