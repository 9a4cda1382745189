package network_test

import "github.com/funcgp/funcgp/internal/onnx"

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
