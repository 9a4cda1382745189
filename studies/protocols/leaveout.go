package protocols

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// onward is the part of the epochs that a network is trained on from θ*.
const onward = 10

// leaveOneOut are the steps of correlations with what leaving out one row does.
func (p *protocol) leaveOneOut(add step) (page func(r *reproduce.Results) (*reproduce.Page, error)) {
	add("linearized", 1, func(ctx context.Context, _ reproduce.Progress) (any, error) { return p.linearized(ctx) })
	for k := range p.options.Runs {
		add(fmt.Sprintf("onward-%d", k), 1, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.lost(ctx, k, true, progress)
		})
		add(fmt.Sprintf("scratch-%d", k), 6, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.lost(ctx, k, false, progress)
		})
	}
	p.attributions(add)
	return p.leftOutPage
}

// linearized returns what the linearized model of network 0 loses without each row, S×T.
func (p *protocol) linearized(ctx context.Context) (*matrix, error) {
	q, err := p.trained(ctx, 0, []float64{1})
	if err != nil {
		return nil, err
	}
	f, err := evaluate.Kernel{Precision: p.precision(), Strength: p.strength}.Fit(ctx, q)
	if err != nil {
		return nil, err
	}
	var rows []int
	for _, one := range p.subsets() {
		rows = append(rows, one...)
	}
	lost, err := f.LeaveOut(ctx, rows)
	if err != nil {
		return nil, err
	}
	kept := keep(mat.DenseCopyOf(lost.T()))
	return &kept, nil
}

// lost returns the margins of network k trained on all rows less those of networks trained
// without one row, with the same seed, S×T: from their first parameters, or onward from
// the θ* of network 0.
func (p *protocol) lost(ctx context.Context, k int, warm bool, progress reproduce.Progress) (*matrix, error) {
	d, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.retraining(d)
	if err != nil {
		return nil, err
	}
	if warm {
		q, err := p.trained(ctx, 0, []float64{1})
		if err != nil {
			return nil, err
		}
		r.Network = func(uint64) (*network.Network, error) { return q.Network, nil }
		r.Options.Epochs = max(1, p.epochs/onward)
	}
	r.Progress = progress
	runs := []evaluate.Run{{Seed: seed(k, 0)}}
	for _, one := range p.subsets() {
		runs = append(runs, evaluate.Run{Rows: evaluate.Without(p.train, one[0]), Seed: seed(k, 0)})
	}
	outputs, err := r.Outputs(ctx, runs)
	if err != nil {
		return nil, err
	}
	margins := evaluate.Outcomes(outputs, d.testY, evaluate.Margin{})
	lost := mat.NewDense(len(runs)-1, p.test, nil)
	lost.Apply(func(s, t int, _ float64) float64 { return margins.At(0, t) - margins.At(s+1, t) }, lost)
	kept := keep(lost)
	return &kept, nil
}

// leftOutPage shows the correlations.
func (p *protocol) leftOutPage(r *reproduce.Results) (*reproduce.Page, error) {
	exact, err := readMatrix(r, "linearized")
	if err != nil {
		return nil, err
	}
	warm, err := p.readRuns(r, "onward")
	if err != nil {
		return nil, err
	}
	scratch, err := p.readRuns(r, "scratch")
	if err != nil {
		return nil, err
	}
	page := p.newPage(
		"One training row is left out at a time. What the margin of each test row's true class loses is compared with the scores of the training rows: a leave-one-out correlation is Spearman's rank correlation over the rows that are left out, averaged over the test rows. It has no unit; 1 is a perfect prediction of the order, and a positive score of a training row says that the row raises the margin.",
		"The intervals hold 95 % of bootstrap means over test rows, given the rows left out; the standard error over rows is by a jackknife in ten groups.")
	for _, j := range []*judgement{
		{title: "Linearized, exact", table: "linearized", runs: []*mat.Dense{exact},
			text: "The mode of network 0's linearized model with all rows less that without the row, found again by Newton's method. Nothing is trained, and nothing is random."},
		{title: "Trained on from θ*", table: "onward", ceiling: "onward-ceiling", runs: warm, mean: true,
			text: fmt.Sprintf("Network 0 is trained on for %d epochs with all rows, and without the row.", max(1, p.epochs/onward))},
		{title: "Trained again", table: "scratch", ceiling: "scratch-ceiling", runs: scratch, mean: true,
			text: "Networks are trained from their first parameters with all rows, and without the row. All of a run have the same first parameters and minibatches but for the row, whose place another one takes."},
	} {
		j.set, j.sets = "row", "rows"
		s, err := p.scores(r, j)
		if err != nil {
			return nil, err
		}
		page.Sections = append(page.Sections, *s)
	}
	return page, nil
}
