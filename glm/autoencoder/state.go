package autoencoder

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/store"
)

// A State is a training by Train between two steps. Train can resume from it.
type State struct {
	Identity         Identity
	Theta, GGN       []float64 // P; GGN is H less what is left of the prior
	Moment1, Moment2 []float64 // Adam's moments, P; nil without Adam
	Step             int       // number of steps made
	Loss             float64   // sum of the losses of the steps in this epoch
	Epochs           []Epoch   // epochs that have ended

	Best               int       // the epoch with the smallest validation error, counted from 1; 0 before any
	BestTheta, BestGGN []float64 // Theta and GGN after epoch Best
}

// An Identity says by checksums which training a State belongs to.
type Identity struct {
	Network string `json:"network"` // graph and parameters at the start
	Rows    string `json:"rows"`    // training and validation rows in order
	Options string `json:"options"` // options as text, without those that do not change the result
}

// identify returns the identity of a training of a on the rows x.
func identify(a *Autoencoder, x *mat.Dense, o *TrainOptions) Identity {
	h := sha256.New()
	buf := []byte{}
	for _, m := range []*mat.Dense{x, o.Validation} {
		if m == nil || m.IsEmpty() {
			continue
		}
		for i := range m.RawMatrix().Rows {
			buf = buf[:0]
			for _, v := range m.RawRowView(i) {
				buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v))
			}
			_, _ = h.Write(buf) // a hash never returns an error
		}
	}
	validation := o.Validation != nil
	return Identity{
		Network: fmt.Sprintf("%x", a.net.Fingerprint()),
		Rows:    fmt.Sprintf("%x", h.Sum(nil)[:16]),
		Options: fmt.Sprintf("rule %v, curvature %v, prior %v, noise %v, memory %v, samples %d, ascent %v, learning rate %v, batch %d, seed %d, validation %v, patience %d",
			o.Rule, o.Curvature, o.Prior, o.Noise, o.Memory, o.Samples, o.Ascent, o.LearningRate, o.Batch, o.Seed, validation, o.Patience),
	}
}

// A ResumeError reports a state that belongs to another training.
type ResumeError struct{ What string }

func (e *ResumeError) Error() string {
	return "autoencoder: the checkpoint is of another training, which differs in " + e.What + "; train with what it was made from, or remove it"
}

func (s *State) clone() *State {
	c := *s
	for _, v := range []*[]float64{&c.Theta, &c.GGN, &c.Moment1, &c.Moment2, &c.BestTheta, &c.BestGGN} {
		*v = slices.Clone(*v)
	}
	c.Epochs = slices.Clone(c.Epochs)
	return &c
}

// Kind and version of a file with a State.
const (
	stateKind    = "autoencoder training"
	stateVersion = 2
)

type stateHeader struct {
	Identity Identity `json:"identity"`
	P        int      `json:"parameters"`
	Step     int      `json:"step"`
	Epochs   int      `json:"epochs"`
	Best     int      `json:"best"`
	Adam     bool     `json:"adam"`
}

// Write writes the state to a file. The file appears once it is complete.
func (s *State) Write(path string) error {
	return store.Write(path, stateKind, stateVersion, func(w *store.Writer) error {
		w.JSON("header", stateHeader{s.Identity, len(s.Theta), s.Step, len(s.Epochs), s.Best, s.Moment1 != nil})
		numbers := []float64{s.Loss}
		for _, e := range s.Epochs {
			numbers = append(numbers, e.Train, e.Validation)
		}
		w.Floats("losses", numbers)
		for _, v := range s.vectors() {
			w.Floats(v.name, *v.data)
		}
		return nil
	})
}

type namedVector struct {
	name string
	data *[]float64
}

// vectors returns the names and the vectors that the state holds.
func (s *State) vectors() []namedVector {
	list := []namedVector{{"theta", &s.Theta}, {"ggn", &s.GGN}}
	if s.Moment1 != nil {
		list = append(list, namedVector{"moment1", &s.Moment1}, namedVector{"moment2", &s.Moment2})
	}
	if s.Best > 0 {
		list = append(list, namedVector{"best_theta", &s.BestTheta}, namedVector{"best_ggn", &s.BestGGN})
	}
	return list
}

// ReadState reads a state that Write wrote. The error is a *store.Error for a damaged file, a file of another kind and
// one of an earlier version.
func ReadState(path string) (*State, error) {
	f, err := store.Open(path, stateKind, stateVersion)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := f.Reader("")
	if f.Version() < stateVersion {
		return nil, r.Fail("remove it, and train again", "it is of an earlier version, whose precision began with the number of rows")
	}
	var h stateHeader
	r.JSON("header", &h)
	if r.Err() == nil && (h.P < 0 || h.Step < 0 || h.Epochs < 0 || h.Best < 0 || h.Best > h.Epochs) {
		return nil, r.Fail("remove it, and train again", "its header is impossible")
	}
	losses := r.Floats("losses", 1+2*h.Epochs)
	if r.Err() != nil {
		return nil, r.Err()
	}
	s := &State{Identity: h.Identity, Step: h.Step, Best: h.Best, Loss: losses[0]}
	for i := range h.Epochs {
		s.Epochs = append(s.Epochs, Epoch{losses[1+2*i], losses[2+2*i]})
	}
	if h.Adam {
		s.Moment1 = []float64{}
	}
	for _, v := range s.vectors() {
		*v.data = slices.Clone(r.Floats(v.name, h.P))
	}
	return s, r.Err()
}
