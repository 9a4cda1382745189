package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

var optimizerNames = append([]string{"adam", "sgd"}, naturalNames...)

var scheduleNames = []string{"cosine", "constant", "step", "plateau"}

// addDescent defines the flags of the optimization over minibatches.
func (s *trainVerb) addDescent(f *pflag.FlagSet) {
	f.StringVar(&s.optimizer, "optimizer", "adam", "`NAME` of what moves the parameters on minibatches: adam, sgd, whose steps are of the mean loss of an example, or voggn, lgva or oggn, which update a Gaussian over the parameters")
	f.Float64Var(&s.momentum, "momentum", 0.9, "momentum `X` of --optimizer sgd; 0 for none")
	f.IntVar(&s.draws, "draws", 1, "`N` draws of the parameters in each update of voggn and lgva")
	f.IntVar(&s.o.Epochs, "epochs", 30, "`N` passes over the data in minibatches; 0 for none")
	f.IntVar(&s.o.Steps, "steps", 0, "`N` steps on minibatches, in place of --epochs; 0 for 200 with voggn, lgva and oggn where no --epochs are given")
	f.IntVar(&s.o.Batch, "batch", 256, "`N` examples a minibatch; those of an epoch that fill none are left out")
	f.Float64Var(&s.o.LearningRate, "lr", 3e-3, "first step size `X`; with voggn, lgva and oggn the rate γ, at most 1, which is 0.1 unless it is given")
	f.StringVar(&s.schedule, "schedule", "cosine", "`NAME` of how the step size changes: cosine (to 1 %), constant, step (times --schedule-factor every --schedule-epochs) or plateau (after more than --schedule-epochs without a better loss, of the validation rows with --early-stopping)")
	f.IntVar(&s.scheduleEpochs, "schedule-epochs", 0, "`N` epochs of --schedule; 0 for 30 with step, 5 with plateau")
	f.Float64Var(&s.scheduleBy, "schedule-factor", 0, "factor `X` of --schedule; 0 for 0.1 with step, 0.5 with plateau")
	f.IntVar(&s.patience, "early-stopping", 0, "stop after `N` epochs without a better NLL of the validation rows, and keep the best epoch's network; 0 for never")
	f.StringSliceVar(&s.noDecay, "no-decay", nil, "`NAMES` of parameter tensors without a prior in training: names that inspect lists, normalized (layers before a normalization, of whose scale nothing is left), or all")
}

// options returns the options for train.MAP.
func (s *trainVerb) options() *train.Options {
	o := s.o
	o.Optimizer, o.Epochs, o.LBFGS, o.Seed = train.Adam{}, orNone(o.Epochs), orNone(o.LBFGS), s.common.Fit.Seed
	if s.optimizer == "sgd" {
		o.Optimizer = train.SGD{Momentum: s.momentum}
	}
	switch s.schedule {
	case "cosine":
		o.Schedule = train.Cosine{}
	case "constant":
		o.Schedule = train.Constant{}
	case "step":
		o.Schedule = train.StepDecay{Epochs: s.scheduleEpochs, Factor: s.scheduleBy}
	case "plateau":
		o.Schedule = train.Plateau{Patience: s.scheduleEpochs, Factor: s.scheduleBy}
	}
	return &o
}

// precision returns the prior precision of each parameter. It is 0 for the parameters that --no-decay names.
func (s *trainVerb) precision(net *network.Network, delta float64) ([]float64, error) {
	_, _, count := net.Dims()
	precision := slices.Repeat([]float64{delta}, count)
	var names, free []string
	for _, p := range net.Params() {
		names = append(names, p.Name)
	}
	for _, name := range s.noDecay {
		switch {
		case name == "all":
			free = append(free, names...)
		case name == "normalized":
			free = append(free, net.Normalized()...)
		case slices.Contains(names, name):
			free = append(free, name)
		default:
			return nil, job.FullErrorf("{no-decay=%s}: the network has no parameter of this name; it has %s", job.Cut(name, 60), strings.Join(names, ", "))
		}
	}
	for _, p := range net.Params() {
		if slices.Contains(free, p.Name) {
			clear(precision[p.Offset : p.Offset+p.Len()])
		}
	}
	return precision, nil
}
