// Package newton has the search that all refits use (E9): how far to go along a Newton step, when to end, and what
// to warn of. The sites of a step are Gaussian approximations of the likelihood, with residual r and curvature Λ at
// the present f (package gp).
package newton

import (
	"cmp"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/linearize"
)

const (
	// SmallMove is the relative length of a Newton step that ends the refit: no entry of f̂ moves by more than
	// SmallMove times the largest entry.
	SmallMove = 1e-12
	// SmallOpen is the relative error above which a refit warns. This applies to the length of its last Newton step
	// relative to the largest entry of f̂, and to the gap of its sums over the training examples relative to the
	// largest output.
	SmallOpen = 1e-8
	// SmallGap is the ‖α − r(f̂)‖ above which a refit warns.
	SmallGap = 1e-6
	// flat is the relative change of the objective below which the slopes at both ends of a step decide whether it
	// is taken, because rounding may hide its gain. The method and the value are from Hager and Zhang, "A new
	// conjugate gradient method", SIAM J. Optim. 16, 2005.
	flat = 1e-6
	// hidden bounds the relative rounding error of the objective, a sum of a few thousand terms with an error of
	// 1e-16 each.
	hidden = 1e-13
	// noGain is the predicted gain of the objective up to which a refit does not warn. Such a step moves f̂ by at
	// most 1e-10 of its posterior standard deviation, even if it is long relative to an f̂ that is nearly 0.
	noGain = 1e-20
	// The search along a Newton step shortens the step until the step moves no entry of f by more than shortestPart
	// times the largest entry, or until the remaining fraction of the step is below smallestPart.
	shortestPart, smallestPart = 1e-16, 1e-60
)

// ErrNoObjective reports that the objective has no finite value to start from.
var ErrNoObjective = errors.New("gp: the likelihood has no finite value at the prior mean or near θ*; scale the targets or raise the prior precision")

// A Line computes with points P of a refit for the search. The objective is Σ log p(y|f) − ½‖·‖², where ‖·‖² is the
// squared distance from the prior mean.
type Line[P any] interface {
	// Between returns a + t(b − a).
	Between(a, b P, t float64) P
	// Objective returns the objective, or −Inf where it is not finite.
	Objective(p P) float64
	// Slope returns the derivative of the objective at p in the direction from a to b.
	Slope(p, a, b P) float64
	// Values returns f at the training examples, N·C.
	Values(p P) []float64
}

// An end says whether a refit goes on, or why it ends.
type end int

const (
	goesOn    end = iota
	settled       // the last Newton step was shorter than Search.Short
	exhausted     // MaxIter steps were made
	stuck         // no part of the Newton step raises the objective
)

// A Search is the state of a refit between two Newton steps.
type Search struct {
	MaxIter int     // most Newton steps
	Short   float64 // length of a step that ends the search, relative to the largest entry of f̂; 0 is as short as rounding lets
	// AtTheta says that the sites of the first step are at θ*. θ* may then be outside the span of the training
	// examples, and the search along the first step starts at the prior mean.
	AtTheta bool
	Steps   int     // Newton steps made
	Move    float64 // length of the last step, relative to the largest entry of f̂; +Inf at first
	gain    float64 // gain of the objective predicted for the last step; NaN if unknown

	// Fisher scoring only:
	fisher   bool
	before   any     // *track[P] of the previous step; nil before the second step in the span
	shortest float64 // length of the shortest step
	stalled  int     // steps since the shortest one
}

// Resumable tells whether the next Newton step depends only on Steps, Move and the point reached. Fisher scoring
// also depends on earlier steps.
func (s *Search) Resumable() bool { return !s.fisher }

// Moves tells, after the end of a refit, whether its last step was long. A long step whose predicted gain is below
// rounding does not count.
func (s *Search) Moves() bool { return !(s.Move <= SmallOpen) && !(s.gain <= noGain) }

// Warnings returns a warning where the refit ended while it still moved.
func (s *Search) Warnings() []error {
	if !s.Moves() {
		return nil
	}
	return []error{linearize.NewWarning("refit-steps", s.Move, SmallOpen, "Raise the prior precision or Options.MaxIter.",
		"The refit stopped after %d Newton steps while it still moved by %.3g of the largest output. Its mean is off by about as much.", s.Steps, s.Move)}
}

// GapWarnings returns a warning where gap, the distance ‖α − r‖ of the dual vector from the residual at the end of
// a refit, is above SmallGap. At an exact mode both are equal (E9). Where rounding causes the gap, as with prior
// variances 1e8 times the noise, removals (E15) have fewer than 8 digits; without the warning they are right to
// 1e-8 of the largest.
func GapWarnings(gap float64) []error {
	if gap <= SmallGap {
		return nil
	}
	return []error{linearize.NewWarning("refit-gap", gap, SmallGap, "Raise the prior precision, or scale the targets.",
		"At the end of the refit ‖α − r‖ is %.3g, and at a mode it is 0. Contributions and removals (E15) may have fewer than 8 digits.", gap)}
}

// OpenWarnings returns a warning where gap is above SmallOpen: the difference between the sums Σ C(x, x_i) b_i over
// the training examples (E14) and the posterior mean less the prior mean, relative to the largest output. This
// happens where examples (nearly) repeat one another and the prior variance is large compared with the noise.
func OpenWarnings(gap float64) []error {
	if gap <= SmallOpen {
		return nil
	}
	return []error{linearize.NewWarning("sums-open", gap, SmallOpen, "Raise the prior precision or the noise variance, or leave out repeated examples.",
		"The contributions of the training examples miss their sum by %.3g of the largest output. Each of them is uncertain by about as much.", gap)}
}

// advance returns the point at which the next Newton step starts, and whether the refit ends. sites is f at the sites
// of the last step, to is the end of this step, and from is the point at which the search along it starts. Where
// the refit ends, advance returns to.
func advance[P any](s *Search, l Line[P], sites []float64, from, to P) (P, end, error) {
	last := s.Move
	s.gain = math.NaN()
	s.Move = RelativeMove(sites, l.Values(to))
	short := cmp.Or(s.Short, SmallMove)
	if s.fisher {
		short = cmp.Or(s.Short, smallScore)
	}
	switch {
	case s.Move < short:
		return to, settled, nil
	case s.Steps == s.MaxIter:
		return to, exhausted, nil
	}
	first := s.AtTheta && s.Steps == 0
	if s.AtTheta && s.Steps == 1 {
		last = math.Inf(1) // a step from θ* says nothing about steps within the span
	}
	if s.fisher && !first {
		return score(s, l, from, to)
	}
	next, ok := from, false
	if first {
		next, ok = climb(l, from, to, math.NaN(), false)
	} else {
		slope := l.Slope(from, from, to)
		s.gain = math.Abs(slope) / 2
		// The quadratic model predicts a gain of half the slope. Where rounding hides this gain, go on while each
		// step is at most half as long as the previous one.
		if s.gain < hidden*math.Abs(l.Objective(from)) {
			next, ok = to, s.Move < last/2
		} else {
			next, ok = climb(l, from, to, slope, s.Move < last/2)
		}
	}
	if !ok {
		if !first {
			return to, stuck, nil
		}
		next = from
	}
	if math.IsInf(l.Objective(next), 0) {
		return next, stuck, ErrNoObjective
	}
	s.Steps++
	return next, goesOn, nil
}

// climb tries the points 1, ½, ¼, … of the way from a to b, and returns the first that raises the objective. If
// this is not b itself, it halves further while this raises the objective more. slope is the objective's slope at
// a, or NaN where b is not the end of a Newton step from a. Where rounding may hide the change of the objective,
// climb also accepts a point at which the slope is at most half as large. contracts says that the last step was at
// most half as long as the previous one; then climb accepts b if the objective is the same up to rounding.
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

// Find makes Newton steps until the refit ends, and returns the end of its last step. All refits share this loop and
// differ in how step solves for a Newton step. step returns the end of the Newton step for sites at f. In the first
// step the sites are at the function values sites, and the search along the step starts at from. In every other step
// both are at the point that the previous step reached. A step that returns from itself ends the refit.
func Find[P any](s *Search, l Line[P], sites []float64, from P, step func(f []float64, from P) (to P, err error)) (P, error) {
	for e := goesOn; e == goesOn; sites = l.Values(from) {
		to, err := step(sites, from)
		if err != nil {
			return from, err
		}
		if from, e, err = advance(s, l, sites, from, to); err != nil {
			return from, err
		}
	}
	return from, nil
}

// RelativeMove returns the largest change from a to b, relative to the largest entry of b.
func RelativeMove(a, b []float64) float64 {
	move := floats.Distance(a, b, math.Inf(1))
	if move == 0 {
		return 0
	}
	return move / floats.Norm(b, math.Inf(1))
}

// RelativeTo returns gap relative to the largest entry of f, and 0 where both are 0.
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

// Targets are the part of gp.Targets that a search needs.
type Targets interface {
	Len() int // N
	// Expand returns log p(y_i|f) of training example i and writes its derivatives (E3).
	Expand(i int, residual, lambda, root, f []float64) (logp float64)
	// Scored tells whether Λ is the Fisher information.
	Scored() bool
}

// Slope returns Σ (r(f) − α)ᵀ(b − a) over the training examples. An empty alpha means zero.
func Slope(y Targets, f, alpha, a, b []float64) float64 {
	n := y.Len()
	c, sum := len(f)/n, 0.0
	r := make([]float64, c)
	for i := range n {
		lo, hi := i*c, (i+1)*c
		y.Expand(i, r, nil, nil, f[lo:hi])
		if len(alpha) > 0 {
			floats.Sub(r, alpha[lo:hi])
		}
		for j, v := range r {
			sum += v * (b[lo+j] - a[lo+j])
		}
	}
	return sum
}

// LogLik returns Σ log p(y|f) over the training examples, added in order.
func LogLik(y Targets, f []float64) float64 {
	n := y.Len()
	c, sum := len(f)/n, 0.0
	for i := range n {
		sum += y.Expand(i, nil, nil, nil, f[i*c:(i+1)*c])
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

// Overflow returns the first index i for which Σ_{j≤i} a_j·b_j is not finite, and this sum, or −1 where there is
// none.
func Overflow(a, b []float64) (int, float64) {
	sum := 0.0
	for i, v := range a {
		if sum += v * b[i]; math.IsNaN(sum) || math.IsInf(sum, 0) {
			return i, sum
		}
	}
	return -1, sum
}

// Minus returns a − b.
func Minus(a, b []float64) []float64 { return floats.SubTo(make([]float64, len(a)), a, b) }
