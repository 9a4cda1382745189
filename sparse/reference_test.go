package sparse_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A reference is a trained network with its data.
type reference struct {
	*testref.Ref
	net         *network.Network
	x           *mat.Dense // training inputs
	train, test *linearize.Batch
	y           *mat.Dense
	labels      []int
	lik         gp.Likelihood
	prior       ntk.Prior
	kernel      *ntk.NTK
}

func openReference(t testing.TB, name string) *reference {
	t.Helper()
	r := &reference{Ref: testref.Open(t, name)}
	var err error
	r.net, err = network.ReadONNX(bytes.NewReader(r.Model(t)), nil)
	require.NoError(t, err)
	var xTest *mat.Dense
	r.x, xTest = r.inputs(t, name)
	r.train, err = r.net.Linearize(t.Context(), r.x)
	require.NoError(t, err)
	r.test, err = r.net.Linearize(t.Context(), xTest)
	require.NoError(t, err)
	r.prior, err = ntk.NewIsotropic(r.Scalar("delta"), nil)
	require.NoError(t, err)
	r.kernel = ntk.New(r.prior, r.net.Theta(), nil)
	switch r.Meta("likelihood") {
	case "gaussian":
		r.lik, err = glm.NewGaussian(r.Scalar("sigma2"))
		require.NoError(t, err)
	case "bernoulli":
		r.lik = glm.Bernoulli{}
	case "categorical":
		r.lik = glm.Categorical{}
	case "poisson":
		r.lik = glm.Poisson{}
	}
	for i := range r.train.Len() {
		label := 0
		if r.lik != nil && r.Meta("likelihood") != "gaussian" {
			label = int(r.y.At(i, 0))
		}
		r.labels = append(r.labels, label)
	}
	return r
}

// inputs returns training and test inputs and sets y: from the folder, or
// MNIST's pixels divided by 255.
func (r *reference) inputs(t testing.TB, name string) (train, test *mat.Dense) {
	t.Helper()
	if r.Has("x_train") {
		r.y = r.Matrix("y_train")
		return r.Matrix("x_train"), r.Matrix("x_test")
	}
	d, err := dataset.Open(t.Context(), testref.MNIST(t), nil)
	require.NoError(t, err)
	rows, err := d.Train.Select(&dataset.SelectOptions{Rows: r.Ints("train_index")})
	require.NoError(t, err)
	testRows, err := d.Test.Select(&dataset.SelectOptions{Rows: r.Ints("test_index")})
	require.NoError(t, err)
	r.y = mat.NewDense(len(rows.Labels), 1, nil)
	for i, label := range rows.Labels {
		if name == "thesis-cnn" { // 4 against 9
			label = label / 9
		}
		r.y.Set(i, 0, float64(label))
	}
	return rows.Matrix(), testRows.Matrix()
}

func (r *reference) sites(t testing.TB) *gp.Sites {
	t.Helper()
	s, err := gp.NewSites(r.y, r.train.F, r.lik)
	require.NoError(t, err)
	return s
}

func (r *reference) exact(t testing.TB) *gp.Exact {
	t.Helper()
	e, err := gp.Fit(t.Context(), r.kernel, r.train, r.sites(t), &gp.Options{Mean: gp.LinearGaussian})
	require.NoError(t, err)
	return e
}

// head is the reference with its first n training examples alone.
func (r *reference) head(n int) *reference {
	h, y := *r, mat.DenseCopyOf(r.y)
	_, c := y.Dims()
	h.train, h.labels, h.y = r.train.Slice(0, n), r.labels[:n], y.Slice(0, n, 0, c).(*mat.Dense)
	return &h
}

// A selection is a way to choose inducing examples.
type selection struct {
	name string
	how  sparse.Selector
}

// selections are one of each kind.
func (r *reference) selections(t testing.TB) []selection {
	t.Helper()
	return []selection{
		{"stratified", sparse.Stratified{Labels: r.labels}},
		{"uniform", sparse.Uniform{}},
		{"trace", sparse.Trace{Sites: r.sites(t)}},
		{"greedy", sparse.Greedy{}},
		{"rpcholesky", sparse.RandomCholesky{}},
		{"kmeans", sparse.KMeans{}},
	}
}

func (r *reference) choose(t testing.TB, how sparse.Selector, m int) *sparse.Inducing {
	t.Helper()
	z, err := sparse.Select(t.Context(), how, r.kernel, r.train, m, nil)
	require.NoError(t, err)
	return z
}

func (r *reference) fit(t *testing.T, z *sparse.Inducing, a sparse.Approximation) *sparse.Posterior {
	t.Helper()
	p, err := sparse.Fit(t.Context(), r.kernel, r.train, r.sites(t), z, linear(a))
	require.NoError(t, err)
	return p
}

// subset is the posterior of the inducing examples alone, with the sites they
// have in fit.
func (r *reference) subset(t *testing.T, z *sparse.Inducing) *sparse.Posterior {
	t.Helper()
	s, err := gp.NewSites(pick(r.y, z.Rows), z.Batch.F, r.lik)
	require.NoError(t, err)
	p, err := sparse.FitSubset(t.Context(), r.kernel, r.train, s, z, linear(sparse.Nystrom))
	require.NoError(t, err)
	return p
}

// contributions multiplies the columns of a cross-kernel by v.
func contributions(cross *mat.Dense, v []float64) {
	cross.Apply(func(_, j int, k float64) float64 { return k * v[j] }, cross)
}
