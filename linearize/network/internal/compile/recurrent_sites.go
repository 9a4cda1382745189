package compile

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// recurrentNodes is a recurrent layer in the program: the node of the recurrence,
// whose first input holds the products with the input weights.
type recurrentNodes struct {
	op     *graph.Recurrent
	inputs int // of the layer
	node   int
}

// slotUses holds the nodes that read each slot, and the one that writes it.
type slotUses struct {
	read map[int][]int
	made map[int]int
}

// recurrentSites makes sites of the weights of recurrent layers that nothing else
// reads. A weight can be joined from parts of parameters, as exporters put the
// gates in ONNX's order.
func (c *compiler) recurrentSites() error {
	if len(c.recurrences) == 0 {
		return nil
	}
	uses := &slotUses{read: map[int][]int{}, made: map[int]int{}}
	for i, nd := range c.prog.Nodes {
		uses.made[nd.Out] = i
		for _, in := range nd.In {
			uses.read[in] = append(uses.read[in], i)
		}
	}
	for _, r := range c.recurrences {
		if err := c.recurrentSitesOf(r, uses); err != nil {
			return fmt.Errorf("network: the weights of a recurrent layer: %w", err)
		}
	}
	return nil
}

func (c *compiler) recurrentSitesOf(r recurrentNodes, uses *slotUses) error {
	nd := c.prog.Nodes[r.node]
	products := uses.made[nd.In[0]]
	layer := c.prog.Nodes[products].Op.(*graph.Dense)
	sites, err := c.stackedSites(r, c.prog.Nodes[products].In[1], r.inputs, func(int) int { return 0 }, uses, products)
	if err != nil {
		return err
	}
	for _, st := range sites {
		st.Node, st.Input = products, c.prog.Nodes[products].In[0]
		c.prog.Sites = append(c.prog.Sites, st)
		layer.Tied = false
	}
	at, readers := products, []int{r.node}
	if r.op.Addend >= 0 {
		if i, ok := uses.made[nd.In[r.op.Addend]]; ok {
			at, readers = i, append(readers, i)
		}
	}
	if sites, err = c.stackedSites(r, nd.In[1], r.op.H, r.op.Sequence, uses, readers...); err != nil || len(sites) == 0 {
		return err
	}
	before, err := c.statesBefore(r)
	if err != nil {
		return err
	}
	r.op.Tied = false
	// The gradient there is needed even where nothing before it is a parameter.
	c.prog.Slots[c.prog.Nodes[at].Out].NeedsGrad = true
	for _, st := range sites {
		st.Node, st.Input = at, before.slot
		c.prog.Sites = append(c.prog.Sites, st)
	}
	return nil
}

// statesBefore emits the sequences of states that the recurrent weights multiply.
func (c *compiler) statesBefore(r recurrentNodes) (*value, error) {
	op, d := r.op, len(r.op.Reverse)
	table, err := c.tableOf([]int{op.Sequences(), op.T, op.H}, func(idx []int) int {
		if idx[0] >= d {
			return op.ResetState(idx[0]-d, idx[1]) + idx[2]
		}
		return op.Before(idx[0], idx[1], false) + idx[2]
	})
	if err != nil {
		return nil, err
	}
	return c.emit(&graph.Index{Source: table}, []int{len(table)}, -1, &value{slot: c.prog.Nodes[r.node].Out, batch: -1})
}

// An element is that of a slot.
type element struct{ slot, at int32 }

// stackedSites returns a site for each of the parameters that together are the
// weight in a slot, D·G·H rows of cols numbers, or none if it is made of anything
// else or read by nodes other than the readers. sequence says which sequence a
// row multiplies. Node and Input of the sites are not set.
func (c *compiler) stackedSites(r recurrentNodes, slot, cols int, sequence func(row int) int, uses *slotUses, readers ...int) ([]graph.Site, error) {
	if !c.prog.Slots[slot].NeedsGrad {
		return nil, nil
	}
	elements, err := c.joined(slot, uses, readers)
	if err != nil || elements == nil {
		return nil, err
	}
	rowsOf := map[int32][]int{} // by slot of a parameter: the row that each of its rows is
	var order []int32
	for row := range len(elements) / cols {
		first := elements[row*cols]
		for k, e := range elements[row*cols : (row+1)*cols] {
			if e.slot != first.slot || e.at != first.at+int32(k) || int(first.at)%cols != 0 {
				return nil, nil
			}
		}
		if rowsOf[first.slot] == nil {
			rowsOf[first.slot] = slices.Repeat([]int{-1}, c.prog.Slots[first.slot].Size/cols)
			order = append(order, first.slot)
		}
		to := &rowsOf[first.slot][int(first.at)/cols]
		if *to >= 0 {
			return nil, nil // used twice
		}
		*to = row
	}
	var sites []graph.Site
	for _, p := range order {
		layout, ok := r.stacked(rowsOf[p], cols, sequence)
		if !ok || len(rowsOf[p])*cols != c.prog.Slots[p].Size {
			return nil, nil
		}
		sites = append(sites, graph.Site{Layout: layout, Weight: int(p), Bias: -1})
	}
	return sites, nil
}

// stacked lays out a parameter whose rows are the given rows of a weight, as few
// matrices whose rows follow one another and multiply one sequence.
func (r recurrentNodes) stacked(rows []int, cols int, sequence func(row int) int) (graph.Stacked, bool) {
	gates := r.op.Cells[0].Gates()
	width := len(r.op.Reverse) * gates * r.op.H
	for _, m := range []int{width, gates * r.op.H, r.op.H} {
		if len(rows)%m != 0 {
			continue
		}
		s := graph.Stacked{T: r.op.T, K: cols, M: m, Width: width}
		fits := true
		for i, row := range rows {
			if i%m == 0 {
				s.From, s.To = append(s.From, sequence(row)), append(s.To, row)
			}
			k := i / m
			fits = fits && row >= 0 && row == s.To[k]+i%m && sequence(row) == s.From[k]
		}
		if fits {
			return s, true
		}
	}
	return graph.Stacked{}, false
}

// A tracer finds the parameters from whose elements a slot is joined.
type tracer struct {
	c    *compiler
	uses *slotUses
	done map[int][]element
}

// joined returns which element of a parameter each element of a slot is, or nil if
// some are computed, or if nodes other than the readers use the parameters or what
// is joined of them.
func (c *compiler) joined(slot int, uses *slotUses, readers []int) ([]element, error) {
	t := tracer{c: c, uses: uses, done: map[int][]element{}}
	elements, err := t.trace(slot)
	if err != nil || elements == nil {
		return nil, err
	}
	for s := range t.done {
		if s == c.prog.Output {
			return nil, nil
		}
		for _, i := range uses.read[s] {
			if _, ok := t.done[c.prog.Nodes[i].Out]; s == slot && !slices.Contains(readers, i) || s != slot && !ok {
				return nil, nil
			}
		}
	}
	return elements, nil
}

// trace returns which element of a parameter each element of a slot is, or nil if
// some are computed.
func (t *tracer) trace(slot int) ([]element, error) {
	if out, ok := t.done[slot]; ok {
		return out, nil
	}
	c := t.c
	size := c.prog.Slots[slot].Size
	if err := c.spend(elementBytes * size); err != nil {
		return nil, err
	}
	out := make([]element, size)
	i, made := t.uses.made[slot]
	if in := c.bySlot[slot]; !made && (in == nil || in.param < 0) {
		return nil, nil
	}
	if !made {
		for k := range out {
			out[k] = element{int32(slot), int32(k)}
		}
		t.done[slot] = out
		return out, nil
	}
	nd := &c.prog.Nodes[i]
	var parts [][]element
	for _, in := range nd.In {
		part, err := t.trace(in)
		if err != nil || part == nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	switch op := nd.Op.(type) {
	case *graph.Index:
		for k, at := range op.Source {
			if at < 0 {
				return nil, nil
			}
			out[k] = parts[0][at]
		}
	case *graph.Concat:
		rest := out
		for row := range op.Outer {
			for j, w := range op.Width {
				copy(rest, parts[j][row*w:(row+1)*w])
				rest = rest[w:]
			}
		}
	default:
		return nil, nil
	}
	t.done[slot] = out
	return out, nil
}

const elementBytes = 8
