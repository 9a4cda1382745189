// Package dattri repeats the benchmark of dattri (Deng et al. 2024) on MNIST and adds the
// methods of package evaluate: leave-one-out correlations and linear datamodeling scores of a
// logistic regression, wrong labels found by inspecting the most suspicious rows, and what
// makes TRAK of several networks score as it does.
package dattri

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/steps"
	"github.com/funcgp/funcgp/studies/table"
)

// Run is the study with its flags.
func Run(ctx context.Context, out io.Writer, args []string) error {
	s := &study{out: out}
	f := flag.NewFlagSet("dattri", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.cache, "cache", "cache", "`DIR` of the results of steps")
	f.StringVar(&s.records, "out", "records", "`DIR` of the record")
	f.StringVar(&s.data, "data", "../../shared/data/mnist", "`DIR` of MNIST's four files, or digits:N,T for synthetic ones")
	f.IntVar(&s.train, "train", 5000, "training rows, the first ones")
	f.IntVar(&s.test, "test", 500, "test rows, the first ones")
	f.IntVar(&s.halves, "halves", 100, "halves of the training rows that networks are trained on")
	f.IntVar(&s.left, "left", 100, "training rows that are left out, one at a time")
	f.IntVar(&s.audited, "audited", 1000, "training rows, a tenth of them with wrong labels")
	f.IntVar(&s.seeds, "seeds", 3, "sets of wrong labels")
	f.IntVar(&s.networks, "networks", 10, "networks of TRAK")
	f.IntVar(&s.dim, "dim", 512, "columns of TRAK's projection")
	f.IntVar(&s.epochs, "epochs", 0, "passes of each training (default 20 of the regression and 50 of the MLP)")
	f.Float64Var(&s.decay, "decay", 50, "prior precision of the regression's optimum, 5,000 times the weight decay")
	f.Float64Var(&s.strength, "strength", .1, "least strength (E16) of the rows that covariances keep")
	only := f.String("only", "", "`PARTS` of "+strings.Join(names(), ", ")+", with commas between them (default all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, name := range strings.Split(*only, ",") {
		if name != "" && !slices.Contains(names(), name) {
			return fmt.Errorf("dattri: there is no part %q; its parts are %s", name, strings.Join(names(), ", "))
		}
	}
	for _, p := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		if err := p.run(s, ctx); err != nil {
			return fmt.Errorf("dattri, %s: %w", p.name, err)
		}
	}
	return nil
}

// parts are those of the study.
var parts = []struct {
	name string
	run  func(s *study, ctx context.Context) error
}{{"regression", (*study).regression}, {"mislabelled", (*study).mislabelled}, {"trak", (*study).trak}}

func names() []string {
	var list []string
	for _, p := range parts {
		list = append(list, p.name)
	}
	return list
}

// A study is what the flags say.
type study struct {
	out                   io.Writer
	cache, records, data  string
	train, test           int
	halves, left          int
	audited, seeds        int
	networks, dim, epochs int
	decay, strength       float64
}

// step returns the result of a step, which is kept under its name and all that it depends on.
func step[T any](ctx context.Context, s *study, name string, on any, do func(ctx context.Context) (T, error)) (T, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", on))
	return steps.Do(ctx, filepath.Join(s.cache, "dattri"), fmt.Sprintf("%s-%x", name, sum[:6]), do)
}

// outputs is the directory of the outputs of networks trained again.
func (s *study) outputs() string {
	if s.cache == "" {
		return ""
	}
	return filepath.Join(s.cache, "dattri", "outputs")
}

// record writes a table and prints it.
func (s *study) record(name, title string, t *table.Table) error {
	if _, err := fmt.Fprintf(s.out, "## %s\n\n%s\n", title, t.Markdown()); err != nil {
		return err
	}
	return t.WriteCSV(s.records, "dattri-"+name+".csv")
}

// A figure is a Score that a file may hold.
type figure struct{ Mean, Low, High, SE result.Float }

func figureOf(s evaluate.Score) figure {
	return figure{result.Float(s.Mean), result.Float(s.Low), result.Float(s.High), result.Float(s.Subsets)}
}

// cells are those of a figure in a table.
func (f figure) cells() []any {
	return []any{float64(f.Mean), float64(f.Low), float64(f.High), float64(f.SE)}
}

// figureHead is the head of the cells.
func figureHead(name string) []string {
	return []string{name, "low", "high", "standard error over subsets"}
}
