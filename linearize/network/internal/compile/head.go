package compile

import (
	"fmt"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// measureHead names the nodes of the head, finds how many groups of outputs the head normalizes, and forgets a head
// that is none by its shapes.
func (c *compiler) measureHead(out *value) {
	h := c.head
	if h.Nodes = c.label(h.Last); c.graph.Nodes[h.Last].OpType == h.Function.String() {
		h.Nodes = fmt.Sprintf("node %d %s", c.numberOf(h.Last), quote(c.graph.Nodes[h.Last].Name))
	} else {
		h.Nodes = "written out up to " + h.Nodes
	}
	size := graph.Product(out.shape)
	if h.Groups = 1; h.Node >= 0 {
		c.node = c.graph.Nodes[h.Node]
		shape := c.env[c.node.Outputs[0]].shape
		ax, err := c.softmaxAxis(len(shape))
		if err != nil {
			c.head = nil
			return
		}
		length := shape[ax]
		if c.opset < 13 { // older versions normalize over all axes from axis on
			length = graph.Product(shape[ax:])
		}
		h.Groups = size / length
	}
	for i, name := range h.Each {
		v := c.env[name]
		if n := graph.Product(v.shape); i == 0 && h.Node < 0 {
			h.Groups = n
		} else if n != h.Groups {
			c.head = nil
			return
		}
		if v.batch < 0 {
			c.head = nil
			return
		}
	}
	in, err := c.lookup(h.Input)
	if err != nil || in.isInt {
		c.head = nil
		return
	}
	if want := graph.Product(in.shape); h.Pair && (want != 1 || size != 2) || !h.Pair && want != size {
		c.head = nil
	}
}
