package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
)

type trainFlags struct {
	arch, out            string
	activation           string
	epochs, batch, lbfgs int
	rate                 float64
	widths               []int // of an mlp, hidden layers and outputs
	act                  linearize.Activation
}

func trainVerb() *cobra.Command {
	var e trainFlags
	return verb("train", "Train a network and write it as ONNX",
		`Train finds the maximum a posteriori parameters of a network by minibatch Adam
and then full-batch L-BFGS, and writes it with what it was trained on: the
likelihood, the prior precision, the classes, the training rows and the scaling
of the inputs.`,
		func(c *cobra.Command) func() error {
			f := c.Flags()
			f.StringVar(&e.arch, "arch", "thesis-cnn", "thesis-cnn, lenet5, or mlp:128-64-10 (hidden widths, then outputs)")
			f.StringVar(&e.out, "out", "", "write the network to `FILE.onnx`")
			f.StringVar(&e.activation, "activation", "relu", "of an mlp: relu or tanh")
			f.IntVar(&e.epochs, "epochs", 30, "passes of Adam over the data; 0 for none")
			f.IntVar(&e.batch, "batch", 256, "examples a step of Adam")
			f.Float64Var(&e.rate, "lr", 3e-3, "first step size of Adam")
			f.IntVar(&e.lbfgs, "lbfgs", 200, "iterations of L-BFGS; 0 for none")
			return e.check
		},
		func(c *cobra.Command, s *shared) error { return e.run(c.Context(), c.OutOrStdout(), s) })
}

func (e *trainFlags) check() error {
	switch {
	case e.out == "":
		return usagef("--out FILE.onnx is needed")
	case e.epochs < 0 || e.lbfgs < 0:
		return usagef("--epochs and --lbfgs must not be negative")
	case e.batch < 1:
		return usagef("--batch %d must be at least 1", e.batch)
	case !(e.rate > 0 && e.rate < 1e6):
		return usagef("--lr %v must be a positive number", e.rate)
	}
	switch e.activation {
	case "relu":
		e.act = linearize.ReLU
	case "tanh":
		e.act = linearize.Tanh
	default:
		return usagef("--activation %q must be relu or tanh", e.activation)
	}
	if e.arch == "thesis-cnn" || e.arch == "lenet5" {
		return nil
	}
	list, ok := strings.CutPrefix(e.arch, "mlp:")
	if !ok {
		return usagef("--arch %q must be thesis-cnn, lenet5 or mlp:WIDTHS", e.arch)
	}
	for field := range strings.SplitSeq(list, "-") {
		k, err := strconv.Atoi(field)
		if err != nil || k < 1 || k > 1<<20 {
			return usagef("--arch %q: widths are positive numbers such as mlp:128-64-10", e.arch)
		}
		e.widths = append(e.widths, k)
	}
	return nil
}

// outputs returns C for the data: from the mlp's last width, else one for two
// classes or a regression and otherwise one a class.
func (e *trainFlags) outputs(s *session) int {
	if e.widths != nil {
		return e.widths[len(e.widths)-1]
	}
	k := 1
	if s.opened.IntegerLabels && s.likelihood != "gaussian" && s.likelihood != "poisson" {
		if k = len(s.opened.Classes()); s.classList != nil {
			k = len(s.classList)
		}
		if k == 2 && s.likelihood != "categorical" {
			k = 1
		}
	}
	return k
}

// layers returns the architecture with c outputs.
func (e *trainFlags) layers(c int) []linearize.Layer {
	if e.widths != nil {
		layers := []linearize.Layer{linearize.Flatten{}}
		for i, k := range e.widths {
			layers = append(layers, linearize.Dense{Units: k})
			if i < len(e.widths)-1 {
				layers = append(layers, e.act)
			}
		}
		return layers
	}
	conv := func(first, second, kernel int, dense ...int) []linearize.Layer {
		layers := []linearize.Layer{
			linearize.Conv2D{Filters: first, Kernel: kernel}, linearize.ReLU, linearize.MaxPool2D{Size: 2},
			linearize.Conv2D{Filters: second, Kernel: kernel}, linearize.ReLU, linearize.MaxPool2D{Size: 2}, linearize.Flatten{}}
		for _, k := range dense {
			layers = append(layers, linearize.Dense{Units: k}, linearize.ReLU)
		}
		return append(layers, linearize.Dense{Units: c})
	}
	if e.arch == "lenet5" {
		return conv(6, 16, 5, 120, 84)
	}
	return conv(3, 8, 5, 25, 25)
}

// trainReport is what train prints with --json.
type trainReport struct {
	Out           string           `json:"out"`
	Parameters    int              `json:"parameters"`
	Examples      int              `json:"examples"`
	Objective     explain.Float    `json:"objective"`
	LogLikelihood explain.Float    `json:"log_likelihood"`
	GradientNorm  explain.Float    `json:"gradient_norm"`
	TrainAccuracy explain.Float    `json:"train_accuracy"`
	TestAccuracy  explain.Float    `json:"test_accuracy"`
	TrainNLL      explain.Float    `json:"train_nll"`
	TestNLL       explain.Float    `json:"test_nll"`
	Warnings      explain.Warnings `json:"warnings"`
	Seconds       explain.Float    `json:"seconds"`
}

func (e *trainFlags) run(ctx context.Context, stdout io.Writer, sh *shared) error {
	s := newSession(sh)
	s.name = e.arch + " network"
	if err := s.openData(ctx); err != nil {
		return err
	}
	c := e.outputs(s)
	if err := s.chooseLikelihood(c); err != nil {
		return err
	}
	if err := s.selectTraining(); err != nil {
		return err
	}
	if err := s.prepare(c); err != nil {
		return err
	}
	net, err := linearize.Seeded(s.seed, s.opened.Shape, e.layers(c)...)
	if err != nil {
		return fmt.Errorf("--arch %s does not fit inputs of shape %v: %w", e.arch, s.opened.Shape, err)
	}
	res, err := e.fit(ctx, s, net)
	if err != nil {
		return err
	}
	s.watch.lap("factorize")
	r := &trainReport{Out: e.out, Examples: s.train.Len(), Objective: explain.Float(res.Objective), LogLikelihood: explain.Float(res.LogLik), GradientNorm: explain.Float(res.GradientNorm)}
	_, _, r.Parameters = net.Dims()
	if err := e.score(ctx, s, r); err != nil {
		return err
	}
	for _, w := range res.Warnings {
		s.warn(w)
	}
	if err := atomicfile.Write(e.out, s.net.WithMetadata(e.metadata(s)).WriteONNX); err != nil {
		return err
	}
	s.watch.lap("write")
	r.Warnings, r.Seconds = s.warnings, s.watch.timings().Total
	if s.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	return r.text(stdout)
}

// fit trains net and puts the result into the session.
func (e *trainFlags) fit(ctx context.Context, s *session, net *linearize.Network) (*linearize.TrainResult, error) {
	_, _, p := net.Dims()
	orNone := func(k int) int {
		if k == 0 {
			return -1
		}
		return k
	}
	o := &linearize.TrainOptions{Precision: slices.Repeat([]float64{s.delta}, p), Epochs: orNone(e.epochs), Batch: e.batch, LearningRate: e.rate, LBFGS: orNone(e.lbfgs), Seed: s.seed,
		Progress: func(t linearize.TrainProgress) {
			s.progress.show(t.Stage, t.Done, t.Total)
			s.detail("%s %d of %d: objective %.6g", t.Stage, t.Done, t.Total, t.Objective)
		}}
	trained, res, err := net.Train(ctx, s.x, s.y, s.lik, o)
	s.progress.clear()
	s.net = trained
	return res, err
}

// score fills in accuracy and NLL on training and test rows.
func (e *trainFlags) score(ctx context.Context, s *session, r *trainReport) error {
	var err error
	if r.TrainAccuracy, r.TrainNLL, err = s.mapScore(ctx, s.train, s.x, s.y); err != nil {
		return err
	}
	r.TestAccuracy, r.TestNLL = explain.Undefined(), explain.Undefined()
	if s.testPart().Len() == 0 {
		return nil
	}
	test, err := s.selectTest(nil, "")
	if err != nil {
		return err
	}
	_, c, _ := s.net.Dims()
	y, err := s.targets(test, c)
	if err != nil {
		return err
	}
	r.TestAccuracy, r.TestNLL, err = s.mapScore(ctx, test, s.inputs(test), y)
	return err
}

func (s *session) mapScore(ctx context.Context, sub *dataset.Subset, x, y *mat.Dense) (accuracy, nll explain.Float, err error) {
	f, err := s.net.Forward(ctx, x)
	if err != nil {
		return 0, 0, err
	}
	right, sum := 0, 0.0
	for i := range sub.Len() {
		sum -= s.lik.LogProb(y.RawRowView(i), f.RawRowView(i))
		if s.classed != nil && argmaxClass(f.RawRowView(i)) == sub.Class[i] {
			right++
		}
	}
	accuracy = explain.Undefined()
	if s.classed != nil {
		accuracy = explain.Float(float64(right) / float64(sub.Len()))
	}
	return accuracy, explain.Float(sum / float64(sub.Len())), nil
}

// metadata says what the network was trained on.
func (e *trainFlags) metadata(s *session) map[string]string {
	kv := map[string]string{
		keyLikelihood: s.lik.Name(),
		keyPrecision:  strconv.FormatFloat(s.delta, 'g', -1, 64),
		keyRows:       formatRows(s.train.Rows),
		keyData:       fingerprint(s.opened.Train),
		keyCommand:    "gpexplain " + strings.Join(os.Args[1:], " "),
	}
	if s.lik.Name() == "gaussian" {
		kv[keyNoise] = strconv.FormatFloat(s.sigma2, 'g', -1, 64)
	}
	if s.classed != nil {
		kv[keyClasses] = formatClasses(s.classed)
	}
	if s.scaling != nil {
		kv[keyScaling] = s.scaling.String()
	}
	return kv
}

func (r *trainReport) text(stdout io.Writer) error {
	fmt.Fprintf(stdout, "%d parameters trained on %d examples in %.1f s\n", r.Parameters, r.Examples, float64(r.Seconds))
	fmt.Fprintf(stdout, "objective %.6g, log likelihood %.6g, gradient norm %.3g\n", float64(r.Objective), float64(r.LogLikelihood), float64(r.GradientNorm))
	line := func(name string, accuracy, nll explain.Float) {
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
		fmt.Fprintf(stdout, "warning: %s\n", w)
	}
	_, err := fmt.Fprintf(stdout, "wrote %s\n", r.Out)
	return err
}
