package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/variational"
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
	{"glm", "GLM", (*linearized).unrefined},
	{"variational", "GLM refine", (*linearized).variational},
	{"variational-diagonal", "GLM refine d", (*linearized).variationalDiagonal},
}

// refineOptions end a refinement where every site is within a hundredth of a posterior
// standard deviation of its condition.
func (m *linearized) refineOptions() *variational.Options {
	return &variational.Options{Tolerance: 1e-2, Points: 1024, Limits: linearize.Limits{Memory: m.job.o.MaxMemory}}
}

// unrefined is the Laplace posterior at θ*. Where the model has more function values N·C
// than parameters, it and its refinements draw parameters.
func (m *linearized) unrefined(ctx context.Context) error {
	if m.inFunctionSpace() {
		return m.glm(ctx)
	}
	q, err := variational.LaplaceDraws(ctx, m.train, m.data.Train.Y, m.lik, m.prior, m.theta, nil)
	if err != nil {
		return err
	}
	return m.linearDraws(ctx, "glm", q)
}

// variational is the Gaussian with the largest lower bound on the evidence of the
// linearized model [glm 3.2].
func (m *linearized) variational(ctx context.Context) error {
	if !m.inFunctionSpace() {
		return m.refineDraws(ctx, "variational", false)
	}
	q, err := variational.RefineFunction(ctx, ntk.New(m.prior, m.theta), m.train, m.data.Train.Y, m.lik, m.refineOptions())
	if err != nil {
		return err
	}
	m.warn(q.Warnings())
	return m.sampled(ctx, "variational", q)
}

// variationalDiagonal is that with independent parameters.
func (m *linearized) variationalDiagonal(ctx context.Context) error {
	if !m.inFunctionSpace() {
		return m.refineDraws(ctx, "variational-diagonal", true)
	}
	q, err := variational.RefineDiagonal(ctx, m.train, m.data.Train.Y, m.lik, m.prior, m.theta, m.refineOptions())
	if err != nil {
		return err
	}
	m.warn(q.Warnings())
	return m.sampled(ctx, "variational-diagonal", q)
}

func (m *linearized) refineDraws(ctx context.Context, method string, diagonal bool) error {
	q, err := variational.RefineDraws(ctx, m.train, m.data.Train.Y, m.lik, m.prior, m.theta, &variational.DrawsOptions{Diagonal: diagonal, Seed: uint64(m.job.split)})
	if err != nil {
		return err
	}
	return m.linearDraws(ctx, method, q)
}

// linearDraws scores the linearized model with drawn parameters [glm 13].
func (m *linearized) linearDraws(ctx context.Context, method string, q Drawn) error {
	n, c := m.held.F.Dims()
	samples := mat.NewDense(m.job.size.samples, len(m.theta), nil)
	if err := q.SampleTo(ctx, samples, rand.New(rand.NewPCG(uint64(m.job.split), 0xd4a3))); err != nil {
		return err
	}
	response, density := mat.NewDense(n, c, nil), make([]float64, n)
	f, step, g := make([]float64, n*c), make([]float64, len(m.theta)), make([]float64, c)
	for s := range m.job.size.samples {
		m.held.MulVecTo(f, floats.SubTo(step, samples.RawRowView(s), m.theta))
		floats.Add(f, m.held.F.RawMatrix().Data)
		for i := range n {
			at := f[i*c:][:c]
			m.lik.MeanTo(g, at)
			floats.AddScaled(response.RawRowView(i), 1/float64(m.job.size.samples), g)
			density[i] += math.Exp(m.lik.LogProb(m.heldRows.Y.RawRowView(i), at)) / float64(m.job.size.samples)
		}
	}
	for i, v := range density {
		density[i] = math.Log(v)
	}
	m.keep(method, response, density)
	return ctx.Err()
}

// pageRefine makes the page of the study refine.
func pageRefine(tables []*uciTable, size *uciSize) (*Page, error) {
	page := &Page{Title: "Variational refinements", Lead: []string{
		"GLM draws from the Laplace posterior of the model that is linearized at θ*. GLM refine draws from the Gaussian with the largest lower bound on the evidence of that model, and GLM refine d from the one with independent parameters. Each chooses its precision δ by its own negative log likelihood (NLL) of the validation rows.",
		"The source takes 250 steps of natural gradients with one draw each, at a rate of .01 and of .001 with independent parameters, from the Laplace posterior on. Here the bound is at its largest, or, where the model has more function values N·C than parameters, 8 steps at a rate of .5 with 32 draws each have gone towards it.",
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
	page.Setting("refinements", "where N·C is at most the number of parameters, until each site is within .01 posterior standard deviations of its condition, with expectations of more than two classes by 1,024 points of quasi–Monte Carlo or a trapezoid; else 8 steps")
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
