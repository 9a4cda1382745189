package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
)

// networks is the number of networks of whose mean the page is; 1 for one.
func (v *view) networks() int {
	if n := v.page.Report.Networks; n != nil {
		return len(n.Models)
	}
	return 1
}

// alone names what the report says without uncertainty of the parameters.
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

// themselves names the network or networks as those that say f.
func (v *view) themselves() string {
	if v.networks() > 1 {
		return "the mean of the trained networks"
	}
	return "the trained network"
}

// errorBarMeaning says what the error bars of the listed terms are.
func (v *view) errorBarMeaning() string {
	k := v.networks()
	if k == 1 {
		return errorBarMeaning
	}
	return fmt.Sprintf("± se, in the unit of f: standard error of the term's mean over the %d networks, how much it would vary had all of them been trained anew; one network's term varies by √%d times as much, its sd. * 0 is outside of the mean's 95 %% interval, by Student's t.", k, k)
}

// errorBarName is what a column of error bars is headed by.
func (v *view) errorBarName() string {
	if v.networks() > 1 {
		return "± se"
	}
	return "± sd"
}

// bars sets the error bar of a line from its spread over networks.
func (l *line) bars(terms gp.Terms) {
	n := l.Networks
	l.spread, l.Distinguishable = &n.Value.SE, &n.Distinguishable
	if terms == gp.Raw {
		l.spread, l.Distinguishable = &n.Raw.SE, &n.RawDistinguishable
	}
}

// networkMeaning says what the table of networks holds.
const networkMeaning = "f of each network = its prior mean + contributions of all training examples + remainder, and the same of the mean; se: standard error of the mean over the networks, all in the unit of f."

// byNetwork returns the sums of each network, their mean and its standard error; nil for
// one network.
func (v *view) byNetwork(s *section) *htmlLayers {
	sums := s.out.Networks
	if sums == nil {
		return nil
	}
	t := &htmlLayers{Heads: []string{"f", "prior mean", "contributions", "remainder"}, Note: networkMeaning}
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

// networkTable lists the sums of each network.
func (t *textWriter) networkTable(s *section) {
	table := t.byNetwork(s)
	if table == nil {
		return
	}
	t.gap()
	width := len("network")
	for _, row := range table.Rows {
		width = max(width, utf8.RuneCountInString(clean(row[0])))
	}
	width = min(width, t.columns-4-4*14)
	write := func(name string, cells []string) {
		text := fmt.Sprintf("  %-*s", width, shorten(clean(name), width))
		for _, x := range cells {
			text += fmt.Sprintf(" %13s", x)
		}
		t.line("%s", text)
	}
	write("network", table.Heads)
	for _, row := range table.Rows {
		write(row[0], row[1:])
	}
	t.wrap("  ", table.Note)
}

// typeset sets the numbers of a table for a page; nil stays nil.
func (t *htmlLayers) typeset() *htmlLayers {
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

// factsOf are facts of the fit, or of those of several networks: one line where they agree,
// else with the value of each network in their order.
func factsOf(r *result.Report, facts func(f *result.Fit) []fact) []fact {
	if r.Networks == nil {
		return facts(&r.Fit)
	}
	var list []fact
	at := map[string]int{}
	same := map[string]bool{}
	for k := range r.Networks.Models {
		for _, x := range facts(&r.Networks.Models[k].Fit) {
			i, seen := at[x.Name]
			if !seen {
				at[x.Name], same[x.Name] = len(list), true
				list = append(list, x)
				continue
			}
			if first := &list[i]; same[x.Name] && (x.Value != first.Value || x.Note != first.Note) {
				same[x.Name] = false
			}
		}
	}
	for i := range list {
		x := &list[i]
		if same[x.Name] {
			continue
		}
		var values []string
		for k := range r.Networks.Models {
			for _, one := range facts(&r.Networks.Models[k].Fit) {
				if one.Name == x.Name {
					values = append(values, one.Value)
				}
			}
		}
		x.Value, x.Note = strings.Join(values, "; "), "network by network"
	}
	return list
}

// mostBases is how many networks the text says what they rest on.
const mostBases = 4

// bases says what the numbers rest on, network by network.
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
