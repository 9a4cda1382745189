package linearize

// Effort returns how many numbers one example takes and how many
// multiplications it costs, about, so that a fuzz target can pass over models
// that are merely large.
func (n *Network) Effort() int {
	total := 0
	for _, s := range n.prog.slots {
		total += s.size
	}
	for _, nd := range n.prog.nodes {
		if m, ok := nd.op.(multiplier); ok {
			total += m.products()
		}
	}
	return total
}
