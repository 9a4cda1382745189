// Package saved checks, for every Load, that a saved posterior belongs to the model, the examples and the prior that
// Load is given.
package saved

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// Texts of errors for a file that does not belong to the data: the remedies, and the problem Impossible.
const (
	FitAgain      = "fit and save it again with this program"
	OtherData     = "give the network, its parameters, the prior and the examples that it was fitted with"
	OtherTargets  = "give the targets and the likelihood that it was fitted with"
	OtherInducing = "give the inducing examples that it was fitted with"
	Impossible    = "holds an impossible posterior"
	WriteAgain    = "write it again"
)

// An Identity identifies a posterior that is saved or loaded by its training examples, their model, and the prior.
type Identity struct {
	Examples linearize.Source
	Kernel   Kernel // gives the prior
	Remedy   string // remedy if they differ from the saved ones

	known *fingerprints // what Save writes; nil until compute
	probe []float64
}

// Of returns the identity of a posterior of training examples.
func Of(x linearize.Source, k Kernel) *Identity {
	return &Identity{Examples: x, Kernel: k, Remedy: OtherData}
}

// A Kernel gives the prior mean and the prior variances. If it also has a method Fingerprint() linearize.Sum, that
// identifies it, bit for bit.
type Kernel interface {
	MeanTo(dst []float64, b *linearize.Batch)
	DiagTo(dst *mat.Dense, b *linearize.Batch)
}

// fingerprints is the JSON section of an identity.
type fingerprints struct {
	linearize.Fingerprint
	Prior  linearize.Sum // zero if the kernel has no fingerprint
	Probed int           // numbers in the probe
}

// fingerprints computes the fingerprints.
func (id *Identity) fingerprints(ctx context.Context) (f fingerprints, err error) {
	f.Fingerprint, err = linearize.FingerprintOf(ctx, id.Examples)
	if k, ok := id.Kernel.(interface{ Fingerprint() linearize.Sum }); ok {
		f.Prior = k.Fingerprint()
	}
	return f, err
}

// Save adds the identity to a store in the sections "identity" and "probe" behind the prefix. The probe holds outputs,
// Jacobian products and priors of some examples, and is empty where the fingerprints are complete.
func (id *Identity) Save(ctx context.Context, w *store.Writer, prefix string) error {
	if err := id.compute(ctx); err != nil {
		return err
	}
	id.write(w, prefix)
	return nil
}

// compute computes what Save writes, unless it was computed before.
func (id *Identity) compute(ctx context.Context) error {
	if id.known != nil {
		return nil
	}
	f, err := id.fingerprints(ctx)
	if err != nil {
		return err
	}
	if id.probe, err = id.probed(ctx, &f); err != nil {
		return err
	}
	f.Probed, id.known = len(id.probe), &f
	return nil
}

// write writes what compute has computed.
func (id *Identity) write(w *store.Writer, prefix string) {
	w.JSON(prefix+"identity", id.known)
	w.Floats(prefix+"probe", id.probe)
}

// Check compares the identity with the saved one. Where they differ, it gives r an error that names the difference.
// If the examples have a method Withheld() bool that returns true, their inputs are not known, and only model and
// prior are compared.
func (id *Identity) Check(ctx context.Context, r *store.Reader, prefix string) {
	var was fingerprints
	r.JSON(prefix+"identity", &was)
	if r.Err() != nil {
		return
	}
	is, err := id.fingerprints(ctx)
	if err != nil {
		r.Stop(err)
		return
	}
	if w, ok := id.Examples.(interface{ Withheld() bool }); ok && w.Withheld() {
		is.Data = was.Data // inducing examples, whose inputs are known, have an identity of their own
	}
	if d := was.Difference(is.Fingerprint); d != "" {
		_ = r.Fail(id.Remedy, "the posterior does not belong to what is given: %s", d)
		return
	}
	if was.Prior != is.Prior {
		_ = r.Fail(id.Remedy, "the posterior does not belong to what is given: the prior is another")
		return
	}
	probe, err := id.probed(ctx, &is)
	if err != nil {
		r.Stop(err)
		return
	}
	if was.Probed != len(probe) {
		_ = r.Fail(id.Remedy, "the number of outputs is not that of the network that the posterior was fitted with")
		return
	}
	id.compare(r, prefix+"probe", probe)
}

// probes names the numbers that a probe holds for each output, in their order.
var probes = [...]string{"the network's output", "the Jacobian", "the prior mean", "the prior variance"}

// compare compares a probe with the saved one. Processors round differently, so numbers count as the same within 1e-9
// of the largest of their kind.
func (id *Identity) compare(r *store.Reader, section string, is []float64) {
	was := r.Floats(section, len(is))
	if r.Err() != nil {
		return
	}
	for kind, what := range probes {
		largest := 0.0
		for i := kind; i < len(was); i += len(probes) {
			largest = max(largest, math.Abs(was[i]))
		}
		for i := kind; i < len(was); i += len(probes) {
			if !(math.Abs(is[i]-was[i]) <= 1e-9*largest) {
				_ = r.Fail(id.Remedy, "%s at some training example is %v, for the saved posterior %v", what, is[i], was[i])
				return
			}
		}
	}
}

// mostProbed bounds the examples in a probe where the inputs have a fingerprint.
const mostProbed = 16

// probed returns the output, J v, the prior mean and the prior variance of each output of some examples. It takes no
// example where the fingerprints are complete, the first 16 where the inputs have a fingerprint, and otherwise all.
func (id *Identity) probed(ctx context.Context, f *fingerprints) ([]float64, error) {
	x := id.Examples
	switch {
	case (f.Complete() && f.Prior != linearize.Sum{}) || x.Len() == 0:
		return nil, nil
	case f.Data.Inputs != linearize.Sum{}:
		some, err := linearize.First(ctx, x, mostProbed)
		if err != nil {
			return nil, err
		}
		x = some
	}
	var out, v []float64
	err := x.Batches(ctx, func(_ int, b *linearize.Batch) error {
		if v == nil {
			v = direction(b.P)
		}
		for i := range b.Len() {
			out = id.appendProbe(out, b.Slice(i, i+1), v)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("saved: comparing examples: %w", err)
	}
	return out, nil
}

// appendProbe appends the numbers of one example.
func (id *Identity) appendProbe(out []float64, b *linearize.Batch, v []float64) []float64 {
	c := b.Outputs()
	jv, mean, diag := make([]float64, c), make([]float64, c), mat.NewDense(c, c, nil)
	b.MulVecTo(jv, v)
	id.Kernel.MeanTo(mean, b)
	id.Kernel.DiagTo(diag, b)
	for j := range c {
		out = append(out, b.F.At(0, j), jv[j], mean[j], diag.At(j, j))
	}
	return out
}

// direction returns the fixed vector v, length P, with which Jacobians are multiplied before they are compared.
func direction(p int) []float64 {
	rng, v := rand.New(rand.NewPCG(1, 2)), make([]float64, p)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}
