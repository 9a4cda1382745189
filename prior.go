package funcgp

import (
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A groupedPrior is a Gaussian prior over the parameters whose variances are not all the same. A parameter has the variance
// of its group, times a scale of its own where the prior has one. The mean is 0, so that a group of variance 0 is held
// there; a parameter of scale 0 is held at θ*. It is never changed.
type groupedPrior struct {
	Kind string // a kind of a PriorFile
	From option.Text
	// Precision summarizes the prior in one number: the geometric mean of the precisions of the parameters that
	// are not held.
	Precision float64

	groups []priorGroup
	scale  []float64          // length P; nil is 1 for all
	spans  [][]linearize.Span // of each group
	theta  []float64          // θ*
}

var _ ntk.Grouped = (*groupedPrior)(nil)

// A priorGroup is a set of parameter tensors that share a variance.
type priorGroup struct {
	Name     string        `json:"name"`
	Variance float64       `json:"variance"` // 0 holds the parameters at 0
	Tensors  []priorTensor `json:"tensors"`
}

// A priorTensor is a parameter tensor of a model.
type priorTensor struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// newPrior lays groups, which have every parameter tensor of the network once, over its parameters. The scale is nil
// or has their length.
func newPrior(kind string, groups []priorGroup, scale []float64, net *network.Network, from option.Text) *groupedPrior {
	p := &groupedPrior{Kind: kind, From: from, groups: groups, scale: scale, theta: net.Theta()}
	logs, free := 0.0, 0
	for g, one := range spans(net, groups) {
		p.spans = append(p.spans, one.Spans)
		for _, s := range one.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				if v := groups[g].Variance * p.scaleOf(i); v > 0 {
					logs -= math.Log(v)
					free++
				}
			}
		}
	}
	p.Precision = math.Exp(logs / float64(max(1, free)))
	return p
}

// spans lays groups over the parameters of a network.
func spans(net *network.Network, groups []priorGroup) []ntk.Group {
	at := map[string]linearize.Param{}
	for _, x := range net.Params() {
		at[x.Name] = x
	}
	var out []ntk.Group
	for _, g := range groups {
		one := ntk.Group{Name: g.Name, Precision: 1 / g.Variance}
		for _, t := range g.Tensors {
			x := at[t.Name]
			one.Spans = append(one.Spans, linearize.Span{Name: x.Name, Offset: x.Offset, Rows: 1, Cols: x.Len()})
		}
		out = append(out, one)
	}
	return out
}

// scaleOf is the scale of parameter i.
func (p *groupedPrior) scaleOf(i int) float64 {
	if p.scale == nil {
		return 1
	}
	return p.scale[i]
}

// At returns the prior with all variances multiplied by the same factor, so that its Precision is the one given.
func (p *groupedPrior) At(precision float64) *groupedPrior {
	if precision == p.Precision {
		return p
	}
	out := *p
	out.groups, out.Precision = slices.Clone(p.groups), precision
	for i := range out.groups {
		out.groups[i].Variance *= p.Precision / precision
	}
	return &out
}

// MeanTo implements ntk.Prior.
func (p *groupedPrior) MeanTo(dst []float64) {
	p.check(dst)
	for i := range dst {
		dst[i] = 0
		if p.scaleOf(i) == 0 {
			dst[i] = p.theta[i]
		}
	}
}

// VarianceTo implements ntk.Prior.
func (p *groupedPrior) VarianceTo(dst []float64) {
	p.check(dst)
	for g, spans := range p.spans {
		for _, s := range spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				dst[i] = p.groups[g].Variance * p.scaleOf(i)
			}
		}
	}
}

func (p *groupedPrior) check(dst []float64) {
	if len(dst) != len(p.theta) {
		panic("funcgp: prior is for another number of parameters")
	}
}

// Groups implements ntk.Grouped. The precision of a group is the precision of its parameters where the prior has no
// scale.
func (p *groupedPrior) Groups() []ntk.Group {
	var out []ntk.Group
	for g, x := range p.groups {
		out = append(out, ntk.Group{Name: x.Name, Spans: slices.Clone(p.spans[g]), Precision: 1 / x.Variance})
	}
	return out
}

// PriorGroups are the groups with their variances.
func (p *groupedPrior) PriorGroups() []priorGroup { return slices.Clone(p.groups) }

// Scale is the scale of each parameter, nil for none.
func (p *groupedPrior) Scale() []float64 { return slices.Clone(p.scale) }

// Held is the number of parameters that are held at θ*.
func (p *groupedPrior) Held() int {
	held := 0
	for i := range p.scale {
		if p.scale[i] == 0 {
			held++
		}
	}
	return held
}

// Report is the prior as JSON shows it; nil for a nil prior.
func (p *groupedPrior) Report() *result.Prior {
	if p == nil {
		return nil
	}
	r := &result.Prior{Kind: p.Kind, Held: p.Held()}
	for g, x := range p.groups {
		n := 0
		for _, s := range p.spans[g] {
			n += s.Len()
		}
		r.Groups = append(r.Groups, result.PriorGroup{Name: x.Name, Parameters: n, Variance: result.Float(x.Variance)})
	}
	return r
}

// layerGroups are the parameter tensors of a network by layer, all with the same variance: tensors whose names agree
// up to the last dot belong to one layer.
func layerGroups(net *network.Network, variance float64) []priorGroup {
	var spans []linearize.Span
	shape := map[string][]int{}
	for _, x := range net.Params() {
		spans = append(spans, linearize.Span{Name: x.Name, Offset: x.Offset, Rows: 1, Cols: x.Len()})
		shape[x.Name] = x.Shape
	}
	var groups []priorGroup
	for _, g := range ntk.ByLayer(spans, 1) {
		one := priorGroup{Name: g.Name, Variance: variance}
		for _, s := range g.Spans {
			one.Tensors = append(one.Tensors, priorTensor{Name: s.Name, Shape: slices.Clone(shape[s.Name])})
		}
		groups = append(groups, one)
	}
	return groups
}

// oneGroup returns one group with all parameter tensors of a network.
func oneGroup(net *network.Network, variance float64) []priorGroup {
	all := priorGroup{Name: "all", Variance: variance}
	for _, g := range layerGroups(net, variance) {
		all.Tensors = append(all.Tensors, g.Tensors...)
	}
	return []priorGroup{all}
}

// apartGroups puts the tensors of the named layers into one group, and all other tensors into another. If one
// of the groups would be empty, it returns the other alone.
func apartGroups(net *network.Network, layers []string, variance float64) []priorGroup {
	groups := []priorGroup{{Name: "normalized layers", Variance: variance}, {Name: "other layers", Variance: variance}}
	for _, g := range layerGroups(net, variance) {
		for _, t := range g.Tensors {
			to := 1
			if slices.Contains(layers, g.Name) || slices.Contains(layers, t.Name) {
				to = 0
			}
			groups[to].Tensors = append(groups[to].Tensors, t)
		}
	}
	return slices.DeleteFunc(groups, func(g priorGroup) bool { return len(g.Tensors) == 0 })
}

// WithPrior returns the problem with another prior.
func (p *problem) WithPrior(prior *groupedPrior) *problem {
	out, t := *p, *p.Task
	t.Prior, t.Precision, t.PrecisionFrom, t.FoundPrior = prior, prior.Precision, decision{byOption, prior.From}, true
	out.Task = &t
	return &out
}

// PriorAt returns the prior of the task, with its variances multiplied by a common factor so that its precision is the
// one given.
func (t *problemTask) PriorAt(precision float64) (ntk.Prior, error) {
	if t.Prior == nil {
		return ntk.NewIsotropic(precision, nil)
	}
	if !(precision > 0) || math.IsInf(precision, 1) || math.IsInf(1/precision, 1) {
		return nil, fmt.Errorf("the precision is %v; it must be positive and finite", precision)
	}
	return t.Prior.At(precision), nil
}

// priorText names a prior of this precision for messages; nil is one precision for all parameters.
func priorText(prior *groupedPrior, precision float64) option.Text {
	if prior == nil {
		return option.Textf("prior precision %.4g", precision)
	}
	return option.Textf("the prior %s", prior.From)
}
