package onnx

// Model is a model file: a graph and what is said about it.
type Model struct {
	IRVersion       int64
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	DocString       string
	OpsetImport     []Opset
	Metadata        []Entry // in file order
	Graph           *Graph  // not nil in a decoded model
	Unknown         []byte  // other fields (training, local functions), as they stood in the file
}

// Opset says which version of a domain's operators the nodes mean. The
// default domain is "" or "ai.onnx".
type Opset struct {
	Domain  string
	Version int64
}

// Entry is one metadata property.
type Entry struct{ Key, Value string }

// Graph is a list of nodes, in file order, and the values they start from.
type Graph struct {
	Name         string
	DocString    string
	Nodes        []*Node
	Initializers []*Tensor
	Inputs       []*ValueInfo
	Outputs      []*ValueInfo
	ValueInfos   []*ValueInfo
	Unknown      []byte // other fields (sparse initializers, annotations), as they stood in the file
}

// ValueInfo declares a value's type and shape. Only dense tensor types are
// decoded: any other type has Type 0 and stays in Unknown.
type ValueInfo struct {
	Name     string
	Type     DataType // may be one this package has no constant for; 0 when there is none
	HasShape bool     // false: nothing is known; true with no Dims: a scalar
	Dims     []Dim
	Unknown  []byte // other fields, as they stood in the file
}

// Dim is one declared dimension: a number when HasValue, which some exporters
// set to -1 or 0 where the size is open; else the symbol Param, or unknown
// where that is empty.
type Dim struct {
	Value    int64
	Param    string
	HasValue bool
}

// Node applies one operator. An input or output named "" is one left out.
type Node struct {
	Name       string
	OpType     string // never empty in a decoded model
	Domain     string
	Inputs     []string
	Outputs    []string
	Attributes []*Attribute
	DocString  string
	Unknown    []byte // other fields, as they stood in the file
}

// Attr returns the attribute of that name, or nil.
func (n *Node) Attr(name string) *Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Attribute is a constant parameter of a node. Type says which field holds
// it; in files that predate the type it is set from the field that is there.
type Attribute struct {
	Name    string
	Type    AttrType
	F       float32
	I       int64
	S       []byte
	T       *Tensor // not nil in a decoded attribute of AttrTensor
	Floats  []float32
	Ints    []int64
	Strings [][]byte
	Raw     []byte // anything else (graphs, sparse tensors, a reference, documentation), as it stood in the file
}
