package onnx

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxSize is the largest size of a protobuf message in bytes.
const MaxSize = math.MaxInt32

// MaxDepth is the largest number of graphs inside one another: the model's, and those
// that are attributes of nodes.
const MaxDepth = 32

// Read decodes the model in r, which ends with it. It reads at most the 2 GiB that
// a protobuf message may have, and stops early at bytes that cannot be a model.
func Read(r io.Reader) (*Model, error) { return read(r, MaxSize) }

func read(r io.Reader, most int64) (*Model, error) {
	b, err := readAll(r, most)
	if e := (*FormatError)(nil); errors.As(err, &e) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("onnx: reading: %w", err)
	}
	return Decode(b)
}

// Decode decodes a model file. The model shares no memory with b. An error is
// a *FormatError.
func Decode(b []byte) (*Model, error) {
	if len(b) == 0 {
		return nil, faultf(-1, "the file is empty")
	}
	m := new(Model)
	if err := (message{b: b}).each(m.schema().field); err != nil {
		return nil, err
	}
	if m.Graph == nil {
		return nil, faultf(-1, "there is no graph: not an ONNX model")
	}
	return m, nil
}

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
	b, err := m.schema().append(nil)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxSize {
		return nil, invalidf("%d bytes, more than an ONNX file can have", len(b))
	}
	return b, nil
}

// schema lists the fields of ModelProto.
func (m *Model) schema() schema {
	return schema{
		integer(1, &m.IRVersion, false), text(2, &m.ProducerName), text(3, &m.ProducerVersion), text(4, &m.Domain),
		integer(5, &m.ModelVersion, false), text(6, &m.DocString), only(7, "graph", &m.Graph), opsets(8, &m.OpsetImport),
		records(14, "metadata", &m.Metadata, func(e *Entry) record { return e }),
		records(25, "function", &m.Functions, made), rest(&m.Unknown),
	}
}

// schema lists the fields of FunctionProto.
func (fn *Function) schema() schema {
	return schema{
		text(1, &fn.Name), texts(4, &fn.Inputs), texts(5, &fn.Outputs), texts(6, &fn.Attributes), records(7, "node", &fn.Nodes, made),
		text(8, &fn.DocString), opsets(9, &fn.OpsetImport), text(10, &fn.Domain), records(11, "attribute", &fn.Defaults, made),
		text(13, &fn.Overload), rest(&fn.Unknown),
	}
}

func (fn *Function) check(off int) error {
	if fn.Name == "" {
		return faultf(off, "it has no name")
	}
	return nil
}

// schema lists the fields of OperatorSetIdProto.
func (o *Opset) schema() schema { return schema{text(1, &o.Domain), integer(2, &o.Version, true)} }

func opsets(num number, list *[]Opset) codec {
	return records(num, "opset import", list, func(o *Opset) record { return o })
}

// schema lists the fields of StringStringEntryProto.
func (e *Entry) schema() schema { return schema{text(1, &e.Key), text(2, &e.Value)} }

// schema lists the fields of GraphProto.
func (g *Graph) schema() schema {
	return schema{
		records(1, "node", &g.Nodes, made), text(2, &g.Name), records(5, "initializer", &g.Initializers, made), text(10, &g.DocString),
		records(11, "input", &g.Inputs, made), records(12, "output", &g.Outputs, made), records(13, "value info", &g.ValueInfos, made),
		rest(&g.Unknown),
	}
}

// schema lists the fields of NodeProto.
func (n *Node) schema() schema {
	return schema{
		texts(1, &n.Inputs), texts(2, &n.Outputs), text(3, &n.Name), text(4, &n.OpType), records(5, "attribute", &n.Attributes, made),
		text(6, &n.DocString), text(7, &n.Domain), text(8, &n.Overload), rest(&n.Unknown),
	}
}

func (n *Node) check(off int) error {
	if n.OpType == "" {
		return faultf(off, "it names no operator")
	}
	return nil
}

// label names node i of a graph.
func (n *Node) label(i int) string {
	s := label("node", i, n.Name)
	if n.OpType != "" {
		s += " (" + strings.Trim(quote(n.OpType), `"`) + ")"
	}
	return s
}

// schema lists the fields of AttributeProto. A value of the attribute's type is
// written even if it is zero, because readers expect it.
func (a *Attribute) schema() schema {
	expected := func(t AttrType) bool { return a.Ref == "" && a.Type == t }
	return schema{
		text(1, &a.Name), float(2, &a.F, expected(AttrFloat)), integer(3, &a.I, expected(AttrInt)),
		{4, func(f *field) error {
			a.S = f.copyBytes()
			return f.want(protowire.BytesType)
		}, func(b []byte) ([]byte, error) {
			if len(a.S) == 0 && !expected(AttrString) {
				return b, nil
			}
			return appendBytes(b, 4, a.S), nil
		}},
		only(5, "tensor", &a.T), only(6, "graph", &a.G),
		{7, func(f *field) error {
			return f.eachScalar(protowire.Fixed32Type, func(u uint64) error {
				a.Floats = append(a.Floats, math.Float32frombits(uint32(u)))
				return nil
			})
		}, func(b []byte) ([]byte, error) {
			for _, v := range a.Floats {
				b = appendFloat(b, 7, v)
			}
			return b, nil
		}},
		integers(8, &a.Ints), texts(9, &a.Strings), records(11, "graph", &a.Graphs, made),
		integer(20, &a.Type, false), text(21, &a.Ref), rest(&a.Raw),
	}
}

// contents maps each value field of AttributeProto to its attribute type.
var contents = map[number]AttrType{
	2: AttrFloat, 3: AttrInt, 4: AttrString, 5: AttrTensor, 6: AttrGraph, 7: AttrFloats, 8: AttrInts,
	9: AttrStrings, 10: AttrTensors, 11: AttrGraphs, 14: AttrTypeProto, 15: AttrTypeProtos,
	22: AttrSparseTensor, 23: AttrSparseTensors,
}

// decode gives an attribute without a type (IR version 1) the type of its value.
func (a *Attribute) decode(m message) error {
	var present uint32 // bit k: a value of AttrType k
	s := a.schema()
	err := m.each(func(f *field) error {
		present |= 1 << contents[f.num]
		return s.field(f)
	})
	if present &^= 1 << AttrUndefined; err == nil && a.Type == AttrUndefined && present != 0 {
		if a.Type = AttrType(bits.TrailingZeros32(present)); bits.OnesCount32(present) > 1 {
			err = faultf(m.off, "no type, and values of more than one")
		}
	}
	return err
}

// check refuses a tensor or graph without its value, unless the attribute refers to one of a call.
func (a *Attribute) check(off int) error {
	switch {
	case a.Ref != "":
	case a.Type == AttrTensor && a.T == nil:
		return faultf(off, "a tensor is announced and not there")
	case a.Type == AttrGraph && a.G == nil:
		return faultf(off, "a graph is announced and not there")
	}
	return nil
}

// schema lists the fields of ValueInfoProto.
func (v *ValueInfo) schema() schema {
	types := 0
	return schema{text(1, &v.Name), {2, func(f *field) error {
		if types++; types > 1 {
			return faultf(f.off, "a second type")
		}
		return in("type", v.typeProto(f))
	}, func(b []byte) ([]byte, error) {
		if v.Type == 0 && !v.HasShape {
			return b, nil
		}
		// type { tensor_type { … } }
		return appendMessage(b, 2, func(b []byte) ([]byte, error) { return appendMessage(b, 1, v.tensorType().append) })
	}}, rest(&v.Unknown)}
}

// errNotDense marks a TypeProto that is not one dense tensor type.
var errNotDense = errors.New("not a dense tensor type")

// typeProto decodes a TypeProto that is a dense tensor type or empty, and keeps
// the bytes of any other.
func (v *ValueInfo) typeProto(f *field) error {
	body, err := f.message()
	if err != nil {
		return err
	}
	err = body.each(func(f *field) error {
		if f.num != 1 && f.num != 6 { // tensor_type, denotation
			return errNotDense
		}
		return nil
	})
	if errors.Is(err, errNotDense) {
		return f.keep(&v.Unknown)
	}
	if err != nil {
		return err
	}
	return body.each(schema{{1, v.tensorType().message, nil}}.field)
}

// tensorType lists the fields of TypeProto.Tensor, of which the second is a TensorShapeProto.
func (v *ValueInfo) tensorType() schema {
	shape := schema{records(1, "dimension", &v.Dims, func(d *Dim) record { return d })}
	return schema{integer(1, &v.Type, false), {2, func(f *field) error {
		v.HasShape = true
		return shape.message(f)
	}, func(b []byte) ([]byte, error) {
		if !v.HasShape {
			return b, nil
		}
		return appendMessage(b, 2, shape.append)
	}}}
}

// schema lists the fields of TensorShapeProto.Dimension. If a dimension has both a value and a symbol, the later
// one counts, as in any protobuf oneof.
func (d *Dim) schema() schema {
	value, symbol := integer(1, &d.Value, true), text(2, &d.Param)
	return schema{{1, func(f *field) error {
		*d = Dim{HasValue: true}
		return value.decode(f)
	}, func(b []byte) ([]byte, error) {
		if !d.HasValue {
			return b, nil
		}
		return value.encode(b)
	}}, {2, func(f *field) error {
		*d = Dim{}
		return symbol.decode(f)
	}, symbol.encode}}
}
