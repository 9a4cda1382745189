package autoencoder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Rule says how Train updates the precision H of the posterior in a step. H_batch is the diagonal of Σ JᵀJ/σ²
// over a minibatch of B of the N training rows. H starts as the precision δ of the prior, and δ·mᵗ of it is left after
// t steps.
type Rule int

const (
	// Released is H ← m·H + ½·(N/B)·H_batch with J at the drawn parameters, as in the code released with [lae]. H
	// tends to 1/(2(1−m)) times the diagonal over all training rows: 5,000 times for m = .9999.
	Released Rule = iota
	// Published is H ← m·H + H_batch with m = 1−α [lae eq. 53] and J at the mean parameters θ. H tends to
	// B/((1−m)·N) times the diagonal over all training rows: 12 times for m = .9999, B = 64 and N = 55,000.
	Published
)

var ruleNames = []string{"released", "published"}

// String returns the name, as ParseRule reads it.
func (r Rule) String() string { return ruleNames[r] }

// ParseRule returns the rule with the given name: released or published.
func ParseRule(name string) (Rule, error) {
	if i := slices.Index(ruleNames, name); i >= 0 {
		return Rule(i), nil
	}
	return 0, fmt.Errorf("autoencoder: there is no rule %q; take released or published", name)
}

// RuleNames returns the names of all rules.
func RuleNames() []string { return slices.Clone(ruleNames) }

// TrainOptions are options of Train. A zero field has its default. The defaults of Memory, Batch and Patience are those
// in the text of [lae]. The code released with it has .999, 50 and 5, starts H at N, and adds the prior to it.
type TrainOptions struct {
	Rule      Rule
	Curvature Curvature // how the GGN is computed; the default is Approximate

	// Prior is the precision δ of the prior, at which H starts; 0 means 1. The Rule forgets it as it forgets the
	// minibatches, and it does not pull θ towards 0. A large δ keeps the first draws near θ, so the error falls in
	// fewer steps. Until it is forgotten, it also keeps small the variance of parameters that no row determines: with
	// δ = N in place of 1, after 780 steps on 10,000 digits the error is .049 in place of .056, and the AUROC of
	// letters against digits is .44 in place of .9985.
	Prior float64
	// Noise is the variance σ² of a pixel; 0 means 1.
	Noise float64
	// Memory is m in the Rule; 0 means .9999.
	Memory float64
	// Samples is the number of parameter draws in a step. The gradient and H_batch are averages over them. 0 means
	// 1.
	Samples int
	// Ascent makes steps along the gradient of the minibatch's log likelihood, a sum over its rows [lae eq. 52], in
	// place of Adam's steps.
	Ascent bool
	// LearningRate is the size of the first steps; 0 means 1e-3. It is halved each time that the validation error
	// has not fallen for half of Patience epochs. The half is a choice of this package.
	LearningRate float64
	Batch        int    // rows in a minibatch; 0 means 64, or N where N is smaller
	Epochs       int    // most epochs, each without the rows that do not fill a minibatch; 0 means 100
	Seed         uint64 // seed of the order of the rows and of the draws

	// Validation has rows to validate on. After each epoch, one drawn network reconstructs them. Train returns θ
	// and H of the epoch with the smallest error, or of the last epoch where Validation is nil.
	Validation *mat.Dense
	// Patience is the number of epochs without a smaller validation error after which the training ends; 0 means 8.
	Patience int

	// Progress, if not nil, is called after each step.
	Progress func(done, total int)
	// Epoch, if not nil, is called after each epoch.
	Epoch func(e Epoch)
	// Checkpoint, if not nil, is called with the state after each epoch, and when ctx is done. It must not keep or
	// change the state.
	Checkpoint func(s *State) error
	// Resume, if not nil, is a state of the same training. Train goes on from it, to the same result.
	Resume *State

	atSample bool // take J for H_batch at the drawn parameters under every rule
}

// An Epoch reports one pass over the training rows. Errors are squared errors of reconstructions by drawn networks,
// averaged over pixels.
type Epoch struct {
	Train      float64 `json:"train"`      // during the epoch
	Validation float64 `json:"validation"` // after the epoch; NaN without validation rows
}

const (
	beta1, beta2 = 0.9, 0.999 // decays of Adam's moments
	adamEpsilon  = 1e-8
	leastPrior   = 1e-100 // precision of a parameter that no row needs, below which Train stops
)

func (o *TrainOptions) withDefaults(n int) (TrainOptions, error) {
	var d TrainOptions
	if o != nil {
		d = *o
	}
	d.Prior, d.Noise, d.Memory, d.LearningRate = cmp.Or(d.Prior, 1), cmp.Or(d.Noise, 1), cmp.Or(d.Memory, 0.9999), cmp.Or(d.LearningRate, 1e-3)
	d.Samples, d.Batch, d.Epochs, d.Patience = cmp.Or(d.Samples, 1), min(cmp.Or(d.Batch, 64), n), cmp.Or(d.Epochs, 100), cmp.Or(d.Patience, 8)
	if d.Rule != Released && d.Rule != Published || d.Curvature < Approximate || d.Curvature > Mixed {
		panic("autoencoder: unknown rule or curvature")
	}
	for _, v := range []float64{d.Prior, d.Noise, d.Memory, d.LearningRate} {
		if !(v > 0) || math.IsInf(v, 0) {
			return d, fmt.Errorf("autoencoder: prior precision %v, noise variance %v, memory %v and learning rate %v must be positive numbers", d.Prior, d.Noise, d.Memory, d.LearningRate)
		}
	}
	if d.Memory >= 1 || d.Samples < 0 || d.Batch < 0 || d.Epochs < 0 || d.Patience < 0 {
		return d, fmt.Errorf("autoencoder: memory %v must be below 1, and %d samples, a batch of %d, %d epochs and a patience of %d must be positive", d.Memory, d.Samples, d.Batch, d.Epochs, d.Patience)
	}
	return d, nil
}

// A TrainResult reports how Train ended.
type TrainResult struct {
	Epochs []Epoch
	Best   int // the epoch whose θ and H were returned, from 1
	Steps  int
}

// Train trains an autoencoder under its posterior. Each step draws parameters from N(θ, H⁻¹), moves θ by the gradient
// at the drawn parameters, and updates H by the Rule. Train returns the final posterior N(θ, H⁻¹), whose Prior is
// what the Rule left of δ. x is N×D with numbers from 0 to 1.
//
// The result does not depend on the number of processors, nor on interruptions that are resumed. If ctx is done,
// Train calls Checkpoint and returns ctx.Err().
func Train(ctx context.Context, a *Autoencoder, x *mat.Dense, o *TrainOptions) (*Posterior, *TrainResult, error) {
	if x.IsEmpty() {
		return nil, nil, errors.New("autoencoder: no rows to train on")
	}
	if err := a.Check(x); err != nil {
		return nil, nil, err
	}
	opt, err := o.withDefaults(dense.Count(x))
	if err != nil {
		return nil, nil, err
	}
	if opt.Validation != nil {
		if err := a.Check(opt.Validation); err != nil {
			return nil, nil, fmt.Errorf("the validation rows: %w", err)
		}
	}
	t, err := newTraining(a, x, opt)
	if err != nil {
		return nil, nil, err
	}
	if err := t.run(ctx); err != nil {
		return nil, nil, err
	}
	theta, h, steps := t.s.Theta, t.s.GGN, t.s.Step
	r := &TrainResult{Epochs: t.s.Epochs, Best: len(t.s.Epochs), Steps: steps}
	if opt.Validation != nil {
		theta, h, steps, r.Best = t.s.BestTheta, t.s.BestGGN, t.s.Best*t.perEpoch(), t.s.Best
	}
	moved, err := a.WithTheta(theta)
	if err != nil {
		return nil, nil, err
	}
	return NewPosterior(moved, h, opt.prior(steps), opt.Noise), r, nil
}

// A training is the state and the scratch memory of one call of Train.
type training struct {
	o        TrainOptions
	x, batch *mat.Dense
	n        int     // training rows
	rate     float64 // learning rate in this epoch
	d        *network.Derivatives
	s        *State

	drawn, noise, grad, ggn, meanGrad, meanGGN []float64
}

func newTraining(a *Autoencoder, x *mat.Dense, o TrainOptions) (*training, error) {
	_, d := x.Dims()
	_, _, p := a.net.Dims()
	t := &training{o: o, x: x, n: dense.Count(x), batch: mat.NewDense(o.Batch, d, nil), d: a.net.NewDerivatives(o.Curvature.backpropagation())}
	t.drawn, t.noise, t.grad, t.ggn = make([]float64, p), make([]float64, p), make([]float64, p), make([]float64, p)
	if o.Samples > 1 {
		t.meanGrad, t.meanGGN = make([]float64, p), make([]float64, p)
	}
	identity := identify(a, x, &o)
	if o.Resume != nil {
		// Refuse a state of another training with a *ResumeError.
		s := o.Resume
		switch {
		case s.Identity.Network != identity.Network:
			return nil, &ResumeError{"its network or its first parameters"}
		case s.Identity.Rows != identity.Rows:
			return nil, &ResumeError{"its rows"}
		case s.Identity.Options != identity.Options:
			return nil, &ResumeError{fmt.Sprintf("its options (%s, here %s)", s.Identity.Options, identity.Options)}
		}
		t.s = o.Resume.clone()
		return t, nil
	}
	t.s = &State{Identity: identity, Theta: a.net.Theta(), GGN: make([]float64, p)}
	if !o.Ascent {
		t.s.Moment1, t.s.Moment2 = make([]float64, p), make([]float64, p)
	}
	return t, nil
}

// prior returns what the Rule has left of the precision of the prior after some steps.
func (o *TrainOptions) prior(steps int) float64 { return o.Prior * math.Pow(o.Memory, float64(steps)) }

// rate returns the learning rate after some epochs: halved each time that the validation error had not fallen for
// half of Patience epochs.
func (o *TrainOptions) rate(epochs []Epoch) float64 {
	rate, best := o.LearningRate, 0
	for i, e := range epochs {
		if e.Validation < epochs[best].Validation {
			best = i
		} else if i > best && (i-best)%max(o.Patience/2, 1) == 0 {
			rate /= 2
		}
	}
	return rate
}

// perEpoch returns the number of steps in an epoch.
func (t *training) perEpoch() int { return t.n / t.o.Batch }

// run runs the remaining epochs. The order of the rows in an epoch depends only on the seed and the epoch's number.
func (t *training) run(ctx context.Context) error {
	s, epoch, order := t.s, -1, []int(nil)
	for {
		done := len(s.Epochs)
		if s.Step == (done+1)*t.perEpoch() {
			if err := t.endEpoch(ctx); err != nil {
				return t.stopped(ctx, err)
			}
			if t.o.Checkpoint != nil {
				if err := t.o.Checkpoint(s); err != nil {
					return err
				}
			}
			continue
		}
		if done >= t.o.Epochs || t.o.Validation != nil && done > 0 && done-s.Best >= t.o.Patience {
			return nil
		}
		if e := s.Step / t.perEpoch(); e != epoch {
			epoch, order = e, stream(t.o.Seed, orderNoise, uint64(e), 0).Perm(t.n)
			if t.rate = t.o.LearningRate; t.o.Validation != nil {
				t.rate = t.o.rate(s.Epochs)
			}
		}
		if t.o.prior(s.Step) < leastPrior {
			return fmt.Errorf("autoencoder: after %d steps nothing is left of the prior, so that a parameter that no row needs has no precision; take a memory nearer to 1 than %v", s.Step, t.o.Memory)
		}
		first := s.Step % t.perEpoch() * t.o.Batch
		for i, row := range order[first : first+t.o.Batch] {
			t.batch.SetRow(i, t.x.RawRowView(row))
		}
		loss, err := t.step(ctx, t.batch, func(sample int) noise {
			return normals(t.o.Seed, trainNoise, uint64(s.Step*t.o.Samples+sample))
		})
		if err != nil {
			return t.stopped(ctx, fmt.Errorf("autoencoder: step %d: %w", s.Step+1, err))
		}
		s.Loss += loss
		s.Step++
		if t.o.Progress != nil {
			t.o.Progress(s.Step, t.o.Epochs*t.perEpoch())
		}
	}
}

// stopped returns the error that ends the training. It calls Checkpoint first where ctx is done.
func (t *training) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && t.o.Checkpoint != nil {
		if e := t.o.Checkpoint(t.s); e != nil {
			return e
		}
	}
	return err
}

// step updates θ and H by one minibatch, and returns the mean squared error of a pixel.
func (t *training) step(ctx context.Context, x *mat.Dense, draw func(sample int) noise) (float64, error) {
	total := 0.0
	clear(t.meanGrad)
	clear(t.meanGGN)
	for k := range t.o.Samples {
		t.draw(draw(k))
		value, err := t.derivatives(ctx, x)
		if err != nil {
			return 0, err
		}
		total += value
		if t.o.Samples > 1 {
			dense.Axpy(t.meanGrad, 1/float64(t.o.Samples), t.grad)
			dense.Axpy(t.meanGGN, 1/float64(t.o.Samples), t.ggn)
		}
	}
	grad, ggn := t.grad, t.ggn
	if t.o.Samples > 1 {
		grad, ggn = t.meanGrad, t.meanGGN
	}
	t.move(grad, ggn, dense.Count(x))
	rows, d := x.Dims()
	return -2 * total / float64(t.o.Samples*rows*d), nil
}

// draw draws parameters from N(θ, H⁻¹) into t.drawn.
func (t *training) draw(eps noise) {
	drawTo(t.drawn, t.noise, t.s.Theta, t.s.GGN, t.o.prior(t.s.Step), eps)
}

// drawTo writes θ + ε/√(H+δ) to dst, with ε from eps, which it leaves in scratch.
func drawTo(dst, scratch, theta, h []float64, prior float64, eps noise) {
	blocks(len(theta), func(lo, hi int) {
		e := scratch[lo:hi]
		eps(e, lo)
		for i, v := range e {
			dst[lo+i] = theta[lo+i] + v/math.Sqrt(h[lo+i]+prior)
		}
	})
}

// derivatives computes the gradient at the drawn parameters, and H_batch at the drawn parameters or at θ, as the
// rule says. It returns the loss at the drawn parameters.
func (t *training) derivatives(ctx context.Context, x *mat.Dense) (float64, error) {
	if t.o.Rule == Released || t.o.atSample {
		return t.d.At(ctx, t.grad, t.ggn, t.drawn, x, x, squares{})
	}
	if _, err := t.d.At(ctx, nil, t.ggn, t.s.Theta, x, x, squares{}); err != nil {
		return 0, err
	}
	return t.d.At(ctx, t.grad, nil, t.drawn, x, x, squares{})
}

// move moves θ along the gradient and updates H by the rule.
func (t *training) move(grad, ggn []float64, rows int) {
	s, o := t.s, &t.o
	weight := 1 / o.Noise // factor of the minibatch's curvature
	if o.Rule == Released {
		weight *= 0.5 * float64(t.n) / float64(rows)
	}
	_, d := t.x.Dims()
	perPixel := 1 / float64(rows*d)
	step := float64(s.Step + 1)
	c1, c2 := 1-math.Pow(beta1, step), 1-math.Pow(beta2, step)
	blocks(len(grad), func(lo, hi int) {
		theta, h, g := s.Theta[lo:hi], s.GGN[lo:hi], grad[lo:hi]
		if o.Ascent {
			dense.Axpy(theta, t.rate/o.Noise, g)
		} else {
			// Adam's loss is half the mean squared error of a pixel; grad is the gradient of −½‖x − f‖².
			m, v := s.Moment1[lo:hi], s.Moment2[lo:hi]
			for i, gi := range g {
				gi *= -perPixel
				m[i] = beta1*m[i] + (1-beta1)*gi
				v[i] = beta2*v[i] + (1-beta2)*gi*gi
				theta[i] -= t.rate * (m[i] / c1) / (math.Sqrt(v[i]/c2) + adamEpsilon)
			}
		}
		for i, q := range ggn[lo:hi] {
			h[i] = o.Memory*h[i] + weight*q
		}
	})
}

// endEpoch scores the validation rows and keeps the best epoch.
func (t *training) endEpoch(ctx context.Context) error {
	s := t.s
	e := Epoch{Train: s.Loss / float64(t.perEpoch()), Validation: math.NaN()}
	if v := t.o.Validation; v != nil {
		t.draw(normals(t.o.Seed, validationNoise, uint64(len(s.Epochs))))
		total, err := t.d.At(ctx, nil, nil, t.drawn, v, v, squares{})
		if err != nil {
			return fmt.Errorf("autoencoder: the validation rows: %w", err)
		}
		rows, d := v.Dims()
		e.Validation = -2 * total / float64(rows*d)
		if s.Best == 0 || e.Validation < s.Epochs[s.Best-1].Validation {
			s.Best = len(s.Epochs) + 1
			s.BestTheta, s.BestGGN = slices.Clone(s.Theta), slices.Clone(s.GGN)
		}
	}
	s.Epochs = append(s.Epochs, e)
	s.Loss = 0
	if t.o.Epoch != nil {
		t.o.Epoch(e)
	}
	return nil
}
