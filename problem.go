package funcgp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A problem is what a posterior is computed from. It is made once and never changed.
type problem struct {
	Model    *trainedModel
	Task     *problemTask
	Examples *examples
	Saved    *savedFile // the posterior to answer from; nil where one is fitted
	Memory   int64      // that may be taken; 0 is a part of what is free
	Seed     uint64
	Words    option.Words // of who asked, for reports

	dataFiles []string // of the data, where rows of other data are among the training rows
	asked     *asked   // from which the problem was read
}

// Bounds are the limits of a call of the library that is part of a job.
func (p *problem) Bounds(c *job.Job) linearize.Limits {
	return linearize.Limits{Memory: p.Memory, Progress: c.Show}
}

// open reads the model, the file beside which the options are given, if any, and the data, and decides what the outputs
// mean and which rows to train on. A file of another kind than a posterior's describes model, data and task as that does.
func (kind fileKind) open(ctx context.Context, c *job.Job, f *asked) (*problem, error) {
	var saved *savedFile
	var err error
	if f.posterior != "" {
		if saved, err = openSaved(ctx, c, f.posterior, kind, f); err != nil {
			return nil, err
		}
	}
	prior, err := readPrior(ctx, f.Fit.Prior.File, f.Fit.Memory)
	if err != nil {
		return nil, err
	}
	m, err := readModel(ctx, c, f)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		// Refuse a prior of another model, and warn where the model has been trained on since the prior was found.
		if why := prior.misfit(m.Net); why != "" {
			return nil, job.FullErrorf("{prior=%s}: %s: it is not of %s; find one with {evidence optimize} -o", prior.path, why, m.Name)
		}
		if prior.Theta != linearize.SumOf(m.Net.Theta()) {
			c.Warn(job.NewWarning("prior-of-other-parameters", math.NaN(), math.NaN(), "Find one again by {evidence optimize} -o.",
				"The parameters of %s have other values than those for which {prior=%s} was found. The evidence is highest under another prior.", m.Name, prior.path))
		}
	}
	if saved != nil {
		out := *m
		out.Meta, m = saved.metadata(m.Meta), &out
	}
	var d *dataset.Data
	if !f.gone {
		d, err = openData(ctx, c, f, m)
	}
	if err == nil && saved != nil {
		d, err = saved.data(d)
	}
	if err == nil && saved != nil && saved.Header.Grouped != nil {
		d.CountClasses(m.Outputs) // as when it was fitted: most of many classes may occur in no row
	}
	if err != nil {
		return nil, err
	}
	if m.takesWholeAlone() { // data that a file or a program holds too
		d.TakeWhole()
	}
	if m, err = m.withColumns(c, &f.Model, d); err != nil {
		return nil, err
	}
	if want, _, _ := m.Net.Dims(); elements(d.Shape) != want {
		return nil, option.Errorf("%s: an input has %d numbers (shape %v), but %s takes %d (shape %v); give %s{data} that the model was trained on%s", d.Source, elements(d.Shape), d.Shape, m.Name, want, m.Net.InputShape(), m.indexHint(d), columnsHint(d))
	}
	if err := m.agreeShape(d); err != nil {
		return nil, err
	}
	p, err := f.problem(ctx, c, m, d, prior, saved, nil)
	if err != nil {
		return nil, err
	}
	if saved != nil && kind != posteriorKind && f.Fit.Seed == 0 {
		p.Seed = saved.Header.Seed
	}
	if saved == nil || saved.Header.Grouped == nil {
		return p, nil
	}
	g, err := p.group(saved.Header.Grouped.Kept)
	if err != nil {
		return nil, saved.Damaged("the classes that it tells apart cannot be used")
	}
	g.Task.Grouping.Others = float64(saved.Header.Grouped.Others)
	return g, nil
}

// agreeShape tells data of pictures whether the network takes their channels last, and refuses pictures of another shape
// than it takes, whose pixels it would take for others.
func (m *trainedModel) agreeShape(d *dataset.Data) error {
	if !d.Images() || len(m.Net.Inputs()) != 1 {
		return nil
	}
	longer := func(shape []int) []int {
		return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
	}
	takes, own := m.Net.InputShape(), longer(d.Shape)
	last := func(shape []int) bool {
		return len(shape) == 3 && slices.Contains([]int{1, 3, 4}, shape[2]) && !slices.Contains([]int{1, 3}, shape[0])
	}
	if n := longer(takes); len(n) > 1 && len(own) > 1 && !slices.Equal(n, own) {
		remedy := fmt.Sprintf("save them in the shape N×%s", strings.Trim(strings.ReplaceAll(fmt.Sprint(takes), " ", "×"), "[]"))
		switch {
		case last(d.Shape) && len(takes) == 3 && takes[0] == d.Shape[2]:
			remedy += ", for example by x.transpose(0, 3, 1, 2)"
		case last(takes) && len(d.Shape) == 3 && d.Shape[0] == takes[2]:
			remedy += ", for example by x.transpose(0, 2, 3, 1)"
		}
		return fmt.Errorf("%s: pictures have the shape %v, but %s takes the shape %v; %s", d.Source, d.Shape, m.Name, takes, remedy)
	}
	if last(takes) && slices.Equal([]int(takes), d.Shape) || last(d.Shape) && len(longer(takes)) < 2 {
		d.ChannelsLast()
	}
	return nil
}

// Linearize linearizes the examples [lo, hi) of some rows.
func (p *problem) Linearize(ctx context.Context, rows *dataset.Rows, lo, hi int) (*linearize.Batch, error) {
	x, err := p.Examples.Inputs(ctx, rows, lo, hi)
	if err != nil {
		return nil, err
	}
	return p.Model.Net.Linearize(ctx, x)
}

// Targets returns the targets of rows as the likelihood takes them.
func (p *problem) Targets(rows *dataset.Rows) (*mat.Dense, error) {
	return p.Task.targets(rows, p.Model, p.Examples.Data)
}

// TrainTargets are what the posterior is fitted to: the training targets under the likelihood of the task, with the
// shares and weights of the loss of the training.
func (p *problem) TrainTargets() *gp.Targets {
	to := p.Examples.fitted
	if to == nil {
		return gp.NewTargets(p.Examples.Y, p.Task.Likelihood)
	}
	if _, classes := to.Likelihood.(glm.Logistic); classes {
		return to
	}
	return to.Under(p.Task.Likelihood) // whose noise is settled later
}

// Unit names the unit of an output in words.
func (p *problem) Unit() string {
	names := p.Task.ClassNames()
	switch {
	case p.Task.MultiLabel():
		return "log-odds of the label, in nats"
	case hasLogVariances(p.Task.Likelihood):
		return "that of the target for a mean, and the logarithm of its square for a noise variance"
	case names == nil && p.Task.Quantity("") == "log rate":
		return "the natural logarithm of the rate"
	case names == nil:
		return "that of the target"
	case p.Model.Outputs == 1:
		return fmt.Sprintf("log-odds of %s against %s, in nats", names[1], names[0])
	}
	return "logits in nats, and for a contrast the log-odds of its two classes"
}

// problem decides what the outputs of a model mean, which rows of the data to train on, and how they are scaled. prior
// and saved may be nil; plan, if not nil, looks at the number of training rows.
func (f *asked) problem(ctx context.Context, c *job.Job, m *trainedModel, d *dataset.Data, prior *priorOfFile, saved *savedFile, plan func(n int) error) (*problem, error) {
	t, err := chooseTask(c, f, m, d)
	if err != nil && saved != nil {
		return nil, option.Errorf("%s: its likelihood and classes do not go with %s and %s; give the {model} and the {data} that it was fitted with, or fit it again", saved.path, m.Name, d.Source)
	}
	if err != nil {
		return nil, err
	}
	if err := prior.noise(t, m); err != nil {
		return nil, err
	}
	if m, err = m.withHead(c, t.Likelihood); err != nil {
		return nil, err
	}
	if t.Classes != nil && !leftOutKnown(&f.Data, m, d, saved) {
		parts := []*dataset.Rows{d.Train, d.Valid, d.Test}
		if saved != nil {
			parts = parts[1:] // the training rows are those that were fitted
		}
		if err := checkLeftOut(c, m, d, t.Classes, parts...); err != nil {
			return nil, err
		}
	}
	train, err := chooseRows(ctx, c, f, m, t, d, saved)
	if err != nil {
		return nil, err
	}
	if plan != nil {
		if err := plan(train.Len()); err != nil {
			return nil, err
		}
	}
	if err := t.setLoss(&f.Fit, m, d, train); err != nil {
		return nil, err
	}
	if err := t.checkWeights(d, train); err != nil {
		return nil, err
	}
	m, e, err := newExamples(ctx, c, &f.Fit, m, t, d, train)
	if err != nil {
		return nil, err
	}
	p := &problem{Model: m, Task: t, Examples: e, Saved: saved, Memory: f.Fit.Memory, Seed: f.Fit.Seed, Words: c.Words, asked: f}
	prior.set(t, m)
	if err := saved.setPrior(t, m); err != nil {
		return nil, err
	}
	return p, p.setDecay(ctx, f.Fit.Prior.WeightDecay)
}

// columnsHint says how to tell features from other columns of a table.
func columnsHint(d *dataset.Data) option.Text {
	if d.Images() {
		return ""
	}
	return ", its target columns with {target}, and a column that names the rows with {id}"
}
