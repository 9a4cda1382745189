package ntk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/linearize"
)

// A Group is a set of parameter tensors that share a prior precision.
type Group struct {
	Name      string
	Spans     []linearize.Span // where the tensors lie in θ
	Precision float64          // of each parameter: the variance is its inverse
}

// ByTensor returns one group per tensor, all with the same precision, in θ order.
func ByTensor(spans []linearize.Span, precision float64) []Group {
	return groupBy(spans, precision, func(name string) string { return name })
}

// ByLayer returns one group per layer, all with the same precision, in θ order.
// Tensors whose names agree up to the last dot (fc1.weight, fc1.bias) belong to
// one layer. A tensor whose name has no dot is a layer by itself.
func ByLayer(spans []linearize.Span, precision float64) []Group {
	return groupBy(spans, precision, func(name string) string {
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			return name[:i]
		}
		return name
	})
}

func groupBy(spans []linearize.Span, precision float64, key func(name string) string) []Group {
	var groups []Group
	at := make(map[string]int)
	for _, s := range sortedSpans(spans) {
		name := key(s.Name)
		i, ok := at[name]
		if !ok {
			i = len(groups)
			at[name] = i
			groups = append(groups, Group{Name: name, Precision: precision})
		}
		groups[i].Spans = append(groups[i].Spans, s)
	}
	return groups
}

// Spans returns the parameter tensors of a batch in θ order.
func Spans(b *linearize.Batch) []linearize.Span {
	var spans []linearize.Span
	for _, block := range b.Blocks {
		spans = append(spans, block.Spans()...)
	}
	return sortedSpans(spans)
}

func sortedSpans(spans []linearize.Span) []linearize.Span {
	s := slices.Clone(spans)
	slices.SortStableFunc(s, func(a, b linearize.Span) int { return cmp.Compare(a.Offset, b.Offset) })
	return s
}

// Layerwise is the prior with one precision for each group of parameters.
type Layerwise struct {
	p      int
	groups []Group
	mean   priorMean
}

var _ Grouped = (*Layerwise)(nil)

// NewLayerwise returns the prior over p parameters with the groups'
// precisions. mean is as in NewIsotropic. The groups must partition θ: a
// parameter in no group or in two is an error that names it, and so is a
// precision that is not positive and finite.
func NewLayerwise(p int, groups []Group, mean []float64) (*Layerwise, error) {
	for _, g := range groups {
		if err := checkPrecision(g.Precision); err != nil {
			return nil, fmt.Errorf("ntk: layerwise prior: group %q: %w", g.Name, err)
		}
	}
	if err := checkPartition(p, groups); err != nil {
		return nil, fmt.Errorf("ntk: layerwise prior: %w", err)
	}
	m, err := newMean(mean)
	if err != nil {
		return nil, fmt.Errorf("ntk: layerwise prior: %w", err)
	}
	if len(m) > 1 && len(m) != p {
		return nil, fmt.Errorf("ntk: layerwise prior: %d means for %d parameters", len(m), p)
	}
	return &Layerwise{p: p, groups: cloneGroups(groups), mean: m}, nil
}

func cloneGroups(groups []Group) []Group {
	c := slices.Clone(groups)
	for i := range c {
		c[i].Spans = slices.Clone(c[i].Spans)
	}
	return c
}

// checkPartition returns an error unless the groups' spans cover every parameter
// of [0, p) exactly once.
func checkPartition(p int, groups []Group) error {
	type member struct {
		span  linearize.Span
		group string
	}
	var all []member
	for _, g := range groups {
		for _, s := range g.Spans {
			if s.Offset < 0 || s.Len() < 0 || s.Offset > p-s.Len() {
				return fmt.Errorf("tensor %q of group %q lies outside the %d parameters", s.Name, g.Name, p)
			}
			if s.Len() > 0 {
				all = append(all, member{s, g.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.span.Offset, b.span.Offset) })
	end := 0
	for i, m := range all {
		if m.span.Offset > end {
			return fmt.Errorf("parameter %d belongs to no group", end)
		}
		if m.span.Offset < end {
			return fmt.Errorf("parameter %d belongs to group %q (tensor %q) and to group %q (tensor %q)",
				m.span.Offset, all[i-1].group, all[i-1].span.Name, m.group, m.span.Name)
		}
		end += m.span.Len()
	}
	if end != p {
		return fmt.Errorf("parameter %d belongs to no group", end)
	}
	return nil
}

// Groups implements Grouped.
func (l *Layerwise) Groups() []Group { return cloneGroups(l.groups) }

// MeanTo implements Prior.
func (l *Layerwise) MeanTo(dst []float64) {
	checkPriorLen(len(dst), l.p)
	l.mean.to(dst)
}

// VarianceTo implements Prior.
func (l *Layerwise) VarianceTo(dst []float64) {
	checkPriorLen(len(dst), l.p)
	for _, g := range l.groups {
		for _, s := range g.Spans {
			for i := range s.Len() {
				dst[s.Offset+i] = 1 / g.Precision
			}
		}
	}
}
