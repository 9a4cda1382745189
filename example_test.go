package funcgp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/sparse/shard"
)

// Why the built-in network says of a test row that it is a 4.
func Example() {
	ctx := context.Background()
	p, err := funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 300}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	rows, err := p.TestRows(ctx, 6)
	if err != nil {
		log.Fatal(err)
	}
	list, err := p.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3})
	if err != nil {
		log.Fatal(err)
	}
	x, sum := list[0].Prediction, list[0].Main()
	fmt.Printf("%s with probability %.2f\n", p.ClassName(x.Class), x.Probability[x.Best()])
	fmt.Printf("%s against %s: %.2f = %.2f + %.2f + %.2f\n", sum.Name, sum.Other, sum.Network, sum.PriorMean, sum.ContributionSum, sum.Remainder)
	for _, c := range sum.Contributions {
		fmt.Printf("training row %d, a %v: %+.2f\n", c.Index, c.Label, c.Value)
	}
	// Output:
	// 4 with probability 0.94
	// 9 against 4: -5.45 = 21.51 + -25.13 + -1.84
	// training row 1388, a 9: +3.97
	// training row 330, a 9: +2.93
	// training row 172, a 4: -2.85
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// digits is the posterior of the built-in network given a few of its digits.
func digits(ctx context.Context) *funcgp.Posterior {
	return must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, nil))
}

// table is a posterior given rows of a table with the columns a and b, for a regression.
func table(ctx context.Context) *funcgp.Posterior {
	net := must(network.Seeded(1, network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1}))
	x, y := mat.NewDense(30, 2, nil), mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.SetRow(i, []float64{float64(i % 5), float64(i) / 10})
		y.Set(i, 0, float64(i)/7+float64(i%3))
	}
	data := funcgp.Data{X: x, Y: y, Columns: []string{"a", "b"}}
	return must(funcgp.Fit(ctx, funcgp.Model{Network: net}, data,
		&funcgp.FitOptions{Likelihood: "gaussian", Standardize: "no", Prior: funcgp.Precision(1), NoiseVariance: new(.1)}))
}

// drawn is a picture of a vertical line, dark on light.
func drawn() image.Image {
	img := image.NewGray(image.Rect(0, 0, 28, 28))
	for at := range img.Pix {
		img.Pix[at] = 255
	}
	for y := 4; y < 24; y++ {
		img.SetGray(14, y, color.Gray{})
		img.SetGray(15, y, color.Gray{})
	}
	return img
}

// A posterior through 20 inducing examples, at a precision of one's own.
func ExampleFit() {
	ctx := context.Background()
	p, err := funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 100}, &funcgp.FitOptions{
		Method: funcgp.Method{Name: "nystrom", Inducing: 20},
		Prior:  funcgp.Precision(10),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println(p.Classes())
	// Output: [4 9]
}

// What Save or gpexplain fit wrote is opened in another process.
func ExampleOpen() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "funcgp"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "digits.gp")
	first := digits(ctx)
	check(first.Save(ctx, path, nil))
	check(first.Close())

	p, err := funcgp.Open(ctx, path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Println(p.ClassName(list[0].Class))
	// Output: 4
}

// The variance falls as the precision rises.
func ExamplePrecision() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Prior: funcgp.Precision(3)}))
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Printf("variance %.1f\n", list[0].Covariance[0][0])
	// Output:
	// variance 124.9
}

// The built-in network records the precision of its training, 10.
func ExampleStated() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Prior: funcgp.Stated()}))
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Printf("variance %.1f\n", list[0].Covariance[0][0])
	// Output:
	// variance 37.4
}

// The precision under which the training rows are likeliest, each predicted without itself.
func ExampleTuned() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Prior: funcgp.Tuned("loo")}))
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Printf("variance %.1f\n", list[0].Covariance[0][0])
	// Output:
	// variance 122.1
}

// The weight decay of a training with a mean loss over these 60 rows, whose precision is 60 times that.
func ExampleWeightDecay() {
	ctx := context.Background()
	o := &funcgp.FitOptions{Prior: funcgp.WeightDecay(.1)}
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, o))
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Printf("variance %.1f\n", list[0].Covariance[0][0])
	// Output:
	// variance 62.3
}

// The covariance is scaled before it makes probabilities.
func ExamplePosterior_Calibration() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	c := p.Calibration()
	fmt.Printf("covariance × %.2f, mean × %.2f\n", c.Scale, c.Temperature)
	// Output:
	// covariance × 1.41, mean × 0.88
}

func ExamplePosterior_Classes() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Println(p.Classes())
	// Output: [4 9]
}

// A row has any number of labels, each with a probability of its own.
func ExamplePosterior_Labels() {
	ctx, dir := context.Background(), filepath.Join("testdata", "corpus", "several-labels")
	data := funcgp.Data{Source: filepath.Join(dir, "train.csv"), TestFile: filepath.Join(dir, "test.csv"), Target: "comedy,drama,family"}
	p := must(funcgp.Fit(ctx, funcgp.Model{File: filepath.Join(dir, "model.onnx")}, data, nil))
	defer p.Close()
	x := must(p.Predict(ctx, must(p.TestRows(ctx, 0))))[0]
	for k, label := range p.Labels() {
		fmt.Printf("%s %.2f ± %.2f\n", label, x.Probability[k], x.ProbabilitySD[k])
	}
	fmt.Println("is", x.LabelName)
	// Output:
	// comedy 0.71 ± 0.05
	// drama 0.30 ± 0.06
	// family 0.10 ± 0.03
	// is comedy
}

func ExamplePosterior_Close() {
	ctx := context.Background()
	p := digits(ctx)
	check(p.Close())
	_, err := p.TestRows(ctx, 6)
	fmt.Println(errors.Is(err, funcgp.ErrClosed))
	// Output: true
}

// Labels of a prediction by name, as of a set of classes.
func ExamplePosterior_ClassName() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Println(p.ClassName(list[0].Class), p.ClassName(list[0].Label))
	// Output: 4 4
}

// The posterior itself, for the packages below.
func ExamplePosterior_Dual() {
	p := digits(context.Background())
	defer p.Close()
	d := p.Dual()
	fmt.Println(d.Data().Len(), "training rows")
	// Output: 60 training rows
}

// The two classes may be named; without names they are the most probable ones.
func ExamplePosterior_Explain() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	list, err := p.Explain(ctx, must(p.TestRows(ctx, 6)), &funcgp.ExplainOptions{Top: 2})
	if err != nil {
		log.Fatal(err)
	}
	x := list[0].Main()
	fmt.Printf("%s against %s: %.2f = %.2f + %.2f + %.2f\n", x.Name, x.Other, x.Network, x.PriorMean, x.ContributionSum, x.Remainder)
	for _, c := range x.Contributions {
		fmt.Printf("training row %d, a %v: %+.2f ± %.2f; without it %+.2f; similarity %.2f\n",
			c.Index, c.Label, c.Value, *c.SD, c.Removal, c.Similarity)
	}
	// Output:
	// 9 against 4: -5.45 = 21.51 + -25.22 + -1.74
	// training row 172, a 4: -10.55 ± 2.39; without it +1.79; similarity 0.18
	// training row 4, a 4: -6.69 ± 1.00; without it +0.40; similarity 0.14
}

// Explanations of many rows one after another, for a program that keeps none.
func ExamplePosterior_EachExplanation() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	check(p.EachExplanation(ctx, must(p.TestRows(ctx, 6, 24)), nil, func(_ int, x *funcgp.Explanation) error {
		_, err := fmt.Printf("row %d: most for training row %d\n", x.Input.Index, x.Main().Contributions[0].Index)
		return err
	}))
	// Output:
	// row 6: most for training row 172
	// row 24: most for training row 298
}

// Two processes explain by a half of the training rows each, and a third adds up.
func ExamplePosterior_ExplainPart() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows, o := must(p.TestRows(ctx, 6)), &funcgp.ExplainOptions{Top: 2}
	first, second := must(p.ExplainPart(ctx, rows, 0, 30, o)), must(p.ExplainPart(ctx, rows, 30, 60, o))
	all := must(explain.Merge([]explain.Explanation{first[0][0], second[0][0]}, []int{0, 30}, &explain.Options{Top: 2}))
	o.Merged = [][]explain.Explanation{{all}}
	x := must(p.Explain(ctx, rows, o))[0].Main()
	fmt.Printf("%.2f = %.2f + %.2f + %.2f\n", x.Network, x.PriorMean, x.ContributionSum, x.Remainder)
	// Output:
	// -5.45 = 21.51 + -25.22 + -1.74
}

// The terms of all training rows, as a matrix.
func ExamplePosterior_Terms() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	terms := must(p.Terms(ctx, must(p.TestRows(ctx, 6, 24)), nil))
	rows, columns := terms.Dims()
	fmt.Printf("%d×%d, the rows sum to %.2f and %.2f\n", rows, columns, floats.Sum(terms.RawRowView(0)), floats.Sum(terms.RawRowView(1)))
	// Output:
	// 2×60, the rows sum to -25.22 and 19.93
}

// A service computes once what all explanations share.
func ExamplePosterior_Prepare() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Prepare(ctx)))
	// Output: true
}

// What the posterior is of, for a service that describes its model.
func ExamplePosterior_Info() {
	p := digits(context.Background())
	defer p.Close()
	about := p.Info()
	fmt.Printf("%s, %s, of %d rows of %v numbers; %d parameters, %d outputs\n",
		about.Method, about.Likelihood, about.Examples, about.InputShape, about.Parameters, about.Outputs)
	fmt.Printf("classes %v; precision %.2f, log evidence %.1f\n", about.Classes, about.PriorPrecision, about.LogEvidence)
	// Output:
	// exact, bernoulli, of 60 rows of [1 28 28] numbers; 4587 parameters, 1 outputs
	// classes [4 9]; precision 10.00, log evidence -51.7
}

func ExamplePosterior_ModelSum() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	sum := must(p.ModelSum(ctx))
	fmt.Println(sum.Name, len(sum.SHA256))
	// Output:
	// the built-in network 64
}

// Rows that are wrong are refused before a long fit.
func ExampleStart() {
	ctx := context.Background()
	s := must(funcgp.Start(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, nil))
	defer s.Close()
	_, err := s.Select(ctx, &funcgp.Query{Index: "1999999"}, 1)
	fmt.Println(err != nil)
	rows := must(s.Select(ctx, &funcgp.Query{Index: "24"}, 1))
	p := must(s.Posterior(ctx, rows))
	fmt.Println(must(p.Predict(ctx, rows))[0].Class)
	// Output:
	// true
	// 9
}

// What would be predicted had two training rows not been there.
func ExamplePosterior_Without() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx, 6))
	with, without := must(p.Predict(ctx, rows))[0], must(p.Without(ctx, rows, 172, 4))[0]
	fmt.Printf("probability of a 4: %.2f with all rows, %.2f without two\n", with.Probability[0], without.Probability[0])
	// Output:
	// probability of a 4: 0.74 with all rows, 0.65 without two
}

// By a posterior of any method.
func ExamplePosterior_WithoutToFirstOrder() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx, 6))
	fmt.Printf("probability of a 4: %.2f\n", must(p.WithoutToFirstOrder(ctx, rows, 172, 4))[0].Probability[0])
	// Output:
	// probability of a 4: 0.49
}

// Training rows whose label the others contradict.
func ExamplePosterior_Audit() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	for _, x := range must(p.Audit(ctx, 2)).Mislabelled {
		fmt.Printf("row %d says %v, the others %v (%.3f)\n", x.Index, x.Label, *x.Suggested, *x.SuggestedProbability)
	}
	// Output:
	// row 272 says 4, the others 9 (0.935)
	// row 145 says 9, the others 4 (0.874)
}

// An audit of all training rows in parts, which can be of other processes.
func ExamplePosterior_AuditPart() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	first, _, err := p.AuditPart(ctx, 0, 30)
	if err != nil {
		panic(err)
	}
	_, scores, err := p.AuditPart(ctx, 30, 60)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(first), len(scores), scores[0].Index)
	// Output:
	// 30 30 145
}

// The lists of rows that were scored before.
func ExamplePosterior_AuditOf() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	scored, _, err := p.AuditPart(ctx, 0, 60)
	if err != nil {
		panic(err)
	}
	fmt.Printf("row %d has the largest leverage\n", must(p.AuditOf(ctx, 1, scored)).Leverage[0].Index)
	// Output:
	// row 199 has the largest leverage
}

// The training rows without which the function would be another.
func ExamplePosterior_Importances() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	for _, x := range must(p.Importances(ctx, 2)).Importances {
		fmt.Printf("row %d, a %v: %.2f\n", x.Index, x.Label, x.Norm)
	}
	// Output:
	// row 199, a 9: 0.35
	// row 272, a 4: 0.28
}

// The log evidence, and the prior precision under which it is highest.
func ExamplePosterior_Evidence() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{AtTheta: true}))
	defer p.Close()
	e := must(p.Evidence(ctx, &funcgp.EvidenceOptions{Maximize: "refit"}))
	fmt.Printf("%.1f at precision %v, %.1f at %.2g\n", e.Refit, e.PriorPrecision, e.Optimum.Best.LogEvidence, 1/e.Optimum.Best.Variances[0])
	// Output:
	// -51.7 at precision 10, -19.8 at 6.7e-05
}

// The Gaussian posterior with the largest lower bound on the evidence: its sites are averaged over the posterior itself.
func ExampleFit_variational() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Inference: "variational"}))
	defer p.Close()
	f := p.Report(ctx)
	fmt.Printf("%.2f = %.2f - %.2f\n", f.ELBO.Value, f.ELBO.ExpectedLogLikelihood, f.ELBO.KL)
	x := must(p.Explain(ctx, must(p.TestRows(ctx, 6)), nil))[0]
	fmt.Printf("%.2f = %.2f + %.2f\n", x.Prediction.Mean[0], x.Outputs[0].PriorMean, x.Outputs[0].ContributionSum)
	// Output:
	// -50.25 = -5.10 - 45.15
	// -8.54 = 21.51 + -30.05
}

// Weight space and function space give the same posterior.
func ExamplePosterior_Validate() {
	ctx := context.Background()
	model := funcgp.Model{Freeze: []string{"Dense1.weight"}} // its largest matrix is taken as it is
	p := must(funcgp.Fit(ctx, model, funcgp.Data{TrainCount: 60}, nil))
	defer p.Close()
	v := must(p.Validate(ctx, 0))
	fmt.Println(v.OK, len(v.Rows), v.Rows[0].Quantity, len(v.LeaveOneOut.Rows))
	// Output:
	// true 11 mean 20
}

// A prior by the Fisher information of each parameter.
func ExampleGPrior() {
	ctx := context.Background()
	p := must(funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Prior: funcgp.GPrior()}))
	defer p.Close()
	fmt.Println(p.Report(ctx).Prior.Kind, p.Report(ctx).Prior.Held)
	// Output:
	// g 30
}

// What a model card is written from.
func ExamplePosterior_Card() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	c := must(p.Card(ctx))
	fmt.Println(c.Info.Model, c.InputShape, c.Classes, c.Holds == result.NoFile)
	// Output:
	// the built-in network [1 28 28] [4 9] true
}

// What a model is made of.
func ExampleInspect() {
	x := must(funcgp.Inspect(context.Background(), funcgp.Model{}, nil))
	fmt.Println(x.Parameters, x.Outputs, x.Operators)
	// Output:
	// 4587 1 map[Conv:2 Flatten:1 Gemm:3 MaxPool:2 Relu:4]
}

// What a page says of where its numbers come from.
func ExamplePosterior_Origin() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	o := must(p.Origin(ctx))
	fmt.Printf("%s of %s, %d test rows, ink %v\n", o.Model, o.Data, o.Record.Test.Rows, o.Invert)
	// Output:
	// the built-in network of digits (seed 0), 800 test rows, ink true
}

// A service keeps a posterior open for as long as it answers by it.
func ExamplePosterior_Hold() {
	p := digits(context.Background())
	release := must(p.Hold())
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	release()
	fmt.Println(<-closed)
	// Output: <nil>
}

// Whether inputs are grey levels from 0 to 255, for a service that checks numbers of its own.
func ExamplePosterior_GreyLevels() {
	ctx := context.Background()
	p, q := digits(ctx), table(ctx)
	defer p.Close()
	defer q.Close()
	fmt.Println(p.GreyLevels(), q.GreyLevels())
	// Output: true false
}

// Whether pictures are light on dark, as those of MNIST.
func ExamplePosterior_Dark() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Dark(ctx)))
	// Output: true
}

// Which row of the data a row is.
func ExampleRows_Named() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	row := must(p.TestRows(ctx, 6)).Named(0)
	fmt.Println(row.Index, row.Label)
	// Output: 6 4
}

// The rows as numbers, pixels from 0 to 1.
func ExampleRows_Values() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	x := must(must(p.TestRows(ctx, 6)).Values(ctx))
	fmt.Println(mat.Max(x) <= 1)
	// Output: true
}

// The picture of a training row.
func ExamplePosterior_Pictures() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	var err error
	picture := p.Pictures(ctx, &err)(172)
	fmt.Println(picture.Image.Bounds(), err)
	// Output:
	// (0,0)-(28,28) <nil>
}

// What the posterior rests on.
func ExamplePosterior_Report() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	r := p.Report(ctx)
	fmt.Println(r.Method, r.Examples, r.Match.Used, r.Preflight.Verdict)
	// Output:
	// exact 60 stated ok
}

// Which rows of a pool to label first, by a package below.
func ExamplePosterior_Latent() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx))
	found := must(audit.Acquire(ctx, p.Latent(), p.Likelihood(), rows.Source(ctx), 0, linearize.Limits{}))
	fmt.Println(rows.Index(found.Ranking[0]))
	// Output:
	// 3524
}

// The likelihood, for packages below.
func ExamplePosterior_Likelihood() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Println(p.Likelihood().Name())
	// Output:
	// bernoulli
}

// The class that outputs say.
func ExamplePosterior_ClassOf() {
	p := digits(context.Background())
	defer p.Close()
	label, name := p.ClassOf([]float64{-3})
	fmt.Printf("%v %q\n", label, name)
	// Output:
	// 4 ""
}

// Rows that the posterior is not trained on.
func ExamplePosterior_Pool() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Pool(ctx, "digits:400,100")).Len())
	// Output:
	// 80
}

// The number of a row in the data.
func ExampleRows_Index() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx, 24, 6))
	fmt.Printf("%d %q\n", rows.Index(1), rows.ID(1))
	// Output:
	// 6 ""
}

// The name of a row, where the data has names.
func ExampleRows_ID() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Printf("%q\n", must(p.TestRows(ctx, 24)).ID(0))
	// Output:
	// ""
}

// The label of a row by its number.
func ExampleRows_Label() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TestRows(ctx, 24)).Label(0))
	// Output:
	// 9
}

// What messages call a row.
func ExampleRows_Name() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TestRows(ctx, 24)).Name(0))
	// Output:
	// digits (seed 0): test row 24
}

// At which row numbers went wrong.
func ExampleRows_Located() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	err := &gp.NotFiniteError{What: "mean", Row: 1, Value: math.Inf(1)}
	fmt.Println(must(p.TestRows(ctx, 6, 24)).Located(err))
	// Output:
	// funcgp: digits (seed 0): test row 24: the mean (output 0) is +Inf; check the numbers there, or give another Precision
}

// The outputs of the network and their Jacobian, for packages below.
func ExampleRows_Source() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	b := must(linearize.Gather(ctx, must(p.TestRows(ctx, 24)).Source(ctx), []int{0}))
	fmt.Printf("%.2f\n", b.F.At(0, 0))
	// Output:
	// 6.56
}

// The classes that hold the label of a row with a probability.
func ExamplePosterior_Predictions() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx, 24))
	for _, coverage := range []float64{.5, .8, .95} {
		for x, err := range p.Predictions(ctx, rows, &funcgp.PredictOptions{Coverage: coverage}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(coverage, x.Set)
		}
	}
	// Output:
	// 0.5 [4]
	// 0.8 [4]
	// 0.95 [4 9]
}

// The scores of test rows.
func ExamplePosterior_Summary() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows := must(p.TestRows(ctx))
	all := must(p.Summary(ctx, rows, nil))
	for x, err := range p.Predictions(ctx, rows, nil) {
		if err != nil {
			log.Fatal(err)
		}
		all.Add(x)
	}
	network, calibrated, expected := all.Scores()
	fmt.Printf("accuracy %.3f, NLL %.3f; by the network alone %.3f; expected %.3f\n", calibrated.Accuracy, calibrated.NLL, network.NLL, expected.NLL)
	// Output:
	// accuracy 0.991, NLL 0.146; by the network alone 0.026; expected 0.439
}

// A small set of training rows without which a row is of another class.
func ExamplePosterior_SmallestFlip() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	flip := must(p.SmallestFlip(ctx, must(p.TestRows(ctx, 24)), 0, 0))[0]
	fmt.Println(flip.Found, len(flip.Rows), p.ClassName(flip.Class))
	// Output:
	// true 1 4
}

// Answers in JSON, for a service.
func ExamplePosterior_Predict_json() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	x := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))[0]
	x.Covariance, x.Calibration, x.Novelty = nil, nil, nil
	for _, list := range [][]result.Float{x.Probability, x.ProbabilitySD, x.MAPProbability, x.Mean} {
		for i, v := range list {
			list[i] = result.Float(math.Round(100*float64(v)) / 100)
		}
	}
	fmt.Println(string(must(json.Marshal(x))))
	// Output:
	// {"index":6,"label":4,"class":4,"probability":[0.74,0.26],"probability_sd":[0.39,0.39],"map_probability":[1,0],"mean":[-5.45],"covariance":null}
}

// The prior variance of the network's output at a row.
func ExamplePosterior_Kernel() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	b := must(p.Network().Linearize(ctx, mat.NewDense(1, 784, nil)))
	v := mat.NewDense(1, 1, nil)
	p.Kernel().DiagTo(v, b)
	fmt.Printf("%.2f\n", v.At(0, 0))
	// Output:
	// 10.15
}

func ExamplePosterior_Network() {
	p := digits(context.Background())
	defer p.Close()
	inputs, outputs, parameters := p.Network().Dims()
	fmt.Println(inputs, outputs, parameters)
	// Output:
	// 784 1 4587
}

func ExamplePosterior_Picture() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	rows, err := p.Picture(ctx, drawn(), nil)
	if err != nil {
		log.Fatal(err)
	}
	list := must(p.Predict(ctx, rows))
	fmt.Printf("%s, but more novel than %.0f %% of the training rows\n", p.ClassName(list[0].Class), 100*list[0].Novelty.Rank)
	// Output:
	// 9, but more novel than 100 % of the training rows
}

func ExamplePosterior_Predict() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	list, err := p.Predict(ctx, must(p.TestRows(ctx, 6, 24)))
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range list {
		at := x.Best()
		fmt.Printf("row %d: %s with probability %.2f ± %.2f, by the network alone %.2f; novelty %.2f\n",
			x.Index, p.ClassName(x.Class), x.Probability[at], x.ProbabilitySD[at], x.MAPProbability[at], x.Novelty.Rank)
	}
	// Output:
	// row 6: 4 with probability 0.74 ± 0.39, by the network alone 1.00; novelty 0.82
	// row 24: 9 with probability 0.74 ± 0.40, by the network alone 1.00; novelty 0.80
}

// A service reads files of any kind, in bounded memory.
func ExamplePosterior_Read() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows, err := p.Read(ctx, strings.NewReader("b,a\n2,1\n"), &funcgp.ReadOptions{Name: "the upload", MaxBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", must(p.Predict(ctx, rows))[0].ObservationMean[0])
	_, err = p.Read(ctx, strings.NewReader("b,a\n2,\n"), &funcgp.ReadOptions{Name: "the upload"})
	fmt.Println(err)
	// Output:
	// 0.26
	// funcgp: the upload:2: column 2 (a): missing value; fill it in or leave the row out
}

// A table with a header, whose columns may be in any order and among others.
func ExamplePosterior_ReadCSV() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows, err := p.ReadCSV(ctx, strings.NewReader("b,name,a\n2,first,1\n.5,second,3\n"))
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range must(p.Predict(ctx, rows)) {
		fmt.Printf("%.2f ± %.2f, the function ± %.2f\n", x.ObservationMean[0], x.ObservationSD[0], x.FunctionSD[0])
	}
	// Output:
	// 0.26 ± 1.05, the function ± 0.13
	// -0.60 ± 1.05, the function ± 0.12
}

func ExamplePosterior_ReadPicture() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	var file bytes.Buffer
	check(png.Encode(&file, drawn()))
	rows, err := p.ReadPicture(ctx, &file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.ClassName(must(p.Predict(ctx, rows))[0].Class))
	// Output:
	// 9
}

func ExamplePosterior_Records() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows, err := p.Records(ctx, []map[string]float64{{"a": 1, "b": 2}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", must(p.Predict(ctx, rows))[0].ObservationMean)

	_, err = p.Records(ctx, []map[string]float64{{"a": 1}})
	fmt.Println(err)
	// Output:
	// [0.26]
	// funcgp: record 0 has no number for column "b"; give all of "a", "b"
}

func ExamplePosterior_Rows() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows, err := p.Rows(ctx, mat.NewDense(2, 2, []float64{1, 2, 3, .5}))
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range must(p.Predict(ctx, rows)) {
		fmt.Printf("%.2f\n", x.ObservationMean)
	}

	// By the names of the columns, in any order and among others.
	rows = must(p.Rows(ctx, mat.NewDense(1, 3, []float64{2, 7, 1}), "b", "id", "a"))
	fmt.Printf("%.2f\n", must(p.Predict(ctx, rows))[0].ObservationMean)
	_, err = p.Rows(ctx, mat.NewDense(1, 2, nil), "a", "c")
	fmt.Println(err)
	_, err = p.Rows(ctx, mat.NewDense(1, 3, nil), "a", "b", "a")
	fmt.Println(err)
	// Output:
	// [0.26]
	// [-0.60]
	// [0.26]
	// funcgp: the rows: there is no column "b"; use the column names of the data, or none
	// funcgp: the rows: two columns have the same name "a"; rename one
}

// A bundle answers where neither network nor data are.
func ExamplePosterior_Save() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "funcgp"))
	defer os.RemoveAll(dir)
	p := table(ctx)
	defer p.Close()
	path := filepath.Join(dir, "table.gp")
	fmt.Println(p.Save(ctx, path, nil))
	fmt.Println(p.Save(ctx, path, &funcgp.SaveOptions{Bundle: true}))
	// Output:
	// funcgp: no file is there to remember of a network or rows in memory; save with Bundle
	// <nil>
}

func ExamplePosterior_Export() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "funcgp"))
	defer os.RemoveAll(dir)
	p := digits(ctx)
	defer p.Close()
	e := must(p.Export(ctx, filepath.Join(dir, "explained.onnx"), 0))
	fmt.Println(e.Outputs)
	fmt.Println(e.Errors["probability"] < 1e-9)
	// Output:
	// [mean covariance probability probability_sd novelty novelty_rank term term_row term_sum]
	// true
}

// The page takes onnxruntime-web from a folder, and does without a server.
func ExamplePosterior_ExportPage() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "funcgp"))
	defer os.RemoveAll(dir)
	p := digits(ctx)
	defer p.Close()
	graph := filepath.Join(dir, "explained.onnx")
	must(p.Export(ctx, graph, 5))
	err := p.ExportPage(ctx, filepath.Join(dir, "draw.html"), graph, dir)
	fmt.Println(err != nil, "as npm's package is not in the folder")
	// Output: true as npm's package is not in the folder
}

func ExamplePosterior_TestRows() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	all, err := p.TestRows(ctx)
	if err != nil {
		log.Fatal(err)
	}
	list := must(p.Predict(ctx, all))
	right := 0
	for _, x := range list {
		if x.Class == x.Label {
			right++
		}
	}
	fmt.Println(right, "of", len(list), "are right")
	// Output:
	// 793 of 800 are right
}

// A program may go by the code of a warning.
func ExamplePosterior_Warnings() {
	p := digits(context.Background())
	defer p.Close()
	for _, err := range p.Warnings() {
		if w := (*linearize.Warning)(nil); errors.As(err, &w) {
			fmt.Printf("%s: value %.2f, limit %.2f\n", w.Code, w.Value, w.Limit)
		}
	}
	// Output:
	// fewer-rows: value 60.00, limit 1500.00
}

func ExamplePosterior_Remarks() {
	p := digits(context.Background())
	defer p.Close()
	for _, err := range p.Remarks() {
		if w := (*linearize.Warning)(nil); errors.As(err, &w) {
			fmt.Printf("%s: value %.2f, limit %.2f\n", w.Code, w.Value, w.Limit)
		}
	}
	// Output:
	// remainder: value 0.52, limit 0.20
}

// Which part of the data rows are of.
func ExampleRows_Part() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TestRows(ctx, 6)).Part(), must(p.Picture(ctx, drawn(), nil)).Part())
	// Output: test file
}

// Errors call rows what a program calls them.
func ExampleRows_Called() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows := must(p.Rows(ctx, mat.NewDense(1, 2, nil)))
	fmt.Println(rows.Name(0), "and", rows.Called("the request").Name(0))
	// Output: the rows and the request
}

func ExampleRows_Len() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TestRows(ctx, 6, 24)).Len())
	// Output: 2
}

// Pictures of the rows for a page of package report.
func ExampleRows_Pictures() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	var unread error
	picture := must(p.TestRows(ctx, 6)).Pictures(ctx, &unread)(6)
	fmt.Println(picture.Image.Bounds().Size(), unread)
	// Output: (28,28) <nil>
}

func ExampleRows_Notes() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Picture(ctx, drawn(), nil)).Notes())
	// Output:
	// [the picture: inverted, since its border has grey level 255, that of the training pictures 0]
}

// The second network was not trained on its data.
func ExamplePosterior_Check() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Println(p.Check())

	q := table(context.Background())
	defer q.Close()
	var w *linearize.Warning
	fmt.Println(errors.As(q.Check(), &w), w.Code)
	// Output:
	// <nil>
	// true bad-fit
}

// What an answer comes from, to be filed with it.
func ExamplePosterior_Record() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Record(ctx)).ModelSHA256[:12])
	// Output: 3223b2bcbe4e
}

func ExamplePrediction_Margin() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	list := must(p.Predict(ctx, must(p.TestRows(ctx, 6))))
	fmt.Printf("%.2f\n", list[0].Margin())
	// Output: 0.48
}

func ExampleRows_Slice() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Predict(ctx, must(p.TestRows(ctx)).Slice(0, 2)))[1].Index)
	// Output: 7
}

// A posterior fitted again without two training rows, which nothing of it has seen then but the network.
func ExamplePosterior_WithoutRows() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	q := must(p.WithoutRows(ctx, []int{172, 4}))
	defer q.Close()
	fmt.Println(p.Info().Examples, q.Info().Examples)
	_, err := p.WithoutRows(ctx, []int{172, 172})
	fmt.Println(err)
	// Output:
	// 60 58
	// funcgp: the list of rows to leave out names training row 172 twice; name it once
}

// A posterior fitted again with more rows of the same columns.
func ExamplePosterior_Append() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	q := must(p.Append(ctx, "digits:400,100", ""))
	defer q.Close()
	fmt.Println(p.Info().Examples, q.Info().Examples > 60)
	// Output:
	// 60 true
}

// A fit without rows has converged, whatever order its steps took.
func ExamplePosterior_Distance() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	q := must(p.WithoutRows(ctx, []int{172, 4}))
	defer q.Close()
	fmt.Println(must(q.Distance(ctx)) < 1e-6)
	// Output:
	// true
}

func ExamplePosterior_TrainingRows() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TrainingRows(ctx)).Len(), must(p.TrainingRows(ctx, 172, 4)).Index(1))
	// Output:
	// 60 4
}

// The numbers of a row as the data have them.
func ExampleRows_Inputs() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(must(p.TrainingRows(ctx, 172, 4)).Inputs(ctx)).Dims())
	// Output:
	// 2 784
}

func ExampleRows_Targets() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.TrainingRows(ctx, 172)).Targets(0))
	// Output:
	// [4]
}

func ExamplePosterior_Unit() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Println(p.Unit())
	// Output:
	// log-odds of 9 against 4, in nats
}

// A pass over the training rows in two parts, which can be of other processes.
func ExampleMerge() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "funcgp"))
	defer os.RemoveAll(dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	chosen := must(funcgp.NewPass(ctx, funcgp.Model{}, funcgp.Data{TrainCount: 60}, &funcgp.FitOptions{Method: funcgp.Method{Inducing: 8}}))
	must(chosen.Save(ctx, file("z.gp")))
	chosen.Close()

	pass := must(funcgp.OpenPass(ctx, file("z.gp"), nil))
	defer pass.Close()
	for i := range 2 {
		r := must(pass.WritePart(ctx, shard.Part{Number: i, Of: 2}, file(fmt.Sprint(i))))
		fmt.Println(r.Part, r.Examples, "rows")
	}
	p := must(funcgp.Merge(ctx, []string{file("0"), file("1")}, nil, "", "", nil))
	defer p.Close()
	fmt.Println(p.Info().Method, p.Info().Examples)
	// Output:
	// 0/2 30 rows
	// 1/2 30 rows
	// nystrom 60
}

// A posterior that was fitted is of no file.
func ExamplePosterior_File() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Printf("%q\n", p.File())
	// Output: ""
}

func ExamplePosterior_OutputNames() {
	p := digits(context.Background())
	defer p.Close()
	fmt.Println(len(p.OutputNames()))
	// Output: 0
}

func ExamplePosterior_Quantity() {
	p := table(context.Background())
	defer p.Close()
	fmt.Printf("%q\n", p.Quantity())
	// Output: ""
}

// How much each feature varies.
func ExamplePosterior_Spread() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	fmt.Printf("%.2f\n", must(p.Spread(ctx)))
	// Output: [1.41 0.87]
}

// Rows as the command takes them.
func ExamplePosterior_Select() {
	ctx := context.Background()
	p := digits(ctx)
	defer p.Close()
	fmt.Println(must(p.Select(ctx, &funcgp.Query{Index: "6-7,24"}, 1)).Len())
	// Output: 3
}

func ExampleRows_Shown() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows := must(p.Records(ctx, []map[string]float64{{"a": 1, "b": 2}}))
	fmt.Println(must(rows.Shown(ctx, 0)).Values)
	// Output: [1 2]
}

// The inputs as the network takes them.
func ExampleRows_Scored() {
	ctx := context.Background()
	p := table(ctx)
	defer p.Close()
	rows := must(p.Records(ctx, []map[string]float64{{"a": 1, "b": 2}}))
	x := must(p.Explain(ctx, rows, nil))[0]
	fmt.Println(must(rows.Scored(ctx, 0, &x.Prediction)).Input)
	// Output: [1 2]
}
