package calibration

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// A column is one number of a result and one of its posteriors.
type column struct {
	head   string
	format string
	value  func(r *outcome, p *posterior) result.Float
}

var undefined = result.Undefined()

// median is the format of columns of positive numbers of any size (scales, gradient norms). cell takes the
// median over the splits for this format, and the mean for others.
const median = "%.2g"

// likelihoods are the columns of the first table, reliability those of the second.
var (
	likelihoods = []column{
		{"network", "%.4f", func(r *outcome, _ *posterior) result.Float { return r.Network.NLL }},
		{"s = 1", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Unscaled.NLL }},
		{"calibrated", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Calibrated.NLL }},
		{gainHead, "%+.4f", func(_ *outcome, p *posterior) result.Float { return p.Gain }},
		{"s", median, func(_ *outcome, p *posterior) result.Float { return p.Scale }},
		{"best s", median, func(_ *outcome, p *posterior) result.Float { return p.BestScale }},
		{"regret", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Regret }},
		{"prior, deviation 2", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.penalizedNLL(0) }},
		{"1", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.penalizedNLL(1) }},
		{"s by held-out rows", "%.4f", func(_ *outcome, p *posterior) result.Float {
			if p.HeldOut == nil {
				return undefined
			}
			return p.HeldOut.NLL
		}},
		{"temperature", "%.4f", func(r *outcome, _ *posterior) result.Float {
			if r.Tempered == nil {
				return undefined
			}
			return r.Tempered.NLL
		}},
		{"mean of networks", "%.4f", func(r *outcome, _ *posterior) result.Float {
			if r.Mean == nil {
				return undefined
			}
			return r.Mean.NLL
		}},
	}
	reliability = []column{
		{"test", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Calibrated.NLL }},
		{"leave-one-out", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.LOO.NLL }},
		{"difference", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Gap }},
		{"network: test", "%.4f", func(r *outcome, _ *posterior) result.Float { return r.Network.NLL }},
		{"leave-one-out", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.LOONetwork.NLL }},
		{"ECE network", "%.4f", func(r *outcome, _ *posterior) result.Float { return r.Network.ECE }},
		{"ECE calibrated", "%.4f", func(_ *outcome, p *posterior) result.Float { return p.Calibrated.ECE }},
		{"accuracy or RMSE: network", "%.4f", func(r *outcome, _ *posterior) result.Float { return either(r.Network) }},
		{"calibrated", "%.4f", func(_ *outcome, p *posterior) result.Float { return either(p.Calibrated) }},
		{"gradient norm", median, func(_ *outcome, p *posterior) result.Float { return p.GradientNorm }},
	}
)

const gainHead = "network − calibrated"

// penalizedNLL is the NLL with the i-th prior on the scale.
func (p *posterior) penalizedNLL(i int) result.Float {
	if len(p.Penalized) == 0 {
		return undefined
	}
	return p.Penalized[i].NLL
}

func either(s rowScore) result.Float {
	if s.Accuracy.Finite() {
		return s.Accuracy
	}
	return s.RMSE
}

// A group is all splits of a case under one posterior.
type group struct {
	name       string
	results    []*outcome
	posteriors []*posterior
}

// groups returns the splits of each case by posterior, in the order of the results.
func groups(all []*outcome) []*group {
	var out []*group
	at := map[string]*group{}
	for _, r := range all {
		for _, p := range r.Posteriors {
			name := r.Case + ", " + p.Name
			g := at[name]
			if g == nil {
				g = &group{name: name}
				at[name], out = g, append(out, g)
			}
			g.results, g.posteriors = append(g.results, r), append(g.posteriors, p)
		}
	}
	return out
}

// cell is the mean over the splits, with its standard error where there are
// several, or the median of scales.
func (g *group) cell(c column) string {
	var v []float64
	for i, r := range g.results {
		x := c.value(r, g.posteriors[i])
		if !x.Finite() {
			return ""
		}
		v = append(v, float64(x))
	}
	if c.format == median {
		slices.Sort(v)
		return fmt.Sprintf(c.format, (v[(len(v)-1)/2]+v[len(v)/2])/2)
	}
	mean, se := moments(v)
	if len(v) < 2 {
		se = math.NaN()
		if c.head == gainHead {
			se = float64(g.posteriors[0].GainSE)
		}
	}
	if math.IsNaN(se) {
		return fmt.Sprintf(c.format, mean)
	}
	return fmt.Sprintf(c.format+" ± %.4f", mean, se)
}

// writeTables writes all results as tables in Markdown, to standard output where
// path is "".
func writeTables(path string, all []*outcome) error {
	text := table(all, likelihoods) + "\n" + table(all, reliability) + "\n" + noveltyTable(all)
	if path == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// table has one row for each posterior of each case.
func table(all []*outcome, columns []column) string {
	var b strings.Builder
	b.WriteString("| case, posterior | N | splits |")
	rule := "|---|---|---|"
	for _, c := range columns {
		b.WriteString(" " + c.head + " |")
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, g := range groups(all) {
		fmt.Fprintf(&b, "| %s | %d | %d |", g.name, g.results[0].Examples, len(g.results))
		for _, c := range columns {
			b.WriteString(" " + g.cell(c) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// noveltyTable shows how well inputs of another kind are told from test rows.
func noveltyTable(all []*outcome) string {
	var b strings.Builder
	b.WriteString("| case | inputs | novelty | entropy, s = 1 | mutual information, s = 1 | entropy, calibrated | entropy of the network | entropy by probit, s = 1 |\n|---|---|---|---|---|---|---|---|\n")
	for _, g := range groups(all) {
		for i, r := range g.results {
			for _, o := range g.posteriors[i].Others {
				fmt.Fprintf(&b, "| %s | %s | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f |\n", r.Case, o.Set, o.Score, o.Unscaled, o.Mutual, o.Calibrated, o.Network, o.Probit)
			}
		}
	}
	return b.String()
}
