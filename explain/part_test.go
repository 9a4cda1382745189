package explain_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// partTol is the bound on what the parts may change: the sums are compensated, and the
// terms are the same products in tiles of other sizes.
const partTol = 1e-11

// The explanations of parts of the training examples, merged, are those of one Explainer: all
// sums, the largest terms in their order with all that is said of them, and the groups.
func TestMergeParts(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		z := testref.Must(q.Train.Gather(t.Context(), []int{9, 2, 17, 5, 0}))(t)
		some := &sparse.Inducing{Rows: []int{9, 2, 17, 5, 0}, Batch: z}
		nystrom := testref.Must(sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), some, nil))(t)
		exact := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
		for name, d := range map[string]gp.Dual{"nystrom": nystrom, "exact": exact} {
			t.Run(q.Name+"/"+name, func(t *testing.T) {
				o := &explain.Options{Top: 6, Sides: true, ErrorBars: true, Groups: make([]int, q.N)}
				for i := range o.Groups {
					o.Groups[i] = i % 3
				}
				if q.C > 1 {
					o.Targets = []explain.Target{explain.Single(0), explain.Contrast(1, 0)}
				}
				for _, kind := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
					o.Terms = kind
					want := explainedBy(t, d, q, o)
					for _, bounds := range [][]int{{0, 20}, {0, 3, 20}, {0, 1, 7, 8, 19, 20}} {
						requireParts(t, d, q, o, bounds, want)
					}
				}
			})
		}
	}
}

func explainedBy(t *testing.T, d gp.Dual, q *testkit.Problem, o *explain.Options) [][]explain.Explanation {
	t.Helper()
	e := testref.Must(explain.New(d, q.Kernel, o))(t)
	return testref.Must(e.Explain(t.Context(), q.Test))(t)
}

func requireParts(t *testing.T, d gp.Dual, q *testkit.Problem, o *explain.Options, bounds []int, want [][]explain.Explanation) {
	t.Helper()
	var parts [][][]explain.Explanation
	for i, lo := range bounds[:len(bounds)-1] {
		hi, of := bounds[i+1], *o
		of.Groups = o.Groups[lo:hi]
		parts = append(parts, explainedBy(t, explain.Part(d, lo, hi), q, &of))
	}
	for r := range want {
		for k, w := range want[r] {
			var each []explain.Explanation
			for _, p := range parts {
				each = append(each, p[r][k])
			}
			got := testref.Must(explain.Merge(each, bounds[:len(bounds)-1], o))(t)
			requireExplanation(t, w, got)
		}
	}
}

func requireExplanation(t *testing.T, want, got explain.Explanation) {
	t.Helper()
	require.Equal(t, want.Target, got.Target)
	near := func(what string, a, b, scale float64) {
		t.Helper()
		if !(math.IsNaN(a) && math.IsNaN(b)) && a != b {
			require.InDelta(t, a, b, partTol*scale, what)
		}
	}
	near("sum", want.Sum, got.Sum, want.AbsSum)
	near("raw sum", want.RawSum, got.RawSum, want.RawAbsSum)
	near("Σ|v|", want.AbsSum, got.AbsSum, want.AbsSum)
	near("raw Σ|v|", want.RawAbsSum, got.RawAbsSum, want.RawAbsSum)
	near("remainder", want.Remainder, got.Remainder, math.Abs(want.Network)+want.AbsSum)
	for _, lists := range [][2][]explain.Term{{want.Terms, got.Terms}, {want.For, got.For}, {want.Against, got.Against}} {
		require.Len(t, lists[1], len(lists[0]))
		for i, a := range lists[0] {
			b := lists[1][i]
			if a.Index != b.Index {
				// two terms of the same size but for rounding
				near("order", math.Abs(a.Value), math.Abs(b.Value), want.AbsSum)
				near("order", math.Abs(a.Raw), math.Abs(b.Raw), want.RawAbsSum)
				continue
			}
			near("value", a.Value, b.Value, want.AbsSum)
			near("raw", a.Raw, b.Raw, want.RawAbsSum)
			near("similarity", a.Similarity, b.Similarity, 10)
			near("removal", a.Removal, b.Removal, 1e2*(math.Abs(a.Removal)+want.AbsSum))
			near("variance", a.VarianceReduction, b.VarianceReduction, 1e2*(1+a.VarianceReduction))
			require.Equal(t, a.PseudoTarget, b.PseudoTarget)
			require.Equal(t, a.Alpha, b.Alpha)
		}
	}
	for g, s := range want.Subtotals {
		require.Equal(t, s.Examples, got.Subtotals[g].Examples)
		near("group", s.Positive, got.Subtotals[g].Positive, want.AbsSum+want.RawAbsSum)
		near("group", s.Negative, got.Subtotals[g].Negative, want.AbsSum+want.RawAbsSum)
	}
}

// What cannot be merged, or does not belong together, is an error.
func TestMergePartsRefuses(t *testing.T) {
	q := testkit.Problems(t)[2]
	exact := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
	x := explainedBy(t, explain.Part(exact, 0, 10), q, &explain.Options{})
	_, err := explain.Merge([]explain.Explanation{x[0][0], x[1][0]}, []int{0, 10}, &explain.Options{})
	require.ErrorContains(t, err, "part 1 is of another test row")
	for _, o := range []explain.Options{{Curve: true}, {All: true}, {Similar: 1}, {Layers: []ntk.Kernel{q.Kernel}}} {
		require.ErrorContains(t, testref.Err(explain.Merge(x[0][:1], []int{0}, &o)), "leave them out", fmt.Sprint(o))
	}
	require.Panics(t, func() { explain.Part(exact, 3, 3) })
	require.Panics(t, func() { _, _ = explain.Merge(nil, nil, &explain.Options{}) })
}
