package counterfactual

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Posterior is the posterior after a change of the training data: the N examples of the Base and A added ones. It
// implements gp.Latent and keeps the Base in memory. It has sites for all examples, even if the Base computes
// covariances from kept rows only. It is safe for concurrent use if the Base is.
type Posterior struct {
	m     *Model
	y     *gp.Targets
	prior []float64 // m, (N+A)·C
	down  *gp.Downdate

	add         *linearize.Batch // nil for none
	from, among *mat.Dense       // K_An, A·C×N·C, and K_AA

	alpha    []float64
	sites    *gp.Sites // at m + Kα
	distance float64
	warnings []error
}

var _ gp.Latent = (*Posterior)(nil)

// set sets α and what follows from it.
func (q *Posterior) set(ctx context.Context, alpha []float64) error {
	f, err := q.function(ctx, alpha)
	if err != nil {
		return err
	}
	if q.sites, err = gp.NewSites(q.y, mat.NewDense(q.y.Len(), q.m.c, f)); err != nil {
		return err
	}
	// √((α−r)ᵀK(α−r)) (E19)
	off, koff := newton.Minus(alpha, dense.Flat(q.sites.Residual)), make([]float64, len(alpha))
	err = q.mulKernelTo(ctx, dense.RowOf(koff), dense.RowOf(off))
	q.alpha, q.distance = alpha, math.Sqrt(math.Max(0, floats.Dot(off, koff)))
	q.warnings = newton.GapWarnings(floats.Norm(off, 2))
	return err
}

// open tells whether a long Newton step from α matters: far from the mode, or under a likelihood that uses Fisher
// scoring.
func (q *Posterior) open() bool { return q.y.Scored() || !(q.distance <= nearMode) }

// Alpha returns the dual vector α, (N+A)·C: first the N training examples, with zeros for examples of weight 0, then
// the A added ones. It must not be changed.
func (q *Posterior) Alpha() []float64 { return q.alpha }

// Distance returns √((α−r)ᵀK(α−r)), with f = m + Kα computed anew. It bounds the error of the posterior mean: for a
// log-likelihood that is concave in f, any output at any x differs from its value at the mode by at most √κ(x,x)
// times this distance (E19).
func (q *Posterior) Distance() float64 { return q.distance }

// Warnings returns warnings named refit-gap and refit-steps, which say where a Fit is less accurate than it should
// be.
func (q *Posterior) Warnings() []error { return q.warnings }

const (
	// tileFloats bounds the matrices of test examples against training examples that are held at a time: 8 MiB each.
	tileFloats = 1 << 20
	// covTolerance is the relative error to which w = (I + ΛK)⁻¹ΛK_n* is solved.
	covTolerance = 1e-13
	// rounding is the fraction of the prior variance down to which a negative posterior variance counts as
	// rounding.
	rounding = 1e-10
)

// PredictTo implements gp.Latent. The mean m + K_*n α takes one cross-kernel. The covariance takes for each output a
// few products with K and solves with the factor of the Base.
func (q *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := x.Len(), q.m.c
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	step := max(1, tileFloats/len(q.alpha)/c)
	for k := range par.Tiles(t, step) {
		lo, hi := par.Bounds(k, t, step)
		x, cov := x.Slice(lo, hi), dense.Slice(cov, lo*c, hi*c)
		if cov != nil {
			q.m.kernel.DiagTo(cov, x)
		}
		if err := q.predict(ctx, dense.Slice(mean, lo, hi), cov, x); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// JointTo implements gp.Latent.
func (q *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := x.Len(), q.m.c
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, t*c)
	if t == 0 || cov == nil {
		return q.PredictTo(ctx, mean, nil, x)
	}
	err := gp.CheckMemory("a joint covariance", gp.TestExamples, t, q.m.limits.Memory, func(t int) int64 {
		return memory.Mul(8*12, memory.Mul(memory.Mul(int64(t), int64(c)), int64(len(q.alpha))))
	})
	if err != nil {
		return err
	}
	q.m.kernel.BlockTo(cov, x, x)
	return q.predict(ctx, mean, cov, x)
}

// predict writes the mean of x. cov holds the prior covariance of x, or square diagonal blocks of it one below
// another; predict subtracts what the training data explain.
func (q *Posterior) predict(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	c := q.m.c
	cross, err := q.cross(ctx, x)
	if err != nil {
		return err
	}
	if mean != nil {
		prior := make([]float64, x.Len()*c)
		q.m.kernel.MeanTo(prior, x)
		for i, v := range prior {
			v += dense.Dot(cross.RawRowView(i), q.alpha) // m + K_*n α (E6)
			if mean.Set(i/c, i%c, v); dense.NotFinite([]float64{v}) >= 0 {
				return &gp.NotFiniteError{What: "predictive mean", Row: i / c, Output: i % c, Value: v}
			}
		}
	}
	if cov == nil {
		return ctx.Err()
	}
	// C = K_** − K_*n w with w = (I + ΛK)⁻¹ΛK_n* (E6)
	w, _, err := q.solve(ctx, q.mulLambda(cross), q.sites.Lambda, covTolerance)
	if err != nil {
		return err
	}
	rows, cols := cov.Dims()
	prior := make([]float64, rows)
	for i := range rows {
		prior[i] = cov.At(i, i%cols)
		for j := range cols {
			k := i/cols*cols + j
			both := dense.Dot(cross.RawRowView(i), w.RawRowView(k)) + dense.Dot(cross.RawRowView(k), w.RawRowView(i))
			cov.Set(i, j, cov.At(i, j)-both/2)
		}
	}
	for lo := 0; lo < rows; lo += cols {
		if err := gp.SettleVariances(dense.Slice(cov, lo, lo+cols), prior[lo:lo+cols], rounding, lo/c, c); err != nil {
			return fmt.Errorf("counterfactual: %w", err)
		}
	}
	return nil
}

// given returns an approximation of C(x,X) = K_*n − wᵀK with w = (I + ΛK)⁻¹ΛK_n*, for the rows K_*n of a. The
// relative error of w is stepTolerance.
func (q *Posterior) given(ctx context.Context, a *mat.Dense) (*mat.Dense, error) {
	_, kw, err := q.solve(ctx, q.mulLambda(a), q.sites.Lambda, stepTolerance)
	if err != nil {
		return nil, err
	}
	kw.Sub(a, kw)
	return kw, nil
}

// mulLambda returns Λv for each row v of a.
func (q *Posterior) mulLambda(a *mat.Dense) *mat.Dense {
	out := mat.DenseCopyOf(a)
	for i := range out.RawMatrix().Rows {
		out.SetRow(i, sites.MulBlocks(q.sites.Lambda, a.RawRowView(i)))
	}
	return out
}

// cross returns the kernel between x and all examples, T·C×(N+A)·C.
func (q *Posterior) cross(ctx context.Context, x *linearize.Batch) (*mat.Dense, error) {
	cross, err := q.m.cross(ctx, x)
	if err != nil || q.add == nil {
		return cross, err
	}
	added, all := mat.NewDense(x.Len()*q.m.c, q.add.Len()*q.m.c, nil), new(mat.Dense)
	q.m.kernel.BlockTo(added, x, q.add)
	all.Augment(cross, added)
	return all, nil
}

// cross returns the kernel between x and the training examples, T·C×N·C.
func (m *Model) cross(ctx context.Context, x *linearize.Batch) (*mat.Dense, error) {
	rows := x.Len() * m.c
	dst := mat.NewDense(rows, len(m.prior), nil)
	err := m.base.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		m.kernel.BlockTo(dst.Slice(0, rows, first*m.c, (first+b.Len())*m.c).(*mat.Dense), x, b)
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("counterfactual: cross-kernel with the training examples: %w", err)
	}
	return dst, nil
}
