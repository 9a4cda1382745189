package funcgp

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// scalingFlags say what was done to inputs and targets outside the network.
type scalingFlags struct {
	Standardize                              string
	InputMean, InputSD, TargetMean, TargetSD numbersFlag
}

// A numbersFlag holds numbers, or names a file with them.
type numbersFlag struct {
	name string
	Numbers
}

// given tells whether there are numbers or a file.
func (f *numbersFlag) given() bool { return f.Values != nil || f.File != "" }

// text is the numbers with commas between them, or the file.
func (n *Numbers) text() string {
	if n.File != "" {
		return n.File
	}
	list := make([]string, len(n.Values))
	for i, v := range n.Values {
		list[i] = shortest(v)
	}
	return strings.Join(list, ",")
}

// isJSON tells whether a text names a file and is no list of numbers.
func isJSON(text string) bool { return strings.HasSuffix(strings.ToLower(text), ".json") }

// parseScaling checks options.
func parseScaling(o *FitOptions) (s scalingFlags, err error) {
	s = scalingFlags{cmp.Or(o.Standardize, "auto"), numbersFlag{"input-mean", o.InputMean}, numbersFlag{"input-sd", o.InputSD},
		numbersFlag{"target-mean", o.TargetMean}, numbersFlag{"target-sd", o.TargetSD}}
	if !slices.Contains(option.Values("standardize"), s.Standardize) {
		return s, job.NotOneOf("standardize", s.Standardize, option.Values("standardize"))
	}
	for _, f := range []*numbersFlag{&s.InputMean, &s.InputSD, &s.TargetMean, &s.TargetSD} {
		if f.Values != nil && f.File != "" {
			return s, job.Usagef("%v: give numbers or a file with them, and not both", option.Named(f.name))
		}
	}
	for _, f := range []*numbersFlag{&s.InputMean, &s.InputSD} {
		if f.given() && s.Standardize != "auto" {
			return s, job.Usagef("{standardize=%s} and %v exclude each other: both say how the inputs are scaled", s.Standardize, option.Named(f.name))
		}
	}
	for _, pair := range [][2]*numbersFlag{{&s.InputMean, &s.InputSD}, {&s.TargetMean, &s.TargetSD}} {
		if pair[0].File != "" || pair[1].File != "" {
			continue
		}
		if _, err := dataset.ScalingBy(pair[0].Values, pair[1].Values); err != nil {
			return s, job.Usagef("%v and %v: %v", option.Named(pair[0].name), option.Named(pair[1].name), err)
		}
	}
	return s, nil
}

// files are those that the options name.
func (o *FitOptions) files() []job.FlagPath {
	return []job.FlagPath{{Flag: "{input-mean}", Path: o.InputMean.File}, {Flag: "{input-sd}", Path: o.InputSD.File},
		{Flag: "{target-mean}", Path: o.TargetMean.File}, {Flag: "{target-sd}", Path: o.TargetSD.File}}
}

// scaling is what two options of means and deviations say; nil where neither was given. of takes what a file holds.
func scaling(ctx context.Context, mean, sd *numbersFlag, of func(f *dataset.ScalingFile) (*dataset.Scaling, bool, error)) (*dataset.Scaling, decision, error) {
	if !mean.given() && !sd.given() {
		return nil, decision{}, nil
	}
	var names []option.Text
	numbers := [2][]float64{mean.Values, sd.Values}
	for i, f := range []*numbersFlag{mean, sd} {
		if f.given() {
			names = append(names, option.Named(f.name))
		}
		if f.File == "" {
			continue
		}
		file, err := dataset.ReadScaling(ctx, f.File)
		if err != nil {
			return nil, decision{}, err
		}
		s, ok, err := of(file)
		if err != nil {
			return nil, decision{}, err
		}
		if !ok {
			return nil, decision{}, option.Errorf("%v: the file has nothing on them; write \"inputs\" or \"targets\"", option.Set(f.name, f.File))
		}
		// A file has both, where the other option says nothing else.
		for j, v := range [2][]float64{s.Mean, s.Scale} {
			if other := []*numbersFlag{mean, sd}[j]; i == j || !other.given() {
				numbers[j] = v
			}
		}
	}
	s, err := dataset.ScalingBy(numbers[0], numbers[1])
	if err != nil {
		return nil, decision{}, option.Errorf("%s: %w", option.Join(names, " and "), err)
	}
	return s, decision{byOption, "from " + option.Join(names, " and ")}, nil
}

// standardized is the origin of what {standardize} says.
func (s *scalingFlags) standardized() decision {
	return decision{byOption, "from " + option.Set("standardize", s.Standardize)}
}

// fromTrain is the origin of what a network gets that is still to be trained.
var fromTrain = decision{byDefault, "the default of train"}
