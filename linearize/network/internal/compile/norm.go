package compile

import (
	"math"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
	"github.com/funcgp/funcgp/linearize/network/internal/learnt"
)

func init() {
	register("Normalization", map[string]operator{
		"BatchNormalization":        {translate: (*compiler).batchNorm, inputs: 5, roles: learnt.Normalizes, note: "in evaluation mode, its running mean and variance are no parameters; spatial=0 is not read"},
		"LayerNormalization":        {translate: (*compiler).layerNorm, inputs: 3, roles: learnt.Normalizes, note: "its mean and deviation (further results) are not read"},
		"InstanceNormalization":     {translate: (*compiler).instanceNorm, inputs: 3, roles: learnt.Normalizes, note: "of the channels of each example"},
		"GroupNormalization":        {translate: (*compiler).groupNorm, inputs: 3, roles: learnt.Normalizes},
		"LRN":                       {translate: (*compiler).localResponse, inputs: 1},
		"LpNormalization":           {translate: (*compiler).lpNormalization, inputs: 1},
		"MeanVarianceNormalization": {translate: (*compiler).meanVariance, inputs: 1, note: "axes without the batch"},
	})
}

// perChannel returns input i, a vector with one number for each channel. Its shape, channels×1×…×1, broadcasts over
// an image with rank dimensions.
func (c *compiler) perChannel(i int, channels, rank int) *value {
	v := c.float(i)
	if len(v.shape) != 1 || v.shape[0] != channels || v.batch >= 0 {
		panic(refuse("input %d has shape %v for %d channels", i, v.shape, channels))
	}
	return &value{slot: v.slot, shape: slices.Concat([]int{channels}, slices.Repeat([]int{1}, rank-2)), batch: -1}
}

// scaleAndShift returns x·scale + shift, or x·scale if shift is nil.
func (c *compiler) scaleAndShift(x, scale, shift *value) *value {
	y := c.combineInto(graph.Mul, x, scale)
	if shift == nil {
		return y
	}
	return c.combineInto(graph.Add, y, shift)
}

func (c *compiler) batchNorm() {
	x := c.float(0)
	if len(x.shape) < 2 || x.batch > 0 {
		panic(refuse("its input of shape %v does not have the batch dimension first", x.shape))
	}
	// Before opset 14, outputs beyond the first mark training mode.
	if c.attrInt("training_mode", 0) != 0 || len(c.node.Outputs) > 1 && c.opset < 14 {
		panic(refuse("it is in training mode, which would mix examples; export the model in evaluation mode"))
	}
	if c.attrInt("spatial", 1) != 1 {
		panic(refuse("spatial=0 is not supported"))
	}
	eps := c.attrFloat("epsilon", 1e-5)
	channels := x.shape[1]
	mean := c.floats(3)
	variance := c.floats(4)
	if len(mean) != channels || len(variance) != channels {
		panic(refuse("%d means and %d variances for %d channels", len(mean), len(variance), channels))
	}
	shift, inv := make([]float64, channels), make([]float64, channels)
	for i, v := range variance {
		if inv[i] = 1 / math.Sqrt(v+eps); !(v+eps > 0) || math.IsInf(v, 0) || math.IsInf(mean[i], 0) {
			panic(refuse("the running mean and variance of channel %d are %v and %v", i, mean[i], v))
		}
		shift[i] = -mean[i] * inv[i]
	}
	if c.training {
		// Training normalizes with the mean and variance of the minibatch.
		channels := len(mean)
		scale := c.perChannel(1, channels, len(x.shape))
		shift := c.perChannel(2, channels, len(x.shape))
		// The file stores a float32. The momentum meant is the shortest decimal number that the float32 prints as,
		// such as 0.9.
		momentum, err := strconv.ParseFloat(strconv.FormatFloat(c.attrFloat("momentum", 0.9), 'g', -1, 32), 64)
		if err != nil {
			panic(refusal{err})
		}
		p := c.prog
		for _, name := range c.node.Inputs[3:5] {
			if c.inits[name] == nil {
				panic(refuse("its running statistic %s is not stored as an initializer, so that training cannot write it", quote(name)))
			}
		}
		if p.Slots[x.slot].Static || !p.Slots[scale.slot].Static || !p.Slots[shift.slot].Static {
			panic(refuse("it does not normalize what depends on the input by a scale and shift that do not, and cannot be trained"))
		}
		o := &graph.BatchNorm{Channels: channels, Inner: graph.Product(x.shape[2:]), Eps: eps, Layer: len(p.Norms)}
		p.Norms = append(p.Norms, graph.Norm{Mean: c.node.Inputs[3], Variance: c.node.Inputs[4], Momentum: momentum, Start: [2][]float64{mean, variance}})
		c.result(c.emit(o, x.shape, x.batch, x, scale, shift))
		return
	}
	shape := slices.Concat([]int{channels}, slices.Repeat([]int{1}, len(x.shape)-2))
	y := c.scaleAndShift(x, c.addConstant(inv, shape), c.addConstant(shift, shape))
	c.result(c.channelAffine(y, 1, 2, channels))
}

// channelAffine multiplies each channel of y by a scale (input i of the node) and adds a bias (input j).
func (c *compiler) channelAffine(y *value, i, j, channels int) *value {
	return c.scaleAndShift(y, c.perChannel(i, channels, len(y.shape)), c.perChannel(j, channels, len(y.shape)))
}

func (c *compiler) layerNorm() {
	c.result(c.normalized(c.float(0), c.attrInt("axis", -1), c.attrFloat("epsilon", 1e-5), 1, 2))
}

// normalized subtracts the mean of x over the axes from axis from on and divides by the standard deviation. It then
// multiplies by a scale (input i of the node) and adds a bias (input j), if the node has it.
func (c *compiler) normalized(x *value, from int, eps float64, i, j int) *value {
	from = axis(from, len(x.shape))
	drop := make([]bool, len(x.shape))
	for d := range drop {
		drop[d] = d >= from
	}
	return c.scaleAndShift(c.standardized(x, drop, eps, 0), c.float(i), c.optional(j))
}

// standardized subtracts the mean of x over the axes marked in drop and divides by √(variance + within) + beside.
func (c *compiler) standardized(x *value, drop []bool, within, beside float64) *value {
	centred := c.combine(graph.Sub, x, c.reduceAxes(x, drop, true, meanOf))
	variance := c.reduceAxes(c.combine(graph.Mul, centred, centred), drop, true, meanOf)
	deviation := c.mapped(graph.Sqrt, c.combine(graph.Add, variance, c.single(within)))
	if beside != 0 {
		deviation = c.combine(graph.Add, deviation, c.single(beside))
	}
	return c.combine(graph.Div, centred, deviation)
}

// segments normalizes the image of input 0 within each of groups groups of channels. groups = 0 makes each channel
// a group.
func (c *compiler) segments(groups int) *value {
	x := c.float(0)
	image(x)
	channels := x.shape[1]
	if groups == 0 {
		groups = channels
	}
	if groups < 1 || channels%groups != 0 {
		panic(refuse("%d channels do not split into %d groups", channels, groups))
	}
	eps := c.attrFloat("epsilon", 1e-5)
	rows := c.alias(x, []int{1, groups, graph.Product(x.shape[1:]) / groups}, x.batch)
	return c.alias(c.standardized(rows, []bool{2: true}, eps, 0), x.shape, x.batch)
}

func (c *compiler) instanceNorm() {
	y := c.segments(0)
	c.result(c.channelAffine(y, 1, 2, y.shape[1]))
}

func (c *compiler) groupNorm() {
	groups := c.attrInt("num_groups", 0)
	if groups < 1 {
		panic(refuse("num_groups is %d", groups))
	}
	y := c.segments(groups)
	if c.opset >= 21 {
		c.result(c.channelAffine(y, 1, 2, y.shape[1]))
		return
	}
	// Before opset 21, scale and bias hold one number for each group.
	split := slices.Concat([]int{1, groups, y.shape[1] / groups}, y.shape[2:])
	z := c.alias(y, split, y.batch)
	z = c.channelAffine(z, 1, 2, groups)
	c.result(c.alias(z, y.shape, z.batch))
}

// localResponse translates LRN: x·(bias + α/size·Σx²)^(−β). The sum runs over size neighbouring channels.
func (c *compiler) localResponse() {
	x := c.float(0)
	var arg [3]float64
	for i, a := range []floatAttr{{"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1}} {
		arg[i] = c.attrFloat(a.name, a.def)
	}
	size := c.attrInt("size", 0)
	if len(x.shape) < 2 || size < 1 || size > maxElements {
		panic(refuse("size %d over an input of shape %v", size, x.shape))
	}
	if x.isBatch(1) {
		panic(errMixes)
	}
	channels := x.shape[1]
	c.spend((tableBytes + numberBytes) * channels * (2 + min(size, channels)))
	o := &graph.AxisMap{Outer: x.shape[0], In: channels, Inner: graph.Product(x.shape[2:]), First: make([]int32, 1, channels+1), Offset: slices.Repeat([]float64{arg[2]}, channels)}
	for i := range channels {
		for k := max(i-(size-1)/2, 0); k <= min(i+size/2, channels-1); k++ {
			o.Source, o.Weight = append(o.Source, int32(k)), append(o.Weight, arg[0]/float64(size))
		}
		o.First = append(o.First, int32(len(o.Source)))
	}
	square := c.combine(graph.Mul, x, x)
	sum := c.emit(o, x.shape, x.batch, square)
	scale := c.combine(graph.Pow, sum, c.single(-arg[1]))
	c.result(c.combine(graph.Mul, x, scale))
}

// lpNormalization divides x by its norm along an axis. Where the norm is 0, the result and the derivative are 0.
func (c *compiler) lpNormalization() {
	x := c.float(0)
	ax := axis(c.attrInt("axis", -1), len(x.shape))
	p := c.attrInt("p", 2)
	if p != 1 && p != 2 {
		panic(refuse("p is %d; 1 and 2 are defined", p))
	}
	drop := make([]bool, len(x.shape))
	drop[ax] = true
	norm := c.reduceAxes(x, drop, true, groupOf(graph.GroupLp(p)))
	c.result(c.combine(graph.Mul, x, c.mapped(graph.ReciprocalOrZero, norm)))
}

// meanVariance subtracts the mean and divides by the standard deviation plus 1e-9, as ONNX defines.
func (c *compiler) meanVariance() {
	x := c.float(0)
	axes := c.attrInts("axes")
	if axes == nil {
		axes = []int{0, 2, 3}
	}
	drop := make([]bool, len(x.shape))
	for _, a := range axes {
		a = axis(a, len(drop))
		drop[a] = true
	}
	c.result(c.standardized(x, drop, 0, float64(float32(1e-9))))
}
