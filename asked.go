package funcgp

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// asked are what a problem is read from: the options of model, data and fit, with their lists parsed.
type asked struct {
	Model  modelFlags
	Data   dataFlags
	Task   taskFlags
	Limits limitFlags

	scaling scalingFlags
	outputs outputFlags

	posterior string // file of a posterior, or of inducing examples; "" for none
}

// modelFlags name the network.
type modelFlags struct {
	Model
	Memory int64 // that of the limits

	held   []byte // an ONNX file that a posterior's file holds; nil for none
	heldIn string // the name of that file
}

// dataFlags name the data and the training rows among them.
type dataFlags struct {
	Data
	classList, classNames []string             // in NFC
	Held                  *dataset.Data        // in place of a source; nil for none
	gone                  bool                 // the data of a saved posterior are not there, but its training rows are
	shared                *sharedData          // of several networks; nil for one
	remembered            bool                 // the data may be those of a saved posterior
	bySize                map[string]fileCheck // files of the data whose checksums are taken as they are remembered
}

// taskFlags say what the outputs mean.
type taskFlags struct {
	FitOptions
	classWeights *classWeights
}

// limitFlags bound the work and seed its draws.
type limitFlags struct {
	Seed   uint64
	Memory int64 // 0 is a part of what is free
}

// Check refuses values that are wrong without opening any file, and parses lists. posterior is the file of a saved
// posterior, or of inducing examples, beside which the others are given; "" for none.
func (s *asked) Check(posterior string) error {
	s.posterior = posterior
	s.Limits = limitFlags{Seed: s.Task.Seed, Memory: s.Task.Memory}
	s.Model.Memory = s.Limits.Memory
	if s.Data.Held != nil {
		s.Data.Source = s.Data.Held.Name
	}
	s.Data.remembered = posterior != "" && s.Data.Source == ""
	if err := s.Task.check(); err != nil {
		return err
	}
	var err error
	if s.scaling, err = parseScaling(&s.Task.FitOptions); err != nil {
		return err
	}
	if s.outputs, err = parseOutputs(s.Task.Outputs); err != nil {
		return err
	}
	return s.Data.check(s.Task.Likelihood, s.Limits.Memory)
}

// given tells whether an option has a value other than its default.
func (s *asked) given(name string) bool {
	m, d := &s.Model, &s.Data
	switch name {
	case "posterior":
		return s.posterior != ""
	case "model":
		return m.File != "" || m.Network != nil
	case "freeze":
		return m.Freeze != nil
	case "learn":
		return m.Learn != nil
	case "output":
		return m.Output != ""
	case "bind":
		return m.Bind != nil
	case "input-columns":
		return m.InputColumns != nil
	case "data":
		return d.Source != ""
	case "test-data":
		return d.TestFile != ""
	case "valid-data":
		return d.ValidFile != ""
	case "split":
		return d.Split != nil
	case "target":
		return d.Target != ""
	case "id":
		return d.ID != ""
	case "row-weights":
		return d.RowWeights != ""
	case "seed":
		return s.Limits.Seed != 0
	}
	return s.texts()[name] != ""
}

// texts are the values of the options that the file of a posterior says, as a command line has them; "" is the default.
func (s *asked) texts() map[string]string {
	o, d := &s.Task.FitOptions, &s.Data
	optional := func(v *float64) string {
		if v == nil {
			return ""
		}
		return shortest(*v)
	}
	positive := func(v float64) string {
		if v == 0 {
			return ""
		}
		return shortest(v)
	}
	yes := map[bool]string{true: "true"}
	return map[string]string{"outputs": o.Outputs, "method": o.Method.Name, "inducing": positive(float64(o.Method.Inducing)), "within": positive(o.Method.Within),
		"certify": yes[o.Method.Certify], "select": o.Method.Select, "at": o.Prior.At, "refit": yes[o.Refit], "tune-prior": o.Prior.Tune,
		"train-count": positive(float64(d.TrainCount)), "train-index": d.TrainFile, "classes": job.JoinNames(d.Classes), "likelihood": o.Likelihood,
		"prior-precision": optional(o.Prior.Precision), "weight-decay": optional(o.Prior.WeightDecay), "label-smoothing": optional(o.LabelSmoothing),
		"class-weights": o.ClassWeights, "prior": o.Prior.File, "noise-variance": optional(o.NoiseVariance), "standardize": o.Standardize,
		"input-mean": o.InputMean.text(), "input-sd": o.InputSD.text(), "target-mean": o.TargetMean.text(), "target-sd": o.TargetSD.text(),
		"calibrate": o.Calibrate}
}

func (s *taskFlags) check() error {
	var err error
	if s.classWeights, err = parseClassWeights(norm.NFC.String(s.ClassWeights)); err != nil {
		return job.Usagef("{class-weights=%s}: %v", s.ClassWeights, err)
	}
	prior := &s.Prior
	positive := func(v *float64) bool { return v == nil || *v >= 1e-300 && *v <= 1e300 }
	switch {
	case !positive(prior.Precision):
		return job.Usagef("{prior-precision=%v} must be a positive number", *prior.Precision)
	case prior.WeightDecay != nil && *prior.WeightDecay == 0:
		return job.Usagef("{weight-decay=0} is no prior: training without decay has none that would be known; leave it out, and choose a precision with {tune-prior=loo}")
	case !positive(prior.WeightDecay):
		return job.Usagef("{weight-decay=%v} must be a positive number", *prior.WeightDecay)
	case prior.WeightDecay != nil && prior.Precision != nil:
		return job.Usagef("{weight-decay} and {prior-precision} exclude each other: both say the precision of the prior")
	case prior.File != "" && prior.Precision != nil:
		return job.Usagef("{prior} and {prior-precision} exclude each other: both say the prior")
	case prior.File != "" && prior.WeightDecay != nil:
		return job.Usagef("{prior} and {weight-decay} exclude each other: both say the prior")
	case prior.File != "" && s.NoiseVariance != nil:
		return job.Usagef("{prior} and {noise-variance} exclude each other: the file says the noise variance too")
	case s.LabelSmoothing != nil && !(*s.LabelSmoothing >= 0 && *s.LabelSmoothing < 1):
		return job.Usagef("{label-smoothing=%v} must be at least 0 and less than 1", *s.LabelSmoothing)
	case !positive(s.NoiseVariance):
		return job.Usagef("{noise-variance=%v} must be a positive number", *s.NoiseVariance)
	case s.Likelihood == "":
		return nil
	case !isLikelihood(s.Likelihood):
		return job.NotOneOf("likelihood", s.Likelihood, option.Values("likelihood"))
	case s.NoiseVariance != nil && !hasNoise(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{noise-variance} is for {likelihood=gaussian}, not %s", s.Likelihood)
	case s.LabelSmoothing != nil && !hasClasses(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{label-smoothing} is for labels, not for {likelihood=%s}", s.Likelihood)
	case s.classWeights != nil && !hasClasses(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{class-weights} is for labels, not for {likelihood=%s}", s.Likelihood)
	}
	return nil
}

// check looks at the flags beside the likelihood, which may be "". Data that are made and not read from a file are
// opened, so that their name is known to be right.
func (s *dataFlags) check(likelihood string, memory int64) error {
	switch {
	case s.TrainCount < 0:
		return job.Usagef("{train-count=%d} must be at least 1", s.TrainCount)
	case s.TrainCount != 0 && s.TrainFile != "":
		return job.Usagef("{train-count} and {train-index} exclude each other")
	case s.Split != nil && s.TestFile != "":
		return job.Usagef("{split} and {test-data} exclude each other")
	case s.Split != nil && s.ValidFile != "":
		return job.Usagef("{split} and {valid-data} exclude each other")
	case s.Split != nil && *s.Split < 0:
		return job.Usagef("{split=%d} must be 0 or more", *s.Split)
	}
	for _, list := range []struct {
		flag     string
		from, to *[]string
	}{{"classes", &s.Classes, &s.classList}, {"class-names", &s.ClassNames, &s.classNames}} {
		var err error
		if *list.to, err = job.CheckNames(*list.from); err != nil {
			return job.Usagef("%v", option.Set(list.flag, err))
		}
		if len(*list.to) == 1 {
			return job.Usagef("%v is one class; name at least two with commas between them, as in 0,1,2", option.Set(list.flag, (*list.to)[0]))
		}
	}
	if s.classList != nil && s.classNames != nil && len(s.classList) != len(s.classNames) {
		return job.Usagef("{classes} has %d classes, but {class-names} names %d", len(s.classList), len(s.classNames))
	}
	for _, name := range s.classList {
		if s.classNames != nil {
			break
		}
		if err := s.checkNumber("{classes}", name); err != nil {
			return err
		}
	}
	if s.classList != nil && likelihood != "" {
		lik := likelihoodNamed(likelihood)
		switch {
		case !hasClasses(lik):
			return job.Usagef("{classes} is for labels, not for {likelihood=%s}", likelihood)
		case !isSoftmax(lik) && len(s.classList) != 2:
			return job.Usagef("{likelihood=%s} is for two classes, not %d", likelihood, len(s.classList))
		}
	}
	if kind, _, _ := strings.Cut(s.source(), ":"); kind == "digits" && !s.remembered {
		if _, err := dataset.Open(context.Background(), s.source(), s.options(memory)); err != nil {
			return job.Usagef("{data=%v}", err)
		}
	}
	if s.Source != "mnist" {
		return nil
	}
	for _, x := range []struct {
		flag  string
		given bool
	}{{"target", s.Target != ""}, {"id", s.ID != ""}, {"row-weights", s.RowWeights != ""}, {"split", s.Split != nil}, {"test-data", s.TestFile != ""}, {"valid-data", s.ValidFile != ""}} {
		if x.given {
			return job.Usagef("%v is for a CSV file, not {data=mnist}", option.Named(x.flag))
		}
	}
	return nil
}

// byRange is the size in bytes from which the inputs of a file stay in it: reading a tile of rows again in each pass
// costs little beside linearizing them.
const byRange = 64 << 20

// options are for dataset.Open.
func (s *dataFlags) options(memory int64) *dataset.OpenOptions {
	o := &dataset.OpenOptions{Target: s.Target, ID: s.ID, Weights: s.RowWeights, ClassNames: s.classNames, TestFile: s.TestFile, ValidFile: s.ValidFile, Split: s.Split, MaxBytes: gp.MemoryBudget(memory), ByRange: byRange}
	if s.InMemory {
		o.ByRange = 0
	}
	return o
}

// Files are the files that the flags name, which no result may replace.
func (s *asked) Files() []job.FlagPath {
	list := s.Task.FitOptions.files()
	for _, path := range dataset.FilesOf(s.Data.source()) {
		list = append(list, job.FlagPath{Flag: "{data}", Path: path})
	}
	return append(list, []job.FlagPath{{Flag: "{model}", Path: s.Model.File}, {Flag: "{test-data}", Path: s.Data.TestFile}, {Flag: "{valid-data}", Path: s.Data.ValidFile}, {Flag: "{train-index}", Path: s.Data.TrainFile}, {Flag: "{prior}", Path: s.Task.Prior.File}}...)
}

// source is where the rows are, with its default.
func (s *dataFlags) source() string { return cmp.Or(s.Source, "digits") }

// parseClasses reads the labels of a model's metadata, such as 4,9; "" is nil.
func parseClasses(text string) ([]int, error) {
	names, err := job.SplitNames(text)
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

// formatInts writes integers with commas between them.
func formatInts(list []int) string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = strconv.Itoa(k)
	}
	return strings.Join(out, ",")
}
