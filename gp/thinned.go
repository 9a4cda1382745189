package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Thinned is the exact posterior given the kept rows of the training examples (E16),
// at the trained parameters: its mean is f(x;θ*). Because it has seen fewer
// observations, its covariance is never smaller than that of all rows, and the
// difference is as small as what the other rows say. With representatives (Kept.Represent) the
// covariance is near that of all rows, and neither always smaller nor always larger. It takes memory in
// proportion to the square of the number of kept rows, whatever N and C are.
type Thinned struct {
	e     *rowSolver // of the kept rows, which have one output each
	sites *Sites
	kept  *Kept
	set   TrainingSet // all examples, of C outputs
	moved []float64   // uᵀJw of the kept rows, where Observe was called
}

var (
	_ PartialSolver = (*Thinned)(nil)
	_ OwnSolver     = (*Thinned)(nil)
	_ GainSolver    = (*Thinned)(nil)
	_ SavedSolver   = (*Thinned)(nil)
)

// FitKept returns the posterior given the kept rows of the N training examples x, of C
// outputs, with sites s at x.F. It takes 8 times the square of the number of rows in
// bytes, and a backward pass a row. It fails as Fit does, where a *NotFiniteError names
// the example, and with ErrNoExamples where no row is kept. Options.Mean must be Network.
func FitKept(ctx context.Context, k ntk.Kernel, x linearize.Source, s *Sites, kept *Kept, o *Options) (*Thinned, error) {
	n, c := s.F.Dims()
	switch {
	case n != x.Len():
		panic("gp: sites and examples differ in size")
	case kept.Len() == 0:
		return nil, ErrNoExamples
	case o != nil && o.Mean != Network:
		panic("gp: a posterior of kept rows has the mean of the network")
	}
	err := CheckMemory("an exact posterior of kept rows", KeptRows, kept.Len(), o.withDefaults().Memory, func(n int) int64 { return Bytes(n, 1) })
	if err != nil {
		return nil, err
	}
	z, err := gatherKept(ctx, x, kept)
	if err != nil {
		return nil, stopped("linearizing kept rows", err)
	}
	e, err := newRowSolver(ctx, k, z, o)
	if err != nil {
		return nil, namedKept(err, kept)
	}
	if err := e.condition(ctx, kept.sites(s)); err != nil {
		return nil, namedKept(err, kept)
	}
	e.warnJitter()
	e.ofKept = c
	return newThinned(ctx, e, x, s, kept)
}

// newThinned returns the posterior with the factor e of the kept rows.
func newThinned(ctx context.Context, e *rowSolver, x linearize.Source, s *Sites, kept *Kept) (*Thinned, error) {
	set, err := NewTrainingSet(ctx, x, e.x)
	set.Outputs = e.ofKept
	return &Thinned{e: e, sites: s, kept: kept, set: set}, err
}

// sites returns the sites of the rows.
func (k *Kept) sites(s *Sites) *Sites {
	n := k.Len()
	column := func() *mat.Dense { return mat.NewDense(n, 1, nil) }
	to := &Sites{F: column(), Residual: column(), Lambda: column(), Root: column(), LogLik: s.LogLik}
	for i, at := range k.Examples {
		u := k.Directions.RawRowView(i)
		to.F.Set(i, 0, floats.Dot(u, s.F.RawRowView(at)))
		to.Residual.Set(i, 0, floats.Dot(u, s.Residual.RawRowView(at)))
		to.Lambda.Set(i, 0, k.Lambda[i])
	}
	to.Root.Apply(func(i, _ int, _ float64) float64 { return math.Sqrt(k.Lambda[i]) }, to.Root)
	return to
}

// namedKept names the example in an error about a kept row.
func namedKept(err error, k *Kept) error {
	if e, ok := err.(*NotFiniteError); ok {
		e.Row = k.Examples[e.Row]
	}
	return err
}

// Kept returns the rows that the posterior is built on; they must not be changed.
func (t *Thinned) Kept() *Kept { return t.kept }

// Kernel returns the kernel that the posterior is of.
func (t *Thinned) Kernel() ntk.Kernel { return t.e.k }

// Warnings holds the warning of a jitter, if one was added.
func (t *Thinned) Warnings() []error { return t.e.warnings }

// LogDet returns log det B of the kept rows. Without representatives it is a lower bound of log det B of all
// rows (E16).
func (t *Thinned) LogDet() float64 { return t.e.f.logDet }

// LogDetBound says that the evidence with LogDet is an upper bound where rows are left out and none stand for them.
func (t *Thinned) LogDetBound() Bound {
	if t.kept.Trace < t.kept.Total && t.kept.Representatives == 0 {
		return Upper
	}
	return None
}

// Observe implements PartialSolver: it adds Σ_kept λ u uᵀJw to b, and remembers uᵀJw for Jacobian.
func (t *Thinned) Observe(w, b []float64) {
	t.moved = make([]float64, t.kept.Len())
	t.e.x.MulVecTo(t.moved, w)
	if b != nil {
		t.kept.AddTo(b, floats.MulTo(make([]float64, len(t.moved)), t.kept.Lambda, t.moved))
	}
}

// LogDetOwn returns log det B of the kept rows that are not representatives. It is a lower bound of log det B
// of all rows (E16).
func (t *Thinned) LogDetOwn() float64 {
	u := t.e.f.u
	u.N = t.kept.Own() // the leading part of the factor is the factor of the first rows
	return dense.LogDet(u)
}

// PredictTo implements Latent. The mean is f(x;θ*).
func (t *Thinned) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t.outputsTo(mean, x)
	return t.e.PredictTo(ctx, nil, cov, x)
}

// JointTo implements Latent. The mean is f(x;θ*).
func (t *Thinned) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t.outputsTo(mean, x)
	return t.e.JointTo(ctx, nil, cov, x)
}

// outputsTo checks x and writes its f(x;θ*).
func (t *Thinned) outputsTo(mean *mat.Dense, x *linearize.Batch) {
	n, c := t.set.Check(x)
	if dense.SizeTo(mean, n, c); mean != nil && n > 0 {
		mean.Copy(x.F)
	}
}

// HalfTo writes H, T·C×n for T examples of C outputs, not necessarily those of the
// training examples, and n kept rows, such that the posterior covariance of two examples
// is κ(x,x') − H(x)H(x')ᵀ. With the first j columns of H it is that given the first j
// kept rows alone.
func (t *Thinned) HalfTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	return t.e.halfTo(ctx, dst, x)
}

// Dimension returns d = tr I_S C, with I_S what the representatives S say and C the posterior
// covariance: how many directions they decide, between 0 and their number. It takes the mean of at most 500
// of them, a backward pass and a half-solve each.
func (t *Thinned) Dimension(ctx context.Context) (float64, error) {
	own, n := t.kept.Own(), t.kept.Len()
	some := min(n-own, 500)
	if some == 0 {
		return 0, nil
	}
	rows := make([]int, some) // at equal distances
	for i := range rows {
		rows[i] = own + i*(n-own)/some
	}
	x, err := linearize.Gather(ctx, t.e.x, rows)
	if err != nil {
		return 0, err
	}
	var half mat.Dense
	if err := t.HalfTo(ctx, &half, x); err != nil {
		return 0, err
	}
	prior := mat.NewDense(some, 1, nil)
	t.e.k.DiagTo(prior, x)
	sum := 0.0
	for i, at := range rows {
		h := half.RawRowView(i)
		sum += t.kept.Lambda[at] * (prior.At(i, 0) - floats.Dot(h, h))
	}
	return sum / float64(some) * float64(n-own), nil
}

// Weigh makes the weights of the n representatives larger by 1/(1 − d/n), with d their Dimension before. A
// covariance is convex in what is observed, so that on average the one given a sample is too large; this takes
// most of it away (Dereziński, Bartan, Pilanci and Mahoney, Debiasing distributed second order optimization, 2020).
// It takes a factorization but no kernel. It changes t and its Kept, which nobody else may use meanwhile. The errors
// are those of FitKept.
func (t *Thinned) Weigh(ctx context.Context) error {
	d, err := t.Dimension(ctx)
	if err != nil {
		return err
	}
	floats.Scale(1/(1-d/float64(t.kept.Representatives)), t.kept.Lambda[t.kept.Own():])
	return t.e.condition(ctx, t.kept.sites(t.sites))
}

// TrainingSet identifies the training examples, those without kept rows too; it must not be changed.
func (t *Thinned) TrainingSet() *TrainingSet { return &t.set }

// Rows returns the kept rows, linearized, as examples of one output each.
func (t *Thinned) Rows() *linearize.Batch { return t.e.x }

// PriorMean returns uᵀm of the kept rows (E2); it must not be changed.
func (t *Thinned) PriorMean() []float64 { return t.e.prior }

// DualTo writes the solution a of (I + ΛK) a = b over the kept rows.
func (t *Thinned) DualTo(ctx context.Context, a, b []float64) error {
	alpha, _, _, err := t.e.dual(ctx, b)
	copy(a, alpha)
	return err
}

// SolveVec replaces v, a number for each kept row, by R B⁻¹ Rᵀ v = (K + Λ⁻¹)⁻¹ v.
func (t *Thinned) SolveVec(v []float64) { t.e.f.fullVec(v) }

// GainTo writes G = K_*k R B⁻¹ Rᵀ, T·C×n for T examples of C outputs and n kept rows, the
// gain of a Kalman filter that observes them: x has the posterior Jacobian J(x) − G J_k,
// and the kernel between this and any other Jacobian is the posterior covariance. It takes
// 24·T·C·n bytes beside the result.
//
// move, if not nil, is a function at the kept rows, n numbers. Where rounding leaves
// G(I + KΛ) move off K_*k Λ move, on which the closure of sums over training examples rests
// (E14), iterative refinement restores it.
func (t *Thinned) GainTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch, move []float64) error {
	return t.e.gainTo(ctx, dst, x, move)
}

// Jacobian implements Solver. It takes 8·T·C·P bytes, and 40·T·C·n while it works; a *MemoryError says where
// that is too much.
func (t *Thinned) Jacobian(ctx context.Context, x *linearize.Batch) (*linearize.Batch, error) {
	return t.e.jacobian(ctx, x, t.moved)
}

// Gain implements GainSolver, with the kept rows and −Gᵀ. Its memory is that of Jacobian.
func (t *Thinned) Gain(ctx context.Context, x *linearize.Batch) (*linearize.Batch, *mat.Dense, error) {
	weights, err := t.e.weights(ctx, x, t.moved)
	return t.e.x, weights, err
}

// InfluenceTo writes h and q of training examples, as Dual.InfluenceTo does, where r holds
// the residual r_i of each, n×C. Λ_i is that of the rows which the example keeps.
func (t *Thinned) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch, r *mat.Dense) error {
	n, c := t.set.CheckRows(rows, x)
	dense.SizeTo(h, n*c, c)
	dense.SizeTo(q, n, c)
	if n == 0 {
		return ctx.Err()
	}
	step := t.e.tileOf(n)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		h, x := dense.Slice(h, lo*c, hi*c), x.Slice(lo, hi)
		t.e.k.DiagTo(h, x)
		err := t.eachOwn(ctx, rows[lo:hi], x, func(k int, o own) {
			h, q := dense.Slice(h, k*c, (k+1)*c), q.RawRowView(lo+k)
			subtractOwnGram(h, o.v)
			for j := range c {
				if !(h.At(j, j) >= 0) {
					fillNaN(h)
					break
				}
			}
			o.removalTo(q, r.RawRowView(lo+k), func(q, w []float64) { t.addRoot(q, w, rows[lo+k]) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addRoot adds R_i w to q, with the rows that example i keeps.
func (t *Thinned) addRoot(q, w []float64, i int) {
	from, _ := t.kept.of(i)
	for j, v := range w {
		floats.AddScaled(q, v*math.Sqrt(t.kept.Lambda[from+j]), t.kept.Directions.RawRowView(from+j))
	}
}

// LeaveOneOutTo writes the posterior of the function at training inputs without the
// example itself (E17), as Dual.LeaveOneOutTo does, for any training examples: the
// rows that an example keeps are taken out, and the step is made with its whole
// residual.
func (t *Thinned) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	n, c := t.set.CheckRows(rows, x)
	dense.SizeTo(mean, n, c)
	dense.SizeTo(cov, n*c, c)
	if mean == nil && cov == nil || n == 0 {
		return ctx.Err()
	}
	step := t.e.tileOf(n)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		part, x := dense.Slice(cov, lo*c, hi*c), x.Slice(lo, hi)
		if part == nil {
			part = mat.NewDense((hi-lo)*c, c, nil)
		}
		t.e.k.DiagTo(part, x)
		err := t.eachOwn(ctx, rows[lo:hi], x, func(k int, o own) {
			own, i := dense.Slice(part, k*c, (k+1)*c), rows[lo+k]
			o.withoutTo(own)
			if mean != nil {
				leftOutTo(mean.RawRowView(lo+k), own, t.sites.F.RawRowView(i), t.sites.Residual.RawRowView(i))
			}
		})
		if err != nil {
			return shifted(err, lo)
		}
		t.e.o.Show(StageLeaveOneOut, hi, n)
	}
	return nil
}

// eachOwn calls do with the rows of each of a few training examples, from several
// goroutines. do may overwrite them. Those of U⁻¹ are none where the example keeps none.
func (t *Thinned) eachOwn(ctx context.Context, rows []int, x *linearize.Batch, do func(k int, o own)) error {
	if err := ctx.Err(); err != nil {
		return stopped("leaving out examples", err)
	}
	e, c := t.e, t.e.predicted()
	v := dense.New(len(rows)*c, e.g.n)
	if err := blockTo(ctx, e.k, dense.View(v), x, e.x); err != nil {
		return err
	}
	if err := e.f.half(ctx, v); err != nil {
		return stopped("leaving out examples", err)
	}
	inverse, first, err := t.inverseOfOwn(ctx, rows)
	if err != nil {
		return err
	}
	return par.Do(ctx, len(rows), func(k int) error {
		o := own{v: dense.Rows(v, k*c, (k+1)*c)}
		if lo, hi := first[k], first[k+1]; lo < hi {
			from, _ := t.kept.of(rows[k])
			o.t = dense.Cols(dense.Rows(inverse, lo, hi), from, e.g.n)
		}
		do(k, o)
		return nil
	})
}

// inverseOfOwn returns the rows of U⁻¹ that belong to the kept rows of some examples:
// rows [first[k], first[k+1]) to example k.
func (t *Thinned) inverseOfOwn(ctx context.Context, rows []int) (_ blas64.General, first []int, err error) {
	var at []int
	first = []int{0}
	for _, i := range rows {
		for from, to := t.kept.of(i); from < to; from++ {
			at = append(at, from)
		}
		first = append(first, len(at))
	}
	inverse := dense.New(len(at), t.e.g.n)
	if len(at) == 0 {
		return inverse, first, nil
	}
	if err := t.e.f.inverseRowsTo(ctx, inverse, at); err != nil {
		return inverse, nil, stopped("inverting the factor of I + RᵀKR", err)
	}
	return inverse, first, nil
}
