package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Part returns the posterior d with its sums restricted to the training examples [lo, hi). Its
// predictions are still those of all training examples. An Explainer of it gives the sums and the
// largest terms of these examples, whose positions count from lo; Merge joins the explanations of
// all parts. Part panics if the range is empty or outside the data.
func Part(d gp.Dual, lo, hi int) gp.Dual {
	if lo < 0 || lo >= hi || hi > d.Data().Len() {
		panic("explain: part out of range")
	}
	_, c := d.Sites().F.Dims()
	s := d.Sites()
	p := part{Dual: d, lo: lo, hi: hi, c: c, data: &rangeOf{d.Data(), lo, hi - lo},
		sites: &gp.Sites{F: dense.Slice(s.F, lo, hi), Residual: dense.Slice(s.Residual, lo, hi), Lambda: dense.Slice(s.Lambda, lo*c, hi*c), Root: dense.Slice(s.Root, lo*c, hi*c), LogLik: math.NaN()}}
	if q, ok := d.(pseudoCovariance); ok {
		return weighedPart{p, q}
	}
	return p
}

// A part is a posterior whose sums run over some of its training examples.
type part struct {
	gp.Dual
	lo, hi, c int
	data      *rangeOf
	sites     *gp.Sites
}

var _ gp.Dual = part{}

// Data implements gp.Dual.
func (p part) Data() linearize.Source { return p.data }

// Sites implements gp.Dual. Their LogLik is NaN.
func (p part) Sites() *gp.Sites { return p.sites }

// Alpha implements gp.Dual.
func (p part) Alpha() []float64 { return p.Dual.Alpha()[p.lo*p.c : p.hi*p.c] }

// PseudoTargets implements gp.Dual.
func (p part) PseudoTargets() []float64 { return p.Dual.PseudoTargets()[p.lo*p.c : p.hi*p.c] }

// Cross implements gp.Dual.
func (p part) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	q, err := p.Dual.Cross(ctx, x)
	if c, ok := q.(gp.CombinedCross); ok && err == nil {
		return combinedPartCross{partCross{q, p.lo}, c}, nil
	}
	return partCross{q, p.lo}, err
}

// rows converts positions in the part to positions in all the data.
func (p part) rows(rows []int) []int {
	out := make([]int, len(rows))
	for i, r := range rows {
		out[i] = p.lo + r
	}
	return out
}

// InfluenceTo implements gp.Dual.
func (p part) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	return p.Dual.InfluenceTo(ctx, h, q, p.rows(rows), x)
}

// LeaveOneOutTo implements gp.Dual.
func (p part) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	return p.Dual.LeaveOneOutTo(ctx, mean, cov, p.rows(rows), x)
}

// A weighedPart is a part of a posterior that implements pseudoCovariance.
type weighedPart struct {
	part
	of pseudoCovariance
}

// PseudoCovarianceTo implements pseudoCovariance.
func (p weighedPart) PseudoCovarianceTo(ctx context.Context, v *mat.Dense, rows []int, x *linearize.Batch) error {
	return p.of.PseudoCovarianceTo(ctx, v, p.rows(rows), x)
}

// A partCross is the gp.Cross of a part.
type partCross struct {
	gp.Cross
	lo int
}

// TileTo implements gp.Cross.
func (q partCross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	return q.Cross.TileTo(ctx, dst, q.lo+first, train, t)
}

// A combinedPartCross is the gp.Cross of a part whose posterior gives a gp.CombinedCross.
type combinedPartCross struct {
	partCross
	c gp.CombinedCross
}

// CombinedTo implements gp.CombinedCross.
func (q combinedPartCross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	return q.c.CombinedTo(ctx, dst, train, t)
}

// A rangeOf is n examples of a source from position lo on.
type rangeOf struct {
	src   linearize.Source
	lo, n int
}

var _ linearize.Gatherer = (*rangeOf)(nil)

// Len implements linearize.Source.
func (r *rangeOf) Len() int { return r.n }

// errEndOfPart ends a pass over the data at the end of a part.
var errEndOfPart = errors.New("explain: end of the part")

// Batches implements linearize.Source.
func (r *rangeOf) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	err := linearize.From(r.src, r.lo).Batches(ctx, func(first int, b *linearize.Batch) error {
		if err := yield(first, b.Slice(0, min(b.Len(), r.n-first))); err != nil {
			return err
		}
		if first+b.Len() >= r.n {
			return errEndOfPart
		}
		return nil
	})
	if errors.Is(err, errEndOfPart) {
		return nil
	}
	return err
}

// Gather implements linearize.Gatherer.
func (r *rangeOf) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	at := make([]int, len(rows))
	for i, row := range rows {
		at[i] = r.lo + row
	}
	return linearize.Gather(ctx, r.src, at)
}

// Merge joins the explanations of the same target and test row by all parts of the training
// examples, in the order of the parts. first holds the position at which each part begins. o are
// the options of the parts; Merge returns an error for Curve, All, Similar and Layers. The result
// has the sums over all examples and the largest of all terms, as one Explainer of the whole
// posterior gives them; its sums may differ by one rounding error for each part.
func Merge(parts []Explanation, first []int, o *Options) (Explanation, error) {
	if len(parts) == 0 || len(first) != len(parts) {
		panic("explain: parts and positions differ in number")
	}
	if o.Curve || o.All || o.Similar > 0 || len(o.Layers) > 0 {
		return Explanation{}, errors.New("explain: a curve, all columns, similar examples and layers cannot be merged from parts; leave them out")
	}
	top := o.Top
	if top == 0 {
		top = 8
	}
	x := parts[0]
	var v, abs, raw, rawAbs sum
	var terms, plus, minus []Term
	var groups subtotals
	for i, p := range parts {
		if p.Network != x.Network || p.PriorMean != x.PriorMean {
			return x, fmt.Errorf("explain: part %d is of another test row or model than part 0", i)
		}
		v.add(p.Sum)
		raw.add(p.RawSum)
		abs.add(p.AbsSum)
		rawAbs.add(p.RawAbsSum)
		terms, plus, minus = appendShifted(terms, p.Terms, first[i]), appendShifted(plus, p.For, first[i]), appendShifted(minus, p.Against, first[i])
		for g, s := range p.Subtotals {
			if g == len(groups) { // the parts before have no example of this group
				groups = append(groups, subtotal{})
			}
			groups[g].n += s.Examples
			groups[g].positive.add(s.Positive)
			groups[g].negative.add(s.Negative)
		}
	}
	x.Sum, x.RawSum, x.AbsSum, x.RawAbsSum = v.value(), raw.value(), abs.value(), rawAbs.value()
	x.close()
	x.Subtotals = groups.values()
	x.Terms, x.For, x.Against = largestTerms(terms, top, o.Terms), largestTerms(plus, top, o.Terms), largestTerms(minus, top, o.Terms)
	return x, nil
}

// appendShifted appends the terms of a part that begins at example first.
func appendShifted(to, terms []Term, first int) []Term {
	for _, t := range terms {
		t.Index += first
		to = append(to, t)
	}
	return to
}

// largestTerms returns the k largest terms, equal ones in the data's order.
func largestTerms(terms []Term, k int, kind gp.Terms) []Term {
	size := func(t *Term) float64 {
		if kind == gp.RawTerms {
			return math.Abs(t.Raw)
		}
		return math.Abs(t.Value)
	}
	slices.SortFunc(terms, func(a, b Term) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), cmp.Compare(a.Index, b.Index))
	})
	return terms[:min(k, len(terms))]
}
