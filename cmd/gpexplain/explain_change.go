package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/problem"
)

// changeFlags say with what other training data to predict as well.
type changeFlags struct {
	without, flip string
	smallest      bool
	most, tries   int // of --smallest-flip; 0 is the default

	rows   []int // of --without or --flip, as of the original file
	labels []string
}

// mostChanged bounds the rows of --without and --flip.
const mostChanged = 1 << 20

func (s *changeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.without, "without", "", "also say what the prediction would be without the training rows of this `LIST`, such as 12 or 12,99,200-210")
	f.StringVar(&s.flip, "flip", "", "also say what the prediction would be if training rows had other labels, such as `ROW=LABEL` or 12=4,99=9; of several labels a row, without the label or with it")
	f.BoolVar(&s.smallest, "smallest-flip", false, "also look for a small set of training rows without which the class is another; a smaller one may exist")
	f.IntVar(&s.most, "flip-most", 0, "of --smallest-flip: leave out at most `N` rows (default a tenth of the training rows)")
	f.IntVar(&s.tries, "flip-tries", 0, "of --smallest-flip: try at most `N` sets (default 100)")
}

// flag is the flag that was given, "" for none.
func (s *changeFlags) flag() string {
	switch {
	case s.without != "":
		return "--without"
	case s.flip != "":
		return "--flip"
	case s.smallest:
		return "--smallest-flip"
	}
	return ""
}

func (s *changeFlags) check() error {
	switch {
	case s.without != "":
		var ok bool
		if s.rows, ok = job.ParseRows(s.without, mostChanged); !ok {
			return job.Usagef("--without %q must list training rows such as 12 or 12,99,200-210", s.without)
		}
	case s.flip != "":
		for part := range strings.SplitSeq(s.flip, ",") {
			row, label, ok := strings.Cut(part, "=")
			i, err := strconv.Atoi(strings.TrimSpace(row))
			if label = strings.TrimSpace(label); !ok || err != nil || i < 0 || label == "" {
				return job.Usagef("--flip %q must give training rows other labels, such as 12=4 or 12=4,99=9", s.flip)
			}
			s.rows, s.labels = append(s.rows, i), append(s.labels, label)
		}
	}
	return onlyOnce(s.flag(), s.rows)
}

// onlyOnce refuses a row that a flag, or without one the command line, names twice.
func onlyOnce(flag string, rows []int) error {
	sorted := slices.Sorted(slices.Values(rows))
	for k := 1; k < len(sorted); k++ {
		if sorted[k] == sorted[k-1] {
			return job.Usagef("%s names training row %d twice", cmp.Or(flag, "the command line"), sorted[k])
		}
	}
	return nil
}

// A changedData is a change of the training data, and the posterior of these.
type changedData struct {
	flag      string
	at        []int      // positions of the rows among the training rows
	classes   []int      // of --flip: their other classes
	targets   *mat.Dense // of --flip of several labels: the targets of all training rows
	posterior *counterfactual.Posterior
	says      result.Changed // what is the same for every prediction

	search *counterfactual.FlipOptions // nil but of --smallest-flip, which has a set for each prediction
	model  *counterfactual.Model       // of the search
}

// fit finds the posterior with other training data; of nil it does nothing.
func (to *changedData) fit(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior) error {
	if to == nil {
		return nil
	}
	m, err := inference.Counterfactual(ctx, c.Job, p, q, option.Plain(to.flag))
	if err != nil {
		return err
	}
	if to.search != nil {
		to.model = m
		return nil
	}
	y := p.TrainTargets().Without(to.at...)
	switch {
	case to.targets != nil:
		y = p.TrainTargets().Without()
		y.Y = to.targets
	case to.classes != nil:
		y = p.Relabelled(to.at, to.classes)
	}
	to.posterior, err = m.Fit(ctx, y, nil)
	c.Clear()
	if err != nil {
		return problem.ExplainError(p.Examples.Train, err)
	}
	c.Warn(to.posterior.Warnings()...)
	return nil
}

// find looks up the rows among the training rows. It returns nil where no flag was given.
func (s *changeFlags) find(p *problem.Problem) (*changedData, error) {
	if s.flag() == "" {
		return nil, nil
	}
	if s.smallest {
		// Of --smallest-flip.
		if p.Task.Classes == nil {
			return nil, fmt.Errorf("--smallest-flip looks for another class, but %s has %s, and no class; use --without", p.Model.Name, p.Task.Predicts())
		}
		if n := p.Examples.Train.Len(); s.most >= n {
			return nil, fmt.Errorf("--flip-most %d: there are %d training rows, of which some must be left; give at most %d", s.most, n, n-1)
		}
		return &changedData{flag: s.flag(), search: &counterfactual.FlipOptions{Most: s.most, Tries: s.tries}}, nil
	}
	to := &changedData{flag: s.flag(), says: result.Changed{Rows: s.rows}}
	flip := s.flip != ""
	if flip && !problem.HasClasses(p.Task.Likelihood) {
		return nil, fmt.Errorf("--flip is for labels, but %s has the %s likelihood; use --without", p.Model.Name, p.Task.Likelihood.Name())
	}
	var err error
	if to.at, err = p.TrainPositions(option.Plain(s.flag()), s.rows); err != nil {
		return nil, err
	}
	left := p.Examples.Y
	if flip {
		left = mat.DenseCopyOf(left)
	}
	gone := make([]bool, p.Examples.Train.Len())
	for k, row := range s.rows {
		i := to.at[k]
		if !flip {
			gone[i] = true
			continue
		}
		if p.Task.MultiLabel() {
			name, now, err := p.WithLabel(left.RawRowView(i), s.labels[k])
			if err != nil {
				return nil, fmt.Errorf("--flip %d=%s: %w", row, s.labels[k], err)
			}
			to.targets = left
			to.says.Labels, to.says.LabelNames = append(to.says.Labels, now), append(to.says.LabelNames, name)
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
		to.classes = append(to.classes, class)
		to.says.Labels = append(to.says.Labels, result.Float(p.Task.Classes[class]))
		if names := p.Task.Names; names != nil {
			to.says.LabelNames = append(to.says.LabelNames, names[class])
		}
	}
	return to, p.CheckLeft(option.Plain(s.flag()), left, gone)
}
