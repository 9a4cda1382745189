package reproduce

import (
	"context"
	"fmt"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/linearize/network"
)

// uci compares predictives on tables of classes, as the source does, with its splits.
var uci = &Study{Verb: "reproduce",
	Name:   "uci",
	Short:  "MAP, mean-field, BNN and GLM predictives on tables of classes",
	Source: "[glm] table 1",
	Data:   uciData,
	Sets:   uciNames(),
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		return planUCI(ctx, o, 3, uciMethods, func(s uciSet) int { return s.splits }, pageUCI)
	},
}

const uciData = "NAME.csv and NAME.splits.csv of each set but waveform, which is drawn"

// A uciSet is a data set of the table.
type uciSet struct {
	name      string
	features  int
	classes   int
	splits    int
	refined   int // splits of the study refine
	cost      int // relative time of a step
	published map[string]float64
}

// uciSets are the sets with the published test NLL [glm table 1], where it is known. The refinement of the source is variational.
var uciSets = []uciSet{
	{"australian", 14, 2, 10, 2, 2, map[string]float64{"map": 0.31, "bnn": 0.42, "glm": 0.32, "variational": 0.32}},
	{"breast_cancer", 10, 2, 10, 2, 2, map[string]float64{"map": 0.11, "bnn": 0.19, "glm": 0.10, "variational": 0.11}},
	{"ionosphere", 34, 2, 10, 10, 2, map[string]float64{"map": 0.35, "bnn": 0.50, "glm": 0.29, "variational": 0.35}},
	{"glass", 9, 6, 10, 2, 2, nil},
	{"banana", 2, 2, 10, 2, 3, nil},
	{"vehicle", 18, 4, 3, 1, 6, nil},
	{waveform, 21, 3, 3, 1, 6, nil},
	{"digits", 64, 10, 10, 1, 20, map[string]float64{"map": 0.094, "bnn": 0.875, "glm": 0.250, "diag": 0.409, "variational": 0.150}},
	{"satellite", 36, 6, 2, 1, 20, map[string]float64{"map": 0.230, "bnn": 0.482, "mfvi": 0.307, "glm": 0.241, "variational": 0.227}},
}

func uciNames() []string {
	var names []string
	for _, s := range uciSets {
		names = append(names, s.name)
	}
	return names
}

// uciSize are the sizes of a run.
type uciSize struct {
	hidden     []int
	precisions []float64
	splits     int // the most of a set
	samples    int
	meanField  int // steps
	iterations int // of L-BFGS
}

var (
	uciFull  = uciSize{hidden: []int{50, 50}, precisions: Logspace(-2, 2, 10), splits: 10, samples: 1000, meanField: 5000, iterations: 5000}
	uciQuick = uciSize{hidden: []int{4}, precisions: []float64{0.1, 10}, splits: 2, samples: 20, meanField: 20, iterations: 50}
)

// A uciJob is one step: a network trained on one split at one precision, and methods
// that predict from it.
type uciJob struct {
	set       uciSet
	size      *uciSize
	split     int
	precision float64
	methods   []uciMethod
	o         *Options
}

// key names the step of a set, a split and the number of a precision.
func uciKey(set string, split, precision int) string {
	return fmt.Sprintf("%s.split-%d.precision-%d", strings.ReplaceAll(set, "_", "-"), split, precision)
}

// planUCI is the plan of a study of these methods on so many splits of each set.
func planUCI(ctx context.Context, o *Options, version int, methods []uciMethod, splits func(uciSet) int, page func(tables []*uciTable, size *uciSize) (*Page, error)) (*Plan, error) {
	size := &uciFull
	if o.Quick {
		size = &uciQuick
	}
	p := &Plan{Version: version}
	sets := chosenUCI(o.Only)
	for i, set := range sets {
		var inputs []string
		switch {
		case o.Quick:
			sets[i].published = nil // of other data
		case set.name != waveform:
			sum, err := SplitSum(ctx, o.Data, set.name)
			if err != nil {
				return nil, fmt.Errorf("%w; -only SET,... leaves %s out", err, set.name)
			}
			inputs = []string{"sha256 " + sum}
		}
		for split := range min(splits(set), size.splits) {
			for k, precision := range size.precisions {
				job := &uciJob{set, size, split, precision, methods, o}
				p.Steps = append(p.Steps, Step{Key: uciKey(set.name, split, k), Cost: set.cost, Inputs: inputs, Run: job.run})
			}
		}
	}
	p.Page = func(r *Results) (*Page, error) {
		tables, err := readUCI(r, sets, splits, size)
		if err != nil {
			return nil, err
		}
		return page(tables, size)
	}
	return p, nil
}

// chosenUCI are the sets with these names.
func chosenUCI(names []string) []uciSet {
	var sets []uciSet
	for _, s := range uciSets {
		for _, name := range names {
			if s.name == name {
				sets = append(sets, s)
			}
		}
	}
	return sets
}

// A uciResult is what a step finds.
type uciResult struct {
	Precision    result.Float            `json:"precision"`
	Examples     int                     `json:"examples"`
	Parameters   int                     `json:"parameters"`
	GradientNorm result.Float            `json:"gradient_norm"` // of the objective at θ*
	Iterations   int                     `json:"iterations"`    // of L-BFGS
	Methods      map[string]methodScores `json:"methods"`
	LeaveOneOut  leftOutScores           `json:"leave_one_out"`
	Warnings     []string                `json:"warnings,omitempty"`
}

// methodScores are those of a method at one precision.
type methodScores struct {
	Valid ClassScores `json:"valid"`
	Test  ClassScores `json:"test"`
}

// leftOutScores are what leave-one-out says of the calibrated refit.
type leftOutScores struct {
	NLL      result.Float `json:"nll"`      // at Scale
	Unscaled result.Float `json:"unscaled"` // at 1
	Scale    result.Float `json:"scale"`    // of the covariance
}

// run trains the network and applies every method.
func (j *uciJob) run(ctx context.Context, progress Progress) (any, error) {
	data, err := j.read(ctx)
	if err != nil {
		return nil, err
	}
	m, err := newLinearized(ctx, data, j, func(done, total int) { progress(done, 4*total) })
	if err != nil {
		return nil, err
	}
	return m.scoreAll(ctx, func(done, total int) { progress(total+3*done, 4*total) })
}

func (j *uciJob) read(ctx context.Context) (*Examples, error) {
	if j.o.Quick {
		return Clusters(uint64(j.split), 12*j.set.classes, 3, j.set.classes)
	}
	if j.set.name == waveform {
		return waveformSplit(j.split)
	}
	return ReadSplit(ctx, j.o.Data, j.set.name, j.split)
}

// outputs are 1 for two classes and otherwise the number of classes.
func (j *uciJob) outputs() int {
	if j.set.classes == 2 {
		return 1
	}
	return j.set.classes
}

func (j *uciJob) network(features int) (*network.Network, error) {
	var layers []network.Layer
	for _, units := range j.size.hidden {
		layers = append(layers, network.Dense{Units: units}, network.Tanh)
	}
	return network.Seeded(uint64(j.split), network.Shape{features}, append(layers, network.Dense{Units: j.outputs()})...)
}
