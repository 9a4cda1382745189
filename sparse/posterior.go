package sparse

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Posterior is a gp.Posterior with the covariance of a Projected, so that it can write a prediction as a sum over all
// training examples. It has the methods of both.
type Posterior struct {
	*gp.Posterior
	projected
	subset *Posterior // for a subset of data, the posterior whose data are the subset; else nil
}

// projected makes the methods of a Projected those of a Posterior, except where gp.Posterior has one of the same name.
type projected struct{ *Projected }

// over returns the posterior of p with the training examples of mean, their sites and dual vectors.
func (p *Projected) over(mean gp.DualMean) *Posterior {
	mean.Kernel, mean.Mean, mean.Refitted, mean.Scatter = p.b.k, p.o.Mean, p.refit, floats.Dot(p.w, p.w)
	mean.Warnings = append(p.Warnings(), mean.Warnings...)
	q, _ := gp.NewPosterior(context.Background(), p, mean) // mean is complete, so it reads no examples and cannot fail
	return &Posterior{q, projected{p}, nil}
}

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

// checkInducing checks the number of inducing examples and their rows in n training examples, 0 where n is not known.
func checkInducing(z *Inducing, n int) error {
	if z.Len() == 0 {
		return &CountError{M: 0, N: n}
	}
	if z.check(); n == 0 {
		return nil
	}
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
	set, err := p.identify(ctx, x)
	if err != nil {
		return nil, err
	}
	n := x.Len() * p.b.c
	mean := gp.DualMean{Data: x, Sites: s, Set: set, Alpha: make([]float64, n), Pseudo: make([]float64, n)}
	var untrained gp.Untrained
	if err := p.dual(ctx, observations{x: x, sites: local}, mean.Pseudo, mean.Alpha, b, &untrained); err != nil {
		return nil, err
	}
	if !p.linearMean() {
		mean.Warnings = untrained.Warnings(s)
	}
	return p.over(mean), nil
}

// identify reads the inputs of the training examples, so that others are noticed in their place.
func (p *Projected) identify(ctx context.Context, x linearize.Source) (*gp.TrainingSet, error) {
	set, err := gp.NewTrainingSet(ctx, x, p.b.z.Batch)
	set.Outputs = p.b.c
	return &set, err
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

// dual writes b = r + Λ(f − m) and α = b − ΛK_nZ A⁻¹c of observations, for which
// Q_*n α = K_*Z A⁻¹ c. It writes the checkpoints of the builder from, if any, and resumes from them.
func (p *Projected) dual(ctx context.Context, of observations, pseudo, alpha []float64, from *Builder, untrained *gp.Untrained) error {
	mean, err := p.b.product(ctx, p.w)
	if err != nil {
		return err
	}
	c := of.sites.C
	do := func(t chunk) error {
		lo, hi := t.first*c, t.first*c+t.rows
		s, b, alpha := of.sites.Slice(t.first, t.first+t.x.Len()), pseudo[lo:hi], alpha[lo:hi]
		m := make([]float64, t.rows)
		p.b.k.MeanTo(m, t.x)
		if err := sites.NotFinite("prior mean", m, t.first, c); err != nil {
			return err
		}
		untrained.Add(s.F, m)
		s.PseudoTargets(b, m)
		q := mat.NewDense(t.rows, 1, nil)
		if err := mean(q, t); err != nil {
			return err
		}
		s.SubtractLambda(alpha, b, q.RawMatrix().Data)
		return sites.NotFinite("dual vector", alpha, t.first, c)
	}
	if from == nil || !from.save.active() {
		return of.each(ctx, p.b, &p.o, StageDual, do)
	}
	first := 0
	if c := from.save.from; c != nil && c.Dual {
		first = c.Done
		copy(pseudo, c.pseudo)
		copy(alpha, c.alpha)
	}
	return from.save.eachChunk(ctx, p.b, of.x, &p.o, StageDual, first, do, func(done int) *checkpoint {
		return &checkpoint{Done: done, Dual: true, sums: p.sums, pseudo: pseudo[:done*c], alpha: alpha[:done*c]}
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
