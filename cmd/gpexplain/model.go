package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network"
)

// builtin is the network that is used without --model. It was made by
//
//	gpexplain train --arch thesis-cnn --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out cmd/gpexplain/builtin.onnx
//
//go:embed builtin.onnx
var builtin []byte

const builtinName = "the built-in network"

// A model is a network and what it says about its training. It never changes:
// train returns a new one.
type model struct {
	name    string           // the path or "the built-in network", for messages
	net     *network.Network // nil where it is still to be trained
	outputs int              // C
	meta    *metadata
}

// readModel reads the network and its metadata. Warnings on reading it go to
// the console.
func readModel(ctx context.Context, c *console, f *modelFlags) (*model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &model{name: builtinName}
	var file io.Reader = bytes.NewReader(builtin)
	if f.path != "" {
		m.name = f.path
		opened, err := inputfile.Open(ctx, f.path)
		if err != nil {
			return nil, modelError(m.name, err)
		}
		defer opened.Close()
		if opened.Size() > network.MaxModelBytes {
			return nil, modelError(m.name, fmt.Errorf("it has %d bytes, but a model has at most %d; export a smaller one", opened.Size(), network.MaxModelBytes))
		}
		file = opened
	}
	var err error
	if m.net, err = network.ReadONNX(file, &network.ReadOptions{Freeze: f.freeze}); err != nil {
		return nil, modelError(m.name, err)
	}
	_, m.outputs, _ = m.net.Dims()
	if m.meta, err = readMetadata(m.net.Metadata()); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	c.warn(m.net.Warnings()...)
	return m, nil
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

// parameters returns P.
func (m *model) parameters() int {
	_, _, p := m.net.Dims()
	return p
}

// withMetadata returns the model with other metadata.
func (m *model) withMetadata(meta *metadata) *model {
	out := *m
	out.meta = meta
	return &out
}

// Keys of the metadata that train writes into a model.
const (
	keyLikelihood = "funcgp.likelihood"
	keyPrecision  = "funcgp.prior_precision"
	keyNoise      = "funcgp.noise_variance"
	keyClasses    = "funcgp.classes"
	keyRows       = "funcgp.train_rows"
	keyData       = "funcgp.train_data"
	keyScaling    = "funcgp.scaling"
	keyCommand    = "funcgp.command"
)

// metadata is what a model says about its own training.
type metadata struct {
	likelihood       string
	precision, noise float64 // 0 where not said
	classes          []int
	rows             string // as formatRows writes
	data             string // fingerprint of the training part
	scaling          *dataset.Scaling
}

// readMetadata parses the pairs stored with a model. A malformed pair is an error
// that names its key. Of several malformed pairs it always names the same.
func readMetadata(kv map[string]string) (*metadata, error) {
	m := &metadata{likelihood: kv[keyLikelihood], rows: kv[keyRows], data: kv[keyData]}
	bad := func(key string) error {
		return fmt.Errorf("its metadata entry %s is %q, which cannot be used; give the flag, or train again", key, cut(kv[key], 40))
	}
	if m.likelihood != "" && !isLikelihood(m.likelihood) {
		return nil, bad(keyLikelihood)
	}
	var err error
	if m.precision, err = positive(kv[keyPrecision]); err != nil {
		return nil, bad(keyPrecision)
	}
	if m.noise, err = positive(kv[keyNoise]); err != nil {
		return nil, bad(keyNoise)
	}
	if m.classes, err = parseClasses(kv[keyClasses]); err != nil {
		return nil, bad(keyClasses)
	}
	if m.scaling, err = dataset.ParseScaling(kv[keyScaling]); err != nil {
		return nil, bad(keyScaling)
	}
	return m, nil
}

// positive reads a positive number; "" is 0.
func positive(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && !(v > 0 && v < 1e300) {
		err = strconv.ErrRange
	}
	return v, err
}

// fingerprint returns a checksum of the labels or targets of a data set, by which
// a model knows the data that it was trained on.
func fingerprint(s *dataset.Set) string {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for _, v := range s.Labels {
		fmt.Fprintln(h, v)
	}
	for _, v := range s.Targets {
		fmt.Fprintln(h, v)
	}
	return fmt.Sprintf("%d:%08x", s.Len(), h.Sum32())
}
