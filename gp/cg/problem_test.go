package cg_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testdense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// Dense algebra, as the equations write it.
var (
	column        = testdense.Column
	vec           = testdense.Vec
	product       = testdense.Product
	plus          = testdense.Plus
	requireNumber = testdense.RequireNumber
)

// A problem is a small random linearized network with data, a prior in groups
// and a likelihood. θ* is not a mode and μ₀ is not zero.
type problem struct {
	name           string
	train, test    *linearize.Batch
	y              *mat.Dense
	lik            gp.Likelihood
	theta          []float64
	prior          *ntk.Layerwise
	kernel         *ntk.NTK
	n, t, c        int
	kTrain, kCross *mat.Dense // NC×NC, TC×NC
	kTest          *mat.Dense
	mTrain, mTest  *mat.Dense // m, stacked
}

// problems have 1 to 4 outputs and every likelihood, among them saturated
// sites, whose Λ is zero or singular.
func problems(t *testing.T) []*problem {
	t.Helper()
	gauss, err := glm.NewGaussian(0.2)
	require.NoError(t, err)
	full, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2}))
	require.NoError(t, err)
	return []*problem{
		newProblem("gaussian", 1, 20, 1, gauss, 1),
		newProblem("gaussian-full-covariance", 2, 20, 2, full, 1),
		newProblem("bernoulli", 3, 20, 1, glm.Bernoulli{}, 1),
		newProblem("bernoulli-saturated", 4, 20, 1, glm.Bernoulli{}, 900),
		newProblem("poisson", 5, 20, 1, glm.Poisson{}, 0.5),
		newProblem("categorical", 6, 20, 3, glm.Categorical{}, 1),
		newProblem("categorical-saturated", 7, 20, 4, glm.Categorical{}, 900),
	}
}

func newProblem(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64) *problem {
	return newProblemOf(name, seed, n, c, lik, scale, 12)
}

// newProblemOf has width² or so parameters: fewer than N·C make K singular.
func newProblemOf(name string, seed uint64, n, c int, lik gp.Likelihood, scale float64, width int) *problem {
	rng := rand.New(rand.NewPCG(seed, 23))
	layers := []gptest.Layer{{In: width, Out: width}, {Out: width}, {In: width / 2, Out: width, NoBias: true}}
	q := &problem{name: name, lik: lik, n: n, t: 6, c: c}
	q.train = gptest.RandomBatch(rng, n, c, layers...)
	q.test = gptest.Another(rng, q.train, q.t)
	for _, b := range []*linearize.Batch{q.train, q.test} {
		b.F.Scale(scale, b.F)
		b.X.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, b.X)
	}
	for range q.train.P {
		q.theta = append(q.theta, 0.2*rng.NormFloat64())
	}
	groups := ntk.ByTensor(ntk.Spans(q.train), 1)
	for i := range groups {
		groups[i].Precision = 10 * math.Exp(0.5*rng.NormFloat64())
	}
	var err error
	if q.prior, err = ntk.NewLayerwise(q.train.P, groups, []float64{0.1}); err != nil {
		panic(err)
	}
	q.kernel = ntk.New(q.prior, q.theta, nil)
	q.y = targets(rng, lik, q.train.F)
	q.fill()
	return q
}

// fill computes the prior dense.
func (q *problem) fill() {
	p := q.train.P
	mean, variance := make([]float64, p), make([]float64, p)
	q.prior.MeanTo(mean)
	q.prior.VarianceTo(variance)
	sigma, shift := mat.NewDense(p, p, nil), mat.NewDense(p, 1, nil)
	for i := range p {
		sigma.Set(i, i, variance[i])
		shift.Set(i, 0, mean[i]-q.theta[i])
	}
	var j, jt mat.Dense
	q.train.JacobianTo(&j)
	q.test.JacobianTo(&jt)
	q.kTrain, q.kCross, q.kTest = product(&j, sigma, j.T()), product(&jt, sigma, j.T()), product(&jt, sigma, jt.T())
	q.mTrain, q.mTest = plus(column(q.train.F), 1, product(&j, shift)), plus(column(q.test.F), 1, product(&jt, shift))
}

func targets(rng *rand.Rand, lik gp.Likelihood, f *mat.Dense) *mat.Dense {
	n, c := f.Dims()
	y := mat.NewDense(n, c, nil)
	draw := func() float64 { return rng.NormFloat64() }
	switch lik.(type) {
	case glm.Categorical:
		y = mat.NewDense(n, 1, nil)
		draw = func() float64 { return float64(rng.IntN(c)) }
	case glm.Bernoulli:
		draw = func() float64 { return float64(rng.IntN(2)) }
	case glm.Poisson:
		draw = func() float64 { return float64(rng.IntN(5)) }
	}
	y.Apply(func(_, _ int, _ float64) float64 { return draw() }, y)
	return y
}

// each runs f for every problem.
func each(t *testing.T, f func(t *testing.T, q *problem)) {
	for _, q := range problems(t) {
		t.Run(q.name, func(t *testing.T) { f(t, q) })
	}
}

func (q *problem) sites(t *testing.T) *gp.Sites {
	t.Helper()
	s, err := gp.NewSites(q.y, q.train.F, q.lik)
	require.NoError(t, err)
	return s
}

func flat(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }

// requireClose fails where an entry differs by more than rel times the
// largest entry of want.
func requireClose(t *testing.T, what string, got, want mat.Matrix, rel float64) {
	t.Helper()
	r, c := want.Dims()
	gr, gc := got.Dims()
	require.Equal(t, [2]int{r, c}, [2]int{gr, gc}, what)
	d, scale := difference(got, want)
	if !(d <= rel*scale) {
		t.Fatalf("%s: off by %.3g of the largest, tolerance %.3g", what, d/scale, rel)
	}
}

// difference returns the largest difference and the largest entry of want.
func difference(got, want mat.Matrix) (d, scale float64) {
	r, c := want.Dims()
	for i := range r {
		for j := range c {
			e := math.Abs(got.At(i, j) - want.At(i, j))
			if math.IsNaN(e) {
				e = math.Inf(1)
			}
			d, scale = math.Max(d, e), math.Max(scale, math.Abs(want.At(i, j)))
		}
	}
	return d, scale
}

// crossOf returns all columns of a cross-kernel, by tiles of so many examples.
func crossOf(t *testing.T, d gp.Dual, x, train *linearize.Batch, size int, terms gp.Terms) *mat.Dense {
	t.Helper()
	q, err := d.Cross(t.Context(), x)
	require.NoError(t, err)
	n, c := train.Len(), train.Outputs()
	out := mat.NewDense(x.Len()*c, n*c, nil)
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		var tile mat.Dense
		require.NoError(t, q.TileTo(t.Context(), &tile, lo, train.Slice(lo, hi), terms))
		out.Slice(0, x.Len()*c, lo*c, hi*c).(*mat.Dense).Copy(&tile)
	}
	return out
}

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

// contributions multiplies the columns of a cross-kernel by v.
func contributions(cross *mat.Dense, v []float64) {
	cross.Apply(func(_, j int, k float64) float64 { return k * v[j] }, cross)
}

// A source yields a batch in tiles and gives no single examples.
type source struct {
	b    *linearize.Batch
	size int
}

func written(t *testing.T, save func(w *store.Writer) error) *store.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, store.Write(path, "test", 1, save))
	f, err := store.Open(path, "test", 1)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func (s source) Len() int { return s.b.Len() }

func (s source) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	for lo := 0; lo < s.b.Len(); lo += s.size {
		if err := yield(lo, s.b.Slice(lo, min(lo+s.size, s.b.Len()))); err != nil {
			return err
		}
	}
	return ctx.Err()
}
