package variational

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
)

// A solver finds the sites at which the lower bound is largest. Its unknowns are the
// natural parameters of the sites, N·C·(1+C) numbers: the linear terms b and then the
// precisions W, with which q is the posterior of a linear-Gaussian model. The bound is
// largest where
//
//	b = E r + W(f̄ − m),  W = E Λ,  f ~ q.
//
// One step of natural gradients of size ρ goes ρ of the way from (b, W) to the right
// sides, and raises the bound for a small ρ.
type solver struct {
	space space
	y     *mat.Dense
	c     int
	terms []expectation // by worker
	noise float64       // relative error of the bound, by which a step may lower it
	o     Options
}

// An iterate is a value of the unknowns and what follows from it.
type iterate struct {
	x        []float64  // b and W
	f        []float64  // f̄
	cov      *mat.Dense // V, N·C×C
	next     []float64  // the right sides
	residual *mat.Dense // E r, N×C
	elbo     ELBO
	size     float64 // of next − x, see scaled
}

// sites returns x as the sites of a posterior. They are expanded at f, where b = r +
// W(f − m) splits into r and the rest. The second result is false where a precision is
// not positive semidefinite.
func (s *solver) sites(x, f []float64) (*gp.Sites, bool) {
	n := len(f)
	c := s.c
	out := &gp.Sites{F: mat.NewDense(n/c, c, slices.Clone(f)), Residual: mat.NewDense(n/c, c, nil), Lambda: mat.NewDense(n*c/c, c, nil), Root: mat.NewDense(n, c, nil)}
	copy(out.Lambda.RawMatrix().Data, x[n:])
	r := out.Residual.RawMatrix().Data
	copy(r, x)
	s.addShift(r, x[n:], newton.Minus(f, s.space.prior()), -1)
	ok := true
	for i := range n / c {
		ok = rootTo(dense.Slice(out.Root, i*c, (i+1)*c), dense.Slice(out.Lambda, i*c, (i+1)*c)) && ok
	}
	return out, ok
}

// addShift adds sign·W d to dst, N·C, with blocks W, N·C×C.
func (s *solver) addShift(dst, w, d []float64, sign float64) {
	c := s.c
	for i := range dst {
		dst[i] += sign * floats.Dot(w[i*c:(i+1)*c], d[i/c*c:i/c*c+c])
	}
}

// rootTo writes R with W = R Rᵀ, and returns false where W is not positive
// semidefinite.
func rootTo(root, w *mat.Dense) bool {
	c, _ := w.Dims()
	if c == 1 {
		v := w.At(0, 0)
		root.Set(0, 0, math.Sqrt(max(v, 0)))
		return v >= 0
	}
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

// at evaluates the unknowns x; nil where a precision is not positive semidefinite or a
// number is not finite.
func (s *solver) at(ctx context.Context, x []float64) (*iterate, error) {
	sites, ok := s.sites(x, s.space.prior())
	if !ok || dense.NotFinite(x) >= 0 {
		return nil, nil
	}
	if err := s.space.condition(ctx, sites); err != nil {
		return nil, err
	}
	return s.evaluate(ctx, x)
}

// evaluate computes the iterate of the sites x that the space is conditioned on.
func (s *solver) evaluate(ctx context.Context, x []float64) (*iterate, error) {
	it := &iterate{x: x, f: s.space.mean(), cov: new(mat.Dense), next: make([]float64, len(x))}
	if err := s.space.covTo(ctx, it.cov); err != nil {
		return nil, err
	}
	n, c := len(it.f), s.c
	it.residual = mat.NewDense(n/c, c, nil)
	logs := make([]float64, n/c)
	cov := it.cov.RawMatrix().Data
	err := par.DoWorker(ctx, len(s.terms), n/c, func(w, i int) error {
		lambda := it.next[n+i*c*c:][:c*c]
		logs[i] = s.terms[w].expectTo(it.residual.RawRowView(i), lambda, i, s.y.RawRowView(i), it.f[i*c:][:c], cov[i*c*c:][:c*c])
		return nil
	})
	if err != nil {
		return nil, err
	}
	it.elbo.ExpectedLogLik = floats.Sum(logs)
	it.elbo.KL = s.space.divergence(floats.Dot(x[n:], cov))
	it.elbo.Value = it.elbo.ExpectedLogLik - it.elbo.KL
	// b = E r + W(f̄ − m)
	copy(it.next, it.residual.RawMatrix().Data)
	s.addShift(it.next[:n], it.next[n:], newton.Minus(it.f, s.space.prior()), 1)
	it.size = s.size(it)
	if dense.NotFinite(it.next) >= 0 || math.IsNaN(it.elbo.Value) || math.IsInf(it.elbo.Value, 0) {
		return nil, nil
	}
	return it, nil
}

// scales returns what the unknowns are multiplied by to be in units of the posterior
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
	s.addShift(alpha, it.x[n:], newton.Minus(it.f, s.space.prior()), -1)
	for i, r := range it.residual.RawMatrix().Data {
		worst = max(worst, scale[i]*math.Abs(r-alpha[i]))
	}
	for i := n; i < len(it.x); i++ {
		worst = max(worst, scale[i]*math.Abs(it.next[i]-it.x[i]))
	}
	return worst
}

// run climbs from the unknowns x to the largest bound. It returns the last iterate and
// how many steps it took.
func (s *solver) run(ctx context.Context, x []float64) (*iterate, int, error) {
	it, err := s.at(ctx, x)
	if err != nil {
		return nil, 0, err
	}
	if it == nil {
		return nil, 0, errNotFinite
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
