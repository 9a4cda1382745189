package main

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A reference is a folder of testdata/reference as a user would have it: a
// model, and CSV files of training and test rows.
type reference struct {
	*testref.Ref
	name        string
	args        []string
	n, c        int
	likelihood  string
	train, test string
}

// openReference writes the files. The model says that its inputs are not
// scaled, since PyTorch's were not. Of several outputs, whose integrals take
// most of the time, there are 16 test rows; writeTest has more.
func openReference(t *testing.T, name string) *reference {
	t.Helper()
	r := &reference{Ref: testref.Open(t, name), name: name}
	r.n, r.likelihood = int(r.Scalar("N")), r.Meta("likelihood")
	net := testref.Must(network.ReadONNX(bytes.NewReader(r.Model(t)), nil))(t)
	_, r.c, _ = net.Dims()
	x := r.Matrix("x_train")
	_, d := x.Dims()
	zeros, ones := strings.TrimSuffix(strings.Repeat("0,", d), ","), strings.TrimSuffix(strings.Repeat("1,", d), ",")
	var model bytes.Buffer
	noise := ""
	if r.HasMeta("sigma2") {
		noise = r.Meta("sigma2")
	}
	require.NoError(t, net.WithMetadata(map[string]string{
		keyScaling: zeros + ";" + ones, keyLikelihood: r.likelihood, keyPrecision: r.Meta("delta"), keyNoise: noise,
	}).WriteONNX(&model))
	dir := t.TempDir()
	r.train, r.test = filepath.Join(dir, "train.csv"), filepath.Join(dir, "test.csv")
	write(t, r.train, table(x, r.Floats("y_train")))
	if r.c > 1 {
		r.writeTest(t, 16)
	} else {
		r.writeTest(t, r.Matrix("x_test").RawMatrix().Rows)
	}
	r.args = []string{"--model", write(t, filepath.Join(dir, "model.onnx"), model.Bytes()), "--data", r.train, "--test-data", r.test}
	return r
}

// writeTest writes the first n test rows. Their targets are made up: the references
// have none for x_test.
func (r *reference) writeTest(t *testing.T, n int) {
	t.Helper()
	x, y := r.Matrix("x_test"), make([]float64, n)
	for i := range y {
		y[i] = float64(i % max(2, r.c))
	}
	write(t, r.test, table(x.Slice(0, n, 0, x.RawMatrix().Cols).(*mat.Dense), y))
}

// run runs a verb on the reference.
func (r *reference) run(t *testing.T, verb string, args ...string) string {
	t.Helper()
	return succeed(t, slices.Concat([]string{verb}, r.args, args)...)
}

// table writes rows as CSV in full precision.
func table(x *mat.Dense, y []float64) []byte {
	n, d := x.Dims()
	var b bytes.Buffer
	for j := range d {
		b.WriteString("x" + strconv.Itoa(j) + ",")
	}
	b.WriteString("y\n")
	for i := range n {
		for _, v := range x.RawRowView(i) {
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64) + ",")
		}
		b.WriteString(strconv.FormatFloat(y[i], 'g', -1, 64) + "\n")
	}
	return b.Bytes()
}

// toys are the references that come with their data and one target a row.
var toys = []string{"two-moons", "snelson", "poisson", "categorical"}

// closeTo compares with the references: 1e-7 of the largest entry is what is
// asked of refit quantities, where K, which is numerically singular for these
// networks, magnifies rounding; 1e-8 of the rest.
func closeTo(t *testing.T, got, want []float64, rel float64, what string) {
	t.Helper()
	testref.RequireClose(t, got, want, rel, what)
}

// hasClasses tells whether the targets are labels.
func (r *reference) hasClasses() bool {
	return r.likelihood == "bernoulli" || r.likelihood == "categorical"
}

// head returns entry t of the first dimension of a tensor.
func (r *reference) head(name string, at int) []float64 {
	m := r.Matrix(name)
	return m.RawRowView(at)
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func sigmoid(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
