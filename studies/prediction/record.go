package prediction

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/studies/table"
)

// record writes prediction.csv, with all figures, and prediction.md, which compares them.
func (s *study) record(list []judged, checks []check) error {
	t := &table.Table{Header: []string{"set", "training", "seed", "way", "nll", "rmse", "accuracy", "ece", "coverage", "precision", "scale", "temperature"}}
	for _, j := range list {
		t.Add(j.Set, j.Training, j.Seed, j.Way, float64(j.NLL), float64(j.RMSE), float64(j.Accuracy), float64(j.ECE), float64(j.Coverage), float64(j.Precision), float64(j.Scale), float64(j.Temperature))
	}
	if err := t.WriteCSV(s.records, "prediction.csv"); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.records, "prediction.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, s.text(list, checks))
		return err
	})
}

// text is the record in Markdown.
func (s *study) text(list []judged, checks []check) string {
	only := ""
	if s.only != "" {
		only = " -only " + s.only
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# What the answer at the match predicts

	go run ./gpstudies prediction -seeds %d%s

Test rows of each set, means over %d seeds; all ways of a line predict with the same networks (paired), but the held-out
fifth and the ensemble, which train their own. Seed 0 has the given rows; the others draw both parts again from all rows
of a table. *network*: g⁻¹(f), of a regression with σ² the mean of squares on the training rows. *default*: what
`+"`gpexplain predict`"+` says where nothing is asked for: f(x;θ*), with the covariance at the match times s, and for classes
a temperature τ (E21). *refit*: the same with f̂ (`+"`--refit`"+`). *nearest*: at the precision at which f̂ is nearest to the
network on the training rows, in place of the match. *stated*: `+"`--at stated`"+`, that of the weight decay, or 1 where nothing
says one. *held-out fifth*: a network trained on four fifths, and the temperature of its classes (τ at most %d) or its σ² from the
last fifth. *ensemble*: %d networks of other seeds, mixed. *last layer*: laplace-torch's default, a Kronecker-factored posterior of the
last layer at the prior precision of the largest evidence, with probit probabilities; of a regression with the evidence's σ². All are MLPs 50-50 of ReLU (digits: 32; -bn: BatchNormalization before each ReLU), inputs standardized by the training
rows (digits and pictures: as they are).

`, s.seeds, only, s.seeds, mostTemperature, members)
	seen := map[string]bool{}
	for i := range s.sets {
		if p := &s.sets[i]; p.about != "" {
			fmt.Fprintf(&b, "- %s: %s\n", p.name, p.about)
		}
		if p := &s.sets[i]; p.drawn != nil {
			fmt.Fprintf(&b, "- %s: %s, %d training and %d test rows\n", p.name, p.drawn.About, p.train, p.test)
		}
		if p := &s.sets[i]; p.most > 0 {
			fmt.Fprintf(&b, "- %s: the first %d test rows\n", p.name, p.most)
		}
		for _, t := range s.sets[i].trainings {
			if !seen[t.name] {
				seen[t.name] = true
				fmt.Fprintf(&b, "- %s: %s\n", t.name, t.about)
			}
		}
	}
	for _, f := range []struct {
		title, unit string
		of          func(judged) float64
	}{
		{"NLL", "in nats, of regressions in the unit of the data", func(j judged) float64 { return float64(j.NLL) }},
		{"ECE", "of classes, 15 bins", func(j judged) float64 { return float64(j.ECE) }},
		{"Accuracy", "of classes", func(j judged) float64 { return float64(j.Accuracy) }},
		{"RMSE", "of regressions and counts", func(j judged) float64 { return float64(j.RMSE) }},
		{"Coverage", "of 90 % intervals, regressions and counts", func(j judged) float64 { return float64(j.Coverage) }},
	} {
		if t := s.compared(list, f.of); len(t.Rows) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s", f.title, strings.ToUpper(f.unit[:1])+f.unit[1:], t.Markdown())
		}
	}
	b.WriteString("\n## Goals\n\nDifferences of means, default less the other; RMSE as a ratio.\n\n" + s.goals(list).Markdown())
	if len(checks) > 0 {
		t := &table.Table{Header: []string{"network", "match", "", "network alone", "", "default", "", "refit", ""}}
		for _, k := range checks {
			name := k.name
			if k.withoutTemperature {
				name += " (reference with τ = 1)"
			}
			r, g := k.reference, k.gpexplain
			t.Add(name, r.Match, g.Match, r.Network, g.Network, r.Default, g.Default, r.Refit, g.Refit)
		}
		b.WriteString("\n## Against an independent implementation\n\nThe reference's networks, one seed: precision of the match and test NLL, each by the reference and by gpexplain.\n\n" + t.Markdown())
	}
	return b.String()
}

// mean is that of a figure over seeds, NaN where it means nothing.
func mean(list []judged, set, training, way string, of func(judged) float64) float64 {
	var v []float64
	for _, j := range list {
		if j.Set == set && j.Training == training && j.Way == way {
			v = append(v, of(j))
		}
	}
	return stat.Mean(v, nil)
}

// compared is a table of a figure by set, training and way. Lines without any number are left out.
func (s *study) compared(list []judged, of func(judged) float64) *table.Table {
	t := &table.Table{Header: append([]string{"set", "training"}, ways...)}
	for _, p := range s.sets {
		for _, tr := range p.trainings {
			row, some := []any{p.name, tr.name}, false
			for _, way := range ways {
				v := mean(list, p.name, tr.name, way, of)
				row, some = append(row, v), some || !math.IsNaN(v)
			}
			if some {
				t.Add(row...)
			}
		}
	}
	return t
}

// goals compares the default with the network and with a held-out fifth.
func (s *study) goals(list []judged) *table.Table {
	t := &table.Table{Header: []string{"set", "training", "NLL − network", "≤ .003", "NLL − held-out fifth", "≤ .02", "RMSE / network", "≤ 1.01", "NLL − last layer", "≤ .001", "match δ", "s"}}
	nll := func(j judged) float64 { return float64(j.NLL) }
	rmse := func(j judged) float64 { return float64(j.RMSE) }
	said := func(ok bool, v float64) string {
		switch {
		case math.IsNaN(v):
			return ""
		case ok:
			return "yes"
		}
		return "**no**"
	}
	for _, p := range s.sets {
		for _, tr := range p.trainings {
			at := func(way string, of func(judged) float64) float64 { return mean(list, p.name, tr.name, way, of) }
			network := at(byDefault, nll) - at(networkAlone, nll)
			fifth := at(byDefault, nll) - at(heldOutFifth, nll)
			peer := at(byDefault, nll) - at(ofLastLayer, nll)
			ratio := at(byDefault, rmse) / at(networkAlone, rmse)
			match := math.Exp(at(byDefault, func(j judged) float64 { return math.Log(float64(j.Precision)) }))
			scale := math.Exp(at(byDefault, func(j judged) float64 { return math.Log(float64(j.Scale)) }))
			t.Add(p.name, tr.name, network, said(network <= 0.003, network), fifth, said(fifth <= 0.02, fifth), ratio, said(ratio <= 1.01, ratio), peer, said(peer <= 0.001, peer), match, scale)
		}
	}
	return t
}
