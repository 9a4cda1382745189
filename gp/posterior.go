package gp

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Solver knows the covariance C given the training examples. As a Latent it is called with a nil mean, unless a DualMean
// without weights leaves the mean to it, and with T > 0 inputs that fit the training examples: the Posterior checks them, and
// answers everything else. Calls may come from several goroutines, and the bits of a result must not depend on GOMAXPROCS.
// *Thinned is the solver of kept rows (E16), weightspace.Solver that of all rows by the P×P precision, and sparse.Projected
// that of inducing examples (E13). gptest.Dual tests a Posterior of a solver.
type Solver interface {
	Latent
	// Jacobian returns the posterior Jacobian of x, J(x) − K_*n R B⁻¹ Rᵀ J, as T·C examples of one output each: the
	// kernel between it and the prior Jacobian of other inputs is their posterior covariance with x (E14). The result has
	// one block for each block of x, with the same spans in the same order: a linearize.Full whose Params are those of
	// x's block, for any kind of block. Callers read its blocks alone.
	Jacobian(ctx context.Context, x *linearize.Batch) (*linearize.Batch, error)
	// LogDet returns log det B (E4).
	LogDet() float64
}

// A BoundSolver has an approximate LogDet.
type BoundSolver interface {
	Solver
	// LogDetBound says how an evidence with LogDet is bounded.
	LogDetBound() Bound
}

// A PartialSolver has seen only a part Λ̃ of Λ, such as kept rows. For any other Solver, Λ̃ = Λ.
type PartialSolver interface {
	BoundSolver
	// Observe tells the solver the weights w of the mean m + J w, P numbers, before any Jacobian is asked for, and adds
	// Λ̃ J w to b, N·C. A nil b is skipped.
	Observe(w, b []float64)
}

// A CrossSolver computes the kernels with training examples without its Jacobian.
type CrossSolver interface {
	Solver
	// Cross does what Dual.Cross does.
	Cross(ctx context.Context, x *linearize.Batch) (Cross, error)
}

// A GainSolver has the posterior Jacobian J(x) + WᵀJ_r of a few rows r. Products with W, which a kernel may prepare, take the
// place of the posterior Jacobian, which has lost the structure of a layer that makes kernels cheap.
type GainSolver interface {
	Solver
	// Gain returns the rows and W, a row for each of their outputs and T·C columns.
	Gain(ctx context.Context, x *linearize.Batch) (rows *linearize.Batch, weights *mat.Dense, err error)
}

// A SplitSolver has a covariance h + rest, of which the training examples inform h alone, as through inducing examples
// (E13). Leaving out an example changes h.
type SplitSolver interface {
	Solver
	// SplitTo does what PredictTo does, but writes h and rest, T·C×C each, in place of their sum.
	SplitTo(ctx context.Context, mean, h, rest *mat.Dense, x *linearize.Batch) error
}

// An OwnSolver keeps digits of examples that nearly fix the function at their own inputs, where the covariance of
// PredictTo has lost them.
type OwnSolver interface {
	Solver
	// InfluenceTo does what Dual.InfluenceTo does. r has the residual r_i of each example, n×C.
	InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch, r *mat.Dense) error
	// LeaveOneOutTo writes cov as Dual.LeaveOneOutTo does; mean is nil.
	LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
}

// A KernelSolver works with the kernel K of the training examples in place of their Jacobian: its DualMean has no weights
// and no variance.
type KernelSolver interface {
	CrossSolver
	OwnSolver
	// TrainingMean returns m + Kα at the training examples, N·C.
	TrainingMean() []float64
	// MulKernelTo writes K v for each row v of a, N·C numbers.
	MulKernelTo(ctx context.Context, dst, a *mat.Dense) error
}

// A SavedSolver can be saved, and its Posterior with it.
type SavedSolver interface {
	Solver
	Save(w *store.Writer) error
}

// A DualMean is the posterior mean m(x) + J(x) w with the weights w = Σ₀Jᵀα, in which every training example has a
// part, whatever the solver of the covariance has seen. Set Data, Kernel, Variance, which is that of the kernel's prior, Sites
// and Mean; SetDual and SetMode set the rest. Where Weights is nil, PredictTo and JointTo of the solver write the mean, and
// Alpha, Pseudo, Set and Scatter are set by hand.
type DualMean struct {
	Data     linearize.Source // N training examples
	Kernel   ntk.Kernel
	Variance []float64 // diagonal of Σ₀, P numbers
	Sites    *Sites
	Alpha    []float64 // α, N·C
	Pseudo   []float64 // b̃ = α + Λ̃(f̂ − m), N·C; NewPosterior finds it where it is nil
	Weights  []float64 // w, P numbers
	Scatter  float64   // αᵀKα
	// Distance is √((α−r)ᵀK(α−r)) with the residual r at f̂ = m + Kα (E19); 0 where it was not computed.
	Distance float64
	Refitted bool // the mean belongs to a refit (E9)
	Mean     Mean // what PredictTo writes without a refit
	Warnings []error
	Set      *TrainingSet // of Data; NewPosterior identifies it where it is nil
}

// SetDual sets α, N·C numbers, which it keeps, and with Jᵀα, P numbers, the weights and the scatter. The error is a
// *NotFiniteError for a NaN or Inf. Wrong lengths panic.
func (d *DualMean) SetDual(alpha, pulled []float64) error {
	n, c := d.Sites.F.Dims()
	if len(alpha) != n*c || len(pulled) != len(d.Variance) {
		panic("gp: a dual vector has a wrong length")
	}
	if i := dense.NotFinite(alpha); i >= 0 {
		return &NotFiniteError{What: "dual vector", Row: i / c, Output: i % c, Value: alpha[i]}
	}
	d.Alpha, d.Weights, d.Scatter = alpha, floats.MulTo(make([]float64, len(pulled)), d.Variance, pulled), 0
	for i, g := range pulled {
		d.Scatter += g * d.Weights[i]
	}
	if math.IsInf(d.Scatter, 0) || math.IsNaN(d.Scatter) {
		return &NotFiniteError{What: "scatter αᵀKα", Value: d.Scatter, Remedy: "raise the prior precision, or check the network's Jacobian"}
	}
	return nil
}

// SetMode makes d the mean at a mode v, the weights of a mode.Mode, P numbers, with the sites there: α is the residual at v,
// and the sites are those at f̂ = m + Kα, which differs from f_lin(v) by what is left of the gradient. products multiply with
// J of Data.
func (d *DualMean) SetMode(ctx context.Context, products linearize.Products, prior ntk.Prior, v []float64, at *Sites, y *Targets) error {
	n, c := at.F.Dims()
	if len(v) != len(d.Variance) {
		panic("gp: the weights of a mode have a wrong length")
	}
	alpha, pulled := dense.Flat(at.Residual), make([]float64, len(v))
	if err := products.MulTransVecTo(ctx, pulled, alpha); err != nil {
		return err
	}
	// f̂ − f_lin(v) = J(μ₀ + Σ₀Jᵀα − v)
	to := make([]float64, len(v))
	prior.MeanTo(to)
	floats.Sub(to, v)
	floats.Add(to, floats.MulTo(make([]float64, len(v)), d.Variance, pulled))
	f := make([]float64, len(alpha))
	if err := products.MulVecTo(ctx, f, to); err != nil {
		return err
	}
	floats.Add(f, dense.Flat(at.F))
	var err error
	if d.Sites, err = NewSites(y, mat.NewDense(n, c, f)); err != nil {
		return err
	}
	off := floats.SubTo(make([]float64, len(alpha)), alpha, dense.Flat(d.Sites.Residual))
	d.Warnings = append(d.Warnings, newton.GapWarnings(floats.Norm(off, 2))...)
	left := make([]float64, len(v))
	if err := products.MulTransVecTo(ctx, left, off); err != nil {
		return err
	}
	d.Distance = 0
	for i, g := range left {
		d.Distance += d.Variance[i] * g * g
	}
	d.Distance, d.Refitted = math.Sqrt(d.Distance), true
	return d.SetDual(alpha, pulled)
}

// A Posterior is a posterior over functions given N training examples: the covariance of a Solver, and a DualMean. With
// b̃ = α + Λ̃(f̂ − m) its sums over all N examples close for any α:
//
//	m(x) + Σ_i κ(x,x_i) α_i = m(x) + Σ_i C(x,x_i) b̃_i
//
// It is safe for concurrent use where its solver is.
type Posterior struct {
	Solver Solver // of the covariance; read-only
	mean   DualMean
}

var _ Dual = (*Posterior)(nil)

// NewPosterior returns the posterior with a mean and the covariance of a solver. It passes over the training examples,
// unless Pseudo is set or the solver is a PartialSolver.
func NewPosterior(ctx context.Context, s Solver, mean DualMean) (*Posterior, error) {
	if mean.Weights == nil && (mean.Pseudo == nil || mean.Set == nil) {
		panic("gp: a mean without weights; call SetDual or SetMode")
	}
	p := &Posterior{Solver: s, mean: mean}
	if err := p.identify(ctx); err != nil {
		return nil, err
	}
	if mean.Pseudo != nil {
		return p, nil
	}
	b := append([]float64(nil), mean.Alpha...)
	p.mean.Pseudo = b
	if s, ok := s.(PartialSolver); ok {
		s.Observe(mean.Weights, b)
		return p, nil
	}
	f := make([]float64, len(b)) // f̂ − m = J w
	if err := linearize.ProductsOf(mean.Data).MulVecTo(ctx, f, mean.Weights); err != nil {
		return nil, err
	}
	newBlockDiag(mean.Sites.Lambda).mulRow(f, 0)
	floats.Add(b, f)
	return p, nil
}

// identify identifies the training examples.
func (p *Posterior) identify(ctx context.Context) error {
	if p.mean.Set != nil {
		return nil
	}
	one, err := linearize.First(ctx, p.mean.Data, 1)
	if err != nil {
		return err
	}
	set, err := NewTrainingSet(ctx, p.mean.Data, one)
	p.mean.Set = &set
	return err
}

// Data returns the training examples.
func (p *Posterior) Data() linearize.Source { return p.mean.Data }

// TrainingSet identifies the training examples; it must not be changed.
func (p *Posterior) TrainingSet() *TrainingSet { return p.mean.Set }

// Sites returns the sites that the posterior is built on, with Λ of all rows; they must not be changed.
func (p *Posterior) Sites() *Sites { return p.mean.Sites }

// Alpha returns the dual vector α, N·C; it must not be changed.
func (p *Posterior) Alpha() []float64 { return p.mean.Alpha }

// PseudoTargets returns b̃ = α + Λ̃(f̂ − m) (E16), N·C; it must not be changed.
func (p *Posterior) PseudoTargets() []float64 { return p.mean.Pseudo }

// Weights returns w = Σ₀Jᵀα, P numbers, or nil where the solver writes the mean; it must not be changed.
func (p *Posterior) Weights() []float64 { return p.mean.Weights }

// Scatter returns αᵀKα.
func (p *Posterior) Scatter() float64 { return p.mean.Scatter }

// LogDet returns log det B of the solver (E4).
func (p *Posterior) LogDet() float64 { return p.Solver.LogDet() }

// Refitted tells whether the posterior came from a refit (E9).
func (p *Posterior) Refitted() bool { return p.mean.Refitted }

// Distance returns √((α−r)ᵀK(α−r)) with the residual r at f̂ = m + Kα. The posterior mean of any output of any x is
// within √κ(x,x) times it of that at the mode of the linearized model (E19), for a likelihood that is concave in f. For
// a converged refit it is exact to rounding. It is loose for a restricted one, and 0 without a refit.
func (p *Posterior) Distance() float64 { return p.mean.Distance }

// Warnings says where the result is less accurate than it should be: it holds *linearize.Warning of the solver,
// untrained and, after a refit, refit-gap and refit-steps.
func (p *Posterior) Warnings() []error { return p.mean.Warnings }

// hasDualMean tells whether the predictive mean is m + K_*n α rather than x.F.
func (p *Posterior) hasDualMean() bool { return p.mean.Refitted || p.mean.Mean == LinearGaussian }

// EvidenceAtTheta is the Laplace evidence at θ* (E7), for a posterior whose sites are at f(x;θ*). scatter is
// (θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀), see Scatter.
func (p *Posterior) EvidenceAtTheta(scatter float64) Evidence {
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det B (E7)
	return p.evidence(p.mean.Sites.LogLik, scatter)
}

// evidence returns the evidence with log det B of the solver.
func (p *Posterior) evidence(logLik, scatter float64) Evidence {
	e := NewEvidence(logLik, scatter, p.Solver.LogDet())
	if s, ok := p.Solver.(BoundSolver); ok {
		e.Bound = s.LogDetBound()
	}
	return e
}

// EvidenceRefit is the Laplace evidence at the mode of the linearized model (E9). It panics on a posterior that was not
// refitted.
func (p *Posterior) EvidenceRefit() Evidence {
	if !p.mean.Refitted {
		panic("gp: the evidence (E9) needs a refit")
	}
	// Σ log p(y|f̂) − ½ αᵀKα − ½ log det B (E9)
	return p.EvidenceAtTheta(p.mean.Scatter)
}

// EvidenceLinearGaussian is the evidence of the linear-Gaussian model with the posterior's sites (E8), at any function
// values. It takes TrainingMean, unless the solver has the evidence.
func (p *Posterior) EvidenceLinearGaussian(ctx context.Context) (Evidence, error) {
	if s, ok := p.Solver.(interface{ EvidenceLinearGaussian() Evidence }); ok {
		return s.EvidenceLinearGaussian(), nil
	}
	s := p.mean.Sites
	d, err := p.TrainingMean(ctx)
	if err != nil {
		return Evidence{}, err
	}
	// d = m + Kα − f
	floats.Sub(d, dense.Flat(s.F))
	ld := append([]float64(nil), d...)
	newBlockDiag(s.Lambda).mulRow(ld, 0)
	// Σ[log p(y|f) + rᵀd − ½dᵀΛd] − ½ αᵀKα − ½ log det B (E8)
	return p.evidence(s.LogLik+floats.Dot(dense.Flat(s.Residual), d)-floats.Dot(d, ld)/2, p.mean.Scatter), nil
}

// TrainingMean returns m + Kα at the training examples, N·C. Unless the solver is a KernelSolver, it passes over them.
func (p *Posterior) TrainingMean(ctx context.Context) ([]float64, error) {
	if k, ok := p.Solver.(KernelSolver); ok {
		return k.TrainingMean(), nil
	}
	_, c := p.mean.Sites.F.Dims()
	f := make([]float64, len(p.mean.Alpha))
	return f, p.mean.Data.Batches(ctx, func(first int, b *linearize.Batch) error {
		part, m := f[first*c:(first+b.Len())*c], make([]float64, b.Len()*c)
		if p.mean.Weights == nil {
			return p.Solver.PredictTo(ctx, mat.NewDense(b.Len(), c, part), nil, b)
		}
		p.mean.Kernel.MeanTo(m, b)
		b.MulVecTo(part, p.mean.Weights)
		floats.Add(part, m)
		return ctx.Err()
	})
}

// TrainingMeanTo writes the mean of PredictTo at the training examples x, n×C, which are in the given rows of
// Data. LeaveOneOutTo starts its step from this mean.
func (p *Posterior) TrainingMeanTo(ctx context.Context, mean *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := x.Len(), x.Outputs()
	dense.SizeTo(mean, t, c)
	if k, ok := p.Solver.(KernelSolver); ok && p.solverMean() {
		f := k.TrainingMean()
		for k, i := range rows {
			mean.SetRow(k, f[i*c:(i+1)*c])
		}
		return ctx.Err()
	}
	return p.meanTo(ctx, mean, x)
}

// PredictTo implements Latent. The mean takes one product with the Jacobian of x.
func (p *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := p.mean.Set.Check(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if t == 0 {
		return ctx.Err()
	}
	if p.solverMean() {
		return p.Solver.PredictTo(ctx, mean, cov, x)
	}
	if err := p.Solver.PredictTo(ctx, nil, cov, x); err != nil {
		return err
	}
	return p.meanTo(ctx, mean, x)
}

// JointTo implements Latent.
func (p *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := p.mean.Set.Check(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, t*c)
	if t == 0 {
		return ctx.Err()
	}
	if p.solverMean() {
		return p.Solver.JointTo(ctx, mean, cov, x)
	}
	if err := p.Solver.JointTo(ctx, nil, cov, x); err != nil {
		return err
	}
	return p.meanTo(ctx, mean, x)
}

// solverMean tells whether the solver writes the mean.
func (p *Posterior) solverMean() bool { return p.mean.Weights == nil && p.hasDualMean() }

// meanTo writes m + K_*n α where that is the mean, and leaves f(x;θ*) otherwise.
func (p *Posterior) meanTo(ctx context.Context, mean *mat.Dense, x *linearize.Batch) error {
	switch {
	case mean == nil:
		return nil
	case p.solverMean():
		return p.Solver.PredictTo(ctx, mean, nil, x)
	}
	if !p.hasDualMean() {
		mean.Copy(x.F)
		return nil
	}
	_, c := mean.Dims()
	m, move := make([]float64, x.Len()*c), make([]float64, x.Len()*c)
	p.mean.Kernel.MeanTo(m, x)
	// mean(x*) = m(x*) + K_*n α, K_*n α = J(x*)Σ₀Jᵀα (E6)
	x.MulVecTo(move, p.mean.Weights)
	floats.Add(m, move)
	for i, v := range m {
		mean.Set(i/c, i%c, v)
	}
	return checkFinite("predictive mean", mean)
}

// MulKernelTo writes K v for each row v of a, N·C numbers. Unless the solver is a KernelSolver, each takes a product with Jᵀ
// and one with J of Data.
func (p *Posterior) MulKernelTo(ctx context.Context, dst, a *mat.Dense) error {
	rows, n := a.Dims()
	if n != len(dense.Contiguous(p.mean.Sites.F)) {
		panic("gp: a vector to multiply has a wrong length")
	}
	dense.SizeTo(dst, rows, n)
	if k, ok := p.Solver.(KernelSolver); ok {
		return k.MulKernelTo(ctx, dst, a)
	}
	if p.mean.Variance == nil {
		panic("gp: a product with the kernel needs DualMean.Variance")
	}
	_, c := p.mean.Sites.F.Dims()
	w, products := make([]float64, len(p.mean.Weights)), linearize.ProductsOf(p.mean.Data)
	for i := range rows {
		// K v = J Σ₀ Jᵀv (E2)
		if err := products.MulTransVecTo(ctx, w, a.RawRowView(i)); err != nil {
			return err
		}
		floats.Mul(w, p.mean.Variance)
		if err := products.MulVecTo(ctx, dst.RawRowView(i), w); err != nil {
			return err
		}
		if j := dense.NotFinite(dst.RawRowView(i)); j >= 0 {
			return &NotFiniteError{What: "product with the kernel", Row: j / c, Output: j % c, Value: dst.At(i, j)}
		}
	}
	return nil
}

// InfluenceTo implements Dual. The weight Λ_i of an example is the weight that the solver has seen.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.mean.Set.CheckRows(rows, x)
	if t == 0 {
		dense.SizeTo(h, 0, 0)
		dense.SizeTo(q, 0, 0)
		return ctx.Err()
	}
	r := p.residuals(rows)
	if s, ok := p.Solver.(OwnSolver); ok {
		return s.InfluenceTo(ctx, h, q, rows, x, dense.View(dense.Of(r, t, c)))
	}
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(q, t, c)
	if err := p.splitTo(ctx, nil, h, nil, x); err != nil {
		return err
	}
	var prior *mat.Dense
	if _, ok := p.Solver.(SplitSolver); ok {
		prior = mat.NewDense(t*c, c, nil)
		p.mean.Kernel.DiagTo(prior, x)
	}
	return par.Do(ctx, t, func(k int) error {
		var of mat.Matrix
		if prior != nil {
			of = dense.Slice(prior, k*c, (k+1)*c)
		}
		root := dense.Slice(p.mean.Sites.Root, rows[k]*c, (rows[k]+1)*c)
		RemovalFrom(q.RawRowView(k), dense.Slice(h, k*c, (k+1)*c), root, of, r[k*c:(k+1)*c])
		return nil
	})
}

// LeaveOneOutTo implements Dual: what the solver has seen of an example is taken out, and the step is made with its
// whole residual.
func (p *Posterior) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.mean.Set.CheckRows(rows, x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if t == 0 || mean == nil && cov == nil {
		return ctx.Err()
	}
	if cov == nil {
		cov = mat.NewDense(t*c, c, nil)
	}
	r := p.residuals(rows)
	if s, ok := p.Solver.(OwnSolver); ok {
		if err := s.LeaveOneOutTo(ctx, nil, cov, rows, x); err != nil || mean == nil {
			return err
		}
		if err := p.TrainingMeanTo(ctx, mean, rows, x); err != nil {
			return err
		}
		for k := range rows {
			f := mean.RawRowView(k)
			leftOutTo(f, dense.Slice(cov, k*c, (k+1)*c), f, r[k*c:(k+1)*c])
		}
		return nil
	}
	var rest, prior *mat.Dense
	if _, ok := p.Solver.(SplitSolver); ok {
		rest, prior = mat.NewDense(t*c, c, nil), mat.NewDense(t*c, c, nil)
		p.mean.Kernel.DiagTo(prior, x)
	}
	if err := p.splitTo(ctx, mean, cov, rest, x); err != nil {
		return err
	}
	return par.Do(ctx, t, func(k int) error {
		lo, hi := k*c, (k+1)*c
		own, f := dense.Slice(cov, lo, hi), []float64(nil)
		if mean != nil {
			f = mean.RawRowView(k)
		}
		// mean_−i = f − cov_−i r (E17)
		root := dense.Slice(p.mean.Sites.Root, rows[k]*c, (rows[k]+1)*c)
		LeaveOneOutSplit(f, own, mat.DenseCopyOf(own), dense.Slice(rest, lo, hi), dense.Slice(prior, lo, hi), root, f, r[lo:hi])
		return nil
	})
}

// splitTo writes the mean and the covariance. For a SplitSolver it writes the covariance in two parts.
func (p *Posterior) splitTo(ctx context.Context, mean, h, rest *mat.Dense, x *linearize.Batch) error {
	write := func(mean *mat.Dense) error { return p.Solver.PredictTo(ctx, mean, h, x) }
	if s, ok := p.Solver.(SplitSolver); ok {
		write = func(mean *mat.Dense) error { return s.SplitTo(ctx, mean, h, rest, x) }
	}
	if p.solverMean() {
		return write(mean)
	}
	if err := write(nil); err != nil {
		return err
	}
	return p.meanTo(ctx, mean, x)
}

// residuals returns the vector from which steps that leave out examples start: α if the mean is a sum over
// training examples, and otherwise the residuals of the sites.
func (p *Posterior) residuals(rows []int) []float64 {
	_, c := p.mean.Sites.F.Dims()
	var r []float64
	for _, i := range rows {
		if p.hasDualMean() {
			r = append(r, p.mean.Alpha[i*c:(i+1)*c]...)
		} else {
			r = append(r, p.mean.Sites.Residual.RawRowView(i)...)
		}
	}
	return r
}

// Cross computes the posterior Jacobian of x, 8·T·C·P bytes. The kernel κ between it and a training example is the
// posterior covariance with that example. Of a GainSolver it is that of x and a product with the gain. The result is a
// CombinedCross, unless a CrossSolver gives another.
func (p *Posterior) Cross(ctx context.Context, x *linearize.Batch) (Cross, error) {
	t, _ := p.mean.Set.Check(x)
	if s, ok := p.Solver.(CrossSolver); ok {
		q, err := s.Cross(ctx, x)
		if err != nil {
			return nil, err
		}
		if q, ok := q.(CombinedCross); ok {
			return checkedCombined{q, p.mean.Set}, nil
		}
		return checkedCross{q, p.mean.Set}, nil
	}
	q := &jacobianCross{kernel: p.mean.Kernel, set: p.mean.Set, x: x}
	if t == 0 {
		return q, nil
	}
	s, gains := p.Solver.(GainSolver)
	if k, ok := p.mean.Kernel.(ntk.Preparer); ok && gains {
		rows, weights, err := s.Gain(ctx, x)
		if err != nil {
			return nil, err
		}
		q.gain = k.Prepare(rows, weights)
		return q, nil
	}
	j, err := p.Solver.Jacobian(ctx, x)
	if err != nil {
		return nil, err
	}
	rows := t * x.Outputs()
	q.posterior = &linearize.Batch{Blocks: j.Blocks, P: x.P, Model: x.Model, F: mat.NewDense(rows, 1, nil)}
	return q, nil
}

// A checkedCross wraps the Cross of a CrossSolver, and checks the training examples that it is given.
type checkedCross struct {
	Cross
	set *TrainingSet
}

// TileTo implements Cross.
func (q checkedCross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t Terms) error {
	q.set.CheckTile(first, train)
	return q.Cross.TileTo(ctx, dst, first, train, t)
}

// A checkedCombined is a checkedCross that is a CombinedCross.
type checkedCombined struct {
	CombinedCross
	set *TrainingSet
}

// TileTo implements Cross.
func (q checkedCombined) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t Terms) error {
	return checkedCross{q.CombinedCross, q.set}.TileTo(ctx, dst, first, train, t)
}

// A jacobianCross is the Cross of inputs x whose posterior Jacobian is known.
type jacobianCross struct {
	kernel    ntk.Kernel
	set       *TrainingSet
	x         *linearize.Batch
	posterior *linearize.Batch // T·C examples with one output each; nil where gain is set
	gain      ntk.Product      // what the posterior Jacobian has more than that of x
}

var _ CombinedCross = (*jacobianCross)(nil)

// TileTo implements Cross.
func (q *jacobianCross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t Terms) error {
	q.set.CheckTile(first, train)
	return q.CombinedTo(ctx, dst, train, t)
}

// CombinedTo implements CombinedCross.
func (q *jacobianCross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t Terms) error {
	if q.x.Len() == 0 || train.Len() == 0 {
		dense.SizeTo(dst, 0, 0)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	from := q.x
	switch t {
	case RawTerms:
	case PosteriorTerms:
		// C_*n = K_*n − K_*n R B⁻¹ Rᵀ K_nn (E14)
		if q.gain == nil {
			from = q.posterior
		}
	default:
		panic("gp: unknown terms")
	}
	c := train.Outputs()
	dense.SizeTo(dst, q.x.Len()*q.x.Outputs(), train.Len()*c)
	if err := ntk.BlockContextTo(ctx, q.kernel, dst, from, train); err != nil {
		return err
	}
	if q.gain != nil && t == PosteriorTerms {
		var more mat.Dense
		q.gain.MulTo(&more, train)
		dst.Add(dst, more.T())
	}
	if err := checkFinite("cross-kernel", dst); err != nil {
		at := err.(*NotFiniteError)
		at.Row, at.Output = at.Row/c, at.Row%c
		return at
	}
	return nil
}

// savedPosteriorVersion is the version of the sections that Posterior.Save writes.
const savedPosteriorVersion = 1

// Save adds the posterior to a store: sections whose names start with "kept.", and those of its solver. It saves the
// sites, dual vectors, weights, warnings and the fingerprints of the training examples, their model and the prior,
// 8·N·C·(4 + 2·C) + 8·P bytes. It does not save the examples, which LoadPosterior must be given, nor their Jacobian.
//
//	err := store.Write(path, kind, version, post.Save) // see store.Write
//
// Save returns an error where the solver is no SavedSolver, and where the fingerprints cannot be computed; store.Write returns the errors of writing. It
// reads the inputs once. For training examples that are neither a linearize.InputSource nor in memory, it linearizes
// them.
func (p *Posterior) Save(w *store.Writer) error {
	s, ok := p.Solver.(SavedSolver)
	if !ok {
		return fmt.Errorf("gp: a %T cannot be saved: it has no method Save", p.Solver)
	}
	m, n := &p.mean, p.mean.Data.Len()
	_, c := m.Sites.F.Dims()
	w.JSON("kept.about", saved.About{Version: savedPosteriorVersion, N: n, C: c, P: len(m.Weights), Refit: m.Refitted, Mean: int(m.Mean), Warnings: m.Warnings})
	saved.Save(w, "kept.", p.fields(n, c, len(m.Weights)))
	m.Sites.Save(w, "kept.")
	if err := s.Save(w); err != nil {
		return err
	}
	return saved.Of(m.Data, m.Kernel).Save(context.Background(), w, "kept.")
}

// fields are the dual vectors and weights of n training examples with c outputs.
func (p *Posterior) fields(n, c, params int) []saved.Field {
	m := &p.mean
	return []saved.Field{saved.Scalars("scalars", &m.Scatter, &m.Distance),
		saved.Floats("alpha", &m.Alpha, n, c), saved.Floats("b", &m.Pseudo, n, c), saved.Floats("weights", &m.Weights, params)}
}

// LoadPosterior returns the posterior that Posterior.Save wrote, given the training examples, the kernel and the
// diagonal of Σ₀, P numbers. solver loads the solver for the sites; targets may be nil. It compares the model, the inputs
// and their order, the prior and the targets with the saved ones, and fails with a *store.Error that names what differs,
// or what is damaged or of an impossible size. The numbers stay in the store's memory, so the store must stay open.
func LoadPosterior(ctx context.Context, f *store.File, x linearize.Source, k ntk.Kernel, variance []float64, targets *Targets, solver func(s *Sites) (Solver, error)) (*Posterior, error) {
	var s saved.About
	p := &Posterior{mean: DualMean{Data: x, Kernel: k, Variance: variance}}
	r := f.Reader("kept.")
	r.JSON("about", &s)
	s.Check(r, savedPosteriorVersion)
	s.Belongs(r, x.Len(), -1, len(variance))
	saved.Load(r, p.fields(s.N, s.C, s.P))
	p.mean.Sites, p.mean.Refitted, p.mean.Mean = LoadSites(r, s.N, s.C), s.Refit, Mean(s.Mean)
	saved.Of(x, k).Check(ctx, r, "")
	targets.CheckSaved(r, p.mean.Sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	p.mean.Warnings = append(p.mean.Warnings, s.Warnings...)
	var err error
	if p.Solver, err = solver(p.mean.Sites); err != nil {
		return nil, err
	}
	if s, ok := p.Solver.(PartialSolver); ok {
		s.Observe(p.mean.Weights, nil)
	}
	return p, p.identify(ctx)
}
