package network_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// zeroPoints adds zero points of a type.
func (g *graph) zeroPoints(t onnx.DataType, shape []int, v ...int64) string {
	return g.initializer(&onnx.Tensor{Name: g.name("z"), Type: t, Ints: v}, shape)
}

// fakeQuantized quantizes x and back.
func (g *graph) fakeQuantized(x, scale, zero string, attrs ...*onnx.Attribute) string {
	return g.op("DequantizeLinear", in(g.op("QuantizeLinear", in(x, scale, zero), attrs...), scale, zero), attrs...)
}

// quantizeCases round to steps, where differences say nothing about derivatives.
func quantizeCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 19, dims: dims, build: build, straight: true})
	}
	m := []int{2, 3}
	for _, t := range []onnx.DataType{onnx.Int8, onnx.Uint8, onnx.Int16, onnx.Uint16} {
		add("QuantizeLinear-"+t.String(), m, func(g *graph) string {
			return g.fakeQuantized(g.input(), g.scalar(0.01), g.zeroPoints(t, nil, 3))
		})
	}
	add("QuantizeLinear-default", m, func(g *graph) string { return g.fakeQuantized(g.input(), g.scalar(0.01), "") })
	add("QuantizeLinear-output-type", m, func(g *graph) string {
		scale := g.scalar(0.01)
		return g.op("DequantizeLinear", in(g.op("QuantizeLinear", in(g.input(), scale), intA("output_dtype", int64(onnx.Int8))), scale))
	})
	add("QuantizeLinear-zero-in-a-node", m, func(g *graph) string {
		zero := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Type: onnx.Int8, Ints: []int64{-7}}))
		return g.fakeQuantized(g.input(), g.scalar(0.02), g.op("Identity", in(zero)))
	})
	add("QuantizeLinear-by-channel", []int{3, 2, 2}, func(g *graph) string {
		return g.fakeQuantized(g.input(), g.of([]float64{0.1, 0.003, 0.2}, 3), g.zeroPoints(onnx.Int8, []int{3}, 0, -5, 100))
	})
	add("QuantizeLinear-by-last-axis", m, func(g *graph) string {
		return g.fakeQuantized(g.input(), g.of([]float64{0.1, 0.003, 0.2}, 3), g.zeroPoints(onnx.Uint8, []int{3}, 100, 5, 128), intA("axis", -1))
	})
	add("QuantizeLinear-clipped", m, func(g *graph) string {
		// As PyTorch exports a range of seven bits.
		scale, zero := g.scalar(0.02), g.zeroPoints(onnx.Uint8, nil, 60)
		q := g.op("Clip", in(g.op("QuantizeLinear", in(g.input(), scale, zero)), g.zeroPoints(onnx.Uint8, nil, 0), g.zeroPoints(onnx.Uint8, nil, 127)))
		return g.op("DequantizeLinear", in(q, scale, zero))
	})
	add("QuantizeLinear-moved", m, func(g *graph) string {
		scale, zero := g.scalar(0.02), g.zeroPoints(onnx.Int8, nil, 0)
		q := g.op("Reshape", in(g.op("QuantizeLinear", in(g.input(), scale, zero)), g.ints(0, 6)))
		return g.op("DequantizeLinear", in(q, scale, zero))
	})
	add("QuantizeLinear-of-weights", []int{3}, func(g *graph) string {
		w := g.fakeQuantized(g.param(3, 2), g.of([]float64{0.01, 0.02}, 2), g.zeroPoints(onnx.Int8, []int{2}, 0, 0))
		return g.op("MatMul", in(g.input(), w))
	})
	add("DequantizeLinear-of-stored-weights", []int{3}, func(g *graph) string {
		w := g.zeroPoints(onnx.Int8, []int{3, 2}, 1, -2, 3, 127, -128, 6)
		scale := g.of([]float64{0.5, 0.25}, 2)
		return g.op("MatMul", in(g.input(), g.op("DequantizeLinear", in(w, scale, g.zeroPoints(onnx.Int8, []int{2}, 1, 0)))))
	})
	add("DequantizeLinear-of-stored-bias", []int{3}, func(g *graph) string {
		b := g.op("DequantizeLinear", in(g.zeroPoints(onnx.Int32, []int{2}, 1000, -70000), g.scalar(0.001)))
		return g.op("Gemm", in(g.input(), g.param(3, 2), b))
	})
	return all
}

func evalQuantization(e *evaluator, x *tensor) (scale, zero func(idx []int) float64) {
	at := func(i int) func(idx []int) float64 {
		if !e.has(i) {
			return func([]int) float64 { return 0 }
		}
		v := e.in(i)
		if len(v.data) == 1 {
			return func([]int) float64 { return v.data[0] }
		}
		ax := x.normalAxis(e.int("axis", 1))
		check(len(v.data) == x.shape[ax], "channels")
		return func(idx []int) float64 { return v.data[idx[ax]] }
	}
	check(e.int("block_size", 0) == 0, "blocks")
	return at(1), at(2)
}

func evalQuantize(e *evaluator) []*tensor {
	x := e.in(0)
	scale, zero := evalQuantization(e, x)
	t := onnx.DataType(e.int("output_dtype", int(onnx.Uint8)))
	if e.has(2) {
		t = 0
		name := e.node.Inputs[2]
		for n := e.producer(name); n != nil && n.OpType == "Identity"; n = e.producer(name) {
			name = n.Inputs[0]
		}
		if n := e.producer(name); n != nil && n.OpType == "Constant" && n.Attr("value") != nil {
			t = n.Attr("value").T.Type
		}
		for _, v := range e.graph.Initializers {
			if v.Name == name {
				t = v.Type
			}
		}
	}
	lo, hi := 0.0, 255.0
	switch t {
	case onnx.Int8:
		lo, hi = -128, 127
	case onnx.Int16:
		lo, hi = -32768, 32767
	case onnx.Uint16:
		hi = 65535
	default:
		check(t == onnx.Uint8, "type %v", t)
	}
	return one(from(x.shape, true, func(idx []int) float64 {
		return limit(math.RoundToEven(x.at(idx...)/scale(idx))+zero(idx), lo, hi)
	}))
}

func evalDequantize(e *evaluator) []*tensor {
	x := e.in(0)
	scale, zero := evalQuantization(e, x)
	return one(from(x.shape, false, func(idx []int) float64 { return (x.at(idx...) - zero(idx)) * scale(idx) }))
}

// TestStraightThrough checks the derivative of a pair of QuantizeLinear and
// DequantizeLinear: 1 where the rounded number is inside the range, its ends included,
// and 0 outside.
func TestStraightThrough(t *testing.T) {
	// Steps of ½ from −64 to 63.5, shifted by 10 steps: from −69 to 58.5.
	x := []float64{-80, -69.26, -69.24, -69, 0, 0.25, 0.75, 1.3, 58.5, 58.7, 58.76, 100}
	value := []float64{-69, -69, -69, -69, 0, 0, 1, 1.5, 58.5, 58.5, 58.5, 58.5}
	slope := []float64{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}
	g := newGraph(13, len(x))
	net, err := load(g.output(g.fakeQuantized(g.op("Add", in("x", g.of(x, len(x)))), g.scalar(0.5), g.zeroPoints(onnx.Int8, nil, 10))))
	require.NoError(t, err)
	require.Len(t, net.Warnings(), 1)
	require.ErrorContains(t, net.Warnings()[0], "straight through")
	f := testref.Must(net.Forward(t.Context(), mat.NewDense(1, len(x), nil)))(t)
	require.Equal(t, value, f.RawMatrix().Data)
	got, u := make([]float64, len(x)), mat.NewDense(1, len(x), ones(len(x)))
	require.NoError(t, net.VJP(t.Context(), got, mat.NewDense(1, len(x), nil), u))
	require.Equal(t, slope, got)
}

// TestStoredIntegers checks that weights stored as integers are constants, which a
// warning says, and parameters by their numbers if they are to be learnt.
func TestStoredIntegers(t *testing.T) {
	model := func(bias bool) (*onnx.Model, string) {
		g := newGraph(13, 3)
		w := g.zeroPoints(onnx.Int8, []int{3, 2}, 1, -2, 3, 127, -128, 6)
		y := g.op("MatMul", in("x", g.op("DequantizeLinear", in(w, g.of([]float64{0.5, 0.25}, 2), g.zeroPoints(onnx.Int8, []int{2}, 1, 0)))))
		if bias {
			y = g.op("Add", in(y, g.param(2)))
		}
		return g.output(y), w
	}
	m, w := model(true)
	net := testref.Must(readModel(m, nil))(t)
	require.Len(t, net.Params(), 1)
	require.Len(t, net.Warnings(), 1)
	require.ErrorContains(t, net.Warnings()[0], `"`+w+`": stored as integers with a scale, and taken for constants`)
	m, _ = model(false)
	_, err := readModel(m, nil)
	require.ErrorContains(t, err, "name them in ReadOptions.Learn")
	requireOneLine(t, err)
	for _, bias := range []bool{false, true} {
		m, w := model(bias)
		net := testref.Must(readModel(m, &network.ReadOptions{Learn: []string{w}}))(t)
		require.Equal(t, w, net.Params()[0].Name)
		require.Equal(t, []float64{0, -0.5, 1, 31.75, -64.5, 1.5}, net.Theta()[:6])
		require.Equal(t, "Outer", net.Describe().Params[0].Block)
		require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
	}
	_, err = readModel(m, &network.ReadOptions{Learn: []string{"z3"}})
	require.Error(t, err)
	requireOneLine(t, err)
}
