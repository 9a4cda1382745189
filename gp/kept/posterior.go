package kept

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Posterior has the covariance of the kept rows (E16) and a mean that depends on every training example
// (gp.Posterior): its weights are v = μ₀ + Σ₀Jᵀα with all of J, so that f̂ = m + Kα. With Λ̃ the part of Λ that is kept and
// b̃ = α + Λ̃(f̂ − m), the sums over all N examples equal the mean for any α.
//
// Without representatives (gp.Kept.Represent) of the rows that are left out, the covariance is never smaller than the
// covariance of all rows, and the evidence is an upper bound. A Posterior takes the memory of gp.Thinned and a few vectors
// of length P and of length N·C. It is safe for concurrent use, and bit-identical for any number of processors.
type Posterior struct {
	*gp.Posterior
	thin   *gp.Thinned
	kernel *ntk.NTK
	short  *Short // nil where memory held all rows above the threshold
}

var (
	_ gp.Dual      = (*Posterior)(nil)
	_ gp.Reducible = (*Posterior)(nil)
)

// A Short says that the rows above Options.Strength did not all fit into memory, so that only the strongest are
// kept.
type Short struct {
	Kept, Above       int
	Needed, Available int64 // bytes, with all rows above the threshold
}

// Short tells how many rows did not fit into memory. It is nil if all rows above the threshold are kept.
func (p *Posterior) Short() *Short { return p.short }

// Kept returns the rows that the covariance is built on; they must not be changed.
func (p *Posterior) Kept() *gp.Kept { return p.thin.Kept() }

// Thinned returns the posterior of the kept rows, whose covariance is that of the Posterior.
func (p *Posterior) Thinned() *gp.Thinned { return p.thin }

// Downdate removes the training examples at these rows, which ascend, from the rows that the covariance is built on.
func (p *Posterior) Downdate(ctx context.Context, rows []int) (*gp.Downdate, error) {
	return p.thin.Downdate(ctx, rows)
}

// Reduction implements gp.Reducible, for the covariance alone.
func (p *Posterior) Reduction(ctx context.Context, terms bool) (*gp.Reduction, error) {
	return p.thin.Reduction(ctx, terms)
}

// Fit returns the posterior given the sites s of the training examples x under a prior,
// where theta is θ*. Its mean is the end of one quasi-Newton step from the sites, with
// (Σ₀⁻¹ + J_kᵀΛJ_k)⁻¹ of the kept rows in place of the inverse Hessian. If all rows are
// kept, it is the mean of gp.Fit.
//
// It takes one product with Jᵀ and one backward pass for each kept row. If the rows above
// Options.Strength do not fit into memory, it keeps the strongest of them, and Warnings holds
// the warning kept-short. If not even one row fits, the error is a *gp.MemoryError before
// anything large is allocated. If no row is above Options.Strength, it is gp.ErrNoExamples.
// Other errors are those of gp.Keep and gp.FitKept.
func Fit(ctx context.Context, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	p := newFit(x, prior, theta, o)
	p.o.Near = nil
	if err := p.measure(ctx); err != nil {
		return nil, err
	}
	if _, err := sites.New(s, x.Len(), p.c); err != nil {
		return nil, err
	}
	if err := p.keep(ctx, s); err != nil {
		return nil, err
	}
	rows, k := p.thin.Rows(), p.thin.Kept()
	pulled := make([]float64, p.p)
	if err := p.products().MulTransVecTo(ctx, pulled, dense.Flat(s.Residual)); err != nil {
		return nil, err
	}
	// One Newton step from f gives α = r + Σ_k u_k a_k over the kept rows k, with their directions u_k and
	// (I + ΛK_kk) a = Λ(f − m − J_kΣ₀Jᵀr): this solves α = r + Λ̃(f − m) − Λ̃Kα (E5), where Λ̃ is Λ of the kept rows.
	q, a, b := make([]float64, k.Len()), make([]float64, k.Len()), make([]float64, k.Len())
	rows.MulVecTo(q, floats.MulTo(make([]float64, p.p), p.mean.Variance, pulled))
	var u gp.Untrained
	for i, at := range k.Examples {
		f := floats.Dot(k.Directions.RawRowView(i), s.F.RawRowView(at))
		u.Add([]float64{f}, p.thin.PriorMean()[i:i+1])
		b[i] = k.Lambda[i] * (f - p.thin.PriorMean()[i] - q[i])
	}
	if p.o.Mean == gp.Network {
		p.mean.Warnings = append(p.mean.Warnings, u.Warnings(s)...)
	}
	if err := p.thin.DualTo(ctx, a, b); err != nil {
		return nil, err
	}
	// Jᵀα = Jᵀr + J_kᵀa
	more := make([]float64, p.p)
	rows.MulTransVecTo(more, a)
	floats.Add(pulled, more)
	alpha := dense.Flat(s.Residual)
	k.AddTo(alpha, a)
	p.mean.Sites = s
	if err := p.mean.SetDual(alpha, pulled); err != nil {
		return nil, err
	}
	return p.posterior(ctx)
}

// A fit makes a Posterior.
type fit struct {
	x      linearize.Source
	kernel *ntk.NTK
	o      Options
	c, p   int   // outputs and parameters
	each   int64 // bytes that a linearized row takes

	mean  gp.DualMean
	thin  *gp.Thinned
	short *Short
}

func newFit(x linearize.Source, prior ntk.Prior, theta []float64, o *Options) *fit {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Strength < 0 || d.PriorVariance < 0 || d.MaxNewton < 0 || d.Memory < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian {
		panic("kept: options out of range")
	}
	p := &fit{x: x, o: d, p: len(theta), kernel: ntk.New(prior, theta)}
	p.mean = gp.DualMean{Data: x, Kernel: p.kernel, Variance: make([]float64, p.p), Mean: d.Mean}
	prior.VarianceTo(p.mean.Variance)
	return p
}

// posterior returns the Posterior of the kept rows and the mean.
func (p *fit) posterior(ctx context.Context) (*Posterior, error) {
	p.mean.Warnings = append(p.mean.Warnings, p.thin.Warnings()...)
	both, err := gp.NewPosterior(ctx, p.thin, p.mean)
	return &Posterior{Posterior: both, thin: p.thin, kernel: p.kernel, short: p.short}, err
}

// measure finds the sizes of an example and of a row from the first examples, and checks the
// memory for vectors of length P and N·C. The memory for the kept rows is checked once their
// number is known.
func (p *fit) measure(ctx context.Context) error {
	if p.x.Len() == 0 {
		return gp.ErrNoExamples
	}
	one, err := linearize.First(ctx, p.x, 1)
	if err != nil {
		return err
	}
	if p.c = one.Outputs(); one.P != p.p {
		panic("kept: the length of theta is not the number of parameters of the examples")
	}
	if d := p.kernel.Mismatch(one); d != "" {
		panic("kept: the examples are not linearized at theta: " + d)
	}
	if p.each, err = rowBytes(ctx, one); err != nil {
		return err
	}
	return gp.CheckMemory("a posterior of kept rows", gp.TrainingExamples, p.x.Len(), p.o.Memory, func(n int) int64 { return Bytes(n, p.c, p.p, 0) })
}

// rowBytes returns the memory of a row of an example, linearized.
func rowBytes(ctx context.Context, one *linearize.Batch) (bytes int64, err error) {
	err = linearize.Combine(one, mat.NewDense(1, one.Outputs(), nil)).Batches(ctx, func(_ int, row *linearize.Batch) error {
		bytes = jacobian.Bytes(row)
		return nil
	})
	return bytes, err
}

// need returns the memory of a posterior with the given number of rows.
func (p *fit) need(rows int) int64 {
	return memory.Add(Bytes(p.x.Len(), p.c, p.p, rows), memory.Mul(int64(rows), p.each))
}

// Bytes returns the memory that Fit and Refit take for n training examples with c outputs,
// p parameters and the given number of kept rows, without the Jacobian of these. A number
// too large for an int64 is returned as the largest int64.
func Bytes(n, c, p, rows int) int64 {
	nc := memory.Mul(int64(n), int64(c))
	// Count f, r, α, b̃ and the vectors of a line search, and Λ and R, which a refit holds twice.
	vectors := memory.Mul(nc, 12+4*int64(c))
	vectors = memory.Add(vectors, memory.Mul(12, int64(p)))
	return memory.Add(memory.Mul(8, vectors), gp.Bytes(rows, 1))
}

// keep chooses the rows at the sites s, as many as fit into memory, and conditions the posterior on
// them.
func (p *fit) keep(ctx context.Context, s *gp.Sites) error {
	if t := p.o.Found; t != nil {
		p.o.Strength, p.o.PriorVariance, p.o.Found = t.Strength, t.PriorVariance, nil
		if t.Representatives > 0 {
			if p.thin, t.post = t.post, nil; p.thin == nil {
				panic("kept: a threshold with representatives that another posterior has")
			}
			return nil
		}
	}
	k, err := gp.Keep(ctx, p.kernel, p.x, s, &gp.KeepOptions{Strength: p.o.Strength, PriorVariance: p.o.PriorVariance, Progress: p.o.Progress})
	if err != nil {
		return err
	}
	fits, budget := memory.Fit(k.Len(), p.o.Memory, p.need)
	if fits < k.Len() {
		short := &Short{Kept: fits, Above: k.Len(), Needed: p.need(k.Len()), Available: budget}
		if fits == 0 {
			return &gp.MemoryError{Op: "an exact posterior of kept rows", Needed: short.Needed, Available: budget, Unit: gp.KeptRows}
		}
		p.short = short
		p.mean.Warnings = append(p.mean.Warnings, linearize.NewWarning("kept-short", float64(fits), float64(k.Len()), "Raise Options.Memory.",
			"Memory holds the %d strongest of the %d rows above the threshold, and variances are larger for it. All take %.3g GiB, of which %.3g may be used.", fits, k.Len(), float64(short.Needed)/(1<<30), float64(budget)/(1<<30)))
		k = pick(k, slices.Sorted(slices.Values(byStrength(k)[:fits])))
	}
	p.thin, err = gp.FitKept(ctx, p.kernel, p.x, s, k, p.exactOptions())
	return err
}

// exactOptions returns the options of the posterior of the kept rows.
func (p *fit) exactOptions() *gp.Options {
	return &gp.Options{Limits: p.o.Limits}
}

// products returns the products with the Jacobian of all training examples.
func (p *fit) products() linearize.Products {
	of := p.o.Products
	if of == nil {
		of = linearize.ProductsOf(p.x)
	}
	return &counted{of: of, progress: p.o.Show}
}

// A counted multiplies with J and Jᵀ as of does, and reports to progress how many products were made.
type counted struct {
	of       linearize.Products
	done     int
	progress func(stage string, done, total int)
}

// MulVecTo implements linearize.Products.
func (c *counted) MulVecTo(ctx context.Context, dst, v []float64) error {
	c.done++
	c.progress(StageProducts, c.done, 0)
	return c.of.MulVecTo(ctx, dst, v)
}

// MulTransVecTo implements linearize.Products.
func (c *counted) MulTransVecTo(ctx context.Context, dst, u []float64) error {
	c.done++
	c.progress(StageProducts, c.done, 0)
	return c.of.MulTransVecTo(ctx, dst, u)
}
