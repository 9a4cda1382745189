package rewrite

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// tied replaces tensors that the exporter made of others by transposing them by that
// Transpose: PyTorch folds the transposed weight of a last layer that is tied to an
// embedding into a tensor of its own, named onnx::…, and it was learnt as one.
func tied(g *onnx.Graph, number map[*onnx.Node]int) (*onnx.Graph, []error) {
	own, notes := *g, []error(nil)
	for i := 0; i < len(own.Initializers); i++ {
		t := own.Initializers[i]
		of := transposedOf(t, g.Initializers)
		if of == nil {
			continue
		}
		n := &onnx.Node{Name: t.Name, OpType: "Transpose", Inputs: []string{of.Name}, Outputs: []string{t.Name}}
		n.Attributes = []*onnx.Attribute{{Name: "perm", Type: onnx.AttrInts, Ints: []int64{1, 0}}}
		number[n] = slices.IndexFunc(g.Nodes, func(n *onnx.Node) bool { return slices.Contains(n.Inputs, t.Name) })
		own.Nodes = append([]*onnx.Node{n}, own.Nodes...)
		own.Initializers = slices.Delete(slices.Clone(own.Initializers), i, i+1)
		own.Inputs = slices.DeleteFunc(slices.Clone(own.Inputs), func(v *onnx.ValueInfo) bool { return v.Name == t.Name })
		i--
		notes = append(notes, fmt.Errorf("tensor %s is the transpose of %s, which the exporter made of one weight in two places: they are one parameter", quote(t.Name), quote(of.Name)))
	}
	return &own, notes
}

// fewest is the number of elements from which a tensor is not the transpose of another
// by chance.
const fewest = 16

// transposedOf returns the tensor of the list of which t, a tensor named by the
// exporter, is the transpose, or nil.
func transposedOf(t *onnx.Tensor, list []*onnx.Tensor) *onnx.Tensor {
	if len(t.Name) < 6 || t.Name[:6] != "onnx::" || len(t.Dims) != 2 || len(t.Floats) < fewest {
		return nil
	}
	rows, cols := int(t.Dims[0]), int(t.Dims[1])
	for _, of := range list {
		if of == t || of.Type != t.Type || len(of.Dims) != 2 || int(of.Dims[0]) != cols || int(of.Dims[1]) != rows || len(of.Floats) != len(t.Floats) || of.Name[:min(6, len(of.Name))] == "onnx::" {
			continue
		}
		same, varied := true, false
		for k, v := range t.Floats {
			same = same && of.Floats[k%cols*rows+k/cols] == v
			varied = varied || v != t.Floats[0]
			if !same {
				break
			}
		}
		if same && varied {
			return of
		}
	}
	return nil
}
