package dense

// system is T X = B with a triangular T, n × n: lower if it is solved forward, and upper if backward. T and X are
// given by two strides each: T(i, j) is t[i*trs + j*tcs], X(i, j) is x[i*xrs + j*xcs]. left says that X is in
// memory by rows and not as its transpose.
type system struct {
	t             []float64
	trs, tcs, n   int
	forward, unit bool

	x                   []float64
	xrs, xcs, ldx, cols int
	left                bool
}

// solve replaces X by α T⁻¹ X. It solves for depth rows of T at a time, in the order of elimination, and subtracts
// their products from the remaining rows.
func (s system) solve(alpha float64, l limit) error {
	if s.n == 0 || s.cols == 0 {
		return nil
	}
	if alpha == 0 {
		return s.update(0, 0, 0, s.n, 0, l)
	}
	for done := 0; done < s.n; done += depth {
		k := min(depth, s.n-done)
		lo, next, end := done, done+k, s.n
		if !s.forward {
			lo, next, end = s.n-done-k, 0, s.n-done-k
		}
		if err := l.err(); err != nil {
			return err
		}
		s.diagonal(lo, k, alpha, l.workers)
		if err := s.update(lo, k, next, end, alpha, l); err != nil {
			return err
		}
		alpha = 1
	}
	return nil
}

// update computes X[lo:hi] = β X[lo:hi] − T[lo:hi, p:p+k] X[p:p+k].
func (s *system) update(p, k, lo, hi int, beta float64, l limit) error {
	if lo == hi {
		return nil
	}
	t := operand{data: s.t[lo*s.trs+p*s.tcs:], rs: s.trs, cs: s.tcs}
	x := operand{data: s.x[p*s.xrs:], rs: s.xcs, cs: s.xrs}
	g := product{c: s.x[lo*s.xrs:], ldc: s.ldx, k: k, alpha: -1, beta: beta}
	if s.left {
		g.a, g.b, g.m, g.n = t, x, hi-lo, s.cols
	} else {
		g.a, g.b, g.m, g.n = x, t, s.cols, hi-lo
	}
	return g.run(l)
}

// diagonal replaces X[lo:lo+k] by α T[lo:lo+k, lo:lo+k]⁻¹ X[lo:lo+k], with panels of columns of X in parallel.
func (s *system) diagonal(lo, k int, alpha float64, workers int) {
	d := newDiagonal(*s, lo, k, alpha)
	defer d.packed.free()
	panels := (s.cols + d.nr - 1) / d.nr
	workers = min(workersFor(float64(k)*float64(k)/2*float64(s.cols), workers), panels)
	if workers == 1 {
		for i := range panels {
			d.panel(i)
		}
		return
	}
	d.parallel(panels, workers)
}
