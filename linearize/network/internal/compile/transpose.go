package compile

import (
	"slices"

	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Shapes", map[string]operator{
		"DepthToSpace": {translate: (*compiler).depthToSpace, inputs: 1},
		"SpaceToDepth": {translate: (*compiler).spaceToDepth, inputs: 1},
		"Transpose":    {translate: (*compiler).transposeOp, inputs: 1, integers: keepsType, roles: learnt.Moves | learnt.Passes},
	})
}

func (c *compiler) transposeOp() {
	v := c.input(0)
	perm := c.attrInts("perm")
	if perm == nil {
		perm = upTo(len(v.shape))
		slices.Reverse(perm)
	}
	if !slices.Equal(slices.Sorted(slices.Values(perm)), upTo(len(v.shape))) {
		panic(refuse("perm %v does not permute %d dimensions", perm, len(v.shape)))
	}
	out := c.transpose(v, perm)
	if slices.Equal(perm, []int{1, 0}) {
		out.weight, out.transposed = v.weight, !v.transposed
	}
	c.result(out)
}

// transpose permutes the dimensions of a value.
func (c *compiler) transpose(v *value, perm []int) *value {
	shape, batch := make([]int, len(perm)), -1
	for i, p := range perm {
		shape[i] = v.shape[p]
		if v.isBatch(p) {
			batch = i
		}
	}
	st := strides(v.shape)
	table := c.table(shape, func(d, i int) int { return i * st[perm[d]] })
	return c.apply(v, shape, batch, table, 0)
}

// blocks returns the input N×C×H×W and the block size of DepthToSpace or SpaceToDepth.
func (c *compiler) blocks() (x *value, b int) {
	x = c.float(0)
	if len(x.shape) != 4 || x.batch > 0 || x.shape[0] != 1 {
		panic(refuse("its input of shape %v is not a batch of images", x.shape))
	}
	if b = c.attrInt("blocksize", 0); b < 1 || b > maxElements {
		panic(refuse("blocksize is %d", b))
	}
	return x, b
}

// depthToSpace translates DepthToSpace: b² channels become the pixels of b×b blocks. Pixel (i,j) of a block in
// channel c is read from channel (i·b+j)·C+c in mode DCR, and from channel c·b²+i·b+j in mode CRD, with C the
// number of channels of the result.
func (c *compiler) depthToSpace() {
	x, b := c.blocks()
	h, w := x.shape[2], x.shape[3]
	if x.shape[1]%b != 0 || x.shape[1]/b%b != 0 {
		panic(refuse("%d channels for blocks of %d×%d", x.shape[1], b, b))
	}
	channels := x.shape[1] / b / b
	parts, perm := []int{1, b, b, channels, h, w}, []int{0, 3, 4, 1, 5, 2}
	switch mode := c.attrString("mode", "DCR"); mode {
	case "DCR":
	case "CRD":
		parts, perm = []int{1, channels, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}
	default:
		panic(refuse("mode=%q is not known", mode))
	}
	y := c.transpose(c.alias(x, parts, x.batch), perm)
	c.result(c.alias(y, []int{1, channels, h * b, w * b}, y.batch))
}

// spaceToDepth translates SpaceToDepth: pixel (i,j) of each b×b block in channel c goes to channel (i·b+j)·C+c.
func (c *compiler) spaceToDepth() {
	x, b := c.blocks()
	if x.shape[2]%b != 0 || x.shape[3]%b != 0 {
		panic(refuse("images of %d×%d for blocks of %d×%d", x.shape[2], x.shape[3], b, b))
	}
	channels, h, w := x.shape[1], x.shape[2]/b, x.shape[3]/b
	y := c.transpose(c.alias(x, []int{1, channels, h, b, w, b}, x.batch), []int{0, 3, 5, 1, 2, 4})
	c.result(c.alias(y, []int{1, channels * b * b, h, w}, y.batch))
}
