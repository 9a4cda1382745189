// Package influence measures which score of training rows tells what networks become that are trained on
// halves of the rows: the linear datamodeling scores of terms (E14), removals (E15) and of influence (E23), at
// multiples of the match (E21), beside influence functions at θ* with the best damping and beside the
// agreement of networks that are trained twice.
package influence

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/steps"
	"github.com/funcgp/funcgp/studies/trained"
)

// Run is the study with its flags.
func Run(ctx context.Context, out io.Writer, args []string) error {
	s := &study{out: out, tables: trained.Reference}
	f := flag.NewFlagSet("influence", flag.ContinueOnError)
	f.SetOutput(out)
	s.On(f)
	f.IntVar(&s.halves, "halves", 40, "halves of the training rows that networks are trained on")
	f.IntVar(&s.runs, "runs", 3, "networks a half, with other initial parameters and another order of the rows")
	f.IntVar(&s.test, "test", 60, "test rows, the first ones")
	f.IntVar(&s.train, "train", 400, "training rows, the first ones")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.tables = s.Chosen(s.tables)
	return s.run(ctx)
}

// A study is a list of tables with what the flags say.
type study struct {
	out io.Writer
	trained.Flags
	halves, runs, test, train int
	tables                    []trained.Table
}

func (s *study) run(ctx context.Context) error {
	var list []judged
	for i := range s.tables {
		one, err := s.judge(ctx, &s.tables[i])
		if err != nil {
			return fmt.Errorf("%s: %w", s.tables[i].Name, err)
		}
		list = append(list, one...)
	}
	return s.record(list)
}

// A judged network has the linear datamodeling score of each kind of score.
type judged struct {
	Table, Network string
	Match          float64 // δ, of a regression δσ²
	Ceiling        float64 // the most that any score can have
	Scores         map[string]evaluate.Score
}

// The precisions of scores at a mode, and of influence functions at θ*, in matches.
var (
	multiples = []float64{1, 2, 4, 8}
	dampings  = []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128}
)

// judge returns the scores about the networks of a table: one that is trained like the halves, and those
// that were trained elsewhere on its rows.
func (s *study) judge(ctx context.Context, t *trained.Table) ([]judged, error) {
	r, err := t.Open(ctx, s.Shared)
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		of *mat.Dense
		n  int
	}{{r.X, s.train}, {r.Y, s.train}, {r.TestX, s.test}, {r.TestY, s.test}} {
		if n, _ := m.of.Dims(); n > m.n {
			*m.of = *mat.DenseCopyOf(dense.Slice(m.of, 0, m.n))
		}
	}
	n, _ := r.X.Dims()
	dir := filepath.Join(s.Cache, "influence")
	halved, err := t.Retraining(r, n/2, filepath.Join(dir, "outputs"))
	if err != nil {
		return nil, err
	}
	subsets := evaluate.Subsets(n, n/2, s.halves, 0)
	var runs []evaluate.Run
	for i, rows := range subsets {
		for k := range s.runs {
			runs = append(runs, evaluate.Run{Rows: rows, Seed: uint64(1000 + s.runs*i + k)})
		}
	}
	outputs, err := halved.Outputs(ctx, runs)
	if err != nil {
		return nil, err
	}
	whole, err := t.Retraining(r, n, "")
	if err != nil {
		return nil, err
	}
	var list []judged
	for _, name := range append([]string{""}, t.Networks...) {
		var net *network.Network
		if name == "" {
			net, err = whole.Train(ctx, evaluate.Run{})
		} else {
			net, err = read(filepath.Join(s.Shared, name))
		}
		if err != nil {
			return nil, err
		}
		text := fmt.Appendf(nil, "%x %x %x %d %d", net.Fingerprint(), linearize.SumOf(dense.Contiguous(r.X)), linearize.SumOf(dense.Contiguous(r.Y)), s.halves, s.runs)
		for _, f := range outputs {
			text = fmt.Appendf(text, " %x", linearize.SumOf(dense.Contiguous(f)))
		}
		key := sha256.Sum256(text)
		one, err := steps.Do(ctx, dir, fmt.Sprintf("%s-%x", t.Name, key[:6]), func(ctx context.Context) (judged, error) {
			return s.scores(ctx, t, r, net, subsets, outputs)
		})
		if err != nil {
			return nil, err
		}
		one.Table, one.Network = t.Name, "own"
		if name != "" {
			one.Network = strings.TrimSuffix(filepath.Base(name), ".onnx")
		}
		fmt.Fprintf(s.out, "%s %s: δ = %.4g, ceiling %.3f, removal %.3f, half weights %.3f, best damping %.3f\n", t.Name, one.Network, one.Match, one.Ceiling,
			one.Scores["removal ×1"].Mean, one.Scores["difference ×2"].Mean, one.best().Mean)
		list = append(list, one)
	}
	return list, nil
}

// read reads a network from a file.
func read(path string) (*network.Network, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return network.ReadONNX(f, nil)
}

// scores are those of one network.
func (s *study) scores(ctx context.Context, t *trained.Table, r *trained.Rows, net *network.Network, subsets [][]int, outputs []*mat.Dense) (judged, error) {
	j := judged{Scores: map[string]evaluate.Score{}}
	f, err := net.Forward(ctx, r.TestX)
	if err != nil {
		return j, err
	}
	rows, _ := f.Dims()
	// Targets are f, and of several outputs that of the network's class less the mean of the others.
	target := mat.NewDense(rows, 1, nil)
	for i, k := range evaluate.Classes(f) {
		target.Set(i, 0, float64(k))
	}
	apart := evaluate.Apart{}
	outcomes := mat.NewDense(len(subsets), rows, nil)
	var each []*mat.Dense
	for k := range s.runs {
		var own []*mat.Dense
		for i := range subsets {
			own = append(own, outputs[i*s.runs+k])
		}
		each = append(each, evaluate.Outcomes(own, target, apart))
		outcomes.Add(outcomes, each[k])
	}
	var agreement []float64
	for k := range s.runs {
		for l := range k {
			agreement = append(agreement, stat.Mean(evaluate.Correlations(each[k], each[l]), nil))
		}
	}
	j.Ceiling = evaluate.Ceiling(stat.Mean(agreement, nil), s.runs)

	if j.Match, err = trained.Match(ctx, net, r.X, r.Y, t.Likelihood); err != nil {
		return j, err
	}
	p := &evaluate.Problem{Network: net, X: r.X, Y: r.Y, TestX: r.TestX, TestY: target, Likelihood: t.Likelihood, Target: apart}
	add := func(fit *evaluate.KernelFit, at string) error {
		list, err := fit.Attribute(ctx)
		if err != nil {
			return err
		}
		more, err := fit.Influence(ctx)
		for _, a := range append(list, more...) {
			var predicted mat.Dense
			evaluate.PredictionsTo(&predicted, a.Scores, subsets)
			j.Scores[a.Name+at] = evaluate.Datamodel(&predicted, outcomes, 0)
		}
		return err
	}
	for _, k := range multiples {
		fit, err := evaluate.Kernel{Precision: k * j.Match}.Fit(ctx, p)
		if err == nil {
			err = add(fit, fmt.Sprintf(" ×%g", k))
		}
		if err != nil {
			return j, err
		}
	}
	for _, k := range dampings {
		fit, err := evaluate.Kernel{Precision: k * j.Match, AtTheta: true}.Fit(ctx, p)
		if err == nil {
			err = add(fit, fmt.Sprintf(" ×%g", k))
		}
		if err != nil {
			return j, err
		}
	}
	return j, nil
}

// best is the score of the influence function with the best damping.
func (j *judged) best() evaluate.Score {
	var best evaluate.Score
	best.Mean = math.Inf(-1)
	for _, k := range dampings {
		if s := j.Scores[fmt.Sprintf("influence at θ* ×%g", k)]; s.Mean > best.Mean {
			best = s
		}
	}
	return best
}
