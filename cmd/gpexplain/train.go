package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

type trainVerb struct {
	common problem.Flags

	archName, activation string
	out                  string
	epochs, batch, lbfgs int
	rate                 float64
	arch                 *arch // parsed from archName and activation by check
}

func trainCommand(con *console.Console) *cobra.Command {
	s := &trainVerb{}
	v := &verb{
		name:  "train",
		short: "Train a network and write it as ONNX",
		long: `Train finds the maximum a posteriori parameters of a network by minibatch Adam
and then full-batch L-BFGS, and writes it with what it was trained on: the
likelihood, the prior precision, the classes, the training rows and the scaling
of the inputs.`,
		example: `  gpexplain train --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out net.onnx
  gpexplain train --data table.csv --split 0 --arch mlp:50-50-1 --activation tanh --out net.onnx`,
		flags: s.add, check: s.check, run: s.run,
		complete: map[string][]string{"arch": {"thesis-cnn", "lenet5", "mlp:"}, "activation": activationNames},
	}
	return v.command(con, &s.common)
}

func (s *trainVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.archName, "arch", "thesis-cnn", "`NAME` of the network: thesis-cnn or lenet5 for 28×28 pictures, or mlp:128-64-10 (hidden widths, then outputs)")
	f.StringVar(&s.out, "out", "", "write the network to `FILE.onnx`; needed")
	f.StringVar(&s.activation, "activation", "relu", "`NAME` of the activation of an mlp: relu or tanh")
	f.IntVar(&s.epochs, "epochs", 30, "`N` passes of Adam over the data; 0 for none")
	f.IntVar(&s.batch, "batch", 256, "`N` examples a step of Adam")
	f.Float64Var(&s.rate, "lr", 3e-3, "first step size `X` of Adam")
	f.IntVar(&s.lbfgs, "lbfgs", 200, "at most `N` iterations of L-BFGS; 0 for none")
}

func (s *trainVerb) check(*cobra.Command) error {
	switch {
	case s.out == "":
		return console.Usagef("--out FILE.onnx is needed")
	case s.epochs < 0 || s.lbfgs < 0:
		return console.Usagef("--epochs and --lbfgs must not be negative")
	case s.batch < 1:
		return console.Usagef("--batch %d must be at least 1", s.batch)
	case !(s.rate > 0 && s.rate < 1e6):
		return console.Usagef("--lr %v must be a positive number", s.rate)
	}
	var err error
	if s.arch, err = parseArch(s.archName, s.activation); err != nil {
		return err
	}
	return console.Distinct([]console.FlagPath{{Flag: "--out", Path: s.out}}, s.common.Files())
}

func (s *trainVerb) run(ctx context.Context, c *console.Console) error {
	if err := console.Writable(s.out); err != nil {
		return err
	}
	f := &s.common
	outputs := func(d *dataset.Data, classes []int) int { return s.arch.outputs(d, f.Task.Likelihood, classes) }
	p, err := problem.OpenToTrain(ctx, c, f, "the "+s.archName+" network", outputs, s.plan)
	if err != nil {
		return err
	}
	// The test rows are looked at first: a fault in them must not cost the
	// training.
	var test *dataset.Subset
	var testY *mat.Dense
	if p.Examples.TestPart().Len() > 0 {
		if test, err = p.Examples.Test(dataset.SelectOptions{}); err != nil {
			return err
		}
		if testY, err = p.Targets(test); err != nil {
			return err
		}
	}
	trained, own, r, err := s.train(ctx, c, p)
	if err != nil {
		return err
	}
	if r.TrainAccuracy, r.TrainNLL, err = trained.Score(ctx, p, p.Examples.Train, p.Examples.Y); err != nil {
		return err
	}
	if r.TestAccuracy, r.TestNLL, err = trained.Score(ctx, p, test, testY); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := atomicfile.Write(s.out, own.WithMetadata(p.TrainMetadata(c.Args)).WriteONNX); err != nil {
		return err
	}
	r.Seconds, r.Warnings = c.Timings().Total, c.Warnings
	if c.JSON {
		return lineEncoder(c.Out).Encode(r)
	}
	return r.text(c.Out)
}

// vectors is how many vectors of length P training holds: the parameters in
// their several copies, Adam's moments and the history of L-BFGS.
const vectors = 120

// plan refuses what cannot fit before anything large is taken, for n training
// examples.
func (s *trainVerb) plan(data *dataset.Data, n int) error {
	d, memory := problem.Elements(data.Shape), s.common.Limits.Memory
	fixed := 8 * vectors * s.arch.parameters(d)
	if budget := gp.MemoryBudget(memory); fixed > float64(budget) {
		return fmt.Errorf("--arch %s has %.0f parameters, and training them takes about %.0f bytes of memory, of which %d may be used; choose smaller widths, or raise --max-memory",
			s.archName, s.arch.parameters(d), fixed, budget)
	}
	return gp.CheckMemory("training", gp.TrainingExamples, n, memory, func(n int) int64 { return problem.WholeBytes(fixed + 8*float64(n)*float64(d)) })
}

// train returns the trained model, its network with outputs as they were trained, which
// are not in the units of standardized targets, and the report, in which the scores are
// still missing.
func (s *trainVerb) train(ctx context.Context, c *console.Console, p *problem.Problem) (*problem.Model, *network.Network, *trainReport, error) {
	e, seed := p.Examples, p.Limits.Seed
	net, err := network.Seeded(seed, e.Data.Shape, s.arch.layers(p.Model.Outputs)...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--arch %s does not fit inputs of shape %v: %w; use --arch mlp:WIDTHS", s.archName, e.Data.Shape, err)
	}
	inUnits, err := p.Examples.Scaling.Rescaled(net) // the objective is the same
	if err != nil {
		return nil, nil, nil, err
	}
	_, _, params := net.Dims()
	var objective float64
	o := &network.TrainOptions{Precision: slices.Repeat([]float64{p.Task.Precision}, params), Epochs: orNone(s.epochs), Batch: s.batch, LearningRate: s.rate, LBFGS: orNone(s.lbfgs), Seed: seed,
		Objective: func(value float64) { objective = value },
		Progress: func(stage string, done, total int) {
			c.Show(stage, done, total)
			c.Detail("%s %d of %d: objective %.6g", stage, done, total, objective)
		}}
	trained, res, err := inUnits.Train(ctx, e.Inputs(e.Train, 0, e.Train.Len()), e.Y, p.Task.Likelihood, o)
	c.ClearBar()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("training on %s: %w; try a smaller --lr, fewer --epochs or another --prior-precision", e.Data.Source, err)
	}
	c.Warn(res.Warnings...)
	own, err := net.WithTheta(trained.Theta())
	if err != nil {
		return nil, nil, nil, err
	}
	return p.Model.Trained(trained), own, &trainReport{Schema: "funcgp/train/1", Out: s.out, Parameters: params, Examples: e.Train.Len(), Objective: report.Float(res.Objective),
		LogLikelihood: report.Float(res.LogLik), GradientNorm: report.Float(res.GradientNorm)}, nil
}

// orNone is a count as network.TrainOptions wants it: there, 0 is a default
// and a negative number none.
func orNone(k int) int {
	if k == 0 {
		return -1
	}
	return k
}

// trainReport is what train prints with --json.
type trainReport struct {
	Schema        string          `json:"schema"`
	Out           string          `json:"out"`
	Parameters    int             `json:"parameters"`
	Examples      int             `json:"examples"`
	Objective     report.Float    `json:"objective"`
	LogLikelihood report.Float    `json:"log_likelihood"`
	GradientNorm  report.Float    `json:"gradient_norm"`
	TrainAccuracy report.Float    `json:"train_accuracy"`
	TestAccuracy  report.Float    `json:"test_accuracy"`
	TrainNLL      report.Float    `json:"train_nll"`
	TestNLL       report.Float    `json:"test_nll"`
	Warnings      report.Warnings `json:"warnings"`
	Seconds       report.Float    `json:"seconds"`
}

func (r *trainReport) text(stdout io.Writer) error {
	fmt.Fprintf(stdout, "%d parameters trained on %d examples in %.1f s\n", r.Parameters, r.Examples, float64(r.Seconds))
	fmt.Fprintf(stdout, "objective %.6g, log likelihood %.6g, gradient norm %.3g\n", float64(r.Objective), float64(r.LogLikelihood), float64(r.GradientNorm))
	line := func(name string, accuracy, nll report.Float) {
		if !nll.Finite() {
			return
		}
		fmt.Fprintf(stdout, "%-8s  NLL %.5f", name, float64(nll))
		if accuracy.Finite() {
			fmt.Fprintf(stdout, "  accuracy %.4f", float64(accuracy))
		}
		fmt.Fprintln(stdout)
	}
	line("training", r.TrainAccuracy, r.TrainNLL)
	line("test", r.TestAccuracy, r.TestNLL)
	for _, w := range r.Warnings {
		fmt.Fprintf(stdout, "warning: %s\n", console.OneLine(w))
	}
	_, err := fmt.Fprintf(stdout, "wrote %s\n", r.Out)
	return err
}
