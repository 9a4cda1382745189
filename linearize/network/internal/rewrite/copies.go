package rewrite

import (
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A Copy is an initializer that held the numbers of another one.
type Copy struct {
	Name, Of string
	Shape    []int
}

// distinct is how many different numbers a tensor has at least that is compared with others:
// zeros and ones are equal by chance.
const distinct = 4

// several reports whether a tensor holds enough different numbers that another one is not equal by chance.
func several(list []float64) bool {
	var seen []float64
	for i := 0; i < len(list) && len(seen) < distinct; i++ {
		if !slices.Contains(seen, list[i]) {
			seen = append(seen, list[i])
		}
	}
	return len(seen) == distinct
}

// folded reports whether a name is one that PyTorch's exporter makes for the result of constant folding.
func folded(name string) bool { return strings.HasPrefix(name, "onnx::") }

// Copies returns a model in which a weight that the exporter stored twice, the second time
// transposed or in another shape, is read from the first. PyTorch stores a tied weight so
// where it folds constants, with a name "onnx::…" for the copy. The names in apart are left.
// number, the place in the file of each node, gets the nodes that compute the copies.
func Copies(m *onnx.Model, number map[*onnx.Node]int, apart []string) (*onnx.Model, []Copy) {
	model, g := *m, *m.Graph
	model.Graph = &g
	g.Nodes, g.Initializers = nil, nil
	all, copies := newNames(m.Graph), []Copy(nil)
	for _, t := range m.Graph.Initializers {
		var n *onnx.Node
		if folded(t.Name) && t.Type.IsFloat() && !slices.Contains(apart, t.Name) && several(t.Floats) {
			for i := 0; i < len(m.Graph.Initializers) && n == nil; i++ {
				n = from(t, m.Graph.Initializers[i])
			}
		}
		if n == nil {
			g.Initializers = append(g.Initializers, t)
			continue
		}
		copies = append(copies, Copy{t.Name, n.Inputs[0], Shape(t)})
		if n.OpType == "Reshape" {
			to := &onnx.Tensor{Name: all.fresh(t.Name, "shape"), Dims: []int64{int64(len(t.Dims))}, Type: onnx.Int64, Ints: t.Dims}
			n.Inputs = append(n.Inputs, to.Name)
			g.Initializers = append(g.Initializers, to)
		}
		reader := slices.IndexFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return slices.Contains(n.Inputs, t.Name) })
		if reader >= 0 {
			number[n] = number[m.Graph.Nodes[reader]]
		}
		g.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v *onnx.ValueInfo) bool { return v.Name == t.Name })
		g.Nodes = append(g.Nodes, n)
	}
	if len(copies) == 0 {
		return m, nil
	}
	g.Nodes = append(g.Nodes, m.Graph.Nodes...)
	return &model, copies
}

// from returns the node that computes t from another tensor of the same numbers and type,
// or nil. A tensor of the same shape is another one that began with the same numbers.
func from(t, of *onnx.Tensor) *onnx.Node {
	square := len(t.Dims) == 2 && t.Dims[0] == t.Dims[1]
	if of.Type != t.Type || len(of.Floats) != len(t.Floats) || folded(of.Name) ||
		slices.Equal(of.Dims, t.Dims) && !square {
		return nil
	}
	n := &onnx.Node{Name: t.Name, Inputs: []string{of.Name}, Outputs: []string{t.Name}}
	switch {
	case !slices.Equal(of.Dims, t.Dims) && slices.Equal(of.Floats, t.Floats):
		n.OpType = "Reshape"
	case transposed(t, of):
		n.OpType = "Transpose"
		n.Attributes = []*onnx.Attribute{{Name: "perm", Type: onnx.AttrInts, Ints: []int64{1, 0}}}
	default:
		return nil
	}
	return n
}

// transposed reports whether t is the transpose of a matrix, and not that matrix itself.
func transposed(t, of *onnx.Tensor) bool {
	if len(t.Dims) != 2 || len(of.Dims) != 2 || t.Dims[0] != of.Dims[1] || t.Dims[1] != of.Dims[0] || int64(len(t.Floats)) != t.Dims[0]*t.Dims[1] {
		return false
	}
	rows, cols := int(t.Dims[0]), int(t.Dims[1])
	for i := range rows {
		for j := range cols {
			if t.Floats[i*cols+j] != of.Floats[j*rows+i] {
				return false
			}
		}
	}
	return !slices.Equal(t.Floats, of.Floats)
}
