package sparse_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// pairs are the pairs at places i·C + a.
func (q *problem) pairs(t *testing.T, places ...int) *sparse.Inducing {
	t.Helper()
	var rows, outputs []int
	for _, p := range places {
		rows, outputs = append(rows, p/q.C), append(outputs, p%q.C)
	}
	z, err := sparse.GatherPairs(t.Context(), q.Train, rows, outputs)
	require.NoError(t, err)
	require.True(t, z.Pairs())
	require.Equal(t, len(places), z.Len())
	require.Equal(t, q.C, z.DataOutputs)
	return z
}

// shuffledPairs are all of them, out of order.
func (q *problem) shuffledPairs(t *testing.T) *sparse.Inducing {
	return q.pairs(t, rand.New(rand.NewPCG(3, 4)).Perm(q.N*q.C)...)
}

// somePairs are eleven pairs, out of order, some of one example.
func (q *problem) somePairs(t *testing.T) *sparse.Inducing {
	places := rand.New(rand.NewPCG(5, 6)).Perm(q.N * q.C)[:10]
	if q.C > 1 {
		places = append(places[:8:8], 2*q.C, 2*q.C+1, 19*q.C)
		slices.Sort(places)
		places = slices.Compact(places)
		slices.Reverse(places)
	}
	return q.pairs(t, places...)
}

// pairProblems have several outputs, and one of them one.
func pairProblems(t *testing.T) []*problem {
	all := problems(t)
	return []*problem{all[1], all[2], all[5], all[6]}
}

func bothPairs(t *testing.T, f func(t *testing.T, q *problem, a sparse.Approximation)) {
	for _, q := range pairProblems(t) {
		for _, a := range approximations {
			t.Run(q.Name+"/"+a.String(), func(t *testing.T) { f(t, q, a) })
		}
	}
}

// Through some pairs everything is (E13) with their rows of K alone: against
// explicit inverses, as for examples.
func TestPairsE13(t *testing.T) {
	bothPairs(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		z, fitc := q.somePairs(t), a == sparse.FITC
		for name, p := range map[string]*sparse.Posterior{"fit": q.fit(t, z, linear(a)), "refit": q.refit(t, z, linear(a))} {
			e := q.dense(t, p.Sites(), z, fitc)
			var mean, cov, joint, self mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
			require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
			require.NoError(t, p.SelfTo(t.Context(), &self, q.Train))
			requireClose(t, name+": mean", column(&mean), e.mean(), tol)
			requireClose(t, name+": covariance", &cov, diagonalBlocks(e.cov(t), q.C), tol)
			requireClose(t, name+": joint covariance", &joint, e.cov(t), tol)
			requireClose(t, name+": k_iZ A⁻¹ k_Zi", &self, diagonalBlocks(product(e.zn.T(), e.aInv, e.zn), q.C), tol)
			requireNumber(t, name+": evidence", p.EvidenceLinearGaussian().Value, e.evidence(t, fitc), 1e-8)
			requireNumber(t, name+": trace error", p.TraceError(), mat.Trace(e.d)/mat.Trace(q.KTrain), 1e-12)
			require.Equal(t, z.Len(), p.Rank())
			requireClose(t, name+": b", vec(p.PseudoTargets()), e.b, tol)
			post, raw := crossOf(t, p, q.Test, q.Train, 6, gp.Posterior), crossOf(t, p, q.Test, q.Train, 6, gp.Raw)
			requireClose(t, name+": k_*Z A⁻¹ k_Zi", post, e.cross(), tol)
			requireClose(t, name+": q_*i", raw, product(e.zt.T(), inverse(t, e.zz), e.zn), tol)
			requireClose(t, name+": m + Σ Cb", plus(q.MTest, 1, product(post, vec(p.PseudoTargets()))), column(&mean), tol)
			requireClose(t, name+": m + Σ qα", plus(q.MTest, 1, product(raw, vec(p.Alpha()))), column(&mean), tol)
			r, err := p.Report(t.Context(), q.Test, &sparse.ReportOptions{Sample: 9})
			require.NoError(t, err)
			require.Equal(t, [3]int{z.Len(), z.Len(), z.Len()}, [3]int{r.Inducing, r.Rows, r.Rank})
		}
	})
}

// All N·C pairs give the exact posterior, fitted and refitted.
func TestAllPairsAreExact(t *testing.T) {
	bothPairs(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		x, err := gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian})
		require.NoError(t, err)
		p := q.fit(t, q.shuffledPairs(t), linear(a))
		q.requireExact(t, p, x)
		require.InDelta(t, 0, p.TraceError(), 1e-12)
		requireNumber(t, "evidence", p.EvidenceLinearGaussian().Value, x.EvidenceLinearGaussian().Value, tol)
		requireNumber(t, "evidence at θ*", p.EvidenceAtTheta(2).Value, x.EvidenceAtTheta(2).Value, tol)
		got, err := p.GradientLinearGaussian(t.Context(), q.groups())
		require.NoError(t, err)
		want, err := x.GradientLinearGaussian(t.Context(), q.groups())
		require.NoError(t, err)
		requireClose(t, "gradient", vec(got), vec(want), 1e-7)

		xr, err := gp.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, nil)
		require.NoError(t, err)
		pr := q.refit(t, q.shuffledPairs(t), linear(a))
		q.requireExact(t, pr, xr)
		requireNumber(t, "evidence of the refit", pr.EvidenceRefit().Value, xr.EvidenceRefit().Value, tol)
	})
}

// So they do where K is singular, and a pair chosen twice changes nothing.
func TestPairsOfSingularKernel(t *testing.T) {
	q := newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4)
	x, err := gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	for _, a := range approximations {
		p := q.fit(t, q.shuffledPairs(t), linear(a))
		w := testkit.RequireWarnings(t, p.Warnings(), "inducing-rank")[0]
		require.Equal(t, []float64{float64(p.Rank()), float64(q.N * q.C)}, []float64{w.Value, w.Limit})
		q.requireExact(t, p, x)
		requireNumber(t, "evidence", p.EvidenceLinearGaussian().Value, x.EvidenceLinearGaussian().Value, tol)
	}
	q = problems(t)[5]
	twice := q.fit(t, q.pairs(t, 4, 50, 7, 33, 50, 4), linear(sparse.Nystrom))
	require.Equal(t, 4, twice.Rank())
	requireSame(t, twice, q.fit(t, q.pairs(t, 4, 50, 7, 33), linear(sparse.Nystrom)), q)
}

// On a trained classifier with its test data all pairs are exact too.
func TestAllPairsOfReference(t *testing.T) {
	r := openReference(t, "categorical")
	n, c := r.Train.Len(), r.Train.Outputs()
	require.Greater(t, c, 1)
	z, err := sparse.Select(t.Context(), sparse.Pairs(sparse.Uniform{Seed: 1}), nil, r.Train, n*c, nil)
	require.NoError(t, err)
	x := r.Exact(t)
	want := r.ask(t, x, x.PseudoTargets(), x.Alpha(), x.EvidenceLinearGaussian())
	for _, a := range approximations {
		p := r.fit(t, z, a)
		got := r.ask(t, p, p.PseudoTargets(), p.Alpha(), p.EvidenceLinearGaussian())
		acceptance{name: "categorical", mean: 1e-8, rest: 1e-8}.requireAnswers(t, "all pairs", got, want)
		t.Logf("%s: mean %.1e, covariance %.1e, terms %.1e, raw terms %.1e", a, relative(got.mean, want.mean),
			relative(got.covariance, want.covariance), relative(got.terms, want.terms), relative(got.raw, want.raw))
	}
}

// Pairs of a network that is linearized as its examples are asked for are those
// of a batch, and for as many rows of K_ZZ greedy ones leave no more of the
// trace of a trained classifier than greedy examples.
func TestPairsOfStreamedReference(t *testing.T) {
	r := openReference(t, "categorical")
	n, d := r.X.Dims()
	c := r.Train.Outputs()
	stream := linearize.NewSource(r.Net, n, 17, func(lo, hi int) (*mat.Dense, error) { return r.X.Slice(lo, hi, 0, d).(*mat.Dense), nil })
	for _, rows := range []int{2 * c, 5 * c, 10 * c} {
		z, err := sparse.Select(t.Context(), sparse.Pairs(sparse.Greedy{}), r.Kernel, stream, rows, nil)
		require.NoError(t, err)
		of, err := sparse.GatherPairs(t.Context(), r.Train, z.Rows, z.Outputs)
		require.NoError(t, err)
		require.True(t, mat.Equal(of.Batch.X, z.Batch.X))
		require.True(t, mat.EqualApprox(of.Batch.F, z.Batch.F, 1e-12))
		p, err := sparse.Fit(t.Context(), r.Kernel, stream, r.Sites(t), z, linear(sparse.Nystrom))
		require.NoError(t, err)
		whole := r.fit(t, r.choose(t, sparse.Greedy{}, rows/c), sparse.Nystrom)
		var got, want mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), nil, &got, r.Test))
		require.NoError(t, r.fit(t, of, sparse.Nystrom).PredictTo(t.Context(), nil, &want, r.Test))
		requireClose(t, "covariance", &got, &want, 1e-9)
		require.LessOrEqual(t, p.TraceError(), whole.TraceError())
		t.Logf("%d rows: greedy pairs leave %.2e of the trace, greedy examples %.2e", rows, p.TraceError(), whole.TraceError())
	}
}

// A kernel that is no number is reported with its pair.
func TestPairsNotFinite(t *testing.T) {
	q := problems(t)[5]
	z := q.pairs(t, 4, 50, 7)
	_, err := sparse.Fit(t.Context(), scaledKernel{q.Kernel, math.NaN()}, q.Train, q.Sites(t), z, nil)
	var e *gp.NotFiniteError
	require.ErrorAs(t, err, &e)
	require.Equal(t, [2]int{0, z.Outputs[0]}, [2]int{e.Row, e.Output})
}

// The C pairs of each of some examples are the examples.
func TestPairsOfWholeExamples(t *testing.T) {
	bothPairs(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		rows := []int{9, 2, 17, 5, 0}
		var places []int
		for _, r := range rows {
			for b := range q.C {
				places = append(places, r*q.C+b)
			}
		}
		for _, o := range []func(*sparse.Inducing) *sparse.Posterior{
			func(z *sparse.Inducing) *sparse.Posterior { return q.fit(t, z, linear(a)) },
			func(z *sparse.Inducing) *sparse.Posterior { return q.refit(t, z, linear(a)) },
		} {
			got, want := o(q.pairs(t, places...)), o(q.inducing(t, rows...))
			q.requireSamePosterior(t, got, want) // to 1e-10
			requireClose(t, "α", vec(got.Alpha()), vec(want.Alpha()), 1e-10)
			for _, terms := range []gp.Terms{gp.Posterior, gp.Raw} {
				requireClose(t, "cross-kernel", crossOf(t, got, q.Test, q.Train, 6, terms), crossOf(t, want, q.Test, q.Train, 6, terms), 1e-10)
			}
		}
	})
}

// The derivatives are those of finite differences of the evidence (E10).
func TestPairsE10Gradients(t *testing.T) {
	const h, tol = 1e-4, 2e-6
	q := problems(t)[5]
	for _, a := range approximations {
		z, s, o := q.somePairs(t), q.Sites(t), linear(a)
		got, err := q.fit(t, z, o).GradientLinearGaussian(t.Context(), q.groups())
		require.NoError(t, err)
		for g := range got {
			var v [2]float64
			for i, sign := range []float64{1, -1} {
				p, err := sparse.Fit(t.Context(), q.at(g, sign*h), q.Train, s, z, o)
				require.NoError(t, err)
				v[i] = p.EvidenceLinearGaussian().Value
			}
			requireNumber(t, "evidence", got[g], (v[0]-v[1])/(2*h), tol)
		}
	}
}

// The first pairs of a posterior, another prior and prepared examples.
func TestLeadingPairs(t *testing.T) {
	for _, q := range pairProblems(t) {
		z := q.somePairs(t)
		all := q.fit(t, z, linear(sparse.Nystrom))
		prepared, err := all.Prepare(t.Context(), q.Test)
		require.NoError(t, err)
		for _, m := range []int{1, 4, z.Len()} {
			got, err := all.Leading(t.Context(), m)
			require.NoError(t, err)
			own := q.fit(t, &sparse.Inducing{Rows: z.Rows[:m], Batch: z.Batch.Slice(0, m), Outputs: z.Outputs[:m], DataOutputs: q.C}, linear(sparse.Nystrom))
			requireSamePosterior(t, q, got, own.Projected, 1e-11)
			requireNumber(t, "trace error", got.TraceError(), own.TraceError(), 1e-11)
			at, err := got.At(t.Context(), 0.3)
			require.NoError(t, err)
			var mean, cov, mean2, cov2 mat.Dense
			require.NoError(t, at.PredictPreparedTo(t.Context(), &mean, &cov, prepared))
			require.NoError(t, at.PredictTo(t.Context(), &mean2, &cov2, q.Test))
			requireClose(t, "mean", &mean, &mean2, 1e-11)
			requireClose(t, "covariance", &cov, &cov2, 1e-11)
		}
		_, err = all.Leading(t.Context(), z.Len()+1)
		require.Equal(t, &sparse.CountError{M: z.Len() + 1, N: z.Len(), Pairs: true}, err)
	}
}

// Predictions are explained over all training examples, and both sums close.
func TestPairsExplained(t *testing.T) {
	bothPairs(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		p, err := sparse.Refit(t.Context(), q.Kernel, testkit.InTiles(q.Train, 6), q.Y, q.Likelihood, q.somePairs(t), &sparse.Options{Approximation: a})
		require.NoError(t, err)
		e, err := explain.New(p, q.Kernel, &explain.Options{Top: q.N})
		require.NoError(t, err)
		rows, err := e.Explain(t.Context(), q.Test)
		require.NoError(t, err)
		var mean mat.Dense
		require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Test))
		scale := mat.Norm(&mean, 2) + mat.Norm(q.MTest, 2)
		for i, row := range rows {
			for c, x := range row {
				require.InDelta(t, mean.At(i, c), x.PriorMean+x.Sum, 1e-9*scale)
				require.InDelta(t, x.Sum, x.RawSum, 1e-9*scale)
				require.Len(t, x.Terms, q.N)
			}
		}
		// Those of differences of outputs, whose kernel is combined on both sides.
		if q.C > 1 && a == sparse.Nystrom {
			w := mat.NewDense(2*q.N, q.C, nil)
			for i := range 2 * q.N {
				w.Set(i, i%q.C, 1)
				w.Set(i, (i+1)%q.C, -1)
			}
			requireCombined(t, q, p, w)
		}
	})
}

// Sums of shards go through bytes and add up; those of other pairs, or of the
// examples, do not.
func TestPairsMerge(t *testing.T) {
	bothPairs(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		z, o := q.somePairs(t), linear(a)
		want, total := q.fit(t, z, o), q.builder(t, z, o)
		for _, part := range [][]int{seq(0, 7), seq(7, 8), seq(8, q.N)} {
			shard := q.builder(t, z, o)
			x, s := q.rows(t, part)
			require.NoError(t, shard.Add(t.Context(), x, s))
			data, err := shard.Sums().MarshalBinary()
			require.NoError(t, err)
			var sums sparse.Sums
			require.NoError(t, sums.UnmarshalBinary(data))
			require.NoError(t, total.Merge(&sums))
		}
		got, err := total.Posterior(t.Context())
		require.NoError(t, err)
		q.requireSamePosterior(t, got, want)

		tail, tailSites := q.rows(t, seq(14, q.N))
		less, err := want.Remove(t.Context(), seq(14, q.N), tailSites)
		require.NoError(t, err)
		more, err := less.Add(t.Context(), tail, tailSites)
		require.NoError(t, err)
		q.requireSamePosterior(t, more, want)

		outputs := slices.Clone(z.Outputs)
		outputs[0] = (outputs[0] + 1) % q.C
		var mismatch *sparse.MismatchError
		if q.C > 1 {
			other, err := sparse.GatherPairs(t.Context(), q.Train, z.Rows, outputs)
			require.NoError(t, err)
			require.ErrorAs(t, total.Merge(q.builder(t, other, o).Sums()), &mismatch)
		}
		require.ErrorAs(t, total.Merge(q.builder(t, q.inducing(t, z.Rows...), o).Sums()), &mismatch)
	})
}

// pairSelectors are one of each.
func (q *problem) pairSelectors(t *testing.T, seed uint64) map[string]sparse.Selector {
	return map[string]sparse.Selector{
		"uniform":    sparse.Uniform{Seed: seed},
		"trace":      sparse.Trace{Sites: q.Sites(t)},
		"greedy":     sparse.Greedy{},
		"rpcholesky": sparse.RandomCholesky{Seed: seed},
	}
}

// places are those of chosen pairs.
func (q *problem) places(t *testing.T, how sparse.Selector, x linearize.Source, m int) []int {
	t.Helper()
	z, err := sparse.Select(t.Context(), sparse.Pairs(how), q.Kernel, x, m, nil)
	require.NoError(t, err)
	require.Equal(t, m, z.Len())
	var places []int
	for i, r := range z.Rows {
		require.Equal(t, q.Train.F.At(r, z.Outputs[i]), z.Batch.F.At(i, 0))
		places = append(places, r*q.C+z.Outputs[i])
	}
	return places
}

// Every selection is one of distinct pairs, all of them at M = N·C, nested in
// M, and the same for any batches.
func TestPairSelections(t *testing.T) {
	for _, q := range append(pairProblems(t), newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4), newProblem("large", 32, 150, 2, glm.Categorical{}, 1)) {
		for name, how := range q.pairSelectors(t, 5) {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				all := q.places(t, how, q.Train, q.N*q.C)
				require.Equal(t, seq(0, q.N*q.C), slices.Sorted(slices.Values(all)))
				for _, m := range []int{1, 2, 7, q.N*q.C - 1} {
					require.Equal(t, all[:m], q.places(t, how, q.Train, m), "M = %d", m)
				}
				require.Equal(t, all, q.places(t, q.pairSelectors(t, 5)[name], testkit.InTiles(q.Train, 8), q.N*q.C))
				if name != "greedy" && name != "trace" {
					require.NotEqual(t, all, q.places(t, q.pairSelectors(t, 6)[name], q.Train, q.N*q.C))
				}
			})
		}
	}
}

// A plain Selector sees examples of one output: what Greedy and RandomCholesky
// choose of them is what they choose of rows of K, and KMeans chooses pairs too.
func TestPairsOfAnySelector(t *testing.T) {
	q := newProblem("three", 52, 30, 3, glm.Categorical{}, 1)
	for _, how := range []sparse.Selector{sparse.Greedy{}, sparse.RandomCholesky{Seed: 2}} {
		require.Equal(t, q.places(t, how, q.Train, 12), q.places(t, plain{how}, q.Train, 12))
	}
	all := q.places(t, sparse.KMeans{Seed: 1}, testkit.InTiles(q.Train, 7), q.N*q.C)
	require.Equal(t, seq(0, q.N*q.C), slices.Sorted(slices.Values(all)))
	var batches []int
	require.NoError(t, shown{func(x linearize.Source) error {
		return x.Batches(t.Context(), func(first int, b *linearize.Batch) error {
			batches = append(batches, first, b.Len(), b.Outputs())
			return nil
		})
	}}.choose(t, q))
	require.Equal(t, []int{0, 90, 1}, batches)
}

// plain hides from a Selector whose pairs its examples are.
type plain struct{ of sparse.Selector }

func (p plain) Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *sparse.Options) ([]int, error) {
	return p.of.Choose(ctx, k, struct{ linearize.Source }{x}, m, o)
}

// shown shows the source that a Selector of pairs is given.
type shown struct {
	show func(x linearize.Source) error
}

func (w shown) Choose(_ context.Context, _ ntk.Kernel, x linearize.Source, m int, _ *sparse.Options) ([]int, error) {
	return seq(0, m), w.show(x)
}

func (w shown) choose(t *testing.T, q *problem) error {
	_, err := sparse.Pairs(w).Choose(t.Context(), q.Kernel, q.Train, 1, nil)
	return err
}

// With one output pairs are examples.
func TestPairsOfOneOutput(t *testing.T) {
	q := problems(t)[2]
	require.Equal(t, choose(t, sparse.Greedy{}, q, q.Train, 9), q.places(t, sparse.Greedy{}, q.Train, 9))
	require.Equal(t, choose(t, sparse.RandomCholesky{Seed: 2}, q, q.Train, 9), q.places(t, sparse.RandomCholesky{Seed: 2}, q.Train, 9))
}

// Greedy takes the row of K with the largest residual, ties aside.
func TestGreedyPairsAgainstDense(t *testing.T) {
	q := newProblem("three", 52, 90, 3, glm.Categorical{}, 1)
	got, left := q.places(t, sparse.Greedy{}, q.Train, 40), mat.DenseCopyOf(q.KTrain)
	for step, place := range got {
		best := 0
		for i := range q.N * q.C {
			if left.At(i, i) > left.At(best, best) {
				best = i
			}
		}
		require.Equal(t, best, place, "step %d", step)
		row := mat.DenseCopyOf(left.Slice(best, best+1, 0, q.N*q.C))
		left = plus(left, -1/row.At(0, best), product(row.T(), row))
	}
}

// RandomCholesky draws the second pair by the residuals that the first leaves.
func TestRandomPairsFrequencies(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of selections that other tests make once")
	}
	const runs = 800
	q := newProblem("small", 71, 4, 2, glm.Categorical{}, 1)
	n := q.N * q.C
	count, prob := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	for seed := range runs {
		p := sparse.Pairs(sparse.RandomCholesky{Seed: uint64(seed)})
		places, err := p.Choose(t.Context(), q.Kernel, q.Train, 2, nil)
		require.NoError(t, err)
		count.Set(places[0], places[1], count.At(places[0], places[1])+1)
	}
	for i := range n {
		first, left := q.KTrain.At(i, i)/mat.Trace(q.KTrain), make([]float64, n)
		total := 0.0
		for j := range n {
			if j != i {
				left[j] = q.KTrain.At(j, j) - q.KTrain.At(i, j)*q.KTrain.At(i, j)/q.KTrain.At(i, i)
				total += left[j]
			}
		}
		for j := range n {
			prob.Set(i, j, first*left[j]/total)
		}
	}
	requireFrequencies(t, count, prob, runs)
}

// The trace error falls in M, and for as many rows of K_ZZ greedy pairs leave
// no more of the trace than greedy examples.
func TestPairsReduceTrace(t *testing.T) {
	q := newProblem("large", 61, 120, 3, glm.Categorical{}, 1)
	sizes := []int{6, 15, 30, 60, 120, 360}
	left := map[string][]float64{}
	for name, how := range q.pairSelectors(t, 1) {
		places, last := q.places(t, how, q.Train, q.N*q.C), 1.0
		for _, m := range sizes {
			e := q.fit(t, q.pairs(t, places[:m]...), nil).TraceError()
			require.LessOrEqual(t, e, last, "%s, M = %d", name, m)
			left[name], last = append(left[name], e), e
		}
		require.Less(t, last, 1e-12, name)
	}
	rows := choose(t, sparse.Greedy{}, q, q.Train, q.N)
	for i, m := range sizes {
		e := q.fit(t, q.inducing(t, rows[:m/q.C]...), nil).TraceError()
		require.LessOrEqual(t, left["greedy"][i], e+1e-14, "M = %d", m)
		t.Logf("%d rows: greedy pairs leave %.4f of the trace, random ones %.4f, rpcholesky %.4f; greedy examples %.4f", m,
			left["greedy"][i], left["uniform"][i], left["rpcholesky"][i], e)
	}
	require.Less(t, left["greedy"][2], left["uniform"][2])
}

// Everything goes through a file, with pairs that are gathered or given.
func TestSavedPairs(t *testing.T) {
	for _, q := range append(savedProblems(t), problems(t)[5]) {
		for _, a := range approximations {
			t.Run(q.Name+"/"+a.String(), func(t *testing.T) {
				z := q.somePairs(t)
				p := q.fit(t, z, &sparse.Options{Approximation: a})
				t.Run("fit", func(t *testing.T) { gptest.Saved(t, q.saved(t.Context(), p, nil)) })
				r := q.refit(t, z, &sparse.Options{Approximation: a, MaxIter: 2})
				t.Run("refit", func(t *testing.T) {
					gptest.Saved(t, q.saved(t.Context(), r, &sparse.Inducing{Batch: z.Batch, Outputs: z.Outputs, DataOutputs: q.C}))
				})
				t.Run("projected", func(t *testing.T) { gptest.Saved(t, q.savedProjected(t.Context(), r.Projected, z)) })
				back, err := sparse.Load(t.Context(), written(t, p.Save), q.Kernel, q.Train, nil, nil)
				require.NoError(t, err)
				require.Equal(t, z.Rows, back.Inducing().Rows)
				require.Equal(t, z.Outputs, back.Inducing().Outputs)
				require.Equal(t, q.C, back.Inducing().DataOutputs)
			})
		}
	}
	t.Run("all of a singular kernel", func(t *testing.T) {
		q := savedProblems(t)[2]
		p := q.fit(t, q.shuffledPairs(t), linear(sparse.Nystrom))
		require.Less(t, p.Rank(), q.N*q.C)
		gptest.Saved(t, q.saved(t.Context(), p, nil))
	})
}

// Pairs that are not the saved ones are refused, and so are impossible ones.
func TestSavedPairsRefused(t *testing.T) {
	q := problems(t)[5]
	z := q.somePairs(t)
	p := q.fit(t, z, nil)
	f := written(t, p.Save)
	outputs := slices.Clone(z.Outputs)
	outputs[0] = (outputs[0] + 1) % q.C
	other, err := sparse.GatherPairs(t.Context(), q.Train, z.Rows, outputs)
	require.NoError(t, err)
	for name, z := range map[string]*sparse.Inducing{
		"other outputs": other, "examples": q.inducing(t, z.Rows...),
		"of data with more outputs": {Rows: z.Rows, Batch: z.Batch, Outputs: z.Outputs, DataOutputs: q.C + 1},
	} {
		_, err := sparse.Load(t.Context(), f, q.Kernel, q.Train, z, nil)
		require.ErrorAs(t, err, new(*store.Error), name)
		_, err = sparse.LoadProjected(t.Context(), f, q.Kernel, z, nil)
		require.ErrorAs(t, err, new(*store.Error), name)
	}
	_, err = sparse.Load(t.Context(), written(t, q.fit(t, q.some(t), nil).Save), q.Kernel, q.Train, q.pairs(t, 1, 2, 3, 4, 5, 6, 7), nil)
	require.ErrorAs(t, err, new(*store.Error), "pairs for examples")

	var about map[string]any
	require.NoError(t, f.JSON("sparse.about", &about))
	for name, v := range map[string]any{"negative": []int{-1, 0}, "too large": append(slices.Clone(outputs[1:]), q.C), "none": nil, "a number": 3} {
		edited := map[string]any{}
		for k, v := range about {
			edited[k] = v
		}
		edited["Outputs"] = v
		g := written(t, func(w *store.Writer) error {
			w.JSON("sparse.about", edited)
			return nil
		})
		_, err := sparse.LoadProjected(t.Context(), g, q.Kernel, z, nil)
		require.ErrorAs(t, err, new(*store.Error), name)
	}
	about["Approximation"] = int(subsetOfData)
	_, err = sparse.LoadProjected(t.Context(), written(t, func(w *store.Writer) error {
		w.JSON("sparse.about", about)
		return nil
	}), q.Kernel, z, nil)
	require.ErrorContains(t, err, "impossible", "a subset of pairs")
}

// A fit through pairs goes on from any of its checkpoints to the same bits;
// not through others.
func TestPairsResume(t *testing.T) {
	q := interrupted()[0]
	z, other := q.pairs(t, 3, 3000, 14, 500, 501, 502, 2222), q.pairs(t, 3, 3000, 14, 500, 501, 502, 2223)
	for name, begin := range map[string]start{"fit": startFit, "refit": startRefit} {
		for _, a := range approximations {
			t.Run(name+"/"+a.String(), func(t *testing.T) {
				var all [][]byte
				o := few(a)
				keep(t, o, &all)
				p, err := begin(t.Context(), q, q.Train, z, o)
				require.NoError(t, err)
				want := q.bits(t, p)
				require.GreaterOrEqual(t, len(all), 2)
				for i, data := range all {
					var rest [][]byte
					o := few(a)
					keep(t, o, &rest)
					o.Resume = resumed(t, data)
					p, err := begin(t.Context(), q, watch(q, 333), z, o)
					require.NoError(t, err)
					require.Equal(t, want, q.bits(t, p))
					require.Equal(t, len(all[i+1:]), len(rest))
				}
				o = few(a)
				o.Resume = resumed(t, all[0])
				_, err = begin(t.Context(), q, q.Train, other, o)
				require.ErrorAs(t, err, new(*sparse.ResumeError))
			})
		}
	}
}

// Results through pairs are the same to the last bit for any processors and
// batches.
func TestPairsBitIdentical(t *testing.T) {
	q := large()
	run := func(x linearize.Source, workers int) []float64 {
		z, err := sparse.Select(t.Context(), sparse.Pairs(sparse.RandomCholesky{Seed: 3}), q.Kernel, x, 60, nil)
		require.NoError(t, err)
		p, err := sparse.Fit(t.Context(), q.Kernel, x, q.Sites(t), z, &sparse.Options{Workers: workers})
		require.NoError(t, err)
		return q.everything(t, p)
	}
	want := run(q.Train, 1)
	require.Equal(t, want, run(testkit.InTiles(q.Train, 300), 3))
}

func TestPairCounts(t *testing.T) {
	q := problems(t)[5]
	n := q.N * q.C
	for _, m := range []int{-1, 0, n + 1} {
		_, err := sparse.Select(t.Context(), sparse.Pairs(sparse.Uniform{}), nil, q.Train, m, nil)
		require.Equal(t, &sparse.CountError{M: m, N: n, Pairs: true}, err)
		require.NotEmpty(t, err.Error())
	}
	many := q.pairs(t, append(seq(0, n), 0)...)
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), many, nil)
	require.Equal(t, &sparse.CountError{M: n + 1, N: n, Pairs: true}, err)
	require.ErrorContains(t, err, "61 inducing pairs of 60 outputs")
	_, err = sparse.GatherPairs(t.Context(), q.Train, []int{0, 1}, []int{0, q.C})
	require.ErrorContains(t, err, "pair 1")
	require.Panics(t, func() { _, _ = sparse.GatherPairs(t.Context(), q.Train, []int{q.N}, []int{0}) })
	require.Panics(t, func() { _, _ = sparse.GatherPairs(t.Context(), q.Train, []int{1}, nil) })
	require.Panics(t, func() { _, _ = sparse.GatherPairs(t.Context(), q.Train, nil, nil) })
	bad := q.pairs(t, 1, 2)
	bad.Outputs[1] = q.C
	require.Panics(t, func() { _, _ = sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), bad, nil) })
}

// A subset of data has no pairs.
func TestSubsetOfPairs(t *testing.T) {
	q := problems(t)[5]
	z := q.somePairs(t)
	_, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
	require.ErrorContains(t, err, "choose examples")
	_, err = sparse.RefitSubset(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, z, nil)
	require.ErrorContains(t, err, "choose examples")
}

// Memory is that of the rows of K_ZZ.
func TestPairsMemory(t *testing.T) {
	q := problems(t)[5]
	z := q.somePairs(t)
	need := sparse.RowBytes(z.Len(), q.N, q.C, false)
	require.Equal(t, sparse.Bytes(4, q.N, q.C, false), sparse.RowBytes(4*q.C, q.N, q.C, false))
	require.Equal(t, int64(math.MaxInt64), sparse.RowBytes(math.MaxInt, 3, 10, true))
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, &sparse.Options{MaxMemory: need - 1})
	var e *gp.MemoryError
	require.ErrorAs(t, err, &e)
	require.Equal(t, gp.MemoryError{Op: e.Op, Needed: need, Available: need - 1, Largest: z.Len() - 1, Unit: gp.InducingPairs}, *e)
	require.ErrorContains(t, err, "inducing pairs fit")
	_, err = sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, &sparse.Options{MaxMemory: need})
	require.NoError(t, err)
	_, err = sparse.Select(t.Context(), sparse.Pairs(sparse.Greedy{}), q.Kernel, q.Train, 20, &sparse.Options{MaxMemory: 1 << 14})
	require.ErrorAs(t, err, &e)
	require.Equal(t, gp.InducingPairs, e.Unit)
}
