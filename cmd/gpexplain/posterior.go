package main

import (
	"context"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// posterior is a fitted session.
type posterior struct {
	*session
	theta  []float64
	kernel *ntk.NTK
	batch  *linearize.Batch // training examples
	exact  *gp.Exact        // the posterior to answer from
	grad   float64          // gradient norm of the MAP objective at θ*
}

// fit linearizes the training rows and conditions on them; refit moves to the
// mode of the linearized model (E9).
func (s *session) fit(ctx context.Context, refit bool) (*posterior, error) {
	p := &posterior{session: s, theta: s.net.Theta(), kernel: ntk.New(s.prior, s.net.Theta(), nil)}
	d, c, params := s.net.Dims()
	n := s.train.Len()
	s.detail("%d training examples, %d inputs, %d outputs, %d parameters, prior precision %g, %s likelihood", n, d, c, params, s.delta, s.lik.Name())
	s.detail("memory: kernel and factor %.1f MiB of %.0f MiB allowed", float64(gp.Bytes(n, c))/(1<<20), float64(gp.MemoryBudget(s.bytes))/(1<<20))
	s.watch.lap("load")
	var err error
	if p.batch, err = s.net.Linearize(ctx, s.x); err != nil {
		return nil, err
	}
	s.watch.lap("linearize")
	sites, err := gp.NewSites(s.y, p.batch.F, s.lik)
	if err != nil {
		return nil, err
	}
	formed := time.Now()
	o := &gp.Options{Mean: s.mean, MaxMemory: s.bytes, Progress: func(stage string, done, total int) {
		if stage == gp.StageKernel && done == total {
			formed = time.Now()
		}
		s.progress.show(stage, done, total)
	}}
	if refit {
		p.exact, err = gp.Refit(ctx, p.kernel, p.batch, s.y, s.lik, o)
	} else {
		p.exact, err = gp.Fit(ctx, p.kernel, p.batch, sites, o)
	}
	s.progress.clear()
	if err != nil {
		return nil, err
	}
	s.watch.lapAt("kernel", formed)
	p.grad = gp.GradientNorm(p.batch, sites, s.prior, p.theta)
	for _, w := range p.exact.Warnings() {
		s.warn(w)
	}
	s.watch.lap("factorize")
	return p, nil
}

// report is the fit as JSON shows it.
func (p *posterior) report() explain.Fit {
	_, c, params := p.net.Dims()
	var e gp.Evidence
	if p.exact.Refitted() {
		e = p.exact.EvidenceRefit()
	} else {
		e = p.exact.EvidenceAtTheta(gp.Scatter(p.prior, p.theta))
	}
	return explain.Fit{Examples: p.train.Len(), Outputs: c, Parameters: params, PriorPrecision: explain.Float(p.delta), Refit: p.exact.Refitted(),
		GradientNorm: explain.Float(p.grad), LogEvidence: explain.Float(e.Value), LogDet: explain.Float(e.LogDet),
		LogLikelihood: explain.Float(e.LogLik), Scatter: explain.Float(e.Scatter), Warnings: p.warnings}
}

func newDense(r, c int) *mat.Dense { return mat.NewDense(r, c, nil) }

// predictions are the answers for a batch of rows.
type predictions struct {
	mean, cov      *mat.Dense // T×C, T·C×C
	prob, sd, map0 *mat.Dense // T×classes, nil for a regression
	response       *mat.Dense // T×C: E[y] under the link
}

// predict evaluates posterior and link at the rows of b.
func (p *posterior) predict(b *linearize.Batch, link glm.Link) (*predictions, error) {
	t, c := b.Len(), b.Outputs()
	out := &predictions{mean: newDense(t, c), cov: newDense(t*c, c)}
	if err := p.exact.PredictTo(out.mean, out.cov, b); err != nil {
		return nil, err
	}
	mean, sd, at0 := newDense(t, c), newDense(t, c), newDense(t, c)
	if err := link.PredictTo(mean, sd, p.lik, out.mean, out.cov); err != nil {
		return nil, err
	}
	for i := range t {
		p.lik.MeanTo(at0.RawRowView(i), b.F.RawRowView(i))
	}
	out.response = mean
	if p.classed != nil {
		out.prob, out.sd, out.map0 = perClass(mean, false), perClass(sd, true), perClass(at0, false)
	}
	return out, nil
}

// perClass gives every class a column: one output p becomes 1−p and p, and
// its standard deviation belongs to both.
func perClass(m *mat.Dense, same bool) *mat.Dense {
	t, c := m.Dims()
	if c > 1 {
		return m
	}
	out := newDense(t, 2)
	for i := range t {
		v := m.At(i, 0)
		out.Set(i, 1, v)
		out.Set(i, 0, 1-v)
		if same {
			out.Set(i, 0, v)
		}
	}
	return out
}

// class is the label of the network's argmax.
func (p *posterior) class(f []float64) float64 {
	if p.classed == nil {
		return float64(explain.Undefined())
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
func rowOf(m *mat.Dense, i int) []explain.Float {
	if m == nil {
		return nil
	}
	return explain.Floats(m.RawRowView(i))
}

// block is the C×C covariance of row i.
func block(cov *mat.Dense, i int) [][]explain.Float {
	_, c := cov.Dims()
	out := make([][]explain.Float, c)
	for j := range c {
		out[j] = explain.Floats(cov.RawRowView(i*c + j))
	}
	return out
}
