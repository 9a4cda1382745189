package graph

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// A Backpropagation says which part of the matrices M is kept when the generalized Gauss–Newton matrix (GGN) is
// backpropagated layer by layer [lae algorithm 1]. M is ∂²ℓ/∂z² at the result z of a layer, with the network above
// linearized. It starts as Λ at the outputs, and a layer with Jacobian J passes JᵀMJ down.
type Backpropagation int

const (
	Exact              Backpropagation = iota // all of M
	Diagonals                                 // the diagonal of M at every layer [lae E.4.1]
	ConvDiagonals                             // the diagonal of M before and after convolutions
	FullAtConvolutions                        // as ConvDiagonals, but the weights of a convolution get all of M
)

// A Plan is the sequence of steps that backpropagates the diagonal of the GGN through a program.
type Plan struct {
	prog  *Program
	steps []step
	// Floats is the most numbers of M that one example keeps at a time.
	Floats int
}

// A step takes M from slot Upper to slot Lower. M is a diagonal matrix, or AᵀA given by the rows of A.
type step struct {
	Segment
	rows     int // rows of A that come in; 0 where M comes in as a diagonal
	diagonal bool
	fast     way
	ownRows  bool // the parameters use the rows, and only the diagonal goes on
}

// NewPlan returns the plan for an M that starts as the identity or, if rooted, as R Rᵀ. Without shortcuts, a
// diagonal M goes through every segment by one pass for each element, with the same result.
func NewPlan(p *Program, b Backpropagation, rooted, shortcuts bool) *Plan {
	plan := &Plan{prog: p}
	segments, reach := p.Segments(), p.Reachable()
	squash := func(g *Segment) bool { return b == Diagonals || b != Exact && g.Conv }
	rows := 0 // 0 means a diagonal
	if rooted {
		rows = p.C
	}
	for i := 0; i < len(segments); i++ {
		s := step{Segment: segments[i], rows: rows}
		if shortcuts {
			s.fast = p.wayOf(&segments[i], reach)
		}
		switch {
		case squash(&s.Segment):
			s.diagonal, s.ownRows = true, b == FullAtConvolutions && rows > 0
			rows = 0
		case rows == 0 && (s.fast == elementwise || s.fast == single):
			s.diagonal = true
		default:
			s.fast = byRows
			n := rows
			if n == 0 {
				n = p.Slots[s.Upper].Size
			}
			// Between segments with fewer rows than elements, go through both in one pass.
			for s.Lower >= 0 && p.Slots[s.Lower].Size >= n && !squash(&segments[i+1]) {
				i++
				// Add the segment below.
				below := &segments[i]
				s.Lower, s.From, s.Single = below.Lower, below.From, -1
				s.Places, s.Full = append(slices.Clone(s.Places), below.Places...), append(slices.Clone(s.Full), below.Full...)
				s.Conv = s.Conv || below.Conv
			}
			if s.Lower >= 0 {
				plan.Floats = max(plan.Floats, n*p.Slots[s.Lower].Size)
				rows = min(n, p.Slots[s.Lower].Size)
			}
		}
		plan.steps = append(plan.steps, s)
	}
	return plan
}

// A Backpropagator runs a Plan with the memory of one worker.
type Backpropagator struct {
	plan    *Plan
	s       *State
	squared *State // State with the squares of the static slots
	seed    []float64
	sums    map[int][]float64 // for each place, sums of squared gradients of a layer used once, N×out
	stacks  map[int]*stack    // for each place
	tile    []float64
}

// NewBackpropagator returns the memory to run a plan. squared has the squares of the static slots of s.
func NewBackpropagator(plan *Plan, s *State, squared [][]float64) *Backpropagator {
	return &Backpropagator{plan: plan, s: s, squared: NewState(plan.prog, squared), sums: map[int][]float64{}, stacks: map[int]*stack{}}
}

// Squares returns the squares of all elements of static slots.
func Squares(static [][]float64) [][]float64 {
	out := make([][]float64, len(static))
	for i, v := range static {
		out[i] = make([]float64, len(v))
	}
	SquaresTo(context.Background(), out, static)
	return out
}

// squareTile is the number of elements in a tile of work.
const squareTile = 1 << 16

// SquaresTo writes the squares of all elements of static slots to dst. If ctx ends, dst is undefined.
func SquaresTo(ctx context.Context, dst, static [][]float64) {
	for i, v := range static {
		to := dst[i][:len(v)]
		par.Do(ctx, par.Tiles(len(v), squareTile), func(t int) error {
			lo, hi := par.Bounds(t, len(v), squareTile)
			for j, x := range v[lo:hi] {
				to[lo+j] = x * x
			}
			return nil
		})
	}
}

// curvature is M for every example of a chunk: AᵀA given by the rows of A, each N×size, or a diagonal, N×size.
type curvature struct {
	rows     [][]float64
	diagonal []float64
}

// Add adds the diagonal of Σ_e J_eᵀ R_e R_eᵀ J_e over the examples of the state's chunk to dst, P numbers. roots
// has R_e of each example, C×C, or is nil for the identity. The state must have run forward.
func (b *Backpropagator) Add(dst, roots []float64) {
	p, n := b.plan.prog, b.s.N
	b.squared.N, b.squared.Team = n, b.s.Team
	var m curvature
	if roots == nil {
		m.diagonal = slices.Repeat([]float64{1}, n*p.C)
	} else {
		for k := range p.C {
			row := make([]float64, n*p.C)
			for e := range n {
				for c := range p.C {
					row[e*p.C+c] = roots[(e*p.C+c)*p.C+k]
				}
			}
			m.rows = append(m.rows, row)
		}
	}
	for i := range b.plan.steps {
		m = b.step(dst, &b.plan.steps[i], m)
	}
}

// step adds the squares for the parameters of a step to dst, and returns M at slot Lower.
func (b *Backpropagator) step(dst []float64, s *step, m curvature) curvature {
	if s.ownRows {
		for _, row := range m.rows {
			b.s.BackwardFrom(s.Upper, row, s.From, s.To)
			b.addSquares(dst, s)
		}
		b.flush(dst, s)
	}
	if s.diagonal && m.diagonal == nil {
		// The diagonal of AᵀA is the sum of squares over the rows of A.
		rows := m.rows
		sum := make([]float64, len(rows[0]))
		for _, row := range rows {
			addSquaresOf(sum, row)
		}
		m = curvature{diagonal: sum}
	}
	if s.fast != byRows {
		return curvature{diagonal: b.through(dst, s, m.diagonal)}
	}
	// Take the rows of A, or of the square root of a diagonal M, through the step one by one.
	var rows [][]float64
	var sum []float64
	size := 0
	if s.Lower >= 0 {
		size = b.plan.prog.Slots[s.Lower].Size
		sum = make([]float64, b.s.N*size)
	}
	b.eachRow(s, m, func(row []float64) {
		b.s.BackwardFrom(s.Upper, row, s.From, s.To)
		if !s.ownRows {
			b.addSquares(dst, s)
		}
		switch {
		case s.Lower < 0:
		case s.diagonal:
			addSquaresOf(sum, b.s.grad(s.Lower))
		default:
			rows = append(rows, slices.Clone(b.s.grad(s.Lower)))
		}
	})
	b.flush(dst, s)
	switch {
	case s.Lower < 0:
		return curvature{}
	case s.diagonal:
		return curvature{diagonal: sum}
	}
	return curvature{rows: compress(rows, b.s.N, size)}
}

// through takes a diagonal m through a step in its fast way, and returns M at slot Lower.
func (b *Backpropagator) through(dst []float64, s *step, m []float64) []float64 {
	p := b.plan.prog
	seed, st := m, b.s
	switch s.fast {
	case elementwise:
		seed = b.roots(m)
	case weighted:
		if st = b.squared; !s.ownRows {
			for _, k := range s.Places {
				b.addDiagonal(dst, k, m)
			}
		}
		if s.Lower < 0 {
			return nil
		}
	}
	clear(st.touched)
	g, _ := st.gradOrNew(s.Upper)
	copy(g, seed)
	switch s.fast {
	case elementwise:
		st.backwardNodes(s.From, s.To, func(int) {})
	case weighted:
		nd := &p.Nodes[s.Single]
		nd.Op.Backward(st, nd)
	default:
		// Go back through the nodes with the squares of the derivatives, and add the results for parameters to dst.
		for i := s.To - 1; i >= s.From; i-- {
			nd := &p.Nodes[i]
			if st.touched[nd.Out] && p.Slots[nd.Out].NeedsGrad {
				squared(nd.Op).Backward(st, nd)
			}
		}
		for _, slot := range s.Full {
			if s.ownRows || !st.touched[slot] {
				continue
			}
			prm := p.Params[p.Slots[slot].Param]
			for e := range st.N {
				dense.Axpy(dst[prm.Offset:prm.Offset+prm.Len()], 1, st.GradAt(slot, e))
			}
		}
	}
	if s.Lower < 0 {
		return nil
	}
	out := slices.Clone(st.grad(s.Lower)[:st.N*p.Slots[s.Lower].Size])
	if s.fast == elementwise {
		for i, v := range out {
			out[i] = v * v
		}
	}
	return out
}

// roots returns the square roots of m.
func (b *Backpropagator) roots(m []float64) []float64 {
	b.seed = sized(b.seed, len(m))
	for i, v := range m {
		b.seed[i] = math.Sqrt(v)
	}
	return b.seed
}

// eachRow calls do with the rows of A, N×size each. Of a diagonal's root it leaves out rows that are zero.
func (b *Backpropagator) eachRow(s *step, m curvature, do func(row []float64)) {
	if m.diagonal == nil {
		for _, row := range m.rows {
			do(row)
		}
		return
	}
	n, size := b.s.N, b.plan.prog.Slots[s.Upper].Size
	root := slices.Clone(b.roots(m.diagonal))
	row := make([]float64, n*size)
	for j := range size {
		zero := true
		for e := range n {
			row[e*size+j] = root[e*size+j]
			zero = zero && root[e*size+j] == 0
		}
		if !zero {
			do(row)
		}
		for e := range n {
			row[e*size+j] = 0
		}
	}
}

// compress returns at most size rows with the same AᵀA for every example: the triangle R of A = QR.
func compress(rows [][]float64, n, size int) [][]float64 {
	if len(rows) <= size {
		return rows
	}
	a, tau := dense.New(len(rows), size), make([]float64, size)
	work := make([]float64, 1)
	lapack64.Geqrf(a, tau, work, -1)
	work = make([]float64, int(work[0]))
	for e := range n {
		for k, row := range rows {
			copy(dense.Row(a, k), row[e*size:(e+1)*size])
		}
		lapack64.Geqrf(a, tau, work, len(work))
		for k := range size {
			to := rows[k][e*size : (e+1)*size]
			clear(to[:k])
			copy(to[k:], dense.Row(a, k)[k:])
		}
	}
	return rows[:size]
}

// addSquaresOf adds the squares of x to dst.
func addSquaresOf(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		dst[i] += v * v
	}
}
