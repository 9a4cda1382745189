package network

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// Dense is the layer z = W a + β with W Units×in. An input with more than one
// dimension must be flattened first. Fewer than one unit is an error.
type Dense struct {
	Units  int
	NoBias bool
}

func (l Dense) build(b *builder) error {
	if len(b.shape) != 2 {
		return fmt.Errorf("an input of shape %v; put Flatten before it", b.shape[1:])
	}
	if l.Units < 1 {
		return fmt.Errorf("%d units", l.Units)
	}
	in := b.shape[1]
	args := []string{b.at, b.uniform("weight", in, l.Units, in)}
	if !l.NoBias {
		args = append(args, b.uniform("bias", in, l.Units))
	}
	b.op("Gemm", []*onnx.Attribute{intAttr("transB", 1)}, args...)
	b.shape = []int{1, l.Units}
	return nil
}

// Conv2D is a convolution of Filters Kernel×Kernel filters over an input of
// channels×height×width. Padding zeros are added on each side. A Stride or
// Groups of zero means one; Filters and Kernel must be positive.
type Conv2D struct {
	Filters, Kernel, Stride, Padding, Groups int
	NoBias                                   bool
}

func (l Conv2D) build(b *builder) error {
	stride, groups := max(l.Stride, 1), max(l.Groups, 1)
	if len(b.shape) != 4 {
		return fmt.Errorf("an input of shape %v is not channels×height×width", b.shape[1:])
	}
	cin := b.shape[1]
	h, w := (b.shape[2]+2*l.Padding-l.Kernel)/stride+1, (b.shape[3]+2*l.Padding-l.Kernel)/stride+1
	if l.Filters < 1 || l.Kernel < 1 || l.Padding < 0 || cin%groups != 0 || l.Filters%groups != 0 || b.shape[2]+2*l.Padding < l.Kernel || b.shape[3]+2*l.Padding < l.Kernel {
		return fmt.Errorf("%d filters of %d×%d in %d groups over an input of shape %v", l.Filters, l.Kernel, l.Kernel, groups, b.shape[1:])
	}
	fan := cin / groups * l.Kernel * l.Kernel
	args := []string{b.at, b.uniform("weight", fan, l.Filters, cin/groups, l.Kernel, l.Kernel)}
	if !l.NoBias {
		args = append(args, b.uniform("bias", fan, l.Filters))
	}
	b.op("Conv", []*onnx.Attribute{intsAttr("kernel_shape", l.Kernel, l.Kernel), intsAttr("strides", stride, stride),
		intsAttr("pads", l.Padding, l.Padding, l.Padding, l.Padding), intAttr("group", groups)}, args...)
	b.shape = []int{1, l.Filters, h, w}
	return nil
}

// MaxPool2D takes the maximum over Size×Size windows that do not overlap.
type MaxPool2D struct{ Size int }

func (l MaxPool2D) build(b *builder) error { return b.pool("MaxPool", l.Size) }

// AvgPool2D takes the mean over Size×Size windows that do not overlap.
type AvgPool2D struct{ Size int }

func (l AvgPool2D) build(b *builder) error { return b.pool("AveragePool", l.Size) }

func (b *builder) pool(kind string, size int) error {
	if len(b.shape) != 4 || size < 1 || b.shape[2] < size || b.shape[3] < size {
		return fmt.Errorf("windows of %d×%d over an input of shape %v", size, size, b.shape[1:])
	}
	b.op(kind, []*onnx.Attribute{intsAttr("kernel_shape", size, size), intsAttr("strides", size, size)}, b.at)
	b.shape = []int{1, b.shape[1], b.shape[2] / size, b.shape[3] / size}
	return nil
}

// Flatten reshapes each example to a vector.
type Flatten struct{}

func (Flatten) build(b *builder) error {
	b.op("Flatten", []*onnx.Attribute{intAttr("axis", 1)}, b.at)
	b.shape = []int{1, graph.Product(b.shape)}
	return nil
}

// An Activation applies a function to every element. The zero value is ReLU.
type Activation int

// The activations; SiLU is x·σ(x), GELU the exact form x·Φ(x).
const (
	ReLU Activation = iota
	Tanh
	Sigmoid
	Softplus
	ELU
	LeakyReLU // slope 0.01
	GELU
	SiLU
)

func (a Activation) build(b *builder) error {
	x := b.at
	switch a {
	case ReLU:
		b.op("Relu", nil, x)
	case Tanh:
		b.op("Tanh", nil, x)
	case Sigmoid:
		b.op("Sigmoid", nil, x)
	case Softplus:
		b.op("Softplus", nil, x)
	case ELU:
		b.op("Elu", []*onnx.Attribute{floatAttrOf("alpha", 1)}, x)
	case LeakyReLU:
		b.op("LeakyRelu", []*onnx.Attribute{floatAttrOf("alpha", 0.01)}, x)
	case GELU:
		e := b.op("Erf", nil, b.op("Div", nil, x, b.scalar(math.Sqrt2)))
		b.op("Mul", nil, b.op("Mul", nil, x, b.op("Add", nil, e, b.scalar(1))), b.scalar(0.5))
	case SiLU:
		b.op("Mul", nil, x, b.op("Sigmoid", nil, x))
	default:
		return errors.New("an unknown activation")
	}
	return nil
}

// LayerNorm normalizes over the last dimension and applies a scale and a shift
// for each of its elements.
type LayerNorm struct{}

func (LayerNorm) build(b *builder) error {
	n := b.shape[len(b.shape)-1]
	b.op("LayerNormalization", []*onnx.Attribute{intAttr("axis", -1), floatAttrOf("epsilon", 1e-5)},
		b.at, b.parameter("weight", slices.Repeat([]float64{1}, n), n), b.parameter("bias", make([]float64, n), n))
	return nil
}

// BatchNorm normalizes each channel, the first dimension of an example, by the moments of the
// minibatch in training and by running statistics otherwise, and applies a scale and a shift for
// each channel.
type BatchNorm struct {
	Momentum float64 // weight of each minibatch in the running statistics; 0 means 0.1
}

func (l BatchNorm) build(b *builder) error {
	if len(b.shape) < 2 || !(l.Momentum >= 0 && l.Momentum <= 1) {
		return fmt.Errorf("a momentum of %v over an input of shape %v; want a number from 0 to 1", l.Momentum, b.shape[1:])
	}
	if l.Momentum == 0 {
		l.Momentum = 0.1
	}
	n := b.shape[1]
	ones := func() []float64 { return slices.Repeat([]float64{1}, n) }
	b.op("BatchNormalization", []*onnx.Attribute{floatAttrOf("epsilon", 1e-5), floatAttrOf("momentum", float32(1-l.Momentum))},
		b.at, b.parameter("weight", ones(), n), b.parameter("bias", make([]float64, n), n),
		b.parameter("running_mean", make([]float64, n), n), b.parameter("running_var", ones(), n))
	return nil
}

// Dropout sets elements to zero with probability Ratio in training, and divides the
// others by 1−Ratio. Outside of training it does nothing.
type Dropout struct{ Ratio float64 }

func (l Dropout) build(b *builder) error {
	if !(l.Ratio >= 0 && l.Ratio < 1) {
		return fmt.Errorf("a ratio of %v; want at least 0 and below 1", l.Ratio)
	}
	b.op("Dropout", nil, b.at, b.scalar(l.Ratio))
	return nil
}

// Residual adds its input to the output of Layers, which must have as many
// elements.
type Residual struct{ Layers []Layer }

func (l Residual) build(b *builder) error {
	from, shape := b.at, b.shape
	if err := b.add(l.Layers...); err != nil {
		return err
	}
	if graph.Product(shape) != graph.Product(b.shape) {
		return fmt.Errorf("its layers turn shape %v into %v", shape[1:], b.shape[1:])
	}
	b.layer = b.unique("Sum")
	b.op("Add", nil, from, b.at)
	return nil
}
