package funcgp

import (
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// ExplainOptions are the options of Explain.
type ExplainOptions struct {
	Top int // terms to list; 0 is 8
	// For and Against are the two classes, or outputs of a regression, whose difference is explained; give both
	// or neither. By default they are the most probable class and the next, of a network with one output for two
	// classes the second class and the first, and of a regression Output is explained.
	For, Against string
	Output       int
	// Influence says what each listed row does together with many others. It takes another factor of the kernel at each
	// call, and a posterior of all training rows (Method "exact" or "kept").
	Influence bool
}

// An Explanation writes a number as a sum over all training rows:
//
//	Mean = PriorMean + Sum + Remainder
type Explanation struct {
	Prediction Prediction
	// For and Against are the classes or outputs whose difference is explained: log-odds of classes. Against
	// is "" where one output is explained.
	For, Against    string
	Mean            float64 // f(x;θ*), or the difference of two of its outputs
	PriorMean       float64 // what the trained features say before any label is used
	ContributionSum float64 // Σ Value over all training rows
	Remainder       float64 // the rest, which no training row explains
	// SumResidual says how far the sum adds up: the sum of the raw terms (E12), which equals ContributionSum in exact
	// arithmetic, less ContributionSum. It is rounding while its size is at most SumTolerance.
	SumResidual, SumTolerance float64
	Contributions             []Contribution // the largest by |Value|
}

// A Contribution is what one training row has to do with a prediction, in the unit of Mean.
type Contribution struct {
	Index      int      // number in the file of the data
	ID, Label  string   // name of the row and its class or target
	Value      float64  // C(x*,x_i) b_i (E14): positive raises Mean
	SD         float64  // of Value, had the label been drawn anew
	Removal    float64  // change of Mean on leaving the row out, to first order (E15); NaN where unknown
	Influence  *float64 // Mean with the row less without it, the others at half of their weight; nil without ExplainOptions.Influence
	Similarity float64  // posterior correlation with the row explained, from −1 to 1
}

// Explain explains each of the rows. The options may be nil.
func (p *Posterior) Explain(ctx context.Context, rows *Rows, o *ExplainOptions) ([]Explanation, error) {
	if o == nil {
		o = &ExplainOptions{}
	}
	asked, err := p.asked(o)
	if err != nil {
		return nil, err
	}
	top := o.Top
	if top == 0 {
		top = 8
	}
	if top < 0 {
		return nil, fmt.Errorf("funcgp: ExplainOptions.Top is %d; give how many terms to list, or 0 for 8", top)
	}
	e, err := explain.New(p.post.Dual, p.post.Kernel, &explain.Options{Top: top, ErrorBars: true, Limits: linearize.Limits{Memory: p.problem.Limits.Memory}})
	if err != nil {
		return nil, named(err)
	}
	var half gp.Dual
	if o.Influence {
		if half, err = p.post.AtHalfWeights(ctx, job.New(nil), p.problem); err != nil {
			return nil, named(err)
		}
	}
	var out []Explanation
	err = p.each(ctx, rows, nil, func(lo int, b *linearize.Batch, pred *inference.Predictions) error {
		for i := range b.Len() {
			targets, at := inference.Targets(p.problem, pred, i, asked), o.Output
			if at == 0 && len(targets) > p.problem.Model.Outputs {
				at = len(targets) - 1
			}
			list, err := e.ExplainTargets(ctx, b.Slice(i, i+1), nil, targets)
			if err == nil && half != nil {
				err = explain.AddInfluence(ctx, half, b.Slice(i, i+1), list[0])
			}
			if err != nil {
				return problem.ExplainError(rows.asked.Slice(lo+i, lo+i+1), err)
			}
			one := p.explanation(&list[0][at], targets[at].Of(pred.Mean.RawRowView(i)))
			one.Prediction = p.prediction(rows.asked, lo+i, pred, i)
			if o.For != "" && o.For != one.For {
				// The opposite of one output for two classes.
				one.For, one.Against = one.Against, one.For
				for _, v := range []*float64{&one.Mean, &one.PriorMean, &one.ContributionSum, &one.Remainder, &one.SumResidual} {
					*v = -*v
				}
				for i := range one.Contributions {
					c := &one.Contributions[i]
					c.Value, c.Removal = -c.Value, -c.Removal
					if c.Influence != nil {
						*c.Influence = -*c.Influence
					}
				}
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

// asked is what options ask to be explained, nil for the default.
func (p *Posterior) asked(o *ExplainOptions) (*explain.Target, error) {
	c := p.problem.Model.Outputs
	switch {
	case o.Output < 0 || o.Output >= c:
		return nil, fmt.Errorf("funcgp: there is no output %d; the network has outputs 0 to %d", o.Output, c-1)
	case o.For == "" && o.Against == "":
		return nil, nil
	case o.For == "" || o.Against == "":
		return nil, fmt.Errorf("funcgp: ExplainOptions.For and Against are given together")
	}
	plus, minus, err := p.problem.Contrasted(problem.JoinNames([]string{o.For, o.Against}))
	if err != nil {
		return nil, named(err)
	}
	if c == 1 && p.problem.Task.Classes != nil {
		return nil, nil
	}
	t := explain.Contrast(plus, minus)
	return &t, nil
}

// explanation is what an explanation says of the mean.
func (p *Posterior) explanation(x *explain.Explanation, mean float64) Explanation {
	out := Explanation{Mean: mean, PriorMean: x.PriorMean, ContributionSum: x.Sum, Remainder: mean - x.PriorMean - x.Sum, SumResidual: x.Residual(), SumTolerance: x.Tolerance()}
	names := p.problem.Task.ClassNames()
	if names == nil {
		names = p.problem.OutputNames()
	}
	name := func(k int) string {
		switch {
		case k >= 0 && k < len(names):
			return names[k]
		case k >= 0 && p.problem.Examples.Data.Target != "":
			return p.problem.Examples.Data.Target
		}
		return fmt.Sprintf("output %d", k)
	}
	switch out.For = name(x.Target.Plus); {
	case p.problem.Task.Classes != nil && p.problem.Model.Outputs == 1:
		out.For, out.Against = names[1], names[0]
	case x.Target.IsContrast():
		out.Against = name(x.Target.Minus())
	}
	for _, t := range p.names.Output(*x).Contributions {
		one := Contribution{Index: int(t.Index), ID: t.ID, Label: t.LabelName, Value: float64(t.Value), Removal: float64(t.Removal), Influence: (*float64)(t.Influence), Similarity: float64(t.Similarity), SD: float64(result.Undefined())}
		if t.SD != nil {
			one.SD = float64(*t.SD)
		}
		if one.Label == "" {
			one.Label = number(float64(t.Label))
		}
		out.Contributions = append(out.Contributions, one)
	}
	out.Contributions = slices.Clip(out.Contributions)
	return out
}
