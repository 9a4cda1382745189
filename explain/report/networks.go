package report

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/explain/result"
)

// networks returns the number of networks whose mean the page explains.
func (v *view) networks() int {
	if n := v.page.Report.Networks; n != nil {
		return len(n.Models)
	}
	return 1
}

// alone names the prediction that ignores the uncertainty of the parameters: that of the network, or the mean
// output of the networks.
func (v *view) alone() string {
	if v.networks() > 1 {
		return "mean output alone"
	}
	return "network alone"
}

// trained names the network or networks as a subject of "says".
func (v *view) trained() string {
	if k := v.networks(); k > 1 {
		return fmt.Sprintf("The mean output of the %d trained networks on its own", k)
	}
	return "The trained network on its own"
}

// errorBarMeaning says what the error bars of the listed terms are.
func (v *view) errorBarMeaning() string {
	k := v.networks()
	if k == 1 {
		return errorBarMeaning
	}
	return fmt.Sprintf("± se, in the unit of f: standard error of the term's mean over the %d networks, how much it would vary had all of them been trained anew; one network's term varies by √%d times as much, its sd. * 0 is outside of the mean's 95 %% interval, by Student's t.", k, k)
}

// networkMeaning says what the table of networks holds.
const networkMeaning = "f of each network = its prior mean + contributions of all training examples + remainder, and the same of the mean; se: standard error of the mean over the networks, all in the unit of f."

// A sumTable is a table of sums and their parts.
type sumTable struct {
	Heads []string
	Rows  [][]string // a name and a number for each of Heads
	Note  string
}

// byLayer returns the contribution of each layer to the sum and to some of the terms. It is nil without layers.
func (v *view) byLayer(s *section, listed []line) *sumTable {
	if s.out.Layers == nil {
		return nil
	}
	d := s.digits
	for _, l := range listed {
		d = max(d, listDecimals(math.Abs(l.term)))
	}
	t := &sumTable{Heads: []string{"all " + result.Count(v.page.Report.Fit.Examples)}, Note: layerMeaning}
	add := func(name string, sum float64, of func(l *line) float64) {
		row := []string{name, signed(sum, s.digits)}
		for i := range listed {
			row = append(row, signed(of(&listed[i]), d))
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range listed {
		t.Heads = append(t.Heads, listed[i].row)
	}
	for g, layer := range s.out.Layers {
		add(layer.Name, s.sign*float64(layer.Sum), func(l *line) float64 { return s.sign * float64(l.Layers[g]) })
	}
	add("together", s.s, func(l *line) float64 { return l.term })
	return t
}

// byNetwork returns the sums of each network, their mean and the standard error of the mean; nil
// for one network.
func (v *view) byNetwork(s *section) *sumTable {
	sums := s.out.Networks
	if sums == nil {
		return nil
	}
	t := &sumTable{Heads: []string{"f", "prior mean", "contributions", "remainder"}, Note: networkMeaning}
	signed := func(x result.Float) string { return fixed(s.sign*float64(x), s.digits) }
	for k, x := range sums.Each {
		t.Rows = append(t.Rows, []string{v.page.Report.Networks.Models[k].Model, signed(x.Network), signed(x.PriorMean), signed(x.ContributionSum), signed(x.Remainder)})
	}
	of := sums.Spread
	t.Rows = append(t.Rows, []string{"mean", fixed(s.f, s.digits), fixed(s.m, s.digits), fixed(s.s, s.digits), fixed(s.remainder, s.digits)})
	se := []string{"se"}
	for _, x := range []result.Spread{of.Network, of.PriorMean, of.ContributionSum, of.Remainder} {
		se = append(se, fixed(float64(x.SE), s.digits))
	}
	t.Rows = append(t.Rows, se)
	return t
}

// typeset sets the numbers of a table for a page; nil stays nil.
func (t *sumTable) typeset() *sumTable {
	if t == nil {
		return nil
	}
	for _, row := range t.Rows {
		for i := range row[1:] {
			row[1+i] = typeset(row[1+i])
		}
	}
	return t
}

// mostBases is the largest number of networks for which the text lists what their numbers rest on.
const mostBases = 4

// bases says what the numbers of each network rest on.
func bases(r *result.Report) []string {
	if r.Networks == nil {
		if text := Basis(&r.Fit); text != "" {
			return []string{text}
		}
		return nil
	}
	var list []string
	for k := range r.Networks.Models {
		if k == mostBases {
			return append(list, fmt.Sprintf("The JSON says it of the other %d networks.", len(r.Networks.Models)-k))
		}
		if m := &r.Networks.Models[k]; Basis(&m.Fit) != "" {
			list = append(list, m.Model+": "+Basis(&m.Fit))
		}
	}
	return list
}
