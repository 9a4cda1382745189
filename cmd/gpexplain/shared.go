package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
)

// shared holds the flags that every verb takes.
type shared struct {
	*invocation
	cmd *cobra.Command

	model, data, target, testData, trainIndex string
	classes                                   string
	likelihood, profile, maxMemory            string
	split, trainCount, workers                int
	precision, noise                          float64
	freeze                                    []string
	seed                                      uint64
	json, quiet, verbose                      bool

	classList []int         // parsed from classes
	bytes     int64         // parsed from maxMemory
	digits    *dataset.Data // the data, where they are made and not read
}

// sharedValues are what a shell completes.
var sharedValues = map[string][]string{
	"data":       {"digits", "mnist"},
	"likelihood": likelihoods,
	"profile":    {"cpu", "mem", "trace"},
}

// add defines the flags; the words in back quotes are the names of values.
func (s *shared) add(c *cobra.Command, model bool) {
	f := c.Flags()
	if model {
		f.StringVar(&s.model, "model", "", "trained network, an ONNX `FILE` (default the built-in network)")
	}
	f.StringVar(&s.data, "data", "digits", "rows from `NAME|DIR|FILE.csv`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), a directory of IDX files, or a CSV file with a header (default digits)")
	f.StringVar(&s.classes, "classes", "", "keep the rows of these classes, in this `ORDER`, for example 4,9")
	f.IntVar(&s.trainCount, "train-count", 0, "train on the first `N` kept rows (default all, or those that the model records)")
	f.StringVar(&s.trainIndex, "train-index", "", "train on the rows listed in `FILE`, one row number a line")
	f.StringVar(&s.target, "target", "", "target `COLUMN` of a CSV file (default the last)")
	f.IntVar(&s.split, "split", 0, "take the parts of a CSV file from split `K` of FILE.splits.csv")
	f.StringVar(&s.testData, "test-data", "", "take the test rows of a CSV file from a second `FILE`")
	f.StringVar(&s.likelihood, "likelihood", "", "`NAME` of the likelihood: gaussian, bernoulli, categorical or poisson (default the model's, else by the targets)")
	f.Float64Var(&s.precision, "prior-precision", 1, "precision `X` of the Gaussian prior on every parameter (default the model's, else 1)")
	f.Float64Var(&s.noise, "noise-variance", 1, "noise variance `X` of the gaussian likelihood (default the model's, else 1)")
	f.StringSliceVar(&s.freeze, "freeze", nil, "initializers of the model that are not parameters: `NAME,...`")
	f.Uint64Var(&s.seed, "seed", 0, "seed `N` of training, of --select, --method cg and the error report, and of predict --link mc (default 0)")
	f.BoolVar(&s.json, "json", false, "write JSON to standard output")
	f.BoolVar(&s.quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&s.verbose, "verbose", false, "say on standard error what is done")
	f.StringVar(&s.profile, "profile", "", "write a `KIND` of profile, cpu, mem or trace, to the current directory")
	f.IntVar(&s.workers, "workers", 0, "let `N` goroutines work at a time (default one a processor)")
	f.StringVar(&s.maxMemory, "max-memory", "", "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)")
	for name, zero := range map[string]string{"prior-precision": "0", "noise-variance": "0", "data": ""} {
		f.Lookup(name).DefValue = zero // the text says it
	}
}

// mostWorkers bounds --workers; more would only cost memory.
const mostWorkers = 1024

// check refuses values that are wrong without opening any file, and parses
// lists.
func (s *shared) check() error {
	f := s.cmd.Flags()
	if err := s.checkEmpty(); err != nil {
		return err
	}
	positive := func(v float64) bool { return v >= 1e-300 && v <= 1e300 }
	switch {
	case f.Changed("prior-precision") && !positive(s.precision):
		return usagef("--prior-precision %v must be a positive number", s.precision)
	case f.Changed("noise-variance") && !positive(s.noise):
		return usagef("--noise-variance %v must be a positive number", s.noise)
	case f.Changed("train-count") && s.trainCount < 1:
		return usagef("--train-count %d must be at least 1", s.trainCount)
	case f.Changed("train-count") && f.Changed("train-index"):
		return usagef("--train-count and --train-index exclude each other")
	case f.Changed("split") && f.Changed("test-data"):
		return usagef("--split and --test-data exclude each other")
	case s.split < 0:
		return usagef("--split %d must be 0 or more", s.split)
	case f.Changed("workers") && (s.workers < 1 || s.workers > mostWorkers):
		return usagef("--workers %d must be 1 to %d", s.workers, mostWorkers)
	case s.quiet && s.verbose:
		return usagef("--quiet and --verbose exclude each other")
	case s.profile != "" && profileMode(s.profile) == nil:
		return usagef("--profile %q must be cpu, mem or trace", s.profile)
	}
	if err := s.checkLikelihood(); err != nil {
		return err
	}
	var err error
	if s.bytes, err = parseBytes(s.maxMemory); err != nil {
		return err
	}
	return s.checkData()
}

// checkEmpty refuses "", which is a shell variable that is not set rather than
// a wish for the default.
func (s *shared) checkEmpty() error {
	for _, name := range []string{"model", "data", "classes", "train-index", "target", "test-data", "likelihood", "profile", "max-memory", "freeze",
		"input", "terms", "contrast", "html", "png", "test-index", "link", "arch", "activation", "out",
		"method", "select", "posterior", "checkpoint"} {
		if f := s.cmd.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return usagef("--%s is empty; give it a value or leave it out", name)
		}
	}
	return nil
}

// checkLikelihood looks for flags that do not go with a likelihood.
func (s *shared) checkLikelihood() error {
	var err error
	if s.classList, err = parseClasses(s.classes); err != nil || s.likelihood == "" {
		return err
	}
	switch {
	case !isLikelihood(s.likelihood):
		return usagef("--likelihood %q must be gaussian, bernoulli, categorical or poisson", s.likelihood)
	case s.likelihood != "gaussian" && s.cmd.Flags().Changed("noise-variance"):
		return usagef("--noise-variance is for --likelihood gaussian, not %s", s.likelihood)
	case s.classList != nil && !isClassified(s.likelihood):
		return usagef("--classes is for labels, not for --likelihood %s", s.likelihood)
	case s.classList != nil && s.likelihood == "bernoulli" && len(s.classList) != 2:
		return usagef("--likelihood bernoulli is for two classes, not %d", len(s.classList))
	}
	return nil
}

// checkData makes the data that are not in any file, and refuses flags that
// need one.
func (s *shared) checkData() error {
	name, _, _ := strings.Cut(s.data, ":")
	if name == "digits" {
		var err error
		if s.digits, err = dataset.Open(context.Background(), s.data, s.openOptions()); err != nil {
			return usagef("--data %v", err)
		}
	}
	for _, flag := range []string{"target", "split", "test-data"} {
		if s.data == "mnist" && s.cmd.Flags().Changed(flag) {
			return usagef("--%s is for a CSV file, not --data mnist", flag)
		}
	}
	return nil
}

func (s *shared) openOptions() *dataset.OpenOptions {
	o := &dataset.OpenOptions{Target: s.target, TestFile: s.testData, MaxBytes: gp.MemoryBudget(s.bytes),
		Progress: func(stage string, done, total int) { s.progress.show(stage, done, total) }}
	if s.cmd.Flags().Changed("split") {
		o.Split = &s.split
	}
	return o
}

// reads are the files that the flags name, which no result may replace.
func (s *shared) reads() []flagPath {
	return []flagPath{{"--model", s.model}, {"--data", s.data}, {"--test-data", s.testData}, {"--train-index", s.trainIndex}}
}

// begin applies the flags that concern the whole process and returns what
// undoes them.
func (s *shared) begin() (end func(), err error) {
	if s.invocation.progress == nil {
		s.invocation.progress = newProgress(s.stderr, s.quiet)
	}
	end = func() {}
	if s.profile != "" {
		// The package that profiles ends the process where it cannot write.
		if err := writable(profileFile[s.profile]); err != nil {
			return nil, err
		}
		p := profile.Start(profileMode(s.profile), profile.ProfilePath("."), profile.NoShutdownHook, profile.Quiet)
		end = p.Stop
	}
	if s.workers > 0 {
		before, stop := runtime.GOMAXPROCS(s.workers), end
		end = func() { stop(); runtime.GOMAXPROCS(before) }
	}
	return end, nil
}

var profileFile = map[string]string{"cpu": "cpu.pprof", "mem": "mem.pprof", "trace": "trace.out"}

func profileMode(name string) func(*profile.Profile) {
	return map[string]func(*profile.Profile){"cpu": profile.CPUProfile, "mem": profile.MemProfile, "trace": profile.TraceProfile}[name]
}

// note writes a line on standard error unless --quiet.
func (s *shared) note(format string, args ...any) {
	if s.quiet {
		return
	}
	s.progress.clear()
	fmt.Fprintln(s.stderr, oneLine(fmt.Sprintf(format, args...)))
}

// detail writes a line on standard error with --verbose.
func (s *shared) detail(format string, args ...any) {
	if s.verbose {
		s.note(format, args...)
	}
}
