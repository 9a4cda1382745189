package ntk

import (
	"context"
	"sort"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A plan is κ(a, b) as a sum. It adds products of columns that are in memory,
// terms formed from factors, and the product of the pieces' columns, which are
// scaled by the square roots of their variances.
type plan struct {
	k      *NTK
	a, b   *linearize.Batch
	extent extent  // size of the block
	cost   float64 // of the whole sum
	direct []*direct
	terms  []term
	pieces []piece
	ctx    context.Context // to stops when it is done
}

// newPlan chooses the cheapest method for every block of the Jacobian, for a kernel
// of extent x.
func (k *NTK) newPlan(a, b *linearize.Batch, x extent) *plan {
	p := &plan{k: k, a: a, b: b, extent: x, ctx: context.Background()}
	for i := range a.Blocks {
		switch v := a.Blocks[i].(type) {
		case *linearize.Outer:
			if w, ok := b.Blocks[i].(*linearize.Outer); ok {
				p.outer(i, v, w)
				continue
			}
		case *linearize.Conv:
			if w, ok := b.Blocks[i].(*linearize.Conv); ok {
				p.convWeight(i, v, w)
				if v.Bias != nil {
					at := 0
					if v.Weight != nil {
						at = v.Weight.Len()
					}
					p.columns(i, at, *v.Bias)
				}
				continue
			}
		case *linearize.Embedding:
			if w, ok := b.Blocks[i].(*linearize.Embedding); ok {
				p.embedding(i, v, w)
				continue
			}
			if w, ok := b.Blocks[i].(*linearize.Full); ok && p.lookup(v, w, false) {
				continue
			}
		case *linearize.Full:
			if w, ok := b.Blocks[i].(*linearize.Embedding); ok && p.lookup(w, v, true) {
				continue
			}
			if w, ok := b.Blocks[i].(*linearize.Full); ok {
				p.full(i, v, w)
				continue
			}
		}
		p.columns(i, 0, a.Blocks[i].Spans()...)
	}
	return p
}

// add adds a term.
func (p *plan) add(t term, cost float64) {
	p.terms = append(p.terms, t)
	p.cost += cost
}

// columns adds the spans of block i, which start at its column at, as pieces.
func (p *plan) columns(i, at int, spans ...linearize.Span) {
	for _, s := range spans {
		if v, ok := p.k.level(&s); !ok || v > 0 {
			p.pieces = append(p.pieces, piece{block: i, at: at, lo: s.Offset, hi: s.Offset + s.Len()})
			p.cost += columnsCost(s.Len(), p.extent)
		}
		at += s.Len()
	}
}

// level returns the variance of the span's parameters if they all have the same.
// That of a nil or empty span is zero.
func (k *NTK) level(s *linearize.Span) (v float64, ok bool) {
	if s == nil || s.Len() == 0 {
		return 0, true
	}
	// The first step past the span's first parameter is past its last.
	i := sort.SearchInts(k.steps, s.Offset+1)
	return k.variance[s.Offset], i == len(k.steps) || k.steps[i] >= s.Offset+s.Len()
}

// outer plans a dense layer: weight and bias together where each has one variance, and otherwise by
// themselves.
func (p *plan) outer(i int, a, b *linearize.Outer) {
	w, wOK := p.k.level(a.Weight)
	beta, betaOK := p.k.level(a.Bias)
	in, x := inputs(a), p.extent
	_, out := a.G.Dims()
	whole := float64(in)*x.pairs() + float64(out+hadamardCost)*x.entries() // of (A Aᵀ ⊗ 1) ∘ G Gᵀ
	if wOK && betaOK && w != 0 {
		width := in * out
		if beta > 0 {
			width += out
		}
		if whole <= columnsCost(width, x) {
			p.add(&outerTerm{a: a, b: b, w: w, beta: beta}, whole)
		} else {
			p.columns(i, 0, a.Spans()...)
		}
		return
	}
	if !wOK || w != 0 {
		// The cost of forming Σ_p σ²_op a_p a'_p for every o and summing over o.
		perOut := float64(in)*float64(out+fillCost)*x.pairs() + float64(out)*dotCost*x.entries()
		switch asColumns := columnsCost(in*out, x); {
		case wOK && whole <= asColumns:
			p.add(&outerTerm{a: a, b: b, w: w}, whole)
		case !wOK && perOut <= asColumns:
			p.add(&perOutput{a: a, b: b, variance: p.k.weightVariance(a.Weight, in, out)}, perOut)
		default:
			p.columns(i, 0, *a.Weight)
		}
	}
	// The columns of the Jacobian for the bias are G.
	switch {
	case !betaOK:
		at := 0
		if a.Weight != nil {
			at = a.Weight.Len()
		}
		p.columns(i, at, *a.Bias)
	case beta != 0:
		p.addDirect(a.G, b.G, 0, a.Bias.Len(), a.C, b.C, beta)
	}
}

// weightVariance returns the variances of a dense layer's weight, out×in.
func (k *NTK) weightVariance(s *linearize.Span, in, out int) blas64.General {
	stored := k.variance[s.Offset : s.Offset+s.Len()]
	if !s.Transposed {
		return dense.Of(stored, out, in)
	}
	v := dense.Of(make([]float64, len(stored)), out, in)
	dense.TransposeTo(v, dense.Of(stored, in, out))
	return v
}

func (p *plan) addDirect(a, b *mat.Dense, at, width, ca, cb int, v float64) {
	p.direct = append(p.direct, &direct{a: a, b: b, at: at, w: width, ca: ca, cb: cb, variance: v})
	p.cost += float64(width) * p.extent.entries()
}

// full plans a Full block, whose columns are in memory. Consecutive spans of one
// variance become a direct term, others become pieces.
func (p *plan) full(i int, a, b *linearize.Full) {
	at := 0
	// Group consecutive spans that have the same single variance.
	k := p.k
	spans := a.Params
	var runs [][]linearize.Span
	for i := range spans {
		v, ok := k.level(&spans[i])
		if n := len(runs); n > 0 && ok {
			last := runs[n-1]
			if u, same := k.level(&last[0]); same && u == v {
				runs[n-1] = append(last, spans[i])
				continue
			}
		}
		runs = append(runs, spans[i:i+1:i+1])
	}
	for _, run := range runs {
		width := 0
		for _, s := range run {
			width += s.Len()
		}
		if v, ok := p.k.level(&run[0]); !ok {
			p.columns(i, at, run...)
		} else if v > 0 {
			p.addDirect(a.J, b.J, at, width, a.C, b.C, v)
		}
		at += width
	}
}

func (p *plan) convWeight(i int, a, b *linearize.Conv) {
	w, ok := p.k.level(a.Weight)
	if ok && w == 0 {
		return
	}
	f := factorsOf(a)
	// The cost of Σ_tt' (g_t·g_t')(p_t·p_t').
	x := p.extent
	tt := float64(f.groups) * float64(f.t) * float64(f.t)
	if cost := tt * (float64(f.k)*x.pairs() + float64(f.m+dotCost)*x.entries()); ok && cost <= (columnsCost(f.groups*f.k*f.m, p.extent)+formingCost(f, p.extent)) {
		p.add(&contraction{a: a, b: b, variance: w}, cost)
		return
	}
	p.columns(i, 0, *a.Weight)
	p.cost += formingCost(f, p.extent)
}
