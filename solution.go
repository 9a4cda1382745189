package funcgp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A solution is the result of a fit by any method.
type solution struct {
	Problem *problem // with the noise variance that the fit chose
	Dual    fitted
	Kernel  *ntk.NTK
	How     methodUsed
	asked   FitOptions // of the fit, with their defaults; zero of a posterior that was read or merged

	exact   *gp.Exact         // Dual of method exact, else nil
	kept    *kept.Posterior   // Dual of method kept, else nil
	induced *sparse.Posterior // Dual through inducing examples, else nil

	prior     ntk.Prior // of Kernel
	precision float64   // of prior: that of all parameters, or their geometric mean

	network bool        // the mean is f(x;θ*), and not that of Dual
	anchor  []float64   // v − θ*, P, of the posterior before training rows were changed: the mean is f̂(x) − J(x)·anchor; nil for none
	settled *settlement // which precision the answers are at; nil where a posterior is at the stated one

	gradient      float64 // norm of the gradient of the MAP objective at θ*
	preflight     *result.Preflight
	Evidence      gp.Evidence
	elbo          *result.ELBO // of variational inference; nil for Laplace's
	traceError    float64
	Tuning        *result.Tuning // nil without Prior.Tune
	approximation *result.Approximation
	certificate   *result.Certificate // of kept rows, else nil
	checkpoint    string              // that Save deletes; "" for none
	Calibration   *calibration        // nil predicts with the covariance as it is
	detector      *novelty.Detector   // how novelty is told; nil where it is not known

	// Set only for posteriors over the parameters, which have no Dual.
	weights    weightspace.Weights // nil in function space
	structure  weightspace.Structure
	refitted   bool
	bnn        *weightspace.BNN // nil where predictions are those of the linearized network
	predictive string           // other than glm; "" is glm
}

// A fit holds the inputs from which each method computes a posterior.
type fit struct {
	con     *job.Job
	problem *problem
	asked   FitOptions // with their defaults filled in
	atTheta bool       // the posterior is that at the trained parameters and the stated precision, and no refit
	quiet   bool       // no error report is needed
	shards  bool       // the pass over the data is split into parts

	resume  *store.File   // of Checkpoint; nil starts anew
	heldOut *dataset.Rows // rows that choose the prior precision; nil unless these are held out
	scored  *dataset.Rows // rows to calibrate on; nil unless these are held out
	theta   []float64     // θ*
	settled *settlement   // nil with atTheta
	frozen  bool          // the precision and the mode are settled

	precision float64 // of prior
	prior     ntk.Prior
	kernel    *ntk.NTK       // of prior
	tuning    *result.Tuning // nil without Prior.Tune

	source       linearize.Source // training examples
	outputs      *mat.Dense       // f(x;θ*) of the training examples, N×C
	sites        *gp.Sites        // at θ*, or at the mode
	mode         *mode.Mode       // of the linearized model, where a method takes its sites there; else nil
	near         []float64        // weights near that mode, P; nil for none
	matched      *gp.Match        // what settle found; nil for none
	choice       *choice          // of FitOptions.Checkpoint; nil for none
	chooses      *sync.Once       // method auto may leave kept rows for inducing examples, or says that it does not; else nil
	gradient     []float64        // Jᵀr at θ*
	gradientNorm float64          // of the MAP objective at θ* and the stated precision
	preflight    *result.Preflight
	alarms       linearize.Warnings // that the network does not suit data or prior
}

// solve fits the posterior that the options ask for, and calibrates it, with what tells the novelty of rows.
func solve(ctx context.Context, c *job.Job, p *problem, o *FitOptions) (*solution, error) {
	return (&fit{con: c, problem: p, asked: *o}).run(ctx)
}

// run does what solve does, by the options of f.
func (f *fit) run(ctx context.Context) (*solution, error) {
	if err := f.start(); err != nil {
		return nil, err
	}
	q, err := solverOf(f.asked.Method.Name).fit(f, ctx)
	return f.finish(ctx, q, err)
}

// finish settles the noise variance of the posterior that a method computed, adds its warnings, and calibrates
// it. It passes on err if the method failed.
func (f *fit) finish(ctx context.Context, q *solution, err error) (*solution, error) {
	if err == nil {
		q, err = f.settleNoise(ctx, q)
	}
	var refit *gp.Sites
	if err == nil && q.Dual != nil {
		refit = q.Dual.Sites()
		err = f.refine(ctx, q)
	}
	f.con.Clear()
	if err != nil {
		return nil, explainError(f.problem.Examples.Train, err)
	}
	f.con.Warn(f.alarms...) // of a part are those of its file
	if q.Dual != nil {
		f.con.Warn(slices.DeleteFunc(slices.Clone(q.Dual.Warnings()), func(err error) bool {
			return linearize.WarningOf(err).Code == "kept-short" // which warnShort has said in the words of flags
		})...)
	}
	f.remark(q, refit)
	how := f.asked.Calibrate
	if how != "skip" && q.Dual != nil {
		err = q.detect(ctx, f.con, q.Problem, false)
	}
	if err == nil && how != "skip" && how != "none" && (q.Dual != nil || f.scored != nil) {
		err = q.calibrate(ctx, f.con, q.Problem, f.scored)
	}
	if err != nil {
		return nil, err
	}
	return q, f.con.EndPart(ctx, "factorize")
}

// start fills in defaults and refuses what cannot work or fit into memory.
func (f *fit) start() error {
	c, p, o := f.con, f.problem, &f.asked
	if o.Predictive == "glm" {
		o.Predictive = ""
	}
	f.atTheta = o.AtTheta || o.Predictive == "linear" || o.inWeights()
	switch lik := p.Task.Likelihood; {
	case o.Predictive != "linear":
	case hasLogVariances(lik):
		return job.FullErrorf("{predictive=linear} is for classes, counts and one noise variance, but %s has the %s likelihood; leave it out", p.Model.Name, lik.Name())
	case hasNoise(lik) && o.Structure != "" && o.Structure != "full":
		return job.FullErrorf("{predictive=linear} takes the mean of the whole regression, so that {structure=%s} has none; leave it out, or give {structure=full}", o.Structure)
	}
	if o.variational() {
		if err := notConcave(p.Task.Likelihood); err != nil {
			return err
		}
	}
	var err error
	if o.Calibrate = cmp.Or(o.Calibrate, "loo"); o.AtTheta {
		o.Calibrate = "skip"
	}
	if o.Calibrate == "heldout" {
		if f.scored, err = p.HeldOut("{calibrate=heldout}", "calibrate on"); err != nil {
			return err
		}
	}
	if o.inWeights() {
		o.Method.Name = weights
	}
	if o.Method, err = o.Method.withDefaults(p); err != nil {
		return err
	}
	if f.resume, err = readCheckpoint(o.Checkpoint, p.Memory); err != nil {
		return err
	}
	if f.resume != nil {
		c.CloseLater(f.resume.Close)
	}
	d, outputs, params := p.Model.Net.Dims()
	c.Detail("%d training examples, %d inputs, %d outputs, %d parameters, %s, %s likelihood", p.Examples.Train.Len(), d, outputs, params, priorText(p.Task.Prior, p.Task.Precision), p.Task.Likelihood.Name())
	if o.Prior.Tune == "heldout" {
		if f.heldOut, err = p.HeldOut("{tune-prior}", "choose the precision on"); err != nil {
			return err
		}
	}
	if plan := solverOf(o.Method.Name).plan; plan != nil && !f.shards { // each part plans for itself
		err := plan(c, p, o, f.heldOut)
		if e := (*gp.MemoryError)(nil); errors.As(err, &e) && p.ManyClasses() {
			err = job.FullErrorf("%s that tells %s classes apart takes %s; leave {outputs} out, or give {outputs=top:10}", e.Op, job.Count(p.Model.Outputs), takes(e))
		}
		if err != nil {
			return err
		}
	}
	f.theta = p.Model.Net.Theta()
	if err := f.setPrecision(p.Task.Precision); err != nil || f.atTheta {
		return err
	}
	return f.begin()
}

// setPrecision makes the kernel one of the prior of this precision.
func (f *fit) setPrecision(precision float64) error {
	prior, err := f.problem.Task.PriorAt(precision)
	if err != nil {
		return err
	}
	f.precision, f.prior, f.kernel = precision, prior, ntk.New(prior, f.theta)
	return nil
}

// posterior returns the parts of a solution that all methods share, with the evidence if the posterior has it
// in closed form.
func (f *fit) posterior(dual fitted) *solution {
	q := &solution{Problem: f.problem, checkpoint: f.asked.Checkpoint, Dual: dual, Kernel: f.kernel, How: methodUsed{Name: f.asked.Method.Name, selection: f.asked.Method.Select, mean: f.mean()},
		asked: f.asked, prior: f.prior, precision: f.precision, predictive: f.asked.Predictive, network: !f.atTheta && !f.refitted(), refitted: f.refitted(),
		gradient: f.gradientNorm, Tuning: f.tuning, preflight: f.preflight}
	closed, ok := dual.(interface {
		EvidenceRefit() gp.Evidence
		EvidenceAtTheta(scatter float64) gp.Evidence
	})
	switch {
	case !ok: // in weight space
	case f.atTheta:
		q.Evidence = closed.EvidenceAtTheta(gp.Scatter(f.prior, f.theta))
	case dual.Refitted():
		q.Evidence = closed.EvidenceRefit()
	}
	return q
}

// prepare linearizes the training examples, or makes them a source that each pass linearizes anew. It computes
// the sites and the gradient at θ*. Then it calls settle, unless nil, to move to the precision of the answers,
// except where Prior.Tune chooses the precision.
func (f *fit) prepare(ctx context.Context, keep bool, settle func(ctx context.Context) error) error {
	if f.source == nil {
		if err := f.linearize(ctx, keep); err != nil {
			return err
		}
	}
	if settle == nil || f.asked.Prior.Tune != "" {
		return nil
	}
	return settle(ctx)
}

// linearize does the part of prepare that is at θ*.
func (f *fit) linearize(ctx context.Context, keep bool) error {
	if err := f.con.EndPart(ctx, "load"); err != nil {
		return err
	}
	var err error
	if f.source, err = f.problem.TrainingExamples(ctx, keep); err != nil {
		return err
	}
	if f.sites, err = gp.SitesFrom(ctx, f.source, f.problem.TrainTargets()); err != nil {
		return err
	}
	f.outputs = f.sites.F
	if f.gradient, err = f.pull(ctx, f.sites.Residual); err != nil {
		return err
	}
	// Check network, data and prior by the sites and the gradient at θ*.
	f.gradientNorm = gp.GradientNormOf(f.gradient, f.prior, f.theta)
	at := &atTheta{F: f.sites.F, Gradient: f.gradientNorm, Pull: f.pull, Theta: f.theta}
	if b, ok := f.source.(*linearize.Batch); ok {
		at.X = b.X
	}
	if f.preflight, f.alarms, err = f.problem.Preflight(ctx, at); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range f.alarms {
		if w := linearize.WarningOf(err); w.Code == "class-order" && !f.problem.asked.Fit.Force {
			what, give, _ := strings.Cut(string(option.Of(err)), " No answer is to be trusted. ")
			return job.FullErrorf("%s: o%s; g%s, or {force} to answer nevertheless", f.problem.Model.Name, option.Text(strings.TrimSuffix(what[1:], ".")), option.Text(strings.TrimSuffix(give[1:], ".")))
		}
	}
	if err := f.con.Alarm(f.alarms...); err != nil {
		return job.Full(err)
	}
	if hasLogVariances(f.problem.Task.Likelihood) {
		f.con.Warn(errNotConcave)
	}
	return f.con.EndPart(ctx, "linearize")
}

// errNotConcave is the remark that some properties do not hold for a heteroscedastic likelihood.
var errNotConcave = linearize.NewWarning("not-concave", math.NaN(), math.NaN(), "", "The heteroscedastic likelihood is not concave, and Λ is its Fisher information. A refit finds one of perhaps several modes, uphill of the trained parameters, and leave-one-out is one step of Fisher scoring.")

// gradientRows is how many rows Jᵀr is summed over at a time.
const gradientRows = 1024

// pull returns Jᵀr over the training rows, length P, of residuals r, N×C.
func (f *fit) pull(ctx context.Context, r *mat.Dense) ([]float64, error) {
	m, e := f.problem.Model, f.problem.Examples
	sum := make([]float64, len(f.theta))
	if b, ok := f.source.(*linearize.Batch); ok {
		b.MulTransVecTo(sum, mat.DenseCopyOf(r).RawMatrix().Data)
		return sum, nil
	}
	n := e.Train.Len()
	part := make([]float64, len(f.theta))
	for lo := 0; lo < n; lo += gradientRows {
		hi := min(lo+gradientRows, n)
		x, err := e.Inputs(ctx, e.Train, lo, hi)
		if err != nil {
			return nil, err
		}
		if err := m.Net.VJP(ctx, part, x, r.Slice(lo, hi, 0, m.Outputs).(*mat.Dense)); err != nil {
			return nil, err
		}
		for i, g := range part {
			sum[i] += g
		}
		f.con.Show("gradient", hi, n)
	}
	return sum, nil
}

// Prior returns the prior of the posterior.
func (q *solution) Prior() ntk.Prior { return q.prior }

// Precision returns one number for the prior: the precision of all parameters, or the geometric mean of their
// precisions.
func (q *solution) Precision() float64 { return q.precision }

// Report is the fit as JSON shows it.
func (q *solution) Report(p *problem, warnings linearize.Warnings) result.Fit {
	var calibration *result.Calibration
	if q.Calibration != nil {
		calibration = &q.Calibration.Calibration
	}
	inducing := result.Index(-1)
	if isSparse(q.How.Name) {
		inducing = result.Index(len(q.How.inducing))
	}
	r := result.Fit{Examples: p.Examples.Train.Len(), Outputs: p.Model.Outputs, Parameters: p.Model.Parameters(), PriorPrecision: result.Float(q.precision), Refit: q.refitted && !q.network,
		Method: q.How.Name, Inducing: inducing, TraceError: result.Float(q.traceError),
		GradientNorm: result.Float(q.gradient), LogEvidence: result.Float(q.Evidence.Value), Bound: q.Evidence.Bound.String(), LogDet: result.Float(q.Evidence.LogDet),
		LogLikelihood: result.Float(q.Evidence.LogLik), Scatter: result.Float(q.Evidence.Scatter), Calibration: calibration, Tuning: q.Tuning, Approximation: q.approximation, Certificate: q.certificate,
		PriorPrecisionOrigin: q.precisionFrom(p).In(p.Words), Preflight: q.preflight, Preprocessing: p.Preprocessing(), Loss: p.LossReport(), Grouped: p.Task.Grouping.Report()}
	r.Warnings, r.Remarks = result.Remarks(warnings)
	if r.ELBO = q.elbo; r.ELBO != nil {
		r.Inference = variationally
	}
	if r.Predictive = q.predictive; q.weights != nil {
		r.Structure = q.structure.String()
		if q.bnn != nil {
			r.Draws = q.bnn.Samples
		}
	}
	if s := q.settled; s != nil {
		match := s.match
		match.Why = s.why.In(p.Words)
		r.StatedPrecision, r.Match = numberPointer(s.stated), &match
	}
	if prior := p.Task.Prior; prior != nil {
		r.PriorPrecision, r.Prior = result.Undefined(), prior.At(q.precision).Report()
	}
	if hasNoise(p.Task.Likelihood) {
		r.NoiseVariance, r.NoiseVarianceOrigin = numberPointer(p.Task.Noise), p.Task.NoiseFrom.Text.In(p.Words)
	}
	return r
}

// DefaultLink is the link of predictions that ask for none.
func (q *solution) DefaultLink(p *problem) predictive.Link {
	if q.predictive == "linear" {
		return predictive.Linear{}
	}
	return predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs)
}

// precisionFrom describes how the prior precision of the answers was determined.
func (q *solution) precisionFrom(p *problem) option.Text {
	prior, s := p.Task.Prior, q.settled
	switch {
	case prior != nil && q.Tuning != nil && p.Saved == nil:
		return option.Textf("%s, times a factor chosen by {tune-prior=%s}", prior.From, q.Tuning.Method)
	case prior != nil:
		return prior.From
	case q.Tuning != nil:
		return "chosen by " + option.Set("tune-prior", q.Tuning.Method)
	case s != nil && s.match.Used == atMatch:
		return "the match: " + s.why
	case s != nil && s.match.Used == "given":
		return s.why
	}
	return p.Task.PrecisionFrom.Text
}

// fileFit returns a report in the form that a file keeps, with the names of options in braces.
func (q *solution) fileFit(p *problem, r result.Fit) result.Fit {
	r.PriorPrecisionOrigin, r.NoiseVarianceOrigin = string(q.precisionFrom(p)), string(p.Task.NoiseFrom.Text)
	if q.settled != nil {
		match := *r.Match
		match.Why = string(q.settled.why)
		r.Match = &match
	}
	r.Warnings, r.Remarks = job.Kept(r.Warnings), job.Kept(r.Remarks)
	return r
}

// predictions are the answers for a batch of T rows.
type predictions struct {
	Network           *mat.Dense     // outputs of the network alone, T×C
	Mean, Cov         *mat.Dense     // of the outputs: T×C, T·C×C
	Likelihood        glm.Likelihood // with calibrated noise
	Tempered, Scaled  *mat.Dense     // calibrated mean and covariance
	Prob, SD, MAPProb *mat.Dense     // probabilities, their standard deviations, and those of the network itself: T×classes, nil for a regression
	Unsure            *score.Novelty // with the covariance as it is
	Novelty           []float64      // in nats (E22); nil where it is not known
	LogDensity        []float64      // log p(y|x) of the targets, calibrated; nil where they were not given
	CDF               []float64      // of a regression on one target by draws: P(y' ≤ y); nil otherwise
	targets           *mat.Dense     // y; nil where they were not given

	// In a regression these have one column for each target: the mean and the standard deviation of a new
	// observation, and the standard deviation of the function.
	Response, ObservationSD, FunctionSD *mat.Dense

	calibration *score.Calibration
	scales      *result.Scales // those of calibration, 1 where there is none; nil of drawn networks
}

// Predict evaluates posterior and link at the rows of b.
func (q *solution) Predict(ctx context.Context, task *problemTask, b *linearize.Batch, link predictive.Link) (*predictions, error) {
	return q.PredictBy(ctx, nil, task, b, nil, link)
}

// PredictBy does what Predict does, with f from function, calibrated as q is; nil stands for q's own function.
// If y, the targets of the rows, is not nil, it also sets LogDensity.
func (q *solution) PredictBy(ctx context.Context, function gp.Latent, task *problemTask, b *linearize.Batch, y *mat.Dense, link predictive.Link) (*predictions, error) {
	if function == nil {
		if q.bnn != nil {
			return q.draw(ctx, task, b, y)
		}
		function = q.Latent()
	}
	t, c := b.Len(), b.Outputs()
	out := &predictions{Network: b.F, Mean: mat.NewDense(t, c, nil), Cov: mat.NewDense(t*c, c, nil)}
	if err := q.predictTo(ctx, function, out, b); err != nil {
		return nil, err
	}
	lik := task.Likelihood
	var err error
	out.calibration = q.Calibration.Scales()
	if out.Likelihood, out.Tempered, out.Scaled, err = out.calibration.Apply(lik, out.Mean, out.Cov); err != nil {
		return nil, err
	}
	_, linear := link.(predictive.Linear)
	if _, counts := lik.(glm.Counting); counts && linear {
		out.Tempered = out.Mean // whose rate is the network's: Linear does not average over f
	}
	if out.scales = (&result.Scales{Scale: 1, Temperature: 1, NoiseScale: 1}); q.Calibration != nil {
		k := &q.Calibration.Calibration
		out.scales = &result.Scales{Scale: cmp.Or(k.Scale, 1), Temperature: cmp.Or(k.Temperature, 1), NoiseScale: cmp.Or(k.NoiseScale, 1), Shift: k.Shift}
	}
	if out.Unsure, err = score.NoveltyOf(ctx, predictive.ScoringLink(lik, c), lik, out.Mean, out.Cov); err != nil {
		return nil, err
	}
	if out.targets = y; y != nil {
		out.LogDensity = make([]float64, t)
	}
	if !hasClasses(lik) {
		if y != nil {
			if err := link.LogPredictiveTo(out.LogDensity, out.Likelihood, y, out.Tempered, out.Scaled); err != nil {
				return nil, err
			}
		}
		return out, out.observe(link)
	}
	if err := out.respond(ctx, y, link); err != nil {
		return nil, err
	}
	out.mapOf(lik)
	return out, nil
}

// predictTo fills in the mean and the covariance by function and, with a detector, the novelty, in one pass over the kernel
// where they have it in common.
func (q *solution) predictTo(ctx context.Context, function gp.Latent, out *predictions, b *linearize.Batch) error {
	if q.detector == nil {
		return function.PredictTo(ctx, out.Mean, out.Cov, b)
	}
	out.Novelty = make([]float64, b.Len())
	predict := func(l gp.Latent, ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
		return q.detector.PredictTo(ctx, l, mean, cov, out.Novelty, x)
	}
	if a, ok := function.(*latentAnswer); ok {
		return a.to(ctx, out.Mean, out.Cov, b, predict)
	}
	return predict(function, ctx, out.Mean, out.Cov, b)
}

// mapOf fills in the probabilities of the classes by the network alone.
func (o *predictions) mapOf(lik glm.Likelihood) {
	t, c := o.Network.Dims()
	o.MAPProb = mat.NewDense(t, c, nil)
	for i := range t {
		lik.MeanTo(o.MAPProb.RawRowView(i), o.Network.RawRowView(i))
	}
	if c > 1 {
		return
	}
	// One output p speaks for the second class, and 1 − p for the first.
	rest := mat.NewDense(t, 1, nil)
	for i := range t {
		lik.MeanTo(rest.RawRowView(i), []float64{-o.Network.At(i, 0)})
	}
	o.MAPProb = sideBySide(rest, o.MAPProb)
}

// respond fills in the probabilities and their standard deviations, and the log density of targets that are not nil.
func (o *predictions) respond(ctx context.Context, y *mat.Dense, link predictive.Link) error {
	o.Prob, o.SD = new(mat.Dense), new(mat.Dense)
	if q, ok := link.(predictive.QMC); ok && y != nil {
		if err := q.PredictDensityTo(ctx, o.Prob, o.SD, o.LogDensity, o.Likelihood, y, o.Tempered, o.Scaled); err != nil {
			return err
		}
	} else {
		if err := link.PredictTo(o.Prob, o.SD, o.Likelihood, o.Tempered, o.Scaled); err != nil {
			return err
		}
		if y != nil {
			if err := link.LogPredictiveTo(o.LogDensity, o.Likelihood, y, o.Tempered, o.Scaled); err != nil {
				return err
			}
		}
	}
	t, c := o.Prob.Dims()
	if c > 1 {
		return nil
	}
	rest := mat.NewDense(t, 1, nil)
	switch link.(type) {
	case predictive.Exact, predictive.QMC, predictive.Probit, predictive.Linear:
		// E σ(−f), which keeps its digits where p is 1 to rounding.
		var minus mat.Dense
		minus.Scale(-1, o.Tempered)
		if err := link.PredictTo(rest, nil, o.Likelihood, &minus, o.Scaled); err != nil {
			return err
		}
	default:
		for i := range t {
			rest.Set(i, 0, 1-o.Prob.At(i, 0))
		}
	}
	o.Prob, o.SD = sideBySide(rest, o.Prob), sideBySide(o.SD, o.SD)
	return nil
}

// observe computes the predictions of a new observation in a regression. by is the link, which is Linear or is
// taken as Exact.
func (o *predictions) observe(by predictive.Link) error {
	var link interface {
		predictive.Link
		predictive.Splitter
	} = predictive.Exact{}
	if linear, ok := by.(predictive.Linear); ok {
		link = linear
	}
	t, c := o.Mean.Dims()
	targets := o.Likelihood.Targets(c)
	var response mat.Dense
	if err := link.PredictTo(&response, nil, o.Likelihood, o.Tempered, o.Scaled); err != nil {
		return err
	}
	o.Response = response.Slice(0, t, 0, targets).(*mat.Dense)
	var aleatoric, epistemic mat.Dense
	if err := link.SplitTo(&aleatoric, &epistemic, o.Likelihood, o.Tempered, o.Scaled); err != nil {
		return err
	}
	o.ObservationSD, o.FunctionSD = mat.NewDense(t, targets, nil), mat.NewDense(t, targets, nil)
	for i := range t {
		for j := range targets {
			o.ObservationSD.Set(i, j, math.Sqrt(aleatoric.At(i, j)+epistemic.At(i, j)))
			o.FunctionSD.Set(i, j, math.Sqrt(max(0, o.Scaled.At(i*c+j, j))))
		}
	}
	return nil
}

// of returns prediction i, which belongs to the row at the position at in rows. The caller sets its densities,
// its covariance and the rank of its novelty.
func (o *predictions) of(task *problemTask, i int, rows *dataset.Rows, at int) *result.Prediction {
	f, r := o.Network.RawRowView(i), o.prediction(task, i)
	r.NamedRow = &result.NamedRow{Index: result.Index(rows.Index[at]), Label: result.Float(label(rows, at)), Targets: severalOf(rows, at)}
	if c := len(f); !hasClasses(task.Likelihood) && task.Likelihood.Targets(c) == 1 {
		y, expected := label(rows, at), make([]float64, c)
		task.Likelihood.MeanTo(expected, f)
		r.Expected, r.MAPExpected = result.Float(o.Response.At(i, 0)), result.Float(expected[0])
		r.MAPCDF = result.Float(distribution(task.Likelihood, y, f, make([]float64, c*c)))
		switch _, counts := o.Likelihood.(glm.Counting); {
		case o.CDF == nil:
			r.CDF = result.Float(distribution(o.Likelihood, y, o.Tempered.RawRowView(i), mat.DenseCopyOf(o.Scaled.Slice(i*c, (i+1)*c, 0, c)).RawMatrix().Data))
		case counts:
			r.CDF = result.Float(o.CDF[i] - math.Exp(o.LogDensity[i])/2)
		default:
			r.CDF = result.Float(o.CDF[i])
		}
	}
	return &r
}

// distribution returns P(Y < y) + P(Y = y)/2 of a new observation Y whose outputs have mean f and covariance
// cov, for a likelihood with one target. It is NaN if y is NaN.
func distribution(lik glm.Likelihood, y float64, f, cov []float64) float64 {
	if math.IsNaN(y) {
		return y
	}
	d, ok := glm.DistributionOf(lik)
	if !ok {
		return math.NaN()
	}
	if _, counts := lik.(glm.Counting); !counts {
		return d.CoupledCDF(0, y, f, cov)
	}
	return integral.Expectation(func(f float64) float64 {
		at := []float64{f}
		return d.CoupledCDF(0, y, at, []float64{0}) - math.Exp(lik.LogProb([]float64{y}, at))/2
	}, f[0], cov[0])
}

func sideBySide(a, b *mat.Dense) *mat.Dense {
	var m mat.Dense
	m.Augment(a, b)
	return &m
}

// rowOf is row i of m, nil for a nil matrix.
func rowOf(m *mat.Dense, i int) []result.Float {
	if m == nil {
		return nil
	}
	return result.Floats(m.RawRowView(i))
}

// covarianceOf is the C×C covariance of row i.
func covarianceOf(cov *mat.Dense, i int) [][]result.Float {
	_, c := cov.Dims()
	out := make([][]result.Float, c)
	for j := range c {
		out[j] = result.Floats(cov.RawRowView(i*c + j))
	}
	return out
}
