package funcgp

import (
	"context"
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/job"
)

// An Audited row is a training row with what the other rows say of it. Numbers that do not exist are NaN.
type Audited struct {
	Index      int     // number in the file of the data
	ID, Label  string  // name of the row and its class or target
	LogDensity float64 // log probability (density) of the label without the row, in nats
	// Of classes: the most probable one without the row, and the probabilities of it and of the label.
	Suggested                              string
	SuggestedProbability, LabelProbability float64
	Residual                               []float64 // of a regression, for each target: (y − E y)/sd y without the row
	Leverage                               float64   // how many of its outputs the row fixes by itself, tr Λh, from 0 to C; of the posterior
	Entropy                                float64   // of the class probabilities of the posterior without the row, in nats
}

// Audit predicts each training row without it, as gpexplain audit does, and returns the top rows
// that the others contradict most, the lowest LogDensity first; of classes only rows whose label is not the most
// probable one. top 0 is 20. Labels and targets are predicted by a regression of those of the other rows on the Jacobian
// at shuffled parameters, which no label has trained (audit.OfLabels); counts, and labels of more than 12,000 rows, by
// the posterior without the row in closed form (E17 of doc/equations.md), as leverage and entropy are. A posterior that
// leaves out rows slowly has these of a sample, drawn by the seed of its fit. A negative top is an error,
// and so is a context that is done.
func (p *Posterior) Audit(ctx context.Context, top int) ([]Audited, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if top == 0 {
		top = 20
	}
	if top < 0 {
		return nil, fmt.Errorf("funcgp: %d rows are asked of Audit; give how many to list, or 0 for 20", top)
	}
	own := job.New(nil)
	defer own.Close()
	found, err := p.post.Audit(ctx, own, p.problem, top)
	if err != nil {
		return nil, named(err)
	}
	var out []Audited
	wrong := found.Wrong()
	for _, k := range wrong.Mislabelled {
		x := &wrong.Examples[k]
		if len(out) == top {
			break
		}
		name := p.names.Named(x.Index)
		a := Audited{Index: int(name.Index), ID: name.ID, Label: name.LabelName, LogDensity: x.LogDensity, Leverage: math.NaN(), Entropy: math.NaN(),
			SuggestedProbability: math.NaN(), LabelProbability: math.NaN(), Residual: x.Residual}
		if own := found.Of(x.Index); own != nil {
			a.Leverage, a.Entropy = own.Leverage, own.Entropy
		}
		if a.Label == "" {
			a.Label = number(float64(name.Label))
		}
		if classes := p.problem.Task.ClassNames(); classes != nil {
			if !x.Suspect() {
				continue
			}
			a.Suggested, a.SuggestedProbability, a.LabelProbability = classes[x.Suggested], x.Probability[x.Suggested], x.Probability[x.Label]
		}
		out = append(out, a)
	}
	return out, nil
}
