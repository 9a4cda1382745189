package evaluate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/evaluate"
)

// Attributions along the training are the sums of those of each checkpoint taken as the
// trained network, and do not depend on the trained network itself.
func TestAlongTraining(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for end, k := range map[string]evaluate.Kernel{"": {Precision: 2}, " at θ*": {Precision: 2, AtTheta: true}} {
			p := problem(t, outputs)
			want := map[string]*mat.Dense{}
			for i, at := range p.Checkpoints {
				one := *p
				one.Network, one.Checkpoints = at.Network, nil
				for name, scores := range attribute(t, k, &one) {
					if i == 0 {
						want[name] = mat.NewDense(7, 40, nil)
					}
					want[name].Add(want[name], scores)
				}
			}
			p.Network = p.Checkpoints[0].Network
			got := attribute(t, evaluate.AlongTraining{Kernel: k}, p)
			require.Len(t, got, 2)
			for _, name := range []string{"contributions" + end, "removal" + end} {
				requireNear(t, want[name], got[name+" along the training"], 1e-12)
			}
		}
	}
}

// Without checkpoints there is nothing to add up, and an error names its checkpoint.
func TestAlongTrainingErrors(t *testing.T) {
	p := problem(t, 3)
	p.Initial = nil
	_, err := evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: 2, FromInitial: true}}.Attribute(t.Context(), p)
	require.ErrorContains(t, err, "checkpoint 0: ")
	p.Checkpoints = nil
	_, err = evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: 2}}.Attribute(t.Context(), p)
	require.EqualError(t, err, "evaluate: attributions along the training need checkpoints; set Problem.Checkpoints")
}
