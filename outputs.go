package funcgp

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A network of more than manyOutputs classes has fewOutputs of them told apart where FitOptions.Outputs is
// empty.
const manyOutputs, fewOutputs = 100, "top:10"

// parseOutputs reads FitOptions.Outputs. It returns K for top:K, or a list of classes, and neither for "" and
// all.
func parseOutputs(text string) (top int, list []string, err error) {
	if text == "" || text == "all" {
		return 0, nil, nil
	}
	if k, ok := strings.CutPrefix(text, "top:"); ok {
		if top, err = strconv.Atoi(k); err != nil || top < 1 {
			return 0, nil, job.Usagef("{outputs=%s}: want a number of classes, such as top:10", text)
		}
		return top, nil, nil
	}
	if list, err = job.SplitNames(text); err != nil {
		return 0, nil, job.Usagef("{outputs=%v}", err)
	}
	return 0, list, nil
}

// A grouping says which classes are told apart. The classes of the task are these classes, and last one class
// for all the others.
type grouping struct {
	Kept    []int    // outputs of the network that are told apart, in order
	Classes []int    // labels of all classes of the network, in the order of its outputs
	Names   []string // of all classes; nil where they have none
	Others  float64  // mean probability that the network gives to the others, over the rows it was asked about

	to     []int // by class of the network: its number in the task
	labels []int // of the classes of the task
}

// othersName is the name of the class that stands for all classes that are not told apart.
const othersName = "others"

// Grouped returns the problem with the classes told apart that FitOptions.Outputs names. By default, of more
// than 100 classes, these are the ten that the network finds most probable, in the mean over the training rows.
// A problem whose classes are all told apart comes back as it is, and so does the problem of a saved posterior,
// which was grouped when the file was opened.
func (p *problem) Grouped(ctx context.Context, c *job.Job) (*problem, error) {
	return p.groupedBy(ctx, c, p.Examples.Train, "the training rows")
}

// GroupedFor is Grouped with the most probable classes of these rows, which come back with the classes that are told
// apart.
func (p *problem) GroupedFor(ctx context.Context, c *job.Job, rows *dataset.Rows) (*problem, *dataset.Rows, error) {
	g, err := p.groupedBy(ctx, c, rows, "the rows asked for")
	if err != nil || g == p {
		return p, rows, err
	}
	return g, g.Examples.grouped(rows), nil
}

// groupedBy is Grouped with the mean over these rows.
func (p *problem) groupedBy(ctx context.Context, c *job.Job, rows *dataset.Rows, what string) (*problem, error) {
	text, t, m := p.asked.Fit.Outputs, p.Task, p.Model
	top, list, err := parseOutputs(cmp.Or(text, fewOutputs))
	switch {
	case err != nil:
		return nil, err
	case p.Saved != nil || text == "all" || text == "" && !p.ManyClasses():
		return p, nil
	case !isSoftmax(t.Likelihood):
		return nil, option.Errorf("{outputs} is for classes with an output each, but %s has %s; leave it out", m.Name, t.Predicts())
	}
	share, own := make([]float64, m.Outputs), make([]float64, m.Outputs) // mean probability of each class over the rows
	if err := m.forward(ctx, p.Examples, rows, func(_ int, f *mat.Dense) {
		for i := range f.RawMatrix().Rows {
			t.Likelihood.MeanTo(own, f.RawRowView(i))
			floats.Add(share, own)
		}
	}); err != nil {
		return nil, err
	}
	for k := range share {
		share[k] /= float64(rows.Len())
	}
	var kept []int
	for _, name := range list {
		k, err := p.OutputOf(name)
		if err != nil {
			return nil, option.Errorf("{outputs}: %s is not one of the classes %s; choose among them", name, job.Cut(t.list(), 60))
		}
		kept = append(kept, k)
	}
	if list == nil {
		// Find the positions of the k largest numbers, by falling size.
		at := make([]int, len(share))
		for i := range at {
			at[i] = i
		}
		slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(share[b], share[a]) })
		kept = at[:min(top, len(at))]
	}
	if len(kept) >= m.Outputs-1 && list == nil {
		return p, nil // none to take together
	}
	g, err := p.group(kept)
	if err != nil {
		return nil, err
	}
	by := g.Task.Grouping
	for k, v := range share {
		if by.to[k] == len(kept) {
			by.Others += v
		}
	}
	if len(kept) < m.Outputs {
		are := "stay apart"
		if len(kept) == 1 {
			are = "stands alone"
		}
		c.Note("%s tells %s classes apart; %s %s, and the other %s, with probability %.3g in the mean over %s, are one class, %q; {outputs} chooses others",
			m.Name, job.Count(m.Outputs), job.Cut(job.JoinNames(g.Task.Names[:len(kept)]), 80), are, job.Count(m.Outputs-len(kept)), by.Others, what, othersName)
	}
	return g, nil
}

// ManyClasses tells whether more classes are told apart than the default would.
func (p *problem) ManyClasses() bool {
	return p.Model.Outputs > manyOutputs && isSoftmax(p.Task.Likelihood)
}

// group returns the problem in which the outputs that kept lists are told apart.
func (p *problem) group(kept []int) (*problem, error) {
	net, err := p.Model.Net.GroupOutputs(kept)
	if err != nil {
		return nil, err
	}
	t, e, q := *p.Task, *p.Examples, *p
	all := t.ClassNames()
	g := &grouping{Kept: kept, Classes: t.Classes, Names: t.Names, to: slices.Repeat([]int{len(kept)}, p.Model.Outputs)}
	t.Classes, t.Names = nil, nil
	for i, k := range kept {
		g.to[k] = i
		t.Classes, t.Names = append(t.Classes, g.Classes[k]), append(t.Names, all[k])
	}
	if len(kept) < p.Model.Outputs {
		others := othersName
		for slices.Contains(all, others) {
			others = "all " + others
		}
		t.Classes, t.Names = append(t.Classes, min(0, slices.Min(g.Classes))-1), append(t.Names, others)
	}
	g.labels = t.Classes
	t.Grouping = g
	e.grouping = g
	e.Train = e.grouped(e.Train)
	q.Task, q.Examples, q.Model = &t, &e, p.Model.Trained(net)
	_, q.Model.Outputs, _ = net.Dims()
	if e.Y, err = q.Targets(e.Train); err == nil {
		e.fitted = t.objective(e.Train, e.Y, q.Model.Outputs)
	}
	return &q, err
}

// grouped returns rows with the classes of the task.
func (e *examples) grouped(rows *dataset.Rows) *dataset.Rows {
	if e.grouping == nil || rows == nil {
		return rows
	}
	return rows.Grouped(e.grouping.to, e.grouping.labels)
}

// OwnClass returns the name of the class of row i of a subset if that class is not told apart from others, and
// "" otherwise.
func (t *problemTask) OwnClass(rows *dataset.Rows, i int) string {
	g := t.Grouping
	if g == nil || rows.Class == nil || rows.Class[i] < len(g.Kept) {
		return ""
	}
	k := slices.Index(g.Classes, rows.OwnLabel(i))
	if g.Names != nil {
		return g.Names[k]
	}
	return strconv.Itoa(g.Classes[k])
}

// Ungrouped returns all classes of the network. Rows are selected by these.
func (t *problemTask) Ungrouped() (classes []int, names []string) {
	if t.Grouping == nil {
		return t.Classes, t.Names
	}
	return t.Grouping.Classes, t.Grouping.Names
}

// Report is the grouping as JSON shows it; nil for none.
func (g *grouping) Report() *result.Grouped {
	if g == nil {
		return nil
	}
	return &result.Grouped{Of: len(g.Classes), Kept: g.Kept, Others: result.Float(g.Others)}
}
