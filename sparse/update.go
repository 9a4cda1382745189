package sparse

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// Add returns the posterior given the examples of x as well, with their sites
// s. The inducing examples stay, and so do the sites of the data there were:
// after a refit they are those of the mode without x. It takes one pass over
// x, and the cheap one for the dual vector over all data. Where x has no
// examples the result is p, and s is not looked at. A subset of data has an
// error instead. p stays as it is.
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
	return p.update(ctx, sums, linearize.Chain(p.x, x), joinSites(p.sites, s))
}

// Remove returns the posterior without the training examples in the given
// rows of Data. s are their sites as they were, with their own LogLik:
// gp.NewSites at those rows of Sites().F. Without rows the result is p, and s
// is not looked at; to remove all rows is an error. See Add.
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
	less, err := p.sumsOf(ctx, gone, s)
	if err != nil {
		return nil, err
	}
	sums := p.sums.Clone()
	if err := sums.Subtract(less); err != nil {
		return nil, err
	}
	removed := make(map[int]bool, len(rows))
	for _, r := range rows {
		removed[r] = true
	}
	kept := make([]int, 0, rest.Len())
	for i := range p.x.Len() {
		if !removed[i] {
			kept = append(kept, i)
		}
	}
	left := p.sites.Rows(kept)
	left.LogLik = p.sites.LogLik - s.LogLik
	return p.update(ctx, sums, rest, left)
}

// sumsOf returns the sums over x alone.
func (p *Posterior) sumsOf(ctx context.Context, x linearize.Source, s *gp.Sites) (*Sums, error) {
	if p.subset != nil {
		return nil, errSubsetUpdate
	}
	b := &Builder{b: p.b, o: p.o, sums: newSums(p.sums.origin)}
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

// joinSites returns the sites of s and then those of t.
func joinSites(s, t *gp.Sites) *gp.Sites {
	join := func(a, b *mat.Dense) *mat.Dense {
		var m mat.Dense
		m.Stack(a, b)
		return &m
	}
	return &gp.Sites{F: join(s.F, t.F), Residual: join(s.Residual, t.Residual), Lambda: join(s.Lambda, t.Lambda), Root: join(s.Root, t.Root), LogLik: s.LogLik + t.LogLik}
}
