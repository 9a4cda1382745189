package sparse

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 4 // inducing pairs since 2, fingerprints since 3, no FITC since 4

// savedProjected is the JSON section of a stored Projected.
type savedProjected struct {
	Version       int
	Approximation approximation
	Mean          gp.Mean
	Refit         bool
	M, C, P, Rank int
	N             int   // examples in the sums
	Rows          []int // rows of the inducing examples in the training data; nil if they are not from it
	Directions    bool  `json:",omitempty"` // inducing pairs have directions, which are saved
	Inputs        uint64
	Pivoted       bool // K_ZZ is singular to working precision, and G is saved instead of L
	Known         bool `json:"Own"` // the features of the inducing elements are saved
}

// An approximation says in a file whether a posterior is of all data or of a subset.
type approximation int

const (
	ofAllData approximation = 0
	ofSubset  approximation = 2
)

// savedData is a further JSON section of a stored Posterior.
type savedData struct {
	N        int // length of Data: all training examples, also for a subset of data
	Warnings linearize.Warnings
}

// Save adds the posterior to a store, in sections whose names start with
// "sparse.". It writes the factors of K_ZZ and A' and the sums (E13), which take 16
// bytes for each number of K_ZZ (32 where K_ZZ is singular to working precision).
// It also writes the rows of the inducing examples in the training data, the
// directions of pairs, and the fingerprints of the inducing examples, their model and
// the prior. It does not write the inducing examples and the kernel, for which
// LoadProjected asks, nor I − A'⁻¹, which the first covariance computes in about
// (M·C)³ multiplications.
//
// The method value p.Save is an argument for store.Write, which returns the
// errors of writing.
func (p *Projected) Save(w *store.Writer) error {
	b, o, of := p.b, p.sums.spec, ofAllData
	if p.ofSubset {
		of = ofSubset
	}
	w.JSON("sparse.about", savedProjected{Version: savedVersion, Approximation: of, Mean: p.o.Mean, Refit: p.refit,
		M: b.z.Len(), C: b.c, P: b.z.Batch.P, Rank: b.rank(), N: p.sums.n, Rows: b.z.Rows, Inputs: o.inputs,
		Directions: b.z.Directions != nil, Pivoted: b.g.Rows > 0, Known: b.known != nil})
	k, factor := unscaled(b.k)
	saved.Save(w, "sparse.", p.fields(&factor, b.z.Len(), b.per))
	w.FloatRows("sparse.factors", func(yield func([]float64) bool) {
		// Yield the rows of a matrix of rank rows and rank + 1 columns. Its lower triangle is L, or zeros
		// where K_ZZ has no L. U is above it, shifted by one column to the right.
		r, l := p.b.rank(), p.b.l
		none := make([]float64, r)
		for i := range r {
			left := none
			if l.N > 0 {
				left = l.Data[i*l.Stride:]
			}
			if !yield(left[:i+1]) || !yield(p.u.Data[i*p.u.Stride+i:][:r-i]) {
				return
			}
		}
	})
	if b.g.Rows > 0 {
		w.Floats("sparse.g", b.g.Data)
	}
	if b.known != nil {
		w.Floats("sparse.own", b.known.phi.Data)
	}
	if b.z.Directions != nil {
		w.Floats("sparse.directions", dense.Contiguous(b.z.Directions))
	}
	return saved.Of(b.z.Batch, k).Save(context.Background(), w, "sparse.inducing.")
}

// fields returns the saved numbers: the sums and what is computed from them, for m inducing elements
// with per rows of K_ZZ each. factor is the factor on the prior variances of the kernel.
func (p *Projected) fields(factor *float64, m, per int) []saved.Field {
	s, r := p.sums, p.sums.spec.rank
	return []saved.Field{
		saved.Scalars("scalars", append(s.list(), &s.spec.trace, &p.logDet, factor)...),
		saved.Floats("gram", &s.gram, r, r), saved.Floats("rhs", &s.rhs, r), saved.Floats("square", &s.square, r),
		saved.Floats("w", &p.w, r), saved.Floats("v", &p.v, m, per),
	}
}

// LoadProjected returns the posterior that Projected.Save or Posterior.Save wrote.
// k is the kernel that it was fitted with, before At changed its prior
// variances, and z are its inducing examples. It needs no training examples. The
// loaded posterior predicts bit for bit what the saved one did. LoadProjected uses
// Limits of o; the other options are the saved ones.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// LoadProjected compares the model, the inputs of the inducing examples and their
// order, and the prior, as gp.Load does. It fails with a *store.Error that names
// what differs, or what is damaged or of an impossible size. It fails with a
// *gp.MemoryError where predictions need more memory than allowed, 8·(M·C)² bytes.
func LoadProjected(ctx context.Context, f *store.File, k ntk.Kernel, z *Inducing, o *Options) (*Projected, error) {
	if z == nil {
		panic("sparse: a projected posterior is loaded with its inducing examples")
	}
	l := newLoader(f, k, o)
	p := l.projected(l.inducing(ctx, z, nil))
	return p, l.Err()
}

// A loader loads one posterior. Its Reader keeps the first error, after which
// its methods return nil.
type loader struct {
	*store.Reader
	about savedProjected
	k     ntk.Kernel
	o     Options

	targets *gp.Targets
	n       int // training examples
}

// newLoader reads and checks the section savedProjected.
func newLoader(f *store.File, k ntk.Kernel, o *Options) *loader {
	l := &loader{Reader: f.Reader("sparse."), k: k, o: o.withDefaults()}
	l.targets, l.o.Targets = l.o.Targets, nil
	s := &l.about
	l.JSON("about", s)
	saved.Version(l.Reader, s.Version, savedVersion)
	if l.Err() == nil && !s.possible() {
		l.Fail(saved.WriteAgain, saved.Impossible)
	}
	l.o.Mean = s.Mean
	return l
}

// possible tells whether a posterior can have these sizes. The product of two of
// them then does not overflow.
func (s *savedProjected) possible() bool {
	return (s.Approximation == ofAllData || s.Approximation == ofSubset) && s.Mean >= gp.Network && s.Mean <= gp.LinearGaussian &&
		saved.Size(s.M) && saved.Size(s.C) && saved.Size(s.P) && saved.Size(s.Rank) && s.N >= 0 && s.Rank <= s.M*s.per() &&
		(s.Pivoted || s.Rank == s.M*s.per() && !s.Known) && (s.Rows == nil || len(s.Rows) == s.M) && !(s.Directions && s.Approximation == ofSubset)
}

// per returns the number of rows that an inducing element has in K_ZZ.
func (s *savedProjected) per() int {
	if s.Directions {
		return 1
	}
	return s.C
}

// inducing checks the inducing examples, or gathers them from x.
func (l *loader) inducing(ctx context.Context, z *Inducing, x linearize.Source) *Inducing {
	if l.Err() != nil {
		return nil
	}
	s := &l.about
	if z == nil {
		z = l.gather(ctx, x)
	} else {
		if z.Len() == 0 {
			l.Stop(&CountError{M: 0, N: s.N, Pairs: s.per() == 1 && s.C > 1})
			return nil
		}
		z.check()
		if z.Rows != nil && s.Rows != nil && !slices.Equal(z.Rows, s.Rows) {
			l.Fail(saved.OtherInducing, "the saved posterior's inducing examples are in other rows of the data than those given")
		}
		if z.Pairs() != s.Directions || s.Directions && !slices.Equal(dense.Contiguous(z.Directions), l.directions()) {
			l.Fail(saved.OtherInducing, "the saved posterior's inducing pairs have other directions than those given")
		}
		z = &Inducing{Rows: s.Rows, Batch: z.Batch, Directions: z.Directions, DataOutputs: z.DataOutputs}
	}
	if l.Err() != nil {
		return nil
	}
	b := z.Batch
	if b.Len() != s.M || z.outputs() != s.C || b.P != s.P {
		l.Fail(saved.OtherInducing, "the saved posterior has %d inducing examples, %d outputs and %d parameters; given are %d, %d and %d",
			s.M, s.C, s.P, b.Len(), z.outputs(), b.P)
		return nil
	}
	if (&basis{z: z}).fingerprint() != s.Inputs || s.Known && b.X == nil {
		l.Fail(saved.OtherInducing, "the inputs of the saved posterior's inducing examples are others than those given")
		return nil
	}
	(&saved.Identity{Examples: b, Kernel: l.k, Remedy: saved.OtherInducing}).Check(ctx, l.Reader, "inducing.")
	return z
}

// gather gathers the inducing examples from the training examples x.
func (l *loader) gather(ctx context.Context, x linearize.Source) *Inducing {
	rows := l.about.Rows
	if rows == nil {
		l.Fail(saved.OtherInducing, "the saved posterior's inducing examples are not rows of the data")
		return nil
	}
	if slices.Min(rows) < 0 || slices.Max(rows) >= x.Len() {
		l.Fail(saved.OtherInducing, "the saved posterior's inducing examples are in rows %d to %d, the data have %d", slices.Min(rows), slices.Max(rows), x.Len())
		return nil
	}
	if !l.about.Directions {
		batch, err := linearize.Gather(ctx, x, rows)
		l.Stop(err)
		return &Inducing{Rows: rows, Batch: batch}
	}
	u := l.directions()
	first, err := linearize.Gather(ctx, x, rows[:1])
	l.Stop(err)
	if l.Err() == nil && first.Outputs() != l.about.C {
		l.Fail(saved.OtherInducing, "the saved posterior has %d outputs, the data %d", l.about.C, first.Outputs())
	}
	if l.Err() != nil {
		return nil
	}
	z, err := GatherDirections(ctx, x, rows, mat.NewDense(l.about.M, l.about.C, u))
	l.Stop(err)
	return z
}

// directions reads the directions of the inducing pairs.
func (l *loader) directions() []float64 { return l.Floats("directions", l.about.M, l.about.C) }

// projected reads the posterior.
func (l *loader) projected(z *Inducing) *Projected {
	s, r := &l.about, l.about.Rank
	if l.Err() == nil {
		l.Stop(z.checkMemory("predicting from a saved posterior", l.o.Memory, func(m int) int64 {
			mc := memory.Mul(int64(m), int64(s.per()))
			return memory.Mul(8, memory.Mul(mc, mc))
		}))
	}
	o := sumsSpec{m: s.M, c: s.C, rank: r, inputs: s.Inputs}
	p := &Projected{o: l.o, sums: &Sums{spec: o, n: s.N}, refit: s.Refit, ofSubset: s.Approximation == ofSubset, tile: tileBytes}
	factor, factors := 1.0, l.Floats("factors", r, r+1)
	if !saved.Load(l.Reader, p.fields(&factor, s.M, s.per())) {
		return nil
	}
	p.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: r, Stride: r + 1, Data: factors[1:]}
	if p.b = l.basis(z, factors, factor); p.b == nil {
		return nil
	}
	p.b.trace = p.sums.spec.trace
	if l.check(p.b); l.Err() != nil {
		return nil
	}
	return p
}

// basis returns the basis of the inducing examples under the kernel whose prior
// variances are multiplied by factor. Where K_ZZ is singular it reads further
// sections.
func (l *loader) basis(z *Inducing, factors []float64, factor float64) *basis {
	s, r := &l.about, l.about.Rank
	if !(factor > 0) || math.IsInf(factor, 1) {
		l.Fail(saved.WriteAgain, saved.Impossible)
		return nil
	}
	b := &basis{k: l.k, z: z, c: s.C, per: s.per(), prefixOf: z, ratio: 1}
	if factor != 1 {
		b.k = scale(l.k, factor)
	}
	if !s.Pivoted {
		b.l = blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: r, Stride: r + 1, Data: factors}
		return b
	}
	g := l.Floats("g", s.M, s.per(), r)
	if s.Known {
		phi := l.Floats("own", s.M, s.per(), r)
		if l.Err() == nil {
			b.known = newKnownFeatures(z, dense.In(phi, b.rows(), r))
		}
	}
	if l.Err() != nil {
		return nil
	}
	b.g = dense.In(g, b.rows(), r)
	return b
}

// check compares tr K_ZZ under the kernel given with the saved one.
func (l *loader) check(b *basis) {
	diag, trace := mat.NewDense(b.rows(), b.per, nil), 0.0
	b.k.DiagTo(diag, b.z.Batch)
	for i := range b.rows() {
		trace += diag.At(i, i%b.per)
	}
	// Sums in another order differ by rounding.
	if !(math.Abs(trace-b.trace) <= 1e-9*math.Abs(b.trace)) {
		l.Fail(saved.OtherData, "the prior variances of the inducing examples sum up to %v, the saved ones to %v", trace, b.trace)
	}
}

// Save adds the posterior to a store. Besides what Projected.Save writes, it writes
// the sites, b and α (E5) of the training examples, 8·N·C·(4 + 2·C) bytes, the
// warnings, and the fingerprints of the training examples and their model.
// For a subset of data it writes the sites, b and α of the subset alone. It does not
// write the training examples, for which Load asks.
//
// The method value p.Save is an argument for store.Write, which returns the
// errors of writing. Save reads the inputs once; training examples that are
// neither a linearize.InputSource nor in memory are linearized for it.
func (p *Posterior) Save(w *store.Writer) error {
	if err := p.Projected.Save(w); err != nil {
		return err
	}
	s := savedData{N: p.Data().Len(), Warnings: p.Warnings()[len(p.Projected.Warnings()):]}
	from := p
	if p.subset != nil {
		from = p.subset
	}
	w.JSON("sparse.data", s)
	w.Floats("sparse.b", from.PseudoTargets())
	w.Floats("sparse.alpha", from.Alpha())
	from.Sites().Save(w, "sparse.")
	k, _ := unscaled(p.b.k)
	return saved.Of(p.Data(), k).Save(context.Background(), w, "sparse.")
}

// Load returns the posterior that Save wrote. k is the kernel that it was fitted
// with, and x are its training examples. z are its inducing examples; nil means that
// they are gathered from x. The loaded posterior predicts bit for bit what the saved
// one did. It uses o, the store and memory as LoadProjected does.
//
// Load reads the inputs of x once. It linearizes examples of x only where x is
// no linearize.InputSource, or z is nil.
//
// Load compares the model, the inputs and their order, the prior and, where
// o.Targets is set, the targets, as gp.Load does. It fails with a *store.Error that
// names what differs.
func Load(ctx context.Context, f *store.File, k ntk.Kernel, x linearize.Source, z *Inducing, o *Options) (*Posterior, error) {
	l := newLoader(f, k, o)
	l.n = x.Len()
	var s savedData
	l.JSON("data", &s)
	if l.Err() == nil && s.N != x.Len() {
		l.Fail(saved.OtherData, "the saved posterior has %d training examples, the data %d", s.N, x.Len())
	}
	saved.Of(x, k).Check(ctx, l.Reader, "")
	p := l.projected(l.inducing(ctx, z, x))
	if l.Err() != nil {
		return nil, l.Err()
	}
	z, of, n := p.b.z, p, p.sums.n
	mean := gp.DualMean{Data: x, Warnings: s.Warnings}
	switch subset := p.IsSubset(); {
	case !subset && n != x.Len():
		l.Fail(saved.WriteAgain, "its sums are of %d training examples, not of %d", n, x.Len())
	case subset && (n != z.Len() || z.Pairs() || z.Rows == nil || slices.Min(z.Rows) < 0 || slices.Max(z.Rows) >= x.Len()):
		l.Fail(saved.WriteAgain, saved.Impossible)
	case subset: // the examples of the subset are read
		b := *p.b
		b.z = z.alone()
		of, mean.Data = p.with(&b, false), b.z.Batch
	}
	mean.Pseudo, mean.Alpha = l.Floats("b", n, p.b.c), l.Floats("alpha", n, p.b.c)
	mean.Sites = gp.LoadSites(l.Reader, n, p.b.c)
	l.checkTargets(mean.Sites)
	if l.Err() != nil {
		return nil, l.Err()
	}
	var err error
	if mean.Set, err = of.identify(ctx, mean.Data); err != nil {
		return nil, err
	}
	if p.IsSubset() {
		return of.over(mean).withinData(x, z), nil
	}
	return p.over(mean), nil
}

// checkTargets compares the targets with the saved ones where Options.Targets is
// set. For a subset of data it compares those of the subset.
func (l *loader) checkTargets(s *gp.Sites) {
	t := l.targets
	if t == nil || l.Err() != nil {
		return
	}
	if n, _ := t.Y.Dims(); l.about.Approximation == ofSubset && n == l.n {
		_, d := t.Y.Dims()
		y := mat.NewDense(len(l.about.Rows), d, nil)
		for i, row := range l.about.Rows {
			y.SetRow(i, t.Y.RawRowView(row))
		}
		t = &gp.Targets{Y: y, Likelihood: t.Likelihood}
	}
	t.CheckSaved(l.Reader, s)
}
