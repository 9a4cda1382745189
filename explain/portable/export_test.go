package portable

import "github.com/funcgp/funcgp/internal/onnx"

// LinkModel returns a graph of the link alone, whose input holds the C means and then the C×C covariance of each row.
func LinkModel(link Link, c int) *onnx.Model {
	w := &writer{Builder: &onnx.Builder{}, a: &Answer{Link: link}, c: c}
	w.Graph.Inputs = []*onnx.ValueInfo{onnx.Rows("x", onnx.Double, c+c*c)}
	column := func(lo, n int) string {
		at := make([]int64, n)
		for i := range at {
			at[i] = int64(lo + i)
		}
		return w.Columns("x", 2, at...)
	}
	w.respond(column(0, c), w.Reshape(column(c, c*c), -1, c, c))
	return &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &w.Graph}
}
