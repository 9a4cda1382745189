package network_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
)

func productCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: 17, dims: dims, build: build})
	}
	v, m, c := []int{3}, []int{2, 3}, []int{2, 3, 4}
	gemm := func(name string, build func(g *graph) string) { add("Gemm-"+name, v, build) }
	gemm("plain", func(g *graph) string { return g.op("Gemm", in("x", g.param(3, 2))) })
	gemm("bias", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(2))) })
	gemm("bias-row", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(1, 2))) })
	gemm("bias-one", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(1))) })
	gemm("bias-column", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(1, 1))) })
	gemm("bias-scalar", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 2), g.scalar(1.5))) })
	gemm("one-unit-bias-scalar", func(g *graph) string { return g.op("Gemm", in(g.input(), g.param(3, 1), g.scalar(1.5))) })
	gemm("transB", func(g *graph) string {
		return g.op("Gemm", in(g.input(), g.param(2, 3), g.param(2)), intA("transB", 1))
	})
	gemm("alpha-beta", func(g *graph) string {
		return g.op("Gemm", in(g.input(), g.param(2, 3), g.param(2)), intA("transB", 1), floatA("alpha", 0.3), floatA("beta", -1.7))
	})
	gemm("alpha", func(g *graph) string {
		return g.op("Gemm", in(g.input(), g.param(3, 2), g.param(2)), floatA("alpha", 0.3))
	})
	gemm("beta-zero", func(g *graph) string {
		return g.op("Add", in(g.op("Gemm", in(g.input(), g.param(3, 2), g.param(2)), floatA("beta", 0)), g.param(2)))
	})
	gemm("transA", func(g *graph) string {
		xt := g.op("Transpose", in(g.input()), intsA("perm", 1, 0))
		return g.op("Gemm", in(xt, g.param(3, 2), g.param(2)), intA("transA", 1))
	})
	gemm("weight-first", func(g *graph) string {
		y := g.op("Gemm", in(g.param(2, 3), g.input(), g.param(2, 1)), intA("transB", 1))
		return g.op("Transpose", in(y))
	})
	gemm("weight-first-transA", func(g *graph) string {
		y := g.op("Gemm", in(g.param(3, 2), g.input()), intA("transA", 1), intA("transB", 1))
		return g.op("Transpose", in(y), intsA("perm", 1, 0))
	})
	gemm("both-from-input", func(g *graph) string {
		// (N,1,3) has no matrix form without its batch; scale the rows instead.
		w := g.op("Gemm", in(g.param(2, 3), g.param(3, 2)))
		return g.op("Gemm", in(g.op("Gemm", in(g.input(), g.param(3, 2))), w, g.param(2)))
	})
	gemm("bias-of-examples", func(g *graph) string {
		return g.op("Gemm", in(g.input(), g.param(3, 3), "x"), floatA("beta", 0.5))
	})
	gemm("positions", func(g *graph) string {
		// N·T rows: the batch is part of the first dimension.
		rows := g.op("Reshape", in(g.op("Gemm", in(g.input(), g.param(3, 4), g.param(4))), g.ints(-1, 2)))
		return g.op("Reshape", in(g.op("Gemm", in(rows, g.param(2, 3), g.param(3))), g.ints(-1, 6)))
	})

	mul := func(name string, dims []int, build func(g *graph) string) { add("MatMul-"+name, dims, build) }
	mul("2x2", v, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(3, 2))) })
	mul("2x1", v, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(3))) })
	mul("1x2", v, func(g *graph) string {
		return g.op("MatMul", in(g.param(3), g.op("Transpose", in(g.input()))))
	})
	mul("2x3", v, func(g *graph) string {
		return g.op("Transpose", in(g.op("MatMul", in(g.input(), g.param(2, 3, 2)))), intsA("perm", 1, 0, 2))
	})
	mul("3x1", m, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(3))) })
	mul("1x3", m, func(g *graph) string { return g.op("MatMul", in(g.param(2), g.input())) })
	mul("3x2", m, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(3, 4))) })
	mul("2x3-left", m, func(g *graph) string { return g.op("MatMul", in(g.param(4, 2), g.input())) })
	mul("3x3", m, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(1, 3, 2))) })
	mul("4x2", c, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(4, 2))) })
	mul("4x3", c, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(2, 4, 2))) })
	mul("4x4", c, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(1, 2, 4, 3))) })
	mul("4x4-left", c, func(g *graph) string { return g.op("MatMul", in(g.param(1, 1, 2, 3), g.input())) })
	mul("broadcast-heads", []int{1, 3, 4}, func(g *graph) string { return g.op("MatMul", in(g.input(), g.param(2, 4, 2))) })
	mul("examples-by-examples", m, func(g *graph) string {
		x := g.input()
		return g.op("MatMul", in(x, g.op("Transpose", in(g.op("Tanh", in(x))), intsA("perm", 0, 2, 1))))
	})
	mul("examples-by-vector-of-examples", m, func(g *graph) string {
		x := g.input()
		row := g.op("Slice", in(x, g.ints(0), g.ints(1), g.ints(1)))
		return g.op("MatMul", in(x, g.op("Transpose", in(row), intsA("perm", 0, 2, 1))))
	})
	mul("parameters", v, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("MatMul", in(g.param(3, 2), g.param(2, 4)))))
	})
	mul("parameters-1x1", v, func(g *graph) string {
		return g.op("Mul", in(g.input(), g.op("MatMul", in(g.param(3), g.param(3)))))
	})
	mul("bias-fused", v, func(g *graph) string {
		return g.op("Add", in(g.op("MatMul", in(g.input(), g.param(3, 2))), g.param(2)))
	})
	mul("bias-fused-first", m, func(g *graph) string {
		return g.op("Add", in(g.param(2), g.op("MatMul", in(g.input(), g.param(3, 2)))))
	})
	mul("bias-not-alone", v, func(g *graph) string {
		z := g.op("MatMul", in(g.input(), g.param(3, 2)))
		return g.op("Add", in(g.op("Add", in(z, g.param(2))), g.op("Tanh", in(z))))
	})
	mul("bias-behind-identity", v, func(g *graph) string {
		z := g.op("MatMul", in(g.input(), g.param(3, 2)))
		same := g.op("Identity", in(z))
		return g.op("Add", in(g.op("Add", in(same, g.param(2))), g.op("Tanh", in(z))))
	})
	mul("bias-behind-reshape", v, func(g *graph) string {
		z := g.op("MatMul", in(g.input(), g.param(3, 4)))
		same := g.op("Reshape", in(z, g.ints(-1, 4)))
		return g.op("Add", in(g.op("Add", in(same, g.param(4))), g.op("Tanh", in(z))))
	})
	mul("bias-computed", v, func(g *graph) string {
		z := g.op("MatMul", in(g.input(), g.param(3, 2)))
		return g.op("Add", in(z, g.op("Mul", in(g.param(2), g.param(2)))))
	})
	mul("bias-matrix", m, func(g *graph) string {
		return g.op("Add", in(g.op("MatMul", in(g.input(), g.param(3, 2))), g.param(2, 2)))
	})
	mul("weight-transposed", v, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("Transpose", in(g.param(2, 3)), intsA("perm", 1, 0))))
	})
	mul("weight-transposed-twice", v, func(g *graph) string {
		once := g.op("Transpose", in(g.param(3, 2)), intsA("perm", 1, 0))
		return g.op("MatMul", in(g.input(), g.op("Transpose", in(once))))
	})
	mul("weight-squeezed", v, func(g *graph) string {
		return g.op("MatMul", in(g.input(), g.op("Squeeze", in(g.param(1, 3, 2), g.ints(0)))))
	})
	add("attention", []int{3, 4}, attention)
	add("attention-time-first", []int{3, 4}, attentionTimeFirst)
	return all
}

// attention is self-attention with two heads over three positions.
func attention(g *graph) string {
	x := g.input()
	heads := func(perm ...int64) string {
		y := g.op("Add", in(g.op("MatMul", in(x, g.spread(0, 0.5, 4, 4))), g.param(4)))
		y = g.op("Reshape", in(y, g.ints(0, 0, 2, 2)))
		return g.op("Transpose", in(y), intsA("perm", perm...))
	}
	q, k, v := heads(0, 2, 1, 3), heads(0, 2, 3, 1), heads(0, 2, 1, 3)
	score := g.op("Div", in(g.op("MatMul", in(q, k)), g.scalar(1.4142)))
	y := g.op("MatMul", in(g.op("Softmax", in(score), intA("axis", -1)), v))
	y = g.op("Transpose", in(y), intsA("perm", 0, 2, 1, 3))
	y = g.op("Reshape", in(y, g.ints(0, 0, 4)))
	return g.op("Add", in(g.op("MatMul", in(y, g.spread(0, 0.5, 4, 4))), x))
}

// attentionTimeFirst moves the batch to the second dimension, T×N×D, and
// folds the heads into it, as PyTorch's MultiheadAttention does.
func attentionTimeFirst(g *graph) string {
	x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
	head := func() string {
		y := g.op("MatMul", in(x, g.spread(0, 0.5, 4, 4)))
		n := g.op("Gather", in(g.op("Shape", in(x)), g.int(1)), intA("axis", 0))
		both := g.op("Unsqueeze", in(g.op("Mul", in(n, g.int(2))), g.ints(0)))
		shape := g.op("Concat", in(g.ints(3), both, g.ints(2)), intA("axis", 0))
		y = g.op("Reshape", in(y, shape))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}
	q, k, v := head(), head(), head()
	score := g.op("MatMul", in(q, g.op("Transpose", in(k), intsA("perm", 0, 2, 1))))
	y := g.op("MatMul", in(g.op("Softmax", in(score), intA("axis", 2)), v))
	y = g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	y = g.op("Reshape", in(y, g.ints(-1, 4))) // T·N rows
	y = g.op("Gemm", in(y, g.spread(0, 0.5, 4, 2), g.param(2)))
	y = g.op("Reshape", in(y, g.ints(3, -1, 2)))
	return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
}

// sharingCases use one tensor in several ways.
func sharingCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: "shared-" + name, opset: 17, dims: dims, build: build})
	}
	v := []int{3}
	add("weight-twice", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3, 3)
		return g.op("MatMul", in(g.op("Tanh", in(g.op("MatMul", in(g.input(), w)))), w))
	})
	add("weight-and-transpose", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3, 2)
		h := g.op("Tanh", in(g.op("MatMul", in(g.input(), w))))
		return g.op("MatMul", in(h, g.op("Transpose", in(w))))
	})
	add("transpose-twice", v, func(g *graph) string {
		w := g.op("Transpose", in(g.spread(0, 0.5, 3, 3)))
		return g.op("MatMul", in(g.op("Tanh", in(g.op("MatMul", in(g.input(), w)))), w))
	})
	add("identity-of-weight", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3, 3)
		a, b := g.op("Identity", in(w)), g.op("Identity", in(w))
		return g.op("MatMul", in(g.op("Tanh", in(g.op("MatMul", in(g.input(), a)))), b))
	})
	add("slices-of-one-identity", v, func(g *graph) string {
		// Both slices take the whole of one renamed weight.
		w := g.op("Identity", in(g.spread(0, 0.5, 3, 3)))
		a := g.op("Slice", in(w, g.ints(0), g.ints(3)))
		b := g.op("Slice", in(w, g.ints(0), g.ints(100)))
		return g.op("MatMul", in(g.op("Tanh", in(g.op("MatMul", in(g.input(), a)))), b))
	})
	add("sums-of-one-weight", v, func(g *graph) string {
		w := g.op("Max", in(g.spread(0, 0.5, 3, 3)))
		a, b := g.op("Sum", in(w)), g.op("Sum", in(w))
		return g.op("MatMul", in(g.op("Tanh", in(g.op("MatMul", in(g.input(), a)))), b))
	})
	add("weight-as-bias", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3)
		return g.op("Add", in(g.op("Mul", in(g.op("MatMul", in(g.input(), g.param(3, 3))), w)), w))
	})
	add("bias-twice", v, func(g *graph) string {
		b := g.param(2)
		h := g.op("Tanh", in(g.op("Gemm", in(g.input(), g.param(3, 2), b))))
		return g.op("Gemm", in(h, g.param(2, 2), b))
	})
	add("weight-by-itself", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3, 3)
		return g.op("MatMul", in(g.input(), g.op("MatMul", in(w, w))))
	})
	add("gemm-weight-is-bias", v, func(g *graph) string {
		w := g.spread(0, 0.5, 3, 3)
		x := g.op("MatMul", in(w, g.op("Transpose", in(g.input()))))
		return g.op("Transpose", in(x))
	})
	add("weight-norm", v, func(g *graph) string {
		// w = s·d/‖d‖ row by row, as torch.nn.utils.weight_norm exports it.
		d, s := g.param(2, 3), g.param(2, 1)
		square := g.op("ReduceSum", in(g.op("Mul", in(d, d)), g.ints(1)), intA("keepdims", 1))
		w := g.op("Mul", in(d, g.op("Div", in(s, g.op("Sqrt", in(square))))))
		return g.op("Gemm", in(g.input(), w, g.param(2)), intA("transB", 1))
	})
	add("conv-twice", []int{2, 4}, func(g *graph) string {
		w, b := g.spread(0, 0.5, 2, 2, 3), g.param(2)
		h := g.op("Tanh", in(g.op("Conv", in(g.input(), w, b), intsA("pads", 1, 1))))
		return g.op("Conv", in(h, w, b), intsA("pads", 1, 1))
	})
	add("conv-weight-computed", []int{2, 4}, func(g *graph) string {
		w := g.op("Mul", in(g.spread(0, 0.5, 2, 2, 3), g.param(2, 1, 1)))
		return g.op("Conv", in(g.input(), w, g.param(2)))
	})
	add("conv-bias-of-dense", []int{2, 4}, func(g *graph) string {
		b := g.param(2)
		h := g.op("Conv", in(g.input(), g.param(2, 2, 1), b))
		return g.op("Add", in(g.op("MatMul", in(h, g.param(4, 2))), b))
	})
	add("convtranspose-twice", []int{2, 4}, func(g *graph) string {
		w, b := g.spread(0, 0.5, 2, 2, 3), g.param(2)
		h := g.op("Tanh", in(g.op("ConvTranspose", in(g.input(), w, b))))
		return g.op("ConvTranspose", in(h, w, b), intsA("pads", 1, 1))
	})
	add("conv-on-parameters", []int{2, 4}, func(g *graph) string {
		// The convolved image is a parameter, as in a learned prior.
		y := g.op("Conv", in(g.param(1, 2, 4), g.param(2, 2, 1), g.param(2)))
		return g.op("Mul", in(g.input(), y))
	})
	add("convtranspose-on-parameters", []int{2, 4}, func(g *graph) string {
		y := g.op("ConvTranspose", in(g.param(1, 2, 4), g.param(2, 2, 1), g.param(2)))
		return g.op("Mul", in(g.input(), y))
	})
	add("residual", v, func(g *graph) string {
		x := g.input()
		h := g.op("Relu", in(g.op("Gemm", in(x, g.param(3, 3), g.param(3)))))
		return g.op("Add", in(x, g.op("Gemm", in(h, g.param(3, 3), g.param(3)))))
	})
	add("constants-folded", v, func(g *graph) string {
		c := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{3}, Type: onnx.Float, Floats: []float64{1, 2, 3}}))
		s := g.op("Exp", in(g.op("Neg", in(g.op("Div", in(c, g.scalar(3)))))))
		return g.op("Mul", in(g.input(), s))
	})
	add("parameter-chain", v, func(g *graph) string {
		s := g.op("Softplus", in(g.op("Mul", in(g.param(3), g.param(3)))))
		s = g.op("Concat", in(g.op("Slice", in(s, g.ints(1), g.ints(3))), g.op("Slice", in(s, g.ints(0), g.ints(1)))), intA("axis", 0))
		return g.op("Mul", in(g.input(), s))
	})
	add("unused-branch", v, func(g *graph) string {
		h := g.op("Gemm", in(g.input(), g.param(3, 4), g.param(4)))
		dead := g.op("Gemm", in(h, g.param(4, 2), g.param(2)))
		n := g.op("Gather", in(g.op("Shape", in(dead)), g.int(1)), intA("axis", 0)) // 2, whatever the weights
		shape := g.op("Concat", in(g.ints(-1), g.op("Unsqueeze", in(n, g.ints(0))), g.ints(2)), intA("axis", 0))
		return g.op("Reshape", in(h, shape))
	})
	add("normalized-parameters", v, func(g *graph) string {
		w := g.op("LayerNormalization", in(g.param(2, 3), g.param(3)))
		s := g.op("Softmax", in(w), intA("axis", 1))
		return g.op("MatMul", in(g.input(), g.op("Transpose", in(s))))
	})
	add("pooled-parameters", []int{1, 2, 2}, func(g *graph) string {
		a := g.op("MaxPool", in(g.param(1, 1, 4, 4)), intsA("kernel_shape", 2, 2), intsA("strides", 2, 2))
		b := g.op("AveragePool", in(g.param(1, 1, 3, 3)), intsA("kernel_shape", 2, 2))
		return g.op("Mul", in(g.op("Mul", in(g.input(), a)), b))
	})
	return all
}

func einsumCases() []operatorCase {
	var all []operatorCase
	add := func(name, equation string, dims []int, operands ...any) {
		all = append(all, operatorCase{name: "Einsum-" + name, opset: 17, dims: dims, build: func(g *graph) string {
			return g.einsum(equation, operands...)
		}})
	}
	v, m, c := []int{3}, []int{2, 3}, []int{2, 3, 4}
	add("layer", "bi,io->bo", v, "x", []int{3, 2})
	add("layer-out-by-in", "bi,oi->bo", v, "x", []int{2, 3})
	add("layer-first", "oi,bi->bo", v, []int{2, 3}, "x")
	add("layer-implicit", "bi,io", v, "x", []int{3, 2})
	add("layer-implicit-sorted", "zi,oi", v, "x", []int{2, 3}) // the result is o×z: the batch comes second
	all[len(all)-1].build = func(g *graph) string {
		return g.op("Transpose", in(g.einsum("zi,oi", "x", []int{2, 3})))
	}
	add("layer-spaces", " b i , i o -> b o ", v, "x", []int{3, 2})
	add("layer-of-positions", "bti,io->bto", m, "x", []int{3, 2})
	add("layer-of-positions-last", "bti,io->bot", m, "x", []int{3, 2})
	add("layer-ellipsis", "...i,oi->...o", c, "x", []int{2, 4})
	add("layer-heads", "bti,hdi->bthd", m, "x", []int{2, 2, 3})
	add("layer-heads-in-first", "bti,ihd->bhtd", m, "x", []int{3, 2, 2})
	add("layer-from-heads", "bthd,hdo->bto", c, "x", []int{3, 4, 2})
	add("layer-from-heads-swapped", "bthd,dho->bto", c, "x", []int{4, 3, 2})
	add("layer-from-heads-out-first", "bthd,ohd->bto", c, "x", []int{2, 3, 4})
	add("layer-vector", "bti,i->bt", m, "x", []int{3})
	add("layer-over-positions", "bti,ts->bsi", m, "x", []int{2, 4})
	add("weight-of-each-position", "bti,tio->bto", m, "x", []int{2, 3, 2})
	add("weight-between", "bti,oti->bto", m, "x", []int{4, 2, 3})
	add("weight-elementwise", "bti,ti->bti", m, "x", []int{2, 3})
	add("weight-outer", "bi,j->bij", v, "x", []int{2})
	add("weight-summed", "bi,ijk->bj", v, "x", []int{3, 2, 4})
	add("weight-diagonal", "bi,ii->bi", v, "x", []int{3, 3})
	add("weight-trace", "bi,jj->bi", v, "x", []int{4, 4})
	add("broadcast", "bti,ti->bti", m, "x", []int{1, 3})
	add("broadcast-batch", "bti,bti->bti", m, "x", []int{1, 2, 3})
	add("broadcast-batch-summed", "bti,bto->bio", m, "x", []int{1, 2, 2})
	add("ellipsis-broadcast", "...ti,...io->...to", []int{2, 2, 3}, "x", []int{2, 3, 2})
	add("ellipsis-lengths", "...i,...i->...", c, "x", []int{3, 4})
	add("ellipsis-implicit", "...ij,j", c, "x", []int{4})
	add("ellipsis-first", "i...,io->o...", m, "t", []int{2, 2}) // the axes of the ellipsis come first there
	all[len(all)-1].build = func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		y := g.op("Einsum", in(x, g.param(2, 2)), textA("equation", "i...,io->o..."))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}
	add("transpose", "btij->bjti", c, "x")
	add("layer-large", "bti,hdi->bhtd", []int{2, 20}, "x", []int{3, 5, 20})
	add("layer-large-in-first", "bthd,hdo->bto", []int{2, 4, 5}, "x", []int{4, 5, 15})
	add("sum", "bti->b", m, "x")
	add("sum-some", "btij->bj", c, "x")
	add("diagonal", "bii->bi", []int{3, 3}, "x")
	add("trace", "bii->b", []int{3, 3}, "x")
	add("trace-implicit", "bii", []int{3, 3}, "x") // b, since i occurs twice
	add("squares", "bi,bi->b", v, "x", "x")
	add("gram", "bti,bsi->bts", m, "x", "x")
	add("gram-of-features", "bti,btj->bij", m, "x", "x")
	add("outer", "bi,bj->bij", v, "x", "x")
	add("outer-summed", "bti,bsj->bij", m, "x", "x")
	add("three", "bi,ij,bj->b", v, "x", []int{3, 3}, "x")
	add("bilinear", "bi,oij,bj->bo", v, "x", []int{2, 3, 3}, "x")
	add("chain", "ij,jk,bk->bi", v, []int{2, 4}, []int{4, 3}, "x")
	add("low-rank", "bi,ir,or->bo", v, "x", []int{3, 2}, []int{4, 2})
	add("cubic", "bi,bi,bi->bi", v, "x", "x", "x")
	add("shared-by-three", "bti,ti,tj->bij", m, "x", []int{2, 3}, []int{2, 2})
	all = append(all, operatorCase{name: "Einsum-attention", opset: 17, dims: []int{3, 4}, build: func(g *graph) string {
		x := g.input()
		head := func() string {
			return g.op("Einsum", in(x, g.spread(0, 0.5, 4, 2, 2)), textA("equation", "btm,mhd->bthd"))
		}
		scores := g.op("Softmax", in(g.op("Einsum", in(head(), head()), textA("equation", "bthd,bshd->bhts"))), intA("axis", -1))
		y := g.op("Einsum", in(scores, head()), textA("equation", "bhts,bshd->bthd"))
		return g.op("Einsum", in(y, g.spread(0, 0.5, 2, 2, 2)), textA("equation", "bthd,hdm->btm"))
	}})
	all = append(all, operatorCase{name: "Einsum-tied", opset: 17, dims: v, build: func(g *graph) string {
		w := g.param(3, 3)
		y := g.op("Tanh", in(g.op("Einsum", in(g.input(), w), textA("equation", "bi,io->bo"))))
		return g.op("Einsum", in(y, w), textA("equation", "bi,oi->bo"))
	}}, operatorCase{name: "Einsum-bias", opset: 17, dims: m, build: func(g *graph) string {
		return g.op("Add", in(g.op("Einsum", in(g.input(), g.param(3, 2)), textA("equation", "bti,io->bto")), g.param(2)))
	}}, operatorCase{name: "Einsum-weight-transposed", opset: 17, dims: v, build: func(g *graph) string {
		w := g.op("Transpose", in(g.param(2, 3)), intsA("perm", 1, 0))
		return g.op("Einsum", in(g.input(), w), textA("equation", "bi,io->bo"))
	}}, operatorCase{name: "Einsum-time-first", opset: 17, dims: m, build: func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2))
		y := g.op("Einsum", in(x, g.param(3, 2)), textA("equation", "tbi,io->tbo"))
		return g.op("Transpose", in(y), intsA("perm", 1, 0, 2))
	}}, operatorCase{name: "Einsum-rows-of-positions", opset: 17, dims: m, build: func(g *graph) string {
		rows := g.op("Reshape", in(g.input(), g.ints(-1, 3)))
		y := g.op("Einsum", in(rows, g.param(3, 2)), textA("equation", "ni,io->no"))
		return g.op("Reshape", in(y, g.ints(-1, 2, 2)))
	}})
	return all
}

// einsumMixing are equations that mix examples or are wrong.
func einsumMixing() []badCase {
	var all []badCase
	add := func(name, want, equation string, dims []int, operands ...any) {
		all = append(all, badCase{name: "Einsum " + name, opset: 13, dims: dims, want: want, build: func(g *graph) string {
			return g.einsum(equation, operands...)
		}})
	}
	v, m := []int{3}, []int{2, 3}
	add("sums over the batch", mixes, "bi->i", v, "x")
	add("sums over the batch of two", mixes, "bi,bj->ij", v, "x", "x")
	add("pairs of examples", mixes, "bi,ci->bc", v, "x", "x")
	add("diagonal of the batch", mixes, "bb->b", []int{1}, "x")
	add("constants for five examples", mixes, "bi,bi->bi", v, "x", []int{5, 3})
	add("ellipsis over the batch", mixes, "...i,...i", v, "x", []int{4, 3})
	add("batch by an ellipsis and a letter", mixes, "...i,bi->b...", v, "x", "x")
	add("no equation", "terms", "", v, "x", []int{3})
	add("too few terms", "1 terms for 2 inputs", "bi->bi", v, "x", []int{3, 2})
	add("too few letters", "2 letters for 3 axes", "bi->b", m, "x")
	add("too many letters", "4 letters for 3 axes", "bijk->b", m, "x")
	add("other lengths", "lengths 3 and 4", "bi,io->bo", v, "x", []int{4, 2})
	add("a result from nowhere", "in no term", "bi->bj", v, "x")
	add("a label twice in the result", "twice", "bi->bii", v, "x")
	add("a digit", "no letter", "b1->b1", v, "x")
	add("two ellipses", "letters", "...i...->...", v, "x")
	add("an ellipsis left out", "ellipsis", "b...i->bi", m, "x")
	add("two arrows", "no letter", "bi->b->b", v, "x")
	add("a long diagonal", "diagonal", "bii->bi", []int{3, 1}, "x")
	return all
}

// einsum adds an Einsum of the input (by a name) and of parameters (by a shape).
func (g *graph) einsum(equation string, operands ...any) string {
	x, names := g.input(), []string{}
	for _, o := range operands {
		if shape, ok := o.([]int); ok {
			names = append(names, g.param(shape...))
		} else {
			names = append(names, x)
		}
	}
	return g.op("Einsum", names, textA("equation", equation))
}

// TestEinsumLayers checks that a stored weight whose summed axes are all before or all
// after the others has a structured Jacobian, a matrix of the right size.
func TestEinsumLayers(t *testing.T) {
	for _, c := range []struct {
		equation   string
		dims       []int
		weight     []int
		kind       string
		rows, cols int
	}{
		{"bi,io->bo", []int{20}, []int{20, 15}, "Outer", 20, 15},
		{"bi,oi->bo", []int{20}, []int{15, 20}, "Outer", 15, 20},
		{"bi,hdi->bhd", []int{20}, []int{3, 5, 20}, "Outer", 15, 20},
		{"bhd,hdo->bo", []int{4, 5}, []int{4, 5, 15}, "Outer", 20, 15},
		{"bhd,dho->bo", []int{4, 5}, []int{5, 4, 15}, "Outer", 20, 15},
		{"bhd,ohd->bo", []int{4, 5}, []int{15, 4, 5}, "Outer", 15, 20},
		{"bti,io->bto", []int{2, 20}, []int{20, 15}, "Conv", 20, 15},
		{"bti,hdi->bhtd", []int{2, 20}, []int{3, 5, 20}, "Conv", 15, 20},
		{"hdo,bthd->bto", []int{2, 4, 5}, []int{4, 5, 15}, "Conv", 20, 15},
		{"bi,i->b", []int{20}, []int{20}, "Outer", 20, 1},
		{"bti,tio->bto", []int{2, 20}, []int{2, 20, 7}, "Full", 2, 140},
		{"bhd,hod->bo", []int{4, 5}, []int{4, 15, 5}, "Full", 4, 75},
	} {
		t.Run(c.equation, func(t *testing.T) {
			g := newGraph(17, c.dims...)
			names := in("x", g.param(c.weight...))
			if strings.Index(c.equation, "b") > strings.Index(c.equation, ",") {
				slices.Reverse(names)
			}
			net := mustLoad(t, g.output(g.op("Einsum", names, textA("equation", c.equation))))
			require.Equal(t, c.kind, net.Describe().Params[0].Block)
			x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 3, size(c.dims))
			b, err := net.Linearize(t.Context(), x)
			require.NoError(t, err)
			require.Equal(t, [2]int{c.rows, c.cols}, [2]int{b.Blocks[0].Spans()[0].Rows, b.Blocks[0].Spans()[0].Cols})
			requireDifferences(t, net)
		})
	}
}

// evalEinsum sums over all labels at once.
func evalEinsum(e *evaluator) []*tensor {
	equation := strings.ReplaceAll(e.text("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	check(len(terms) == len(e.node.Inputs), "terms")
	// Digits stand for the axes of the ellipsis, 0 for the last.
	dots := ""
	for i, term := range terms {
		rank := e.in(i).rank()
		check(rank < 8, "rank")
		n := rank - len(strings.Replace(term, "...", "", 1))
		check(n >= 0 && (n == 0 || strings.Contains(term, "...")), "letters")
		digits := "76543210"[8-n:]
		if len(digits) > len(dots) {
			dots = digits
		}
		terms[i] = strings.Replace(term, "...", digits, 1)
	}
	all := strings.Join(terms, "")
	if explicit {
		check(dots == "" || strings.Contains(right, "..."), "ellipsis")
		right = strings.Replace(right, "...", dots, 1)
	} else {
		right = dots
		for r := 'A'; r <= 'z'; r++ {
			if strings.Count(all, string(r)) == 1 {
				right += string(r)
			}
		}
	}
	size := map[rune]int{}
	for i, term := range terms {
		for k, r := range term {
			check(e.in(i).shape[k] == e.in(i).shape[strings.IndexRune(term, r)], "diagonal")
			check(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z', "letter")
			d := e.in(i).shape[k]
			check(d > 0 && (d == 1 || size[r] <= 1 || d == size[r]), "lengths")
			size[r] = max(size[r], d)
		}
	}
	labels := right
	for _, r := range all {
		if !strings.ContainsRune(labels, r) {
			labels += string(r)
		}
	}
	shape, total := []int{}, 1
	for i, r := range labels {
		check(size[r] > 0 && strings.IndexRune(labels, r) == i, "result")
		shape = append(shape, size[r])
		total *= size[r]
		check(total <= evaluateLimit, "size")
	}
	out := newTensor(shape[:len(right)])
	each(shape, func(idx []int) {
		product := 1.0
		for i, term := range terms {
			at := []int{}
			for k, r := range term {
				at = append(at, min(idx[strings.IndexRune(labels, r)], e.in(i).shape[k]-1))
			}
			product *= e.in(i).at(at...)
		}
		out.add(product, idx[:len(right)]...)
	})
	return one(out)
}

func convolutionCases() []operatorCase {
	var all []operatorCase
	add := func(kind, name string, dims []int, weight []int, bias int, attrs ...*onnx.Attribute) {
		all = append(all, operatorCase{name: kind + "-" + name, opset: 13, dims: dims, build: func(g *graph) string {
			args := in(g.input(), g.param(weight...))
			if bias > 0 {
				args = append(args, g.param(bias))
			}
			return g.op(kind, args, attrs...)
		}})
	}
	flat, image, cube := []int{2, 7}, []int{2, 5, 4}, []int{2, 3, 4, 3}
	conv := func(name string, dims, weight []int, attrs ...*onnx.Attribute) {
		add("Conv", name, dims, weight, weight[0], attrs...)
	}
	conv("1d", flat, []int{3, 2, 3})
	conv("2d", image, []int{3, 2, 3, 2}, intsA("kernel_shape", 3, 2))
	conv("3d", cube, []int{2, 2, 2, 2, 3})
	conv("1x1", image, []int{3, 2, 1, 1})
	conv("whole", image, []int{3, 2, 5, 4})
	conv("strides", image, []int{3, 2, 2, 2}, intsA("strides", 2, 3))
	conv("strides-over-kernel", flat, []int{3, 2, 1}, intsA("strides", 3))
	conv("pads", image, []int{2, 2, 3, 3}, intsA("pads", 1, 2, 0, 1))
	conv("pads-beyond-kernel", flat, []int{2, 2, 2}, intsA("pads", 3, 4))
	conv("dilations", image, []int{2, 2, 2, 2}, intsA("dilations", 3, 2))
	conv("strides-pads-dilations", flat, []int{2, 2, 3}, intsA("dilations", 2), intsA("pads", 2, 1), intsA("strides", 2))
	conv("groups", []int{4, 5}, []int{6, 2, 3}, intA("group", 2))
	conv("depthwise", []int{3, 4, 4}, []int{3, 1, 2, 2}, intA("group", 3))
	conv("depthwise-multiplier", []int{2, 5}, []int{6, 1, 2}, intA("group", 2), intsA("strides", 2))
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"} {
		conv("auto-"+mode, image, []int{2, 2, 2, 3}, textA("auto_pad", mode))
		conv("auto-strides-"+mode, image, []int{2, 2, 3, 2}, textA("auto_pad", mode), intsA("strides", 2, 3))
		conv("auto-dilations-"+mode, flat, []int{2, 2, 2}, textA("auto_pad", mode), intsA("dilations", 3))
	}
	add("Conv", "no-bias", image, []int{2, 2, 2, 2}, 0)
	// More weights than output gradients: kept as factors, not as columns.
	add("Conv", "wide", []int{5, 3}, []int{7, 5, 3}, 7)

	up := func(name string, dims, weight []int, attrs ...*onnx.Attribute) {
		group := 1
		for _, a := range attrs {
			if a.Name == "group" {
				group = int(a.I)
			}
		}
		add("ConvTranspose", name, dims, weight, weight[1]*group, attrs...)
	}
	small, flatSmall := []int{2, 3, 2}, []int{2, 3}
	up("1d", flatSmall, []int{2, 3, 3})
	up("2d", small, []int{2, 3, 3, 2}, intsA("kernel_shape", 3, 2))
	up("3d", []int{1, 2, 3, 2}, []int{1, 2, 2, 1, 3})
	up("strides", small, []int{2, 2, 3, 2}, intsA("strides", 2, 3))
	up("pads", small, []int{2, 2, 3, 3}, intsA("pads", 1, 0, 1, 2))
	up("dilations", small, []int{2, 2, 2, 2}, intsA("dilations", 2, 3))
	up("groups", []int{4, 3}, []int{4, 2, 2}, intA("group", 2), intsA("strides", 2))
	up("output-padding", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_padding", 2, 1), intsA("pads", 1, 1, 1, 1))
	up("output-shape", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_shape", 8, 4))
	up("output-shape-odd", small, []int{2, 2, 3, 3}, intsA("strides", 3, 2), intsA("output_shape", 6, 2))
	up("output-shape-larger", small, []int{2, 2, 2, 2}, intsA("strides", 3, 2), intsA("output_shape", 10, 8))
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"} {
		up("auto-"+mode, small, []int{2, 2, 3, 3}, textA("auto_pad", mode), intsA("strides", 2, 2))
		up("auto-output-shape-"+mode, flatSmall, []int{2, 1, 4}, textA("auto_pad", mode), intsA("strides", 2), intsA("output_shape", 5))
	}
	up("wide", []int{5, 2}, []int{5, 7, 3})
	add("ConvTranspose", "no-bias", small, []int{2, 2, 2, 2}, 0)
	all = append(all,
		operatorCase{name: "Conv-frozen-weight", opset: 13, dims: image, build: func(g *graph) string {
			w := g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{1, 2, 1, 2}, Type: onnx.Float, Floats: []float64{1, -2, 0.5, 3}}))
			return g.op("Conv", in(g.input(), w, g.param(1)))
		}},
		operatorCase{name: "Conv-chain", opset: 13, dims: []int{1, 6, 6}, build: func(g *graph) string {
			h := g.op("Tanh", in(g.op("Conv", in("x", g.param(3, 1, 3, 3), g.param(3)), intsA("strides", 2, 2), intsA("pads", 1, 1, 1, 1))))
			h = g.op("Tanh", in(g.op("ConvTranspose", in(h, g.param(3, 2, 2, 2), g.param(2)), intsA("strides", 2, 2))))
			return g.op("Gemm", in(g.op("Flatten", in(h)), g.spread(0, 0.2, 72, 2), g.param(2)))
		}},
		operatorCase{name: "Conv-bias-from-scaled", opset: 13, dims: image, build: func(g *graph) string {
			return g.op("Conv", in(g.input(), g.param(2, 2, 2, 2), g.op("Mul", in(g.param(2), g.scalar(2)))))
		}})
	return all
}

func poolCases() []operatorCase {
	var all []operatorCase
	add := func(kind, name string, opset int64, dims []int, attrs ...*onnx.Attribute) {
		all = append(all, operatorCase{name: kind + "-" + name, opset: opset, dims: dims, build: func(g *graph) string { return g.op(kind, in(g.input()), attrs...) }})
	}
	flat, image := []int{2, 7}, []int{2, 5, 4}
	for _, kind := range []string{"MaxPool", "AveragePool"} {
		add(kind, "1d", 11, flat, intsA("kernel_shape", 3))
		add(kind, "2d", 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 1))
		add(kind, "3d", 11, []int{1, 3, 2, 4}, intsA("kernel_shape", 2, 2, 2), intsA("strides", 1, 1, 2))
		add(kind, "pads", 11, image, intsA("kernel_shape", 3, 3), intsA("pads", 1, 2, 2, 0))
		add(kind, "2x2", 11, image, intsA("kernel_shape", 2, 2), intsA("strides", 2, 2))
		add(kind, "2x2-pads", 11, image, intsA("kernel_shape", 2, 2), intsA("strides", 2, 2), intsA("pads", 1, 0, 0, 1))
		add(kind, "ceil", 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 2), intA("ceil_mode", 1))
		add(kind, "ceil-pads", 11, flat, intsA("kernel_shape", 3), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1))
		// The last window would start in the right padding: left out.
		add(kind, "ceil-dropped", 11, []int{1, 5}, intsA("kernel_shape", 2), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1))
		add(kind, "dilations", 19, flat, intsA("kernel_shape", 2), intsA("dilations", 3), intsA("strides", 2))
		for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID"} {
			add(kind, "auto-"+mode, 11, image, intsA("kernel_shape", 2, 3), intsA("strides", 2, 2), textA("auto_pad", mode))
		}
	}
	add("AveragePool", "include-pads", 11, image, intsA("kernel_shape", 3, 3), intsA("pads", 1, 2, 2, 0), intA("count_include_pad", 1))
	add("AveragePool", "include-pads-ceil", 11, flat, intsA("kernel_shape", 3), intsA("strides", 3), intsA("pads", 1, 1), intA("ceil_mode", 1), intA("count_include_pad", 1))
	add("AveragePool", "include-pads-auto", 11, image, intsA("kernel_shape", 3, 3), textA("auto_pad", "SAME_LOWER"), intA("count_include_pad", 1))
	add("GlobalAveragePool", "1d", 11, flat)
	add("GlobalAveragePool", "2d", 11, image)
	add("GlobalMaxPool", "2d", 11, image)
	add("GlobalMaxPool", "3d", 11, []int{2, 2, 2, 2})
	return all
}
