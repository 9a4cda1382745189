package main

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize"
)

// predictions are the answers for a batch of rows.
type predictions struct {
	mean, cov      *mat.Dense // T×C, T·C×C
	prob, sd, map0 *mat.Dense // T×classes, nil for a regression
}

// predict evaluates posterior and link at the rows of b.
func (p *posterior) predict(ctx context.Context, b *linearize.Batch, link glm.Link) (*predictions, error) {
	t, c := b.Len(), b.Outputs()
	out := &predictions{mean: mat.NewDense(t, c, nil), cov: mat.NewDense(t*c, c, nil)}
	if err := p.PredictTo(ctx, out.mean, out.cov, b); err != nil {
		return nil, err
	}
	if p.classed == nil {
		return out, nil
	}
	if err := out.respond(p.lik, link); err != nil {
		return nil, err
	}
	out.map0 = mat.NewDense(t, c, nil)
	for i := range t {
		p.lik.MeanTo(out.map0.RawRowView(i), b.F.RawRowView(i))
	}
	if c > 1 {
		return out, nil
	}
	// One output p speaks for the second class, and 1 − p for the first.
	rest := mat.NewDense(t, 1, nil)
	for i := range t {
		p.lik.MeanTo(rest.RawRowView(i), []float64{-b.F.At(i, 0)})
	}
	out.map0 = sideBySide(rest, out.map0)
	return out, nil
}

// respond fills in the probabilities and their standard deviations.
func (o *predictions) respond(lik glm.Likelihood, link glm.Link) error {
	o.prob, o.sd = new(mat.Dense), new(mat.Dense)
	if err := link.PredictTo(o.prob, o.sd, lik, o.mean, o.cov); err != nil {
		return err
	}
	t, c := o.prob.Dims()
	if c > 1 {
		return nil
	}
	rest := mat.NewDense(t, 1, nil)
	switch link.(type) {
	case glm.Exact, glm.Probit:
		// E σ(−f), which keeps its digits where p is 1 to rounding.
		var minus mat.Dense
		minus.Scale(-1, o.mean)
		if err := link.PredictTo(rest, nil, lik, &minus, o.cov); err != nil {
			return err
		}
	default:
		for i := range t {
			rest.Set(i, 0, 1-o.prob.At(i, 0))
		}
	}
	o.prob, o.sd = sideBySide(rest, o.prob), sideBySide(o.sd, o.sd)
	return nil
}

func sideBySide(a, b *mat.Dense) *mat.Dense {
	var m mat.Dense
	m.Augment(a, b)
	return &m
}

// class is the label of the network's argmax.
func (p *posterior) class(f []float64) float64 {
	if p.classed == nil {
		return float64(report.Undefined())
	}
	return float64(p.classed[argmaxClass(f)])
}

// argmaxClass is the number of the class with the largest output; one output
// speaks for the second class where it is positive.
func argmaxClass(f []float64) int {
	if len(f) == 1 {
		if f[0] > 0 {
			return 1
		}
		return 0
	}
	k := 0
	for c, v := range f {
		if v > f[k] {
			k = c
		}
	}
	return k
}

// rowOf is row i of m, nil for a nil matrix.
func rowOf(m *mat.Dense, i int) []report.Float {
	if m == nil {
		return nil
	}
	return report.Floats(m.RawRowView(i))
}

// block is the C×C covariance of row i.
func block(cov *mat.Dense, i int) [][]report.Float {
	_, c := cov.Dims()
	out := make([][]report.Float, c)
	for j := range c {
		out[j] = report.Floats(cov.RawRowView(i*c + j))
	}
	return out
}
