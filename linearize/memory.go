package linearize

import "math"

// BatchBytes returns the memory of the Batch that Linearize makes for n
// examples, without the inputs, which belong to the caller. A number too
// large for an int64 is returned as the largest int64.
func (n *Network) BatchBytes(examples int) int64 {
	p := n.prog
	perExample := p.c // F
	width := 0        // columns of the Full block
	for k := range p.sites {
		st := &p.sites[k]
		w, _ := p.spans(st)
		if st.tile {
			for _, s := range p.spanList(st) {
				width += s.Len()
			}
			continue
		}
		perExample += p.c * p.slots[p.nodes[st.node].out].size
		if st.x != p.input && (w != nil || st.layout != nil) {
			perExample += p.slots[st.x].size
		}
	}
	for _, slot := range p.full {
		width += p.slots[slot].size
	}
	bytes := 8 * (float64(perExample) + float64(p.c)*float64(width)) * float64(examples)
	if bytes >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(bytes)
}
