package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize/network"
)

type trainVerb struct {
	common commonFlags

	archName, activation string
	out                  string
	epochs, batch, lbfgs int
	rate                 float64
	arch                 *arch // parsed from archName and activation by check
}

func trainCommand(con *console) *cobra.Command {
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
		complete: map[string][]string{"arch": {"thesis-cnn", "lenet5", "mlp:"}, "activation": {"relu", "tanh"}},
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
		return usagef("--out FILE.onnx is needed")
	case s.epochs < 0 || s.lbfgs < 0:
		return usagef("--epochs and --lbfgs must not be negative")
	case s.batch < 1:
		return usagef("--batch %d must be at least 1", s.batch)
	case !(s.rate > 0 && s.rate < 1e6):
		return usagef("--lr %v must be a positive number", s.rate)
	}
	var err error
	if s.arch, err = parseArch(s.archName, s.activation); err != nil {
		return err
	}
	return distinct([]flagPath{{"--out", s.out}}, s.common.files())
}

func (s *trainVerb) run(ctx context.Context, c *console) error {
	if err := writable(s.out); err != nil {
		return err
	}
	p, err := s.problem(ctx, c)
	if err != nil {
		return err
	}
	// The test rows are looked at first: a fault in them must not cost the
	// training.
	var test *dataset.Subset
	var testY *mat.Dense
	if p.examples.testPart().Len() > 0 {
		if test, err = p.examples.test(dataset.SelectOptions{}); err != nil {
			return err
		}
		if testY, err = p.targets(test); err != nil {
			return err
		}
	}
	trained, r, err := s.train(ctx, c, p)
	if err != nil {
		return err
	}
	if r.TrainAccuracy, r.TrainNLL, err = trained.score(ctx, p, p.examples.train, p.examples.y); err != nil {
		return err
	}
	if r.TestAccuracy, r.TestNLL, err = trained.score(ctx, p, test, testY); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := atomicfile.Write(s.out, trained.net.WithMetadata(trainMetadata(p, c.args)).WriteONNX); err != nil {
		return err
	}
	r.Seconds, r.Warnings = c.timings().Total, c.warnings
	if c.json {
		return lineEncoder(c.out).Encode(r)
	}
	return r.text(c.out)
}

// problem reads the data. Its model is one that is still to be trained, with the
// number of outputs that suits the data.
func (s *trainVerb) problem(ctx context.Context, c *console) (*problem, error) {
	f := &s.common
	d, err := openData(ctx, c, &f.data, f.limits.memory)
	if err != nil {
		return nil, err
	}
	m := &model{name: "the " + s.archName + " network", meta: &metadata{}, outputs: s.arch.outputs(d, f.task.likelihood, f.data.classes)}
	t, err := chooseTask(&f.task, f.data.classes, m, d)
	if err != nil {
		return nil, err
	}
	train, err := chooseRows(ctx, c, &f.data, m, t, d, nil)
	if err != nil {
		return nil, err
	}
	if err := s.plan(d, train.Len()); err != nil {
		return nil, err
	}
	e, err := newExamples(m, t, d, train)
	if err != nil {
		return nil, err
	}
	return &problem{model: m, task: t, examples: e, limits: f.limits}, nil
}

// vectors is how many vectors of length P training holds: the parameters in
// their several copies, Adam's moments and the history of L-BFGS.
const vectors = 120

// plan refuses what cannot fit before anything large is taken, for n training
// examples.
func (s *trainVerb) plan(data *dataset.Data, n int) error {
	d, memory := elements(data.Shape), s.common.limits.memory
	fixed := 8 * vectors * s.arch.parameters(d)
	if budget := gp.MemoryBudget(memory); fixed > float64(budget) {
		return fmt.Errorf("--arch %s has %.0f parameters, and training them takes about %.0f bytes of memory, of which %d may be used; choose smaller widths, or raise --max-memory",
			s.archName, s.arch.parameters(d), fixed, budget)
	}
	return gp.CheckMemory("training", gp.TrainingExamples, n, memory, func(n int) int64 { return wholeBytes(fixed + 8*float64(n)*float64(d)) })
}

// train returns the trained model and the report, in which the scores are still
// missing.
func (s *trainVerb) train(ctx context.Context, c *console, p *problem) (*model, *trainReport, error) {
	e, seed := p.examples, p.limits.seed
	net, err := network.Seeded(seed, e.data.Shape, s.arch.layers(p.model.outputs)...)
	if err != nil {
		return nil, nil, fmt.Errorf("--arch %s does not fit inputs of shape %v: %w; use --arch mlp:WIDTHS", s.archName, e.data.Shape, err)
	}
	_, _, params := net.Dims()
	var objective float64
	o := &network.TrainOptions{Precision: slices.Repeat([]float64{p.task.precision}, params), Epochs: orNone(s.epochs), Batch: s.batch, LearningRate: s.rate, LBFGS: orNone(s.lbfgs), Seed: seed,
		Objective: func(value float64) { objective = value },
		Progress: func(stage string, done, total int) {
			c.show(stage, done, total)
			c.detail("%s %d of %d: objective %.6g", stage, done, total, objective)
		}}
	trained, res, err := net.Train(ctx, e.inputs(e.train, 0, e.train.Len()), e.y, p.task.likelihood, o)
	c.bar.clear()
	if err != nil {
		return nil, nil, fmt.Errorf("training on %s: %w; try a smaller --lr, fewer --epochs or another --prior-precision", e.data.Source, err)
	}
	c.warn(res.Warnings...)
	m := &model{name: p.model.name, net: trained, outputs: p.model.outputs, meta: p.model.meta}
	return m, &trainReport{Schema: "funcgp/train/1", Out: s.out, Parameters: params, Examples: e.train.Len(), Objective: report.Float(res.Objective),
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

// score is the accuracy and the mean negative log likelihood of the network
// itself on rows with these targets. Both are undefined where the rows are nil,
// and the accuracy for a regression.
func (m *model) score(ctx context.Context, p *problem, rows *dataset.Subset, y *mat.Dense) (accuracy, nll report.Float, err error) {
	accuracy, nll = report.Undefined(), report.Undefined()
	if rows == nil {
		return accuracy, nll, nil
	}
	right, sum := 0, 0.0
	for t := range par.Tiles(rows.Len(), predictRows) {
		lo, hi := par.Bounds(t, rows.Len(), predictRows)
		f, err := m.net.Forward(ctx, p.examples.inputs(rows, lo, hi))
		if err != nil {
			return accuracy, nll, namesOf(rows, lo, hi).explainError(err)
		}
		for i := range hi - lo {
			sum -= p.task.likelihood.LogProb(y.RawRowView(lo+i), f.RawRowView(i))
			if p.task.classes != nil && largestClass(f.RawRowView(i)) == rows.Class[lo+i] {
				right++
			}
		}
	}
	if p.task.classes != nil {
		accuracy = report.Float(float64(right) / float64(rows.Len()))
	}
	return accuracy, report.Float(sum / float64(rows.Len())), nil
}

// trainMetadata says what a network was trained on, and by which command line.
func trainMetadata(p *problem, args []string) map[string]string {
	t, e := p.task, p.examples
	kv := map[string]string{
		keyLikelihood: t.likelihood.Name(),
		keyPrecision:  strconv.FormatFloat(t.precision, 'g', -1, 64),
		keyRows:       formatRows(e.train.Rows),
		keyData:       fingerprint(e.data.Train),
		keyCommand:    commandLine(args),
	}
	if t.noise > 0 {
		kv[keyNoise] = strconv.FormatFloat(t.noise, 'g', -1, 64)
	}
	if t.classes != nil {
		kv[keyClasses] = formatInts(t.classes)
	}
	if e.scaling != nil {
		kv[keyScaling] = e.scaling.String()
	}
	return kv
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
		fmt.Fprintf(stdout, "warning: %s\n", oneLine(w))
	}
	_, err := fmt.Fprintf(stdout, "wrote %s\n", r.Out)
	return err
}

// An arch is a network to train.
type arch struct {
	name   string
	widths []int // of an mlp: hidden layers, then outputs
	act    network.Activation
}

var activations = map[string]network.Activation{"relu": network.ReLU, "tanh": network.Tanh}

// widest bounds a layer of an mlp.
const widest = 1 << 20

// parseArch reads thesis-cnn, lenet5 or mlp:128-64-10.
func parseArch(name, activation string) (*arch, error) {
	act, ok := activations[activation]
	if !ok {
		return nil, usagef("--activation %q must be relu or tanh", activation)
	}
	a := &arch{name: name, act: act}
	if name == "thesis-cnn" || name == "lenet5" {
		return a, nil
	}
	list, ok := strings.CutPrefix(name, "mlp:")
	if !ok {
		return nil, usagef("--arch %q must be thesis-cnn, lenet5 or mlp:WIDTHS", name)
	}
	for field := range strings.SplitSeq(list, "-") {
		k, err := strconv.Atoi(field)
		if err != nil || k < 1 || k > widest {
			return nil, usagef("--arch %q: widths are numbers from 1 to %d, such as mlp:128-64-10", name, widest)
		}
		a.widths = append(a.widths, k)
	}
	return a, nil
}

// outputs returns C for data, a likelihood and classes, which may be "" and nil:
// the mlp's last width, else one for two classes or a regression, else one a
// class.
func (a *arch) outputs(d *dataset.Data, likelihood string, classes []int) int {
	if a.widths != nil {
		return a.widths[len(a.widths)-1]
	}
	if !d.IntegerLabels || likelihood != "" && !hasClasses(likelihoodNamed(likelihood)) {
		return 1
	}
	k := len(classes)
	if k == 0 {
		k = len(d.Classes())
	}
	if k == 2 && (likelihood == "" || !isSoftmax(likelihoodNamed(likelihood))) {
		return 1
	}
	return k
}

// layers returns the architecture with c outputs.
func (a *arch) layers(c int) []network.Layer {
	if a.widths != nil {
		layers := []network.Layer{network.Flatten{}}
		for i, k := range a.widths {
			layers = append(layers, network.Dense{Units: k})
			if i < len(a.widths)-1 {
				layers = append(layers, a.act)
			}
		}
		return layers
	}
	if a.name == "lenet5" {
		return convolutional(6, 16, 120, 84, c)
	}
	return convolutional(3, 8, 25, 25, c)
}

// convolutional returns two 5×5 convolutions with their numbers of filters,
// each with a ReLU and a 2×2 max pool, and two hidden layers before the outputs.
func convolutional(filters1, filters2, dense1, dense2, c int) []network.Layer {
	const kernel = 5
	return []network.Layer{
		network.Conv2D{Filters: filters1, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: filters2, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{},
		network.Dense{Units: dense1}, network.ReLU,
		network.Dense{Units: dense2}, network.ReLU,
		network.Dense{Units: c},
	}
}

// parameters is P of an mlp on d inputs, as a float64 since it may be far too
// large; 0 for the other architectures, which are small.
func (a *arch) parameters(d int) float64 {
	p, in := 0.0, float64(d)
	for _, k := range a.widths {
		p += (in + 1) * float64(k)
		in = float64(k)
	}
	return p
}
