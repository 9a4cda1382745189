package onnx

// Model is the content of a model file: a graph, and data about its origin.
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
	Functions       []*Function
	Unknown         []byte // other fields (training), as bytes of the file
}

// Function is an operator that the model itself defines by a list of nodes. A node
// calls it by Domain, Name as its operator, and Overload.
type Function struct {
	Domain, Name, Overload string
	Inputs, Outputs        []string     // values that stand for those of the call
	Attributes             []string     // names of those that a call gives
	Defaults               []*Attribute // attributes that a call may leave out, with their values
	Nodes                  []*Node
	OpsetImport            []Opset
	DocString              string
	Unknown                []byte // other fields, as bytes of the file
}

// Opset is the version of the operators of one domain. The domain of ONNX's own
// operators is "" or "ai.onnx".
type Opset struct {
	Domain  string
	Version int64
}

// Entry is one metadata property.
type Entry struct{ Key, Value string }

// Graph is a list of nodes, in file order, with the inputs and constants that
// they read.
type Graph struct {
	Name         string
	DocString    string
	Nodes        []*Node
	Initializers []*Tensor
	Inputs       []*ValueInfo
	Outputs      []*ValueInfo
	ValueInfos   []*ValueInfo
	Unknown      []byte // other fields (sparse initializers, annotations), as bytes of the file
}

// ValueInfo declares a value's type and shape. Only dense tensor types are
// decoded: any other type has Type 0 and stays in Unknown.
type ValueInfo struct {
	Name     string
	Type     DataType // may be a type that this package cannot read; 0 if none is declared
	HasShape bool     // if false, the shape is unknown; if true without Dims, it is a scalar's
	Dims     []Dim
	Unknown  []byte // other fields, as bytes of the file
}

// Dim is one declared dimension. If HasValue it is the number Value, which some
// exporters set to -1 or 0 for an unknown size; otherwise it is the symbol Param,
// or unknown if Param is empty.
type Dim struct {
	Value    int64
	Param    string
	HasValue bool
}

// Node applies one operator. An optional input or output that it does not have
// is named "".
type Node struct {
	Name       string
	OpType     string // never empty in a decoded model
	Domain     string
	Inputs     []string
	Outputs    []string
	Attributes []*Attribute
	DocString  string
	Overload   string // of the function that it calls
	Unknown    []byte // other fields, as bytes of the file
}

// Standard reports whether the operator is one of ONNX itself.
func (n *Node) Standard() bool { return n.Domain == "" || n.Domain == "ai.onnx" }

// Attr returns the attribute of that name, or nil.
func (n *Node) Attr(name string) *Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Attribute is a constant argument of a node. Type says which field holds its
// value. In old files that do not store the type, it is taken from the field that
// is set.
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
	G       *Graph // not nil in a decoded attribute of AttrGraph
	Graphs  []*Graph
	Ref     string // in a function: the attribute of the call whose value this one takes
	Raw     []byte // all other fields (sparse tensors, documentation), as bytes of the file
}
