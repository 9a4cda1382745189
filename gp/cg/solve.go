package cg

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/linearize"
)

// A Solve tells how well B x = v was solved.
type Solve struct {
	Steps    int     // steps of conjugate gradients
	Residual float64 // ‖v − Bx‖/‖v‖, computed from x; the largest of several v
}

// warning says that the solve for what ended before it reached the tolerance: it used all its
// steps, or rounding allowed no further gain.
func (s *Solve) warning(what string, tolerance float64) error {
	return linearize.NewWarning("solve-residual", s.Residual, tolerance, "Raise Options.MaxSteps or Options.Rank.",
		"Conjugate gradients for %s reached the relative residual %.3g, not %.3g, in %d steps. Its numbers have a relative error of about this size.", what, s.Residual, tolerance, s.Steps)
}

// worst makes s the worse of s and t in steps and in residual.
func (s *Solve) worst(t Solve) {
	s.Steps, s.Residual = max(s.Steps, t.Steps), math.Max(s.Residual, t.Residual)
}

// A system is B = I + RᵀKR (E4) with its preconditioner.
type system struct {
	data *data
	root siteBlocks
	pre  *preconditioner
	o    *Options
}

// A solver solves B X = V for up to k columns by preconditioned conjugate
// gradients, all of them at once. It is used by one goroutine at a time.
type solver struct {
	*system
	sum        jacobian.Sum
	r, z, p, q []float64      // N·C×k
	without    []int          // the training example that the columns of each example leave out; nil for none
	most       int            // most steps of a solve
	res        blas64.General // the residual of the last solve
	progress   func(stage string, done, total int)
}

// solver returns a solver for k columns.
func (s *system) solver(k int) *solver {
	n := s.data.n * s.data.c * k
	return &solver{system: s, most: s.o.MaxSteps, sum: jacobian.Sum{},
		r: make([]float64, n), z: make([]float64, n), p: make([]float64, n), q: make([]float64, n), progress: s.o.Progress}
}

// mulTo writes B v = v + Rᵀ(K(R v)); scratch has the size of v. The rows of
// examples that are left out stay zero.
func (s *solver) mulTo(ctx context.Context, dst, v, scratch blas64.General) error {
	dense.Copy(scratch, v)
	s.root.mul(scratch, 0, false)
	if err := s.data.mulTo(ctx, dst, scratch, &s.sum); err != nil {
		return err
	}
	s.root.mul(dst, 0, true)
	add(dst, v)
	s.leaveOut(dst)
	return nil
}

// precondition writes P⁻¹r, without the rows of examples that are left out. What is
// left of P⁻¹ is positive definite too, and no less than the inverse of what is
// left of P.
func (s *solver) precondition(ctx context.Context, z, r blas64.General) error {
	err := s.pre.solveTo(ctx, z, r)
	s.leaveOut(z)
	return err
}

// leaveOut makes the rows of examples that are left out zero, in the columns that
// leave them out.
func (s *solver) leaveOut(v blas64.General) {
	c := s.data.c
	for i, n := range s.without {
		dense.Zero(dense.Cols(dense.Rows(v, n*c, (n+1)*c), i*c, (i+1)*c))
	}
}

// solve writes X ≈ B⁻¹V, each column to ‖v − Bx‖ ≤ tol ‖v‖. When the recurrence
// says that this is reached, solve computes V − BX from X; where it is not, the
// iteration starts again from there, as long as this gains and steps are left.
// Afterwards s.res holds V − BX. A number that is not finite is a *RangeError.
func (s *solver) solve(ctx context.Context, x, v blas64.General, tol float64) (Solve, error) {
	r := s.matrix(s.r, v)
	dense.Zero(x)
	dense.Copy(r, v)
	norms := roots(dots(v, v))
	last := append([]float64(nil), norms...)
	out := Solve{Residual: 1}
	for _, n := range norms {
		if !finite(n) {
			return out, &RangeError{What: "the norm of a right-hand side", Value: n, Residual: 1}
		}
	}
	for {
		target := make([]float64, len(norms))
		for j, n := range norms {
			target[j] = tol / 2 * n
		}
		steps, err := s.iterate(ctx, x, r, target, s.most-out.Steps)
		out.Steps += steps
		if err != nil {
			if e, ok := err.(*RangeError); ok {
				e.Steps, e.Residual = out.Steps, out.Residual
			}
			return out, err
		}
		// r = v − B x
		if err := s.mulTo(ctx, r, x, s.matrix(s.z, v)); err != nil {
			return out, err
		}
		subFrom(r, v)
		now := roots(dots(r, r))
		gains := false
		before := out.Residual
		out.Residual = 0
		for j, n := range now {
			if !finite(n) {
				return out, &RangeError{What: "the norm of a residual", Value: n, Steps: out.Steps, Residual: before}
			}
			if norms[j] > 0 {
				out.Residual = math.Max(out.Residual, n/norms[j])
			}
			gains = gains || n > tol*norms[j] && n < last[j]/2
		}
		if !gains || out.Steps >= s.most {
			s.res = r
			return out, nil
		}
		last = now
	}
}

// solveDual replaces the columns of v by (I+ΛK)⁻¹v = v − R B⁻¹ RᵀK v. s.res is the
// residual of the solve with B, and tol is relative to its right-hand side RᵀK v.
func (s *solver) solveDual(ctx context.Context, v blas64.General, tol float64) (Solve, error) {
	g, x := dense.New(v.Rows, v.Cols), dense.New(v.Rows, v.Cols)
	if err := s.data.mulTo(ctx, g, v, &s.sum); err != nil {
		return Solve{}, err
	}
	s.root.mul(g, 0, true)
	out, err := s.solve(ctx, x, g, tol)
	s.root.mul(x, 0, false)
	subtract(v, x)
	return out, err
}

// iterate makes steps from x, whose residual is r, until the norm of each column of
// r, as the recurrence gives it, is at most its target. It returns their number.
func (s *solver) iterate(ctx context.Context, x, r blas64.General, target []float64, most int) (int, error) {
	z, p, q := s.matrix(s.z, r), s.matrix(s.p, r), s.matrix(s.q, r)
	step, back := make([]float64, r.Cols), make([]float64, r.Cols)
	active := above(dots(r, r), target)
	if active == nil {
		return 0, nil
	}
	if err := s.precondition(ctx, z, r); err != nil {
		return 0, err
	}
	dense.Copy(p, z)
	rz := dots(r, z)
	for done := 1; ; done++ {
		if err := ctx.Err(); err != nil {
			return done - 1, err
		}
		// q = B p, with z as scratch
		if err := s.mulTo(ctx, q, p, z); err != nil {
			return done - 1, err
		}
		pq := dots(p, q)
		for j := range step {
			step[j] = 0
			if active[j] {
				if !finite(pq[j]) {
					return done - 1, &RangeError{What: "a product with the kernel", Value: pq[j]}
				}
				if pq[j] <= 0 {
					return done - 1, errNotCovariance
				}
				// α = rᵀz/pᵀBp
				step[j] = rz[j] / pq[j]
			}
		}
		addScaled(x, step, p)
		for j, v := range step {
			back[j] = -v
		}
		addScaled(r, back, q)
		s.progress(StageSolve, done, 0)
		if active = above(dots(r, r), target); active == nil || done >= most {
			return done, nil
		}
		if err := s.precondition(ctx, z, r); err != nil {
			return done, err
		}
		next := dots(r, z)
		for j := range back {
			back[j] = 0
			if active[j] {
				// β = r'ᵀz'/rᵀz
				back[j] = next[j] / rz[j]
			}
		}
		rz = next
		// Replace each column y_j by s_j y_j + x_j.
		eachRow(p, z, func(y, x []float64) {
			for j, v := range x {
				y[j] = back[j]*y[j] + v
			}
		})
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// errors returns ρᵀP⁻¹ρ for each column, where ρ = v − Bx is the residual of the
// last solve. As P ⪯ B, it is at least ρᵀB⁻¹ρ = (x* − x)ᵀB(x* − x), where x* is the
// exact solution.
func (s *solver) errors(ctx context.Context) ([]float64, error) {
	z := s.matrix(s.z, s.res)
	if err := s.pre.solveTo(ctx, z, s.res); err != nil {
		return nil, err
	}
	e := dots(s.res, z)
	for j, v := range e {
		e[j] = math.Max(0, v)
	}
	return e, nil
}

// matrix returns the memory as a matrix of the size of v.
func (s *solver) matrix(memory []float64, v blas64.General) blas64.General {
	return dense.In(memory, v.Rows, v.Cols)
}

// above tells which columns exceed their targets, given their squared norms. It
// returns nil if none does.
func above(squares, target []float64) []bool {
	active, any := make([]bool, len(squares)), false
	for j, v := range squares {
		// NaN counts as above.
		active[j] = !(math.Sqrt(v) <= target[j])
		any = any || active[j]
	}
	if !any {
		return nil
	}
	return active
}

// roots replaces the squares by their roots.
func roots(squares []float64) []float64 {
	for j, v := range squares {
		squares[j] = math.Sqrt(v)
	}
	return squares
}
