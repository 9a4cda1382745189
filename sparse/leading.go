package sparse

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

var (
	errLeadingFITC = errors.New("sparse: the FITC correction depends on all inducing examples; pass over the data again with fewer")
	errLeadingRank = errors.New("sparse: the kernel of the inducing examples is singular to working precision, and their order is lost; pass over the data again with fewer")
)

// Leading returns the posterior through the first m inducing examples alone,
// from the same sums: without a pass over the data, one pass at the largest M
// gives the posteriors of all smaller ones. K_ZZ = LLᵀ in the order of Z, so
// the features of the first m examples are the first m·C features, and so are
// their sums. Of pairs, they are the first m.
//
// It fails with a *CountError where m is not between 1 and M, and with an
// error for FITC, whose sites depend on all inducing examples, for a subset of
// data, and where K_ZZ is singular to working precision.
func (p *Projected) Leading(ctx context.Context, m int) (*Projected, error) {
	switch {
	case m < 1 || m > p.b.z.Len():
		return nil, &CountError{M: m, N: p.b.z.Len(), Pairs: p.b.z.Pairs()}
	case p.sums.origin.fitc:
		return nil, errLeadingFITC
	case p.b.g.Rows > 0:
		return nil, errLeadingRank
	case p.IsSubset():
		return nil, fmt.Errorf("sparse: a subset of data has other data for every number of examples; fit it again with %d", m)
	}
	b := p.b.leading(m)
	q, err := newProjected(ctx, b, p.sums.leading(b.origin(&p.o)), &p.o)
	if err != nil {
		return nil, err
	}
	q.refit = p.refit
	return q, nil
}

// leading returns the basis of the first m inducing elements.
func (b *basis) leading(m int) *basis {
	s := *b
	s.z = b.z.first(m)
	s.l.N = m * b.per
	s.trace = 0
	for i := range s.l.N {
		row := s.l.Data[i*s.l.Stride:][:i+1]
		s.trace += floats.Dot(row, row)
	}
	return &s
}

// leading returns the sums in the leading features.
func (s *Sums) leading(o origin) *Sums {
	t := newSums(o)
	t.n, t.scalars = s.n, s.scalars
	r, all := o.rank, s.origin.rank
	copy(t.rhs, s.rhs)
	copy(t.square, s.square)
	for i := range r {
		copy(t.gram[i*r+i:(i+1)*r], s.gram[i*all+i:])
	}
	// What the features left out explained is residual again.
	t.residual = math.Max(0, t.residual) + floats.Sum(s.square[r:])
	for i := r; i < all; i++ {
		t.weighted += s.gram[i*all+i]
	}
	return t
}
