package network_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// reductionCases are the reductions other than the sum and the mean.
func reductionCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	m, image := []int{3, 4}, []int{2, 3, 4}
	for _, kind := range []string{"ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd"} {
		x := func(g *graph) string {
			if kind == "ReduceLogSum" {
				return g.above(0.2)
			}
			return g.input()
		}
		add(kind+"-attribute", 11, image, func(g *graph) string { return g.op(kind, in(x(g)), intsA("axes", 1, -1)) })
		add(kind+"-attribute-drop", 13, image, func(g *graph) string {
			return g.op(kind, in(x(g)), intsA("axes", 3, 2), intA("keepdims", 0))
		})
		add(kind+"-input", 18, image, func(g *graph) string { return g.op(kind, in(x(g), g.ints(-2))) })
		add(kind+"-input-drop", 20, m, func(g *graph) string { return g.op(kind, in(x(g), g.ints(1)), intA("keepdims", 0)) })
		add(kind+"-noop", 18, m, func(g *graph) string { return g.op(kind, in(x(g)), intA("noop_with_empty_axes", 1)) })
		add(kind+"-noop-empty", 18, m, func(g *graph) string {
			return g.op(kind, in(x(g), g.ints()), intA("noop_with_empty_axes", 1))
		})
		add(kind+"-parameters", 18, m, func(g *graph) string {
			return g.op("Mul", in(g.input(), g.op(kind, in(g.positive(2, 3)), intA("keepdims", 0))))
		})
		add(kind+"-time-first", 13, m, func(g *graph) string {
			y := g.op("Transpose", in(x(g)), intsA("perm", 1, 0, 2))
			return g.op(kind, in(y), intsA("axes", 0), intA("keepdims", 0))
		})
	}
	add("ReduceProd-zeros", 13, []int{4, 3}, func(g *graph) string {
		zeros := []float64{1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1} // none, two and none in a column
		return g.op("ReduceProd", in(g.op("Mul", in(g.input(), g.op("Constant", nil, tensorA("value", &onnx.Tensor{Dims: []int64{4, 3}, Type: onnx.Double, Floats: zeros}))))), intsA("axes", 1))
	})
	add("ReduceProd-of-a-zero-parameter", 13, []int{3}, func(g *graph) string {
		return g.op("Mul", in("x", g.op("ReduceProd", in(g.of([]float64{2, 0, 3, -1.5}, 4)))))
	})
	add("ReduceLogSumExp-large", 13, m, func(g *graph) string {
		return g.op("ReduceLogSumExp", in(g.op("Add", in(g.input(), g.scalar(800)))), intsA("axes", 2))
	})
	return all
}

// blockCases move channels to pixels and back.
func blockCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	deep, flat := []int{8, 2, 3}, []int{3, 4, 6}
	add("DepthToSpace-default", 11, deep, func(g *graph) string { return g.op("DepthToSpace", in(g.input()), intA("blocksize", 2)) })
	for _, mode := range []string{"DCR", "CRD"} {
		add("DepthToSpace-"+mode, 13, deep, func(g *graph) string {
			return g.op("DepthToSpace", in(g.input()), intA("blocksize", 2), textA("mode", mode))
		})
	}
	add("DepthToSpace-blocks-of-3", 13, []int{9, 1, 2}, func(g *graph) string {
		return g.op("DepthToSpace", in(g.input()), intA("blocksize", 3), textA("mode", "CRD"))
	})
	add("SpaceToDepth", 13, flat, func(g *graph) string { return g.op("SpaceToDepth", in(g.input()), intA("blocksize", 2)) })
	add("SpaceToDepth-and-back", 13, flat, func(g *graph) string {
		y := g.op("Tanh", in(g.op("SpaceToDepth", in(g.input()), intA("blocksize", 2))))
		return g.op("DepthToSpace", in(y), intA("blocksize", 2))
	})
	return all
}

// normalizerCases are normalizations by norms and pools that take one.
func normalizerCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, dims []int, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: dims, build: build})
	}
	image := []int{5, 2, 3}
	for _, size := range []int64{1, 2, 3, 4, 9} {
		add(fmt.Sprintf("LRN-%d", size), 13, image, func(g *graph) string {
			return g.op("LRN", in(g.input()), intA("size", size), floatA("alpha", 0.7), floatA("beta", 0.6), floatA("bias", 1.3))
		})
	}
	add("LRN-default", 13, []int{4}, func(g *graph) string { return g.op("LRN", in(g.input()), intA("size", 3)) })
	add("LpNormalization-default", 13, image, func(g *graph) string { return g.op("LpNormalization", in(g.input())) })
	add("LpNormalization-one", 22, image, func(g *graph) string { return g.op("LpNormalization", in(g.input()), intA("p", 1), intA("axis", 1)) })
	add("LpNormalization-zeros", 22, []int{2, 2}, func(g *graph) string {
		mask := g.op("Unsqueeze", in(g.op("Constant", nil, floatsA("value_floats", 1, 0)), g.ints(1)))
		return g.op("LpNormalization", in(g.op("Mul", in(g.input(), mask))))
	})
	add("MeanVarianceNormalization", 13, image, func(g *graph) string {
		return g.op("MeanVarianceNormalization", in(g.input()), intsA("axes", 2, 3))
	})
	add("MeanVarianceNormalization-one-axis", 13, []int{3, 4}, func(g *graph) string {
		return g.op("MeanVarianceNormalization", in(g.input()), intsA("axes", -1))
	})
	for _, p := range []int64{1, 2, 3} {
		add(fmt.Sprintf("GlobalLpPool-%d", p), 13, image, func(g *graph) string { return g.op("GlobalLpPool", in(g.input()), intA("p", p)) })
		add(fmt.Sprintf("LpPool-%d", p), 13, []int{2, 4, 5}, func(g *graph) string {
			return g.op("LpPool", in(g.input()), intA("p", p), intsA("kernel_shape", 2, 3), intsA("strides", 2, 1), intsA("pads", 1, 0, 0, 1))
		})
	}
	add("LpPool-default", 18, []int{2, 6}, func(g *graph) string {
		return g.op("LpPool", in(g.input()), intsA("kernel_shape", 2), intsA("dilations", 2), intA("ceil_mode", 1), intsA("strides", 3))
	})
	return all
}

func reductionEvaluators() map[string]func(e *evaluator) []*tensor {
	reduced := func(f func(v []float64) float64) func(e *evaluator) []*tensor {
		return func(e *evaluator) []*tensor {
			if len(e.intsOr(1, "axes")) == 0 && e.int("noop_with_empty_axes", 0) != 0 {
				x := e.in(0)
				return one(from(x.shape, false, func(idx []int) float64 { return f([]float64{x.at(idx...)}) }))
			}
			return one(evalReduce(e, f))
		}
	}
	of := func(f func(x float64) float64, v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += f(x)
		}
		return sum
	}
	square := func(x float64) float64 { return x * x }
	return map[string]func(e *evaluator) []*tensor{
		"ReduceMax":       reduced(slices.Max[[]float64]),
		"ReduceMin":       reduced(slices.Min[[]float64]),
		"ReduceL1":        reduced(func(v []float64) float64 { return of(math.Abs, v) }),
		"ReduceL2":        reduced(func(v []float64) float64 { return math.Sqrt(of(square, v)) }),
		"ReduceLogSum":    reduced(func(v []float64) float64 { return math.Log(total(v)) }),
		"ReduceSumSquare": reduced(func(v []float64) float64 { return of(square, v) }),
		"ReduceProd": reduced(func(v []float64) float64 {
			product := 1.0
			for _, x := range v {
				product *= x
			}
			return product
		}),
		"ReduceLogSumExp": reduced(func(v []float64) float64 {
			return v[0] + math.Log(of(func(x float64) float64 { return math.Exp(x - v[0]) }, v))
		}),
		"LRN": func(e *evaluator) []*tensor {
			x, size := e.in(0), e.int("size", 0)
			check(x.rank() >= 2 && size > 0, "size")
			alpha, beta, bias := e.float("alpha", 1e-4), e.float("beta", 0.75), e.float("bias", 1)
			return one(from(x.shape, false, func(idx []int) float64 {
				sum := 0.0
				for ch := max(0, idx[1]-int(math.Floor(float64(size-1)/2))); ch <= min(x.shape[1]-1, idx[1]+int(math.Ceil(float64(size-1)/2))); ch++ {
					at := slices.Clone(idx)
					at[1] = ch
					sum += x.at(at...) * x.at(at...)
				}
				return x.at(idx...) / math.Pow(bias+alpha/float64(size)*sum, beta)
			}))
		},
		"LpNormalization": func(e *evaluator) []*tensor {
			x, p := e.in(0), float64(e.int("p", 2))
			ax := x.normalAxis(e.int("axis", -1))
			check(p == 1 || p == 2, "p")
			return one(from(x.shape, false, func(idx []int) float64 {
				sum := 0.0
				for k := range x.shape[ax] {
					at := slices.Clone(idx)
					at[ax] = k
					sum += math.Pow(math.Abs(x.at(at...)), p)
				}
				if sum == 0 {
					return 0
				}
				return x.at(idx...) / math.Pow(sum, 1/p)
			}))
		},
		"MeanVarianceNormalization": func(e *evaluator) []*tensor {
			x, drop := e.in(0), map[int]bool{}
			for _, a := range e.ints("axes", []int{0, 2, 3}) {
				drop[x.normalAxis(a)] = true
			}
			kept := slices.Clone(x.shape)
			for d := range kept {
				if drop[d] {
					kept[d] = 1
				}
			}
			groups := map[int][]float64{}
			each(x.shape, func(idx []int) {
				g := newTensor(kept).place(alignTo(kept, idx))
				groups[g] = append(groups[g], x.at(idx...))
			})
			return one(from(x.shape, false, func(idx []int) float64 {
				g := groups[newTensor(kept).place(alignTo(kept, idx))]
				mean, square := average(g), 0.0
				for _, v := range g {
					square += (v - mean) * (v - mean)
				}
				return (x.at(idx...) - mean) / (math.Sqrt(square/float64(len(g))) + float64(float32(1e-9)))
			}))
		},
		"GlobalLpPool": func(e *evaluator) []*tensor {
			return one(evalGlobal(e.in(0), norm(float64(e.int("p", 2)))))
		},
		"LpPool": func(e *evaluator) []*tensor {
			p := float64(e.int("p", 2))
			return one(e.pooled(func(w []float64, _ geometry, _, _ []int) float64 { return norm(p)(w) }))
		},
		"DepthToSpace": evalDepthToSpace,
		"SpaceToDepth": evalSpaceToDepth,
	}
}

func norm(p float64) func(v []float64) float64 {
	return func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += math.Pow(math.Abs(x), p)
		}
		return math.Pow(sum, 1/p)
	}
}

// evalDepthToSpace is the reshape, transpose, reshape of the documentation.
func evalDepthToSpace(e *evaluator) []*tensor {
	x, b := e.in(0), e.int("blocksize", 0)
	check(x.rank() == 4 && b > 0 && x.shape[1]%(b*b) == 0, "blocks")
	n, c, h, w := x.shape[0], x.shape[1]/(b*b), x.shape[2], x.shape[3]
	var y *tensor
	switch e.text("mode", "DCR") {
	case "DCR":
		y = transposed(x.with(n, b, b, c, h, w), []int{0, 3, 4, 1, 5, 2})
	case "CRD":
		y = transposed(x.with(n, c, b, b, h, w), []int{0, 1, 4, 2, 5, 3})
	default:
		check(false, "mode")
	}
	return one(y.with(n, c, h*b, w*b))
}

func evalSpaceToDepth(e *evaluator) []*tensor {
	x, b := e.in(0), e.int("blocksize", 0)
	check(x.rank() == 4 && b > 0 && x.shape[2]%b == 0 && x.shape[3]%b == 0, "blocks")
	n, c, h, w := x.shape[0], x.shape[1], x.shape[2]/b, x.shape[3]/b
	y := transposed(x.with(n, c, h, b, w, b), []int{0, 3, 5, 1, 2, 4})
	return one(y.with(n, b*b*c, h, w))
}
