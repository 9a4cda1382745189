package sparse_test

import (
	"testing"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// A reference is a trained network with its data.
type reference struct{ *testkit.Reference }

func openReference(t testing.TB, name string) *reference {
	t.Helper()
	if opened[name] == nil {
		opened[name] = testkit.OpenReference(t, name)
	}
	r := *opened[name]
	return &reference{&r}
}

// opened are references that tests have asked for: linearizing takes seconds for the large ones.
var opened = make(map[string]*testkit.Reference)

func (r *reference) head(n int) *reference { return &reference{r.Head(n)} }

// A selection is a way to choose inducing examples.
type selection struct {
	name string
	how  sparse.Selector
}

// selections are one of each kind.
func (r *reference) selections(t testing.TB) []selection {
	t.Helper()
	return []selection{
		{"stratified", sparse.Stratified{Labels: r.Labels}},
		{"uniform", sparse.Uniform{}},
		{"trace", sparse.Trace{Sites: r.Sites(t)}},
		{"greedy", sparse.Greedy{}},
		{"rpcholesky", sparse.RandomCholesky{}},
		{"kmeans", sparse.KMeans{}},
	}
}

func (r *reference) choose(t testing.TB, how sparse.Selector, m int) *sparse.Inducing {
	t.Helper()
	return testref.Must(sparse.Select(t.Context(), how, r.Kernel, r.Train, m, nil))(t)
}

func (r *reference) fit(t *testing.T, z *sparse.Inducing) *sparse.Posterior {
	t.Helper()
	return testref.Must(sparse.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), z, linear()))(t)
}

// subset is the posterior of the inducing examples alone, with the sites they
// have in fit.
func (r *reference) subset(t *testing.T, z *sparse.Inducing) *sparse.Posterior {
	t.Helper()
	s := testref.Must(gp.NewSites(gp.NewTargets(pick(r.Y, z.Rows), r.Likelihood), z.Batch.F))(t)
	return testref.Must(sparse.FitSubset(t.Context(), r.Kernel, r.Train, s, z, linear()))(t)
}
