package main

import (
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/funcgp/funcgp/internal/dataset"
)

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
