package counterfactual

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// Fit returns the posterior of the linearized model after a change: the mode of its convex objective with the targets y
// (E9) and the covariance there, as a refit would find them. y are the targets of the training examples, and then of the
// examples add, nil for none. A row of weight 0 counts as absent (E23), so that y.Without leaves examples out. Fit
// factors no matrix: each step takes products with K and solves with the factor of the posterior. Warnings of the
// result say where it is less accurate than it should be. The errors are those of y.CheckFor, gp.ErrNoExamples if no
// example is left, and *NotArrivedError.
func (m *Model) Fit(ctx context.Context, y *gp.Targets, add *linearize.Batch) (*Posterior, error) {
	if m.astray != nil {
		return nil, m.astray
	}
	return m.fit(ctx, y, add, m.whole)
}

const (
	// short is the length of a Newton step, relative to the largest entry of f, at which Fit ends. shortScore is the
	// same for Fisher scoring, whose steps shorten more slowly.
	short, shortScore = 1e-10, 1e-13
	// stepTolerance is the relative error to which a Newton step is solved. Chord steps, which reuse the factor of
	// the first point, continue while each is shorter than contracts times the step before.
	stepTolerance, contracts = 1e-2, .1
	// nearMode is the distance from the mode, in prior standard deviations, below which a long step is due to
	// rounding.
	nearMode = 1e-8
	// mostSteps bounds the Newton steps of Fit, and mostGradients the steps of conjugate gradients of one of them.
	mostSteps, mostGradients = 100, 1000
)

// fit is Fit, with near, the posterior after another change, as the starting point.
func (m *Model) fit(ctx context.Context, y *gp.Targets, add *linearize.Batch, near *Posterior) (*Posterior, error) {
	q, err := m.changed(ctx, y, add)
	if err != nil {
		return nil, err
	}
	at := &newton.Point{Dual: make([]float64, len(q.prior))}
	copy(at.Dual, near.alpha[:len(m.prior)])
	if at.F, err = q.function(ctx, at.Dual); err != nil {
		return nil, err
	}
	chord, last := near == m.whole, math.Inf(1)
	s := newton.New(y, mostSteps, false)
	if s.Short = short; y.Scored() {
		s.Short = shortScore
	}
	at, err = newton.Find(&s, &newton.Objective{Y: y, Prior: q.prior}, at.F, at, func(f []float64, from *newton.Point) (*newton.Point, error) {
		there, err := gp.NewSites(y, mat.NewDense(y.Len(), m.c, f))
		if err != nil {
			return nil, err
		}
		m.limits.Show(StageNewton, s.Steps+1, 0)
		to, err := q.step(ctx, there, from.Dual, chord)
		if err == nil {
			move := newton.RelativeMove(f, to.F)
			chord, last = chord && (s.Steps == 0 || move < contracts*last), move
		}
		return to, err
	})
	if err != nil {
		return nil, fmt.Errorf("counterfactual: refitting: %w", err)
	}
	for i := range y.Len() {
		if y.Weight(i) == 0 {
			clear(at.Dual[i*m.c : (i+1)*m.c]) // it is zero up to rounding
		}
	}
	if err := q.set(ctx, at.Dual); err != nil {
		return nil, err
	}
	if q.open() {
		q.warnings = append(s.Warnings(), q.warnings...)
	}
	return q, nil
}

// changed returns a posterior for the targets y of the training examples and of add, whose mode is still to be
// found.
func (m *Model) changed(ctx context.Context, y *gp.Targets, add *linearize.Batch) (*Posterior, error) {
	n, a := m.y.Len(), 0
	if add != nil {
		a = add.Len()
	}
	if err := y.CheckFor(n+a, m.c); err != nil {
		return nil, fmt.Errorf("counterfactual: %w", err)
	}
	var gone []int
	left := a
	for i := range n {
		switch {
		case y.Weight(i) > 0:
			left++
		case m.y.Weight(i) > 0:
			gone = append(gone, i)
		}
	}
	if left == 0 {
		return nil, fmt.Errorf("counterfactual: without all %d examples: %w", n, gp.ErrNoExamples)
	}
	q := &Posterior{m: m, y: y, prior: m.prior}
	var err error
	if q.down, err = m.base.Downdate(ctx, gone); err != nil || a == 0 {
		return q, err
	}
	err = gp.CheckMemory("added training examples", gp.TrainingExamples, a, m.limits.Memory, func(a int) int64 {
		rows := memory.Mul(int64(a), int64(m.c))
		return memory.Mul(8, memory.Mul(rows, memory.Add(rows, int64(n*m.c))))
	})
	if err != nil {
		return nil, err
	}
	prior := make([]float64, a*m.c)
	m.kernel.MeanTo(prior, add)
	q.add, q.prior = add, slices.Concat(m.prior, prior)
	q.among = mat.NewDense(len(prior), len(prior), nil)
	m.kernel.BlockTo(q.among, add, add)
	q.from, err = m.cross(ctx, add)
	return q, err
}

// mulKernelTo writes K v for each row v of a.
func (q *Posterior) mulKernelTo(ctx context.Context, dst, a *mat.Dense) error {
	rows, size := a.Dims()
	n := len(q.m.prior)
	to, of := dst.Slice(0, rows, 0, n).(*mat.Dense), a.Slice(0, rows, 0, n).(*mat.Dense)
	if err := q.m.base.MulKernelTo(ctx, to, of); err != nil || q.add == nil {
		return err
	}
	toAdded, added := dense.Cols(dst.RawMatrix(), n, size), dense.Cols(a.RawMatrix(), n, size)
	dense.Gemm(blas.NoTrans, blas.NoTrans, 1, added, q.from.RawMatrix(), 1, to.RawMatrix())
	dense.Gemm(blas.NoTrans, blas.Trans, 1, of.RawMatrix(), q.from.RawMatrix(), 0, toAdded)
	dense.Gemm(blas.NoTrans, blas.NoTrans, 1, added, q.among.RawMatrix(), 1, toAdded)
	return nil
}

// function returns m + Kα.
func (q *Posterior) function(ctx context.Context, alpha []float64) ([]float64, error) {
	f := make([]float64, len(alpha))
	err := q.mulKernelTo(ctx, dense.RowOf(f), dense.RowOf(alpha))
	floats.Add(f, q.prior)
	return f, err
}

// step returns the end of the Newton step from α and the sites there. A chord step is solved by the preconditioner alone.
func (q *Posterior) step(ctx context.Context, s *gp.Sites, alpha []float64, chord bool) (*newton.Point, error) {
	// (I + ΛK)(α' − α) = r − α (E5)
	b := dense.RowOf(newton.Minus(dense.Flat(s.Residual), alpha))
	x, kx := mat.NewDense(1, len(alpha), nil), mat.NewDense(1, len(alpha), nil)
	var err error
	if chord {
		err = q.precondition(ctx, x, kx, b)
	} else {
		x, kx, err = q.solve(ctx, b, s.Lambda, stepTolerance)
	}
	if err != nil {
		return nil, err
	}
	floats.Add(x.RawRowView(0), alpha)
	floats.Add(kx.RawRowView(0), dense.Flat(s.F))
	return &newton.Point{Dual: x.RawRowView(0), F: kx.RawRowView(0)}, nil
}

// precondition writes z = (I + Λ₀K)⁻¹q = q − W K q and K z for each row q of the matrix of, where W = R B⁻¹Rᵀ. Λ₀ and
// B are those of the posterior before the change; W is zero for added examples.
func (q *Posterior) precondition(ctx context.Context, z, kz, of *mat.Dense) error {
	if err := q.mulKernelTo(ctx, z, of); err != nil {
		return err
	}
	rows, n := z.RawMatrix().Rows, len(q.m.prior)
	if err := q.down.SolveTo(ctx, z.Slice(0, rows, 0, n).(*mat.Dense)); err != nil {
		return err
	}
	for i := range rows {
		clear(z.RawRowView(i)[n:])
	}
	z.Sub(of, z)
	return q.mulKernelTo(ctx, kz, z)
}

// solve returns x with (I + ΛK) x = b for each row b, and K x. The error is at most tolerance relative to x in the
// norm of K + KΛK. It runs conjugate gradients in the inner product of K. A vector x is stored as the row (x, Kx) and
// a residual r as the row (0, r), so that the plain inner product of two such rows is xᵀKr.
func (q *Posterior) solve(ctx context.Context, b, lambda *mat.Dense, tolerance float64) (x, kx *mat.Dense, err error) {
	rows, size := b.Dims()
	halves := func(a *mat.Dense) (x, kx *mat.Dense) {
		return a.Slice(0, rows, 0, size).(*mat.Dense), a.Slice(0, rows, size, 2*size).(*mat.Dense)
	}
	cg := newton.ConjugateGradients{
		Residual: tolerance,
		Times: func(v *mat.Dense) (*mat.Dense, error) {
			out := mat.NewDense(rows, 2*size, nil)
			x, kx := halves(v)
			_, to := halves(out)
			for i := range rows {
				floats.AddTo(to.RawRowView(i), x.RawRowView(i), sites.MulBlocks(lambda, kx.RawRowView(i)))
			}
			return out, nil
		},
		Precondition: func(v *mat.Dense) error {
			z, kz := halves(v)
			return q.precondition(ctx, z, kz, mat.DenseCopyOf(kz))
		},
	}
	g := mat.NewDense(rows, 2*size, nil)
	_, residual := halves(g)
	residual.Copy(b)
	found, _, err := cg.Solve(ctx, g, mostGradients)
	if err != nil {
		return nil, nil, err
	}
	x, kx = halves(found)
	return x, kx, nil
}
