package variational

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

var errNotFinite = errors.New("the lower bound is not finite at the posterior from which it starts")

// A solver finds the sites at which the lower bound is largest (E26). Its unknowns are the
// natural parameters of the sites, N·C·(1+C) numbers: the linear terms b and then the
// precisions W, with which q is the posterior of a linear-Gaussian model. The bound is
// largest where
//
//	b = E r + W(f̄ − m),  W = E Λ,  f ~ q.
//
// One step of natural gradients of size ρ goes ρ of the way from (b, W) to the right
// sides, and raises the bound for a small ρ.
type solver struct {
	x         linearize.Source
	y         *gp.Targets
	prior     ntk.Prior
	theta     []float64
	structure weightspace.Structure
	o         Options
	c         int
	m         []float64     // prior mean at the training examples, N·C
	terms     []expectation // by worker
	noise     float64       // relative error of the bound, by which a step may lower it

	rows  *linearize.Batch    // all of x, where the solver is Rows; else nil
	exact *gp.Exact           // q where the solver is Rows
	q     *gp.Posterior       // q with the full precision; every structure has its mean
	w     weightspace.Weights // q with another structure
}

// newSolver returns a solver, and the unknowns at the sites at θ*.
func newSolver(ctx context.Context, structure weightspace.Structure, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*solver, []float64, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	start, err := gp.SitesFrom(ctx, x, y)
	if err != nil {
		return nil, nil, err
	}
	n, c := start.F.Dims()
	s := &solver{x: x, y: y, prior: prior, theta: theta, structure: structure, o: opt, c: c, m: make([]float64, n*c)}
	if s.terms, s.noise, err = newExpectations(y.Likelihood, n, c, opt.Points, runtime.GOMAXPROCS(0)); err != nil {
		return nil, nil, err
	}
	if opt.Solver == Rows || opt.Solver == Smaller && n*c <= len(theta) {
		var held bool
		if s.rows, held = x.(*linearize.Batch); !held {
			if s.rows, err = linearize.First(ctx, x, n); err != nil {
				return nil, nil, err
			}
		}
		s.x = s.rows
	}
	kernel := ntk.New(prior, theta)
	err = s.x.Batches(ctx, func(first int, b *linearize.Batch) error {
		kernel.MeanTo(s.m[first*c:(first+b.Len())*c], b)
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	// b = r + Λ(f − m) (E5)
	at := make([]float64, n*c)
	sites.Of(start).PseudoTargets(at, s.m)
	return s, slices.Concat(at, start.Lambda.RawMatrix().Data), nil
}

// condition makes q the posterior with these sites.
func (s *solver) condition(ctx context.Context, at *gp.Sites) (err error) {
	limits := linearize.Limits{Memory: s.o.Memory}
	switch {
	case s.rows == nil:
		s.q = nil // so that two precisions are never held
		s.q, err = weightspace.FitSums(ctx, s.x, at, s.prior, s.theta, &weightspace.Options{Mean: gp.LinearGaussian, Limits: limits})
	case s.exact == nil:
		s.exact, err = gp.Fit(ctx, ntk.New(s.prior, s.theta), s.rows, at, &gp.Options{Mean: gp.LinearGaussian, Limits: limits})
	default:
		s.exact, err = s.exact.Recondition(ctx, at)
	}
	if err != nil {
		return err
	}
	if s.exact != nil {
		s.q = s.exact.Posterior
	}
	if s.structure == weightspace.Full {
		return nil
	}
	return s.conditionWeights(ctx, at)
}

// conditionWeights makes w the posterior with the structure of the precision at these sites, around the mean of q.
func (s *solver) conditionWeights(ctx context.Context, at *gp.Sites) (err error) {
	// θ̄ = μ₀ + Σ₀Jᵀα
	center, mu0, variance := make([]float64, len(s.theta)), make([]float64, len(s.theta)), make([]float64, len(s.theta))
	if err := linearize.ProductsOf(s.x).MulTransVecTo(ctx, center, s.q.Alpha()); err != nil {
		return err
	}
	s.prior.VarianceTo(variance)
	s.prior.MeanTo(mu0)
	floats.Mul(center, variance)
	floats.Add(center, mu0)
	if s.structure == weightspace.Full {
		s.q, s.exact = nil, nil // free their memory before the precision is made
	}
	s.w, err = weightspace.FitStructure(ctx, s.structure, s.x, at, s.prior, s.theta, &weightspace.Options{Center: center, Limits: linearize.Limits{Memory: s.o.Memory}})
	return err
}

// covTo writes the covariance of each training example, N·C×C.
func (s *solver) covTo(ctx context.Context, dst *mat.Dense) error {
	return s.x.Batches(ctx, func(first int, b *linearize.Batch) error {
		part := dense.Slice(dst, first*s.c, (first+b.Len())*s.c)
		if s.structure != weightspace.Full {
			return s.w.PredictTo(ctx, nil, part, b)
		}
		rows := dense.Range(b.Len())
		for i := range rows {
			rows[i] += first
		}
		var q mat.Dense
		return s.q.InfluenceTo(ctx, part, &q, rows, b)
	})
}

// divergence returns KL(q‖p), where trace is Σ tr W_i V_i. As Q − Σ₀⁻¹ is the part of JᵀWJ
// that the structure keeps, tr Q⁻¹Σ₀⁻¹ = P − trace.
func (s *solver) divergence(trace float64) float64 {
	logDet := s.q.LogDet()
	if s.structure != weightspace.Full {
		logDet = s.w.LogDet()
	}
	// KL = ½(‖θ̄ − μ₀‖² + log det Q + log det Σ₀ − Σ tr W V), the norm in Σ₀⁻¹ (E26)
	return (s.q.Scatter() + logDet - trace) / 2
}

// An iterate is a value of the unknowns and what follows from it.
type iterate struct {
	x        []float64  // b and W
	f        []float64  // f̄
	cov      *mat.Dense // V, N·C×C
	next     []float64  // the right sides
	residual *mat.Dense // E r, N×C
	elbo     ELBO
	size     float64 // largest distance of a site from its condition, see (*solver).size
}

// sites returns x as the sites of a posterior. They are expanded at f, where b = r +
// W(f − m) splits into r and the rest. The second result is false where a precision is
// not positive semidefinite.
func (s *solver) sites(x, f []float64) (*gp.Sites, bool) {
	n, c := len(f), s.c
	out := &gp.Sites{F: mat.NewDense(n/c, c, slices.Clone(f)), Residual: mat.NewDense(n/c, c, slices.Clone(x[:n])), Lambda: mat.NewDense(n, c, slices.Clone(x[n:])), Root: mat.NewDense(n, c, nil)}
	s.addShift(out.Residual.RawMatrix().Data, x[n:], f, -1)
	ok := true
	for i := range n / c {
		ok = rootTo(dense.Slice(out.Root, i*c, (i+1)*c), dense.Slice(out.Lambda, i*c, (i+1)*c)) && ok
	}
	return out, ok
}

// addShift adds sign·W(f − m) to dst, N·C, with blocks W, N·C×C.
func (s *solver) addShift(dst, w, f []float64, sign float64) {
	floats.AddScaled(dst, sign, sites.MulBlocks(mat.NewDense(len(f), s.c, w), newton.Minus(f, s.m)))
}

// rootTo writes R with W = R Rᵀ, and returns false where W is not positive
// semidefinite.
func rootTo(root, w *mat.Dense) bool {
	c, _ := w.Dims()
	sym := mat.NewSymDense(c, nil)
	diagonal := true
	for i := range c {
		for j := i; j < c; j++ {
			sym.SetSym(i, j, (w.At(i, j)+w.At(j, i))/2)
			diagonal = diagonal && (i == j || sym.At(i, j) == 0)
		}
	}
	ok := true
	if diagonal {
		root.Zero()
		for i := range c {
			ok = ok && sym.At(i, i) >= 0
			root.Set(i, i, math.Sqrt(max(sym.At(i, i), 0)))
		}
		return ok
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, true) {
		return false
	}
	values := eig.Values(nil)
	var v mat.Dense
	eig.VectorsTo(&v)
	top := values[c-1]
	for k, l := range values {
		ok = ok && l >= -1e-13*top
		scale := 0.0
		if l > 1e-15*top {
			scale = math.Sqrt(l)
		}
		for i := range c {
			root.Set(i, k, v.At(i, k)*scale)
		}
	}
	return ok
}

// at evaluates the unknowns x. The iterate is nil where a precision is not positive
// semidefinite or a number is not finite.
func (s *solver) at(ctx context.Context, x []float64) (*iterate, error) {
	at, ok := s.sites(x, s.m)
	if !ok || dense.NotFinite(x) >= 0 {
		return nil, nil
	}
	if err := s.condition(ctx, at); err != nil {
		return nil, err
	}
	f, err := s.q.TrainingMean(ctx)
	if err != nil {
		return nil, err
	}
	n, c := len(f), s.c
	it := &iterate{x: x, f: f, cov: mat.NewDense(n, c, nil), next: make([]float64, len(x)), residual: mat.NewDense(n/c, c, nil)}
	if err := s.covTo(ctx, it.cov); err != nil {
		return nil, err
	}
	logs, cov := make([]float64, n/c), it.cov.RawMatrix().Data
	err = par.DoWorker(ctx, len(s.terms), n/c, func(w, i int) error {
		weight := s.y.Weight(i)
		if weight == 0 { // also where log p is −∞
			return nil
		}
		r, lambda := it.residual.RawRowView(i), it.next[n+i*c*c:][:c*c]
		// w_i E log p, w_i E r and w_i E Λ (E23)
		logs[i] = weight * s.terms[w].expectTo(r, lambda, i, s.y.Y.RawRowView(i), f[i*c:][:c], cov[i*c*c:][:c*c])
		floats.Scale(weight, r)
		floats.Scale(weight, lambda)
		return nil
	})
	if err != nil {
		return nil, err
	}
	it.elbo.ExpectedLogLik = floats.Sum(logs)
	it.elbo.KL = s.divergence(floats.Dot(x[n:], cov))
	it.elbo.Value = it.elbo.ExpectedLogLik - it.elbo.KL
	// b = E r + W(f̄ − m) (E26)
	copy(it.next, it.residual.RawMatrix().Data)
	s.addShift(it.next[:n], it.next[n:], f, 1)
	it.size = s.size(it)
	if dense.NotFinite(it.next) >= 0 || math.IsNaN(it.elbo.Value) || math.IsInf(it.elbo.Value, 0) {
		return nil, nil
	}
	return it, nil
}

// scales returns the factors that express the unknowns in units of the posterior
// standard deviation: √V_jj for b_j and √(V_jj V_kk) for W_jk.
func (s *solver) scales(it *iterate) []float64 {
	n, c := len(it.f), s.c
	out := make([]float64, len(it.x))
	for i := range n {
		out[i] = math.Sqrt(max(it.cov.At(i, i%c), 0))
	}
	for i := range n {
		for j := range c {
			out[n+i*c+j] = out[i] * out[i/c*c+j]
		}
	}
	return out
}

// size returns the largest distance of a site from its condition: of E r from the
// residual of the site, and of E Λ from W.
func (s *solver) size(it *iterate) float64 {
	n, scale, worst := len(it.f), s.scales(it), 0.0
	// α = b − W(f̄ − m)
	alpha := slices.Clone(it.x[:n])
	s.addShift(alpha, it.x[n:], it.f, -1)
	for i, r := range it.residual.RawMatrix().Data {
		worst = max(worst, scale[i]*math.Abs(r-alpha[i]))
	}
	for i := n; i < len(it.x); i++ {
		worst = max(worst, scale[i]*math.Abs(it.next[i]-it.x[i]))
	}
	return worst
}

// run maximizes the bound, starting at the unknowns x. It returns the last iterate and
// the number of steps.
func (s *solver) run(ctx context.Context, x []float64) (*iterate, int, error) {
	it, err := s.at(ctx, x)
	if err != nil {
		return nil, 0, err
	}
	if it == nil {
		return nil, 0, &DivergedError{What: "the refinement", Err: errNotFinite, Remedy: "scale the targets or raise the prior precision"}
	}
	const (
		shortest = 1e-8 // part of a step that is tried
		stalled  = 15   // steps without progress after which the rest is rounding
	)
	var mix anderson
	part, best, since, k := 1.0, it.size, 0, 0
	for ; k < s.o.MaxIter && it.size > s.o.Tolerance && since < stalled && part >= shortest; k++ {
		mix.add(it)
		accelerated := part == 1 && mix.len() > 1
		var to []float64
		if accelerated {
			to = mix.point(s.scales(it), len(it.f), s.c)
		} else {
			// x + ρ(next − x)
			to = newton.Mix(it.x, it.next, part)
		}
		next, err := s.at(ctx, to)
		if err != nil {
			return nil, k, err
		}
		s.o.Show(StageRefine, k+1, 0)
		since++
		switch {
		case next != nil && s.better(next, it):
			if next.size < best || gain(next, it) > s.noise+noGain {
				since = 0
			}
			it, part, best = next, min(1, 2*part), min(best, next.size)
		case accelerated:
			mix = anderson{}
		default:
			mix = anderson{}
			part /= 2
		}
	}
	return it, k, nil
}

const (
	rounding = 1e-12 // relative error of the bound where its integrals are exact
	noGain   = 1e-10 // relative gain of the bound up to which a step makes no progress
)

// gain returns how much larger the bound of a is, relative to its parts.
func gain(a, b *iterate) float64 {
	return (a.elbo.Value - b.elbo.Value) / (1 + math.Abs(b.elbo.ExpectedLogLik) + math.Abs(b.elbo.KL))
}

// better tells whether a has the larger bound, up to rounding. Where integrals have a
// larger error, a bound that is smaller by that much may belong to sites that are nearer
// to their conditions.
func (s *solver) better(a, b *iterate) bool {
	g := gain(a, b)
	return g >= -rounding || g >= -s.noise && a.size < b.size
}
