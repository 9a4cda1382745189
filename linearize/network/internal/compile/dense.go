package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Products", map[string]operator{
		"Gemm": {translate: func(c *compiler) { c.result(c.gemm()) }, inputs: 3, roles: learnt.Multiplies, bias: 2},
		"MatMul": {inputs: 2, roles: learnt.Multiplies,
			translate: func(c *compiler) { c.result(c.matrices(c.float(0), c.float(1), true, nil, 0)) }},
	})
}

// private reports whether a value is a stored tensor, or its transpose, that nothing but input i of the node reads.
func (c *compiler) private(v *value, i int) bool {
	return v.weight != nil && v.weight.uses == 1 && c.uses[c.node.Inputs[i]] == 1
}

// needsGrad reports whether a value depends on a parameter.
func (c *compiler) needsGrad(v *value) bool { return c.prog.Slots[v.slot].NeedsGrad }

func (c *compiler) isStatic(v *value) bool { return c.prog.Slots[v.slot].Static }

// layered reports whether b is a static matrix that multiplies the rows of a, which is not static.
func (c *compiler) layered(a, b *value) bool {
	return len(b.shape) == 2 && len(a.shape) >= 2 && !c.isStatic(a) && c.isStatic(b) && a.batch != len(a.shape)-1
}

// matrices emits A·B + β for inputs 0 and 1 of the node. The bias β, input bi, may be nil. If B is the weight of a
// layer (see layered), the product is a dense layer; only then may B be stored out×in (inByOut false).
func (c *compiler) matrices(a, b *value, inByOut bool, bias *value, bi int) *value {
	if c.layered(a, b) {
		return c.dense(a, b, 1, inByOut, bias, bi)
	}
	y := c.product(a, b)
	if bias != nil {
		y = c.combine(graph.Add, y, bias)
	}
	return y
}

func (c *compiler) gemm() *value {
	a, b := c.float(0), c.float(1)
	if len(a.shape) != 2 || len(b.shape) != 2 {
		panic(refuse("shapes %v and %v are not matrices", a.shape, b.shape))
	}
	bias := c.optional(2)
	alpha, beta := c.attrFloat("alpha", 1), c.attrFloat("beta", 1)
	transA, transB := c.attrInt("transA", 0) != 0, c.attrInt("transB", 0) != 0
	var out *value
	if !transA && !c.isStatic(a) && c.isStatic(b) && a.batch == 0 {
		inner := bias
		if alpha != 1 || beta != 1 {
			inner = nil
		}
		if out = c.dense(a, b, 1, !transB, inner, 2); inner != nil {
			return out
		}
	} else {
		if transA {
			a = c.transpose(a, []int{1, 0})
		}
		if transB {
			b = c.transpose(b, []int{1, 0})
		}
		out = c.product(a, b)
	}
	// out = α·A·B + β·C
	if alpha != 1 {
		out = c.times(out, alpha)
	}
	if bias != nil && beta != 1 {
		bias = c.times(bias, beta)
	}
	if bias != nil {
		out = c.combineInto(graph.Add, out, bias)
	}
	return out
}

// dense emits the dense layer x·W + β. The static matrix w has shape in×out, or out×in if inByOut is false. bias
// may be nil. wi and bi are the numbers of the node's inputs w and bias. If the node alone reads the parameters,
// dense also adds a place to the program.
func (c *compiler) dense(x, w *value, wi int, inByOut bool, bias *value, bi int) *value {
	in, out := w.shape[0], w.shape[1]
	if !inByOut {
		in, out = out, in
	}
	last := len(x.shape) - 1
	if x.shape[last] != in {
		panic(refuse("the input has %d columns, the weight takes %d", x.shape[last], in))
	}
	o := &graph.Dense{T: graph.Product(x.shape[:last]), In: in, Out: out, InByOut: inByOut}
	st := graph.Place{Input: x.slot, Weight: -1, Bias: -1}
	slotW := w.slot
	switch {
	case !c.needsGrad(w):
	case c.private(w, wi):
		// Use the parameter as it is stored, even if the graph transposes it first.
		o.InByOut = inByOut != w.transposed
		slotW, st.Weight = w.weight.param, w.weight.param
	default:
		o.Tied = true
	}
	stored := len(w.shape) // rank of the tensor in the file
	if w.weight != nil {
		stored = len(w.weight.t.Dims)
	}
	if st.Transposed = o.InByOut; stored != 2 {
		if st.Rows = out; o.InByOut {
			st.Rows = in
		}
	}
	args := []*value{x, {slot: slotW, batch: -1}}
	var after *value
	if bias != nil {
		plain := (len(bias.shape) == 1 || len(bias.shape) == 2) && graph.Product(bias.shape) == out && bias.shape[len(bias.shape)-1] == out && c.isStatic(bias)
		switch {
		case plain && !o.Tied && !c.needsGrad(bias):
			args = append(args, &value{slot: bias.slot, batch: -1})
		case plain && !o.Tied && c.private(bias, bi) && !bias.transposed:
			args = append(args, &value{slot: bias.slot, batch: -1})
			st.Bias = bias.slot
		default:
			after = bias
		}
	}
	y := c.emit(o, slices.Concat(x.shape[:last], []int{out}), x.batch, args...)
	st.Node = len(c.prog.Nodes) - 1
	if o.T > 1 {
		st.Layout = graph.PerPosition{T: o.T, K: in, M: out}
	}
	if !o.Tied {
		c.prog.Places = append(c.prog.Places, st)
		c.lastDense = c.node.Outputs[0]
	}
	if after != nil {
		return c.combineInto(graph.Add, y, after)
	}
	return y
}

// fuseBias makes bias the bias of the dense layer that computed x and returns x. It returns nil if x has another
// use or bias does not fit. x is input i of the node.
func (c *compiler) fuseBias(x, bias *value, i int) *value {
	name := c.node.Inputs[i]
	if c.uses[name] != 1 || c.lastDense != name || c.isStatic(x) || !c.isStatic(bias) || c.masks[bias.slot] != nil {
		return nil
	}
	st := &c.prog.Places[len(c.prog.Places)-1]
	nd := &c.prog.Nodes[st.Node]
	d, ok := nd.Op.(*graph.Dense)
	if !ok || nd.Out != x.slot || len(nd.In) != 2 || st.Weight < 0 {
		return nil
	}
	if len(bias.shape) != 1 || bias.shape[0] != d.Out || x.shape[len(x.shape)-1] != d.Out {
		return nil
	}
	switch {
	case !c.needsGrad(bias):
	case c.private(bias, 1-i) && !bias.transposed:
		st.Bias = bias.slot
	default:
		return nil
	}
	nd.In = append(nd.In, bias.slot)
	return x
}

// product emits the matrix product over the last two dimensions of a and b. The other dimensions are broadcast.
func (c *compiler) product(a, b *value) *value {
	if len(a.shape) == 0 || len(b.shape) == 0 {
		panic(refuse("a scalar is not a matrix"))
	}
	dropRow, dropCol := len(a.shape) == 1, len(b.shape) == 1
	if dropRow {
		a = &value{slot: a.slot, shape: []int{1, a.shape[0]}, batch: a.batch, lead: a.lead, fromInts: a.fromInts}
		if a.batch == 0 {
			a.batch = 1
		}
	}
	if dropCol {
		b = &value{slot: b.slot, shape: []int{b.shape[0], 1}, batch: b.batch, lead: b.lead, fromInts: b.fromInts}
	}
	ra, rb := len(a.shape), len(b.shape)
	if a.batch == ra-1 || b.batch >= 0 && b.batch == rb-2 {
		panic(errMixes)
	}
	if a.batch == ra-2 && b.batch >= 0 || b.batch >= 0 && b.batch == rb-1 && a.batch >= 0 {
		panic(errMixes)
	}
	m, k, n := a.shape[ra-2], a.shape[ra-1], b.shape[rb-1]
	if b.shape[rb-2] != k {
		panic(refuse("shapes %v and %v do not multiply", a.shape, b.shape))
	}
	lead, batch := broadcastShape(a, b, 2)
	switch {
	case a.batch == ra-2:
		batch = len(lead)
	case b.batch >= 0 && b.batch == rb-1:
		batch = len(lead) + 1
	}
	o := &graph.MatMul{M: m, K: k, N: n}
	ia := c.broadcastTable(lead, a.shape[:ra-2])
	ib := c.broadcastTable(lead, b.shape[:rb-2])
	c.spend(24 * graph.Product(lead))
	for i := range graph.Product(lead) {
		o.Offsets = append(o.Offsets, [3]int{graph.Pick(ia, i) * m * k, graph.Pick(ib, i) * k * n, i * m * n})
	}
	out := c.emit(o, slices.Concat(lead, []int{m, n}), batch, a, b)
	if !dropRow && !dropCol {
		return out
	}
	shape := slices.Clone(lead)
	if !dropRow {
		shape = append(shape, m)
	}
	if !dropCol {
		shape = append(shape, n)
	}
	return c.alias(out, shape, min(out.batch, len(shape)-1))
}
