package emit

import (
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// forward writes the result of a node, T×size, and returns its name.
func (t *tracer) forward(nd *graph.Node) string {
	in := func(k int) string { return t.val(nd.In[k]) }
	size := t.size(nd.Out)
	switch o := nd.Op.(type) {
	case *graph.Dense:
		w := t.weight(o, nd, false)
		y := t.MatMul(t.Reshape(in(0), -1, o.T, o.In), w)
		if len(nd.In) > 2 {
			y = t.Add(y, in(2))
		}
		return t.Reshape(y, -1, size)
	case *graph.MatMul:
		a, b := t.matrices(in(0), nd, 0), t.matrices(in(1), nd, 1)
		y := t.Reshape(t.MatMul(a, b), -1, len(o.Offsets)*o.M*o.N)
		return t.scatter(y, 2, size, matrixIndex(o, 2))
	case *graph.Convolve:
		w := o.Window
		_, k, m := w.Factors()
		y := t.MatMul(t.Reshape(t.patches(in(0), w), -1, w.NumGroups, w.Out, k), t.kernel(nd, w, true))
		y = t.Transpose(y, 0, 1, 3, 2)
		if len(nd.In) > 2 {
			y = t.Add(y, t.Reshape(in(2), 1, w.NumGroups, m, 1))
		}
		return t.Reshape(y, -1, size)
	case *graph.ConvolveTranspose:
		w := o.Window
		_, rows, width := w.Factors()
		y := t.Einsum("tgro,grw->tgow", t.Reshape(in(0), -1, w.NumGroups, rows, w.Out), t.Reshape(in(1), w.NumGroups, rows, width))
		y = t.scatter(t.Reshape(y, -1, w.NumGroups*w.Out*width), 2, size, patchIndex(w))
		if len(nd.In) > 2 {
			y = t.Reshape(t.Add(t.Reshape(y, -1, w.Cin, w.In), t.Reshape(in(2), 1, w.Cin, 1)), -1, size)
		}
		return y
	case *graph.Where:
		return t.Where(t.condition(o, nd), t.operand(nd, 1, o.Left), t.operand(nd, 2, o.Right))
	case *graph.Group:
		return t.group(o, nd)
	case *graph.MaxPool:
		return t.Reshape(t.Op("ReduceMax", []string{t.windows(in(0), o.Window)}, "axes", []int64{2}, "keepdims", 0), -1, size)
	case *graph.AxisMap:
		y := t.MatMul(t.axisMatrix(o, false), t.Reshape(in(0), -1, o.Outer, o.In, o.Inner))
		if o.Offset != nil {
			y = t.Add(y, t.Doubles(o.Offset, 1, 1, o.Out(), 1))
		}
		return t.Reshape(y, -1, size)
	case *graph.Index:
		x, n := in(0), t.size(nd.In[0])
		if len(nd.In) > 1 {
			var all []string
			n = 0
			for _, slot := range nd.In {
				all, n = append(all, t.everyRow(slot)), n+t.size(slot)
			}
			x = t.Concat(1, all...)
		}
		return t.gather(x, 2, n, o.Source, o.Fill)
	case *graph.Reduce:
		y := t.scatter(in(0), 2, size, o.Target)
		if o.Scale != 1 {
			y = t.Mul(y, t.Double(o.Scale))
		}
		return y
	case *graph.Softmax:
		op := "Softmax"
		if o.Log {
			op = "LogSoftmax"
		}
		x := t.Transpose(t.Reshape(in(0), -1, o.Outer, o.Length, o.Inner), 0, 1, 3, 2)
		y := t.Transpose(t.Op(op, []string{x}, "axis", -1), 0, 1, 3, 2)
		return t.Reshape(y, -1, size)
	case *graph.Binary:
		a, b := t.operand(nd, 0, o.Left), t.operand(nd, 1, o.Right)
		switch name := o.Fn.Name(); name {
		case "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max":
			return t.Op(name, []string{a, b})
		case "PRelu":
			return t.Add(t.Of("Relu", a), t.Mul(b, t.Min(a, t.Double(0))))
		}
		return t.refuse(o, o.Fn.Name())
	case *graph.Lookup:
		if o.Outer != 1 {
			return t.refuse(o, "of several tables")
		}
		n := t.size(nd.In[0])
		// An index that the table does not have is an error of Gather, for all rows.
		valid := t.Op("Less", []string{t.Of("Abs", t.Add(in(0), t.Double(.5))), t.Double(float64(o.Rows) + .5)})
		if !t.p.Slots[nd.In[0]].Static {
			t.valid = append(t.valid, valid)
		}
		index := t.Op("Cast", []string{t.Where(valid, in(0), t.Double(0))}, "to", int(onnx.Int64))
		rows := t.Op("Gather", []string{t.Reshape(in(1), o.Rows, o.Inner), index}, "axis", 0)
		return t.Reshape(rows, -1, n*o.Inner)
	case graph.Named:
		return t.function(o, in(0))
	case graph.Relu:
		return t.Of("Relu", in(0))
	default:
		return t.refuse(o, "")
	}
}

// backward adds the gradients of a node's inputs.
func (t *tracer) backward(nd *graph.Node) {
	c := t.p.C
	g := t.grad(nd.Out)
	size := t.size(nd.Out)
	switch o := nd.Op.(type) {
	case *graph.Dense:
		dy := t.Reshape(g, -1, c, o.T, o.Out)
		if t.needs(nd.In[0]) {
			t.add(nd.In[0], t.Reshape(t.MatMul(dy, t.weight(o, nd, true)), -1, c, o.T*o.In))
		}
		if o.Tied && t.needs(nd.In[1]) {
			t.add(nd.In[1], t.weightGradient(dy, t.Reshape(t.everyRow(nd.In[0]), -1, o.T, o.In), o.InByOut, o.In*o.Out))
		}
		if (o.Tied || o.TiedBias) && len(nd.In) > 2 && t.needs(nd.In[2]) {
			t.add(nd.In[2], t.Sum(dy, 2))
		}
	case *graph.MatMul:
		n := len(o.Offsets)
		dy := t.Reshape(t.gather(g, 3, size, matrixIndex(o, 2), 0), -1, c, n, o.M, o.N)
		if t.needs(nd.In[0]) {
			da := t.Einsum("tcnmp,tnkp->tcnmk", dy, t.matrices(t.everyRow(nd.In[1]), nd, 1))
			t.add(nd.In[0], t.scatter(t.Reshape(da, -1, c, n*o.M*o.K), 3, t.size(nd.In[0]), matrixIndex(o, 0)))
		}
		if t.needs(nd.In[1]) {
			db := t.Einsum("tnmk,tcnmp->tcnkp", t.matrices(t.everyRow(nd.In[0]), nd, 0), dy)
			t.add(nd.In[1], t.scatter(t.Reshape(db, -1, c, n*o.K*o.N), 3, t.size(nd.In[1]), matrixIndex(o, 1)))
		}
	case *graph.Convolve:
		w := o.Window
		_, k, m := w.Factors()
		if w.Tied && (t.needs(nd.In[1]) || len(nd.In) > 2 && t.needs(nd.In[2])) {
			t.refuse(o, "with a weight that is used elsewhere too")
			return
		}
		if w.TiedBias {
			t.add(nd.In[2], t.Sum(t.Reshape(g, -1, c, w.Cout, w.Out), 3))
		}
		if t.needs(nd.In[0]) {
			dp := t.Einsum("tcgmo,gmk->tcgok", t.Reshape(g, -1, c, w.NumGroups, m, w.Out), t.kernel(nd, w, false))
			dp = t.Reshape(dp, -1, c, w.NumGroups*w.Out*k)
			t.add(nd.In[0], t.scatter(dp, 3, w.Cin*w.In, patchIndex(w)))
		}
	case *graph.ConvolveTranspose:
		w := o.Window
		_, rows, width := w.Factors()
		if w.Tied && (t.needs(nd.In[1]) || len(nd.In) > 2 && t.needs(nd.In[2])) {
			t.refuse(o, "with a weight that is used elsewhere too")
			return
		}
		if w.TiedBias {
			t.add(nd.In[2], t.Sum(t.Reshape(g, -1, c, w.Cin, w.In), 3))
		}
		if t.needs(nd.In[0]) {
			dp := t.Reshape(t.gather(g, 3, size, patchIndex(w), 0), -1, c, w.NumGroups, w.Out, width)
			dx := t.Einsum("tcgow,grw->tcgro", dp, t.Reshape(t.val(nd.In[1]), w.NumGroups, rows, width))
			t.add(nd.In[0], t.Reshape(dx, -1, c, w.NumGroups*rows*w.Out))
		}
	case *graph.Where:
		cond := t.wide(t.condition(o, nd))
		for k, table := range [][]int32{1: o.Left, 2: o.Right} {
			if k == 0 || !t.needs(nd.In[k]) {
				continue
			}
			dx := t.Where(cond, g, t.Double(0))
			if k == 2 {
				dx = t.Where(cond, t.Double(0), g)
			}
			if table != nil {
				dx = t.scatter(dx, 3, t.size(nd.In[k]), table)
			}
			t.add(nd.In[k], dx)
		}
	case *graph.Group:
		t.groupBackward(o, nd, g)
	case *graph.MaxPool:
		if !t.needs(nd.In[0]) {
			return
		}
		w := o.Window
		first := t.Op("ArgMax", []string{t.windows(t.val(nd.In[0]), w)}, "axis", 2, "keepdims", 1)
		hot := t.Holds("Equal", first, t.Range(w.Taps))
		dp := t.Mul(t.Reshape(g, -1, c, size, 1), t.wide(hot))
		t.add(nd.In[0], t.scatter(t.Reshape(dp, -1, c, size*w.Taps), 3, w.Cin*w.In, poolIndex(w)))
	case *graph.AxisMap:
		dy := t.Reshape(g, -1, c, o.Outer, o.Out(), o.Inner)
		t.add(nd.In[0], t.Reshape(t.MatMul(t.axisMatrix(o, true), dy), -1, c, o.Outer*o.In*o.Inner))
	case *graph.Index:
		first := 0
		for _, slot := range nd.In {
			at, n := make([]int32, len(o.Source)), t.size(slot)
			for i, j := range o.Source {
				if at[i] = j - int32(first); j < 0 || int(at[i]) >= n {
					at[i] = -1
				}
			}
			if first += n; t.needs(slot) {
				t.add(slot, t.scatter(g, 3, n, at))
			}
		}
	case *graph.Reduce:
		dx := t.gather(g, 3, size, o.Target, 0)
		if o.Scale != 1 {
			dx = t.Mul(dx, t.Double(o.Scale))
		}
		t.add(nd.In[0], dx)
	case *graph.Softmax:
		dims := []int{-1, 1, o.Outer, o.Length, o.Inner}
		y := t.Reshape(t.val(nd.Out), dims...)
		dims[1] = c
		dy := t.Reshape(g, dims...)
		var dx string
		if o.Log {
			sum := t.Op("ReduceSum", []string{dy, t.Ints(3)})
			dx = t.Sub(dy, t.Mul(t.Of("Exp", y), sum))
		} else {
			sum := t.Op("ReduceSum", []string{t.Mul(dy, y), t.Ints(3)})
			dx = t.Mul(y, t.Sub(dy, sum))
		}
		t.add(nd.In[0], t.Reshape(dx, -1, c, size))
	case *graph.Binary:
		a, b, y := t.wide(t.operand(nd, 0, o.Left)), t.wide(t.operand(nd, 1, o.Right)), t.wide(t.val(nd.Out))
		for k, table := range [][]int32{o.Left, o.Right} {
			if !t.needs(nd.In[k]) {
				continue
			}
			d := t.partial(o, k, a, b, y)
			dx := g
			if d != "" {
				dx = t.Mul(g, d)
			}
			if table != nil {
				dx = t.scatter(dx, 3, t.size(nd.In[k]), table)
			}
			t.add(nd.In[k], dx)
		}
	case *graph.Lookup:
		if t.needs(nd.In[1]) && !o.Place {
			if o.Outer != 1 {
				t.refuse(o, "of several tables")
				return
			}
			n := t.size(nd.In[0])
			dw := t.Einsum("tnr,tcni->tcri", t.hot(o, t.everyRow(nd.In[0])), t.Reshape(g, -1, c, n, o.Inner))
			t.add(nd.In[1], t.Reshape(dw, -1, c, o.Rows*o.Inner))
		}
	case graph.Named:
		t.add(nd.In[0], t.Mul(g, t.wide(t.derivative(o, t.val(nd.In[0]), t.val(nd.Out)))))
	case graph.Relu:
		t.add(nd.In[0], t.Mul(g, t.wide(t.above(t.val(nd.Out), 0))))
	default:
		t.refuse(o, "")
	}
}

// partial returns the derivative of a function of two numbers by one of them, "" for 1.
func (t *tracer) partial(o *graph.Binary, k int, a, b, y string) string {
	half := func(comparison string) string { // of equal operands each has half
		return t.Add(t.Holds(comparison, a, b), t.Mul(t.Holds("Equal", a, b), t.Double(.5)))
	}
	switch name := o.Fn.Name(); {
	case name == "Add", name == "Sub" && k == 0:
		return ""
	case name == "Sub":
		return t.Double(-1)
	case name == "Mul" && k == 0:
		return b
	case name == "Mul":
		return a
	case name == "Div" && k == 0:
		return t.Of("Reciprocal", b)
	case name == "Div":
		return t.Of("Neg", t.Div(y, b))
	case name == "Pow" && k == 0:
		return t.Mul(b, t.Op("Pow", []string{a, t.Sub(b, t.Double(1))}))
	case name == "Pow":
		return t.Mul(y, t.Of("Log", a))
	case name == "Min" && k == 0, name == "Max" && k == 1:
		return half("Less")
	case name == "Max" && k == 0, name == "Min" && k == 1:
		return half("Greater")
	case name == "PRelu" && k == 0:
		return t.Where(t.Above(a, 0), t.Double(1), b)
	case name == "PRelu":
		return t.Min(a, t.Double(0))
	}
	return t.refuse(o, o.Fn.Name())
}

// condition is the condition of a Where as the elements of the result read it, a truth value.
func (t *tracer) condition(o *graph.Where, nd *graph.Node) string {
	return t.Of("Not", t.Op("Equal", []string{t.operand(nd, 0, o.Cond), t.Double(0)}))
}

// group reduces groups of elements to one number each.
func (t *tracer) group(o *graph.Group, nd *graph.Node) string {
	x, size := t.val(nd.In[0]), t.size(nd.Out)
	sum := func(v string) string { return t.scatter(v, 2, size, o.Target) }
	switch name := o.Fn.Name(); name {
	case "Max", "Min":
		from, most := sources(o.Target, size)
		at := make([]int32, 0, size*most)
		for _, f := range from {
			for k := range most {
				at = append(at, f[min(k, len(f)-1)])
			}
		}
		groups := t.Reshape(t.gather(x, 2, t.size(nd.In[0]), at, 0), -1, size, most)
		return t.Op("Reduce"+name, []string{groups}, "axes", []int64{2}, "keepdims", 0)
	case "L1":
		return sum(t.Of("Abs", x))
	case "SumSquare":
		return sum(t.Mul(x, x))
	case "L2":
		return t.Of("Sqrt", sum(t.Mul(x, x)))
	case "LogSum":
		return t.Of("Log", sum(x))
	}
	return t.refuse(o, "of another order")
}

// groupBackward adds the gradient of a group's elements, where g is that of the result.
func (t *tracer) groupBackward(o *graph.Group, nd *graph.Node, g string) {
	x := t.val(nd.In[0])
	spread := func(v string, rank int) string { return t.gather(v, rank, t.size(nd.Out), o.Target, 0) }
	y := spread(t.val(nd.Out), 2)
	var d string
	switch o.Fn.Name() {
	case "Max", "Min": // those that are equal share
		same := t.Holds("Equal", x, y)
		d = t.Div(same, spread(t.scatter(same, 2, t.size(nd.Out), o.Target), 2))
	case "L1":
		d = t.Of("Sign", x)
	case "SumSquare":
		d = t.Mul(t.Double(2), x)
	case "L2":
		d = t.Div(x, t.Max(y, t.Double(1e-300)))
	case "LogSum":
		d = t.Of("Exp", t.Of("Neg", y))
	default:
		t.refuse(o, "of another order")
		return
	}
	t.add(nd.In[0], t.Mul(spread(g, 3), t.wide(d)))
}

// operand returns an operand as the elements of the result read it, T×size or 1×size.
func (t *tracer) operand(nd *graph.Node, k int, table []int32) string {
	if table == nil {
		return t.val(nd.In[k])
	}
	if t.p.Slots[nd.In[k]].Static {
		all := make([]float64, len(table))
		for i, j := range table {
			all[i] = t.static[nd.In[k]][j]
		}
		return t.Doubles(all, 1, len(all))
	}
	return t.gather(t.val(nd.In[k]), 2, t.size(nd.In[k]), table, 0)
}

// everyRow returns the value of a slot with a row for each example.
func (t *tracer) everyRow(slot int) string {
	if !t.p.Slots[slot].Static {
		return t.val(slot)
	}
	return t.Op("Expand", []string{t.val(slot), t.Concat(0, t.rows, t.Ints(1))})
}

// weight returns the weight of a dense layer, in×out, or out×in if trans is true.
func (t *tracer) weight(o *graph.Dense, nd *graph.Node, trans bool) string {
	rows, cols := o.Out, o.In
	if o.InByOut {
		rows, cols = o.In, o.Out
	}
	stored := t.Reshape(t.val(nd.In[1]), rows, cols)
	if o.InByOut != trans {
		return stored
	}
	return t.Transpose(stored, 1, 0)
}

// kernel returns the weights of a convolution, groups×m×k, or groups×k×m if trans is true.
func (t *tracer) kernel(nd *graph.Node, w *graph.Window, trans bool) string {
	_, k, m := w.Factors()
	stored := t.Reshape(t.val(nd.In[1]), w.NumGroups, m, k)
	if !trans {
		return stored
	}
	return t.Transpose(stored, 0, 2, 1)
}

// matrixIndex lists the elements of factor k (0 and 1) or of the result (2) of the products of a MatMul.
func matrixIndex(o *graph.MatMul, k int) []int32 {
	size := []int{o.M * o.K, o.K * o.N, o.M * o.N}[k]
	at := make([]int32, 0, size*len(o.Offsets))
	for _, off := range o.Offsets {
		for i := range size {
			at = append(at, int32(off[k]+i))
		}
	}
	return at
}

// matrices returns the left (k = 0) or right factors of a MatMul, T×n×rows×columns.
func (t *tracer) matrices(x string, nd *graph.Node, k int) string {
	o := nd.Op.(*graph.MatMul)
	flat := t.gather(x, 2, t.size(nd.In[k]), matrixIndex(o, k), 0)
	if k == 0 {
		return t.Reshape(flat, -1, len(o.Offsets), o.M, o.K)
	}
	return t.Reshape(flat, -1, len(o.Offsets), o.K, o.N)
}

// axisMatrix returns the matrix of a map along an axis, out×in, or its transpose.
func (t *tracer) axisMatrix(o *graph.AxisMap, trans bool) string {
	out := o.Out()
	m := make([]float64, out*o.In)
	for i := range out {
		for k := o.First[i]; k < o.First[i+1]; k++ {
			at := i*o.In + int(o.Source[k])
			if trans {
				at = int(o.Source[k])*out + i
			}
			m[at] += o.Weight[k]
		}
	}
	if trans {
		return t.Doubles(m, o.In, out)
	}
	return t.Doubles(m, out, o.In)
}

// poolIndex lists what the windows of a pool read: (channels·Out)×Taps.
func poolIndex(w *graph.Window) []int32 {
	at := make([]int32, 0, w.Cin*w.Out*w.Taps)
	for ch := range w.Cin {
		for _, s := range w.Source {
			if s >= 0 {
				s += int32(ch * w.In)
			}
			at = append(at, s)
		}
	}
	return at
}

// windows gathers the windows of a pool, T×(channels·Out)×Taps.
func (t *tracer) windows(x string, w *graph.Window) string {
	return t.Reshape(t.gather(x, 2, w.Cin*w.In, poolIndex(w), -math.MaxFloat64), -1, w.Cin*w.Out, w.Taps)
}
