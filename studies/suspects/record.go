package suspects

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/studies/table"
)

// record writes suspects.csv and suspects.md.
func (s *study) record(all map[string][]found) error {
	t := &table.Table{Header: []string{"table", "seed", "score", "AUROC", "found_5", "found_10"}}
	var b strings.Builder
	only := ""
	if s.Only != "" {
		only = " -only " + s.Only
	}
	fmt.Fprintf(&b, `# Which score finds wrong labels

	go run ./gpstudies suspects -seeds %d -rows %d%s

A twentieth of the labels is another class, drawn at random; of regressions, targets are moved by one to two deviations. Share of them among the
first 5 and 10 %% of the rows by each score, means over %d sets of wrong labels with a network trained on each.

`, s.seeds, s.rows, only, s.seeds)
	md := &table.Table{Header: append([]string{"table"}, scores...)}
	sums := map[string][2][]float64{}
	for i := range s.tables {
		name := s.tables[i].Name
		row := []any{name}
		for _, kind := range scores {
			var first, second []float64
			for seed, one := range all[name] {
				d := one[kind]
				t.Add(name, seed, kind, d.AUROC, d.Found[0], d.Found[1])
				first, second = append(first, d.Found[0]), append(second, d.Found[1])
			}
			m := [2]float64{stat.Mean(first, nil), stat.Mean(second, nil)}
			have := sums[kind]
			for k := range have {
				have[k] = append(have[k], m[k])
			}
			sums[kind] = have
			row = append(row, fmt.Sprintf("%.2f/%.2f", m[0], m[1]))
		}
		md.Add(row...)
	}
	row := []any{"mean"}
	for _, kind := range scores {
		row = append(row, fmt.Sprintf("%.3f/%.3f", stat.Mean(sums[kind][0], nil), stat.Mean(sums[kind][1], nil)))
	}
	md.Add(row...)
	b.WriteString(md.Markdown())
	if err := t.WriteCSV(s.Records, "suspects.csv"); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.Records, "suspects.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	})
}
