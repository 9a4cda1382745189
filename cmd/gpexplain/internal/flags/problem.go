// Package flags defines the flags of the command line that say what a problem, its posterior and the rows in question
// are.
package flags

import (
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// Problem defines the flags of model, data, prior and scaling, of what is written, and of the limits; the words in
// back quotes are the names of values.
func Problem(c *cobra.Command, con *console.Console, s *problem.Flags, withModel bool) {
	f := c.Flags()
	if withModel {
		f.StringVar(&s.Model.Path, "model", "", "trained network, an ONNX `FILE` (default the built-in network); explain takes several, A,B,...")
		f.StringVar(&s.Model.Output, "output", "", "`NAME` of the tensor that is the output f: of several outputs, or any inside the graph")
		f.StringArrayVar(&s.Model.Bind, "bind", nil, "`NAME=VALUE` of what a model leaves open: the size of a dimension, height=48; one number that an input is in all its elements, sr=16000 or state=0; or the shape of an input, x=n,3,48,192 with n for the examples; once for each name")
		f.StringArrayVar(&s.Model.Columns, "input-columns", nil, "`INPUT=COLUMNS` of the data that an input of the model takes, by name, a:c or 0-9, for example x=age,income; once for each input (default the columns in order)")
		f.StringVar(&s.Outputs.Text, "outputs", "", "of many classes, tell apart those of this `LIST`, such as 3,17 or cat,dog, or the K most probable with top:K, and take the others as one class; all takes every class (default top:10 of more than 100 classes)")
	}
	f.StringVar(&s.Data.Name, "data", "digits", "rows from `NAME|DIR|FILE`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), a directory of IDX files, a CSV file with a header, plain or .gz, or NumPy's .npy or .npz; CSV and .npy files also by a pattern in quotes, 'x-*.npy', or a list a.csv,b.csv (default digits)")
	f.Lookup("data").DefValue = "" // the text says it
	f.StringVar(&s.Data.ClassText, "classes", "", "keep the rows of these classes, in this `ORDER`, for example 4,9 or no,yes")
	f.StringVar(&s.Data.ClassNameText, "class-names", "", "`NAMES` of the classes in the order of the outputs, for example repaid,default, or of several labels a row (default the model's, else the words of the data, sorted, or the target columns)")
	f.StringVar(&s.Data.ID, "id", "", "`COLUMN` of a CSV file that names the rows and is no feature, or array of a .npz file")
	f.StringVar(&s.Data.Weights, "row-weights", "", "`COLUMN` of a CSV file with the weights of the training rows in the loss, numbers of 0 or more, which is no feature, or array of a .npz file: a row of weight 2 counts as two equal rows, and one of weight 0 as none")
	f.IntVar(&s.Data.Count, "train-count", 0, "train on the first `N` kept rows (default all, or those that the model records)")
	f.StringVar(&s.Data.RowsFile, "train-index", "", "train on the rows listed in `FILE`, one row number a line")
	f.StringVar(&s.Data.Target, "target", "", "target `COLUMN` of a CSV file, or several as a,b, one for each output: numbers, or labels 0 and 1 of which a row has any number (default the last); of .npz the array, of .npy the file")
	OptionalInt(c, &s.Data.Split, "split", "take the parts of a CSV file from split `K` of FILE.splits.csv")
	f.StringVar(&s.Data.TestFile, "test-data", "", "take the test rows of a CSV file from a second `FILE`")
	f.StringVar(&s.Data.ValidFile, "valid-data", "", "take the validation rows of a CSV file from another `FILE`; predictions are calibrated on them with --calibrate heldout")
	f.StringVar(&s.Task.Likelihood, "likelihood", "", "`NAME` of the likelihood: gaussian, bernoulli of two classes or of labels of which a row has any number, categorical, poisson, negative-binomial:R of counts with the variance μ + μ²/R, or heteroscedastic, whose outputs are the means and then the log noise variances (default the model's, else by the targets)")
	OptionalFloat(c, &s.Task.Precision, "prior-precision", "precision `X` of the Gaussian prior on every parameter: of a training, of the evidence, or of answers in place of the match (default the model's, else 1; see --at)")
	OptionalFloat(c, &s.Task.WeightDecay, "weight-decay", "the prior precision of the training by the weight decay `X`, λ, of torch.optim.SGD or Adam on a mean loss of N training rows: N·λ, N·C·λ of C labels a row, or N·λ/(2σ²) for MSELoss (AdamW's decay is no such prior)")
	f.StringVar(&s.Task.ClassWeights, "class-weights", "", "weights of the classes in the loss of the training, as weight= or pos_weight= of PyTorch: `CLASS=W,...`, 1 for those not named, or balanced for N/(C·n) of a class with n of the N training rows; of several labels a row, the weights of the rows that have each, LABEL=W, or balanced for the rows without over those with it; the posterior is fitted to that loss, and probabilities are for classes as often as they occur (default the model's)")
	OptionalFloat(c, &s.Task.Smoothing, "label-smoothing", "label smoothing `X` in the loss of the training, ε of the shares (1−ε)y + ε/C of C classes as PyTorch has it; the posterior is fitted to that loss (default the model's)")
	if withModel {
		f.BoolVar(&con.Force, "force", false, "answer even where the outputs are those of the classes in another order, which is an error otherwise")
		f.StringVar(&s.Task.Prior, "prior", "", "take the prior, and the noise variance of the gaussian likelihood, from `FILE`, which gpexplain evidence --optimize wrote")
	}
	OptionalFloat(c, &s.Task.Noise, "noise-variance", "noise variance `X` of the gaussian likelihood (default the model's, else 1; of answers at the match by leave-one-out)")
	f.StringSliceVar(&s.Model.Freeze, "freeze", nil, "tensors of the model that are not parameters, as inspect names them: `NAME,...`")
	f.StringSliceVar(&s.Model.Learn, "learn", nil, "tensors of the model that are parameters, though they were taken for constants, as inspect names them: `NAME,...`")
	// What was done to inputs and targets outside the network
	f.StringVar(&s.Scaling.Standardize, "standardize", "auto", "`WAY` in which inputs are scaled by the training rows: yes (less their mean, over their deviation, by column or by channel), sample (with deviations over N − 1), robust (less their median, over their interquartile range), minmax (by their range to 0 to 1), signed (to −1 to 1), 255 (divided by it), or no (inputs and targets as they are); auto goes by the model's metadata, else guesses by what the network does on its training rows, targets and counts too, and says so, with a warning where two ways with other answers are near")
	f.StringVar(&s.Scaling.InputMean.Text, "input-mean", "", "subtract these means from the inputs before the network: `X,...`, one for all, a channel or a column, or a JSON file; pixels run from 0 to 1")
	f.StringVar(&s.Scaling.InputSD.Text, "input-sd", "", "divide the inputs by these deviations: `X,...`, or a JSON file")
	f.StringVar(&s.Scaling.TargetMean.Text, "target-mean", "", "mean `X` of the targets that the network was trained on standardized; results are in the units of the data")
	f.StringVar(&s.Scaling.TargetSD.Text, "target-sd", "", "deviation `X` of those targets")
	f.Uint64Var(&s.Limits.Seed, "seed", 0, "seed `N` of training, of --select, the error report, and of predict --link mc and --predictive bnn (default 0)")
	f.BoolVar(&con.JSON, "json", false, "write JSON to standard output")
	f.BoolVar(&con.Strict, "strict", false, "exit with status 1 on a warning, and at once on one that the network does not suit the data or the prior; what is said on reading the model does not count")
	f.BoolVar(&con.Quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&con.Verbose, "verbose", false, "say on standard error what is done")
	Limits(c, &s.Limits)
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
func Limits(c *cobra.Command, s *problem.LimitFlags) {
	f := c.Flags()
	f.StringVar(&s.Profile, "profile", "", "write a `KIND` of profile, cpu, mem or trace, to the current directory")
	f.IntVar(&s.Workers, "workers", 0, "let `N` goroutines work at a time (default one a processor)")
	f.StringVar(&s.MemoryText, "max-memory", "", "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)")
}

// Apply sets what concerns the whole process and returns what undoes it.
func Apply(s *problem.LimitFlags) (end func(), err error) {
	end = func() {}
	if s.Profile != "" {
		// The package that Profiles ends the process where it cannot write.
		if err := console.Writable(profiles[s.Profile].file); err != nil {
			return nil, err
		}
		p := profile.Start(profiles[s.Profile].mode, profile.ProfilePath("."), profile.NoShutdownHook, profile.Quiet)
		end = p.Stop
	}
	if s.Workers > 0 {
		before, stop := runtime.GOMAXPROCS(s.Workers), end
		end = func() { stop(); runtime.GOMAXPROCS(before) }
	}
	if s.Memory >= 1<<30 {
		// A plan counts no garbage, and the collector otherwise leaves as much garbage as there is memory in use. What
		// a process holds before counts neither. Below a gigabyte the collector would cost more than the garbage does.
		var held runtime.MemStats
		runtime.ReadMemStats(&held)
		before, stop := debug.SetMemoryLimit(int64(held.Sys-held.HeapReleased)+s.Memory), end
		end = func() { stop(); debug.SetMemoryLimit(before) }
	}
	return end, nil
}

// profiles are the values of --profile: the file that is written, and what of.
var profiles = map[string]struct {
	file string
	mode func(*profile.Profile)
}{"cpu": {"cpu.pprof", profile.CPUProfile}, "mem": {"mem.pprof", profile.MemProfile}, "trace": {"trace.out", profile.TraceProfile}}

// CheckProblem refuses values that are wrong without opening any file, and parses lists and sizes. A value of "" comes
// from a shell variable that is not set.
func CheckProblem(c *cobra.Command, s *problem.Flags) error {
	texts, empty := map[string]string{}, ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if texts[f.Name] = f.Value.String(); f.Changed && strings.Trim(texts[f.Name], "[]") == "" {
			empty = f.Name
		}
	})
	if empty != "" {
		return job.Usagef("--%s is empty; give it a value or leave it out", empty)
	}
	if _, ok := profiles[s.Limits.Profile]; !ok && s.Limits.Profile != "" {
		return job.NotOneOf("profile", s.Limits.Profile, slices.Sorted(maps.Keys(profiles)))
	}
	return s.Check(c.Flags().Changed, texts)
}
