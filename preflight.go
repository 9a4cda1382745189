package funcgp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/par"
)

// atTheta holds the network's outputs on its training rows, and measurements of whether the parameters are at
// an optimum.
type atTheta struct {
	F        *mat.Dense // outputs, N×C
	X        *mat.Dense // inputs, N×D; nil reads them
	Gradient float64    // norm of the gradient of the MAP objective at θ*

	// Pull returns Jᵀr over the training rows, for residuals r, N×C; nil where that is not to be had.
	Pull  func(ctx context.Context, r *mat.Dense) ([]float64, error)
	Theta []float64 // parameters, with Pull
}

const (
	// sureExcess is how many nats a training row may cost a network beyond what it expects by its own probabilities.
	// At a mode under any prior the average is not above 0 where the last layer is linear: its weights W have Σ rᵢfᵢᵀ
	// = δ‖W‖² ≥ 0, and −log p(yᵢ) − H(pᵢ) = −rᵢᵀfᵢ. Before training has converged the sum is larger still, as the
	// scale of the outputs grows.
	sureExcess = .1
	// unfinished is by how many nats a training row training may end before its optimum.
	unfinished = .03
	// otherScale is how much more of the variance of the targets an affine function of the outputs explains than the
	// outputs themselves, where they are on another scale: at a mode the best slope is 1, or more where the prior
	// shrinks.
	otherScale = .5
)

// Preflight tells whether the network is one that was trained on these rows, with
// this preprocessing and this prior: it looks at what a fitted network cannot do. Each
// warning names the likely cause and the flag that mends it. A posterior with an alarm of
// these codes is one that result.Fit.Alarms puts first.
//
//   - Its outputs are not what the likelihood makes of logits or logarithms of rates.
//   - It does not predict its own training rows worse than a constant does, which its last
//     bias alone could be: the shares of the classes, the mean target, the mean rate.
//   - It is not surer than right there: see sureExcess.
//   - It is no optimum of another loss: see trainingLoss.
//
// The last two are skipped where the network records that it was trained on other rows. An error is that of at.Pull.
func (p *problem) Preflight(ctx context.Context, at *atTheta) (*result.Preflight, []error, error) {
	l := &look{problem: p, at: at}
	l.score()
	l.known = !p.TrainedOnOthers()
	// The largest number of an input, in size, as the network sees it; NaN where some cannot be read.
	e, n := p.Examples, p.Examples.Train.Len()
	of := make([]float64, par.Tiles(n, predictRows))
	if par.Do(ctx, len(of), func(i int) error {
		lo, hi := par.Bounds(i, n, predictRows)
		x := dense.Slice(at.X, lo, hi)
		if x == nil {
			var err error
			if x, err = e.Inputs(ctx, e.Train, lo, hi); err != nil {
				return err
			}
		}
		largest := 0.0
		for i := range hi - lo {
			for _, v := range x.RawRowView(i) {
				if v = math.Abs(v); v > largest {
					largest = v
				}
			}
		}
		of[i] = largest
		return nil
	}) != nil {
		of = []float64{math.NaN()}
	}
	r := &result.Preflight{Verdict: "ok", TrainNLL: result.Float(l.plain), LargestInput: result.Float(floats.Max(of))}
	if hasClasses(p.Task.Likelihood) {
		r.TrainAccuracy = numberPointer(l.accuracy)
	} else {
		r.TrainRMSE = numberPointer(l.rmse)
	}
	r.GradientNorm = result.Float(at.Gradient)
	if l.outputs() {
		r.Verdict = "warning"
		return r, l.warnings, nil
	}
	t := p.Task
	rows := fmt.Sprintf("its own %d training rows", l.at.F.RawMatrix().Rows)
	if !l.known {
		rows = fmt.Sprintf("these %d training rows", l.at.F.RawMatrix().Rows)
	}
	// Rows of one class say nothing of the others.
	worse := l.nll-l.constant > l.slack() && l.constant != 0
	sure := l.known && l.excess > max(sureExcess, 4*l.excessSE)
	scaled := hasNoise(t.Likelihood) && l.slope().better > otherScale
	if !worse && !sure && !scaled {
		err := l.trainingLoss(ctx, rows)
		if len(l.warnings) > 0 {
			r.Verdict = "warning"
		}
		return r, l.warnings, err
	}
	if order := l.order(ctx); order != nil {
		l.warn(order)
		r.Verdict = "warning"
		return r, l.warnings, nil
	}
	cause, remedy := l.cause(ctx)
	switch {
	case t.Classes != nil && worse:
		l.warn(job.NewWarning("bad-fit", l.nll, l.constant, remedy, "On %s the network predicts worse than the shares of the classes do: %.4g nats a row against %.4g, with accuracy %.3g. No answer is to be trusted, as %s.", rows, l.nll, l.constant, l.accuracy, cause))
	case worse && t.MultiLabel():
		l.warn(job.NewWarning("bad-fit", l.nll, l.constant, remedy, "On %s the network predicts worse than the shares of the labels do: %.4g nats a row against %.4g, with %.3g of the labels right. No answer is to be trusted, as %s.", rows, l.nll, l.constant, l.accuracy, cause))
	case worse:
		l.warn(job.NewWarning("bad-fit", l.nll, l.constant, remedy, "On %s the network predicts worse than their mean does: %.4g nats a row against %.4g, with RMSE %.4g. No answer is to be trusted, as %s.", rows, l.nll, l.constant, l.rmse, cause))
	case sure:
		l.warn(job.NewWarning("overconfident", l.nll, l.nll-l.excess, remedy, "On %s the network is surer than right: %.4g nats a row, where its own probabilities expect %.4g. No answer is to be trusted, as %s.", rows, l.nll, l.nll-l.excess, cause))
	default:
		l.warn(job.NewWarning("targets-scaled", l.rmse, math.NaN(), remedy, "On %s the network's outputs follow the targets on another scale, with RMSE %.4g. No answer is to be trusted, as %s.", rows, l.rmse, cause))
	}
	r.Verdict = "warning"
	return r, l.warnings, nil
}

// numberPointer is a number that a report may leave out.
func numberPointer(v float64) *result.Float {
	f := result.Float(v)
	return &f
}

// TrainedOnOthers tells whether the network records that it was trained on other rows than the training rows.
func (p *problem) TrainedOnOthers() bool {
	m, e := p.Model.Meta, p.Examples
	return m.Rows != "" && (m.Data != fingerprint(e.Data.Train) || m.Rows != job.FormatRows(e.Train.Index))
}

// TrainedOnMore returns the number of rows that the network records it was trained on if the training rows are
// only a part of these, and 0 otherwise.
func (p *problem) TrainedOnMore() int {
	m, e := p.Model.Meta, p.Examples
	rows, ok := job.ParseRows(m.Rows, e.Data.Train.Len())
	if !ok || len(rows) <= e.Train.Len() || m.Data != fingerprint(e.Data.Train) {
		return 0
	}
	for _, i := range e.Train.Index {
		if _, ok := slices.BinarySearch(rows, i); !ok {
			return 0
		}
	}
	return len(rows)
}

// A look holds what Preflight measures, and the warnings that it gives.
type look struct {
	problem  *problem
	at       *atTheta
	known    bool // the network may have been trained on these rows
	warnings []error

	weight           []float64 // of each row in the loss of the training, 1 in the mean
	worse            []float64 // weight times the loss of each row, less that under the best constant
	bias             float64   // norm of the outputs of that constant
	nll, constant    float64   // mean loss of the training: of the network, of the best constant
	plain            float64   // mean of −log p(y)
	accuracy, rmse   float64
	excess, excessSE float64     // mean of −log p(y) less the entropy of p, and its standard error under p
	confusion        *mat.Dense  // of classes: rows with label k and largest output j
	logp             [][]float64 // of classes: log probabilities of each row
	shares           [][]float64 // of classes: those that the loss of each row is of, 1 for its label unless smoothed
}

func (l *look) warn(w error) { l.warnings = append(l.warnings, w) }

// score compares the network with the best constant on the training rows.
func (l *look) score() {
	p, f := l.problem, l.at.F
	y, lik := p.Examples.Y, p.Task.Likelihood
	n, _ := f.Dims()
	l.worse, l.weight = make([]float64, n), slices.Repeat([]float64{1}, n)
	to := p.TrainTargets()
	scored, by := p.Task.Scored(p.Examples.Train, y, p.Model.Outputs)
	if to.Weights != nil {
		floats.ScaleTo(l.weight, float64(n)/floats.Sum(to.Weights), to.Weights)
	}
	own := &gp.Targets{Y: to.Y, Likelihood: to.Likelihood, Weights: l.weight}
	for i := range n {
		l.plain -= by.LogProb(scored.RawRowView(i), f.RawRowView(i)) / float64(n)
		l.worse[i] = -own.Expand(i, nil, nil, nil, f.RawRowView(i))
		l.nll += l.worse[i] / float64(n)
	}
	if p.Task.Classes != nil {
		e, k := p.Examples, len(p.Task.Classes)
		l.confusion, l.logp, l.shares = confusionOf(f, e.Train.Class, k), make([][]float64, n), make([][]float64, n)
		variance := 0.0
		for i := range n {
			lp, q := logProbabilities(f.RawRowView(i)), classShares(to.Y.RawRowView(i), k)
			l.logp[i], l.shares[i] = lp, q
			entropy, square := 0.0, 0.0
			for _, v := range lp {
				if q := math.Exp(v); q > 0 {
					entropy -= q * v
					square += q * v * v
				}
			}
			w := l.weight[i]
			l.excess += w * (-dotFinite(q, lp) - entropy) / float64(n)
			variance += w * w * (square - entropy*entropy)
		}
		l.excessSE = math.Sqrt(max(0, variance)) / float64(n)
		l.accuracy = mat.Trace(l.confusion) / float64(n)
		share, best := make([]float64, k), make([]float64, k)
		for i, q := range l.shares {
			floats.AddScaled(share, l.weight[i]/float64(n), q)
		}
		for y, s := range share {
			if s > 0 {
				best[y] = -math.Log(s)
				l.constant += s * best[y]
			}
		}
		for i, q := range l.shares {
			l.worse[i] -= l.weight[i] * floats.Dot(q, best)
		}
		_, sd := stat.PopMeanStdDev(best, nil)
		l.bias = sd * math.Sqrt(float64(k)) // of outputs with mean 0, the least
		return
	}
	_, c := f.Dims()
	constant, mean := make([]float64, c), mat.NewDense(n, c, nil)
	for j := range c {
		at, variance := stat.PopMeanVariance(mat.Col(nil, j%y.RawMatrix().Cols, y), to.Weights)
		switch {
		case hasLogVariances(lik) && j >= c/2:
			constant[j] = math.Log(max(variance, smallestVariance))
		case hasRealTargets(lik):
			constant[j] = at
		case hasClasses(lik):
			least := 1 / float64(n+1)
			at = min(max(at, least), 1-least)
			constant[j] = math.Log(at / (1 - at))
			if w := p.Task.Loss.ClassWeights; w != nil {
				constant[j] += math.Log(w[j])
			}
		default:
			constant[j] = math.Log(max(at, 1/float64(n)))
		}
	}
	l.bias = floats.Norm(constant, 2)
	if p.Task.MultiLabel() {
		l.labels(own)
	}
	for i := range n {
		best := -own.Expand(i, nil, nil, nil, constant)
		l.constant += best / float64(n)
		l.worse[i] -= best
		lik.MeanTo(mean.RawRowView(i), f.RawRowView(i))
	}
	l.rmse = math.Sqrt(meanSquare(mean.Slice(0, n, 0, y.RawMatrix().Cols).(*mat.Dense), y))
}

// labels finds how many labels are right and how much surer than right the network is, where each output is the logit of
// a label, of which a row has any number.
func (l *look) labels(own *gp.Targets) {
	n, c := l.at.F.Dims()
	residual, lambda, sum := make([]float64, c), make([]float64, c*c), 0.0
	for i := range n {
		f := l.at.F.RawRowView(i)
		own.Expand(i, residual, lambda, nil, f)
		l.accuracy += rightLabels(l.problem.Examples.Y.RawRowView(i), f) / float64(n)
		for j, v := range f {
			// −log p(y) − H(p) = (p − y) f = −r f, and Var log p(y) = p(1 − p) f² = Λ f²
			l.excess -= residual[j] * v / float64(n)
			sum += l.weight[i] * lambda[j*c+j] * v * v
		}
	}
	l.excessSE = math.Sqrt(sum) / float64(n)
}

// classShares are the shares of k classes that a row has, by its target: a label, shares, or the share of the second of two.
func classShares(y []float64, k int) []float64 {
	q := make([]float64, k)
	switch {
	case len(y) > 1:
		copy(q, y)
	case k == 2:
		q[0], q[1] = 1-y[0], y[0]
	default:
		q[int(y[0])] = 1
	}
	return q
}

// dotFinite returns Σ q_c v_c, leaving out the classes whose share q_c is 0, so that v_c = −∞ does no harm
// there.
func dotFinite(q, v []float64) (sum float64) {
	for c, s := range q {
		if s > 0 {
			sum += s * v[c]
		}
	}
	return sum
}

// smallestVariance is the variance under the best constant for targets that are all the same.
const smallestVariance = 1e-12

// confusionOf counts rows by their label, a number of k classes, and the largest of their outputs.
func confusionOf(f *mat.Dense, label []int, k int) *mat.Dense {
	confusion := mat.NewDense(k, k, nil)
	for i, y := range label {
		j := largestClass(f.RawRowView(i))
		confusion.Set(y, j, 1+confusion.At(y, j))
	}
	return confusion
}

// logProbabilities are the log probabilities of the classes at outputs f: one output is the log-odds of the second
// class.
func logProbabilities(f []float64) []float64 {
	if len(f) == 1 {
		f = []float64{0, f[0]}
	}
	sum := floats.LogSumExp(f)
	out := make([]float64, len(f))
	for j, v := range f {
		out[j] = v - sum
	}
	return out
}

// slack returns how many nats a row worse than the best constant a network may predict and still be the result
// of its training. Training may lose ½δ‖b‖², which the prior charges the constant for its bias b; unfinished,
// if it stopped early; and two standard errors, if the network may have been trained on other or more rows.
func (l *look) slack() float64 {
	n, t := float64(len(l.worse)), l.problem.Task
	least := t.Precision // the smallest of the prior
	if t.Prior != nil {
		variance := make([]float64, len(t.Prior.theta))
		t.Prior.VarianceTo(variance)
		least = 1 / slices.Max(variance)
	}
	slack := unfinished + least*l.bias*l.bias/(2*n)
	if l.known && l.problem.Model.Meta.Rows != "" || n < 2 {
		return slack
	}
	_, sd := stat.MeanStdDev(l.worse, nil)
	return slack + 2*sd/math.Sqrt(n)
}

// cause returns a clause that says what may have gone wrong with inputs and targets, and a remedy.
func (l *look) cause(ctx context.Context) (cause string, remedy option.Text) {
	t := l.problem.Task
	if hasNoise(t.Likelihood) {
		if s := l.slope(); s.better > otherScale {
			return "it was trained on scaled targets", giveText(s.options(l.problem.Examples.Scaling))
		}
	}
	if cause, give := l.otherInputs(ctx, false); give != nil {
		return cause, giveText(give)
	}
	if l.problem.Model.takesWholeAlone() {
		return "inputs or labels are not those that it was trained on", "Check how the ids are numbered."
	}
	if !t.Loss.plain() {
		return "inputs, labels or loss are not those that it was trained on, or inputs are scaled otherwise", "Check {class-weights}, and see {standardize}, {input-mean} and {input-sd}."
	}
	return "inputs or labels are not those that it was trained on, or are scaled otherwise", "See {standardize}, {input-mean} and {input-sd}."
}

// giveText returns the remedy that asks for these options.
func giveText(options []option.Text) option.Text { return "Give " + option.Join(options, "{,}") + "." }

// order returns a warning if the outputs agree with the labels only with the classes in another order, and no
// other scaling of the inputs makes them agree in the present order. Otherwise it returns nil.
func (l *look) order(ctx context.Context) error {
	if l.confusion == nil || l.problem.Task.Grouping != nil {
		return nil
	}
	order, nll := orderOf(l.confusion, l.logp, l.problem.Examples.Train.Class, l.problem.Task.Classes, l.constant)
	if order == nil {
		return nil
	}
	if _, give := l.otherInputs(ctx, false); give != nil && !slices.Contains(option.Join(give, "").Named(), "classes") {
		return nil
	}
	text, remedy := classText(order, l.problem.Examples.Data), option.Text("")
	switch f := l.problem.asked; {
	case f != nil && f.Data.ClassNames != nil && l.problem.Examples.Data.Names != nil:
		remedy = option.Set("class-names", job.Word(text))
	case l.problem.Model.Meta.Classes != nil || l.problem.Model.Meta.ClassNames != nil && l.problem.Examples.Data.Names != nil:
		remedy = "labels that go with the metadata of the network, which says the order"
	default:
		remedy = option.Set("classes", job.Word(text))
	}
	n := len(l.logp)
	return job.NewWarning("class-order", l.nll, nll, giveText([]option.Text{remedy}),
		"On %d training rows the network's outputs are those of the classes in another order: there they lose %s nats a row, as they are %s with an accuracy of %.3g, and the shares of the classes alone %s. No answer is to be trusted.", n, short(nll), short(l.nll), l.accuracy, short(l.constant))
}

// short is a number with four digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// orderOf returns the classes in the order in which the labels of rows, numbers of classes, agree with the largest
// outputs, and the loss in nats a row then; nil where that is their order or where they do not agree far better than
// the best constant. Outputs that know nothing of labels drawn by their shares do so in one of the k! orders with a
// probability of e⁻¹⁰ at most, by Markov's inequality for the ratio of the likelihoods.
func orderOf(confusion *mat.Dense, logp [][]float64, label, classes []int, constant float64) ([]int, float64) {
	k, n := len(classes), float64(len(logp))
	to, taken, same := make([]int, k), make([]bool, k), true
	for y := range k {
		row := confusion.RawRowView(y)
		if to[y] = floats.MaxIdx(row); row[to[y]] == 0 { // no row has the class
			to[y] = -1
			continue
		}
		if taken[to[y]] {
			return nil, 0
		}
		taken[to[y]], same = true, same && to[y] == y
	}
	if same {
		return nil, 0
	}
	for y, j := range to { // the rest in their order
		if j < 0 {
			to[y] = slices.Index(taken, false)
			taken[to[y]] = true
		}
	}
	nll := 0.0
	for i, y := range label {
		nll -= logp[i][to[y]] / n
	}
	orders, _ := math.Lgamma(float64(k + 1)) // log k!
	if nll > .75*constant || n*(constant-nll) < orders+10 {
		return nil, 0
	}
	order := make([]int, k)
	for y, j := range to {
		order[j] = classes[y]
	}
	return order, nll
}

// An affine describes the targets as an affine function of the outputs.
type affine struct {
	own      bool    // mean and sd are those of the targets
	better   float64 // share of the targets' variance that mean + sd·f explains, less the share that f explains
	mean, sd float64
}

// options returns the options that describe how the targets were scaled, given that s scales the outputs to the
// units of the targets.
func (a affine) options(s *dataScaling) []option.Text {
	if s != nil && s.Targets != nil {
		a.mean, a.sd = a.mean+a.sd*s.Targets.Mean[0], a.sd*s.Targets.Scale[0]
	}
	return []option.Text{option.Textf("{target-mean=%.6g}", a.mean), option.Textf("{target-sd=%.6g}", a.sd)}
}

// slope fits the targets by an affine function of the output, for one output.
func (l *look) slope() affine { return slopeOf(l.at.F, l.problem.Examples.Y) }

// slopeOf fits targets by an affine function of one output; it is zero for several.
func slopeOf(f, y *mat.Dense) affine {
	n, c := f.Dims()
	if c != 1 || y.RawMatrix().Cols != 1 || n < 3 {
		return affine{}
	}
	a, b := mat.Col(nil, 0, f), mat.Col(nil, 0, y)
	ma, mb := floats.Sum(a)/float64(n), floats.Sum(b)/float64(n)
	var aa, ab, bb, rest float64
	for i := range a {
		aa += (a[i] - ma) * (a[i] - ma)
		ab += (a[i] - ma) * (b[i] - mb)
		bb += (b[i] - mb) * (b[i] - mb)
		rest += (b[i] - a[i]) * (b[i] - a[i])
	}
	if aa == 0 || bb == 0 || ab <= 0 {
		return affine{}
	}
	s := affine{better: ab*ab/(aa*bb) - max(0, 1-rest/bb), sd: ab / aa}
	s.mean = mb - s.sd*ma
	// Targets are standardized by their own mean and deviation.
	if sd := math.Sqrt(bb / float64(n)); math.Abs(s.sd/sd-1) < .3 && math.Abs(s.mean-mb) < .3*sd {
		s.mean, s.sd, s.own = mb, sd, true
	}
	return s
}
