package sparse

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// FitKept is Fit given the kept rows of the N training examples (E16): the posterior with
// the sites Λ̃_i = Σ_kept λuuᵀ in the place of Λ_i, and b = r + Λ̃(f − m). Its variances
// are not smaller than those of Fit, and its explanations still add up over all N.
//
// It takes a pass over the kept rows for the sums and a cheaper one for the dual vector,
// with one backward pass a row, and between them a pass over all N with one backward
// pass an example. Checkpoint and Resume of o are ignored.
//
// Sites returns Λ̃, and the evidence is the one at these sites. TraceError is NaN, since
// the other rows are not read. The errors are those of Fit, where a *gp.NotFiniteError
// names the example. An empty kept gives gp.ErrNoExamples.
func FitKept(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, kept *gp.Kept, z *Inducing, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	d.Checkpoint, d.Resume = nil, nil
	b, err := newBuilder(ctx, k, z, x.Len(), false, &d)
	if err != nil {
		return nil, err
	}
	if err := b.AddKept(ctx, x, s, kept); err != nil {
		return nil, err
	}
	p, err := newProjected(ctx, b.b, b.sums, &d)
	if err != nil {
		return nil, err
	}
	return p.WithKept(ctx, x, s, kept)
}

// AddKept is Add given the kept rows of the examples of x alone, in a pass over these
// rows and one over x; see FitKept. TraceError is NaN afterwards.
func (b *Builder) AddKept(ctx context.Context, x linearize.Source, s *gp.Sites, kept *gp.Kept) error {
	if x.Len() == 0 {
		return nil
	}
	local, rows, err := keptRows(b.b, x, s, kept)
	if err != nil {
		return err
	}
	sums := newSums(b.sums.spec)
	f, a := newFeaturesOf(b.b, min(kept.Len(), linearize.Tile(1))), newAdder(b.b, sums, kept.Len(), 1)
	if err := rows.each(ctx, b.b, &b.o, StageData, func(p chunk) error {
		phi, err := f.of(ctx, p)
		if err != nil {
			return err
		}
		return a.add(ctx, p, phi, rows.sites.Slice(p.first, p.first+p.rows))
	}); err != nil {
		return err
	}
	if err := b.addResiduals(ctx, sums, x, local); err != nil {
		return err
	}
	sums.n, sums.logLik = x.Len(), s.LogLik
	sums.trace, sums.residual = math.NaN(), math.NaN()
	if !b.used {
		b.sums, b.used = sums, true
		return nil
	}
	return b.sums.Merge(sums)
}

// keptRows returns the sites of x, and the kept rows as observations of uᵀf with precision λ and residual 0. It panics
// where they do not match x.
func keptRows(b *basis, x linearize.Source, s *gp.Sites, kept *gp.Kept) (local sites.Arrays, rows observations, err error) {
	if local, err = sites.New(s, x.Len(), b.c); err != nil {
		return local, rows, err
	}
	n := kept.Len()
	if n == 0 {
		return local, rows, gp.ErrNoExamples
	}
	if _, c := kept.Directions.Dims(); c != b.c {
		panic("sparse: kept rows of examples with another number of outputs")
	}
	at := sites.Arrays{C: 1, F: make([]float64, n), R: make([]float64, n), Lambda: kept.Lambda, Root: make([]float64, n)}
	for i, e := range kept.Examples {
		if e < 0 || e >= x.Len() || i > 0 && e < kept.Examples[i-1] {
			panic("sparse: kept rows are not those of the data, in their order")
		}
		at.F[i] = floats.Dot(kept.Directions.RawRowView(i), local.F[e*b.c:(e+1)*b.c])
		at.Root[i] = math.Sqrt(kept.Lambda[i])
	}
	return local, observations{x: keptSource{x, kept}, sites: at, sums: kept.Directions, examples: kept.Examples}, nil
}

// addResiduals adds what the residuals r of all examples contribute: Σ k_Zi r_i and
// Σ rᵀ(m − f).
func (b *Builder) addResiduals(ctx context.Context, sums *Sums, x linearize.Source, local sites.Arrays) error {
	c, basis := b.b.c, b.b
	r := mat.NewDense(x.Len(), c, local.R)
	cross := make([]float64, basis.rows()) // Σ k_Zi r_i
	add := func(p chunk) error {           // Add Σ k_Zi over the examples of p.
		ones := mat.NewDense(p.rows, 1, slices.Repeat([]float64{1}, p.rows))
		sum := mat.NewDense(len(cross), 1, nil)
		kernelProduct{basis.k, p.x, ones}.MulTo(sum, basis.z.Batch)
		if dense.NotFinite(sum.RawMatrix().Data) >= 0 {
			// Find the example with a NaN or Inf by its prior variances.
			basis.k.DiagTo(ones, p.x)
			if err := sites.NotFiniteRows("cross-kernel", ones, p.first, 1); err != nil {
				return err
			}
			return sites.NotFiniteRows("cross-kernel", sum, p.first, len(cross))
		}
		floats.Add(cross, sum.RawMatrix().Data)
		return nil
	}
	if basis.g.Rows > 0 {
		// Gᵀ would amplify the rounding of the sum.
		f := newFeaturesOf(basis, min(x.Len(), linearize.Tile(1)))
		add = func(p chunk) error {
			phi, err := f.of(ctx, p)
			for i := range phi.Rows {
				floats.Add(sums.rhs, dense.Row(phi, i))
			}
			return err
		}
	}
	quiet := b.o
	quiet.Progress = nil
	err := observations{x: linearize.Combine(x, r), sums: r}.each(ctx, basis, &quiet, StageData, func(p chunk) error {
		m := make([]float64, p.rows)
		basis.k.MeanTo(m, p.x)
		if err := sites.NotFinite("prior mean", m, p.first, 1); err != nil {
			return err
		}
		for i, v := range m {
			at := (p.first + i) * c
			sums.expansion += v - floats.Dot(local.R[at:at+c], local.F[at:at+c])
		}
		return add(p)
	})
	if err != nil || basis.g.Rows > 0 {
		return err
	}
	phi, err := basis.solve(ctx, chunk{}, dense.In(cross, 1, len(cross)), blas64.General{})
	floats.Add(sums.rhs, phi.Data)
	return err
}

// WithKept is WithData for sums over kept rows: it returns the posterior with its training
// examples x, whose sites s and kept rows must be those in the sums. It takes one pass
// over the kept rows.
func (p *Projected) WithKept(ctx context.Context, x linearize.Source, s *gp.Sites, kept *gp.Kept) (*Posterior, error) {
	if err := p.checkData(x); err != nil {
		return nil, err
	}
	local, rows, err := keptRows(p.b, x, s, kept)
	if err != nil {
		return nil, err
	}
	set, err := p.identify(ctx, x)
	if err != nil {
		return nil, err
	}
	pseudo, alpha := make([]float64, kept.Len()), make([]float64, kept.Len())
	if err := p.dual(ctx, rows, pseudo, alpha, nil, new(gp.Untrained)); err != nil {
		return nil, err
	}
	// b = r + Λ̃(f − m), α = b − Λ̃K_nZ A⁻¹c
	mean := gp.DualMean{Data: x, Sites: kept.Thin(s), Set: set, Pseudo: slices.Clone(local.R), Alpha: slices.Clone(local.R)}
	kept.AddTo(mean.Pseudo, pseudo)
	kept.AddTo(mean.Alpha, alpha)
	return p.over(mean), nil
}

// A keptSource is a Source whose examples are the kept rows of those of another, with
// one output each.
type keptSource struct {
	of   linearize.Source
	kept *gp.Kept
}

var (
	_ linearize.Source   = keptSource{}
	_ linearize.Gatherer = keptSource{}
)

// Gather implements linearize.Gatherer.
func (s keptSource) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	z, err := s.at(ctx, rows)
	if err != nil {
		return nil, err
	}
	return z.Batch, nil
}

// at returns kept rows as inducing elements.
func (s keptSource) at(ctx context.Context, rows []int) (*Inducing, error) {
	_, c := s.kept.Directions.Dims()
	examples, u := make([]int, len(rows)), mat.NewDense(len(rows), c, nil)
	for i, row := range rows {
		examples[i] = s.kept.Examples[row]
		u.SetRow(i, s.kept.Directions.RawRowView(row))
	}
	return GatherDirections(ctx, s.of, examples, u)
}

// GatherDirections returns the inducing pairs (rows[i], u_i) of examples of x, with the
// directions u, M×C. No pairs, and a row that x does not have, panic.
func GatherDirections(ctx context.Context, x linearize.Source, rows []int, u *mat.Dense) (*Inducing, error) {
	b, err := linearize.GatherCombined(ctx, x, rows, u)
	if err != nil {
		return nil, err
	}
	_, c := u.Dims()
	return &Inducing{Rows: rows, Batch: b, Directions: u, DataOutputs: c}, nil
}

// SelectKept chooses m of the kept rows of x (E16) as inducing elements, so that K_ZZ has
// m rows. The Selector how gets a source of the kept rows as examples of one output; a nil
// how chooses the rows with the largest s. An m above the number of kept rows is a
// *CountError.
func SelectKept(ctx context.Context, how Selector, k ntk.Kernel, x linearize.Source, kept *gp.Kept, m int, o *Options) (*Inducing, error) {
	all := keptSource{x, kept}
	if m < 1 || m > all.Len() {
		return nil, &CountError{M: m, N: all.Len(), Pairs: true}
	}
	rows := dense.Range(all.Len())
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(kept.Strength[b], kept.Strength[a]) })
	rows = rows[:m]
	if how != nil {
		var err error
		if rows, err = how.Choose(ctx, k, all, m, o); err != nil {
			return nil, err
		}
	}
	return all.at(ctx, rows)
}

// Len implements linearize.Source.
func (s keptSource) Len() int { return s.kept.Len() }

// Batches implements linearize.Source.
func (s keptSource) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	if linearize.Gathers(s.of) {
		return s.gather(ctx, s.of, 0, 0, s.Len(), yield)
	}
	next := 0
	return s.of.Batches(ctx, func(first int, b *linearize.Batch) error {
		from := next
		for next < s.Len() && s.kept.Examples[next] < first+b.Len() {
			next++
		}
		return s.gather(ctx, b, first, from, next, yield)
	})
}

// gather yields the kept rows [from, to), whose examples x has from example first on.
func (s keptSource) gather(ctx context.Context, x linearize.Source, first, from, to int, yield func(first int, b *linearize.Batch) error) error {
	for tile := range par.Tiles(to-from, linearize.Tile(1)) {
		lo, hi := par.Bounds(tile, to-from, linearize.Tile(1))
		lo, hi = from+lo, from+hi
		rows := make([]int, hi-lo)
		for i := range rows {
			rows[i] = s.kept.Examples[lo+i] - first
		}
		b, err := linearize.GatherCombined(ctx, x, rows, dense.Slice(s.kept.Directions, lo, hi))
		if err != nil {
			return err
		}
		if err := yield(lo, b); err != nil {
			return err
		}
	}
	return nil
}
