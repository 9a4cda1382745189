package saved

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// OtherFit is the remedy for a checkpoint of another fit.
const OtherFit = "resume with the data and options that it was made from, or start again without it"

// A Fit identifies the fit that a checkpoint is of.
type Fit struct {
	Version  int    // version of the format of the checkpoints
	Of       string // what was interrupted, such as "sparse.Fit"
	N, C     int    // training examples and outputs
	Targets  linearize.Sum
	Identity *Identity `json:"-"`
}

// NewFit returns a Fit whose checkpoints have the given version. y may be nil. It computes the fingerprints of id
// once for all checkpoints.
func NewFit(ctx context.Context, of string, version, n, c int, y *mat.Dense, weights []float64, id *Identity) (*Fit, error) {
	f := &Fit{Version: version, Of: of, N: n, C: c, Identity: id}
	if y != nil {
		f.Targets = linearize.SumOf(append(slices.Clone(dense.Contiguous(y)), weights...))
	}
	id.Remedy = OtherFit
	return f, id.compute(ctx)
}

// Save adds the fit to a store, in the sections "fit", "identity" and "probe" behind the prefix.
func (f *Fit) Save(w *store.Writer, prefix string) {
	w.JSON(prefix+"fit", f)
	f.Identity.write(w, prefix)
}

// Check compares the fit, but not its identity, with the one of the checkpoint that r reads. If they differ, it sets
// an error of r that names the difference.
func (f *Fit) Check(r *store.Reader) {
	var was Fit
	r.JSON("fit", &was)
	switch {
	case r.Err() != nil:
	case was.Version != f.Version:
		_ = r.Fail("start again without it", "is a checkpoint in version %d of its format, this program reads version %d", was.Version, f.Version)
	case was.Of != f.Of:
		Differs(r, fmt.Sprintf("its kind, %s and not %s", was.Of, f.Of))
	case was.N != f.N:
		Differs(r, fmt.Sprintf("the number of training examples, %d and not %d", was.N, f.N))
	case was.C != f.C:
		Differs(r, fmt.Sprintf("the number of outputs, %d and not %d", was.C, f.C))
	case was.Targets != f.Targets:
		Differs(r, "the targets")
	}
}

// Differs sets an error of r that says that the checkpoint is of another fit.
func Differs(r *store.Reader, what string) {
	_ = r.Fail(OtherFit, "is of another fit, which differs in %s", what)
}
