package counterfactual_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/internal/testref"
)

// What one test row would be without one of 3,000 training examples, of one output: at the
// mode without it.
func BenchmarkWithoutOne(b *testing.B) {
	q, m := asProblem(b, "thesis-cnn")
	name := func(what string) string { return fmt.Sprintf("%s/N=%d", what, q.N) }
	var mean mat.Dense
	at := 0
	next := func() int { at = (at + 1009) % q.N; return at }
	b.Run(name("corrected"), func(b *testing.B) {
		for b.Loop() {
			post := testref.Must(m.Fit(b.Context(), q.Targets().Without(next()), nil))(b)
			require.NoError(b, post.PredictTo(b.Context(), &mean, nil, q.Test.Slice(0, 1)))
		}
	})
	b.Run(name("corrected-with-variance"), func(b *testing.B) {
		var cov mat.Dense
		for b.Loop() {
			post := testref.Must(m.Fit(b.Context(), q.Targets().Without(next()), nil))(b)
			require.NoError(b, post.PredictTo(b.Context(), &mean, &cov, q.Test.Slice(0, 1)))
		}
	})
	b.Run(name("corrected-group-of-100"), func(b *testing.B) {
		for b.Loop() {
			var out []int
			for range 100 {
				out = append(out, next())
			}
			post := testref.Must(m.Fit(b.Context(), q.Targets().Without(out...), nil))(b)
			require.NoError(b, post.PredictTo(b.Context(), &mean, nil, q.Test.Slice(0, 1)))
		}
	})
}

// The smallest set whose removal flips a test row, without the refit that confirms it.
func BenchmarkSmallestFlip(b *testing.B) {
	q, m := asProblem(b, "thesis-cnn")
	// The first test row with log-odds of 4 to 5, which some ten examples decide.
	at := 0
	for f := math.Abs(q.Test.F.At(at, 0)); f < 4 || f > 5; f = math.Abs(q.Test.F.At(at, 0)) {
		at++
	}
	b.Run(fmt.Sprintf("N=%d", q.N), func(b *testing.B) {
		left, tried := 0, 0
		for b.Loop() {
			flip, err := m.SmallestFlip(b.Context(), q.Test.Slice(at, at+1), &counterfactual.FlipOptions{NoRefit: true})
			require.NoError(b, err)
			left, tried = len(flip.Rows), flip.Tried
		}
		b.ReportMetric(float64(left), "examples")
		b.ReportMetric(float64(tried), "sets")
	})
}
