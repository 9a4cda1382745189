package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// A member is one of several networks, with what it says of each row.
type member struct {
	result       result.NetworkResult // but for the prediction
	predictions  []result.Prediction
	explanations [][]explain.Explanation // by row and target
}

// runSeveral explains the mean output of several networks. Their posteriors are made one
// after another, so that one is in memory at a time.
func (s *explainVerb) runSeveral(ctx context.Context, c *console.Console) error {
	list, warned, err := problem.OpenSeveral(ctx, c.Job, s.sources)
	if err != nil {
		return err
	}
	p := list[0]
	rows, err := s.which.Select(ctx, c.Job, p, 1)
	if err != nil {
		return err
	}
	asked := rows
	for k := range list {
		q, subset, err := list[k].GroupedFor(ctx, c.Job, asked)
		if err != nil {
			return err
		}
		if list[k] = q; k == 0 {
			p, rows = q, subset
		}
		if err := q.SameOutputs(p); err != nil {
			return err
		}
	}
	// The mean outputs of the networks at some rows, T×C.
	all := make([]*mat.Dense, len(list))
	for k, p := range list {
		x, err := p.Examples.Inputs(ctx, rows, 0, rows.Len())
		if err != nil {
			return err
		}
		f, err := p.Model.Net.Forward(ctx, x)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Model.Name, problem.ExplainError(rows.Slice(0, rows.Len()), err))
		}
		all[k] = f
	}
	outputs := mat.DenseCopyOf(all[0])
	outputs.Apply(func(i, j int, _ float64) float64 {
		v, _ := explain.Over(all, func(f *mat.Dense) float64 { return f.At(i, j) })
		return v
	}, outputs)
	contrast, err := inference.Contrasted(p, s.contrast)
	if err != nil {
		return err
	}
	targets := make([][]explain.Target, rows.Len())
	for i := range targets {
		// Besides each output explain what was asked, or the class against the second largest output.
		f := outputs.RawRowView(i)
		var list []explain.Target
		for k := range f {
			list = append(list, explain.Single(k))
		}
		switch {
		case contrast != nil:
			list = append(list, *contrast)
		case p.Task.Classes != nil && len(f) > 1:
			first, second := problem.LargestClass(f), -1
			for k := range f {
				if k != first && (second < 0 || f[k] > f[second]) {
					second = k
				}
			}
			list = append(list, explain.Contrast(first, second))
		}
		targets[i] = list
	}
	bytes := func(rows int) int64 {
		// Value, raw term, similarity and removal of each training row
		return problem.WholeBytes(4 * 8 * float64(len(list)) * float64(rows) * float64(len(targets[0])) * float64(p.Examples.Train.Len()))
	}
	if most := p.Within(rows.Len(), bytes); most < rows.Len() {
		return fmt.Errorf("the terms of %d rows by %d networks take %.3g GB; ask for at most %d rows at a time, or raise --max-memory", rows.Len(), len(list), float64(bytes(rows.Len()))/1e9, max(1, most))
	}
	var members []*member
	said := c.Warnings
	for k, one := range list {
		c.Detail("network %d of %d: %s", k+1, len(list), one.Model.Name)
		c.Warnings = warned[k]
		// Fit one network and explain each row by it.
		p := one
		name := cmp.Or(s.sources[k].Posterior, one.Model.Name)
		q, err := inference.Answer(ctx, c.Job, p, s.common.Inference(), s.common.Calibrate())
		if err != nil {
			return fmt.Errorf("%s: %w", p.Model.Name, err)
		}
		p = q.Problem
		m := &member{}
		for i := range rows.Len() {
			batch, err := p.Linearize(ctx, rows, i, i+1)
			if err != nil {
				return problem.ExplainError(rows.Slice(i, i+1), err)
			}
			pred, err := q.Predict(ctx, p.Task, batch, predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs))
			if err != nil {
				return problem.ExplainError(rows.Slice(i, i+1), err)
			}
			one := q.Prediction(p.Task, pred, 0)
			for j := range p.Model.Outputs {
				one.LatentSD = append(one.LatentSD, result.Float(math.Sqrt(pred.Scaled.At(j, j))))
			}
			ex, err := explain.New(q.Dual, q.Kernel, &explain.Options{Terms: s.kernel, Targets: targets[i], All: true, Limits: linearize.Limits{Memory: p.Limits.Memory}})
			if err != nil {
				return err
			}
			found, err := ex.Explain(ctx, batch)
			if err != nil {
				return problem.ExplainError(rows.Slice(i, i+1), err)
			}
			m.predictions, m.explanations = append(m.predictions, one), append(m.explanations, found[0])
			if rows.Len() > 1 {
				c.Show("explain", i+1, rows.Len())
			}
		}
		c.Clear()
		m.result = result.NetworkResult{Model: name, Fit: q.Report(p, c.Warnings)}
		members = append(members, m)
		said = append(said, c.Warnings...)
	}
	c.Warnings = nil
	c.Warn(said...)
	return s.writeAll(ctx, c, list, rows, func(i int, x *explained) (*result.Report, error) {
		// The report of row i on the mean output f.
		f := outputs.RawRowView(i)
		r := &result.Report{Classes: p.Task.ClassNames(), Labels: p.Task.LabelNames, Meanings: s.meanings(p), Fit: members[0].result.Fit}
		var results []result.NetworkResult
		var predictions []*result.Prediction
		r.Fit.Calibration, r.Fit.Warnings = nil, nil
		for _, m := range members {
			one, said := m.result, &m.predictions[i]
			one.Class, one.Probability, one.Mean = said.Class, said.Probability, said.Mean
			results, predictions = append(results, one), append(predictions, said)
			for _, w := range one.Fit.Warnings {
				w := *linearize.WarningOf(w)
				w.Text = one.Model + ": " + w.Text
				r.Fit.Warnings = append(r.Fit.Warnings, &w)
			}
		}
		r.Networks = result.NewNetworks(results)
		r.Prediction = meanPrediction(p, predictions, f)
		names := p.TrainingRows()
		o := &explain.Options{Terms: s.kernel, Top: s.top, Groups: names.Groups()}
		if s.html != "" {
			o.Sides, o.Similar, o.Curve = true, mostSimilar(p), true
		}
		for t := range members[0].explanations[i] {
			var each []explain.Explanation
			for _, m := range members {
				each = append(each, m.explanations[i][t])
			}
			r.Outputs = append(r.Outputs, names.Output(explain.MeanOf(each, o)))
		}
		for _, m := range members {
			m.explanations[i] = nil // the columns of all training rows
		}
		r.Input = x.input
		return r, c.EndPart(ctx, "predict")
	})
}

// meanPrediction is the prediction of the mixture of the networks' posteriors: means of means and
// probabilities, and variances within networks and between them. The class, and the
// probability without uncertainty, follow from the mean output f.
func meanPrediction(p *problem.Problem, list []*result.Prediction, f []float64) result.Prediction {
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
	if problem.HasClasses(p.Task.Likelihood) {
		r.MAPProbability = inference.ByNetwork(p.Task, row)
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
