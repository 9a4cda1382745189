package network_test

import (
	"math"
	"slices"
)

func transposed(t *tensor, perm []int) *tensor {
	check(len(perm) == t.rank(), "perm %v", perm)
	shape := make([]int, len(perm))
	seen := map[int]bool{}
	for i, p := range perm {
		check(p >= 0 && p < len(perm) && !seen[p], "perm %v", perm)
		seen[p] = true
		shape[i] = t.shape[p]
	}
	return from(shape, t.isInt, func(idx []int) float64 {
		src := make([]int, len(perm))
		for i, p := range perm {
			src[p] = idx[i]
		}
		return t.at(src...)
	})
}

// matrixProduct is numpy.matmul.
func matrixProduct(a, b *tensor) *tensor {
	check(a.rank() > 0 && b.rank() > 0, "a scalar")
	row, col := a.rank() == 1, b.rank() == 1
	if row {
		a = a.with(1, a.shape[0])
	}
	if col {
		b = b.with(b.shape[0], 1)
	}
	ra, rb := a.rank(), b.rank()
	m, k, n := a.shape[ra-2], a.shape[ra-1], b.shape[rb-1]
	check(b.shape[rb-2] == k, "inner %v %v", a.shape, b.shape)
	lead := broadcastShapes(a.shape[:ra-2], b.shape[:rb-2])
	out := from(slices.Concat(lead, []int{m, n}), false, func(idx []int) float64 {
		s, l := 0.0, len(lead)
		for j := range k {
			at := append(alignTo(a.shape[:ra-2], idx[:l]), idx[l], j)
			bt := append(alignTo(b.shape[:rb-2], idx[:l]), j, idx[l+1])
			s += a.at(at...) * b.at(bt...)
		}
		return s
	})
	shape := lead
	if !row {
		shape = append(shape, m)
	}
	if !col {
		shape = append(shape, n)
	}
	return out.with(shape...)
}

func evalGemm(e *evaluator) []*tensor {
	a, b := e.in(0), e.in(1)
	check(a.rank() == 2 && b.rank() == 2, "ranks")
	if e.int("transA", 0) != 0 {
		a = transposed(a, []int{1, 0})
	}
	if e.int("transB", 0) != 0 {
		b = transposed(b, []int{1, 0})
	}
	alpha, beta := e.float("alpha", 1), e.float("beta", 1)
	y := matrixProduct(a, b)
	c := newTensor([]int{})
	if e.has(2) {
		c = e.in(2)
	}
	check(slices.Equal(broadcastShapes(y.shape, c.shape), y.shape), "C %v", c.shape)
	return one(combine(y, c, func(y, c float64) float64 { return alpha*y + beta*c }))
}

// geometry is that of a window along the spatial axes.
type geometry struct {
	kernel, stride, dilation, begin, end []int
}

func (e *evaluator) geometry(kernel, in []int) geometry {
	n := len(in)
	ones := slices.Repeat([]int{1}, n)
	g := geometry{kernel: e.ints("kernel_shape", kernel), stride: e.ints("strides", ones), dilation: e.ints("dilations", ones)}
	pads := e.ints("pads", make([]int, 2*n))
	check(len(g.kernel) == n && len(g.stride) == n && len(g.dilation) == n && len(pads) == 2*n, "geometry")
	check(kernel == nil || slices.Equal(kernel, g.kernel), "kernel_shape")
	for i := range n {
		check(g.kernel[i] > 0 && g.stride[i] > 0 && g.dilation[i] > 0 && pads[i] >= 0 && pads[n+i] >= 0, "geometry")
	}
	g.begin, g.end = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	switch mode := e.text("auto_pad", "NOTSET"); mode {
	case "NOTSET":
	case "VALID":
		clear(g.begin)
		clear(g.end)
	default:
		check(mode == "SAME_UPPER" || mode == "SAME_LOWER", "auto_pad")
		for i, d := range in {
			out := int(math.Ceil(float64(d) / float64(g.stride[i])))
			need := max(0, (out-1)*g.stride[i]+(g.kernel[i]-1)*g.dilation[i]+1-d)
			g.begin[i], g.end[i] = need/2, need-need/2
			if mode == "SAME_LOWER" {
				g.begin[i], g.end[i] = g.end[i], g.begin[i]
			}
		}
	}
	return g
}

// results returns the number of window positions along each axis.
func (g geometry) results(in []int, up bool) []int {
	out := make([]int, len(in))
	for i, d := range in {
		room := d + g.begin[i] + g.end[i] - (g.kernel[i]-1)*g.dilation[i] - 1
		check(room >= 0, "kernel larger than input")
		steps := float64(room) / float64(g.stride[i])
		if up {
			// A window that starts in the right padding is left out.
			out[i] = int(math.Ceil(steps)) + 1
			if (out[i]-1)*g.stride[i] >= d+g.begin[i] {
				out[i]--
			}
		} else {
			out[i] = int(math.Floor(steps)) + 1
		}
	}
	return out
}

// position returns where a tap reads, perhaps in the padding.
func (g geometry) position(pos, tap []int) []int {
	at := make([]int, len(pos))
	for i := range at {
		at[i] = pos[i]*g.stride[i] - g.begin[i] + tap[i]*g.dilation[i]
	}
	return at
}

// inside returns the position that a tap reads, and whether it is an element.
func (g geometry) inside(in, pos, tap []int) ([]int, bool) {
	at := g.position(pos, tap)
	for i, p := range at {
		if p < 0 || p >= in[i] {
			return at, false
		}
	}
	return at, true
}

func evalConv(e *evaluator) []*tensor {
	x, w := e.in(0), e.in(1)
	check(x.rank() >= 3 && w.rank() == x.rank(), "ranks")
	in, group := x.shape[2:], e.int("group", 1)
	g := e.geometry(w.shape[2:], in)
	cg := w.shape[1]
	check(group > 0 && cg*group == x.shape[1] && w.shape[0]%group == 0, "groups")
	mg := w.shape[0] / group
	y := newTensor(slices.Concat([]int{x.shape[0], w.shape[0]}, g.results(in, false)))
	each(y.shape, func(idx []int) {
		n, m, s := idx[0], idx[1], 0.0
		if e.has(2) {
			check(e.in(2).rank() == 1 && e.in(2).shape[0] == w.shape[0], "bias")
			s = e.in(2).at(m)
		}
		for c := range cg {
			each(g.kernel, func(tap []int) {
				if at, ok := g.inside(in, idx[2:], tap); ok {
					s += x.at(append([]int{n, m/mg*cg + c}, at...)...) * w.at(append([]int{m, c}, tap...)...)
				}
			})
		}
		y.set(s, idx...)
	})
	return one(y)
}

func evalConvTranspose(e *evaluator) []*tensor {
	x, w := e.in(0), e.in(1)
	check(x.rank() >= 3 && w.rank() == x.rank(), "ranks")
	in, group := x.shape[2:], e.int("group", 1)
	check(group > 0 && w.shape[0] == x.shape[1] && x.shape[1]%group == 0, "groups")
	g := e.geometry(w.shape[2:], in)
	out := e.transposedShape(&g, in)
	mg, cg := w.shape[1], x.shape[1]/group
	y := newTensor(slices.Concat([]int{x.shape[0], mg * group}, out))
	each(y.shape, func(idx []int) {
		if e.has(2) {
			check(e.in(2).rank() == 1 && e.in(2).shape[0] == mg*group, "bias")
			y.set(e.in(2).at(idx[1]), idx...)
		}
	})
	each(x.shape, func(idx []int) {
		n, c := idx[0], idx[1]
		for m := range mg {
			each(g.kernel, func(tap []int) {
				if at, ok := g.inside(out, idx[2:], tap); ok {
					y.add(x.at(idx...)*w.at(append([]int{c, m}, tap...)...), append([]int{n, c/cg*mg + m}, at...)...)
				}
			})
		}
	})
	return one(y)
}

// transposedShape computes pads from the output's shape or the reverse.
func (e *evaluator) transposedShape(g *geometry, in []int) []int {
	extra, want, mode := e.ints("output_padding", make([]int, len(in))), e.ints("output_shape", nil), e.text("auto_pad", "NOTSET")
	check(len(extra) == len(in) && (want == nil || len(want) == len(in)), "lengths")
	out := make([]int, len(in))
	for i, d := range in {
		full := g.stride[i]*(d-1) + extra[i] + (g.kernel[i]-1)*g.dilation[i] + 1
		check(extra[i] >= 0, "output_padding")
		switch {
		case want != nil:
			out[i] = want[i]
		case mode == "SAME_UPPER" || mode == "SAME_LOWER":
			out[i] = d * g.stride[i]
		default:
			out[i] = full - g.begin[i] - g.end[i]
			check(out[i] > 0, "shape")
			continue
		}
		pad := max(0, full-out[i])
		if mode == "SAME_UPPER" {
			g.begin[i] = pad / 2
		} else {
			g.begin[i] = pad - pad/2
		}
		check(out[i] > 0, "shape")
	}
	return out
}

// pooled calls do with the elements and the position of every window.
func (e *evaluator) pooled(do func(window []float64, g geometry, pos []int, in []int) float64) *tensor {
	x := e.in(0)
	check(x.rank() >= 3, "rank")
	in := x.shape[2:]
	check(e.node.Attr("kernel_shape") != nil, "kernel_shape")
	g := e.geometry(nil, in)
	shape := slices.Concat(x.shape[:2], g.results(in, e.int("ceil_mode", 0) != 0))
	return from(shape, false, func(idx []int) float64 {
		var window []float64
		each(g.kernel, func(tap []int) {
			if at, ok := g.inside(in, idx[2:], tap); ok {
				window = append(window, x.at(append(slices.Clone(idx[:2]), at...)...))
			}
		})
		check(len(window) > 0, "an empty window")
		return do(window, g, idx[2:], in)
	})
}

func evalMaxPool(e *evaluator) []*tensor {
	return one(e.pooled(func(w []float64, _ geometry, _, _ []int) float64 { return slices.Max(w) }))
}

func evalAveragePool(e *evaluator) []*tensor {
	withPads := e.int("count_include_pad", 0) != 0
	return one(e.pooled(func(w []float64, g geometry, pos, in []int) float64 {
		if !withPads {
			return average(w)
		}
		n := 0
		each(g.kernel, func(tap []int) {
			ok := true
			for i, p := range g.position(pos, tap) {
				ok = ok && p < in[i]+g.end[i]
			}
			if ok {
				n++
			}
		})
		return total(w) / float64(n)
	}))
}

func evalGlobal(x *tensor, f func([]float64) float64) *tensor {
	check(x.rank() >= 3, "rank")
	shape := slices.Concat(x.shape[:2], slices.Repeat([]int{1}, x.rank()-2))
	return from(shape, false, func(idx []int) float64 {
		var all []float64
		each(x.shape[2:], func(at []int) { all = append(all, x.at(append(slices.Clone(idx[:2]), at...)...)) })
		return f(all)
	})
}

// channel reads a vector with one number a channel.
func (e *evaluator) channel(i, n int) *tensor {
	v := e.in(i)
	check(v.rank() == 1 && v.shape[0] == n, "input %d of shape %v for %d", i, v.shape, n)
	return v
}

func evalBatchNorm(e *evaluator) []*tensor {
	x := e.in(0)
	check(x.rank() >= 2 && e.int("training_mode", 0) == 0, "training")
	c := x.shape[1]
	scale, bias, mean, variance := e.channel(1, c), e.channel(2, c), e.channel(3, c), e.channel(4, c)
	eps := e.float("epsilon", 1e-5)
	return one(from(x.shape, false, func(idx []int) float64 {
		k := idx[1]
		return (x.at(idx...)-mean.at(k))/math.Sqrt(variance.at(k)+eps)*scale.at(k) + bias.at(k)
	}))
}

// standardize normalizes over the elements that share key(idx).
func standardize(x *tensor, eps float64, key func(idx []int) int) *tensor {
	groups := map[int][]float64{}
	each(x.shape, func(idx []int) { groups[key(idx)] = append(groups[key(idx)], x.at(idx...)) })
	return from(x.shape, false, func(idx []int) float64 {
		g := groups[key(idx)]
		mean, square := average(g), 0.0
		for _, v := range g {
			square += (v - mean) * (v - mean)
		}
		return (x.at(idx...) - mean) / math.Sqrt(square/float64(len(g))+eps)
	})
}

func evalLayerNorm(e *evaluator) []*tensor {
	x := e.in(0)
	ax := x.normalAxis(e.int("axis", -1))
	lead := newTensor(x.shape[:ax])
	y := standardize(x, e.float("epsilon", 1e-5), func(idx []int) int { return lead.place(idx[:ax]) })
	mul := combine(y, e.in(1), func(a, b float64) float64 { return a * b })
	if e.has(2) {
		mul = combine(mul, e.in(2), func(a, b float64) float64 { return a + b })
	}
	check(slices.Equal(mul.shape, x.shape), "scale or bias larger than the input")
	return one(mul)
}

func evalInstanceNorm(e *evaluator) []*tensor {
	x := e.in(0)
	check(x.rank() >= 3, "rank")
	scale, bias := e.channel(1, x.shape[1]), e.channel(2, x.shape[1])
	y := standardize(x, e.float("epsilon", 1e-5), func(idx []int) int { return idx[0]*x.shape[1] + idx[1] })
	return one(from(x.shape, false, func(idx []int) float64 { return y.at(idx...)*scale.at(idx[1]) + bias.at(idx[1]) }))
}

func evalGroupNorm(e *evaluator) []*tensor {
	x, groups := e.in(0), e.int("num_groups", 0)
	check(x.rank() >= 3 && groups > 0 && x.shape[1]%groups == 0, "groups")
	size := x.shape[1] / groups
	y := standardize(x, e.float("epsilon", 1e-5), func(idx []int) int { return idx[0]*groups + idx[1]/size })
	n, which := x.shape[1], func(c int) int { return c }
	if e.opset < 21 {
		n, which = groups, func(c int) int { return c / size }
	}
	scale, bias := e.channel(1, n), e.channel(2, n)
	return one(from(x.shape, false, func(idx []int) float64 {
		return y.at(idx...)*scale.at(which(idx[1])) + bias.at(which(idx[1]))
	}))
}

func evalSoftmax(e *evaluator) *tensor {
	x := e.in(0)
	if e.opset >= 13 {
		return softmaxOver(x, x.normalAxis(e.int("axis", -1)))
	}
	// Older versions look at the input as a matrix.
	ax := x.normalAxis(e.int("axis", 1))
	rows := 1
	for _, d := range x.shape[:ax] {
		rows *= d
	}
	return softmaxOver(x.with(rows, len(x.data)/max(rows, 1)), 1).with(x.shape...)
}

func softmaxOver(x *tensor, ax int) *tensor {
	return from(x.shape, false, func(idx []int) float64 {
		sum, here := 0.0, x.at(idx...)
		for k := range x.shape[ax] {
			at := slices.Clone(idx)
			at[ax] = k
			if v := x.at(at...); !math.IsInf(v, -1) {
				sum += math.Exp(v - here) // +Inf beside what is masked, where 1/sum is 0
			}
		}
		return 1 / sum
	})
}

func evalReduce(e *evaluator, f func([]float64) float64) *tensor {
	x, axes := e.in(0), e.intsOr(1, "axes")
	if len(axes) == 0 {
		if e.int("noop_with_empty_axes", 0) != 0 {
			return x
		}
		for i := range x.rank() {
			axes = append(axes, i)
		}
	}
	drop := map[int]bool{}
	for _, a := range axes {
		drop[x.normalAxis(a)] = true
	}
	kept, final := slices.Clone(x.shape), []int{}
	for i := range kept {
		if drop[i] {
			kept[i] = 1
		}
		if !drop[i] || e.int("keepdims", 1) != 0 {
			final = append(final, kept[i])
		}
	}
	k := newTensor(kept)
	k.isInt = x.isInt
	groups := make([][]float64, len(k.data))
	each(x.shape, func(idx []int) {
		g := k.place(alignTo(kept, idx))
		groups[g] = append(groups[g], x.at(idx...))
	})
	for i, g := range groups {
		k.data[i] = f(g)
	}
	return k.with(final...)
}
