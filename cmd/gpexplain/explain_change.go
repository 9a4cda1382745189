package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// changeFlags say with what other training data to predict as well.
type changeFlags struct {
	without, flip string

	rows   []int // of --without or --flip, as of the original file
	labels []string
}

// mostChanged bounds the rows of --without and --flip.
const mostChanged = 1 << 20

func (s *changeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.without, "without", "", "also say what the prediction would be without the training rows of this `LIST`, such as 12 or 12,99,200-210")
	f.StringVar(&s.flip, "flip", "", "also say what the prediction would be if training rows had other labels, such as `ROW=LABEL` or 12=4,99=9")
}

// flag is the flag that was given, "" for none.
func (s *changeFlags) flag() string {
	switch {
	case s.without != "":
		return "--without"
	case s.flip != "":
		return "--flip"
	}
	return ""
}

func (s *changeFlags) check(c *cobra.Command, refit bool) error {
	for _, name := range []string{"without", "flip"} {
		if c.Flags().Changed(name) && c.Flags().Lookup(name).Value.String() == "" {
			return console.Usagef("--%s names no training rows", name)
		}
	}
	switch {
	case s.without != "" && s.flip != "":
		return console.Usagef("--without and --flip exclude each other; ask one after the other")
	case s.flag() != "" && !refit:
		return console.Usagef("%s answers by fitting the linearized model to other data; leave --refit=false out", s.flag())
	case s.without != "":
		var ok bool
		if s.rows, ok = problem.ParseRows(s.without, mostChanged); !ok {
			return console.Usagef("--without %q must list training rows such as 12 or 12,99,200-210", s.without)
		}
	case s.flip != "":
		for part := range strings.SplitSeq(s.flip, ",") {
			row, label, ok := strings.Cut(part, "=")
			i, err := strconv.Atoi(strings.TrimSpace(row))
			if label = strings.TrimSpace(label); !ok || err != nil || i < 0 || label == "" {
				return console.Usagef("--flip %q must give training rows other labels, such as 12=4 or 12=4,99=9", s.flip)
			}
			s.rows, s.labels = append(s.rows, i), append(s.labels, label)
		}
	}
	sorted := slices.Sorted(slices.Values(s.rows))
	for k := 1; k < len(sorted); k++ {
		if sorted[k] == sorted[k-1] {
			return console.Usagef("%s names training row %d twice", s.flag(), sorted[k])
		}
	}
	return nil
}

// A changedData is a change of the training data, and the posterior of these.
type changedData struct {
	flag      string
	change    counterfactual.Change
	posterior *counterfactual.Posterior
	says      report.Changed // what is the same for every prediction
}

// fit finds the posterior with other training data; of nil it does nothing.
func (to *changedData) fit(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior) error {
	if to == nil {
		return nil
	}
	base, ok := q.Dual.(counterfactual.Base)
	if !ok {
		return fmt.Errorf("%s needs a posterior of all training rows, which --method %s is not; give --method exact or kept", to.flag, q.How.Name)
	}
	kernel := ntk.New(q.Prior(), p.Model.Net.Theta(), nil)
	m, err := counterfactual.New(ctx, base, kernel, p.Examples.Y, p.Task.Likelihood, &counterfactual.Options{MaxMemory: p.Limits.Memory, Progress: c.Show})
	if errors.Is(err, counterfactual.ErrNotRefitted) {
		return fmt.Errorf("%s: the saved posterior is that at the trained parameters, and other training data are answered for by a refit; fit it with --refit", to.flag)
	}
	if err != nil {
		return err
	}
	to.posterior, err = m.Fit(ctx, to.change)
	c.ClearBar()
	if err != nil {
		return p.TrainNames().ExplainError(err)
	}
	c.Warn(to.posterior.Warnings()...)
	return nil
}

// find looks up the rows among the training rows. It returns nil where no flag was given.
func (s *changeFlags) find(p *problem.Problem) (*changedData, error) {
	if s.flag() == "" {
		return nil, nil
	}
	to := &changedData{flag: s.flag(), says: report.Changed{Rows: s.rows}}
	train, ch, flip := p.Examples.Train, &to.change, s.flip != ""
	if flip && p.Task.Classes == nil {
		return nil, fmt.Errorf("--flip is for labels, but %s has the %s likelihood; use --without", p.Model.Name, p.Task.Likelihood.Name())
	}
	at := make(map[int]int, train.Len())
	for i, row := range train.Rows {
		at[row] = i
	}
	left := p.Examples.Y
	if p.Task.Classes != nil {
		left = mat.DenseCopyOf(left)
	}
	gone := make([]bool, train.Len())
	for k, row := range s.rows {
		i, ok := at[row]
		if !ok {
			return nil, fmt.Errorf("%s: %s row %d of %s is not among the %d training rows; name rows of the data that were trained on", s.flag(), train.Set.Part, row, train.Set.File, train.Len())
		}
		if !flip {
			ch.Remove, gone[i] = append(ch.Remove, i), true
			continue
		}
		class, ok := p.ClassOf(s.labels[k])
		if !ok {
			return nil, fmt.Errorf("--flip %d=%s: %s is not one of the classes %s", row, s.labels[k], s.labels[k], p.Task.ClassList())
		}
		if float64(class) == left.At(i, 0) {
			return nil, fmt.Errorf("--flip %d=%s: that is the label of training row %d already; give another", row, s.labels[k], row)
		}
		left.Set(i, 0, float64(class))
		ch.Relabel = append(ch.Relabel, counterfactual.Label{Row: i, Y: []float64{float64(class)}})
		to.says.Labels = append(to.says.Labels, report.Float(p.Task.Classes[class]))
		if names := p.Task.Names; names != nil {
			to.says.LabelNames = append(to.says.LabelNames, names[class])
		}
	}
	if len(ch.Remove) == train.Len() {
		return nil, fmt.Errorf("--without names all %d training rows; leave some to learn from", train.Len())
	}
	return to, s.checkClasses(p, left, gone)
}

// checkClasses returns an error unless two classes are left to tell apart, where there were
// two.
func (s *changeFlags) checkClasses(p *problem.Problem, left *mat.Dense, gone []bool) error {
	if p.Task.Classes == nil {
		return nil
	}
	before, after := map[float64]bool{}, map[float64]bool{}
	for i, g := range gone {
		before[p.Examples.Y.At(i, 0)] = true
		if !g {
			after[left.At(i, 0)] = true
		}
	}
	if len(before) < 2 || len(after) > 1 {
		return nil
	}
	for k := range after {
		return fmt.Errorf("%s leaves training rows of class %s alone, and the %s likelihood needs two classes to tell apart; leave some of another", s.flag(), p.Task.ClassNames()[int(k)], p.Task.Likelihood.Name())
	}
	return nil
}

// tell adds to a report what would be predicted for its row.
func (to *changedData) tell(ctx context.Context, p *problem.Problem, q *inference.Posterior, batch *linearize.Batch, r *report.Report) error {
	if to == nil {
		return nil
	}
	pred, err := q.PredictBy(ctx, to.posterior, p.Task, batch, glm.DefaultLink(p.Task.Likelihood, p.Model.Outputs))
	if err != nil {
		return err
	}
	says := to.says
	says.Mean, says.Probability, says.Class = inference.RowOf(pred.Mean, 0), inference.RowOf(pred.Prob, 0), report.Undefined()
	if p.Task.Classes != nil {
		k := 0
		for i, v := range says.Probability {
			if v > says.Probability[k] {
				k = i
			}
		}
		says.Class = report.Float(p.Task.Classes[k])
		says.ClassName = nameOf(p, says.Class)
	}
	if to.says.Labels != nil {
		r.Flip = &says
	} else {
		r.Without = &says
	}
	return nil
}
