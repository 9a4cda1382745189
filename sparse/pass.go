package sparse

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A part is a chunk of the training examples.
type part struct {
	first int // place of its first example
	x     *linearize.Batch
	rows  int // outputs of all its examples
}

// eachPart passes over x in chunks that do not depend on its batches.
func (b *basis) eachPart(ctx context.Context, x linearize.Source, o *Options, stage string, do func(p part) error) error {
	n := x.Len()
	return linearize.Rebatch(x, linearize.Tile(b.c)).Batches(ctx, func(first int, batch *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if batch.Outputs() != b.c || batch.P != b.z.Batch.P {
			panic("sparse: data and inducing examples are of different networks")
		}
		if err := do(part{first: first, x: batch, rows: batch.Len() * b.c}); err != nil {
			return err
		}
		o.Progress(stage, first+batch.Len(), n)
		return nil
	})
}

// A features forms φ of one part after another in the same memory.
type features struct {
	b      *basis
	k, phi []float64
}

// newFeatures is memory for parts of up to n examples, a chunk at most.
func newFeatures(b *basis, n int) *features { return newFeaturesOf(b, min(n, linearize.Tile(b.c))*b.c) }

// newFeaturesOf is memory for parts of up to rows outputs.
func newFeaturesOf(b *basis, rows int) *features {
	f := &features{b: b, k: make([]float64, rows*b.rows())}
	if b.g.Rows > 0 {
		f.phi = make([]float64, rows*b.rank())
	}
	return f
}

// cross returns k_Z(x), one row an output. It is valid until the next call.
func (f *features) cross(p part) (blas64.General, error) {
	k := dense.In(f.k, p.rows, f.b.rows())
	return k, f.b.crossTo(k, p.x, p.first)
}

// solve returns φ(x) from k_Z(x), whose memory it may use.
func (f *features) solve(ctx context.Context, x *linearize.Batch, k blas64.General) (blas64.General, error) {
	phi := k
	if f.b.g.Rows > 0 {
		phi = dense.In(f.phi, k.Rows, f.b.rank())
	}
	return f.b.solve(ctx, x, k, phi)
}

// of returns φ(x), one row an output. It is valid until the next call.
func (f *features) of(ctx context.Context, p part) (blas64.General, error) {
	k, err := f.cross(p)
	if err != nil {
		return k, err
	}
	return f.solve(ctx, p.x, k)
}
