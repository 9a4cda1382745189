package shard

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// Kind and Version of a part's file.
const (
	Kind    = "funcgp shard"
	Version = 2 // 2 added sites at the mode of the linearized model
)

// An Identity has fingerprints of all that the parts of one pass must have in common.
type Identity struct {
	Model      linearize.ModelFingerprint
	Prior      linearize.Sum
	Inducing   linearize.Sum // inputs of the inducing examples in order
	Method     string        // method of the posterior, and what else its result depends on
	Likelihood string        // name with parameters
	Examples   int           // N, over all parts
	Rows       linearize.Sum // rows of the data that are the examples
	Targets    linearize.Sum // targets of all examples, followed by their weights where these are not all 1
	Files      linearize.Sum // files that the data come from; zero for none
	Mode       linearize.Sum // v* − θ* for sites at the mode v*; zero for sites at θ*
}

// Difference says what differs from b; "" if nothing does.
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
		return "the targets or the weights of rows"
	case a.Inducing != b.Inducing:
		return "the inducing examples"
	case a.Mode != b.Mode:
		return "the mode of the linearized model"
	}
	return ""
}

// A Shard is one part of a pass over the training data.
type Shard struct {
	Part
	Identity Identity
	Inputs   linearize.DataFingerprint // fingerprint of the part's inputs
	Sums     *sparse.Sums              // nil where the sums are merged separately; see OpenApart
	Sites    *gp.Sites
}

// about is the JSON section of a part.
type about struct {
	Part
	Identity Identity
	Inputs   linearize.DataFingerprint
	First, N int  // first row, and number of rows of the part
	C        int  // C, the outputs
	Apart    bool // the sums are not in the file
}

// Compute returns the sums over the examples of x for the inducing examples and the factor of base. The sites are
// at f_lin(x;θ*+move), where θ*+move may be the mode of the linearized model (E9), or at θ* for a nil move. y has
// one row for each example. The error is an error of gp.NewSites or sparse.Builder.Add, or gp.ErrNoExamples. The
// caller must set Part and Identity. Inputs is set if the model has a fingerprint.
func Compute(ctx context.Context, base *sparse.Projected, move []float64, x linearize.Source, y *gp.Targets) (*Shard, error) {
	if x.Len() == 0 {
		return nil, gp.ErrNoExamples
	}
	var sites *gp.Sites
	var err error
	if move == nil {
		sites, err = gp.SitesFrom(ctx, x, y)
	} else {
		sites, err = gp.SitesMoved(ctx, x, move, y)
	}
	if err != nil {
		return nil, err
	}
	b := base.Builder()
	if err := b.Add(ctx, x, sites); err != nil {
		return nil, err
	}
	return withInputs(ctx, &Shard{Sums: b.Sums(), Sites: sites}, x)
}

func withInputs(ctx context.Context, s *Shard, x linearize.Source) (*Shard, error) {
	f, err := linearize.FingerprintOf(ctx, x)
	s.Inputs = f.Data
	return s, err
}

// Write writes the part to a file, which appears once it is complete. more, if not nil, adds sections of the
// caller.
func Write(path string, s *Shard, more func(w *store.Writer) error) error {
	if s.Number < 0 || s.Number >= s.Of || s.Of > mostParts {
		panic("shard: no such part")
	}
	n, c := s.Sites.F.Dims()
	first, end := s.Rows(s.Identity.Examples)
	if end-first != n || s.Sums != nil && s.Sums.Len() != n {
		panic("shard: the part has another number of examples")
	}
	a := about{Part: s.Part, Identity: s.Identity, Inputs: s.Inputs, First: first, N: n, C: c, Apart: s.Sums == nil}
	return store.Write(path, Kind, Version, func(w *store.Writer) error {
		w.JSON("shard.about", a)
		if s.Sums != nil {
			s.Sums.Save(w, "shard.sums")
		}
		s.Sites.Save(w, "shard.")
		if more != nil {
			return more(w)
		}
		return nil
	})
}
