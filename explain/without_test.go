package explain_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// without is what Without says of all test rows.
type without struct {
	own  *mat.Dense   // n×C
	each []*mat.Dense // n×C for each test row
}

// leaveOutEach collects Without for the given rows, with test tiles of the given
// size, 0 for the default.
func leaveOutEach(t *testing.T, d gp.Dual, prior explain.PriorMean, x *linearize.Batch, rows []int, tile, procs int) without {
	t.Helper()
	if procs > 0 {
		testref.Procs(t, procs)
	}
	e := testref.Must(explain.New(d, prior, nil))(t)
	w := testref.Must(e.Without(t.Context(), rows))(t)
	if tile > 0 {
		w.SetTile(tile)
	}
	got := without{mat.DenseCopyOf(w.Mean()), make([]*mat.Dense, x.Len())}
	var mu sync.Mutex
	require.NoError(t, w.Each(t.Context(), x, func(i int, mean *mat.Dense) error {
		mu.Lock()
		defer mu.Unlock()
		require.Nil(t, got.each[i], "a row comes once")
		got.each[i] = mat.DenseCopyOf(mean)
		return nil
	}))
	return got
}

// refits are the same numbers from a refit without each example.
func refits(t *testing.T, q *testkit.Problem) without {
	t.Helper()
	want := without{own: mat.NewDense(q.N, q.C, nil)}
	for range q.T {
		want.each = append(want.each, mat.NewDense(q.N, q.C, nil))
	}
	for i := range q.N {
		x, y := leaveOut(t, q.Train, q.Y, i)
		post := testref.Must(gp.Refit(t.Context(), q.Kernel, x, gp.NewTargets(y, q.Likelihood), nil))(t)
		var own, test mat.Dense
		require.NoError(t, post.PredictTo(t.Context(), &own, nil, q.Train.Slice(i, i+1)))
		require.NoError(t, post.PredictTo(t.Context(), &test, nil, q.Test))
		want.own.SetRow(i, own.RawRowView(0))
		for r := range q.T {
			want.each[r].SetRow(i, test.RawRowView(r))
		}
	}
	return want
}

func requireWithout(t *testing.T, got, want without, rel float64) {
	t.Helper()
	testkit.RequireClose(t, "at its own row", got.own, want.own, rel)
	for r := range want.each {
		testkit.RequireClose(t, "at a test row", got.each[r], want.each[r], rel)
	}
}

// withoutProblems are Gaussian, where a step is exact.
func withoutProblems(t *testing.T) []*testkit.Problem { return testkit.Problems(t)[:2] }

// everyPosterior are the posteriors of a problem that have all the data, by every
// method.
func everyPosterior(t *testing.T, q *testkit.Problem) map[string]gp.Dual {
	t.Helper()
	var rows []int
	for i := range q.N {
		rows = append(rows, i)
	}
	z := &sparse.Inducing{Batch: q.Train, Rows: rows}
	exact := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	nystrom := testref.Must(sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil))(t)
	subset := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil))(t)
	iterative, err := weightspace.RefitSums(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, nil, nil)
	require.NoError(t, err)
	// With a Gaussian likelihood m + Kα is the same mean wherever the sites are.
	linear := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
	linearSparse, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, &sparse.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	linearIterative, err := weightspace.FitSums(t.Context(), q.Train, q.Sites(t), q.Prior, q.Theta, &weightspace.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	return map[string]gp.Dual{"exact": exact, "nystrom": nystrom, "subset": subset, "parameters": iterative,
		"exact without refit": linear, "nystrom without refit": linearSparse, "cg without refit": linearIterative}
}

// TestWithoutByParts: without a few examples of a part, which are gathered, is without them of the whole.
func TestWithoutByParts(t *testing.T) {
	for _, q := range withoutProblems(t) {
		for name, d := range everyPosterior(t, q) {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				want := leaveOutEach(t, d, q.Kernel, q.Test, []int{3, 9}, 0, 0)
				requireWithout(t, leaveOutEach(t, explain.Part(d, 2, q.N), q.Kernel, q.Test, []int{1, 7}, 0, 0), want, 1e-9)
			})
		}
	}
}

// TestE15WithoutIsARefit compares every prediction without an example with that of N
// refits, and the interval that both give.
func TestE15WithoutIsARefit(t *testing.T) {
	for _, q := range withoutProblems(t) {
		want := refits(t, q)
		for name, d := range everyPosterior(t, q) {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				got := leaveOutEach(t, d, q.Kernel, q.Test, nil, 0, 0)
				requireWithout(t, got, want, 1e-8) // conjugate gradients; the others 1e-12
				lik := q.Likelihood.(glm.Likelihood)
				short := testref.Must(score.NewJackknife(lik, .9, q.Y, got.own))(t)
				long := testref.Must(score.NewJackknife(lik, .9, q.Y, want.own))(t)
				for r := range want.each {
					for k := range q.C {
						lo, hi := short.Interval(k, got.each[r])
						wantLo, wantHi := long.Interval(k, want.each[r])
						require.InDelta(t, wantLo, lo, 1e-8)
						require.InDelta(t, wantHi, hi, 1e-8)
					}
				}
			})
		}
	}
}

// TestE15WithoutThroughInducing compares with refits without each example through the same
// inducing examples, fewer than all.
func TestE15WithoutThroughInducing(t *testing.T) {
	for _, q := range withoutProblems(t) {
		z, _ := gatherOf(t, q, 0, 2, 3, 7, 8, 9, 15, 16, 19)
		alone := &sparse.Inducing{Batch: z.Batch}
		post := testref.Must(sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil))(t)
		got := leaveOutEach(t, post, q.Kernel, q.Test, nil, 0, 0)
		for i := range q.N {
			x, y := leaveOut(t, q.Train, q.Y, i)
			left := testref.Must(sparse.Refit(t.Context(), q.Kernel, x, gp.NewTargets(y, q.Likelihood), alone, nil))(t)
			var own, test mat.Dense
			require.NoError(t, left.PredictTo(t.Context(), &own, nil, q.Train.Slice(i, i+1)))
			require.NoError(t, left.PredictTo(t.Context(), &test, nil, q.Test))
			testkit.RequireClose(t, "at its own row", got.own.Slice(i, i+1, 0, q.C), &own, 1e-8)
			for r := range q.T {
				testkit.RequireClose(t, "at a test row", got.each[r].Slice(i, i+1, 0, q.C), test.Slice(r, r+1, 0, q.C), 1e-8)
			}
		}
	}
}

// TestWithoutIsLeaveOneOut checks that both know the same mean at the examples' own
// rows, also at sites that are no mode.
func TestWithoutIsLeaveOneOut(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		posts := everyPosterior(t, q)
		var err error
		posts["network"], err = gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil)
		require.NoError(t, err)
		for name, d := range posts {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				var mean mat.Dense
				require.NoError(t, d.LeaveOneOutTo(t.Context(), &mean, nil, dense.Range(q.N), q.Train))
				testkit.RequireClose(t, "mean", leaveOutEach(t, d, q.Kernel, q.Test, nil, 0, 0).own, &mean, 1e-7)
			})
		}
	}
}

// TestWithoutOfLinearizedClasses checks the step from the sites of a refit, which is
// exact in the Gaussian with these sites, against that Gaussian fitted without each
// example, and that sets come out of it.
func TestWithoutOfLinearizedClasses(t *testing.T) {
	for _, q := range testkit.Problems(t)[2:] {
		t.Run(q.Name, func(t *testing.T) {
			post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			got := leaveOutEach(t, post, q.Kernel, q.Test, nil, 0, 0)
			want := without{own: mat.NewDense(q.N, q.C, nil)}
			for range q.T {
				want.each = append(want.each, mat.NewDense(q.N, q.C, nil))
			}
			for i := range q.N {
				// Λ and b of the other examples at the mode; f = m + Kα with K and α of theirs.
				x, _ := leaveOut(t, q.Train, q.Y, i)
				var keep []int
				for j := range q.N {
					if j != i {
						keep = append(keep, j)
					}
				}
				left, err := gp.Fit(t.Context(), q.Kernel, x, post.Sites().Rows(keep), &gp.Options{Mean: gp.LinearGaussian})
				require.NoError(t, err)
				var own, test mat.Dense
				require.NoError(t, left.PredictTo(t.Context(), &own, nil, q.Train.Slice(i, i+1)))
				require.NoError(t, left.PredictTo(t.Context(), &test, nil, q.Test))
				want.own.SetRow(i, own.RawRowView(0))
				for r := range q.T {
					want.each[r].SetRow(i, test.RawRowView(r))
				}
			}
			requireWithout(t, got, want, 1e-8) // ‖α − r‖ of the refit
			j := testref.Must(score.NewJackknife(q.Likelihood.(glm.Likelihood), .9, q.Y, got.own))(t)
			for r := range got.each {
				if j.Classes() > 0 {
					require.Len(t, j.Set(0, got.each[r]), j.Classes())
				}
			}
		})
	}
}

// rechunked is a posterior whose training data come in pieces.
type rechunked struct {
	gp.Dual
	x *linearize.Batch
	n int
}

func (r rechunked) Data() linearize.Source { return testkit.InTiles(r.x, r.n) }

// gatherOf is the inducing examples at these rows, and their targets.
func gatherOf(t *testing.T, q *testkit.Problem, rows ...int) (*sparse.Inducing, *mat.Dense) {
	t.Helper()
	b := testref.Must(linearize.Gather(t.Context(), q.Train, rows))(t)
	_, c := q.Y.Dims()
	y := mat.NewDense(len(rows), c, nil)
	for at, i := range rows {
		y.SetRow(at, q.Y.RawRowView(i))
	}
	return &sparse.Inducing{Batch: b, Rows: rows}, y
}

// TestWithoutDoesNotDependOnTiles checks that the numbers are the same however the
// training data come, for some of the rows as for all, whatever the test rows held
// at a time, and to the last bit for any number of processors.
func TestWithoutDoesNotDependOnTiles(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		z, zy := gatherOf(t, q, 0, 2, 3, 7, 8, 9, 15, 16, 19)
		exact, err := gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil)
		require.NoError(t, err)
		posteriors := map[string]gp.Dual{"exact": exact}
		posteriors["nystrom"] = testref.Must(sparse.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), z, nil))(t)
		posteriors["subset"], err = sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(zy, q.Likelihood), z, nil)
		require.NoError(t, err)
		for name, d := range posteriors {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				want := leaveOutEach(t, d, q.Kernel, q.Test, nil, 0, 1)
				requireSame(t, leaveOutEach(t, d, q.Kernel, q.Test, nil, 0, 3), want, 0)
				// A posterior through inducing examples multiplies by one column in another
				// way than by several.
				rel := 1e-12
				if name == "exact" {
					rel = 0
				}
				for _, tile := range []int{1, 4} {
					requireSame(t, leaveOutEach(t, d, q.Kernel, q.Test, nil, tile, 0), want, rel)
				}
				for _, size := range []int{1, 3, 7} {
					requireSame(t, leaveOutEach(t, rechunked{d, q.Train, size}, q.Kernel, q.Test, nil, 0, 0), want, rel)
				}
				rows := []int{0, 3, 4, 5, 11, q.N - 1}
				some := leaveOutEach(t, d, q.Kernel, q.Test, rows, 0, 0)
				of := func(m *mat.Dense) *mat.Dense {
					part := mat.NewDense(len(rows), q.C, nil)
					for at, i := range rows {
						part.SetRow(at, m.RawRowView(i))
					}
					return part
				}
				part := without{own: of(want.own)}
				for _, m := range want.each {
					part.each = append(part.each, of(m))
				}
				requireSame(t, some, part, 1e-10)
			})
		}
	}
}

// requireSame compares within rel of each number or 1, and bit for bit where rel is
// 0. A NaN equals a NaN.
func requireSame(t *testing.T, got, want without, rel float64) {
	t.Helper()
	same := func(got, want *mat.Dense) {
		t.Helper()
		n, c := want.Dims()
		for i := range n {
			for k := range c {
				g, w := got.At(i, k), want.At(i, k)
				if math.Float64bits(g) == math.Float64bits(w) {
					continue
				}
				require.LessOrEqual(t, math.Abs(g-w), rel*math.Max(1, math.Abs(w)), "example %d", i)
				require.Positive(t, rel)
			}
		}
	}
	same(got.own, want.own)
	for r := range want.each {
		same(got.each[r], want.each[r])
	}
}

// TestWithoutRowOutsideASubset checks that leaving out what the posterior never saw
// changes nothing.
func TestWithoutRowOutsideASubset(t *testing.T) {
	q := testkit.Problems(t)[0]
	z, y := gatherOf(t, q, 1, 2, 3, 5, 8, 13)
	post := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(y, q.Likelihood), z, nil))(t)
	var own, test mat.Dense
	require.NoError(t, post.PredictTo(t.Context(), &own, nil, q.Train))
	require.NoError(t, post.PredictTo(t.Context(), &test, nil, q.Test))
	got := leaveOutEach(t, post, q.Kernel, q.Test, nil, 0, 0)
	inside := map[int]bool{1: true, 2: true, 3: true, 5: true, 8: true, 13: true}
	for i := range q.N {
		require.Equal(t, !inside[i], own.At(i, 0) == got.own.At(i, 0))
		for r := range q.T {
			require.Equal(t, !inside[i], test.At(r, 0) == got.each[r].At(i, 0))
		}
	}
}

// TestWithoutUnknown checks that an example whose removal is lost to rounding has no
// prediction, at its own row and at any other.
func TestWithoutUnknown(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	x, test := wide(rng, 24, 1, 120), wide(rng, 3, 1, 120)
	lik := testref.Must(glm.NewGaussian(1))(t)
	prior := testref.Must(ntk.NewIsotropic(1e-9, nil))(t)
	k := ntk.New(prior, make([]float64, 120))
	post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(normals(rng, 24, 1), lik), nil))(t)
	got := leaveOutEach(t, plain{post, k}, k, test, nil, 0, 0)
	for i := range 24 {
		require.True(t, math.IsNaN(got.own.At(i, 0)))
		for r := range got.each {
			require.True(t, math.IsNaN(got.each[r].At(i, 0)))
		}
	}
}

func TestWithoutRefusesAndStops(t *testing.T) {
	q := testkit.Problems(t)[0]
	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	small := testref.Must(explain.New(post, q.Kernel, &explain.Options{Limits: linearize.Limits{Memory: 600}}))(t)
	e := testref.As[*gp.MemoryError](t, testref.Err(small.Without(t.Context(), nil)))
	require.Positive(t, e.Largest)
	require.Less(t, e.Largest, q.N)

	var done []int
	x := testref.Must(explain.New(post, q.Kernel, &explain.Options{Limits: linearize.Limits{Progress: func(_ string, d, total int) {
		require.Equal(t, 3, total)
		done = append(done, d)
	}}}))(t)
	for _, rows := range [][]int{{}, {1, 1}, {2, 1}, {-1}, {q.N}} {
		require.Panics(t, func() { _, _ = x.Without(t.Context(), rows) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(x.Without(ctx, []int{0, 1, 4})), context.Canceled)
	w := testref.Must(x.Without(t.Context(), []int{0, 1, 4}))(t)
	require.Equal(t, []int{0, 1, 4}, w.Rows())
	require.Equal(t, 3, done[len(done)-1])
	require.ErrorIs(t, w.Each(ctx, q.Test, func(int, *mat.Dense) error { return nil }), context.Canceled)
	require.ErrorIs(t, w.Each(t.Context(), q.Test, func(int, *mat.Dense) error { return context.DeadlineExceeded }), context.DeadlineExceeded)
}
