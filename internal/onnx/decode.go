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
	if err := (message{b: b}).each(m.field); err != nil {
		return nil, err
	}
	if m.Graph == nil {
		return nil, faultf(-1, "there is no graph: not an ONNX model")
	}
	return m, nil
}

// field decodes one field of ModelProto.
func (m *Model) field(f *field) error {
	switch f.num {
	case 1:
		return f.int64(&m.IRVersion)
	case 2:
		return f.string(&m.ProducerName)
	case 3:
		return f.string(&m.ProducerVersion)
	case 4:
		return f.string(&m.Domain)
	case 5:
		return f.int64(&m.ModelVersion)
	case 6:
		return f.string(&m.DocString)
	case 7:
		var err error
		if m.Graph != nil {
			err = faultf(f.off, "a second graph")
		} else {
			m.Graph, err = decodeGraph(f)
		}
		return in("graph", err)
	case 8:
		return opset(&m.OpsetImport, f)
	case 14:
		return in(label("metadata", len(m.Metadata), ""), entry(&m.Metadata, f))
	case 25:
		fn := new(Function)
		body, err := f.message()
		if err == nil {
			err = body.each(fn.field)
		}
		if err == nil && fn.Name == "" {
			err = faultf(f.off, "it has no name")
		}
		if err != nil {
			return in(label("function", len(m.Functions), fn.Name), err)
		}
		m.Functions = append(m.Functions, fn)
		return nil
	}
	return f.keep(&m.Unknown)
}

// decodeGraph decodes GraphProto.
func decodeGraph(f *field) (*Graph, error) {
	g := new(Graph)
	body, err := f.message()
	if err != nil {
		return g, err
	}
	if body.depth++; body.depth > MaxDepth {
		return g, faultf(f.off, "more than %d graphs inside one another", MaxDepth)
	}
	return g, body.each(g.field)
}

// opset decodes OperatorSetIdProto and appends it to dst.
func opset(dst *[]Opset, f *field) error {
	var o Opset
	body, err := f.message()
	if err == nil {
		err = body.each(func(f *field) error {
			switch f.num {
			case 1:
				return f.string(&o.Domain)
			case 2:
				return f.int64(&o.Version)
			}
			return nil
		})
	}
	if err != nil {
		return in(label("opset import", len(*dst), ""), err)
	}
	*dst = append(*dst, o)
	return nil
}

// field decodes one field of FunctionProto.
func (fn *Function) field(f *field) error {
	switch f.num {
	case 1:
		return f.string(&fn.Name)
	case 4:
		return f.strings(&fn.Inputs)
	case 5:
		return f.strings(&fn.Outputs)
	case 6:
		return f.strings(&fn.Attributes)
	case 7:
		return node(&fn.Nodes, f)
	case 8:
		return f.string(&fn.DocString)
	case 9:
		return opset(&fn.OpsetImport, f)
	case 10:
		return f.string(&fn.Domain)
	case 11:
		return attribute(&fn.Defaults, f)
	case 13:
		return f.string(&fn.Overload)
	}
	return f.keep(&fn.Unknown)
}

// entry decodes StringStringEntryProto and appends it to dst.
func entry(dst *[]Entry, f *field) error {
	body, err := f.message()
	if err != nil {
		return err
	}
	var e Entry
	err = body.each(func(f *field) error {
		switch f.num {
		case 1:
			return f.string(&e.Key)
		case 2:
			return f.string(&e.Value)
		}
		return nil
	})
	*dst = append(*dst, e)
	return err
}

// field decodes one field of GraphProto.
func (g *Graph) field(f *field) error {
	switch f.num {
	case 1:
		return node(&g.Nodes, f)
	case 2:
		return f.string(&g.Name)
	case 5:
		body, err := f.message()
		if err != nil {
			return in("initializer", err)
		}
		t, err := decodeTensor(body)
		if err != nil {
			return in(label("initializer", len(g.Initializers), t.Name), err)
		}
		g.Initializers = append(g.Initializers, t)
		return nil
	case 10:
		return f.string(&g.DocString)
	case 11:
		return valueInfo(&g.Inputs, "input", f)
	case 12:
		return valueInfo(&g.Outputs, "output", f)
	case 13:
		return valueInfo(&g.ValueInfos, "value info", f)
	}
	return f.keep(&g.Unknown)
}

// node decodes NodeProto and appends it to dst.
func node(dst *[]*Node, f *field) error {
	body, err := f.message()
	if err != nil {
		return in("node", err)
	}
	n := new(Node)
	err = body.each(n.field)
	if err == nil && n.OpType == "" {
		err = faultf(f.off, "it names no operator")
	}
	if err != nil {
		return in(n.label(len(*dst)), err)
	}
	*dst = append(*dst, n)
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

// field decodes one field of NodeProto.
func (n *Node) field(f *field) error {
	switch f.num {
	case 1:
		return f.strings(&n.Inputs)
	case 2:
		return f.strings(&n.Outputs)
	case 3:
		return f.string(&n.Name)
	case 4:
		return f.string(&n.OpType)
	case 5:
		return attribute(&n.Attributes, f)
	case 6:
		return f.string(&n.DocString)
	case 7:
		return f.string(&n.Domain)
	case 8:
		return f.string(&n.Overload)
	}
	return f.keep(&n.Unknown)
}

// attribute decodes AttributeProto and appends it to dst.
func attribute(dst *[]*Attribute, f *field) error {
	body, err := f.message()
	if err != nil {
		return in("attribute", err)
	}
	a := new(Attribute)
	var present uint32 // bit k: a value of AttrType k
	err = body.each(func(f *field) error {
		present |= 1 << contents[f.num]
		return a.field(f)
	})
	// An attribute without a type (IR version 1) has that of its value.
	if present &^= 1 << AttrUndefined; err == nil && a.Type == AttrUndefined && present != 0 {
		if a.Type = AttrType(bits.TrailingZeros32(present)); bits.OnesCount32(present) > 1 {
			err = faultf(body.off, "no type, and values of more than one")
		}
	}
	// A tensor or graph has its value, unless the attribute refers to one of a call.
	switch {
	case err != nil || a.Ref != "":
	case a.Type == AttrTensor && a.T == nil:
		err = faultf(body.off, "a tensor is announced and not there")
	case a.Type == AttrGraph && a.G == nil:
		err = faultf(body.off, "a graph is announced and not there")
	}
	if err != nil {
		return in(label("attribute", len(*dst), a.Name), err)
	}
	*dst = append(*dst, a)
	return nil
}

// contents maps each value field of AttributeProto to its attribute type.
var contents = map[number]AttrType{
	2: AttrFloat, 3: AttrInt, 4: AttrString, 5: AttrTensor, 6: AttrGraph, 7: AttrFloats, 8: AttrInts,
	9: AttrStrings, 10: AttrTensors, 11: AttrGraphs, 14: AttrTypeProto, 15: AttrTypeProtos,
	22: AttrSparseTensor, 23: AttrSparseTensors,
}

// field decodes one field of AttributeProto.
func (a *Attribute) field(f *field) error {
	switch f.num {
	case 1:
		return f.string(&a.Name)
	case 2:
		return f.float32(&a.F)
	case 3:
		return f.int64(&a.I)
	case 4:
		a.S = f.copyBytes()
		return f.want(protowire.BytesType)
	case 5:
		if a.T != nil {
			return faultf(f.off, "a second tensor")
		}
		body, err := f.message()
		if err != nil {
			return err
		}
		a.T, err = decodeTensor(body)
		return in(a.T.label(), err)
	case 6:
		if a.G != nil {
			return faultf(f.off, "a second graph")
		}
		var err error
		a.G, err = decodeGraph(f)
		return in("graph", err)
	case 7:
		dst := &a.Floats
		return f.eachScalar(protowire.Fixed32Type, func(u uint64) error {
			*dst = append(*dst, math.Float32frombits(uint32(u)))
			return nil
		})
	case 8:
		return f.int64s(&a.Ints)
	case 9:
		a.Strings = append(a.Strings, f.copyBytes())
		return f.want(protowire.BytesType)
	case 11:
		g, err := decodeGraph(f)
		if err != nil {
			return in(label("graph", len(a.Graphs), ""), err)
		}
		a.Graphs = append(a.Graphs, g)
		return nil
	case 20:
		return f.int32((*int32)(&a.Type))
	case 21:
		return f.string(&a.Ref)
	}
	return f.keep(&a.Raw)
}

// valueInfo decodes ValueInfoProto and appends it to dst.
func valueInfo(dst *[]*ValueInfo, kind string, f *field) error {
	v, types := new(ValueInfo), 0
	body, err := f.message()
	if err == nil {
		err = body.each(func(f *field) error {
			if f.num == 2 {
				if types++; types > 1 {
					return faultf(f.off, "a second type")
				}
			}
			return v.field(f)
		})
	}
	if err != nil {
		return in(label(kind, len(*dst), v.Name), err)
	}
	*dst = append(*dst, v)
	return nil
}

// field decodes one field of ValueInfoProto.
func (v *ValueInfo) field(f *field) error {
	switch f.num {
	case 1:
		return f.string(&v.Name)
	case 2:
		return in("type", v.typeProto(f))
	}
	return f.keep(&v.Unknown)
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
	return body.each(func(f *field) error {
		if f.num != 1 {
			return nil
		}
		tensor, err := f.message()
		if err != nil {
			return err
		}
		return tensor.each(v.tensorType)
	})
}

// tensorType decodes one field of TypeProto.Tensor.
func (v *ValueInfo) tensorType(f *field) error {
	switch f.num {
	case 1:
		return f.int32((*int32)(&v.Type))
	case 2:
		v.HasShape = true
		shape, err := f.message()
		if err != nil {
			return err
		}
		return shape.each(func(f *field) error {
			if f.num != 1 {
				return nil
			}
			body, err := f.message()
			if err != nil {
				return err
			}
			// If a dimension has both a value and a symbol, the later one counts, as in any protobuf oneof.
			var d Dim
			err = body.each(func(f *field) error {
				switch f.num {
				case 1:
					d = Dim{HasValue: true}
					return f.int64(&d.Value)
				case 2:
					d = Dim{}
					return f.string(&d.Param)
				}
				return nil
			})
			v.Dims = append(v.Dims, d)
			return err
		})
	}
	return nil
}
