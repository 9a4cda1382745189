// Package newton holds the one search of all refits (E9): how far to go along a
// Newton step, when to end, and from what a refit warns.
package newton

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// A Newton step that moves no entry of f̂ by more than SmallMove of its
	// largest entry ends the refit.
	SmallMove = 1e-12
	// A refit that ends with a longer step than SmallOpen warns of it, and one
	// whose sums over the training examples miss the mean by more than that part
	// of the largest output.
	SmallOpen = 1e-8
	// A refit warns of ‖α − r(f̂)‖ above SmallGap.
	SmallGap = 1e-6
	// flat is the relative change of the objective below which the slopes at both
	// ends judge a step, because rounding may hide its gain (Hager and Zhang, "A
	// new conjugate gradient method", SIAM J. Optim. 16, 2005, with their value).
	flat = 1e-6
	// hidden bounds the relative rounding error of the objective, which sums a few
	// thousand terms, each right to 1e-16.
	hidden = 1e-13
	// A Newton step that promises a gain of noGain moves f̂ by at most 1e-10 of its
	// posterior standard deviation. Where f̂ is 0 but for rounding, it may be long
	// relative to f̂, and is nothing to warn of.
	noGain = 1e-20
	// A part of a Newton step is too short where it moves no entry of f by more than
	// shortestPart of the largest, or where it is below smallestPart.
	shortestPart, smallestPart = 1e-16, 1e-60
)

// ErrNoObjective says that the objective has no finite value to climb from.
var ErrNoObjective = errors.New("gp: the likelihood has no finite value at the prior mean or near θ*; scale the targets or raise the prior precision")

// A Line is what the search needs to know of the points P of a refit. The
// objective is Σ log p(y|f) − ½‖·‖², which is concave; ‖·‖² is the squared
// distance from the prior mean.
type Line[P any] interface {
	// Between returns the point t of the way from a to b.
	Between(a, b P, t float64) P
	// Objective returns the objective, or −Inf where it is not finite.
	Objective(p P) float64
	// Slope returns the objective's derivative at p in the direction from a to b.
	Slope(p, a, b P) float64
	// Values returns f at the training examples, N·C.
	Values(p P) []float64
}

// An End says whether a refit goes on, and why not.
type End int

const (
	GoesOn    End = iota
	Settled       // the last Newton step was shorter than SmallMove
	Exhausted     // MaxIter steps were made
	Stuck         // no part of the Newton step raises the objective
)

// A Search is the state of a refit between its Newton steps.
type Search struct {
	MaxIter int
	// AtTheta says that the sites of the first step are at θ*, which need not lie
	// in the span, so that the search along this step starts at the prior mean.
	AtTheta bool
	Steps   int     // Newton steps made
	Move    float64 // of the last one, relative to the largest entry of f̂; +Inf at first
	gain    float64 // of the objective, which the last one promised; NaN where that is not known
}

// Moves tells whether the refit ended while its steps were still long, of which
// it warns.
func (s *Search) Moves() bool { return !(s.Move <= SmallOpen) && !(s.gain <= noGain) }

// Next returns the point from which the next Newton step sets out. sites is f at
// the sites, and to is where the Newton step from there leads. from is where the
// search along it starts. Where the refit ends, Next returns to.
func Next[P any](s *Search, l Line[P], sites []float64, from, to P) (P, End, error) {
	last := s.Move
	s.gain = math.NaN()
	s.Move = RelativeMove(sites, l.Values(to))
	switch {
	case s.Move < SmallMove:
		return to, Settled, nil
	case s.Steps == s.MaxIter:
		return to, Exhausted, nil
	}
	first := s.AtTheta && s.Steps == 0
	if s.AtTheta && s.Steps == 1 {
		last = math.Inf(1) // a step from θ* says nothing of those within the span
	}
	next, ok := from, false
	if first {
		next, ok = climb(l, from, to, math.NaN(), false)
	} else {
		slope := l.Slope(from, from, to)
		s.gain = math.Abs(slope) / 2
		// The quadratic model promises a gain of half the slope. Where rounding hides
		// this gain, steps go on while each is at most half as long as the one before.
		if s.gain < hidden*math.Abs(l.Objective(from)) {
			next, ok = to, s.Move < last/2
		} else {
			next, ok = climb(l, from, to, slope, s.Move < last/2)
		}
	}
	if !ok {
		if !first {
			return to, Stuck, nil
		}
		next = from
	}
	if math.IsInf(l.Objective(next), 0) {
		return next, Stuck, ErrNoObjective
	}
	s.Steps++
	return next, GoesOn, nil
}

// climb returns the first of the points 1, ½, ¼, … of the way from a to b that
// raises the objective, and after the first of them goes on halving while that
// raises it further. slope is the objective's slope at a, or NaN where b is no
// Newton step from a. Where rounding may hide the change of the objective, a
// point will do at which the slope is at most half as large.
func climb[P any](l Line[P], a, b P, slope float64, contracts bool) (p P, ok bool) {
	start := l.Objective(a)
	shortest := shortestPart * floats.Norm(l.Values(a), math.Inf(1)) / floats.Distance(l.Values(a), l.Values(b), math.Inf(1))
	for t := 1.0; t > max(shortest, smallestPart); t /= 2 {
		p := b
		if t < 1 {
			p = l.Between(a, b, t)
		}
		v := l.Objective(p)
		for v > start && t < 1 {
			t /= 2
			half := l.Between(a, b, t)
			if w := l.Objective(half); w > v {
				p, v = half, w
				continue
			}
			return p, true
		}
		if v > start {
			return p, true
		}
		if t == 1 && contracts && start-v <= 1e-14*math.Abs(start) {
			return p, true
		}
		if start-v <= flat*math.Abs(start) && math.Abs(l.Slope(p, a, b)) <= slope/2 {
			return p, true
		}
	}
	return p, false
}

// RelativeMove returns the largest change from a to b over b's largest entry.
func RelativeMove(a, b []float64) float64 {
	move := floats.Distance(a, b, math.Inf(1))
	if move == 0 {
		return 0
	}
	return move / floats.Norm(b, math.Inf(1))
}

// RelativeTo returns gap over the largest entry of f; 0 where both are 0.
func RelativeTo(gap float64, f []float64) float64 {
	if gap == 0 {
		return 0
	}
	return gap / floats.Norm(f, math.Inf(1))
}

// Mix returns a + t(b − a).
func Mix(a, b []float64, t float64) []float64 {
	out := make([]float64, len(a))
	for i := range out {
		out[i] = a[i] + t*(b[i]-a[i])
	}
	return out
}

// An Expander is a gp.Likelihood.
type Expander interface {
	Expand(residual, lambda, root, y, f []float64) (logp float64)
}

// Slope returns Σ (r(f) − α)·(b − a) over the training examples. y has N rows;
// an α of length 0 is zero.
func Slope(lik Expander, y *mat.Dense, f, alpha, a, b []float64) float64 {
	n, _ := y.Dims()
	c, sum := len(f)/n, 0.0
	r := make([]float64, c)
	for i := range n {
		lo, hi := i*c, (i+1)*c
		lik.Expand(r, nil, nil, y.RawRowView(i), f[lo:hi])
		if len(alpha) > 0 {
			floats.Sub(r, alpha[lo:hi])
		}
		for j, v := range r {
			sum += v * (b[lo+j] - a[lo+j])
		}
	}
	return sum
}

// LogLik returns Σ log p(y|f) over the training examples, in their order.
func LogLik(lik Expander, y *mat.Dense, f []float64) float64 {
	n, _ := y.Dims()
	c, sum := len(f)/n, 0.0
	for i := range n {
		sum += lik.Expand(nil, nil, nil, y.RawRowView(i), f[i*c:(i+1)*c])
	}
	return sum
}

// Finite returns v, or −Inf where v is NaN or infinite.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.Inf(-1)
	}
	return v
}

// Minus returns a − b.
func Minus(a, b []float64) []float64 { return floats.SubTo(make([]float64, len(a)), a, b) }
