package counterfactual

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Base is a posterior whose training data can be changed. *gp.Exact and *kept.Posterior implement it.
type Base interface {
	gp.Dual
	// Refitted tells whether the posterior is at the mode of the linearized model (E9).
	Refitted() bool
	// TrainingMean returns m + Kα at the training examples, N·C.
	TrainingMean(ctx context.Context) ([]float64, error)
	// MulKernelTo writes K v for each row v of a, N·C numbers.
	MulKernelTo(ctx context.Context, dst, a *mat.Dense) error
	// Downdate removes the training examples at these rows, which ascend, from the covariance.
	Downdate(ctx context.Context, rows []int) (*gp.Downdate, error)
}

var _ Base = (*gp.Exact)(nil)

// ErrNotRefitted says that a posterior is not at the mode of the linearized model. What it would predict with other
// training data is then not defined: at θ* the network has already learnt from all examples, and a step from θ*
// does not undo that.
var ErrNotRefitted = errors.New("counterfactual: the posterior is not refitted; what other training data would predict is defined at the mode of the linearized model")

// NotArrivedError says that the refit of a posterior ended before its mode. A Newton step from there may be as long
// as the change that other training data would make, so the two could not be told apart.
type NotArrivedError struct {
	Move float64 // length of that step, relative to the largest entry of f̂
}

func (e *NotArrivedError) Error() string {
	return fmt.Sprintf("counterfactual: the refit did not arrive at its mode, as a Newton step still moves it by %.3g of the largest output; "+
		"a larger prior precision or noise variance lets it", e.Move)
}

// StageNewton and StageFlip are the stages that the Progress given to New is told. Their total is not known and
// reported as 0.
const (
	StageNewton = "newton" // steps of Fit
	StageFlip   = "flip"   // sets of examples that SmallestFlip tried
)

// A Model answers what a posterior would predict with other training data. It is safe for concurrent use where its
// posterior is.
type Model struct {
	base   Base
	kernel ntk.Kernel
	y      *gp.Targets
	limits linearize.Limits
	c      int
	prior  []float64  // m at the training examples, N·C
	whole  *Posterior // posterior of the unchanged training data
	astray error      // *NotArrivedError, nil at the mode
}

// New prepares changes of the training data of a refitted posterior. kernel and y are those of its refit. It returns
// ErrNotRefitted, a *gp.TargetsError if y differs from the targets of the refit, or ctx.Err(), wrapped. If the refit
// did not arrive at its mode, only Distance is available, and Fit and SmallestFlip return a *NotArrivedError.
func New(ctx context.Context, base Base, kernel ntk.Kernel, y *gp.Targets, limits linearize.Limits) (*Model, error) {
	if !base.Refitted() {
		return nil, ErrNotRefitted
	}
	if err := y.Check(base.Sites()); err != nil {
		return nil, fmt.Errorf("counterfactual: %w", err)
	}
	m := &Model{base: base, kernel: kernel, y: y, limits: limits}
	_, m.c = base.Sites().F.Dims()
	var err error
	if m.prior, err = base.TrainingMean(ctx); err != nil {
		return nil, err
	}
	// m = f̂ − Kα
	kalpha := make([]float64, len(m.prior))
	if err := base.MulKernelTo(ctx, dense.RowOf(kalpha), dense.RowOf(base.Alpha())); err != nil {
		return nil, err
	}
	floats.Sub(m.prior, kalpha)
	if m.whole, err = m.changed(ctx, y, nil); err != nil {
		return nil, err
	}
	if err := m.whole.set(ctx, base.Alpha()); err != nil {
		return nil, err
	}
	to, err := m.whole.step(ctx, m.whole.sites, base.Alpha(), true)
	if err != nil {
		return nil, err
	}
	if move := newton.RelativeMove(dense.Flat(m.whole.sites.F), to.F); move > newton.SmallOpen && m.whole.open() {
		m.astray = &NotArrivedError{Move: move}
	}
	return m, nil
}

// Distance returns the Distance of the posterior of the unchanged training data. After a converged refit it is 0 up
// to rounding.
func (m *Model) Distance() float64 { return m.whole.distance }

// Refit fits from scratch to the targets y of the training examples and of add, with y and add as in Fit. It forms
// and factors their kernel matrix, and is the reference for Fit. o may be nil.
func (m *Model) Refit(ctx context.Context, y *gp.Targets, add *linearize.Batch, o *gp.Options) (*gp.Exact, error) {
	if _, err := m.changed(ctx, y, add); err != nil {
		return nil, err
	}
	var rows []int
	for i := range m.y.Len() {
		if y.Weight(i) > 0 {
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
	if add != nil {
		parts = append(parts, add)
	}
	for i := m.y.Len(); i < y.Len(); i++ {
		rows = append(rows, i)
	}
	return gp.Refit(ctx, m.kernel, linearize.Concat(parts...), y.Rows(rows), o)
}
