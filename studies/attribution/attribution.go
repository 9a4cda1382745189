// Package attribution measures at which prior precision the terms of gpexplain explain tell
// what networks become that are trained on halves of the rows: the linear datamodeling score
// of the closing sum (E14) and of removals (E15), at a grid of precisions, at the match (E21)
// and where the linearized model is nearest to the network.
package attribution

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/nearest"
	"github.com/funcgp/funcgp/studies/steps"
)

// Run is the study with its flags.
func Run(ctx context.Context, out io.Writer, args []string) error {
	s := &study{out: out, protocols: all}
	f := flag.NewFlagSet("attribution", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.cache, "cache", "cache", "`DIR` of the results of steps")
	f.StringVar(&s.records, "out", "records", "`DIR` of the record")
	f.StringVar(&s.data, "data", "../../shared/data/mnist", "`DIR` of MNIST's four files")
	f.StringVar(&s.program, "program", "", "`FILE` of the gpexplain that is asked (default built from the sources)")
	f.IntVar(&s.halves, "halves", 100, "halves of the training rows that networks are trained on")
	f.IntVar(&s.seeds, "seeds", 3, "networks of each protocol that are explained")
	f.StringVar(&s.only, "only", "", "`NAMES` of networks, with commas between them (default all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.only != "" {
		s.protocols = slices.DeleteFunc(slices.Clone(all), func(p protocol) bool { return !slices.Contains(strings.Split(s.only, ","), p.name) })
	}
	return s.run(ctx)
}

// A study is a list of protocols with what the flags say.
type study struct {
	out                                 io.Writer
	cache, records, data, program, only string
	halves, seeds                       int
	protocols                           []protocol

	gpexplain *command.Command
}

func (s *study) run(ctx context.Context) (err error) {
	if s.program == "" {
		s.gpexplain, err = command.Build(ctx, s.cache)
	} else {
		s.gpexplain, err = command.Open(s.program)
	}
	if err != nil {
		return err
	}
	var list []judged
	for i := range s.protocols {
		one, err := s.judge(ctx, &s.protocols[i])
		if err != nil {
			return fmt.Errorf("%s: %w", s.protocols[i].name, err)
		}
		list = append(list, one...)
	}
	return s.record(list)
}

// A judged answer is one network's at one precision.
type judged struct {
	Protocol string
	Seed     int
	At       string  // stated, match, nearest, a factor of the match such as ×3, or grid
	Match    float64 // δ of the match of this network
	answer
}

// An answer has the linear datamodeling scores of explanations at one precision.
type answer struct {
	Precision    float64
	Sum, Removal evaluate.Score
}

// judge returns the answers about the networks of a protocol.
func (s *study) judge(ctx context.Context, p *protocol) ([]judged, error) {
	dir := filepath.Join(s.cache, "attribution")
	r, err := p.open(ctx, s.data, filepath.Join(dir, "tables"))
	if err != nil {
		return nil, err
	}
	training, err := p.retraining(r, filepath.Join(dir, "outputs"))
	if err != nil {
		return nil, err
	}
	subsets := evaluate.Subsets(p.train, p.train/2, s.halves, 0)
	runs := make([]evaluate.Run, len(subsets))
	for i, rows := range subsets {
		runs[i] = evaluate.Run{Rows: rows, Seed: uint64(1000 + i)}
	}
	outputs, err := training.Outputs(ctx, runs)
	if err != nil {
		return nil, err
	}
	var list []judged
	for seed := range s.seeds {
		net, err := training.Train(ctx, evaluate.Run{Seed: uint64(seed)})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s-%d", p.key(r), seed)
		model := filepath.Join(dir, "networks", name+".onnx")
		if err := command.WriteModel(model, net, p.training()); err != nil {
			return nil, err
		}
		f, err := net.Forward(ctx, r.testX)
		if err != nil {
			return nil, err
		}
		q := &question{protocol: p, rows: r, model: model, f: f, classes: mat.NewDense(p.test, 1, nil), subsets: subsets}
		for t, k := range evaluate.Classes(f) {
			q.classes.Set(t, 0, float64(k))
		}
		q.outcomes = evaluate.Outcomes(outputs, q.classes, evaluate.Apart{})

		lik, _ := p.likelihood()
		near, err := steps.Do(ctx, dir, "nearest/"+name, func(ctx context.Context) (nearest.Mode, error) {
			m, _, err := nearest.Find(ctx, net, r.x, r.y, lik)
			return m, err
		})
		if err != nil {
			return nil, err
		}
		answers := filepath.Join(dir, "answers-"+s.gpexplain.Version(), name)
		match, err := steps.Do(ctx, answers, "match", func(ctx context.Context) (float64, error) { return s.match(ctx, q) })
		if err != nil {
			return nil, err
		}
		ask := func(at string, precision float64) error {
			a, err := steps.Do(ctx, answers, fmt.Sprintf("%.6g-%d", precision, s.halves), func(ctx context.Context) (answer, error) {
				return s.ask(ctx, q, precision)
			})
			list = append(list, judged{Protocol: p.name, Seed: seed, At: at, Match: match, answer: a})
			fmt.Fprintf(s.out, "%s network %d %s δ = %.4g: sum %.3f, removal %.3f\n", p.name, seed, at, precision, a.Sum.Mean, a.Removal.Mean)
			return err
		}
		if err := ask("stated", p.stated()); err != nil {
			return nil, err
		}
		if err := ask("nearest", near.Precision); err != nil {
			return nil, err
		}
		for _, k := range factors {
			if err := ask(multiple(k), k*match); err != nil {
				return nil, err
			}
		}
		for _, precision := range p.grid {
			if err := ask("grid", precision); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// A question is a network with what is asked about it.
type question struct {
	*protocol
	rows     *rows
	model    string
	f        *mat.Dense // of the test rows, T×C
	classes  *mat.Dense // of the test rows by the network, T×1
	subsets  [][]int
	outcomes *mat.Dense // of the target in each half, S×T
}

func (q *question) args(precision float64, rows []int, top int) []string {
	index := make([]string, len(rows))
	for i, r := range rows {
		index[i] = strconv.Itoa(r)
	}
	args := append([]string{"--model", q.model, "--index", strings.Join(index, ","), "--top", strconv.Itoa(top), "--calibrate", "none", "--quiet"}, q.rows.flags...)
	if precision > 0 {
		text := strconv.FormatFloat(precision, 'g', -1, 64)
		args = append(args, "--prior-precision", text)
	}
	return args
}

// match returns the precision that the command takes where nothing is asked for.
func (s *study) match(ctx context.Context, q *question) (precision float64, err error) {
	err = s.gpexplain.Explain(ctx, q.args(0, q.rows.testRows[:1], 1), func(e *command.Explanation) error {
		precision = float64(e.Fit.PriorPrecision)
		return nil
	})
	return precision, err
}

// ask explains the test rows at a precision and judges the terms.
func (s *study) ask(ctx context.Context, q *question, precision float64) (answer, error) {
	a := answer{Precision: precision}
	sum, removal := mat.NewDense(q.test, q.train, nil), mat.NewDense(q.test, q.train, nil)
	t := 0
	err := s.gpexplain.Explain(ctx, q.args(precision, q.rows.testRows, q.train), func(e *command.Explanation) error {
		if t == q.test || int(e.Input.Index) != q.rows.testRows[t] {
			return fmt.Errorf("explanation %d is of row %d", t, e.Input.Index)
		}
		if got := float64(e.Fit.PriorPrecision); math.Abs(got/precision-1) > 1e-12 {
			return fmt.Errorf("an explanation at precision %g, not %g", got, precision)
		}
		_, outputs := q.likelihood()
		w := make([]float64, outputs)
		evaluate.Apart{}.GradientTo(w, q.classes.RawRowView(t), w)
		c := 0
		for _, o := range e.Outputs {
			if o.Contrast != nil {
				continue
			}
			// The command must mean the same network, row and scaling as the study does.
			if f := q.f.At(t, c); math.Abs(o.Network-f) > 1e-6*(1+math.Abs(f)) {
				return fmt.Errorf("output %d of row %d is %g, and %g by gpexplain", c, e.Input.Index, f, o.Network)
			}
			for _, term := range o.Contributions {
				i, ok := q.rows.trainRow[term.Index]
				if !ok {
					return fmt.Errorf("row %d is no training row", term.Index)
				}
				sum.Set(t, i, sum.At(t, i)+w[c]*float64(term.Value))
				// What the target has from the row is what it loses without it.
				removal.Set(t, i, removal.At(t, i)-w[c]*float64(term.Removal))
			}
			c++
		}
		if c != outputs {
			return fmt.Errorf("%d outputs are explained, not %d", c, outputs)
		}
		t++
		return nil
	})
	if err != nil {
		return a, err
	}
	if t != q.test {
		return a, fmt.Errorf("%d rows are explained, not %d", t, q.test)
	}
	for scores, score := range map[*mat.Dense]*evaluate.Score{sum: &a.Sum, removal: &a.Removal} {
		var predicted mat.Dense
		evaluate.PredictionsTo(&predicted, scores, q.subsets)
		*score = evaluate.Datamodel(&predicted, q.outcomes, 0)
	}
	return a, nil
}
