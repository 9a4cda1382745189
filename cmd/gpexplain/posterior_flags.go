package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// posteriorFlags say how a verb comes by its posterior: fitted by a method, or
// read from a file.
type posteriorFlags struct {
	method, selection string
	inducing          int // 0 where not given
	refit             bool
	choosesRefit      bool   // a refit is made, without --refit too, where θ* is no mode
	refitGiven        bool   // --refit was given
	tune              string // what chooses the prior precision; "" keeps the stated one
	file              string // a saved posterior; "" fits one
}

var (
	methods    = []string{"exact", "subset", "nystrom", "cg"}
	selections = []string{"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans"}
	tunings    = []string{"loo", "evidence", "heldout"}
)

// methodValues are what a shell completes, with more values of a verb's own.
func methodValues(more map[string][]string) map[string][]string {
	all := map[string][]string{"method": methods, "select": selections, "tune-prior": tunings}
	for name, values := range more {
		all[name] = values
	}
	return all
}

// add defines the flags of a method.
func (s *posteriorFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.method, "method", "exact", "`METHOD` of the posterior: exact; subset, which takes part of the data; nystrom, which takes all data through inducing examples; or cg, exact without forming the kernel")
	f.IntVar(&s.inducing, "inducing", 0, "`M` inducing examples of --method subset or nystrom (default as many as have 2000 outputs)")
	f.StringVar(&s.selection, "select", "", "`HOW` to choose inducing examples: uniform, stratified, trace, greedy, rpcholesky or kmeans (default stratified by class, uniform for a regression)")
}

// addRefit defines --refit. Where its default is false, a refit is made
// nevertheless where θ* is no mode, unless --refit is given.
func (s *posteriorFlags) addRefit(c *cobra.Command, value bool, text string) {
	c.Flags().BoolVar(&s.refit, "refit", value, text)
	s.choosesRefit = !value
}

// addTune defines --tune-prior.
func (s *posteriorFlags) addTune(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.tune, "tune-prior", "", "choose the prior precision by `HOW`: loo, leave-one-out predictions of training rows; evidence, the log evidence; both refit at every precision; or heldout, rows that were not trained on: validation rows, or the last 5000 training rows that are left (without a value: heldout)")
	f.Lookup("tune-prior").NoOptDefVal = "heldout"
}

// joinTune writes --tune-prior and a value after it as one argument, since it may
// also stand without a value.
func joinTune(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if args[i] == "--tune-prior" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			out = append(out, args[i]+"="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// addFile defines --posterior.
func (s *posteriorFlags) addFile(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "posterior", "", "answer from the posterior in `FILE`, which gpexplain fit wrote, instead of fitting one")
}

// inFile are the flags whose values the file of a saved posterior holds.
var inFile = []string{"method", "inducing", "select", "refit", "tune-prior", "train-count", "train-index", "classes", "likelihood", "prior-precision", "noise-variance"}

// flagMethods are the methods that a flag is for.
var flagMethods = map[string]string{"inducing": "subset or nystrom", "select": "subset or nystrom", "checkpoint": "nystrom"}

// check refuses flags that do not go together.
func (s *posteriorFlags) check(c *cobra.Command) error {
	f := c.Flags()
	if s.file != "" {
		for _, name := range inFile {
			if f.Changed(name) {
				return usagef("--%s cannot be given with --posterior, whose file already says it; leave it out, or fit another posterior", name)
			}
		}
		return nil
	}
	s.refitGiven = f.Changed("refit")
	switch {
	case f.Changed("tune-prior") && !slices.Contains(tunings, s.tune):
		return usagef("--tune-prior %q must be loo, evidence or heldout", s.tune)
	case s.tunesByRefits() && s.refitGiven && !s.refit:
		return usagef("--tune-prior %s refits at every precision; leave --refit=false out, or give --tune-prior heldout", s.tune)
	case !slices.Contains(methods, s.method):
		return usagef("--method %q must be exact, subset, nystrom or cg", s.method)
	case f.Changed("inducing") && s.inducing < 1:
		return usagef("--inducing %d must be at least 1", s.inducing)
	case s.selection != "" && !slices.Contains(selections, s.selection):
		return usagef("--select %q must be uniform, stratified, trace, greedy, rpcholesky or kmeans", s.selection)
	case isSparse(s.method):
		return nil
	}
	for _, name := range []string{"inducing", "select", "checkpoint"} {
		if f.Changed(name) {
			return usagef("--%s is for --method %s, not %s", name, flagMethods[name], s.method)
		}
	}
	return nil
}

// tunesByRefits tells whether --tune-prior takes a refit at every precision: at θ*,
// which has seen all training rows, their scores say nothing about other
// precisions (E17).
func (s *posteriorFlags) tunesByRefits() bool { return s.tune == "loo" || s.tune == "evidence" }

// isSparse tells whether posteriors of a method have inducing examples.
func isSparse(method string) bool { return method == "subset" || method == "nystrom" }

// inducingOutputs is the number of outputs that inducing examples have where
// --inducing is not given.
const inducingOutputs = 2000

// withDefaults returns the flags with the inducing examples that they leave
// open.
func (s posteriorFlags) withDefaults(p *problem) (posteriorFlags, error) {
	s.refit = s.refit || s.tunesByRefits()
	if !isSparse(s.method) {
		return s, nil
	}
	n := p.examples.train.Len()
	if s.inducing == 0 {
		s.inducing = min(n, max(1, inducingOutputs/p.model.outputs))
	}
	if s.inducing > n {
		return s, fmt.Errorf("--inducing %d: there are %d training rows; give at most %d", s.inducing, n, n)
	}
	switch {
	case s.selection == "" && p.task.classes != nil:
		s.selection = "stratified"
	case s.selection == "":
		s.selection = "uniform"
	case s.selection == "stratified" && p.task.classes == nil:
		return s, fmt.Errorf("--select stratified is by class, but %s has the %s likelihood; choose another", p.model.name, p.task.likelihood.Name())
	}
	return s, nil
}
