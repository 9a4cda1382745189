package network

// FeaturesHeld returns what graph.Features.Held does for the part of the network before its parameters, and 0 where
// nothing is held.
func (n *Network) FeaturesHeld() (width, held, computed int) {
	if n.features == nil {
		return 0, 0, 0
	}
	return n.features.Held()
}
