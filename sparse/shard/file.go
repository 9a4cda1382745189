package shard

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// Kind and Version are those of a part's file in package store.
const (
	Kind    = "funcgp shard"
	Version = 1
)

// An Identity says by fingerprints what all parts of one pass must have in common.
type Identity struct {
	Model      linearize.ModelFingerprint
	Prior      linearize.Sum
	Inducing   linearize.Sum // inputs of the inducing examples, in their order
	Method     string        // of the posterior, and what else its result depends on
	Likelihood string        // with its parameters
	Examples   int           // N, of all parts
	Rows       linearize.Sum // which rows of the data are the examples
	Targets    linearize.Sum // of all examples
	Files      linearize.Sum // the files that the data come from; zero where they come from none
	Round      int           // of a refit: Newton steps before this pass
	From       linearize.Sum // of a refit after round 0: the function at which it expands
}

// Difference says what differs from b, "" where nothing does.
func (a Identity) Difference(b Identity) string {
	switch {
	case a.Model.Graph != b.Model.Graph:
		return "the graph of the network"
	case a.Model.Parameters != b.Model.Parameters:
		return "the parameters of the network"
	case a.Prior != b.Prior:
		return "the prior"
	case a.Likelihood != b.Likelihood:
		return fmt.Sprintf("the likelihood, %s and %s", a.Likelihood, b.Likelihood)
	case a.Method != b.Method:
		return fmt.Sprintf("the method, %s and %s", a.Method, b.Method)
	case a.Examples != b.Examples:
		return fmt.Sprintf("the number of training examples, %d and %d", a.Examples, b.Examples)
	case a.Files != b.Files:
		return "the files of the data"
	case a.Rows != b.Rows:
		return "which rows of the data are training examples"
	case a.Targets != b.Targets:
		return "the targets"
	case a.Inducing != b.Inducing:
		return "the inducing examples"
	case a.Round != b.Round:
		return fmt.Sprintf("the round of the refit, %d and %d", a.Round, b.Round)
	case a.From != b.From:
		return "the function of the round before"
	}
	return ""
}

// A Shard is one part of a pass over the training data.
type Shard struct {
	Part
	Identity Identity
	Inputs   linearize.DataFingerprint // of the examples of the part
	Sums     *sparse.Sums              // nil where they are added apart from the file; see OpenApart
	Sites    *gp.Sites
	// Gradient is Jᵀr at θ* over the examples of the part, length P, or nil.
	Gradient []float64
	// Step is Φᵀw, by which the function values of the sites exceed the prior mean, n·C,
	// in the rounds of a refit after the first; else nil.
	Step []float64
}

// about is the JSON section of a part.
type about struct {
	Part
	Identity Identity
	Inputs   linearize.DataFingerprint
	First, N int // rows of the part
	C        int // outputs
	Gradient int // length of the gradient
	Step     bool
	Apart    bool // the sums are not in the file
}

// Compute returns the sums over the examples of x, given the inducing examples and the
// factor of base, with their sites at the trained parameters. y has a row for each.
// The errors are those of gp.NewSites and sparse.Builder.Add; an x without examples is
// gp.ErrNoExamples. The caller sets Part and Identity, and Inputs is set for models that
// have fingerprints.
func Compute(ctx context.Context, base *sparse.Projected, x linearize.Source, y *mat.Dense, lik gp.Likelihood) (*Shard, error) {
	if x.Len() == 0 {
		return nil, gp.ErrNoExamples
	}
	sites, err := gp.SitesFrom(ctx, x, y, lik)
	if err != nil {
		return nil, err
	}
	b := base.Builder()
	if err := b.Add(ctx, x, sites); err != nil {
		return nil, err
	}
	return withInputs(ctx, &Shard{Sums: b.Sums(), Sites: sites}, x)
}

// ComputeAt is Compute with the sites at the function m + Φᵀw, for a round of a refit: see
// sparse.Round.
func ComputeAt(ctx context.Context, base *sparse.Projected, w []float64, x linearize.Source, y *mat.Dense, lik gp.Likelihood) (*Shard, error) {
	if x.Len() == 0 {
		return nil, gp.ErrNoExamples
	}
	b := base.Builder()
	sites, step, err := b.AddAt(ctx, w, x, y, lik)
	if err != nil {
		return nil, err
	}
	return withInputs(ctx, &Shard{Sums: b.Sums(), Sites: sites, Step: step}, x)
}

func withInputs(ctx context.Context, s *Shard, x linearize.Source) (*Shard, error) {
	f, err := linearize.FingerprintOf(ctx, x)
	s.Inputs = f.Data
	return s, err
}

// Write writes the part to a file, which appears when it is complete or not at all.
// more, if not nil, adds sections of the caller.
func Write(path string, s *Shard, more func(w *store.Writer) error) error {
	if s.Number < 0 || s.Number >= s.Of || s.Of > mostParts {
		panic("shard: no such part")
	}
	n, c := s.Sites.F.Dims()
	first, end := s.Rows(s.Identity.Examples)
	if end-first != n || s.Sums != nil && s.Sums.Len() != n {
		panic("shard: the part has another number of examples")
	}
	var sums []byte
	if s.Sums != nil {
		var err error
		if sums, err = s.Sums.MarshalBinary(); err != nil {
			return err
		}
	}
	a := about{Part: s.Part, Identity: s.Identity, Inputs: s.Inputs, First: first, N: n, C: c, Gradient: len(s.Gradient), Step: s.Step != nil, Apart: s.Sums == nil}
	return store.Write(path, Kind, Version, func(w *store.Writer) error {
		w.JSON("shard.about", a)
		if s.Sums != nil {
			w.Bytes("shard.sums", sums)
		}
		s.Sites.Save(w, "shard.")
		w.Floats("shard.gradient", s.Gradient)
		if s.Step != nil {
			w.Floats("shard.step", s.Step)
		}
		if more != nil {
			return more(w)
		}
		return nil
	})
}
