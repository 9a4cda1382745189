package explain_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// theta is where training ended.
var theta = []float64{0.3, 1.1}

// line is the model f(x) = θ₀ + θ₁ x.
func line(x ...float64) *linearize.Batch {
	f, j := mat.NewDense(len(x), 1, nil), mat.NewDense(len(x), 2, nil)
	for i, v := range x {
		f.Set(i, 0, theta[0]+theta[1]*v)
		j.SetRow(i, []float64{1, v})
	}
	params := []linearize.Span{{Name: "theta", Rows: 1, Cols: 2}}
	return &linearize.Batch{
		F:      f,
		Blocks: []linearize.Block{&linearize.Full{J: j, Params: params, C: 1}},
		P:      2,
	}
}

// fitLine fits four points with noise variance 1/4 and prior precision 1.
func fitLine() (*gp.Exact, ntk.Kernel) {
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	noise, err := glm.NewGaussian(0.25)
	if err != nil {
		log.Fatal(err)
	}
	kernel := ntk.New(prior, theta)
	y := mat.NewDense(4, 1, []float64{0.1, 1.2, 1.9, 4})
	post, err := gp.Refit(context.Background(), kernel, line(0, 1, 2, 3), gp.NewTargets(y, noise), nil)
	if err != nil {
		log.Fatal(err)
	}
	return post, kernel
}

// Which points make the line what it is at x = 2.5?
func Example() {
	post, kernel := fitLine()
	e, err := explain.New(post, kernel, &explain.Options{Top: 4})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := e.Explain(context.Background(), line(2.5))
	if err != nil {
		log.Fatal(err)
	}
	x := rows[0][0] // first row, first output
	fmt.Printf("%.3f = %.3f + %.3f, terms cancel %.2f to 1\n", x.PriorMean+x.Sum, x.PriorMean, x.Sum, x.Cancellation)
	for _, t := range x.Terms {
		fmt.Printf("example %d: %+.3f, without it %+.3f, similarity %+.2f\n", t.Index, t.Value, t.Removal, t.Similarity)
	}
	// Output:
	// 2.981 = 0.000 + 2.981, terms cancel 1.00 to 1
	// example 3: +2.137, without it -0.696, similarity +0.98
	// example 2: +0.658, without it +0.240, similarity +0.96
	// example 1: +0.189, without it +0.002, similarity +0.46
	// example 0: -0.003, without it +0.005, similarity -0.06
}

// The training points that hold the line in place: those far from it.
func ExampleImportances() {
	post, _ := fitLine()
	for _, i := range explain.Importances(post) {
		fmt.Printf("example %d: |alpha| = %.3f\n", i.Index, i.Norm)
	}
	// Output:
	// example 2: |alpha| = 1.959
	// example 3: |alpha| = 1.710
	// example 0: |alpha| = 0.302
	// example 1: |alpha| = 0.028
}

// bent is the model f(x) = θ₀ + θ₁ tanh(s x), at what training found from some start.
func bent(s float64, theta []float64, x ...float64) *linearize.Batch {
	f, j := mat.NewDense(len(x), 1, nil), mat.NewDense(len(x), 2, nil)
	for i, v := range x {
		f.Set(i, 0, theta[0]+theta[1]*math.Tanh(s*v))
		j.SetRow(i, []float64{1, math.Tanh(s * v)})
	}
	b := line(x...)
	b.F, b.Blocks[0].(*linearize.Full).J = f, j
	return b
}

// Three networks that were trained apart: the sum of their mean output, and which of its
// terms another training would leave as they are.
func ExampleMeanOf() {
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	noise, err := glm.NewGaussian(0.25)
	if err != nil {
		log.Fatal(err)
	}
	y := mat.NewDense(4, 1, []float64{0.1, 1.2, 1.9, 4})
	var each []explain.Explanation
	for _, network := range []struct {
		s     float64
		theta []float64
	}{{0.3, []float64{0.2, 4.9}}, {0.4, []float64{0.1, 4.2}}, {0.5, []float64{0, 3.8}}} {
		kernel := ntk.New(prior, network.theta)
		post, err := gp.Refit(context.Background(), kernel, bent(network.s, network.theta, 0, 1, 2, 3), gp.NewTargets(y, noise), nil)
		if err != nil {
			log.Fatal(err)
		}
		e, err := explain.New(post, kernel, &explain.Options{All: true})
		if err != nil {
			log.Fatal(err)
		}
		rows, err := e.Explain(context.Background(), bent(network.s, network.theta, 2.5))
		if err != nil {
			log.Fatal(err)
		}
		each = append(each, rows[0][0])
	}
	x := explain.MeanOf(each, &explain.Options{Top: 4})
	fmt.Printf("%.3f = %.3f + %.3f + %.3f\n", x.Network, x.PriorMean, x.Sum, x.Remainder)
	for _, t := range x.Terms {
		s := t.Networks.Value
		fmt.Printf("example %d: %+.3f ± %.3f, of one network ± %.3f, distinguishable %t\n", t.Index, t.Value, s.SE, s.SD, s.Distinguishable(t.Value))
	}
	// Output:
	// 3.278 = 0.000 + 2.527 + 0.751
	// example 3: +1.637 ± 0.015, of one network ± 0.026, distinguishable true
	// example 2: +0.635 ± 0.018, of one network ± 0.030, distinguishable true
	// example 1: +0.251 ± 0.006, of one network ± 0.010, distinguishable true
	// example 0: +0.004 ± 0.001, of one network ± 0.002, distinguishable false
}

// A report as text; WriteHTML and WritePNG show more.
func ExamplePage_WriteText() {
	post, kernel := fitLine()
	e, err := explain.New(post, kernel, &explain.Options{Top: 2})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := e.Explain(context.Background(), line(2.5))
	if err != nil {
		log.Fatal(err)
	}
	points := result.Rows{Index: []int{10, 11, 12, 13}, Label: []float64{0.1, 1.2, 1.9, 4}}
	page := &report.Page{Report: &result.Report{
		Input:   result.Input{Split: "test", Index: 7, Label: result.Undefined()},
		Outputs: []result.Output{points.Output(rows[0][0])},
		Fit:     result.Fit{Examples: 4, Outputs: 1, Parameters: 2, Refit: true},
	}}
	if err := page.WriteText(os.Stdout, 72); err != nil {
		log.Fatal(err)
	}
	// Output:
	// test row 7
	//
	// What raises and lowers the prediction
	//
	//   f = prior mean + 4 contributions + remainder, rounded
	//   3.050 = 0.000 + 2.981 + 0.069
	//   f: prediction. Prior mean: what the trained features say before any
	//   label is used. Remainder: the rest of the network's output, which no
	//   training example explains.
	//
	//   row  target      value            - 0 +              removal  similar
	//    13       4      +2.14              │████████████      -0.70     0.98
	//    12     1.9      +0.66              │███▌              +0.24     0.96
	//                    +0.19  the other 2 together
	//   Value: what the example adds to f, in the unit of f: + speaks for
	//   higher values, - for lower values; removal: change of f without the
	//   example, in the same unit; similar: posterior correlation, no unit, -1
	//   to 1.
	//
	//   All 4 contributions pull up by 2.984 and down by 0.003, which leaves
	//   +2.981: they cancel 1.0 to 1. That is little, so the terms listed can
	//   be read one by one. (The same sum written in the prior kernel cancels
	//   9.0 to 1.)
}

// What the prediction would be without each training point, without fitting again.
func ExampleExplainer_Without() {
	post, kernel := fitLine()
	e, err := explain.New(post, kernel, nil)
	if err != nil {
		log.Fatal(err)
	}
	w, err := e.Without(context.Background(), nil) // each of all four
	if err != nil {
		log.Fatal(err)
	}
	err = w.Each(context.Background(), line(2.5), func(_ int, mean *mat.Dense) error {
		for i, row := range w.Rows() {
			fmt.Printf("without example %d: %.3f at x = 2.5, and %.3f at its own place\n", row, mean.At(i, 0), w.Mean().At(i, 0))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// without example 0: 2.987 at x = 2.5, and -0.080 at its own place
	// without example 1: 2.983 at x = 2.5, and 1.210 at its own place
	// without example 2: 3.222 at x = 2.5, and 2.595 at its own place
	// without example 3: 2.285 at x = 2.5, and 2.698 at its own place
}

// Two outputs: why is one larger than the other? Each class has a line of its own.
func ExampleContrast() {
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	two := func(x ...float64) *linearize.Batch {
		f, j := mat.NewDense(len(x), 2, nil), mat.NewDense(2*len(x), 4, nil)
		for i, v := range x {
			f.SetRow(i, []float64{v, -v})
			j.SetRow(2*i, []float64{1, v, 0, 0})
			j.SetRow(2*i+1, []float64{0, 0, 1, v})
		}
		return &linearize.Batch{F: f, P: 4, Blocks: []linearize.Block{&linearize.Full{J: j, Params: []linearize.Span{{Name: "theta", Rows: 2, Cols: 2}}, C: 2}}}
	}
	kernel := ntk.New(prior, []float64{0, 1, 0, -1})
	y := mat.NewDense(4, 1, []float64{1, 1, 0, 0}) // classes
	post, err := gp.Refit(context.Background(), kernel, two(-2, -1, 1, 2), gp.NewTargets(y, glm.Categorical{}), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := explain.New(post, kernel, &explain.Options{Top: 2})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := e.ExplainTargets(context.Background(), two(1.5), nil, []explain.Target{explain.Single(0), explain.Contrast(0, 1)})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range rows[0] {
		fmt.Printf("contrast %t: %.3f + %.3f;", x.Target.IsContrast(), x.PriorMean, x.Sum)
		for _, t := range x.Terms {
			fmt.Printf(" example %d %+.3f", t.Index, t.Value)
		}
		fmt.Println()
	}
	// Output:
	// contrast false: 0.000 + 1.006; example 2 +0.471 example 3 +0.376
	// contrast true: 0.000 + 2.012; example 2 +0.941 example 3 +0.752
}

// The training examples in two parts, as two processes would take them, and the sum over both.
func ExampleMerge() {
	post, kernel := fitLine()
	options := &explain.Options{Top: 2}
	var parts []explain.Explanation
	for _, lo := range []int{0, 2} {
		e, err := explain.New(explain.Part(post, lo, lo+2), kernel, options)
		if err != nil {
			log.Fatal(err)
		}
		rows, err := e.Explain(context.Background(), line(2.5))
		if err != nil {
			log.Fatal(err)
		}
		parts = append(parts, rows[0][0])
		fmt.Printf("examples from %d on: %.3f\n", lo, rows[0][0].Sum)
	}
	x, err := explain.Merge(parts, []int{0, 2}, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("all: %.3f; example %d: %+.3f, example %d: %+.3f\n", x.Sum, x.Terms[0].Index, x.Terms[0].Value, x.Terms[1].Index, x.Terms[1].Value)
	// Output:
	// examples from 0 on: 0.186
	// examples from 2 on: 2.795
	// all: 2.981; example 3: +2.137, example 2: +0.658
}

// A number of three networks: its mean, and how far another training may move it.
func ExampleSpreadOf() {
	mean, s := explain.SpreadOf([]float64{1.2, 0.9, 1.1})
	fmt.Printf("%.3f ± %.3f, of one network ± %.3f, distinguishable from 0: %t\n", mean, s.SE, s.SD, s.Distinguishable(mean))
	// Output:
	// 1.067 ± 0.088, of one network ± 0.153, distinguishable from 0: true
}
