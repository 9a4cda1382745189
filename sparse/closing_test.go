package sparse_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
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
		q := &problem{conflicting(t, precision)}
		p := q.refit(t, q.inducing(t, 0, 1, 2, 3, 4, 5, 6), nil)
		warned += requireHonest(t, q.Problem, p, p.Warnings(), gp.RawTerms)
	}
	require.Positive(t, warned)
}

// conflicting has every example twice, with another target, under a prior of
// the given precision.
func conflicting(t *testing.T, precision float64) *testkit.Problem {
	t.Helper()
	q := testkit.Problems(t)[0]
	half := q.Train.Slice(0, q.N/2)
	q.Train = linearize.Concat(half, half)
	prior := testref.Must(ntk.NewIsotropic(precision, nil))(t)
	q.Kernel = ntk.New(prior, q.Theta)
	q.Likelihood = testref.Must(glm.NewGaussian(0.2))(t)
	return q
}

// openBy returns by how much the sums of all terms of a kind miss the mean at
// the training examples, relative to the largest output.
func openBy(t *testing.T, q *testkit.Problem, p gp.Dual, terms gp.Terms) float64 {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Train))
	prior := make([]float64, q.N*q.C)
	q.Kernel.MeanTo(prior, q.Train)
	weights := p.PseudoTargets()
	if terms == gp.RawTerms {
		weights = p.Alpha()
	}
	sums := testkit.Product(testkit.CrossOf(t, p, q.Train, q.Train, q.N, terms), testkit.Vec(weights))
	open := 0.0
	for i, m := range prior {
		open = math.Max(open, math.Abs(m+sums.At(i, 0)-mean.At(i/q.C, i%q.C)))
	}
	return open / mat.Max(testkit.Absolute(&mean))
}

// requireHonest checks that a posterior warns of sums that do not close, with
// their gap, and that they close where it does not. It returns the number of
// warnings, 0 or 1.
func requireHonest(t *testing.T, q *testkit.Problem, p gp.Dual, warnings []error, terms gp.Terms) int {
	t.Helper()
	open := openBy(t, q, p, terms)
	w := linearize.FindWarning(warnings, "sums-open")
	if w == nil {
		require.LessOrEqual(t, open, 1e-7)
		return 0
	}
	require.Greater(t, w.Value, 1e-8)
	// The number is one of the inducing examples.
	require.GreaterOrEqual(t, w.Value, open/100)
	if terms == gp.RawTerms {
		require.LessOrEqual(t, w.Value, 100*open)
	}
	return 1
}
