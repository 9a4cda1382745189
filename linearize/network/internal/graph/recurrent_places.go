package graph

import (
	"slices"
)

// A placeFinder finds the weights of recurrent layers that nothing else reads. A weight may be joined from parts of
// parameters, because exporters reorder the gates for ONNX.
type placeFinder struct {
	prog      *Program
	read      map[int][]int // nodes that read each slot
	made      map[int]int   // node that writes each slot
	parameter func(slot int) bool
	take      func(bytes, numbers int)
}

// AddRecurrentPlaces makes places of the weights of recurrent layers that nothing else reads. Before, their
// gradients are computed in Backward. parameter tells whether a slot is a parameter. take takes bytes from the
// compiler's memory budget and numbers from the budget of one example; it panics if there is not enough.
func (p *Program) AddRecurrentPlaces(parameter func(slot int) bool, take func(bytes, numbers int)) {
	f := &placeFinder{prog: p, read: map[int][]int{}, made: map[int]int{}, parameter: parameter, take: take}
	var layers []int
	for i := range p.Nodes {
		nd := &p.Nodes[i]
		f.made[nd.Out] = i
		for _, in := range nd.In {
			f.read[in] = append(f.read[in], i)
		}
		if _, ok := nd.Op.(*Recurrent); ok && !p.Slots[nd.In[0]].Static {
			layers = append(layers, i)
		}
	}
	for _, i := range layers {
		// Make places of the weights of the layer's inputs.
		nd := f.prog.Nodes[i]
		o := nd.Op.(*Recurrent)
		at := f.made[nd.In[0]]
		in := f.prog.Nodes[at].In
		products := f.prog.Nodes[at].Op.(*Dense)
		for _, st := range f.places(o, in[1], products.In, func(int) int { return 0 }, at) {
			st.Node, st.Input = at, in[0]
			f.prog.Places = append(f.prog.Places, st)
			products.Tied = false
		}
		f.addRecurrentWeights(i)
	}
}

// addRecurrentWeights makes places of a layer's recurrent weights, at the node to whose result their products are
// added.
func (f *placeFinder) addRecurrentWeights(layer int) {
	p := f.prog
	nd := p.Nodes[layer]
	o := nd.Op.(*Recurrent)
	at, readers := f.made[nd.In[0]], []int{layer}
	if o.Addend >= 0 {
		if i, ok := f.made[nd.In[o.Addend]]; ok {
			at, readers = i, append(readers, i)
		}
	}
	places := f.places(o, nd.In[1], o.H, o.sequence, readers...)
	if len(places) == 0 {
		return
	}
	// List the elements of the result that R multiplies: for each direction the states before each position and, if
	// the cell resets them first, the reset states.
	var table []int32
	add := func(from int) {
		for j := range o.H {
			table = append(table, int32(from+j))
		}
	}
	for d := range o.Reverse {
		for t := range o.T {
			add(o.Before(d, t, false))
		}
	}
	for d := range o.Reverse {
		for t := range o.T {
			if o.Cells[0].more() == resets {
				add(o.ResetState(d, t))
			}
		}
	}
	f.take(4*len(table), len(table))
	states := len(p.Slots)
	p.Slots = append(p.Slots, Slot{Size: len(table), Param: -1})
	p.Nodes = append(p.Nodes, Node{Op: &Index{Source: table}, In: []int{nd.Out}, Out: states})
	o.Tied = false
	// The gradient at this node is needed even if nothing before it is a parameter.
	p.Slots[p.Nodes[at].Out].NeedsGrad = true
	for _, st := range places {
		st.Node, st.Input = at, states
		p.Places = append(p.Places, st)
	}
}

// sequence returns the number of the sequence, in table, that a row of R multiplies.
func (o *Recurrent) sequence(row int) int {
	d := row / (o.Cells[0].Gates() * o.H)
	if o.Cells[0].more() == resets && row/o.H%3 == 2 {
		return o.dirs() + d
	}
	return d
}

// An element is element at of a slot.
type element struct{ slot, at int32 }

// places returns a place for each parameter in the weight in slot, D·G·H rows of cols numbers. It returns none if
// the weight is made of anything else, or is read by nodes other than the readers. sequence returns the sequence
// that a row multiplies. The caller sets Node and Input of the places.
func (f *placeFinder) places(o *Recurrent, slot, cols int, sequence func(row int) int, readers ...int) []Place {
	if !f.prog.Slots[slot].NeedsGrad {
		return nil
	}
	elements := f.joined(slot, readers)
	if elements == nil {
		return nil
	}
	rowsOf := map[int32][]int{} // for each slot of a parameter: the row of the weight that each of its rows is
	var order []int32
	for row := range len(elements) / cols {
		first := elements[row*cols]
		for k, e := range elements[row*cols : (row+1)*cols] {
			if e.slot != first.slot || e.at != first.at+int32(k) || int(first.at)%cols != 0 {
				return nil
			}
		}
		if rowsOf[first.slot] == nil {
			rowsOf[first.slot] = slices.Repeat([]int{-1}, f.prog.Slots[first.slot].Size/cols)
			order = append(order, first.slot)
		}
		to := &rowsOf[first.slot][int(first.at)/cols]
		if *to >= 0 {
			return nil // used twice
		}
		*to = row
	}
	var places []Place
	for _, p := range order {
		layout, ok := o.stacked(rowsOf[p], cols, sequence)
		if !ok || len(rowsOf[p])*cols != f.prog.Slots[p].Size {
			return nil
		}
		places = append(places, Place{Layout: layout, Weight: int(p), Bias: -1})
	}
	return places
}

// stacked lays out a parameter whose rows are the given rows of a weight. It divides them into as few matrices as
// possible, whose rows are consecutive in the weight and multiply one sequence.
func (o *Recurrent) stacked(rows []int, cols int, sequence func(row int) int) (Stacked, bool) {
	gates := o.Cells[0].Gates()
	width := o.dirs() * gates * o.H
	for _, m := range []int{width, gates * o.H, o.H} {
		if len(rows)%m != 0 {
			continue
		}
		s := Stacked{T: o.T, K: cols, M: m, Width: width}
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
	return Stacked{}, false
}

// joined returns for each element of a slot the parameter's element that it is. It returns nil if some elements are
// computed, or if nodes other than the readers use the parameters or what is joined from them.
func (f *placeFinder) joined(slot int, readers []int) []element {
	done := map[int][]element{}
	elements := f.trace(slot, done)
	if elements == nil {
		return nil
	}
	for s := range done {
		if s == f.prog.Output {
			return nil
		}
		for _, i := range f.read[s] {
			_, leads := done[f.prog.Nodes[i].Out]
			if s == slot && !slices.Contains(readers, i) || s != slot && !leads {
				return nil
			}
		}
	}
	return elements
}

// trace returns for each element of a slot the parameter's element that it is, or nil if some are computed. done
// has the slots visited so far.
func (f *placeFinder) trace(slot int, done map[int][]element) []element {
	if out, ok := done[slot]; ok {
		return out
	}
	size := f.prog.Slots[slot].Size
	f.take(8*size, 0)
	out := make([]element, size)
	i, made := f.made[slot]
	if !made && !f.parameter(slot) {
		return nil
	}
	if !made {
		for k := range out {
			out[k] = element{int32(slot), int32(k)}
		}
		done[slot] = out
		return out
	}
	nd := &f.prog.Nodes[i]
	var all []element // of the inputs one after another
	for _, in := range nd.In {
		part := f.trace(in, done)
		if part == nil {
			return nil
		}
		all = append(all, part...)
	}
	switch op := nd.Op.(type) {
	case *Index:
		for k, at := range op.Source {
			if at < 0 {
				return nil
			}
			out[k] = all[at]
		}
	default:
		return nil
	}
	done[slot] = out
	return out
}
