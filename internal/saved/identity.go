package saved

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// An Identity is what a posterior was fitted with, or what Load is given: the
// examples, of a model, and the prior.
type Identity struct {
	Examples linearize.Source
	Kernel   Kernel
	Remedy   string // what to do where something else was given
}

// Kernel is what is used of a kernel. One with a method Fingerprint() linearize.Sum
// is identified by it, bit for bit.
type Kernel interface {
	MeanTo(dst []float64, b *linearize.Batch)
	DiagTo(dst *mat.Dense, b *linearize.Batch)
}

// fingerprints is the JSON section of an identity.
type fingerprints struct {
	linearize.Fingerprint
	Prior  linearize.Sum // zero where the kernel has none
	Probed int           // numbers in the probe
}

func (f *fingerprints) complete() bool { return f.Complete() && f.Prior != linearize.Sum{} }

// fingerprints computes the checksums.
func (id *Identity) fingerprints(ctx context.Context) (f fingerprints, err error) {
	f.Fingerprint, err = linearize.FingerprintOf(ctx, id.Examples)
	if k, ok := id.Kernel.(interface{ Fingerprint() linearize.Sum }); ok {
		f.Prior = k.Fingerprint()
	}
	return f, err
}

// Save adds the identity to a store in the sections "identity" and "probe"
// behind the prefix. The probe holds numbers of some examples, and is empty
// where the fingerprints tell everything.
func (id *Identity) Save(ctx context.Context, w *store.Writer, prefix string) error {
	f, err := id.fingerprints(ctx)
	if err != nil {
		return err
	}
	probe, err := id.probe(ctx, &f)
	if err != nil {
		return err
	}
	f.Probed = len(probe)
	w.JSON(prefix+"identity", f)
	w.Floats(prefix+"probe", probe)
	return nil
}

// Check compares the identity with the saved one. The Reader keeps the error,
// which names what differs.
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
	if d := was.Difference(is.Fingerprint); d != "" {
		_ = r.Fail(id.Remedy, "the posterior does not belong to what is given: %s", d)
		return
	}
	if was.Prior != is.Prior {
		_ = r.Fail(id.Remedy, "the posterior does not belong to what is given: the prior is another")
		return
	}
	probe, err := id.probe(ctx, &is)
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

// The numbers of each output that a probe holds, in this order.
var probed = [...]string{"the network's output", "the Jacobian", "the prior mean", "the prior variance"}

// compare compares probes. Other processors round otherwise, so numbers count
// as the same within 1e-9 of the largest of their kind.
func (id *Identity) compare(r *store.Reader, section string, is []float64) {
	was := r.Floats(section, len(is))
	if r.Err() != nil {
		return
	}
	for kind, what := range probed {
		largest := 0.0
		for i := kind; i < len(was); i += len(probed) {
			largest = max(largest, math.Abs(was[i]))
		}
		for i := kind; i < len(was); i += len(probed) {
			if !(math.Abs(is[i]-was[i]) <= 1e-9*largest) {
				_ = r.Fail(id.Remedy, "%s at some training example is %v, for the saved posterior %v", what, is[i], was[i])
				return
			}
		}
	}
}

// mostProbed is the number of examples in a probe where the inputs are known.
const mostProbed = 16

// probe returns the output, J v, the prior mean and the prior variance of each
// output of some examples: none where fingerprints tell everything, the first 16
// where they tell the inputs, and else all.
func (id *Identity) probe(ctx context.Context, f *fingerprints) ([]float64, error) {
	switch x := id.Examples; {
	case f.complete() || x.Len() == 0:
		return nil, nil
	case f.Data.Inputs == linearize.Sum{}:
		return id.probeEach(ctx, x, x.Len())
	default:
		return id.probeSome(ctx, x)
	}
}

// probeSome probes the first examples, and linearizes no others where x is a
// Gatherer.
func (id *Identity) probeSome(ctx context.Context, x linearize.Source) ([]float64, error) {
	n := min(x.Len(), mostProbed)
	if _, ok := x.(linearize.Gatherer); !ok {
		return id.probeEach(ctx, x, n)
	}
	b, err := linearize.Gather(ctx, x, dense.Range(n))
	if err != nil {
		return nil, err
	}
	return id.probeEach(ctx, b, n)
}

// errEnough ends a pass over examples.
var errEnough = errors.New("saved: enough examples")

// probeEach probes the first n examples.
func (id *Identity) probeEach(ctx context.Context, x linearize.Source, n int) ([]float64, error) {
	var (
		out []float64
		v   []float64
		at  int
	)
	err := x.Batches(ctx, func(_ int, b *linearize.Batch) error {
		if v == nil {
			v = direction(b.P)
		}
		for i := 0; i < b.Len() && at < n; i++ {
			out = id.appendProbe(out, b.Slice(i, i+1), v)
			at++
		}
		if at == n {
			return errEnough
		}
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errEnough) {
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

// direction is the fixed vector v, length P, that Jacobians are compared by.
func direction(p int) []float64 {
	rng, v := rand.New(rand.NewPCG(1, 2)), make([]float64, p)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}
