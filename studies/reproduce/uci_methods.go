package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// A linearized is a network trained at one precision, with what the methods need.
type linearized struct {
	job   *uciJob
	data  *Examples
	lik   glm.Likelihood
	net   *network.Network
	start []float64 // parameters before training
	theta []float64 // θ*
	prior ntk.Prior

	train, held *linearize.Batch       // held: validation rows, then test rows
	heldRows    Rows                   // of held
	sites       *gp.Sites              // at θ*
	full        *weightspace.Posterior // at θ*, nil until fullPosterior
	out         *uciResult
}

// newLinearized trains a network to the optimum of −Σ log p + ½δ‖θ‖² and linearizes it.
func newLinearized(ctx context.Context, data *Examples, j *uciJob, progress Progress) (*linearized, error) {
	m := &linearized{job: j, data: data, lik: glm.Categorical{}}
	if j.outputs() == 1 {
		m.lik = glm.Bernoulli{}
	}
	_, d := data.Train.X.Dims()
	start, err := j.network(d)
	if err != nil {
		return nil, err
	}
	precision := slices.Repeat([]float64{j.precision}, len(start.Theta()))
	net, trained, err := train.MAP(ctx, start, data.Train.X, data.Train.Y, m.lik, &train.Options{Precision: precision, Epochs: -1, LBFGS: j.size.iterations, Tolerance: 1e-4,
		Progress: func(_ string, done, total int) { progress(done, total) }})
	if err != nil {
		return nil, err
	}
	m.net, m.start, m.theta = net, start.Theta(), net.Theta()
	if m.prior, err = ntk.NewIsotropic(j.precision, nil); err != nil {
		return nil, err
	}
	m.out = &uciResult{Precision: result.Float(j.precision), Examples: count(data.Train.X), Parameters: len(m.theta),
		GradientNorm: result.Float(trained.GradientNorm), Iterations: trained.Iterations, Methods: map[string]methodScores{}}
	m.warn(trained.Warnings)
	if m.train, err = net.Linearize(ctx, data.Train.X); err != nil {
		return nil, err
	}
	m.heldRows = data.Valid.then(data.Test)
	if m.held, err = net.Linearize(ctx, m.heldRows.X); err != nil {
		return nil, err
	}
	m.sites, err = gp.NewSites(m.targets(), m.train.F)
	return m, err
}

// targets are those of the training rows.
func (m *linearized) targets() *gp.Targets { return gp.NewTargets(m.data.Train.Y, m.lik) }

// fullPosterior is the Laplace posterior at θ*.
func (m *linearized) fullPosterior(ctx context.Context) (_ *weightspace.Posterior, err error) {
	if m.full == nil {
		m.full, err = weightspace.Fit(ctx, m.train, m.sites, m.prior, m.theta, &weightspace.Options{Limits: linearize.Limits{Memory: m.job.o.MaxMemory}})
	}
	return m.full, err
}

func (m *linearized) warn(list []error) {
	for _, err := range list {
		m.out.Warnings = append(m.out.Warnings, err.Error())
	}
}

// A uciMethod scores one way to predict.
type uciMethod struct {
	key, title string
	run        func(m *linearized, ctx context.Context) error
}

// uciMethods are those of the study uci. ours follows refined, whose posterior it calibrates.
var uciMethods = []uciMethod{
	{"map", "MAP", (*linearized).mapEstimate},
	{"mfvi", "MFVI", (*linearized).meanField},
	{"bnn", "BNN", (*linearized).bnn},
	{"glm", "GLM", (*linearized).glm},
	{"diag", "GLM diagonal", (*linearized).diagonal},
	{"refined", "GLM refined", (*linearized).refined},
}

// ours is the refit with a scale of its covariance, both chosen by leave-one-out.
const ours = "ours"

// scoreAll applies the methods one after the other.
func (m *linearized) scoreAll(ctx context.Context, progress Progress) (*uciResult, error) {
	for i, method := range m.job.methods {
		progress(i, len(m.job.methods))
		if err := method.run(m, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", method.title, err)
		}
	}
	return m.out, nil
}

// keep scores the predictive of a method for the held-out rows.
func (m *linearized) keep(method string, response *mat.Dense, logp []float64) {
	valid := count(m.data.Valid.X)
	_, c := response.Dims()
	score := func(lo, hi int) ClassScores {
		return ScoreClasses(m.lik, m.heldRows.slice(lo, hi).Y, response.Slice(lo, hi, 0, c).(*mat.Dense), logp[lo:hi], 10)
	}
	m.out.Methods[method] = methodScores{Valid: score(0, valid), Test: score(valid, len(logp))}
}

// keepLink scores the predictive of a link for moments of f at the held-out rows.
func (m *linearized) keepLink(method string, link predictive.Link, mean, cov *mat.Dense) error {
	s, err := score.ScoreOf(link, m.lik, m.heldRows.Y, mean, cov)
	if err != nil {
		return err
	}
	m.keep(method, s.Response, s.LogDensity)
	return nil
}

// draws is the GLM sampling predictive [glm 13].
func (m *linearized) draws() predictive.Link {
	return predictive.MonteCarlo{Samples: m.job.size.samples, Seed: uint64(m.job.split)}
}

// sampled scores the GLM sampling predictive of a posterior.
func (m *linearized) sampled(ctx context.Context, method string, post gp.Latent) error {
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, m.held); err != nil {
		return err
	}
	return m.keepLink(method, m.draws(), &mean, &cov)
}

func (m *linearized) mapEstimate(context.Context) error {
	return m.keepLink("map", nil, m.held.F, nil)
}

// networks scores networks with drawn parameters [glm 9].
func (m *linearized) networks(ctx context.Context, method string, q Drawn) error {
	response, logp, err := DrawNetworks(ctx, m.net, q, m.lik, m.job.size.samples, uint64(m.job.split), m.heldRows, func(int, int) {})
	if err == nil {
		m.keep(method, response, logp)
	}
	return err
}

// bnn draws parameters from the Laplace posterior.
func (m *linearized) bnn(ctx context.Context) error {
	w, err := m.fullPosterior(ctx)
	if err != nil {
		return err
	}
	return m.networks(ctx, "bnn", w)
}

// meanField is variational inference with independent parameters of the network itself,
// from its initial parameters on, with all training rows in each step, as the source has it: on 500 of satellite's
// 4,504 the NLL is .03 larger.
func (m *linearized) meanField(ctx context.Context) error {
	q, err := meanField(ctx, m.net.LogLik(m.lik), m.prior, m.start, m.data.Train.X, m.data.Train.Y,
		meanFieldOptions{Steps: m.job.size.meanField, Seed: uint64(m.job.split)})
	if err != nil {
		return err
	}
	return m.networks(ctx, "mfvi", q)
}

// inFunctionSpace tells whether N·C ≤ P, where matrices of N·C rows are the smaller.
func (m *linearized) inFunctionSpace() bool {
	n, c := m.train.F.Dims()
	return n*c <= len(m.theta)
}

func (m *linearized) glm(ctx context.Context) error {
	w, err := m.fullPosterior(ctx)
	if err != nil {
		return err
	}
	return m.sampled(ctx, "glm", w)
}

func (m *linearized) diagonal(ctx context.Context) error {
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, m.train, m.sites, m.prior, m.theta, &weightspace.Options{Limits: linearize.Limits{Memory: m.job.o.MaxMemory}})
	if err != nil {
		return err
	}
	return m.sampled(ctx, "diag", w)
}

// refined is the Laplace posterior at the mode of the linearized model [glm 3.2], and
// ours is the same with its covariance scaled by leave-one-out (E18).
func (m *linearized) refined(ctx context.Context) error {
	post, leaveOut, err := m.refit(ctx)
	if err != nil {
		return err
	}
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, m.held); err != nil {
		return err
	}
	if err := m.keepLink("refined", m.draws(), &mean, &cov); err != nil {
		return err
	}
	rows := sampleRows(m.train.Len(), mostLeftOut, m.job.split)
	var outMean, outCov, y mat.Dense
	if err := leaveOut(&outMean, &outCov, rows); err != nil {
		return err
	}
	rowsTo(&y, m.data.Train.Y, rows)
	c, err := score.Calibrate(ctx, m.lik, &y, &outMean, &outCov, &score.CalibrateOptions{Link: m.integrals()})
	if err != nil {
		return err
	}
	m.warn(c.Warnings)
	m.out.LeaveOneOut = leftOutScores{NLL: result.Float(c.NLL), Unscaled: result.Float(c.Unscaled), Scale: result.Float(c.Scale)}
	_, tempered, scaled, err := c.Apply(m.lik, &mean, &cov)
	if err != nil {
		return err
	}
	return m.keepLink(ours, m.integrals(), tempered, scaled)
}

// integrals is the link without samples.
func (m *linearized) integrals() predictive.Link {
	if m.job.outputs() == 1 {
		return predictive.Exact{}
	}
	return predictive.QMC{MaxPoints: 4096}
}

// mostLeftOut is the most training rows that are predicted without themselves.
const mostLeftOut = 500

// A leaveOut writes the moments of f at training rows, each without its own row (E17).
type leaveOut func(mean, cov *mat.Dense, rows []int) error

// stationary is how far one Newton step may move the function values of the training
// rows, at most, where the network counts as the mode of its own linearization.
const stationary = 1e-3

// refit returns the posterior at the mode of the linearized model with its
// leave-one-out. It computes with matrices of N·C rows or of P rows, whichever are
// fewer.
func (m *linearized) refit(ctx context.Context) (gp.Latent, leaveOut, error) {
	if m.inFunctionSpace() {
		return m.functionRefit(ctx)
	}
	return m.weightRefit(ctx)
}

func (m *linearized) functionRefit(ctx context.Context) (gp.Latent, leaveOut, error) {
	e, err := gp.Refit(ctx, ntk.New(m.prior, m.theta), m.train, m.targets(), &gp.Options{Limits: linearize.Limits{Memory: m.job.o.MaxMemory}})
	if err != nil {
		return nil, nil, err
	}
	m.warn(e.Warnings())
	return e, func(mean, cov *mat.Dense, rows []int) error {
		x, err := linearize.Gather(ctx, m.train, rows)
		if err != nil {
			return err
		}
		return e.LeaveOneOutTo(ctx, mean, cov, rows, x)
	}, nil
}

// weightRefit takes the posterior at θ* where that is the mode.
func (m *linearized) weightRefit(ctx context.Context) (gp.Latent, leaveOut, error) {
	w, err := m.fullPosterior(ctx)
	if err != nil {
		return nil, nil, err
	}
	if m.newtonMove() > stationary {
		if w, err = w.Refit(ctx, m.targets()); err != nil {
			return nil, nil, err
		}
		m.warn(w.Warnings())
	}
	return w, func(mean, cov *mat.Dense, rows []int) error {
		return leftOutFrom(ctx, mean, cov, w, w.Sites(), m.train, rows)
	}, nil
}

// newtonMove is the largest change of a function value of the training rows by the
// Newton step from θ* on the linearized model, which leads to the linear-Gaussian mean.
func (m *linearized) newtonMove() float64 {
	step := make([]float64, len(m.theta))
	floats.SubTo(step, m.full.Mean(), m.theta)
	f := make([]float64, m.train.Len()*m.train.Outputs())
	m.train.MulVecTo(f, step)
	return floats.Norm(f, math.Inf(1))
}

// leftOutFrom writes the moments of f at rows of the training examples x, each without
// its own row (E17): len(rows)×C and len(rows)·C×C. s are the sites of all examples.
func leftOutFrom(ctx context.Context, mean, cov *mat.Dense, post gp.Latent, s *gp.Sites, x *linearize.Batch, rows []int) error {
	own, err := linearize.Gather(ctx, x, rows)
	if err != nil {
		return err
	}
	if err := post.PredictTo(ctx, mean, cov, own); err != nil {
		return err
	}
	c := x.Outputs()
	for i, r := range rows {
		block := func(a *mat.Dense, i int) *mat.Dense { return a.Slice(i*c, (i+1)*c, 0, c).(*mat.Dense) }
		h := mat.DenseCopyOf(block(cov, i))
		gp.LeaveOneOutFrom(mean.RawRowView(i), block(cov, i), h, block(s.Root, r), nil, slices.Clone(mean.RawRowView(i)), s.Residual.RawRowView(r))
	}
	return nil
}
