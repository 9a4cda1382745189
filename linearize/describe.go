package linearize

import (
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// A Description says what a network is made of.
type Description struct {
	Producer  string
	Opset     int64
	Operators []OperatorCount // of the nodes that influence the output, by name
	Params    []ParamInfo     // in the order of θ
	Fixed     []string        // floating point initializers that are not parameters
}

// An OperatorCount is how often an operator occurs.
type OperatorCount struct {
	Name  string
	Count int
}

// ParamInfo is a parameter and the kind of Jacobian block it has.
type ParamInfo struct {
	Param
	Block string // "Outer", "Conv" or "Full"
}

// Describe returns what the network is made of.
func (n *Network) Describe() Description {
	p := n.prog
	d := Description{Producer: strings.TrimSpace(n.model.ProducerName + " " + n.model.ProducerVersion)}
	for _, o := range n.model.OpsetImport {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			d.Opset = max(d.Opset, o.Version)
		}
	}
	d.Operators = n.operators()
	kind := n.blockKinds()
	for _, prm := range n.Params() {
		d.Params = append(d.Params, ParamInfo{Param: prm, Block: kind[prm.Offset]})
	}
	for _, t := range n.model.Graph.Initializers {
		isParam := slices.ContainsFunc(p.params, func(q Param) bool { return q.Name == t.Name })
		if t.Type.IsFloat() && !isParam {
			d.Fixed = append(d.Fixed, t.Name)
		}
	}
	return d
}

func (n *Network) operators() []OperatorCount {
	count := map[string]int{}
	for _, name := range n.prog.operators {
		count[name]++
	}
	var list []OperatorCount
	for name, k := range count {
		list = append(list, OperatorCount{name, k})
	}
	slices.SortFunc(list, func(a, b OperatorCount) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// blockKinds maps a parameter's offset to the kind of block it is in, by
// preparing the blocks of a single example.
func (n *Network) blockKinds() map[int]string {
	kinds := map[int]string{}
	for _, b := range newJacobian(n.prog, mat.NewDense(1, n.prog.d, nil), n.prog.c).batch.Blocks {
		kind := "Full"
		switch b.(type) {
		case *Outer:
			kind = "Outer"
		case *Conv:
			kind = "Conv"
		}
		for _, s := range b.Spans() {
			kinds[s.Offset] = kind
		}
	}
	return kinds
}
