package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// descentFlags say how train goes through the minibatches.
type descentFlags struct {
	optimizer, schedule        string
	epochs, steps, batch       int
	scheduleEpochs, patience   int
	rate, momentum, scheduleBy float64
	noDecay                    []string
}

var optimizerNames = []string{"adam", "sgd"}

var scheduleNames = []string{"cosine", "constant", "step", "plateau"}

func (d *descentFlags) add(f *pflag.FlagSet) {
	f.StringVar(&d.optimizer, "optimizer", "adam", "`NAME` of what moves the parameters on minibatches: adam, or sgd, whose steps are of the mean loss of an example")
	f.Float64Var(&d.momentum, "momentum", 0.9, "momentum `X` of --optimizer sgd; 0 for none")
	f.IntVar(&d.epochs, "epochs", 30, "`N` passes over the data in minibatches; 0 for none")
	f.IntVar(&d.steps, "steps", 0, "`N` steps on minibatches, in place of --epochs")
	f.IntVar(&d.batch, "batch", 256, "`N` examples a minibatch; those of an epoch that fill none are left out")
	f.Float64Var(&d.rate, "lr", 3e-3, "first step size `X`")
	f.StringVar(&d.schedule, "schedule", "cosine", "`NAME` of how the step size changes: cosine (to 1 %), constant, step (times --schedule-factor every --schedule-epochs) or plateau (after more than --schedule-epochs without a better loss, of the validation rows with --early-stopping)")
	f.IntVar(&d.scheduleEpochs, "schedule-epochs", 0, "`N` epochs of --schedule; 0 for 30 with step, 5 with plateau")
	f.Float64Var(&d.scheduleBy, "schedule-factor", 0, "factor `X` of --schedule; 0 for 0.1 with step, 0.5 with plateau")
	f.IntVar(&d.patience, "early-stopping", 0, "stop after `N` epochs without a better NLL of the validation rows, and keep the best epoch's network; 0 for never")
	f.StringSliceVar(&d.noDecay, "no-decay", nil, "`NAMES` of parameter tensors without a prior in training: names that inspect lists, normalized (layers before a normalization, of whose scale nothing is left), or all")
}

// options are the options of the minibatches.
func (d *descentFlags) options() *train.Options {
	o := &train.Options{Optimizer: train.Adam{}, Epochs: orNone(d.epochs), Steps: d.steps, Batch: d.batch, LearningRate: d.rate}
	if d.optimizer == "sgd" {
		o.Optimizer = train.SGD{Momentum: d.momentum}
	}
	switch d.schedule {
	case "cosine":
		o.Schedule = train.Cosine{}
	case "constant":
		o.Schedule = train.Constant{}
	case "step":
		o.Schedule = train.StepDecay{Epochs: d.scheduleEpochs, Factor: d.scheduleBy}
	case "plateau":
		o.Schedule = train.Plateau{Patience: d.scheduleEpochs, Factor: d.scheduleBy}
	}
	return o
}

// precision is the precision of each parameter, 0 for the parameters of --no-decay.
func (d *descentFlags) precision(net *network.Network, delta float64) ([]float64, error) {
	_, _, count := net.Dims()
	precision := slices.Repeat([]float64{delta}, count)
	var names, free []string
	for _, p := range net.Params() {
		names = append(names, p.Name)
	}
	for _, name := range d.noDecay {
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
