package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

func init() {
	register("Shapes", map[string]operator{
		"Resize":       {translate: (*compiler).resize, inputs: 4},
		"Upsample":     {translate: (*compiler).resize, inputs: 2},
		"DepthToSpace": {translate: (*compiler).depthToSpace, inputs: 1},
		"SpaceToDepth": {translate: (*compiler).spaceToDepth, inputs: 1},
	})
}

func (c *compiler) pad() error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	pads, given, err := c.intsOr(1, "pads")
	if err != nil {
		return err
	}
	axes := make([]int, len(x.shape))
	for i := range axes {
		axes[i] = i
	}
	if c.has(3) {
		if axes, err = c.constants(3); err != nil {
			return err
		}
	}
	if !given || len(pads) != 2*len(axes) {
		return fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	fill := 0.0
	if c.has(2) {
		fill, err = c.scalar(2, 0)
	} else {
		fill, err = c.attrFloat("value", 0)
	}
	if err != nil {
		return err
	}
	begin, shape := make([]int, len(x.shape)), slices.Clone(x.shape)
	for i, a := range axes {
		if a, err = axis(a, len(x.shape)); err != nil {
			return err
		}
		lo, hi := pads[i], pads[len(axes)+i]
		if x.isBatch(a) && (lo != 0 || hi != 0) {
			return errMixes
		}
		begin[a] = lo
		shape[a] += lo + hi
	}
	source, err := padSource(c.attrString("mode", "constant"))
	if err != nil {
		return err
	}
	st := strides(x.shape)
	table, err := c.table(shape, func(d, i int) int {
		p := source(i-begin[d], x.shape[d])
		if p < 0 {
			return outside
		}
		return p * st[d]
	})
	if err != nil {
		return err
	}
	return c.result(c.apply(x, shape, x.batch, table, fill))
}

// padSource returns a function of a position i, counted from the first element
// of a dimension of n: the element that it reads, or −1 for the fill value.
func padSource(mode string) (func(i, n int) int, error) {
	switch mode {
	case "constant", "":
		return func(i, n int) int {
			if i < 0 || i >= n {
				return -1
			}
			return i
		}, nil
	case "edge":
		return func(i, n int) int { return min(max(i, 0), n-1) }, nil
	case "wrap":
		return func(i, n int) int { return ((i % n) + n) % n }, nil
	case "reflect":
		return func(i, n int) int {
			if n == 1 {
				return 0
			}
			period := 2 * (n - 1)
			i = ((i % period) + period) % period
			return min(i, period-i)
		}, nil
	}
	return nil, fmt.Errorf("mode=%q is not known", mode)
}

// blocks returns the input of DepthToSpace and SpaceToDepth, N×C×H×W, and their
// block size.
func (c *compiler) blocks() (x *value, b int, err error) {
	if x, err = c.float(0); err != nil {
		return nil, 0, err
	}
	if len(x.shape) != 4 || x.batch > 0 || x.shape[0] != 1 {
		return nil, 0, fmt.Errorf("its input of shape %v is not a batch of images", x.shape)
	}
	if b = c.attrInt("blocksize", 0); b < 1 || b > maxElements {
		return nil, 0, fmt.Errorf("blocksize is %d", b)
	}
	return x, b, nil
}

// depthToSpace moves b² channels to the pixels of b×b blocks. The channel of
// pixel (i,j) of a block comes from (i·b+j)·C+c by mode DCR, and from
// c·b²+i·b+j by CRD.
func (c *compiler) depthToSpace() error {
	x, b, err := c.blocks()
	if err != nil {
		return err
	}
	if x.shape[1]%b != 0 || x.shape[1]/b%b != 0 {
		return fmt.Errorf("%d channels for blocks of %d×%d", x.shape[1], b, b)
	}
	channels := x.shape[1] / b / b
	each, pixel := 1, channels // steps in the input's channels
	switch mode := c.attrString("mode", "DCR"); mode {
	case "DCR":
	case "CRD":
		each, pixel = b*b, 1
	default:
		return fmt.Errorf("mode=%q is not known", mode)
	}
	shape, st := []int{1, channels, x.shape[2] * b, x.shape[3] * b}, strides(x.shape)
	table, err := c.table(shape, func(d, i int) int {
		switch d {
		case 1:
			return i * each * st[1]
		case 2:
			return i/b*st[2] + i%b*b*pixel*st[1]
		case 3:
			return i/b*st[3] + i%b*pixel*st[1]
		}
		return 0
	})
	if err != nil {
		return err
	}
	return c.result(c.apply(x, shape, x.batch, table, 0))
}

// spaceToDepth moves the pixels of b×b blocks to channels, (i·b+j)·C+c for pixel
// (i,j).
func (c *compiler) spaceToDepth() error {
	x, b, err := c.blocks()
	if err != nil {
		return err
	}
	if x.shape[2]%b != 0 || x.shape[3]%b != 0 {
		return fmt.Errorf("images of %d×%d for blocks of %d×%d", x.shape[2], x.shape[3], b, b)
	}
	shape, st := []int{1, x.shape[1] * b * b, x.shape[2] / b, x.shape[3] / b}, strides(x.shape)
	table, err := c.table(shape, func(d, i int) int {
		switch d {
		case 1:
			pixel := i / x.shape[1]
			return i%x.shape[1]*st[1] + pixel/b*st[2] + pixel%b*st[3]
		case 2:
			return i * b * st[2]
		case 3:
			return i * b * st[3]
		}
		return 0
	})
	if err != nil {
		return err
	}
	return c.result(c.apply(x, shape, x.batch, table, 0))
}

// resize handles Resize and Upsample by nearest neighbour.
func (c *compiler) resize() error {
	x, err := c.float(0)
	if err != nil {
		return err
	}
	if mode := c.attrString("mode", "nearest"); mode != "nearest" {
		return fmt.Errorf("mode=%q is not supported; use nearest", mode)
	}
	scales, sizes, err := c.resizeArgs(len(x.shape))
	if err != nil {
		return err
	}
	shape := make([]int, len(x.shape))
	for i, d := range x.shape {
		switch {
		case x.isBatch(i):
			if sizes != nil && !c.isBatchSize(sizes[i], d) || sizes == nil && scales[i] != 1 {
				return errMixes
			}
			shape[i], scales[i] = d, 1
		case sizes == nil:
			// Scales are float32, and runtimes multiply in it: ten times 0.7 is seven.
			shape[i] = int(math.Floor(float64(float32(d) * float32(scales[i]))))
		case !sizes[i].constant():
			return errMixes
		default:
			shape[i] = sizes[i].k
			scales[i] = float64(shape[i]) / float64(d)
		}
		if shape[i] < 1 || shape[i] > maxElements {
			return fmt.Errorf("dimension %d of the result is %d", i, shape[i])
		}
	}
	from, err := c.nearest()
	if err != nil {
		return err
	}
	st := strides(x.shape)
	table, err := c.table(shape, func(d, i int) int {
		return min(max(from(i, x.shape[d], shape[d], scales[d]), 0), x.shape[d]-1) * st[d]
	})
	if err != nil {
		return err
	}
	return c.result(c.apply(x, shape, x.batch, table, 0))
}

// resizeArgs reads the scales and the sizes, of which one is given. sizes is nil
// if the scales are.
func (c *compiler) resizeArgs(rank int) (scales []float64, sizes []affine, err error) {
	at, old := 2, c.node.OpType == "Upsample" || c.opset < 11
	if old {
		at = 1
	}
	switch {
	case c.has(3) && !old:
		v, err := c.intsAt(3)
		if err != nil {
			return nil, nil, err
		}
		sizes = v.ints
	case c.has(at):
		if scales, err = c.floats(at); err != nil {
			return nil, nil, err
		}
	default:
		if a := c.node.Attr("scales"); a != nil {
			for _, f := range a.Floats {
				scales = append(scales, float64(f))
			}
		}
	}
	if p := c.attrString("keep_aspect_ratio_policy", "stretch"); p != "stretch" {
		return nil, nil, fmt.Errorf("keep_aspect_ratio_policy=%q is not supported", p)
	}
	if c.node.Attr("axes") != nil {
		return nil, nil, errors.New("its axes attribute is not supported; give all dimensions")
	}
	if sizes != nil {
		scales = make([]float64, len(sizes))
	}
	if len(scales) != rank {
		return nil, nil, fmt.Errorf("%d scales or sizes for %d dimensions", len(scales), rank)
	}
	for _, s := range scales {
		if sizes == nil && !(s > 0 && s < maxElements) {
			return nil, nil, fmt.Errorf("scales %v", scales)
		}
	}
	return slices.Clone(scales), sizes, nil
}

// nearest returns a function that gives the input position for output position i
// of a dimension that goes from in to out elements.
func (c *compiler) nearest() (func(i, in, out int, scale float64) int, error) {
	defMode, defRound := "half_pixel", "round_prefer_floor"
	if c.opset < 11 || c.node.OpType == "Upsample" {
		defMode, defRound = "asymmetric", "floor"
	}
	mode := c.attrString("coordinate_transformation_mode", defMode)
	round, ok := map[string]func(float64) float64{
		"floor": math.Floor, "ceil": math.Ceil,
		"round_prefer_floor": func(x float64) float64 { return math.Ceil(x - 0.5) },
		"round_prefer_ceil":  func(x float64) float64 { return math.Floor(x + 0.5) },
	}[c.attrString("nearest_mode", defRound)]
	if !ok {
		return nil, fmt.Errorf("nearest_mode=%q is not known", c.attrString("nearest_mode", defRound))
	}
	switch mode {
	case "asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners":
	default:
		return nil, fmt.Errorf("coordinate_transformation_mode=%q is not supported", mode)
	}
	return func(i, in, out int, scale float64) int {
		if in == out && scale == 1 {
			return i
		}
		x := float64(i) / scale
		switch {
		case mode == "half_pixel" || mode == "pytorch_half_pixel" && out > 1:
			x = (float64(i)+0.5)/scale - 0.5
		case mode == "pytorch_half_pixel" || mode == "align_corners" && out == 1:
			x = 0
		case mode == "align_corners":
			x = float64(i) * float64(in-1) / float64(out-1)
		}
		return int(round(x))
	}, nil
}
