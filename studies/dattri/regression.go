package dattri

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/table"
)

// A judged method has its correlations with what leaving out single rows did, and with the
// outcomes of networks trained on halves.
type judged struct {
	Name         string
	Left, Halves figure
}

// regression judges methods on a logistic regression: trained by SGD as dattri does, which
// stops early, and at the optimum under a weight decay, where every training ends alike.
func (s *study) regression(ctx context.Context) error {
	d, err := s.open(ctx, s.train, s.test)
	if err != nil {
		return err
	}
	t := &table.Table{Header: []string{"training", "method"}}
	t.Header = append(append(t.Header, figureHead("leave-one-out correlation")...), figureHead("linear datamodeling score")...)
	for _, optimum := range []bool{false, true} {
		name := "SGD"
		if optimum {
			name = fmt.Sprintf("optimum, δ = %g", s.decay)
		}
		list, err := s.judgeRegression(ctx, d, optimum)
		if err != nil {
			return err
		}
		for _, j := range list {
			t.Add(append(append([]any{name, j.Name}, j.Left.cells()...), j.Halves.cells()...)...)
		}
	}
	return s.record("regression", "Logistic regression", t)
}

// atOptimum replaces the trainings by the optimum under the decay, which they all begin at
// that of all rows.
func (s *study) atOptimum(ctx context.Context, r *evaluate.Retraining) error {
	start, err := r.Network(0)
	if err != nil {
		return err
	}
	for i := range r.Options.Precision {
		r.Options.Precision[i] = s.decay
	}
	r.Options = train.Options{Precision: r.Options.Precision, Epochs: -1, LBFGS: 5000, Tolerance: 1e-5}
	full, _, err := train.MAP(ctx, start, r.X, r.Y, r.Loss, &r.Options)
	if err != nil {
		return err
	}
	r.Network = func(uint64) (*network.Network, error) { return full, nil }
	return nil
}

func (s *study) judgeRegression(ctx context.Context, d *rows, optimum bool) ([]judged, error) {
	g := s.of(regression)
	r, err := g.retraining(d, s.outputs())
	if err != nil {
		return nil, err
	}
	r.AtOnce = 1
	at := shares
	if optimum {
		at = []float64{1}
		if err := s.atOptimum(ctx, r); err != nil {
			return nil, err
		}
	}
	q, err := problem(ctx, r, d, evaluate.Run{}, at...)
	if err != nil {
		return nil, err
	}
	var halves, singles [][]int
	for k := range s.halves {
		halves = append(halves, half(s.train, k, 0).Rows)
	}
	for _, i := range evaluate.Subsets(s.train, s.left, 1, 0)[0] {
		singles = append(singles, []int{i})
	}
	outcomes, lost, err := s.outcomes(ctx, r, d, halves, singles, 0)
	if err != nil {
		return nil, err
	}
	judge := func(name string, ofSingles, ofHalves *mat.Dense) judged {
		return judged{name, figureOf(evaluate.Datamodel(ofSingles, lost, 0)), figureOf(evaluate.Datamodel(ofHalves, outcomes, 0))}
	}
	var all []judged
	if !optimum { // all others end at the optimum too
		again, lostAgain, err := s.outcomes(ctx, r, d, halves, singles, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, judge("the same rows, trained with other seeds", lostAgain, again))
	}
	named, err := s.regressionMethods(ctx, r, q, optimum)
	if err != nil {
		return nil, err
	}
	for _, m := range named {
		on := []any{s.data, s.train, s.test, s.halves, s.left, s.networks, s.dim, s.decay, s.strength, g, optimum, fmt.Sprintf("%T", m.method), m.name}
		list, err := step(ctx, s, "regression", on, func(ctx context.Context) ([]judged, error) {
			list, err := m.method.Attribute(ctx, q)
			if err != nil {
				return nil, err
			}
			var out []judged
			for _, a := range list {
				var ofHalves, ofSingles mat.Dense
				evaluate.PredictionsTo(&ofHalves, a.Scores, halves)
				evaluate.PredictionsTo(&ofSingles, a.Scores, singles)
				out = append(out, judge(a.Name+m.name, &ofSingles, &ofHalves))
			}
			return out, nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// outcomes returns the margins of the test rows of networks trained on each half, and what they
// lose without each single row, a row of the result for each, of training number k.
func (s *study) outcomes(ctx context.Context, r *evaluate.Retraining, d *rows, halves, singles [][]int, k int) (outcomes, lost *mat.Dense, err error) {
	var runs []evaluate.Run
	for i, rows := range halves {
		runs = append(runs, evaluate.Run{Rows: rows, Seed: half(s.train, i, 0).Seed + uint64(k)<<32})
	}
	runs = append(runs, evaluate.Run{Seed: uint64(k) << 32})
	for _, one := range singles {
		runs = append(runs, evaluate.Run{Rows: evaluate.Without(s.train, one[0]), Seed: uint64(k) << 32})
	}
	outputs, err := r.Outputs(ctx, runs)
	if err != nil {
		return nil, nil, err
	}
	without := evaluate.Outcomes(outputs[len(halves):], d.testY, evaluate.Margin{})
	lost = mat.NewDense(len(singles), s.test, nil)
	lost.Apply(func(i, t int, _ float64) float64 { return without.At(0, t) - without.At(i+1, t) }, lost)
	return evaluate.Outcomes(outputs[:len(halves)], d.testY, evaluate.Margin{}), lost, nil
}

// A named method has what is added to the names of its attributions.
type named struct {
	name   string
	method evaluate.Method
}

// regularizations are those of the mean loss among which dattri takes, for influence functions
// at θ*, the one with the best correlation.
var regularizations = []float64{1, .1, .01}

// regressionMethods are those that are compared on a network of the regression.
func (s *study) regressionMethods(ctx context.Context, r *evaluate.Retraining, q *evaluate.Problem, optimum bool) ([]named, error) {
	var list []named
	if optimum {
		list = append(list, named{fmt.Sprintf(" at the stated δ = %g", s.decay), evaluate.Kernel{Precision: s.decay, Strength: s.strength}})
	} else {
		g := s.of(regression)
		length, err := g.length(s.train)
		if err != nil {
			return nil, err
		}
		m, err := match(ctx, q, length)
		if err != nil {
			return nil, err
		}
		delta := length * m.Factor
		list = append(list,
			named{fmt.Sprintf(" at the match δ = %.4g", delta), evaluate.Kernel{Precision: delta, Strength: s.strength}},
			named{fmt.Sprintf(" at the length of the training δ = %.4g", length), evaluate.Kernel{Precision: length, Strength: s.strength}},
			named{", four checkpoints", evaluate.TracIn{}})
		for _, r := range regularizations {
			at := float64(s.train) * r
			list = append(list, named{fmt.Sprintf(" δ = %g", at), evaluate.Kernel{Precision: at, Strength: s.strength, AtTheta: true}})
		}
	}
	halves, err := halfNetworks(ctx, r, s.train, s.networks)
	if err != nil {
		return nil, err
	}
	return append(list,
		named{"", evaluate.EKFAC{}},
		named{fmt.Sprintf(" of %d networks of halves", s.networks), evaluate.TRAK{Dim: s.dim, Networks: halves}},
		named{" of one network of a half", evaluate.TRAK{Dim: s.dim, Networks: halves[:1]}},
		named{" of the network", evaluate.TRAK{Dim: s.dim}},
		named{"", evaluate.GradientDot{}},
		named{"", evaluate.LastLayer{}},
		named{"", evaluate.Random{}}), nil
}
