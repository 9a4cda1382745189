package evidence

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// A hold says why a variable is not free.
type hold int

const (
	free hold = iota
	atZero
	atLowest
	atHighest
)

// An end is where one start ended.
type end struct {
	x         []float64 // −Inf for a group at 0
	value     float64
	held      []hold
	curvature *mat.SymDense // in the free variables
	step      float64       // the last Newton step; NaN for none
	settled   bool
}

const (
	smallGradient = 1e-4 // ends the quasi-Newton steps
	farOut        = 8    // no evidence is computed so far beyond the range
	noValue       = 1e9  // stands for the negative evidence where there is none
	// A group with fewer effective parameters, tr(B⁻¹RᵀK_gR), and a falling evidence is
	// tried at a variance of 0: the first bound during the climb, the second at its end.
	vanishing, small = 0.05, 0.5
)

// free returns the variables of e that are free.
func (e *end) free() []int {
	var at []int
	for j, h := range e.held {
		if h == free {
			at = append(at, j)
		}
	}
	return at
}

// with returns e.x with the free variables, numbers at, set to u.
func (e *end) with(at []int, u []float64) []float64 {
	x := slices.Clone(e.x)
	for i, j := range at {
		x[j] = u[i]
	}
	return x
}

// climb moves the free variables by L-BFGS until the gradient is small, a variable
// leaves the range or a group vanishes.
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
	// A line search that fails for rounding leaves the best point so far.
	s.iterations += found.MajorIterations
	e.x, e.value = e.with(at, found.X), -found.F
	return nil
}

// within returns u moved to at most farOut beyond the range, and by how much it was
// outside.
func (s *search) within(u []float64) (x, excess []float64) {
	x, excess = slices.Clone(u), make([]float64, len(u))
	for i, v := range u {
		x[i] = min(max(v, s.m.o.Lowest-farOut), s.m.o.Highest+farOut)
		excess[i] = v - x[i]
	}
	return x, excess
}

// leaving ends a climb where a free variable leaves the range or a group vanishes.
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

// vanish tries groups of few effective parameters, and groups at the lower end of the
// range, at a variance of 0, and leaves them there where the evidence is no lower and
// falls in the variance. A climb that has not ended tries only those that vanish.
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

// release frees variables that are held although the evidence rises from there into
// the range.
func (s *search) release(e *end, tried []bool) (changed bool, err error) {
	value, grad, err := s.at(e.x, true)
	if err != nil || !finite(value) {
		return false, err
	}
	slope, trace := s.last.Slope, s.last.Trace
	for j, h := range e.held {
		switch {
		case h == atZero && slope[j] > 0:
			// as many effective parameters as count as vanishing
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
	differenceStep = 1e-4 // of the Hessian by differences of the gradient
	mostPolishing  = 8    // Newton steps
)

// settledStep is the longest last step of a maximum that is settled.
func (s *search) settledStep() float64 { return max(1e-6, s.m.o.Tolerance) }

// polish makes Newton steps in the free variables, with the Hessian by differences of
// the gradient, until they are shorter than the tolerance or no longer shrink.
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
				return nil // no maximum
			}
		}
		g := make([]float64, len(at))
		for i, j := range at {
			g[i] = grad[j]
		}
		var step mat.VecDense
		// A condition warning still carries the solution.
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
		// A long step leads to another Hessian; after a short one the old serves.
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

// hessian returns the second derivatives in the variables at, by differences of the
// gradient, of which grad is the one at x.
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
