package network

import "math"

// BatchBytes returns the bytes of the Batch that Linearize makes for a number of
// examples, without the inputs, which belong to the caller. A result too large
// for an int64 is returned as the largest int64.
func (n *Network) BatchBytes(examples int) int64 {
	p := n.prog
	perExample := p.C                               // F
	width := 0                                      // columns of the Full block
	nodes, inputs := map[int]bool{}, map[int]bool{} // whose gradients and values are counted
	for k := range p.Sites {
		st := &p.Sites[k]
		w, _ := p.Spans(st)
		if st.Full {
			for _, s := range p.SpanList(st) {
				width += s.Len()
			}
			continue
		}
		if !nodes[st.Node] {
			perExample += p.C * p.Slots[p.Nodes[st.Node].Out].Size
		}
		nodes[st.Node] = true
		switch {
		case st.Table != nil:
			perExample += p.Slots[st.Input].Size
		case st.Input != p.Input && (w != nil || st.Layout != nil) && !inputs[st.Input]:
			perExample += p.Slots[st.Input].Size
			inputs[st.Input] = true
		}
	}
	for _, slot := range p.Full {
		width += p.Slots[slot].Size
	}
	bytes := 8 * (float64(perExample) + float64(p.C)*float64(width)) * float64(examples)
	if bytes >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(bytes)
}
