package cg

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/quadrature"
	"github.com/funcgp/funcgp/linearize"
)

// A LogDet is an estimate of log det B.
type LogDet struct {
	Value float64
	// StdErr is the standard error of Value, from the random probes and from their
	// quadrature.
	StdErr float64
	// Lower and Upper are certain bounds: log det P of the preconditioner P ⪯ B,
	// and log det P + tr Rᵀ(K−Q)R, since log det P⁻¹B ≤ tr P⁻¹(B − P).
	Lower, Upper float64
	Probes       int
	Steps        int // Lanczos steps
}

// LogDet estimates log det B = log det P + tr log M, where M = Y B Yᵀ and
// YᵀY = P⁻¹. The first call does the work; later calls return the same.
//
// It estimates the trace by stochastic Lanczos quadrature (Ubaru, Chen, Saad
// 2017). For a vector z of independent random signs, zᵀ log(M) z has the mean
// tr log M. It is the integral of the logarithm over a measure on the eigenvalues
// of M, and k steps of the Lanczos iteration from z give the Gauss rule with k
// nodes for it. All eigenvalues of M are at least 1, so the Gauss rule is never
// too small, and the Gauss–Radau rule with the node 1 is never too large. The
// iteration ends when both agree to a hundredth of the standard error.
func (p *Posterior) LogDet(ctx context.Context) (*LogDet, error) {
	p.mu.Lock()
	det := p.det
	p.mu.Unlock()
	if det != nil {
		return det, nil
	}
	det, warning, err := p.estimateLogDet(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.det == nil {
		p.det = det
		if warning != nil {
			p.warnings = append(p.warnings, warning)
		}
	}
	return p.det, nil
}

// estimateLogDet computes LogDet, and a warning or nil.
func (p *Posterior) estimateLogDet(ctx context.Context) (*LogDet, error, error) {
	_, left := p.features.left(p.local.Lambda)
	det := &LogDet{Lower: p.sys.pre.logDet, Probes: p.o.Probes}
	det.Upper = det.Lower + left
	root := p.sys.pre.inverseRoot()
	var values []float64
	width := 0.0
	for len(values) < p.o.Probes {
		k := min(p.columns, p.o.Probes-len(values))
		l := newLanczos(p.sys.solver(k), root, k, p.o.Seed, len(values))
		rules, err := l.run(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range rules {
			values = append(values, (r.lower+r.upper)/2)
			width = math.Max(width, r.upper-r.lower)
		}
		det.Steps = max(det.Steps, l.steps)
	}
	mean, sd := stat.MeanStdDev(values, nil)
	probes := sd / math.Sqrt(float64(len(values)))
	det.Value = math.Min(math.Max(det.Lower+mean, det.Lower), det.Upper)
	det.StdErr = math.Hypot(probes, width/2)
	if width > math.Max(probes, smallLogDet*float64(p.data.n)) {
		return det, linearize.NewWarning("log-det", width, probes, "Raise Options.MaxSteps or Options.Rank.",
			"The log determinant is known to %.3g after %d Lanczos steps, and by its random probes to %.3g. The log evidence is uncertain by about %.3g.", width, det.Steps, probes, det.StdErr/2), nil
	}
	return det, nil, nil
}

// smallLogDet is the accuracy beyond which an example's part of the log
// determinant need not be known.
const smallLogDet = 1e-12

// probeStream is the first of the probes' streams of random numbers.
const probeStream = 1 << 32

// A lanczos runs the Lanczos iteration on M = Y B Yᵀ, YᵀY = P⁻¹, from several
// vectors at once.
type lanczos struct {
	s        *solver
	root     *inverseRoot
	n        int
	v, w, z  blas64.General // the vectors, the next ones, and scratch
	before   blas64.General // the vectors before
	diag     [][]float64    // diagonal of each tridiagonal matrix
	off      [][]float64    // off-diagonal of each
	steps    int
	finished []bool // vectors whose Krylov space is exhausted
}

// newLanczos draws k vectors of signs, probes first, first+1, …
func newLanczos(s *solver, root *inverseRoot, k int, seed uint64, first int) *lanczos {
	n := s.data.n * s.data.c
	l := &lanczos{s: s, root: root, n: n, v: dense.New(n, k), w: dense.In(s.p, n, k), z: dense.In(s.z, n, k), before: dense.In(s.r, n, k),
		diag: make([][]float64, k), off: make([][]float64, k), finished: make([]bool, k)}
	unit := 1 / math.Sqrt(float64(n))
	for j := range k {
		rng := rand.New(rand.NewPCG(seed, probeStream+uint64(first+j)))
		for i := range n {
			l.v.Data[i*k+j] = unit
			if rng.Uint64()&1 == 0 {
				l.v.Data[i*k+j] = -unit
			}
		}
	}
	clear(l.before.Data)
	return l
}

// A rule holds the two quadratures of one vector, between which its integral is.
type rule struct{ lower, upper float64 }

// run iterates until the rules are as good as the probes.
func (l *lanczos) run(ctx context.Context) ([]rule, error) {
	rules := make([]rule, len(l.diag))
	next := 1 // step at which to compute the rules, each from an eigenvalue problem
	for {
		if err := l.step(ctx); err != nil {
			return nil, err
		}
		l.s.progress(StageLogDet, l.steps, 0)
		last := l.steps >= l.s.o.MaxSteps || !slices.Contains(l.finished, false)
		if l.steps < next && !last {
			continue
		}
		next = l.steps + 1 + l.steps/4
		err := par.Do(ctx, len(rules), func(j int) error { return l.rule(&rules[j], j) })
		if err != nil {
			return nil, err
		}
		if last || l.determined(rules) {
			return rules, nil
		}
	}
}

// determined tells whether the rules agree to a hundredth of the standard
// error.
func (l *lanczos) determined(rules []rule) bool {
	width, values := 0.0, make([]float64, len(rules))
	for j, r := range rules {
		values[j] = r.upper
		width = math.Max(width, r.upper-r.lower)
	}
	stdErr := 0.0
	if len(values) > 1 {
		stdErr = stat.StdDev(values, nil) / math.Sqrt(float64(len(values)))
	}
	return width <= math.Max(stdErr/100, smallLogDet*float64(l.n))
}

// step makes one Lanczos step, which adds a row to each tridiagonal matrix.
func (l *lanczos) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k := len(l.diag)
	q := l.s.matrix(l.s.q, l.v)
	// w = M v
	if err := l.root.mulTransTo(ctx, l.z, l.v); err != nil {
		return err
	}
	if err := l.s.mulTo(ctx, q, l.z, l.w); err != nil {
		return err
	}
	if err := l.root.mulTo(ctx, l.w, q); err != nil {
		return err
	}
	l.steps++
	// w −= β v' + α v, α = vᵀMv
	scale := make([]float64, k)
	if l.steps > 1 {
		for j := range scale {
			scale[j] = -l.off[j][len(l.off[j])-1]
		}
		addScaled(l.w, scale, l.before)
	}
	alpha := dots(l.w, l.v)
	for j, a := range alpha {
		if !finite(a) {
			return &RangeError{What: "a product with the kernel", Value: a, Steps: l.steps - 1, Residual: math.NaN()}
		}
		scale[j] = -a
		if !l.finished[j] {
			l.diag[j] = append(l.diag[j], a)
		}
	}
	addScaled(l.w, scale, l.v)
	beta := roots(dots(l.w, l.w))
	for j, b := range beta {
		scale[j] = 0
		if l.finished[j] {
			continue
		}
		l.off[j] = append(l.off[j], b)
		if b <= breakdown*alpha[j] {
			l.finished[j] = true
			continue
		}
		scale[j] = 1 / b
	}
	// The next vector takes the place of the one before.
	l.before, l.v = l.v, l.before
	dense.Zero(l.v)
	addScaled(l.v, scale, l.w)
	return nil
}

// breakdown is the next β, relative to α, below which the vectors so far span
// an invariant space.
const breakdown = 1e-13

// rule computes both rules of vector j from its tridiagonal matrix.
func (l *lanczos) rule(r *rule, j int) error {
	diag, off := l.diag[j], l.off[j]
	m := len(diag)
	if l.finished[j] {
		off = off[:m-1]
	}
	lower, upper, ok := quadrature.Log(diag, off)
	if !ok {
		return errNoEigenvalues
	}
	r.upper = upper * float64(l.n)
	// Where rounding leaves no lower rule, that of fewer steps stays.
	r.lower = math.Max(r.lower, math.Min(r.upper, lower*float64(l.n)))
	return nil
}
