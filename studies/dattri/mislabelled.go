package dattri

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/table"
)

// shuffles are those of the audit by labels, and inspected the shares of the rows that are
// looked at, the most suspicious ones.
const shuffles = 4

var inspected = []float64{.1, .2}

// A suspicion is how well a method finds wrong labels.
type suspicion struct {
	Method, By string
	evaluate.Detection
}

// mislabelled gives a tenth of the rows wrong labels, trains networks on them, and judges
// which rows scores suspect.
func (s *study) mislabelled(ctx context.Context) error {
	t := &table.Table{Header: []string{"network", "method", "by", "AUROC", "standard error"}}
	for _, share := range inspected {
		t.Header = append(t.Header, fmt.Sprintf("found in the first %g %%", 100*share), "standard error")
	}
	for _, g := range []setting{regression, mlp} {
		g = s.of(g)
		type key struct{ method, by string }
		found, order := map[key][][]float64{}, map[key]int{}
		for seed := range s.seeds {
			on := []any{s.data, s.audited, s.networks, s.dim, s.strength, g, seed}
			list, err := step(ctx, s, "mislabelled-"+g.Name, on, func(ctx context.Context) ([]suspicion, error) {
				return s.suspects(ctx, g, seed)
			})
			if err != nil {
				return err
			}
			for _, one := range list {
				k := key{one.Method, one.By}
				if _, ok := order[k]; !ok {
					order[k] = len(order)
				}
				found[k] = append(found[k], append([]float64{one.AUROC}, one.Found...))
			}
		}
		for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int { return order[a] - order[b] }) {
			row := []any{g.Name, k.method, k.by}
			for j := range 1 + len(inspected) {
				var v []float64
				for _, one := range found[k] {
					v = append(v, one[j])
				}
				mean, sd := stat.MeanStdDev(v, nil)
				row = append(row, mean, stat.StdErr(sd, float64(len(v))))
			}
			t.Add(row...)
		}
	}
	return s.record("mislabelled", "Wrong labels", t)
}

// suspects judges all methods on one network, which is trained on wrong labels of its own.
func (s *study) suspects(ctx context.Context, g setting, seed int) ([]suspicion, error) {
	d, err := s.open(ctx, s.audited, 1)
	if err != nil {
		return nil, err
	}
	_, wrong := evaluate.FlipLabels(d.y, classes, s.audited/10, uint64(seed))
	d.testX, d.testY = d.x, d.y
	r, err := g.retraining(d, "")
	if err != nil {
		return nil, err
	}
	q, err := problem(ctx, r, d, evaluate.Run{Seed: uint64(seed)}, shares...)
	if err != nil {
		return nil, err
	}
	halves, err := halfNetworks(ctx, r, s.audited, s.networks)
	if err != nil {
		return nil, err
	}
	length, err := g.length(s.audited)
	if err != nil {
		return nil, err
	}
	m, err := match(ctx, q, length)
	if err != nil {
		return nil, err
	}
	delta := length * m.Factor
	const said = "%s, wrong labels %d: the match is δ = %.4g, the length of the training %.4g\n\n"
	if _, err := fmt.Fprintf(s.out, said, g.Name, seed, delta, length); err != nil {
		return nil, err
	}
	early, err := problem(ctx, r, d, evaluate.Run{Seed: uint64(seed)}, g.Early...)
	if err != nil {
		return nil, err
	}
	loss := *q
	loss.Target = evaluate.LogProb{Likelihood: q.Likelihood}
	small := fmt.Sprintf(" of %d networks of halves", s.networks)
	dim := min(s.dim, s.audited/2)

	audits, err := s.audits(ctx, q, wrong, delta)
	if err != nil {
		return nil, err
	}
	for _, a := range []struct {
		name    string
		problem *evaluate.Problem
		method  evaluate.Method
	}{
		{" at the match", q, evaluate.Kernel{Precision: delta, Strength: s.strength}},
		{" of the own log p at the match", &loss, evaluate.Kernel{Precision: delta, Strength: s.strength}},
		{" at the length of the training", q, evaluate.Kernel{Precision: length, Strength: s.strength}},
		{"", early, evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: 2 * length, Strength: s.strength, AtTheta: true}}},
		{"", q, evaluate.TracIn{}},
		{" of the own log p", &loss, evaluate.TracIn{}},
		{"", q, evaluate.EKFAC{}},
		{" of the own log p", &loss, evaluate.EKFAC{}},
		{small, q, evaluate.TRAK{Dim: dim, Networks: halves}},
		{" of one network of a half", q, evaluate.TRAK{Dim: dim, Networks: halves[:1]}},
		{" of the network", q, evaluate.TRAK{Dim: dim}},
		{"", q, evaluate.GradientDot{}},
		{"", q, evaluate.LastLayer{}},
		{"", q, evaluate.Random{Seed: uint64(seed)}},
	} {
		list, err := a.method.Attribute(ctx, a.problem)
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			own, others := evaluate.OwnScores(one.Scores), evaluate.OtherScores(one.Scores)
			audits = append(audits,
				suspicion{one.Name + a.name, "own score", evaluate.Detect(own, wrong, inspected...)},
				suspicion{one.Name + a.name, "scores of the others", evaluate.Detect(others, wrong, inspected...)})
		}
	}
	return audits, nil
}

// audits judges package audit by labels and at the match, and the network's own loss.
func (s *study) audits(ctx context.Context, q *evaluate.Problem, wrong []bool, delta float64) ([]suspicion, error) {
	net := q.Network
	x, err := net.Linearize(ctx, q.X)
	if err != nil {
		return nil, err
	}
	var losses []float64
	for i := range wrong {
		losses = append(losses, -q.Likelihood.LogProb(q.Y.RawRowView(i), x.F.RawRowView(i)))
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	o := &audit.Options{MostPaired: -1, Supports: -1}
	draws := audit.Shuffles(net.Theta(), net.Params(), shuffles, 0, func(theta []float64) (*linearize.Batch, error) {
		moved, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return moved.Linearize(ctx, q.X)
	})
	byLabels, err := audit.OfLabels(ctx, ntk.New(prior, net.Theta()), draws, q.Y, classes, o)
	if err != nil {
		return nil, err
	}
	if prior, err = ntk.NewIsotropic(delta, nil); err != nil {
		return nil, err
	}
	post, err := kept.Refit(ctx, x, gp.NewTargets(q.Y, q.Likelihood), prior, net.Theta(), &kept.Options{Strength: s.strength})
	if err != nil {
		return nil, err
	}
	atMatch, err := audit.Of(ctx, post, q.Likelihood, q.Y, o)
	if err != nil {
		return nil, err
	}
	densities := func(a *audit.Audit) []float64 {
		var v []float64
		for _, x := range a.Examples {
			v = append(v, -x.LogDensity)
		}
		return v
	}
	return []suspicion{
		{"audit by labels", "loss without the row", evaluate.Detect(densities(&byLabels.Audit), wrong, inspected...)},
		{"audit at the match", "loss without the row", evaluate.Detect(densities(atMatch), wrong, inspected...)},
		{"the network", "its own loss", evaluate.Detect(losses, wrong, inspected...)},
	}, nil
}
