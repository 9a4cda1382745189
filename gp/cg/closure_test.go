package cg_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// conflicting has every example twice, with another target, under a prior of
// the given precision.
func conflicting(t *testing.T, precision float64) *problem {
	t.Helper()
	q := problems(t)[0]
	half := q.train.Slice(0, q.n/2)
	q.train = linearize.Concat(half, half)
	prior, err := ntk.NewIsotropic(precision, nil)
	require.NoError(t, err)
	q.kernel = ntk.New(prior, q.theta, nil)
	q.lik, err = glm.NewGaussian(0.2)
	require.NoError(t, err)
	return q
}

// openBy returns by how much the sums of all terms of a kind miss the mean at
// the training examples, relative to the largest output.
func (q *problem) openBy(t *testing.T, p gp.Dual, terms gp.Terms) float64 {
	t.Helper()
	var mean mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, nil, q.train))
	prior := make([]float64, q.n*q.c)
	q.kernel.MeanTo(prior, q.train)
	weights := p.PseudoTargets()
	if terms == gp.Raw {
		weights = p.Alpha()
	}
	sums := product(crossOf(t, p, q.train, q.train, q.n, terms), vec(weights))
	open := 0.0
	for i, m := range prior {
		open = math.Max(open, math.Abs(m+sums.At(i, 0)-mean.At(i/q.c, i%q.c)))
	}
	return open / mat.Max(absolute(&mean))
}

func absolute(m *mat.Dense) *mat.Dense {
	var a mat.Dense
	a.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, m)
	return &a
}

func (q *problem) requireHonest(t *testing.T, p gp.Dual, warnings []error, terms gp.Terms) int {
	t.Helper()
	open := q.openBy(t, p, terms)
	var w *gp.ClosureWarning
	if !errors.As(errors.Join(warnings...), &w) {
		require.LessOrEqual(t, open, 1e-7)
		return 0
	}
	require.Greater(t, w.Gap, 1e-8)
	require.Contains(t, w.Error(), "miss their sum")
	// The number is one of the inducing examples; that of conjugate gradients is
	// as rough as its solves.
	require.GreaterOrEqual(t, w.Gap, open/100)
	if terms == gp.Raw {
		require.LessOrEqual(t, w.Gap, 100*open)
	}
	return 1
}

// Repeated examples with other targets under a wide prior make sums that do not
// close: that is a warning with the number, as is the distance from the mode.
// Where there is no warning, they close.
func TestOpenSumsAreWarnedOf(t *testing.T) {
	warned := 0
	for _, precision := range []float64{1, 1e-4, 1e-8} {
		q := conflicting(t, precision)
		p := q.refitPosterior(t, nil)
		n := q.requireHonest(t, p, p.Warnings(), gp.Posterior)
		if warned += n; n > 0 {
			all := errors.Join(p.Warnings()...)
			var it *gp.IterationWarning
			require.ErrorAs(t, all, &it)
			require.Greater(t, it.Move, 1e-8)
			require.ErrorAs(t, all, new(*gp.GapWarning))
			require.ErrorAs(t, all, new(*cg.ConvergenceWarning))
		}
	}
	require.Positive(t, warned)
}

// Missing sites say so.
func TestMissingSites(t *testing.T) {
	q := problems(t)[2]
	require.PanicsWithValue(t, "sites: the sites of the examples are missing", func() { _, _ = cg.Fit(t.Context(), q.kernel, q.train, &gp.Sites{}, nil) })
}
