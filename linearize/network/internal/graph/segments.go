package graph

import (
	"slices"
)

// A Segment is a part of a program with one way in and one way out: below the segment, the gradient of the output
// passes through one slot only. Its nodes are From to To−1. No parameter is used in two segments, except by static
// nodes.
type Segment struct {
	Upper, Lower int // slots: its result, and what it reads, or −1 if nothing below has parameters
	From, To     int
	Places       []int // places at its nodes
	Full         []int // slots of parameters in no place that its nodes read
	Conv         bool  // it has a convolution
	Single       int   // its only node that is not static, or −1
}

// Segments returns the segments of a program, from the output down. In a chain of layers each operator is a
// segment. A residual block is one segment, because its paths only join at its end.
func (p *Program) Segments() []Segment {
	if !p.Slots[p.Output].NeedsGrad {
		return nil
	}
	reach := p.Reachable()
	segments := []Segment{{Upper: p.Output, Lower: -1, To: len(p.Nodes)}}
	// Find the cuts below the output, from the top down. First find the last and the first node that carry a
	// gradient to each slot; −1 for a slot without one.
	none := slices.Repeat([]int{-1}, len(p.Slots))
	last, first, producer := slices.Clone(none), slices.Clone(none), none
	for i := range p.Nodes {
		nd := &p.Nodes[i]
		if !reach[nd.Out] || !p.Slots[nd.Out].NeedsGrad {
			continue
		}
		for _, in := range nd.In {
			if in < 0 || !p.Slots[in].NeedsGrad {
				continue
			}
			if first[in] < 0 {
				first[in] = i
			}
			last[in] = i
		}
	}
	crossing := make([]int, len(p.Nodes)+1) // differences of the number of slots that cross each position
	sum := make([]int, len(p.Nodes)+1)      // and of the sum of these slots' numbers
	cross := func(slot, from, to int) {     // at positions from to to−1
		if from < to {
			crossing[from]++
			crossing[to]--
			sum[from] += slot
			sum[to] -= slot
		}
	}
	for i := range p.Nodes {
		producer[p.Nodes[i].Out] = i
	}
	for slot := range p.Slots {
		switch {
		case last[slot] < 0:
		case producer[slot] >= 0:
			cross(slot, producer[slot]+1, last[slot]+1)
		default: // a parameter: it must not be on both sides
			cross(slot, first[slot]+1, last[slot]+1)
		}
	}
	var cuts []cut
	n, slots := 0, 0
	for at := range p.Nodes {
		n, slots = n+crossing[at], slots+sum[at]
		// A static slot has weights; their gradient is not the whole gradient.
		if n == 1 && !p.Slots[slots].Static && slots != p.Output && (len(cuts) == 0 || cuts[0].slot != slots) {
			cuts = append([]cut{{slots, at}}, cuts...)
		}
	}
	for _, c := range cuts {
		last := &segments[len(segments)-1]
		last.Lower, last.From = c.slot, c.after
		segments = append(segments, Segment{Upper: c.slot, Lower: -1, To: c.after})
	}
	for i := range segments {
		// Set the fields of a segment.
		g := &segments[i]
		g.Single = -1
		nodes := 0
		for i := g.From; i < g.To; i++ {
			nd := &p.Nodes[i]
			if !reach[nd.Out] || !p.Slots[nd.Out].NeedsGrad {
				continue
			}
			if !p.Slots[nd.Out].Static {
				nodes++
				g.Single = i
			}
			switch nd.Op.(type) {
			case *Convolve, *ConvolveTranspose:
				g.Conv = true
			}
			for _, slot := range p.Full {
				if slices.Contains(nd.In, slot) && !slices.Contains(g.Full, slot) {
					g.Full = append(g.Full, slot)
				}
			}
		}
		if nodes != 1 {
			g.Single = -1
		}
		for k := range p.Places {
			if at := p.Places[k].Node; g.From <= at && at < g.To && reach[p.Nodes[at].Out] {
				g.Places = append(g.Places, k)
			}
		}
	}
	return segments
}

// A cut is a position between nodes at which only one slot has a gradient.
type cut struct{ slot, after int } // the nodes before after are below the cut

// A way is how a diagonal M goes through a segment without one pass for each element.
type way int

const (
	byRows      way = iota // none: one pass for each element or row
	elementwise            // J is a diagonal matrix, and there are no parameters
	single                 // by squared operators; M stays a diagonal matrix
	several                // by squared operators, for the diagonal of M below
	weighted               // products with a weight: their squares are products with the squared weight
)

// wayOf returns the way through a segment.
func (p *Program) wayOf(g *Segment, reach []bool) way {
	if g.Single < 0 {
		if p.isElementwise(g, reach) {
			return elementwise
		}
		return byRows
	}
	nd := &p.Nodes[g.Single]
	var tied bool
	switch o := nd.Op.(type) {
	case *Dense:
		tied = o.Tied || o.TiedBias
	case *Convolve:
		tied = o.Window.Tied || o.Window.TiedBias
	case *ConvolveTranspose:
		tied = o.Window.Tied || o.Window.TiedBias
	default:
		// A squared operator may serve. The static nodes that prepare its parameters must have one too, and no slot
		// may be read twice.
		if len(g.Places) > 0 {
			return byRows
		}
		read := map[int]bool{}
		for i := g.From; i < g.To; i++ {
			nd := &p.Nodes[i]
			if !reach[nd.Out] || !p.Slots[nd.Out].NeedsGrad {
				continue
			}
			if squared(nd.Op) == nil {
				return byRows
			}
			for _, in := range nd.In {
				if in >= 0 && p.Slots[in].NeedsGrad {
					if read[in] {
						return byRows
					}
					read[in] = true
				}
			}
			// An element of a parameter must not reach the result in several ways.
			if p.Slots[nd.Out].Static && !p.single(nd) {
				return byRows
			}
		}
		if nd := &p.Nodes[g.Single]; !p.single(nd) {
			return several
		}
		return single
	}
	if tied || len(g.Full) > 0 || p.Slots[nd.In[0]].Static || g.Lower >= 0 && g.Lower != nd.In[0] {
		return byRows
	}
	return weighted
}

// isElementwise tells whether a segment with several nodes computes each element of its result from the same
// element of its input, without parameters. A GELU written out in operators is an example.
func (p *Program) isElementwise(g *Segment, reach []bool) bool {
	if g.Lower < 0 || len(g.Full) > 0 || len(g.Places) > 0 || p.Slots[g.Lower].Size != p.Slots[g.Upper].Size {
		return false
	}
	for i := g.From; i < g.To; i++ {
		nd := &p.Nodes[i]
		if !reach[nd.Out] || !p.Slots[nd.Out].NeedsGrad {
			continue
		}
		if p.Slots[nd.Out].Static {
			return false
		}
		switch o := nd.Op.(type) {
		case unary, tanh, Relu:
		case *Binary:
			if !p.Slots[nd.In[0]].Static && o.Left != nil || !p.Slots[nd.In[1]].Static && o.Right != nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// BackwardFrom carries seed, the gradient of a slot in every example, back through nodes to−1 to from. Afterwards
// GradAt returns the gradients of the slots below.
func (s *State) BackwardFrom(slot int, seed []float64, from, to int) {
	clear(s.touched)
	g, _ := s.gradOrNew(slot)
	copy(g, seed)
	s.backwardNodes(from, to, func(int) {})
}

// squared returns an operator whose Backward is the Backward of o with the derivatives squared: from a diagonal M
// at the result it computes the diagonal of JᵀMJ at the inputs. It is nil unless each element of the result depends
// on any element of an input in at most one way.
func squared(o Op) Op {
	switch o := o.(type) {
	case *MaxPool, *Index, Relu: // the derivatives are 0 and 1
		return o
	case tanh:
		return squared(o.unary)
	case unary:
		return unary{df: func(x, y float64) float64 { d := o.df(x, y); return d * d }}
	case *Reduce:
		return &Reduce{Target: o.Target, Scale: o.Scale * o.Scale}
	case *Binary:
		square := func(d func(a, b, y float64) float64) func(a, b, y float64) float64 {
			return func(a, b, y float64) float64 { v := d(a, b, y); return v * v }
		}
		own := *o
		own.Fn = BinaryFunc{da: square(o.Fn.da), db: square(o.Fn.db)}
		return &own
	case *AxisMap:
		own := *o
		own.Weight = make([]float64, len(o.Weight))
		for i := range o.Out() {
			lo, hi := o.First[i], o.First[i+1]
			for k := lo; k < hi; k++ {
				if slices.Contains(o.Source[lo:k], o.Source[k]) {
					continue // added to the first
				}
				w := 0.0 // an element read twice has the sum of its weights
				for j := k; j < hi; j++ {
					if o.Source[j] == o.Source[k] {
						w += o.Weight[j]
					}
				}
				own.Weight[k] = w * w
			}
		}
		return &own
	}
	return nil
}

// single tells whether each element of the result of a node with a squared operator depends on only one element of
// the inputs that depend on the network's input.
func (p *Program) single(nd *Node) bool {
	switch nd.Op.(type) {
	case *Reduce, *AxisMap:
		return false
	case *Binary:
		return p.Slots[nd.In[0]].Static || p.Slots[nd.In[1]].Static
	}
	return true
}
