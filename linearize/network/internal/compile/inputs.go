package compile

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// declareInputs makes one slot that holds the network's inputs one after another, and a value for each input. If
// there are several inputs, it leaves out those that do not influence the output.
func (c *compiler) declareInputs(o *Options) {
	var inputs []*onnx.ValueInfo
	for _, in := range c.graph.Inputs {
		if c.inits[in.Name] == nil {
			inputs = append(inputs, in)
		}
	}
	declared := len(inputs)
	several := declared > 1
	if several {
		// Find the inputs that nodes behind the output read, and warn of the others.
		var used []*onnx.ValueInfo
		for _, in := range inputs {
			if c.uses[in.Name] > 0 {
				used = append(used, in)
			} else {
				c.warns = append(c.warns, linearize.NewWarning("unused-input", math.NaN(), math.NaN(), "", "Input %s does not influence the output. It is left out.", quote(in.Name)))
			}
		}
		inputs = used
	}
	if len(inputs) == 0 {
		panic(refuse("network: none of the model's %d inputs besides its weights influences the output; export it again", declared))
	}
	c.requireBound(inputs, several)
	p := c.prog
	for _, in := range inputs {
		// Take the shape of one example of an input, without the batch dimension.
		shape := []int{}
		for i, d := range in.Dims[1:] {
			if d.Value > maxElements {
				panic(refuse("network: dimension %d of input %s is %d; at most %d elements an example are allowed", i+1, quote(in.Name), d.Value, maxElements))
			}
			shape = append(shape, int(d.Value))
		}
		if d := in.Dims[0]; d.HasValue && d.Value >= 1 {
			batch := int(min(d.Value, math.MaxInt32))
			if c.batch > 0 && c.batch != batch {
				panic(refuse("network: input %s is declared for a batch of %d examples and another for %d; export all with an open batch dimension, or give an input that holds no data its value with {ReadOptions.Bind bind=%s}", quote(in.Name), batch, c.batch, rewrite.ShellWord(in.Name+"=0")))
			}
			c.batch = batch
		}
		within(func() { count(append([]int{1}, shape...)) }, "network: input %s", quote(in.Name))
		p.Inputs = append(p.Inputs, graph.Input{Name: in.Name, Shape: shape, Offset: p.D})
		p.D += graph.Product(shape)
	}
	if o.Columns != nil {
		// Assign the columns of a row to the inputs, as the options say.
		p := c.prog
		known, inputNames := map[string]bool{}, []string(nil)
		for i := range p.Inputs {
			in := &p.Inputs[i]
			known[in.Name], inputNames = true, append(inputNames, in.Name)
			list, ok := o.Columns[in.Name]
			switch want := graph.Product(in.Shape); {
			case !ok:
				panic(refuse("network: input %s of %d numbers has no columns", quote(in.Name), want))
			case len(list) != want:
				panic(refuse("network: input %s takes %d numbers (shape %v), and is given %d columns", quote(in.Name), want, in.Shape, len(list)))
			}
			for _, k := range list {
				if k < 0 || k >= o.Width {
					panic(refuse("network: column %d of input %s is not among the %d of a row", k, quote(in.Name), o.Width))
				}
			}
			in.Columns = slices.Clone(list)
		}
		for _, name := range slices.Sorted(maps.Keys(o.Columns)) {
			if !known[name] {
				panic(refuse("network: no input %s influences the output; the inputs are %s", quote(name), rewrite.List(inputNames)))
			}
		}
		p.D = o.Width
	}
	if p.D > maxElements {
		panic(refuse("network: the %d inputs have %d elements an example; at most %d are allowed", len(inputs), p.D, maxElements))
	}
	p.Input = c.addSlot(graph.Slot{Size: p.D, Param: -1})
	for i, info := range inputs {
		within(func() {
			in := &p.Inputs[i]
			shape := append([]int{1}, in.Shape...)
			all := &value{slot: p.Input, shape: shape, batch: 0}
			if info.Type.IsInt() {
				all.integer = info.Type
				in.Low, in.High = info.Type.Range()
				in.Type = info.Type.String()
			}
			if len(p.Inputs) == 1 && in.Columns == nil {
				c.env[info.Name] = all // the only input is the slot itself
				return
			}
			table := c.table([]int{graph.Product(shape)}, func(_, i int) int { return in.Column(i) })
			v := c.emit(&graph.Index{Source: table}, shape, 0, all)
			c.env[info.Name] = ofType(v, all.integer)
		}, "network: input %s", quote(info.Name))
	}
}

// requireBound refuses inputs that are no numbers, and inputs whose size for an example is not known. The error lists
// all that is to be given.
func (c *compiler) requireBound(inputs []*onnx.ValueInfo, several bool) {
	var why, give []option.Text
	ask := func(text string) {
		if bind := bound(text); !slices.Contains(give, bind) {
			give = append(give, bind)
		}
	}
	for _, in := range inputs {
		if !in.Type.IsFloat() && !in.Type.IsInt() {
			panic(refuse("network: input %s has type %v; only numbers and truth values are read", quote(in.Name), in.Type))
		}
		name := rewrite.Brief(in.Name, 80)
		switch rank := len(in.Dims); {
		case !several && in.HasShape && (rank == 0 || rank == 1 && (in.Dims[0].HasValue || in.Type.IsFloat())):
			// A single input may have one number for each example if it is an integer index.
			panic(refuse("network: input %s must have a declared shape of a batch dimension and at least one more, it has %d dimensions; export it so", quote(in.Name), rank))
		case !in.HasShape:
			why = append(why, option.Textf("input %s has no declared shape", quote(in.Name)))
			ask(name + "=n,SIZE")
			continue
		case rank == 0 || rank == 1 && in.Dims[0].HasValue:
			why = append(why, option.Textf("input %s has no dimension of examples", quote(in.Name)))
			if ask(name + "=VALUE"); rank == 1 {
				why[len(why)-1] += option.Textf(" (if its only one is that, %s)", bound(name+"=n"))
			}
			continue
		}
		var open []string
		shape, unnamed := []string{"n"}, false
		for i, d := range in.Dims[1:] {
			if !rewrite.Open(d) {
				shape = append(shape, strconv.FormatInt(d.Value, 10))
				continue
			}
			shape, unnamed = append(shape, "SIZE"), unnamed || d.Param == "" || d.Param == in.Dims[0].Param
			open = append(open, strings.TrimSpace(strconv.Itoa(i+1)+" "+rewrite.Brief(d.Param, 80)))
		}
		if open == nil {
			continue
		}
		why = append(why, option.Textf("input %s has no fixed size in dimension %s", quote(in.Name), strings.Join(open, ", ")))
		if unnamed {
			ask(name + "=" + strings.Join(shape, ","))
			continue
		}
		for _, d := range in.Dims[1:] {
			if rewrite.Open(d) {
				ask(d.Param + "=SIZE")
			}
		}
		if len(open) == 1 && in.Dims[0].Value == 1 {
			shape[slices.Index(shape, "SIZE")], shape[0] = "n", "1"
			why[len(why)-1] += option.Textf(" (if the examples are along it, %s)", bound(name+"="+strings.Join(shape, ",")))
		}
	}
	if why != nil {
		panic(refuse("network: %s; give what is open with %s", few(why, ", ", 400), few(give, "{,}", 400)))
	}
}

// bound is the option that gives what a model leaves open.
func bound(text string) option.Text {
	return option.Textf("{ReadOptions.Bind bind=%s}", rewrite.ShellWord(text))
}

// few joins as many texts as have about the given length, at least one.
func few(list []option.Text, separator option.Text, most int) option.Text {
	length := 0
	for i, t := range list {
		if length += len(t.In(option.Flags)) + 2; length > most && i > 0 {
			return option.Join(list[:i], separator) + "…"
		}
	}
	return option.Join(list, separator)
}
