package linearize

import (
	"slices"
	"strings"
)

// A Description says what a network is made of.
type Description struct {
	Producer  string
	Opset     int64
	Operators []OperatorCount // of the nodes that influence the output, by name
	Params    []ParamInfo     // in the order of θ
	Fixed     []string        // floating point initializers that are not parameters
}

// An OperatorCount is how often an operator occurs.
type OperatorCount struct {
	Name  string
	Count int
}

// ParamInfo is a parameter and the kind of Jacobian block it has.
type ParamInfo struct {
	Param
	Block string // "Outer", "Conv" or "Full"
}

// Describe returns what the network is made of.
func (n *Network) Describe() Description {
	p := n.prog
	d := Description{Producer: strings.TrimSpace(n.model.ProducerName + " " + n.model.ProducerVersion), Opset: standardOpset(n.model)}
	d.Operators = n.operators()
	kind := n.blockKinds()
	for _, prm := range n.Params() {
		d.Params = append(d.Params, ParamInfo{Param: prm, Block: kind[prm.Offset]})
	}
	for _, t := range n.model.Graph.Initializers {
		isParam := slices.ContainsFunc(p.params, func(q Param) bool { return q.Name == t.Name })
		if t.Type.IsFloat() && !isParam {
			d.Fixed = append(d.Fixed, t.Name)
		}
	}
	return d
}

func (n *Network) operators() []OperatorCount {
	count := map[string]int{}
	for _, name := range n.prog.operators {
		count[name]++
	}
	var list []OperatorCount
	for name, k := range count {
		list = append(list, OperatorCount{name, k})
	}
	slices.SortFunc(list, func(a, b OperatorCount) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// blockKinds maps a parameter's offset to the kind of block it is in.
func (n *Network) blockKinds() map[int]string {
	p, kinds := n.prog, map[int]string{}
	for k := range p.sites {
		st := &p.sites[k]
		weight, bias := p.spans(st)
		for _, s := range spans(weight, bias) {
			kinds[s.Offset] = st.kind()
		}
	}
	for _, slot := range p.full {
		kinds[p.params[p.slots[slot].param].Offset] = "Full"
	}
	return kinds
}

// kind names the kind of block that newJacobian makes of a site.
func (st *site) kind() string {
	switch {
	case st.tile:
		return "Full"
	case st.layout == nil:
		return "Outer"
	}
	return "Conv"
}
