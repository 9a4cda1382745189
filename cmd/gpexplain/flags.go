package main

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
)

// commonFlags are the flags that every verb takes. They are read only after
// check.
type commonFlags struct {
	model  modelFlags
	data   dataFlags
	task   taskFlags
	limits limitFlags
}

// modelFlags name the network.
type modelFlags struct {
	path   string // "" is the built-in network
	freeze []string
}

// dataFlags name the data and the training rows among them.
type dataFlags struct {
	name, target                  string
	testFile, validFile, rowsFile string
	split                         *int // nil where not given
	count                         int  // 0 where not given
	classText                     string
	classes                       []int // parsed from classText by check
}

// taskFlags say what the outputs mean. A nil number was not given.
type taskFlags struct {
	likelihood       string
	precision, noise *float64
}

// limitFlags concern the whole process.
type limitFlags struct {
	seed       uint64
	workers    int
	profile    string
	memoryText string
	memory     int64 // parsed from memoryText by check; 0 is a part of what is free
}

// commonValues are what a shell completes.
var commonValues = map[string][]string{
	"data":       {"digits", "mnist"},
	"likelihood": likelihoods,
	"profile":    {"cpu", "mem", "trace"},
}

// add defines the flags; the words in back quotes are the names of values.
func (s *commonFlags) add(c *cobra.Command, con *console, withModel bool) {
	f := c.Flags()
	if withModel {
		f.StringVar(&s.model.path, "model", "", "trained network, an ONNX `FILE` (default the built-in network)")
	}
	f.StringVar(&s.data.name, "data", "digits", "rows from `NAME|DIR|FILE.csv`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), a directory of IDX files, or a CSV file with a header (default digits)")
	f.Lookup("data").DefValue = "" // the text says it
	f.StringVar(&s.data.classText, "classes", "", "keep the rows of these classes, in this `ORDER`, for example 4,9")
	f.IntVar(&s.data.count, "train-count", 0, "train on the first `N` kept rows (default all, or those that the model records)")
	f.StringVar(&s.data.rowsFile, "train-index", "", "train on the rows listed in `FILE`, one row number a line")
	f.StringVar(&s.data.target, "target", "", "target `COLUMN` of a CSV file (default the last)")
	optionalInt(c, &s.data.split, "split", "take the parts of a CSV file from split `K` of FILE.splits.csv")
	f.StringVar(&s.data.testFile, "test-data", "", "take the test rows of a CSV file from a second `FILE`")
	f.StringVar(&s.data.validFile, "valid-data", "", "take the validation rows of a CSV file from another `FILE`; predictions are calibrated on them with --calibrate heldout")
	f.StringVar(&s.task.likelihood, "likelihood", "", "`NAME` of the likelihood: gaussian, bernoulli, categorical or poisson (default the model's, else by the targets)")
	optionalFloat(c, &s.task.precision, "prior-precision", "precision `X` of the Gaussian prior on every parameter (default the model's, else 1)")
	optionalFloat(c, &s.task.noise, "noise-variance", "noise variance `X` of the gaussian likelihood (default the model's, else 1)")
	f.StringSliceVar(&s.model.freeze, "freeze", nil, "initializers of the model that are not parameters: `NAME,...`")
	f.Uint64Var(&s.limits.seed, "seed", 0, "seed `N` of training, of --select, --method cg and the error report, and of predict --link mc (default 0)")
	f.BoolVar(&con.json, "json", false, "write JSON to standard output")
	f.BoolVar(&con.quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&con.verbose, "verbose", false, "say on standard error what is done")
	f.StringVar(&s.limits.profile, "profile", "", "write a `KIND` of profile, cpu, mem or trace, to the current directory")
	f.IntVar(&s.limits.workers, "workers", 0, "let `N` goroutines work at a time (default one a processor)")
	f.StringVar(&s.limits.memoryText, "max-memory", "", "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)")
}

// check refuses values that are wrong without opening any file, and parses
// lists and sizes.
func (s *commonFlags) check(c *cobra.Command) error {
	if err := checkEmpty(c); err != nil {
		return err
	}
	if err := s.task.check(); err != nil {
		return err
	}
	if err := s.limits.check(c); err != nil {
		return err
	}
	return s.data.check(c, s.task.likelihood, s.limits.memory)
}

// checkEmpty refuses "", which comes from a shell variable that is not set.
func checkEmpty(c *cobra.Command) error {
	for _, name := range []string{"model", "data", "classes", "train-index", "target", "test-data", "valid-data", "likelihood", "profile", "max-memory", "freeze",
		"input", "terms", "contrast", "html", "png", "csv", "calibrate", "test-index", "link", "arch", "activation", "out",
		"method", "select", "posterior", "checkpoint", "tune-prior"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return usagef("--%s is empty; give it a value or leave it out", name)
		}
	}
	return nil
}

func (s *taskFlags) check() error {
	positive := func(v *float64) bool { return v == nil || *v >= 1e-300 && *v <= 1e300 }
	switch {
	case !positive(s.precision):
		return usagef("--prior-precision %v must be a positive number", *s.precision)
	case !positive(s.noise):
		return usagef("--noise-variance %v must be a positive number", *s.noise)
	case s.likelihood == "":
		return nil
	case !isLikelihood(s.likelihood):
		return usagef("--likelihood %q must be gaussian, bernoulli, categorical or poisson", s.likelihood)
	case s.noise != nil && !hasNoise(likelihoodNamed(s.likelihood)):
		return usagef("--noise-variance is for --likelihood gaussian, not %s", s.likelihood)
	}
	return nil
}

// check looks at the flags beside the likelihood, which may be "". Data that
// are made and not read from a file are opened, so that their name is known to
// be right.
func (s *dataFlags) check(c *cobra.Command, likelihood string, memory int64) error {
	f := c.Flags()
	switch {
	case f.Changed("train-count") && s.count < 1:
		return usagef("--train-count %d must be at least 1", s.count)
	case f.Changed("train-count") && f.Changed("train-index"):
		return usagef("--train-count and --train-index exclude each other")
	case s.split != nil && f.Changed("test-data"):
		return usagef("--split and --test-data exclude each other")
	case s.split != nil && f.Changed("valid-data"):
		return usagef("--split and --valid-data exclude each other")
	case s.split != nil && *s.split < 0:
		return usagef("--split %d must be 0 or more", *s.split)
	}
	var err error
	if s.classes, err = parseClasses(s.classText); err != nil {
		return err
	}
	if s.classes != nil && likelihood != "" {
		lik := likelihoodNamed(likelihood)
		switch {
		case !hasClasses(lik):
			return usagef("--classes is for labels, not for --likelihood %s", likelihood)
		case !isSoftmax(lik) && len(s.classes) != 2:
			return usagef("--likelihood %s is for two classes, not %d", likelihood, len(s.classes))
		}
	}
	if kind, _, _ := strings.Cut(s.name, ":"); kind == "digits" {
		if _, err := dataset.Open(context.Background(), s.name, s.options(memory)); err != nil {
			return usagef("--data %v", err)
		}
	}
	for _, flag := range []string{"target", "split", "test-data", "valid-data"} {
		if s.name == "mnist" && f.Changed(flag) {
			return usagef("--%s is for a CSV file, not --data mnist", flag)
		}
	}
	return nil
}

// options are those of dataset.Open.
func (s *dataFlags) options(memory int64) *dataset.OpenOptions {
	return &dataset.OpenOptions{Target: s.target, TestFile: s.testFile, ValidFile: s.validFile, Split: s.split, MaxBytes: gp.MemoryBudget(memory)}
}

// files are the files that the flags name, which no result may replace.
func (s *commonFlags) files() []flagPath {
	return []flagPath{{"--model", s.model.path}, {"--data", s.data.name}, {"--test-data", s.data.testFile}, {"--valid-data", s.data.validFile}, {"--train-index", s.data.rowsFile}}
}

// mostWorkers bounds --workers; more would only cost memory.
const mostWorkers = 1024

func (s *limitFlags) check(c *cobra.Command) error {
	switch {
	case c.Flags().Changed("workers") && (s.workers < 1 || s.workers > mostWorkers):
		return usagef("--workers %d must be 1 to %d", s.workers, mostWorkers)
	case s.profile != "" && profileMode(s.profile) == nil:
		return usagef("--profile %q must be cpu, mem or trace", s.profile)
	}
	var err error
	s.memory, err = parseBytes(s.memoryText)
	return err
}

// apply sets what concerns the whole process and returns what undoes it.
func (s *limitFlags) apply() (end func(), err error) {
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

// optionalInt defines a flag whose integer is nil where it is not given.
func optionalInt(c *cobra.Command, value **int, name, usage string) {
	c.Flags().Func(name, usage, func(text string) error {
		v, err := strconv.ParseInt(text, 0, strconv.IntSize)
		k := int(v)
		*value = &k
		return err
	})
}

// optionalFloat defines a flag whose number is nil where it is not given.
func optionalFloat(c *cobra.Command, value **float64, name, usage string) {
	c.Flags().Func(name, usage, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		*value = &v
		return err
	})
}

// parseClasses reads "4,9"; "" is nil.
func parseClasses(text string) ([]int, error) {
	list, err := parseInts("--classes", text)
	if err != nil {
		return nil, err
	}
	for i, k := range list {
		if slices.Contains(list[:i], k) {
			return nil, usagef("--classes %s names class %d twice", text, k)
		}
	}
	if text != "" && len(list) < 2 {
		return nil, usagef("--classes %s must name at least two classes", text)
	}
	return list, nil
}

func parseInts(flag, text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, usagef("%s %q is not a list of integers such as 4,9", flag, text)
		}
		list = append(list, k)
	}
	return list, nil
}

// formatInts is the inverse of parseInts.
func formatInts(list []int) string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = strconv.Itoa(k)
	}
	return strings.Join(out, ",")
}
