package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
)

// twoInputs writes a model of the inputs "user" N×2 and "item" N×1 with the outputs
// "score" and "both", and a table of their numbers and of scores with noise.
func twoInputs(t *testing.T, item onnx.DataType) (dir, data, model string) {
	dir = t.TempDir()
	rng := rand.New(rand.NewPCG(5, 6))
	values := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	w, u, v := values(4), values(6), values(2)
	double := func(name string, data []float64, dims ...int64) *onnx.Tensor {
		return &onnx.Tensor{Name: name, Type: onnx.Double, Dims: dims, Floats: data}
	}
	input := func(name string, kind onnx.DataType, dims ...int64) *onnx.ValueInfo {
		x := &onnx.ValueInfo{Name: name, Type: kind, HasShape: true, Dims: []onnx.Dim{{Param: "n"}}}
		for _, d := range dims {
			x.Dims = append(x.Dims, onnx.Dim{HasValue: true, Value: d})
		}
		return x
	}
	node := func(kind, out string, in ...string) *onnx.Node {
		return &onnx.Node{Name: kind, OpType: kind, Inputs: in, Outputs: []string{out}}
	}
	g := &onnx.Graph{
		Inputs:       []*onnx.ValueInfo{input("user", onnx.Double, 2), input("item", item)},
		Outputs:      []*onnx.ValueInfo{{Name: "score", Type: onnx.Double}, {Name: "both", Type: onnx.Double}},
		Initializers: []*onnx.Tensor{double("w", w, 2, 2), double("u", u, 3, 2), double("v", v, 2, 1)},
		Nodes:        []*onnx.Node{node("MatMul", "a", "user", "w"), node("Gather", "b", "u", "item"), node("Add", "s", "a", "b"), node("Tanh", "both", "s"), node("MatMul", "score", "both", "v")},
	}
	if item == onnx.Double {
		one := &onnx.Tensor{Name: "one", Type: onnx.Int64, Dims: []int64{1}, Ints: []int64{1}}
		g.Initializers[1] = double("u", u[:2], 1, 2)
		g.Initializers = append(g.Initializers, one)
		g.Nodes[1] = node("MatMul", "b", "column", "u")
		g.Nodes = append([]*onnx.Node{node("Unsqueeze", "column", "item", "one")}, g.Nodes...)
	}
	model = testkit.WriteModel(t, &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 13}}, Graph: g}, dir)
	var b strings.Builder
	b.WriteString("id,item,age,unread,income,score\n")
	for i := range 24 {
		x, k := values(2), i%3
		score := 0.0
		for j := range 2 {
			h := x[0]*w[j] + x[1]*w[2+j]
			if item == onnx.Double {
				h += float64(k) * u[j]
			} else {
				h += u[2*k+j]
			}
			score += v[j] * math.Tanh(h)
		}
		fmt.Fprintf(&b, "r%d,%d,%v,%v,%v,%v\n", i, k, x[1], rng.NormFloat64(), x[0], score+0.01*rng.NormFloat64())
	}
	return dir, write(t, filepath.Join(dir, "table.csv"), []byte(b.String())), model
}

// TestInputColumns checks that the columns of a table reach the inputs that take them.
func TestInputColumns(t *testing.T) {
	for _, kind := range []onnx.DataType{onnx.Double, onnx.Int64} {
		t.Run(kind.String(), func(t *testing.T) {
			dir, data, model := twoInputs(t, kind)
			common := func(verb string, more ...string) []string {
				return append([]string{verb, "--quiet", "--model", model, "--data", data, "--test-data", data, "--id", "id", "--output", "score", "--calibrate", "none"}, more...)
			}
			assign := []string{"--input-columns", "user=income,age", "--input-columns", "item=0"}
			rows, _ := lastLines(t, succeed(t, common("predict", append(assign, "--json", "--standardize", "no")...)...))
			for i, r := range rows {
				require.InDelta(t, float64(r.Label), float64(r.Mean[0]), 0.05, "row %d", i)
			}
			// By positions, by a range, and in a table that has just these columns in order.
			for _, other := range [][]string{{"--input-columns", "user=3,1", "--input-columns", "item=item"}, {"--input-columns", "item=item:item", "--input-columns", "user=3-3,age"}} {
				got, _ := lastLines(t, succeed(t, common("predict", append(other, "--json", "--standardize", "no")...)...))
				require.Len(t, got, len(rows))
				for i := range got {
					require.Equal(t, rows[i].Mean, got[i].Mean)
					require.Equal(t, rows[i].Covariance, got[i].Covariance)
				}
			}
			var b strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(read(t, data)), "\n") {
				f := strings.Split(line, ",")
				fmt.Fprintln(&b, strings.Join([]string{f[4], f[2], f[1], f[5]}, ","))
			}
			ordered := write(t, filepath.Join(dir, "ordered.csv"), []byte(b.String()))
			r := gpexplain(t.Context(), "predict", "--json", "--model", model, "--data", ordered, "--test-data", ordered, "--output", "score", "--standardize", "no", "--calibrate", "none")
			require.Zero(t, r.code, r.stderr)
			require.Contains(t, r.stderr, "takes user from income to age, item from item, one after another; --input-columns NAME=COLUMNS assigns others")
			got, _ := lastLines(t, r.stdout)
			for i := range got {
				require.InDelta(t, float64(rows[i].Mean[0]), float64(got[i].Mean[0]), 1e-12)
			}

			// A posterior remembers columns and output, and standardized columns do not
			// include whole numbers.
			file := filepath.Join(dir, "a.gp")
			succeed(t, "fit", "--quiet", "--model", model, "--data", data, "--id", "id", "--output", "score", "--standardize", "no", assign[0], assign[1], assign[2], assign[3], "-o", file)
			saved, _ := lastLines(t, succeed(t, "predict", "--quiet", "--json", "--posterior", file, "--test-data", data))
			fresh, _ := lastLines(t, succeed(t, common("predict", append(assign, "--json", "--standardize", "no")...)...))
			for i := range saved {
				require.InDelta(t, float64(fresh[i].Mean[0]), float64(saved[i].Mean[0]), 1e-9)
			}
			if kind == onnx.Int64 {
				succeed(t, common("predict", append(assign, "--standardize", "yes")...)...)
				require.Contains(t, refuse(t, 1, common("predict", append(assign, "--input-mean", "1", "--input-sd", "2")...)...), "it scales column 0, which an input of "+model+" takes as whole numbers")
			}
			for _, c := range []struct {
				code int
				want string
				args []string
			}{
				{1, `the inputs of ` + model + ` take user 2, item 1; say with --input-columns NAME=COLUMNS, one for each, which columns they are`, nil},
				{1, `there is no column or range of columns "weight"; ` + data + ` has "item", "age", "unread", "income"`, []string{"--input-columns", "user=income,weight"}},
				{1, `there is no column or range of columns "2-9"`, []string{"--input-columns", "user=2-9"}},
				{1, `input "user" takes 2 numbers (shape [2]), and is given 1 columns`, []string{"--input-columns", "user=income", "--input-columns", "item=item"}},
				{1, `input "item" of 1 numbers has no columns`, []string{"--input-columns", "user=income,age"}},
				{1, `no input "client" influences the output; the inputs are "user", "item"`, append(assign, "--input-columns", "client=age")},
				{2, `--input-columns "income" must be an input and its columns, such as x=age,income or x=0-9`, []string{"--input-columns", "income"}},
				{2, `--input-columns "user=" must be`, []string{"--input-columns", "user="}},
				{2, `user is given twice`, append(assign, "--input-columns", "user=age")},
			} {
				require.Contains(t, refuse(t, c.code, common("predict", c.args...)...), c.want)
			}
			require.Contains(t, refuse(t, 1, "predict", "--model", model, "--data", data), `the model has 2 outputs, "score", "both"; choose one, or another tensor of the graph, with --output NAME`)
			require.Contains(t, refuse(t, 1, "predict", "--model", model, "--output", "score", "--input-columns", "user=0"), "holds pictures, which have no columns")
		})
	}
}

// Inspect lists the inputs with their places in a row, and which take whole numbers.
func TestInspectInputs(t *testing.T) {
	for _, kind := range []onnx.DataType{onnx.Double, onnx.Int64} {
		_, _, model := twoInputs(t, kind)
		x := decode[result.Inspection](t, succeed(t, "inspect", "--model", model, "--output", "score", "--json"))
		require.Equal(t, []result.ModelInput{{Name: "user", Shape: []int{2}, Offset: 0}, {Name: "item", Shape: []int{}, Offset: 2, Integer: kind == onnx.Int64}}, x.Inputs)
		text := succeed(t, "inspect", "--model", model, "--output", "score")
		require.Contains(t, text, "user [2], from column 0 of a row")
		require.Equal(t, kind == onnx.Int64, strings.Contains(text, "item [], whole numbers, from column 2 of a row"))
	}
}
