package funcgp

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/ntk"
)

// An Evidence has the log evidences of a model for its training rows.
type Evidence = result.Evidence

// EvidenceOptions ask Evidence for more than the evidences themselves. The zero value asks for nothing more.
type EvidenceOptions struct {
	// Gradient asks for the derivatives of the evidences in the log variance of each layer, and in the log
	// noise variance.
	Gradient bool
	// Maximize names the evidence to maximize over the prior variance, and over the noise variance of a
	// Gaussian likelihood: refit, held-sites, linear-gaussian or at-theta. "" maximizes none. The posterior
	// must be of method exact.
	Maximize string
	// PerLayer maximizes over a variance for each layer. NormalizedApart maximizes over one variance for the
	// layers before a normalization and another for all other layers. By default one factor scales all
	// variances.
	PerLayer, NormalizedApart bool
	KeepNoise                 bool   // keeps the noise variance
	PriorFile                 string // where the prior that was found is written, for Prior.File; "" nowhere
	Curve                     bool   // asks for the evidences over the prior precision, of a posterior of method exact
}

// Evidence is the log evidence of the network for its training rows at the trained parameters, of the linear-Gaussian
// model there, at the optimum of the linearized model, and the last with the sites held (E7 to E9 of doc/equations.md).
// They are at the precision and the noise variance that were stated, under which another posterior is fitted by the
// same method unless FitOptions.AtTheta was given. The options may be nil.
func (p *Posterior) Evidence(ctx context.Context, o *EvidenceOptions) (*Evidence, error) {
	end, err := p.functions(ctx, "Evidence")
	if err != nil {
		return nil, err
	}
	defer end()
	if o == nil {
		o = &EvidenceOptions{}
	}
	c := job.FromContext(ctx)
	q, err := p.post.AtTheta(ctx, c, p.problem)
	if err != nil {
		return nil, named(err)
	}
	at := q.Evidence
	s := &evidenceSearch{EvidenceOptions: o, of: p, job: c, post: q, out: &Evidence{Schema: "funcgp/evidence/1", EvidenceValues: result.EvidenceValues{AtTheta: result.Float(at.Value)},
		LogLikelihood: result.Float(at.LogLik), Scatter: result.Float(at.Scatter), LogDet: result.Float(at.LogDet), NoiseVariance: result.Undefined(), Method: q.How.Name, Bound: at.Bound.String()}}
	if err := errors.Join(s.others(ctx), ctx.Err()); err != nil {
		return nil, named(err)
	}
	if err := errors.Join(s.study(ctx), ctx.Err()); err != nil {
		return nil, named(err)
	}
	c.Clear()
	e, f := s.out, p.reportOf(c, q)
	e.Fit, e.Warnings, e.Remarks = f, f.Warnings, f.Remarks
	e.PriorPrecision, e.Prior = f.PriorPrecision, f.Prior
	e.PriorPrecisionOrigin, e.NoiseVarianceOrigin, e.Preprocessing, e.Preflight, e.Grouped = f.PriorPrecisionOrigin, f.NoiseVarianceOrigin, f.Preprocessing, f.Preflight, f.Grouped
	if v := p.problem.Task.Noise; v > 0 {
		e.NoiseVariance = result.Float(v)
	}
	return e, nil
}

// An evidenceSearch fills in an Evidence.
type evidenceSearch struct {
	*EvidenceOptions
	of   *Posterior
	job  *job.Job
	post *solution // at θ*
	out  *Evidence
}

// others fills in two evidences of the linear-Gaussian model: at θ*, and at the optimum of the linearized
// model.
func (s *evidenceSearch) others(ctx context.Context) error {
	p, q, e := s.of.problem, s.post, s.out
	if k := q.Report(p, nil).Certificate; k != nil {
		e.LinearGaussian, e.Certificate = result.Undefined(), k
	} else {
		linear, err := q.Dual.EvidenceLinearGaussian(ctx)
		if err != nil {
			return err
		}
		e.LinearGaussian = result.Float(linear.Value)
	}
	if q.How.Name == "nystrom" {
		at, linear := q.EvidenceLowerBounds()
		e.AtThetaLower, e.LinearGaussianLower = numberPointer(at.Value), numberPointer(linear.Value)
	}
	refit, err := q.EvidenceAtMode(ctx, s.job, p)
	if err != nil {
		return err
	}
	e.Refit = result.Float(refit.Value)
	saved := p.Saved // the posterior at θ* of a variational file is Laplace's
	if s.of.post.elbo != nil || s.of.post.asked.variational() || saved != nil && saved.Header.Fit.ELBO != nil {
		r, err := p.refined(ctx, s.job, q.How.Name, q.Dual.Data(), q.prior)
		if err != nil {
			return err
		}
		e.ELBO = elboOf(&r.Refinement)
	}
	e.HeldSites = result.Float(gp.NewEvidence(refit.LogLik, refit.Scatter, q.Evidence.LogDet).Value) // with the log determinant at θ*
	return nil
}

// study fills in the layers before a normalization, the derivatives, the optimum and the curve.
func (s *evidenceSearch) study(ctx context.Context) (err error) {
	p, q, e := s.of.problem, s.post, s.out
	if e.Normalized, err = p.Normalized(ctx, s.job); err != nil {
		return err
	}
	if len(e.Normalized) > 0 {
		s.job.Warn(job.NewWarning("scale-free-layers", math.NaN(), math.NaN(), "Choose a precision by {optimize} {form=held-sites}.",
			"The outputs do not depend on the scale of %s, as before a normalization. The trained parameters are a mode for no Gaussian prior, and the evidence at them says nothing.", job.Cut(strings.Join(e.Normalized, ", "), 200)))
	}
	groups, common, err := s.groups(s.PerLayer)
	if err != nil {
		return err
	}
	if s.Gradient {
		layers, _, err := s.groups(true)
		if err != nil {
			return err
		}
		if e.Groups, e.Gradient, err = newEvidenceStudy(s.job, p, q, layers, false).Gradient(ctx, q); err != nil {
			return err
		}
	}
	at, several := q.Precision(), p.Task.Prior != nil
	prior, values := q.Prior(), &e.EvidenceValues
	lik := gp.Likelihood(p.Task.Likelihood)
	if s.Maximize != "" {
		if err := s.wholeAlone("a prior is found"); err != nil {
			return err
		}
		study := newEvidenceStudy(s.job, p, q, groups, common)
		found, err := study.Maximize(ctx, s.Maximize, hasNoise(p.Task.Likelihood) && !s.KeepNoise)
		if err != nil {
			return err
		}
		s.job.Warn(found.Warnings...)
		e.Optimum, groups = study.Optimum(s.Maximize, found)
		if prior, at, err = s.found(groups); err != nil {
			return err
		}
		lik, several, values = found.Likelihood, several || len(groups) > 1, nil
	}
	if !s.Curve {
		return nil
	}
	if err := s.wholeAlone("the curve is"); err != nil {
		return err
	}
	points, there, err := newEvidenceStudy(s.job, p, q, oneGroup(p.Model.Net, 1), true).Curve(ctx, prior, lik, at)
	if values == nil {
		values = &there
	}
	e.Curve = &result.EvidenceCurve{Points: points, Values: *values, At: result.Float(at), Several: several}
	return err
}

// wholeAlone returns an error for posteriors that have no kernel of all training rows.
func (s *evidenceSearch) wholeAlone(what string) error {
	if s.post.How.Name == "exact" {
		return nil
	}
	return job.FullErrorf("%s by {method=exact} alone, and this posterior is by %s", what, s.post.How.Name)
}

// found builds the prior from the optimum and writes it to the file, if one is asked for. precision is the
// single number that summarizes the prior.
func (s *evidenceSearch) found(groups []priorGroup) (prior ntk.Prior, precision float64, err error) {
	p, o := s.of.problem, s.out.Optimum
	kind, scale := priorIsotropic, []float64(nil)
	if len(groups) > 1 {
		kind = priorGroups
	}
	if own := p.Task.Prior; own != nil && own.Kind == priorG {
		kind, scale = priorG, own.Scale()
	}
	if o.Kind = kind; kind == priorIsotropic {
		if groups[0].Variance == 0 {
			return nil, 0, job.FullErrorf("{optimize}: the evidence is highest with all parameters held at 0, under no prior: the network says nothing of the targets; check model and data")
		}
		precision = 1 / groups[0].Variance
		if prior, err = ntk.NewIsotropic(precision, nil); err != nil {
			return nil, 0, err
		}
	} else {
		own := newPrior(kind, groups, scale, p.Model.Net, "")
		prior, precision = own, own.Precision
	}
	if s.PriorFile == "" {
		return prior, precision, nil
	}
	noise := 0.0
	if o.Best.Noise != nil {
		noise = float64(*o.Best.Noise)
	}
	o.File = s.PriorFile
	find := &priorFind{Form: o.Form, Evidence: float64(o.Best.LogEvidence), Examples: p.Examples.Train.Len()}
	return prior, precision, newPriorFile(kind, groups, scale, p.Model.Net, p.Task, noise, find).Write(s.PriorFile)
}

// groups returns the parameter groups whose variances are optimized. common tells that one factor scales all of
// them.
func (s *evidenceSearch) groups(perLayer bool) (groups []priorGroup, common bool, err error) {
	p := s.of.problem
	net, variance, apart := p.Model.Net, 1/s.post.Precision(), s.NormalizedApart && !perLayer
	if own := p.Task.Prior; own != nil {
		groups = own.PriorGroups()
		variance = groups[0].Variance // of the only group
	}
	switch {
	case apart && len(groups) > 1:
		return nil, false, job.FullErrorf("{normalized-apart}: the file of {prior} has groups of its own; leave one of the two out")
	case apart && len(s.out.Normalized) == 0:
		return nil, false, job.FullErrorf("{normalized-apart}: the outputs of %s depend on the scale of every layer, so that none lies before a normalization; leave it out", p.Model.Name)
	case len(groups) > 1:
		return groups, !perLayer, nil
	case perLayer:
		return layerGroups(net, variance), false, nil
	case apart:
		return apartGroups(net, s.out.Normalized, variance), false, nil
	}
	return oneGroup(net, variance), true, nil
}
