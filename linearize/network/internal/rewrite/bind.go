package rewrite

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
)

// bindKey is the metadata in which a written model says what was bound, a line each.
const bindKey = "funcgp.bind"

// A binder gives sizes and values to what a graph leaves open.
type binder struct {
	graph  *onnx.Graph
	inputs map[string]*onnx.ValueInfo // those that are no initializers; copies
	nodes  []*onnx.Node               // that come before those of the graph
	names  *names
}

// bind returns the model with the sizes and values of bound, by name: of an open dimension its size, of an input one
// number that all its elements are, or its whole shape with a letter for the number of examples, such as 5,n,4. The
// examples are then along the first dimension of every input.
func bind(m *onnx.Model, bound map[string]string, number map[*onnx.Node]int) error {
	g := *m.Graph
	b := &binder{graph: &g, inputs: map[string]*onnx.ValueInfo{}, names: newNames(m.Graph)}
	g.Inputs, g.Outputs, g.ValueInfos = copied(g.Inputs), copied(g.Outputs), copied(g.ValueInfos)
	for _, in := range g.Inputs {
		b.inputs[in.Name] = in
	}
	for _, t := range g.Initializers {
		delete(b.inputs, t.Name)
	}
	record := map[string]string{}
	at := slices.IndexFunc(m.Metadata, func(e onnx.Entry) bool { return e.Key == bindKey })
	if at >= 0 {
		for line := range strings.Lines(m.Metadata[at].Value) {
			name, value := CutBinding(strings.TrimSuffix(line, "\n"))
			record[name] = value
		}
	}
	values, shapes := map[string]float64{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		text := strings.ReplaceAll(bound[name], " ", "")
		if old, ok := record[name]; ok && old == text {
			continue // the model was written with it
		}
		in, size := b.inputs[name], b.symbol(name)
		var err error
		switch v, number := parseValue(text); {
		case in == nil && !size:
			return b.unknown(name)
		case in != nil && size:
			err = option.Errorf("is an input and a dimension; give the whole shape of each input that has the dimension, such as {ReadOptions.Bind bind=INPUT=n,SIZE}")
		case in == nil:
			err = b.resize(name, text)
		case number:
			values[name], err = typed(in, v)
		default:
			shapes[name], err = true, reshape(in, text)
		}
		if err != nil {
			return option.Errorf("{ReadOptions.Bind bind=%s}: %s %w", ShellWord(name+"="+text), Quote(name), err)
		}
		record[name] = text
	}
	// The values that are given are no inputs any more.
	var open []*onnx.ValueInfo
	for _, in := range g.Inputs {
		if _, given := values[in.Name]; b.inputs[in.Name] != nil && !given {
			open = append(open, in)
		}
	}
	moved := map[string]string{}
	for _, in := range open {
		if axis := examples(in, shapes[in.Name]); axis > 0 {
			moved[in.Name] = b.move(in, axis)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := b.fill(b.inputs[name], values[name], open); err != nil {
			return err
		}
	}
	g.Inputs = slices.DeleteFunc(g.Inputs, func(in *onnx.ValueInfo) bool { _, given := values[in.Name]; return given })
	for _, n := range b.nodes {
		number[n] = 0
	}
	nodes := b.nodes
	for _, n := range g.Nodes {
		own := reading(n, moved)
		if number[own] = number[n]; own != n {
			delete(number, n)
		}
		nodes = append(nodes, own)
	}
	if g.Nodes, m.Graph = nodes, &g; len(record) > 0 {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(record)) {
			lines = append(lines, name+"="+record[name])
		}
		m.Metadata = slices.DeleteFunc(slices.Clone(m.Metadata), func(e onnx.Entry) bool { return e.Key == bindKey })
		m.Metadata = append(m.Metadata, onnx.Entry{Key: bindKey, Value: strings.Join(lines, "\n")})
	}
	return nil
}

// CutBinding returns the two sides of NAME=VALUE, where a name may hold a = too. The value is "" where there is none.
func CutBinding(text string) (name, value string) {
	i := strings.LastIndex(text, "=")
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

// ShellWord quotes a text for a shell if it has to.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,=@+", r)
	}
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func copied(list []*onnx.ValueInfo) []*onnx.ValueInfo {
	out := make([]*onnx.ValueInfo, len(list))
	for i, v := range list {
		own := *v
		own.Dims = slices.Clone(v.Dims)
		out[i] = &own
	}
	return out
}

// Open reports whether a file leaves a dimension open.
func Open(d onnx.Dim) bool { return !d.HasValue || d.Value <= 0 }

// symbol reports whether an open dimension of an input has this name.
func (b *binder) symbol(name string) bool {
	for _, in := range b.inputs {
		if slices.ContainsFunc(in.Dims, func(d onnx.Dim) bool { return Open(d) && d.Param == name }) {
			return true
		}
	}
	return false
}

// unknown is the error of a name that nothing has.
func (b *binder) unknown(name string) error {
	var inputs, dims []string
	for _, in := range b.graph.Inputs {
		if b.inputs[in.Name] == nil {
			continue
		}
		inputs = append(inputs, in.Name)
		for _, d := range in.Dims {
			if Open(d) && d.Param != "" && !slices.Contains(dims, d.Param) {
				dims = append(dims, d.Param)
			}
		}
	}
	text := "the inputs are " + List(inputs) + ", and no open dimension has a name"
	if dims != nil {
		text = "the inputs are " + List(inputs) + ", and the open dimensions " + List(dims)
	}
	return option.Errorf("the model has no input and no open dimension %s for {ReadOptions.Bind bind}; %s", Quote(name), text)
}

// resize gives an open dimension its size, wherever it occurs.
func (b *binder) resize(name, text string) error {
	size, err := strconv.Atoi(text)
	if err != nil || size < 1 || size > math.MaxInt32 {
		return fmt.Errorf("is a dimension; its size is a whole number of 1 or more")
	}
	for _, list := range [][]*onnx.ValueInfo{b.graph.Inputs, b.graph.Outputs, b.graph.ValueInfos} {
		for _, v := range list {
			for i, d := range v.Dims {
				if Open(d) && d.Param == name {
					v.Dims[i] = onnx.Dim{Value: int64(size), HasValue: true}
				}
			}
		}
	}
	return nil
}

// parseValue reads one number or truth value.
func parseValue(text string) (float64, bool) {
	switch text {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// typed is a number as an input of its type holds it.
func typed(in *onnx.ValueInfo, v float64) (float64, error) {
	if in.Type.IsInt() {
		if lo, hi := in.Type.Range(); v != math.Trunc(v) || v < float64(lo) || v > float64(hi) {
			return 0, fmt.Errorf("holds %v numbers; give a whole one from %d to %d", in.Type, lo, hi)
		}
		return v, nil
	}
	if !in.Type.IsFloat() {
		return 0, fmt.Errorf("has type %v; only numbers and truth values can be given", in.Type)
	}
	if v = in.Type.Nearest(v); math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("must be a finite number of type %v", in.Type)
	}
	return v, nil
}

// reshape declares the whole shape of an input: sizes, and at most one letter for the number of examples.
func reshape(in *onnx.ValueInfo, text string) error {
	const want = "takes one number, or its whole shape of sizes with n for the number of examples, such as n,3,48,192"
	parts := strings.Split(text, ",")
	dims, open := make([]onnx.Dim, len(parts)), 0
	for i, part := range parts {
		size, err := strconv.Atoi(part)
		switch {
		case err == nil && size >= 1 && size <= math.MaxInt32:
			dims[i] = onnx.Dim{Value: int64(size), HasValue: true}
		case err != nil && len(part) > 0 && strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "":
			dims[i] = onnx.Dim{Param: part}
			open++
		default:
			return fmt.Errorf("%s", want)
		}
	}
	if open > 1 {
		return fmt.Errorf("%s; it has %d letters", want, open)
	}
	if in.HasShape && len(in.Dims) != len(dims) {
		return fmt.Errorf("has the shape %s of %d dimensions, not %d", ShapeText(in), len(in.Dims), len(dims))
	}
	for i, d := range in.Dims {
		// A 1 may be that of a batch that the file fixes, which a letter opens.
		if !Open(d) && d != dims[i] && (d.Value != 1 || !Open(dims[i])) {
			return fmt.Errorf("has the shape %s, which fixes dimension %d", ShapeText(in), i)
		}
	}
	in.HasShape, in.Dims = true, dims
	return nil
}

// ShapeText writes a declared shape as --bind takes it, with ? for a dimension without a name.
func ShapeText(in *onnx.ValueInfo) string {
	parts := make([]string, len(in.Dims))
	for i, d := range in.Dims {
		switch {
		case !Open(d):
			parts[i] = strconv.FormatInt(d.Value, 10)
		case d.Param != "":
			parts[i] = d.Param
		default:
			parts[i] = "?"
		}
	}
	return Brief(strings.Join(parts, ","), 120)
}

// examples returns the dimension of an input along which the examples are: the first one, or the only open one where
// the first is fixed. A first dimension of 1 may be a batch of one, so that another needs the whole shape given.
func examples(in *onnx.ValueInfo, given bool) int {
	if len(in.Dims) == 0 || Open(in.Dims[0]) || in.Dims[0].Value == 1 && !given {
		return 0
	}
	axis := 0
	for i, d := range in.Dims {
		if Open(d) {
			if axis > 0 {
				return 0
			}
			axis = i
		}
	}
	return axis
}

// move puts the dimension of the examples first, and returns the name of the value that is as the input was.
func (b *binder) move(in *onnx.ValueInfo, axis int) string {
	perm := make([]int64, len(in.Dims)) // of the input as it was
	for i := range perm {
		switch {
		case i < axis:
			perm[i] = int64(i) + 1
		case i > axis:
			perm[i] = int64(i)
		}
	}
	d := in.Dims[axis]
	in.Dims = slices.Insert(slices.Delete(slices.Clone(in.Dims), axis, axis+1), 0, d)
	return b.add("Transpose", in.Name, &onnx.Attribute{Name: "perm", Type: onnx.AttrInts, Ints: perm}, in.Name)
}

// add puts a node before those of the graph, and returns the name of its result, which begins with prefix.
func (b *binder) add(op, prefix string, a *onnx.Attribute, in ...string) string {
	n := &onnx.Node{Name: b.names.fresh(prefix, op), OpType: op, Inputs: in}
	if n.Outputs = []string{n.Name}; a != nil {
		n.Attributes = []*onnx.Attribute{a}
	}
	b.nodes = append(b.nodes, n)
	return n.Name
}

// fill makes one number of all elements of an input. An open dimension has the length of the examples.
func (b *binder) fill(in *onnx.ValueInfo, v float64, others []*onnx.ValueInfo) error {
	t := &onnx.Tensor{Type: in.Type}
	if in.Type.IsFloat() {
		t.Floats = []float64{v}
	} else {
		t.Ints = []int64{int64(v)}
	}
	value := &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t}
	if !in.HasShape || len(in.Dims) == 0 {
		b.nodes = append(b.nodes, &onnx.Node{Name: b.names.fresh(in.Name, "Constant"), OpType: "Constant", Outputs: []string{in.Name}, Attributes: []*onnx.Attribute{value}})
		return nil
	}
	ints := func(v ...int64) string {
		t := &onnx.Tensor{Type: onnx.Int64, Dims: []int64{int64(len(v))}, Ints: v}
		return b.add("Constant", in.Name, &onnx.Attribute{Name: "value", Type: onnx.AttrTensor, T: t})
	}
	var parts []string
	open := 0
	for _, d := range in.Dims {
		if !Open(d) {
			parts = append(parts, ints(d.Value))
			continue
		}
		if open++; open > 1 {
			return option.Errorf("input %s has the shape %s with several open dimensions; give its shape or their sizes with {ReadOptions.Bind bind} too", Quote(in.Name), ShapeText(in))
		}
		if len(others) == 0 {
			return option.Errorf("input %s has an open dimension, and no other input says its size; give it with {ReadOptions.Bind bind}", Quote(in.Name))
		}
		shape := b.add("Shape", in.Name, nil, others[0].Name)
		parts = append(parts, b.add("Gather", in.Name, nil, shape, ints(0)))
	}
	shape := b.add("Concat", in.Name, &onnx.Attribute{Name: "axis", Type: onnx.AttrInt}, parts...)
	t.Dims = []int64{1}
	b.nodes = append(b.nodes, &onnx.Node{Name: b.names.fresh(in.Name, "ConstantOfShape"), OpType: "ConstantOfShape", Inputs: []string{shape}, Outputs: []string{in.Name}, Attributes: []*onnx.Attribute{value}})
	return nil
}

// reading returns the node with other names of values that it, or a graph inside, reads.
func reading(n *onnx.Node, other map[string]string) *onnx.Node {
	if len(other) == 0 {
		return n
	}
	own := *n
	own.Inputs, own.Attributes = slices.Clone(n.Inputs), slices.Clone(n.Attributes)
	for i, name := range own.Inputs {
		if to, ok := other[name]; ok {
			own.Inputs[i] = to
		}
	}
	for i, a := range own.Attributes {
		if !holdsGraphs(a) {
			continue
		}
		// No graph inside has an error.
		own.Attributes[i], _ = eachGraph(a, func(g *onnx.Graph) (*onnx.Graph, error) {
			inner := *g
			inner.Nodes, inner.Outputs = nil, copied(g.Outputs)
			for _, n := range g.Nodes {
				inner.Nodes = append(inner.Nodes, reading(n, other))
			}
			for _, v := range inner.Outputs {
				if to, ok := other[v.Name]; ok {
					v.Name = to
				}
			}
			return &inner, nil
		})
	}
	return &own
}
