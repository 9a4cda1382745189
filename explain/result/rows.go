package result

import (
	"slices"

	"github.com/funcgp/funcgp/explain"
)

// Rows names the training examples in a Report. The zero value names them by
// their positions, without labels.
type Rows struct {
	Index []int     // row of each example in the original file; nil means its position
	Label []float64 // label or target of each example in the data; nil means unknown
	ID    []string  // name of each example; nil means none

	// Targets are the targets of each example if it has a target for each of several outputs, N×Width
	// row-major. The contributions to an output are then labelled by its target.
	Targets []float64
	Width   int

	// Classes are the labels in the order of the probabilities, nil for a
	// regression, and ClassNames their names, nil for none.
	Classes    []Float
	ClassNames []string

	// LabelNames names the label of each example if the name says more than the class, or if an example has
	// several labels. It is nil if the names of classes suffice.
	LabelNames []string

	// ErrorBars says that the explanations have error bars (explain.Options.ErrorBars).
	ErrorBars bool
	// Layers are the names of explain.Options.Layers, nil for none.
	Layers []string
}

// Output returns the part of a Report for an explanation.
func (r Rows) Output(x explain.Explanation) Output {
	of := r
	if !x.Target.IsContrast() && x.Target.Plus < r.Width {
		of.Label, of.LabelNames = nil, nil
		for i := x.Target.Plus; i < len(r.Targets); i += r.Width {
			of.Label = append(of.Label, r.Targets[i])
		}
	}
	o := Output{
		Output:          Index(x.Target.Plus),
		Network:         Float(x.Network),
		PriorMean:       Float(x.PriorMean),
		ContributionSum: Float(x.Sum),
		Remainder:       Float(x.Remainder),
		Residual:        Float(x.Residual()),
		Tolerance:       Float(x.Tolerance()),
		Cancellation:    Float(x.Cancellation),
		RawCancellation: Float(x.RawCancellation),
		Contributions:   of.contributions(x.Terms),
		For:             of.contributions(x.For),
		Against:         of.contributions(x.Against),
		Similar:         of.contributions(x.Similar),
		Subtotals:       r.subtotals(x.Subtotals),
		Curve:           x.Curve,
	}
	for g, name := range r.Layers {
		o.Layers = append(o.Layers, LayerSum{Name: name, Sum: Float(x.Layers[g])})
	}
	o.Networks = networkSums(x.Networks)
	if x.Target.IsContrast() {
		o.Output, o.Contrast = -1, &Contrasted{Plus: x.Target.Plus, Minus: x.Target.Minus()}
	}
	return o
}

func (r Rows) contributions(terms []explain.Term) []Contribution {
	list := make([]Contribution, len(terms))
	for i, t := range terms {
		list[i] = Contribution{
			Index:        r.index(t.Index),
			Label:        r.label(t.Index),
			Value:        Float(t.Value),
			PseudoTarget: Floats(t.PseudoTarget),
			Raw:          Float(t.Raw),
			Alpha:        Floats(t.Alpha),
			Similarity:   Float(t.Similarity),
			Removal:      Float(t.Removal),
			Influence:    (*Float)(t.Influence),
			LabelName:    r.labelName(t.Index),
			ID:           r.id(t.Index),
		}
		if n := t.Networks; n != nil {
			list[i].Networks = &TermSpread{Value: spreadOf(n.Value), Raw: spreadOf(n.Raw), Removal: spreadOf(n.Removal),
				Distinguishable: n.Value.Distinguishable(t.Value), RawDistinguishable: n.Raw.Distinguishable(t.Raw)}
		}
		if t.Layers != nil {
			list[i].Layers = Floats(t.Layers)
		}
		if r.ErrorBars && t.Networks == nil {
			reduction, sd, sure := Float(t.VarianceReduction), Float(t.SD()), t.Distinguishable()
			list[i].VarianceReduction, list[i].SD, list[i].Distinguishable = &reduction, &sd, &sure
		}
	}
	return list
}

// Named names an example by its position.
func (r Rows) Named(i int) NamedRow {
	return NamedRow{Index: r.index(i), Label: r.label(i), LabelName: r.labelName(i), ID: r.id(i)}
}

func (r Rows) index(i int) Index {
	if r.Index == nil {
		return Index(i)
	}
	return Index(r.Index[i])
}

func (r Rows) label(i int) Float {
	if r.Label == nil {
		return Undefined()
	}
	return Float(r.Label[i])
}

func (r Rows) labelName(i int) string {
	if r.LabelNames != nil {
		return r.LabelNames[i]
	}
	return r.className(r.label(i))
}

// className returns the name of the class of a label, "" for none.
func (r Rows) className(label Float) string {
	if k := slices.Index(r.Classes, label); k >= 0 && k < len(r.ClassNames) {
		return r.ClassNames[k]
	}
	return ""
}

func (r Rows) id(i int) string {
	if r.ID == nil {
		return ""
	}
	return r.ID[i]
}

// parts is the number of ranges of targets in a regression that each have a subtotal.
const parts = 3

// Groups returns the groups of the examples for explain.Options.Groups: those of
// equal labels, in the order of Classes, or for a regression three of about equal
// size by the target. Without labels it returns nil.
func (r Rows) Groups() []int {
	if len(r.Label) == 0 {
		return nil
	}
	groups := make([]int, len(r.Label))
	if r.Classes != nil {
		for i, y := range r.Label {
			groups[i] = slices.Index(r.Classes, Float(y))
			if groups[i] < 0 {
				panic("result: the label of a training example is none of the classes")
			}
		}
		return groups
	}
	// Find the limits of ranges of about equal numbers of targets, from below: a target equal to a
	// limit lies above it. There are fewer where many are equal.
	targets := r.Label
	sorted := slices.Sorted(slices.Values(targets))
	var limits []float64
	for k := 1; k < parts; k++ {
		v := sorted[k*len(sorted)/parts]
		if v > sorted[0] && !slices.Contains(limits, v) {
			limits = append(limits, v)
		}
	}
	for i, y := range r.Label {
		for groups[i] < len(limits) && y >= limits[groups[i]] {
			groups[i]++
		}
	}
	return groups
}

// subtotals describes the groups of Groups.
func (r Rows) subtotals(list []explain.Subtotal) []Subtotal {
	if list == nil {
		return nil
	}
	out := make([]Subtotal, len(list))
	for g, x := range list {
		out[g] = Subtotal{Label: Undefined(), Examples: x.Examples, Positive: Float(x.Positive), Negative: Float(x.Negative)}
		if g < len(r.Classes) {
			out[g].Label, out[g].LabelName = r.Classes[g], r.className(r.Classes[g])
		}
	}
	if r.Classes != nil {
		return out
	}
	for i, g := range r.Groups() {
		y := r.label(i)
		if out[g].Range == nil {
			out[g].Range = []Float{y, y}
		}
		out[g].Range[0], out[g].Range[1] = min(out[g].Range[0], y), max(out[g].Range[1], y)
	}
	return out
}

// Importances returns the report on a sorted list of importances: its first top
// rows and the whole curve. The caller fills in Fit and Timings.
func (r Rows) Importances(list []explain.Importance, top int) *ImportanceReport {
	report := &ImportanceReport{Meanings: map[string]string{"norm": ImportanceMeaning, "alpha": "the same for each output, with a sign: positive where the example pulls the output up"}, Importances: []ImportantRow{}, Curve: make([]Float, len(list))}
	for i, x := range list {
		report.Curve[i] = Float(x.Norm)
		if i < top {
			report.Importances = append(report.Importances, ImportantRow{
				Index: r.index(x.Index), Label: r.label(x.Index), Norm: Float(x.Norm), Alpha: Floats(x.Alpha),
				LabelName: r.labelName(x.Index), ID: r.id(x.Index),
			})
		}
	}
	return report
}
