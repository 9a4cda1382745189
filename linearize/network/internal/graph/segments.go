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
	// Find the cuts below the output, from the top down.
	// Find the last and the first node that carries a gradient to each slot, −1 for slots without
	// one.
	var last []int
	var first []int
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
	for _, c := range cuts {
		last := &segments[len(segments)-1]
		last.Lower, last.From = c.slot, c.after
		segments = append(segments, Segment{Upper: c.slot, Lower: -1, To: c.after})
	}
	for i := range segments {
		// Fill in what a segment holds.
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
		for k := range p.Sites {
			if at := p.Sites[k].Node; g.From <= at && at < g.To && reach[p.Nodes[at].Out] {
				g.Sites = append(g.Sites, k)
			}
		}
	}
	return segments
}

// A cut is a place between nodes at which only one slot has a gradient.
type cut struct{ slot, after int } // the nodes before after are below the cut

// A way is how a diagonal M goes through a segment without a pass for each element.
type way int

const (
	byRows      way = iota // there is none: a pass for each element, or for each row
	elementwise            // J is a diagonal matrix, and there are no parameters
	single                 // backwardSquares; M stays a diagonal matrix
	several                // backwardSquares, for the diagonal of M below
	weighted               // the products with a weight: the squares are those with its squares
)

// wayOf returns the way of a segment.
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
		tied = o.Window.Tied
	case *ConvolveTranspose:
		tied = o.Window.Tied
	default:
		// Find the way of a segment whose node may be a squarer. The static nodes that prepare its
		// parameters must be squarers too, and no slot may be read twice.
		if len(g.Sites) > 0 {
			return byRows
		}
		read := map[int]bool{}
		for i := g.From; i < g.To; i++ {
			nd := &p.Nodes[i]
			if !reach[nd.Out] || !p.Slots[nd.Out].NeedsGrad {
				continue
			}
			if _, ok := nd.Op.(squarer); !ok {
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
			if p.Slots[nd.Out].Static && !nd.Op.(squarer).single(p, nd) {
				return byRows
			}
		}
		if nd := &p.Nodes[g.Single]; !nd.Op.(squarer).single(p, nd) {
			return several
		}
		return single
	}
	if tied || len(g.Full) > 0 || p.Slots[nd.In[0]].Static || g.Lower >= 0 && g.Lower != nd.In[0] {
		return byRows
	}
	return weighted
}

// isElementwise tells whether a segment of several nodes computes each element of its
// result from the same element of what it reads, without parameters, as a written out
// GELU does.
func (p *Program) isElementwise(g *Segment, reach []bool) bool {
	if g.Lower < 0 || len(g.Full) > 0 || len(g.Sites) > 0 || p.Slots[g.Lower].Size != p.Slots[g.Upper].Size {
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

// BackwardFrom carries seed, the gradient of a slot in every example, back through the
// nodes [from, to). GradAt then returns the gradients of the slots below.
func (s *State) BackwardFrom(slot int, seed []float64, from, to int) {
	clear(s.touched)
	g, _ := s.gradOrNew(slot)
	copy(g, seed)
	s.backwardNodes(from, to, func(int) {})
}

// A squarer is an operator whose result has elements that each depend on any element
// of an input in one way. BackwardSquares is Backward with the squares of the
// derivatives: from diagonal M in the result it makes that of JᵀMJ in the inputs.
type squarer interface {
	backwardSquares(s *State, nd *Node)
	// single tells whether each element of the result depends on one element alone of
	// the inputs that depend on the network's input.
	single(p *Program, nd *Node) bool
}

var (
	_ squarer = (*MaxPool)(nil)
	_ squarer = (*Index)(nil)
	_ squarer = (*Concat)(nil)
	_ squarer = (*Select)(nil)
	_ squarer = (*Reduce)(nil)
	_ squarer = (*AxisMap)(nil)
	_ squarer = (*Binary)(nil)
	_ squarer = unary{}
	_ squarer = tanh{}
	_ squarer = Relu{}
)

func (o *MaxPool) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *MaxPool) single(*Program, *Node) bool        { return true }

func (o *Index) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Index) single(*Program, *Node) bool        { return true }

func (o *Concat) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Concat) single(*Program, *Node) bool        { return true }

func (o *Select) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Select) single(*Program, *Node) bool        { return true }

func (Relu) backwardSquares(s *State, nd *Node) { Relu{}.Backward(s, nd) }
func (Relu) single(*Program, *Node) bool        { return true }

func (u unary) backwardSquares(s *State, nd *Node) {
	unary{df: func(x, y float64) float64 { d := u.df(x, y); return d * d }}.Backward(s, nd)
}
func (unary) single(*Program, *Node) bool { return true }

func (o *Reduce) backwardSquares(s *State, nd *Node) {
	(&Reduce{Target: o.Target, Scale: o.Scale * o.Scale}).Backward(s, nd)
}
func (o *Reduce) single(*Program, *Node) bool { return false }

func (o *AxisMap) backwardSquares(s *State, nd *Node) {
	squared := *o
	squared.Weight = make([]float64, len(o.Weight))
	for i := range o.Out() {
		lo, hi := o.First[i], o.First[i+1]
		for k := lo; k < hi; k++ {
			if slices.Contains(o.Source[lo:k], o.Source[k]) {
				continue // added to the first
			}
			w := 0.0 // an element that is read twice has the sum of its weights
			for j := k; j < hi; j++ {
				if o.Source[j] == o.Source[k] {
					w += o.Weight[j]
				}
			}
			squared.Weight[k] = w * w
		}
	}
	squared.Backward(s, nd)
}
func (o *AxisMap) single(*Program, *Node) bool { return false }

func (o *Binary) backwardSquares(s *State, nd *Node) {
	square := func(d func(a, b, y float64) float64) func(a, b, y float64) float64 {
		return func(a, b, y float64) float64 { v := d(a, b, y); return v * v }
	}
	o.side(s, nd, 0, o.Left, square(o.Fn.da))
	o.side(s, nd, 1, o.Right, square(o.Fn.db))
}

func (o *Binary) single(p *Program, nd *Node) bool {
	return p.Slots[nd.In[0]].Static || p.Slots[nd.In[1]].Static
}
