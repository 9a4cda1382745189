package audit_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// slope is the model f(x) = θ₀ + θ₁ x at θ = (0, 1).
func slope(x ...float64) *linearize.Batch {
	f, j := mat.NewDense(len(x), 1, nil), mat.NewDense(len(x), 2, nil)
	for i, v := range x {
		f.Set(i, 0, v)
		j.SetRow(i, []float64{1, v})
	}
	return &linearize.Batch{F: f, P: 2, Blocks: []linearize.Block{&linearize.Full{J: j, Params: []linearize.Span{{Name: "theta", Rows: 1, Cols: 2}}, C: 1}}}
}

// Below zero lies class 0, above it class 1. The label of example 1 is wrong.
var (
	inputs  = []float64{-4, -3, -2, -1, 1, 2, 3, 4}
	classes = []float64{0, 1, 0, 0, 1, 1, 1, 1}
)

func fitSlope() (*gp.Exact, ntk.Kernel) {
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	kernel := ntk.New(prior, []float64{0, 1})
	post, err := gp.Refit(context.Background(), kernel, slope(inputs...), gp.NewTargets(mat.NewDense(len(classes), 1, classes), glm.Bernoulli{}), nil)
	if err != nil {
		log.Fatal(err)
	}
	return post, kernel
}

// Which labels look wrong, when each example is predicted without itself?
func ExampleOf() {
	post, _ := fitSlope()
	found, err := audit.Of(context.Background(), post, glm.Bernoulli{}, mat.NewDense(len(classes), 1, classes), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, k := range found.Mislabelled[:2] {
		x := found.Examples[k]
		fmt.Printf("example %d: label %d, suggested %d with probability %.2f, suspect %t\n", x.Index, x.Label, x.Suggested, x.Probability[x.Suggested], x.Suspect())
	}
	// Output:
	// example 1: label 1, suggested 0 with probability 0.88, suspect true
	// example 3: label 0, suggested 1 with probability 0.53, suspect true
}

// The same by a regression of the labels, which needs no posterior. A network that was
// trained on the labels knows them: there, take Shuffles for the draws.
func ExampleOfLabels() {
	_, kernel := fitSlope()
	draws := func(yield func(*linearize.Batch, error) bool) { yield(slope(inputs...), nil) }
	found, err := audit.OfLabels(context.Background(), kernel, draws, mat.NewDense(len(classes), 1, classes), 2, nil)
	if err != nil {
		log.Fatal(err)
	}
	x := found.Examples[found.Mislabelled[0]]
	fmt.Printf("example %d: label %d, suggested %d\n", x.Index, x.Label, x.Suggested)
	// Output:
	// example 1: label 1, suggested 0
}

// Of which unlabelled rows would labels tell most, two of them together?
func ExampleAcquire() {
	post, _ := fitSlope()
	pool := slope(-4, -0.2, 0.1, 5)
	found, err := audit.Acquire(context.Background(), post, glm.Bernoulli{}, pool, 2, linearize.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	for _, k := range found.Ranking {
		fmt.Printf("row %d: %.3f nats\n", found.Pool[k].Index, found.Pool[k].Information)
	}
	for _, c := range found.Batch {
		fmt.Printf("batch: row %d adds %.3f nats\n", c.Index, c.Gain)
	}
	// Output:
	// row 0: 0.117 nats
	// row 3: 0.113 nats
	// row 2: 0.048 nats
	// row 1: 0.047 nats
	// batch: row 0 adds 0.115 nats
	// batch: row 3 adds 0.060 nats
}
