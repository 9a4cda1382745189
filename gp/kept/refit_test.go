package kept_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// thresholds returns 0 and the strengths above which three quarters, half, and one of the
// rows lie.
func thresholds(k *gp.Kept) []float64 {
	s := sorted(k.Strength)
	return []float64{0, s[len(s)/4], s[len(s)/2], s[len(s)-2]}
}

// requireClosed checks that both sums over all examples are the mean (E12), (E14).
func requireClosed(t *testing.T, q *testkit.Problem, p *kept.Posterior) {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
	for terms, weights := range map[gp.Terms][]float64{gp.RawTerms: p.Alpha(), gp.PosteriorTerms: p.PseudoTargets()} {
		sums := testkit.Product(testkit.CrossOf(t, p, q.Test, q.Train, 7, terms), testkit.Vec(weights))
		for i := range q.T * q.C {
			m := mean.At(i/q.C, i%q.C)
			require.InDelta(t, m, q.MTest.At(i, 0)+sums.At(i, 0), 1e-9*mat.Max(testkit.Absolute(&mean)), "terms %v", terms)
		}
	}
}

// requireWider checks that no test variance is below that of the exact posterior, by more
// than the two may miss the same mode.
func requireWider(t *testing.T, q *testkit.Problem, p gp.Latent, x *gp.Exact) {
	t.Helper()
	var cov, exact mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
	require.NoError(t, x.PredictTo(t.Context(), nil, &exact, q.Test))
	for i := range q.T * q.C {
		require.GreaterOrEqual(t, cov.At(i, i%q.C), exact.At(i, i%q.C)*(1-1e-7))
	}
}

// At any threshold the refit finds the mode of all rows, its variances and evidence are
// upper bounds, and the sums over all examples are its mean.
func TestE16RefitIsExactInMean(t *testing.T) {
	for _, q := range append(testkit.Problems(t), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)) {
		t.Run(q.Name, func(t *testing.T) {
			t.Parallel()
			x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			var mean, want mat.Dense
			require.NoError(t, x.PredictTo(t.Context(), &want, nil, q.Test))
			all := refit(t, q, nil)
			rows := all.Kept().Len() + 1
			for _, strength := range thresholds(all.Kept()) {
				p := refit(t, q, &kept.Options{Strength: strength})
				require.Empty(t, p.Warnings())
				require.Less(t, p.Kept().Len(), rows)
				rows = p.Kept().Len()
				require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
				testkit.RequireAgree(t, "mean", &mean, &want, 1e-8)
				require.Equal(t, all.Alpha(), p.Alpha(), "the mode depends on the threshold")
				requireWider(t, q, p, x)
				requireClosed(t, q, p)
				if k := p.Kept(); k.Trace < k.Total {
					require.Equal(t, gp.Upper, p.EvidenceRefit().Bound)
					require.GreaterOrEqual(t, p.EvidenceRefit().Value, x.EvidenceRefit().Value-1e-8)
				}
				require.Less(t, p.Distance(), 1e-7)
			}
		})
	}
}

// At θ* too, where the mean is that of one step with the Hessian of the kept rows.
func TestE16FitCloses(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
		for _, strength := range thresholds(fit(t, q, nil).Kept()) {
			p := fit(t, q, &kept.Options{Strength: strength, Mean: gp.LinearGaussian})
			requireClosed(t, q, p)
			requireWider(t, q, p, x)
			require.GreaterOrEqual(t, p.EvidenceAtTheta(1).Value, x.EvidenceAtTheta(1).Value-1e-9)
			requireStep(t, q, p)
		}
	}
}

// requireStep compares the mean with that at the weights
// θ* + (Σ₀⁻¹ + J_kᵀΛJ_k)⁻¹(Jᵀr − Σ₀⁻¹(θ* − μ₀)).
func requireStep(t *testing.T, q *testkit.Problem, p *kept.Posterior) {
	t.Helper()
	n := q.Train.P
	var j, jt mat.Dense
	q.Train.JacobianTo(&j)
	q.Test.JacobianTo(&jt)
	mean, variance := make([]float64, n), make([]float64, n)
	q.Prior.MeanTo(mean)
	q.Prior.VarianceTo(variance)
	h := mat.NewSymDense(n, nil)
	gradient := testkit.Product(j.T(), testkit.Column(p.Sites().Residual))
	for i := range n {
		h.SetSym(i, i, 1/variance[i])
		gradient.Set(i, 0, gradient.At(i, 0)-(q.Theta[i]-mean[i])/variance[i])
	}
	for i, at := range p.Kept().Examples {
		var row mat.VecDense
		row.MulVec(j.Slice(at*q.C, (at+1)*q.C, 0, n).T(), p.Kept().Directions.RowView(i))
		h.SymRankOne(h, p.Kept().Lambda[i], &row)
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(h))
	var step, got mat.Dense
	require.NoError(t, chol.SolveTo(&step, gradient))
	want := testkit.Plus(testkit.Column(q.Test.F), 1, testkit.Product(&jt, &step))
	require.NoError(t, p.PredictTo(t.Context(), &got, nil, q.Test))
	testkit.RequireAgree(t, "mean of one step", testkit.Column(&got), want, 1e-8)
}

// Where a refit is stopped after one step, the sums close all the same, the gap is warned
// of, and the distance bounds what the mean lacks (E19).
func TestE19(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			p := refit(t, q, &kept.Options{Strength: median(fit(t, q, nil).Kept().Strength), MaxNewton: 1})
			requireClosed(t, q, p)
			var got, want, prior mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &got, nil, q.Test))
			require.NoError(t, x.PredictTo(t.Context(), &want, nil, q.Test))
			q.Kernel.DiagTo(&prior, q.Test)
			for i := range q.T * q.C {
				off := math.Abs(got.At(i/q.C, i%q.C) - want.At(i/q.C, i%q.C))
				require.LessOrEqual(t, off, math.Sqrt(prior.At(i, i%q.C))*p.Distance()+1e-8)
			}
			if linearize.FindWarning(p.Warnings(), "refit-gap") != nil {
				require.Greater(t, p.Distance(), 0.0)
			}
		})
	}
}

// differences are products of which J v is right to eight digits, as that of a network is.
type differences struct{ linearize.Products }

func (d differences) MulVecTo(ctx context.Context, dst, v []float64) error {
	err := d.Products.MulVecTo(ctx, dst, v)
	for i := range dst {
		dst[i] *= 1 + 1e-8*math.Sin(float64(i))
	}
	return err
}

// Products that are not exact lead to the same mode, and so do outputs that are given.
func TestRefitWithRoughProducts(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			want := refit(t, q, nil)
			seen := map[string]int{}
			o := &kept.Options{Products: differences{linearize.ProductsOf(q.Train)}, Outputs: q.Train.F, Limits: linearize.Limits{Progress: func(stage string, _, _ int) { seen[stage]++ }}}
			p := refit(t, q, o)
			require.Empty(t, p.Warnings())
			testkit.RequireAgree(t, "α", testkit.Vec(p.Alpha()), testkit.Vec(want.Alpha()), 1e-8)
			requireClosed(t, q, p)
			require.Positive(t, seen[kept.StageProducts])
			require.Positive(t, seen[gp.StageNewton])
		})
	}
}

// Parameters without prior variance stay at μ₀.
func TestRefitWithFixedParameters(t *testing.T) {
	q := testkit.Problems(t)[5]
	prior := fixed{q.Prior}
	kernel := ntk.New(prior, q.Theta)
	x := testref.Must(gp.Refit(t.Context(), kernel, q.Train, q.Targets(), nil))(t)
	p := testref.Must(kept.Refit(t.Context(), q.Train, q.Targets(), prior, q.Theta, nil))(t)
	var got, want mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &got, nil, q.Test))
	require.NoError(t, x.PredictTo(t.Context(), &want, nil, q.Test))
	testkit.RequireAgree(t, "mean", &got, &want, 1e-8)
}

// fixed takes the variance of every third parameter.
type fixed struct{ ntk.Prior }

func (f fixed) VarianceTo(dst []float64) {
	f.Prior.VarianceTo(dst)
	for i := 0; i < len(dst); i += 3 {
		dst[i] = 0
	}
}

// Results are the same to the last bit for any number of processors.
func TestProcessors(t *testing.T) {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	strength := median(fit(t, q, nil).Kept().Strength)
	var want []float64
	for _, procs := range []int{1, 2, 5} {
		testref.Procs(t, procs)
		got := answers(t, q, refit(t, q, &kept.Options{Strength: strength}))
		got = append(got, answers(t, q, fit(t, q, &kept.Options{Strength: strength}))...)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

// Explanations close, by sums of outputs of the stream as by tiles.
func TestExplains(t *testing.T) {
	for _, q := range []*testkit.Problem{testkit.Problems(t)[2], testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)} {
		p := refit(t, q, &kept.Options{Strength: median(fit(t, q, nil).Kept().Strength)})
		e := testref.Must(explain.New(p, q.Kernel, &explain.Options{Top: 5}))(t)
		explained := testref.Must(e.Explain(t.Context(), q.Test))(t)
		var mean mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
		for i, row := range explained {
			for c, one := range row {
				require.InDelta(t, mean.At(i, c), one.PriorMean+one.Sum, 1e-9)
				require.InDelta(t, one.Sum, one.RawSum, 1e-9)
			}
		}
	}
}

// Work stops between products and panels once its context is done.
func TestStops(t *testing.T) {
	q := testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)
	for _, stage := range []string{gp.StageNewton, gp.StageKeep, gp.StageKernel, kept.StageProducts} {
		ctx, cancel := context.WithCancel(t.Context())
		o := &kept.Options{Products: linearize.ProductsOf(q.Train), Limits: linearize.Limits{Progress: func(s string, _, _ int) {
			if s == stage {
				cancel()
			}
		}}}
		_, err := kept.Refit(ctx, q.Train, q.Targets(), q.Prior, q.Theta, o)
		require.ErrorIs(t, err, context.Canceled, stage)
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(kept.Fit(ctx, q.Train, q.Sites(t), q.Prior, q.Theta, nil)), context.Canceled)
}

// What cannot be is refused before work begins.
func TestRefusals(t *testing.T) {
	q := testkit.Problems(t)[5]
	var memory *gp.MemoryError
	for _, most := range []int64{1000, kept.Bytes(q.N, q.C, q.Train.P, 0) + 8} {
		_, err := kept.Fit(t.Context(), q.Train, q.Sites(t), q.Prior, q.Theta, &kept.Options{Limits: linearize.Limits{Memory: most}})
		require.ErrorAs(t, err, &memory)
		_, err = kept.Refit(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, &kept.Options{Limits: linearize.Limits{Memory: most}})
		require.ErrorAs(t, err, &memory)
	}
	_, err := kept.Fit(t.Context(), q.Train, q.Sites(t), q.Prior, q.Theta, &kept.Options{Strength: math.MaxFloat64})
	require.ErrorIs(t, err, gp.ErrNoExamples)
	_, err = kept.Refit(t.Context(), q.Train.Slice(0, 0), q.Targets(), q.Prior, q.Theta, nil)
	require.ErrorIs(t, err, gp.ErrNoExamples)
	for _, o := range []kept.Options{{Strength: -1}, {PriorVariance: -1}, {MaxNewton: -1}, {Limits: linearize.Limits{Memory: -1}}, {Mean: 7}} {
		require.Panics(t, func() { _, _ = kept.Fit(t.Context(), q.Train, q.Sites(t), q.Prior, q.Theta, &o) })
	}
	p := fit(t, q, nil)
	require.Panics(t, func() { _ = p.PredictTo(t.Context(), nil, new(mat.Dense), q.Test.Output(0)) })
}

// From the mode under a like prior the mode is the same, and is found in fewer steps.
func TestRefitNear(t *testing.T) {
	fewer := 0
	for _, q := range append(testkit.Problems(t), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)) {
		variance, mean := make([]float64, q.Train.P), make([]float64, q.Train.P)
		q.Prior.VarianceTo(variance)
		q.Prior.MeanTo(mean)
		for i := range variance {
			variance[i] /= 1.3
		}
		other := testref.Must(ntk.NewDiagonal(variance, mean))(t)
		near := refit(t, q, nil)
		var steps [2]int
		var f [2]mat.Dense
		for i, from := range []*kept.Posterior{nil, near} {
			o := &kept.Options{Near: from, Limits: linearize.Limits{Progress: func(stage string, done, _ int) {
				if stage == gp.StageNewton {
					steps[i] = done
				}
			}}}
			p := testref.Must(kept.Refit(t.Context(), q.Train, q.Targets(), other, q.Theta, o))(t)
			require.Same(t, from, o.Near)
			require.NoError(t, p.PredictTo(t.Context(), &f[i], nil, q.Test))
		}
		testkit.RequireAgree(t, "mean", &f[1], &f[0], 1e-8)
		fewer += steps[0] - steps[1]
	}
	require.Positive(t, fewer)
}
