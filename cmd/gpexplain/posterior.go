package main

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// fitted is implemented by the posteriors of all methods.
type fitted interface {
	gp.Dual
	Refitted() bool
	Warnings() []error
	Save(w *store.Writer) error
}

var (
	_ fitted = (*gp.Exact)(nil)
	_ fitted = (*sparse.Posterior)(nil)
	_ fitted = (*cg.Posterior)(nil)
)

// A posterior is the answer of a fit, by whatever method.
type posterior struct {
	dual   fitted
	kernel *ntk.NTK
	how    method

	precision       float64 // of the posterior's prior
	kernelPrecision float64 // of the prior that the kernel is made with
	factor          float64 // kernelPrecision / precision, which scales the variances of the kernel's prior

	gradient      float64 // norm of the gradient of the MAP objective at θ*
	noMode        string  // why leave-one-out misleads; "" where it does not
	evidence      gp.Evidence
	traceError    float64
	tuning        *report.Tuning // nil without --tune-prior
	approximation *report.Approximation
	calibration   *calibration // nil predicts with the covariance as it is
	novelty       []float64    // leave-one-out novelty of training rows, ascending; nil where it is not known
}

// A method says how a posterior was computed.
type method struct {
	name, selection string
	inducing        []int   // positions among the training rows
	mean            gp.Mean // of a posterior without a refit
}

// fitOptions are what verbs ask of a fit beside its method. The zero value is
// the default.
type fitOptions struct {
	mean       gp.Mean
	checkpoint string             // file to keep the state of a pass in; "" for none
	resume     *sparse.Checkpoint // state to go on from; nil starts anew
	noReport   bool               // no error report is needed
}

// A fit holds what the methods compute a posterior from.
type fit struct {
	con     *console
	problem *problem
	flags   posteriorFlags // with their defaults filled in
	options fitOptions
	heldOut *dataset.Subset // rows that choose the prior precision; nil without --tune-prior heldout
	theta   []float64       // θ*

	precision float64 // of the prior that the kernel is made with
	prior     ntk.Prior
	kernel    *ntk.NTK
	tuning    *report.Tuning // nil without --tune-prior

	source   linearize.Source // training examples
	sites    *gp.Sites        // at θ*
	gradient []float64        // Jᵀr at θ*
	noMode   string           // why leave-one-out at θ* misleads; "" where it does not
}

// fitPosterior computes the posterior that the flags ask for.
func fitPosterior(ctx context.Context, c *console, p *problem, flags *posteriorFlags, o fitOptions) (*posterior, error) {
	f, err := newFit(c, p, flags, o)
	if err != nil {
		return nil, err
	}
	var q *posterior
	switch f.flags.method {
	case "exact":
		q, err = f.exact(ctx)
	case "cg":
		q, err = f.cg(ctx)
	default:
		q, err = f.sparse(ctx)
	}
	c.bar.clear()
	if err != nil {
		return nil, p.trainNames().explainError(err)
	}
	c.warn(q.dual.Warnings()...)
	return q, c.endPart(ctx, "factorize")
}

// newFit fills in defaults and refuses what cannot work or fit into memory.
func newFit(c *console, p *problem, flags *posteriorFlags, o fitOptions) (*fit, error) {
	f := &fit{con: c, problem: p, options: o}
	var err error
	if f.flags, err = flags.withDefaults(p); err != nil {
		return nil, err
	}
	d, outputs, params := p.model.net.Dims()
	c.detail("%d training examples, %d inputs, %d outputs, %d parameters, prior precision %g, %s likelihood", p.examples.train.Len(), d, outputs, params, p.task.precision, p.task.likelihood.Name())
	if f.flags.tune == "heldout" {
		if f.heldOut, err = p.heldOut("--tune-prior", "choose the precision on"); err != nil {
			return nil, err
		}
	}
	if err := planPosterior(c, p, &f.flags, f.heldOut); err != nil {
		return nil, err
	}
	f.theta = p.model.net.Theta()
	return f, f.setPrecision(p.task.precision)
}

// setPrecision makes the kernel one of the prior of this precision.
func (f *fit) setPrecision(precision float64) error {
	prior, err := ntk.NewIsotropic(precision, nil)
	if err != nil {
		return err
	}
	f.precision, f.prior, f.kernel = precision, prior, ntk.New(prior, f.theta, nil)
	return nil
}

// posterior returns what is the same for all methods.
func (f *fit) posterior(dual fitted) *posterior {
	return &posterior{dual: dual, kernel: f.kernel, how: method{name: f.flags.method, selection: f.flags.selection, mean: f.options.mean},
		precision: f.precision, kernelPrecision: f.precision, factor: 1, gradient: gp.GradientNormOf(f.gradient, f.prior, f.theta), tuning: f.tuning, noMode: f.noMode}
}

// prepare linearizes the training examples, or makes them a source that does
// so in each pass, and computes the sites and the gradient at θ*.
func (f *fit) prepare(ctx context.Context, keep bool) error {
	if err := f.con.endPart(ctx, "load"); err != nil {
		return err
	}
	var err error
	if f.source, err = f.problem.trainingExamples(ctx, keep); err != nil {
		return err
	}
	if f.sites, err = gp.SitesFrom(ctx, f.source, f.problem.examples.y, f.problem.task.likelihood); err != nil {
		return err
	}
	if f.gradient, err = f.residualGradient(ctx); err != nil {
		return err
	}
	f.refitOrNot()
	return f.con.endPart(ctx, "linearize")
}

// trainingExamples are linearized once, or anew in each pass.
func (p *problem) trainingExamples(ctx context.Context, keep bool) (linearize.Source, error) {
	if !keep {
		return p.examples.source(p.model, p.examples.train), nil
	}
	return p.linearize(ctx, p.examples.train, 0, p.examples.train.Len())
}

// gradientRows is how many rows Jᵀr is summed over at a time.
const gradientRows = 1024

// residualGradient returns Jᵀr over the training rows, length P.
func (f *fit) residualGradient(ctx context.Context) ([]float64, error) {
	m, e := f.problem.model, f.problem.examples
	sum := make([]float64, len(f.theta))
	if b, ok := f.source.(*linearize.Batch); ok {
		b.MulTransVecTo(sum, mat.DenseCopyOf(f.sites.Residual).RawMatrix().Data)
		return sum, nil
	}
	n := e.train.Len()
	part := make([]float64, len(f.theta))
	for lo := 0; lo < n; lo += gradientRows {
		hi := min(lo+gradientRows, n)
		if err := m.net.VJP(ctx, part, e.inputs(e.train, lo, hi), f.sites.Residual.Slice(lo, hi, 0, m.outputs).(*mat.Dense)); err != nil {
			return nil, err
		}
		for i, g := range part {
			sum[i] += g
		}
		f.con.show("gradient", hi, n)
	}
	return sum, nil
}

// report is the fit as JSON shows it.
func (q *posterior) report(p *problem, warnings []string) report.Fit {
	var calibration *report.Calibration
	if q.calibration != nil {
		calibration = &q.calibration.Calibration
	}
	inducing := report.Index(-1)
	if isSparse(q.how.name) {
		inducing = report.Index(len(q.how.inducing))
	}
	return report.Fit{Examples: p.examples.train.Len(), Outputs: p.model.outputs, Parameters: p.model.parameters(), PriorPrecision: report.Float(q.precision), Refit: q.dual.Refitted(),
		Method: q.how.name, Inducing: inducing, TraceError: report.Float(q.traceError),
		GradientNorm: report.Float(q.gradient), LogEvidence: report.Float(q.evidence.Value), Bound: q.evidence.Bound.String(), LogDet: report.Float(q.evidence.LogDet),
		LogLikelihood: report.Float(q.evidence.LogLik), Scatter: report.Float(q.evidence.Scatter), Calibration: calibration, Tuning: q.tuning, Approximation: q.approximation, Warnings: warnings}
}

func number(v float64) *report.Float {
	f := report.Float(v)
	return &f
}

// predictions are the answers for a batch of T rows.
type predictions struct {
	network           *mat.Dense     // outputs of the network alone, T×C
	mean, cov         *mat.Dense     // of the outputs: T×C, T·C×C
	likelihood        glm.Likelihood // with calibrated noise
	scaled            *mat.Dense     // calibrated covariance, T·C×C
	prob, sd, mapProb *mat.Dense     // probabilities, their standard deviations, and those of the network itself: T×classes, nil for a regression
	novelty           *glm.Novelty   // with the covariance as it is

	// Of a regression, T×C: the mean and the standard deviation of a new
	// observation, and the standard deviation of the function.
	response, observationSD, functionSD *mat.Dense
}

// predict evaluates posterior and link at the rows of b.
func (q *posterior) predict(ctx context.Context, task *task, b *linearize.Batch, link glm.Link) (*predictions, error) {
	t, c := b.Len(), b.Outputs()
	out := &predictions{network: b.F, mean: mat.NewDense(t, c, nil), cov: mat.NewDense(t*c, c, nil)}
	if err := q.dual.PredictTo(ctx, out.mean, out.cov, b); err != nil {
		return nil, err
	}
	lik := task.likelihood
	var err error
	if out.likelihood, out.scaled, err = q.calibration.scales().Apply(lik, out.cov); err != nil {
		return nil, err
	}
	if out.novelty, err = glm.NoveltyOf(ctx, scoringLink(lik, c), lik, out.mean, out.cov, 0); err != nil {
		return nil, err
	}
	if task.classes == nil {
		return out, out.observe()
	}
	if err := out.respond(link); err != nil {
		return nil, err
	}
	out.mapProb = mat.NewDense(t, c, nil)
	for i := range t {
		lik.MeanTo(out.mapProb.RawRowView(i), b.F.RawRowView(i))
	}
	if c > 1 {
		return out, nil
	}
	// One output p speaks for the second class, and 1 − p for the first.
	rest := mat.NewDense(t, 1, nil)
	for i := range t {
		lik.MeanTo(rest.RawRowView(i), []float64{-b.F.At(i, 0)})
	}
	out.mapProb = sideBySide(rest, out.mapProb)
	return out, nil
}

// respond fills in the probabilities and their standard deviations.
func (o *predictions) respond(link glm.Link) error {
	o.prob, o.sd = new(mat.Dense), new(mat.Dense)
	if err := link.PredictTo(o.prob, o.sd, o.likelihood, o.mean, o.scaled); err != nil {
		return err
	}
	t, c := o.prob.Dims()
	if c > 1 {
		return nil
	}
	rest := mat.NewDense(t, 1, nil)
	switch link.(type) {
	case glm.Exact, glm.QMC, glm.Probit:
		// E σ(−f), which keeps its digits where p is 1 to rounding.
		var minus mat.Dense
		minus.Scale(-1, o.mean)
		if err := link.PredictTo(rest, nil, o.likelihood, &minus, o.scaled); err != nil {
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

// observe fills in what a regression says of a new observation.
func (o *predictions) observe() error {
	t, c := o.mean.Dims()
	link := glm.Exact{}
	o.response = new(mat.Dense)
	if err := link.PredictTo(o.response, nil, o.likelihood, o.mean, o.scaled); err != nil {
		return err
	}
	var aleatoric, epistemic mat.Dense
	if err := link.SplitTo(&aleatoric, &epistemic, o.likelihood, o.mean, o.scaled); err != nil {
		return err
	}
	o.observationSD, o.functionSD = mat.NewDense(t, c, nil), mat.NewDense(t, c, nil)
	for i := range t {
		for j := range c {
			o.observationSD.Set(i, j, math.Sqrt(aleatoric.At(i, j)+epistemic.At(i, j)))
			o.functionSD.Set(i, j, math.Sqrt(max(0, o.scaled.At(i*c+j, j))))
		}
	}
	return nil
}

// row is prediction i as reports show it, which is of row at of the data. Its
// densities and the rank of its novelty are left to the caller.
func (o *predictions) row(task *task, i int, rows *dataset.Subset, at int) *report.PredictedRow {
	f := o.network.RawRowView(i)
	r := &report.PredictedRow{Index: report.Index(rows.Rows[at]), Label: report.Float(label(rows, at)), Class: task.class(f),
		Probability: rowOf(o.prob, i), ProbabilitySD: rowOf(o.sd, i), MAPProbability: rowOf(o.mapProb, i), Mean: rowOf(o.mean, i),
		ObservationSD: rowOf(o.observationSD, i), FunctionSD: rowOf(o.functionSD, i),
		Novelty: report.Novelty{Score: report.Float(o.novelty.Score[i]), MutualInformation: report.Float(o.novelty.Mutual[i]), Rank: report.Undefined()}}
	if task.classes == nil {
		y, expected := label(rows, at), []float64{0}
		task.likelihood.MeanTo(expected, f)
		r.Expected, r.MAPExpected = report.Float(o.response.At(i, 0)), report.Float(expected[0])
		r.CDF, r.MAPCDF = report.Float(distribution(o.likelihood, y, o.mean.At(i, 0), o.scaled.At(i, 0))), report.Float(distribution(task.likelihood, y, f[0], 0))
	}
	return r
}

// distribution returns P(Y < y) + P(Y = y)/2 of a new observation Y of one output
// with mean m and variance v.
func distribution(lik glm.Likelihood, y, m, v float64) float64 {
	if hasNoise(lik) {
		noise := []float64{0}
		lik.VarianceTo(noise, []float64{m})
		return math.Erfc((m-y)/math.Sqrt(2*(v+noise[0]))) / 2
	}
	return glm.Expectation(func(f float64) float64 {
		rate := math.Exp(f)
		if math.IsInf(rate, 1) {
			return 0
		}
		// P(Y ≤ y) = Q(y+1, rate)
		return mathext.GammaIncRegComp(y+1, rate) - math.Exp(lik.LogProb([]float64{y}, []float64{f}))/2
	}, m, v)
}

func sideBySide(a, b *mat.Dense) *mat.Dense {
	var m mat.Dense
	m.Augment(a, b)
	return &m
}

// rowOf is row i of m, nil for a nil matrix.
func rowOf(m *mat.Dense, i int) []report.Float {
	if m == nil {
		return nil
	}
	return report.Floats(m.RawRowView(i))
}

// covarianceOf is the C×C covariance of row i.
func covarianceOf(cov *mat.Dense, i int) [][]report.Float {
	_, c := cov.Dims()
	out := make([][]report.Float, c)
	for j := range c {
		out[j] = report.Floats(cov.RawRowView(i*c + j))
	}
	return out
}
