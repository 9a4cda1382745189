package problem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
)

// ScalingFlags say what was done to inputs and targets outside the network.
type ScalingFlags struct {
	Standardize                              string
	InputMean, InputSD, TargetMean, TargetSD numbersFlag
}

// A numbersFlag holds numbers, or names a file with them.
type numbersFlag struct {
	name, Text string
	numbers    []float64 // nil where a file is named or the flag was not given
}

// file is the file that the flag names; "" is none.
func (f *numbersFlag) file() string {
	if f.numbers != nil {
		return ""
	}
	return f.Text
}

// isJSON tells whether a text names a file and is no list of numbers.
func isJSON(text string) bool { return strings.HasSuffix(strings.ToLower(text), ".json") }

// scalingNames are the flags of what was done outside the network.
var scalingNames = []string{"standardize", "input-mean", "input-sd", "target-mean", "target-sd"}

func (s *ScalingFlags) numbers() []*numbersFlag {
	return []*numbersFlag{&s.InputMean, &s.InputSD, &s.TargetMean, &s.TargetSD}
}

// check parses the lists.
func (s *ScalingFlags) check() error {
	if !slices.Contains(Standardizations, s.Standardize) {
		return job.NotOneOf("standardize", s.Standardize, Standardizations)
	}
	for i, f := range s.numbers() {
		f.name = scalingNames[1+i]
		f.numbers = nil
		if f.Text != "" && !isJSON(f.Text) {
			for field := range strings.SplitSeq(f.Text, ",") {
				v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
				if err != nil {
					return job.Usagef("--%s %q is neither a list of numbers such as 0.5,0.25 nor a .json file", f.name, f.Text)
				}
				f.numbers = append(f.numbers, v)
			}
		}
		if i < 2 && f.Text != "" && s.Standardize != "auto" {
			return job.Usagef("--standardize %s and --%s exclude each other: both say how the inputs are scaled", s.Standardize, f.name)
		}
	}
	for _, pair := range [][2]*numbersFlag{{&s.InputMean, &s.InputSD}, {&s.TargetMean, &s.TargetSD}} {
		if pair[0].file() != "" || pair[1].file() != "" {
			continue
		}
		if _, err := dataset.ScalingBy(pair[0].numbers, pair[1].numbers); err != nil {
			return job.Usagef("--%s and --%s: %v", pair[0].name, pair[1].name, err)
		}
	}
	return nil
}

// files are those that the flags name.
func (s *ScalingFlags) files() []job.FlagPath {
	var list []job.FlagPath
	for _, f := range s.numbers() {
		if f.file() != "" {
			list = append(list, job.FlagPath{Flag: "--" + f.name, Path: f.file()})
		}
	}
	return list
}

// scaling is what two flags of means and deviations say; nil where neither was given. of takes what a file holds.
func scaling(ctx context.Context, mean, sd *numbersFlag, of func(f *dataset.ScalingFile) (*dataset.Scaling, bool, error)) (*dataset.Scaling, Origin, error) {
	if mean.Text == "" && sd.Text == "" {
		return nil, "", nil
	}
	var names []string
	numbers := [2][]float64{mean.numbers, sd.numbers}
	for i, f := range []*numbersFlag{mean, sd} {
		if f.Text != "" {
			names = append(names, "--"+f.name)
		}
		if f.file() == "" {
			continue
		}
		file, err := dataset.ReadScaling(ctx, f.file())
		if err != nil {
			return nil, "", err
		}
		s, ok, err := of(file)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			return nil, "", fmt.Errorf("--%s %s: the file has nothing on them; write \"inputs\" or \"targets\"", f.name, f.file())
		}
		// A file has both, where the other flag says nothing else.
		for j, v := range [2][]float64{s.Mean, s.Scale} {
			if other := []*numbersFlag{mean, sd}[j]; i == j || other.Text == "" {
				numbers[j] = v
			}
		}
	}
	s, err := dataset.ScalingBy(numbers[0], numbers[1])
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", strings.Join(names, " and "), err)
	}
	return s, Origin("from " + strings.Join(names, " and ")), nil
}
