package funcgp

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/option"
)

// tableWays are the ways in which columns of a table are scaled, the likeliest first of those with the same answers.
var tableWays = []tableWay{
	{"no", "inputs as they are"},
	{"yes", "inputs standardized by the training rows"},
	{"sample", "inputs standardized by the training rows, with deviations over N − 1"},
	{"robust", "inputs less their median, over their interquartile range"},
	{"minmax", "inputs scaled by their range to 0 to 1"},
	{"signed", "inputs scaled by their range to −1 to 1"},
	{"255", "inputs divided by 255"},
}

type tableWay struct{ name, words string }

// standardized returns, for each value of FitOptions.Standardize, the scaling that the value gives to the columns of a
// table. It passes over the rows once or twice for all values together. others are more rows that a scaler may
// have seen. A deviation of 0 counts as 1.
func standardized(ctx context.Context, train *dataset.Rows, whole []int, others ...*dataset.Rows) (map[string]*dataset.Scaling, error) {
	n := train.Len()
	for _, o := range others {
		n += o.Len()
	}
	rows, err := train.Scaling(ctx, others...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", train.File, err)
	}
	q, err := train.Quartiles(ctx, others...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", train.File, err)
	}
	by := func(mean, sd func(j int) float64) *dataset.Scaling {
		s := &dataset.Scaling{Mean: make([]float64, len(q[0])), Scale: make([]float64, len(q[0]))}
		for j := range q[0] {
			s.Mean[j], s.Scale[j] = mean(j), sd(j)
			if !(s.Scale[j] > 0) || math.IsInf(s.Scale[j], 0) {
				s.Scale[j] = 1
			}
		}
		return unscaled(s, whole)
	}
	ways := map[string]*dataset.Scaling{
		"no":     nil,
		"yes":    unscaled(rows, whole),
		"sample": unscaled(sample(rows, n), whole),
		"robust": by(func(j int) float64 { return q[2][j] }, func(j int) float64 { return q[3][j] - q[1][j] }),
		"minmax": by(func(j int) float64 { return q[0][j] }, func(j int) float64 { return q[4][j] - q[0][j] }),
		"signed": by(func(j int) float64 { return q[0][j]/2 + q[4][j]/2 }, func(j int) float64 { return q[4][j]/2 - q[0][j]/2 }),
	}
	if lo, hi := slices.Min(q[0]), slices.Max(q[4]); lo >= 0 && hi > 1 && hi <= 255 {
		ways["255"] = by(func(int) float64 { return 0 }, func(int) float64 { return 255 })
	}
	return ways, nil
}

// sample is a scaling by n rows with the deviations over n − 1.
func sample(s *dataset.Scaling, n int) *dataset.Scaling {
	out := &dataset.Scaling{Mean: s.Mean, Scale: slices.Clone(s.Scale)}
	if n > 1 {
		floats.Scale(math.Sqrt(float64(n)/float64(n-1)), out.Scale)
	}
	return out
}

// ordered returns the scaling of the inputs by a value of FitOptions.Standardize other than auto.
func ordered(ctx context.Context, name string, train *dataset.Rows, whole []int) (*dataset.Scaling, error) {
	if train.Images() {
		if name != "yes" {
			return nil, option.Errorf("{standardize=%s} is for the columns of a table, and %s has pictures; give {input-mean} and {input-sd}", name, train.File)
		}
		rows, err := train.Scaling(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", train.File, err)
		}
		return unscaled(train.PerChannel(rows), whole), nil
	}
	if name == "255" { // whatever the range
		return unscaled(&dataset.Scaling{Mean: make([]float64, train.Dim()), Scale: slices.Repeat([]float64{255}, train.Dim())}, whole), nil
	}
	ways, err := standardized(ctx, train, whole)
	return ways[name], err
}

// pixelWays are the means and deviations of pixels from 0 to 1 by which networks for pictures are trained, by the
// number of channels.
var pixelWays = map[int][]pixelWay{
	1: {
		{"mean 0.1307 and deviation 0.3081 (those of MNIST)", []float64{.1307}, []float64{.3081}},
		{"mean 0.2860 and deviation 0.3530 (those of Fashion-MNIST)", []float64{.2860}, []float64{.3530}},
	},
	3: {
		{"the means and deviations of ImageNet", []float64{.485, .456, .406}, []float64{.229, .224, .225}},
		{"the means and deviations of CIFAR-10", []float64{.4914, .4822, .4465}, []float64{.2470, .2435, .2616}},
	},
}

type pixelWay struct {
	words    string
	mean, sd []float64
}

// inputWays are the ways in which inputs of these rows are scaled, the likeliest first.
func inputWays(ctx context.Context, train *dataset.Rows, whole []int) ([]*candidate, error) {
	asIs := &candidate{words: "inputs as they are", options: []option.Text{"{standardize=no}"}}
	if train.Images() {
		asIs.words = train.Pixels()
	}
	if len(whole) == train.Dim() {
		return []*candidate{asIs}, nil
	}
	if !train.Images() {
		ways, err := standardized(ctx, train, whole)
		if err != nil {
			return nil, err
		}
		var list []*candidate
		for _, w := range tableWays {
			if by, ok := ways[w.name]; ok && (by != nil || w.name == "no") {
				list = append(list, &candidate{words: w.words, inputs: by, options: []option.Text{option.Set("standardize", w.name)}})
			}
		}
		return list, nil
	}
	rows, err := train.Scaling(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", train.File, err)
	}
	byRows := &candidate{words: "inputs standardized by the training rows", inputs: train.PerChannel(rows), options: []option.Text{"{standardize=yes}"}}
	channels, _, _ := train.Picture()
	white, of := 1., ""
	way := func(w pixelWay) *candidate {
		s := &dataset.Scaling{Mean: slices.Clone(w.mean), Scale: slices.Clone(w.sd)}
		floats.Scale(white, s.Mean)
		floats.Scale(white, s.Scale)
		return &candidate{words: w.words + of, inputs: train.PerChannel(s), options: byNumbers("input", s)}
	}
	known := append(slices.Clone(pixelWays[channels]), pixelWay{"pixels from −1 to 1", []float64{.5}, []float64{.5}})
	list := []*candidate{asIs}
	lo, hi := train.Range()
	if train.Levels() && !(lo >= 0 && hi <= 1) {
		// Of whole grey levels from 0 to 255 a network takes 255 as 1, unless it divides them itself.
		white = 255
		list = []*candidate{way(pixelWay{"pixels from 0 to 1", []float64{0}, []float64{1}}), asIs}
		of = ", of pixels divided by 255"
	}
	for _, w := range known {
		list = append(list, way(w))
	}
	if lo >= 0 && hi <= 1 {
		list = append(list, way(pixelWay{"pixels from 0 to 255", []float64{0}, []float64{1. / 255}}))
	}
	return append(list, byRows), nil
}
