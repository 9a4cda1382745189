package learnt

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/internal/onnx"
)

// maskBelow is the number from which on exp(x) does not count beside exp(0).
const maskBelow = -20

// mask returns why a tensor is a mask, or "": it holds −Inf, or 0 and one large negative
// number and is added, or 0 and 1 and is multiplied by.
func (u *uses) mask(t *onnx.Tensor, list []entry) string {
	if slices.ContainsFunc(t.Floats, func(v float64) bool { return v-v != 0 }) {
		return "holds a number that is not finite, as masks do"
	}
	other, zeros := 0.0, false
	for _, v := range t.Floats {
		switch {
		case v == 0:
			zeros = true
		case other == 0 || v == other:
			other = v
		default:
			return ""
		}
	}
	all := func(ops ...string) bool {
		return !slices.ContainsFunc(u.firsts(t.Name, 0), func(e entry) bool { return !slices.Contains(ops, e.node.OpType) })
	}
	switch {
	case !zeros || len(list) == 0:
	case other <= maskBelow && all("Add", "Where"):
		return "holds 0 and one large negative number, as masks that are added before a Softmax do"
	case other == 1 && all("Mul", "Where"):
		return "holds 0 and 1 alone and is multiplied by, as masks do"
	}
	return ""
}

// firsts returns the nodes that read a tensor, without those that only move its numbers.
func (u *uses) firsts(name string, depth int) []entry {
	var list []entry
	for _, e := range u.consumers[name] {
		if (u.is(e.node, Moves) || e.node.OpType == "Gather") && e.index == 0 && depth < maxEntries && len(e.node.Outputs) > 0 {
			list = append(list, u.firsts(e.node.Outputs[0], depth+1)...)
		} else {
			list = append(list, e)
		}
		if len(list) > maxEntries {
			break
		}
	}
	return list
}

// singular reports whether a tensor is u or v of spectral normalization: a vector of length
// one that meets stored tensors alone, in a product whose result divides a weight.
func (u *uses) singular(t *onnx.Tensor) bool {
	long, sum := 0, 0.0
	for _, d := range t.Dims {
		if d > 1 {
			long++
		}
	}
	if long != 1 {
		return false
	}
	for _, v := range t.Floats {
		sum += v * v
	}
	if math.Abs(math.Sqrt(sum)-1) > 1e-3 {
		return false
	}
	list := u.firsts(t.Name, 0)
	return u.onlyDivides(list) && !slices.ContainsFunc(list, func(e entry) bool { return !u.is(e.node, Multiplies) && e.node.OpType != "Mul" })
}

// onlyDivides reports whether the results of nodes that read a tensor become divisors of
// stored tensors, and nothing else.
func (u *uses) onlyDivides(list []entry) bool {
	for _, e := range list {
		if len(e.node.Outputs) == 0 || !u.static[e.node.Outputs[0]] || !u.divides(e.node.Outputs[0], map[string]bool{}) {
			return false
		}
	}
	return len(list) > 0
}

// divides reports whether a value becomes the divisor of ones made of stored tensors, and
// nothing else.
func (u *uses) divides(name string, seen map[string]bool) bool {
	for _, e := range u.consumers[name] {
		if len(e.node.Outputs) == 0 || !u.static[e.node.Outputs[0]] {
			return false
		}
		out := e.node.Outputs[0]
		if e.node.OpType == "Div" && e.index == 1 || seen[out] {
			continue
		}
		if seen[out] = true; !u.divides(out, seen) {
			return false
		}
	}
	return len(u.consumers[name]) > 0
}

// What a sequence must have to be told from learnt numbers.
const (
	spread    = 4e-3    // largest error, of the largest difference of its numbers
	evidence  = 6       // equations beyond the unknowns, over all sequences
	positions = 1 << 12 // most positions of a picture
	weak      = 2e3     // a sequence whose numbers differ by fewer units of rounding than this is no evidence
)

// regular reports whether the numbers of a tensor follow a formula along one axis: each
// sequence along it satisfies x_{t+1} + x_{t−1} = k x_t with a k of its own, as sines,
// cosines, equal steps and geometric sequences do. An axis may hold the positions of a
// picture row by row, perhaps after one that belongs to a token. tested is false where
// there are too few numbers to tell.
func regular(t *onnx.Tensor) (formula, tested bool) {
	var dims []int
	for _, d := range t.Dims {
		if d > 1 {
			dims = append(dims, int(d))
		}
	}
	unit := math.Exp2(-24) // of float64 too, for tables that were computed in float32
	switch t.Type {
	case onnx.Float16:
		unit = math.Exp2(-11)
	case onnx.BFloat16:
		unit = math.Exp2(-8)
	}
	if len(dims) > 1 {
		formula, tested = circles(t.Floats, dims[len(dims)-1], unit)
	}
	if formula {
		return true, true
	}
	inner := len(t.Floats)
	for _, n := range dims {
		inner /= n
		outer := len(t.Floats) / (n * inner)
		tested = tested || n >= 4 && (n-3)*outer*inner >= evidence
		along := view{data: t.Floats, unit: unit, outer: outer, inner: inner, n: n}
		if along.fits() || along.picture(0) || along.picture(1) {
			return true, true
		}
	}
	return false, tested
}

// circles reports whether each row of d numbers is made of pairs (sine, cosine) of one
// amplitude, beside each other or a half of the row apart.
func circles(x []float64, d int, unit float64) (formula, tested bool) {
	if d%2 != 0 || len(x)/2 < evidence {
		return false, false
	}
	square := func(at, step int) float64 { return x[at]*x[at] + x[at+step]*x[at+step] }
	span := slices.Max(x) - slices.Min(x)
	for _, step := range []int{1, d / 2} {
		bound := max(1e-4, 16*unit) * square(0, step)
		formula = span*span > square(0, step)/4 // numbers near one are on a circle too
		for row := 0; row < len(x) && formula; row += d {
			for k := range d / 2 {
				at := row + k
				if step == 1 {
					at += k
				}
				formula = formula && math.Abs(square(at, step)-square(0, step)) <= bound
			}
		}
		if formula {
			return true, true
		}
	}
	return false, true
}

// A view is a tensor of outer × n × inner numbers.
type view struct {
	data            []float64
	unit            float64 // of rounding
	outer, n, inner int
}

// fits reports whether all sequences along the axis follow the formula.
func (v view) fits() bool {
	sum := 0
	for o := range v.outer {
		for i := range v.inner {
			k, ok := sequence(v.data[o*v.n*v.inner+i:], v.inner, v.n, v.unit)
			if !ok {
				return false
			}
			sum += k
		}
	}
	return sum >= evidence
}

// picture reports the same of an axis that holds rows of a picture after the first skip
// positions, which hold zeros: along both the rows and the columns.
func (v view) picture(skip int) bool {
	n := v.n - skip
	if n > positions {
		return false
	}
	for o := range v.outer {
		if slices.ContainsFunc(v.data[o*v.n*v.inner:][:skip*v.inner], func(x float64) bool { return x != 0 }) {
			return false
		}
	}
next:
	for h := 3; h*3 <= n; h++ {
		if n%h != 0 {
			continue
		}
		w, sum := n/h, 0
		for o := range v.outer {
			for i := range v.inner {
				at := v.data[(o*v.n+skip)*v.inner+i:]
				for y := range h {
					k, ok := sequence(at[y*w*v.inner:], v.inner, w, v.unit)
					if !ok {
						continue next
					}
					sum += k
				}
				for x := range w {
					k, ok := sequence(at[x*v.inner:], w*v.inner, h, v.unit)
					if !ok {
						continue next
					}
					sum += k
				}
			}
		}
		if sum >= evidence {
			return true
		}
	}
	return false
}

// sequence checks n numbers, a stride apart, against x_{t+1} + x_{t−1} = k x_t with the k of
// least squares, and returns the number of equations beyond the unknown as evidence: none
// for a constant sequence.
func sequence(x []float64, stride, n int, unit float64) (equations int, ok bool) {
	lo, hi := x[0], x[0]
	for t := range n {
		lo, hi = min(lo, x[t*stride]), max(hi, x[t*stride])
	}
	most := max(math.Abs(lo), math.Abs(hi))
	if hi-lo <= 4*unit*most || n < 3 {
		return 0, hi-lo <= 4*unit*most
	}
	xy, xx := 0.0, 0.0
	for t := 1; t+1 < n; t++ {
		v := x[t*stride]
		xy += v * (x[(t+1)*stride] + x[(t-1)*stride])
		xx += v * v
	}
	k, bound := 0.0, spread*(hi-lo)+16*unit*most
	if xx > 0 {
		k = xy / xx
	}
	for t := 1; t+1 < n; t++ {
		if math.Abs(x[(t+1)*stride]+x[(t-1)*stride]-k*x[t*stride]) > bound {
			return 0, false
		}
	}
	if hi-lo < weak*unit*most {
		return 0, true
	}
	return n - 3, true
}
