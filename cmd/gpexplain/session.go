package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// builtin is the network that is used without --model. It was made by
//
//	gpexplain train --arch thesis-cnn --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out cmd/gpexplain/builtin.onnx
//
//go:embed builtin.onnx
var builtin []byte

const builtinName = "the built-in network"

// A session is a model with its data, ready for inference.
type session struct {
	*shared
	watch *stopwatch

	name    string // of the model, for messages
	net     *network.Network
	meta    *metadata
	opened  *dataset.Data
	classed []int // the classes in order; nil for a regression
	lik     glm.Likelihood
	delta   float64 // prior precision
	sigma2  float64 // noise variance
	prior   ntk.Prior
	scaling *dataset.Scaling
	train   *dataset.Subset
	y       *mat.Dense // training targets

	held     *dataset.Subset // rows that choose the prior precision, of --tune-prior
	saved    *saved          // the posterior to read, nil where one is fitted
	warnings []string
}

// openSession reads the model, the saved posterior that w may name, and the
// data, and chooses likelihood and training rows. Train and inspect need less.
func openSession(ctx context.Context, sh *shared, w *way) (*session, error) {
	s := newSession(sh)
	if err := s.readModel(ctx); err != nil {
		return nil, err
	}
	if err := s.openSaved(ctx, w); err != nil {
		return nil, err
	}
	if err := s.openData(ctx); err != nil {
		return nil, err
	}
	d, c, _ := s.net.Dims()
	if got := elements(s.opened.Shape); got != d {
		return nil, fmt.Errorf("%s: an input has %d numbers (shape %v), but %s takes %d (shape %v); give --data that the model was trained on", s.opened.Source, got, s.opened.Shape, s.name, d, s.net.InputShape())
	}
	if err := s.chooseLikelihood(c); err != nil {
		if s.saved != nil {
			return nil, fmt.Errorf("%s: its likelihood and classes do not go with %s and %s; give --data that it was fitted on, or fit it again", s.saved.path, s.name, s.opened.Source)
		}
		return nil, err
	}
	if err := s.selectTraining(ctx); err != nil {
		return nil, err
	}
	return s, s.prepare(c)
}

func newSession(sh *shared) *session {
	return &session{shared: sh, watch: newStopwatch(sh.progress.listener()), meta: &metadata{}}
}

// lap ends a part of the work, unless the context is done: its error keeps the
// next part from starting.
func (s *session) lap(ctx context.Context, part string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.watch.lap(part)
	return ctx.Err()
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
func (s *session) readModel(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.name = builtinName
	data := builtin
	var err error
	if s.model != "" {
		s.name = s.model
		if data, err = readModelFile(ctx, s.model); err != nil {
			return modelError(s.model, err)
		}
	}
	if s.net, err = network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Freeze: s.freeze}); err != nil {
		return modelError(s.name, err)
	}
	if s.meta, err = readMetadata(s.net.Metadata()); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	for _, w := range s.net.Warnings() {
		s.warn(w)
	}
	return nil
}

// readModelFile reads a file or a pipe, and no more of it than a model can
// have: ReadONNX refuses what is larger.
func readModelFile(ctx context.Context, path string) ([]byte, error) {
	f, err := inputfile.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() > network.MaxModelBytes {
		return nil, fmt.Errorf("it has %d bytes, but a model has at most %d; export a smaller one", f.Size(), network.MaxModelBytes)
	}
	return io.ReadAll(io.LimitReader(f, network.MaxModelBytes+1))
}

// modelError names the file once, and what to do about it.
func modelError(name string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Errorf("%s: %w; --model takes an ONNX file, and without it the built-in network is used", name, p.Err)
	}
	remedy := ""
	if f := (*onnx.FormatError)(nil); errors.As(err, &f) {
		remedy = "; it is damaged or no ONNX file: export the model again"
	} else if !strings.Contains(err.Error(), "; ") {
		remedy = "; change the model and export it again"
	}
	return fmt.Errorf("%s: %w%s", name, err, remedy)
}

// warn notes a compromise, once.
func (s *session) warn(err error) {
	if text := err.Error(); !slices.Contains(s.warnings, text) {
		s.warnings = append(s.warnings, text)
	}
}

func (s *session) warnAll(list []error) {
	for _, err := range list {
		s.warn(err)
	}
}

func (s *session) openData(ctx context.Context) error {
	var err error
	if s.opened = s.digits; s.opened == nil {
		s.opened, err = dataset.Open(ctx, s.data, s.openOptions())
		s.progress.clear()
	}
	if err == nil && s.saved != nil {
		s.opened, err = s.saved.inputs(s.opened)
	}
	return err
}

// prepare chooses the scaling of the inputs, and forms the training targets and
// the prior for c outputs.
func (s *session) prepare(c int) error {
	if !s.opened.Images() {
		s.scaling = s.meta.scaling
		if s.scaling == nil {
			var err error
			if s.scaling, err = dataset.NewScaling(s.train.Matrix()); err != nil {
				return fmt.Errorf("%s: %w", s.opened.Source, err)
			}
		} else if d := elements(s.opened.Shape); len(s.scaling.Mean) != d {
			return fmt.Errorf("%s: its metadata entry %s scales %d features, but the data have %d; give --data that the model was trained on", s.name, keyScaling, len(s.scaling.Mean), d)
		}
	}
	var err error
	if s.y, err = s.targets(s.train, c); err != nil {
		return err
	}
	s.prior, err = ntk.NewIsotropic(s.delta, nil)
	return err
}

// inputs returns a subset's inputs as the network wants them.
func (s *session) inputs(sub *dataset.Subset) *mat.Dense { return s.inputsAt(sub, 0, sub.Len()) }

// inputsAt returns the inputs of the examples [lo, hi) of a subset.
func (s *session) inputsAt(sub *dataset.Subset, lo, hi int) *mat.Dense {
	x := sub.Set.Matrix(sub.Pos[lo:hi])
	s.scaling.Apply(x)
	return x
}

// inputsOf returns the inputs of the examples at these positions of a subset, in
// the order of the positions.
func (s *session) inputsOf(sub *dataset.Subset, at []int) *mat.Dense {
	pos := make([]int, len(at))
	for i, r := range at {
		pos[i] = sub.Pos[r]
	}
	x := sub.Set.Matrix(pos)
	s.scaling.Apply(x)
	return x
}
