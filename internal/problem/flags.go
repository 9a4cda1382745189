package problem

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

// Flags are the flags that every verb takes. They are read only after
// check.
type Flags struct {
	Model  ModelFlags
	Data   DataFlags
	Task   TaskFlags
	Limits LimitFlags

	Scaling ScalingFlags
	Outputs OutputFlags

	given func(flag string) bool // set by Check: whether a flag was given
	texts map[string]string      // set by Check: the values of the flags that the file of a posterior says
}

// ModelFlags name the network.
type ModelFlags struct {
	path          string // "" is the built-in network
	freeze, learn []string
	output        string   // "" is the only one
	columns       []string // of inputs, NAME=COLUMNS
	memory        int64    // that of the limits

	net    *network.Network // in place of a file; nil for none
	held   []byte           // an ONNX file that a posterior's file holds; nil for none
	heldIn string           // the name of that file
}

// DataFlags name the data and the training rows among them.
type DataFlags struct {
	name, target                  string
	testFile, validFile, rowsFile string
	Split                         *int // nil where not given
	count                         int  // 0 where not given
	id                            string
	ClassText, classNameText      string
	classList, classNames         []string             // parsed from the texts by check
	held                          *dataset.Data        // in place of a source; nil for none
	gone                          bool                 // the data of a saved posterior are not there, but its training rows are
	shared                        *sharedData          // of several networks; nil for one
	remembered                    bool                 // the data may be those of a saved posterior
	bySize                        map[string]FileCheck // files of the data whose checksums are taken as they are remembered
	Beside                        bool                 // the verb goes on while images are still read
	InMemory                      bool                 // all inputs and a saved posterior are read into memory, as any is asked for at any time
}

// TaskFlags say what the outputs mean. A nil number was not given.
type TaskFlags struct {
	Likelihood       string
	Precision, Noise *float64
	WeightDecay      *float64 // λ of the training
	Prior            string   // a file with a prior; "" for none
}

// LimitFlags concern the whole process.
type LimitFlags struct {
	Seed       uint64
	workers    int
	profile    string
	memoryText string
	Memory     int64 // parsed from memoryText by check; 0 is a part of what is free
}

// CommonValues are what a shell completes.
var CommonValues = map[string][]string{
	"data":       {"digits", "mnist"},
	"likelihood": likelihoods,
	"profile":    profiles,

	"standardize": standardizations,
}

// Add defines the flags; the words in back quotes are the names of values.
func (s *Flags) Add(c *cobra.Command, con *console.Console, withModel bool) {
	f := c.Flags()
	if withModel {
		f.StringVar(&s.Model.path, "model", "", "trained network, an ONNX `FILE` (default the built-in network); explain takes several, A,B,...")
		f.StringVar(&s.Model.output, "output", "", "output `NAME` of a model with several")
		f.StringArrayVar(&s.Model.columns, "input-columns", nil, "`INPUT=COLUMNS` of the data that an input of the model takes, by name, a:c or 0-9, for example x=age,income; once for each input (default the columns in order)")
		f.StringVar(&s.Outputs.text, "outputs", "", "of many classes, tell apart those of this `LIST`, such as 3,17 or cat,dog, or the K most probable with top:K, and take the others as one class; all takes every class (default top:10 of more than 100 classes)")
	}
	f.StringVar(&s.Data.name, "data", "digits", "rows from `NAME|DIR|FILE`: digits (synthetic; digits:TRAIN,TEST sets how many), mnist (downloaded once), a directory of IDX files, a CSV file with a header, plain or .gz, or NumPy's .npy or .npz; CSV and .npy files also by a pattern in quotes, 'x-*.npy', or a list a.csv,b.csv (default digits)")
	f.Lookup("data").DefValue = "" // the text says it
	f.StringVar(&s.Data.ClassText, "classes", "", "keep the rows of these classes, in this `ORDER`, for example 4,9 or no,yes")
	f.StringVar(&s.Data.classNameText, "class-names", "", "`NAMES` of the classes in the order of the outputs, for example repaid,default (default the model's, else the words of the data, sorted)")
	f.StringVar(&s.Data.id, "id", "", "`COLUMN` of a CSV file that names the rows and is no feature, or array of a .npz file")
	f.IntVar(&s.Data.count, "train-count", 0, "train on the first `N` kept rows (default all, or those that the model records)")
	f.StringVar(&s.Data.rowsFile, "train-index", "", "train on the rows listed in `FILE`, one row number a line")
	f.StringVar(&s.Data.target, "target", "", "target `COLUMN` of a CSV file, or several as a,b, one for each output (default the last); of .npz the array, of .npy the file")
	OptionalInt(c, &s.Data.Split, "split", "take the parts of a CSV file from split `K` of FILE.splits.csv")
	f.StringVar(&s.Data.testFile, "test-data", "", "take the test rows of a CSV file from a second `FILE`")
	f.StringVar(&s.Data.validFile, "valid-data", "", "take the validation rows of a CSV file from another `FILE`; predictions are calibrated on them with --calibrate heldout")
	f.StringVar(&s.Task.Likelihood, "likelihood", "", "`NAME` of the likelihood: gaussian, bernoulli, categorical, poisson, or heteroscedastic, whose outputs are the means and then the log noise variances (default the model's, else by the targets)")
	OptionalFloat(c, &s.Task.Precision, "prior-precision", "precision `X` of the Gaussian prior on every parameter: of a training, of the evidence, or of answers in place of the match (default the model's, else 1; see --at)")
	OptionalFloat(c, &s.Task.WeightDecay, "weight-decay", "the prior precision of the training by the weight decay `X`, λ, of torch.optim.SGD or Adam on a mean loss of N training rows: N·λ, or N·λ/(2σ²) for MSELoss (AdamW's decay is no such prior)")
	if withModel {
		f.StringVar(&s.Task.Prior, "prior", "", "take the prior, and the noise variance of the gaussian likelihood, from `FILE`, which gpexplain evidence --optimize wrote")
	}
	OptionalFloat(c, &s.Task.Noise, "noise-variance", "noise variance `X` of the gaussian likelihood (default the model's, else 1; of answers at the match by leave-one-out)")
	f.StringSliceVar(&s.Model.freeze, "freeze", nil, "tensors of the model that are not parameters, as inspect names them: `NAME,...`")
	f.StringSliceVar(&s.Model.learn, "learn", nil, "tensors of the model that are parameters, though they were taken for constants, as inspect names them: `NAME,...`")
	s.Scaling.add(c)
	f.Uint64Var(&s.Limits.Seed, "seed", 0, "seed `N` of training, of --select, --method cg, the error report, and of predict --link mc and --predictive bnn (default 0)")
	f.BoolVar(&con.JSON, "json", false, "write JSON to standard output")
	f.BoolVar(&con.Strict, "strict", false, "exit with status 1 on a warning, and at once on one that the network does not suit the data or the prior; what is said on reading the model does not count")
	f.BoolVar(&con.Quiet, "quiet", false, "write nothing to standard error but an error")
	f.BoolVar(&con.Verbose, "verbose", false, "say on standard error what is done")
	s.Limits.Add(c)
}

// Add defines the flags that bound what the process takes.
func (s *LimitFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.profile, "profile", "", "write a `KIND` of profile, cpu, mem or trace, to the current directory")
	f.IntVar(&s.workers, "workers", 0, "let `N` goroutines work at a time (default one a processor)")
	f.StringVar(&s.memoryText, "max-memory", "", "take at most this much memory, a `SIZE` such as 4GiB (default 80 % of what is free)")
}

// Check refuses values that are wrong without opening any file, and parses
// lists and sizes.
func (s *Flags) Check(c *cobra.Command) error {
	s.given, s.texts = c.Flags().Changed, savedTexts(c.Flags())
	s.Data.remembered = (s.given("posterior") || s.given("inducing-file")) && !s.given("data")
	if err := checkEmpty(c); err != nil {
		return err
	}
	if err := s.Task.check(); err != nil {
		return err
	}
	if err := s.Limits.Check(c); err != nil {
		return err
	}
	s.Model.memory = s.Limits.Memory
	if err := checkInputColumns(s.Model.columns); err != nil {
		return err
	}
	if err := s.Scaling.check(); err != nil {
		return err
	}
	if err := s.Outputs.check(); err != nil {
		return err
	}
	return s.Data.check(c, s.Task.Likelihood, s.Limits.Memory)
}

// checkEmpty refuses "", which comes from a shell variable that is not set.
func checkEmpty(c *cobra.Command) error {
	for _, name := range []string{"model", "data", "classes", "class-names", "id", "index", "train-index", "target", "test-data", "valid-data", "likelihood", "profile", "max-memory", "freeze", "learn", "output", "outputs",
		"standardize", "input-mean", "input-sd", "target-mean", "target-sd",
		"input", "terms", "contrast", "html", "png", "csv", "calibrate", "test-index", "link", "arch", "activation", "out",
		"method", "select", "posterior", "inducing-file", "shard", "checkpoint", "tune-prior", "attribution-precision", "prior", "form"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return console.Usagef("--%s is empty; give it a value or leave it out", name)
		}
	}
	return nil
}

func (s *TaskFlags) check() error {
	positive := func(v *float64) bool { return v == nil || *v >= 1e-300 && *v <= 1e300 }
	switch {
	case !positive(s.Precision):
		return console.Usagef("--prior-precision %v must be a positive number", *s.Precision)
	case s.WeightDecay != nil && *s.WeightDecay == 0:
		return console.Usagef("--weight-decay 0 is no prior: training without decay has none that would be known; leave it out, and choose a precision with --tune-prior loo")
	case !positive(s.WeightDecay):
		return console.Usagef("--weight-decay %v must be a positive number", *s.WeightDecay)
	case s.WeightDecay != nil && s.Precision != nil:
		return console.Usagef("--weight-decay and --prior-precision exclude each other: both say the precision of the prior")
	case s.Prior != "" && s.Precision != nil:
		return console.Usagef("--prior and --prior-precision exclude each other: both say the prior")
	case s.Prior != "" && s.WeightDecay != nil:
		return console.Usagef("--prior and --weight-decay exclude each other: both say the prior")
	case s.Prior != "" && s.Noise != nil:
		return console.Usagef("--prior and --noise-variance exclude each other: the file says the noise variance too")
	case !positive(s.Noise):
		return console.Usagef("--noise-variance %v must be a positive number", *s.Noise)
	case s.Likelihood == "":
		return nil
	case !isLikelihood(s.Likelihood):
		return console.NotOneOf("likelihood", s.Likelihood, likelihoods)
	case s.Noise != nil && !HasNoise(LikelihoodNamed(s.Likelihood)):
		return console.Usagef("--noise-variance is for --likelihood gaussian, not %s", s.Likelihood)
	}
	return nil
}

// check looks at the flags beside the likelihood, which may be "". Data that
// are made and not read from a file are opened, so that their name is known to
// be right.
func (s *DataFlags) check(c *cobra.Command, likelihood string, memory int64) error {
	f := c.Flags()
	switch {
	case f.Changed("train-count") && s.count < 1:
		return console.Usagef("--train-count %d must be at least 1", s.count)
	case f.Changed("train-count") && f.Changed("train-index"):
		return console.Usagef("--train-count and --train-index exclude each other")
	case s.Split != nil && f.Changed("test-data"):
		return console.Usagef("--split and --test-data exclude each other")
	case s.Split != nil && f.Changed("valid-data"):
		return console.Usagef("--split and --valid-data exclude each other")
	case s.Split != nil && *s.Split < 0:
		return console.Usagef("--split %d must be 0 or more", *s.Split)
	}
	if err := s.checkNames(); err != nil {
		return err
	}
	if s.classList != nil && likelihood != "" {
		lik := LikelihoodNamed(likelihood)
		switch {
		case !HasClasses(lik):
			return console.Usagef("--classes is for labels, not for --likelihood %s", likelihood)
		case !IsSoftmax(lik) && len(s.classList) != 2:
			return console.Usagef("--likelihood %s is for two classes, not %d", likelihood, len(s.classList))
		}
	}
	if kind, _, _ := strings.Cut(s.name, ":"); kind == "digits" && !s.remembered {
		if _, err := dataset.Open(context.Background(), s.name, s.options(memory)); err != nil {
			return console.Usagef("--data %v", err)
		}
	}
	for _, flag := range []string{"target", "id", "split", "test-data", "valid-data"} {
		if s.name == "mnist" && f.Changed(flag) {
			return console.Usagef("--%s is for a CSV file, not --data mnist", flag)
		}
	}
	return nil
}

// ByRange is the size in bytes from which the inputs of a file stay in it: reading a tile of
// rows again in each pass costs little beside linearizing them.
const ByRange = 64 << 20

// options are those of dataset.Open.
func (s *DataFlags) options(memory int64) *dataset.OpenOptions {
	o := &dataset.OpenOptions{Target: s.target, ID: s.id, ClassNames: s.classNames, TestFile: s.testFile, ValidFile: s.validFile, Split: s.Split, MaxBytes: gp.MemoryBudget(memory), ByRange: ByRange, Beside: s.Beside}
	if s.InMemory {
		o.ByRange = 0
	}
	return o
}

// Files are the files that the flags name, which no result may replace.
func (s *Flags) Files() []console.FlagPath {
	list := s.Scaling.files()
	for _, path := range dataset.FilesOf(s.Data.name) {
		list = append(list, console.FlagPath{Flag: "--data", Path: path})
	}
	return append(list, []console.FlagPath{{Flag: "--model", Path: s.Model.path}, {Flag: "--test-data", Path: s.Data.testFile}, {Flag: "--valid-data", Path: s.Data.validFile}, {Flag: "--train-index", Path: s.Data.rowsFile}, {Flag: "--prior", Path: s.Task.Prior}}...)
}

// mostWorkers bounds --workers; more would only cost memory.
const mostWorkers = 1024

// Check refuses limits that are wrong.
func (s *LimitFlags) Check(c *cobra.Command) error {
	switch {
	case c.Flags().Changed("workers") && (s.workers < 1 || s.workers > mostWorkers):
		return console.Usagef("--workers %d must be 1 to %d", s.workers, mostWorkers)
	case s.profile != "" && profileMode(s.profile) == nil:
		return console.NotOneOf("profile", s.profile, profiles)
	}
	var err error
	s.Memory, err = parseBytes(s.memoryText)
	return err
}

// Apply sets what concerns the whole process and returns what undoes it.
func (s *LimitFlags) Apply() (end func(), err error) {
	end = func() {}
	if s.profile != "" {
		// The package that profiles ends the process where it cannot write.
		if err := console.Writable(profileFile[s.profile]); err != nil {
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

var profiles = []string{"cpu", "mem", "trace"}

var profileFile = map[string]string{"cpu": "cpu.pprof", "mem": "mem.pprof", "trace": "trace.out"}

func profileMode(name string) func(*profile.Profile) {
	return map[string]func(*profile.Profile){"cpu": profile.CPUProfile, "mem": profile.MemProfile, "trace": profile.TraceProfile}[name]
}

// OptionalInt defines a flag whose integer is nil where it is not given.
func OptionalInt(c *cobra.Command, value **int, name, usage string) {
	c.Flags().Var(optional[int]{value, func(text string) (int, error) {
		v, err := strconv.ParseInt(text, 0, strconv.IntSize)
		return int(v), err
	}}, name, usage)
}

// OptionalFloat defines a flag whose number is nil where it is not given.
func OptionalFloat(c *cobra.Command, value **float64, name, usage string) {
	c.Flags().Var(optional[float64]{value, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }}, name, usage)
}

// optional is the value of a flag that is nil where it is not given.
type optional[T any] struct {
	to    **T
	parse func(text string) (T, error)
}

// Set implements pflag.Value.
func (o optional[T]) Set(text string) error {
	v, err := o.parse(text)
	*o.to = &v
	return err
}

// String implements pflag.Value.
func (o optional[T]) String() string {
	if o.to == nil || *o.to == nil {
		return ""
	}
	return fmt.Sprint(**o.to)
}

// Type implements pflag.Value.
func (o optional[T]) Type() string { return "func" }

// parseClasses reads the labels of a model's metadata, such as 4,9; "" is nil.
func parseClasses(text string) ([]int, error) {
	names, err := splitNames(text)
	if err == nil && len(names) == 1 {
		err = strconv.ErrRange
	}
	var list []int
	for _, field := range names {
		k, e := strconv.Atoi(field)
		if e != nil {
			err = e
		}
		list = append(list, k)
	}
	return list, err
}

// FormatInts writes integers with commas between them.
func FormatInts(list []int) string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = strconv.Itoa(k)
	}
	return strings.Join(out, ",")
}
