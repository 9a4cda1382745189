package funcgp

import (
	"context"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

type (
	// A Changed is the prediction of a row from other training data.
	Changed = result.Changed
	// A Flip is a small set of training rows without which a row is of another class.
	Flip = result.SmallestFlip
)

// A Relabelled is a training row, by its number in the file of the data, with another label: a class, or of several labels
// one that is taken from the row or given to it.
type Relabelled struct {
	Row   int
	Label string
}

// Without predicts the rows as Predict would had the training rows with these numbers, as of the file of the
// data, not been there: the linearized model is fitted again without them, and the network's answer moves by
// what its mean does. The posterior must be exact or kept. The trained parameters, at which the network is
// linearized, have seen all rows. The posterior keeps what it computed for the latest few sets of training rows.
func (p *Posterior) Without(ctx context.Context, rows *Rows, training ...int) ([]Prediction, error) {
	end, err := p.functions(ctx, "Without")
	if err != nil {
		return nil, err
	}
	var latent gp.Latent
	at, err := p.leftOut("Without", training)
	if err == nil && len(at) > 0 {
		var q *counterfactual.Posterior
		if q, err = p.refit(ctx, "Without", at); err == nil {
			latent = p.post.Changed(q)
		}
	}
	end()
	if err != nil {
		return nil, p.named(err)
	}
	return p.predict(ctx, rows, latent)
}

// WithoutToFirstOrder is Without by a posterior of any method: the mean moves by the sum of what leaving out each of the
// training rows changes to first order, and the covariance stays as it was.
func (p *Posterior) WithoutToFirstOrder(ctx context.Context, rows *Rows, training ...int) ([]Prediction, error) {
	at, err := p.leftOut("WithoutToFirstOrder", training)
	if err != nil {
		return nil, p.named(err)
	}
	var out []Prediction
	var w *explain.Without
	err = p.each(ctx, rows, nil, func(lo int, b *linearize.Batch, pred *predictions) error {
		if w == nil && len(at) > 0 {
			x, err := p.explainer(&explain.Options{Limits: linearize.Limits{Memory: p.problem.Memory}})
			if err != nil {
				return err
			}
			if w, err = x.Without(ctx, at); err != nil {
				return err
			}
		}
		moved := pred
		if w != nil {
			mean := mat.DenseCopyOf(pred.Mean)
			err := w.Each(ctx, b, func(t int, one *mat.Dense) error {
				for i := range at {
					for k, before := range pred.Mean.RawRowView(t) {
						mean.Set(t, k, mean.At(t, k)+one.At(i, k)-before)
					}
				}
				return nil
			})
			if err != nil {
				return explainError(rows.asked.Slice(lo, lo+b.Len()), err)
			}
			if dense.NotFinite(mean.RawMatrix().Data) >= 0 {
				return job.FullErrorf("one of these training rows alone nearly fixes the function, so that rounding leaves no digits of the answer; take another one out")
			}
			if moved, err = pred.WithMean(ctx, mean, p.link); err != nil {
				return err
			}
		}
		for i := range b.Len() {
			out = append(out, p.prediction(rows.asked, lo+i, moved, i))
		}
		return nil
	})
	return out, err
}

// SmallestFlip looks, for each row, for a small set of training rows without which the class of the row
// changes: the class of the largest mean. A smaller set may exist. The posterior must be exact or kept, and its
// likelihood one of classes. The set has at most most training rows, where 0 means a tenth of all; the search
// tries at most tries sets, where 0 means 100.
func (p *Posterior) SmallestFlip(ctx context.Context, rows *Rows, most, tries int) ([]Flip, error) {
	to, err := p.changed(&ExplainOptions{SmallestFlip: true, FlipMost: most, FlipTries: tries})
	if err != nil {
		return nil, p.named(err)
	}
	var out []Flip
	err = p.each(ctx, rows, nil, func(lo int, b *linearize.Batch, _ *predictions) error {
		if to.model == nil {
			if err := to.fit(ctx, p); err != nil {
				return err
			}
		}
		for i := range b.Len() {
			flip, err := to.smallest(ctx, p, b.Slice(i, i+1))
			if err != nil {
				return explainError(rows.asked.Slice(lo+i, lo+i+1), err)
			}
			out = append(out, *flip)
		}
		return nil
	})
	return out, err
}

// A changed describes a change of the training data, and holds the posterior given the changed data.
type changed struct {
	flag      option.Text
	at        []int      // positions of the rows among the training rows
	classes   []int      // of Flip: their other classes
	targets   *mat.Dense // of Flip of several labels: the targets of all training rows
	posterior *counterfactual.Posterior
	report    Changed // what is the same for every prediction

	search *counterfactual.FlipOptions // nil but of SmallestFlip, which has a set for each prediction
	model  *counterfactual.Model       // of the search
}

// changed looks up the rows of a change among the training rows. It returns nil where none was asked for.
func (p *Posterior) changed(o *ExplainOptions) (*changed, error) {
	q := p.problem
	switch {
	case o.SmallestFlip:
		if q.Task.Classes == nil {
			return nil, option.Errorf("{smallest-flip} looks for another class, but %s has %s, and no class; use {without}", q.Model.Name, q.Task.Predicts())
		}
		if n := q.Examples.Train.Len(); o.FlipMost >= n {
			return nil, option.Errorf("{flip-most=%d}: there are %d training rows, of which some must be left; give at most %d", o.FlipMost, n, n-1)
		}
		return &changed{flag: "{smallest-flip}", search: &counterfactual.FlipOptions{Most: o.FlipMost, Tries: o.FlipTries}}, nil
	case len(o.Without) > 0:
		at, err := p.leftOut("{without}", o.Without)
		return &changed{flag: "{without}", at: at, report: Changed{Rows: o.Without}}, err
	case len(o.Flip) == 0:
		return nil, nil
	}
	to := &changed{flag: "{flip}"}
	if !hasClasses(q.Task.Likelihood) {
		return nil, option.Errorf("{flip} is for labels, but %s has the %s likelihood; use {without}", q.Model.Name, q.Task.Likelihood.Name())
	}
	for _, one := range o.Flip {
		to.report.Rows = append(to.report.Rows, one.Row)
	}
	var err error
	if to.at, err = q.TrainPositions(to.flag, to.report.Rows); err != nil {
		return nil, err
	}
	left := mat.DenseCopyOf(q.Examples.Y)
	for k, one := range o.Flip {
		i := to.at[k]
		if q.Task.MultiLabel() {
			name, now, err := q.WithLabel(left.RawRowView(i), one.Label)
			if err != nil {
				return nil, option.Errorf("{flip} %d=%s: %w", one.Row, one.Label, err)
			}
			to.targets = left
			to.report.Labels, to.report.LabelNames = append(to.report.Labels, now), append(to.report.LabelNames, name)
			continue
		}
		class, ok := q.ClassOf(one.Label)
		if !ok {
			return nil, option.Errorf("{flip} %d=%s: %s is not one of the classes %s", one.Row, one.Label, one.Label, q.Task.ClassList())
		}
		if float64(class) == left.At(i, 0) {
			return nil, option.Errorf("{flip} %d=%s: that is the label of training row %d already; give another", one.Row, one.Label, one.Row)
		}
		left.Set(i, 0, float64(class))
		to.classes = append(to.classes, class)
		to.report.Labels = append(to.report.Labels, result.Float(q.Task.Classes[class]))
		if names := q.Task.Names; names != nil {
			to.report.LabelNames = append(to.report.LabelNames, names[class])
		}
	}
	return to, q.CheckLeft(to.flag, left, make([]bool, q.Examples.Train.Len()))
}

// leftOut returns the ascending positions of the training rows that an option or method leaves out. It is an
// error if no rows remain, or if the remaining rows have fewer than two classes.
func (p *Posterior) leftOut(flag option.Text, training []int) ([]int, error) {
	at, err := p.problem.TrainPositions(flag, training)
	if err != nil {
		return nil, err
	}
	gone := make([]bool, p.problem.Examples.Train.Len())
	for _, i := range at {
		gone[i] = true
	}
	slices.Sort(at)
	return at, p.problem.CheckLeft(flag, p.problem.Examples.Y, gone)
}

// fit finds the posterior with the other training data.
func (to *changed) fit(ctx context.Context, p *Posterior) (err error) {
	c := job.FromContext(ctx)
	if to.search == nil && to.classes == nil && to.targets == nil {
		if to.posterior, err = p.refit(ctx, to.flag, to.at); err == nil {
			c.Warn(to.posterior.Warnings()...)
		}
		c.Clear()
		return err
	}
	if to.model, err = p.counterfactual(ctx, to.flag); err != nil || to.search != nil {
		return err
	}
	y := p.problem.TrainTargets().Without()
	if y.Y = to.targets; to.classes != nil {
		y = p.problem.Relabelled(to.at, to.classes)
	}
	to.posterior, err = to.model.Fit(ctx, y, nil)
	c.Clear()
	if err != nil {
		return explainError(p.problem.Examples.Train, err)
	}
	c.Warn(to.posterior.Warnings()...)
	return nil
}

// answer adds to an explanation what is predicted from the other training data.
func (to *changed) answer(ctx context.Context, p *Posterior, a *answer, x *Explanation) error {
	if to.search != nil {
		var err error
		x.SmallestFlip, err = to.smallest(ctx, p, a.batch)
		return explainError(a.row, err)
	}
	report := to.report
	if _, err := p.post.ChangeTo(ctx, p.problem, &report, to.posterior, a.batch, p.link); err != nil {
		return explainError(a.row, err)
	}
	if x.Without = &report; report.Labels != nil {
		x.Without, x.Flip = nil, &report
	}
	return nil
}

// smallest looks for a small set of training rows without which the one row of x is of another class.
func (to *changed) smallest(ctx context.Context, p *Posterior, x *linearize.Batch) (*Flip, error) {
	c := job.FromContext(ctx)
	flip, _, warnings, err := smallestFlip(ctx, p.problem, p.post, to.model, x, *to.search, p.link)
	c.Clear()
	c.Warn(warnings...)
	return flip, err
}

// refits caches a posterior's answers from other training data: while a picture is drawn, many calls leave the
// same training rows out.
type refits struct {
	sync.Mutex
	model  *counterfactual.Model // nil before the first
	latest []*removal            // the last one first
}

// A removal is the posterior without some training rows, which is computed once.
type removal struct {
	sync.Mutex
	at        []int
	posterior *counterfactual.Posterior // nil until it is computed
}

// mostRemovals is the number of sets of training rows whose posteriors are kept.
const mostRemovals = 4

// counterfactual returns the model that answers from other training data. An error names the option or method
// that needs it.
func (p *Posterior) counterfactual(ctx context.Context, flag option.Text) (*counterfactual.Model, error) {
	r := &p.refits
	r.Lock()
	defer r.Unlock()
	if r.model == nil {
		m, err := counterfactualModel(ctx, p.job, p.problem, p.post, flag)
		if err != nil {
			return nil, err
		}
		r.model = m
	}
	return r.model, nil
}

// refit returns the posterior without the training rows at these ascending positions. Another call may have
// computed it already.
func (p *Posterior) refit(ctx context.Context, flag option.Text, at []int) (*counterfactual.Posterior, error) {
	m, err := p.counterfactual(ctx, flag)
	if err != nil {
		return nil, err
	}
	r := &p.refits
	r.Lock()
	one := &removal{at: at}
	if k := slices.IndexFunc(r.latest, func(one *removal) bool { return slices.Equal(one.at, at) }); k >= 0 {
		one = r.latest[k]
		r.latest = slices.Delete(r.latest, k, k+1)
	}
	r.latest = slices.Insert(r.latest, 0, one)
	r.latest = r.latest[:min(len(r.latest), mostRemovals)]
	r.Unlock()
	one.Lock()
	defer one.Unlock()
	if one.posterior == nil {
		q, err := m.Fit(ctx, p.problem.TrainTargets().Without(at...), nil)
		if err != nil {
			return nil, explainError(p.problem.Examples.Train, err)
		}
		one.posterior = q
	}
	return one.posterior, nil
}

// changeable returns an error, which names the option or verb, unless a posterior of this method is defined for
// other training data. saved tells whether the posterior is from a file, and refitted whether it comes from a
// refit, as all posteriors do except those in older files.
func changeable(flag option.Text, method string, saved, refitted bool) error {
	if method != "exact" && method != "kept" {
		return notOfAllRows(flag, method, saved)
	}
	if !refitted {
		return option.Errorf("%s: the saved posterior, of an older version, is that at the trained parameters, and other training data are answered for by a refit; fit it again", flag)
	}
	return nil
}
