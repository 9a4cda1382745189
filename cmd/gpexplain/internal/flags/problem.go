// Package flags defines the flags of the command line that say what a problem, its posterior and the rows in question
// are.
package flags

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize/network"
)

// Common are the flags that every verb takes, as options of model, data and fit.
type Common struct {
	problem.Flags
	Process
	File string // of the posterior; "" fits one

	console *console.Console

	bind, inputColumns                       []string // NAME=VALUE
	classes, classNames                      string
	inputMean, inputSD, targetMean, targetSD string
}

// Process are the flags that concern the whole process.
type Process struct {
	workers         int
	profile, memory string
}

// Problem defines the flags of model, data, prior and scaling, of what is written, and of the limits; the words in
// back quotes are the names of values.
func Problem(c *cobra.Command, con *console.Console, s *Common, withModel bool) {
	f, o := c.Flags(), &s.Task.FitOptions
	s.console = con
	if withModel {
		f.StringVar(&s.Model.File, "model", "", "trained network, an ONNX `FILE` (default the built-in network); explain takes several, A,B,...")
		f.StringVar(&s.Model.Output, "output", "", "`NAME` of the tensor that is the output f: of several outputs, or any inside the graph")
		f.StringArrayVar(&s.bind, "bind", nil, "`NAME=VALUE` of what a model leaves open: the size of a dimension, height=48; one number that an input is in all its elements, sr=16000 or state=0; or the shape of an input, x=n,3,48,192 with n for the examples; once for each name")
		f.StringArrayVar(&s.inputColumns, "input-columns", nil, "`INPUT=COLUMNS` of the data that an input of the model takes, by name, a:c or 0-9, for example x=age,income; once for each input (default the columns in order)")
		f.StringVar(&o.Outputs, "outputs", "", "of many classes, tell apart those of this `LIST`, such as 3,17 or cat,dog, or the K most probable with top:K, and take the others as one class; all takes every class (default top:10 of more than 100 classes)")
	}
	f.StringVar(&s.Data.Source, "data", "", "rows from `NAME|DIR|FILE`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), a directory of IDX files, a CSV file with a header, plain or .gz, or NumPy's .npy or .npz; CSV and .npy files also by a pattern in quotes, 'x-*.npy', or a list a.csv,b.csv (default digits)")
	f.StringVar(&s.classes, "classes", "", "keep the rows of these classes, in this `ORDER`, for example 4,9 or no,yes")
	f.StringVar(&s.classNames, "class-names", "", "`NAMES` of the classes in the order of the outputs, for example repaid,default, or of several labels a row (default the model's, else the words of the data, sorted, or the target columns)")
	f.StringVar(&s.Data.ID, "id", "", "`COLUMN` of a CSV file that names the rows and is no feature, or array of a .npz file")
	f.StringVar(&s.Data.RowWeights, "row-weights", "", "`COLUMN` of a CSV file with the weights of the training rows in the loss, numbers of 0 or more, which is no feature, or array of a .npz file: a row of weight 2 counts as two equal rows, and one of weight 0 as none")
	f.IntVar(&s.Data.TrainCount, "train-count", 0, "train on the first `N` kept rows (default all, or those that the model records)")
	f.StringVar(&s.Data.TrainFile, "train-index", "", "train on the rows listed in `FILE`, one row number a line")
	f.StringVar(&s.Data.Target, "target", "", "target `COLUMN` of a CSV file, or several as a,b, one for each output: numbers, or labels 0 and 1 of which a row has any number (default the last); of .npz the array, of .npy the file")
	OptionalInt(c, &s.Data.Split, "split", "take the parts of a CSV file from split `K` of FILE.splits.csv")
	f.StringVar(&s.Data.TestFile, "test-data", "", "take the test rows of a CSV file from a second `FILE`")
	f.StringVar(&s.Data.ValidFile, "valid-data", "", "take the validation rows of a CSV file from another `FILE`; predictions are calibrated on them with --calibrate heldout")
	f.StringVar(&o.Likelihood, "likelihood", "", "`NAME` of the likelihood: gaussian, bernoulli of two classes or of labels of which a row has any number, categorical, poisson, negative-binomial:R of counts with the variance μ + μ²/R, or heteroscedastic, whose outputs are the means and then the log noise variances (default the model's, else by the targets)")
	OptionalFloat(c, &o.Prior.Precision, "prior-precision", "precision `X` of the Gaussian prior on every parameter: of a training, of the evidence, or of answers in place of the match (default the model's, else 1; see --at)")
	OptionalFloat(c, &o.Prior.WeightDecay, "weight-decay", "the prior precision of the training by the weight decay `X`, λ, of torch.optim.SGD or Adam on a mean loss of N training rows: N·λ, N·C·λ of C labels a row, or N·λ/(2σ²) for MSELoss (AdamW's decay is no such prior)")
	f.StringVar(&o.ClassWeights, "class-weights", "", "weights of the classes in the loss of the training, as weight= or pos_weight= of PyTorch: `CLASS=W,...`, 1 for those not named, or balanced for N/(C·n) of a class with n of the N training rows; of several labels a row, the weights of the rows that have each, LABEL=W, or balanced for the rows without over those with it; the posterior is fitted to that loss, and probabilities are for classes as often as they occur (default the model's)")
	OptionalFloat(c, &o.LabelSmoothing, "label-smoothing", "label smoothing `X` in the loss of the training, ε of the shares (1−ε)y + ε/C of C classes as PyTorch has it; the posterior is fitted to that loss (default the model's)")
	if withModel {
		f.BoolVar(&con.Force, "force", false, "answer even where the outputs are those of the classes in another order, which is an error otherwise")
		f.StringVar(&o.Prior.File, "prior", "", "take the prior, and the noise variance of the gaussian likelihood, from `FILE`, which gpexplain evidence --optimize wrote")
	}
	OptionalFloat(c, &o.NoiseVariance, "noise-variance", "noise variance `X` of the gaussian likelihood (default the model's, else 1; of answers at the match by leave-one-out)")
	f.StringSliceVar(&s.Model.Freeze, "freeze", nil, "tensors of the model that are not parameters, as inspect names them: `NAME,...`")
	f.StringSliceVar(&s.Model.Learn, "learn", nil, "tensors of the model that are parameters, though they were taken for constants, as inspect names them: `NAME,...`")
	// What was done to inputs and targets outside the network
	f.StringVar(&o.Standardize, "standardize", "", "`WAY` in which inputs are scaled by the training rows: yes (less their mean, over their deviation, by column or by channel), sample (with deviations over N − 1), robust (less their median, over their interquartile range), minmax (by their range to 0 to 1), signed (to −1 to 1), 255 (divided by it), or no (inputs and targets as they are); auto goes by the model's metadata, else guesses by what the network does on its training rows, targets and counts too, and says so, with a warning where two ways with other answers are near")
	f.StringVar(&s.inputMean, "input-mean", "", "subtract these means from the inputs before the network: `X,...`, one for all, a channel or a column, or a JSON file; pixels run from 0 to 1")
	f.StringVar(&s.inputSD, "input-sd", "", "divide the inputs by these deviations: `X,...`, or a JSON file")
	f.StringVar(&s.targetMean, "target-mean", "", "mean `X` of the targets that the network was trained on standardized; results are in the units of the data")
	f.StringVar(&s.targetSD, "target-sd", "", "deviation `X` of those targets")
	f.Uint64Var(&o.Seed, "seed", 0, "seed `N` of training, of --select, the error report, and of predict --link mc and --predictive bnn (default 0)")
	f.BoolVar(&con.JSON, "json", false, "write JSON to standard output")
	f.BoolVar(&con.Strict, "strict", false, "exit with status 1 on a warning, and at once on one that the network does not suit the data or the prior; what is said on reading the model does not count")
	f.BoolVar(&con.Quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&con.Verbose, "verbose", false, "say on standard error what is done")
	Limits(c, &s.Process)
}

// Rows defines the flags that say which rows a verb takes; it takes fallback where none is given.
func Rows(c *cobra.Command, s *problem.RowFlags, verb, fallback string) {
	f := c.Flags()
	f.StringVar(&s.Index, "index", "", verb+" the test rows of this `LIST`, such as 24 or 1,2,5-9, counted from 0 in the original file (default "+fallback+")")
	f.StringVar(&s.TestIndex, "test-index", "", verb+" the test rows listed in `FILE`, one row number a line, in that order")
	f.BoolVar(&s.All, "all", false, verb+" all test rows")
	f.StringVar(&s.Input, "input", "", verb+" rows of your own from `FILE`, a folder of pictures, or - for standard input: a PNG or JPEG picture, CSV (.gz or not) or NumPy's .npy and .npz, with any number of rows")
	f.StringVar(&s.Invert, "invert", "", "`yes|no`: pictures of --input are dark ink on light paper or not (default found by their borders, and said)")
	f.Lookup("invert").NoOptDefVal = "yes"
}

// Limits defines the flags that bound what the process takes.
func Limits(c *cobra.Command, s *Process) {
	f := c.Flags()
	f.StringVar(&s.profile, "profile", "", "write a `KIND` of profile, cpu, mem or trace, to the current directory")
	f.IntVar(&s.workers, "workers", 0, "let `N` goroutines work at a time (default one a processor)")
	f.StringVar(&s.memory, "max-memory", "", "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)")
}

// Apply sets what concerns the whole process and returns what undoes it.
func Apply(s *Common) (end func(), err error) {
	end = func() {}
	if s.profile != "" {
		// The package that Profiles ends the process where it cannot write.
		if err := console.Writable(profiles[s.profile].file); err != nil {
			return nil, err
		}
		p := profile.Start(profiles[s.profile].mode, profile.ProfilePath("."), profile.NoShutdownHook, profile.Quiet)
		end = p.Stop
	}
	if s.workers > 0 {
		before, stop := runtime.GOMAXPROCS(s.workers), end
		end = func() { stop(); runtime.GOMAXPROCS(before) }
	}
	if s.Limits.Memory >= 1<<30 {
		// A plan counts no garbage, and the collector otherwise leaves as much garbage as there is memory in use. What
		// a process holds before counts neither. Below a gigabyte the collector would cost more than the garbage does.
		var held runtime.MemStats
		runtime.ReadMemStats(&held)
		before, stop := debug.SetMemoryLimit(int64(held.Sys-held.HeapReleased)+s.Limits.Memory), end
		end = func() { stop(); debug.SetMemoryLimit(before) }
	}
	return end, nil
}

// profiles are the values of --profile: the file that is written, and what of.
var profiles = map[string]struct {
	file string
	mode func(*profile.Profile)
}{"cpu": {"cpu.pprof", profile.CPUProfile}, "mem": {"mem.pprof", profile.MemProfile}, "trace": {"trace.out", profile.TraceProfile}}

// mostWorkers bounds --workers; more would only cost memory.
const mostWorkers = 1024

// CheckProblem refuses values that are wrong without opening any file, and parses lists and sizes. A value of "" comes
// from a shell variable that is not set.
func CheckProblem(c *cobra.Command, s *Common) error {
	set := c.Flags()
	empty := ""
	set.Visit(func(f *pflag.Flag) {
		if strings.Trim(f.Value.String(), "[]") == "" {
			empty = f.Name
		}
	})
	switch _, known := profiles[s.profile]; {
	case empty != "":
		return job.Usagef("--%s is empty; give it a value or leave it out", empty)
	case !known && s.profile != "":
		return job.NotOneOf("profile", s.profile, slices.Sorted(maps.Keys(profiles)))
	case set.Changed("workers") && (s.workers < 1 || s.workers > mostWorkers):
		return job.Usagef("--workers %d must be 1 to %d", s.workers, mostWorkers)
	case set.Changed("train-count") && s.Data.TrainCount < 1:
		return job.Usagef("--train-count %d must be at least 1", s.Data.TrainCount)
	}
	o := &s.Task.FitOptions
	var err error
	if o.Memory, err = job.ParseBytes("max-memory", s.memory); err != nil {
		return err
	}
	if s.Model.Bind, err = assigned(s.bind, network.CutBinding, "bind", "a dimension and its size, or an input and its value or shape, such as height=48, sr=16000 or x=n,3,48,192"); err != nil {
		return err
	}
	if s.Model.InputColumns, err = assigned(s.inputColumns, cut, "input-columns", "an input and its columns, such as x=age,income or x=0-9"); err != nil {
		return err
	}
	for _, list := range []struct {
		flag, text string
		to         *[]string
	}{{"classes", s.classes, &s.Data.Classes}, {"class-names", s.classNames, &s.Data.ClassNames}} {
		if *list.to, err = problem.SplitNames(list.text); err != nil {
			return job.Usagef("--%s %v", list.flag, err)
		}
	}
	for _, list := range []struct {
		flag, text string
		to         *problem.Numbers
	}{{"input-mean", s.inputMean, &o.InputMean}, {"input-sd", s.inputSD, &o.InputSD}, {"target-mean", s.targetMean, &o.TargetMean}, {"target-sd", s.targetSD, &o.TargetSD}} {
		if *list.to, err = numbers(list.flag, list.text); err != nil {
			return err
		}
	}
	// What says how a verb comes by its posterior is among the options too, to be compared with the file of a posterior.
	for name, to := range map[string]*string{"method": &o.Method.Name, "select": &o.Method.Select, "at": &o.Prior.At, "tune-prior": &o.Prior.Tune,
		"calibrate": &o.Calibrate, "structure": &o.Structure, "predictive": &o.Predictive, "checkpoint": &o.Checkpoint} {
		if set.Changed(name) {
			*to = set.Lookup(name).Value.String()
		}
	}
	for name, to := range map[string]*int{"inducing": &o.Method.Inducing, "samples": &o.Samples} {
		if err == nil && set.Changed(name) {
			*to, err = set.GetInt(name)
		}
	}
	if err == nil && set.Changed("within") {
		o.Method.Within, err = set.GetFloat64("within")
	}
	for name, to := range map[string]*bool{"certify": &o.Method.Certify, "refit": &o.Refit} {
		if err == nil && set.Changed(name) {
			*to, err = set.GetBool(name)
		}
	}
	if err != nil {
		return err
	}
	posterior := ""
	for _, name := range []string{"posterior", "inducing-file"} {
		if set.Changed(name) {
			posterior = set.Lookup(name).Value.String()
		}
	}
	if set.Changed("posterior") {
		s.File = posterior
	}
	o.Force = s.console.Force
	return s.Check(posterior)
}

// Session reads the model and the data, or those of the file of a posterior.
func (s *Common) Session(ctx context.Context) (*funcgp.Session, error) {
	o := s.Options()
	if s.File != "" {
		return funcgp.StartFrom(ctx, s.File, o)
	}
	return funcgp.Start(ctx, o.Model, o.Data, &o.Fit)
}

// Options are those of model, data and fit.
func (s *Common) Options() *funcgp.OpenOptions {
	return &funcgp.OpenOptions{Model: s.Model.ModelOptions, Data: s.Data.DataOptions, Fit: s.Task.FitOptions}
}

// Posterior fits the posterior, or reads it from its file. edit, which may be nil, changes the options first.
func (s *Common) Posterior(ctx context.Context, edit func(o *funcgp.FitOptions)) (*funcgp.Posterior, error) {
	with := *s
	if edit != nil {
		edit(&with.Task.FitOptions)
	}
	session, err := with.Session(ctx)
	if err != nil {
		return nil, err
	}
	return session.Posterior(ctx, nil)
}

// Inference are the options of the method.
func (s *Common) Inference() *inference.Flags { return inference.FlagsOf(&s.Task.FitOptions) }

// Calibrate is --calibrate with its default.
func (s *Common) Calibrate() string { return cmp.Or(s.Task.Calibrate, "loo") }

// assigned are the values of a flag of NAME=VALUE by name, nil for none. what says what they are.
func assigned(list []string, cut func(string) (string, string), flag, what string) (map[string]string, error) {
	var out map[string]string
	for _, text := range list {
		name, value := cut(text)
		switch _, twice := out[name]; {
		case name == "" || value == "" || slices.Contains(strings.Split(value, ","), ""):
			return nil, job.Usagef("--%s %q must be %s", flag, text, what)
		case twice:
			return nil, job.Usagef("--%s %q: %s is given twice", flag, text, name)
		case out == nil:
			out = map[string]string{}
		}
		out[name] = value
	}
	return out, nil
}

// cut splits NAME=VALUE.
func cut(text string) (name, value string) {
	name, value, _ = strings.Cut(text, "=")
	return name, value
}

// numbers reads a list of numbers, or takes the name of a JSON file with them.
func numbers(flag, text string) (n problem.Numbers, err error) {
	if strings.HasSuffix(strings.ToLower(text), ".json") {
		n.File = text
		return n, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return n, job.Usagef("--%s %q is neither a list of numbers such as 0.5,0.25 nor a .json file", flag, text)
		}
		n.Values = append(n.Values, v)
	}
	return n, nil
}
