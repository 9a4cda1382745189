package reproduce

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A vallaGroup are the methods that one step judges, which share a trained network.
type vallaGroup struct {
	name    string
	cost    int // that of the step as a multiple of the training
	methods []vallaMethod
}

// A vallaMethod fits a posterior and judges it.
type vallaMethod func(ctx context.Context, f *vallaFit) (*vallaScores, error)

var vallaGroups = []vallaGroup{
	{"weights", 4, []vallaMethod{vallaMAP, vallaOurs, vallaCautious, vallaTwice, vallaKFAC, vallaDiagonal}},
	{"last-layer", 4, []vallaMethod{vallaLastLayer}},
	{"inducing", 4, []vallaMethod{vallaNystrom}},
	{"cautious", 2, []vallaMethod{vallaNoWorse}},
	{"match", 8, []vallaMethod{vallaMatch, vallaMatchNystrom}},
}

// vallaGroupsOf are the groups that are judged on the networks of a set. All are judged on
// those of the protocol.
func vallaGroupsOf(set string) []vallaGroup {
	if set == "matched" {
		return []vallaGroup{vallaGroups[0], vallaGroups[3]}
	}
	return vallaGroups
}

// Names of the methods in results.
const (
	nameMAP       = "map"
	nameOurs      = "ours"
	nameCautious  = "ours, cautious"
	nameTwice     = "ours, twice the scale"
	nameNoWorse   = "ours, no worse than the network"
	nameKFAC      = "kfac"
	nameDiagonal  = "diagonal"
	nameLastLayer = "last layer"
	nameNystrom   = "nystrom"
	nameMatch     = "match"
	nameMatchZ    = "match, nystrom"
)

// A vallaFit is what posteriors are computed from.
type vallaFit struct {
	study        *vallaStudy
	data         *vallaData
	net          *network.Network
	source       linearize.Source
	sites        *gp.Sites
	sitesSeconds float64
	factors      *weightspace.Factors
	calibration  *vallaChoice // of the posterior with Kronecker factors, with the seconds that it took
	calibrating  float64
	factorTime   float64 // of processor time, of the first posterior with Kronecker factors
	match        float64 // precision of the match; 0 before it is found
}

// A predictor writes the covariance of the outputs of the examples of a batch, T·C×C.
type predictor func(ctx context.Context, cov *mat.Dense, x *linearize.Batch) error

// of is the predictor of a posterior.
func of(l gp.Latent) predictor {
	return func(ctx context.Context, cov *mat.Dense, x *linearize.Batch) error {
		return l.PredictTo(ctx, nil, cov, x)
	}
}

// vallaLink integrates as finely as scores of many rows need.
var vallaLink = predictive.QMC{Tol: 1e-3, MaxPoints: 4096}

// moments returns f(x;θ*), T×C, and the covariance, T·C×C; nil for a nil predictor.
func (f *vallaFit) moments(ctx context.Context, how predictor, x *mat.Dense) (mean, cov *mat.Dense, err error) {
	if mean, err = f.net.Forward(ctx, x); err != nil || how == nil {
		return mean, nil, err
	}
	rows, d := x.Dims()
	_, c := mean.Dims()
	cov = mat.NewDense(rows*c, c, nil)
	const tile = 500
	for lo := 0; lo < rows; lo += tile {
		hi := min(lo+tile, rows)
		b, err := f.net.Linearize(ctx, x.Slice(lo, hi, 0, d).(*mat.Dense))
		if err == nil {
			err = how(ctx, cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense), b)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return mean, cov, nil
}

// judge scores the predictive with the covariance scaled.
func (f *vallaFit) judge(ctx context.Context, how predictor, s *vallaScores) (*vallaScores, error) {
	const bins = 15
	lik := glm.Categorical{}
	var link predictive.Link = predictive.MAP{}
	if how != nil {
		link = vallaLink
	}
	predict := func(x *mat.Dense) (mean, cov *mat.Dense, err error) {
		if mean, cov, err = f.moments(ctx, how, x); cov != nil {
			cov.Scale(float64(s.Scale), cov)
		}
		return mean, cov, err
	}
	densities := func(rows Rows, mean, cov *mat.Dense) ([]float64, error) {
		logp := make([]float64, mean.RawMatrix().Rows)
		return logp, link.LogPredictiveTo(logp, lik, rows.Y, mean, cov)
	}
	var test, letters mat.Dense
	mean, cov, err := predict(f.data.test.X)
	if err != nil {
		return nil, err
	}
	if err := link.PredictTo(&test, nil, lik, mean, cov); err != nil {
		return nil, err
	}
	logp, err := densities(f.data.test, mean, cov)
	if err != nil {
		return nil, err
	}
	s.Test = ScoreClasses(lik, f.data.test.Y, &test, logp, bins)
	for _, x := range []struct {
		to   *result.Float
		rows Rows
	}{{&s.Turned30, f.data.turned30}, {&s.Turned60, f.data.turned60}} {
		if mean, cov, err = predict(x.rows.X); err != nil {
			return nil, err
		}
		if logp, err = densities(x.rows, mean, cov); err != nil {
			return nil, err
		}
		*x.to = result.Float(score.NLL(logp))
	}
	if mean, cov, err = predict(f.data.letters); err != nil {
		return nil, err
	}
	if err := link.PredictTo(&letters, nil, lik, mean, cov); err != nil {
		return nil, err
	}
	s.Letters = result.Float(score.AUROC(entropies(&test), entropies(&letters)))
	return s, ctx.Err()
}

// calibrated finds the scale of the covariance by rows that were not trained on (E18).
func (f *vallaFit) calibrated(ctx context.Context, how predictor, rows Rows) (*score.Calibration, error) {
	mean, cov, err := f.moments(ctx, how, rows.X)
	if err != nil {
		return nil, err
	}
	return score.Calibrate(ctx, glm.Categorical{}, rows.Y, mean, cov, &score.CalibrateOptions{Link: vallaLink, KeepMean: true})
}

// heldNLL is the NLL of rows that were not trained on, with the covariance scaled.
func (f *vallaFit) heldNLL(ctx context.Context, how predictor, scale float64, rows Rows) (float64, error) {
	mean, cov, err := f.moments(ctx, how, rows.X)
	if err != nil {
		return 0, err
	}
	cov.Scale(scale, cov)
	logp := make([]float64, mean.RawMatrix().Rows)
	err = vallaLink.LogPredictiveTo(logp, glm.Categorical{}, rows.Y, mean, cov)
	return score.NLL(logp), err
}

// A vallaChoice is a posterior with a precision and a scale of its covariance.
type vallaChoice struct {
	delta, scale float64
	how          predictor
}

// chosen returns the precision whose predictive gives the held-out rows the smallest
// NLL. Where the covariance is scaled, each precision has the scale that is best for it.
func (f *vallaFit) chosen(ctx context.Context, deltas []float64, scaled bool, at func(delta float64) (predictor, error)) (*vallaChoice, error) {
	rows := f.data.held.slice(0, (f.study.held+1)/2)
	var nll []float64
	var choices []*vallaChoice
	for _, delta := range deltas {
		how, err := at(delta)
		if err != nil {
			return nil, err
		}
		c := &vallaChoice{delta, 1, how}
		if scaled {
			found, err := f.calibrated(ctx, how, rows)
			if err != nil {
				return nil, err
			}
			c.scale = found.Scale
		}
		score, err := f.heldNLL(ctx, how, c.scale, rows)
		if err != nil {
			return nil, err
		}
		nll, choices = append(nll, score), append(choices, c)
	}
	best := choices[ArgMin(nll)]
	if scaled {
		found, err := f.calibrated(ctx, best.how, f.data.held)
		if err != nil {
			return nil, err
		}
		best.scale = found.Scale
	}
	return best, nil
}

// fitted judges a posterior that took seconds to fit and to choose.
func (f *vallaFit) fitted(ctx context.Context, name string, c *vallaChoice, seconds float64) (*vallaScores, error) {
	return f.judge(ctx, c.how, &vallaScores{Method: name, Precision: result.Float(c.delta), Scale: result.Float(c.scale), Fit: result.Float(f.sitesSeconds + seconds)})
}

func vallaMAP(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	return f.judge(ctx, nil, &vallaScores{Method: nameMAP, Precision: result.Undefined(), Scale: result.Undefined(), Fit: result.Undefined()})
}

// kfac returns the posterior with Kronecker factors, which are summed, and decomposed,
// at the first call.
func (f *vallaFit) kfac(ctx context.Context, delta float64) (predictor, error) {
	start, first := cpuSeconds(), f.factors == nil
	if first {
		var err error
		if f.factors, err = weightspace.SumFactors(ctx, f.source, f.sites, false, nil); err != nil {
			return nil, err
		}
	}
	prior, err := ntk.NewIsotropic(delta, nil)
	if err != nil {
		return nil, err
	}
	w, err := f.factors.Posterior(ctx, weightspace.KFAC, prior, f.net.Theta(), nil)
	if err != nil {
		return nil, err
	}
	if first {
		f.factorTime = cpuSeconds() - start
	}
	return of(w), nil
}

// vallaOurs is the posterior with Kronecker factors, and the precision and scale of the
// covariance under which the held-out rows are likeliest.
func vallaOurs(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	var err error
	if f.calibration, err = f.chosen(ctx, f.study.flat, true, func(delta float64) (predictor, error) { return f.kfac(ctx, delta) }); err != nil {
		return nil, err
	}
	f.calibrating = cpuSeconds() - start
	return f.fitted(ctx, nameOurs, f.calibration, f.calibrating)
}

// vallaCautious is that of vallaOurs with the largest scale that the held-out rows do not
// tell from the best one: the mean of the differences of their log densities is below its
// standard error. What is unlike the training rows has more to lose from a small scale.
func vallaCautious(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	c := *f.calibration
	mean, cov, err := f.moments(ctx, c.how, f.data.held.X)
	if err != nil {
		return nil, err
	}
	if c.scale, err = f.largest(ctx, c.scale, mean, cov, func(loss []float64) bool {
		m, se := MeanSE(loss)
		return m <= se
	}); err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameCautious, &c, f.calibrating+cpuSeconds()-start)
}

// vallaNoWorse has a nearly flat prior, of the smallest precision looked at, and the largest
// scale under which the held-out rows are as likely as under the network alone.
func vallaNoWorse(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	rows, c := f.data.held, &vallaChoice{delta: slices.Min(f.study.flat)}
	var err error
	if c.how, err = f.kfac(ctx, c.delta); err != nil {
		return nil, err
	}
	mean, cov, err := f.moments(ctx, c.how, rows.X)
	if err != nil {
		return nil, err
	}
	best, err := score.Calibrate(ctx, glm.Categorical{}, rows.Y, mean, cov, &score.CalibrateOptions{Link: vallaLink, KeepMean: true})
	if err != nil {
		return nil, err
	}
	// What each row gains over the network at the best scale may be spent.
	var scaled mat.Dense
	scaled.Scale(best.Scale, cov)
	gain := make([]float64, count(rows.X))
	alone := make([]float64, len(gain))
	if err := (predictive.MAP{}).LogPredictiveTo(alone, glm.Categorical{}, rows.Y, mean, nil); err != nil {
		return nil, err
	}
	if err := vallaLink.LogPredictiveTo(gain, glm.Categorical{}, rows.Y, mean, &scaled); err != nil {
		return nil, err
	}
	floats.Sub(gain, alone)
	allowed := stat.Mean(gain, nil)
	if c.scale, err = f.largest(ctx, best.Scale, mean, cov, func(loss []float64) bool { return stat.Mean(loss, nil) <= allowed }); err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameNoWorse, c, cpuSeconds()-start)
}

// largest returns the largest scale of the covariance of the held-out rows, from scale on
// in steps of an eighth of an octave, up to four octaves, for which allowed holds. It is
// asked about what each row loses in log density against the first scale.
func (f *vallaFit) largest(ctx context.Context, scale float64, mean, cov *mat.Dense, allowed func(loss []float64) bool) (float64, error) {
	const steps, perOctave = 32, 8.0
	rows := f.data.held
	scales := make([]float64, steps+1)
	for i := range scales {
		scales[i] = scale * math.Exp2(float64(i)/perOctave)
	}
	logp := mat.NewDense(count(rows.X), len(scales), nil)
	if err := vallaLink.LogPredictiveScalesTo(ctx, logp, scales, glm.Categorical{}, rows.Y, mean, cov); err != nil {
		return 0, err
	}
	loss := make([]float64, count(rows.X))
	for i := 1; i < len(scales); i++ {
		for r := range loss {
			loss[r] = logp.At(r, 0) - logp.At(r, i)
		}
		if !allowed(loss) {
			break
		}
		scale = scales[i]
	}
	return scale, nil
}

// vallaTwice is that of vallaOurs with twice the scale, to show what a scale trades.
func vallaTwice(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	c := *f.calibration
	c.scale *= 2
	return f.fitted(ctx, nameTwice, &c, f.calibrating)
}

// vallaKFAC is the posterior with Kronecker factors whose covariance is not scaled.
func vallaKFAC(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	shared := f.factorTime // summed by another method, but a part of this one
	start := cpuSeconds()
	c, err := f.chosen(ctx, f.study.deltas, false, func(delta float64) (predictor, error) { return f.kfac(ctx, delta) })
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameKFAC, c, shared+cpuSeconds()-start)
}

func vallaDiagonal(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, f.source, f.sites, prior, f.net.Theta(), nil)
	if err != nil {
		return nil, err
	}
	ggn := w.(*weightspace.DiagonalPosterior).GGN()
	c, err := f.chosen(ctx, f.study.deltas, false, func(delta float64) (predictor, error) {
		variance := make([]float64, len(ggn))
		for i, h := range ggn {
			variance[i] = 1 / (h + delta)
		}
		// The covariance is the kernel of a prior with these variances.
		prior, err := ntk.NewDiagonal(variance, nil)
		if err != nil {
			return nil, err
		}
		k := ntk.New(prior, f.net.Theta())
		return func(_ context.Context, cov *mat.Dense, x *linearize.Batch) error { k.DiagTo(cov, x); return nil }, nil
	})
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameDiagonal, c, cpuSeconds()-start)
}

func vallaLastLayer(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	c, err := f.chosen(ctx, f.study.last, false, func(delta float64) (predictor, error) {
		prior, err := ntk.NewIsotropic(delta, nil)
		if err != nil {
			return nil, err
		}
		w, err := weightspace.FitStructure(ctx, weightspace.LastLayer, f.source, f.sites, prior, f.net.Theta(), nil)
		if err != nil {
			return nil, err
		}
		return of(w), nil
	})
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameLastLayer, c, cpuSeconds()-start)
}

// vallaNystrom is the posterior of all rows through inducing examples, at a precision of 1,
// calibrated by the held-out rows. Leave-one-out at θ* would mislead: without weight decay
// θ* is a mode for no precision (E18).
func vallaNystrom(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	c, err := f.nystrom(ctx, 1)
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameNystrom, c, cpuSeconds()-start)
}

// nystrom returns the posterior through inducing examples with the scale that is best for it.
func (f *vallaFit) nystrom(ctx context.Context, delta float64) (*vallaChoice, error) {
	labels := make([]int, f.study.rows)
	for i := range labels {
		labels[i] = int(f.data.train.Y.At(i, 0))
	}
	return f.chosen(ctx, []float64{delta}, true, func(delta float64) (predictor, error) {
		prior, err := ntk.NewIsotropic(delta, nil)
		if err != nil {
			return nil, err
		}
		k := ntk.New(prior, f.net.Theta())
		z, err := sparse.Select(ctx, sparse.Stratified{Labels: labels}, k, f.source, f.study.inducing, nil)
		if err != nil {
			return nil, err
		}
		post, err := sparse.Fit(ctx, k, f.source, f.sites, z, nil)
		if err != nil {
			return nil, err
		}
		return of(post), nil
	})
}

// vallaMatch has the Kronecker factors of the refit at the match (E21), the precision at which the
// linearized model fits the training rows as the network does, and the scale that is best for them.
func vallaMatch(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	if err := f.settle(ctx); err != nil {
		return nil, err
	}
	c, err := f.chosen(ctx, []float64{f.match}, true, func(delta float64) (predictor, error) { return f.kfac(ctx, delta) })
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameMatch, c, cpuSeconds()-start)
}

// vallaMatchNystrom goes through inducing examples in place of Kronecker factors. Its seconds are
// without those of the search for the match.
func vallaMatchNystrom(ctx context.Context, f *vallaFit) (*vallaScores, error) {
	start := cpuSeconds()
	c, err := f.nystrom(ctx, f.match)
	if err != nil {
		return nil, err
	}
	return f.fitted(ctx, nameMatchZ, c, cpuSeconds()-start)
}

// settle finds the match, in multiples of a precision of 1, and makes the sites those of the refit there.
func (f *vallaFit) settle(ctx context.Context) error {
	products, err := f.net.Products(f.data.train.X)
	if err != nil {
		return err
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return err
	}
	y, theta := f.data.train.Y, f.net.Theta()
	m, err := mode.FindMatch(ctx, f.source, gp.NewTargets(y, glm.Categorical{}), prior, theta, &mode.Options{Products: products, Outputs: f.sites.F})
	if err != nil {
		return err
	}
	f.match = m.Factor
	if prior, err = ntk.NewIsotropic(f.match, nil); err != nil {
		return err
	}
	const gradient = 1e-4 // f̂ is within as many prior standard deviations of the mode (E19)
	mode, err := kept.FindMode(ctx, f.source, gp.NewTargets(y, glm.Categorical{}), prior, theta, gradient, &kept.Options{Products: products, Outputs: f.sites.F, Start: m.Theta})
	if err != nil {
		return err
	}
	f.sites, f.factors = mode.Sites, nil
	return nil
}
