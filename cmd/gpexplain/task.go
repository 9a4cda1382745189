package main

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
)

var likelihoods = []string{"gaussian", "bernoulli", "categorical", "poisson"}

func isLikelihood(name string) bool { return slices.Contains(likelihoods, name) }

// likelihoodNamed returns the likelihood of a known name; gaussian has noise
// variance 1.
func likelihoodNamed(name string) glm.Likelihood {
	switch name {
	case "bernoulli":
		return glm.Bernoulli{}
	case "categorical":
		return glm.Categorical{}
	case "poisson":
		return glm.Poisson{}
	}
	g, err := glm.NewGaussian(1)
	if err != nil {
		panic("main: noise variance 1 is refused")
	}
	return g
}

// hasClasses tells likelihoods of labels from those of numbers.
func hasClasses(lik glm.Likelihood) bool {
	_, ok := lik.(glm.Logistic)
	return ok
}

// isSoftmax tells whether each class has an output of its own.
func isSoftmax(lik glm.Likelihood) bool {
	l, ok := lik.(glm.Logistic)
	return ok && l.Softmax()
}

// hasNoise tells whether --noise-variance is for the likelihood.
func hasNoise(lik glm.Likelihood) bool {
	_, ok := lik.(*glm.Gaussian)
	return ok
}

// A task says what the outputs of a model mean.
type task struct {
	likelihood glm.Likelihood
	classes    []int   // the classes in the order of the outputs; nil for a regression
	precision  float64 // of the prior on every parameter
	noise      float64 // variance of the gaussian likelihood; 0 for the others
}

// chooseTask decides by the flags, then by the metadata of the model, then by
// the data. classes are those of the flags, nil where not given.
func chooseTask(f *taskFlags, classes []int, m *model, d *dataset.Data) (*task, error) {
	name := f.likelihood
	if name == "" {
		name = m.meta.likelihood
	}
	if name == "" {
		name = defaultLikelihood(d, m.outputs)
	}
	t := &task{likelihood: likelihoodNamed(name), precision: firstPositive(f.precision, m.meta.precision)}
	if hasNoise(t.likelihood) {
		t.noise = firstPositive(f.noise, m.meta.noise)
		var err error
		if t.likelihood, err = glm.NewGaussian(t.noise); err != nil {
			return nil, err
		}
	} else if f.noise != nil {
		return nil, fmt.Errorf("--noise-variance is for the gaussian likelihood, but %s has the %s likelihood; leave it out or give --likelihood gaussian", m.name, name)
	}
	if !hasClasses(t.likelihood) {
		if classes != nil {
			return nil, fmt.Errorf("--classes is for labels, but %s has the %s likelihood; leave it out or give --likelihood", m.name, name)
		}
		return t, nil
	}
	var err error
	t.classes, err = chooseClasses(t.likelihood, classes, m, d)
	return t, err
}

// firstPositive is the number of a flag, else that of the metadata, else 1.
func firstPositive(flag *float64, recorded float64) float64 {
	switch {
	case flag != nil:
		return *flag
	case recorded > 0:
		return recorded
	}
	return 1
}

// defaultLikelihood is bernoulli or categorical for integer labels, and
// gaussian otherwise, for a model with the given number of outputs.
func defaultLikelihood(d *dataset.Data, outputs int) string {
	switch {
	case !d.IntegerLabels:
		return "gaussian"
	case outputs == 1:
		return "bernoulli"
	}
	return "categorical"
}

// chooseClasses decides which labels the outputs stand for.
func chooseClasses(lik glm.Likelihood, classes []int, m *model, d *dataset.Data) ([]int, error) {
	switch {
	case !isSoftmax(lik) && m.outputs != 1:
		return nil, fmt.Errorf("%s has %d outputs, but the %s likelihood is for one; give --likelihood categorical", m.name, m.outputs, lik.Name())
	case isSoftmax(lik) && m.outputs == 1:
		return nil, fmt.Errorf("%s has one output, but the %s likelihood needs one for each class; give --likelihood bernoulli", m.name, lik.Name())
	case !d.IntegerLabels:
		return nil, fmt.Errorf("%s: the targets are not all integers, which the %s likelihood needs; give --likelihood gaussian, or --target with a column of labels", d.Source, lik.Name())
	}
	from, remedy := "--classes", "name them with --classes"
	switch {
	case classes != nil:
	case m.meta.classes != nil:
		classes, from = m.meta.classes, m.name+": its metadata entry "+keyClasses
	default:
		classes, from = d.Classes(), d.Source
		remedy += ", or give --likelihood gaussian or poisson for a regression"
	}
	if m.net == nil {
		remedy += ", or give --arch one output for each class"
	}
	if want := max(m.outputs, 2); len(classes) != want {
		return nil, fmt.Errorf("%s: %d classes (%s), but %s tells %d apart; %s", from, len(classes), cut(formatInts(classes), 40), m.name, want, remedy)
	}
	return classes, nil
}

// targets returns the targets of rows of the data as the likelihood takes
// them, one row an example.
func (t *task) targets(rows *dataset.Subset, m *model, d *dataset.Data) (*mat.Dense, error) {
	if w := t.likelihood.Targets(m.outputs); w != 1 {
		return nil, fmt.Errorf("%s has one target a row, but the %s likelihood needs a target for each of the %d outputs of %s; use a model with one output", d.Source, t.likelihood.Name(), m.outputs, m.name)
	}
	if rows.Set.Width() != 1 {
		return nil, fmt.Errorf("%s: its rows have %d targets, want 1", rows.Set.File, rows.Set.Width())
	}
	y := mat.NewDense(rows.Len(), 1, slices.Clone(rows.Targets))
	for i := range rows.Len() {
		if err := t.likelihood.CheckY(y.RawRowView(i), m.outputs); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w; correct it, leave the row out, or give another --likelihood", rows.Set.File, rows.Rows[i], err)
		}
	}
	return y, nil
}

// class is the label of the network's largest output; undefined for a
// regression.
func (t *task) class(f []float64) report.Float {
	if t.classes == nil {
		return report.Undefined()
	}
	return report.Float(t.classes[largestClass(f)])
}

// labels are the classes as reports show them; nil for a regression.
func (t *task) labels() []report.Float {
	if t.classes == nil {
		return nil
	}
	out := make([]report.Float, len(t.classes))
	for i, k := range t.classes {
		out[i] = report.Float(k)
	}
	return out
}

// outputOf is the output of a class, or for a regression the output itself.
func (t *task) outputOf(k int, m *model) (int, error) {
	if t.classes == nil {
		if k < 0 || k >= m.outputs {
			return 0, fmt.Errorf("--contrast: there is no output %d; %s has 0 to %d", k, m.name, m.outputs-1)
		}
		return k, nil
	}
	if i := slices.Index(t.classes, k); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("--contrast: %d is not one of the classes %s; choose two of them", k, cut(formatInts(t.classes), 60))
}

// quantity is what the output of a regression on a target is.
func (t *task) quantity(target string) string {
	if _, ok := t.likelihood.(glm.Poisson); ok {
		if target != "" {
			target = " of " + target
		}
		target = "log rate" + target
	}
	return oneLine(cut(target, 40))
}

// largestClass is the number of the class with the largest output; one output
// speaks for the second class where it is positive.
func largestClass(f []float64) int {
	if len(f) == 1 {
		if f[0] > 0 {
			return 1
		}
		return 0
	}
	k := 0
	for c, v := range f {
		if v > f[k] {
			k = c
		}
	}
	return k
}
