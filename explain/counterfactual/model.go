package counterfactual

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Base is a posterior whose training data can be changed: *gp.Exact and *kept.Posterior.
type Base interface {
	gp.Dual
	// Refitted tells whether the posterior is at the mode of the linearized model (E9).
	Refitted() bool
	// MulKernelTo writes K v for each row v of a, N·C numbers.
	MulKernelTo(ctx context.Context, dst, a *mat.Dense) error
	// Downdate takes the training examples at these rows, which ascend, out of the
	// covariance.
	Downdate(ctx context.Context, rows []int) (*gp.Downdate, error)
}

var _ Base = (*gp.Exact)(nil)

// ErrNotRefitted says that a posterior is not at the mode of the linearized model. What it
// would predict with other training data is then not defined: at θ* the network has already
// learnt from all of them, and a step from there answers another question.
var ErrNotRefitted = errors.New("counterfactual: the posterior is not refitted; what other training data would predict is defined at the mode of the linearized model")

// NotArrivedError says that the refit of a posterior ended before its mode. Newton's step from
// there is as long as the changes that other training data would make, or longer, and no
// answer would be theirs alone.
type NotArrivedError struct {
	Move float64 // the step, relative to the largest entry of f̂
}

func (e *NotArrivedError) Error() string {
	return fmt.Sprintf("counterfactual: the refit did not arrive at its mode, as a Newton step still moves it by %.3g of the largest output; "+
		"a larger prior precision or noise variance lets it", e.Move)
}

// Options are the options of New. Nil means the defaults. The posterior bounds the goroutines.
type Options struct {
	// MaxIter bounds the Newton steps of Fit; 0 means 100.
	MaxIter int
	// Limits hear of each Newton step of Fit and each set that SmallestFlip tries. Their number is not known: total 0.
	linearize.Limits
}

// A Model answers what a posterior would predict with other training data. It is safe for
// concurrent use where its posterior is.
type Model struct {
	base   Base
	kernel ntk.Kernel
	y      *gp.Targets
	o      Options
	n, c   int

	prior, alpha, f []float64 // m, α and f̂ = m + Kα at the training examples, N·C

	astray error // *NotArrivedError, nil at the mode
}

// New prepares changes of the training data of a refitted posterior. kernel and y are those of
// its refit. It fails with ErrNotRefitted, with a *gp.TargetsError where y is another, and with ctx.Err(), wrapped. Of a posterior
// whose refit did not arrive at its mode the model has a Distance alone: all that answers for
// a change fails with a *NotArrivedError.
func New(ctx context.Context, base Base, kernel ntk.Kernel, y *gp.Targets, o *Options) (*Model, error) {
	if !base.Refitted() {
		return nil, ErrNotRefitted
	}
	m := &Model{base: base, kernel: kernel, y: y, n: base.Data().Len(), alpha: base.Alpha()}
	if o != nil {
		m.o = *o
	}
	if m.o.MaxIter < 0 || m.o.Memory < 0 {
		panic("counterfactual: invalid options")
	}
	if m.o.MaxIter == 0 {
		m.o.MaxIter = 100
	}
	if err := y.Check(base.Sites()); err != nil {
		return nil, fmt.Errorf("counterfactual: %w", err)
	}
	_, m.c = base.Sites().F.Dims()
	m.prior = make([]float64, m.n*m.c)
	err := base.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		kernel.MeanTo(m.prior[first*m.c:(first+b.Len())*m.c], b)
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("counterfactual: prior mean of the training examples: %w", err)
	}
	m.f = make([]float64, m.n*m.c) // m + Kα
	if err := base.MulKernelTo(ctx, row(m.f), row(m.alpha)); err != nil {
		return nil, err
	}
	floats.Add(m.f, m.prior)
	return m, m.arrive(ctx)
}

// arrive sets astray where a Newton step from the posterior is so long that a refit which ends
// there would warn.
func (m *Model) arrive(ctx context.Context) error {
	p, err := m.changed(ctx, Change{})
	if err != nil {
		return err
	}
	from, err := p.start(ctx)
	if err != nil {
		return err
	}
	errOne := errors.New("one step is enough")
	s := newton.New(m.y, 1, false)
	_, err = newton.Find(&s, line{p}, from.f, from, func(_ []float64, from *point) (*point, error) {
		if s.Steps > 0 {
			return nil, errOne
		}
		return p.step(ctx, from, chordStep)
	})
	if err != nil && err != errOne {
		return err
	}
	_, distance, err := p.open(ctx, from)
	if p.moves(&s, distance) {
		m.astray = &NotArrivedError{Move: s.Move}
	}
	return err
}

// Distance returns √((α−r)ᵀK(α−r)) of the posterior of all examples, with f = m + Kα computed
// anew: its mean of any output of any x is within √κ(x,x) times it of that at the mode of
// the linearized model (E19), for a likelihood that is concave in f. It is zero to rounding
// after a refit that converged.
func (m *Model) Distance(ctx context.Context) (float64, error) {
	p, err := m.changed(ctx, Change{})
	if err != nil {
		return 0, err
	}
	at, err := p.start(ctx)
	if err != nil {
		return 0, err
	}
	_, distance, err := p.open(ctx, at)
	return distance, err
}

// row returns v as a matrix of one row in the same memory.
func row(v []float64) *mat.Dense { return mat.NewDense(1, len(v), v) }

// Fit returns the posterior of the linearized model after a change: the mode of its convex
// objective with the changed data (E9) and the covariance there, as a refit would find
// them. It factors nothing: each step takes products with K and solves with the factor of
// the posterior. Warnings of the result say where it is less accurate than it should be.
func (m *Model) Fit(ctx context.Context, ch Change) (*Posterior, error) {
	if m.astray != nil {
		return nil, m.astray
	}
	p, err := m.changed(ctx, ch)
	if err != nil {
		return nil, err
	}
	return p.climb(ctx, nil)
}

// Refit returns the posterior that is fitted to the changed data from scratch: it forms and
// factors their kernel. It is what Fit is measured by. o may be nil.
func (m *Model) Refit(ctx context.Context, ch Change, o *gp.Options) (*gp.Exact, error) {
	if err := ch.check(m.y, m.c); err != nil {
		return nil, err
	}
	all := ch.targets(m.y)
	var rows []int
	for i := range m.n {
		if !slices.Contains(ch.Remove, i) {
			rows = append(rows, i)
		}
	}
	var parts []*linearize.Batch
	if len(rows) > 0 {
		b, err := linearize.Gather(ctx, m.base.Data(), rows)
		if err != nil {
			return nil, fmt.Errorf("counterfactual: training examples that stay: %w", err)
		}
		parts = append(parts, b)
	}
	for i := range ch.added() {
		rows = append(rows, m.n+i)
	}
	if ch.added() > 0 {
		parts = append(parts, ch.Add)
	}
	return gp.Refit(ctx, m.kernel, linearize.Concat(parts...), all.Rows(rows), o)
}

// outputsOf panics unless x has the outputs of the training examples.
func (m *Model) outputsOf(x *linearize.Batch) {
	if x.Len() > 0 && x.Outputs() != m.c {
		panic("counterfactual: examples have another number of outputs than the training examples")
	}
}

// crossTo writes the kernel between x and the training examples, T·C×N·C.
func (m *Model) crossTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	rows := x.Len() * m.c
	dense.SizeTo(dst, rows, m.n*m.c)
	err := m.base.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		m.kernel.BlockTo(dst.Slice(0, rows, first*m.c, (first+b.Len())*m.c).(*mat.Dense), x, b)
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("counterfactual: cross-kernel with the training examples: %w", err)
	}
	for i := range rows {
		if j := dense.NotFinite(dst.RawRowView(i)); j >= 0 {
			return &gp.NotFiniteError{What: "cross-kernel", Row: i / m.c, Output: i % m.c, Value: dst.At(i, j)}
		}
	}
	return nil
}
