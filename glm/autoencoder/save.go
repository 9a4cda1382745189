package autoencoder

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/store"
)

// Kind and version of a file with a Posterior.
const (
	postKind    = "autoencoder"
	postVersion = 1
)

// postHeader identifies the network of a saved posterior.
type postHeader struct {
	Network string  `json:"network"` // fingerprint of the graph and θ
	P       int     `json:"parameters"`
	Code    string  `json:"code"`
	Prior   float64 `json:"prior_precision"`
	Noise   float64 `json:"noise_variance"`
	Made    string  `json:"made"` // how the posterior was made, in words
}

// Save writes the posterior to a file without the network; WriteONNX writes the network. made says in a few words
// how the posterior was made.
func (p *Posterior) Save(path, made string) error {
	return store.Write(path, postKind, postVersion, func(w *store.Writer) error {
		w.JSON("about", postHeader{p.print(), len(p.h), p.a.code, p.prior, p.noise, made})
		w.Floats("ggn", p.h)
		return nil
	})
}

func (p *Posterior) print() string { return fmt.Sprintf("%x", p.a.net.Fingerprint()) }

// Load reads a posterior that Save wrote, and returns made as well. a must be the same network. The error is a
// *store.Error for a damaged file, a file of another kind and a file for another network.
func Load(path string, a *Autoencoder) (p *Posterior, made string, err error) {
	f, err := store.Open(path, postKind, postVersion)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	r := f.Reader("")
	var h postHeader
	r.JSON("about", &h)
	if r.Err() != nil {
		return nil, "", r.Err()
	}
	_, _, params := a.net.Dims()
	if h.P != params || h.Network != fmt.Sprintf("%x", a.net.Fingerprint()) {
		return nil, "", r.Fail("give the model that it was written with", "its posterior is of another network")
	}
	ggn := r.Floats("ggn", params)
	if r.Err() != nil {
		return nil, "", r.Err()
	}
	if !(h.Prior >= 0) || !(h.Noise > 0) || slices.ContainsFunc(ggn, func(v float64) bool { return !(v >= 0) || v+h.Prior == 0 }) {
		return nil, "", r.Fail("fit it again", "its numbers are no precisions")
	}
	return NewPosterior(a, ggn, h.Prior, h.Noise), h.Made, nil
}
