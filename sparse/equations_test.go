package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// tol is for a few hundred additions in float64 through explicit inverses of
// K_ZZ and A, whose condition is below 1e5; saturated sites have b of 1e3
// times the mean.
const tol = 1e-9

// mean = m + K_*Z A⁻¹ c; cov = K_** − K_*Z (K_ZZ⁻¹ − A⁻¹) K_Z* (E13).
func TestE13Posterior(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		p, e := q.fit(t, z, linear()), q.dense(t, q.Sites(t), z)
		var mean, cov, joint, jmean mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
		require.NoError(t, p.JointTo(t.Context(), &jmean, &joint, q.Test))
		requireClose(t, "mean", column(&mean), e.mean(), tol)
		requireClose(t, "covariance", &cov, diagonalBlocks(e.cov(t), q.C), tol)
		requireClose(t, "joint covariance", &joint, e.cov(t), tol)
		requireClose(t, "joint mean", column(&jmean), e.mean(), tol)
		require.Equal(t, 7*q.C, p.Rank())

		net := q.fit(t, z, nil)
		require.NoError(t, net.PredictTo(t.Context(), &mean, nil, q.Test))
		require.Equal(t, flat(q.Test.F), flat(&mean), "the Laplace posterior's mean")
	})
}

// The evidence is (E8) with Q in place of K.
func TestE13Evidence(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z, s := q.some(t), q.Sites(t)
		p, e := q.fit(t, z, linear()), q.dense(t, s, z)
		got := p.Projected.EvidenceLinearGaussian()
		requireNumber(t, "evidence", got.Value, e.evidence(t), tol)
		require.Equal(t, gp.None, got.Bound)
		require.Equal(t, got.LogLik-got.Scatter/2-got.LogDet/2, got.Value)

		at := p.EvidenceAtTheta(3)
		requireNumber(t, "evidence at θ*", at.Value, s.LogLik-1.5-logDet(product(e.a, inverse(t, e.zz)))/2, tol)
	})
}

// The evidence less the trace term is below (E8), and log det alone bounds
// (E7) from both sides (E13).
func TestE13Bounds(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		s := q.Sites(t)
		exact := evidence(t, q, s, q.KTrain)
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, s, nil))(t)
		last := -1e300
		for m := 1; m <= q.N; m += 3 {
			rows := q.all(t).Rows[:m]
			p := q.fit(t, q.inducing(t, rows...), nil)
			low := p.EvidenceLowerBound()
			require.Equal(t, gp.Lower, low.Bound)
			require.LessOrEqual(t, low.Value, exact+tol*(1+abs(exact)), "M = %d", m)
			require.GreaterOrEqual(t, low.Value, last-tol*(1+abs(last)), "M = %d", m)
			last = low.Value

			at := x.EvidenceAtTheta(3).Value
			up, down := p.EvidenceAtTheta(3), p.EvidenceAtThetaLowerBound(3)
			require.Equal(t, [2]gp.Bound{gp.Upper, gp.Lower}, [2]gp.Bound{up.Bound, down.Bound})
			require.GreaterOrEqual(t, up.Value, at-tol*(1+abs(at)), "M = %d", m)
			require.LessOrEqual(t, down.Value, at+tol*(1+abs(at)), "M = %d", m)
		}
	})
}

// trace: Σ tr Λ_i(k_ii − q_ii) and tr(K − Q)/tr K.
func TestE13Trace(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		p, e := q.fit(t, z, nil), q.dense(t, q.Sites(t), z)
		requireNumber(t, "trace error", p.TraceError(), mat.Trace(e.d)/mat.Trace(q.KTrain), 1e-12)
		requireNumber(t, "trace term", p.EvidenceLowerBound().LogDet-p.Projected.EvidenceLinearGaussian().LogDet,
			mat.Trace(product(e.lambda, e.d)), 1e-11)
	})
}

// mean = m + Σ_i (k_*Z A⁻¹ k_Zi) b_i (E13) = m + Σ_i q_*i α_i.
func TestE13Sums(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		for name, p := range map[string]*sparse.Posterior{"fit": q.fit(t, z, linear()), "refit": q.refit(t, z, linear())} {
			e := q.dense(t, p.Sites(), z)
			requireClose(t, name+": b", vec(p.PseudoTargets()), e.b, tol)
			post, raw := crossOf(t, p, q.Test, q.Train, 6, gp.PosteriorTerms), crossOf(t, p, q.Test, q.Train, 6, gp.RawTerms)
			requireClose(t, name+": k_*Z A⁻¹ k_Zi", post, e.cross(), tol)
			requireClose(t, name+": q_*i", raw, product(e.zt.T(), inverse(t, e.zz), e.zn), tol)
			var mean mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
			requireClose(t, name+": m + Σ Cb", plus(q.MTest, 1, product(post, vec(p.PseudoTargets()))), column(&mean), tol)
			requireClose(t, name+": m + Σ qα", plus(q.MTest, 1, product(raw, vec(p.Alpha()))), column(&mean), tol)

			self := new(mat.Dense)
			require.NoError(t, p.SplitTo(t.Context(), nil, self, nil, q.Train))
			requireClose(t, name+": k_iZ A⁻¹ k_Zi", self, diagonalBlocks(product(e.zn.T(), e.aInv, e.zn), q.C), tol)
		}
	})
}

// At the mode α = r, d = 0, and the evidence is (E9).
func TestE9Refit(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		p := q.refit(t, z, nil)
		require.Empty(t, p.Warnings())
		require.True(t, p.Refitted())
		s := p.Sites()
		requireClose(t, "α = r", vec(p.Alpha()), column(s.Residual), 1e-7)
		e := q.dense(t, s, z)
		// f̂ = m + K̂ r
		k := product(e.zn.T(), inverse(t, e.zz), e.zn)
		requireClose(t, "f̂", column(s.F), plus(q.MTrain, 1, product(k, column(s.Residual))), 1e-8)
		requireNumber(t, "evidence", p.EvidenceRefit().Value, p.Projected.EvidenceLinearGaussian().Value, 1e-8)
		requireNumber(t, "evidence", p.EvidenceRefit().Value, e.evidence(t), 1e-8)
		var mean, cov mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
		requireClose(t, "mean", column(&mean), e.mean(), tol)
		requireClose(t, "covariance", &cov, diagonalBlocks(e.cov(t), q.C), tol)
	})
}

// All inducing examples: everything is the exact posterior's.
func TestAllInducingIsExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
		p := q.fit(t, q.all(t), linear())
		q.requireExact(t, p, x)
		require.InDelta(t, 0, p.TraceError(), 1e-12)
		requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, testref.Must(x.EvidenceLinearGaussian(t.Context()))(t).Value, tol)
		requireNumber(t, "evidence at θ*", p.EvidenceAtTheta(2).Value, x.EvidenceAtTheta(2).Value, tol)

		xr := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		pr := q.refit(t, q.all(t), linear())
		q.requireExact(t, pr, xr)
		requireNumber(t, "evidence of the refit", pr.EvidenceRefit().Value, xr.EvidenceRefit().Value, tol)
	})
}

// More rows than parameters: K_ZZ is singular, and M = N is still exact.
func TestSingularKernel(t *testing.T) {
	q := newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4)
	require.Less(t, q.Train.P, q.N*q.C)
	x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
	p := q.fit(t, q.all(t), linear())
	require.LessOrEqual(t, p.Rank(), q.Train.P)
	w := testkit.RequireWarnings(t, p.Warnings(), "inducing-rank")[0]
	require.Equal(t, []float64{float64(p.Rank()), float64(q.N * q.C)}, []float64{w.Value, w.Limit})
	q.requireExact(t, p, x)
	requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, testref.Must(x.EvidenceLinearGaussian(t.Context()))(t).Value, tol)
}

// An example chosen twice changes nothing.
func TestRepeatedInducing(t *testing.T) {
	q := problems(t)[5]
	z := q.some(t)
	twice := q.inducing(t, append(append([]int(nil), z.Rows...), z.Rows[:2]...)...)
	p := q.fit(t, twice, linear())
	require.Equal(t, 7*q.C, p.Rank())
	requireSame(t, p, q.fit(t, z, linear()), q)
}

// requireExact compares mean, covariance and contributions.
func (q *problem) requireExact(t *testing.T, p *sparse.Posterior, x *gp.Exact) {
	t.Helper()
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, x.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	requireClose(t, "mean", &mean, &wantMean, tol)
	requireClose(t, "covariance", &cov, &wantCov, tol)
	requireClose(t, "b", vec(p.PseudoTargets()), vec(x.PseudoTargets()), 1e-8)
	requireClose(t, "α", vec(p.Alpha()), vec(x.Alpha()), 1e-7)
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		requireClose(t, "cross-kernel", crossOf(t, p, q.Test, q.Train, 20, terms), crossOf(t, x, q.Test, q.Train, 20, terms), tol)
	}
}

// A subset of data is the exact posterior of the subset, and has no part in
// the others.
func TestSubsetIsExactOnItself(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		y := pick(q.Y, z.Rows)
		s := testref.Must(gp.NewSites(gp.NewTargets(y, q.Likelihood), z.Batch.F))(t)
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, z.Batch, s, &gp.Options{Mean: gp.LinearGaussian}))(t)
		p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, linear()))(t)
		q.requireSubset(t, p, x, z)
		requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, testref.Must(x.EvidenceLinearGaussian(t.Context()))(t).Value, tol)
		require.Equal(t, gp.None, p.Projected.EvidenceLinearGaussian().Bound)
		require.True(t, p.IsSubset())

		xr := testref.Must(gp.Refit(t.Context(), q.Kernel, z.Batch, gp.NewTargets(y, q.Likelihood), nil))(t)
		pr := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(y, q.Likelihood), z, nil))(t)
		q.requireSubset(t, pr, xr, z)
		requireNumber(t, "evidence", pr.EvidenceRefit().Value, xr.EvidenceRefit().Value, tol)
	})
}

func (q *problem) requireSubset(t *testing.T, p *sparse.Posterior, x *gp.Exact, z *sparse.Inducing) {
	t.Helper()
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, x.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	requireClose(t, "mean", &mean, &wantMean, tol)
	requireClose(t, "covariance", &cov, &wantCov, tol)
	require.Equal(t, q.N, p.Data().Len())
	alpha, b := mat.NewDense(q.N*q.C, 1, nil), mat.NewDense(q.N*q.C, 1, nil)
	for i, r := range z.Rows {
		for a := range q.C {
			alpha.Set(r*q.C+a, 0, x.Alpha()[i*q.C+a])
			b.Set(r*q.C+a, 0, x.PseudoTargets()[i*q.C+a])
		}
	}
	requireClose(t, "α", vec(p.Alpha()), alpha, 1e-7)
	requireClose(t, "b", vec(p.PseudoTargets()), b, 1e-8)
	cross := crossOf(t, p, q.Test, q.Train, 9, gp.PosteriorTerms)
	requireClose(t, "m + Σ Cb", plus(q.MTest, 1, product(cross, b)), column(&wantMean), tol)
	require.Equal(t, z.Rows, p.Inducing().Rows)
}

// requireSame compares the predictions of two posteriors.
func requireSame(t *testing.T, got, want gp.Latent, q *problem) {
	t.Helper()
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	requireClose(t, "mean", &mean, &wantMean, 1e-10)
	requireClose(t, "covariance", &cov, &wantCov, 1e-10)
}

func abs(v float64) float64 { return max(v, -v) }
