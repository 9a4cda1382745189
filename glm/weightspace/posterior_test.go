package weightspace_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A spaceProblem is a random linearized network with data, prior and
// likelihood. θ* is not a mode and μ₀ is not zero.
type spaceProblem struct {
	name        string
	train, test *linearize.Batch
	y           *mat.Dense
	lik         glm.Likelihood
	prior       *ntk.Diagonal
	kernel      ntk.Kernel
	theta       []float64
}

// spaceProblems are all likelihoods with one to four outputs, with more
// parameters than outputs of examples and fewer, and with saturated sites,
// where Λ is zero or singular.
func spaceProblems(t *testing.T) []*spaceProblem {
	t.Helper()
	scalar := testref.Must(glm.NewGaussian(0.2))(t)
	vector := testref.Must(glm.NewGaussianVector([]float64{0.2, 0.5, 1}))(t)
	full := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})))(t)
	return []*spaceProblem{
		newSpaceProblem(t, "gaussian", 1, 40, 1, scalar, 1),
		newSpaceProblem(t, "gaussian-few-examples", 2, 5, 4, scalar, 1),
		newSpaceProblem(t, "gaussian-variances", 3, 20, 3, vector, 1),
		newSpaceProblem(t, "gaussian-full-covariance", 4, 30, 2, full, 1),
		newSpaceProblem(t, "bernoulli", 5, 40, 1, glm.Bernoulli{}, 1),
		newSpaceProblem(t, "bernoulli-saturated", 6, 30, 1, glm.Bernoulli{}, 900),
		newSpaceProblem(t, "bernoulli-three", 7, 20, 3, glm.Bernoulli{}, 1),
		newSpaceProblem(t, "categorical-two", 8, 25, 2, glm.Categorical{}, 1),
		newSpaceProblem(t, "categorical", 9, 25, 4, glm.Categorical{}, 1),
		newSpaceProblem(t, "categorical-saturated", 10, 25, 4, glm.Categorical{}, 900),
		newSpaceProblem(t, "poisson", 11, 40, 1, glm.Poisson{}, 0.5),
		newSpaceProblem(t, "poisson-two", 12, 20, 2, glm.Poisson{}, 0.5),
	}
}

// newSpaceProblem draws n examples whose outputs are of size scale.
func newSpaceProblem(t testing.TB, name string, seed uint64, n, c int, lik glm.Likelihood, scale float64) *spaceProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 99))
	q := &spaceProblem{name: name, lik: lik}
	q.train = gptest.RandomBatch(rng, n, c, gptest.Layer{In: 5, Out: 4}, gptest.Layer{Out: 7},
		gptest.Layer{In: 4, Out: 3, Transposed: true}, gptest.Layer{Out: 3, Hidden: true})
	q.test = gptest.Another(rng, q.train, 9)
	for _, b := range []*linearize.Batch{q.train, q.test} {
		b.F.Scale(scale, b.F)
	}
	var mean, variance []float64
	for range q.train.P {
		q.theta = append(q.theta, 0.3*rng.NormFloat64())
		mean = append(mean, 0.1*rng.NormFloat64())
		variance = append(variance, 0.1*math.Exp(0.5*rng.NormFloat64()))
	}
	var err error
	q.prior, err = ntk.NewDiagonal(variance, mean)
	require.NoError(t, err)
	q.kernel = ntk.New(q.prior, q.theta)
	q.y = randomTargets(rng, lik, n, c)
	return q
}

func randomTargets(rng *rand.Rand, lik glm.Likelihood, n, c int) *mat.Dense {
	y := mat.NewDense(n, lik.Targets(c), nil)
	y.Apply(func(_, _ int, _ float64) float64 {
		switch lik.(type) {
		case glm.Categorical:
			return float64(rng.IntN(c))
		case glm.Bernoulli:
			return float64(rng.IntN(2))
		case glm.Poisson:
			return float64(rng.IntN(5))
		}
		return rng.NormFloat64()
	}, y)
	return y
}

func eachSpaceProblem(t *testing.T, f func(t *testing.T, q *spaceProblem)) {
	for _, q := range spaceProblems(t) {
		t.Run(q.name, func(t *testing.T) { f(t, q) })
	}
}

func (q *spaceProblem) sites(t *testing.T) *gp.Sites {
	t.Helper()
	return testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), q.train.F))(t)
}

func (q *spaceProblem) fit(t *testing.T, o *weightspace.Options) *weightspace.Posterior {
	t.Helper()
	w := testref.Must(weightspace.Fit(t.Context(), q.train, q.sites(t), q.prior, q.theta, o))(t)
	require.Empty(t, w.Warnings())
	require.False(t, w.Refitted())
	return w
}

func (q *spaceProblem) refit(t *testing.T) *weightspace.Posterior {
	t.Helper()
	w := testref.Must(weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, nil))(t)
	require.Empty(t, w.Warnings())
	require.True(t, w.Refitted())
	return w
}

func (q *spaceProblem) exact(t *testing.T, mean gp.Mean) *gp.Exact {
	t.Helper()
	return testref.Must(gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), &gp.Options{Mean: mean}))(t)
}

func (q *spaceProblem) exactRefit(t *testing.T) *gp.Exact {
	t.Helper()
	e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(t)
	require.Empty(t, e.Warnings())
	return e
}

var linearGaussian = &weightspace.Options{Mean: gp.LinearGaussian}

// Rounding of sums of a hundred terms; 5e-15 is what is seen.
const spaceTol = 1e-12

// weight space = function space, at the sites of θ*: mean and covariance (E6),
// log det, (E7), (E8).
func TestE6WeightSpaceIsFunctionSpace(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		c, err := weightspace.Validate(t.Context(), q.exact(t, gp.LinearGaussian), q.fit(t, linearGaussian), q.test, spaceTol)
		require.NoError(t, err)
		requireRows(t, c, "mean", "covariance", "log det", "log evidence at θ* (E7)", "log evidence, linear-Gaussian (E8)")
		requireSameJoint(t, q.fit(t, linearGaussian), q.exact(t, gp.LinearGaussian), q.test)
	})
}

// The same at the mode of the linearized model, which both find by themselves.
func TestE9WeightSpaceIsFunctionSpace(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		w, e := q.refit(t), q.exactRefit(t)
		c := testref.Must(weightspace.Validate(t.Context(), e, w, q.test, spaceTol))(t)
		requireRows(t, c, "refit mean", "refit covariance", "refit log det", "refit log evidence (E9)")
		requireSameJoint(t, w, e, q.test)
		requireNear(t, "linear-Gaussian evidence at the mode", w.EvidenceLinearGaussian().Value, testref.Must(e.EvidenceLinearGaussian(t.Context()))(t).Value, spaceTol)

		// Refit from a Fit gives the same bits.
		again := testref.Must(q.fit(t, nil).Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
		require.Equal(t, w.Mean(), again.Mean())
		require.Equal(t, w.EvidenceRefit(), again.EvidenceRefit())
	})
}

func requireRows(t *testing.T, c *weightspace.Comparison, names ...string) {
	t.Helper()
	var got []string
	for _, r := range c.Rows {
		got = append(got, r.Quantity)
		t.Logf("%-35s %22.15g %22.15g %9.2g", r.Quantity, r.WeightSpace, r.FunctionSpace, r.Difference)
		require.True(t, r.OK, "%s: weight space %v, function space %v, off by %.3g, tolerance %.3g",
			r.Quantity, r.WeightSpace, r.FunctionSpace, r.Difference, r.Tolerance)
	}
	require.Equal(t, names, got)
	require.True(t, c.OK())
}

func requireSameJoint(t *testing.T, a, b gp.Latent, x *linearize.Batch) {
	t.Helper()
	var ma, ca, mb, cb mat.Dense
	require.NoError(t, a.JointTo(t.Context(), &ma, &ca, x))
	require.NoError(t, b.JointTo(t.Context(), &mb, &cb, x))
	requireMatrix(t, "joint mean", &ma, &mb, spaceTol)
	requireMatrix(t, "joint covariance", &ca, &cb, spaceTol)
}

// requireMatrix fails where an entry differs by more than rel times the
// largest entry of want.
func requireMatrix(t *testing.T, what string, got, want mat.Matrix, rel float64) {
	t.Helper()
	r, c := want.Dims()
	gr, gc := got.Dims()
	require.Equal(t, [2]int{r, c}, [2]int{gr, gc}, what)
	scale := math.Max(mat.Max(want), -mat.Min(want))
	for i := range r {
		for j := range c {
			if d := math.Abs(got.At(i, j) - want.At(i, j)); !(d <= rel*scale) {
				t.Fatalf("%s: entry (%d, %d) is %v, want %v; off by %.3g of the largest, tolerance %.3g",
					what, i, j, got.At(i, j), want.At(i, j), d/scale, rel)
			}
		}
	}
}

func requireNear(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= rel*math.Max(1, math.Abs(want))) {
		t.Fatalf("%s is %v, want %v; off by %.3g, tolerance %.3g", what, got, want, d, rel)
	}
}

func vector(v []float64) *mat.Dense { return mat.NewDense(len(v), 1, append([]float64(nil), v...)) }

func jacobian(b *linearize.Batch) *mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	return &j
}

// dense returns H and H⁻¹ formed and inverted the dumb way, and Jᵀb.
func (q *spaceProblem) dense(t *testing.T, s *gp.Sites) (h, inv, jb *mat.Dense) {
	t.Helper()
	p := len(q.theta)
	mu, variance := make([]float64, p), make([]float64, p)
	q.prior.MeanTo(mu)
	q.prior.VarianceTo(variance)
	j := jacobian(q.train)
	nc, _ := j.Dims()
	c := q.train.Outputs()
	lambda := mat.NewDense(nc, nc, nil)
	for i := range nc {
		for k := range c {
			lambda.Set(i, i/c*c+k, s.Lambda.At(i, k))
		}
	}
	h, inv, jb = new(mat.Dense), new(mat.Dense), new(mat.Dense)
	var lj, b mat.Dense
	lj.Mul(lambda, j)
	h.Mul(j.T(), &lj)
	shift := mat.NewDense(p, 1, nil)
	for i := range p {
		h.Set(i, i, h.At(i, i)+1/variance[i])
		shift.Set(i, 0, q.theta[i]-mu[i])
	}
	require.NoError(t, inv.Inverse(h))
	// f − m = s.F − F + J(θ* − μ₀) with sites at x.F
	b.Mul(j, shift)
	b.Mul(lambda, &b)
	for i := range nc {
		b.Set(i, 0, b.At(i, 0)+s.Residual.At(i/c, i%c))
	}
	jb.Mul(j.T(), &b)
	return h, inv, jb
}

// H = JᵀΛJ + Σ₀⁻¹, θ̂ = μ₀ + H⁻¹Jᵀb, cov = J H⁻¹ Jᵀ and
// log det H + log det Σ₀, against explicit inverses.
func TestE5WeightMeanAgainstInverse(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		w := q.fit(t, nil)
		h, inv, jb := q.dense(t, w.Sites())
		mu, variance := make([]float64, len(q.theta)), make([]float64, len(q.theta))
		q.prior.MeanTo(mu)
		q.prior.VarianceTo(variance)
		var mean mat.Dense
		mean.Mul(inv, jb)
		mean.Add(&mean, vector(mu))
		// The dumb H has a condition number of up to 1e4.
		requireMatrix(t, "θ̂", vector(w.Mean()), &mean, 1e-10)

		logDet, _ := mat.LogDet(h)
		for _, v := range variance {
			logDet += math.Log(v)
		}
		requireNear(t, "log det", w.LogDet(), logDet, 1e-11)

		var want, cov mat.Dense
		want.Product(jacobian(q.test), inv, jacobian(q.test).T())
		require.NoError(t, w.JointTo(t.Context(), nil, &cov, q.test))
		requireMatrix(t, "joint covariance", &cov, &want, 1e-10)
	})
}

// A refit ends where the gradient Jᵀr − Σ₀⁻¹(θ−μ₀) vanishes at f_lin(θ̂), and
// no other point nearby has a higher objective.
func TestE9RefitIsTheMode(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		w := q.refit(t)
		p := len(q.theta)
		f := q.linear(w.Mean())
		s := testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), f))(t)
		mu, variance := make([]float64, p), make([]float64, p)
		q.prior.MeanTo(mu)
		q.prior.VarianceTo(variance)
		grad := make([]float64, p)
		q.train.MulTransVecTo(grad, mat.DenseCopyOf(s.Residual).RawMatrix().Data)
		for i := range grad {
			// r and θ̂ have sizes up to 1e3 here.
			require.InDelta(t, 0, grad[i]-(w.Mean()[i]-mu[i])/variance[i], 1e-8, "gradient %d", i)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		best := q.objective(t, w.Mean())
		for range 20 {
			v := append([]float64(nil), w.Mean()...)
			for i := range v {
				v[i] += 1e-3 * math.Sqrt(variance[i]) * rng.NormFloat64()
			}
			require.Less(t, q.objective(t, v), best)
		}
		e := w.EvidenceRefit()
		requireNear(t, "objective", e.LogLik-e.Scatter/2, best, 1e-12)
		requireMatrix(t, "f̂ of the sites", w.Sites().F, f, 1e-11)
	})
}

// linear returns f_lin(θ) (E1) at the training examples, N×C.
func (q *spaceProblem) linear(theta []float64) *mat.Dense {
	var f mat.Dense
	d := vector(theta)
	d.Sub(d, vector(q.theta))
	f.Mul(jacobian(q.train), d)
	n, c := q.train.F.Dims()
	out := mat.NewDense(n, c, f.RawMatrix().Data)
	out.Add(out, q.train.F)
	return out
}

func (q *spaceProblem) objective(t *testing.T, theta []float64) float64 {
	t.Helper()
	s := testref.Must(gp.NewSites(gp.NewTargets(q.y, q.lik), q.linear(theta)))(t)
	return s.LogLik - gp.Scatter(q.prior, theta)/2
}

// The mean of a fit is f(x;θ*) by default, that of the linear-Gaussian model
// where it is asked for; the center of the draws goes with it.
func TestWeightsMeanConvention(t *testing.T) {
	q := spaceProblems(t)[0]
	var mean mat.Dense
	w := q.fit(t, nil)
	require.NoError(t, w.PredictTo(t.Context(), &mean, nil, q.test))
	require.True(t, mat.Equal(&mean, q.test.F))
	require.Equal(t, q.theta, w.Center())

	own := q.fit(t, linearGaussian)
	require.Equal(t, own.Mean(), own.Center())
	require.Equal(t, w.Mean(), own.Mean())
	require.NoError(t, own.PredictTo(t.Context(), &mean, nil, q.test))
	require.False(t, mat.Equal(&mean, q.test.F))
	r := q.refit(t)
	require.Equal(t, r.Mean(), r.Center())
	// A Gaussian's refit is its linear-Gaussian model.
	requireMatrix(t, "refit of a Gaussian", vector(r.Mean()), vector(w.Mean()), 1e-12)
}

func TestWeightsAreLatent(t *testing.T) {
	for _, i := range []int{0, 3, 8, 9} {
		q := spaceProblems(t)[i]
		t.Run(q.name, func(t *testing.T) {
			gptest.Latent(t, gptest.LatentCase{
				// Sums of up to P terms in another order.
				Latent: q.refit(t), Kernel: q.kernel, Test: q.test, Tol: 1e-13,
			})
		})
	}
}

// Panels of the training examples and tiles of the test examples join without
// a seam, whatever the number of processors.
func TestWeightsManyPanels(t *testing.T) {
	q := newSpaceProblem(t, "panels", 21, 700, 2, glm.Bernoulli{}, 1)
	w := q.fit(t, linearGaussian)
	_, inv, _ := q.dense(t, w.Sites())
	rng := rand.New(rand.NewPCG(5, 5))
	x := gptest.Another(rng, q.train, 300)
	var cov, want mat.Dense
	want.Product(jacobian(x), inv, jacobian(x).T())
	require.NoError(t, w.PredictTo(t.Context(), nil, &cov, x))
	for n := range 300 {
		requireMatrix(t, "covariance", cov.Slice(2*n, 2*n+2, 0, 2), want.Slice(2*n, 2*n+2, 2*n, 2*n+2), 1e-9)
	}
	for _, procs := range []int{1, 2, 4} {
		testref.Procs(t, procs)
		again := q.fit(t, &weightspace.Options{Mean: gp.LinearGaussian})
		require.Equal(t, w.Mean(), again.Mean())
		require.Equal(t, w.LogDet(), again.LogDet())
	}
}

// Far from the mode a whole Newton step overshoots, at a far enough start until
// exp(f) overflows; the line search finds the mode all the same, and the one
// that gp finds.
func TestE9LineSearch(t *testing.T) {
	for _, wide := range []float64{1, 1000} {
		q := newSpaceProblem(t, "far", 26, 40, 1, glm.Poisson{}, 0.5)
		for i, f := range q.train.F.RawMatrix().Data {
			q.train.F.Set(i, 0, f-9)
		}
		mean, variance := make([]float64, len(q.theta)), make([]float64, len(q.theta))
		q.prior.MeanTo(mean)
		q.prior.VarianceTo(variance)
		floats.Scale(wide, variance)
		var err error
		q.prior, err = ntk.NewDiagonal(variance, mean)
		require.NoError(t, err)
		q.kernel = ntk.New(q.prior, q.theta)
		steps := 0
		w, err := weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, &weightspace.Options{
			Limits: linearize.Limits{Progress: func(stage string, _, _ int) {
				if stage == gp.StageNewton {
					steps++
				}
			}},
		})
		require.NoError(t, err)
		require.Empty(t, w.Warnings())
		t.Logf("prior variance × %v: %d steps", wide, steps)
		c, err := weightspace.Validate(t.Context(), q.exactRefit(t), w, q.test, 1e-10)
		require.NoError(t, err)
		require.True(t, c.OK(), "%v", c.Rows)
	}
}

// Draws of θ have the moments of N(center, H⁻¹).
func TestWeightSamples(t *testing.T) {
	q := newSpaceProblem(t, "samples", 22, 6, 1, glm.Bernoulli{}, 1)
	w := q.fit(t, linearGaussian)
	_, inv, _ := q.dense(t, w.Sites())
	const s = 20000
	p := len(q.theta)
	draws := mat.NewDense(s, p, nil)
	w.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(3, 4)))
	sum, second := make([]float64, p), mat.NewSymDense(p, nil)
	d := mat.NewVecDense(p, nil)
	for i := range s {
		for j, v := range draws.RawRowView(i) {
			d.SetVec(j, v-w.Mean()[j])
			sum[j] += v
		}
		second.SymRankOne(second, 1, d)
	}
	for i := range p {
		// Five standard errors: 1 in 2 million for each of some hundred numbers.
		require.InDelta(t, w.Mean()[i], sum[i]/s, 5*math.Sqrt(inv.At(i, i)/s))
		for j := range i + 1 {
			se := math.Sqrt((inv.At(i, i)*inv.At(j, j) + inv.At(i, j)*inv.At(i, j)) / s)
			require.InDelta(t, inv.At(i, j), second.At(i, j)/s, 5*se)
		}
	}
	first := mat.NewDense(1, p, nil)
	w.SampleTo(t.Context(), first, rand.New(rand.NewPCG(3, 4)))
	require.Equal(t, draws.RawRowView(0), first.RawRowView(0), "a draw does not depend on how many follow")
	require.PanicsWithValue(t, "weightspace: destination is not S×P", func() { w.SampleTo(t.Context(), new(mat.Dense), nil) })
}

// A prior variance of zero holds the parameter at its prior mean.
func TestWeightsZeroVariance(t *testing.T) {
	q := newSpaceProblem(t, "zero", 23, 20, 2, glm.Categorical{}, 1)
	mu, variance := make([]float64, len(q.theta)), make([]float64, len(q.theta))
	q.prior.MeanTo(mu)
	q.prior.VarianceTo(variance)
	for i := 0; i < len(variance); i += 3 {
		variance[i] = 0
	}
	prior := rawPrior{mu, variance}
	w := testref.Must(weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), prior, q.theta, nil))(t)
	e := testref.Must(gp.Refit(t.Context(), ntk.New(prior, q.theta), q.train, gp.NewTargets(q.y, q.lik), nil))(t)
	for i, v := range variance {
		require.Equal(t, v == 0, w.Mean()[i] == mu[i])
	}
	c := testref.Must(weightspace.Validate(t.Context(), e, w, q.test, spaceTol))(t)
	require.True(t, c.OK(), "%v", c.Rows)
}

type rawPrior struct{ mean, variance []float64 }

func (p rawPrior) MeanTo(dst []float64)     { copy(dst, p.mean) }
func (p rawPrior) VarianceTo(dst []float64) { copy(dst, p.variance) }

// Where no site holds information the posterior is the prior.
func TestWeightsWithoutInformation(t *testing.T) {
	q := spaceProblems(t)[0]
	s := q.sites(t)
	s.Residual.Zero()
	s.Lambda.Zero()
	s.Root.Zero()
	w := testref.Must(weightspace.Fit(t.Context(), q.train, s, q.prior, q.theta, linearGaussian))(t)
	mu := make([]float64, len(q.theta))
	q.prior.MeanTo(mu)
	require.Equal(t, mu, w.Mean())
	require.Zero(t, w.LogDet())
	var cov, want mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), nil, &cov, q.test))
	q.kernel.DiagTo(&want, q.test)
	requireMatrix(t, "covariance", &cov, &want, 1e-14)
}

func TestWeightsRefuse(t *testing.T) {
	fit := func(q *spaceProblem, o *weightspace.Options) error {
		_, err := weightspace.Fit(t.Context(), q.train, q.sites(t), q.prior, q.theta, o)
		return err
	}
	q := spaceProblems(t)[8]

	memory := testref.As[*gp.MemoryError](t, fit(q, &weightspace.Options{Limits: linearize.Limits{Memory: 20000}}))
	require.Equal(t, gp.Parameters, memory.Unit)
	require.Equal(t, weightspace.Bytes(q.train.P, 4), memory.Needed)
	require.LessOrEqual(t, weightspace.Bytes(memory.Largest, 4), memory.Available)
	require.Greater(t, weightspace.Bytes(memory.Largest+1, 4), memory.Available)
	require.ErrorContains(t, memory, "function space")
	for _, p := range []int{math.MaxInt, 1 << 61, 1 << 32, 1 << 31} {
		require.EqualValues(t, math.MaxInt64, weightspace.Bytes(p, 3))
	}

	bytes := weightspace.Bytes(q.train.P, 4)
	w := q.fit(t, &weightspace.Options{Limits: linearize.Limits{Memory: bytes}})
	var joint *gp.MemoryError
	many := gptest.Another(rand.New(rand.NewPCG(1, 2)), q.train, 800)
	require.ErrorAs(t, w.JointTo(t.Context(), nil, new(mat.Dense), many), &joint)
	require.Less(t, joint.Largest, 800)
	require.NoError(t, w.JointTo(t.Context(), nil, new(mat.Dense), many.Slice(0, joint.Largest)))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(weightspace.Fit(ctx, q.train, q.sites(t), q.prior, q.theta, nil)), context.Canceled)
	_, err := weightspace.Refit(ctx, q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = weightspace.Fit(t.Context(), &linearize.Batch{F: new(mat.Dense), P: 1}, &gp.Sites{F: new(mat.Dense)}, q.prior, []float64{0}, nil)
	require.ErrorContains(t, err, "no training examples")

	_, err = weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, &weightspace.Options{Limits: linearize.Limits{Memory: 20000}})
	require.ErrorAs(t, err, &memory)
	y := mat.DenseCopyOf(q.y)
	y.Set(7, 0, 4)
	_, err = weightspace.Refit(t.Context(), q.train, gp.NewTargets(y, q.lik), q.prior, q.theta, nil)
	require.ErrorContains(t, err, "example 7")

	s := q.sites(t)
	s.Residual.Set(3, 1, math.NaN())
	var nan *gp.NotFiniteError
	require.ErrorAs(t, testref.Err(weightspace.Fit(t.Context(), q.train, s, q.prior, q.theta, nil)), &nan)
	require.Equal(t, []any{"residual", 3, 1}, []any{nan.What, nan.Row, nan.Output})

	huge := make([]float64, len(q.theta))
	for i := range huge {
		huge[i] = 1e300
	}
	var precision *gp.NotPDError
	_, err = weightspace.Fit(t.Context(), q.train, q.sites(t), rawPrior{make([]float64, len(huge)), huge}, q.theta, nil)
	require.NoError(t, err, "1e300 in the prior variance still fits")
	s = q.sites(t)
	s.Root.Scale(1e300, s.Root)
	require.ErrorAs(t, testref.Err(weightspace.Fit(t.Context(), q.train, s, q.prior, q.theta, nil)), &precision)
	require.Equal(t, q.train.P, precision.N)
	require.ErrorContains(t, precision, "parameters with 49 rows")
}

// A NaN in the Jacobian is found and placed, in training and in test examples.
func TestWeightsNaNInJacobian(t *testing.T) {
	q := newSpaceProblem(t, "nan", 24, 300, 2, glm.Bernoulli{}, 1)
	full := func(b *linearize.Batch) *mat.Dense { return b.Blocks[1].(*linearize.Full).J }
	var nan *gp.NotFiniteError

	x := gptest.Another(rand.New(rand.NewPCG(1, 3)), q.train, 600)
	full(x).Set(2*571+1, 2, math.Inf(1))
	w := q.fit(t, nil)
	require.ErrorAs(t, w.PredictTo(t.Context(), nil, new(mat.Dense), x), &nan)
	require.Equal(t, []any{"Jacobian", 571, 1}, []any{nan.What, nan.Row, nan.Output})
	require.ErrorAs(t, w.JointTo(t.Context(), nil, new(mat.Dense), x), &nan)
	require.Equal(t, 571, nan.Row)
	x.F.Set(400, 1, math.NaN())
	require.ErrorAs(t, w.PredictTo(t.Context(), new(mat.Dense), nil, x), &nan)
	require.Equal(t, []any{"predictive mean", 400, 1}, []any{nan.What, nan.Row, nan.Output})

	sites := q.sites(t)
	full(q.train).Set(2*277, 0, math.NaN())
	require.ErrorAs(t, testref.Err(weightspace.Fit(t.Context(), q.train, sites, q.prior, q.theta, nil)), &nan)
	require.Equal(t, []any{"Jacobian", 277, 0}, []any{nan.What, nan.Row, nan.Output})
}

func TestWeightsPanics(t *testing.T) {
	q := spaceProblems(t)[0]
	fit := func(prior ntk.Prior, theta []float64, o *weightspace.Options) func() {
		return func() { weightspace.Fit(t.Context(), q.train, q.sites(t), prior, theta, o) }
	}
	require.PanicsWithValue(t, "weightspace: the length of theta is not the batch's number of parameters", fit(q.prior, q.theta[1:], nil))
	bad := rawPrior{make([]float64, len(q.theta)), make([]float64, len(q.theta))}
	bad.variance[3] = -1
	require.PanicsWithValue(t, "newton: prior variance is not finite and nonnegative", fit(bad, q.theta, nil))
	require.PanicsWithValue(t, "weightspace: invalid options", fit(q.prior, q.theta, &weightspace.Options{MaxIter: -1}))
	require.PanicsWithValue(t, "weightspace: sites and examples differ in size", func() {
		weightspace.Fit(t.Context(), q.train.Slice(0, 3), q.sites(t), q.prior, q.theta, nil)
	})
	require.PanicsWithValue(t, "weightspace: the evidence (E9) needs a refit", func() { q.fit(t, nil).EvidenceRefit() })
	other := spaceProblems(t)[3]
	require.PanicsWithValue(t, "weightspace: inputs do not fit the training examples", func() { q.fit(t, nil).PredictTo(t.Context(), nil, nil, other.test) })
}

// Progress is told of every example, and of every Newton step; steps run out
// with a warning.
func TestWeightsProgressAndIterations(t *testing.T) {
	q := newSpaceProblem(t, "progress", 25, 1100, 2, glm.Bernoulli{}, 1)
	var done []int
	newton := 0
	w := testref.Must(weightspace.Refit(t.Context(), q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, &weightspace.Options{
		MaxIter: 1,
		Limits: linearize.Limits{Progress: func(stage string, n, total int) {
			if stage == gp.StageNewton {
				newton++
				return
			}
			require.Equal(t, []any{weightspace.StagePrecision, 1100}, []any{stage, total})
			done = append(done, n)
		}},
	}))(t)
	require.Equal(t, []int{0, 1024, 1100, 0, 1024, 1100}, done)
	require.Equal(t, 2, newton)
	require.Greater(t, testkit.RequireWarnings(t, w.Warnings(), "refit-steps", "refit-gap")[1].Value, 1e-6)
}
