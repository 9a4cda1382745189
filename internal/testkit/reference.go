package testkit

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A Reference is a trained network with its data, and the answers that PyTorch computed in weight
// space.
type Reference struct {
	*testref.Ref
	Net                *network.Network
	X                  *mat.Dense // training inputs
	Train, Test        *linearize.Batch
	Y                  *mat.Dense
	Labels, TestLabels []int // classes; zero for Gaussian targets; TestLabels is set for MNIST only
	Likelihood         gp.Likelihood
	Prior              ntk.Prior
	Kernel             *ntk.NTK
}

// Targets returns Y with the likelihood.
func (r *Reference) Targets() *gp.Targets { return gp.NewTargets(r.Y, r.Likelihood) }

// OpenReference reads a reference by its name and linearizes its network at the
// training and test inputs. It skips the test if a file is missing.
func OpenReference(t testing.TB, name string) *Reference {
	t.Helper()
	r := &Reference{Ref: testref.Open(t, name)}
	var err error
	r.Net = testref.Must(network.ReadONNX(bytes.NewReader(r.Model(t)), nil))(t)
	var xTest *mat.Dense
	r.X, xTest = r.inputs(t, name)
	r.Train = testref.Must(r.Net.Linearize(t.Context(), r.X))(t)
	r.Test = testref.Must(r.Net.Linearize(t.Context(), xTest))(t)
	if r.Has("prior_variance") {
		r.Prior, err = ntk.NewDiagonal(r.Floats("prior_variance"), nil)
	} else {
		r.Prior, err = ntk.NewIsotropic(r.Scalar("delta"), nil)
	}
	require.NoError(t, err)
	r.Kernel = ntk.New(r.Prior, r.Net.Theta())
	switch likelihood := r.Meta("likelihood"); likelihood {
	case "gaussian":
		r.Likelihood = testref.Must(glm.NewGaussian(r.Scalar("sigma2")))(t)
	case "bernoulli":
		r.Likelihood = glm.Bernoulli{}
	case "categorical":
		r.Likelihood = glm.Categorical{}
	case "poisson":
		r.Likelihood = glm.Poisson{}
	default:
		t.Fatalf("unknown likelihood %q", likelihood)
	}
	for i := range r.Train.Len() {
		label := 0
		if r.Meta("likelihood") != "gaussian" {
			label = int(r.Y.At(i, 0))
		}
		r.Labels = append(r.Labels, label)
	}
	return r
}

// Head returns the reference with only its first n training examples.
func (r *Reference) Head(n int) *Reference {
	h, y := *r, mat.DenseCopyOf(r.Y)
	_, c := y.Dims()
	h.Train, h.Labels, h.Y = r.Train.Slice(0, n), r.Labels[:n], y.Slice(0, n, 0, c).(*mat.Dense)
	return &h
}

// inputs returns training and test inputs and sets Y. The inputs come from the folder of the
// reference, or are MNIST's pixels divided by 255.
func (r *Reference) inputs(t testing.TB, name string) (train, test *mat.Dense) {
	t.Helper()
	if r.Has("x_train") {
		r.Y = r.Matrix("y_train")
		return r.Matrix("x_train"), r.Matrix("x_test")
	}
	d := testref.Must(dataset.Open(t.Context(), testref.MNIST(t), nil))(t)
	rows := testref.Must(d.Train.Pick(nil, r.Ints("train_index"), ""))(t)
	testRows := testref.Must(d.Test.Pick(nil, r.Ints("test_index"), ""))(t)
	class := func(digit int) int { return digit }
	if name == "thesis-cnn" { // 4 against 9
		class = func(digit int) int { return digit / 9 }
	}
	r.Y = mat.NewDense(len(rows.Labels), 1, nil)
	for i, digit := range rows.Labels {
		r.Y.Set(i, 0, float64(class(digit)))
	}
	for _, digit := range testRows.Labels {
		r.TestLabels = append(r.TestLabels, class(digit))
	}
	return rows.Matrix(), testRows.Matrix()
}

// Sites returns the sites at f(θ*).
func (r *Reference) Sites(t testing.TB) *gp.Sites {
	t.Helper()
	return testref.Must(gp.NewSites(r.Targets(), r.Train.F))(t)
}

// Exact returns the exact posterior with the linear-Gaussian mean.
func (r *Reference) Exact(t testing.TB) *gp.Exact {
	t.Helper()
	return testref.Must(gp.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
}

// Contributions multiplies column j of a cross-kernel by v[j], in place.
func Contributions(cross *mat.Dense, v []float64) {
	cross.Apply(func(_, j int, k float64) float64 { return k * v[j] }, cross)
}

// Written calls save to write a file in a temporary folder, and returns the open file. It is closed
// at the end of the test.
func Written(t *testing.T, save func(w *store.Writer) error) *store.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, store.Write(path, "test", 1, save))
	f := testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { f.Close() })
	return f
}
