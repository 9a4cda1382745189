package main

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
)

var likelihoods = []string{"gaussian", "bernoulli", "categorical", "poisson"}

func isLikelihood(name string) bool { return slices.Contains(likelihoods, name) }

// isClassified tells the likelihoods of labels from those of numbers.
func isClassified(name string) bool { return name == "bernoulli" || name == "categorical" }

// chooseLikelihood settles likelihood, classes and prior: flags, then
// metadata, then defaults. c is the number of outputs.
func (s *session) chooseLikelihood(c int) error {
	flags := s.cmd.Flags()
	name := s.likelihood
	if name == "" {
		name = s.meta.likelihood
	}
	if name == "" {
		name = defaultLikelihood(s.opened, c)
	}
	s.delta, s.sigma2 = s.precision, s.noise
	if !flags.Changed("prior-precision") && s.meta.precision > 0 {
		s.delta = s.meta.precision
	}
	if !flags.Changed("noise-variance") && s.meta.noise > 0 {
		s.sigma2 = s.meta.noise
	}
	switch name {
	case "gaussian":
		g, err := glm.NewGaussian(s.sigma2)
		if err != nil {
			return err
		}
		s.lik = g
	case "bernoulli":
		s.lik = glm.Bernoulli{}
	case "categorical":
		s.lik = glm.Categorical{}
	case "poisson":
		s.lik = glm.Poisson{}
	}
	if name != "gaussian" && flags.Changed("noise-variance") {
		return fmt.Errorf("--noise-variance is for the gaussian likelihood, but %s has the %s likelihood; leave it out or give --likelihood gaussian", s.name, name)
	}
	return s.chooseClasses(name, c)
}

// defaultLikelihood is bernoulli or categorical for integer labels, and
// gaussian otherwise.
func defaultLikelihood(d *dataset.Data, c int) string {
	switch {
	case !d.IntegerLabels:
		return "gaussian"
	case c == 1:
		return "bernoulli"
	}
	return "categorical"
}

// chooseClasses settles which labels the outputs stand for.
func (s *session) chooseClasses(likelihood string, c int) error {
	if !isClassified(likelihood) {
		if s.classList != nil {
			return fmt.Errorf("--classes is for labels, but %s has the %s likelihood; leave it out or give --likelihood", s.name, likelihood)
		}
		return nil
	}
	switch {
	case likelihood == "bernoulli" && c != 1:
		return fmt.Errorf("%s has %d outputs, but the bernoulli likelihood is for one; give --likelihood categorical", s.name, c)
	case likelihood == "categorical" && c == 1:
		return fmt.Errorf("%s has one output, but the categorical likelihood wants one a class; give --likelihood bernoulli", s.name)
	case !s.opened.IntegerLabels:
		return fmt.Errorf("%s: the targets are not all integers, as the %s likelihood wants; give --likelihood gaussian, or --target with a column of labels", s.opened.Source, likelihood)
	}
	from, remedy := "--classes", "name them with --classes"
	switch {
	case s.classList != nil:
		s.classed = s.classList
	case s.meta.classes != nil:
		s.classed, from = s.meta.classes, s.name+": its metadata entry "+keyClasses
	default:
		s.classed, from = s.opened.Classes(), s.opened.Source
		remedy += ", or give --likelihood gaussian or poisson for a regression"
	}
	if s.net == nil {
		remedy += ", or give --arch an output a class"
	}
	if want := max(c, 2); len(s.classed) != want {
		return fmt.Errorf("%s: %d classes (%s), but %s tells %d apart; %s", from, len(s.classed), cut(formatInts(s.classed), 40), s.name, want, remedy)
	}
	return nil
}

// targets returns what the likelihood sees, one row an example.
func (s *session) targets(sub *dataset.Subset, c int) (*mat.Dense, error) {
	if w := s.lik.Targets(c); w != 1 {
		return nil, fmt.Errorf("%s: one target a row, but %s has %d outputs, which the %s likelihood wants a target each; use a model with one output", s.opened.Source, s.name, c, s.lik.Name())
	}
	y := mat.NewDense(sub.Len(), 1, slices.Clone(sub.Targets))
	for i := range sub.Len() {
		if err := s.lik.CheckY(y.RawRowView(i), c); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w; correct it, leave the row out, or give another --likelihood", sub.Set.File, sub.Rows[i], err)
		}
	}
	return y, nil
}
