package report

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// PredictionColumns returns the columns of a table of predictions. p summarizes the same predictions. For classes:
// index, label, class, probability_L, probability_sd_L and map_probability_L for each label L, mean_c for each output
// c, novelty, novelty_rank, entropy and mutual_information. If a row has any number of labels, a column label_L with
// 0 or 1 for each label L takes the place of label and class. For a regression of one output: index, target, mean,
// observation_sd, function_sd, expected, map_expected, novelty, novelty_rank, entropy and mutual_information. For a
// regression of several outputs, mean and the standard deviations have one column for each output, mean_0, mean_1 and
// so on; if there are fewer targets than outputs, the standard deviations have one column for each target. With a
// coverage, the last columns are interval_lo and interval_hi, or set, whose labels are separated by spaces. If rows
// have IDs, id follows index. Classes with names appear by name. Numbers are in full precision, and unknown values
// are empty. A list of numbers whose length differs from the number of its columns panics, except that nil leaves the
// columns empty.
func PredictionColumns(p *result.Predictions) (list []Column[*result.Prediction]) {
	type row = *result.Prediction
	add := func(name string, value func(r row) string) {
		list = append(list, Column[row]{name, value})
	}
	number := func(name string, of func(r row) result.Float) {
		add(name, func(r row) string { return exact(of(r)) })
	}
	numbers := func(of func(r row) []result.Float, names ...string) {
		for i, name := range names {
			add(name, func(r row) string {
				v := of(r)
				switch {
				case v == nil:
					return ""
				case len(v) != len(names):
					panic("report: a prediction does not have as many numbers as the table has columns")
				}
				return exact(v[i])
			})
		}
	}
	each := func(name string, n int) (names []string) {
		if n == 1 && p.Classes == nil {
			return []string{name}
		}
		for c := range n {
			names = append(names, name+"_"+strconv.Itoa(c))
		}
		return names
	}
	targets := cmp.Or(p.Targets, p.Fit.Outputs)
	class := func(l result.Float) string { return cmp.Or(p.NameOf(l), exact(l)) }
	add("index", func(r row) string { return strconv.Itoa(int(r.Index)) })
	if p.IDs {
		add("id", func(r row) string { return r.ID })
	}
	mean := func(r row) []result.Float { return r.Mean }
	if p.Classes != nil || p.Labels != nil {
		of := func(name string) (names []string) {
			for _, label := range p.Labels {
				names = append(names, name+"_"+label)
			}
			for _, label := range p.Classes {
				names = append(names, name+"_"+class(label))
			}
			return names
		}
		if p.Labels != nil {
			numbers(func(r row) []result.Float { return r.Targets }, of("label")...)
		} else {
			add("label", func(r row) string { return class(r.Label) })
			add("class", func(r row) string { return class(r.Class) })
		}
		numbers(func(r row) []result.Float { return r.Probability }, of("probability")...)
		numbers(func(r row) []result.Float { return r.ProbabilitySD }, of("probability_sd")...)
		numbers(func(r row) []result.Float { return r.MAPProbability }, of("map_probability")...)
		numbers(mean, each("mean", p.Fit.Outputs)...)
	} else {
		number("target", func(r row) result.Float { return r.Label })
		numbers(mean, each("mean", p.Fit.Outputs)...)
		numbers(func(r row) []result.Float { return r.ObservationSD }, each("observation_sd", targets)...)
		numbers(func(r row) []result.Float { return r.FunctionSD }, each("function_sd", targets)...)
		if targets == 1 {
			number("expected", func(r row) result.Float { return r.Expected })
			number("map_expected", func(r row) result.Float { return r.MAPExpected })
		}
	}
	number("novelty", func(r row) result.Float { return r.Novelty.Score })
	number("novelty_rank", func(r row) result.Float { return r.Novelty.Rank })
	number("entropy", func(r row) result.Float { return r.Novelty.Entropy })
	number("mutual_information", func(r row) result.Float { return r.Novelty.MutualInformation })
	if p.Coverage != nil && p.Classes == nil {
		numbers(func(r row) []result.Float { return r.Interval }, "interval_lo", "interval_hi")
	}
	if p.Coverage != nil && p.Classes != nil {
		add("set", func(r row) string {
			labels := make([]string, len(r.Set))
			for i, k := range r.Set {
				labels[i] = class(k)
			}
			return strings.Join(labels, " ")
		})
	}
	return list
}
