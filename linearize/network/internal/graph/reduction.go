package graph

import (
	"math"
)

// Group reduces groups of input elements to one number each, by a function such as the maximum or a norm. Sums and
// means are Reduce.
type Group struct {
	Target []int32 // for each input element, the output element of its group
	Fn     GroupFunc
}

// A GroupFunc is a function of a group of numbers that is computed number by number.
type GroupFunc struct {
	start float64                      // first value of the accumulator
	step  func(acc, x float64) float64 // accumulates one number
	end   func(acc float64) float64    // the result y; nil means the accumulator
	d     func(x, y float64) float64   // ∂y/∂x
	ties  bool                         // numbers with d = 1 share the derivative evenly
	name  string                       // of the variable here, "" for others
}

// Name returns the name of the function in this package, "" for a norm of another order than 1 and 2.
func (f GroupFunc) Name() string { return f.name }

func same(x float64) float64 { return x }

// sign is −1, 0 or 1.
func sign(x float64) float64 { return Step(x > 0) - Step(x < 0) }

// The functions of a group, named after ONNX's reductions. Where several numbers are the largest or the smallest,
// they share the derivative evenly, as in PyTorch's amax and amin. The derivative of a norm of zeros is 0, as in
// PyTorch.
var (
	GroupMax       = GroupFunc{math.Inf(-1), func(acc, x float64) float64 { return max(acc, x) }, same, func(x, y float64) float64 { return Step(x == y) }, true, "Max"}
	GroupMin       = GroupFunc{math.Inf(1), func(acc, x float64) float64 { return min(acc, x) }, same, func(x, y float64) float64 { return Step(x == y) }, true, "Min"}
	GroupL1        = GroupFunc{0, func(acc, x float64) float64 { return acc + math.Abs(x) }, same, func(x, _ float64) float64 { return sign(x) }, false, "L1"}
	GroupSumSquare = GroupFunc{0, func(acc, x float64) float64 { return acc + x*x }, same, func(x, _ float64) float64 { return 2 * x }, false, "SumSquare"}
	GroupLogSum    = GroupFunc{0, func(acc, x float64) float64 { return acc + x }, math.Log, func(_, y float64) float64 { return math.Exp(-y) }, false, "LogSum"}
	GroupL2        = GroupFunc{0, func(acc, x float64) float64 { return acc + x*x }, math.Sqrt, func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return x / y
	}, false, "L2"}
)

// GroupLp returns the p-norm (Σ|x|ᵖ)^(1/p), p ≥ 1.
func GroupLp(p int) GroupFunc {
	switch p {
	case 1:
		return GroupL1
	case 2:
		return GroupL2
	}
	k := float64(p)
	return GroupFunc{0, func(acc, x float64) float64 { return acc + math.Pow(math.Abs(x), k) }, func(acc float64) float64 { return math.Pow(acc, 1/k) },
		func(x, y float64) float64 {
			if y == 0 {
				return 0
			}
			return sign(x) * math.Pow(math.Abs(x)/y, k-1)
		}, false, ""}
}

// Forward implements Op.
func (o *Group) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		for i := range out {
			out[i] = o.Fn.start
		}
		for i, t := range o.Target {
			out[t] = o.Fn.step(out[t], in[i])
		}
		for i, acc := range out {
			out[i] = o.Fn.end(acc)
		}
	}
}

// Backward implements Op.
func (o *Group) Backward(s *State, nd *Node) {
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		if o.Fn.ties {
			// Divide dy by the number of elements in each group that share it.
			share := s.Buffer(0, len(dy))
			clear(share)
			for i, t := range o.Target {
				share[t] += o.Fn.d(x[i], y[t])
			}
			for t, n := range share {
				share[t] = dy[t] / max(n, 1)
			}
			dy = share
		}
		for i, t := range o.Target {
			dx[i] += dy[t] * o.Fn.d(x[i], y[t])
		}
	}
}

// LogSumExp is log Σ eˣ over groups of input elements. It is −Inf, with derivative 0, for a group whose elements
// are all −Inf.
type LogSumExp struct {
	Target []int32 // as in Group
}

// Forward implements Op.
func (o *LogSumExp) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		sum := s.Buffer(0, len(out))
		for i := range out {
			out[i], sum[i] = math.Inf(-1), 0
		}
		for i, t := range o.Target {
			out[t] = max(out[t], in[i])
		}
		for i, t := range o.Target {
			sum[t] += math.Exp(in[i] - out[t])
		}
		for i, top := range out {
			if !math.IsInf(top, 0) {
				out[i] = top + math.Log(sum[i])
			}
		}
	}
}

// Backward implements Op.
func (o *LogSumExp) Backward(s *State, nd *Node) {
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for i, t := range o.Target {
			if !math.IsInf(y[t], -1) {
				dx[i] += dy[t] * math.Exp(x[i]-y[t])
			}
		}
	}
}

// GroupProduct is the product over groups of input elements.
type GroupProduct struct {
	Target []int32 // as in Group
}

// Forward implements Op.
func (o *GroupProduct) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		for i := range out {
			out[i] = 1
		}
		for i, t := range o.Target {
			out[t] *= in[i]
		}
	}
}

// Backward implements Op. The derivative in an element is the product of the elements before it times the product
// of those after it. This is right also where elements are zero.
func (o *GroupProduct) Backward(s *State, nd *Node) {
	groups := s.Program.Slots[nd.Out].Size
	before, run := s.Buffer(0, len(o.Target)), s.Buffer(1, groups)
	for e := range s.N {
		x, dx, dy := s.At(nd.In[0], e), s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for t := range run {
			run[t] = 1
		}
		for i, t := range o.Target {
			before[i] = run[t]
			run[t] *= x[i]
		}
		for t := range run {
			run[t] = 1
		}
		for i := len(o.Target) - 1; i >= 0; i-- {
			t := o.Target[i]
			dx[i] += dy[t] * before[i] * run[t]
			run[t] *= x[i]
		}
	}
}
