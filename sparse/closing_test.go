package sparse_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// TestContributionsClose adds up the contributions to test predictions, in
// both kernels, through few and many inducing examples, up to a kernel of them
// that is numerically singular.
func TestContributionsClose(t *testing.T) {
	for _, name := range []string{"snelson", "two-moons", "categorical", "poisson"} {
		r := openReference(t, name)
		for _, m := range []int{5, 10, 20, 40, 60} {
			z := testref.Must(sparse.Select(t.Context(), sparse.Uniform{Seed: 1}, r.Kernel, r.Train, m, nil))(t)
			p := testref.Must(sparse.Refit(t.Context(), r.Kernel, r.Train, r.Targets(), z, nil))(t)
			var mean mat.Dense
			require.NoError(t, p.PredictTo(t.Context(), &mean, nil, r.Test))
			e := testref.Must(explain.New(p, r.Kernel, &explain.Options{Top: 1}))(t)
			rows := testref.Must(e.Explain(t.Context(), r.Test))(t)
			open, rawOpen, scale := 0.0, 0.0, 0.0
			for i, outputs := range rows {
				for c, one := range outputs {
					f := mean.At(i, c)
					open = math.Max(open, math.Abs(one.PriorMean+one.Sum-f))
					rawOpen = math.Max(rawOpen, math.Abs(one.PriorMean+one.RawSum-f))
					scale = math.Max(scale, math.Abs(f))
				}
			}
			require.LessOrEqual(t, math.Max(open, rawOpen), 1e-8*scale, "%s M=%d", name, m)
			t.Logf("%s M=%d rank %d: open by %.1e, raw %.1e of %.3g", name, m, p.Rank(), open/scale, rawOpen/scale, scale)
		}
	}
}

// Repeated examples with other targets under a wide prior make sums that do not
// close: that is a warning with the number. Where there is none, they close.
func TestOpenSumsAreWarnedOf(t *testing.T) {
	warned := 0
	for _, precision := range []float64{1, 1e-4, 1e-8} {
		q := &problem{testkit.Conflicting(t, precision)}
		p := q.refit(t, q.inducing(t, 0, 1, 2, 3, 4, 5, 6), nil)
		warned += q.RequireHonest(t, p, p.Warnings(), gp.RawTerms)
	}
	require.Positive(t, warned)
}
