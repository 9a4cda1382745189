package dattri

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/table"
)

// A variant is a way to make TRAK's scores of several networks.
type variant struct {
	Networks int
	Score    string // which numbers are summed
	figure
}

// trak judges TRAK on the MLP by networks of all rows, of halves, and of the halves whose
// outcomes are predicted, and by ways to take means over networks.
func (s *study) trak(ctx context.Context) error {
	d, err := s.open(ctx, s.train, s.test)
	if err != nil {
		return err
	}
	g := s.of(mlp)
	r, err := g.retraining(d, s.outputs())
	if err != nil {
		return err
	}
	r.AtOnce = 1
	var runs []evaluate.Run
	var halves [][]int
	for k := range s.halves {
		runs = append(runs, half(s.train, k, 0))
		halves = append(halves, runs[k].Rows)
	}
	outputs, err := r.Outputs(ctx, runs)
	if err != nil {
		return err
	}
	outcomes := evaluate.Outcomes(outputs, d.testY, evaluate.Margin{})
	judge := func(scores *mat.Dense) figure {
		var sums mat.Dense
		evaluate.PredictionsTo(&sums, scores, halves)
		return figureOf(evaluate.Datamodel(&sums, outcomes, 0))
	}
	t := &table.Table{Header: append([]string{"networks trained on", "columns", "networks", "score"}, figureHead("linear datamodeling score")...)}
	for _, rows := range []struct {
		name string
		run  func(k int) evaluate.Run
	}{
		{"all rows", func(k int) evaluate.Run { return evaluate.Run{Seed: uint64(k)} }},
		{"halves", func(k int) evaluate.Run { return half(s.train, k, 1) }},
		{"the halves that are predicted", func(k int) evaluate.Run { return half(s.train, k, 0) }},
	} {
		list, err := step(ctx, s, "trak", []any{s.data, s.train, s.test, s.halves, s.networks, s.dim, g, rows.name}, func(ctx context.Context) ([]variant, error) {
			return s.variants(ctx, r, d, rows.run, judge)
		})
		if err != nil {
			return err
		}
		for _, v := range list {
			t.Add(append([]any{rows.name, s.dim, v.Networks, v.Score}, v.cells()...)...)
		}
	}
	return s.record(fmt.Sprintf("trak-%d-%d", s.networks, s.dim), "TRAK", t)
}

// variants judges the ways of one kind of networks, for one of them and for all.
func (s *study) variants(ctx context.Context, r *evaluate.Retraining, d *rows, run func(k int) evaluate.Run, judge func(scores *mat.Dense) figure) ([]variant, error) {
	var list []variant
	terms, products := mat.NewDense(s.test, s.train, nil), mat.NewDense(s.test, s.train, nil)
	weights := make([]float64, s.train)
	for k := range s.networks {
		q, err := problem(ctx, r, d, run(k), 1)
		if err != nil {
			return nil, err
		}
		term, weight, err := evaluate.TRAK{Dim: s.dim}.Factors(ctx, q, q.Network, k)
		if err != nil {
			return nil, err
		}
		terms.Add(terms, term)
		for i, w := range weight {
			weights[i] += w
		}
		weighted(term, term, weight)
		products.Add(products, term)
		if k > 0 && k < s.networks-1 {
			continue
		}
		var product mat.Dense
		weighted(&product, terms, weights)
		list = append(list, variant{k + 1, "φ(x)ᵀ(ΦᵀΦ)⁻¹φ(x_i) alone", judge(terms)})
		if k > 0 {
			list = append(list, variant{k + 1, "mean of products with 1 − p_i", judge(products)})
		}
		list = append(list, variant{k + 1, "product of means", judge(&product)})
	}
	return list, nil
}

// weighted writes scores times the weights of their training rows.
func weighted(dst, scores *mat.Dense, weights []float64) {
	dst.Apply(func(_, i int, v float64) float64 { return v * weights[i] }, scores)
}
