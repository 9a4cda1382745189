package problem

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
)

// otherInputs looks for another way to scale the inputs under which the network fits its
// training rows: where θ* is an optimum of some weight decay, where the labels agree
// with the outputs in another order, or where it loses less than half and differs by more
// than decides nothing. It returns what it found and what to give for it, "" where there is none.
func (l *look) otherInputs(ctx context.Context) (cause, give string) {
	p := l.problem
	if p.Model.Net == nil {
		return "", ""
	}
	ways, err := inputWays(ctx, p.Examples.Train, p.Model.wholeColumns())
	if err != nil {
		return "", ""
	}
	now := l.nll / l.constant
	if HasNoise(p.Task.Likelihood) {
		now = lossShare(p.Task, nil, l.at.F, p.Examples.Y)
	}
	var best *way
	found := otherScale
	for i := range ways {
		w := &ways[i]
		f, at, err := w.outputs(ctx, p.Model, p.Examples.Train)
		if err != nil {
			continue // where outputs are not finite it is not this way
		}
		y := RowsAt(p.Examples.Y, at)
		w.loss = lossShare(p.Task, nil, f, y)
		var order []int
		if l.confusion != nil {
			logp, label := make([][]float64, len(at)), make([]int, len(at))
			for i, row := range at {
				label[i], logp[i] = p.Examples.Train.Class[row], logProbabilities(f.RawRowView(i))
			}
			order = orderOf(confusionOf(f, label, len(p.Task.Classes)), logp, label, p.Task.Classes, l.constant)
		}
		if order != nil {
			return fmt.Sprintf("its outputs agree with the labels with %s and the classes in another order", w.words), fmt.Sprintf("Give %s --classes %s.", w.flags(ctx, p), classText(order, p.Examples.Data))
		}
		if s := slopeOf(f, y); HasNoise(p.Task.Likelihood) && s.better > found {
			cause, found = fmt.Sprintf("it was trained on scaled targets and with %s", w.words), s.better
			give = fmt.Sprintf("Give %s --target-mean %.6g --target-sd %.6g.", w.flags(ctx, p), s.mean, s.sd)
		}
		if !(w.loss <= now+alike) || w.optimum(ctx, p.Model, p.Task, p.Examples.Train, p.Examples.Y, func(int) {}) != nil {
			continue
		}
		if w.cosine >= optimal && (best == nil || w.cosine > best.cosine) {
			best = w
		}
	}
	if best == nil {
		for i := range ways {
			if w := &ways[i]; w.loss < min(now/2, now-alike, .5) && (best == nil || w.loss < best.loss) {
				best = w
			}
		}
	}
	if best == nil || same(best.inputs, p.Examples.Scaling) {
		return cause, give
	}
	return fmt.Sprintf("it fits them with %s", best.words), fmt.Sprintf("Give %s.", best.flags(ctx, p))
}

// OtherInputs looks for another way to scale the inputs under which the network, with outputs f on the
// training rows, N×C, was trained on these rows: what to give for it, "" where there is none or it is
// known how they are scaled. It is for a network whose parameters are no optimum as its inputs are.
func (p *Problem) OtherInputs(ctx context.Context, f *mat.Dense) (cause, give string) {
	if s := p.Examples.Scaling; p.Model.takesWholeAlone() || s != nil && s.InputsFrom == fromMetadata {
		return "", ""
	}
	l := &look{problem: p, at: &AtTheta{F: f}}
	l.score()
	return l.otherInputs(ctx)
}

// same tells whether inputs scaled by a are those that the network gets.
func same(a *dataset.Scaling, now *Scaling) bool {
	if now == nil || now.Inputs == nil || a == nil {
		return a == nil && (now == nil || now.Inputs == nil)
	}
	return slices.Equal(a.Mean, now.Inputs.Mean) && slices.Equal(a.Scale, now.Inputs.Scale)
}

// flags ask for this way to scale the inputs.
func (w *way) flags(ctx context.Context, p *Problem) string {
	rows, err := p.Examples.Train.Scaling(ctx)
	switch {
	case w.inputs == nil:
		return "--standardize no"
	case err == nil && same(w.inputs, &Scaling{Inputs: rows}):
		return "--standardize yes"
	}
	return fmt.Sprintf("--input-mean %s --input-sd %s", commas(w.inputs.Mean), commas(w.inputs.Scale))
}
