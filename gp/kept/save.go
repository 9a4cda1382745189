package kept

import (
	"context"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// SavedBytes returns about how many bytes Save adds: 8·N·C·(4 + 2·C) + 8·P, and
// 8·n·(n + C + 7) for n kept rows.
func (p *Posterior) SavedBytes() int64 {
	n, c, rows := int64(p.Data().Len()), int64(p.Sites().F.RawMatrix().Cols), int64(p.Kept().Len())
	return 8 * (n*c*(4+2*c) + int64(len(p.Weights())) + rows*(rows+c+7))
}

// Load returns the posterior that Save wrote, given the training examples, the prior and
// θ*. It takes a backward pass for each kept row, for their Jacobian, and reads the inputs of
// x once. It uses Limits and Targets of o; the other options are the saved ones. The loaded
// posterior answers bit for bit as the saved one did.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// Load compares the model, the inputs and their order, the prior and, where o.Targets is
// set, the targets, as gp.Load does. It fails with a *store.Error that names what differs,
// or what is damaged or of an impossible size.
func Load(ctx context.Context, f *store.File, x linearize.Source, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	p := newFit(x, prior, theta, o)
	both, err := gp.LoadPosterior(ctx, f, x, p.kernel, p.mean.Variance, p.o.Targets, func(s *gp.Sites) (_ gp.Solver, err error) {
		p.thin, err = gp.LoadThinned(ctx, f, p.kernel, x, s, p.exactOptions())
		return p.thin, err
	})
	if err != nil {
		return nil, err
	}
	return &Posterior{Posterior: both, thin: p.thin, kernel: p.kernel}, nil
}
