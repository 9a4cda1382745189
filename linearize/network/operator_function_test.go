package network_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// numericCases are the cases of functions, reductions, resizing and moving pixels.
func numericCases() []operatorCase {
	return slices.Concat(functionCases(), reductionCases(), blockCases(), interpolationCases(), einsumCases(), normalizerCases(), quantizeCases())
}

// functionCases are elementwise functions of trigonometry, and those with jumps
// or thresholds.
func functionCases() []operatorCase {
	var all []operatorCase
	add := func(name string, opset int64, build func(g *graph) string) {
		all = append(all, operatorCase{name: name, opset: opset, dims: []int{2, 3}, build: build})
	}
	wide := func(g *graph) string { return g.op("Mul", in(g.input(), g.scalar(2.5))) }
	inside := func(g *graph) string { return g.op("Mul", in(g.op("Tanh", in(g.input())), g.scalar(0.9))) }
	for _, kind := range []string{"Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh", "Softsign", "Celu", "ThresholdedRelu", "Shrink", "Swish"} {
		add(kind, 24, func(g *graph) string { return g.op(kind, in(wide(g))) })
	}
	for _, kind := range []string{"Tan", "Asin", "Acos", "Atanh"} {
		add(kind, 17, func(g *graph) string { return g.op(kind, in(inside(g))) })
	}
	add("Acosh", 17, func(g *graph) string { return g.op("Acosh", in(g.above(1.2))) })
	for _, kind := range []string{"Sign", "Floor", "Ceil", "Round"} {
		add(kind, 17, func(g *graph) string {
			x := wide(g)
			return g.op("Mul", in(x, g.op(kind, in(x))))
		})
		add(kind+"-of-constants", 17, func(g *graph) string {
			return g.op("Add", in(g.input(), g.op(kind, in(g.op("Constant", nil, floatsA("value_floats", -2.5, 0.5, 1.5))))))
		})
	}
	add("Floor-of-shape", 17, func(g *graph) string {
		x := g.input()
		shape := g.op("Cast", in(g.op("Shape", in(x))), intA("to", 11))
		return g.op("Reshape", in(x, g.op("Cast", in(g.op("Floor", in(shape))), intA("to", 7))))
	})
	add("Celu-alpha", 17, func(g *graph) string { return g.op("Celu", in(wide(g)), floatA("alpha", 0.3)) })
	add("ThresholdedRelu-alpha", 17, func(g *graph) string { return g.op("ThresholdedRelu", in(wide(g)), floatA("alpha", -0.7)) })
	add("Shrink-soft", 17, func(g *graph) string { return g.op("Shrink", in(wide(g)), floatA("lambd", 0.8), floatA("bias", 0.8)) })
	add("Swish-alpha", 24, func(g *graph) string { return g.op("Swish", in(wide(g)), floatA("alpha", -1.7)) })
	add("Mean-one", 17, func(g *graph) string { return g.op("Mean", in(g.input())) })
	add("Mean-broadcast", 17, func(g *graph) string { return g.op("Mean", in(g.input(), g.param(3), g.param(2, 1), "x")) })
	add("Mod-floats", 17, func(g *graph) string { return g.op("Mod", in(wide(g), g.positive(3)), intA("fmod", 1)) })
	add("Mod-floats-negative", 17, func(g *graph) string {
		return g.op("Mod", in(g.input(), g.op("Neg", in(g.positive(2, 1)))), intA("fmod", 1))
	})
	add("Pow-negative-bases", 17, func(g *graph) string {
		return g.op("Add", in(g.op("Pow", in(g.op("Neg", in(g.above(0.3))), g.scalar(-3))), g.op("Pow", in(wide(g), g.scalar(5)))))
	})
	add("Pow-whole-exponents", 17, func(g *graph) string {
		return g.op("Pow", in(wide(g), g.of([]float64{1, 2, 3}, 3)))
	})
	return all
}

func functionEvaluators() map[string]func(e *evaluator) []*tensor {
	return map[string]func(e *evaluator) []*tensor{
		"Einsum":         evalEinsum,
		"QuantizeLinear": evalQuantize, "DequantizeLinear": evalDequantize,

		"Sin":  plain(math.Sin),
		"Cos":  plain(math.Cos),
		"Tan":  plain(func(x float64) float64 { return math.Sin(x) / math.Cos(x) }),
		"Asin": plain(func(x float64) float64 { return math.Atan2(x, math.Sqrt(1-x*x)) }),
		"Acos": plain(func(x float64) float64 { return math.Atan2(math.Sqrt(1-x*x), x) }),
		"Atan": plain(func(x float64) float64 { return math.Atan2(x, 1) }),
		"Sinh": plain(func(x float64) float64 { return (math.Exp(x) - math.Exp(-x)) / 2 }),
		"Cosh": plain(func(x float64) float64 { return (math.Exp(x) + math.Exp(-x)) / 2 }),
		"Asinh": plain(func(x float64) float64 {
			return math.Copysign(math.Log(math.Abs(x)+math.Sqrt(x*x+1)), x)
		}),
		"Acosh":    plain(func(x float64) float64 { return math.Log(x + math.Sqrt(x*x-1)) }),
		"Atanh":    plain(func(x float64) float64 { return math.Log((1+x)/(1-x)) / 2 }),
		"Softsign": plain(func(x float64) float64 { return x / (1 + math.Abs(x)) }),
		"Sign": plain(func(x float64) float64 {
			if x == 0 {
				return 0
			}
			return x / math.Abs(x)
		}),
		"Floor": plain(math.Floor),
		"Ceil":  plain(math.Ceil),
		"Round": plain(func(x float64) float64 {
			whole := math.Floor(x)
			if part := x - whole; part > 0.5 || part == 0.5 && math.Mod(whole, 2) != 0 {
				whole++
			}
			return whole
		}),
		"Celu": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha := e.float("alpha", 1)
			return func(x float64) float64 { return math.Max(0, x) + math.Min(0, alpha*math.Expm1(x/alpha)) }
		}),
		"ThresholdedRelu": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha := e.float("alpha", 1)
			return func(x float64) float64 {
				if x > alpha {
					return x
				}
				return 0
			}
		}),
		"Shrink": unaryOp(func(e *evaluator) func(x float64) float64 {
			lambda, bias := e.float("lambd", 0.5), e.float("bias", 0)
			return func(x float64) float64 {
				if x < -lambda {
					return x + bias
				} else if x > lambda {
					return x - bias
				}
				return 0
			}
		}),
		"Swish": unaryOp(func(e *evaluator) func(x float64) float64 {
			alpha := e.float("alpha", 1)
			return func(x float64) float64 { return x / (1 + math.Exp(-alpha*x)) }
		}),
		"Mean": func(e *evaluator) []*tensor {
			n := float64(len(e.node.Inputs))
			sum := fold(func(a, b float64) float64 { return a + b })(e)[0]
			return one(from(sum.shape, false, func(idx []int) float64 { return sum.at(idx...) / n }))
		},
		"Mod": binaryOp(func(e *evaluator, ints bool) func(a, b float64) float64 {
			if e.int("fmod", 0) != 0 {
				return func(a, b float64) float64 { return a - b*math.Trunc(a/b) }
			}
			check(ints, "Mod of floats")
			return func(a, b float64) float64 { return a - b*math.Floor(a/b) }
		}),
	}
}

// TestWholeExponents checks that a stored exponent of whole numbers is a constant unless
// it is to be learnt.
func TestWholeExponents(t *testing.T) {
	for _, c := range []struct {
		exponents []float64
		learn     bool
		want      bool
	}{{[]float64{2, 3}, false, false}, {[]float64{2, 3}, true, true}, {[]float64{2, 2.5}, false, true}} {
		g := newGraph(17, 2)
		e := g.of(c.exponents, 2)
		m := g.output(g.op("Pow", in(g.op("Exp", in(g.op("MatMul", in("x", g.param(2, 2))))), e)))
		o := &network.ReadOptions{}
		if c.learn {
			o.Learn = []string{e}
		}
		net, err := readModel(m, o)
		require.NoError(t, err)
		found := slices.ContainsFunc(net.Params(), func(p linearize.Param) bool { return p.Name == e })
		require.Equal(t, c.want, found)
		if !c.want {
			require.Len(t, net.Warnings(), 1)
			require.ErrorContains(t, net.Warnings()[0], "exponent of whole numbers")
		}
	}
}
