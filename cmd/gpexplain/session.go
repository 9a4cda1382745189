package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// builtin is the network that is used without --model. It was made by
//
//	gpexplain train --arch thesis-cnn --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out cmd/gpexplain/builtin.onnx
//
//go:embed builtin.onnx
var builtin []byte

const builtinName = "built-in network"

// A session is a model with its data, ready for inference.
type session struct {
	*shared
	watch    *stopwatch
	progress *progress

	name    string // of the model, for messages
	net     *linearize.Network
	meta    *metadata
	opened  *dataset.Data
	classed []int // the classes in order; nil for a regression
	lik     glm.Likelihood
	delta   float64 // prior precision
	sigma2  float64 // noise variance
	prior   ntk.Prior
	scaling *dataset.Scaling
	train   *dataset.Subset
	x, y    *mat.Dense // training inputs, scaled, and targets

	mean     gp.Mean // of a posterior without a refit
	warnings []string
}

// openSession loads what every verb but train and inspect needs.
func openSession(ctx context.Context, sh *shared) (*session, error) {
	s := newSession(sh)
	if err := s.readModel(); err != nil {
		return nil, err
	}
	if err := s.openData(ctx); err != nil {
		return nil, err
	}
	d, c, _ := s.net.Dims()
	if got := elements(s.opened.Shape); got != d {
		return nil, fmt.Errorf("%s: an input has %d numbers (shape %v), but the %s takes %d (shape %v); choose the data the model was trained on", s.opened.Source, got, s.opened.Shape, s.name, d, s.net.InputShape())
	}
	if err := s.chooseLikelihood(c); err != nil {
		return nil, err
	}
	if err := s.selectTraining(); err != nil {
		return nil, err
	}
	return s, s.prepare(c)
}

func newSession(sh *shared) *session {
	return &session{shared: sh, watch: newStopwatch(), progress: newProgress(sh.cmd.ErrOrStderr(), sh.quiet)}
}

// elements is the product of a shape.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// readModel reads the network and its metadata.
func (s *session) readModel() error {
	s.name = builtinName
	var r io.Reader = bytes.NewReader(builtin)
	if s.model != "" {
		f, err := os.Open(s.model)
		if err != nil {
			return openError(err, "give the path of an ONNX file, or leave --model out for the built-in network")
		}
		defer f.Close()
		s.name, r = s.model, f
	}
	var err error
	if s.net, err = linearize.ReadONNX(r, &linearize.ReadOptions{Freeze: s.freeze}); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.meta, err = readMetadata(s.net.Metadata()); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	for _, w := range s.net.Warnings() {
		s.warn(w)
	}
	return nil
}

func openError(err error, remedy string) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %v; %s", p.Path, p.Err, remedy)
	}
	return err
}

func (s *session) warn(err error) { s.warnings = append(s.warnings, err.Error()) }

func (s *session) openData(ctx context.Context) error {
	o := &dataset.OpenOptions{Target: s.target, TestFile: s.testData,
		Progress: func(file string, done, total int64) { s.progress.show("downloading "+file, int(done), int(total)) }}
	if s.cmd.Flags().Changed("split") {
		o.Split = &s.split
	}
	var err error
	s.opened, err = dataset.Open(ctx, s.data, o)
	s.progress.clear()
	return err
}

// chooseLikelihood settles likelihood, classes and prior: flags, then
// metadata, then defaults. c is the number of outputs.
func (s *session) chooseLikelihood(c int) error {
	if s.meta == nil {
		s.meta = &metadata{}
	}
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
		return fmt.Errorf("--noise-variance is for the gaussian likelihood, but the likelihood is %s", name)
	}
	return s.chooseClasses(name, c)
}

// defaultLikelihood is bernoulli or categorical for integer labels that the
// outputs can tell apart, and gaussian otherwise.
func defaultLikelihood(d *dataset.Data, c int) string {
	switch {
	case !d.IntegerLabels:
		return "gaussian"
	case c == 1:
		return "bernoulli"
	}
	return "categorical"
}

func (s *session) chooseClasses(likelihood string, c int) error {
	if likelihood != "bernoulli" && likelihood != "categorical" {
		if s.classList != nil {
			return fmt.Errorf("--classes is for labels, but the likelihood is %s", likelihood)
		}
		return nil
	}
	s.classed = s.classList
	if s.classed == nil {
		s.classed = s.meta.classes
	}
	if s.classed == nil {
		s.classed = s.opened.Classes()
	}
	if s.classed == nil {
		return fmt.Errorf("%s: the targets are not integers, which the %s likelihood needs; give --likelihood gaussian", s.opened.Source, likelihood)
	}
	want := c
	if likelihood == "bernoulli" {
		want = 2
	}
	if len(s.classed) != want || likelihood == "bernoulli" && c != 1 {
		return fmt.Errorf("%s: %d classes (%s) do not fit the %s with %d outputs and the %s likelihood; choose with --classes", s.opened.Source, len(s.classed), abbreviate(formatClasses(s.classed)), s.name, c, likelihood)
	}
	return nil
}

// selectTraining picks the training rows: flags, then the rows recorded in
// the model where they are of the same data, then all.
func (s *session) selectTraining() error {
	o := &dataset.SelectOptions{Classes: s.classed, Count: s.trainCount}
	var err error
	switch {
	case s.trainIndex != "":
		if o.Rows, err = dataset.ReadRows(s.trainIndex); err != nil {
			return err
		}
		o.From = s.trainIndex
	case s.trainCount == 0 && s.meta.rows != "":
		if s.meta.data != fingerprint(s.opened.Train) {
			s.warn(fmt.Errorf("the model was trained on other data than %s: the training rows it records are not used", s.opened.Source))
			break
		}
		rows, ok := parseRows(s.meta.rows, s.opened.Train.Len())
		if !ok {
			return fmt.Errorf("%s: its metadata entry %s cannot be used; give --train-count or --train-index", s.name, keyRows)
		}
		o.Rows, o.From = rows, s.name
	}
	s.train, err = s.opened.Train.Select(o)
	return err
}

// prepare forms the training inputs and targets.
func (s *session) prepare(c int) error {
	s.x = s.train.Matrix()
	if !s.opened.Images() {
		s.scaling = s.meta.scaling
		if s.scaling == nil {
			var err error
			if s.scaling, err = dataset.NewScaling(s.x); err != nil {
				return err
			}
		} else if d := elements(s.opened.Shape); len(s.scaling.Mean) != d {
			return fmt.Errorf("%s: its metadata scales %d features, the data have %d", s.name, len(s.scaling.Mean), d)
		}
		s.scaling.Apply(s.x)
	}
	var err error
	if s.y, err = s.targets(s.train, c); err != nil {
		return err
	}
	s.prior, err = ntk.NewIsotropic(s.delta, nil)
	return err
}

// targets returns what the likelihood sees, one row an example.
func (s *session) targets(sub *dataset.Subset, c int) (*mat.Dense, error) {
	if w := s.lik.Targets(c); w != 1 {
		return nil, fmt.Errorf("%s: one target a row, but the %s has %d outputs under the %s likelihood", s.opened.Source, s.name, c, s.lik.Name())
	}
	y := mat.NewDense(sub.Len(), 1, slices.Clone(sub.Targets))
	for i := range sub.Len() {
		if err := s.lik.CheckY(y.RawRowView(i), c); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", sub.Set.File, sub.Rows[i], err)
		}
	}
	return y, nil
}

// inputs returns a subset's inputs as the network wants them.
func (s *session) inputs(sub *dataset.Subset) *mat.Dense {
	x := sub.Matrix()
	s.scaling.Apply(x)
	return x
}

// testPart is the part that predictions are made for: the test rows, or where
// there are none the validation rows.
func (s *session) testPart() *dataset.Set {
	if s.opened.Test.Len() == 0 && s.opened.Valid.Len() > 0 {
		return s.opened.Valid
	}
	return s.opened.Test
}

// selectTest picks test rows; nil rows means all kept ones.
func (s *session) selectTest(rows []int, from string) (*dataset.Subset, error) {
	return s.testPart().Select(&dataset.SelectOptions{Classes: s.classed, Rows: rows, From: from})
}

// label is the data's own label or target of row i.
func label(sub *dataset.Subset, i int) float64 {
	if sub.Labels != nil {
		return float64(sub.Labels[i])
	}
	return sub.Targets[i]
}

func labels(sub *dataset.Subset) []float64 {
	out := make([]float64, sub.Len())
	for i := range out {
		out[i] = label(sub, i)
	}
	return out
}
