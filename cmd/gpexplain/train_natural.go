package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// naturalNames are the optimizers that update a Gaussian over the parameters by natural gradients (E27), in the order of
// variational.Algorithm.
var naturalNames = []string{"voggn", "lgva", "oggn"}

// The defaults that differ from Adam's. With the rate γ = 0.1 the Gaussian forgets its start at 0.9 an update, and 200 updates
// leave 0.9²⁰⁰ = 7e-10 of it.
const (
	naturalRate    = 0.1
	naturalUpdates = 200
)

// tooFar bounds the objective after an epoch, in units of the objective at the start and one nat an example. Updates whose
// objective is larger lead away without becoming NaN: every run that passed it went on to 1e30 and more.
const tooFar = 10

// natural tells whether --optimizer is one of naturalNames.
func (s *trainVerb) natural() bool { return slices.Contains(naturalNames, s.optimizer) }

// checkNatural sets the defaults of natural gradients, and refuses what is not for them.
func (s *trainVerb) checkNatural(f *pflag.FlagSet) error {
	if !s.natural() {
		return nil
	}
	if !f.Changed("lr") {
		s.o.LearningRate = naturalRate
	}
	if s.o.LearningRate > 1 {
		return job.Usagef("{lr=%v} of {optimizer=%s} must be at most 1", s.o.LearningRate, s.optimizer)
	}
	if !f.Changed("epochs") && s.o.Steps == 0 {
		s.o.Steps = naturalUpdates
	}
	if coder.IsArch(s.archName) {
		return job.Usagef("{optimizer=%s} is not for {arch=%s}; choose {optimizer=adam} or {optimizer=sgd}", s.optimizer, s.archName)
	}
	return nil
}

// naturalGradients returns the network with the mean of the Gaussian after the updates from net on, and how they went. With
// held-out rows it is the mean after the epoch in which their negative log likelihood is smallest.
func (s *trainVerb) naturalGradients(ctx context.Context, c *console.Console, set *funcgp.TrainingSet, net *network.Network, held *funcgp.Rows) (*network.Network, *train.Result, error) {
	delta := float64(set.Info().PriorPrecision)
	prior, err := ntk.NewIsotropic(delta, nil)
	if err != nil {
		return nil, nil, err
	}
	x, y, err := set.Targets(ctx, set.TrainingRows())
	if err != nil {
		return nil, nil, err
	}
	var heldX *mat.Dense
	var heldY *gp.Targets
	if held != nil {
		if heldX, heldY, err = set.Targets(ctx, held); err != nil {
			return nil, nil, err
		}
	}
	logLik := func(net *network.Network, x *mat.Dense, y *gp.Targets) (float64, error) {
		f, err := net.Forward(ctx, x)
		if err != nil {
			return 0, err
		}
		return y.LogLik(f.RawMatrix().Data), nil
	}
	// objective is −Σ log p(y|f) + ½δθᵀθ.
	objective := func(net *network.Network) (float64, error) {
		sum, err := logLik(net, x, y)
		value := -sum
		for _, v := range net.Theta() {
			value += 0.5 * delta * v * v
		}
		return value, err
	}
	_, data := set.Names()
	before, err := objective(net)
	if err != nil {
		return nil, nil, err
	}
	perEpoch := y.Len() / min(s.o.Batch, y.Len())
	v := variational.NewNatural(variational.Algorithm(slices.Index(naturalNames, s.optimizer)), net, prior, s.o.LearningRate)
	v.Draws, v.Batch, v.Seed, v.Memory = s.draws, s.o.Batch, s.common.Fit.Seed, s.common.Fit.Memory
	if v.Steps = s.o.Steps; v.Steps == 0 {
		v.Steps = s.o.Epochs * perEpoch
	}
	res := &train.Result{}
	if v.Steps == 0 {
		return net, res, nil
	}
	q, err := v.Start(ctx, net.Theta(), x, y)
	if err != nil {
		return nil, nil, s.diverged(data, 0, err)
	}
	best, bestNLL := net, math.Inf(1)
	for q, err := range v.Updates(ctx, q, x, y) {
		if err != nil {
			return nil, nil, s.diverged(data, res.Steps+1, err)
		}
		res.Steps++
		c.Show(s.optimizer, res.Steps, v.Steps)
		if res.Steps%perEpoch != 0 && res.Steps < v.Steps {
			continue
		}
		res.Epochs++
		at, err := net.WithTheta(q.Center())
		if err != nil {
			return nil, nil, err
		}
		value, err := objective(at)
		if err != nil {
			return nil, nil, err
		}
		c.Detail("%s %d of %d: objective %.6g", s.optimizer, res.Steps, v.Steps, value)
		if !(value < tooFar*(math.Abs(before)+float64(y.Len()))) {
			err := &variational.DivergedError{Err: option.Errorf("the objective is %.3g, and was %.3g before the first", value, before)}
			return nil, nil, s.diverged(data, res.Steps, err)
		}
		if held == nil {
			best = at
			continue
		}
		value, err = logLik(at, heldX, heldY)
		if err != nil {
			return nil, nil, err
		}
		if nll := -value / float64(heldY.Len()); nll < bestNLL {
			best, bestNLL = at, nll
			res.BestEpoch, res.ValidationNLL = res.Epochs, nll
		}
		if res.Epochs-res.BestEpoch >= s.patience {
			break
		}
	}
	return best, res, nil
}

// diverged words the error of an update, which is numbered from 1, or of the start, by flags. It does so for one that diverged
// and for Gaussians that do not fit into memory.
func (s *trainVerb) diverged(data string, update int, err error) error {
	if e, ok := errors.AsType[*gp.MemoryError](err); ok {
		return option.Errorf("{optimizer=%s}: %s takes %s of memory, of which %s may be used, and at most %s parameters fit; choose {optimizer=adam} or a smaller network, or raise {max-memory}",
			s.optimizer, e.Op, job.SizeText(e.Needed), job.SizeText(e.Available), job.Count(e.Largest))
	}
	e, ok := errors.AsType[*variational.DivergedError](err)
	if !ok {
		return err
	}
	remedy := "a smaller {lr} or a larger {prior-precision}"
	if s.optimizer != "oggn" {
		remedy = "a smaller {lr}, more {draws} or a larger {prior-precision}"
	}
	return option.Errorf("training on %s: update %d of {optimizer=%s} diverged: %w; try %v", data, update, s.optimizer, e.Err, option.Text(remedy))
}
