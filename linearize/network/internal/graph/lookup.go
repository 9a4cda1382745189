package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Lookup reads rows of a table, input 1, at the indices in input 0. The table is the same for all examples. It is
// seen as Outer×Rows×Inner, and the result as Outer×T×Inner with T indices. A negative index counts from the end.
type Lookup struct {
	Name               string // name of the table, for errors
	Outer, Rows, Inner int
	// Padding is 1 plus the number of a row that was not learnt: the row of the token that fills up sequences. This
	// row has no gradient. 0 means that there is none.
	Padding int
	// Place says that the table is a parameter read only by places of this kind. Its gradient is then computed at
	// these places instead of in Backward.
	Place bool
}

// row returns the row of the table for an index, or −1 for an index out of range.
func (o *Lookup) row(index float64) int {
	i := int(index)
	if i < 0 {
		i += o.Rows
	}
	if i < 0 || i >= o.Rows {
		return -1
	}
	return i
}

// each calls do for every row of the result, with its start there (to) and in the table (from). It leaves out
// indices that are out of range.
func (o *Lookup) each(index []float64, do func(to, from int)) {
	for k := range o.Outer {
		for t, v := range index {
			if r := o.row(v); r >= 0 {
				do((k*len(index)+t)*o.Inner, (k*o.Rows+r)*o.Inner)
			}
		}
	}
}

// Forward implements Op. For an index out of range the result is zero, and the state keeps the first such index,
// which Outputs returns as an error.
func (o *Lookup) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		index, table, out := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		for t, v := range index {
			if o.row(v) < 0 {
				clear(out)
				s.outOfRange(&linearize.IndexError{Row: e, Column: s.Program.column(nd.In[0], t), Index: v, Table: o.Name, Rows: o.Rows})
				break
			}
		}
		o.each(index, func(to, from int) { copy(out[to:to+o.Inner], table[from:from+o.Inner]) })
	}
}

// Backward implements Op.
func (o *Lookup) Backward(s *State, nd *Node) {
	if o.Place || !s.needsGrad(nd.In[1]) {
		return
	}
	for e := range s.N {
		o.addGradient(s.GradAt(nd.In[1], e), s.At(nd.In[0], e), s.GradAt(nd.Out, e))
	}
}

// addGradient adds the gradient of the table to dst, given the gradient g of the result.
func (o *Lookup) addGradient(dst, index, g []float64) {
	o.each(index, func(to, from int) {
		if o.Padding == 0 || from/o.Inner != o.Padding-1 {
			dense.Axpy(dst[from:from+o.Inner], 1, g[to:to+o.Inner])
		}
	})
}

// RowsTo writes the rows of the table that example e reads to dst, with −1 for the padding.
func (o *Lookup) RowsTo(dst []float64, s *State, nd *Node, e int) {
	for t, v := range s.At(nd.In[0], e) {
		if dst[t] = float64(o.row(v)); o.Padding > 0 && o.row(v) == o.Padding-1 {
			dst[t] = -1
		}
	}
}

// outOfRange keeps the error of the earliest example of the chunk that has one.
func (s *State) outOfRange(err *linearize.IndexError) {
	if s.bad == nil || err.Row < s.bad.Row {
		s.bad = err
	}
}

// column returns the column of the input from which an element of a slot comes, or −1. It goes back through
// operators that move elements, or compute each element from one element.
func (p *Program) column(slot, element int) int {
	for i := len(p.Nodes) - 1; i >= 0 && slot != p.Input; i-- {
		nd := &p.Nodes[i]
		if nd.Out != slot {
			continue
		}
		slot = nd.In[0]
		switch o := nd.Op.(type) {
		case unary, tanh:
		case *Index:
			if len(nd.In) > 1 {
				return -1
			}
			element = int(o.Source[element])
		case *Binary:
			table := o.Left
			if p.Slots[slot].Static {
				slot, table = nd.In[1], o.Right
			} else if !p.Slots[nd.In[1]].Static {
				return -1
			}
			element = Pick(table, element)
		default:
			return -1
		}
		if element < 0 || p.Slots[slot].Static {
			return -1
		}
	}
	if slot != p.Input {
		return -1
	}
	return element
}

// FindLookups makes places of the nodes that read a parameter as a table, if nothing else reads it. It returns the
// slots of the remaining parameters. These include tables so small that their dense columns take less memory.
func (p *Program) FindLookups(slots []int) []int {
	tables := map[int]bool{}
	for i := range p.Nodes {
		if _, ok := p.Nodes[i].Op.(*Lookup); ok {
			tables[p.Nodes[i].In[1]] = true
		}
	}
	readers := map[int][]int{} // nodes that read each table
	for i := range p.Nodes {
		for _, in := range p.Nodes[i].In {
			if tables[in] {
				readers[in] = append(readers[in], i)
			}
		}
	}
	var left []int
	for _, slot := range slots {
		if places := p.lookups(slot, readers[slot]); places != nil {
			p.Places = append(p.Places, places...)
		} else {
			left = append(left, slot)
		}
	}
	return left
}

// lookups returns the places of the nodes that read the parameter in slot. It returns nil if a node is no Lookup,
// or if dense columns take less memory.
func (p *Program) lookups(slot int, nodes []int) []Place {
	var places []Place
	at, factors := 0, 0
	for _, i := range nodes {
		nd := &p.Nodes[i]
		o, ok := nd.Op.(*Lookup)
		if !ok || nd.In[0] == slot || o.Outer != 1 {
			return nil
		}
		places = append(places, Place{Node: i, Input: nd.In[0], Weight: p.Slots[slot].Param, Bias: -1, Table: o, At: at})
		at += p.Slots[nd.In[0]].Size
		factors += p.Slots[nd.Out].Size*p.C + p.Slots[nd.In[0]].Size
	}
	if p.Slots[slot].Size*p.C <= fullFactor*factors {
		return nil
	}
	for i := range places {
		places[i].Table.Place = true
	}
	return places
}

// TableSpan returns where the table of a place is in θ, as rows×E.
func (p *Program) TableSpan(st *Place) linearize.Span {
	s := *p.Span(st.Weight)
	s.Rows, s.Cols = st.Table.Rows, st.Table.Inner
	return s
}
