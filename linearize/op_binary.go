package linearize

import "math"

// binary combines two tensors element by element. ia and ib say which element
// of each operand an output element reads (broadcasting); nil reads its own.
type binary struct {
	fn     binaryFunc
	ia, ib []int32
}

type binaryFunc struct {
	f      func(a, b float64) float64
	da, db func(a, b, y float64) float64 // partial derivatives
}

func pick(table []int32, i int) int {
	if table == nil {
		return i
	}
	return int(table[i])
}

func (o *binary) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		a, b, out := s.at(nd.in[0], e), s.at(nd.in[1], e), s.at(nd.out, e)
		for i := range out {
			out[i] = o.fn.f(a[pick(o.ia, i)], b[pick(o.ib, i)])
		}
	}
}

func (o *binary) backward(s *state, nd *node) {
	o.side(s, nd, 0, o.ia, o.fn.da)
	o.side(s, nd, 1, o.ib, o.fn.db)
}

// side adds to the gradient of one operand; broadcast elements collect the
// sum over the outputs that read them.
func (o *binary) side(s *state, nd *node, operand int, table []int32, d func(a, b, y float64) float64) {
	if !s.diff(nd.in[operand]) {
		return
	}
	for e := range s.n {
		a, b, y := s.at(nd.in[0], e), s.at(nd.in[1], e), s.at(nd.out, e)
		dy, dx := s.gradAt(nd.out, e), s.gradAt(nd.in[operand], e)
		for i, g := range dy {
			dx[pick(table, i)] += g * d(a[pick(o.ia, i)], b[pick(o.ib, i)], y[i])
		}
	}
}

func one(_, _, _ float64) float64      { return 1 }
func minusOne(_, _, _ float64) float64 { return -1 }

var (
	addFn = binaryFunc{func(a, b float64) float64 { return a + b }, one, one}
	subFn = binaryFunc{func(a, b float64) float64 { return a - b }, one, minusOne}
	mulFn = binaryFunc{
		func(a, b float64) float64 { return a * b },
		func(_, b, _ float64) float64 { return b },
		func(a, _, _ float64) float64 { return a },
	}
	divFn = binaryFunc{
		func(a, b float64) float64 { return a / b },
		func(_, b, _ float64) float64 { return 1 / b },
		func(_, b, y float64) float64 { return -y / b },
	}
	powFn = binaryFunc{
		pow,
		func(a, b, _ float64) float64 {
			if b == 0 {
				return 0
			}
			return b * pow(a, b-1)
		},
		func(a, _, y float64) float64 {
			if a <= 0 {
				return 0
			}
			return y * math.Log(a)
		},
	}
	minFn = binaryFunc{
		func(a, b float64) float64 { return min(a, b) },
		func(a, b, _ float64) float64 { return step(a <= b) },
		func(a, b, _ float64) float64 { return step(b < a) },
	}
	maxFn = binaryFunc{
		func(a, b float64) float64 { return max(a, b) },
		func(a, b, _ float64) float64 { return step(a >= b) },
		func(a, b, _ float64) float64 { return step(b > a) },
	}
	preluFn = binaryFunc{
		func(a, b float64) float64 {
			if a < 0 {
				return a * b
			}
			return a
		},
		func(a, b, _ float64) float64 {
			if a > 0 {
				return 1
			}
			return b
		},
		func(a, _, _ float64) float64 { return min(a, 0) },
	}
)

// pow is math.Pow with the square, which normalization layers spell as Pow,
// rounded once.
func pow(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	return math.Pow(a, b)
}
