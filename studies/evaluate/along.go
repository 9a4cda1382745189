package evaluate

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// AlongTraining adds up the attributions of a Kernel over the checkpoints of the problem,
// each of them a linearization of its own. Networks that are trained again are more alike
// early in their training than at its end, where residuals and Λ of the training rows are
// near zero too.
type AlongTraining struct{ Kernel Kernel }

var _ Method = AlongTraining{}

// Attribute implements Method with the attributions "contributions" and "removal" of the
// Kernel, whose names end in " along the training". θ* of a checkpoint is its parameters.
func (m AlongTraining) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	if len(p.Checkpoints) == 0 {
		return nil, errors.New("evaluate: attributions along the training need checkpoints; set Problem.Checkpoints")
	}
	var sums []Attribution
	for k, at := range p.Checkpoints {
		one := *p
		one.Network = at.Network
		list, err := m.Kernel.Attribute(ctx, &one)
		if err != nil {
			return nil, fmt.Errorf("evaluate: checkpoint %d: %w", k, err)
		}
		// The raw terms are TracIn's in all but their weights.
		for i, a := range []Attribution{list[0], list[2]} {
			if k == 0 {
				sums = append(sums, Attribution{a.Name + " along the training", mat.DenseCopyOf(a.Scores)})
			} else {
				sums[i].Scores.Add(sums[i].Scores, a.Scores)
			}
		}
	}
	return sums, nil
}
