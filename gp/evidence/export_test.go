package evidence

// InSpace returns the options with function space (1) or weight space (2) chosen.
func (o Options) InSpace(space int) *Options {
	o.in = space
	return &o
}

// InWeights tells whether weight space was chosen.
func (o *Options) InWeights() bool { return o.in == inWeights }

// FunctionBytes is the memory of function space without the kernels of the groups.
var FunctionBytes = functionBytes
