package compile

import (
	"errors"
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// lookup returns the value of a name. A floating point initializer becomes a
// parameter or a constant, as findConstants decided, when it is first looked up.
func (c *compiler) lookup(name string) (*value, error) {
	if v := c.env[name]; v != nil {
		return v, nil
	}
	in := c.inits[name]
	switch {
	case in == nil:
		return nil, fmt.Errorf("it reads %s, which no node, initializer or input provides; %s", quote(name), invalid)
	case in.value != nil:
		return in.value, nil
	case in.t.Type.IsFloat():
		v, err := c.tensor(in)
		in.value = v
		return v, err
	}
	v, err := c.intTensor(in.t)
	in.value = v
	return v, err
}

// tensor returns the value of a floating point initializer.
func (c *compiler) tensor(in *initializer) (*value, error) {
	shape := dims(in.t)
	if _, err := Count(shape); err != nil {
		return nil, fmt.Errorf("initializer %s: %w", quote(in.t.Name), err)
	}
	if in.mask != nil {
		v := c.addConstant(in.t.Floats, shape)
		c.masks[v.slot].from = in.mask
		if c.learn[in.t.Name] {
			return nil, in.mask
		}
		return v, nil
	}
	if name := in.t.Name; c.freeze[name] || c.fixed[name] || len(shape) == 0 && !c.learn[name] && !c.scalars[name] {
		return c.addConstant(in.t.Floats, shape), nil
	}
	in.uses = c.uses[in.t.Name]
	in.param = c.addSlot(graph.Slot{Size: in.t.Len(), Static: true, NeedsGrad: true, Param: -1})
	c.bySlot[in.param] = in
	return &value{slot: in.param, shape: shape, batch: -1, weight: in}, nil
}

// intTensor returns the value of an integer tensor.
func (c *compiler) intTensor(t *onnx.Tensor) (*value, error) {
	if t.Type == onnx.String {
		return nil, fmt.Errorf("tensor %s holds strings", quote(t.Name))
	}
	shape := dims(t)
	if len(shape) > maxRank {
		return nil, fmt.Errorf("integer tensor %s has %d dimensions, too many", quote(t.Name), len(shape))
	}
	if err := c.spend(intBytes * len(t.Ints)); err != nil {
		return nil, err
	}
	v := &value{shape: shape, batch: -1, isInt: true, stored: t.Type, ints: make([]affine, len(t.Ints))}
	for i, k := range t.Ints {
		v.ints[i] = affine{k: clampInt(k)}
	}
	return v, nil
}

// intBound is the largest integer that may take part in arithmetic.
const intBound = 1 << 40

// clampInt limits an integer so that sums cannot overflow. Large ones that mean
// "to the end" stay beyond intBound.
func clampInt(k int64) int { return int(min(max(k, -2*intBound), 2*intBound)) }

// has reports whether optional input i of the node is given.
func (c *compiler) has(i int) bool { return i < len(c.node.Inputs) && c.node.Inputs[i] != "" }

// input returns input i of the node.
func (c *compiler) input(i int) (*value, error) {
	if !c.has(i) {
		return nil, fmt.Errorf("input %d is missing", i)
	}
	return c.lookup(c.node.Inputs[i])
}

// float returns input i, which must be a floating point tensor.
func (c *compiler) float(i int) (*value, error) {
	v, err := c.input(i)
	if err == nil && v.isInt {
		if v, err = c.toFloat(v); err != nil {
			return nil, fmt.Errorf("input %d (%s): %w", i, quote(c.node.Inputs[i]), err)
		}
		v.fromInts = true
	}
	return v, err
}

// toFloat turns known integers into a constant.
func (c *compiler) toFloat(v *value) (*value, error) {
	if _, err := Count(v.shape); err != nil {
		return nil, err
	}
	if err := c.spend(numberBytes * len(v.ints)); err != nil {
		return nil, err
	}
	data := make([]float64, len(v.ints))
	for i, a := range v.ints {
		if !a.constant() {
			return nil, errors.New("a number computed from the batch size enters the outputs, which would mix examples")
		}
		if _, err := bounded(a); err != nil {
			return nil, err
		}
		data[i] = float64(a.k)
	}
	out := c.addConstant(data, v.shape)
	out.batch, out.lead = v.batch, v.lead
	return out, nil
}

// floats returns the numbers of input i, a statistic, scale or bound, which must
// be constant. If it is a parameter too, its trained value is used and marked
// known.
func (c *compiler) floats(i int) ([]float64, error) {
	if !c.has(i) {
		return nil, fmt.Errorf("input %d is missing", i)
	}
	name := c.node.Inputs[i]
	if in := c.inits[name]; in != nil && in.t.Type.IsFloat() {
		if in.mask != nil {
			return nil, in.mask
		}
		in.known = true
		return in.t.Floats, nil
	}
	v, err := c.float(i)
	if err != nil {
		return nil, err
	}
	if in := c.bySlot[v.slot]; in != nil { // an initializer under another name
		in.known = true
		return in.t.Floats, nil
	}
	if data := c.static[v.slot]; data != nil {
		return data, nil
	}
	return nil, fmt.Errorf("input %d (%s) must be a constant", i, quote(name))
}

// scalar returns the only number of constant input i, or def if the input is
// missing.
func (c *compiler) scalar(i int, def float64) (float64, error) {
	if !c.has(i) {
		return def, nil
	}
	data, err := c.floats(i)
	if err != nil {
		return 0, err
	}
	if len(data) != 1 {
		return 0, fmt.Errorf("input %d has %d numbers, one is expected", i, len(data))
	}
	return data[0], nil
}

// intsAt returns input i, which must be integers that are known or depend on the
// batch size alone.
func (c *compiler) intsAt(i int) (*value, error) {
	v, err := c.input(i)
	if err != nil {
		return nil, err
	}
	if v.isInt && !v.real && v.batch < 0 {
		return v, nil
	}
	return nil, fmt.Errorf("input %d (%s) must be integers known without running the network", i, quote(c.node.Inputs[i]))
}

// constants returns input i as plain integers.
func (c *compiler) constants(i int) ([]int, error) {
	v, err := c.intsAt(i)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(v.ints))
	for j, a := range v.ints {
		if !a.constant() {
			return nil, fmt.Errorf("input %d depends on the batch size, which would mix examples", i)
		}
		out[j] = a.k
	}
	return out, nil
}

// intsOr returns integers that are input i or, in older opsets, an attribute; ok
// is false if the node has neither.
func (c *compiler) intsOr(i int, attr string) (list []int, ok bool, err error) {
	if c.has(i) {
		list, err = c.constants(i)
		return list, err == nil, err
	}
	list = c.attrInts(attr)
	return list, list != nil, nil
}

func (c *compiler) attrInts(name string) []int {
	a := c.node.Attr(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		out[i] = clampInt(v)
	}
	return out
}

func (c *compiler) attrInt(name string, def int) int {
	if a := c.node.Attr(name); a != nil {
		return clampInt(a.I)
	}
	return def
}

// attrFloat returns the exact value of a float32 attribute.
func (c *compiler) attrFloat(name string, def float32) (float64, error) {
	if a := c.node.Attr(name); a != nil {
		def = a.F
	}
	v := float64(def)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("attribute %s is %v", name, v)
	}
	return v, nil
}

func (c *compiler) attrString(name, def string) string {
	if a := c.node.Attr(name); a != nil {
		return string(a.S)
	}
	return def
}

// set makes v output i of the node. If v is a parameter passed on under another
// name, a layer may still use it as its own weight only if nothing else reads
// it.
func (c *compiler) set(i int, v *value) error {
	if v.weight != nil && c.uses[c.node.Inputs[0]] != 1 {
		w := *v
		w.weight = nil
		v = &w
	}
	if i < len(c.node.Outputs) && c.node.Outputs[i] != "" {
		c.env[c.node.Outputs[i]] = v
	}
	return nil
}

// only returns an error if an output beyond the first n is used.
func (c *compiler) only(n int) error {
	for i := n; i < len(c.node.Outputs); i++ {
		if name := c.node.Outputs[i]; name != "" && c.uses[name] > 0 {
			return fmt.Errorf("its output %d (%s) is used, which is not supported", i, quote(name))
		}
	}
	return nil
}

// axis turns a possibly negative axis into one in [0, rank).
func axis(a, rank int) (int, error) {
	if a < -rank || a >= rank {
		return 0, fmt.Errorf("axis %d is out of range for %d dimensions", a, rank)
	}
	if a < 0 {
		a += rank
	}
	return a, nil
}

func (v *value) isBatch(axis int) bool { return axis == v.batch }

// leading is lead, with 0 as 1.
func (v *value) leading() int { return max(v.lead, 1) }

// before counts the elements that come before the examples in memory.
func (v *value) before() int { return graph.Product(v.shape[:v.batch]) * v.leading() }

var errMixes = errors.New("it works along the batch dimension, which would mix examples")
