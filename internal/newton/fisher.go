package newton

import "math"

// New returns the search of a refit to targets, before its first step (E9). Under a gp.Scored likelihood the steps
// are steps of Fisher scoring.
func New(y Targets, maxIter int, atTheta bool) Search {
	return Search{MaxIter: maxIter, AtTheta: atTheta, Move: math.Inf(1), shortest: math.Inf(1), fisher: y.Scored()}
}

const (
	// smallScore is the relative length of a Fisher scoring step that ends the refit. It is smaller than SmallMove
	// for two reasons: the remaining error is a multiple of the step and not its square, and outputs much smaller
	// than the largest must converge too.
	smallScore = 1e-15
	// flatEnough is the slope, relative to the slope at the start of a line, at which a search along the line ends.
	flatEnough = .1
	// longestPart is the farthest that a search goes along a line, in lengths of the step.
	longestPart = 16
	// most bounds β, and 1/most is the smallest part of a line from which the next direction is conjugate.
	// Otherwise directions would be mostly rounding errors, and scoring starts anew.
	most = 100
	// lineTrials is the most points in a search along a line.
	lineTrials = 60
	// mostStalled is the most steps of Fisher scoring without a shorter one where rounding hides the objective.
	mostStalled = 10
)

// A track is what Fisher scoring keeps of the previous step: the point where it started, the slope of the objective
// there towards the end of the scoring step, and the part of its line that was taken.
type track[P any] struct {
	from        P
	slope, part float64
}

// score is advance for a step of Fisher scoring. A scoring step alone shortens the distance to the mode by a constant
// factor, which is close to 1 where the data nearly determine the mean. The steps are therefore directions of
// nonlinear conjugate gradients in the metric of B (with Polak and Ribière's β, at least 0), and the search looks
// for a point with zero slope along them.
func score[P any](s *Search, l Line[P], from, to P) (P, end, error) {
	slope := l.Slope(from, from, to)
	s.gain = math.Abs(slope) / 2
	start := l.Objective(from)
	hides := s.gain < hidden*math.Abs(start)
	if s.stalled++; s.Move < s.shortest {
		s.shortest, s.stalled = s.Move, 0
	}
	if !(slope > 0) || hides && s.stalled > mostStalled {
		return to, stuck, nil
	}
	target := to
	if before, ok := s.before.(*track[P]); ok && before.part > 1/most && s.stalled < mostStalled/2 {
		if t, ok := conjugate(l, before, from, to, slope); ok {
			target, slope = t, l.Slope(from, from, t)
		}
	}
	next, part := alongLine(l, from, target, start, slope, hides)
	if part == 0 {
		return to, stuck, nil
	}
	s.before = &track[P]{from: from, slope: l.Slope(from, from, to), part: part}
	s.Steps++
	return next, goesOn, nil
}

// conjugate returns to + β/part·(from − before), the end of the conjugate direction. ok is false where β is not in
// (0, most), or where the direction does not lead uphill.
func conjugate[P any](l Line[P], before *track[P], from, to P, slope float64) (target P, ok bool) {
	// β = (g − g')·s / g'·s'
	beta := (slope - l.Slope(before.from, from, to)) / before.slope
	if !(beta > 0 && beta < most) {
		return to, false
	}
	beyond := l.Between(before.from, from, 1+beta/before.part)
	target = l.Between(from, l.Between(to, beyond, .5), 2)
	return target, l.Slope(from, from, target) > 0
}

// alongLine returns a point on the line from a to b at which the slope is a small part of the slope at a, and its
// position part along the line. part is 0 where no such point was found at which the objective is higher than
// start. hides says that rounding hides changes of the objective, so that only the slope counts.
func alongLine[P any](l Line[P], a, b P, start, slope float64, hides bool) (best P, part float64) {
	lo, hi := 0.0, math.Inf(1)
	atLo, atHi := slope, math.NaN()
	least := math.Inf(1)
	t := 1.0
	for range lineTrials {
		p := b
		if t != 1 {
			p = l.Between(a, b, t)
		}
		v, d := l.Objective(p), math.NaN()
		ok := v > start || hides && start-v <= hidden*math.Abs(start)
		if !math.IsInf(v, -1) {
			d = l.Slope(p, a, b)
		}
		if ok && math.Abs(d) < least {
			best, part, least = p, t, math.Abs(d)
		}
		switch {
		case ok && math.Abs(d) <= flatEnough*slope:
			return best, part
		case ok && d > 0:
			lo, atLo = t, d
		default:
			hi, atHi = t, d
		}
		if math.IsInf(hi, 1) {
			// Farther out, the slope is a rounding error, or the line leaves the basin.
			if t *= 2; t > longestPart || hides && t > 2 {
				return best, part
			}
			continue
		}
		// Take the zero of the secant of the slopes, but well inside the interval.
		middle := lo + (hi-lo)/2
		if t = middle; atHi < 0 {
			t = lo + (hi-lo)*math.Min(math.Max(atLo/(atLo-atHi), .05), .95)
		}
		if !(lo < t && t < hi) || t < smallestPart {
			break
		}
	}
	return best, part
}
