package sparse

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Posterior is a Projected with its training examples, so that it can write a
// prediction as a sum over all of them.
type Posterior struct {
	*Projected
	x             linearize.Source
	set           gp.TrainingSet // those of x
	sites         *gp.Sites
	local         sites.Arrays
	pseudo, alpha []float64  // b and α, N·C
	subset        *Posterior // for a subset of data, the posterior whose data are the subset; else nil
	warnings      []error
}

var _ gp.Dual = (*Posterior)(nil)

// Fit returns the posterior given all training examples x with their sites s, and
// the inducing examples z. It takes one pass over x for the sums, and a cheaper one
// for the dual vector. A Builder saves the second pass where no explanation is
// wanted.
//
// It fails with a *CountError where there are more inducing than training
// examples, or more pairs than outputs of the training examples. It fails with a
// *gp.MemoryError before anything large is allocated, with a *gp.NotFiniteError
// where a number is NaN or Inf, and with ctx.Err(), which it checks between chunks.
func Fit(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, z *Inducing, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	if err := checkInducing(z, x.Len()); err != nil {
		return nil, err
	}
	b, err := newBuilder(ctx, k, z, x.Len(), false, &d)
	if err != nil {
		return nil, err
	}
	if err := b.Add(ctx, x, s); err != nil {
		return nil, err
	}
	p, err := newProjected(ctx, b.b, b.sums, &d)
	if err != nil {
		return nil, err
	}
	return p.withData(ctx, x, s, b)
}

// checkInducing checks the number of inducing examples and their rows in the data.
func checkInducing(z *Inducing, n int) error {
	if z.Len() == 0 {
		return &CountError{M: 0, N: n}
	}
	z.check()
	most := n
	if z.Pairs() {
		most = memory.MulInt(n, z.DataOutputs)
	}
	if z.Len() > most {
		return &CountError{M: z.Len(), N: most, Pairs: z.Pairs()}
	}
	for _, r := range z.Rows {
		if r < 0 || r >= n {
			panic("sparse: an inducing example's row is not one of the data")
		}
	}
	return nil
}

// WithData returns the posterior with its training examples x and their sites s,
// which must be those in the sums, so that predictions can be explained. It takes
// one pass over x for the dual vector. Another number of examples than in the sums
// is an error, and so is an x without examples; NaN or Inf is a *gp.NotFiniteError.
func (p *Projected) WithData(ctx context.Context, x linearize.Source, s *gp.Sites) (*Posterior, error) {
	return p.withData(ctx, x, s, nil)
}

// withData is WithData, with the checkpoints of the builder of the sums where it is given.
func (p *Projected) withData(ctx context.Context, x linearize.Source, s *gp.Sites, b *Builder) (*Posterior, error) {
	if err := p.checkData(x); err != nil {
		return nil, err
	}
	local, err := sites.New(s, x.Len(), p.b.c)
	if err != nil {
		return nil, err
	}
	q := &Posterior{Projected: p, x: x, sites: s, local: local, warnings: p.Warnings()}
	if err := q.identify(ctx); err != nil {
		return nil, err
	}
	n := x.Len() * p.b.c
	q.pseudo, q.alpha = make([]float64, n), make([]float64, n)
	var untrained gp.Untrained
	if err := q.dual(ctx, b, &untrained); err != nil {
		return nil, err
	}
	if !p.linearMean() {
		q.warnings = append(q.warnings, untrained.Warnings(s)...)
	}
	return q, nil
}

// identify reads the inputs of the training examples, so that others are noticed in their place.
func (p *Posterior) identify(ctx context.Context) (err error) {
	p.set, err = gp.NewTrainingSet(ctx, p.x, p.b.z.Batch)
	p.set.Outputs = p.b.c
	return err
}

// checkData checks that x has as many examples as are in the sums.
func (p *Projected) checkData(x linearize.Source) error {
	if x.Len() != p.sums.n {
		return fmt.Errorf("sparse: %d training examples, but the sums are of %d", x.Len(), p.sums.n)
	}
	if x.Len() == 0 {
		return gp.ErrNoExamples
	}
	return nil
}

// dual writes b = r + Λ(f − m) and α = b − ΛK_nZ A⁻¹c, for which
// Q_*n α = K_*Z A⁻¹ c. It writes and goes on from checkpoints as the builder, if any, does.
func (p *Posterior) dual(ctx context.Context, from *Builder, untrained *gp.Untrained) error {
	mean, err := p.b.product(ctx, p.w)
	if err != nil {
		return err
	}
	do := func(t chunk) error {
		lo, hi := t.first*p.b.c, t.first*p.b.c+t.rows
		s, b, alpha := p.local.Slice(t.first, t.first+t.x.Len()), p.pseudo[lo:hi], p.alpha[lo:hi]
		m := make([]float64, t.rows)
		p.b.k.MeanTo(m, t.x)
		if err := sites.NotFinite("prior mean", m, t.first, p.b.c); err != nil {
			return err
		}
		untrained.Add(s.F, m)
		s.PseudoTargets(b, m)
		q := mat.NewDense(t.rows, 1, nil)
		if err := mean(q, t); err != nil {
			return err
		}
		s.SubtractLambda(alpha, b, q.RawMatrix().Data)
		return sites.NotFinite("dual vector", alpha, t.first, p.b.c)
	}
	if from == nil || !from.save.active() {
		return p.b.eachChunk(ctx, p.x, &p.o, StageDual, do)
	}
	first := 0
	if c := from.save.from; c != nil && c.Dual {
		first = c.Done
		copy(p.pseudo, c.pseudo)
		copy(p.alpha, c.alpha)
	}
	return from.save.eachChunk(ctx, p.b, p.x, &p.o, StageDual, first, do, func(done int) *checkpoint {
		return &checkpoint{Done: done, Dual: true, sums: p.sums, pseudo: p.pseudo[:done*p.b.c], alpha: p.alpha[:done*p.b.c]}
	})
}

// product returns a function that writes Φᵀw of the examples of a chunk. It
// multiplies k_Z by Gw, which is prepared once. Where K_ZZ is singular to working
// precision it multiplies the features by w, which does not amplify rounding.
func (b *basis) product(ctx context.Context, w []float64) (func(dst *mat.Dense, t chunk) error, error) {
	if b.g.Rows == 0 {
		v, err := b.weights(ctx, dense.In(append([]float64(nil), w...), 1, len(w)))
		if err != nil {
			return nil, err
		}
		k := prepare(b.k, b.z.Batch, mat.NewDense(v.Cols, 1, v.Data))
		return func(dst *mat.Dense, t chunk) error {
			k.MulTo(dst, t.x)
			return nil
		}, nil
	}
	return func(dst *mat.Dense, t chunk) error {
		phi, err := newFeaturesOf(b, t.rows).of(ctx, t)
		if err != nil {
			return err
		}
		return dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, phi, dense.In(w, len(w), 1), 0, dst.RawMatrix())
	}, nil
}

// Data returns the training examples, all N of them.
func (p *Posterior) Data() linearize.Source { return p.x }

// Sites returns the sites that the posterior is built on. Those of examples
// outside a subset of data are flat: r = 0 and Λ = 0, and f is zero.
func (p *Posterior) Sites() *gp.Sites { return p.sites }

// Alpha returns the dual vector α, N·C: the mean is m + Q_*n α, with
// Q = K_nZ K_ZZ⁻¹ K_Zn. It must not be changed.
func (p *Posterior) Alpha() []float64 { return p.alpha }

// PseudoTargets returns b, N·C: the mean is m + K_*Z A⁻¹ K_Zn b (E13). It must not
// be changed.
func (p *Posterior) PseudoTargets() []float64 { return p.pseudo }

// Warnings returns a warning of inducing-rank where K_ZZ is singular to working precision, of
// untrained, and after a refit of refit-gap, refit-steps and sums-open where
// they apply.
func (p *Posterior) Warnings() []error { return p.warnings }

// Add returns the posterior given the examples of x too, with their sites s; p
// does not change. The inducing examples and the sites of the other data stay the
// same: after a refit, those sites are at the mode without x. It takes one pass
// over x, and a cheaper one over all data for the dual vector. Where x has no
// examples the result is p, whatever s is. Add fails for a subset of data.
func (p *Posterior) Add(ctx context.Context, x linearize.Source, s *gp.Sites) (*Posterior, error) {
	if x.Len() == 0 && p.subset == nil {
		return p, nil
	}
	more, err := p.sumsOf(ctx, x, s)
	if err != nil {
		return nil, err
	}
	sums := p.sums.Clone()
	if err := sums.Merge(more); err != nil {
		return nil, err
	}
	join := func(a, b *mat.Dense) *mat.Dense {
		var m mat.Dense
		m.Stack(a, b)
		return &m
	}
	was := p.sites
	all := &gp.Sites{F: join(was.F, s.F), Residual: join(was.Residual, s.Residual), Lambda: join(was.Lambda, s.Lambda), Root: join(was.Root, s.Root), LogLik: was.LogLik + s.LogLik}
	return p.update(ctx, sums, linearize.Chain(p.x, x), all)
}

// Remove returns the posterior without the training examples in the given rows of
// Data; p does not change. s holds their LogLik, as gp.NewSites gives it at those
// rows of Sites().F; what is removed are their sites in the posterior. Without rows
// the result is p, whatever s is; to remove all rows is an error. Its cost is that
// of Add.
func (p *Posterior) Remove(ctx context.Context, rows []int, s *gp.Sites) (*Posterior, error) {
	switch {
	case p.subset != nil:
		return nil, errSubsetUpdate
	case len(rows) == 0:
		return p, nil
	case len(rows) == p.x.Len():
		return nil, errNothingLeft
	}
	rest := linearize.Without(p.x, rows)
	gone, err := linearize.Gather(ctx, p.x, rows)
	if err != nil {
		return nil, err
	}
	own := p.sites.Rows(rows) // which may be those of kept rows
	own.LogLik = s.LogLik
	less, err := p.sumsOf(ctx, gone, own)
	if err != nil {
		return nil, err
	}
	sums := p.sums.Clone()
	if err := sums.Subtract(less); err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(dense.Range(p.x.Len()), func(i int) bool { return slices.Contains(rows, i) })
	left := p.sites.Rows(kept)
	left.LogLik = p.sites.LogLik - s.LogLik
	return p.update(ctx, sums, rest, left)
}

// sumsOf returns the sums over x alone.
func (p *Posterior) sumsOf(ctx context.Context, x linearize.Source, s *gp.Sites) (*Sums, error) {
	if p.subset != nil {
		return nil, errSubsetUpdate
	}
	b := p.Builder()
	if err := b.Add(ctx, x, s); err != nil {
		return nil, err
	}
	return b.sums, nil
}

func (p *Posterior) update(ctx context.Context, sums *Sums, x linearize.Source, s *gp.Sites) (*Posterior, error) {
	q, err := newProjected(ctx, p.b, sums, &p.o)
	if err != nil {
		return nil, err
	}
	q.refit = p.refit
	return q.WithData(ctx, x, s)
}
