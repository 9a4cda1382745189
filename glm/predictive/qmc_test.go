package predictive

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/testref"
)

// toy is a toy network's posterior at its first rows of test inputs, and the
// integrals of part 4 of reference/selection.
type toy struct {
	ref, base *testref.Ref
	f, cov    *mat.Dense
	t, c      int
}

func openToy(t *testing.T, name string, rows int) *toy {
	base := testref.Open(t, name)
	f := base.Matrix("f_test")
	n, c := f.Dims()
	if rows == 0 {
		rows = n
	}
	cov := base.MatrixRC("posterior_cov_test", n*c, c)
	return &toy{testref.Open(t, "selection/"+name), base, f.Slice(0, rows, 0, c).(*mat.Dense), cov.Slice(0, rows*c, 0, c).(*mat.Dense), rows, c}
}

func requireNear(t *testing.T, want, got []float64, tol float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i, w := range want {
		require.InDelta(t, w, got[i], tol, "%s, entry %d", what, i)
	}
}

// allIntegrals evaluates everything that Integrals can hold.
func allIntegrals(t *testing.T, l QMC, f, cov *mat.Dense) *Integrals {
	t.Helper()
	n, _ := f.Dims()
	out := &Integrals{Mean: new(mat.Dense), SD: new(mat.Dense), Aleatoric: new(mat.Dense), Epistemic: new(mat.Dense),
		Entropy: make([]float64, n), Mutual: make([]float64, n), Error: make([]float64, n)}
	require.NoError(t, l.IntegralsTo(t.Context(), out, glm.Categorical{}, f, cov))
	return out
}

func TestE20MatchesReferenceOfFourClasses(t *testing.T) {
	for _, tc := range []struct {
		name, prefix string
		scale        float64
		l            QMC
		// the error of E p, of second moments, and of the entropies
		tol, square, entropy float64
	}{
		{name: "categorical", prefix: "predictive", scale: 1, tol: 1e-9, square: 1e-9, entropy: 1e-9},
		{name: "categorical-diagonal-prior", prefix: "predictive", scale: 1, tol: 1e-9, square: 1e-9, entropy: 1e-9},
		{name: "categorical", prefix: "predictive", scale: 1, l: QMC{noGrid: true}, tol: 2e-4, square: 4e-4, entropy: 1e-3},
		{name: "categorical-diagonal-prior", prefix: "predictive", scale: 1, l: QMC{noGrid: true}, tol: 2e-4, square: 4e-4, entropy: 1e-3},
		{name: "categorical", prefix: "wide", scale: 25, tol: 5e-4, square: 1e-3, entropy: 2e-3},
	} {
		t.Run(fmt.Sprintf("%s/%s/%v", tc.name, tc.prefix, tc.l.noGrid), func(t *testing.T) {
			y := openToy(t, tc.name, 30)
			cov := scaledMatrix(y.cov, tc.scale)
			got := allIntegrals(t, tc.l, y.f, cov)
			want := y.ref.Floats(tc.prefix + "_probability")
			for i := range y.t {
				for j := range y.c {
					require.LessOrEqual(t, math.Abs(want[i*y.c+j]-got.Mean.At(i, j)), got.Error[i], "within the reported error, row %d", i)
				}
			}
			requireNear(t, want, got.Mean.RawMatrix().Data, tc.tol, "E p")
			requireNear(t, y.ref.Floats(tc.prefix+"_aleatoric"), got.Aleatoric.RawMatrix().Data, tc.square, "aleatoric")
			requireNear(t, y.ref.Floats(tc.prefix+"_epistemic"), got.Epistemic.RawMatrix().Data, tc.square, "epistemic")
			requireNear(t, y.ref.Floats(tc.prefix+"_entropy"), got.Entropy, tc.entropy, "entropy")
			requireNear(t, y.ref.Floats(tc.prefix+"_mutual_information"), got.Mutual, tc.entropy, "mutual information")
			var a, e mat.Dense
			require.NoError(t, tc.l.SplitTo(&a, &e, glm.Categorical{}, y.f, cov))
			requireNear(t, y.ref.Floats(tc.prefix+"_probability_variance"), e.RawMatrix().Data, tc.square, "Var p")
			for i := range y.t {
				for j := range y.c {
					// Variances alone may come from other points than covariances.
					require.InDelta(t, got.Aleatoric.At(i*y.c+j, j), a.At(i, j), tc.square)
				}
			}
		})
	}
}

// trapezoid integrates softmax and its entropy over the logits less the last one, by a step for
// an error of e⁻³⁴ within |z_k| ≤ 8.5, with nothing that QMC uses.
func trapezoid(t *testing.T, f []float64, cov *mat.Dense) (mean, square []float64, expectedEntropy float64) {
	c := len(f)
	contrasts := mat.NewDense(c-1, c, nil)
	for j := range c - 1 {
		contrasts.Set(j, j, 1)
		contrasts.Set(j, c-1, -1)
	}
	var half, whole mat.Dense
	half.Mul(contrasts, cov)
	whole.Mul(&half, contrasts.T())
	var factor mat.Cholesky
	require.True(t, factor.Factorize(mat.NewSymDense(c-1, whole.RawMatrix().Data)))
	var root mat.TriDense
	factor.LTo(&root)
	steps := make([]float64, c-1)
	for k := range steps {
		column := append(mat.Col(nil, k, &root), 0)
		d := min(math.Pi/(slices.Max(column)-slices.Min(column)), math.Sqrt(68))
		steps[k] = 2 * math.Pi * d / (34 + d*d/2)
	}
	mean, square = make([]float64, c), make([]float64, c)
	total, p := 0.0, make([]float64, c)
	var visit func(k int, l []float64, w float64)
	visit = func(k int, l []float64, w float64) {
		if k == c-1 {
			glm.Categorical{}.MeanTo(p, l)
			total += w
			for j, v := range p {
				mean[j] += w * v
				square[j] += w * v * v
			}
			expectedEntropy += w * integral.EntropyOf(p)
			return
		}
		n := int(8.5 / steps[k])
		at := make([]float64, c)
		for i := -n; i <= n; i++ {
			z := float64(i) * steps[k]
			copy(at, l)
			for j := k; j < c-1; j++ {
				at[j] += z * root.At(j, k)
			}
			visit(k+1, at, w*math.Exp(-z*z/2))
		}
	}
	start := make([]float64, c)
	for j := range c - 1 {
		start[j] = f[j] - f[c-1]
	}
	visit(0, start, 1)
	for j := range mean {
		mean[j] /= total
		square[j] /= total
	}
	return mean, square, expectedEntropy / total
}

// What the trapezoid of three and four classes integrates is within the 1e-10 that QMC
// promises, entropies alone too, and no mutual information is negative.
func TestE20ThreeAndFourClassesAreWithinThePromise(t *testing.T) {
	rng := testref.Rand(27)
	const promised = 1e-10
	for _, tc := range []struct {
		classes int
		width   float64
	}{{3, 1e-6}, {3, 1e-2}, {3, 1}, {3, 8}, {4, 1e-6}, {4, 1e-2}, {4, 0.7}} {
		for trial := range 3 {
			f, cov := testref.Moments(rng, 1, tc.classes, []float64{1, 3, 10}[trial], tc.width)
			at := fmt.Sprintf("%d classes, width %v, trial %d", tc.classes, tc.width, trial)
			mean, square, expected := trapezoid(t, f.RawRowView(0), cov)
			got := allIntegrals(t, QMC{}, f, cov)
			require.Equal(t, gridError, got.Error[0], "%s: not by the trapezoid", at)
			requireNear(t, mean, got.Mean.RawRowView(0), promised, at+": E p")
			for j, p := range mean {
				require.InDelta(t, square[j]-p*p, got.Epistemic.At(j, j), 2*promised, "%s: Var p", at)
			}
			entropy, mutual := []float64{0}, []float64{0}
			require.NoError(t, QMC{}.EntropyTo(entropy, mutual, glm.Categorical{}, f, cov))
			for _, h := range []*Integrals{got, {Entropy: entropy, Mutual: mutual}} {
				require.InDelta(t, integral.EntropyOf(mean), h.Entropy[0], promised, "%s: entropy", at)
				require.InDelta(t, integral.EntropyOf(mean)-expected, h.Mutual[0], promised, "%s: mutual information", at)
				require.GreaterOrEqual(t, h.Mutual[0], 0.0)
			}
		}
	}
}

// log p(y|x) of every toy under its moments by leave-one-out.
func TestE11LogPredictiveMatchesReference(t *testing.T) {
	gaussian := func(y *toy) glm.Likelihood {
		return testref.Must(glm.NewGaussian(y.ref.Scalar("sigma2")))(t)
	}
	for _, tc := range []struct {
		name string
		l    Link
		lik  func(*toy) glm.Likelihood
		tol  float64
	}{
		{"snelson", Exact{}, gaussian, 1e-11},
		{"gaussian-two-outputs", Exact{}, gaussian, 1e-11},
		{"two-moons", Exact{}, func(*toy) glm.Likelihood { return glm.Bernoulli{} }, 1e-11},
		{"poisson", Exact{}, func(*toy) glm.Likelihood { return glm.Poisson{} }, 1e-11},
		{"categorical", QMC{}, func(*toy) glm.Likelihood { return glm.Categorical{} }, 1e-9},
		{"categorical", QMC{noGrid: true}, func(*toy) glm.Likelihood { return glm.Categorical{} }, 4e-4},
		{"categorical-diagonal-prior", QMC{}, func(*toy) glm.Likelihood { return glm.Categorical{} }, 1e-9},
	} {
		y := openToy(t, tc.name, 1)
		f := y.ref.Matrix("loo_mean")
		n, c := f.Dims()
		got := logPredictive(t, tc.l, tc.lik(y), y.base.Matrix("y_train"), f, y.ref.MatrixRC("loo_cov", n*c, c))
		requireNear(t, y.ref.Floats("loo_log_density"), got, tc.tol, tc.name)
	}
}

// log p(y|x) of each class against the log of its mean.
func TestE20LogPredictiveOfEachClass(t *testing.T) {
	y := openToy(t, "categorical", 30)
	want := y.ref.Matrix("predictive_probability")
	for k := range y.c {
		for i, v := range logPredictive(t, QMC{}, glm.Categorical{}, constant(y.t, float64(k)), y.f, y.cov) {
			// The reference is right to 1e-11, and so is the density to a part of 1e-9.
			require.InDelta(t, math.Log(want.At(i, k)), v, 1e-9+1e-11/want.At(i, k), "row %d, class %d", i, k)
		}
	}
}

func TestE11TwoClassesMatchReference(t *testing.T) {
	ref := testref.Open(t, "selection/categorical")
	f, cov := ref.Matrix("softmax2_mean"), ref.MatrixRC("softmax2_cov", 40, 2)
	got := allIntegrals(t, QMC{}, f, cov)
	requireNear(t, ref.Floats("softmax2_probability"), got.Mean.RawMatrix().Data, 1e-12, "E p")
	for i := range 20 {
		require.InDelta(t, ref.Floats("softmax2_probability_variance")[i], got.Epistemic.At(2*i+1, 1), 1e-12)
		require.InDelta(t, ref.Floats("softmax2_probability_variance")[i], -got.Epistemic.At(2*i+1, 0), 1e-12)
		require.InDelta(t, ref.Floats("softmax2_aleatoric")[i], got.Aleatoric.At(2*i, 0), 1e-12)
		require.InDelta(t, math.Sqrt(got.Epistemic.At(2*i, 0)), got.SD.At(i, 0), 1e-15)
	}
	requireNear(t, ref.Floats("softmax2_entropy"), got.Entropy, 1e-12, "entropy")
	requireNear(t, ref.Floats("softmax2_mutual_information"), got.Mutual, 1e-12, "mutual information")
	for k := range 2 {
		for i, v := range logPredictive(t, QMC{}, glm.Categorical{}, constant(20, float64(k)), f, cov) {
			require.InDelta(t, math.Log(got.Mean.At(i, k)), v, 1e-12)
		}
	}
}

// The other toys: one output, or Gaussian outputs.
func TestE11PredictiveMomentsMatchReference(t *testing.T) {
	for _, tc := range []struct {
		name string
		lik  glm.Likelihood
	}{{"two-moons", glm.Bernoulli{}}, {"poisson", glm.Poisson{}}, {"snelson", nil}, {"gaussian-two-outputs", nil}} {
		t.Run(tc.name, func(t *testing.T) {
			y := openToy(t, tc.name, 0)
			if tc.lik == nil {
				tc.lik = testref.Must(glm.NewGaussian(y.ref.Scalar("sigma2")))(t)
			}
			if y.ref.Has("predictive_log_density") {
				testref.RequireClose(t, logPredictive(t, Exact{}, tc.lik, y.ref.Matrix("y_test"), y.f, y.cov), y.ref.Floats("predictive_log_density"), 1e-12, "log density")
			}
			var a, e mat.Dense
			require.NoError(t, Exact{}.SplitTo(&a, &e, tc.lik, y.f, y.cov))
			for _, part := range []struct {
				name string
				got  *mat.Dense
			}{{"predictive_aleatoric", &a}, {"predictive_epistemic", &e}} {
				want := y.ref.MatrixRC(part.name, y.t*y.c, y.c)
				for i := range y.t {
					for j := range y.c {
						require.InEpsilon(t, want.At(i*y.c+j, j), part.got.At(i, j), 1e-11, part.name)
					}
				}
			}
			mean, _ := predict(t, Exact{}, tc.lik, y.f, y.cov)
			for _, name := range []string{"predictive_probability", "predictive_mean"} {
				if y.ref.Has(name) {
					testref.RequireClose(t, mean.RawMatrix().Data, y.ref.Floats(name), 1e-12, name)
				}
			}
			h, info := make([]float64, y.t), make([]float64, y.t)
			err := Exact{}.EntropyTo(h, info, tc.lik, y.f, y.cov)
			if tc.name == "poisson" {
				require.EqualError(t, err, "predictive: no entropy by the exact link for the poisson likelihood")
				return
			}
			require.NoError(t, err)
			requireNear(t, y.ref.Floats("predictive_entropy"), h, 1e-11, "entropy")
			requireNear(t, y.ref.Floats("predictive_mutual_information"), info, 1e-11, "mutual information")
		})
	}
}

// A scale of the covariance is the same as a scaled covariance.
func TestE18ScalesAreScaledCovariances(t *testing.T) {
	scales := []float64{0, 1e-4, 0.03, 1, 7, 100}
	gaussian := testref.Must(glm.NewGaussian(0.3))(t)
	for _, tc := range []struct {
		l interface {
			Link
			ScaleLink
		}
		lik  glm.Likelihood
		c    int
		size float64
		tol  float64 // of log p, per 1 + |log p|
	}{
		{Exact{}, glm.Bernoulli{}, 1, 1, 1e-13},
		{Exact{}, glm.Poisson{}, 2, 0.3, 1e-13},
		{Exact{}, gaussian, 3, 1, 1e-13},
		{QMC{}, glm.Bernoulli{}, 2, 1, 1e-13},
		{QMC{}, glm.Categorical{}, 2, 1, 1e-13},
		{QMC{}, glm.Categorical{}, 3, 0.5, 0.01},
		{QMC{}, glm.Categorical{}, 10, 0.5, 0.03}, // 1,024 points at 100 times the covariance
	} {
		f, cov := testref.Posterior(3, 12, tc.c, tc.size)
		y := mat.NewDense(12, tc.lik.Targets(tc.c), nil)
		for i := range 12 {
			y.Set(i, 0, float64(i%2))
		}
		var got mat.Dense
		require.NoError(t, tc.l.LogPredictiveScalesTo(t.Context(), &got, scales, tc.lik, y, f, cov))
		for k, s := range scales {
			for i, want := range logPredictive(t, tc.l, tc.lik, y, f, scaledMatrix(cov, s)) {
				require.InDelta(t, want, got.At(i, k), tc.tol*(1+math.Abs(want)), "%T %s C=%d s=%v row %d", tc.l, tc.lik.Name(), tc.c, s, i)
			}
		}
	}
}

// The nodes of a density move to its mode, so that a target that the mean calls
// nearly impossible has the same relative error: three classes against the grid,
// and the far tail against E e^f.
func TestE20DensityOfUnlikelyTarget(t *testing.T) {
	cov := mat.NewDense(3, 3, []float64{4, 1, 0.5, 1, 3, -0.3, 0.5, -0.3, 2})
	for _, gap := range []float64{5, 20, 60, 500} {
		f := mat.NewDense(1, 3, []float64{gap, 0, 0})
		exact := logPredictive(t, QMC{}, glm.Categorical{}, constant(1, 1), f, cov)[0]
		require.InDelta(t, exact, logPredictive(t, QMC{noGrid: true}, glm.Categorical{}, constant(1, 1), f, cov)[0], 2e-4)
		var sweep mat.Dense
		require.NoError(t, QMC{}.LogPredictiveScalesTo(t.Context(), &sweep, []float64{1}, glm.Categorical{}, constant(1, 1), f, cov))
		require.InDelta(t, exact, sweep.At(0, 0), 1e-3)
		if gap >= 60 { // log E e^{f₁−f₀}, whose variance is 3 + 4 − 2
			require.InDelta(t, -gap+2.5, exact, 1e-9)
		}
	}
}

func TestE20IsBitIdenticalForAnyProcessors(t *testing.T) {
	f, cov := testref.Posterior(2, 9, 6, 0.7)
	y := constant(9, 3)
	run := func(procs int) []float64 {
		testref.Procs(t, procs)
		got := allIntegrals(t, QMC{}, f, cov)
		var scales mat.Dense
		require.NoError(t, QMC{}.LogPredictiveScalesTo(t.Context(), &scales, []float64{0.1, 1, 10}, glm.Categorical{}, y, f, cov))
		out := append(got.Mean.RawMatrix().Data, got.Epistemic.RawMatrix().Data...)
		out = append(append(out, got.Mutual...), scales.RawMatrix().Data...)
		return append(out, logPredictive(t, QMC{}, glm.Categorical{}, y, f, cov)...)
	}
	want := run(1)
	for _, procs := range []int{2, 5, 16} {
		require.Equal(t, want, run(procs))
	}
}

// A common shift of the logits, random or not, changes nothing, and a permutation
// of the classes permutes the result.
func TestE20IgnoresCommonShift(t *testing.T) {
	f, cov := testref.Posterior(4, 3, 6, 0.5)
	want := allIntegrals(t, QMC{}, f, cov)
	shifted, wider := mat.DenseCopyOf(f), mat.DenseCopyOf(cov)
	shifted.Apply(func(i, _ int, v float64) float64 { return v + 100*float64(i) }, shifted)
	rng := testref.Rand(5)
	for i := range 3 {
		u := testref.Vec(rng, 6, 3)
		for j := range 6 {
			for k := range 6 {
				// Cov of f + 1·g with Cov(f, g) = u and Var g = 40
				wider.Set(6*i+j, k, wider.At(6*i+j, k)+u[j]+u[k]+40)
			}
		}
	}
	got := allIntegrals(t, QMC{}, shifted, wider)
	requireNear(t, want.Mean.RawMatrix().Data, got.Mean.RawMatrix().Data, 1e-11, "E p")
	requireNear(t, want.Mutual, got.Mutual, 1e-11, "mutual information")
}

// Many classes with a covariance of low rank are those of few dimensions.
func TestE20ThousandClassesOfLowRank(t *testing.T) {
	const c, rank = 1000, 5
	rng := testref.Rand(8)
	a, f := mat.NewDense(c, rank, testref.Vec(rng, c*rank, 0.5)), mat.NewDense(2, c, testref.Vec(rng, 2*c, 2))
	cov := mat.NewDense(2*c, c, nil)
	for i := range 2 {
		cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Mul(a, a.T())
	}
	row := testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov.Slice(0, c, 0, c)).RawMatrix().Data))(t)
	require.Equal(t, rank, row.rank)
	require.Nil(t, row.restVariance)
	mean, _ := predict(t, QMC{}, glm.Categorical{}, f, cov)
	plain, _ := predict(t, MonteCarlo{Samples: 1500}, glm.Categorical{}, f, cov)
	for i := range 2 {
		require.InDelta(t, 1, mat.Sum(mean.RowView(i)), 1e-12)
		for j := range c {
			require.InDelta(t, plain.At(i, j), mean.At(i, j), 0.005)
		}
	}
}

// The same prediction by all eigenvectors and through a factor of 256 columns with
// the rest to second order.
func TestE20RestOfManyClassesToSecondOrder(t *testing.T) {
	const c = 300
	rng := testref.Rand(9)
	f, cov := testref.Vec(rng, c, 1.5), make([]float64, c*c)
	for j := range c {
		cov[j*c+j] = 0.2
		for k := range c {
			cov[j*c+k] += 0.3 * math.Cos(float64(j)) * math.Cos(float64(k))
		}
	}
	some := testref.Must(newSoftmaxRow(0, f, append([]float64(nil), cov...)))(t)
	require.NotNil(t, some.restVariance)
	got, _ := some.qmcMoments(softmaxWants{}, nil, 1e-4, 1<<14)
	centre(cov, c)
	all := &softmaxRow{c: c, m: make([]float64, c), base: make([]float64, c)}
	for j, v := range f {
		all.m[j] = v - f[integral.Argmax(f)]
	}
	integral.SoftmaxTo(all.base, all.m)
	require.NoError(t, all.eigen(0, cov, 1))
	plain := newSoftmaxSums(all.base, softmaxWants{})
	for range 4000 {
		plain.add(all.at(testref.Vec(rng, all.rank, 1), 1), 1)
	}
	want := all.moments(plain)
	for j := range c {
		// five standard errors, and the second order of .2 p
		require.InDelta(t, want.mean[j], got.mean[j], 5*math.Sqrt(want.variance[j]/4000)+0.02*want.mean[j])
		require.InEpsilon(t, want.variance[j], got.variance[j], 0.35) // some percent of it known
	}
}

// What is taken to second order joins on to the integral.
func TestE20SecondOrderOfSmallCovariance(t *testing.T) {
	for _, c := range []int{3, 4, 7} {
		f, cov := testref.Posterior(6, 4, c, 1)
		for i := range 4 {
			block := cov.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense)
			block.Scale(0.9e-5/mat.Trace(block), block)
		}
		got := allIntegrals(t, QMC{}, f, cov)
		for i := range 4 {
			r, err := newSoftmaxRow(i, f.RawRowView(i), mat.DenseCopyOf(cov.Slice(i*c, (i+1)*c, 0, c)).RawMatrix().Data)
			require.NoError(t, err)
			s := newSoftmaxSums(r.base, softmaxWants{entropy: true, cross: true})
			// A product of two points ±√rank for each column is right to fifth order in z.
			for k := range r.rank {
				for _, sign := range [2]float64{1, -1} {
					z := make([]float64, r.rank)
					z[k] = sign * math.Sqrt(float64(r.rank))
					s.add(r.at(z, 1), 1)
				}
			}
			want := r.moments(s)
			for j := range c {
				require.InDelta(t, want.mean[j], got.Mean.At(i, j), 1e-10)
				require.InEpsilon(t, math.Sqrt(want.variance[j]), got.SD.At(i, j), 1e-4)
				for k := range c {
					require.InDelta(t, want.covariance[j*c+k], got.Epistemic.At(i*c+j, k), 1e-10)
				}
			}
			require.InDelta(t, want.entropy, got.Entropy[i], 1e-9)
			require.InEpsilon(t, want.entropy-want.expectedEntropy, got.Mutual[i], 1e-3)
		}
	}
}

func TestQMCErrors(t *testing.T) {
	f, cov := mat.NewDense(1, 3, nil), mat.NewDense(3, 3, []float64{1, 3, 0, 3, 1, 0, 0, 0, 1})
	value := testref.As[*ValueError](t, QMC{}.PredictTo(nil, nil, glm.Categorical{}, f, cov))
	require.Equal(t, "eigenvalue", value.What)
	unsupported := testref.As[*UnsupportedError](t, QMC{}.PredictTo(nil, nil, glm.Poisson{}, f, cov))
	require.ErrorAs(t, QMC{}.IntegralsTo(t.Context(), &Integrals{}, glm.Bernoulli{}, f, cov), &unsupported)
	require.Panics(t, func() {
		_ = QMC{Tol: -1}.PredictTo(nil, nil, glm.Categorical{}, mat.NewDense(1, 5, nil), mat.NewDense(5, 5, []float64{
			1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}))
	})
	require.Panics(t, func() {
		_ = QMC{}.LogPredictiveTo(make([]float64, 1), glm.Categorical{}, constant(1, 3), f, mat.NewDense(3, 3, nil))
	})
}

func BenchmarkScaleSweep(b *testing.B) {
	f, cov := testref.Posterior(2, 200, 10, 1)
	y := constant(200, 3)
	scales := make([]float64, 45)
	for k := range scales {
		scales[k] = math.Exp(float64(k)*0.3 - 9)
	}
	var dst mat.Dense
	for b.Loop() {
		dst.Reset()
		if err := (QMC{}).LogPredictiveScalesTo(b.Context(), &dst, scales, glm.Categorical{}, y, f, cov); err != nil {
			b.Fatal(err)
		}
	}
}

// One evaluation gives what two give: the same moments, and densities that are right where
// either reaches the tolerance, of likely and unlikely classes, narrow and wide logits.
func TestE20PredictDensity(t *testing.T) {
	const n, c = 12, 6
	y := mat.NewDense(n, 1, nil)
	for i := range n {
		y.Set(i, 0, float64(i%c))
	}
	for _, scale := range []float64{1e-4, 0.3, 3, 60} {
		f, cov := testref.Posterior(7, n, c, scale)
		var wantMean, wantSD mat.Dense
		want, long := make([]float64, n), make([]float64, n)
		require.NoError(t, QMC{}.PredictTo(&wantMean, &wantSD, glm.Categorical{}, f, cov))
		require.NoError(t, QMC{}.LogPredictiveTo(want, glm.Categorical{}, y, f, cov))
		require.NoError(t, QMC{Tol: 1e-12}.LogPredictiveTo(long, glm.Categorical{}, y, f, cov))
		for _, procs := range []int{1, 3} {
			testref.Procs(t, procs)
			var mean, sd mat.Dense
			got := make([]float64, n)
			require.NoError(t, QMC{}.PredictDensityTo(t.Context(), &mean, &sd, got, glm.Categorical{}, y, f, cov))
			require.True(t, mat.Equal(&wantMean, &mean))
			require.True(t, mat.Equal(&wantSD, &sd))
			one, two := 0.0, 0.0
			for i := range got {
				one += math.Pow(got[i]-long[i], 2) / n
				two += math.Pow(want[i]-long[i], 2) / n
			}
			// No farther from the longest sum than the points of the density alone in quadratic
			// mean, but for a factor of two between two errors, and ten times the tolerance.
			require.LessOrEqual(t, math.Sqrt(one), 2*math.Sqrt(two)+10*defaultQMCTol, "scale %v", scale)
		}
	}
	// Other likelihoods take two evaluations.
	f, cov := testref.Posterior(8, n, 1, 2)
	y.Apply(func(i, _ int, _ float64) float64 { return float64(i % 2) }, y)
	var mean, sd, wantMean, wantSD mat.Dense
	got, want := make([]float64, n), make([]float64, n)
	require.NoError(t, QMC{}.PredictDensityTo(t.Context(), &mean, &sd, got, glm.Bernoulli{}, y, f, cov))
	require.NoError(t, QMC{}.PredictTo(&wantMean, &wantSD, glm.Bernoulli{}, f, cov))
	require.NoError(t, QMC{}.LogPredictiveTo(want, glm.Bernoulli{}, y, f, cov))
	require.Equal(t, want, got)
	require.True(t, mat.Equal(&wantMean, &mean))
}

// The errors that the docs of Probit, Bridge and MonteCarlo state.
func TestMeasuredErrorsOfOtherLinks(t *testing.T) {
	y := openToy(t, "categorical", 30)
	few, fewCov := testref.Posterior(1, 60, 10, 0.3)
	many, manyCov := testref.Posterior(1, 60, 10, 3)
	for _, tc := range []struct {
		name   string
		f, cov *mat.Dense
		exact  *mat.Dense
		// mean and largest error of each link, as documented
		probit, bridge, mc [2]float64
	}{
		{"toy", y.f, y.cov, y.ref.Matrix("predictive_probability"), [2]float64{0.039, 0.24}, [2]float64{0.11, 0.58}, [2]float64{0.007, 0.024}},
		{"toy, 25 times", y.f, scaledMatrix(y.cov, 25), y.ref.Matrix("wide_probability"), [2]float64{0.056, 0.15}, [2]float64{0.3, 0.76}, [2]float64{0.009, 0.023}},
		{"variance 0.09", few, fewCov, nil, [2]float64{0.0013, 0.014}, [2]float64{0.048, 0.44}, [2]float64{0.0004, 0.004}},
		{"variance 9", many, manyCov, nil, [2]float64{0.029, 0.21}, [2]float64{0.056, 0.45}, [2]float64{0.004, 0.02}},
	} {
		if tc.exact == nil {
			tc.exact, _ = predict(t, QMC{Tol: 1e-3}, glm.Categorical{}, tc.f, tc.cov)
		}
		for l, want := range map[Link][2]float64{Probit{}: tc.probit, Bridge{}: tc.bridge, MonteCarlo{}: tc.mc} {
			p, _ := predict(t, l, glm.Categorical{}, tc.f, tc.cov)
			p.Sub(p, tc.exact)
			p.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, p)
			n, c := p.Dims()
			at := fmt.Sprintf("%T, %s", l, tc.name)
			require.InEpsilon(t, want[0], mat.Sum(p)/float64(n*c), 0.15, at)
			require.InEpsilon(t, want[1], mat.Max(p), 0.15, at)
		}
	}
}
