package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

type trainVerb struct {
	common flags.Common

	archName, activation string
	dropout              float64
	out, init            string
	coder                coder.TrainFlags

	o                        train.Options // but for what flags name: optimizer and schedule
	optimizer, schedule      string
	scheduleEpochs, patience int
	draws                    int // of an update by natural gradients
	momentum, scheduleBy     float64
	noDecay                  []string

	arch *arch // parsed from archName and activation by check; nil for an autoencoder
}

func trainCommand(con *console.Console) *cobra.Command {
	s := &trainVerb{}
	v := &verb{
		name:  "train",
		short: "Train a network and write it as ONNX",
		long: `Train finds the maximum a posteriori parameters of a network on minibatches, by
Adam or SGD, and then by full-batch L-BFGS, and writes it with what it was
trained on: the likelihood, the prior precision, the classes, the training rows
and the scaling of the inputs.

VOGGN, LGVA and OGGN update a Gaussian over all P parameters, with a P×P matrix, by
natural gradients, for networks of up to some thousand parameters. The network that
is written has the mean of the Gaussian. VOGGN averages over networks that are drawn
from it, LGVA over the network linearized at its mean, and OGGN takes its mean alone.

Dropout, and a batch normalization's moments of the minibatch, are those of the
minibatches. L-BFGS goes on with the network as it is used afterwards, without
dropout and with running statistics; --lbfgs 0 leaves what the minibatches gave.
With --early-stopping the rows of the data's validation part, or the last
training rows that were left out, decide which epoch's network is kept.

--arch autoencoder:512-256-2 has these widths in its encoder, the code last, and
the reverse in its decoder. With --online it is trained under its posterior, which
is written beside the network, to FILE.onnx.posterior; gpexplain reconstruct shows
what both make of rows.`,
		example: `  gpexplain train --data digits:200,50 --arch autoencoder:32-2 --online --epochs 2 --out net.onnx
  gpexplain train --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out net.onnx
  gpexplain train --data table.csv --split 0 --arch mlp:50-50-1 --early-stopping 10 --out net.onnx
  gpexplain train --data table.csv --split 0 --arch mlp:16-1 --optimizer voggn --out net.onnx
  gpexplain train --data mnist --arch bn-cnn --optimizer sgd --lr 0.1 --lbfgs 0 --out net.onnx`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"out", "checkpoint"}, reads: []string{"init"},
		rules: []flags.Rule{
			flags.Needed("out", "where to write the network"),
			flags.AtLeast(0, "lbfgs", "epochs", "steps", "early-stopping", "schedule-epochs"),
			flags.Apart("", "epochs", "steps"),
			flags.AtLeast(1, "batch", "draws"),
			flags.Between(0, 1e6, false, "lr"),
			flags.OneOf("optimizer", optimizerNames...),
			flags.OneOf("schedule", scheduleNames...),
			flags.OneOf("activation", activationNames...),
			flags.For("optimizer=sgd", "", "momentum"),
			flags.Between(0, 1, true, "momentum", "schedule-factor", "dropout"),
			flags.For("optimizer=voggn|lgva", "", "draws"),
			flags.Not("optimizer=voggn|lgva|oggn", "", "no-decay", "dropout"),
			flags.Refuse("{optimizer=<optimizer>} has the same step size in all updates; leave out {schedule}, or give {schedule=constant}",
				"optimizer=voggn|lgva|oggn", "schedule", "!schedule=constant"),
			flags.Refuse("{optimizer=<optimizer>} takes no moments of minibatches, which {arch=bn-cnn} needs; choose another {arch}",
				"optimizer=voggn|lgva|oggn", "arch=bn-cnn"),
			flags.For("schedule=step|plateau", "", "schedule-epochs", "schedule-factor"),
			flags.For("online", "", "curvature", "checkpoint", "online-rule", "online-memory"),
		},
		complete: map[string][]string{"arch": append(slices.Clone(archNames), "mlp:", "autoencoder:"), "activation": activationNames, "optimizer": optimizerNames, "schedule": scheduleNames, "curvature": autoencoder.CurvatureNames(), "online-rule": autoencoder.RuleNames()},
	}
	return v.command(con, &s.common)
}

func (s *trainVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.archName, "arch", "thesis-cnn", "`NAME` of the network: thesis-cnn, lenet5 or bn-cnn (with batch normalization) for 28×28 pictures, mlp:128-64-10 (hidden widths, then outputs), or autoencoder:512-256-2 (widths of the encoder)")
	f.StringVar(&s.out, "out", "", "write the network to `FILE.onnx`; needed")
	f.StringVar(&s.activation, "activation", "relu", "`NAME` of the activation of an mlp or an autoencoder: relu or tanh (default tanh for an autoencoder)")
	f.Float64Var(&s.dropout, "dropout", 0, "share `X` of the elements that training drops after each hidden dense layer")
	f.StringVar(&s.init, "init", "", "start from the parameters and running statistics of `FILE.onnx`, which has the same layers")
	s.addDescent(f)
	s.coder.Add(c)
	f.IntVar(&s.o.LBFGS, "lbfgs", 200, "at most `N` iterations of L-BFGS; 0 for none, which is the default with --early-stopping and with voggn, lgva and oggn")
}

func (s *trainVerb) check(c *cobra.Command) error {
	if (s.patience > 0 || s.natural()) && !c.Flags().Changed("lbfgs") {
		s.o.LBFGS = 0
	}
	if err := s.checkNatural(c.Flags()); err != nil {
		return err
	}
	if err := s.coder.Check(c, s.archName); err != nil {
		return err
	}
	if coder.IsArch(s.archName) {
		// The activation of an autoencoder is tanh unless another was given.
		f := c.Flags()
		if !f.Changed("activation") {
			s.activation = "tanh"
		}
		return nil
	}
	var err error
	s.arch, err = parseArch(s.archName, s.activation, s.dropout)
	return err
}

func (s *trainVerb) run(ctx context.Context, c *console.Console) error {
	data, o := s.common.Data, &s.common.Fit
	if coder.IsArch(s.archName) {
		// Train an autoencoder.
		r, err := coder.Train(ctx, c, data, o, &s.coder, activations[s.activation], s.patience, s.options(), s.out)
		if err != nil {
			return err
		}
		return r.Print(c)
	}
	set, err := funcgp.OpenToTrain(ctx, data, o, &funcgp.Trainee{Name: "the " + s.archName + " network", Outputs: s.arch.outputs(), Plan: s.plan})
	if err != nil {
		return err
	}
	trained, own, r, err := s.train(ctx, c, set)
	if err != nil {
		return err
	}
	if r.TrainAccuracy, r.TrainNLL, err = set.Score(ctx, trained, set.TrainingRows()); err != nil {
		return err
	}
	if r.TestAccuracy, r.TestNLL, err = set.Score(ctx, trained, set.TestRows()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := atomicfile.Write(s.out, own.WithMetadata(set.Metadata("")).WriteONNX); err != nil {
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

// plan returns an error, before anything large is allocated, if the training does not fit in memory. n is the
// number of training examples, and shape the shape of an input.
func (s *trainVerb) plan(shape []int, n int) error {
	d, limits := 1, &s.common.Fit.Limits
	for _, k := range shape {
		d *= k
	}
	fixed := 8 * vectors * s.arch.parameters(d)
	if budget := limits.Budget(); fixed > float64(budget) {
		return option.Errorf("{arch=%s} has %.0f parameters, and training them takes about %.0f bytes of memory, of which %d may be used; choose smaller widths, or raise {max-memory}",
			s.archName, s.arch.parameters(d), fixed, budget)
	}
	return limits.Check("training", "training examples", n, func(n int) int64 { return int64(min(fixed+8*float64(n)*float64(d), math.MaxInt64/2)) })
}

// train trains the network. inUnits is the trained network with outputs in the units of the data, and own is
// the network as it was trained, with outputs in the units of standardized targets. The report does not have
// the scores yet.
func (s *trainVerb) train(ctx context.Context, c *console.Console, set *funcgp.TrainingSet) (inUnits, own *network.Network, r *trainReport, err error) {
	info, limits := set.Info(), &s.common.Fit.Limits
	net, err := network.Seeded(s.common.Fit.Seed, info.InputShape, s.arch.layers(info.Outputs)...)
	if err != nil {
		return nil, nil, nil, option.Errorf("{arch=%s} does not fit inputs of shape %v: %w; use {arch=mlp:WIDTHS}", s.archName, info.InputShape, err)
	}
	if s.init != "" { // begin with its parameters
		from, err := network.ReadONNXFile(ctx, s.init, &network.ReadOptions{MaxMemory: limits.Memory})
		if err == nil {
			net, err = net.WithStateOf(from)
		}
		if err != nil {
			return nil, nil, nil, option.Errorf("{init=%s}: %w; give a file of train with the same layers", s.init, err)
		}
	}
	if inUnits, err = set.InUnits(net); err != nil { // the objective is the same
		return nil, nil, nil, err
	}
	if budget := limits.Budget(); inUnits.MinibatchBytes(s.o.Batch) > budget {
		return nil, nil, nil, option.Errorf("a minibatch of {batch=%d} takes about %d bytes of memory, of which %d may be used; choose a smaller {batch}, or raise {max-memory}",
			s.o.Batch, inUnits.MinibatchBytes(s.o.Batch), budget)
	}
	var objective float64
	o := s.options()
	if o.Precision, err = s.precision(net, float64(info.PriorPrecision)); err != nil {
		return nil, nil, nil, err
	}
	var held *funcgp.Rows
	if s.patience > 0 { // --early-stopping
		if held, err = set.HeldOut(); err != nil {
			return nil, nil, nil, err
		}
	}
	start, natural := inUnits, &train.Result{}
	if s.natural() {
		if start, natural, err = s.naturalGradients(ctx, c, set, inUnits, held); err != nil {
			return nil, nil, nil, err
		}
		o.Epochs, o.Steps = -1, 0 // MAP goes on by L-BFGS alone
	} else if held != nil {
		x, y, _, err := set.Examples(ctx, held)
		if err != nil {
			return nil, nil, nil, err
		}
		o.Validation = &train.Validation{X: x, Y: y, Patience: s.patience}
	}
	o.Objective = func(value float64) { objective = value }
	o.Progress = func(stage string, done, total int) {
		c.Show(stage, done, total)
		c.Detail("%s %d of %d: objective %.6g", stage, done, total, objective)
	}
	x, y, loss, err := set.Examples(ctx, set.TrainingRows())
	if err != nil {
		return nil, nil, nil, err
	}
	trained, res, err := train.MAP(ctx, start, x, y, loss, o)
	c.Clear()
	if err != nil {
		_, data := set.Names()
		return nil, nil, nil, option.Errorf("training on %s: %w; try a smaller {lr}, fewer {epochs} or another {prior-precision}", data, err)
	}
	c.Warn(res.Warnings...)
	if s.natural() {
		res.Epochs, res.Steps, res.BestEpoch, res.ValidationNLL = natural.Epochs, natural.Steps, natural.BestEpoch, natural.ValidationNLL
	}
	if own, err = net.WithStateOf(trained); err != nil {
		return nil, nil, nil, err
	}
	_, _, params := net.Dims()
	r = &trainReport{Schema: "funcgp/train/1", Out: s.out, Parameters: params, Examples: info.Examples, Objective: result.Float(res.Objective),
		LogLikelihood: result.Float(res.LogLik), GradientNorm: result.Float(res.GradientNorm), Epochs: res.Epochs, Steps: res.Steps}
	if held != nil {
		nll := result.Float(res.ValidationNLL)
		r.BestEpoch, r.ValidationNLL = res.BestEpoch, &nll
	}
	return trained, own, r, nil
}

// orNone converts a count to a field of train.Options, where 0 means a default and a negative number means
// none.
func orNone(k int) int {
	if k == 0 {
		return -1
	}
	return k
}

// trainReport is what train prints with --json.
type trainReport struct {
	Schema        string        `json:"schema"`
	Out           string        `json:"out"`
	Parameters    int           `json:"parameters"`
	Examples      int           `json:"examples"`
	Objective     result.Float  `json:"objective"`
	LogLikelihood result.Float  `json:"log_likelihood"`
	GradientNorm  result.Float  `json:"gradient_norm"`
	Epochs        int           `json:"epochs"`
	Steps         int           `json:"steps"`
	BestEpoch     int           `json:"best_epoch,omitempty"`
	ValidationNLL *result.Float `json:"validation_nll,omitempty"`
	TrainAccuracy result.Float  `json:"train_accuracy"`
	TestAccuracy  result.Float  `json:"test_accuracy"`
	TrainNLL      result.Float  `json:"train_nll"`
	TestNLL       result.Float  `json:"test_nll"`
	Warnings      job.Warnings  `json:"warnings"`
	Seconds       result.Float  `json:"seconds"`
}

func (r *trainReport) text(stdout io.Writer) error {
	fmt.Fprintf(stdout, "%d parameters trained on %d examples in %.1f s\n", r.Parameters, r.Examples, float64(r.Seconds))
	fmt.Fprintf(stdout, "objective %.6g, log likelihood %.6g, gradient norm %.3g\n", float64(r.Objective), float64(r.LogLikelihood), float64(r.GradientNorm))
	if r.ValidationNLL != nil {
		fmt.Fprintf(stdout, "stopped after epoch %d; kept the network of epoch %d, with a validation NLL of %.5f\n", r.Epochs, r.BestEpoch, float64(*r.ValidationNLL))
	}
	line := func(name string, accuracy, nll result.Float) {
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
		fmt.Fprintf(stdout, "warning: %s\n", job.OneLine(w.Error()))
	}
	_, err := fmt.Fprintf(stdout, "wrote %s\n", r.Out)
	return err
}
