package attribution

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/studies/table"
)

// record writes attribution.csv, with all answers, and attribution.md, which compares them.
func (s *study) record(list []judged) error {
	t := &table.Table{Header: []string{"network", "seed", "at", "precision", "in_matches", "sum", "sum_low", "sum_high", "sum_se_halves", "removal", "removal_low", "removal_high", "removal_se_halves", "rows"}}
	for _, j := range list {
		t.Add(j.Protocol, j.Seed, j.At, j.Precision, j.Precision/j.Match, j.Sum.Mean, j.Sum.Low, j.Sum.High, j.Sum.Subsets, j.Removal.Mean, j.Removal.Low, j.Removal.High, j.Removal.Subsets, j.Sum.Rows)
	}
	if err := t.WriteCSV(s.records, "attribution.csv"); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.records, "attribution.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, s.text(list))
		return err
	})
}

// text is the record in Markdown.
func (s *study) text(list []judged) string {
	only := ""
	if s.only != "" {
		only = " -only " + s.only
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Which precision's terms tell what retrained networks become

	go run ./gpstudies attribution -halves %d -seeds %d%s

`, s.halves, s.seeds, only)
	fmt.Fprintf(&b, `Linear datamodeling scores: over %d halves of the training rows, one network trained from scratch on each, the
rank correlation of its output at a test row with the sum of the terms of its rows, averaged over test rows. The terms
are those that `+"`gpexplain explain`"+` lists: `+"`value`"+` (the closing sum, E14) and `+"`removal`"+` (E15). Numbers are means over %d networks,
which differ in their seeds and are judged by the same halves. The output is the logit or the log rate, and of more
than two classes the logit of the network's class less the mean of the others. All networks are MLPs with one hidden
layer of 32 ReLUs. *match* is the precision that the command takes by default (E21); *nearest* is the one at which the
mode of the linearized model is nearest to the network on the training rows; *best* is the best of all that were asked,
for each network.

`, s.halves, s.seeds)
	for _, p := range s.protocols {
		fmt.Fprintf(&b, "- %s: %s; %d training and %d test rows\n", p.name, p.about, p.train, p.test)
	}
	sum := func(j judged) float64 { return j.Sum.Mean }
	removal := func(j judged) float64 { return j.Removal.Mean }
	for _, part := range []struct {
		title string
		score func(judged) float64
		also  []string // precisions beside the multiples of the match
	}{{"Closing sum", sum, []string{"stated", "nearest"}}, {"Removals of many rows", removal, nil}} {
		text, short := s.compared(list, part.score, append(slices.Clone(part.also), multiples()...))
		short = short[len(part.also):]
		least := slices.Index(short, slices.Min(short))
		fmt.Fprintf(&b, "\n## %s\n\n%s\nOf the multiples of the match, %s is the least short of the best over all networks: %.3f.\n", part.title, text, multiples()[least], short[least])
	}
	b.WriteString("\n## Scores by precision\n\nClosing sum / removals, means over the networks.\n\n")
	for i := range s.protocols {
		p := &s.protocols[i]
		t := &table.Table{Header: []string{p.name}}
		row := []any{"sum / removals"}
		for _, precision := range p.grid {
			of := func(j judged) bool { return j.Protocol == p.name && j.At == "grid" && j.Precision == precision }
			t.Header = append(t.Header, strconv.FormatFloat(precision, 'g', -1, 64))
			row = append(row, fmt.Sprintf("%.3f / %.3f", mean(list, of, sum), mean(list, of, removal)))
		}
		t.Add(row...)
		b.WriteString(t.Markdown() + "\n")
	}
	return b.String()
}

// multiples are the names of the multiples of the match.
func multiples() []string {
	var list []string
	for _, k := range factors {
		list = append(list, multiple(k))
	}
	return list
}

// multiple is the name of a multiple of the match.
func multiple(k float64) string {
	if k == 1 {
		return "match"
	}
	return "×" + strconv.FormatFloat(k, 'g', -1, 64)
}

// compared is a table of a score by network at some precisions, with the mean over networks of their
// best one and the best mean at one precision of the grid. The last lines are the most that any network's mean
// is short of the two; it returns the first one too.
func (s *study) compared(list []judged, score func(judged) float64, at []string) (text string, worst []float64) {
	t := &table.Table{Header: append(append([]string{"network", "match δ"}, at...), "best", "best δ", "best of the grid")}
	worst = make([]float64, len(at))
	shortOfGrid := make([]float64, len(at))
	for i := range s.protocols {
		name := s.protocols[i].name
		of := func(where string) func(judged) bool {
			return func(j judged) bool { return j.Protocol == name && j.At == where }
		}
		var best, bestAt, match []float64
		for seed := range s.seeds {
			var own []judged
			for _, j := range list {
				if j.Protocol == name && j.Seed == seed {
					own = append(own, j)
				}
			}
			top := slices.MaxFunc(own, func(a, b judged) int { return cmp.Compare(score(a), score(b)) })
			best, bestAt, match = append(best, score(top)), append(bestAt, math.Log(top.Precision)), append(match, math.Log(top.Match))
		}
		most := stat.Mean(best, nil)
		grid := math.Inf(-1)
		for _, precision := range s.protocols[i].grid {
			at := of("grid")
			grid = math.Max(grid, mean(list, func(j judged) bool { return at(j) && j.Precision == precision }, score))
		}
		row := []any{name, fmt.Sprintf("%.3g", math.Exp(stat.Mean(match, nil)))}
		for k, where := range at {
			v := mean(list, of(where), score)
			worst[k], shortOfGrid[k] = math.Max(worst[k], most-v), math.Max(shortOfGrid[k], grid-v)
			row = append(row, fmt.Sprintf("%.3f", v))
		}
		t.Add(append(row, fmt.Sprintf("%.3f", most), fmt.Sprintf("%.3g", math.Exp(stat.Mean(bestAt, nil))), fmt.Sprintf("%.3f", grid))...)
	}
	for k, short := range [][]float64{worst, shortOfGrid} {
		row := []any{[]string{"most short of the best", "most short of the best of the grid"}[k], ""}
		for _, v := range short {
			row = append(row, fmt.Sprintf("%.3f", v))
		}
		t.Add(append(row, "", "", "")...)
	}
	return t.Markdown(), worst
}

// mean is that of a score over the answers that of holds for.
func mean(list []judged, of func(judged) bool, score func(judged) float64) float64 {
	var v []float64
	for _, j := range list {
		if of(j) {
			v = append(v, score(j))
		}
	}
	return stat.Mean(v, nil)
}
