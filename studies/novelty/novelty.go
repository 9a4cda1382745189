// Package novelty measures how well scores tell rows of another kind from test rows: those
// of package glm/novelty (E22) beside simple baselines, on the networks of the match
// reference and on two of MNIST.
package novelty

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/studies/steps"
)

// Run measures all cases or some, and writes novelty.csv and novelty.md. A case that is in
// the cache is not measured again.
func Run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("novelty", flag.ContinueOnError)
	f.SetOutput(out)
	cache := f.String("cache", "", "folder that keeps the results of cases, so that an interrupted study goes on; default none")
	dir := f.String("out", ".", "folder of novelty.csv and novelty.md")
	only := f.String("cases", "", "names of cases, with commas between them; default all")
	var s source
	f.StringVar(&s.shared, "shared", "../../shared", "folder of the networks and the data")
	f.StringVar(&s.tables, "tables", "", "folder with vowel.csv, hpc.csv and letter.csv; default without them")
	if err := f.Parse(args); err != nil {
		return err
	}
	var results []*result
	for _, c := range slices.Concat(cases, lessClasses(s.tables != "")) {
		if *only != "" && !strings.Contains(","+*only+",", ","+c.name+",") {
			continue
		}
		fmt.Fprintln(out, c.name)
		r, err := steps.Do(ctx, *cache, c.name, func(ctx context.Context) (*result, error) {
			p, err := c.make(ctx, s)
			if err != nil {
				return nil, err
			}
			return measure(ctx, p, c.inducing)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Case, r.Group = c.name, c.group
		results = append(results, r)
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(*dir, "novelty.csv"), func(w io.Writer) error { return writeCSV(w, results) }); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(*dir, "novelty.md"), func(w io.Writer) error { return writePage(w, results) })
}

// names are all scores.
func names() []string { return append(append([]string{}, baselines...), ours...) }

// writeCSV writes one line for each case, set and score.
func writeCSV(w io.Writer, results []*result) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"case", "training_rows", "outputs", "inducing", "set", "score", "auroc"}}
	for _, r := range results {
		for _, s := range r.Sets {
			for _, name := range names() {
				if v, ok := s.AUROC[name]; ok {
					lines = append(lines, []string{r.Case, strconv.Itoa(r.Rows), strconv.Itoa(r.Outputs), strconv.Itoa(r.Inducing), s.Name, name, strconv.FormatFloat(v, 'f', 6, 64)})
				}
			}
		}
	}
	return c.WriteAll(lines)
}

// rowsOf has the sets of all cases, of a table less a class the means over its classes.
func rowsOf(results []*result) []set {
	var rows []set
	count := map[string]float64{}
	for _, r := range results {
		for _, s := range r.Sets {
			table, _, _ := strings.Cut(r.Case, " less ")
			name := table + " | " + s.Name
			at := slices.IndexFunc(rows, func(s set) bool { return s.Name == name })
			if r.Group != lessGroup || at < 0 {
				at = len(rows)
				rows = append(rows, set{name, map[string]float64{}})
			}
			count[name]++
			for score, v := range s.AUROC {
				was := rows[at].AUROC[score]
				rows[at].AUROC[score] = was + (v-was)/count[name]
			}
		}
	}
	return rows
}

// writePage writes the tables.
func writePage(w io.Writer, results []*result) error {
	var b strings.Builder
	b.WriteString("| case | rows told from test rows | " + strings.Join(names(), " | ") + " | novelty less the best baseline |\n|---|---|" + strings.Repeat("---|", len(names())+1) + "\n")
	for _, s := range rowsOf(results) {
		b.WriteString("| " + s.Name + " |")
		for _, name := range names() {
			if v, ok := s.AUROC[name]; ok {
				fmt.Fprintf(&b, " %.3f |", v)
			} else {
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(&b, " %+.3f |\n", s.AUROC["novelty"]-s.best())
	}
	b.WriteString("\nDifference from the best baseline; a score that a regression does not have counts .5:\n\n| cases | sets | | " + strings.Join(names(), " | ") + " |\n|---|---|---|" + strings.Repeat("---|", len(names())))
	for _, group := range []string{chose, apart, lessGroup} {
		writeDifferences(&b, results, group)
	}
	b.WriteString("\n\n| case | training rows × outputs | fit, s | detector, s | predict, s | score, s | test rows | fit, MiB | detector, MiB |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d × %d | %.2f | %.2f | %.2f | %.2f | %d | %.1f | %.1f |\n", r.Case, r.Rows, r.Outputs, r.Fit, r.Detector, r.Predict, r.Score, r.TestRows, float64(r.FitBytes)/(1<<20), float64(r.DetectorBytes)/(1<<20))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDifferences writes the worst and the mean difference of each score from the best
// baseline, over the sets of a group of cases.
func writeDifferences(b *strings.Builder, results []*result, group string) {
	count, worst, sum := 0, map[string]float64{}, map[string]float64{}
	for _, r := range results {
		if r.Group != group {
			continue
		}
		for _, s := range r.Sets {
			count++
			for _, name := range names() {
				v, ok := s.AUROC[name]
				if !ok {
					v = .5
				}
				v -= s.best()
				if sum[name] += v; count == 1 || v < worst[name] {
					worst[name] = v
				}
			}
		}
	}
	for _, line := range []struct {
		name string
		of   func(name string) float64
	}{{"worst", func(name string) float64 { return worst[name] }}, {"mean", func(name string) float64 { return sum[name] / float64(max(1, count)) }}} {
		fmt.Fprintf(b, "\n| %s | %d | %s |", group, count, line.name)
		for _, name := range names() {
			fmt.Fprintf(b, " %+.3f |", line.of(name))
		}
	}
}
