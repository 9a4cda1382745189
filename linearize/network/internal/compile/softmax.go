package compile

import (
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

func init() {
	register("Normalization", map[string]operator{
		"Softmax":    {translate: func(c *compiler) error { return c.softmax(false) }, inputs: 1},
		"LogSoftmax": {translate: func(c *compiler) error { return c.softmax(true) }, inputs: 1},
	})
}

func (c *compiler) softmax(log bool) error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	ax, err := c.softmaxAxis(len(x.shape))
	if err != nil {
		return err
	}
	o := &graph.Softmax{Outer: graph.Product(x.shape[:ax]), Length: x.shape[ax], Inner: graph.Product(x.shape[ax+1:]), Log: log}
	if c.opset < 13 { // older versions normalize over all axes from axis on
		o.Length, o.Inner = o.Length*o.Inner, 1
		if x.batch > ax {
			return errMixes
		}
	}
	if x.isBatch(ax) {
		return errMixes
	}
	return c.result(c.emit(o, x.shape, x.batch, x))
}

// softmaxAxis returns the axis of a Softmax or LogSoftmax.
func (c *compiler) softmaxAxis(rank int) (int, error) {
	def := -1
	if c.opset < 13 {
		def = 1
	}
	return axis(c.attrInt("axis", def), rank)
}
