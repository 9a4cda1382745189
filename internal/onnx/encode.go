package onnx

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Write encodes the model and writes it to w in one call. If the model cannot be
// encoded, nothing is written.
func (m *Model) Write(w io.Writer) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("onnx: writing: %w", err)
	}
	return nil
}

// Encode returns the content of the model's file. Equal models give equal bytes.
// Floats are rounded to the nearest number of the tensor's type. The error is a
// *FormatError: a tensor's elements do not match its shape or exceed its type, a
// node has no operator, the model has no graph or takes more than 2 GiB.
func (m *Model) Encode() ([]byte, error) {
	if m.Graph == nil {
		return nil, invalidf("the model has no graph")
	}
	b, err := m.append(nil)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxSize {
		return nil, invalidf("%d bytes, more than an ONNX file can have", len(b))
	}
	return b, nil
}

// append appends the fields of ModelProto.
func (m *Model) append(b []byte) ([]byte, error) {
	b = appendNonzero(b, 1, m.IRVersion)
	b = appendString(b, 2, m.ProducerName)
	b = appendString(b, 3, m.ProducerVersion)
	b = appendString(b, 4, m.Domain)
	b = appendNonzero(b, 5, m.ModelVersion)
	b = appendString(b, 6, m.DocString)
	b, err := appendMessage(b, 7, m.Graph.append)
	if err != nil {
		return nil, in("graph", err)
	}
	for _, o := range m.OpsetImport {
		b = appendBytes(b, 8, o.append(nil))
	}
	for _, e := range m.Metadata {
		b = appendBytes(b, 14, appendString(appendString(nil, 1, e.Key), 2, e.Value))
	}
	for i, fn := range m.Functions {
		if b, err = appendMessage(b, 25, fn.append); err != nil {
			return nil, in(label("function", i, fn.Name), err)
		}
	}
	return append(b, m.Unknown...), nil
}

// append appends the fields of FunctionProto.
func (fn *Function) append(b []byte) (_ []byte, err error) {
	b = appendString(b, 1, fn.Name)
	for k, list := range [][]string{fn.Inputs, fn.Outputs, fn.Attributes} {
		for _, s := range list {
			b = appendBytes(b, number(4+k), s)
		}
	}
	for i, n := range fn.Nodes {
		if b, err = appendMessage(b, 7, n.append); err != nil {
			return nil, in(n.label(i), err)
		}
	}
	b = appendString(b, 8, fn.DocString)
	for _, o := range fn.OpsetImport {
		b = appendBytes(b, 9, o.append(nil))
	}
	b = appendString(b, 10, fn.Domain)
	if b, err = appendAttributes(b, 11, fn.Defaults); err != nil {
		return nil, err
	}
	b = appendString(b, 13, fn.Overload)
	return append(b, fn.Unknown...), nil
}

// append appends the fields of OperatorSetIdProto.
func (o Opset) append(b []byte) []byte {
	return appendInt(appendString(b, 1, o.Domain), 2, o.Version)
}

// append appends the fields of GraphProto.
func (g *Graph) append(b []byte) (_ []byte, err error) {
	for i, n := range g.Nodes {
		if b, err = appendMessage(b, 1, n.append); err != nil {
			return nil, in(n.label(i), err)
		}
	}
	b = appendString(b, 2, g.Name)
	for i, t := range g.Initializers {
		if b, err = appendMessage(b, 5, t.append); err != nil {
			return nil, in(label("initializer", i, t.Name), err)
		}
	}
	b = appendString(b, 10, g.DocString)
	for _, v := range g.Inputs {
		b = appendBytes(b, 11, v.append(nil))
	}
	for _, v := range g.Outputs {
		b = appendBytes(b, 12, v.append(nil))
	}
	for _, v := range g.ValueInfos {
		b = appendBytes(b, 13, v.append(nil))
	}
	return append(b, g.Unknown...), nil
}

// append appends the fields of NodeProto.
func (n *Node) append(b []byte) (_ []byte, err error) {
	if n.OpType == "" {
		return nil, invalidf("it names no operator")
	}
	for _, s := range n.Inputs {
		b = appendBytes(b, 1, s)
	}
	for _, s := range n.Outputs {
		b = appendBytes(b, 2, s)
	}
	b = appendString(b, 3, n.Name)
	b = appendString(b, 4, n.OpType)
	if b, err = appendAttributes(b, 5, n.Attributes); err != nil {
		return nil, err
	}
	b = appendString(b, 6, n.DocString)
	b = appendString(b, 7, n.Domain)
	b = appendString(b, 8, n.Overload)
	return append(b, n.Unknown...), nil
}

// appendAttributes appends each attribute as field num.
func appendAttributes(b []byte, num number, list []*Attribute) (_ []byte, err error) {
	for i, a := range list {
		if b, err = appendMessage(b, num, a.append); err != nil {
			return nil, in(label("attribute", i, a.Name), err)
		}
	}
	return b, nil
}

// append appends the fields of AttributeProto. A value of the attribute's type is
// written even if it is zero, because readers expect it.
func (a *Attribute) append(b []byte) (_ []byte, err error) {
	b = appendString(b, 1, a.Name)
	here := a.Ref == "" // the value, and not in the call of a function
	if here && a.Type == AttrFloat || a.F != 0 {
		b = appendFloat(b, 2, a.F)
	}
	if here && a.Type == AttrInt || a.I != 0 {
		b = appendInt(b, 3, a.I)
	}
	if here && a.Type == AttrString || len(a.S) > 0 {
		b = appendBytes(b, 4, a.S)
	}
	switch {
	case a.T != nil:
		if b, err = appendMessage(b, 5, a.T.append); err != nil {
			return nil, in(a.T.label(), err)
		}
	case here && a.Type == AttrTensor:
		return nil, invalidf("a tensor is announced and not there")
	}
	switch {
	case a.G != nil:
		if b, err = appendMessage(b, 6, a.G.append); err != nil {
			return nil, in("graph", err)
		}
	case here && a.Type == AttrGraph:
		return nil, invalidf("a graph is announced and not there")
	}
	for _, v := range a.Floats {
		b = appendFloat(b, 7, v)
	}
	b = appendInts(b, 8, a.Ints)
	for _, s := range a.Strings {
		b = appendBytes(b, 9, s)
	}
	for i, g := range a.Graphs {
		if b, err = appendMessage(b, 11, g.append); err != nil {
			return nil, in(label("graph", i, ""), err)
		}
	}
	b = appendNonzero(b, 20, int64(a.Type))
	b = appendString(b, 21, a.Ref)
	return append(b, a.Raw...), nil
}

// append appends the fields of ValueInfoProto.
func (v *ValueInfo) append(b []byte) []byte {
	b = appendString(b, 1, v.Name)
	if v.Type != 0 || v.HasShape {
		// type { tensor_type { … } }
		tensor := appendNonzero(nil, 1, int64(v.Type))
		if v.HasShape {
			var dims []byte
			for _, d := range v.Dims {
				dims = appendBytes(dims, 1, d.append(nil))
			}
			tensor = appendBytes(tensor, 2, dims)
		}
		b = appendBytes(b, 2, appendBytes(nil, 1, tensor))
	}
	return append(b, v.Unknown...)
}

func (d Dim) append(b []byte) []byte {
	if d.HasValue {
		return appendInt(b, 1, d.Value)
	}
	return appendString(b, 2, d.Param)
}

// appendNonzero appends field num unless v is zero.
func appendNonzero(b []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return appendInt(b, num, v)
}
