package result

// An Inspection says what a model is made of.
type Inspection struct {
	Schema     string            `json:"schema"`
	Model      string            `json:"model"`
	Producer   string            `json:"producer"`
	Opset      int64             `json:"opset"`
	Input      []int             `json:"input"`
	Inputs     []ModelInput      `json:"inputs"`
	Files      []string          `json:"external_files,omitempty"`
	Outputs    int               `json:"outputs"`
	Parameters int               `json:"parameters"`
	Head       *Head             `json:"head,omitempty"` // nil where the network ends with no such function
	Operators  map[string]int    `json:"operators"`      // how often each occurs
	Tensors    []Tensor          `json:"tensors"`        // the parameters
	Fixed      []string          `json:"fixed"`          // names of tensors that are no parameters
	Decisions  []Decision        `json:"decisions"`
	Metadata   map[string]string `json:"metadata"`
	Warnings   Warnings          `json:"warnings"`
	Normalized []string          `json:"normalized_layers"` // nil where they were not looked for
}

// A Head is the function at the end of a network.
type Head struct {
	Function   string  `json:"function"`
	Nodes      string  `json:"nodes"`
	Groups     int     `json:"groups"`
	Clip       *string `json:"clip"`
	Likelihood *string `json:"removed_under"` // the likelihood that applies it; nil where it is part of the outputs

	Text string `json:"-"` // the function in words
}

// A ModelInput is one of the inputs that influence the output.
type ModelInput struct {
	Name    string `json:"name"`
	Shape   []int  `json:"shape"`
	Offset  int    `json:"offset"` // of its first column in a row
	Integer bool   `json:"integer"`
}

// A Tensor is a parameter.
type Tensor struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Offset int    `json:"offset"` // among all parameters
	Block  string `json:"block"`  // kind of its Jacobian
	Layer  int    `json:"layer"`  // its layer's number, from 1 on in the order in which the layers run
}

// A Decision says whether a stored tensor is a parameter, and why.
type Decision struct {
	Name      string `json:"name"`
	Shape     []int  `json:"shape"`
	Parameter bool   `json:"parameter"`
	Reason    string `json:"reason"`
	Uncertain bool   `json:"uncertain"`
	Node      bool   `json:"constant_node"` // stored in a Constant node
}
