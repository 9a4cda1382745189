package evidence

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// A hold says where a variable is held, or that it is free.
type hold int

const (
	free hold = iota
	atZero
	atLowest
	atHighest
)

// An end is the point that the search reached from one start.
type end struct {
	x         []float64 // log factors; −Inf for a group at 0
	value     float64
	held      []hold
	curvature *mat.SymDense // in the free variables
	step      float64       // length of the last Newton step; NaN for none
	settled   bool
}

const (
	smallGradient = 1e-4 // gradient at which the quasi-Newton steps end
	farOut        = 8    // the evidence is not computed farther beyond the range
	noValue       = 1e9  // negative evidence where there is none
	// A group with fewer effective parameters tr(B⁻¹RᵀK_gR) than this, and an evidence that falls with its
	// variance, is tried at variance 0: vanishing is the bound during the climb, small at its end.
	vanishing, small = 0.05, 0.5
)

// free returns the positions of the free variables of e.
func (e *end) free() []int {
	var at []int
	for j, h := range e.held {
		if h == free {
			at = append(at, j)
		}
	}
	return at
}

// with returns a copy of e.x with the variables at positions at set to u.
func (e *end) with(at []int, u []float64) []float64 {
	x := slices.Clone(e.x)
	for i, j := range at {
		x[j] = u[i]
	}
	return x
}

// climb moves the free variables by L-BFGS until the gradient is small, a variable leaves the range or a group
// vanishes.
func (s *search) climb(e *end, tried []bool) error {
	at := e.free()
	if len(at) == 0 {
		return nil
	}
	var failed error
	value := func(u []float64) float64 {
		x, excess := s.within(u)
		v, _, err := s.at(e.with(at, x), false)
		if err != nil {
			failed = err
		}
		if err != nil || math.IsInf(v, 0) {
			return noValue // the line search needs a number
		}
		return floats.Dot(excess, excess) - v
	}
	gradient := func(grad, u []float64) {
		x, excess := s.within(u)
		_, g, err := s.at(e.with(at, x), true)
		if err != nil {
			failed = err
			clear(grad)
			return
		}
		for i, j := range at {
			if grad[i] = -g[j]; excess[i] != 0 {
				grad[i] = 2 * excess[i]
			}
		}
	}
	status := func() (optimize.Status, error) {
		if failed != nil {
			return optimize.Failure, failed
		}
		return optimize.NotTerminated, nil
	}
	u := make([]float64, len(at))
	for i, j := range at {
		u[i] = e.x[j]
	}
	found, err := optimize.Minimize(optimize.Problem{Func: value, Grad: gradient, Status: status}, u,
		&optimize.Settings{GradientThreshold: smallGradient, MajorIterations: s.m.o.MaxIter, Converger: &leaving{s: s, e: e, at: at, tried: tried}},
		&optimize.LBFGS{Linesearcher: &optimize.MoreThuente{}})
	if failed != nil {
		return failed
	}
	if found == nil {
		return err
	}
	// If a line search fails because of rounding, the best point so far counts.
	s.iterations += found.MajorIterations
	e.x, e.value = e.with(at, found.X), -found.F
	return nil
}

// within returns u moved to at most farOut beyond the range, and excess, how far u was outside that.
func (s *search) within(u []float64) (x, excess []float64) {
	x, excess = slices.Clone(u), make([]float64, len(u))
	for i, v := range u {
		x[i] = min(max(v, s.m.o.Lowest-farOut), s.m.o.Highest+farOut)
		excess[i] = v - x[i]
	}
	return x, excess
}

// leaving ends a climb when a free variable leaves the range or a group vanishes.
type leaving struct {
	s     *search
	e     *end
	at    []int
	tried []bool
}

func (*leaving) Init(int) {}

func (l *leaving) Converged(loc *optimize.Location) optimize.Status {
	for i, j := range l.at {
		if loc.X[i] > l.s.m.o.Highest || loc.X[i] < l.s.m.o.Lowest {
			return optimize.StepConvergence
		}
		if j < l.s.groups && !l.tried[j] && l.s.last != nil && l.s.last.Trace != nil && l.s.last.Trace[j] < vanishing && loc.Gradient[i] > 0 {
			return optimize.StepConvergence
		}
	}
	return optimize.NotTerminated
}

// vanish tries variance 0 for groups with few effective parameters and for groups at the lower end of the range. A
// group stays at 0 if the evidence is no lower there and falls with its variance. During a climb, the bound on the
// effective parameters is smaller. Each group is tried once.
func (s *search) vanish(e *end, tried []bool, climbing bool) (changed bool, err error) {
	value, grad, err := s.at(e.x, true)
	if err != nil || !finite(value) {
		return false, err
	}
	e.value = value
	bound := small
	if climbing {
		bound = vanishing
	}
	trace := slices.Clone(s.last.Trace)
	for j := range s.groups {
		low := e.held[j] == atLowest
		if tried[j] || !low && (e.held[j] != free || grad[j] > smallGradient || trace[j] >= bound) {
			continue
		}
		tried[j] = true
		x := slices.Clone(e.x)
		x[j] = math.Inf(-1)
		v, _, err := s.at(x, true)
		if err != nil {
			return changed, err
		}
		if v >= e.value-1e-12*math.Abs(e.value) && s.last.Slope[j] < 0 {
			e.x, e.value, e.held[j], changed = x, v, atZero, true
		}
	}
	return changed, nil
}

// release frees held variables at which the evidence rises towards the inside of the range.
func (s *search) release(e *end, tried []bool) (changed bool, err error) {
	value, grad, err := s.at(e.x, true)
	if err != nil || !finite(value) {
		return false, err
	}
	slope, trace := s.last.Slope, s.last.Trace
	for j, h := range e.held {
		switch {
		case h == atZero && slope[j] > 0:
			// the variance with as many effective parameters as the bound vanishing
			e.x[j] = min(0, max(s.m.o.Lowest+1, math.Log(vanishing/trace[j])))
			tried[j] = true
		case h == atHighest && grad[j] < -smallGradient:
			e.x[j] -= 0.1
		case h == atLowest && grad[j] > smallGradient:
			e.x[j] += 0.1
		default:
			continue
		}
		e.held[j], changed = free, true
	}
	return changed, nil
}

const (
	differenceStep = 1e-4 // step of the differences of the gradient for the Hessian
	mostPolishing  = 8    // most Newton steps
)

// settledStep returns the longest last Newton step of a settled maximum.
func (s *search) settledStep() float64 { return max(1e-6, s.m.o.Tolerance) }

// polish makes Newton steps in the free variables, with the Hessian by differences of the gradient, until they are
// shorter than the tolerance or no longer shrink.
func (s *search) polish(e *end) error {
	at := e.free()
	value, grad, err := s.at(e.x, true)
	if err != nil || !finite(value) {
		return err
	}
	e.value = value
	if len(at) == 0 {
		e.step, e.settled = 0, true
		return nil
	}
	var chol mat.Cholesky
	last, steps := math.Inf(1), 0
	for fresh := true; steps < mostPolishing; steps++ {
		if fresh {
			if e.curvature, err = s.hessian(e.x, grad, at); err != nil {
				return err
			}
			minus := mat.NewSymDense(len(at), nil)
			minus.ScaleSym(-1, e.curvature)
			if !chol.Factorize(minus) {
				return nil // not a maximum
			}
		}
		g := make([]float64, len(at))
		for i, j := range at {
			g[i] = grad[j]
		}
		var step mat.VecDense
		// The solution is set even where SolveVecTo warns of the condition.
		_ = chol.SolveVecTo(&step, mat.NewVecDense(len(g), g))
		length := floats.Norm(step.RawVector().Data, math.Inf(1))
		if !(length < last/2) || length > 1 {
			e.settled = last <= s.settledStep()
			return nil
		}
		x := slices.Clone(e.x)
		for i, j := range at {
			x[j] += step.AtVec(i)
		}
		v, next, err := s.at(x, true)
		if err != nil {
			return err
		}
		if !finite(v) {
			return nil
		}
		s.iterations++
		e.x, e.value, grad, e.step = x, v, next, length
		// After a long step compute the Hessian anew; after a short one keep it.
		fresh, last = length > 1e-3, length
		if fresh {
			last = math.Inf(1)
		}
		if length <= s.m.o.Tolerance {
			break
		}
	}
	e.settled = e.step <= s.settledStep()
	return nil
}

// hessian returns the second derivatives in the variables at positions at, by differences from the gradient grad at
// x.
func (s *search) hessian(x, grad []float64, at []int) (*mat.SymDense, error) {
	rows := mat.NewDense(len(at), len(at), nil)
	for i, j := range at {
		up := slices.Clone(x)
		up[j] += differenceStep
		_, g, err := s.at(up, true)
		if err != nil {
			return nil, err
		}
		for k, l := range at {
			rows.Set(i, k, (g[l]-grad[l])/differenceStep)
		}
	}
	h := mat.NewSymDense(len(at), nil)
	for i := range at {
		for k := range i + 1 {
			h.SetSym(i, k, (rows.At(i, k)+rows.At(k, i))/2)
		}
	}
	return h, nil
}
