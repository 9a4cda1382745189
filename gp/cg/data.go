package cg

import (
	"context"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A MulKernel is a kernel that also multiplies with vectors, without its matrix.
// It must be linear in the Jacobians of both sides, as every kernel of a
// linearized network is (E2): for any v, Σ_i κ(x,x_i) v_i must be κ(x,u) for an
// example u with the Jacobian Σ_i v_iᵀJ(x_i).
type MulKernel interface {
	ntk.Kernel
	ntk.MulToer
}

// A data holds the training examples and multiplies with their kernel.
type data struct {
	k       MulKernel
	x       linearize.Source // as they were given
	chunks  linearize.Source // in batches of a size that depends on C alone
	whole   *linearize.Batch // all of them, where they are in memory
	n, c, p int
	set     gp.TrainingSet
	pass    *sync.Mutex // held during a pass over examples that are not in memory; nil where they are
}

// A firstPass holds what the first pass over the examples computes.
type firstPass struct {
	f, prior []float64 // f(x;θ*) and m, N·C
	diag     []float64 // κ(x_i,x_i), N·C·C
}

// newData passes over the examples once.
func newData(ctx context.Context, k MulKernel, x linearize.Source, o *Options) (*data, *firstPass, memoryPlan, error) {
	if x.Len() == 0 {
		return nil, nil, memoryPlan{}, gp.ErrNoExamples
	}
	d := &data{k: k, x: x, n: x.Len()}
	d.whole, _ = x.(*linearize.Batch)
	var (
		s    *firstPass
		plan memoryPlan
	)
	store := batchBuilder{n: d.n}
	take := func(first int, b *linearize.Batch) (err error) {
		if s == nil {
			if plan, err = planMemory(d.n, b, d.whole == nil, o); err != nil {
				return err
			}
			d.c, d.p = b.Outputs(), b.P
			s = &firstPass{f: make([]float64, d.n*d.c), prior: make([]float64, d.n*d.c), diag: make([]float64, d.n*d.c*d.c)}
		}
		if plan.keep {
			store.add(first, b)
		}
		c := d.c
		lo, hi := first*c, (first+b.Len())*c
		copy(s.f[lo:hi], dense.Contiguous(b.F))
		k.MeanTo(s.prior[lo:hi], b)
		k.DiagTo(mat.NewDense(hi-lo, c, s.diag[lo*c:hi*c]), b)
		if err := sites.NotFinite("network output", s.f[lo:hi], first, c); err != nil {
			return err
		}
		if err := sites.NotFinite("prior mean", s.prior[lo:hi], first, c); err != nil {
			return err
		}
		return sites.NotFinite("prior variance", s.diag[lo*c:hi*c], first, c*c)
	}
	// The size of a chunk depends on C, which the first example has.
	one, err := linearize.First(ctx, x, 1)
	switch {
	case err != nil:
		return nil, nil, plan, err
	case one == nil: // x has examples but yields none
		return nil, nil, plan, gp.ErrNoExamples
	}
	d.c = one.Outputs()
	if err := CheckMemory(d.n, d.c, one.P, o.MaxMemory); err != nil {
		return nil, nil, plan, err
	}
	if d.set, err = gp.NewTrainingSet(ctx, x, one); err != nil {
		return nil, nil, plan, err
	}
	d.chunks = linearize.Rebatch(x, linearize.Tile(d.c))
	if err := d.chunks.Batches(ctx, take); err != nil {
		return nil, nil, plan, err
	}
	switch {
	case plan.keep:
		d.whole, d.chunks = store.batch, linearize.Rebatch(store.batch, linearize.Tile(d.c))
	case d.whole == nil:
		d.pass = new(sync.Mutex)
	}
	return d, s, plan, nil
}

// each calls do for each chunk.
func (d *data) each(ctx context.Context, do func(first int, b *linearize.Batch) error) error {
	if d.pass != nil {
		d.pass.Lock()
		defer d.pass.Unlock()
	}
	return d.chunks.Batches(ctx, func(first int, b *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do(first, b)
	})
}

// gather returns the examples at these rows.
func (d *data) gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	if d.whole != nil {
		return d.whole.Gather(ctx, rows)
	}
	d.pass.Lock()
	defer d.pass.Unlock()
	return linearize.Gather(ctx, d.x, rows)
}

// A gathered is a Source that gathers its examples chunk by chunk.
type gathered struct{ d *data }

var (
	_ linearize.Source   = gathered{}
	_ linearize.Gatherer = gathered{}
)

// Len implements linearize.Source.
func (g gathered) Len() int { return g.d.n }

// Gather implements linearize.Gatherer.
func (g gathered) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	return g.d.gather(ctx, rows)
}

// Batches implements linearize.Source.
func (g gathered) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	size := linearize.Tile(g.d.c)
	rows := dense.Range(g.d.n)
	for t := range par.Tiles(g.d.n, size) {
		lo, hi := par.Bounds(t, g.d.n, size)
		b, err := g.d.gather(ctx, rows[lo:hi])
		if err != nil {
			return err
		}
		if err := yield(lo, b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rowsFor returns the rows of v that belong to the examples of a chunk.
func (d *data) rowsFor(v blas64.General, first int, b *linearize.Batch) blas64.General {
	return dense.Rows(v, first*d.c, (first+b.Len())*d.c)
}

// crossTo writes κ(x_n, z), N·C × rows of z.
func (d *data) crossTo(ctx context.Context, dst blas64.General, z *linearize.Batch) error {
	return d.each(ctx, func(first int, b *linearize.Batch) error {
		rows := dense.View(d.rowsFor(dst, first, b))
		if err := ntk.BlockContextTo(ctx, d.k, rows, b, z); err != nil {
			return err
		}
		return sites.NotFiniteRows("cross-kernel", rows, first, d.c)
	})
}

// jacobianOf returns vᵀJ over all examples; v is N·C×k. The next sum overwrites it.
func (d *data) jacobianOf(ctx context.Context, sum *jacobian.Sum, v blas64.General) (*linearize.Batch, error) {
	sum.Batch = nil
	err := d.each(ctx, func(first int, b *linearize.Batch) error {
		if sum.Batch == nil {
			sum.Reset(b, v.Cols)
		}
		return sum.Add(ctx, b, d.rowsFor(v, first, b))
	})
	return sum.Batch, err
}

// mulTo writes K v. Where the examples are in memory, the kernel multiplies.
// Otherwise one pass sums vᵀJ and a second pass takes κ with it. sum is scratch.
func (d *data) mulTo(ctx context.Context, dst, v blas64.General, sum *jacobian.Sum) error {
	if d.whole != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.k.MulTo(dense.View(dst), d.whole, d.whole, dense.View(v))
		return nil
	}
	u, err := d.jacobianOf(ctx, sum, v)
	if err != nil {
		return err
	}
	return d.each(ctx, func(first int, b *linearize.Batch) error {
		if err := ntk.BlockContextTo(ctx, d.k, dense.View(d.rowsFor(dst, first, b)), b, u); err != nil {
			return err
		}
		return nil
	})
}
