package sparse_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// pairs are the pairs at places i·C + a, each in the direction of output a.
func (q *problem) pairs(t *testing.T, places ...int) *sparse.Inducing {
	t.Helper()
	rows, u := make([]int, len(places)), mat.NewDense(len(places), q.C, nil)
	for i, p := range places {
		rows[i] = p / q.C
		u.Set(i, p%q.C, 1)
	}
	z := testref.Must(sparse.GatherDirections(t.Context(), q.Train, rows, u))(t)
	require.True(t, z.Pairs())
	require.Equal(t, len(places), z.Len())
	require.Equal(t, q.C, z.DataOutputs)
	return z
}

// turned is z with the direction of its first pair another one.
func (q *problem) turned(t *testing.T, z *sparse.Inducing) *sparse.Inducing {
	t.Helper()
	u := mat.DenseCopyOf(z.Directions)
	u.Set(0, 0, u.At(0, 0)+1)
	return testref.Must(sparse.GatherDirections(t.Context(), q.Train, z.Rows, u))(t)
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

func eachPairs(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range pairProblems(t) {
		t.Run(q.Name, func(t *testing.T) { f(t, q) })
	}
}

// Through some pairs everything is (E13) with their rows of K alone: against
// explicit inverses, as for examples.
func TestPairsE13(t *testing.T) {
	eachPairs(t, func(t *testing.T, q *problem) {
		z := q.somePairs(t)
		for name, p := range map[string]*sparse.Posterior{"fit": q.fit(t, z, linear()), "refit": q.refit(t, z, linear())} {
			e := q.dense(t, p.Sites(), z)
			var mean, cov, joint, self mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
			require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
			require.NoError(t, p.SplitTo(t.Context(), nil, &self, nil, q.Train))
			requireClose(t, name+": mean", column(&mean), e.mean(), tol)
			requireClose(t, name+": covariance", &cov, diagonalBlocks(e.cov(t), q.C), tol)
			requireClose(t, name+": joint covariance", &joint, e.cov(t), tol)
			requireClose(t, name+": k_iZ A⁻¹ k_Zi", &self, diagonalBlocks(product(e.zn.T(), e.aInv, e.zn), q.C), tol)
			requireNumber(t, name+": evidence", p.Projected.EvidenceLinearGaussian().Value, e.evidence(t), 1e-8)
			requireNumber(t, name+": trace error", p.TraceError(), mat.Trace(e.d)/mat.Trace(q.KTrain), 1e-12)
			require.Equal(t, z.Len(), p.Rank())
			requireClose(t, name+": b", vec(p.PseudoTargets()), e.b, tol)
			post, raw := crossOf(t, p, q.Test, q.Train, 6, gp.PosteriorTerms), crossOf(t, p, q.Test, q.Train, 6, gp.RawTerms)
			requireClose(t, name+": k_*Z A⁻¹ k_Zi", post, e.cross(), tol)
			requireClose(t, name+": q_*i", raw, product(e.zt.T(), inverse(t, e.zz), e.zn), tol)
			requireClose(t, name+": m + Σ Cb", plus(q.MTest, 1, product(post, vec(p.PseudoTargets()))), column(&mean), tol)
			requireClose(t, name+": m + Σ qα", plus(q.MTest, 1, product(raw, vec(p.Alpha()))), column(&mean), tol)
			r := testref.Must(p.Report(t.Context(), q.Test, 9, 0))(t)
			require.Equal(t, [3]int{z.Len(), z.Len(), z.Len()}, [3]int{r.Inducing, r.Rows, r.Rank})
		}
	})
}

// All N·C pairs give the exact posterior, fitted and refitted.
func TestAllPairsAreExact(t *testing.T) {
	eachPairs(t, func(t *testing.T, q *problem) {
		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
		p := q.fit(t, q.shuffledPairs(t), linear())
		q.requireExact(t, p, x)
		require.InDelta(t, 0, p.TraceError(), 1e-12)
		requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, testref.Must(x.EvidenceLinearGaussian(t.Context()))(t).Value, tol)
		requireNumber(t, "evidence at θ*", p.EvidenceAtTheta(2).Value, x.EvidenceAtTheta(2).Value, tol)
		got := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
		want := testref.Must(testkit.GradientLinearGaussian(t.Context(), x, q.groups()))(t)
		requireClose(t, "gradient", vec(got), vec(want), 1e-7)

		xr := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		pr := q.refit(t, q.shuffledPairs(t), linear())
		q.requireExact(t, pr, xr)
		requireNumber(t, "evidence of the refit", pr.EvidenceRefit().Value, xr.EvidenceRefit().Value, tol)
	})
}

// So they do where K is singular, and a pair chosen twice changes nothing.
func TestPairsOfSingularKernel(t *testing.T) {
	q := newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4)
	x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
	p := q.fit(t, q.shuffledPairs(t), linear())
	w := testkit.RequireWarnings(t, p.Warnings(), "inducing-rank")[0]
	require.Equal(t, []float64{float64(p.Rank()), float64(q.N * q.C)}, []float64{w.Value, w.Limit})
	q.requireExact(t, p, x)
	requireNumber(t, "evidence", p.Projected.EvidenceLinearGaussian().Value, testref.Must(x.EvidenceLinearGaussian(t.Context()))(t).Value, tol)
	q = problems(t)[5]
	twice := q.fit(t, q.pairs(t, 4, 50, 7, 33, 50, 4), linear())
	require.Equal(t, 4, twice.Rank())
	requireSame(t, twice, q.fit(t, q.pairs(t, 4, 50, 7, 33), linear()), q)
}

// The C pairs of each of some examples are the examples.
func TestPairsOfWholeExamples(t *testing.T) {
	eachPairs(t, func(t *testing.T, q *problem) {
		rows := []int{9, 2, 17, 5, 0}
		var places []int
		for _, r := range rows {
			for b := range q.C {
				places = append(places, r*q.C+b)
			}
		}
		for _, o := range []func(*sparse.Inducing) *sparse.Posterior{
			func(z *sparse.Inducing) *sparse.Posterior { return q.fit(t, z, linear()) },
			func(z *sparse.Inducing) *sparse.Posterior { return q.refit(t, z, linear()) },
		} {
			got, want := o(q.pairs(t, places...)), o(q.inducing(t, rows...))
			q.requireSamePosterior(t, got, want) // to 1e-10
			requireClose(t, "α", vec(got.Alpha()), vec(want.Alpha()), 1e-10)
			for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
				requireClose(t, "cross-kernel", crossOf(t, got, q.Test, q.Train, 6, terms), crossOf(t, want, q.Test, q.Train, 6, terms), 1e-10)
			}
		}
	})
}

// The derivatives are those of finite differences of the evidence (E10).
func TestPairsE10Gradients(t *testing.T) {
	const h, tol = 1e-4, 2e-6
	q := problems(t)[5]
	z, s, o := q.somePairs(t), q.Sites(t), linear()
	got := testref.Must(q.fit(t, z, o).GradientLinearGaussian(t.Context(), q.groups()))(t)
	for g := range got {
		var v [2]float64
		for i, sign := range []float64{1, -1} {
			p := testref.Must(sparse.Fit(t.Context(), q.at(g, sign*h), q.Train, s, z, o))(t)
			v[i] = p.Projected.EvidenceLinearGaussian().Value
		}
		requireNumber(t, "evidence", got[g], (v[0]-v[1])/(2*h), tol)
	}
}

// The first pairs of a posterior, another prior and prepared examples.
func TestLeadingPairs(t *testing.T) {
	for _, q := range pairProblems(t) {
		z := q.somePairs(t)
		all := q.fit(t, z, linear())
		prepared := testref.Must(all.Prepare(t.Context(), q.Test))(t)
		for _, m := range []int{1, 4, z.Len()} {
			got := testref.Must(all.Leading(t.Context(), m))(t)
			own := q.fit(t, &sparse.Inducing{Rows: z.Rows[:m], Batch: z.Batch.Slice(0, m), Directions: mat.DenseCopyOf(z.Directions.Slice(0, m, 0, q.C)), DataOutputs: q.C}, linear())
			requireSamePosterior(t, q, got, own.Projected, 1e-11)
			requireNumber(t, "trace error", got.TraceError(), own.TraceError(), 1e-11)
			at := testref.Must(got.At(t.Context(), 0.3))(t)
			var mean, cov, mean2, cov2 mat.Dense
			require.NoError(t, at.PredictPreparedTo(t.Context(), &mean, &cov, prepared))
			require.NoError(t, at.PredictTo(t.Context(), &mean2, &cov2, q.Test))
			requireClose(t, "mean", &mean, &mean2, 1e-11)
			requireClose(t, "covariance", &cov, &cov2, 1e-11)
		}
		_, err := all.Leading(t.Context(), z.Len()+1)
		require.Equal(t, &sparse.CountError{M: z.Len() + 1, N: z.Len(), Pairs: true}, err)
	}
}

// Predictions are explained over all training examples, and both sums close.
func TestPairsExplained(t *testing.T) {
	eachPairs(t, func(t *testing.T, q *problem) {
		p := requireExplained(t, q, q.somePairs(t))
		// Those of differences of outputs, whose kernel is combined on both sides.
		if q.C > 1 {
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
	eachPairs(t, func(t *testing.T, q *problem) {
		z, o := q.somePairs(t), linear()
		want, total := q.fit(t, z, o), q.builder(t, z, o)
		for _, part := range [][]int{seq(0, 7), seq(7, 8), seq(8, q.N)} {
			shard := q.builder(t, z, o)
			x, s := q.rows(t, part)
			require.NoError(t, shard.Add(t.Context(), x, s))
			data := testref.Must(shard.Sums().MarshalBinary())(t)
			var sums sparse.Sums
			require.NoError(t, sums.UnmarshalBinary(data))
			require.NoError(t, total.Merge(&sums))
		}
		got := testref.Must(total.Posterior(t.Context()))(t)
		q.requireSamePosterior(t, got, want)

		mismatch := testref.As[*sparse.MismatchError](t, total.Merge(q.builder(t, q.turned(t, z), o).Sums()))
		require.ErrorAs(t, total.Merge(q.builder(t, q.inducing(t, z.Rows...), o).Sums()), &mismatch)
	})
}

// Everything goes through a file, with pairs that are gathered or given.
func TestSavedPairs(t *testing.T) {
	for _, q := range append(savedProblems(t), problems(t)[5]) {
		t.Run(q.Name, func(t *testing.T) {
			z := q.somePairs(t)
			p := q.fit(t, z, nil)
			t.Run("fit", func(t *testing.T) { gptest.Saved(t, q.saved(t.Context(), p, nil)) })
			r := q.refit(t, z, &sparse.Options{MaxIter: 2})
			t.Run("refit", func(t *testing.T) {
				gptest.Saved(t, q.saved(t.Context(), r, &sparse.Inducing{Batch: z.Batch, Directions: z.Directions, DataOutputs: q.C}))
			})
			t.Run("projected", func(t *testing.T) { gptest.Saved(t, q.savedProjected(t.Context(), r.Projected, z)) })
			back := testref.Must(sparse.Load(t.Context(), written(t, p.Save), q.Kernel, q.Train, nil, nil))(t)
			require.Equal(t, z.Rows, back.Inducing().Rows)
			require.True(t, mat.Equal(z.Directions, back.Inducing().Directions))
			require.Equal(t, q.C, back.Inducing().DataOutputs)
		})
	}
	t.Run("all of a singular kernel", func(t *testing.T) {
		q := savedProblems(t)[2]
		p := q.fit(t, q.shuffledPairs(t), linear())
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
	for name, z := range map[string]*sparse.Inducing{
		"other directions": q.turned(t, z), "examples": q.inducing(t, z.Rows...),
	} {
		require.ErrorAs(t, testref.Err(sparse.Load(t.Context(), f, q.Kernel, q.Train, z, nil)), new(*store.Error), name)
		require.ErrorAs(t, testref.Err(sparse.LoadProjected(t.Context(), f, q.Kernel, z, nil)), new(*store.Error), name)
	}
	_, err := sparse.Load(t.Context(), written(t, q.fit(t, q.some(t), nil).Save), q.Kernel, q.Train, q.pairs(t, 1, 2, 3, 4, 5, 6, 7), nil)
	require.ErrorAs(t, err, new(*store.Error), "pairs for examples")

	var about map[string]any
	require.NoError(t, f.JSON("sparse.about", &about))
	about["Approximation"] = 2 // of a subset
	require.ErrorContains(t, testref.Err(sparse.LoadProjected(t.Context(), written(t, func(w *store.Writer) error {
		w.JSON("sparse.about", about)
		return nil
	}), q.Kernel, z, nil)), "impossible", "a subset of pairs")
}

// A fit through pairs goes on from any of its checkpoints to the same bits;
// not through others.
func TestPairsResume(t *testing.T) {
	q := interrupted()[0]
	z, other := q.pairs(t, 3, 3000, 14, 500, 501, 502, 2222), q.pairs(t, 3, 3000, 14, 500, 501, 502, 2223)
	for name, begin := range map[string]start{"fit": startFit, "refit": startRefit} {
		t.Run(name, func(t *testing.T) {
			var all [][]byte
			o := few()
			keep(t, o, &all)
			p := testref.Must(begin(t.Context(), q, q.Train, z, o))(t)
			want := q.bits(t, p)
			require.GreaterOrEqual(t, len(all), 2)
			for i, data := range all {
				var rest [][]byte
				o := few()
				keep(t, o, &rest)
				o.Resume = resumed(t, data)
				p := testref.Must(begin(t.Context(), q, watch(q, 333), z, o))(t)
				require.Equal(t, want, q.bits(t, p))
				require.Equal(t, len(all[i+1:]), len(rest))
			}
			o = few()
			o.Resume = resumed(t, all[0])
			require.ErrorAs(t, testref.Err(begin(t.Context(), q, q.Train, other, o)), new(*store.Error))
		})
	}
}

// Results through pairs are the same to the last bit for any processors and
// batches.
func TestPairsBitIdentical(t *testing.T) {
	q := large()
	run := func(x linearize.Source, procs int) []float64 {
		testref.Procs(t, procs)
		z := q.pairs(t, seq(30, 90)...)
		p := testref.Must(sparse.Fit(t.Context(), q.Kernel, x, q.Sites(t), z, nil))(t)
		return q.everything(t, p)
	}
	want := run(q.Train, 1)
	require.Equal(t, want, run(testkit.InTiles(q.Train, 300), 3))
}

func TestPairCounts(t *testing.T) {
	q := problems(t)[5]
	n := q.N * q.C
	many := q.pairs(t, append(seq(0, n), 0)...)
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), many, nil)
	require.Equal(t, &sparse.CountError{M: n + 1, N: n, Pairs: true}, err)
	require.ErrorContains(t, err, "61 inducing pairs of 60 outputs")
	require.Panics(t, func() { _, _ = sparse.GatherDirections(t.Context(), q.Train, []int{q.N}, mat.NewDense(1, q.C, nil)) })
	bad := q.pairs(t, 1, 2)
	bad.DataOutputs = q.C + 1
	require.Panics(t, func() { _, _ = sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), bad, nil) })
}

// A subset of data has no pairs.
func TestSubsetOfPairs(t *testing.T) {
	q := problems(t)[5]
	z := q.somePairs(t)
	_, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
	require.ErrorContains(t, err, "choose examples")
	_, err = sparse.RefitSubset(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil)
	require.ErrorContains(t, err, "choose examples")
}

// Memory is that of the rows of K_ZZ.
func TestPairsMemory(t *testing.T) {
	q := problems(t)[5]
	z := q.somePairs(t)
	need := sparse.RowBytes(z.Len(), q.N, q.C, false)
	require.Equal(t, sparse.Bytes(4, q.N, q.C, false), sparse.RowBytes(4*q.C, q.N, q.C, false))
	require.Equal(t, int64(math.MaxInt64), sparse.RowBytes(math.MaxInt, 3, 10, true))
	_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, &sparse.Options{Limits: linearize.Limits{Memory: need - 1}})
	e := testref.As[*gp.MemoryError](t, err)
	require.Equal(t, gp.MemoryError{Op: e.Op, Needed: need, Available: need - 1, Largest: z.Len() - 1, Unit: gp.InducingPairs}, *e)
	require.ErrorContains(t, err, "inducing pairs fit")
	_, err = sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, &sparse.Options{Limits: linearize.Limits{Memory: need}})
	require.NoError(t, err)
}
