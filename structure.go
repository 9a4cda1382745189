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
	"github.com/funcgp/funcgp/linearize"
)

// overParameters computes a posterior over the parameters.
func (f *fit) overParameters(ctx context.Context) (*solution, error) {
	p := f.problem
	structure, err := weightspace.ParseStructure(cmp.Or(f.asked.Structure, "full"))
	if err != nil {
		return nil, err
	}
	// Kronecker factors need a block for each convolution. A source makes one only when it linearizes anew, so no
	// Jacobian is kept.
	factors := slices.Contains([]weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.KFACDampedMean, weightspace.Chain}, structure)
	if err := f.prepare(ctx, p.KeepsJacobian() && !factors, nil); err != nil {
		return nil, err
	}
	o := &weightspace.Options{Mean: f.meanAtTheta(), Limits: p.Bounds(f.con)}
	sites := f.sites
	if f.asked.Refit && !f.asked.variational() {
		found, err := mode.Find(ctx, f.source, p.TrainTargets(), f.prior, f.theta, &mode.Options{Limits: linearize.Limits{Progress: f.con.Show}})
		if err != nil {
			return nil, err
		}
		f.con.Warn(found.Warnings...)
		// The mean of the linear-Gaussian model at the mode is the mode.
		sites, o.Center, o.Mean = found.Sites, found.Theta, gp.Network
	}
	q := f.posterior(nil)
	q.structure = structure
	if f.asked.variational() {
		err = f.refineStructure(ctx, q)
	} else if q.weights, err = weightspace.FitStructure(ctx, structure, f.source, sites, f.prior, f.theta, o); err == nil {
		q.Evidence = q.weights.EvidenceAtTheta()
		f.con.Warn(q.weights.Warnings()...)
	}
	f.con.Clear()
	if err != nil {
		return nil, err
	}
	if q.predictive == "bnn" {
		q.bnn = weightspace.NewBNN(p.Model.Net, q.weights)
		q.bnn.Samples, q.bnn.Seed = cmp.Or(f.asked.Samples, 1000), p.Seed
	}
	return q, f.con.EndPart(ctx, "kernel")
}

// Rows prepares the rows [lo, hi) for prediction. It linearizes them, but for draws of the parameters, which
// run the network itself, it returns their inputs and outputs alone.
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
