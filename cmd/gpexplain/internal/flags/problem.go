// Package flags defines the flags of the command line that say what a problem, its posterior and the rows in question
// are.
package flags

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// Common are the flags that every verb takes, as options of model, data and fit.
type Common struct {
	Model funcgp.Model
	Data  funcgp.Data
	Fit   funcgp.FitOptions
	File  string // of the posterior; "" fits one
	Process

	bind, inputColumns                       []string // NAME=VALUE
	lastLayer                                bool
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
	f, o := c.Flags(), &s.Fit
	if withModel {
		f.StringVar(&s.Model.File, "model", "", help("model"))
		f.StringVar(&s.Model.Output, "output", "", help("output"))
		f.StringArrayVar(&s.bind, "bind", nil, help("bind"))
		f.StringArrayVar(&s.inputColumns, "input-columns", nil, help("input-columns"))
		f.StringVar(&o.Outputs, "outputs", "", help("outputs"))
	}
	f.StringVar(&s.Data.Source, "data", "", help("data"))
	f.StringVar(&s.classes, "classes", "", help("classes"))
	f.StringVar(&s.classNames, "class-names", "", help("class-names"))
	f.StringVar(&s.Data.ID, "id", "", help("id"))
	f.StringVar(&s.Data.RowWeights, "row-weights", "", help("row-weights"))
	f.IntVar(&s.Data.TrainCount, "train-count", 0, help("train-count"))
	f.StringVar(&s.Data.TrainFile, "train-index", "", help("train-index"))
	f.StringVar(&s.Data.Target, "target", "", help("target"))
	OptionalInt(c, &s.Data.Split, "split")
	f.StringVar(&s.Data.TestFile, "test-data", "", help("test-data"))
	f.StringVar(&s.Data.ValidFile, "valid-data", "", help("valid-data"))
	f.StringVar(&o.Likelihood, "likelihood", "", help("likelihood"))
	OptionalFloat(c, &o.Prior.Precision, "prior-precision")
	OptionalFloat(c, &o.Prior.WeightDecay, "weight-decay")
	f.StringVar(&o.ClassWeights, "class-weights", "", help("class-weights"))
	OptionalFloat(c, &o.LabelSmoothing, "label-smoothing")
	if withModel {
		f.BoolVar(&o.Force, "force", false, help("force"))
		f.StringVar(&o.Prior.File, "prior", "", help("prior"))
	}
	OptionalFloat(c, &o.NoiseVariance, "noise-variance")
	f.StringSliceVar(&s.Model.Freeze, "freeze", nil, help("freeze"))
	f.StringSliceVar(&s.Model.Learn, "learn", nil, help("learn"))
	if withModel {
		f.StringSliceVar(&s.Model.Layers, "layers", nil, help("layers"))
		f.BoolVar(&s.lastLayer, "last-layer", false, help("last-layer"))
		f.StringSliceVar(&s.Model.Tie, "tie", nil, help("tie"))
	}
	// What was done to inputs and targets outside the network
	f.StringVar(&o.Standardize, "standardize", "", help("standardize"))
	f.StringVar(&s.inputMean, "input-mean", "", help("input-mean"))
	f.StringVar(&s.inputSD, "input-sd", "", help("input-sd"))
	f.StringVar(&s.targetMean, "target-mean", "", help("target-mean"))
	f.StringVar(&s.targetSD, "target-sd", "", help("target-sd"))
	f.Uint64Var(&o.Seed, "seed", 0, help("seed"))
	f.BoolVar(&con.JSON, "json", false, help("json"))
	f.BoolVar(&con.Strict, "strict", false, help("strict"))
	f.BoolVar(&con.Quiet, "quiet", false, help("quiet"))
	f.BoolVar(&con.Verbose, "verbose", false, help("verbose"))
	Limits(c, &s.Process)
}

// Rows defines the flags that say which rows a verb takes; it takes fallback where none is given.
func Rows(c *cobra.Command, s *funcgp.Query, verb, fallback string) {
	f := c.Flags()
	f.StringVar(&s.Index, "index", "", verb+" the test rows of this `LIST`, such as 24 or 1,2,5-9, counted from 0 in the original file (default "+fallback+")")
	f.StringVar(&s.TestIndex, "test-index", "", verb+" the test rows listed in `FILE`, one row number a line, in that order")
	f.BoolVar(&s.All, "all", false, verb+" all test rows")
	f.StringVar(&s.Input, "input", "", verb+" rows of your own from `FILE`, a folder of pictures, or - for standard input: a PNG or JPEG picture, CSV (.gz or not) or NumPy's .npy and .npz, with any number of rows")
	f.StringVar(&s.Invert, "invert", "", help("invert"))
	f.Lookup("invert").NoOptDefVal = "yes"
}

// Limits defines the flags that bound what the process takes.
func Limits(c *cobra.Command, s *Process) {
	f := c.Flags()
	f.StringVar(&s.profile, "profile", "", help("profile"))
	f.IntVar(&s.workers, "workers", 0, help("workers"))
	f.StringVar(&s.memory, "max-memory", "", help("max-memory"))
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
	if os.Getenv("GOGC") == "" {
		tuned, stop := &tuner{usual: debug.SetGCPercent(littleGarbage)}, end
		debug.SetGCPercent(tuned.usual)
		tuned.after()
		end = func() { stop(); tuned.ended.Store(true); debug.SetGCPercent(tuned.usual) }
	}
	if s.Fit.Memory >= 1<<30 {
		// A plan counts no garbage, and the collector otherwise leaves as much garbage as there is memory in use. What
		// a process holds before counts neither. Below a gigabyte the collector would cost more than the garbage does.
		var held runtime.MemStats
		runtime.ReadMemStats(&held)
		before, stop := debug.SetMemoryLimit(int64(held.Sys-held.HeapReleased)+s.Fit.Memory), end
		end = func() { stop(); debug.SetMemoryLimit(before) }
	}
	return end, nil
}

// A heap of largeHeap bytes or more is mostly arrays of numbers, which the collector does not scan. It is collected when
// garbage is littleGarbage per cent of what is in use.
const (
	littleGarbage = 25
	largeHeap     = 256 << 20
)

// A tuner sets, after each garbage collection, how much garbage the next one waits for: littleGarbage for a large heap,
// and the usual percentage for others.
type tuner struct {
	usual int
	ended atomic.Bool
}

// after sets the percentage after the next collection, and after each one that follows. A finalizer runs once for each
// collection, if it makes another object with a finalizer.
func (t *tuner) after() {
	type mark struct{ p *tuner } // becomes garbage at once
	runtime.SetFinalizer(&mark{t}, func(*mark) {
		if t.ended.Load() {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		if metrics.Read(live); live[0].Value.Uint64() >= largeHeap {
			debug.SetGCPercent(littleGarbage)
		} else {
			debug.SetGCPercent(t.usual)
		}
		t.after()
	})
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
		return job.Usagef("%v is empty; give it a value or leave it out", option.Named(empty))
	case !known && s.profile != "":
		return job.NotOneOf("profile", s.profile, slices.Sorted(maps.Keys(profiles)))
	case set.Changed("workers") && (s.workers < 1 || s.workers > mostWorkers):
		return job.Usagef("{workers=%d} must be 1 to %d", s.workers, mostWorkers)
	case set.Changed("train-count") && s.Data.TrainCount < 1:
		return job.Usagef("{train-count=%d} must be at least 1", s.Data.TrainCount)
	}
	if s.lastLayer {
		s.Model.Layers = append(s.Model.Layers, funcgp.LastLayer)
	}
	o := &s.Fit
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
		if *list.to, err = job.SplitNames(list.text); err != nil {
			return job.Usagef("--%s %v", list.flag, err)
		}
	}
	for _, list := range []struct {
		flag, text string
		to         *funcgp.Numbers
	}{{"input-mean", s.inputMean, &o.InputMean}, {"input-sd", s.inputSD, &o.InputSD}, {"target-mean", s.targetMean, &o.TargetMean}, {"target-sd", s.targetSD, &o.TargetSD}} {
		if *list.to, err = numbers(list.flag, list.text); err != nil {
			return err
		}
	}
	// What says how a verb comes by its posterior is among the options too, to be compared with the file of a posterior.
	given := map[string]any{"method": &o.Method.Name, "select": &o.Method.Select, "at": &o.Prior.At, "tune-prior": &o.Prior.Tune,
		"calibrate": &o.Calibrate, "inference": &o.Inference, "structure": &o.Structure, "predictive": &o.Predictive, "inducing": &o.Method.Inducing, "samples": &o.Samples,
		"within": &o.Method.Within, "certify": &o.Method.Certify, "refit": &o.Refit}
	set.Visit(func(f *pflag.Flag) {
		if to, ok := given[f.Name].(*string); ok {
			*to = f.Value.String()
		} else if to := given[f.Name]; to != nil && err == nil {
			_, err = fmt.Sscan(f.Value.String(), to)
		}
	})
	switch {
	case err != nil:
		return err
	case set.Changed("within") && o.Method.Within == 0:
		return job.Usagef("{within=0} must be above 0, and at most %v", option.MostWithin)
	case set.Changed("inducing") && o.Method.Inducing < 1:
		return job.Usagef("{inducing=%d} must be at least 1", o.Method.Inducing)
	}
	if set.Changed("select-only") {
		o.Method.Name = cmp.Or(o.Method.Name, "nystrom")
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
	return funcgp.Check(&s.Model, &s.Data, o, posterior)
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
	return &funcgp.OpenOptions{Model: s.Model, Data: s.Data, Fit: s.Fit}
}

// Posterior fits the posterior, or reads it from its file. edit, which may be nil, changes the options first.
func (s *Common) Posterior(ctx context.Context, edit func(o *funcgp.FitOptions)) (*funcgp.Posterior, error) {
	with := *s
	if edit != nil {
		edit(&with.Fit)
	}
	session, err := with.Session(ctx)
	if err != nil {
		return nil, err
	}
	return session.Posterior(ctx, nil)
}

// Files are the files that the flags name, which no result may replace.
func (s *Common) Files() []job.FlagPath {
	list := []job.FlagPath{{Flag: "--input-mean", Path: s.Fit.InputMean.File}, {Flag: "--input-sd", Path: s.Fit.InputSD.File},
		{Flag: "--target-mean", Path: s.Fit.TargetMean.File}, {Flag: "--target-sd", Path: s.Fit.TargetSD.File}}
	for _, path := range s.Data.Files() {
		list = append(list, job.FlagPath{Flag: "--data", Path: path})
	}
	return append(list, job.FlagPath{Flag: "--model", Path: s.Model.File}, job.FlagPath{Flag: "--test-data", Path: s.Data.TestFile},
		job.FlagPath{Flag: "--valid-data", Path: s.Data.ValidFile}, job.FlagPath{Flag: "--train-index", Path: s.Data.TrainFile}, job.FlagPath{Flag: "--prior", Path: s.Fit.Prior.File})
}

// Calibrate is --calibrate with its default.
func (s *Common) Calibrate() string { return cmp.Or(s.Fit.Calibrate, "loo") }

// help is what the table of options says that a flag does.
func help(name string) string { return option.Find(name).Help }

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
func numbers(flag, text string) (n funcgp.Numbers, err error) {
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
