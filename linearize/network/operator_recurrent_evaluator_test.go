package network_test

import (
	"math"
	"slices"
	"strings"
)

func init() {
	evaluators["LSTM"] = func(e *evaluator) []*tensor {
		return evalRecurrent(e, 4, []string{"Sigmoid", "Tanh", "Tanh"}, lstmStep)
	}
	evaluators["GRU"] = func(e *evaluator) []*tensor { return evalRecurrent(e, 3, []string{"Sigmoid", "Tanh"}, gruStep) }
	evaluators["RNN"] = func(e *evaluator) []*tensor { return evalRecurrent(e, 1, []string{"Tanh"}, rnnStep) }
}

// A recurrentUnit is what hidden unit j of direction d of example n reads at
// position t: w and r return the products of a gate with the input and with a
// state, biases included in wb and rb.
type recurrentUnit struct {
	e       *evaluator
	f       []func(x float64) float64
	n, t, d int
	h, c    []float64 // states before, all units
}

// gate is row g·H+j of the weights times the input, and its bias.
func (u recurrentUnit) gate(g, j int) float64 {
	w := u.e.in(1)
	row, s := g*len(u.h)+j, 0.0
	for i := range w.shape[2] {
		s += w.at(u.d, row, i) * u.x(i)
	}
	if u.e.has(3) {
		s += u.e.in(3).at(u.d, row)
	}
	return s
}

func (u recurrentUnit) x(i int) float64 {
	if u.e.int("layout", 0) != 0 {
		return u.e.in(0).at(u.n, u.t, i)
	}
	return u.e.in(0).at(u.t, u.n, i)
}

// back is row g·H+j of the recurrent weights times a state, and its bias.
func (u recurrentUnit) back(g, j int, state []float64) float64 {
	r := u.e.in(2)
	row, s := g*len(u.h)+j, 0.0
	for i, v := range state {
		s += r.at(u.d, row, i) * v
	}
	if b := 3; u.e.has(b) {
		s += u.e.in(b).at(u.d, u.e.in(b).shape[1]/2+row)
	}
	return s
}

// peep is the weight of the memory in gate g of i, o, f.
func (u recurrentUnit) peep(g, j int) float64 {
	if !u.e.has(7) {
		return 0
	}
	return u.e.in(7).at(u.d, g*len(u.h)+j)
}

func lstmStep(u recurrentUnit, j int) (h, c float64) {
	in := u.f[0](u.gate(0, j) + u.back(0, j, u.h) + u.peep(0, j)*u.c[j])
	forget := u.f[0](u.gate(2, j) + u.back(2, j, u.h) + u.peep(2, j)*u.c[j])
	if u.e.int("input_forget", 0) != 0 {
		forget = 1 - in
	}
	c = forget*u.c[j] + in*u.f[1](u.gate(3, j)+u.back(3, j, u.h))
	return u.f[0](u.gate(1, j)+u.back(1, j, u.h)+u.peep(1, j)*c) * u.f[2](c), c
}

func gruStep(u recurrentUnit, j int) (h, c float64) {
	update := u.f[0](u.gate(0, j) + u.back(0, j, u.h))
	reset := make([]float64, len(u.h))
	for k := range reset {
		reset[k] = u.f[0](u.gate(1, k) + u.back(1, k, u.h))
	}
	var candidate float64
	if u.e.int("linear_before_reset", 0) != 0 {
		candidate = u.f[1](u.gate(2, j) + reset[j]*u.back(2, j, u.h))
	} else {
		state := make([]float64, len(u.h))
		for k := range state {
			state[k] = reset[k] * u.h[k]
		}
		candidate = u.f[1](u.gate(2, j) + u.back(2, j, state))
	}
	return (1-update)*candidate + update*u.h[j], 0
}

func rnnStep(u recurrentUnit, j int) (h, c float64) {
	return u.f[0](u.gate(0, j) + u.back(0, j, u.h)), 0
}

// evalRecurrent runs a recurrent layer, unit by unit.
func evalRecurrent(e *evaluator, gates int, defaults []string, step func(u recurrentUnit, j int) (h, c float64)) []*tensor {
	direction := e.text("direction", "forward")
	check(slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction), "direction")
	dirs := 1
	if direction == "bidirectional" {
		dirs = 2
	}
	x := e.in(0)
	check(x.rank() == 3 && e.in(1).rank() == 3 && e.in(2).rank() == 3, "ranks")
	steps, batch, first := x.shape[0], x.shape[1], e.int("layout", 0) != 0
	if first {
		steps, batch = batch, steps
	}
	hidden := e.in(2).shape[2]
	check(e.int("hidden_size", hidden) == hidden, "hidden_size")
	check(slices.Equal(e.in(1).shape, []int{dirs, gates * hidden, x.shape[2]}), "W %v", e.in(1).shape)
	check(slices.Equal(e.in(2).shape, []int{dirs, gates * hidden, hidden}), "R %v", e.in(2).shape)
	check(!e.has(3) || slices.Equal(e.in(3).shape, []int{dirs, 2 * gates * hidden}), "B")
	check(!e.has(7) || slices.Equal(e.in(7).shape, []int{dirs, 3 * hidden}), "P")
	check(!e.has(4) || slices.Equal(e.in(4).shape, []int{batch}), "sequence_lens")
	functions := recurrentFunctions(e, dirs, defaults)
	y, yh, yc := newTensor([]int{steps, dirs, batch, hidden}), newTensor([]int{dirs, batch, hidden}), newTensor([]int{dirs, batch, hidden})
	for d := range dirs {
		for n := range batch {
			length := steps
			if e.has(4) {
				length = e.in(4).ints()[n]
			}
			check(length > 0 && length <= steps, "length %d", length)
			h, c := initialOf(e, 5, d, n, dirs, batch, hidden), initialOf(e, 6, d, n, dirs, batch, hidden)
			for k := range length {
				t := k
				if d == 1 || direction == "reverse" {
					t = length - 1 - k
				}
				u := recurrentUnit{e: e, f: functions[d], n: n, t: t, d: d, h: slices.Clone(h), c: slices.Clone(c)}
				for j := range hidden {
					h[j], c[j] = step(u, j)
					y.set(h[j], t, d, n, j)
				}
			}
			for j := range hidden {
				yh.set(h[j], d, n, j)
				yc.set(c[j], d, n, j)
			}
		}
	}
	if first {
		y, yh, yc = transposed(y, []int{2, 0, 1, 3}), transposed(yh, []int{1, 0, 2}), transposed(yc, []int{1, 0, 2})
	}
	return []*tensor{y, yh, yc}
}

// initialOf reads the initial state of input i.
func initialOf(e *evaluator, i, d, n, dirs, batch, hidden int) []float64 {
	out := make([]float64, hidden)
	if !e.has(i) {
		return out
	}
	first := e.int("layout", 0) != 0
	if first {
		check(slices.Equal(e.in(i).shape, []int{batch, dirs, hidden}), "initial state %v", e.in(i).shape)
	} else {
		check(slices.Equal(e.in(i).shape, []int{dirs, batch, hidden}), "initial state %v", e.in(i).shape)
	}
	for j := range out {
		if first {
			out[j] = e.in(i).at(n, d, j)
		} else {
			out[j] = e.in(i).at(d, n, j)
		}
	}
	return out
}

// recurrentFunctions returns the activations of each direction.
func recurrentFunctions(e *evaluator, dirs int, defaults []string) [][]func(x float64) float64 {
	names := slices.Repeat(defaults, dirs)
	if a := e.node.Attr("activations"); a != nil {
		names = nil
		for _, s := range a.Strings {
			names = append(names, string(s))
		}
	}
	check(len(names) == dirs*len(defaults), "activations %v", names)
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return float64(float32(def))
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	var alphas, betas []float32
	if a := e.node.Attr("activation_alpha"); a != nil {
		alphas = a.Floats
	}
	if a := e.node.Attr("activation_beta"); a != nil {
		betas = a.Floats
	}
	clip := e.float("clip", math.MaxFloat32)
	var all []func(x float64) float64
	for _, name := range names {
		f := recurrentFunction(strings.ToLower(name), func(def float64) float64 { return next(&alphas, def) }, func(def float64) float64 { return next(&betas, def) })
		all = append(all, func(x float64) float64 { return f(limit(x, -clip, clip)) })
	}
	return slices.Collect(slices.Chunk(all, len(defaults)))
}

// recurrentFunction is the list of the operators' documentation.
func recurrentFunction(name string, alpha, beta func(def float64) float64) func(x float64) float64 {
	switch name {
	case "relu":
		return func(x float64) float64 { return math.Max(0, x) }
	case "tanh":
		return math.Tanh
	case "sigmoid":
		return func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	case "softsign":
		return func(x float64) float64 { return x / (1 + math.Abs(x)) }
	case "softplus":
		return func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	}
	switch a := 0.0; name {
	case "affine":
		a, b := alpha(1), beta(0)
		return func(x float64) float64 { return a*x + b }
	case "leakyrelu":
		a = alpha(0.01)
		return func(x float64) float64 { return math.Max(x, 0) + a*math.Min(x, 0) }
	case "thresholdedrelu":
		a = alpha(1)
		return func(x float64) float64 {
			if x >= a {
				return x
			}
			return 0
		}
	case "scaledtanh":
		a, b := alpha(math.NaN()), beta(math.NaN())
		return func(x float64) float64 { return a * math.Tanh(b*x) }
	case "hardsigmoid":
		a, b := alpha(0.2), beta(0.5)
		return func(x float64) float64 { return math.Min(math.Max(a*x+b, 0), 1) }
	case "elu":
		a = alpha(1)
		return func(x float64) float64 { return math.Max(x, 0) + a*math.Expm1(math.Min(x, 0)) }
	}
	check(false, "activation %q", name)
	return nil
}
