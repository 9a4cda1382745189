package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"
)

// run executes one command line.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	ran := false
	root := newRoot(&ran)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil || ran {
		return err
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return err
	}
	// Everything cobra refuses before a verb runs is the command line's fault.
	return usagef("%v; see gpexplain help", err)
}

// newRoot builds the command tree. *ran is set when a verb starts.
func newRoot(ran *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "gpexplain",
		Short:         "Explain a network's predictions as sums over its training examples",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.DisableDescriptions = true
	verbs := []*cobra.Command{explainVerb(), predictVerb(), importancesVerb(), evidenceVerb(), validateVerb(), trainVerb(), inspectVerb(), versionVerb()}
	for _, v := range verbs {
		do := v.RunE
		v.Args = cobra.NoArgs
		v.RunE = func(c *cobra.Command, args []string) error {
			*ran = true
			return do(c, args)
		}
		root.AddCommand(v)
	}
	return root
}

// shared holds the flags that every verb working on a model and data takes.
type shared struct {
	model, data, target, testData, trainIndex string
	classes                                   string
	likelihood, profile, maxMemory            string
	split, trainCount, workers                int
	precision, noise                          float64
	freeze                                    []string
	seed                                      uint64
	json, quiet, verbose                      bool

	cmd       *cobra.Command
	classList []int // parsed from classes
	bytes     int64 // parsed from maxMemory
}

func (s *shared) add(c *cobra.Command) {
	s.cmd = c
	f := c.Flags()
	f.SortFlags = false
	if c.Name() != "train" {
		f.StringVar(&s.model, "model", "", "ONNX `FILE` of the trained network (default the built-in network)")
	}
	f.StringVar(&s.data, "data", "digits", "digits, mnist, a directory of IDX files, or a `FILE.csv`")
	f.StringVar(&s.classes, "classes", "", "keep these classes, in this order, for example `4,9`")
	f.IntVar(&s.trainCount, "train-count", 0, "use the first `N` kept training rows")
	f.StringVar(&s.trainIndex, "train-index", "", "use the training rows listed in `FILE`, one row number a line")
	f.StringVar(&s.target, "target", "", "target column `NAME` of a CSV file (default the last)")
	f.IntVar(&s.split, "split", 0, "use split `K` of FILE.splits.csv")
	f.StringVar(&s.testData, "test-data", "", "test rows in a second CSV `FILE`")
	f.StringVar(&s.likelihood, "likelihood", "", "gaussian, bernoulli, categorical or poisson")
	f.Float64Var(&s.precision, "prior-precision", 1, "precision `δ` of the Gaussian prior on every parameter")
	f.Float64Var(&s.noise, "noise-variance", 1, "noise variance `σ²` of the gaussian likelihood")
	f.StringSliceVar(&s.freeze, "freeze", nil, "initializers `NAME,…` that are not parameters")
	f.Uint64Var(&s.seed, "seed", 0, "seed of everything random")
	f.BoolVar(&s.json, "json", false, "write JSON to standard output")
	f.BoolVar(&s.quiet, "quiet", false, "no progress and no notes on standard error")
	f.BoolVar(&s.verbose, "verbose", false, "say on standard error what is done")
	f.StringVar(&s.profile, "profile", "", "write a cpu, mem or trace profile to the current directory")
	f.IntVar(&s.workers, "workers", 0, "number of `goroutines` that work (default one a processor)")
	f.StringVar(&s.maxMemory, "max-memory", "", "most memory to take, for example `4GiB` (default 80 % of what is free)")
}

// check refuses values that are wrong without opening any file, and parses
// lists.
func (s *shared) check() error {
	f := s.cmd.Flags()
	switch {
	case f.Changed("prior-precision") && !(s.precision > 0 && s.precision < 1e300):
		return usagef("--prior-precision %v must be a positive number", s.precision)
	case f.Changed("noise-variance") && !(s.noise > 0 && s.noise < 1e300):
		return usagef("--noise-variance %v must be a positive number", s.noise)
	case f.Changed("train-count") && s.trainCount < 1:
		return usagef("--train-count %d must be at least 1", s.trainCount)
	case f.Changed("train-count") && f.Changed("train-index"):
		return usagef("--train-count and --train-index exclude each other")
	case f.Changed("split") && f.Changed("test-data"):
		return usagef("--split and --test-data exclude each other")
	case s.split < 0:
		return usagef("--split %d must be 0 or more", s.split)
	case s.workers < 0:
		return usagef("--workers %d must be positive", s.workers)
	case s.quiet && s.verbose:
		return usagef("--quiet and --verbose exclude each other")
	case s.profile != "" && profileMode(s.profile) == nil:
		return usagef("--profile %q must be cpu, mem or trace", s.profile)
	}
	if s.likelihood != "" && !isLikelihood(s.likelihood) {
		return usagef("--likelihood %q must be gaussian, bernoulli, categorical or poisson", s.likelihood)
	}
	var err error
	if s.classList, err = parseClasses(s.classes); err != nil {
		return err
	}
	s.bytes, err = parseBytes(s.maxMemory)
	return err
}

// begin applies the process-wide flags and returns what undoes them.
func (s *shared) begin() (end func()) {
	end = func() {}
	if s.workers > 0 {
		before := runtime.GOMAXPROCS(s.workers)
		end = func() { runtime.GOMAXPROCS(before) }
	}
	if s.profile == "" {
		return end
	}
	here, err := filepath.Abs(".")
	if err != nil {
		here = "."
	}
	p := profile.Start(profileMode(s.profile), profile.ProfilePath(here), profile.NoShutdownHook, profile.Quiet)
	undo := end
	return func() { p.Stop(); undo() }
}

func profileMode(name string) func(*profile.Profile) {
	return map[string]func(*profile.Profile){"cpu": profile.CPUProfile, "mem": profile.MemProfile, "trace": profile.TraceProfile}[name]
}

// verb builds a command whose work is do; own adds its own flags and returns
// their check.
func verb(use, short, long string, own func(c *cobra.Command) (check func() error), do func(c *cobra.Command, s *shared) error) *cobra.Command {
	s := &shared{}
	c := &cobra.Command{Use: use, Short: short, Long: long}
	check := own(c)
	s.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := s.check(); err != nil {
			return err
		}
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		defer s.begin()()
		return do(c, s)
	}
	return c
}

// note writes a line on standard error unless --quiet.
func (s *shared) note(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.cmd.ErrOrStderr(), format+"\n", args...)
	}
}

// detail writes a line on standard error with --verbose.
func (s *shared) detail(format string, args ...any) {
	if s.verbose {
		s.note(format, args...)
	}
}
