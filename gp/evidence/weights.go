package evidence

import (
	"context"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// weightSpace computes posteriors from the precision of the parameters. While the sites are held, one JᵀΛJ serves for all
// variances.
type weightSpace struct {
	m    *Model
	unit []float64              // prior variances at factors of 1, P numbers
	last *weightspace.Posterior // its memory is reused by the next posterior
}

// inWeightSpace tells whether an evaluation takes less work in weight space. Both spaces take about five
// factorizations, and weight space also takes the product of P×N·C with N·C×P for each.
func inWeightSpace(p, nc int) bool {
	w, f := float64(p), float64(nc)
	return 2.5*f*w*w+w*w*w < f*f*f
}

func newWeightSpace(m *Model) (*weightSpace, error) {
	x := m.p.X
	c := x.Outputs()
	err := gp.CheckMemory("an evidence in weight space", gp.Parameters, x.P, m.o.Memory, func(p int) int64 { return weightspace.Bytes(p, c) })
	w := &weightSpace{m: m, unit: make([]float64, x.P)}
	m.prior.VarianceTo(w.unit)
	return w, err
}

func (w *weightSpace) at(ctx context.Context, form Form, prior *ntk.Scaled, y *gp.Targets) (posterior, error) {
	p := w.m.p
	s, err := gp.NewSites(y, p.X.F)
	if err != nil {
		return nil, err
	}
	q := &weights{space: w, prior: prior}
	o := &weightspace.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Memory: w.m.o.Memory}, Reuse: w.last}
	w.last = nil // its memory is invalid from here on, also if this fails
	if form.refits() {
		q.Posterior, err = weightspace.Refit(ctx, p.X, y, prior, p.Theta, o)
		if err == nil && form == HeldSites {
			q.mode, o.Reuse = &exactMode{q.EvidenceRefit(), q.Dual(), q.Warnings()}, q.Posterior
		}
	}
	if err == nil && form != Refit {
		q.Posterior, err = weightspace.Fit(ctx, p.X, s, prior, p.Theta, o)
	}
	if err != nil {
		return nil, err
	}
	w.last = q.Posterior
	return q, nil
}

// A weights is a posterior in weight space.
type weights struct {
	*weightspace.Posterior
	space *weightSpace
	prior *ntk.Scaled
	mode  *exactMode // for HeldSites, where Posterior is at the sites of θ*; else nil
}

func (q *weights) evidence(form Form, scatter float64) gp.Evidence {
	switch form {
	case AtTheta:
		return gp.NewEvidence(q.Sites().LogLik, scatter, q.LogDet())
	case LinearGaussian:
		return q.EvidenceLinearGaussian()
	case HeldSites:
		return gp.NewEvidence(q.mode.LogLik, q.mode.Scatter, q.LogDet())
	}
	return q.EvidenceRefit()
}

func (q *weights) sites() *gp.Sites { return q.Sites() }

func (q *weights) warnings() []error {
	if q.mode != nil {
		return q.mode.warnings
	}
	return q.Warnings()
}

func (q *weights) dual() []float64 {
	if q.mode != nil {
		return q.mode.alpha
	}
	return q.Dual()
}

func (q *weights) terms(ctx context.Context, form Form, y *gp.Targets) (*terms, error) {
	groups := q.prior.Groups()
	g, err := q.GroupTerms(ctx, groups, q.prior.Factors(), q.space.unit, q.dual())
	if err != nil {
		return nil, err
	}
	t := &terms{trace: g.Trace, quad: g.Quad, inverse: g.Inverse}
	if form == Refit {
		t.moving = make([]float64, len(groups))
		if _, constant := y.Likelihood.(*glm.Gaussian); !constant {
			t.moving, err = q.Moving(ctx, groups, q.space.unit, y)
		}
	}
	return t, err
}
