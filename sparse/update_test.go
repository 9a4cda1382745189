package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// To add or remove nothing gives the posterior itself; to remove everything is
// an error.
func TestUpdateByNothing(t *testing.T) {
	both(t, func(t *testing.T, q *problem, a sparse.Approximation) {
		p := q.fit(t, q.some(t), linear(a))
		none := q.Train.Slice(0, 0)
		for _, s := range []*gp.Sites{nil, {}} {
			same := testref.Must(p.Remove(t.Context(), nil, s))(t)
			require.Same(t, p, same)
			same = testref.Must(p.Add(t.Context(), none, s))(t)
			require.Same(t, p, same)
			b := q.builder(t, q.some(t), linear(a))
			require.NoError(t, b.Add(t.Context(), q.Train, q.Sites(t)))
			require.NoError(t, b.Add(t.Context(), none, s))
			require.NoError(t, b.Remove(t.Context(), none, s))
			require.Equal(t, q.N, b.Sums().Len())
		}
		require.ErrorContains(t, testref.Err(p.Remove(t.Context(), seq(0, q.N), q.Sites(t))), "all training examples")
		_, err := q.emptied(t, a).WithData(t.Context(), none, &gp.Sites{})
		require.ErrorContains(t, err, "no training examples")
	})
}

// emptied is a posterior from which all data were removed.
func (q *problem) emptied(t *testing.T, a sparse.Approximation) *sparse.Projected {
	b := q.builder(t, q.some(t), linear(a))
	p := testref.Must(b.Posterior(t.Context()))(t)
	return p
}

// The zero Inducing is reported as no inducing examples by all that take one.
func TestZeroInducing(t *testing.T) {
	q := problems(t)[2]
	saved := written(t, q.fit(t, q.some(t), nil).Save)
	for _, z := range []*sparse.Inducing{{}, {Batch: new(linearize.Batch)}} {
		for name, f := range map[string]func() error{
			"Fit": func() error {
				_, err := sparse.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
				return err
			},
			"Refit": func() error {
				_, err := sparse.Refit(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, z, nil)
				return err
			},
			"FitSubset": func() error {
				_, err := sparse.FitSubset(t.Context(), q.Kernel, q.Train, q.Sites(t), z, nil)
				return err
			},
			"RefitSubset": func() error {
				_, err := sparse.RefitSubset(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, z, nil)
				return err
			},
			"NewBuilder": func() error {
				_, err := sparse.NewBuilder(t.Context(), q.Kernel, z, nil)
				return err
			},
			"LoadProjected": func() error {
				_, err := sparse.LoadProjected(t.Context(), saved, q.Kernel, z, nil)
				return err
			},
			"Load": func() error {
				_, err := sparse.Load(t.Context(), saved, q.Kernel, q.Train, z, nil)
				return err
			},
		} {
			var count *sparse.CountError
			require.ErrorAs(t, f(), &count, name)
			require.Zero(t, count.M, name)
			require.Contains(t, count.Error(), "at least one is needed", name)
		}
		require.Zero(t, z.Len())
		require.False(t, z.Pairs())
	}
}

// What is no approximation has a name, and missing sites say so.
func TestZeroValues(t *testing.T) {
	q := problems(t)[2]
	require.Equal(t, "Approximation(7)", sparse.Approximation(7).String())
	const missing = "sites: the sites of the examples are missing"
	for _, s := range []*gp.Sites{nil, {}} {
		require.PanicsWithValue(t, missing, func() { _, _ = sparse.Fit(t.Context(), q.Kernel, q.Train, s, q.some(t), nil) })
	}
	require.PanicsWithValue(t, "sparse: the sites of the examples are missing",
		func() { _, _ = sparse.Trace{}.Choose(t.Context(), nil, q.Train, 3, nil) })
}
