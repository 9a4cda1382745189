package inference

import (
	"fmt"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/problem"
)

// Contrasted is the contrast that was asked for, nil for none.
func Contrasted(p *problem.Problem, contrast string) (*explain.Target, error) {
	if contrast == "" {
		return nil, nil
	}
	if p.Model.Outputs == 1 {
		return nil, fmt.Errorf("--contrast %s: %s has one output, which already weighs its two classes against each other; leave --contrast out", contrast, p.Model.Name)
	}
	a, b, err := p.Contrasted(contrast)
	if err != nil {
		return nil, err
	}
	t := explain.Contrast(a, b)
	return &t, nil
}

// Targets are what is explained of row i: all outputs, then the contrast that was asked for. Without one it is
// that of the predicted class and the runner-up, where each class has an output:
// a softmax compares outputs, and by itself none means anything.
func Targets(p *problem.Problem, pred *Predictions, i int, asked *explain.Target) []explain.Target {
	var list []explain.Target
	for k := range p.Model.Outputs {
		list = append(list, explain.Single(k))
	}
	switch {
	case asked != nil:
		list = append(list, *asked)
	case p.Task.Classes != nil && p.Model.Outputs > 1:
		list = append(list, explain.Contrast(pred.Best(i), pred.RunnerUp(i)))
	}
	return list
}
