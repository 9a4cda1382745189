package counterfactual

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A Posterior is the posterior of changed training data. It predicts as any posterior does, and
// keeps the one it was made from in memory. After a Fit it has the sites of all examples, also
// where that one has the covariance of kept rows. It is safe for concurrent use where that
// one is.
type Posterior struct {
	p        *problem
	alpha, f []float64 // (N+A)·C
	lambda   []float64 // Λ of the sites that the covariance has, (N+A)·C·C
	steps    int
	distance float64
	warnings []error
}

var _ gp.Latent = (*Posterior)(nil)

// Alpha returns the dual vector α, (N+A)·C: of the N examples of the posterior that was
// changed, zero where one is left out, and then of the A added ones. It must not be changed.
func (q *Posterior) Alpha() []float64 { return q.alpha }

// Function returns m + Kα at the same examples, (N+A)·C; it must not be changed.
func (q *Posterior) Function() []float64 { return q.f }

// Steps returns the number of Newton steps that were made.
func (q *Posterior) Steps() int { return q.steps }

// Distance returns √((α−r)ᵀK(α−r)) of a Fit: the posterior mean of any output of any x is
// within √κ(x,x) times it of that at the mode (E19), for a likelihood that is concave in
// f.
func (q *Posterior) Distance() float64 { return q.distance }

// Warnings says where a Fit is less accurate than it should be: it holds warnings of refit-gap and
// refit-steps.
func (q *Posterior) Warnings() []error { return q.warnings }

// tileFloats bounds the matrices of test examples against training examples that are held
// at a time: 8 MiB each.
const tileFloats = 1 << 20

// PredictTo implements gp.Latent. The mean m + K_*n α takes one cross-kernel. The
// covariance takes for each output two solves, and after a Fit of a likelihood other than
// Gaussian a few more.
func (q *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := x.Len(), q.p.m.c
	q.p.m.outputsOf(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if mean == nil && cov == nil {
		return ctx.Err()
	}
	step := max(1, tileFloats/len(q.f)/c)
	for k := range par.Tiles(t, step) {
		lo, hi := par.Bounds(k, t, step)
		x, cov := x.Slice(lo, hi), dense.Slice(cov, lo*c, hi*c)
		if err := q.predict(ctx, dense.Slice(mean, lo, hi), cov, x, func() { q.p.m.kernel.DiagTo(cov, x) }); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// JointTo implements gp.Latent.
func (q *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := x.Len(), q.p.m.c
	q.p.m.outputsOf(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, t*c)
	if t == 0 || mean == nil && cov == nil {
		return ctx.Err()
	}
	if err := q.p.m.checkRows("a joint covariance", t, 10); err != nil {
		return err
	}
	return q.predict(ctx, mean, cov, x, func() { q.p.m.kernel.BlockTo(cov, x, x) })
}

// predict writes the mean and the covariance of x, which begins with the prior one.
func (q *Posterior) predict(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, begin func()) error {
	cross, err := q.cross(ctx, x)
	if err != nil {
		return err
	}
	if mean != nil {
		// Write m + K_*n α (E6).
		c := q.p.m.c
		prior := make([]float64, x.Len()*c)
		q.p.m.kernel.MeanTo(prior, x)
		for i, m := range prior {
			v := m + dense.Dot(cross.RawRowView(i), q.alpha)
			if mean.Set(i/c, i%c, v); dense.NotFinite([]float64{v}) >= 0 {
				return &gp.NotFiniteError{What: "predictive mean", Row: i / c, Output: i % c, Value: v}
			}
		}
	}
	if cov == nil {
		return nil
	}
	begin()
	// Subtract from the prior covariance of examples what their cross-kernel with all examples
	// explains. With the covariance C_0 that W gives, its rows c_0 = K_*n − K_*n W K and ΔΛ what Λ
	// is larger than that of W,
	//
	// 	C = K_** − K_*n W K_n* − c ΔΛ c_0ᵀ,  c = c_0 (I + ΔΛ C_0)⁻¹ (E6).
	p := q.p
	var w, c0 mat.Dense
	w.CloneFrom(cross)
	if err := p.solveTo(ctx, &w); err != nil {
		return err
	}
	// Take the variances of a square covariance, or of blocks one below another.
	rows, cols := cov.Dims()
	prior := make([]float64, rows)
	for i := range prior {
		prior[i] = cov.At(i, i%cols)
	}
	subtractProducts(cov, cross, &w)
	// By how much Λ is larger than the Λ of W, (N+A)·C×C
	var l mat.Dense
	p.down.LambdaTo(&l)
	before := dense.Flat(&l)
	if p.lambdaA != nil {
		before = append(before, dense.Flat(p.lambdaA)...)
	}
	more := floats.SubTo(make([]float64, len(before)), q.lambda, before)
	if !(floats.Norm(more, 2) <= negligible*floats.Norm(before, 2)) {
		if err := p.mulKernelTo(ctx, &c0, &w); err != nil {
			return err
		}
		c0.Sub(cross, &c0)
		b := mat.DenseCopyOf(&c0)
		rows, _ := b.Dims()
		for i := range rows {
			mulLambda(b.RawRowView(i), more, p.m.c)
		}
		// (I + ΛK) d = ΔΛ c_0, c = c_0 − K d
		_, kd, err := p.solve(ctx, b, q.lambda, exactStep)
		if err != nil {
			return err
		}
		kd.Sub(&c0, kd)
		subtractProducts(cov, kd, b)
	}
	// Make variances that rounding made negative zero, block by block.
	for lo := 0; lo < rows; lo += cols {
		block := dense.Slice(cov, lo, lo+cols)
		if err := gp.SettleVariances(block, prior[lo:lo+cols], rounding, lo/p.m.c, p.m.c); err != nil {
			return fmt.Errorf("counterfactual: %w", err)
		}
	}
	return nil
}

// cross returns the kernel between x and all examples, T·C×(N+A)·C.
func (q *Posterior) cross(ctx context.Context, x *linearize.Batch) (*mat.Dense, error) {
	rows, p := x.Len()*q.p.m.c, q.p
	cross := mat.NewDense(rows, len(q.f), nil)
	of, added := p.split(cross)
	if err := p.m.crossTo(ctx, of, x); err != nil || added == nil {
		return cross, err
	}
	p.m.kernel.BlockTo(added, x, p.add)
	return cross, nil
}

// subtractProducts subtracts ½(A Bᵀ + B Aᵀ), as far as cov has its entries.
func subtractProducts(cov, a, b *mat.Dense) {
	rows, cols := cov.Dims()
	for i := range rows {
		for j := range cols {
			k := i/cols*cols + j
			s := dense.Dot(a.RawRowView(i), b.RawRowView(k)) + dense.Dot(b.RawRowView(i), a.RawRowView(k))
			cov.Set(i, j, cov.At(i, j)-s/2)
		}
	}
}

// rounding is the part of the prior variance by which rounding may make a posterior one
// negative.
const rounding = 1e-10
