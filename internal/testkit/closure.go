package testkit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Conflicting has every example twice, with another target, under a prior of
// the given precision.
func Conflicting(t *testing.T, precision float64) *Problem {
	t.Helper()
	q := Problems(t)[0]
	half := q.Train.Slice(0, q.N/2)
	q.Train = linearize.Concat(half, half)
	prior := testref.Must(ntk.NewIsotropic(precision, nil))(t)
	q.Kernel = ntk.New(prior, q.Theta)
	q.Likelihood = testref.Must(glm.NewGaussian(0.2))(t)
	return q
}

// OpenBy returns by how much the sums of all terms of a kind miss the mean at
// the training examples, relative to the largest output.
func (q *Problem) OpenBy(t *testing.T, p gp.Dual, terms gp.Terms) float64 {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.Train))
	prior := make([]float64, q.N*q.C)
	q.Kernel.MeanTo(prior, q.Train)
	weights := p.PseudoTargets()
	if terms == gp.RawTerms {
		weights = p.Alpha()
	}
	sums := Product(CrossOf(t, p, q.Train, q.Train, q.N, terms), Vec(weights))
	open := 0.0
	for i, m := range prior {
		open = math.Max(open, math.Abs(m+sums.At(i, 0)-mean.At(i/q.C, i%q.C)))
	}
	return open / mat.Max(Absolute(&mean))
}

// RequireWarnings checks that the warnings have these codes, in this order, and returns them.
func RequireWarnings(t testing.TB, warnings []error, codes ...string) []*linearize.Warning {
	t.Helper()
	var list []*linearize.Warning
	var got []string
	for _, err := range warnings {
		list = append(list, linearize.WarningOf(err))
		got = append(got, list[len(list)-1].Code)
	}
	require.Equal(t, codes, got)
	return list
}

// RequireHonest checks that a posterior warns of sums that do not close, with
// their gap, and that they close where it does not. It returns the number of
// warnings, 0 or 1.
func (q *Problem) RequireHonest(t *testing.T, p gp.Dual, warnings []error, terms gp.Terms) int {
	t.Helper()
	open := q.OpenBy(t, p, terms)
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
