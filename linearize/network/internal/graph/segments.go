package graph

import "slices"

// A Segment is a part of a program that has one way in and one way out: everything
// that the output's gradient does below the segment goes through one slot. Its nodes
// are [From, To). No parameter is used in two segments, except by static nodes.
type Segment struct {
	Upper, Lower int // slots: its result, and what it reads, −1 if nothing below has parameters
	From, To     int
	Sites        []int // whose nodes it holds
	Full         []int // slots of parameters in no site that its nodes read
	Conv         bool  // it holds a convolution
	Single       int   // its only node that is not static, or −1
}

// Segments returns the segments of a program, from the output down. A chain of layers
// has one for each operator; a residual block is one, because its paths join only at
// its end.
func (p *Program) Segments() []Segment {
	if !p.Slots[p.Output].NeedsGrad {
		return nil
	}
	reach := p.Reachable()
	segments := []Segment{{Upper: p.Output, Lower: -1, To: len(p.Nodes)}}
	for _, c := range p.cuts(reach) {
		last := &segments[len(segments)-1]
		last.Lower, last.From = c.slot, c.after
		segments = append(segments, Segment{Upper: c.slot, Lower: -1, To: c.after})
	}
	for i := range segments {
		p.describe(&segments[i], reach)
	}
	return segments
}

// A cut is a place between nodes at which only one slot has a gradient.
type cut struct{ slot, after int } // the nodes before after are below the cut

// cuts returns the cuts below the output, from the top down.
func (p *Program) cuts(reach []bool) []cut {
	last, first := p.uses(reach)
	crossing := make([]int, len(p.Nodes)+1) // differences of the number of slots that cross each place
	sum := make([]int, len(p.Nodes)+1)      // and of their numbers
	cross := func(slot, from, to int) {     // the places [from, to)
		if from < to {
			crossing[from]++
			crossing[to]--
			sum[from] += slot
			sum[to] -= slot
		}
	}
	producer := make([]int, len(p.Slots))
	for i := range producer {
		producer[i] = -1
	}
	for i := range p.Nodes {
		producer[p.Nodes[i].Out] = i
	}
	for slot := range p.Slots {
		switch {
		case last[slot] < 0:
		case producer[slot] >= 0:
			cross(slot, producer[slot]+1, last[slot]+1)
		default: // a parameter, which must not be on both sides
			cross(slot, first[slot]+1, last[slot]+1)
		}
	}
	var cuts []cut
	n, slots := 0, 0
	for at := range p.Nodes {
		n, slots = n+crossing[at], slots+sum[at]
		// Static slots hold weights, whose gradients are not the whole.
		if n == 1 && !p.Slots[slots].Static && slots != p.Output && (len(cuts) == 0 || cuts[0].slot != slots) {
			cuts = append([]cut{{slots, at}}, cuts...)
		}
	}
	return cuts
}

// uses returns the last and the first node that carries a gradient to each slot, −1
// for slots without one.
func (p *Program) uses(reach []bool) (last, first []int) {
	last, first = make([]int, len(p.Slots)), make([]int, len(p.Slots))
	for i := range last {
		last[i], first[i] = -1, -1
	}
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
	return last, first
}

// describe fills in what a segment holds.
func (p *Program) describe(g *Segment, reach []bool) {
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
	for k := range p.Sites {
		if at := p.Sites[k].Node; g.From <= at && at < g.To && reach[p.Nodes[at].Out] {
			g.Sites = append(g.Sites, k)
		}
	}
}

// BackwardFrom carries seed, the gradient of a slot in every example, back through the
// nodes [from, to). GradAt then returns the gradients of the slots below.
func (s *State) BackwardFrom(slot int, seed []float64, from, to int) {
	clear(s.touched)
	g, _ := s.gradOrNew(slot)
	copy(g, seed)
	s.backwardNodes(from, to, func(int) {})
}
