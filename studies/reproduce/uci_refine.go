package reproduce

import (
	"context"
	"fmt"
	"strings"

	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/linearize"
)

// refine compares the GLM predictive at θ* with those of variational refinements, on the
// splits and at the precisions of the study uci.
var refine = &Study{Verb: "reproduce",
	Name:   "refine",
	Short:  "variational refinements of the GLM predictive on tables of classes",
	Source: "[glm] table 1, refine",
	Data:   uciData,
	Sets:   uciNames(),
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		return planUCI(ctx, o, 2, refineMethods, func(s uciSet) int { return s.refined }, pageRefine)
	},
}

var refineMethods = []uciMethod{
	{"glm", "GLM", (*linearized).glm},
	{"variational", "GLM refine", (*linearized).variational},
	{"variational-diagonal", "GLM refine d", (*linearized).variationalDiagonal},
}

// refineOptions end a refinement where every site is within a hundredth of a posterior
// standard deviation of its condition.
func (m *linearized) refineOptions() *variational.Options {
	return &variational.Options{Tolerance: 1e-2, Points: 1024, Limits: linearize.Limits{Memory: m.job.o.MaxMemory}}
}

// variational is the Gaussian with the largest lower bound on the evidence of the
// linearized model [glm 3.2].
func (m *linearized) variational(ctx context.Context) error {
	q, err := variational.Refine(ctx, m.train, m.targets(), m.prior, m.theta, m.refineOptions())
	if err != nil {
		return err
	}
	m.warn(q.Warnings())
	return m.sampled(ctx, "variational", q)
}

// variationalDiagonal is that with independent parameters.
func (m *linearized) variationalDiagonal(ctx context.Context) error {
	q, err := variational.RefineStructure(ctx, weightspace.Diagonal, m.train, m.targets(), m.prior, m.theta, m.refineOptions())
	if err != nil {
		return err
	}
	m.warn(q.Warnings())
	return m.sampled(ctx, "variational-diagonal", q)
}

// pageRefine makes the page of the study refine.
func pageRefine(tables []*uciTable, size *uciSize) (*Page, error) {
	page := &Page{Title: "Variational refinements", Lead: []string{
		"GLM draws from the Laplace posterior of the model that is linearized at θ*. GLM refine draws from the Gaussian with the largest lower bound on the evidence of that model, and GLM refine d from the one with independent parameters. Each chooses its precision δ by its own negative log likelihood (NLL) of the validation rows.",
		"The source takes 250 steps of natural gradients with one draw each, at a rate of .01 and of .001 with independent parameters, from the Laplace posterior on. Here the bound is at its largest.",
	}}
	scores := &Table{Name: "nll", Caption: "NLL of the test rows: mean over the splits ± its standard error, and by how much a refinement is above GLM on the same split.", Head: []string{"set", "training rows", "splits"}}
	chosen := &Table{Name: "precision", Caption: "The geometric mean over splits of the precision δ that was chosen.", Digits: 2, Head: []string{"set"}}
	for _, m := range refineMethods {
		scores.Head, chosen.Head = append(scores.Head, m.title), append(chosen.Head, m.title)
	}
	scores.Head = append(scores.Head, "refine − GLM", "refine d − GLM")
	var names []string
	for _, t := range tables {
		names = append(names, t.set.name)
		row, published := []Cell{Text(t.set.name), Text(fmt.Sprint(t.results[0][0].Examples)), Text(fmt.Sprint(len(t.results)))}, []Cell{Text(t.set.name + ", published"), {}, {}}
		precisions := []Cell{Text(t.set.name)}
		var values [][]float64
		for _, m := range refineMethods {
			c := validated(m.key, m.title)
			nll := t.test(c, nllOf)
			values, row = append(values, nll), append(row, Mean(nll))
			precisions = append(precisions, Number(geometric(t.choose(c), func(c uciChoice) float64 { return c.precision })))
			if v, ok := t.set.published[m.key]; ok {
				published = append(published, Number(v))
			} else {
				published = append(published, Cell{})
			}
		}
		markBest(row[3:], false)
		for _, v := range values[1:] {
			row = append(row, Mean(differences(v, values[0])))
		}
		scores.Rows, chosen.Rows = append(scores.Rows, row), append(chosen.Rows, precisions)
		if t.set.published != nil {
			scores.Rows = append(scores.Rows, append(published, Cell{}, Cell{}))
		}
	}
	page.Sections = []Section{{Title: "Scores of the test rows", Tables: []*Table{scores, chosen}}}
	page.Setting("sets", strings.Join(names, ", "))
	page.Setting("networks, training, precisions", "those of the study uci")
	page.Setting("refinements", "until each site is within .01 posterior standard deviations of its condition, with expectations of more than two classes by 1,024 points of quasi–Monte Carlo or a trapezoid")
	page.Setting("samples", fmt.Sprint(size.samples))
	return page, nil
}

// differences are a − b.
func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}
