package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

// recommender is a network of three token ids and, if mixed, two numbers, and data for
// it: a table of 20 rows is averaged over the ids and joined with the numbers.
func recommender(t *testing.T, mixed bool) (model, data string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := func(name string, dims ...int64) *onnx.Tensor {
		n := &onnx.Tensor{Name: name, Type: onnx.Double, Dims: dims, Floats: make([]float64, dims[0]*dims[1])}
		for i := range n.Floats {
			n.Floats[i] = rng.NormFloat64()
		}
		return n
	}
	input := func(name string, kind onnx.DataType, d int64) *onnx.ValueInfo {
		return &onnx.ValueInfo{Name: name, Type: kind, HasShape: true, Dims: []onnx.Dim{{Param: "n"}, {Value: d, HasValue: true}}}
	}
	table := numbers("items", 20, 3)
	g := &onnx.Graph{Inputs: []*onnx.ValueInfo{input("ids", onnx.Int64, 3)}, Outputs: []*onnx.ValueInfo{{Name: "f", Type: onnx.Double}}}
	g.Nodes = []*onnx.Node{{OpType: "Gather", Inputs: []string{"items", "ids"}, Outputs: []string{"rows"}},
		{OpType: "ReduceMean", Inputs: []string{"rows"}, Outputs: []string{"mean"}, Attributes: []*onnx.Attribute{
			{Name: "axes", Type: onnx.AttrInts, Ints: []int64{1}}, {Name: "keepdims", Type: onnx.AttrInt}}}}
	width, last := int64(3), "mean"
	if mixed {
		width, last = 5, "all"
		g.Inputs = append(g.Inputs, input("numbers", onnx.Double, 2))
		g.Nodes = append(g.Nodes, &onnx.Node{OpType: "Concat", Inputs: []string{"mean", "numbers"}, Outputs: []string{last}, Attributes: []*onnx.Attribute{{Name: "axis", Type: onnx.AttrInt, I: 1}}})
	}
	g.Nodes = append(g.Nodes, &onnx.Node{OpType: "MatMul", Inputs: []string{last, "w"}, Outputs: []string{"f"}})
	g.Initializers = []*onnx.Tensor{table, numbers("w", width, 1)}
	encoded, err := (&onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 13}}, Graph: g}).Encode()
	require.NoError(t, err)
	var csv bytes.Buffer
	fmt.Fprint(&csv, "a,b,c,")
	if mixed {
		fmt.Fprint(&csv, "price,age,")
	}
	fmt.Fprintln(&csv, "y")
	for range 40 {
		fmt.Fprintf(&csv, "%d,%d,%d,", rng.IntN(20), rng.IntN(20), rng.IntN(20))
		if mixed {
			fmt.Fprintf(&csv, "%g,%g,", 100+20*rng.NormFloat64(), 40+rng.NormFloat64())
		}
		fmt.Fprintln(&csv, rng.NormFloat64())
	}
	dir := t.TempDir()
	return write(t, filepath.Join(dir, "model.onnx"), encoded), write(t, filepath.Join(dir, "data.csv"), csv.Bytes())
}

// TestTokenIDs predicts, explains and validates a network of token ids: columns of
// integers are never scaled, and what is no row of the table is an error that says where.
func TestTokenIDs(t *testing.T) {
	model, data := recommender(t, false)
	about := []string{"--model", model, "--data", data, "--test-data", data, "--likelihood", "gaussian", "--noise-variance", "1", "--prior-precision", "2"}
	verb := func(name string, more ...string) []string { return append(append([]string{name}, about...), more...) }
	want := succeed(t, verb("predict", "--quiet", "--standardize", "no")...)
	require.Equal(t, want, succeed(t, verb("predict", "--quiet", "--standardize", "yes", "--target-mean", "0", "--target-sd", "1")...))
	require.Contains(t, succeed(t, verb("explain", "--quiet", "--index", "3", "--standardize", "yes")...), "inputs: as they\nare in the data")
	require.Contains(t, refuse(t, 1, verb("predict", "--quiet", "--input-mean", "0,1,0", "--input-sd", "1", "--target-mean", "0", "--target-sd", "1")...), "it scales inputs, which ")
	succeed(t, verb("validate", "--quiet")...)
	require.Contains(t, succeed(t, "inspect", "--model", model), "Embedding block")

	for _, c := range []struct{ old, new, want string }{
		{"a,b,c,y\n", "a,b,c,y\n1,1.5,1,0\n", `input row 0 holds 1.5 in column 1, where input "ids" takes whole numbers`},
		{"a,b,c,y\n", "a,b,c,y\n1,2,20,0\n", `input row 0 holds 20 in column 2, but table "items" has the rows 0 to 19`},
	} {
		changed := write(t, filepath.Join(t.TempDir(), "changed.csv"), bytes.Replace([]byte(read(t, data)), []byte(c.old), []byte(c.new), 1))
		require.Contains(t, refuse(t, 1, "predict", "--model", model, "--data", changed, "--test-data", data, "--likelihood", "gaussian", "--standardize", "no"), c.want)
	}
}

// TestTokenIDsAmongNumbers checks that of a network with both, only the numbers are
// standardized.
func TestTokenIDsAmongNumbers(t *testing.T) {
	model, data := recommender(t, true)
	args := []string{"explain", "--quiet", "--model", model, "--data", data, "--test-data", data, "--likelihood", "gaussian", "--noise-variance", "1", "--prior-precision", "2", "--index", "0"}
	require.Contains(t, succeed(t, append(args, "--standardize", "yes")...), "standardized by means and deviations of 5 columns")
	require.Contains(t, refuse(t, 1, append(args, "--input-mean", "0,0,3,100,40", "--input-sd", "1")...), "it scales column 2, which an input of ")
	given := succeed(t, append(args, "--input-mean", "0,0,0,100,40", "--input-sd", "1,1,1,20,1", "--target-mean", "0", "--target-sd", "1")...)
	require.Contains(t, given, "standardized by means and deviations of 5 columns")
}
