package ntk

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// WithBudget returns the kernel with another limit on the bytes of columns
// held at a time.
func (k *NTK) WithBudget(bytes int) *NTK {
	c := *k
	c.budget = bytes
	return &c
}

// Ways says how the kernel of a and b is formed: the kinds of the terms and
// the number of columns.
func (k *NTK) Ways(a, b *linearize.Batch) (outer, perOutput_, direct, contracted, columns int) {
	p := k.newPlan(a, b, extentOf(a, b))
	for _, t := range p.terms {
		switch t.(type) {
		case *outerTerm:
			outer++
		case *perOutput:
			perOutput_++
		case *contraction:
			contracted++
		}
	}
	direct = len(p.direct)
	for _, pc := range p.pieces {
		columns += pc.width()
	}
	return
}

// Cost is the kernel's estimate, in multiply-adds.
func (k *NTK) Cost(a, b *linearize.Batch) float64 { return k.newPlan(a, b, extentOf(a, b)).cost }

// ContractedTo writes the kernel with every Conv block of one variance
// contracted (or, if not, taken as columns), whatever costs less.
func (k *NTK) ContractedTo(dst *mat.Dense, a, b *linearize.Batch, contract bool) {
	p := &plan{k: k, a: a, b: b, extent: extentOf(a, b), ctx: context.Background()}
	for i, block := range a.Blocks {
		x, ok := block.(*linearize.Conv)
		if !ok || !contract {
			p.columns(i, 0, block.Spans()...)
			continue
		}
		w, one := k.level(x.Weight)
		if !one {
			panic("ntk: a weight to be contracted has several variances")
		}
		p.add(&contraction{a: x, b: b.Blocks[i].(*linearize.Conv), variance: w}, 0)
		if x.Bias != nil {
			p.columns(i, x.Weight.Len(), *x.Bias)
		}
	}
	sizeTo(dst, p.extent.na*p.extent.ca, p.extent.nb*p.extent.cb)
	p.to(dst.RawMatrix())
}
