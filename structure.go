package funcgp

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize"
)

// weightFlags ask for a posterior over the parameters, and say how predictions are made from a posterior.
type weightFlags struct {
	Structure  string // "" is function space
	Predictive string
	Samples    int // of bnn
}

// InWeights tells whether the answers come from a posterior over the parameters.
func (s *weightFlags) InWeights() bool { return s.Structure != "" || s.Predictive == "bnn" }

// Answer loads, or fits and calibrates, the posterior that all flags ask for.
func (s *weightFlags) Answer(ctx context.Context, c *job.Job, p *problem, f *methodFlags, method string) (*solution, error) {
	if s.Predictive == "linear" && hasLogVariances(p.Task.Likelihood) {
		return nil, job.FullErrorf("{predictive=linear} is for classes, counts and one noise variance, but %s has the %s likelihood; leave it out", p.Model.Name, p.Task.Likelihood.Name())
	}
	var o options
	if o.AtTheta = s.Predictive == "linear"; o.AtTheta && hasNoise(p.Task.Likelihood) {
		if s.Structure != "" && s.Structure != "full" {
			return nil, job.FullErrorf("{predictive=linear} takes the mean of the whole regression, so that {structure=%s} has none; leave it out, or give {structure=full}", s.Structure)
		}
		o.Linear = true
	}
	if !s.InWeights() {
		if p.Saved != nil {
			return loadPosterior(ctx, c, p, method)
		}
		q, err := fitCalibrated(ctx, c, p, f, o, method)
		if err == nil && s.Predictive == "linear" {
			q.predictive = s.Predictive
		}
		return q, err
	}
	heldOut, err := heldOutFor(p, method)
	if err != nil {
		return nil, err
	}
	flags := *f
	flags.Method = weights
	q, err := s.fit(ctx, c, p, &flags, o)
	if err != nil {
		return nil, err
	}
	if heldOut != nil {
		if err := q.calibrate(ctx, c, p, heldOut); err != nil {
			return nil, err
		}
	}
	return q, c.EndPart(ctx, "factorize")
}

// weights names the method of posteriors over the parameters.
const weights = "weights"

// fit computes a posterior over the parameters.
func (s *weightFlags) fit(ctx context.Context, c *job.Job, p *problem, flags *methodFlags, o options) (*solution, error) {
	o.AtTheta = true
	f, err := newFit(c, p, flags, o)
	if err != nil {
		return nil, err
	}
	structure, err := weightspace.ParseStructure(cmp.Or(s.Structure, "full"))
	if err != nil {
		return nil, err
	}
	// Kronecker factors need a block for each convolution. A source makes one only when it linearizes anew, so no
	// Jacobian is kept.
	factors := slices.Contains([]weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.KFACDampedMean, weightspace.Chain}, structure)
	if err := f.prepare(ctx, p.KeepsJacobian() && !factors, nil); err != nil {
		return nil, err
	}
	wo := &weightspace.Options{Mean: f.meanAtTheta(), Limits: p.Bounds(c)}
	sites := f.sites
	if f.flags.Refit {
		found, err := mode.Find(ctx, f.source, p.TrainTargets(), f.prior, f.theta, &mode.Options{Progress: c.Show})
		if err != nil {
			return nil, explainError(p.Examples.Train, err)
		}
		c.Warn(found.Warnings...)
		// The mean of the linear-Gaussian model at the mode is the mode.
		sites, wo.Center, wo.Mean = found.Sites, found.Theta, gp.Network
	}
	w, err := weightspace.FitStructure(ctx, structure, f.source, sites, f.prior, f.theta, wo)
	c.Clear()
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	c.Warn(w.Warnings()...)
	q := f.posterior(nil)
	q.weights, q.structure, q.refitted, q.Evidence = w, structure, f.flags.Refit, w.EvidenceAtTheta()
	if s.Predictive != "glm" {
		q.predictive = s.Predictive
	}
	if s.Predictive == "bnn" {
		q.bnn = weightspace.NewBNN(p.Model.Net, w)
		q.bnn.Samples, q.bnn.Seed = s.Samples, p.Limits.Seed
	}
	return q, c.EndPart(ctx, "kernel")
}

// Rows prepares rows [lo, hi) to be predicted: their linearization, or of draws, which run the network itself, inputs
// and outputs alone.
func (q *solution) Rows(ctx context.Context, p *problem, rows *dataset.Rows, lo, hi int) (*linearize.Batch, error) {
	if q.bnn == nil {
		return p.Linearize(ctx, rows, lo, hi)
	}
	x, err := p.Examples.Inputs(ctx, rows, lo, hi)
	if err != nil {
		return nil, err
	}
	f, err := p.Model.Net.Forward(ctx, x)
	if err != nil {
		return nil, err
	}
	return &linearize.Batch{X: x, F: f}, nil
}

// draw predicts by draws of the parameters.
func (q *solution) draw(ctx context.Context, task *problemTask, b *linearize.Batch, y *mat.Dense) (*predictions, error) {
	lik := task.Likelihood
	d, err := q.bnn.Draw(ctx, lik, y, b.X)
	if err != nil {
		return nil, err
	}
	t, c := d.F.Dims()
	out := &predictions{Network: b.F, Mean: d.F, Cov: d.Cov, Tempered: d.F, Scaled: d.Cov, Likelihood: lik, LogDensity: d.LogDensity, CDF: d.CDF, targets: y,
		Unsure: &score.Novelty{Score: d.Entropy, Mutual: d.Mutual}}
	if hasClasses(lik) {
		sd := mat.NewDense(t, c, nil)
		sd.Apply(func(i, j int, _ float64) float64 { return math.Sqrt(d.Epistemic.At(i, j)) }, sd)
		out.Prob, out.SD = bothClasses(d.Mean), sd
		if c == 1 {
			out.SD = sideBySide(sd, sd)
		}
		out.mapOf(lik)
		return out, nil
	}
	targets := lik.Targets(c)
	out.Response = d.Mean.Slice(0, t, 0, targets).(*mat.Dense)
	out.ObservationSD, out.FunctionSD = mat.NewDense(t, targets, nil), mat.NewDense(t, targets, nil)
	out.Unsure.Score, out.Unsure.Mutual = make([]float64, t), slices.Repeat([]float64{math.NaN()}, t)
	for i := range t {
		variance := floats.AddTo(make([]float64, targets), d.Aleatoric.RawRowView(i)[:targets], d.Epistemic.RawRowView(i)[:targets])
		out.Unsure.Score[i] = floats.Sum(variance)
		for j, v := range variance {
			out.ObservationSD.Set(i, j, math.Sqrt(v))
			out.FunctionSD.Set(i, j, math.Sqrt(d.Cov.At(i*c+j, j)))
		}
	}
	return out, nil
}
