package funcgp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// A member is one of several networks, with its explanations of each row.
type member struct {
	result       result.NetworkResult // but for the prediction
	predictions  []result.Prediction
	explanations [][]explain.Explanation // by row and target
}

// ExplainMean explains the mean output of several networks that were trained apart on the same rows, at rows of the first
// posterior. The sums over training rows close as those of one network do, and the error bar of a term is its standard
// error over the networks. It holds four numbers of each training row for each row, output and network. Options that are
// for one network are an error. The options may be nil.
func ExplainMean(ctx context.Context, list []*Posterior, rows *Rows, o *ExplainOptions) ([]Explanation, error) {
	if o == nil {
		o = &ExplainOptions{}
	}
	if len(list) < 2 {
		return nil, errors.New("funcgp: ExplainMean is for several networks; explain one by Posterior.Explain")
	}
	p := list[0]
	if err := p.owns(rows); err != nil {
		return nil, err
	}
	for _, one := range []struct {
		flag  option.Text
		given bool
	}{{"{without}", len(o.Without) > 0}, {"{flip}", len(o.Flip) > 0}, {"{smallest-flip}", o.SmallestFlip}, {"{by-layer}", o.ByLayer}, {"{influence}", o.Influence}} {
		if one.given {
			return nil, p.named(option.Errorf("%s is for one network, not for the mean of %d; give it with one of them", one.flag, len(list)))
		}
	}
	for _, q := range list {
		end, err := q.begin()
		if err != nil {
			return nil, err
		}
		defer end()
		if err := errors.Join(q.problem.alike(p.problem), q.problem.sameOutputs(p.problem)); err != nil {
			return nil, p.named(err)
		}
	}
	out, err := explainMean(p.heard(ctx), list, rows.asked, o)
	return out, p.named(err)
}

func explainMean(ctx context.Context, list []*Posterior, rows *dataset.Rows, o *ExplainOptions) ([]Explanation, error) {
	c, p := job.FromContext(ctx), list[0]
	defer c.Clear()
	asked, err := p.target(o)
	if err != nil {
		return nil, err
	}
	outputs, err := meanOutputs(ctx, list, rows)
	if err != nil {
		return nil, err
	}
	// Besides each output explain what was asked, or the class against the second largest output.
	targets := make([][]explain.Target, rows.Len())
	for i := range targets {
		targets[i] = p.targetsOfMean(outputs.RawRowView(i), asked, o.Only)
	}
	bytes := func(rows int) int64 {
		// Value, raw term, similarity and removal of each training row
		return wholeBytes(4 * 8 * float64(len(list)) * float64(rows) * float64(len(targets[0])) * float64(p.problem.Examples.Train.Len()))
	}
	if most := p.problem.Within(rows.Len(), bytes); most < rows.Len() {
		return nil, option.Errorf("the terms of %d rows by %d networks take %.3g GB; ask for at most %d rows at a time, or raise {max-memory}", rows.Len(), len(list), float64(bytes(rows.Len()))/1e9, max(1, most))
	}
	var members []*member
	said := c.Warnings
	for k, q := range list {
		c.Detail("network %d of %d: %s", k+1, len(list), q.problem.Model.Name)
		m, warned, err := q.member(ctx, rows, targets, o)
		if err != nil {
			return nil, err
		}
		members, said = append(members, m), append(said, warned...)
	}
	c.Warnings = nil
	c.Warn(said...)
	var out []Explanation
	for i := range rows.Len() {
		out = append(out, *p.meanOf(members, rows, i, outputs.RawRowView(i), o))
		if err := c.EndPart(ctx, "predict"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// meanOutputs are the mean outputs of the networks at rows of the first, T×C.
func meanOutputs(ctx context.Context, list []*Posterior, rows *dataset.Rows) (*mat.Dense, error) {
	all := make([]*mat.Dense, len(list))
	for k, q := range list {
		x, err := q.problem.Examples.Inputs(ctx, rows, 0, rows.Len())
		if err != nil {
			return nil, err
		}
		f, err := q.problem.Model.Net.Forward(ctx, x)
		if err != nil {
			return nil, option.Errorf("%s: %w", q.problem.Model.Name, explainError(rows, err))
		}
		all[k] = f
	}
	mean := mat.DenseCopyOf(all[0])
	mean.Apply(func(i, j int, _ float64) float64 {
		v, _ := explain.Over(all, func(f *mat.Dense) float64 { return f.At(i, j) })
		return v
	}, mean)
	return mean, nil
}

// targetsOfMean returns the targets that are explained for a row with the mean outputs f. It compares the
// outputs themselves where targets compares probabilities.
func (p *Posterior) targetsOfMean(f []float64, asked *explain.Target, only bool) []explain.Target {
	first, second := floats.MaxIdx(f), -1
	for k := range f {
		if k != first && (second < 0 || f[k] > f[second]) {
			second = k
		}
	}
	return p.targetsAmong(first, second, asked, only)
}

// member fits one of several networks where that was put off, and explains each row by it. It returns the warnings of
// the fit too.
func (p *Posterior) member(ctx context.Context, rows *dataset.Rows, targets [][]explain.Target, o *ExplainOptions) (*member, linearize.Warnings, error) {
	c, q := job.FromContext(ctx), p.problem
	warned := linearize.Warnings(nil)
	if p.later != nil {
		if err := p.ready(ctx); err != nil {
			return nil, nil, option.Errorf("%s: %w", q.Model.Name, err)
		}
		defer func() { p.post = nil }()
		warned, q = c.Warnings, p.problem
	}
	m := &member{result: result.NetworkResult{Model: cmp.Or(p.File(), q.Model.Name), Fit: p.fit}}
	for i := range rows.Len() {
		batch, err := q.Linearize(ctx, rows, i, i+1)
		if err != nil {
			return nil, nil, explainError(rows.Slice(i, i+1), err)
		}
		pred, err := p.post.Predict(ctx, q.Task, batch, p.link)
		if err != nil {
			return nil, nil, explainError(rows.Slice(i, i+1), err)
		}
		one := p.post.Prediction(q.Task, pred, 0)
		for j := range q.Model.Outputs {
			one.LatentSD = append(one.LatentSD, result.Float(math.Sqrt(pred.Scaled.At(j, j))))
		}
		e, err := explain.New(p.post.Dual, p.post.Kernel, &explain.Options{Terms: o.kernel(), Targets: targets[i], All: true, Limits: linearize.Limits{Memory: q.Memory}})
		if err != nil {
			return nil, nil, err
		}
		found, err := e.Explain(ctx, batch)
		if err != nil {
			return nil, nil, explainError(rows.Slice(i, i+1), err)
		}
		m.predictions, m.explanations = append(m.predictions, one), append(m.explanations, found[0])
		if rows.Len() > 1 {
			c.Show("explain", i+1, rows.Len())
		}
	}
	c.Clear()
	return m, warned, nil
}

// meanOf returns the explanation of row i, whose mean output is f. It releases the members' explanations of the
// row.
func (p *Posterior) meanOf(members []*member, rows *dataset.Rows, i int, f []float64, o *ExplainOptions) *Explanation {
	x := &Explanation{Classes: p.problem.Task.ClassNames(), Labels: p.problem.Task.LabelNames, Meanings: meanings(p.problem, o, len(members)), Fit: members[0].result.Fit}
	x.Input = p.inputOf(rows, i)
	var results []result.NetworkResult
	var predictions []*result.Prediction
	x.Fit.Calibration, x.Fit.Warnings = nil, nil
	for _, m := range members {
		one, said := m.result, &m.predictions[i]
		one.Class, one.Probability, one.Mean = said.Class, said.Probability, said.Mean
		results, predictions = append(results, one), append(predictions, said)
		for _, w := range one.Fit.Warnings {
			w := *linearize.WarningOf(w)
			w.Text = one.Model + ": " + w.Text
			x.Fit.Warnings = append(x.Fit.Warnings, &w)
		}
	}
	x.Networks = result.NewNetworks(results)
	x.Prediction = meanPrediction(p.problem, predictions, f)
	e := &explain.Options{Terms: o.kernel(), Top: o.Top, Groups: p.names.Groups(), Sides: o.Sides || o.Page, Curve: o.Page}
	if o.Page {
		e.Similar = p.mostSimilar()
	}
	for t := range members[0].explanations[i] {
		var each []explain.Explanation
		for _, m := range members {
			each = append(each, m.explanations[i][t])
		}
		x.Outputs = append(x.Outputs, p.output(p.names, explain.MeanOf(each, e)))
	}
	for _, m := range members {
		m.explanations[i] = nil // the columns of all training rows
	}
	return x
}

// meanPrediction is the prediction of the mixture of the networks' posteriors: means of means and
// probabilities, and variances within networks and between them. The class, and the
// probability without uncertainty, follow from the mean output f.
func meanPrediction(p *problem, list []*result.Prediction, f []float64) result.Prediction {
	row := mat.NewDense(1, len(f), slices.Clone(f))
	r := result.Prediction{Class: p.Task.Class(f), ClassName: p.NameOf(p.Task.Class(f)), Novelty: &result.Novelty{}}
	// at is the mean over networks of a list of numbers.
	at := func(of func(x *result.Prediction) []result.Float) []result.Float {
		var out []result.Float
		for j := range of(list[0]) {
			v, _ := explain.Over(list, func(x *result.Prediction) float64 { return float64(of(x)[j]) })
			out = append(out, result.Float(v))
		}
		return out
	}
	// sd is √(mean of squares of sd + variance of mean over networks).
	sd := func(mean, sd func(x *result.Prediction) []result.Float) []result.Float {
		var out []result.Float
		for j := range sd(list[0]) {
			within, _ := explain.Over(list, func(x *result.Prediction) float64 { v := float64(sd(x)[j]); return v * v })
			out = append(out, result.Float(math.Sqrt(within+between(list, func(x *result.Prediction) (a, b result.Float) { return mean(x)[j], mean(x)[j] }))))
		}
		return out
	}
	mean := func(x *result.Prediction) []result.Float { return x.Mean }
	probability := func(x *result.Prediction) []result.Float { return x.Probability }
	r.Mean, r.Probability = at(mean), at(probability)
	r.ProbabilitySD = sd(probability, func(x *result.Prediction) []result.Float { return x.ProbabilitySD })
	r.LatentSD = sd(mean, func(x *result.Prediction) []result.Float { return x.LatentSD })
	for j := range f {
		var line []result.Float
		for l := range f {
			within, _ := explain.Over(list, func(x *result.Prediction) float64 { return float64(x.Covariance[j][l]) })
			line = append(line, result.Float(within+between(list, func(x *result.Prediction) (a, b result.Float) { return x.Mean[j], x.Mean[l] })))
		}
		r.Covariance = append(r.Covariance, line)
	}
	response := func(x *result.Prediction) []result.Float { return x.ObservationMean }
	r.ObservationMean = at(response)
	r.ObservationSD = sd(response, func(x *result.Prediction) []result.Float { return x.ObservationSD })
	r.FunctionSD = sd(mean, func(x *result.Prediction) []result.Float { return x.FunctionSD })
	for _, one := range []struct {
		to *result.Float
		of func(x *result.Novelty) result.Float
	}{{&r.Novelty.Score, func(x *result.Novelty) result.Float { return x.Score }}, {&r.Novelty.Entropy, func(x *result.Novelty) result.Float { return x.Entropy }}, {&r.Novelty.MutualInformation, func(x *result.Novelty) result.Float { return x.MutualInformation }}, {&r.Novelty.Rank, func(x *result.Novelty) result.Float { return x.Rank }}} {
		v, _ := explain.Over(list, func(x *result.Prediction) float64 { return float64(one.of(x.Novelty)) })
		*one.to = result.Float(v)
	}
	if hasClasses(p.Task.Likelihood) {
		r.MAPProbability = byNetwork(p.Task, row)
	}
	return r
}

// between is the covariance of two numbers over all networks.
func between(list []*result.Prediction, of func(x *result.Prediction) (a, b result.Float)) float64 {
	meanA, _ := explain.Over(list, func(x *result.Prediction) float64 { a, _ := of(x); return float64(a) })
	meanB, _ := explain.Over(list, func(x *result.Prediction) float64 { _, b := of(x); return float64(b) })
	v, _ := explain.Over(list, func(x *result.Prediction) float64 {
		a, b := of(x)
		return (float64(a) - meanA) * (float64(b) - meanB)
	})
	return v
}
