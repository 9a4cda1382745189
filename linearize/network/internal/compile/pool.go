package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Pooling", map[string]operator{
		"MaxPool":           {translate: (*compiler).maxPool, inputs: 1, integers: keepsType, roles: learnt.Prepares, note: "the positions of the maxima (its second result) and storage_order=1 are not read; no window may lie wholly in the padding"},
		"AveragePool":       {translate: (*compiler).averagePool, inputs: 1, roles: learnt.Prepares, note: "no window may lie wholly in the padding"},
		"GlobalAveragePool": {translate: func(c *compiler) { c.globalPool(meanOf) }, inputs: 1, roles: learnt.Prepares},
		"GlobalMaxPool":     {translate: (*compiler).globalMaxPool, inputs: 1},
		"LpPool":            {translate: (*compiler).lpPool, inputs: 1},
		"GlobalLpPool":      {translate: func(c *compiler) { c.globalPool(groupOf(graph.GroupLp(c.normOrder()))) }, inputs: 1},
	})
}

// pool reads a pooling node: its input x, the geometry of its windows and the shape of its result.
func (c *compiler) pool() (x *value, s *spatial, win *graph.Window, shape []int) {
	x = c.float(0)
	image(x)
	if c.attrInts("kernel_shape") == nil {
		panic(refuse("it has no kernel_shape"))
	}
	s = c.readSpatial(nil, x.shape[2:])
	for i := range s.kernel {
		if s.begin[i] >= s.extent(i) || s.end[i] >= s.extent(i) {
			panic(refuse("pads %v %v reach beyond the kernel %v", s.begin, s.end, s.kernel))
		}
	}
	out := s.output(x.shape[2:], c.attrInt("ceil_mode", 0) != 0)
	win = c.window(s, x.shape[2:], out)
	win.Cin, win.Cout = x.shape[1], x.shape[1]
	return x, s, win, slices.Concat(x.shape[:2], out)
}

func (c *compiler) maxPool() {
	x, _, win, shape := c.pool()
	if c.attrInt("storage_order", 0) != 0 {
		panic(refuse("storage_order=1 is not supported"))
	}
	for t := range win.Out {
		if !slices.ContainsFunc(win.Source[t*win.Taps:(t+1)*win.Taps], func(s int32) bool { return s >= 0 }) {
			panic(refuse("a window lies wholly in the padding"))
		}
	}
	win.FindPairs()
	c.result(c.emit(&graph.MaxPool{Window: win}, shape, x.batch, x))
}

// averagePool translates AveragePool: each output is the sum over a window, divided by the number of the window's
// positions inside the input. With count_include_pad, positions in the padding count too.
func (c *compiler) averagePool() {
	x, s, win, shape := c.pool()
	padded, in := c.attrInt("count_include_pad", 0) != 0, x.shape[2:]
	counts := c.tableOf(shape[2:], func(idx []int) int {
		n := 1
		for i := range in {
			lo, hi := 0, in[i]
			if padded {
				lo, hi = -s.begin[i], in[i]+s.end[i]
			}
			inside := 0
			for k := range s.kernel[i] {
				if p := idx[i]*s.stride[i] - s.begin[i] + k*s.dilation[i]; p >= lo && p < hi {
					inside++
				}
			}
			n *= inside
		}
		return n
	})
	w := win.Taps
	c.spend((tableBytes + numberBytes) * len(win.Source))
	o := &graph.AxisMap{Outer: win.Cin, In: win.In, Inner: 1, First: make([]int32, 1, win.Out+1)}
	for t, n := range counts {
		if n == 0 {
			panic(refuse("a window lies wholly in the padding"))
		}
		for _, from := range win.Source[t*w : (t+1)*w] {
			if from >= 0 {
				o.Source, o.Weight = append(o.Source, from), append(o.Weight, 1/float64(n))
			}
		}
		o.First = append(o.First, int32(len(o.Source)))
	}
	c.result(c.emit(o, shape, x.batch, x))
}

// globalPool reduces all positions of each channel to one number.
func (c *compiler) globalPool(make reducer) {
	x := c.float(0)
	image(x)
	drop := slices.Repeat([]bool{true}, len(x.shape))
	drop[0], drop[1] = false, false
	c.result(c.reduceAxes(x, drop, true, make))
}

func (c *compiler) globalMaxPool() {
	x := c.float(0)
	image(x)
	n := len(x.shape) - 2
	s := &spatial{kernel: x.shape[2:], stride: slices.Repeat([]int{1}, n), dilation: slices.Repeat([]int{1}, n), begin: make([]int, n), end: make([]int, n)}
	ones := slices.Repeat([]int{1}, n)
	win := c.window(s, x.shape[2:], ones)
	win.Cin, win.Cout = x.shape[1], x.shape[1]
	c.result(c.emit(&graph.MaxPool{Window: win}, slices.Concat(x.shape[:2], ones), x.batch, x))
}

// normOrder returns the attribute p, the order of a norm.
func (c *compiler) normOrder() int {
	p := c.attrInt("p", 2)
	if p < 1 || p > maxElements {
		panic(refuse("p is %d", p))
	}
	return p
}

// lpPool takes the Lp norm over each window. It first copies the elements of each window into a row, then reduces
// the rows.
func (c *compiler) lpPool() {
	p := c.normOrder()
	x, _, win, shape := c.pool()
	rows := []int{1, win.Cin, win.Out, win.Taps}
	n := c.entries(rows)
	table := make([]int32, 0, n)
	for ch := range win.Cin {
		for _, s := range win.Source {
			if s >= 0 {
				s += int32(ch * win.In)
			}
			table = append(table, s)
		}
	}
	y := c.apply(x, rows, x.batch, table, 0)
	y = c.reduceAxes(y, []bool{3: true}, false, groupOf(graph.GroupLp(p)))
	c.result(c.alias(y, shape, y.batch))
}
