package sparse

import (
	"context"
	"errors"
	"hash/crc64"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Builder computes Sums over training examples, which may be added all at
// once, shard by shard, or as they arrive. Merge adds the sums of other Builders
// with the same inducing examples and prior, on this or another machine. A
// Builder is used by one goroutine at a time.
type Builder struct {
	b    *basis
	o    Options
	sums *Sums
	used bool         // something was added or merged
	save checkpointer // of Fit and Refit
}

// NewBuilder forms and factors the kernel of the inducing examples. It fails
// with a *CountError where there are none, and with a *gp.MemoryError before
// anything large is allocated. Checkpoint and Resume of o are ignored.
func NewBuilder(ctx context.Context, k ntk.Kernel, z *Inducing, o *Options) (*Builder, error) {
	d := o.withDefaults()
	d.Checkpoint, d.Resume = nil, nil
	return newBuilder(ctx, k, z, 0, false, &d)
}

// newBuilder moves Checkpoint and Resume of o to the Builder, so that a
// posterior that keeps o does not use them again. n is the number of training
// examples, 0 where it is not known.
func newBuilder(ctx context.Context, k ntk.Kernel, z *Inducing, n int, refit bool, o *Options) (*Builder, error) {
	if err := checkInducing(z, n); err != nil {
		return nil, err
	}
	c, per := z.outputs(), z.per()
	err := z.checkMemory("a sparse posterior", o.Memory, func(m int) int64 { return RowBytes(memory.MulInt(m, per), n, c, refit) })
	if err != nil {
		return nil, err
	}
	// Form and factor K_ZZ.
	b := &basis{k: k, z: z, c: c, per: per, prefixOf: z, ratio: 1}
	a, err := b.gram(ctx, o)
	if err != nil {
		return nil, err
	}
	diag := make([]float64, a.N)
	for i := range diag {
		diag[i] = a.Data[i*a.Stride+i]
		b.trace += diag[i]
	}
	largest := slices.Max(diag)
	// Factor K_ZZ without pivoting if all pivots are large enough.
	l, regular, err := dense.PotrfContext(ctx, a)
	for i := 0; regular && i < l.N; i++ {
		p := l.Data[i*l.Stride+i]
		regular = p*p > smallPivot*largest
	}
	if b.l = l; err == nil && !regular {
		b.l = blas64.Triangular{}
		// The upper triangle is still K_ZZ.
		for i, v := range diag {
			row := a.Data[i*a.Stride:]
			for j := range i {
				row[j] = a.Data[j*a.Stride+i]
			}
			row[i] = v
		}
		err = b.factorPivoted(ctx, a, largest)
	}
	if err != nil {
		return nil, err
	}
	if b.rank() == 0 {
		return nil, errors.New("sparse: the kernel of the inducing examples is zero; the prior or the Jacobian is")
	}
	save := newCheckpointer(o, b.c)
	o.Checkpoint, o.Resume = nil, nil
	return &Builder{b: b, o: *o, sums: newSums(b.sumsSpec()), save: save}, nil
}

// Builder returns an empty Builder with the inducing examples of p and the factor of their
// kernel. It does not contain the sums of p. On machines that round differently, the
// Builders of one saved Projected have the same features, and a K_ZZ that is singular to
// working precision has the same rank.
func (p *Projected) Builder() *Builder {
	return &Builder{b: p.b, o: p.o, sums: newSums(p.sums.spec)}
}

// sumsSpec returns what two Sums must have in common to be added.
func (b *basis) sumsSpec() sumsSpec {
	return sumsSpec{m: b.z.Len(), c: b.c, rank: b.rank(), inputs: b.fingerprint(), trace: b.trace}
}

// fingerprint is a checksum of the inputs of the inducing examples, and of the
// directions of pairs.
func (b *basis) fingerprint() uint64 {
	var buf []byte
	add := func(v uint64) {
		for range 8 {
			buf = append(buf, byte(v))
			v >>= 8
		}
	}
	if x := b.z.Batch.X; x != nil {
		for i := range b.z.Len() {
			for _, v := range x.RawRowView(i) {
				add(math.Float64bits(v))
			}
		}
	}
	if b.z.Pairs() {
		add(uint64(b.z.outputs()))
		for _, v := range dense.Contiguous(b.z.Directions) {
			add(math.Float64bits(v))
		}
	}
	return crc64.Checksum(buf, crc64.MakeTable(crc64.ECMA))
}

// Add adds the examples of x with their sites s, in one pass over x. It fails
// with a *gp.NotFiniteError where a number is NaN or Inf, and with ctx.Err();
// then nothing is added.
func (b *Builder) Add(ctx context.Context, x linearize.Source, s *gp.Sites) error {
	n := x.Len()
	if n == 0 {
		return nil
	}
	local, err := sites.New(s, n, b.b.c)
	if err != nil {
		return err
	}
	sums := b.sums
	if b.used {
		sums = b.sums.Clone()
	}
	if b.save.active() {
		fit, err := saved.NewFit(ctx, "sparse.Fit", checkpointVersion, n, b.b.c, nil, nil, saved.Of(b.b.z.Batch, b.b.k))
		if err != nil {
			return err
		}
		if err := b.save.begin(ctx, sums.spec, fit, false, marksOf(local)...); err != nil {
			return err
		}
	}
	first, from := 0, b.save.from
	if from != nil {
		sums, first = from.sums, from.Done
		if from.Dual {
			first = n
		}
	}
	f, a := newFeatures(b.b, n), newAdder(b.b, sums, n, b.b.c)
	do := func(p chunk) error {
		phi, err := f.of(ctx, p)
		if err != nil {
			return err
		}
		return a.add(b.save.uninterrupted(ctx), p, phi, local.Slice(p.first, p.first+p.x.Len()))
	}
	err = b.save.eachChunk(ctx, b.b, x, &b.o, StageData, first, do, func(done int) *checkpoint {
		return &checkpoint{Done: done, sums: sums}
	})
	if err != nil {
		if sums == b.sums {
			b.sums = newSums(sums.spec)
		}
		return err
	}
	if from == nil || !from.Dual { // the sums of a pass for α have it already
		sums.logLik += s.LogLik
	}
	b.sums, b.used = sums, true
	return nil
}

// Merge adds the sums of another Builder. It fails as Sums.Merge does.
func (b *Builder) Merge(s *Sums) error {
	b.used = true
	return b.sums.Merge(s)
}

// Sums returns a copy of the sums over all that was added.
func (b *Builder) Sums() *Sums { return b.sums.Clone() }

// Posterior returns the posterior given all that was added.
func (b *Builder) Posterior(ctx context.Context) (*Projected, error) {
	return newProjected(ctx, b.b, b.sums.Clone(), &b.o)
}

// A chunk is a range of the examples of a Source.
type chunk struct {
	first int // index of its first example
	x     *linearize.Batch
	rows  int        // outputs of all its examples: x.Len()·C
	sums  *mat.Dense // weights w, x.Len()×C, if the one output of each example is Σ_a w_a f_a; else nil
}

// eachChunk calls do with one chunk of x after another. The chunks do not depend
// on the batches of x.
func (b *basis) eachChunk(ctx context.Context, x linearize.Source, o *Options, stage string, do func(p chunk) error) error {
	return b.eachChunkOf(ctx, x, b.c, o, stage, do)
}

// eachChunkOf is eachChunk for examples of c outputs.
func (b *basis) eachChunkOf(ctx context.Context, x linearize.Source, c int, o *Options, stage string, do func(p chunk) error) error {
	n := x.Len()
	return linearize.Rebatch(x, linearize.Tile(c)).Batches(ctx, func(first int, batch *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if batch.Outputs() != c || batch.P != b.z.Batch.P {
			panic("sparse: data and inducing examples are of different networks")
		}
		if err := do(chunk{first: first, x: batch, rows: batch.Len() * c}); err != nil {
			return err
		}
		o.Show(stage, first+batch.Len(), n)
		return nil
	})
}

// observations are the data of a pass: training examples with all their outputs, or weighted sums of an example's
// outputs.
type observations struct {
	x        linearize.Source
	sites    sites.Arrays
	sums     *mat.Dense // weights of the sums, one row each; nil for examples with all outputs
	examples []int      // the training example of each sum
}

// each calls do with one chunk after another. Errors name the training example.
func (s observations) each(ctx context.Context, b *basis, o *Options, stage string, do func(p chunk) error) error {
	if s.sums == nil {
		return b.eachChunk(ctx, s.x, o, stage, do)
	}
	err := b.eachChunkOf(ctx, s.x, 1, o, stage, func(p chunk) error {
		p.sums = dense.Slice(s.sums, p.first, p.first+p.rows)
		return do(p)
	})
	if e, ok := err.(*gp.NotFiniteError); ok && s.examples != nil {
		e.Row = s.examples[e.Row]
	}
	return err
}

// A features computes the features φ of one chunk after another in the same
// memory.
type features struct {
	b      *basis
	k, phi []float64
}

// newFeatures allocates for the chunks of n examples.
func newFeatures(b *basis, n int) *features { return newFeaturesOf(b, min(n, linearize.Tile(b.c))*b.c) }

// newFeaturesOf allocates for chunks of up to rows outputs.
func newFeaturesOf(b *basis, rows int) *features {
	f := &features{b: b, k: make([]float64, rows*b.rows())}
	if b.g.Rows > 0 {
		f.phi = make([]float64, rows*b.rank())
	}
	return f
}

// cross returns k_Z(x), one row for each output. It is valid until the next
// call.
func (f *features) cross(p chunk) (blas64.General, error) {
	k := dense.In(f.k, p.rows, f.b.rows())
	f.b.k.BlockTo(dense.View(k), p.x, f.b.z.Batch)
	return k, sites.NotFiniteRows("cross-kernel", dense.View(k), p.first, p.x.Outputs())
}

// solve returns φ(x), given k_Z(x) in k. It may overwrite k.
func (f *features) solve(ctx context.Context, p chunk, k blas64.General) (blas64.General, error) {
	phi := k
	if f.b.g.Rows > 0 {
		phi = dense.In(f.phi, k.Rows, f.b.rank())
	}
	return f.b.solve(ctx, p, k, phi)
}

// of returns φ(x), one row for each output. It is valid until the next call.
func (f *features) of(ctx context.Context, p chunk) (blas64.General, error) {
	k, err := f.cross(p)
	if err != nil {
		return k, err
	}
	return f.solve(ctx, p, k)
}
