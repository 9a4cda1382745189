package influence

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

// kinds are the scores of the record.
var kinds = []string{"contributions", "removal", "influence", "influence at the network", "difference"}

// record writes influence.csv, with all scores, and influence.md, which compares them.
func (s *study) record(list []judged) error {
	all := &table.Table{Header: []string{"table", "network", "match", "ceiling", "score", "in_matches", "datamodel", "low", "high", "se_halves"}}
	columns := []string{}
	for _, kind := range kinds {
		for _, k := range multiples {
			columns = append(columns, fmt.Sprintf("%s ×%g", kind, k))
		}
	}
	for _, k := range dampings {
		columns = append(columns, fmt.Sprintf("influence at θ* ×%g", k))
	}
	for i := range list {
		j := &list[i]
		for _, name := range columns {
			kind, k, _ := strings.Cut(name, " ×")
			v := j.Scores[name]
			all.Add(j.Table, j.Network, j.Match, j.Ceiling, kind, k, v.Mean, v.Low, v.High, v.Subsets)
		}
	}
	if err := all.WriteCSV(s.Records, "influence.csv"); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.Records, "influence.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, s.text(list))
		return err
	})
}

// text is the record in Markdown.
func (s *study) text(list []judged) string {
	only := ""
	if s.Only != "" {
		only = " -only " + s.Only
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Which score tells what networks become that are trained on halves of the rows

	go run ./gpstudies influence -halves %d -runs %d -test %d -train %d%s

Linear datamodeling scores: over %d halves of the training rows, the rank correlation of the mean output of %d networks
trained from scratch on each with the sum of the scores of its rows, averaged over test rows. The output is f, and of
more than one the logit of the network's class less the mean of the others. *Ceiling* is the most that any score can have, by the
agreement of the networks of a half (Spearman and Brown). Networks are those of the reference and one that is trained like the
halves (*own*): MLPs of 50-50 ReLUs (digits: 32) by Adam with steps of .001 on minibatches of 32, weight decay 1e-4 or BatchNormalization.
Scores at multiples of the match (E21): *value*, the closing sum (E14); *removal* (E15); C r, influence (E23), with the residuals of the refit at
that multiple (*refit*) and with those of the network (*network*); *difference*, C (I − (Λh)²)⁻¹ r, a removal and an addition in one. At ×2, the
posterior at half weights, *difference* is what the output differs by with the row and without it, up to a factor of 2. *Damped* is the influence function
at θ* with the best of ten dampings from a quarter to 128 matches, chosen by the score itself.

`, s.halves, s.runs, s.test, s.train, only, s.halves, s.runs)
	type column struct{ head, score string }
	columns := []column{{"value", "contributions ×1"}}
	for _, k := range multiples {
		columns = append(columns, column{fmt.Sprintf("removal ×%g", k), fmt.Sprintf("removal ×%g", k)})
	}
	for _, k := range multiples {
		columns = append(columns, column{fmt.Sprintf("refit ×%g", k), fmt.Sprintf("influence ×%g", k)})
	}
	for _, k := range multiples {
		columns = append(columns, column{fmt.Sprintf("difference ×%g", k), fmt.Sprintf("difference ×%g", k)})
	}
	columns = append(columns, column{"network ×1", "influence at the network ×1"}, column{"network ×2", "influence at the network ×2"})
	t := &table.Table{Header: []string{"table", "network", "match", "ceiling"}}
	for _, c := range columns {
		t.Header = append(t.Header, c.head)
	}
	t.Header = append(t.Header, "damped")
	means, short, below := make([][]float64, len(columns)+1), make([]float64, len(columns)), make([]float64, len(columns))
	for i := range list {
		j := &list[i]
		row := []any{j.Table, j.Network, fmt.Sprintf("%.3g", j.Match), fmt.Sprintf("%.3f", j.Ceiling)}
		best, removal := j.best().Mean, j.Scores["removal ×1"].Mean
		for k, c := range columns {
			v := j.Scores[c.score].Mean
			means[k] = append(means[k], v)
			short[k], below[k] = math.Max(short[k], best-v), math.Max(below[k], removal-v)
			row = append(row, fmt.Sprintf("%.3f", v))
		}
		means[len(columns)] = append(means[len(columns)], best)
		t.Add(append(row, fmt.Sprintf("%.3f", best))...)
	}
	foot := func(name string, of func(k int) float64) {
		row := []any{name, "", "", ""}
		for k := range columns {
			row = append(row, fmt.Sprintf("%.3f", of(k)))
		}
		t.Add(append(row, "")...)
	}
	foot("mean", func(k int) float64 { return stat.Mean(means[k], nil) })
	t.Rows[len(t.Rows)-1][len(t.Header)-1] = fmt.Sprintf("%.3f", stat.Mean(means[len(columns)], nil))
	foot("most short of damped", func(k int) float64 { return short[k] })
	foot("most below removal", func(k int) float64 { return below[k] })
	b.WriteString(t.Markdown())
	return b.String()
}
