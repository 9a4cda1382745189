package gp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// tol is for random problems whose B has a condition number of 1e3 to 1e5:
// double precision leaves eleven digits. With 900 for the outputs' size the
// explicit inverses of the tests lose two more.
const tol = 1e-9

func TestE4(t *testing.T) { // Λ = R Rᵀ, log det B in function and in weight space
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		r := whole(s.Root)
		requireClose(t, "R Rᵀ", product(r, r.T()), whole(s.Lambda), 1e-14)
		b := plus(identity(q.n*q.c), 1, product(r.T(), q.kTrain, r))
		got := q.fit(t, nil).EvidenceAtTheta(0).LogDet
		requireNumber(t, "log det B", got, logDet(b), tol)
		// log det B = log det(Σ₀⁻¹ + JᵀΛJ) + log det Σ₀
		h := plus(q.sigmaInv, 1, product(q.jTrain.T(), whole(s.Lambda), q.jTrain))
		requireNumber(t, "log det B by weights", got, logDet(h)+logDet(q.sigma), tol)
	})
}

func TestE5(t *testing.T) { // b = r + Λ(f − m), α = (I + ΛK)⁻¹b
	each(t, func(t *testing.T, q *problem) {
		s, e := q.sites(t), q.fit(t, nil)
		lambda := whole(s.Lambda)
		b := plus(column(s.Residual), 1, product(lambda, plus(q.fTrain, -1, q.priorTrain)))
		requireClose(t, "b", vec(e.PseudoTargets()), b, 1e-12)
		alpha := product(inverse(t, plus(identity(q.n*q.c), 1, product(lambda, q.kTrain))), b)
		requireClose(t, "α", vec(e.Alpha()), alpha, tol)
		requireClose(t, "m", vec(e.PriorMean()), q.priorTrain, 1e-12)
	})
}

func TestE5AlphaIsResidualAtMode(t *testing.T) { // at a mode α = r
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		requireClose(t, "α", vec(e.Alpha()), column(e.Sites().Residual), 1e-9)
	})
}

func TestE6(t *testing.T) { // the posterior in function space is that of the weights
	each(t, func(t *testing.T, q *problem) {
		e := q.fit(t, &gp.Options{Mean: gp.LinearGaussian})
		v, cov := q.weights(t, q.sites(t))
		wantMean := plus(column(q.test.F), 1, product(q.jTest, plus(v, -1, vec(q.theta))))
		wantCov := product(q.jTest, cov, q.jTest.T())

		var mean, marginal, joint mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, &marginal, q.test))
		requireClose(t, "mean", column(&mean), wantMean, tol)
		requireClose(t, "covariance", &marginal, diagonalBlocks(wantCov, q.c), tol)
		require.NoError(t, e.JointTo(t.Context(), nil, &joint, q.test))
		requireClose(t, "joint covariance", &joint, wantCov, tol)

		// With Options.Mean = Network it is the network's output, exactly.
		require.NoError(t, q.fit(t, nil).PredictTo(t.Context(), &mean, nil, q.test))
		requireClose(t, "network mean", &mean, q.test.F, 0)
	})
}

func TestE7(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		r := whole(s.Root)
		scatter := product(q.shift.T(), q.sigmaInv, q.shift).At(0, 0)
		requireNumber(t, "scatter", gp.Scatter(q.kernel.densePrior, q.theta), scatter, 1e-12)
		got := q.fit(t, nil).EvidenceAtTheta(scatter)
		// Σ log p − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det B
		want := s.LogLik - scatter/2 - logDet(plus(identity(q.n*q.c), 1, product(r.T(), q.kTrain, r)))/2
		requireNumber(t, "evidence", got.Value, want, tol)
		require.Equal(t, gp.Evidence{Value: got.Value, LogLik: s.LogLik, Scatter: scatter, LogDet: got.LogDet}, got)
	})
}

func TestE8(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		r, lambda := whole(s.Root), whole(s.Lambda)
		v, _ := q.weights(t, s)
		d := product(q.jTrain, plus(v, -1, vec(q.theta)))
		dv := plus(v, -1, vec(q.mean))
		logLik := s.LogLik + product(column(s.Residual).T(), d).At(0, 0) - product(d.T(), lambda, d).At(0, 0)/2
		scatter := product(dv.T(), q.sigmaInv, dv).At(0, 0)
		want := logLik - scatter/2 - logDet(plus(identity(q.n*q.c), 1, product(r.T(), q.kTrain, r)))/2
		got := linearGaussian(t, q.fit(t, nil))
		requireNumber(t, "evidence", got.Value, want, tol)
		requireNumber(t, "expected log likelihood", got.LogLik, logLik, tol)
		requireNumber(t, "αᵀKα", got.Scatter, scatter, tol)
	})
}

// With a Gaussian likelihood (E8) is the marginal likelihood log N(y; m, K+S),
// wherever the sites are expanded.
func TestE8IsMarginalLikelihoodOfGaussian(t *testing.T) {
	for _, q := range problems(t)[:2] {
		t.Run(q.name, func(t *testing.T) {
			noise := inverse(t, whole(q.sites(t).Lambda))
			cov := plus(q.kTrain, 1, noise)
			d := plus(column(q.y), -1, q.priorTrain)
			want := -product(d.T(), inverse(t, cov), d).At(0, 0)/2 - logDet(cov)/2 - float64(q.n*q.c)*math.Log(2*math.Pi)/2
			requireNumber(t, "at θ*", linearGaussian(t, q.fit(t, nil)).Value, want, tol)
			requireNumber(t, "at the refit", q.refit(t, nil).EvidenceRefit().Value, want, tol)
		})
	}
}

func TestE9(t *testing.T) { // the mode of the linearized model, against Newton in weight space
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		v := q.modeOfWeights(t)
		shift := plus(v, -1, vec(q.theta))
		requireClose(t, "f̂", column(e.Sites().F), plus(q.fTrain, 1, product(q.jTrain, shift)), tol)
		var mean, marginal mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, &marginal, q.test))
		requireClose(t, "mean", column(&mean), plus(column(q.test.F), 1, product(q.jTest, shift)), tol)
		_, cov := q.weights(t, e.Sites())
		requireClose(t, "covariance", &marginal, diagonalBlocks(product(q.jTest, cov, q.jTest.T()), q.c), tol)

		s, r := e.Sites(), whole(e.Sites().Root)
		dv := plus(v, -1, vec(q.mean))
		want := s.LogLik - product(dv.T(), q.sigmaInv, dv).At(0, 0)/2 - logDet(plus(identity(q.n*q.c), 1, product(r.T(), q.kTrain, r)))/2
		requireNumber(t, "evidence", e.EvidenceRefit().Value, want, tol)
		// (E9) is (E8) with d = 0, and at the mode d is 0.
		requireNumber(t, "evidence by (E8)", linearGaussian(t, e).Value, want, tol)
	})
}

// modeOfWeights maximizes Σ log p(y|f_lin) − ½‖v−μ₀‖² over v by damped Newton.
func (q *problem) modeOfWeights(t *testing.T) *mat.Dense {
	t.Helper()
	at := func(v *mat.Dense) (*gp.Sites, float64) {
		f := plus(q.fTrain, 1, product(q.jTrain, plus(v, -1, vec(q.theta))))
		s, err := gp.NewSites(gp.NewTargets(q.y, q.lik), mat.NewDense(q.n, q.c, f.RawMatrix().Data))
		if err != nil {
			return nil, math.Inf(-1)
		}
		d := plus(v, -1, vec(q.mean))
		return s, s.LogLik - product(d.T(), q.sigmaInv, d).At(0, 0)/2
	}
	v := vec(q.mean)
	s, objective := at(v)
	for range 200 {
		next, _ := q.weights(t, s)
		step := plus(next, -1, v)
		size := 1.0
		for ; size > 1e-10; size /= 2 {
			w := plus(v, size, step)
			if sw, o := at(w); o > objective {
				v, s, objective = w, sw, o
				break
			}
		}
		if size <= 1e-10 {
			next, _ = q.weights(t, s)
			for range 300 {
				if _, scored := q.lik.(gp.Scored); !scored {
					break // quadratic convergence is over
				}
				s, _ = at(next)
				next, _ = q.weights(t, s)
			}
			return next
		}
	}
	t.Fatal("Newton in weight space did not converge")
	return nil
}

func TestE10(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		groups := []denseKernel{q.group(0, 5), q.group(5, 17), q.group(17, q.p)}
		kernels, scatter := make([]ntk.Kernel, len(groups)), make([]float64, len(groups))
		for g, k := range groups {
			kernels[g] = k
			for p := k.from; p < k.to; p++ {
				scatter[g] += q.shift.At(p, 0) * q.shift.At(p, 0) / q.variance[p]
			}
		}
		e := q.fit(t, nil)
		atTheta := testref.Must(testkit.GradientAtTheta(t.Context(), e, kernels, scatter))(t)
		linear := testref.Must(testkit.GradientLinearGaussian(t.Context(), e, kernels))(t)

		s, r := q.sites(t), whole(q.sites(t).Root)
		w := product(r, inverse(t, plus(identity(q.n*q.c), 1, product(r.T(), q.kTrain, r))), r.T())
		alpha := vec(e.Alpha())
		for g, k := range groups {
			kg := mat.NewDense(q.n*q.c, q.n*q.c, nil)
			k.BlockTo(kg, q.train, q.train)
			trace := mat.Trace(product(w, kg))
			requireNumber(t, "∂(E7)", atTheta[g], scatter[g]/2-trace/2, tol)
			requireNumber(t, "∂(E8)", linear[g], product(alpha.T(), kg, alpha).At(0, 0)/2-trace/2, tol)
		}

		// Central differences of the evidences themselves. The error of a
		// difference of size h is h² of the third derivative and the rounding
		// of the evidence over h.
		const h = 1e-4
		for g, k := range groups {
			up, down := q.withGroup(k, math.Exp(h)), q.withGroup(k, math.Exp(-h))
			// m depends on Σ₀ nowhere: the sites and θ* stay.
			diff := func(value func(e *gp.Exact, q *problem) float64) float64 {
				eu := testref.Must(gp.Fit(t.Context(), up.kernel, q.train, s, nil))(t)
				ed := testref.Must(gp.Fit(t.Context(), down.kernel, q.train, s, nil))(t)
				return (value(eu, up) - value(ed, down)) / (2 * h)
			}
			scale := math.Abs(linearGaussian(t, e).Value)
			requireNumber(t, "∂(E7) by differences", atTheta[g], diff(func(e *gp.Exact, q *problem) float64 {
				return e.EvidenceAtTheta(gp.Scatter(q.kernel.densePrior, q.theta)).Value
			}), 1e-6+1e-11*scale)
			requireNumber(t, "∂(E8) by differences", linear[g], diff(func(e *gp.Exact, _ *problem) float64 {
				return linearGaussian(t, e).Value
			}), 1e-6+1e-11*scale)
		}

		total, err := testkit.GradientAtTheta(t.Context(), e, []ntk.Kernel{q.kernel}, []float64{scatter[0] + scatter[1] + scatter[2]})
		require.NoError(t, err)
		requireNumber(t, "sum over groups", atTheta[0]+atTheta[1]+atTheta[2], total[0], tol)
	})
}

func (q *problem) group(from, to int) denseKernel {
	k := q.kernel
	k.from, k.to = from, to
	return k
}

// withGroup returns the problem with the variances of one group multiplied.
func (q *problem) withGroup(k denseKernel, factor float64) *problem {
	up := *q
	up.variance = append([]float64(nil), q.variance...)
	for p := k.from; p < k.to; p++ {
		up.variance[p] *= factor
	}
	up.kernel.variance = up.variance
	return &up
}

func TestE12(t *testing.T) { // f_lin(x*) = m(x*) + Σ κ(x*,x_i) α_i
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		var mean mat.Dense
		require.NoError(t, e.PredictTo(t.Context(), &mean, nil, q.test))
		terms := q.cross(t, e, q.test, gp.RawTerms)
		requireClose(t, "κ", terms, q.kCross, 1e-14)
		requireClose(t, "m + Σ κα", plus(q.priorTest, 1, product(terms, vec(e.Alpha()))), column(&mean), 1e-12)
	})
}

func TestE14(t *testing.T) { // the same sum in the posterior kernel: C(x*,x_i) b_i
	each(t, func(t *testing.T, q *problem) {
		for name, e := range map[string]*gp.Exact{"refit": q.refit(t, nil), "fit": q.fit(t, &gp.Options{Mean: gp.LinearGaussian})} {
			var mean mat.Dense
			require.NoError(t, e.PredictTo(t.Context(), &mean, nil, q.test))
			terms := q.cross(t, e, q.test, gp.PosteriorTerms)
			_, cov := q.weights(t, e.Sites())
			// C is a difference of entries of K.
			scale := mat.Max(q.kCross) / math.Max(mat.Max(terms), -mat.Min(terms))
			requireClose(t, name+": C(x*, x)", terms, product(q.jTest, cov, q.jTrain.T()), tol*math.Max(1, scale))
			requireClose(t, name+": m + Σ Cb", plus(q.priorTest, 1, product(terms, vec(e.PseudoTargets()))), column(&mean), tol)
		}
	})
}

// cross returns the kernel with all training examples.
func (q *problem) cross(t *testing.T, d gp.Dual, x *linearize.Batch, terms gp.Terms) *mat.Dense {
	t.Helper()
	c := testref.Must(d.Cross(t.Context(), x))(t)
	var m mat.Dense
	require.NoError(t, c.TileTo(t.Context(), &m, 0, q.train, terms))
	return &m
}

func TestE15(t *testing.T) { // q_i = (I − Λ_i h_i)⁻¹ r_i
	each(t, func(t *testing.T, q *problem) {
		e := q.refit(t, nil)
		got := make([]float64, q.n*q.c)
		require.NoError(t, testkit.RemovalTo(t.Context(), e, got))
		s := e.Sites()
		_, cov := q.weights(t, s)
		h := product(q.jTrain, cov, q.jTrain.T())
		for i := range q.n {
			lo, hi := i*q.c, (i+1)*q.c
			lambda := s.Lambda.Slice(lo, hi, 0, q.c)
			left := plus(identity(q.c), -1, product(lambda, h.Slice(lo, hi, lo, hi)))
			want := product(inverse(t, left), vec(s.Residual.RawRowView(i)))
			requireClose(t, "(I − Λh)⁻¹r", vec(got[lo:hi]), want, 1e-7) // left is near singular where an example has leverage
		}
	})
}

// For a Gaussian the removal is exact: it is the refit without the example.
func TestE15IsExactForGaussian(t *testing.T) {
	for _, q := range problems(t)[:2] {
		t.Run(q.name, func(t *testing.T) {
			e := q.refit(t, nil)
			steps := make([]float64, q.n*q.c)
			require.NoError(t, testkit.RemovalTo(t.Context(), e, steps))
			terms := q.cross(t, e, q.test, gp.PosteriorTerms)
			var before mat.Dense
			require.NoError(t, e.PredictTo(t.Context(), &before, nil, q.test))
			for i := range q.n {
				after := q.without(i).refitMean(t)
				step := vec(steps[i*q.c : (i+1)*q.c])
				want := plus(column(after), -1, column(&before))
				got := product(terms.Slice(0, q.t*q.c, i*q.c, (i+1)*q.c), step)
				got.Scale(-1, got)
				requireClose(t, "removal", got, want, 1e-8)
			}
		})
	}
}

// without returns the problem with training example i left out.
func (q *problem) without(i int) *problem {
	less := *q
	keep := func(m *mat.Dense, rows int) *mat.Dense {
		r, c := m.Dims()
		out := mat.NewDense(r-rows, c, nil)
		if i > 0 {
			out.Slice(0, i*rows, 0, c).(*mat.Dense).Copy(m.Slice(0, i*rows, 0, c))
		}
		if rest := r - (i+1)*rows; rest > 0 {
			out.Slice(i*rows, i*rows+rest, 0, c).(*mat.Dense).Copy(m.Slice((i+1)*rows, r, 0, c))
		}
		return out
	}
	less.n--
	less.y = keep(q.y, 1)
	less.train = &linearize.Batch{F: keep(q.train.F, 1), P: q.p, Blocks: []linearize.Block{
		&linearize.Full{J: keep(q.jTrain, q.c), C: q.c, Params: []linearize.Span{{Name: "all", Rows: 1, Cols: q.p}}},
	}}
	return &less
}

func (q *problem) refitMean(t *testing.T) *mat.Dense {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, q.refit(t, nil).PredictTo(t.Context(), &mean, nil, q.test))
	return &mean
}
