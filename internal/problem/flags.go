package problem

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

// Flags are the flags that every verb takes. They are read only after check.
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
	Path          string // "" is the built-in network
	Freeze, Learn []string
	Output        string   // a tensor of the graph; "" is the only output
	Bind          []string // sizes of open dimensions and values of inputs, NAME=VALUE
	Columns       []string // of inputs, NAME=COLUMNS
	Memory        int64    // that of the limits

	Net    *network.Network // in place of a file; nil for none
	held   []byte           // an ONNX file that a posterior's file holds; nil for none
	heldIn string           // the name of that file
}

// DataFlags name the data and the training rows among them.
type DataFlags struct {
	Name, Target                  string
	TestFile, ValidFile, RowsFile string
	Split                         *int // nil where not given
	Count                         int  // 0 where not given
	ID                            string
	Weights                       string // column of the weights of the training rows; "" for none
	ClassText, ClassNameText      string
	classList, classNames         []string             // parsed from the texts by check
	Held                          *dataset.Data        // in place of a source; nil for none
	gone                          bool                 // the data of a saved posterior are not there, but its training rows are
	shared                        *sharedData          // of several networks; nil for one
	remembered                    bool                 // the data may be those of a saved posterior
	bySize                        map[string]FileCheck // files of the data whose checksums are taken as they are remembered
	InMemory                      bool                 // all inputs and a saved posterior are read into memory, as any is asked for at any time
}

// TaskFlags say what the outputs mean. A nil number was not given.
type TaskFlags struct {
	Likelihood       string
	Precision, Noise *float64
	WeightDecay      *float64 // λ of the training
	Prior            string   // a file with a prior; "" for none
	ClassWeights     string   // of the loss of the training; "" for none
	classWeights     *classWeights
	Smoothing        *float64 // ε of label smoothing
}

// LimitFlags concern the whole process.
type LimitFlags struct {
	Seed       uint64
	Workers    int
	Profile    string
	MemoryText string
	Memory     int64 // parsed from memoryText by check; 0 is a part of what is free
}

// Check refuses values that are wrong without opening any file, and parses lists and sizes. given tells whether a flag
// was given, and texts are the values of the flags that there are.
func (s *Flags) Check(given func(flag string) bool, texts map[string]string) error {
	s.given, s.texts = given, texts
	s.Data.remembered = (s.given("posterior") || s.given("inducing-file")) && !s.given("data")
	if err := s.Task.check(); err != nil {
		return err
	}
	if err := s.Limits.Check(given); err != nil {
		return err
	}
	s.Model.Memory = s.Limits.Memory
	if err := s.Model.checkBind(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, text := range s.Model.Columns {
		name, columns, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "" || slices.Contains(strings.Split(columns, ","), ""):
			return job.Usagef("--input-columns %q must be an input and its columns, such as x=age,income or x=0-9", text)
		case seen[name]:
			return job.Usagef("--input-columns %q: the columns of %s are given twice", text, name)
		}
		seen[name] = true
	}
	if err := s.Scaling.check(); err != nil {
		return err
	}
	if err := s.Outputs.check(); err != nil {
		return err
	}
	return s.Data.check(given, s.Task.Likelihood, s.Limits.Memory)
}

// CheckValues is Check for a program, which gives what is not zero. The others are flags that it gives beside these,
// with their values. It fills in the defaults of the data and of --standardize.
func (s *Flags) CheckValues(others map[string]string) error {
	m, d := &s.Model, &s.Data
	given := map[string]bool{"model": m.Path != "" || m.Net != nil, "data": d.Name != "" || d.Held != nil, "test-data": d.TestFile != "", "valid-data": d.ValidFile != "",
		"train-count": d.Count != 0, "train-index": d.RowsFile != "", "freeze": m.Freeze != nil, "learn": m.Learn != nil, "output": m.Output != "", "bind": m.Bind != nil}
	if d.Held != nil {
		d.Name = d.Held.Name
	}
	d.Name, s.Scaling.Standardize = cmp.Or(d.Name, "digits"), cmp.Or(s.Scaling.Standardize, "auto")
	return s.Check(func(flag string) bool { return given[flag] || others[flag] != "" }, others)
}

func (s *TaskFlags) check() error {
	var err error
	if s.classWeights, err = parseClassWeights(norm.NFC.String(s.ClassWeights)); err != nil {
		return job.Usagef("--class-weights %s: %v", s.ClassWeights, err)
	}
	positive := func(v *float64) bool { return v == nil || *v >= 1e-300 && *v <= 1e300 }
	switch {
	case !positive(s.Precision):
		return job.Usagef("--prior-precision %v must be a positive number", *s.Precision)
	case s.WeightDecay != nil && *s.WeightDecay == 0:
		return job.Usagef("--weight-decay 0 is no prior: training without decay has none that would be known; leave it out, and choose a precision with --tune-prior loo")
	case !positive(s.WeightDecay):
		return job.Usagef("--weight-decay %v must be a positive number", *s.WeightDecay)
	case s.WeightDecay != nil && s.Precision != nil:
		return job.Usagef("--weight-decay and --prior-precision exclude each other: both say the precision of the prior")
	case s.Prior != "" && s.Precision != nil:
		return job.Usagef("--prior and --prior-precision exclude each other: both say the prior")
	case s.Prior != "" && s.WeightDecay != nil:
		return job.Usagef("--prior and --weight-decay exclude each other: both say the prior")
	case s.Prior != "" && s.Noise != nil:
		return job.Usagef("--prior and --noise-variance exclude each other: the file says the noise variance too")
	case s.Smoothing != nil && !(*s.Smoothing >= 0 && *s.Smoothing < 1):
		return job.Usagef("--label-smoothing %v must be at least 0 and less than 1", *s.Smoothing)
	case !positive(s.Noise):
		return job.Usagef("--noise-variance %v must be a positive number", *s.Noise)
	case s.Likelihood == "":
		return nil
	case !isLikelihood(s.Likelihood):
		return job.NotOneOf("likelihood", s.Likelihood, Likelihoods)
	case s.Noise != nil && !HasNoise(LikelihoodNamed(s.Likelihood)):
		return job.Usagef("--noise-variance is for --likelihood gaussian, not %s", s.Likelihood)
	case s.Smoothing != nil && !HasClasses(LikelihoodNamed(s.Likelihood)):
		return job.Usagef("--label-smoothing is for labels, not for --likelihood %s", s.Likelihood)
	case s.classWeights != nil && !HasClasses(LikelihoodNamed(s.Likelihood)):
		return job.Usagef("--class-weights is for labels, not for --likelihood %s", s.Likelihood)
	}
	return nil
}

// check looks at the flags beside the likelihood, which may be "". Data that are made and not read from a file are
// opened, so that their name is known to be right.
func (s *DataFlags) check(given func(flag string) bool, likelihood string, memory int64) error {
	switch {
	case given("train-count") && s.Count < 1:
		return job.Usagef("--train-count %d must be at least 1", s.Count)
	case given("train-count") && given("train-index"):
		return job.Usagef("--train-count and --train-index exclude each other")
	case s.Split != nil && given("test-data"):
		return job.Usagef("--split and --test-data exclude each other")
	case s.Split != nil && given("valid-data"):
		return job.Usagef("--split and --valid-data exclude each other")
	case s.Split != nil && *s.Split < 0:
		return job.Usagef("--split %d must be 0 or more", *s.Split)
	}
	for _, list := range []struct {
		flag, text string
		to         *[]string
	}{{"classes", s.ClassText, &s.classList}, {"class-names", s.ClassNameText, &s.classNames}} {
		var err error
		if *list.to, err = splitNames(norm.NFC.String(list.text)); err != nil {
			return job.Usagef("--%s %v", list.flag, err)
		}
		if len(*list.to) == 1 {
			return job.Usagef("--%s %s is one class; name at least two with commas between them, as in 0,1,2", list.flag, list.text)
		}
	}
	if s.classList != nil && s.classNames != nil && len(s.classList) != len(s.classNames) {
		return job.Usagef("--classes has %d classes, but --class-names names %d", len(s.classList), len(s.classNames))
	}
	for _, name := range s.classList {
		if s.classNames != nil {
			break
		}
		if err := s.checkNumber("--classes", name); err != nil {
			return err
		}
	}
	if s.classList != nil && likelihood != "" {
		lik := LikelihoodNamed(likelihood)
		switch {
		case !HasClasses(lik):
			return job.Usagef("--classes is for labels, not for --likelihood %s", likelihood)
		case !IsSoftmax(lik) && len(s.classList) != 2:
			return job.Usagef("--likelihood %s is for two classes, not %d", likelihood, len(s.classList))
		}
	}
	if kind, _, _ := strings.Cut(s.Name, ":"); kind == "digits" && !s.remembered {
		if _, err := dataset.Open(context.Background(), s.Name, s.options(memory)); err != nil {
			return job.Usagef("--data %v", err)
		}
	}
	for _, flag := range []string{"target", "id", "row-weights", "split", "test-data", "valid-data"} {
		if s.Name == "mnist" && given(flag) {
			return job.Usagef("--%s is for a CSV file, not --data mnist", flag)
		}
	}
	return nil
}

// ByRange is the size in bytes from which the inputs of a file stay in it: reading a tile of rows again in each pass
// costs little beside linearizing them.
const ByRange = 64 << 20

// options are for dataset.Open.
func (s *DataFlags) options(memory int64) *dataset.OpenOptions {
	o := &dataset.OpenOptions{Target: s.Target, ID: s.ID, Weights: s.Weights, ClassNames: s.classNames, TestFile: s.TestFile, ValidFile: s.ValidFile, Split: s.Split, MaxBytes: gp.MemoryBudget(memory), ByRange: ByRange}
	if s.InMemory {
		o.ByRange = 0
	}
	return o
}

// Files are the files that the flags name, which no result may replace.
func (s *Flags) Files() []job.FlagPath {
	list := s.Scaling.files()
	for _, path := range dataset.FilesOf(s.Data.Name) {
		list = append(list, job.FlagPath{Flag: "--data", Path: path})
	}
	return append(list, []job.FlagPath{{Flag: "--model", Path: s.Model.Path}, {Flag: "--test-data", Path: s.Data.TestFile}, {Flag: "--valid-data", Path: s.Data.ValidFile}, {Flag: "--train-index", Path: s.Data.RowsFile}, {Flag: "--prior", Path: s.Task.Prior}}...)
}

// mostWorkers bounds --workers; more would only cost memory.
const mostWorkers = 1024

// Check refuses limits that are wrong.
func (s *LimitFlags) Check(given func(flag string) bool) error {
	switch {
	case given("workers") && (s.Workers < 1 || s.Workers > mostWorkers):
		return job.Usagef("--workers %d must be 1 to %d", s.Workers, mostWorkers)
	}
	if s.MemoryText == "" {
		return nil
	}
	var err error
	s.Memory, err = parseBytes(s.MemoryText)
	return err
}

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
