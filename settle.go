package funcgp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A settlement records at which prior precision the posterior answers, and why (E21).
type settlement struct {
	stated float64 // precision of the training
	order  *order  // what to go to once the noise variance is settled; nil for nothing
	match  result.Match
	why    option.Text // of the match, which reports word
	// projection is φ = ⟨f̂,f̂⟩/⟨f̂,f⟩ of the refit f̂ and the network f over the training rows (E24); 0 where it is not
	// known.
	projection float64
}

// An order is a precision that was given, and what gave it.
type order struct {
	precision float64
	from      option.Text
}

// begin decides with which precision to start, and whether to search for the match from there.
func (f *fit) begin() error {
	s := &settlement{stated: f.precision, match: result.Match{Precision: result.Undefined(), Network: result.Undefined(), Refit: result.Undefined(), Remainder: result.Undefined()}}
	f.settled = s
	task := f.problem.Task
	switch {
	case f.asked.Prior.Tune != "":
		s.match.Used, s.why = "tuned", "{tune-prior} says so"
	case task.PrecisionGiven():
		return f.obey(&order{f.precision, task.PrecisionFrom.Text})
	case f.asked.Prior.At == atStated:
		s.match.Used, s.why = atStated, "{at=stated} says so"
	case f.asked.Prior.At != atMatch && f.asked.Prior.At != "":
		v, err := strconv.ParseFloat(f.asked.Prior.At, 64)
		if err != nil {
			return err
		}
		return f.obey(&order{v, "from {at}"})
	case f.problem.TrainedOnOthers():
		s.match.Used, s.why = atStated, "the network records that it was trained on other rows"
	case hasLogVariances(task.Likelihood):
		s.match.Used, s.why = atStated, "the likelihood is not concave"
	default:
		s.match.Used = atMatch
	}
	return nil
}

// obey moves to a precision that was given. It does so at once, unless leave-one-out chooses the noise
// variance: then it first lets that happen at the precision that would be used without the order, so that σ²
// does not depend on the δ that is asked for.
func (f *fit) obey(o *order) error {
	s, task := f.settled, f.problem.Task
	s.match.Used, s.why = "given", o.from
	if !hasNoise(task.Likelihood) || task.NoiseGiven() || task.FoundPrior || f.problem.TrainedOnOthers() || f.shards {
		return f.setPrecision(o.precision)
	}
	s.match.Used, s.order = atMatch, o
	if task.PrecisionGiven() {
		s.stated = cmp.Or(f.problem.Model.Meta.Precision, 1)
	}
	return f.setPrecision(s.stated)
}

// ordered moves to the precision that was given. moves tells whether the posterior had another precision.
func (f *fit) ordered() (moves bool, err error) {
	s := f.settled
	if s == nil || s.order == nil {
		return false, nil
	}
	o := s.order
	s.match.Used, s.why, s.order = "given", o.from, nil
	if o.precision == f.precision {
		return false, nil
	}
	return true, f.setPrecision(o.precision)
}

// seeks tells whether the match is searched for: because the posterior answers at it, or because a report names
// it beside a precision that was given.
func (f *fit) seeks() bool {
	s := f.settled
	if s == nil || hasLogVariances(f.problem.Task.Likelihood) || f.problem.TrainedOnOthers() {
		return false
	}
	return s.match.Used == atMatch || s.match.Used == "given"
}

// namedOutputs is the number of outputs of training rows up to which the match is searched for even if another
// precision is given.
const namedOutputs = 4000

// kernelAt returns the kernel at multiples of the precision that f has now.
func (f *fit) kernelAt() func(factor float64) (ntk.Kernel, error) {
	start := f.precision
	return func(factor float64) (ntk.Kernel, error) {
		prior, err := f.problem.Task.PriorAt(start * factor)
		if err != nil {
			return nil, err
		}
		return ntk.New(prior, f.theta), nil
	}
}

// refitted tells whether the mean of the answers is that of the posterior, with Refit or of variational inference, and
// not the network's output.
func (f *fit) refitted() bool { return f.asked.Refit || f.asked.variational() && !f.asked.AtTheta }

// mean returns the kind of mean of a posterior whose sites are at the mode: the network's output, or the sum
// over training examples where FitOptions.Refit asks for it.
func (f *fit) mean() gp.Mean {
	if !f.atTheta && f.refitted() {
		return gp.LinearGaussian
	}
	return f.meanAtTheta()
}

// meanAtTheta returns the kind of mean of a posterior at θ*: the mean of the linear-Gaussian model if the
// options ask for it or for its response, and f(x;θ*) otherwise.
func (f *fit) meanAtTheta() gp.Mean {
	if f.asked.AtTheta || f.asked.Predictive == "linear" && hasNoise(f.problem.Task.Likelihood) {
		return gp.LinearGaussian
	}
	return gp.Network
}

// settleNoise chooses the noise variance by leave-one-out where it is open, and returns the posterior under it.
func (f *fit) settleNoise(ctx context.Context, q *solution) (*solution, error) {
	lik, ok := f.problem.Task.Likelihood.(*glm.Gaussian)
	if !ok || solverOf(f.asked.Method.Name).whole {
		return q, nil
	}
	q, err := f.openNoise(ctx, lik, q)
	if err != nil {
		return nil, err
	}
	moves, err := f.ordered()
	if err != nil || !moves {
		return q, err
	}
	f.mode, f.frozen = nil, false
	return solverOf(f.asked.Method.Name).fit(f, ctx)
}

// openNoise does what settleNoise does, at the precision of the fit.
func (f *fit) openNoise(ctx context.Context, lik *glm.Gaussian, q *solution) (*solution, error) {
	if !f.seeksNoise() {
		return q, nil
	}
	m, _, err := q.leaveOneOut(ctx, f.con, f.problem, q.leftOut(f.problem))
	if err != nil {
		return nil, err
	}
	factor, err := f.noiseBy(lik, m)
	if err != nil {
		return nil, err
	}
	if f.mode != nil {
		if f.sites, err = gp.NewSites(f.problem.TrainTargets(), f.mode.Sites.F); err != nil {
			return nil, err
		}
	}
	if f.asked.Method.Name == "nystrom" {
		dual, err := q.induced.ScaleNoise(ctx, f.kernel, factor, f.sites)
		if err != nil {
			return nil, err
		}
		scaled := f.sparsePosterior(dual, dual.Inducing())
		scaled.approximation = q.approximation
		return scaled, nil
	}
	f.frozen = true
	return solverOf(f.asked.Method.Name).fit(f, ctx)
}

// matchExact moves an exact refit to the match, or only finds the match if the refit keeps another precision.
func (f *fit) matchExact(ctx context.Context, dual *gp.Exact) (*gp.Exact, error) {
	lik := f.problem.Task.Likelihood
	best := mostLogLik(f.problem.TrainTargets())
	switch {
	case !f.seeks():
	case f.settled.match.Used == atMatch:
		moved, m, err := dual.Match(ctx, f.kernelAt(), f.problem.TrainTargets(), best, false)
		if err != nil {
			return nil, err
		}
		dual = moved
		if err := f.found(ctx, m); err != nil {
			return nil, err
		}
	case f.source.Len()*f.problem.Model.Outputs <= namedOutputs:
		// The match is named alone, so that the answer does not depend on the search for it.
		beside, err := dual.Refit(ctx, f.problem.TrainTargets())
		if e := (*gp.MemoryError)(nil); errors.As(err, &e) {
			break
		}
		if err != nil {
			return nil, err
		}
		_, m, err := beside.Match(ctx, f.kernelAt(), f.problem.TrainTargets(), best, true)
		if err != nil {
			return nil, err
		}
		if err := f.found(ctx, m); err != nil {
			return nil, err
		}
	}
	start, factor := f.precision, 1.
	if f.seeksNoise() {
		train := dual.Data().(*linearize.Batch)
		m := trainMoments(f.problem, dense.Range(train.Len()))
		if err := dual.LeaveOneOutTo(ctx, m.mean, m.cov, dense.Range(train.Len()), train); err != nil {
			return nil, err
		}
		var err error
		if factor, err = f.noiseBy(lik.(*glm.Gaussian), m); err != nil {
			return nil, err
		}
	}
	moves, err := f.ordered()
	if err != nil {
		return nil, err
	}
	if moves {
		factor = start / f.precision
	} else if factor == 1 {
		return dual, nil
	}
	return dual.Rescale(ctx, f.kernel, factor, f.problem.TrainTargets())
}

// mostLogLik returns an upper bound of the log likelihood of targets.
func mostLogLik(to *gp.Targets) float64 {
	return glm.MostLogLik(to.Likelihood.(glm.Likelihood), to.Y, to.Weights)
}

// found records the result of the search for the match.
func (f *fit) found(ctx context.Context, m *gp.Match) error {
	s := f.settled
	s.match.Network = result.Float(m.Network)
	said := slices.ContainsFunc(f.alarms, func(w error) bool { // that tell the cause already
		return slices.Contains([]string{"bad-fit", "overconfident", "targets-scaled"}, linearize.WarningOf(w).Code)
	})
	if !said && !(math.Abs(math.Log(m.Root)) < gp.MatchKeeps) {
		// Warn where the trained parameters are no optimum, and would be with inputs that are scaled otherwise.
		cause, give := f.problem.OtherInputs(ctx, f.outputs)
		if err := ctx.Err(); err != nil && (give == nil || f.quiet) {
			return err
		}
		if give != nil && !f.quiet {
			f.preflight.Verdict = "warning"
			f.alarms = append(f.alarms, job.NewWarning("not-optimum", math.NaN(), math.NaN(), giveText(give),
				"The trained parameters are no optimum at δ = %.4g with these inputs. No answer is to be trusted, as %s.", f.precision, cause))
			if err := f.con.Alarm(f.alarms...); err != nil {
				return job.Full(err)
			}
		}
	}
	if m.End != gp.MatchNone {
		s.match.Precision = result.Float(f.precision * m.Root)
	}
	if m.End == gp.MatchBelow || m.End == gp.MatchFound && s.match.Used == atMatch {
		s.match.Precision = result.Float(f.precision * m.Factor)
	}
	if s.match.Used != atMatch {
		return nil
	}
	switch m.End {
	case gp.MatchNone:
		s.match.Used, s.why = atStated, "there is no match: the network fits its training rows no better than the prior mean does"
	case gp.MatchKept:
		s.match.Used, s.why = atStated, option.Textf("the trained parameters are an optimum there: the match, %.4g, is within a tenth in log δ", float64(s.match.Precision))
	case gp.MatchBelow:
		s.why = "the network fits its training rows more closely than any refit whose leverages keep their digits: this is the smallest precision of such a refit"
	default:
		s.why = "there the linearized model fits the training rows as the network does"
	}
	if s.match.Used == atStated {
		return nil
	}
	return f.setPrecision(f.precision * m.Factor)
}

// seeksNoise tells whether the noise variance is chosen by leave-one-out: it is where the precision of a training is
// matched, unless a flag says it, or it is known and the trained parameters are an optimum.
func (f *fit) seeksNoise() bool {
	s, t := f.settled, f.problem.Task
	if s == nil || !hasNoise(t.Likelihood) || t.NoiseGiven() {
		return false
	}
	return s.match.Used == atMatch || s.match.Used == atStated && s.match.Network.Finite() && !t.NoiseRecorded()
}

// noiseBy sets the noise variance that predicts left-out rows best, and returns the factor by which it changes.
func (f *fit) noiseBy(lik *glm.Gaussian, m *moments) (factor float64, err error) {
	if factor, err = score.NoiseFactor(lik, m.y, m.mean, m.cov, m.weights); err != nil {
		return 0, err
	}
	return factor, f.setNoise(factor, option.Textf("by leave-one-out at δσ² = %.4g", f.precision*f.problem.Task.Noise))
}

// setNoise multiplies noise variance and prior variances by a factor, which leaves the mode as it is.
func (f *fit) setNoise(factor float64, from option.Text) error {
	var err error
	if f.problem, err = f.problem.WithNoise(factor, from); err != nil {
		return err
	}
	if f.settled.match.Precision.Finite() {
		f.settled.match.Precision /= result.Float(factor)
	}
	return f.setPrecision(f.precision / factor)
}

// remark notes at which precision the posterior answers if that is not the stated one, and how much of the
// network's output the refit, whose sites are given, leaves unexplained.
func (f *fit) remark(q *solution, refit *gp.Sites) {
	s := f.settled
	if s == nil {
		return
	}
	q.settled = s
	s.match.Refit = result.Float(refit.LogLik)
	if f.outputs != nil { // which parts of a pass do not have
		network, rows := f.outputs, q.given()
		if rows != nil {
			network = rowsAt(network, rows)
		} else {
			rows = dense.Range(f.problem.Examples.Train.Len())
		}
		f.measure(refit, network, weightsAt(f.problem, rows))
	}
	if f.quiet {
		return
	}
	if n, of := f.problem.Examples.Train.Len(), f.problem.TrainedOnMore(); of > 0 {
		f.con.Warn(job.NewWarning("fewer-rows", float64(n), float64(of), "Leave out {train-count} and {train-index}.",
			"The network was trained on %d rows, and these are %d of them. Answers are as sure as these rows alone can be, which is less than the network is.", of, n))
	}
	if match := float64(s.match.Precision); s.match.Used == "given" && math.Abs(math.Log(match/f.precision)) > gp.MatchKeeps {
		hint := option.Text("Give {at=match} for answers there.")
		if over := match / f.precision / float64(len(f.problem.Examples.Y.RawMatrix().Data)); over > .5 && over < 2 && f.problem.Task.Prior == nil && !hasNoise(f.problem.Task.Likelihood) {
			hint = option.Textf("If %.4g is the weight decay of the training, give {weight-decay=%.4g}.", f.precision, f.precision)
		}
		f.con.Warn(job.NewWarning("given-precision", f.precision, match, hint, "Answers are at δ = %.4g as given. The linearized model fits the training rows as the network does at δ = %.4g.", f.precision, match))
	}
	if share := float64(s.match.Remainder); share > unexplained && q.network {
		f.con.Warn(linearize.NewWarning("remainder", share, unexplained, "", "The remainder, what no training example explains of this network, is %.2g of its outputs (RMS over the training rows). The terms are those of the linearized model at δ = %.4g.", share, f.precision))
	}
}

// measure compares the refit with the outputs of the network at the same training rows: the remainder ρ, and φ of
// (E24). weights are those of the rows, nil for 1 each.
func (f *fit) measure(at *gp.Sites, network *mat.Dense, weights []float64) {
	// Outputs of a softmax count less their mean over classes, which it ignores.
	classes := f.problem.Task.Classes != nil
	n, c := network.Dims()
	ff, fd, dd, rest := 0., 0., 0., 0. // ⟨f,f⟩, ⟨f,f̂⟩, ⟨f̂,f̂⟩ and ‖f − f̂‖²
	for i := range n {
		a, b := slices.Clone(network.RawRowView(i)), slices.Clone(at.F.RawRowView(i))
		if classes && c > 1 {
			center(a)
			center(b)
		}
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		for j := range a {
			ff += w * a[j] * a[j]
			fd += w * a[j] * b[j]
			dd += w * b[j] * b[j]
			rest += w * (a[j] - b[j]) * (a[j] - b[j])
		}
	}
	f.settled.match.Remainder = result.Float(math.Sqrt(rest / ff))
	f.settled.projection = dd / fd
}

// unexplained is the relative difference between refit and network above which the terms of explanations come
// with a warning.
const unexplained = .2

func center(v []float64) {
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for j := range v {
		v[j] -= mean
	}
}

// roughMode is the gradient at which the search for the mode ends where each product is a pass over the data: f̂ is
// then within 1e-4 prior standard deviations of the mode (E19), which moves sites by less. Where the Jacobian is in
// memory it ends at closeMode.
const roughMode, closeMode = 1e-4, 1e-9

// settle moves to the precision of the answers by products with the Jacobian, for methods without a kernel of
// all training rows.
func (f *fit) settle(ctx context.Context) error {
	if f.frozen || f.atTheta || !f.seeks() || f.settled.match.Used != atMatch {
		return nil
	}
	if f.matched != nil {
		return nil
	}
	if c := f.choice; c != nil && c.Match != nil {
		f.matched, f.near = c.Match, c.near
		return f.found(ctx, c.Match)
	}
	products, err := f.products(ctx)
	if err != nil {
		return err
	}
	m, err := mode.FindMatch(ctx, f.source, f.problem.TrainTargets(), f.prior, f.theta, &mode.Options{Products: products, Outputs: f.outputs, Limits: f.problem.Bounds(f.con)})
	if none := (*gp.NoMatchError)(nil); errors.As(err, &none) {
		return f.found(ctx, &gp.Match{Factor: 1, Root: math.NaN(), Network: none.Network, End: gp.MatchNone})
	}
	if err != nil {
		return err
	}
	f.con.Warn(m.Warnings...)
	f.near = m.Theta
	found := &gp.Match{Factor: m.Factor, Root: m.Factor, Network: m.Network}
	if m.Bounded {
		found.End = gp.MatchBelow
	} else if math.Abs(math.Log(m.Factor)) < gp.MatchKeeps {
		found.Factor, found.End = 1, gp.MatchKept
	}
	f.matched = found
	return f.found(ctx, found)
}

// settleMode does what settle does, and sets the sites at f_lin(x;v*), where v* is the mode of the linearized
// model at the precision of the answers.
func (f *fit) settleMode(ctx context.Context) error {
	if err := f.settle(ctx); err != nil || f.frozen || f.atTheta {
		return err
	}
	if f.mode != nil { // of a search for kept rows
		f.sites = f.mode.Sites
		return nil
	}
	products, err := f.products(ctx)
	if err != nil {
		return err
	}
	gradient := roughMode
	if _, ok := f.source.(*linearize.Batch); ok {
		gradient = closeMode
	}
	o := &kept.Options{Products: products, Outputs: f.outputs, Start: f.near, Limits: f.problem.Bounds(f.con)}
	if f.mode, err = kept.FindMode(ctx, f.source, f.problem.TrainTargets(), f.prior, f.theta, gradient, o); err != nil {
		return err
	}
	f.sites = f.mode.Sites
	return nil
}
