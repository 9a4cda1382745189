package glm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

func symmetric(a *mat.Dense) *mat.SymDense {
	c, _ := a.Dims()
	s := mat.NewSymDense(c, nil)
	for i := range c {
		for j := i; j < c; j++ {
			s.SetSym(i, j, a.At(i, j))
		}
	}
	return s
}

// likelihoodCase is a likelihood with a way to draw targets and outputs for it.
type likelihoodCase struct {
	name   string
	lik    Likelihood
	c      int
	target func(rng *rand.Rand) []float64
}

func likelihoodCases(t testing.TB) []likelihoodCase {
	rng := testref.Rand(11)
	gaussian := func(g *Gaussian, err error) *Gaussian { return testref.Must(g, err)(t) }
	normal := func(c int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return testref.Vec(rng, c, 1) }
	}
	each := func(c int, draw func(*rand.Rand) float64) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 {
			y := make([]float64, c)
			for i := range y {
				y[i] = draw(rng)
			}
			return y
		}
	}
	bit := func(rng *rand.Rand) float64 { return float64(rng.IntN(2)) }
	count := func(rng *rand.Rand) float64 { return float64(rng.IntN(12)) }
	class := func(c int) func(*rand.Rand) []float64 {
		return each(1, func(rng *rand.Rand) float64 { return float64(rng.IntN(c)) })
	}
	cov := testref.Cov(rng, 4, 6, 0.7)
	return []likelihoodCase{
		{"gaussian/1", gaussian(NewGaussian(0.3)), 1, normal(1)},
		{"gaussian/3", gaussian(NewGaussian(2.5)), 3, normal(3)},
		{"gaussian-vector/3", gaussian(NewGaussianVector([]float64{0.1, 1, 7})), 3, normal(3)},
		{"gaussian-matrix/4", gaussian(NewGaussianMatrix(symmetric(cov))), 4, normal(4)},
		{"bernoulli/1", Bernoulli{}, 1, each(1, bit)},
		{"bernoulli/3", Bernoulli{}, 3, each(3, bit)},
		{"bernoulli-fraction/2", Bernoulli{}, 2, each(2, (*rand.Rand).Float64)},
		{"categorical/2", Categorical{}, 2, class(2)},
		{"categorical/5", Categorical{}, 5, class(5)},
		{"poisson/1", Poisson{}, 1, each(1, count)},
		{"poisson/3", Poisson{}, 3, each(3, count)},
		{"heteroscedastic/1", Heteroscedastic{}, 2, normal(1)},
		{"heteroscedastic/2", Heteroscedastic{}, 4, normal(2)},
	}
}

func TestE4RootTimesRootIsLambda(t *testing.T) {
	for _, tc := range likelihoodCases(t) {
		t.Run(tc.name, func(t *testing.T) {
			rng := testref.Rand(3)
			for range 200 {
				// A scale of 20 saturates most sites of classification.
				f, y := testref.Vec(rng, tc.c, []float64{1, 20}[rng.IntN(2)]), tc.target(rng)
				lambda, root := make([]float64, tc.c*tc.c), make([]float64, tc.c*tc.c)
				tc.lik.Expand(nil, lambda, root, y, f)
				r := mat.NewDense(tc.c, tc.c, root)
				var got mat.Dense
				got.Mul(r, r.T())
				testref.RequireClose(t, got.RawMatrix().Data, lambda, 1e-14, "R Rᵀ") // C roundings
			}
		})
	}
}

// Each entry of Λ alone has its digits, not only the largest: a site that is
// sure to 1e-300 still counts 1e-300.
func TestE4CategoricalEntriesKeepRelativePrecision(t *testing.T) {
	f, c := []float64{600, -80, 0, 1}, 4
	lambda, root, p := make([]float64, c*c), make([]float64, c*c), make([]float64, c)
	r := make([]float64, c)
	logp := Categorical{}.Expand(r, lambda, root, []float64{0}, f)
	Categorical{}.MeanTo(p, f)
	rest := math.Exp(-600) * (1 + math.E)
	near := func(want, got float64) { t.Helper(); require.InEpsilon(t, want, got, 1e-14) }
	near(rest, r[0])
	near(-rest, logp)
	near(rest, lambda[0])
	near(-math.Exp(-600), lambda[2])
	near(math.Exp(-600), lambda[2*c+2])
	require.Zero(t, p[1]*p[0]-math.Exp(-680))
	near(-math.Exp(-600), root[0]*root[2*c]+root[2]*root[2*c+2]+root[1]*root[2*c+1]+root[3]*root[2*c+3])
}

func TestE3BernoulliAgainstBigFloats(t *testing.T) {
	for f := -700.0; f <= 700; f += 12.5 {
		e := testref.BigExp(-math.Abs(f))
		one := testref.Big(1)
		sum := testref.Big(0).Add(one, e)
		low := testref.Big(0).Quo(e, sum) // σ(−|f|)
		high := testref.Big(0).Quo(one, sum)
		slope := testref.Big(0).Mul(low, high)
		r, lambda, root := make([]float64, 1), make([]float64, 1), make([]float64, 1)
		y := 0.0
		if f > 0 {
			y = 1
		}
		logp := Bernoulli{}.Expand(r, lambda, root, []float64{y}, []float64{f})
		want, _ := low.Float64()
		require.InEpsilon(t, want, math.Abs(r[0]), 4e-16, "residual at %v", f) // 2 ulp
		require.InEpsilon(t, want, -math.Expm1(logp), 6e-16, "log p at %v", f) // 1 − p
		want, _ = slope.Float64()
		require.InEpsilon(t, want, lambda[0], 6e-16, "lambda at %v", f) // 3 ulp
		require.InEpsilon(t, want, root[0]*root[0], 1e-15, "root at %v", f)
	}
}

func TestE3ExtremeLogits(t *testing.T) {
	for _, tc := range []struct {
		y, f, logp, r float64
		lambda        float64 // 0: exactly saturated
	}{
		{1, 800, 0, 0, 0},
		{0, 800, -800, -1, 0},
		{1, -800, -800, 1, 0},
		{0, -800, 0, 0, 0},
		{1, 40, -math.Exp(-40), math.Exp(-40), math.Exp(-40)},
		{0, 40, -40, -1, math.Exp(-40)},
		{1, -40, -40, 1, math.Exp(-40)},
	} {
		t.Run(fmt.Sprintf("bernoulli/y=%v/f=%v", tc.y, tc.f), func(t *testing.T) {
			r, lambda, root := []float64{9}, []float64{9}, []float64{9}
			logp := Bernoulli{}.Expand(r, lambda, root, []float64{tc.y}, []float64{tc.f})
			requireSite(t, tc.logp, tc.r, tc.lambda, logp, r[0], lambda[0])
			require.InDelta(t, math.Sqrt(tc.lambda), root[0], 1e-15*math.Sqrt(tc.lambda))
		})
		t.Run(fmt.Sprintf("categorical/y=%v/f=%v", tc.y, tc.f), func(t *testing.T) {
			r, lambda, root := testref.Vec(testref.Rand(1), 2, 1), testref.Vec(testref.Rand(1), 4, 1), testref.Vec(testref.Rand(1), 4, 1)
			logp := Categorical{}.Expand(r, lambda, root, []float64{tc.y}, []float64{-tc.f / 2, tc.f / 2})
			requireSite(t, tc.logp, tc.r, tc.lambda, logp, r[1], lambda[3])
			requireSite(t, tc.logp, -tc.r, -tc.lambda, logp, r[0], lambda[1])
			if tc.lambda == 0 {
				require.Equal(t, make([]float64, 4), root)
			}
		})
	}
}

// requireSite compares with 1e-15 of each wanted number, so that zero is exact.
func requireSite(t *testing.T, logp, r, lambda, gotLogp, gotR, gotLambda float64) {
	t.Helper()
	require.InDelta(t, logp, gotLogp, 1e-15*math.Abs(logp), "log p")
	require.InDelta(t, r, gotR, 1e-15*math.Abs(r), "residual")
	require.InDelta(t, lambda, gotLambda, 1e-15*math.Abs(lambda), "lambda")
}

func TestE3PoissonExtremes(t *testing.T) {
	r, lambda, root := make([]float64, 1), make([]float64, 1), make([]float64, 1)
	require.Zero(t, Poisson{}.Expand(r, lambda, root, []float64{0}, []float64{-800}))
	require.Equal(t, []float64{0, 0}, []float64{r[0], lambda[0]})
	require.Equal(t, math.Inf(-1), Poisson{}.Expand(r, lambda, root, []float64{3}, []float64{800}))
	// log p of 0…30 events sums to probability one.
	sum := 0.0
	for y := range 60 {
		sum += math.Exp(Poisson{}.LogProb([]float64{float64(y)}, []float64{1.7}))
	}
	require.InDelta(t, 1, sum, 1e-14)
}

// Every likelihood of classes is normalized; the Gaussians against the density
// written out with a determinant and a solve.
func TestE3LogProbIsNormalized(t *testing.T) {
	rng := testref.Rand(4)
	f := testref.Vec(rng, 6, 3)
	sum := 0.0
	for k := range f {
		sum += math.Exp(Categorical{}.LogProb([]float64{float64(k)}, f))
	}
	require.InDelta(t, 1, sum, 1e-15)

	c := 4
	cov := testref.Cov(rng, c, 7, 1)
	g := testref.Must(NewGaussianMatrix(symmetric(cov)))(t)
	y, m := testref.Vec(rng, c, 1), testref.Vec(rng, c, 1)
	var d, x mat.VecDense
	d.SubVec(mat.NewVecDense(c, y), mat.NewVecDense(c, m))
	require.NoError(t, x.SolveVec(cov, &d))
	logDet, _ := mat.LogDet(cov)
	want := -0.5*mat.Dot(&d, &x) - 0.5*logDet - 0.5*float64(c)*math.Log(2*math.Pi)
	require.InEpsilon(t, want, g.LogProb(y, m), 1e-12)
}

func TestGaussianNoiseKindsAgree(t *testing.T) {
	c, v := 3, 0.37
	gaussian := func(g *Gaussian, err error) *Gaussian { return testref.Must(g, err)(t) }
	diagonal := mat.NewSymDense(c, nil)
	for j := range c {
		diagonal.SetSym(j, j, v)
	}
	kinds := []*Gaussian{
		gaussian(NewGaussian(v)), gaussian(NewGaussianVector([]float64{v, v, v})), gaussian(NewGaussianMatrix(diagonal)),
	}
	rng := testref.Rand(5)
	y, f := testref.Vec(rng, c, 1), testref.Vec(rng, c, 1)
	var want []float64
	for i, g := range kinds {
		got := make([]float64, c+3*c*c+1)
		got[0] = g.Expand(got[1:1+c], got[1+c:1+c+c*c], got[1+c+c*c:1+c+2*c*c], y, f)
		g.NoiseTo(got[1+c+2*c*c:], c)
		if i == 0 {
			want = got
		}
		testref.RequireClose(t, got, want, 1e-15, g.Name())
	}
}

func TestGaussianPrecisionTimesNoiseIsIdentity(t *testing.T) {
	c := 5
	g := testref.Must(NewGaussianMatrix(symmetric(testref.Cov(testref.Rand(6), c, 8, 2))))(t)
	lambda, noise := make([]float64, c*c), make([]float64, c*c)
	g.Expand(nil, lambda, nil, make([]float64, c), make([]float64, c))
	g.NoiseTo(noise, c)
	var got mat.Dense
	got.Mul(mat.NewDense(c, c, lambda), mat.NewDense(c, c, noise))
	for j := range c {
		got.Set(j, j, got.At(j, j)-1)
	}
	require.Less(t, mat.Norm(&got, math.Inf(1)), 1e-12) // condition number ~1e2
}

func TestGaussianRefusesNoise(t *testing.T) {
	var noise *NoiseError
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-310} {
		_, err := NewGaussian(v)
		require.ErrorAs(t, err, &noise)
		require.ErrorContains(t, err, "noise variance is")
		_, err = NewGaussianVector([]float64{1, v})
		require.ErrorAs(t, err, &noise)
		require.Equal(t, 1, noise.Output)
		require.ErrorContains(t, err, "of output 1 is")
		require.ErrorAs(t, testref.Err(NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 0, 0, v}))), &noise)
	}
	for _, off := range []float64{1, 2, math.NaN()} {
		_, err := NewGaussianMatrix(mat.NewSymDense(2, []float64{1, off, off, 1}))
		testref.As[*NotPDError](t, err)
		require.ErrorContains(t, err, "2×2 noise covariance")
	}
}

// A covariance of one direction that exceeds the noise by any factor: the sum of
// both has no Cholesky factor in float64.
func TestGaussianLogMarginalOfLargeCovariance(t *testing.T) {
	v, rest := []float64{1, 2, 2}, []float64{2, -2, 1} // orthogonal, of length 3
	for _, noise := range []*Gaussian{testref.Must(NewGaussian(4))(t), testref.Must(NewGaussianVector([]float64{4, 4, 4}))(t),
		testref.Must(NewGaussianMatrix(mat.NewSymDense(3, []float64{4, 0, 0, 0, 4, 0, 0, 0, 4})))(t)} {
		for _, s := range []float64{1, 1 << 20, 1 << 30, 1 << 40, 0x1p60, 0x1p66, 0x1p200} {
			cov, y := make([]float64, 9), make([]float64, 3)
			along := 0.7 * math.Min(math.Sqrt(s), 1<<33) // so that y keeps rest
			for i := range v {
				y[i] = along*v[i] + rest[i]
				for j := range v {
					cov[i*3+j] = s * v[i] * v[j]
				}
			}
			got, err := noise.LogMarginal(y, make([]float64, 3), cov)
			require.NoError(t, err, "s = %v", s)
			// eigenvalues of the sum: 4, 4 and 4 + 9s
			want := -along*along*9/(4+9*s)/2 - 9.0/4/2 - (3*math.Log(2*math.Pi)+2*math.Log(4)+math.Log(4+9*s))/2
			// y holds rest to half an ulp of along
			require.InDelta(t, want, got, 1e-11*math.Abs(want)+1e-14*along*along/s+3e-16*along, "s = %v", s)
		}
	}
	for _, off := range []float64{2, 1e30} {
		_, err := testref.Must(NewGaussian(1e-3))(t).LogMarginal([]float64{0, 0}, []float64{0, 0}, []float64{1, off, off, 1})
		testref.As[*NotPDError](t, err)
	}
}

func TestCheckY(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	gaussian := testref.Must(NewGaussianVector([]float64{1, 1}))(t)
	for _, tc := range []struct {
		lik  Likelihood
		c    int
		y    []float64
		want string // "" is admissible
	}{
		{Bernoulli{}, 1, []float64{0}, ""},
		{Bernoulli{}, 2, []float64{1, 0.25}, ""},
		{Bernoulli{}, 1, []float64{-0.1}, "target 0 is -0.1; the bernoulli likelihood wants 0, 1 or a fraction"},
		{Bernoulli{}, 1, []float64{4}, "target 0 is 4"},
		{Bernoulli{}, 1, []float64{nan}, "NaN"},
		{Bernoulli{}, 2, []float64{1}, "1 targets"},
		{Categorical{}, 3, []float64{2}, ""},
		{Categorical{}, 3, []float64{3}, "a class index from 0 to 2"},
		{Categorical{}, 3, []float64{-1}, "-1"},
		{Categorical{}, 3, []float64{1.5}, "1.5"},
		{Categorical{}, 3, []float64{nan}, "NaN"},
		{Categorical{}, 3, []float64{0, 1, 0}, "3 targets"},
		{Poisson{}, 1, []float64{12}, ""},
		{Poisson{}, 1, []float64{-1}, "an integer of at least 0"},
		{Poisson{}, 1, []float64{0.5}, "0.5"},
		{Poisson{}, 1, []float64{inf}, "+Inf"},
		{gaussian, 2, []float64{-3, 1e9}, ""},
		{gaussian, 2, []float64{0, nan}, "target 1 is NaN"},
		{gaussian, 3, []float64{0, 0, 0}, "for 2 outputs, the model has 3"},
	} {
		err := tc.lik.CheckY(tc.y, tc.c)
		if tc.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tc.want)
	}
}

// Sites and log-likelihoods of the references.
func TestE3MatchesReference(t *testing.T) {
	for _, name := range []string{"two-moons", "categorical", "poisson", "gaussian-two-outputs", "snelson", "thesis-cnn"} {
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			lik := referenceLikelihood(t, ref)
			shape := ref.Shape("lambda_")
			n, c := shape[0], shape[1]
			f, wantR, wantL := ref.Floats("f_train"), ref.Floats("residual"), ref.Floats("lambda_")
			y := referenceTargets(ref, lik)
			k := lik.Targets(c)
			r, lambda, root := make([]float64, n*c), make([]float64, n*c*c), make([]float64, c*c)
			logp := 0.0
			for i := range n {
				yi := y[i*k : (i+1)*k]
				require.NoError(t, lik.CheckY(yi, c))
				logp += lik.Expand(r[i*c:(i+1)*c], lambda[i*c*c:(i+1)*c*c], root, yi, f[i*c:(i+1)*c])
			}
			testref.RequireClose(t, r, wantR, 1e-12, "residual")
			testref.RequireClose(t, lambda, wantL, 1e-12, "lambda_")
			testref.RequireClose(t, []float64{logp}, []float64{ref.Scalar("log_likelihood")}, 1e-12, "log_likelihood")
		})
	}
}

func referenceLikelihood(t *testing.T, ref *testref.Ref) Likelihood {
	switch name := ref.Meta("likelihood"); name {
	case "bernoulli":
		return Bernoulli{}
	case "categorical":
		return Categorical{}
	case "poisson":
		return Poisson{}
	case "gaussian":
		return testref.Must(NewGaussian(ref.Scalar("sigma2")))(t)
	default:
		t.Fatalf("unknown likelihood %q", name)
		return nil
	}
}

// referenceTargets returns y_train, or for thesis-cnn, which does not hold it,
// the label that the sign of the residual y − p gives away.
func referenceTargets(ref *testref.Ref, lik Likelihood) []float64 {
	if ref.Has("y_train") {
		return ref.Floats("y_train")
	}
	y := ref.Floats("residual")
	for i, r := range y {
		y[i] = 0
		if r > 0 {
			y[i] = 1
		}
	}
	return y
}

func TestExpandPanicsOnWrongLengths(t *testing.T) {
	for _, tc := range likelihoodCases(t) {
		y := tc.target(testref.Rand(1))
		f, bad := make([]float64, tc.c), make([]float64, tc.c*tc.c+1)
		require.Panics(t, func() { tc.lik.Expand(bad, nil, nil, y, f) }, tc.name)
		require.Panics(t, func() { tc.lik.Expand(nil, bad, nil, y, f) }, tc.name)
		require.Panics(t, func() { tc.lik.Expand(nil, nil, bad, y, f) }, tc.name)
		require.Panics(t, func() { tc.lik.Expand(nil, nil, nil, append(y, 0), f) }, tc.name)
		require.Panics(t, func() { tc.lik.MeanTo(bad, f) }, tc.name)
		require.Panics(t, func() { tc.lik.VarianceTo(bad, f) }, tc.name)
	}
	require.PanicsWithValue(t, "glm: class index out of range", func() { Categorical{}.LogProb([]float64{2}, []float64{0, 0}) })
	g := testref.Must(NewGaussianVector([]float64{1, 1}))(t)
	require.Panics(t, func() { g.LogProb([]float64{1}, []float64{1}) })
	require.Panics(t, func() { g.NoiseTo(make([]float64, 3), 2) })
	require.Panics(t, func() { _, _ = NewGaussianVector(nil) })
}

// For classes and counts Λ is Var[y|f] at the canonical link.
func TestVarianceIsDiagonalOfLambda(t *testing.T) {
	rng := testref.Rand(7)
	for _, tc := range likelihoodCases(t) {
		switch tc.lik.(type) {
		case *Gaussian, Heteroscedastic:
			continue
		}
		f, lambda, v := testref.Vec(rng, tc.c, 3), make([]float64, tc.c*tc.c), make([]float64, tc.c)
		tc.lik.Expand(nil, lambda, nil, tc.target(rng), f)
		tc.lik.VarianceTo(v, f)
		for j := range v {
			require.Equal(t, lambda[j*tc.c+j], v[j], tc.name)
		}
	}
}
