package testkit

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// A MatchCase is a network of the reference "match", with the results of an independent
// implementation (E21).
type MatchCase struct {
	Name, Likelihood string
	Stated           float64            // prior precision of the training; 0 if Decay is set
	Decay            float64            `json:"weight_decay"` // precision for each training row
	Match            float64            // prior precision at which the linearized model matches the network
	S                float64            // scale of the covariance by leave-one-out of the refit at Match, on a grid
	Tau              []float64          // temperature, and the scale with this temperature; empty for a temperature of 1
	LOO              float64            // leave-one-out NLL with this scale
	Rows             int                // number of first test rows that NLL is computed for
	NLL              map[string]float64 // by the keys network, fhat_s, theta_s and theta_tau_s

	folder string
}

// MatchCases returns the cases that have a match. It skips the test if the reference is missing.
func MatchCases(t testing.TB) []*MatchCase {
	t.Helper()
	return slices.DeleteFunc(EveryMatchCase(t), func(c *MatchCase) bool { return !(c.Match > 0) })
}

// EveryMatchCase returns all cases, including those without a match.
func EveryMatchCase(t testing.TB) []*MatchCase {
	t.Helper()
	folder := testref.Folder(t, "match", "cases.json")
	text := testref.Must(os.ReadFile(filepath.Join(folder, "cases.json")))(t)
	var file struct{ Cases []*MatchCase }
	require.NoError(t, json.Unmarshal(text, &file))
	for _, c := range file.Cases {
		c.folder = folder
	}
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// Open returns the network linearized at its training rows and at the first test rows, with
// their targets.
func (c *MatchCase) Open(t testing.TB) (net *network.Network, train, test *linearize.Batch, y, yTest *mat.Dense) {
	t.Helper()
	file := testref.Must(os.Open(filepath.Join(c.folder, c.Name+".onnx")))(t)
	defer file.Close()
	net = testref.Must(network.ReadONNX(file, nil))(t)
	x, y, xTest, yTest := c.rows(t)
	train = testref.Must(net.Linearize(t.Context(), x))(t)
	test = testref.Must(net.Linearize(t.Context(), xTest))(t)
	return net, train, test, y, yTest
}

func (c *MatchCase) rows(t testing.TB) (x, y, xTest, yTest *mat.Dense) {
	if strings.HasPrefix(c.Name, "mnist49") {
		return c.mnist(t)
	}
	x, y = c.table(t, "train", math.MaxInt)
	xTest, yTest = c.table(t, "test", cmp.Or(c.Rows, math.MaxInt))
	if strings.HasPrefix(c.Name, "digits") {
		return x, y, xTest, yTest
	}
	_, d := x.Dims()
	for j := range d {
		mean, variance := stat.PopMeanVariance(mat.Col(nil, j, x), nil)
		for _, m := range []*mat.Dense{x, xTest} {
			n, _ := m.Dims()
			for i := range n {
				m.Set(i, j, (m.At(i, j)-mean)/math.Sqrt(variance))
			}
		}
	}
	return x, y, xTest, yTest
}

// table reads at most most rows of a file whose last column is the target.
func (c *MatchCase) table(t testing.TB, part string, most int) (x, y *mat.Dense) {
	file := testref.Must(os.Open(filepath.Join(c.folder, c.Name+"-"+part+".csv")))(t)
	defer file.Close()
	lines := testref.Must(csv.NewReader(file).ReadAll())(t)
	lines = lines[1:]
	lines = lines[:min(most, len(lines))]
	d := len(lines[0]) - 1
	x, y = mat.NewDense(len(lines), d, nil), mat.NewDense(len(lines), 1, nil)
	for i, line := range lines {
		for j, text := range line {
			v := testref.Must(strconv.ParseFloat(text, 64))(t)
			if j == d {
				y.Set(i, 0, v)
			} else {
				x.Set(i, j, v)
			}
		}
	}
	return x, y
}

// mnist returns the listed fours and nines of MNIST, and the test rows.
func (c *MatchCase) mnist(t testing.TB) (x, y, xTest, yTest *mat.Dense) {
	text := testref.Must(os.ReadFile(filepath.Join(c.folder, "mnist49-train-index.txt")))(t)
	var rows []int
	for _, line := range strings.Fields(string(text)) {
		row := testref.Must(strconv.Atoi(line))(t)
		rows = append(rows, row)
	}
	d := testref.Must(dataset.Open(t.Context(), testref.MNIST(t), nil))(t)
	digits := func(from *dataset.Rows, rows []int) (x, y *mat.Dense) {
		of := testref.Must(from.Pick([]int{4, 9}, rows, ""))(t)
		return of.Matrix(), mat.NewDense(of.Len(), 1, of.Targets)
	}
	x, y = digits(d.Train, rows)
	xTest, yTest = digits(d.Test, nil)
	return x, y, xTest, yTest
}
