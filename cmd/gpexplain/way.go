package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/sparse"
)

// A way is how a verb comes by its posterior: fitted by a method, or read
// from a file.
type way struct {
	method, selection string
	inducing          int
	refit             bool
	file              string // a saved posterior
	tune              bool   // choose the prior precision on held-out rows
	checkpoint        string
	brief             bool // no error report is asked for

	mean   gp.Mean            // of a posterior without a refit
	resume *sparse.Checkpoint // read from checkpoint
}

var (
	methods    = []string{"exact", "subset", "nystrom", "cg"}
	selections = []string{"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans"}
)

// wayValues are what a shell completes.
func wayValues(more map[string][]string) map[string][]string {
	all := map[string][]string{"method": methods, "select": selections}
	for name, values := range more {
		all[name] = values
	}
	return all
}

// add defines the flags of a method.
func (w *way) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.method, "method", "exact", "`METHOD` of the posterior: exact; subset of the data; nystrom, all data seen through inducing examples; or cg, exact without forming the kernel")
	f.IntVar(&w.inducing, "inducing", 0, "`M` inducing examples of --method subset or nystrom (default so many that they have 2000 outputs)")
	f.StringVar(&w.selection, "select", "", "`HOW` to choose inducing examples: uniform, stratified, trace, greedy, rpcholesky or kmeans (default stratified by class, uniform for a regression)")
}

// addRefit defines --refit.
func (w *way) addRefit(c *cobra.Command, value bool, text string) {
	c.Flags().BoolVar(&w.refit, "refit", value, text)
}

// addFile defines --posterior.
func (w *way) addFile(c *cobra.Command) {
	c.Flags().StringVar(&w.file, "posterior", "", "answer from the posterior in `FILE`, which gpexplain fit wrote, instead of fitting one")
}

// settled are the flags that a saved posterior answers.
var settled = []string{"method", "inducing", "select", "refit", "train-count", "train-index", "classes", "likelihood", "prior-precision", "noise-variance"}

// check refuses what does not go together.
func (w *way) check(s *shared) error {
	f := s.cmd.Flags()
	if w.file != "" {
		for _, name := range settled {
			if f.Changed(name) {
				return usagef("--%s is settled by --posterior; leave it out, or fit another posterior", name)
			}
		}
		return nil
	}
	switch {
	case !slices.Contains(methods, w.method):
		return usagef("--method %q must be exact, subset, nystrom or cg", w.method)
	case f.Changed("inducing") && w.inducing < 1:
		return usagef("--inducing %d must be at least 1", w.inducing)
	case w.selection != "" && !slices.Contains(selections, w.selection):
		return usagef("--select %q must be uniform, stratified, trace, greedy, rpcholesky or kmeans", w.selection)
	case w.sparse():
		return nil
	}
	for _, name := range []string{"inducing", "select", "checkpoint", "tune-prior"} {
		if f.Changed(name) {
			return usagef("--%s is for --method %s, not %s", name, wants[name], w.method)
		}
	}
	return nil
}

// wants are the methods that a flag is for.
var wants = map[string]string{"inducing": "subset or nystrom", "select": "subset or nystrom", "tune-prior": "subset or nystrom", "checkpoint": "nystrom"}

// sparse tells whether the posterior has inducing examples.
func (w *way) sparse() bool { return w.method == "subset" || w.method == "nystrom" }

// inducingRows is the number of outputs that inducing examples have where
// --inducing is not given.
const inducingRows = 2000

// choose settles what the flags leave open.
func (w *way) choose(s *session) error {
	if !w.sparse() {
		return nil
	}
	_, c, _ := s.net.Dims()
	n := s.train.Len()
	if w.inducing == 0 {
		w.inducing = min(n, max(1, inducingRows/c))
	}
	if w.inducing > n {
		return fmt.Errorf("--inducing %d: there are %d training rows; give at most %d", w.inducing, n, n)
	}
	switch {
	case w.selection == "" && s.classed != nil:
		w.selection = "stratified"
	case w.selection == "":
		w.selection = "uniform"
	case w.selection == "stratified" && s.classed == nil:
		return fmt.Errorf("--select stratified is by class, but %s has the %s likelihood; choose another", s.name, s.lik.Name())
	}
	return nil
}
