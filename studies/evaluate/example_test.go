package evaluate_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// Rows of two classes lie on two sides of a line, with some beyond it. Networks are trained
// on halves of them, and the sums of removals tell their outputs at other rows.
func Example() {
	ctx := context.Background()
	rows := func(n, from int) (x, y *mat.Dense) {
		x, y = mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
		for i := range n {
			k := i + from
			class := float64(k % 2)
			x.SetRow(i, []float64{2*class - 1 + float64(k*37%21-10)/8, float64(k*53%17-8) / 8})
			y.Set(i, 0, class)
		}
		return x, y
	}
	r := &evaluate.Retraining{
		Network: func(seed uint64) (*network.Network, error) {
			return network.Seeded(seed, network.Shape{2}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
		},
		Loss:    glm.Bernoulli{},
		Options: train.Options{LBFGS: 100, Epochs: -1},
	}
	var testY *mat.Dense
	r.X, r.Y = rows(60, 0)
	r.Test, testY = rows(10, 100)

	subsets := evaluate.Subsets(60, 30, 40, 0)
	var runs []evaluate.Run
	for _, list := range subsets {
		runs = append(runs, evaluate.Run{Rows: list})
	}
	outputs, err := r.Outputs(ctx, runs)
	if err != nil {
		panic(err)
	}
	outcomes := evaluate.Outcomes(outputs, testY, evaluate.Margin{})

	net, err := r.Train(ctx, evaluate.Run{})
	if err != nil {
		panic(err)
	}
	p := &evaluate.Problem{Network: net, X: r.X, Y: r.Y, TestX: r.Test, TestY: testY, Likelihood: glm.Bernoulli{}}
	list, err := evaluate.Kernel{Precision: 1}.Attribute(ctx, p)
	if err != nil {
		panic(err)
	}
	var sums mat.Dense
	for _, a := range list {
		if a.Name == "removal" {
			evaluate.PredictionsTo(&sums, a.Scores, subsets)
		}
	}
	score := evaluate.Datamodel(&sums, outcomes, 0)
	fmt.Printf("linear datamodeling score above a half: %t, over %d rows\n", score.Mean > 0.5, score.Rows)
	// Output:
	// linear datamodeling score above a half: true, over 10 rows
}

// Two runs of dattri's protocol agree by .541, so no method can score more than .736 against one.
func ExampleCeiling() {
	fmt.Printf("%.3f against one run, %.3f against the mean of two\n", evaluate.Ceiling(0.541, 1), evaluate.Ceiling(0.541, 2))
	// Output:
	// 0.736 against one run, 0.838 against the mean of two
}
