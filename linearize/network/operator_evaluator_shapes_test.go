package network_test

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

func evalDropout(e *evaluator) []*tensor {
	if e.has(2) {
		check(e.in(2).data[0] == 0 || e.in(1).data[0] == 0, "training")
	}
	return one(e.in(0))
}

func evalCast(e *evaluator) []*tensor {
	x, to := e.in(0), onnx.DataType(e.int("to", 0))
	check(to.IsFloat() || to.IsInt(), "to %v", to)
	return one(from(x.shape, to.IsInt(), func(idx []int) float64 {
		v := x.at(idx...)
		switch {
		case to == onnx.Bool && v != 0:
			return 1
		case to.IsInt():
			return math.Trunc(v)
		}
		return v
	}))
}

func evalConstant(e *evaluator) []*tensor {
	check(len(e.node.Attributes) == 1, "attributes")
	a := e.node.Attributes[0]
	out := &tensor{shape: []int{}}
	switch a.Name {
	case "value":
		return one(constantTensor(a.T))
	case "value_float":
		out.data = []float64{float64(a.F)}
	case "value_int":
		out.data, out.isInt = []float64{float64(a.I)}, true
	case "value_floats":
		for _, v := range a.Floats {
			out.data = append(out.data, float64(v))
		}
		out.shape = []int{len(out.data)}
	case "value_ints":
		for _, v := range a.Ints {
			out.data = append(out.data, float64(v))
		}
		out.shape, out.isInt = []int{len(out.data)}, true
	default:
		check(false, "attribute %s", a.Name)
	}
	return one(out)
}

func evalConstantOfShape(e *evaluator) []*tensor {
	check(e.in(0).rank() == 1, "rank")
	out := newTensor(e.in(0).ints())
	if a := e.node.Attr("value"); a != nil {
		v := constantTensor(a.T)
		out = out.filled(v.data[0])
		out.isInt = v.isInt
	}
	return one(out)
}

func evalShape(e *evaluator) []*tensor {
	shape := e.in(0).shape
	rank := len(shape)
	bound := func(v int) int {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	lo, hi := bound(e.int("start", 0)), bound(e.int("end", rank))
	out := &tensor{shape: []int{max(hi-lo, 0)}, isInt: true}
	for i := lo; i < hi; i++ {
		out.data = append(out.data, float64(shape[i]))
	}
	return one(out)
}

func evalRange(e *evaluator) []*tensor {
	var arg [3]float64
	for i := range arg {
		check(len(e.in(i).data) == 1, "input %d", i)
		arg[i] = e.in(i).data[0]
	}
	check(arg[2] != 0, "step")
	n := max(int(math.Ceil((arg[1]-arg[0])/arg[2])), 0)
	return one(from([]int{n}, e.in(0).isInt, func(idx []int) float64 { return arg[0] + float64(idx[0])*arg[2] }))
}

func evalFlatten(e *evaluator) []*tensor {
	x := e.in(0)
	ax := e.int("axis", 1)
	check(ax >= -x.rank() && ax <= x.rank(), "axis")
	if ax < 0 {
		ax += x.rank()
	}
	rows := 1
	for _, d := range x.shape[:ax] {
		rows *= d
	}
	return one(x.with(rows, len(x.data)/rows))
}

func evalReshape(e *evaluator) []*tensor {
	x := e.in(0)
	check(e.in(1).rank() == 1, "rank")
	return one(reshaped(x, e.in(1).ints(), e.int("allowzero", 0) != 0))
}

func reshaped(x *tensor, shape []int, allowZero bool) *tensor {
	shape = slices.Clone(shape)
	open, known := -1, 1
	for i, d := range shape {
		switch {
		case d == -1:
			check(open < 0, "two open dimensions")
			open = i
			continue
		case d == 0 && !allowZero:
			check(i < x.rank(), "dimension %d", i)
			shape[i] = x.shape[i]
		}
		check(shape[i] >= 0 && shape[i] <= evaluateLimit, "dimension %d", shape[i])
		known *= shape[i]
		check(known <= evaluateLimit, "shape")
	}
	if open >= 0 {
		check(known > 0 && len(x.data)%known == 0, "shape")
		shape[open] = len(x.data) / known
		known *= shape[open]
	}
	check(known == len(x.data), "%v to %v", x.shape, shape)
	return x.with(shape...)
}

func evalTranspose(e *evaluator) []*tensor {
	x := e.in(0)
	var reverse []int
	for i := range x.rank() {
		reverse = append(reverse, x.rank()-1-i)
	}
	return one(transposed(x, e.ints("perm", reverse)))
}

func evalSqueeze(e *evaluator) []*tensor {
	x, axes := e.in(0), e.intsOr(1, "axes")
	drop := map[int]bool{}
	for _, a := range axes {
		a = x.normalAxis(a)
		check(x.shape[a] == 1, "axis %d", a)
		drop[a] = true
	}
	shape := []int{}
	for i, d := range x.shape {
		if drop[i] || axes == nil && d == 1 {
			continue
		}
		shape = append(shape, d)
	}
	return one(x.with(shape...))
}

func evalUnsqueeze(e *evaluator) []*tensor {
	x, axes := e.in(0), e.intsOr(1, "axes")
	rank := x.rank() + len(axes)
	shape := make([]int, rank)
	for _, a := range axes {
		a = normalAxis(a, rank)
		check(shape[a] == 0, "twice")
		shape[a] = 1
	}
	from := 0
	for i := range shape {
		if shape[i] == 0 {
			shape[i] = x.shape[from]
			from++
		}
	}
	return one(x.with(shape...))
}

func evalConcat(e *evaluator) []*tensor {
	first := e.in(0)
	check(e.node.Attr("axis") != nil, "axis")
	ax := first.normalAxis(e.int("axis", 0))
	shape := slices.Clone(first.shape)
	for i := 1; i < len(e.node.Inputs); i++ {
		v := e.in(i)
		check(v.rank() == first.rank(), "rank")
		for d := range shape {
			check(d == ax || v.shape[d] == shape[d], "shapes")
		}
		shape[ax] += v.shape[ax]
	}
	return one(from(shape, first.isInt, func(idx []int) float64 {
		at := slices.Clone(idx)
		i := 0
		for ; at[ax] >= e.in(i).shape[ax]; i++ {
			at[ax] -= e.in(i).shape[ax]
		}
		return e.in(i).at(at...)
	}))
}

func evalSlice(e *evaluator) []*tensor {
	x := e.in(0)
	starts, ends, axes, steps := e.intsOr(1, "starts"), e.intsOr(2, "ends"), e.intsOr(3, "axes"), e.intsOr(4, "steps")
	check(len(starts) == len(ends), "lengths")
	for i := range starts {
		ax, by := i, 1
		if axes != nil {
			check(len(axes) == len(starts), "lengths")
			ax = axes[i]
		}
		if steps != nil {
			check(len(steps) == len(starts), "lengths")
			by = steps[i]
		}
		x = sliced(x, x.normalAxis(ax), starts[i], ends[i], by)
	}
	return one(x)
}

// sliced is Python's x[start:end:by] along an axis, but for a start before the
// first element, which ONNX moves to the first also where the step is negative.
func sliced(x *tensor, ax, start, end, by int) *tensor {
	n := x.shape[ax]
	check(by != 0, "step")
	lo, hi := 0, n
	if by < 0 {
		lo, hi = -1, n-1
	}
	bound := func(v int) int {
		if v < 0 {
			v += n
		}
		return min(max(v, lo), hi)
	}
	start, end = max(bound(start), 0), bound(end)
	var list []int
	for p := start; by > 0 && p < end || by < 0 && p > end; p += by {
		list = append(list, p)
	}
	return taken(x, ax, []int{len(list)}, list)
}

// taken replaces an axis by dimensions that list positions along it.
func taken(x *tensor, ax int, dims, list []int) *tensor {
	index := newTensor(dims)
	return from(slices.Concat(x.shape[:ax], dims, x.shape[ax+1:]), x.isInt, func(idx []int) float64 {
		p := list[index.place(idx[ax:ax+len(dims)])]
		return x.at(slices.Concat(idx[:ax], []int{p}, idx[ax+len(dims):])...)
	})
}

func evalSplit(e *evaluator) []*tensor {
	x := e.in(0)
	ax := x.normalAxis(e.int("axis", 0))
	sizes, n := e.intsOr(1, "split"), len(e.node.Outputs)
	if sizes == nil {
		each := (x.shape[ax] + n - 1) / n
		for at := 0; at < x.shape[ax]; at += each {
			sizes = append(sizes, min(each, x.shape[ax]-at))
		}
	}
	var out []*tensor
	at := 0
	for _, s := range sizes {
		check(s >= 0 && s <= x.shape[ax]-at, "sizes %v", sizes)
		out = append(out, sliced(x, ax, at, at+s, 1))
		at += s
	}
	check(at == x.shape[ax] && len(out) == n, "sizes %v", sizes)
	return out
}

func evalGather(e *evaluator) []*tensor {
	x, at := e.in(0), e.in(1)
	ax := x.normalAxis(e.int("axis", 0))
	list := at.ints()
	for i := range list {
		list[i] = normalAxis(list[i], x.shape[ax])
	}
	return one(taken(x, ax, at.shape, list))
}

func evalExpand(e *evaluator) []*tensor {
	x := e.in(0)
	shape := broadcastShapes(x.shape, e.in(1).ints())
	return one(from(shape, x.isInt, x.broadcastAt))
}

func evalPad(e *evaluator) []*tensor {
	x, pads, fill := e.in(0), e.intsOr(1, "pads"), e.float("value", 0)
	if e.has(2) {
		fill = e.in(2).data[0]
	}
	axes := []int{}
	for i := range x.rank() {
		axes = append(axes, i)
	}
	if e.has(3) {
		axes = e.in(3).ints()
	}
	check(len(pads) == 2*len(axes), "pads")
	begin, shape := make([]int, x.rank()), slices.Clone(x.shape)
	for i, a := range axes {
		a = x.normalAxis(a)
		begin[a] = pads[i]
		shape[a] += pads[i] + pads[len(axes)+i]
	}
	mode := e.text("mode", "constant")
	return one(from(shape, x.isInt, func(idx []int) float64 {
		at := slices.Clone(idx)
		for d, n := range x.shape {
			at[d] = padded(mode, at[d]-begin[d], n)
			if at[d] < 0 {
				return fill
			}
		}
		return x.at(at...)
	}))
}

// padded is numpy.pad: walk back into [0, n), or −1 for the constant.
func padded(mode string, i, n int) int {
	for i < 0 || i >= n {
		switch mode {
		case "constant":
			return -1
		case "edge":
			i = int(limit(float64(i), 0, float64(n-1)))
		case "wrap":
			if i < 0 {
				i += n
			} else {
				i -= n
			}
		case "reflect":
			if n == 1 {
				return 0
			}
			if i < 0 {
				i = -i
			} else {
				i = 2*(n-1) - i
			}
		default:
			check(false, "mode %q", mode)
		}
	}
	return i
}
