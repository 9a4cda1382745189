package funcgp

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// evidenceForms are the names of the evidences, as Maximize takes them. The second starts at the mode of the first where
// both are computed in this order.
var evidenceForms = option.Values("form")

// forms maps the names of the evidences to their forms.
var forms = map[string]evidence.Form{"refit": evidence.Refit, "held-sites": evidence.HeldSites, "linear-gaussian": evidence.LinearGaussian, "at-theta": evidence.AtTheta}

// An evidenceStudy evaluates the evidence of an exact posterior as a function of its prior and noise variances.
type evidenceStudy struct {
	con     *job.Job
	problem *problem
	prior   ntk.Prior
	groups  []priorGroup // whose variances are looked at apart
	spans   []ntk.Group
	common  bool // one factor for all groups is looked for
	data    *evidence.Problem
}

// newEvidenceStudy returns a study of a posterior whose prior variances vary by these groups.
func newEvidenceStudy(con *job.Job, p *problem, q *solution, groups []priorGroup, common bool) *evidenceStudy {
	s := &evidenceStudy{con: con, problem: p, prior: q.prior, groups: groups, common: common, spans: spans(p.Model.Net, groups)}
	if x, ok := q.Dual.Data().(*linearize.Batch); ok {
		s.data = &evidence.Problem{X: x, Y: p.TrainTargets(), Theta: p.Model.Net.Theta(), Prior: s.prior, Groups: s.spans}
	}
	return s
}

func (s *evidenceStudy) options() *evidence.Options {
	return &evidence.Options{Limits: s.problem.Bounds(s.con)}
}

// report returns the groups without their gradients.
func (s *evidenceStudy) report() []result.EvidenceGroup {
	out := make([]result.EvidenceGroup, len(s.groups))
	for g, x := range s.groups {
		out[g] = result.EvidenceGroup{Name: x.Name, Tensors: []string{}, Variance: result.Float(x.Variance), Gradient: noValues()}
		for _, t := range x.Tensors {
			out[g].Tensors = append(out[g].Tensors, t.Name)
		}
		for _, t := range s.spans[g].Spans {
			out[g].Parameters += t.Len()
		}
	}
	return out
}

// Gradient returns the derivatives of the evidences at the posterior's prior, by group and in all. Without inducing
// examples they are exact. Of a posterior with inducing examples those at the optimum of the linearized model are not
// known, and of kept rows and of rows that do not fit into memory none.
func (s *evidenceStudy) Gradient(ctx context.Context, q *solution) ([]result.EvidenceGroup, result.EvidenceGradient, error) {
	groups, total := s.report(), result.EvidenceGradient{EvidenceValues: noValues()}
	var by map[string][]float64
	var noise *result.EvidenceValues
	var err error
	switch q.How.Name {
	case "exact", "parameters":
		if s.data != nil {
			by, noise, err = s.exactGradient(ctx)
		}
	case "nystrom", "subset":
		by, err = s.sparseGradient(ctx, q.induced)
	}
	if e := (*gp.MemoryError)(nil); errors.As(err, &e) {
		s.con.Warn(job.NewWarning("skipped", math.NaN(), math.NaN(), "Raise {max-memory}.", "The derivatives of the evidence take %s. They are not known.", takes(e)))
		by, err = nil, nil
	}
	if err != nil {
		return nil, total, err
	}
	total.Noise = noise
	for form, list := range by {
		sum := 0.0
		for g, v := range list {
			setForm(&groups[g].Gradient, form, v)
			sum += v
		}
		setForm(&total.EvidenceValues, form, sum)
	}
	return groups, total, nil
}

// EvidenceLowerBounds returns the lower bounds, through inducing examples, of the evidence at θ* and of the
// evidence of the linear-Gaussian model.
func (q *solution) EvidenceLowerBounds() (atTheta, linear gp.Evidence) {
	return q.induced.EvidenceAtThetaLowerBound(q.Evidence.Scatter), q.induced.EvidenceLowerBound()
}

// EvidenceAtMode is the evidence at the mode of the linearized model by the method of q, a posterior at θ*.
func (q *solution) EvidenceAtMode(ctx context.Context, c *job.Job, p *problem) (gp.Evidence, error) {
	if q.exact != nil { // which has the kernel
		refit, err := q.exact.Refit(ctx, p.TrainTargets())
		if err != nil {
			return gp.Evidence{}, err
		}
		c.Warn(refit.Warnings()...)
		return refit.EvidenceRefit(), nil
	}
	o := q.asked
	o.AtTheta, o.Prior.At = false, atStated
	refit, err := (&fit{con: c, problem: p, asked: o, quiet: true}).run(ctx)
	if err != nil {
		return gp.Evidence{}, err
	}
	return refit.Evidence, nil
}

// AtTheta returns the posterior at the trained parameters and the stated precision, by the method of q, with
// the mean of the linear-Gaussian model there. It returns q itself if q is that posterior.
func (q *solution) AtTheta(ctx context.Context, c *job.Job, p *problem) (*solution, error) {
	if q.weights == nil && !q.network && !q.refitted && q.How.mean == gp.LinearGaussian {
		return q, nil
	}
	o := FitOptions{Method: q.asked.Method, AtTheta: true}
	if p.Saved != nil {
		var err error
		if o.Method, err = p.savedMethod(); err != nil {
			return nil, err
		}
	}
	return solve(ctx, c, p, &o)
}

func noValues() result.EvidenceValues {
	return result.EvidenceValues{AtTheta: result.Undefined(), LinearGaussian: result.Undefined(), Refit: result.Undefined(), HeldSites: result.Undefined()}
}

// setForm sets the value of one evidence.
func setForm(v *result.EvidenceValues, form string, x float64) {
	switch form {
	case "at-theta":
		v.AtTheta = result.Float(x)
	case "linear-gaussian":
		v.LinearGaussian = result.Float(x)
	case "held-sites":
		v.HeldSites = result.Float(x)
	default:
		v.Refit = result.Float(x)
	}
}

func (s *evidenceStudy) exactGradient(ctx context.Context) (map[string][]float64, *result.EvidenceValues, error) {
	o := s.options()
	o.PerGroup = true
	m, err := evidence.New(ctx, s.data, o)
	if err != nil {
		return nil, nil, err
	}
	by, noise := map[string][]float64{}, noValues()
	for _, form := range evidenceForms {
		x, err := m.At(ctx, forms[form], make([]float64, len(s.groups)), 0)
		if err != nil {
			return nil, nil, err
		}
		by[form] = x.Gradient
		setForm(&noise, form, x.NoiseGradient)
	}
	if !hasNoise(s.problem.Task.Likelihood) {
		return by, nil, nil
	}
	return by, &noise, nil
}

func (s *evidenceStudy) sparseGradient(ctx context.Context, dual *sparse.Posterior) (map[string][]float64, error) {
	theta := s.problem.Model.Net.Theta()
	factor := slices.Repeat([]float64{1}, len(s.groups))
	prior, err := ntk.NewScaled(s.prior, len(theta), s.spans, factor)
	if err != nil {
		return nil, err
	}
	mean, variance := make([]float64, len(theta)), make([]float64, len(theta))
	prior.MeanTo(mean)
	prior.VarianceTo(variance)
	k := ntk.New(prior, theta)
	kernels, scatter := make([]ntk.Kernel, len(s.groups)), make([]float64, len(s.groups))
	for g := range s.groups {
		kernels[g] = k.GroupKernel(g)
		for _, span := range s.spans[g].Spans {
			for i := span.Offset; i < span.Offset+span.Len(); i++ {
				if d := theta[i] - mean[i]; d != 0 {
					scatter[g] += d * d / variance[i]
				}
			}
		}
	}
	by := map[string][]float64{}
	if by["at-theta"], err = dual.GradientAtTheta(ctx, kernels, scatter); err != nil {
		return nil, err
	}
	by["linear-gaussian"], err = dual.GradientLinearGaussian(ctx, kernels)
	return by, err
}

// Maximize finds the variances under which an evidence is highest, with one factor for each group, and with the noise
// variance if asked.
func (s *evidenceStudy) Maximize(ctx context.Context, form string, noise bool) (*evidence.Result, error) {
	o := s.options()
	if p, ok := s.prior.(*groupedPrior); ok && p.Kind == priorG {
		o.Lowest, o.Highest = -16, 12 // g starts at 1 and is often far smaller
	}
	o.PerGroup, o.Noise = !s.common, noise
	r, err := evidence.Maximize(ctx, s.data, forms[form], o)
	s.con.Clear()
	return r, err
}

// Optimum returns the result of Maximize in the form that JSON shows, and the groups with the variances found.
func (s *evidenceStudy) Optimum(form string, r *evidence.Result) (*result.EvidenceOptimum, []priorGroup) {
	start := s.problem.Task.Noise
	point := func(logFactor []float64, logNoise, value float64) result.EvidencePoint {
		x := result.EvidencePoint{LogEvidence: result.Float(value)}
		for g := range s.groups {
			c := logFactor[0]
			if !s.common {
				c = logFactor[g]
			}
			x.Variances = append(x.Variances, result.Float(s.groups[g].Variance*math.Exp(c)))
		}
		if hasNoise(s.problem.Task.Likelihood) {
			x.Noise = numberPointer(start * math.Exp(logNoise))
		}
		return x
	}
	o := &result.EvidenceOptimum{Form: form, Start: point(r.Start.LogFactor, 0, r.Start.Evidence.Value), Best: point(r.LogFactor, r.LogNoise, r.Evidence.Value),
		Iterations: r.Iterations, Settled: r.Settled, Zero: []string{}, Edge: []string{}, Held: s.held()}
	groups := slices.Clone(s.groups)
	for g, x := range s.report() {
		o.Groups, o.Parameters = append(o.Groups, x.Name), append(o.Parameters, x.Parameters)
		groups[g].Variance = float64(o.Best.Variances[g])
	}
	names := o.Groups
	if s.common && len(names) > 1 {
		names = []string{"all groups"}
	}
	names = append(slices.Clone(names), "noise")
	for _, g := range r.Zero {
		o.Zero = append(o.Zero, names[g])
	}
	for _, g := range r.AtEdge {
		o.Edge = append(o.Edge, names[g])
	}
	for _, m := range r.Maxima {
		o.Maxima = append(o.Maxima, point(m.LogFactor, m.LogNoise, m.Evidence))
	}
	for _, t := range r.Trials {
		o.Trajectory = append(o.Trajectory, point(t.LogFactor, t.LogNoise, t.Evidence))
	}
	return o, groups
}

// held is the number of parameters that the prior holds at θ*.
func (s *evidenceStudy) held() int {
	if p, ok := s.prior.(*groupedPrior); ok {
		return p.Held()
	}
	return 0
}

const (
	curveReach  = 6  // either way of the prior, in the log of its precision
	curvePoints = 25 // of the curve
)

// Curve returns the evidences with all variances of a prior multiplied by a common factor, for a range of
// factors, and the evidences at the prior itself. precision is the value of the axis at the prior itself.
func (s *evidenceStudy) Curve(ctx context.Context, prior ntk.Prior, lik gp.Likelihood, precision float64) (out []result.EvidenceCurvePoint, at result.EvidenceValues, err error) {
	p := *s.data
	p.Prior, p.Groups, p.Y = prior, nil, p.Y.Under(lik)
	o := s.options()
	o.PerGroup = false
	m, err := evidence.New(ctx, &p, o)
	if err != nil {
		return nil, at, err
	}
	for i, x := range minimize.Grid(-curveReach, curveReach, curvePoints) {
		c := result.EvidenceCurvePoint{PriorPrecision: result.Float(precision * math.Exp(-x)), EvidenceValues: noValues()}
		for _, form := range evidenceForms {
			here, err := m.Value(ctx, forms[form], []float64{x}, 0)
			if ctx.Err() != nil {
				return nil, at, ctx.Err()
			}
			if err != nil {
				s.con.Detail("log evidence at precision %.4g: %v", float64(c.PriorPrecision), err)
				continue
			}
			setForm(&c.EvidenceValues, form, here.Value)
		}
		if x == 0 {
			at = c.EvidenceValues
		}
		out = append(out, c)
		s.con.Show("curve", i+1, curvePoints)
	}
	s.con.Clear()
	return out, at, nil
}

// withGPrior returns the problem with the neural g-prior of g = 1: the variance of a parameter is n over the sum of
// its squared Jacobian, weighted by Λ, over the n training rows, and parameters on which no output depends are held at
// θ* [gprior 10–13].
func withGPrior(ctx context.Context, con *job.Job, p *problem) (*problem, error) {
	theta := p.Model.Net.Theta()
	x, err := p.TrainingExamples(ctx, p.KeepsJacobian())
	if err != nil {
		return nil, err
	}
	sites, err := gp.SitesFrom(ctx, x, p.TrainTargets())
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	any, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, x, sites, any, theta, &weightspace.Options{Limits: p.Bounds(con)})
	con.Clear()
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	g, err := ntk.NewGPrior(w.(*weightspace.DiagonalPosterior).GGN(), x.Len(), theta, 1)
	if err != nil {
		return nil, err
	}
	scale := make([]float64, len(theta))
	g.VarianceTo(scale)
	return p.WithPrior(newPrior(priorG, oneGroup(p.Model.Net, 1), scale, p.Model.Net, "the Fisher information of each parameter, from {g-prior}")), nil
}
