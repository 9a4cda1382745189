package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model in the span of
// the inducing examples (E9). It finds the mode by Newton steps from θ*, each of
// which takes a pass over x. The sites, the sums, b and α of the
// result are those at the mode, and its predictive mean is m + K_*Z A⁻¹ c. The
// errors are those of gp.NewSites and Fit.
func Refit(ctx context.Context, k ntk.Kernel, x linearize.Source, y *gp.Targets, z *Inducing, o *Options) (*Posterior, error) {
	d := o.withDefaults()
	if err := checkInducing(z, x.Len()); err != nil {
		return nil, err
	}
	if err := y.CheckFor(x.Len(), z.outputs()); err != nil {
		return nil, err
	}
	b, err := newBuilder(ctx, k, z, x.Len(), true, &d)
	if err != nil {
		return nil, err
	}
	r := &refit{b: b.b, o: &d, x: x, y: y, save: b.save, spec: b.sums.spec,
		objective: newton.Objective{Y: y}, prior: make([]float64, x.Len()*b.b.c),
		search: newton.New(y, d.MaxIter, true)}
	return r.run(ctx)
}

// A refit is the Newton iteration. Its points are f = m + Φᵀw.
type refit struct {
	b         *basis
	o         *Options
	x         linearize.Source
	y         *gp.Targets
	objective newton.Objective
	prior     []float64 // m, N·C, which the first pass writes
	save      checkpointer
	spec      sumsSpec
	search    newton.Search
	outputs   []float64 // with checkpoints: checksums of f(x;θ*), two numbers for each chunk
}

// An expansion is the second-order expansion of the likelihood at a point: the
// sites and their sums.
type expansion struct {
	point *newton.Point
	sites *gp.Sites
	local sites.Arrays
	sums  *Sums
	err   error // set where the likelihood has no finite sites at the point
}

// A pass over the data computes one expansion.
type pass struct {
	kind   passKind
	to     *expansion
	before *expansion // stepping: the expansion at the start of the step
	post   *Projected // stepping: the posterior of before, whose mean is the end of the step
	next   int        // the first example that the pass has not summed
	span   []float64  // stepping: Φᵀw at the end of the step, N·C
	sum    []float64  // stepping: Φα of the examples so far, at the end w but for rounding; nil in a pass that was resumed
}

// A passKind says at which point a pass expands the likelihood.
type passKind int

const (
	atTheta  passKind = iota // at f(x;θ*), which need not lie in the span
	stepping                 // at the end of Newton's step from the expansion before
	atPoint                  // at a given point
)

// run makes Newton steps, beginning with the first pass or with the pass that was interrupted. The pass of a step also
// computes the expansion at its end, where the next step starts unless the line search takes another part of the step.
func (r *refit) run(ctx context.Context) (*Posterior, error) {
	p := &pass{kind: atTheta, to: r.expansion(r.newPoint(make([]float64, r.b.rank())), newSums(r.spec))}
	if r.save.active() {
		n, c := r.x.Len(), r.b.c
		r.outputs = make([]float64, 2*chunkCount(n, c))
		fit, err := saved.NewFit(ctx, "sparse.Refit", checkpointVersion, n, c, r.y.Y, r.y.Weights, saved.Of(r.b.z.Batch, r.b.k))
		if err != nil {
			return nil, err
		}
		if err := r.save.begin(ctx, r.spec, fit, true); err != nil {
			return nil, err
		}
	}
	if r.save.from != nil {
		var err error
		if p, err = r.resume(ctx, r.save.from); err != nil {
			return nil, err
		}
	}
	at, from, waits := p.to.point, p.to.point, true // waits tells whether p must still run
	if p.kind == stepping {
		at, from = p.before.point, p.before.point
	}
	if r.search.Steps == 0 {
		from = &newton.Point{Weights: make([]float64, r.b.rank()), F: r.prior}
	}
	_, err := newton.Find(&r.search, &r.objective, at.F, from, func(_ []float64, from *newton.Point) (_ *newton.Point, err error) {
		if !waits && (p.to.point != from || p.to.err != nil) { // the search took another part of the last step
			p, waits = &pass{kind: atPoint, to: r.expansion(from, newSums(r.spec))}, true
		}
		if waits && p.kind != stepping {
			if err = r.pass(ctx, p); err != nil {
				return nil, err
			}
			waits = false
		}
		if !waits {
			if p, err = r.stepFrom(ctx, p.to); err != nil {
				return nil, err
			}
		}
		waits = false
		if err = r.pass(ctx, p); err != nil {
			return nil, err
		}
		r.o.Show(StageNewton, r.search.Steps+1, 0)
		return p.to.point, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return r.posterior(ctx, p)
}

// stepFrom returns the pass that makes Newton's step from an expansion.
func (r *refit) stepFrom(ctx context.Context, at *expansion) (*pass, error) {
	post, err := newProjected(ctx, r.b, at.sums, r.o)
	if err != nil {
		return nil, err
	}
	return &pass{kind: stepping, before: at, post: post, to: r.expansion(r.newPoint(post.w), newSums(r.spec)),
		span: make([]float64, len(r.prior)), sum: make([]float64, r.b.rank())}, nil
}

// expansion returns an expansion at a point, with its sites not yet computed.
func (r *refit) expansion(at *newton.Point, sums *Sums) *expansion {
	n, c := r.x.Len(), r.b.c
	e := &expansion{point: at, sums: sums, sites: &gp.Sites{F: mat.NewDense(n, c, nil), Residual: mat.NewDense(n, c, nil), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}}
	e.local = sites.Of(e.sites)
	return e
}

// pass runs p from its next example on.
func (r *refit) pass(ctx context.Context, p *pass) error {
	n, e := r.x.Len(), p.to
	f, a := newFeatures(r.b, n), newAdder(r.b, e.sums, n, r.b.c)
	err := r.save.eachChunk(ctx, r.b, r.x, r.o, StageData, p.next, func(t chunk) error {
		if err := r.checkOutputs(p.kind, t); err != nil {
			return err
		}
		phi, err := f.of(ctx, t)
		if err != nil {
			return err
		}
		switch p.kind {
		case stepping:
			if r.makeStep(p, t, phi); p.sum != nil {
				r.addToSum(p, t, phi)
			}
		case atTheta:
			err = r.start(e.point, t)
		}
		if err != nil || e.err != nil {
			return err
		}
		if e.err = r.expand(e, t.first, t.x.Len()); e.err != nil {
			return p.fatal()
		}
		lo := t.first * r.b.c
		r.b.k.DiagTo(mat.NewDense(t.rows, r.b.c, a.diag[:t.rows*r.b.c]), t.x)
		return a.addWith(r.save.uninterrupted(ctx), phi, e.local.Slice(t.first, t.first+t.x.Len()), r.prior[lo:lo+t.rows])
	}, func(done int) *checkpoint {
		// The state of p after the examples before done.
		s := &refitState{move: r.search.Move, logLik: p.to.sites.LogLik, prior: r.prior, outputs: r.outputs, to: *p.to.point, span: p.span}
		if p.kind == stepping {
			s.before, s.sums = *p.before.point, p.before.sums
		}
		return &checkpoint{Done: done, Kind: p.kind, Step: r.search.Steps, sums: p.to.sums, newton: s}
	})
	e.sums.logLik = e.sites.LogLik
	return err
}

// fatal returns the error of the expansion, or nil where a shorter step can avoid
// it.
func (p *pass) fatal() error {
	if p.kind == stepping {
		return nil
	}
	return p.to.err
}

// start sets f(x;θ*) and the prior mean.
func (r *refit) start(to *newton.Point, p chunk) error {
	lo := p.first * r.b.c
	m := r.prior[lo : lo+p.rows]
	copy(to.F[lo:], dense.Contiguous(p.x.F))
	if err := sites.NotFinite("network output", to.F[lo:lo+p.rows], p.first, r.b.c); err != nil {
		return err
	}
	r.b.k.MeanTo(m, p.x)
	return sites.NotFinite("prior mean", m, p.first, r.b.c)
}

// makeStep sets f = m + Φᵀw of a chunk at the end of a step.
func (r *refit) makeStep(p *pass, t chunk, phi blas64.General) {
	lo, to := t.first*r.b.c, p.to.point
	dense.EachRow(phi, func(i int, row []float64) {
		p.span[lo+i] = floats.Dot(row, to.Weights)
		to.F[lo+i] = r.prior[lo+i] + p.span[lo+i]
	})
}

// expand computes the sites of n examples from first on, at the point of e.
func (r *refit) expand(e *expansion, first, n int) error {
	c := r.b.c
	lo, hi := first*c, (first+n)*c
	s, err := gp.NewSites(r.y.Slice(first, first+n), mat.NewDense(n, c, e.point.F[lo:hi]))
	if err != nil {
		if at, ok := err.(*gp.NotFiniteError); ok {
			at.Row += first
		}
		return err
	}
	copy(e.local.F[lo:], dense.Contiguous(s.F))
	copy(e.local.R[lo:], dense.Contiguous(s.Residual))
	copy(e.local.Lambda[lo*c:], dense.Contiguous(s.Lambda))
	copy(e.local.Root[lo*c:], dense.Contiguous(s.Root))
	e.sites.LogLik += s.LogLik
	return nil
}

func (r *refit) newPoint(w []float64) *newton.Point {
	return &newton.Point{Weights: w, F: make([]float64, len(r.prior))}
}

// posterior returns the posterior of the sites at the start of the step last. Its
// mean is the end of the step.
func (r *refit) posterior(ctx context.Context, last *pass) (*Posterior, error) {
	post, at := last.post, last.before
	post.refit = true
	set, err := post.identify(ctx, r.x)
	if err != nil {
		return nil, err
	}
	mean := gp.DualMean{Data: r.x, Sites: at.sites, Set: set, Alpha: make([]float64, len(r.prior)), Pseudo: make([]float64, len(r.prior))}
	at.local.PseudoTargets(mean.Pseudo, r.prior)
	at.local.SubtractLambda(mean.Alpha, mean.Pseudo, last.span)
	mean.Warnings = append(r.search.Warnings(), newton.GapWarnings(floats.Distance(mean.Alpha, at.local.R, 2))...)
	if last.sum == nil {
		// Compute the sum of a step that was resumed, in another pass.
		last.sum = make([]float64, r.b.rank())
		f, quiet := newFeatures(r.b, r.x.Len()), *r.o
		quiet.Progress = nil
		if err := r.b.eachChunk(ctx, r.x, &quiet, StageData, func(t chunk) error {
			phi, err := f.of(ctx, t)
			if err == nil {
				r.addToSum(last, t, phi)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	// The closure error: the difference φ(z)ᵀ(Φα − w) between the raw sums over all training
	// examples (E12) and the mean at the inducing examples z, relative to the largest output.
	gap := r.b.largestValue(newton.Minus(last.sum, last.post.w))
	mean.Warnings = append(mean.Warnings, newton.OpenWarnings(newton.RelativeTo(gap, last.to.point.F))...)
	return post.over(mean), nil
}

// addToSum adds Φα of a chunk to the sum of a step, with α = b − ΛΦᵀw (E13).
func (r *refit) addToSum(p *pass, t chunk, phi blas64.General) {
	lo, hi := t.first*r.b.c, t.first*r.b.c+t.rows
	s, b, alpha := p.before.local.Slice(t.first, t.first+t.x.Len()), make([]float64, t.rows), make([]float64, t.rows)
	s.PseudoTargets(b, r.prior[lo:hi])
	s.SubtractLambda(alpha, b, p.span[lo:hi])
	dense.Gemv(blas.Trans, 1, phi, dense.Vector(alpha), 1, dense.Vector(p.sum))
}

// largestValue returns the largest |φ(z)ᵀw| of the inducing examples z. Where
// their features are not known, it is the root of the mean of k_zz times ‖w‖.
func (b *basis) largestValue(w []float64) float64 {
	switch {
	case b.g.Rows == 0:
		// Φ_Z = Lᵀ
		largest := 0.0
		for i := range b.l.N {
			largest = math.Max(largest, math.Abs(floats.Dot(b.l.Data[i*b.l.Stride:][:i+1], w[:i+1])))
		}
		return largest
	case b.known != nil:
		values := make([]float64, b.known.phi.Rows)
		dense.Gemv(blas.NoTrans, 1, b.known.phi, dense.Vector(w), 0, dense.Vector(values))
		return floats.Norm(values, math.Inf(1))
	}
	return math.Sqrt(b.trace/float64(b.rows())) * floats.Norm(w, 2)
}
