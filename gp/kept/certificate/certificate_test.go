package certificate_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A thinned is a posterior on kept rows with the problem it is of.
type thinned struct {
	train, test *linearize.Batch
	sites       *gp.Sites
	kernel      *ntk.NTK
	prior       ntk.Prior
	theta       []float64
	post        *gp.Thinned
}

// fit keeps the rows that o says.
func (p thinned) fit(t *testing.T, o *gp.KeepOptions) thinned {
	t.Helper()
	k := testref.Must(gp.Keep(t.Context(), p.kernel, p.train, p.sites, o))(t)
	p.post = testref.Must(gp.FitKept(t.Context(), p.kernel, p.train, p.sites, k, nil))(t)
	return p
}

func (p thinned) certify(t *testing.T, o certificate.Options) *certificate.Certificate {
	t.Helper()
	return testref.Must(certificate.Certify(t.Context(), p.post, p.train, p.sites, p.prior, p.theta, &o))(t)
}

// exact returns the covariances of the test examples given all rows.
func (p thinned) exact(t *testing.T) *mat.Dense {
	t.Helper()
	exact := testref.Must(gp.Fit(t.Context(), p.kernel, p.train, p.sites, nil))(t)
	all := new(mat.Dense)
	require.NoError(t, exact.PredictTo(t.Context(), nil, all, p.test))
	return all
}

// logDet returns log det B of all rows.
func (p thinned) logDet(t *testing.T) float64 {
	t.Helper()
	var k mat.Dense
	p.kernel.BlockTo(&k, p.train, p.train)
	r := testkit.Whole(p.sites.Root)
	return testkit.LogDet(testkit.Plus(testkit.Identity(p.train.Len()*p.train.Outputs()), 1, testkit.Product(r.T(), &k, r)))
}

// m returns M from whole matrices: S(K − K_·k (Λ_k⁻¹ + K_kk)⁻¹ K_k·)Sᵀ.
func (p thinned) m(t *testing.T) *mat.SymDense {
	t.Helper()
	d := testref.Must(p.post.Kept().Dropped(t.Context(), p.sites))(t)
	c := p.train.Outputs()
	rows := func(k *gp.Kept) *mat.Dense {
		if k.Len() == 0 {
			return new(mat.Dense)
		}
		s := mat.NewDense(k.Len(), p.train.Len()*c, nil)
		for j, i := range k.Examples {
			for a, u := range k.Directions.RawRowView(j) {
				s.Set(j, i*c+a, math.Sqrt(k.Lambda[j])*u)
			}
		}
		return s
	}
	var k mat.Dense
	p.kernel.BlockTo(&k, p.train, p.train)
	drop, keep := rows(d), rows(p.post.Kept())
	if d.Len() == 0 {
		return nil
	}
	prior, cross := testkit.Product(drop, &k, drop.T()), testkit.Product(drop, &k, keep.T())
	b := testkit.Plus(testkit.Identity(p.post.Kept().Len()), 1, testkit.Product(keep, &k, keep.T()))
	m := testkit.Plus(prior, -1, testkit.Product(cross, testkit.Inverse(t, b), cross.T()))
	sym := mat.NewSymDense(d.Len(), nil)
	for i := range d.Len() {
		for j := i; j < d.Len(); j++ {
			sym.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	return sym
}

// truth returns t, ‖M‖₂ and log det(I + M).
func (p thinned) truth(t *testing.T) (trace, norm, logDet float64) {
	t.Helper()
	m := p.m(t)
	if m == nil {
		return 0, 0, 0
	}
	for _, v := range values(t, m) {
		trace, norm, logDet = trace+v, max(norm, v), logDet+math.Log1p(v)
	}
	return trace, norm, logDet
}

func values(t *testing.T, m mat.Symmetric) []float64 {
	t.Helper()
	var e mat.EigenSym
	require.True(t, e.Factorize(m, true)) // without vectors gonum panics where entries are tiny
	return e.Values(nil)
}

// requireOrder checks a ⪯ b for all C×C blocks, to rounding.
func requireOrder(t *testing.T, a, b mat.Matrix, what string) {
	t.Helper()
	rows, c := a.Dims()
	for lo := 0; lo < rows; lo += c {
		d, scale := mat.NewSymDense(c, nil), 0.0
		for i := range c {
			for j := i; j < c; j++ {
				d.SetSym(i, j, b.At(lo+i, j)-a.At(lo+i, j))
				scale = max(scale, math.Abs(b.At(lo+i, j)), math.Abs(a.At(lo+i, j)))
			}
		}
		require.GreaterOrEqual(t, values(t, d)[0], -1e-9*scale, "%s, example %d", what, lo/c)
	}
}

func scaled(s float64, m mat.Matrix) *mat.Dense {
	to := new(mat.Dense)
	to.Scale(s, m)
	return to
}

func ofProblem(q *testkit.Problem, s *gp.Sites) thinned {
	return thinned{train: q.Train, test: q.Test, sites: s, kernel: q.Kernel, prior: q.Prior, theta: q.Theta}
}

// each runs do on problems with every likelihood, with a few of their rows kept.
func each(t *testing.T, do func(t *testing.T, p thinned)) {
	t.Helper()
	problems := append(testkit.Problems(t), testkit.Heteroscedastic(), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3))
	for _, q := range problems {
		t.Run(q.Name, func(t *testing.T) {
			p := ofProblem(q, q.Sites(t))
			all := p.fit(t, nil).post.Kept().Len()
			for _, keep := range []int{all, 3 * all / 4, all / 4, 1} {
				do(t, p.fit(t, &gp.KeepOptions{Most: max(1, keep)}))
			}
		})
	}
}

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// t, c cᵀ and the log determinant are those of PyTorch at seven thresholds, and its
// inequalities hold (E16).
func TestE16Certificate(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			r := testkit.OpenReference(t, name)
			part := testref.Open(t, "selection/"+name)
			traces := part.Floats("site_dropped_trace")
			p := thinned{train: r.Train, test: r.Test, sites: r.Sites(t), kernel: r.Kernel, prior: r.Prior, theta: r.Net.Theta()}
			exact := p.exact(t)
			for j, threshold := range part.Floats("site_threshold") {
				p := p.fit(t, &gp.KeepOptions{Strength: threshold})
				c := p.certify(t, certificate.Options{Sample: 1e6})
				require.InDelta(t, traces[j], c.TraceM, 1e-8*(1+traces[j]))
				require.Zero(t, c.TraceMError)
				require.InEpsilon(t, part.Scalar("log_det"), c.LogDet[0], 1e-8)
				require.Equal(t, c.LogDet[0], c.LogDet[1])
				p.requireInequalities(t, c, exact)
			}
		})
	}
}

// requireInequalities checks those of the covariances, with what c says of M and all, that
// of all rows.
func (p thinned) requireInequalities(t *testing.T, c *certificate.Certificate, all *mat.Dense) {
	t.Helper()
	kept := new(mat.Dense)
	require.NoError(t, p.post.PredictTo(t.Context(), nil, kept, p.test))
	requireOrder(t, all, kept, "v ⪯ v_k")
	requireOrder(t, kept, scaled(c.VarianceAtMost, all), "v_k ⪯ (1 + ‖M‖)v")
}

// With all dropped rows in memory the numbers are those of whole matrices.
func TestExactly(t *testing.T) {
	each(t, func(t *testing.T, p thinned) {
		c := p.certify(t, certificate.Options{})
		trace, norm, logDet := p.truth(t)
		require.InDelta(t, trace, c.TraceM, 1e-9*(1+trace))
		require.InDelta(t, norm, c.Norm[0], 1e-9*(1+norm))
		require.Equal(t, c.Norm[0], c.Norm[1])
		require.Equal(t, 1+c.Norm[1], c.VarianceAtMost)
		require.InDelta(t, p.post.LogDet()+logDet, c.LogDet[0], 1e-9*(1+logDet))
		require.InEpsilon(t, p.logDet(t), c.LogDet[1], 1e-8)
		require.False(t, c.Sampled)
		require.Zero(t, c.Failure)
		require.Equal(t, c.Rows, c.Dropped)
		require.InEpsilon(t, p.post.Kept().Trace/p.post.Kept().Total, c.Trace, 1e-9)
		p.requireInequalities(t, c, p.exact(t))
	})
}

// With representatives a variance may be too small, but no larger than the certificate says, and the log determinant
// of all rows is in its interval.
func TestRepresented(t *testing.T) {
	each(t, func(t *testing.T, p thinned) {
		own := p.post.Kept()
		rest := testref.Must(own.Dropped(t.Context(), p.sites))(t)
		if rest.Len() < 4 {
			return
		}
		for seed := range uint64(3) {
			p.post = testref.Must(gp.FitKept(t.Context(), p.kernel, p.train, p.sites, own.Represent(rest, rest.Len()/2, seed), nil))(t)
			c := p.certify(t, certificate.Options{Sample: 1e6})
			require.Equal(t, rest.Len(), c.Dropped)
			kept := new(mat.Dense)
			require.NoError(t, p.post.PredictTo(t.Context(), nil, kept, p.test))
			requireOrder(t, kept, scaled(c.VarianceAtMost, p.exact(t)), "v_s ⪯ (1 + ‖M‖)v")
			all := p.logDet(t)
			require.LessOrEqual(t, c.LogDet[0], all*(1+1e-9))
			require.GreaterOrEqual(t, c.LogDet[1], all*(1-1e-9))
		}
	})
}

// Bounds by products with all dropped rows hold, and that of the variance is near.
func TestAll(t *testing.T) {
	each(t, func(t *testing.T, p thinned) {
		trace, norm, _ := p.truth(t)
		exact := p.exact(t)
		for seed := range uint64(3) {
			c := p.certify(t, certificate.Options{Sample: 2, All: true, Seed: seed})
			if c.Dropped <= 2 {
				continue
			}
			require.LessOrEqual(t, math.Abs(c.TraceM-trace), c.TraceMError*(1+1e-9))
			require.LessOrEqual(t, c.Norm[0], norm*(1+1e-9))
			require.GreaterOrEqual(t, c.Norm[1], norm*(1-1e-9))
			require.LessOrEqual(t, c.Norm[1]-norm, 0.02*(1+norm))
			det := p.logDet(t)
			require.LessOrEqual(t, c.LogDet[0], det+1e-9*math.Abs(det))
			require.GreaterOrEqual(t, c.LogDet[1], det-1e-9*math.Abs(det))
			require.Equal(t, 1e-6, c.Failure)
			require.False(t, c.Sampled)
			require.Equal(t, c.Rows, c.Dropped)
			p.requireInequalities(t, c, exact)
		}
	})
}

// A cancelled context ends the call.
func TestCancel(t *testing.T) {
	p := one(t)
	for _, o := range []certificate.Options{{}, {Sample: 10}, {Sample: 10, All: true}} {
		testkit.Stops(t, "certificate", 3, func(ctx context.Context) error {
			_, err := certificate.Certify(ctx, p.post, p.train, p.sites, p.prior, p.theta, &o)
			return err
		})
	}
}

func one(t *testing.T) thinned {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	return ofProblem(q, q.Sites(t)).fit(t, &gp.KeepOptions{Most: 40})
}

// The intervals from samples hold about as often as they say, and that of ‖M‖₂ more often.
func TestSampleCovers(t *testing.T) {
	const seeds = 50
	for _, v := range []struct {
		q    *testkit.Problem
		keep int
	}{
		{testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3), 60},
		{testkit.NewProblem("counts", 12, 150, 1, glm.Poisson{}, 0.5), 18},
		{testkit.NewProblem("sure", 13, 80, 4, glm.Categorical{}, 10), 29},
	} {
		p := ofProblem(v.q, v.q.Sites(t)).fit(t, &gp.KeepOptions{Most: v.keep})
		trace, norm, logDet := p.truth(t)
		logDet += p.post.LogDet()
		for _, sample := range []int{15, 40} {
			var held [3]int
			for seed := range uint64(seeds) {
				c := p.certify(t, certificate.Options{Sample: sample, Seed: seed})
				require.True(t, c.Sampled)
				require.Equal(t, 0.05, c.Failure)
				require.LessOrEqual(t, c.Rows, sample)
				for i, ok := range []bool{
					math.Abs(c.TraceM-trace) <= c.TraceMError,
					c.Norm[0] <= norm && norm <= c.Norm[1],
					c.LogDet[0] <= logDet && logDet <= c.LogDet[1],
				} {
					if ok {
						held[i]++
					}
				}
			}
			for i, least := range [3]int{45, 49, 45} {
				require.GreaterOrEqual(t, held[i], least, "%s, %d rows: %v", v.q.Name, sample, held)
			}
		}
	}
}

// The results do not depend on the number of processors nor on how the examples are
// batched, and products of a network give what those of the source do.
func TestProcessorsAndProducts(t *testing.T) {
	r := testkit.OpenReference(t, "categorical")
	p := thinned{train: r.Train, test: r.Test, sites: r.Sites(t), kernel: r.Kernel, prior: r.Prior, theta: r.Net.Theta()}.fit(t, &gp.KeepOptions{Strength: 0.1})
	products := testref.Must(r.Net.Products(r.X))(t)
	for _, o := range []certificate.Options{{}, {Sample: 20}, {Sample: 20, All: true}, {Sample: 20, All: true, Products: products}} {
		testref.Procs(t, 1)
		want := p.certify(t, o)
		for _, procs := range []int{2, 5} {
			testref.Procs(t, procs)
			require.Equal(t, want, p.certify(t, o))
		}
	}
	plain := p.certify(t, certificate.Options{Sample: 20, All: true})
	fast := p.certify(t, certificate.Options{Sample: 20, All: true, Products: products})
	require.InEpsilon(t, plain.Norm[1], fast.Norm[1], 1e-5)
	require.InEpsilon(t, plain.TraceM, fast.TraceM, 1e-5)
}

// What does not fit into memory is refused with what would, and options out of range and
// data of other sizes panic.
func TestRefusals(t *testing.T) {
	p := one(t)
	var memory *gp.MemoryError
	for _, o := range []certificate.Options{{Limits: linearize.Limits{Memory: 1000}}, {Sample: 10, Limits: linearize.Limits{Memory: 1000}}, {Sample: 10, All: true, Limits: linearize.Limits{Memory: 1000}}} {
		_, err := certificate.Certify(t.Context(), p.post, p.train, p.sites, p.prior, p.theta, &o)
		require.ErrorAs(t, err, &memory)
		require.Positive(t, memory.Largest)
	}
	for _, sample := range []int{-1, 1} {
		require.Panics(t, func() { p.certify(t, certificate.Options{Sample: sample}) })
	}
	require.Panics(t, func() {
		_, _ = certificate.Certify(t.Context(), p.post, p.train.Slice(0, 3), p.sites, p.prior, p.theta, nil)
	})
	require.Panics(t, func() {
		_, _ = certificate.Certify(t.Context(), p.post, p.train, p.sites, p.prior, p.theta[1:], nil)
	})
}

// A covariance that is not finite is named.
func TestNotFinite(t *testing.T) {
	p := one(t)
	bad, block := *p.train, *p.train.Blocks[0].(*linearize.Outer)
	block.G = scaled(math.NaN(), block.G)
	bad.Blocks = append([]linearize.Block{&block}, bad.Blocks[1:]...)
	for _, o := range []certificate.Options{{}, {Sample: 10}, {Sample: 10, All: true}} {
		var notFinite *gp.NotFiniteError
		_, err := certificate.Certify(t.Context(), p.post, &bad, p.sites, p.prior, p.theta, &o)
		require.ErrorAs(t, err, &notFinite)
	}
}

// A prior or a θ* that is not that of the posterior's kernel is refused, with the numbers
// of both.
func TestOtherPrior(t *testing.T) {
	p := one(t)
	variance, mean := make([]float64, len(p.theta)), make([]float64, len(p.theta))
	p.prior.VarianceTo(variance)
	p.prior.MeanTo(mean)
	changed := func(of []float64) []float64 {
		to := slices.Clone(of)
		to[2]++
		return to
	}
	for says, numbers := range map[string][2][]float64{
		fmt.Sprintf("has the prior variance %v for parameter 2, the prior given has %v", variance[2], variance[2]+1):              {changed(variance), mean},
		fmt.Sprintf("the prior mean of parameter 2 is %v from θ*, in what is given %v", mean[2]-p.theta[2], mean[2]+1-p.theta[2]): {variance, changed(mean)},
	} {
		other := testref.Must(ntk.NewDiagonal(numbers[0], numbers[1]))(t)
		var wrong *certificate.PriorError
		_, err := certificate.Certify(t.Context(), p.post, p.train, p.sites, other, p.theta, nil)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, 2, wrong.Of.Parameter)
		require.ErrorContains(t, err, says)
	}
}
