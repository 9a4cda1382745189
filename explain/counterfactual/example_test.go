package counterfactual_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// line is the model f = θ₀ + θ₁ x at θ* = 0, linear in its parameters.
func line(x ...float64) *linearize.Batch {
	n := len(x)
	j := mat.NewDense(n, 2, nil)
	for i, v := range x {
		j.SetRow(i, []float64{1, v})
	}
	params := []linearize.Span{{Name: "θ", Rows: 1, Cols: 2}}
	return &linearize.Batch{
		X: mat.NewDense(n, 1, x), F: mat.NewDense(n, 1, nil), P: 2,
		Blocks: []linearize.Block{&linearize.Full{J: j, Params: params, C: 1}},
	}
}

// targets are labels of two classes.
func targets(y ...float64) *gp.Targets {
	return gp.NewTargets(mat.NewDense(len(y), 1, y), glm.Bernoulli{})
}

// Two classes along a line, and what the probability of class 1 at x = ½ would be with
// other training data.
func Example() {
	ctx := context.Background()
	prior, err := ntk.NewIsotropic(.1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel := ntk.New(prior, []float64{0, 0})
	train, y := line(-2, -1, 0, 1, 2), targets(0, 0, 1, 0, 1)
	post, err := gp.Refit(ctx, kernel, train, y, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := counterfactual.New(ctx, post, kernel, y, linearize.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ch := range []struct {
		what string
		y    *gp.Targets
		add  *linearize.Batch
	}{
		{"as it is", targets(0, 0, 1, 0, 1), nil},
		{"without example 2", targets(0, 0, 1, 0, 1).Without(2), nil},
		{"example 3 labelled 1", targets(0, 0, 1, 1, 1), nil},
		{"with another 0 at 1", targets(0, 0, 1, 0, 1, 0), line(1)},
	} {
		q, err := m.Fit(ctx, ch.y, ch.add)
		if err != nil {
			fmt.Println(err)
			return
		}
		var mean, cov, p mat.Dense
		if err := q.PredictTo(ctx, &mean, &cov, line(.5)); err != nil {
			fmt.Println(err)
			return
		}
		if err := (predictive.Exact{}).PredictTo(&p, nil, glm.Bernoulli{}, &mean, &cov); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %.3f\n", ch.what, p.At(0, 0))
	}
	// Output:
	// as it is: 0.494
	// without example 2: 0.305
	// example 3 labelled 1: 0.801
	// with another 0 at 1: 0.387
}

// The examples without which the class of x = ½ would be another.
func ExampleModel_SmallestFlip() {
	ctx := context.Background()
	prior, err := ntk.NewIsotropic(.1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel := ntk.New(prior, []float64{0, 0})
	train, y := line(-2, -1, 0, 1, 2, 3), targets(0, 0, 1, 0, 1, 1)
	post, err := gp.Refit(ctx, kernel, train, y, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := counterfactual.New(ctx, post, kernel, y, linearize.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	flip, err := m.SmallestFlip(ctx, line(.5), &counterfactual.FlipOptions{Most: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("class %d, without examples %v class %d; confirmed %t\n", flip.From, flip.Rows, flip.To, flip.Confirmed)
	// Output:
	// class 1, without examples [2] class 0; confirmed true
}
