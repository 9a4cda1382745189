package sparse

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
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
	if err := checkInducing(z, x.Len()); err != nil {
		return nil, err
	}
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
	local, err := keptSites(b.b, x, s, kept)
	if err != nil {
		return err
	}
	sums := newSums(b.sums.spec)
	a := &keptAdder{b: b.b, o: &b.o, sums: sums, x: x, sites: local, kept: kept}
	// Add what the Λ̃ of the kept rows contribute.
	rows := min(a.kept.Len(), linearize.Tile(1))
	f, diag, weights := newFeaturesOf(a.b, rows), make([]float64, rows), make([]float64, rows)
	if err := a.b.eachKept(ctx, a.x, a.kept, a.o, StageData, func(p chunk) error {
		phi, err := f.of(ctx, p)
		if err != nil {
			return err
		}
		prior, w := mat.NewDense(p.rows, 1, diag[:p.rows]), weights[:p.rows]
		a.b.k.DiagTo(prior, p.x)
		lambda, ahead := a.kept.Lambda[p.first:p.first+p.rows], make([]float64, p.rows)
		if err := a.ahead(ahead, p); err != nil {
			return err
		}
		for i, l := range lambda {
			row := dense.Row(phi, i)
			// −½ eᵀΛ̃e with e = m − f, and tr Λ̃(k − q)
			a.sums.expansion -= l * ahead[i] * ahead[i] / 2
			a.sums.weighted += l * (prior.At(i, 0) - floats.Dot(row, row))
			// b = r + Λ̃(f − m) (E5)
			w[i] = l * ahead[i]
		}
		dense.Gemv(blas.Trans, 1, phi, dense.Vector(w), 1, dense.Vector(a.sums.rhs))
		for i, l := range lambda {
			floats.Scale(math.Sqrt(l), dense.Row(phi, i))
		}
		// A' − I += Σ λ φφᵀ (E13)
		return dense.SyrkContext(ctx, blas.Trans, 1, phi, 1, a.sums.symmetric())
	}); err != nil {
		return err
	}
	if err := a.addResiduals(ctx); err != nil {
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

// keptSites checks the sites and the kept rows of x. It panics where they do not fit.
func keptSites(b *basis, x linearize.Source, s *gp.Sites, kept *gp.Kept) (sites.Arrays, error) {
	local, err := sites.New(s, x.Len(), b.c)
	if err != nil {
		return local, err
	}
	if kept.Len() == 0 {
		return local, gp.ErrNoExamples
	}
	if _, c := kept.Directions.Dims(); c != b.c {
		panic("sparse: kept rows of examples with another number of outputs")
	}
	for i, e := range kept.Examples {
		if e < 0 || e >= x.Len() || i > 0 && e < kept.Examples[i-1] {
			panic("sparse: kept rows are not those of the data, in their order")
		}
	}
	return local, nil
}

// A keptAdder adds kept rows to sums.
type keptAdder struct {
	b     *basis
	o     *Options
	sums  *Sums
	x     linearize.Source
	sites sites.Arrays
	kept  *gp.Kept
}

// eachKept calls do with one chunk of kept rows after another. Errors name the example.
func (b *basis) eachKept(ctx context.Context, x linearize.Source, kept *gp.Kept, o *Options, stage string, do func(p chunk) error) error {
	err := b.eachSum(ctx, keptSource{x, kept}, kept.Directions, o, stage, do)
	if e, ok := err.(*gp.NotFiniteError); ok {
		e.Row = kept.Examples[e.Row]
	}
	return err
}

// ahead writes uᵀ(f − m) of the rows of p.
func (a *keptAdder) ahead(dst []float64, p chunk) error {
	a.b.k.MeanTo(dst, p.x)
	if err := sites.NotFinite("prior mean", dst, p.first, 1); err != nil {
		return err
	}
	for i, m := range dst {
		at := a.kept.Examples[p.first+i]
		dst[i] = floats.Dot(p.sums.RawRowView(i), a.sites.F[at*a.b.c:(at+1)*a.b.c]) - m
	}
	return nil
}

// addResiduals adds what the residuals r of all examples contribute: Σ k_Zi r_i and
// Σ rᵀ(m − f).
func (a *keptAdder) addResiduals(ctx context.Context) error {
	c := a.b.c
	r := mat.NewDense(a.x.Len(), c, a.sites.R)
	cross := make([]float64, a.b.rows()) // Σ k_Zi r_i
	add := func(p chunk) error {         // Add Σ k_Zi over the examples of p.
		ones := mat.NewDense(p.rows, 1, nil)
		for i := range p.rows {
			ones.Set(i, 0, 1)
		}
		sum := mat.NewDense(len(cross), 1, nil)
		kernelProduct{a.b.k, p.x, ones}.MulTo(sum, a.b.z.Batch)
		if dense.NotFinite(sum.RawMatrix().Data) >= 0 {
			// The prior variances tell in which example.
			a.b.k.DiagTo(ones, p.x)
			if err := sites.NotFiniteRows("cross-kernel", ones, p.first, 1); err != nil {
				return err
			}
			return sites.NotFiniteRows("cross-kernel", sum, p.first, len(cross))
		}
		floats.Add(cross, sum.RawMatrix().Data)
		return nil
	}
	if a.b.g.Rows > 0 {
		// Gᵀ would amplify the rounding of the sum.
		f := newFeaturesOf(a.b, min(a.x.Len(), linearize.Tile(1)))
		add = func(p chunk) error {
			phi, err := f.of(ctx, p)
			for i := range phi.Rows {
				floats.Add(a.sums.rhs, dense.Row(phi, i))
			}
			return err
		}
	}
	quiet := *a.o
	quiet.Progress = nil
	err := a.b.eachSum(ctx, linearize.Combine(a.x, r), r, &quiet, StageData, func(p chunk) error {
		m := make([]float64, p.rows)
		a.b.k.MeanTo(m, p.x)
		if err := sites.NotFinite("prior mean", m, p.first, 1); err != nil {
			return err
		}
		for i, v := range m {
			at := (p.first + i) * c
			a.sums.expansion += v - floats.Dot(a.sites.R[at:at+c], a.sites.F[at:at+c])
		}
		return add(p)
	})
	if err != nil || a.b.g.Rows > 0 {
		return err
	}
	phi, err := a.b.solve(ctx, chunk{}, dense.In(cross, 1, len(cross)), blas64.General{})
	floats.Add(a.sums.rhs, phi.Data)
	return err
}

// WithKept is WithData for sums over kept rows: it returns the posterior with its training
// examples x, whose sites s and kept rows must be those in the sums. It takes one pass
// over the kept rows.
func (p *Projected) WithKept(ctx context.Context, x linearize.Source, s *gp.Sites, kept *gp.Kept) (*Posterior, error) {
	if err := p.checkData(x); err != nil {
		return nil, err
	}
	local, err := keptSites(p.b, x, s, kept)
	if err != nil {
		return nil, err
	}
	thin := kept.Thin(s)
	q := &Posterior{Projected: p, x: x, sites: thin, local: sites.Of(thin), warnings: p.Warnings()}
	q.pseudo, q.alpha = append([]float64(nil), local.R...), append([]float64(nil), local.R...)
	if err := q.identify(ctx); err != nil {
		return nil, err
	}
	mean, err := p.b.product(ctx, p.w)
	if err != nil {
		return nil, err
	}
	a := &keptAdder{b: p.b, o: &p.o, x: x, sites: local, kept: kept}
	c := p.b.c
	err = p.b.eachKept(ctx, x, kept, &p.o, StageDual, func(t chunk) error {
		ahead, v := make([]float64, t.rows), mat.NewDense(t.rows, 1, nil)
		if err := a.ahead(ahead, t); err != nil {
			return err
		}
		if err := mean(v, t); err != nil {
			return err
		}
		if err := sites.NotFiniteRows("dual vector", v, t.first, 1); err != nil {
			return err
		}
		for i := range t.rows {
			at, u, l := kept.Examples[t.first+i]*c, t.sums.RawRowView(i), kept.Lambda[t.first+i]
			// b = r + Λ̃(f − m), α = b − Λ̃K_nZ A⁻¹c
			floats.AddScaled(q.pseudo[at:at+c], l*ahead[i], u)
			floats.AddScaled(q.alpha[at:at+c], l*(ahead[i]-v.At(i, 0)), u)
		}
		return nil
	})
	return q, err
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

// SelectKept chooses m of the kept rows of x (E16) as inducing elements, of which K_ZZ
// then has m rows: by a Selector, which is given a source of the kept rows as examples
// of one output, or where how is nil those with the largest s. More rows than kept are a
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
