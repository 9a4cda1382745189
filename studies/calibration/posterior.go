package calibration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// source gives some rows of a part, linearized as they are needed.
func source(net *network.Network, p part, rows []int) linearize.Source {
	_, d := p.x.Dims()
	const tile = 200
	return linearize.NewSource(net, len(rows), tile, func(lo, hi int) (*mat.Dense, error) {
		x := mat.NewDense(hi-lo, d, nil)
		for i, r := range rows[lo:hi] {
			x.SetRow(i, p.x.RawRowView(r))
		}
		return x, nil
	})
}

func upTo(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// A leftOuter is a posterior that predicts training rows without themselves.
type leftOuter interface {
	gp.Latent
	LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
}

// condition returns the posterior of a fit.
func (p *problem) condition(ctx context.Context, net *network.Network, f fit, path string, post *posterior) (leftOuter, error) {
	prior, err := ntk.NewIsotropic(f.delta, nil)
	if err != nil {
		return nil, err
	}
	k := ntk.New(prior, net.Theta())
	if f.inducing > 0 {
		return p.nystrom(ctx, net, k, prior, f, path, post)
	}
	x, err := net.Linearize(ctx, p.train.x)
	if err != nil {
		return nil, err
	}
	sites, err := gp.NewSites(gp.NewTargets(p.train.y, p.lik), x.F)
	if err != nil {
		return nil, err
	}
	post.GradientNorm = result.Float(gp.GradientNorm(x, sites, prior, net.Theta()))
	if f.kept > 0 {
		rows, err := gp.Keep(ctx, k, x, sites, &gp.KeepOptions{Most: f.kept})
		if err != nil {
			return nil, err
		}
		post.Kept, post.KeptTrace = rows.Len(), result.Float(rows.Trace/rows.Total)
		return gp.FitKept(ctx, k, x, sites, rows, nil)
	}
	var e *gp.Exact
	if f.refit {
		e, err = gp.Refit(ctx, k, x, gp.NewTargets(p.train.y, p.lik), nil)
	} else {
		e, err = gp.Fit(ctx, k, x, sites, nil)
	}
	if err != nil {
		return nil, err
	}
	post.warn(e.Warnings())
	return e, nil
}

func (p *problem) nystrom(ctx context.Context, net *network.Network, k ntk.Kernel, prior ntk.Prior, f fit, path string, post *posterior) (gp.Dual, error) {
	x := source(net, p.train, upTo(p.train.len()))
	if f.keep {
		s, err := loadPosterior(ctx, path, k, x, post)
		if s != nil || err != nil {
			return s, err
		}
	}
	sites, err := gp.SitesFrom(ctx, x, gp.NewTargets(p.train.y, p.lik))
	if err != nil {
		return nil, err
	}
	_, _, n := net.Dims()
	jr, one := make([]float64, n), make([]float64, n)
	err = x.Batches(ctx, func(first int, b *linearize.Batch) error {
		c := b.Outputs()
		b.MulTransVecTo(one, sites.Residual.RawMatrix().Data[first*c:(first+b.Len())*c])
		floats.Add(jr, one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	post.GradientNorm = result.Float(gp.GradientNormOf(jr, prior, net.Theta()))
	so := &sparse.Options{Limits: linearize.Limits{Progress: progress()}}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: labels(p.train.y)}, k, x, f.inducing, so)
	if err != nil {
		return nil, err
	}
	var s *sparse.Posterior
	if f.refit {
		s, err = sparse.Refit(ctx, k, x, gp.NewTargets(p.train.y, p.lik), z, so)
	} else {
		s, err = sparse.Fit(ctx, k, x, sites, z, so)
	}
	if err != nil {
		return nil, err
	}
	post.warn(s.Warnings())
	if f.keep {
		err = store.Write(path, posteriorKind, 1, s.Save)
	}
	return s, err
}

const posteriorKind = "sparse posterior"

// loadPosterior returns the posterior that an earlier run kept, or nil. Its file
// stays open.
func loadPosterior(ctx context.Context, path string, k ntk.Kernel, x linearize.Source, post *posterior) (*sparse.Posterior, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, nil
	}
	file, err := store.Open(path, posteriorKind, 1)
	if err != nil {
		return nil, err
	}
	post.GradientNorm = result.Undefined()
	post.Warnings = append(post.Warnings, "the posterior was read from the cache: its fit is not timed, and the gradient norm is not computed again")
	return sparse.Load(ctx, file, k, x, nil, nil)
}

// progress writes a line now and then.
func progress() func(stage string, done, total int) {
	from, last := time.Now(), time.Now()
	return func(stage string, done, total int) {
		if time.Since(last) > 20*time.Second {
			last = time.Now()
			fmt.Fprintf(os.Stderr, "  %s %d of %d, %.0f s\n", stage, done, total, time.Since(from).Seconds())
		}
	}
}

func (p *posterior) warn(warnings []error) {
	for _, w := range warnings {
		p.Warnings = append(p.Warnings, w.Error())
	}
}

// predict returns the moments of a posterior at the rows of a part.
func predict(ctx context.Context, post gp.Latent, net *network.Network, x *mat.Dense) (mean, cov *mat.Dense, err error) {
	n, d := x.Dims()
	_, c, _ := net.Dims()
	mean, cov = mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	const rows = 200
	for lo := 0; lo < n; lo += rows {
		hi := min(lo+rows, n)
		b, err := net.Linearize(ctx, x.Slice(lo, hi, 0, d).(*mat.Dense))
		if err != nil {
			return nil, nil, err
		}
		if err := post.PredictTo(ctx, mean.Slice(lo, hi, 0, c).(*mat.Dense), cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense), b); err != nil {
			return nil, nil, err
		}
	}
	return mean, cov, nil
}

// mostKept is the most rows by which leave-one-out means are found where inducing
// examples leave out more than looseTrace of the prior variance, as gpexplain does.
const (
	mostKept   = 7000
	looseTrace = .01
)

// leaveOneOut returns the moments at training rows without the row itself.
func (p *problem) leaveOneOut(ctx context.Context, dual leftOuter, net *network.Network, delta float64, rows []int) (mean, cov *mat.Dense, err error) {
	_, c, _ := net.Dims()
	leave := dual.LeaveOneOutTo
	s, ok := dual.(interface {
		gp.Dual
		Refitted() bool
		TraceError() float64
		LeaveOneOutBy(ctx context.Context, kept *gp.Thinned, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
	})
	if ok && !s.Refitted() && s.TraceError() > looseTrace {
		prior, err := ntk.NewIsotropic(delta, nil)
		if err != nil {
			return nil, nil, err
		}
		k := ntk.New(prior, net.Theta())
		keep, err := gp.Keep(ctx, k, s.Data(), s.Sites(), &gp.KeepOptions{Most: mostKept})
		if err != nil {
			return nil, nil, err
		}
		kept, err := gp.FitKept(ctx, k, s.Data(), s.Sites(), keep, nil)
		if err != nil {
			return nil, nil, err
		}
		leave = func(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
			return s.LeaveOneOutBy(ctx, kept, mean, cov, rows, x)
		}
	}
	mean, cov = mat.NewDense(len(rows), c, nil), mat.NewDense(len(rows)*c, c, nil)
	_, exact := dual.(*gp.Exact)
	chunk := 200
	if exact {
		chunk = len(rows)
	}
	for lo := 0; lo < len(rows); lo += chunk {
		hi := min(lo+chunk, len(rows))
		b, err := net.Linearize(ctx, part{p.train.x, p.train.y}.rows(rows[lo:hi]))
		if err != nil {
			return nil, nil, err
		}
		if err := leave(ctx, mean.Slice(lo, hi, 0, c).(*mat.Dense), cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense), rows[lo:hi], b); err != nil {
			return nil, nil, err
		}
	}
	return mean, cov, nil
}

// rows returns the inputs of some rows.
func (p part) rows(rows []int) *mat.Dense {
	_, d := p.x.Dims()
	x := mat.NewDense(len(rows), d, nil)
	for i, r := range rows {
		x.SetRow(i, p.x.RawRowView(r))
	}
	return x
}

// targetsOf returns the targets of some rows.
func (p part) targetsOf(rows []int) *mat.Dense {
	_, d := p.y.Dims()
	y := mat.NewDense(len(rows), d, nil)
	for i, r := range rows {
		y.SetRow(i, p.y.RawRowView(r))
	}
	return y
}

// sampled returns n of the training rows without replacement, ascending; 0 is all.
func (p *problem) sampled(n int) []int {
	rows := upTo(p.train.len())
	if n == 0 || n >= len(rows) {
		return rows
	}
	rand.New(rand.NewPCG(0, 2)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:n]
	slices.Sort(rows)
	return rows
}

// judge fits one posterior, calibrates it by leave-one-out and judges it on the
// test rows. alone is the score of the network.
func (p *problem) judge(ctx context.Context, net *network.Network, f fit, path string, alone *score.Score) (*posterior, error) {
	post := &posterior{Name: f.name, Precision: result.Float(f.delta), Refit: f.refit, Inducing: f.inducing}
	from := time.Now()
	lap := func() result.Float {
		s := time.Since(from).Seconds()
		from = time.Now()
		return result.Float(s)
	}
	dual, err := p.condition(ctx, net, f, path, post)
	if err != nil {
		return nil, err
	}
	post.FitSeconds = lap()
	rows := p.sampled(f.sample)
	mean, cov, err := p.leaveOneOut(ctx, dual, net, f.delta, rows)
	if err != nil {
		return nil, err
	}
	post.LOOSeconds = lap()
	y := p.train.targetsOf(rows)
	c, err := score.Calibrate(ctx, p.lik, y, mean, cov, &score.CalibrateOptions{Link: p.link(), Spread: math.Inf(1), KeepMean: true})
	if err != nil {
		return nil, err
	}
	post.ScaleTime = lap()
	if err := post.calibrated(ctx, p, c, y, mean, cov); err != nil {
		return nil, err
	}
	testMean, testCov, err := predict(ctx, dual, net, p.test.x)
	if err != nil {
		return nil, err
	}
	if err := post.onTest(ctx, p, c, testMean, testCov, alone); err != nil {
		return nil, err
	}
	if _, outputs := mean.Dims(); outputs <= 2 {
		if post.Curve, err = p.curve(ctx, c, y, mean, cov, testMean, testCov); err != nil {
			return nil, err
		}
	}
	if err := post.novelty(ctx, p, dual, net, c, testMean, testCov); err != nil {
		return nil, err
	}
	if p.valid.len() > 0 {
		err = post.byHeldOut(ctx, p, dual, net, testMean, testCov)
	}
	return post, err
}

// calibrated notes the calibration and the scores by leave-one-out.
func (post *posterior) calibrated(ctx context.Context, p *problem, c *score.Calibration, y, mean, cov *mat.Dense) error {
	post.Scale, post.NoiseScale, post.Edge, post.LOORows, post.LeftOut, post.LOOBy =
		result.Float(c.Scale), result.Float(c.NoiseScale), c.Edge, c.Rows, c.LeftOut, result.Float(c.Unscaled)
	post.warn(c.Warnings)
	lik, tempered, scaled, err := c.Apply(p.lik, mean, cov)
	if err != nil {
		return err
	}
	s, err := score.ScoreOf(p.link(), lik, y, tempered, scaled)
	if err != nil {
		return err
	}
	post.LOO = scoreOf(s)
	if s, err = score.ScoreOf(p.link(), p.lik, y, mean, nil); err != nil {
		return err
	}
	post.LOONetwork = scoreOf(s)
	return nil
}

// onTest judges the test rows: unscaled, calibrated, and at the scale that is best
// for them.
func (post *posterior) onTest(ctx context.Context, p *problem, c *score.Calibration, mean, cov *mat.Dense, alone *score.Score) error {
	s, err := score.ScoreOf(p.link(), p.lik, p.test.y, mean, cov)
	if err != nil {
		return err
	}
	post.Unscaled = scoreOf(s)
	if s, err = score.ScoreOf(p.link(), p.lik, p.test.y, mean, nil); err != nil {
		return err
	}
	post.Plain = scoreOf(s)
	lik, tempered, scaled, err := c.Apply(p.lik, mean, cov)
	if err != nil {
		return err
	}
	if s, err = score.ScoreOf(p.link(), lik, p.test.y, tempered, scaled); err != nil {
		return err
	}
	post.Calibrated = scoreOf(s)
	gain := make([]float64, len(s.LogDensity))
	for i, v := range s.LogDensity {
		gain[i] = v - alone.LogDensity[i]
	}
	m, se := moments(gain)
	post.Gain, post.GainSE = result.Float(m), result.Float(se)
	n := p.test.len()
	if p.link() != nil {
		n = min(n, bestRows)
	}
	_, outputs := mean.Dims()
	firstMean, firstCov := mean.Slice(0, n, 0, outputs).(*mat.Dense), cov.Slice(0, n*outputs, 0, outputs).(*mat.Dense)
	best, err := score.Calibrate(ctx, p.lik, p.test.head(n).y, firstMean, firstCov, &score.CalibrateOptions{Link: p.link(), Spread: math.Inf(1), KeepMean: true})
	if err != nil {
		return err
	}
	post.BestScale, post.BestNoiseScale, post.BestNLL = result.Float(best.Scale), result.Float(best.NoiseScale), result.Float(best.NLL)
	// The regret is that of the rows which the best scale was found on.
	here, _ := moments(s.LogDensity[:n])
	post.Regret = result.Float(-here) - post.BestNLL
	post.Gap = max(post.LOO.NLL-post.Calibrated.NLL, post.Calibrated.NLL-post.LOO.NLL)
	return nil
}

// byHeldOut notes what the scale of the held-out rows gives on the test rows.
func (post *posterior) byHeldOut(ctx context.Context, p *problem, dual gp.Latent, net *network.Network, mean, cov *mat.Dense) error {
	m, v, err := predict(ctx, dual, net, p.valid.x)
	if err != nil {
		return err
	}
	c, err := score.Calibrate(ctx, p.lik, p.valid.y, m, v, &score.CalibrateOptions{Link: p.link(), Spread: math.Inf(1), KeepMean: true})
	if err != nil {
		return err
	}
	lik, tempered, scaled, err := c.Apply(p.lik, mean, cov)
	if err != nil {
		return err
	}
	s, err := score.ScoreOf(p.link(), lik, p.test.y, tempered, scaled)
	if err != nil {
		return err
	}
	post.HeldOut = &heldOut{result.Float(c.Scale), result.Float(c.NoiseScale), result.Float(s.NLL)}
	return nil
}
