package onnx_test

import (
	"bytes"
	"fmt"

	"github.com/funcgp/funcgp/internal/onnx"
)

func Example() {
	m := &onnx.Model{Graph: &onnx.Graph{Nodes: []*onnx.Node{{
		OpType: "Elu", Inputs: []string{"x"}, Outputs: []string{"y"},
		Attributes: []*onnx.Attribute{{Name: "alpha", Type: onnx.AttrFloat, F: 0.5}},
	}}}}
	var file, out bytes.Buffer
	if err := m.Write(&file); err != nil {
		fmt.Println(err)
	}

	m, err := onnx.Read(&file)
	if err != nil {
		fmt.Println(err) // says where in the file the fault is
		return
	}
	for _, n := range m.Graph.Nodes {
		if a := n.Attr("alpha"); a != nil && a.Type == onnx.AttrFloat {
			a.F *= 2
		}
	}
	err = m.Write(&out)
	fmt.Println(m.Graph.Nodes[0].Attr("alpha").F, err)
	// Output: 1 <nil>
}
