package explain

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// dense inverses of well-conditioned matrices of at most 90 rows
const tight = 1e-10

// every returns all terms of a row and target as a list by position.
func every(t *testing.T, d *testkit.Dual, x *linearize.Batch, targets ...Target) [][]Explanation {
	t.Helper()
	e := testref.Must(New(d, d, &Options{Targets: targets, All: true}))(t)
	return testref.Must(e.Explain(t.Context(), x))(t)
}

// (E14) v_i = C(x*,x_i) b_i with C = J Σ Jᵀ, for each output and a contrast.
func TestE14Values(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		c := e.c
		cross := testkit.Product(testkit.Jacobian(x), d.Sigma, d.J.T())
		for row, outputs := range every(t, d, x) {
			for k, one := range outputs {
				for i := range e.n {
					want := 0.0
					for l := range c {
						want += cross.At(row*c+k, i*c+l) * d.Pseudo[i*c+l]
					}
					testkit.RequireNear(t, want, one.All.Value[i], tight, "value")
				}
			}
		}
	})
}

// (E12) κ(x*,x_i) α_i with κ = J Σ₀ Jᵀ.
func TestE12Raw(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		c := e.c
		cross := testkit.Product(testkit.Jacobian(x), d.Prior, d.J.T())
		for row, outputs := range every(t, d, x) {
			for k, one := range outputs {
				for i := range e.n {
					want := 0.0
					for l := range c {
						want += cross.At(row*c+k, i*c+l) * d.DualVector[i*c+l]
					}
					testkit.RequireNear(t, want, one.All.Raw[i], tight, "raw")
				}
			}
		}
	})
}

// Both sums are m + K_*n α, the mean of (E6), and the remainder is what the
// network differs from it by.
func TestBothSumsClose(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		rows := testref.Must(e.Explain(t.Context(), x))(t)
		mean := testkit.Product(testkit.Jacobian(x), d.Prior, d.J.T(), mat.NewVecDense(len(d.DualVector), d.DualVector))
		m := make([]float64, x.Len()*e.c)
		d.MeanTo(m, x)
		for row, outputs := range rows {
			for k, one := range outputs {
				s := mean.At(row*e.c+k, 0)
				// the closure DESIGN asks for
				testkit.RequireNear(t, s, one.Sum, 1e-9, "posterior sum")
				testkit.RequireNear(t, s, one.RawSum, 1e-9, "raw sum")
				testkit.RequireNear(t, m[row*e.c+k], one.PriorMean, tight, "prior mean")
				testkit.RequireNear(t, x.F.At(row, k), one.Network, 0, "network")
				testkit.RequireNear(t, one.Network-one.PriorMean-s, one.Remainder, 1e-9, "remainder")
			}
		}
	})
}

func TestCancellationIsOverAllExamples(t *testing.T) {
	explainers(t, Options{Top: 2, All: true}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		rows := testref.Must(e.Explain(t.Context(), x))(t)
		for _, one := range slices.Concat(rows...) {
			require.Len(t, one.Terms, 2)
			cancel := func(v []float64) float64 {
				s, a := 0.0, 0.0
				for _, v := range v {
					s, a = s+v, a+math.Abs(v)
				}
				return a / math.Abs(s)
			}
			testkit.RequireNear(t, cancel(one.All.Value), one.Cancellation, tight, "cancellation")
			testkit.RequireNear(t, cancel(one.All.Raw), one.RawCancellation, tight, "raw cancellation")
		}
	})
}

// (E15) one Newton step from the fitted function on leaving example i out,
// −J(x*) (Σ⁻¹ − J_iᵀΛ_iJ_i)⁻¹ J_iᵀ r_i, by inverting the P×P matrix.
func TestE15IsOneNewtonStep(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		c, p := e.c, x.P
		all := every(t, d, x)
		for i := range e.n {
			ji := d.J.Slice(i*c, (i+1)*c, 0, p)
			var precision, sigma mat.Dense
			require.NoError(t, precision.Inverse(d.Sigma))
			precision.Sub(&precision, testkit.Product(ji.T(), d.At.Lambda.Slice(i*c, (i+1)*c, 0, c), ji))
			require.NoError(t, sigma.Inverse(&precision))
			move := testkit.Product(testkit.Jacobian(x), &sigma, ji.T(), d.At.Residual.Slice(i, i+1, 0, c).T())
			for row := range all {
				for k := range c {
					// two inverses of condition up to 1e4
					testkit.RequireNear(t, -move.At(row*c+k, 0), all[row][k].All.Removal[i], 1e-8, fmt.Sprint("removal of ", i))
				}
			}
		}
	})
}

// (E15) is exact for a Gaussian: the posterior mean computed again without
// example i differs by just that.
func TestE15IsExactForGaussianSites(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		d.AtMode()
		c := e.c
		all := every(t, d, x)
		mean := func(d *testkit.Dual) *mat.Dense {
			return testkit.Product(testkit.Jacobian(x), d.Sigma, d.J.T(), mat.NewVecDense(len(d.Pseudo), d.Pseudo))
		}
		before := mean(d)
		for i := range e.n {
			without := *d
			s := *d.At
			without.At = &s
			s.Lambda, s.Residual = mat.DenseCopyOf(s.Lambda), mat.DenseCopyOf(s.Residual)
			s.Lambda.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense).Zero()
			s.Residual.SetRow(i, make([]float64, c))
			without.Solve()
			after := mean(&without)
			for row := range all {
				for k := range c {
					testkit.RequireNear(t, after.At(row*c+k, 0)-before.At(row*c+k, 0), all[row][k].All.Removal[i], 1e-8, "removal")
				}
			}
		}
	})
}

// Similarity is the posterior correlation of the target.
func TestSimilarityIsPosteriorCorrelation(t *testing.T) {
	explainers(t, Options{}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		c := e.c
		targets := []Target{Single(c - 1)}
		if c > 1 {
			targets = append(targets, Contrast(0, c-1))
		}
		for row, outputs := range every(t, d, x, targets...) {
			for k, target := range targets {
				w := weights(target, c)
				jt := testkit.Product(w.T(), testkit.Jacobian(x).Slice(row*c, (row+1)*c, 0, x.P))
				vt := testkit.Product(jt, d.Sigma, jt.T()).At(0, 0)
				for i := range e.n {
					ji := testkit.Product(w.T(), d.J.Slice(i*c, (i+1)*c, 0, x.P))
					want := testkit.Product(jt, d.Sigma, ji.T()).At(0, 0) / math.Sqrt(vt*testkit.Product(ji, d.Sigma, ji.T()).At(0, 0))
					testkit.RequireNear(t, want, outputs[k].All.Similarity[i], tight, "similarity")
				}
			}
		}
	})
}

func weights(t Target, c int) *mat.VecDense {
	w := mat.NewVecDense(c, nil)
	w.SetVec(t.Plus, 1)
	if t.IsContrast() {
		w.SetVec(t.Minus(), -1)
	}
	return w
}

// A contrast is the difference of its outputs in everything that is linear.
func TestContrastIsTheDifference(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	d := testkit.NewDual(rng, 15, 3, 30)
	x := testkit.RandomBatch(rng, 3, 3, 30)
	for _, row := range every(t, d, x, Single(2), Single(0), Contrast(2, 0)) {
		plus, minus, both := row[0], row[1], row[2]
		testkit.RequireNear(t, plus.Network-minus.Network, both.Network, tight, "network")
		testkit.RequireNear(t, plus.PriorMean-minus.PriorMean, both.PriorMean, tight, "prior mean")
		testkit.RequireNear(t, plus.Sum-minus.Sum, both.Sum, tight, "sum")
		testkit.RequireNear(t, plus.Remainder-minus.Remainder, both.Remainder, tight, "remainder")
		for i := range 15 {
			testkit.RequireNear(t, plus.All.Value[i]-minus.All.Value[i], both.All.Value[i], tight, "value")
			testkit.RequireNear(t, plus.All.Raw[i]-minus.All.Raw[i], both.All.Raw[i], tight, "raw")
			testkit.RequireNear(t, plus.All.Removal[i]-minus.All.Removal[i], both.All.Removal[i], tight, "removal")
		}
	}
}

// The lists are the head of a full sort, for both kinds of terms, and each
// listed term carries the numbers of its column.
func TestListsAreTheHeadOfASort(t *testing.T) {
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		explainers(t, Options{Terms: terms, Top: 5, Sides: true, Similar: 4, All: true}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
			rows := testref.Must(e.Explain(t.Context(), x))(t)
			for _, one := range slices.Concat(rows...) {
				by := one.All.Value
				if terms == gp.RawTerms {
					by = one.All.Raw
				}
				requireList(t, e, one, one.Terms, sortedBy(by, math.Abs)[:5])
				requireList(t, e, one, one.For, signedHead(by, 1))
				requireList(t, e, one, one.Against, signedHead(by, -1))
				requireList(t, e, one, one.Similar, sortedBy(one.All.Similarity, func(v float64) float64 { return v })[:4])
			}
		})
	}
}

// signedHead is the head of a sort of the entries of one sign.
func signedHead(v []float64, sign float64) []int {
	order := sortedBy(v, func(x float64) float64 { return sign * x })
	n := 0
	for n < 5 && sign*v[order[n]] > 0 {
		n++
	}
	return order[:n]
}

func sortedBy(v []float64, key func(float64) float64) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case key(v[a]) > key(v[b]):
			return -1
		case key(v[a]) < key(v[b]):
			return 1
		}
		return 0
	})
	return order
}

func requireList(t *testing.T, e *Explainer, one Explanation, list []Term, order []int) {
	t.Helper()
	require.Len(t, list, len(order))
	for k, term := range list {
		i := term.Index
		require.Equal(t, order[k], i)
		require.Equal(t, one.All.Value[i], term.Value)
		require.Equal(t, one.All.Raw[i], term.Raw)
		require.Equal(t, one.All.Similarity[i], term.Similarity)
		require.Equal(t, one.All.Removal[i], term.Removal)
		require.Equal(t, e.pseudo[i*e.c:(i+1)*e.c], term.PseudoTarget)
		require.Equal(t, e.alpha[i*e.c:(i+1)*e.c], term.Alpha)
	}
}

// Asking for more than N gives all N, and the sum of the list is the sum.
func TestTopAboveNGivesAll(t *testing.T) {
	explainers(t, Options{Top: 1 << 40}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		rows := testref.Must(e.Explain(t.Context(), x))(t)
		for _, one := range slices.Concat(rows...) {
			require.Len(t, one.Terms, e.n)
			s := 0.0
			for _, term := range one.Terms {
				s += term.Value
			}
			testkit.RequireNear(t, one.Sum, s, tight, "sum of the list")
		}
	})
}

// The result does not depend on tiles, batches of the source, processors, or on
// how much of the training data was looked at before.
func TestTilesDoNotMatter(t *testing.T) {
	for seed, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		d := testkit.NewDual(rng, size.n, size.c, size.p)
		x := testkit.RandomBatch(rng, 3, size.c, size.p)
		for _, o := range []Options{{Top: 4}, {Top: 4, Sides: true, Similar: 3}, {All: true, Terms: gp.RawTerms}} {
			var want [][]Explanation
			for _, tile := range []int{0, 1, 2, 5, 1000} {
				for _, chunk := range []int{0, 1, 4} {
					testref.Procs(t, 1+tile%3)
					o.tile, d.Chunk = tile, chunk
					e := testref.Must(New(d, d, &o))(t)
					got := testref.Must(e.Explain(t.Context(), x))(t)
					if want == nil {
						want = got
					}
					requireSame(t, want, got)
				}
			}
		}
	}
}

// requireSame compares bit by bit but for similarity and removal, which rest
// on a covariance that the dense product computes for one example or many.
func requireSame(t *testing.T, want, got [][]Explanation) {
	t.Helper()
	for row := range want {
		for k := range want[row] {
			a, b := want[row][k], got[row][k]
			for _, lists := range [][2][]Term{{a.Terms, b.Terms}, {a.Similar, b.Similar}, {a.For, b.For}, {a.Against, b.Against}} {
				require.Equal(t, len(lists[0]), len(lists[1]))
				for i := range lists[0] {
					p, q := lists[0][i], lists[1][i]
					testkit.RequireNear(t, p.Similarity, q.Similarity, 1e-12, "similarity")
					testkit.RequireNear(t, p.Removal, q.Removal, 1e-12, "removal")
					p.Similarity, p.Removal, q.Similarity, q.Removal = 0, 0, 0, 0
					require.Equal(t, p, q)
				}
			}
			if a.All != nil {
				require.Equal(t, a.All.Value, b.All.Value)
				require.Equal(t, a.All.Raw, b.All.Raw)
			}
			for _, x := range []*Explanation{&a, &b} {
				x.Terms, x.For, x.Against, x.Similar, x.All = nil, nil, nil, nil, nil
			}
			require.Equal(t, a, b)
		}
	}
}

func TestProcessorsDoNotMatter(t *testing.T) {
	testref.Procs(t, 1)
	run := func() [][]Explanation {
		rng := rand.New(rand.NewPCG(3, 7))
		d := testkit.NewDual(rng, 40, 2, 30)
		e := testref.Must(New(d, d, &Options{Similar: 5, All: true}))(t)
		return testref.Must(e.Explain(t.Context(), testkit.RandomBatch(rng, 9, 2, 30)))(t)
	}
	want := run()
	testref.Procs(t, 4)
	require.Equal(t, want, run())
}

// A batch of test rows gives what its rows give alone.
func TestRowsAreIndependent(t *testing.T) {
	explainers(t, Options{Top: 3}, func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch) {
		together := testref.Must(e.Explain(t.Context(), x))(t)
		for row := range x.Len() {
			alone := testref.Must(e.Explain(t.Context(), x.Slice(row, row+1)))(t)
			for k := range alone[0] {
				a, b := together[row][k], alone[0][k]
				testkit.RequireNear(t, a.Sum, b.Sum, tight, "sum")
				for i := range a.Terms {
					require.Equal(t, a.Terms[i].Index, b.Terms[i].Index)
					testkit.RequireNear(t, a.Terms[i].Removal, b.Terms[i].Removal, tight, "removal")
				}
			}
		}
	})
}

func TestEqualTermsKeepTheDataOrder(t *testing.T) {
	kept := top{k: 3}
	for i, score := range []float64{1, 2, 1, 2, 2, math.NaN(), 1} {
		kept.offer(candidate{index: i, score: score, cross: []float64{score}})
	}
	var order []int
	for _, c := range kept.sorted() {
		order = append(order, c.index)
		require.Equal(t, []float64{c.score}, c.cross)
	}
	require.Equal(t, []int{1, 3, 4}, order)
}

func TestHeapAgainstSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		n := 1 + rng.IntN(40)
		scores := make([]float64, n)
		kept := top{k: 1 + rng.IntN(n)}
		for i := range scores {
			scores[i] = float64(rng.IntN(12))
			kept.offer(candidate{index: i, score: scores[i]})
		}
		for k, c := range kept.sorted() {
			require.Equal(t, sortedBy(scores, math.Abs)[k], c.index)
		}
	}
}

// The zero Target is output 0.
func TestZeroTarget(t *testing.T) {
	require.Equal(t, Single(0), Target{})
	require.False(t, Target{}.IsContrast())
	require.Equal(t, -1, Target{}.Minus())
	rng := rand.New(rand.NewPCG(1, 1))
	d, x := testkit.NewDual(rng, 4, 2, 3), testkit.RandomBatch(rng, 2, 2, 3)
	e := testref.Must(New(d, d, &Options{Targets: []Target{{}, Single(0)}}))(t)
	rows := testref.Must(e.Explain(t.Context(), x))(t)
	for _, outputs := range rows {
		require.Equal(t, x.F.At(0, 0) != 0, outputs[0].Network != 0)
		require.Equal(t, outputs[1], outputs[0])
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	d := testkit.NewDual(rand.New(rand.NewPCG(1, 1)), 4, 2, 3)
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Single(2), "no output 2: the model has outputs 0 to 1"},
		{Contrast(0, 5), "no output 5"},
		{Contrast(-1, 0), "needs an output that counts positively"},
		{Contrast(1, 1), "output 1 with itself"},
	} {
		require.ErrorContains(t, testref.Err(New(d, d, &Options{Targets: []Target{c.target}})), c.want)
	}
}

func TestNotFiniteIsAnErrorWithItsPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := testkit.NewDual(rng, 6, 1, 3)
	d.Pseudo[4] = math.NaN()
	e := testref.Must(New(d, d, nil))(t)
	_, err := e.Explain(t.Context(), testkit.RandomBatch(rng, 2, 1, 3))
	require.ErrorContains(t, err, "training example 4 to test row 0 is not finite")
}

func TestCancelledContext(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := testkit.NewDual(rng, 6, 1, 3)
	e := testref.Must(New(d, d, nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(e.Explain(ctx, testkit.RandomBatch(rng, 2, 1, 3))), context.Canceled)
}

// cancelling cancels its context where the influence of examples is asked for,
// and fails where that does not reach it.
type cancelling struct {
	*testkit.Dual
	cancel func()
}

func (d cancelling) InfluenceTo(ctx context.Context, _, _ *mat.Dense, _ []int, _ *linearize.Batch) error {
	d.cancel()
	return ctx.Err()
}

// The posterior is given the context of Explain.
func TestCancelReachesThePosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := testkit.NewDual(rng, 6, 1, 3)
	ctx, cancel := context.WithCancel(t.Context())
	e := testref.Must(New(cancelling{d, cancel}, d, nil))(t)
	require.ErrorIs(t, testref.Err(e.Explain(ctx, testkit.RandomBatch(rng, 2, 1, 3))), context.Canceled)
}

// truncated yields fewer examples than it says.
type truncated struct{ *testkit.Dual }

func (s truncated) Data() linearize.Source { return truncatedSource{s.Train} }

type truncatedSource struct{ *linearize.Batch }

func (s truncatedSource) Batches(ctx context.Context, yield func(int, *linearize.Batch) error) error {
	return yield(0, s.Slice(0, 2))
}

func TestDataThatEndsEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := testkit.NewDual(rng, 6, 1, 3)
	e := testref.Must(New(truncated{d}, d, nil))(t)
	_, err := e.Explain(t.Context(), testkit.RandomBatch(rng, 2, 1, 3))
	require.ErrorContains(t, err, "ended after 2 of 6 examples")
}

// eaten has no digits left of the influence of some examples.
type eaten struct {
	*testkit.Dual
	bad []int
}

func (d eaten) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	err := d.Dual.InfluenceTo(ctx, h, q, rows, x)
	for j, i := range rows {
		if slices.Contains(d.bad, i) {
			nan := func(_, _ int, _ float64) float64 { return math.NaN() }
			block, row := dense.Slice(h, j*x.Outputs(), (j+1)*x.Outputs()), dense.Slice(q, j, j+1)
			block.Apply(nan, block)
			row.Apply(nan, row)
		}
	}
	return err
}

// Where rounding has eaten a variance, removal and similarity of that example
// are undefined, and everything else is as it was.
func TestVarianceLostToRounding(t *testing.T) {
	for _, all := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 1))
		d := testkit.NewDual(rng, 12, 2, 7)
		x := testkit.RandomBatch(rng, 2, 2, 7)
		explain := func(d gp.Dual, prior PriorMean) [][]Explanation {
			e := testref.Must(New(d, prior, &Options{Top: 12, All: all}))(t)
			return testref.Must(e.Explain(t.Context(), x))(t)
		}
		want := explain(d, d)
		got := explain(eaten{d, []int{3, 8}}, d)
		for row := range want {
			for k := range want[row] {
				for i, a := range want[row][k].Terms {
					b := got[row][k].Terms[i]
					require.Equal(t, a.Index, b.Index)
					require.Equal(t, a.Value, b.Value)
					if b.Index == 3 || b.Index == 8 {
						require.True(t, math.IsNaN(b.Removal) && math.IsNaN(b.Similarity))
						continue
					}
					testkit.RequireNear(t, a.Removal, b.Removal, tight, "removal")
					testkit.RequireNear(t, a.Similarity, b.Similarity, tight, "similarity")
				}
			}
		}
	}
}

// sizes are the problems every test here runs on: more examples than
// parameters and fewer, one output and several.
var sizes = []struct{ n, c, p int }{{9, 1, 5}, {25, 1, 60}, {12, 3, 20}, {20, 2, 90}}

func explainers(t *testing.T, o Options, test func(t *testing.T, d *testkit.Dual, e *Explainer, x *linearize.Batch)) {
	for seed, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		d := testkit.NewDual(rng, size.n, size.c, size.p)
		x := testkit.RandomBatch(rng, 4, size.c, size.p)
		e := testref.Must(New(d, d, &o))(t)
		test(t, d, e, x)
	}
}

// Mean is what the posterior predicts: the mean of the linearized model after a refit, where
// Network is not, and f(x;θ*) of a posterior at θ*.
func TestMeanIsThePrediction(t *testing.T) {
	r := testkit.OpenReference(t, "two-moons")
	x := r.Test.Slice(0, 3)
	refit := testref.Must(gp.Refit(t.Context(), r.Kernel, r.Train, r.Targets(), nil))(t)
	fit := testref.Must(gp.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), nil))(t)
	for name, d := range map[string]*gp.Exact{"refit": refit, "fit": fit} {
		e := testref.Must(New(d, r.Kernel, nil))(t)
		rows := testref.Must(e.Explain(t.Context(), x))(t)
		var mean, cov mat.Dense
		require.NoError(t, d.PredictTo(t.Context(), &mean, &cov, x))
		given := testref.Must(e.ExplainTargets(t.Context(), x, &cov, []Target{Single(0)}))(t)
		for i := range rows {
			one := rows[i][0]
			require.Equal(t, mean.At(i, 0), one.Mean, name)
			require.Equal(t, one.Mean, given[i][0].Mean, name)
			require.Equal(t, x.F.At(i, 0), one.Network)
			if d.Refitted() {
				require.InDelta(t, one.PriorMean+one.Sum, one.Mean, 1e-8)
				require.NotEqual(t, one.Network, one.Mean)
			}
		}
	}
}
