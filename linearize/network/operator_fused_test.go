package network_test

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// fused adds a node of com.microsoft.
func (g *graph) fused(kind string, inputs []string, attrs ...*onnx.Attribute) string {
	return g.fusedMany(kind, 1, inputs, attrs...)[0]
}

func (g *graph) fusedMany(kind string, n int, inputs []string, attrs ...*onnx.Attribute) []string {
	y := g.many(kind, n, inputs, attrs...)
	g.model.Graph.Nodes[len(g.model.Graph.Nodes)-1].Domain = "com.microsoft"
	return y
}

func fusedCases() []operatorCase {
	var all []operatorCase
	add := func(name string, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: "Fused-" + name, opset: 17, dims: dims, build: build})
	}
	add("Gelu", []int{3}, func(g *graph) string { return g.fused("Gelu", in(g.input())) })
	add("FastGelu", []int{3}, func(g *graph) string {
		return g.fused("FastGelu", in(g.fused("FastGelu", in(g.input())), g.param(3)))
	})
	add("BiasGelu", []int{2, 3}, func(g *graph) string { return g.fused("BiasGelu", in(g.input(), g.param(3))) })
	add("QuickGelu", []int{3}, func(g *graph) string {
		return g.fused("QuickGelu", in(g.fused("QuickGelu", in(g.input()))), floatA("alpha", 0.75))
	})
	add("SkipLayerNormalization", []int{2, 3}, func(g *graph) string {
		x := g.input()
		y := g.fused("SkipLayerNormalization", in(x, "x", g.positive(3), g.param(3), g.param(3)), floatA("epsilon", 0.125))
		both := g.fusedMany("SkipLayerNormalization", 4, in(y, x, g.positive(3)))
		return g.op("Add", in(both[0], both[3]))
	})
	add("SkipSimplifiedLayerNormalization", []int{2, 3}, func(g *graph) string {
		x := g.input()
		both := g.fusedMany("SkipSimplifiedLayerNormalization", 4, in(x, "x", g.positive(3), g.param(3)), floatA("epsilon", 0.25))
		return g.op("Add", in(both[3], g.fused("SkipSimplifiedLayerNormalization", in(both[0], x, g.positive(3)))))
	})
	add("RMS norms", []int{2, 3}, func(g *graph) string {
		x := g.op("SimplifiedLayerNormalization", in(g.input(), g.positive(3)), intA("axis", -1), intA("stash_type", 1))
		return g.op("RMSNormalization", in(x, g.positive(2, 3)), intA("axis", 1), floatA("epsilon", 0.5))
	})
	add("FusedMatMul", []int{2, 3}, func(g *graph) string {
		x := g.input()
		y := g.fused("FusedMatMul", in(x, g.param(4, 3)), intA("transB", 1), floatA("alpha", 0.5))
		return g.fused("FusedMatMul", in(y, x), intA("transA", 1))
	})
	add("FusedMatMul-transposed batch", []int{2, 3}, func(g *graph) string {
		x := g.op("Transpose", in(g.input()), intsA("perm", 1, 0, 2)) // 2×N×3
		return g.fused("FusedMatMul", in(x, g.param(3, 2)), intA("transBatchA", 1))
	})
	for _, kind := range []string{"Relu", "Tanh", "LeakyRelu", "HardSigmoid", ""} {
		add("Gemm and "+kind, []int{3}, func(g *graph) string {
			attrs := []*onnx.Attribute{intA("transB", 1), floatA("alpha", 0.5), textA("activation", kind)}
			if kind == "LeakyRelu" || kind == "HardSigmoid" {
				attrs = append(attrs, floatA("activation_alpha", 0.125))
			}
			return g.fused("FusedGemm", in(g.input(), g.param(2, 3), g.param(2)), attrs...)
		})
	}
	add("Conv and sum", []int{2, 3, 3}, func(g *graph) string {
		x := g.input()
		y := g.fused("FusedConv", in(x, g.param(2, 2, 3, 3), g.param(2), "x"), intsA("pads", 1, 1, 1, 1), textA("activation", "Sigmoid"))
		y = g.fused("FusedConv", in(y, g.param(2, 2, 2, 2)), textA("activation", "Clip"), &onnx.Attribute{Name: "activation_params", Type: onnx.AttrFloats, Floats: []float32{-.25, 6}})
		return g.fused("FusedConv", in(y, g.param(1, 2, 1, 1)))
	})
	add("Attention", []int{3, 4}, func(g *graph) string {
		x := g.fused("Attention", in(g.input(), g.param(4, 12), g.param(12)), intA("num_heads", 2))
		return g.fused("Attention", in(x, g.param(4, 10), "", "", "", g.param(1, 2, 3, 3)), intA("num_heads", 2), intsA("qkv_hidden_sizes", 4, 4, 2), floatA("scale", 0.25), intA("unidirectional", 1))
	})
	add("MultiHeadAttention", []int{3, 4}, func(g *graph) string {
		x := g.input()
		y := g.fused("MultiHeadAttention", in(x, "x", g.op("Tanh", in(x)), g.param(12)), intA("num_heads", 2), intA("unidirectional", 1))
		heads := func(x string) string {
			return g.op("Transpose", in(g.op("Reshape", in(x, g.ints(0, 3, 2, 2)))), intsA("perm", 0, 2, 1, 3))
		}
		y = g.fused("MultiHeadAttention", in(y, heads(x), heads("x")), intA("num_heads", 2), floatA("scale", 2))
		return g.fused("MultiHeadAttention", in(y, x, g.op("MatMul", in(x, g.param(4, 2))), "", "", g.param(3, 3)), intA("num_heads", 1))
	})
	add("standard Attention", []int{3, 4}, func(g *graph) string {
		x := g.input()
		y := g.op("Attention", in(x, "x", g.op("MatMul", in(x, g.param(4, 2)))), intA("q_num_heads", 2), intA("kv_num_heads", 2), intA("is_causal", 1))
		heads := func(x string, size int64) string {
			return g.op("Transpose", in(g.op("Reshape", in(x, g.ints(0, 3, 2, size)))), intsA("perm", 0, 2, 1, 3))
		}
		y = g.op("Attention", in(heads(x, 2), heads(x, 2), heads(y, 1), g.param(3, 3)), floatA("scale", 0.5))
		return g.op("Flatten", in(y))
	})
	all = append(all, operatorCase{name: "Fused-EmbedLayerNormalization", opset: 17, dims: []int{3}, input: onnx.Int64, build: func(g *graph) string {
		zero := g.op("Mul", in("x", g.ints(0)))
		y := g.fusedMany("EmbedLayerNormalization", 3, in("x", zero, g.param(20, 4), g.param(5, 4), g.param(2, 4), g.positive(4), g.param(4)), floatA("epsilon", 0.125))
		z := g.fused("EmbedLayerNormalization", in("x", "", g.param(20, 4), g.param(5, 4), "", g.positive(4), g.param(4), "", zero))
		return g.op("Add", in(g.op("Add", in(y[0], y[2])), z))
	}})
	return all
}

func init() {
	gelu := func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
	plus := func(a, b float64) float64 { return a + b }
	add := func(e *evaluator, inputs ...int) *tensor {
		y := e.in(inputs[0])
		for _, i := range inputs[1:] {
			if e.has(i) {
				y = combine(y, e.in(i), plus)
			}
		}
		return y
	}
	mapped := func(x *tensor, f func(float64) float64) []*tensor {
		return one(from(x.shape, false, func(idx []int) float64 { return f(x.at(idx...)) }))
	}
	ms := func(kind string, do func(e *evaluator) []*tensor) { evaluators["com.microsoft."+kind] = do }
	ms("Gelu", func(e *evaluator) []*tensor { return mapped(e.in(0), gelu) })
	ms("BiasGelu", func(e *evaluator) []*tensor { return mapped(combine(e.in(0), e.in(1), plus), gelu) })
	ms("FastGelu", func(e *evaluator) []*tensor {
		return mapped(add(e, 0, 1), func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		})
	})
	ms("QuickGelu", func(e *evaluator) []*tensor {
		a := e.float("alpha", 1.702)
		return mapped(e.in(0), func(x float64) float64 { return x / (1 + math.Exp(-a*x)) })
	})
	// norm normalizes rows of n numbers, around their mean or not.
	norm := func(x *tensor, n int, centred bool, epsilon float64, gamma, beta *tensor) *tensor {
		y := newTensor(x.shape)
		for at := 0; at < len(x.data); at += n {
			row, mean, square := x.data[at:at+n], 0.0, 0.0
			for _, v := range row {
				mean += v / float64(n)
			}
			if !centred {
				mean = 0
			}
			for _, v := range row {
				square += (v - mean) * (v - mean) / float64(n)
			}
			for i, v := range row {
				y.data[at+i] = (v - mean) / math.Sqrt(square+epsilon)
			}
		}
		y = combine(y, gamma, func(a, b float64) float64 { return a * b })
		if beta != nil {
			y = combine(y, beta, plus)
		}
		return y
	}
	last := func(x *tensor) int {
		check(x.rank() > 0 && len(x.data) > 0, "rank")
		return x.shape[x.rank()-1]
	}
	optional := func(e *evaluator, i int) *tensor {
		if e.has(i) {
			return e.in(i)
		}
		return nil
	}
	ms("SkipLayerNormalization", func(e *evaluator) []*tensor {
		s := add(e, 0, 1, 4)
		return []*tensor{norm(s, last(s), true, e.float("epsilon", 1e-12), e.in(2), optional(e, 3)), nil, nil, s}
	})
	ms("SkipSimplifiedLayerNormalization", func(e *evaluator) []*tensor {
		s := add(e, 0, 1, 3)
		return []*tensor{norm(s, last(s), false, e.float("epsilon", 1e-12), e.in(2), nil), nil, nil, s}
	})
	rms := func(e *evaluator) []*tensor {
		x := e.in(0)
		n := size(x.shape[x.normalAxis(e.int("axis", -1)):])
		check(n > 0, "no elements")
		return one(norm(x, n, false, e.float("epsilon", 1e-5), e.in(1), nil))
	}
	evaluators["SimplifiedLayerNormalization"], evaluators["RMSNormalization"] = rms, rms
	ms("EmbedLayerNormalization", func(e *evaluator) []*tensor {
		ids, words, places := e.in(0), e.in(2), e.in(3)
		check(ids.rank() == 2 && words.rank() == 2 && places.rank() == 2 && places.shape[1] == words.shape[1], "shapes")
		s := from(append(slices.Clone(ids.shape), words.shape[1]), false, func(idx []int) float64 {
			at, segment := idx[1], 0.0
			if e.has(8) {
				at = int(e.in(8).broadcastAt(idx[:2]))
			}
			if e.has(4) {
				segment = e.in(4).at(int(e.in(1).at(idx[:2]...)), idx[2])
			}
			return words.at(int(ids.at(idx[:2]...)), idx[2]) + places.at(at, idx[2]) + segment
		})
		return []*tensor{norm(s, last(s), true, e.float("epsilon", 1e-12), e.in(5), e.in(6)), nil, s}
	})
	ms("FusedMatMul", func(e *evaluator) []*tensor {
		side := func(i int, which string) *tensor {
			v := e.in(i)
			r := v.rank()
			if r < 2 {
				return v
			}
			if e.int("transBatch"+which, 0) != 0 {
				perm := []int{}
				for d := 1; d < r-1; d++ {
					perm = append(perm, d)
				}
				v = transposed(v, append(perm, 0, r-1))
			}
			if e.int("trans"+which, 0) != 0 {
				perm := []int{}
				for d := range r - 2 {
					perm = append(perm, d)
				}
				v = transposed(v, append(perm, r-1, r-2))
			}
			return v
		}
		alpha := e.float("alpha", 1)
		return mapped(matrixProduct(side(0, "A"), side(1, "B")), func(x float64) float64 { return alpha * x })
	})
	activate := func(e *evaluator, x *tensor, params ...float64) []*tensor {
		get := func(i int, def float64) float64 {
			if i < len(params) {
				return params[i]
			}
			return float64(float32(def))
		}
		f := map[string]func(float64) float64{
			"": func(x float64) float64 { return x }, "Relu": func(x float64) float64 { return max(x, 0) }, "Tanh": math.Tanh,
			"Sigmoid":     func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
			"LeakyRelu":   func(x float64) float64 { return max(x, 0) + get(0, 0.01)*min(x, 0) },
			"HardSigmoid": func(x float64) float64 { return max(0, min(1, get(0, 0.2)*x+get(1, 0.5))) },
			"Clip":        func(x float64) float64 { return min(max(x, get(0, 0)), get(1, 0)) },
		}[e.text("activation", "")]
		check(f != nil, "activation")
		return mapped(x, f)
	}
	ms("FusedGemm", func(e *evaluator) []*tensor {
		var params []float64
		for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
			if a := e.node.Attr(name); a != nil {
				params = append(params, float64(a.F))
			}
		}
		return activate(e, evalGemm(e)[0], params...)
	})
	ms("FusedConv", func(e *evaluator) []*tensor {
		var params []float64
		if a := e.node.Attr("activation_params"); a != nil {
			for _, v := range a.Floats {
				params = append(params, float64(v))
			}
		}
		y := evalConv(e)[0]
		if e.has(3) {
			y = combine(y, e.in(3), plus)
		}
		return activate(e, y, params...)
	})

	// attend works on reads q(n, h, i, d) and so on, and writes N×queries×(heads·size).
	type read func(n, h, i, d int) float64
	attend := func(e *evaluator, batch, heads, queries, keys, size, vSize int, q, k, v read, bias *tensor, causal bool) *tensor {
		scale := 1 / math.Sqrt(float64(size))
		if s := e.float("scale", 0); s != 0 {
			scale = s
		}
		out := newTensor([]int{batch, queries, heads * vSize})
		each([]int{batch, heads, queries}, func(idx []int) {
			n, h, i := idx[0], idx[1], idx[2]
			sum, weights := 0.0, make([]float64, keys)
			for j := range keys {
				if causal && j > i {
					continue
				}
				score := 0.0
				for d := range size {
					score += q(n, h, i, d) * k(n, h, j, d)
				}
				score *= scale
				if bias != nil {
					score += bias.broadcastAt([]int{n, h, i, j})
				}
				weights[j] = math.Exp(score)
				sum += weights[j]
			}
			for d := range vSize {
				y := 0.0
				for j := range keys {
					y += weights[j] / sum * v(n, h, j, d)
				}
				out.set(y, n, i, h*vSize+d)
			}
		})
		return out
	}
	flat := func(x *tensor, first, size int) read {
		return func(n, h, i, d int) float64 { return x.at(n, i, first+h*size+d) }
	}
	apart := func(x *tensor) read { return func(n, h, i, d int) float64 { return x.at(n, h, i, d) } }
	ms("Attention", func(e *evaluator) []*tensor {
		x, w := e.in(0), e.in(1)
		check(x.rank() == 3 && w.rank() == 2 && !e.has(3) && !e.has(4), "inputs")
		all := matrixProduct(x, w)
		if e.has(2) {
			all = combine(all, e.in(2), plus)
		}
		sizes, heads := e.ints("qkv_hidden_sizes", []int{w.shape[1] / 3, w.shape[1] / 3, w.shape[1] / 3}), e.int("num_heads", 1)
		check(len(sizes) == 3 && heads > 0 && sizes[0]%heads == 0 && sizes[2]%heads == 0, "sizes")
		return one(attend(e, x.shape[0], heads, x.shape[1], x.shape[1], sizes[0]/heads, sizes[2]/heads,
			flat(all, 0, sizes[0]/heads), flat(all, sizes[0], sizes[1]/heads), flat(all, sizes[0]+sizes[1], sizes[2]/heads), optional(e, 5), e.int("unidirectional", 0) != 0))
	})
	ms("MultiHeadAttention", func(e *evaluator) []*tensor {
		q, k, v, heads := e.in(0), e.in(1), e.in(2), e.int("num_heads", 1)
		check(q.rank() == 3 && heads > 0 && q.shape[2]%heads == 0 && !e.has(4) && k.rank() == v.rank() && (k.rank() == 3 || k.rank() == 4), "inputs")
		d := q.shape[2]
		if k.rank() == 4 {
			return one(attend(e, q.shape[0], heads, q.shape[1], k.shape[2], d/heads, v.shape[3], flat(q, 0, d/heads), apart(k), apart(v), optional(e, 5), e.int("unidirectional", 0) != 0))
		}
		dv := v.shape[2]
		if e.has(3) {
			b := e.in(3)
			part := func(lo, hi int) *tensor { return &tensor{shape: []int{hi - lo}, data: b.data[lo:hi]} }
			check(len(b.data) == 2*d+dv, "bias")
			q, k, v = combine(q, part(0, d), plus), combine(k, part(d, 2*d), plus), combine(v, part(2*d, 2*d+dv), plus)
		}
		return one(attend(e, q.shape[0], heads, q.shape[1], k.shape[1], d/heads, dv/heads, flat(q, 0, d/heads), flat(k, 0, d/heads), flat(v, 0, dv/heads), optional(e, 5), e.int("unidirectional", 0) != 0))
	})
	evaluators["Attention"] = func(e *evaluator) []*tensor {
		q, k, v, causal := e.in(0), e.in(1), e.in(2), e.int("is_causal", 0) != 0
		if q.rank() == 3 {
			heads := e.int("q_num_heads", 1)
			check(heads > 0 && k.rank() == 3 && v.rank() == 3 && q.shape[2]%heads == 0 && v.shape[2]%heads == 0, "heads")
			size, vSize := q.shape[2]/heads, v.shape[2]/heads
			return one(attend(e, q.shape[0], heads, q.shape[1], k.shape[1], size, vSize, flat(q, 0, size), flat(k, 0, size), flat(v, 0, vSize), optional(e, 3), causal))
		}
		check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "ranks")
		y := attend(e, q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], apart(q), apart(k), apart(v), optional(e, 3), causal)
		return one(transposed(y.with(q.shape[0], q.shape[2], q.shape[1], v.shape[3]), []int{0, 2, 1, 3}))
	}
}
