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

// given tells whether there are numbers or a file.
func (n *Numbers) given() bool { return n.Values != nil || n.File != "" }

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

// checkScaling returns an error for scaling options that are invalid or exclude each other.
func (o *FitOptions) checkScaling() error {
	if values := option.Values("standardize"); o.Standardize != "" && !slices.Contains(values, o.Standardize) {
		return job.NotOneOf("standardize", o.Standardize, values)
	}
	for k, pair := range [][2]*Numbers{{&o.InputMean, &o.InputSD}, {&o.TargetMean, &o.TargetSD}} {
		kind := []string{"input", "target"}[k]
		names := [2]option.Text{option.Named(kind + "-mean"), option.Named(kind + "-sd")}
		for i, n := range pair {
			switch {
			case n.Values != nil && n.File != "":
				return job.Usagef("%v: give numbers or a file with them, and not both", names[i])
			case n.given() && kind == "input" && cmp.Or(o.Standardize, "auto") != "auto":
				return job.Usagef("{standardize=%s} and %v exclude each other: both say how the inputs are scaled", o.Standardize, names[i])
			}
		}
		if pair[0].File != "" || pair[1].File != "" {
			continue
		}
		if _, err := dataset.ScalingBy(pair[0].Values, pair[1].Values); err != nil {
			return job.Usagef("%v and %v: %v", names[0], names[1], err)
		}
	}
	return nil
}

// scaling returns the scaling of inputs, or of targets, that the options of means and deviations give. It is
// nil if neither was given. of takes the scaling from a file.
func scaling(ctx context.Context, kind string, mean, sd *Numbers, of func(f *dataset.ScalingFile) (*dataset.Scaling, bool, error)) (*dataset.Scaling, decision, error) {
	if !mean.given() && !sd.given() {
		return nil, decision{}, nil
	}
	var names []option.Text
	numbers := [2][]float64{mean.Values, sd.Values}
	for i, f := range []*Numbers{mean, sd} {
		name := kind + []string{"-mean", "-sd"}[i]
		if f.given() {
			names = append(names, option.Named(name))
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
			return nil, decision{}, option.Errorf("%v: the file has nothing on them; write \"inputs\" or \"targets\"", option.Set(name, f.File))
		}
		// A file has both, where the other option says nothing else.
		for j, v := range [2][]float64{s.Mean, s.Scale} {
			if other := []*Numbers{mean, sd}[j]; i == j || !other.given() {
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

// standardized returns the origin of a scaling that {standardize} chose.
func (s *FitOptions) standardized() decision {
	return decision{byOption, "from " + option.Set("standardize", s.Standardize)}
}

// fromTrain is the origin of the scaling of a network that is still to be trained.
var fromTrain = decision{byDefault, "the default of train"}
