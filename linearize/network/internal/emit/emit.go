// Package emit writes a network as a graph of ONNX's standard operators in float64: its outputs by a forward pass, and
// the factors of its Jacobian by a backward pass for every output at once.
//
// Values have shape T×size for T examples, with one row for all if they do not depend on the input; gradients have
// shape T×C×size. A convolution is a Gather of patches and a product, since runtimes have no convolution in float64.
package emit

import (
	"reflect"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A Part holds the Jacobian of the outputs by some parameters of an example: as g aᵀ, or as it is.
type Part struct {
	Spans []linearize.Span // of its parameters, in the order of the columns
	// Of a dense layer that is applied once: names of its inputs a, T×in, and of the gradients g in its result,
	// T×C×out. Weight and Bias say which of the two are parameters.
	A, G         string
	In, Out      int
	Weight, Bias bool
	Transposed   bool   // the weight is stored in×out
	J            string // of any other part: the Jacobian, T×C×width
}

// A Traced network is what Trace wrote.
type Traced struct {
	F     string // outputs, T×C
	Parts []Part
	Valid []string // truth values, T×n each: whether a table has the row of an index
}

// An UnsupportedError names the operators of a network that this package cannot write.
type UnsupportedError struct{ Operators []string }

func (e *UnsupportedError) Error() string {
	return "no graph of ONNX operators gives the gradient of " + strings.Join(e.Operators, ", ")
}

// A tracer holds the names of values and gradients.
type tracer struct {
	*onnx.Builder
	p       *graph.Program
	static  [][]float64
	vals    []string   // by slot
	grads   [][]string // by slot: what its gradient is the sum of
	rows    string     // T, a vector of one integer
	valid   []string
	refused []string
}

// Trace writes p, whose static slots have these values, for the inputs named x, T×D. Its outputs are those of the
// network, and its parts hold all parameters that the outputs depend on.
func Trace(b *onnx.Builder, p *graph.Program, static [][]float64, x string) (*Traced, error) {
	t := &tracer{Builder: b, p: p, static: static, vals: make([]string, len(p.Slots)), grads: make([][]string, len(p.Slots))}
	t.vals[p.Input] = x
	t.rows = t.Op("Slice", []string{t.Of("Shape", x), t.Ints(0), t.Ints(1)})
	for i := range p.Nodes {
		if nd := &p.Nodes[i]; !p.Slots[nd.Out].Static {
			t.vals[nd.Out] = t.forward(nd)
		}
	}
	// The seed is the identity for each example.
	seed := make([]float64, p.C*p.C)
	for i := range p.C {
		seed[i*p.C+i] = 1
	}
	t.grads[p.Output] = []string{t.Op("Expand", []string{t.Doubles(seed, 1, p.C, p.C), t.Concat(0, t.rows, t.Ints(1, 1))})}
	out := &Traced{F: t.val(p.Output), Valid: t.valid}
	reach := p.Reachable()
	at := len(p.Places) - 1
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		nd := &p.Nodes[i]
		reached := p.Slots[nd.Out].NeedsGrad && reach[nd.Out] && t.grads[nd.Out] != nil
		for ; at >= 0 && p.Places[at].Node == i; at-- {
			if reached {
				out.Parts = append(out.Parts, t.place(&p.Places[at], nd))
			}
		}
		if reached {
			t.backward(nd)
		}
	}
	for _, slot := range p.Full {
		if t.grads[slot] != nil {
			out.Parts = append(out.Parts, Part{Spans: []linearize.Span{*p.Span(p.Slots[slot].Param)}, J: t.grad(slot)})
		}
	}
	if t.refused != nil {
		slices.Sort(t.refused)
		return nil, &UnsupportedError{slices.Compact(t.refused)}
	}
	return out, nil
}

// refuse notes an operator that cannot be written and returns a name that stands for its result.
func (t *tracer) refuse(o graph.Op, what string) string {
	name := strings.TrimPrefix(reflect.TypeOf(o).String(), "*")
	name = name[strings.LastIndex(name, ".")+1:]
	if f, ok := o.(graph.Named); ok {
		if name, _ = f.Function(); name == "" {
			name = "a step function"
		}
	}
	if b, ok := o.(*graph.Binary); ok && b.Fn.Name() == "" {
		name = "a comparison"
	}
	t.refused = append(t.refused, strings.TrimSpace(name+" "+what))
	return "refused"
}

func (t *tracer) size(slot int) int { return t.p.Slots[slot].Size }

// val returns the value of a slot, T×size or 1×size.
func (t *tracer) val(slot int) string {
	if t.vals[slot] == "" {
		t.vals[slot] = t.Doubles(t.static[slot], 1, t.size(slot))
	}
	return t.vals[slot]
}

// wide gives a value a dimension for the outputs, T×1×size or 1×1×size.
func (t *tracer) wide(name string) string { return t.Unsqueeze(name, 1) }

// grad returns the gradient of a slot, T×C×size.
func (t *tracer) grad(slot int) string {
	g := t.grads[slot]
	for len(g) > 1 {
		g = append(g[2:], t.Add(g[0], g[1]))
	}
	t.grads[slot] = g
	return g[0]
}

// add adds to the gradient of a slot.
func (t *tracer) add(slot int, g string) { t.grads[slot] = append(t.grads[slot], g) }

func (t *tracer) needs(slot int) bool { return t.p.Slots[slot].NeedsGrad }

// gather takes elements of the last axis of x, of n elements and this rank. An index below zero takes fill.
func (t *tracer) gather(x string, rank, n int, index []int32, fill float64) string {
	at, identity := make([]int64, len(index)), len(index) == n
	padded := false
	for i, j := range index {
		if at[i] = int64(j); j < 0 {
			at[i], padded = int64(n), true
		}
		identity = identity && int(j) == i
	}
	switch {
	case identity:
		return x
	case padded:
		pads := make([]int64, 2*rank)
		pads[2*rank-1] = 1
		x = t.Op("Pad", []string{x, t.Ints(pads...), t.Double(fill)})
	}
	return t.Columns(x, rank, at...)
}

// scatter is the adjoint of gather: it adds each element of the last axis of x, of this rank, to the element of n that
// index names.
func (t *tracer) scatter(x string, rank, n int, index []int32) string {
	from, most := sources(index, n)
	at := make([]int32, 0, n*most)
	for _, f := range from {
		at = append(at, f...)
		for range most - len(f) {
			at = append(at, -1)
		}
	}
	g := t.gather(x, rank, len(index), at, 0)
	if most == 1 {
		return g
	}
	dims := []int{-1, n, most}
	if rank == 3 {
		dims = []int{-1, t.p.C, n, most}
	}
	return t.Sum(t.Reshape(g, dims...), -1)
}

// sources lists the positions in index of each number below n, with the most of one number, at least 1.
func sources(index []int32, n int) (from [][]int32, most int) {
	from, most = make([][]int32, n), 1
	for i, j := range index {
		if j >= 0 {
			from[j] = append(from[j], int32(i))
			most = max(most, len(from[j]))
		}
	}
	return from, most
}

// place returns the part of a layer whose weight and bias appear nowhere else.
func (t *tracer) place(st *graph.Place, nd *graph.Node) Part {
	g := t.grad(nd.Out)
	weight, bias := t.p.Spans(st)
	part := Part{Spans: t.p.SpanList(st)}
	c := t.p.C
	if st.Table != nil {
		if st.Table.Outer != 1 {
			t.refuse(st.Table, "of several tables")
			return part
		}
		n := t.size(st.Input)
		hot := t.hot(st.Table, t.val(st.Input)) // T×n×rows
		part.J = t.Reshape(t.Einsum("tnr,tcni->tcri", hot, t.Reshape(g, -1, c, n, st.Table.Inner)), -1, c, st.Table.Rows*st.Table.Inner)
		return part
	}
	if st.Layout == nil {
		part.G, part.Out, part.Weight, part.Bias = g, t.size(nd.Out), weight != nil, bias != nil
		if weight != nil {
			part.A, part.In, part.Transposed = t.val(st.Input), t.size(st.Input), weight.Transposed
		}
		return part
	}
	var columns []string
	switch w := st.Layout.(type) {
	case graph.PerPosition:
		g := t.Reshape(g, -1, c, w.T, w.M)
		if weight != nil {
			columns = append(columns, t.weightGradient(g, t.Reshape(t.everyRow(st.Input), -1, w.T, w.K), weight.Transposed, w.M*w.K))
		}
		if bias != nil {
			columns = append(columns, t.Sum(g, 2))
		}
	case *graph.Window:
		_, k, m := w.Factors()
		if w.Transposed { // k is the length of a row of the input, and m that of a patch of the result
			if weight != nil {
				patches := t.Reshape(t.gather(g, 3, w.Cin*w.In, patchIndex(w), 0), -1, c, w.NumGroups, w.Out, m)
				x := t.Reshape(t.everyRow(st.Input), -1, w.NumGroups, k, w.Out)
				columns = append(columns, t.Reshape(t.Einsum("tgro,tcgow->tcgrw", x, patches), -1, c, w.NumGroups*m*k))
			}
			if bias != nil {
				columns = append(columns, t.Sum(t.Reshape(g, -1, c, w.Cin, w.In), 3))
			}
			break
		}
		g := t.Reshape(g, -1, c, w.NumGroups, m, w.Out)
		if weight != nil {
			patches := t.Reshape(t.patches(t.val(st.Input), w), -1, 1, w.NumGroups, w.Out, k)
			columns = append(columns, t.Reshape(t.MatMul(g, patches), -1, c, w.NumGroups*m*k))
		}
		if bias != nil {
			columns = append(columns, t.Reshape(t.Sum(g, 4), -1, c, w.Cout))
		}
	default:
		t.refuse(nd.Op, "at several steps")
		return part
	}
	part.J = t.Concat(2, columns...)
	return part
}

// weightGradient returns Σ_t g_t a_tᵀ, or a_t g_tᵀ if trans is true, for gradients T×C×n×m and inputs T×n×k of a dense
// layer at n positions, flat.
func (t *tracer) weightGradient(g, a string, trans bool, size int) string {
	to := "tcpm,tpk->tcmk"
	if trans {
		to = "tcpm,tpk->tckm"
	}
	return t.Reshape(t.Einsum(to, g, a), -1, t.p.C, size)
}

// hot returns a one in the column of the row of the table that each index means, T×n×rows.
func (t *tracer) hot(o *graph.Lookup, index string) string {
	// An index below zero counts from the end.
	below := t.Holds("Less", index, t.Double(0))
	at := t.Add(index, t.Mul(below, t.Double(float64(o.Rows))))
	numbers := make([]float64, o.Rows)
	for i := range numbers {
		if numbers[i] = float64(i); i == o.Padding-1 {
			numbers[i] = -1 // no index is: a row that is no parameter has no gradient
		}
	}
	return t.Holds("Equal", t.Unsqueeze(at, 2), t.Doubles(numbers, 1, 1, o.Rows))
}

// patchIndex lists what the patches of a window read: group by group, Out×(channels·Taps).
func patchIndex(w *graph.Window) []int32 {
	channels := w.Cin / w.NumGroups
	at := make([]int32, 0, w.Cin*w.Out*w.Taps)
	for g := range w.NumGroups {
		for o := range w.Out {
			for ch := range channels {
				for k := range w.Taps {
					s := w.Source[o*w.Taps+k]
					if s >= 0 {
						s += int32((g*channels + ch) * w.In)
					}
					at = append(at, s)
				}
			}
		}
	}
	return at
}

// patches gathers the patches of a value, flat.
func (t *tracer) patches(x string, w *graph.Window) string {
	return t.gather(x, 2, w.Cin*w.In, patchIndex(w), 0)
}
