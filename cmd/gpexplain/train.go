package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize/network"
)

type trainFlags struct {
	name, activation     string
	out                  string
	epochs, batch, lbfgs int
	rate                 float64

	arch *arch // parsed from name and activation
}

func trainVerb(inv *invocation) *cobra.Command {
	var e trainFlags
	v := &verb{
		name:  "train",
		short: "Train a network and write it as ONNX",
		long: `Train finds the maximum a posteriori parameters of a network by minibatch Adam
and then full-batch L-BFGS, and writes it with what it was trained on: the
likelihood, the prior precision, the classes, the training rows and the scaling
of the inputs.`,
		example: `  gpexplain train --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out net.onnx
  gpexplain train --data table.csv --split 0 --arch mlp:50-50-1 --activation tanh --out net.onnx`,
		flags: e.add, check: e.check, run: e.run,
		complete: map[string][]string{"arch": {"thesis-cnn", "lenet5", "mlp:"}, "activation": {"relu", "tanh"}},
	}
	return v.command(inv)
}

func (e *trainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&e.name, "arch", "thesis-cnn", "`NAME` of the network: thesis-cnn or lenet5 for 28×28 pictures, or mlp:128-64-10 (hidden widths, then outputs)")
	f.StringVar(&e.out, "out", "", "write the network to `FILE.onnx`; needed")
	f.StringVar(&e.activation, "activation", "relu", "`NAME` of the activation of an mlp: relu or tanh")
	f.IntVar(&e.epochs, "epochs", 30, "`N` passes of Adam over the data; 0 for none")
	f.IntVar(&e.batch, "batch", 256, "`N` examples a step of Adam")
	f.Float64Var(&e.rate, "lr", 3e-3, "first step size `X` of Adam")
	f.IntVar(&e.lbfgs, "lbfgs", 200, "at most `N` iterations of L-BFGS; 0 for none")
}

func (e *trainFlags) check(s *shared) error {
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
	var err error
	if e.arch, err = parseArch(e.name, e.activation); err != nil {
		return err
	}
	return distinct([]flagPath{{"--out", e.out}}, s.reads())
}

func (e *trainFlags) run(ctx context.Context, sh *shared) error {
	if err := writable(e.out); err != nil {
		return err
	}
	s := newSession(sh)
	c, err := e.open(ctx, s)
	if err != nil {
		return err
	}
	// The test rows are looked at first: a fault in them must not cost the
	// training.
	test, err := e.testRows(s, c)
	if err != nil {
		return err
	}
	r, err := e.fit(ctx, s, c)
	if err != nil {
		return err
	}
	if r.TrainAccuracy, r.TrainNLL, err = s.mapScore(ctx, s.train, s.y); err != nil {
		return err
	}
	if r.TestAccuracy, r.TestNLL, err = s.mapScore(ctx, test.rows, test.y); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := atomicfile.Write(e.out, s.net.WithMetadata(e.metadata(s)).WriteONNX); err != nil {
		return err
	}
	s.watch.lap("write")
	r.Warnings, r.Seconds = s.warnings, s.watch.timings().Total
	if s.json {
		return lineEncoder(s.out).Encode(r)
	}
	return r.text(s.out)
}

// open reads the data and returns the number of outputs that suits them.
func (e *trainFlags) open(ctx context.Context, s *session) (int, error) {
	s.name = "the " + e.name + " network"
	if err := s.openData(ctx); err != nil {
		return 0, err
	}
	c := e.arch.outputs(s)
	if err := s.chooseLikelihood(c); err != nil {
		return 0, err
	}
	if err := s.selectTraining(ctx); err != nil {
		return 0, err
	}
	if err := e.plan(s); err != nil {
		return 0, err
	}
	return c, s.prepare(c)
}

// vectors is how many vectors of length P training holds: the parameters in
// their several copies, Adam's moments and the history of L-BFGS.
const vectors = 120

// plan refuses what cannot fit before anything large is taken.
func (e *trainFlags) plan(s *session) error {
	d := elements(s.opened.Shape)
	fixed := 8 * vectors * e.arch.parameters(d)
	if budget := gp.MemoryBudget(s.bytes); fixed > float64(budget) {
		return fmt.Errorf("--arch %s has %.0f parameters, and training them takes about %.0f bytes of memory, of which %d may be used; choose smaller widths, or raise --max-memory",
			e.name, e.arch.parameters(d), fixed, budget)
	}
	return s.plan("training", s.train.Len(), func(n int) float64 { return fixed + 8*float64(n)*float64(d) })
}

// testRows are the rows that the trained network is tried on; none without
// data for it.
type testRows struct {
	rows *dataset.Subset
	y    *mat.Dense
}

func (e *trainFlags) testRows(s *session, c int) (testRows, error) {
	if s.testPart().Len() == 0 {
		return testRows{}, nil
	}
	rows, err := s.selectTest(dataset.SelectOptions{})
	if err != nil {
		return testRows{}, err
	}
	y, err := s.targets(rows, c)
	return testRows{rows, y}, err
}

// fit trains a network with c outputs and puts it into the session.
func (e *trainFlags) fit(ctx context.Context, s *session, c int) (*trainReport, error) {
	net, err := network.Seeded(s.seed, s.opened.Shape, e.arch.layers(c)...)
	if err != nil {
		return nil, fmt.Errorf("--arch %s does not fit inputs of shape %v: %w; use --arch mlp:WIDTHS", e.name, s.opened.Shape, err)
	}
	_, _, p := net.Dims()
	var objective float64
	o := &network.TrainOptions{Precision: slices.Repeat([]float64{s.delta}, p), Epochs: orNone(e.epochs), Batch: e.batch, LearningRate: e.rate, LBFGS: orNone(e.lbfgs), Seed: s.seed,
		Objective: func(value float64) { objective = value },
		Progress: func(stage string, done, total int) {
			s.progress.show(stage, done, total)
			s.detail("%s %d of %d: objective %.6g", stage, done, total, objective)
		}}
	trained, res, err := net.Train(ctx, s.inputs(s.train), s.y, s.lik, o)
	s.progress.clear()
	if err != nil {
		return nil, fmt.Errorf("training on %s: %w; try a smaller --lr, fewer --epochs or another --prior-precision", s.opened.Source, err)
	}
	s.net = trained
	for _, w := range res.Warnings {
		s.warn(w)
	}
	return &trainReport{Out: e.out, Parameters: p, Examples: s.train.Len(), Objective: report.Float(res.Objective),
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

// mapScore is the accuracy and the mean negative log likelihood of the network
// itself; undefined without rows, and the accuracy for a regression.
func (s *session) mapScore(ctx context.Context, sub *dataset.Subset, y *mat.Dense) (accuracy, nll report.Float, err error) {
	accuracy, nll = report.Undefined(), report.Undefined()
	if sub == nil {
		return accuracy, nll, nil
	}
	right, sum := 0, 0.0
	for t := range par.Tiles(sub.Len(), predictTile) {
		lo, hi := par.Bounds(t, sub.Len(), predictTile)
		f, err := s.net.Forward(ctx, s.inputsAt(sub, lo, hi))
		if err != nil {
			return accuracy, nll, rowsOf(sub, lo, hi).fault(err)
		}
		for i := range hi - lo {
			sum -= s.lik.LogProb(y.RawRowView(lo+i), f.RawRowView(i))
			if s.classed != nil && argmaxClass(f.RawRowView(i)) == sub.Class[lo+i] {
				right++
			}
		}
	}
	if s.classed != nil {
		accuracy = report.Float(float64(right) / float64(sub.Len()))
	}
	return accuracy, report.Float(sum / float64(sub.Len())), nil
}

// metadata says what the network was trained on.
func (e *trainFlags) metadata(s *session) map[string]string {
	kv := map[string]string{
		keyLikelihood: s.lik.Name(),
		keyPrecision:  strconv.FormatFloat(s.delta, 'g', -1, 64),
		keyRows:       formatRows(s.train.Rows),
		keyData:       fingerprint(s.opened.Train),
		keyCommand:    commandLine(s.args),
	}
	if s.lik.Name() == "gaussian" {
		kv[keyNoise] = strconv.FormatFloat(s.sigma2, 'g', -1, 64)
	}
	if s.classed != nil {
		kv[keyClasses] = formatInts(s.classed)
	}
	if s.scaling != nil {
		kv[keyScaling] = s.scaling.String()
	}
	return kv
}
