package network

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/rewrite"
)

// LastLayer is the entry of ReadOptions.Layers that chooses the last layer with weights on each path to the outputs,
// such as a Gemm, a MatMul with its Add or a convolution, together with the parameters that scale and shift its
// results.
const LastLayer = "last"

// WithLayers returns the network whose parameters are only those of some layers of n, named as in
// ReadOptions.Layers.
func (n *Network) WithLayers(entries ...string) (*Network, error) {
	if len(n.groups) > 0 {
		return nil, errors.New("network: layers are chosen before outputs are grouped")
	}
	o, err := n.chosen(entries)
	if err != nil {
		return nil, err
	}
	return n.readAs(o)
}

// chosen returns the options to read the network with only the parameters of the layers that entries
// name, as in ReadOptions.Layers.
func (n *Network) chosen(entries []string) (o ReadOptions, err error) {
	o = n.read
	layers := n.layerNumbers()
	var names, all []string
	for _, p := range n.prog.Params {
		all = append(all, p.Name)
	}
	take := func(belongs func(i int, name string) bool) (found bool) {
		for i, name := range all {
			if belongs(i, name) {
				if found = true; !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return found
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry)
		named := func(_ int, name string) bool {
			return rewrite.Matches(entry, name) || rewrite.Matches(entry, layerName(name))
		}
		switch {
		case entry == LastLayer:
			last := n.lastLayer()
			take(func(i int, _ string) bool { return last[i] })
		case take(named):
		case err == nil && !take(func(i int, _ string) bool { return layers[i] == number }):
			return o, fmt.Errorf("network: there is no layer %d: they are 1 to %d; inspect lists them", number, slices.Max(layers))
		case err == nil:
		default:
			_, err := rewrite.Select("take the layer", []string{entry}, all)
			return o, fmt.Errorf("network: %w", err)
		}
	}
	o.Freeze = slices.Clone(o.Freeze)
	for _, name := range all {
		if !slices.Contains(names, name) {
			o.Freeze = append(o.Freeze, name)
		}
	}
	o.Learn = slices.DeleteFunc(slices.Clone(o.Learn), func(name string) bool { return slices.Contains(o.Freeze, name) })
	return o, nil
}

// layerName returns the name of a tensor up to its last dot.
func layerName(tensor string) string {
	if i := strings.LastIndexByte(tensor, '.'); i > 0 {
		return tensor[:i]
	}
	return tensor
}

// reached lists, for each slot computed from parameters without an input of the network, these parameters.
func (n *Network) reached() [][]int {
	of := make([][]int, len(n.prog.Slots))
	for i, sl := range n.prog.Slots {
		if sl.Param >= 0 {
			of[i] = []int{sl.Param}
		}
	}
	for _, nd := range n.prog.Nodes {
		if !n.prog.Slots[nd.Out].Static {
			continue
		}
		for _, in := range nd.In {
			if in >= 0 {
				of[nd.Out] = append(of[nd.Out], of[in]...)
			}
		}
	}
	return of
}

// layerNumbers returns the number of the layer that each parameter belongs to, from 1 on in the order of the nodes
// that read them first. Parameters belong to the same layer if the same node reads them, or if their names agree up
// to the last dot.
func (n *Network) layerNumbers() []int {
	of, out := n.reached(), make([]int, len(n.prog.Params))
	last, named := 0, map[string]int{}
	for _, nd := range n.prog.Nodes {
		if n.prog.Slots[nd.Out].Static {
			continue
		}
		var read []int
		number := 0
		for _, in := range nd.In {
			if in < 0 {
				continue
			}
			for _, i := range of[in] {
				if out[i] == 0 {
					read = append(read, i)
					number = max(number, named[layerName(n.prog.Params[i].Name)])
				}
			}
		}
		if len(read) > 0 && number == 0 {
			last++
			number = last
		}
		for _, i := range read {
			out[i] = number
			named[layerName(n.prog.Params[i].Name)] = number
		}
	}
	return out
}

// lastLayer tells for each parameter whether it belongs to the last layer. Each path back from the outputs ends at
// the first node that reads a parameter and does more than scale or shift.
func (n *Network) lastLayer() []bool {
	of, out := n.reached(), make([]bool, len(n.prog.Params))
	wanted := make([]bool, len(n.prog.Slots))
	wanted[n.prog.Output] = true
	for _, nd := range slices.Backward(n.prog.Nodes) {
		if !wanted[nd.Out] {
			continue
		}
		_, scales := nd.Op.(*graph.Binary)
		ends := false
		for _, in := range nd.In {
			if in >= 0 && len(of[in]) > 0 {
				ends = ends || !scales
				for _, i := range of[in] {
					out[i] = true
				}
			}
		}
		for _, in := range nd.In {
			if in >= 0 && !ends && !n.prog.Slots[in].Static {
				wanted[in] = true
			}
		}
	}
	return out
}
