package mode

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Match is the prior under which the mode of the linearized model explains the training
// targets as well as the network does (E21): the common factor on the prior precisions at
// which ℓ = Σ log p(y|f_lin(x;v)) at the mode v equals Σ log p(y|f(x;θ*)).
type Match struct {
	Factor  float64   // on the stated precisions: δ_m/δ
	Error   float64   // log Factor is known to this much
	Bounded bool      // the root lies below MatchOptions.Least, which is Factor
	LogLik  float64   // ℓ of the linearized model at Theta
	Network float64   // ℓ of the network
	Prior   float64   // ℓ of the prior mean
	Theta   []float64 // about the mode v under the precisions times Factor, P
	Passes  int       // products with J and with Jᵀ
	// Warnings holds a warning of match-rough where the search ended before Error was as small as
	// was asked.
	Warnings []error
}

// MatchOptions are the options of FindMatch.
type MatchOptions struct {
	// Products multiply vectors with the Jacobian; nil takes those of the source. J v need
	// not be exact, as that of network.Network.Products.
	Products linearize.Products
	// Outputs are f(x;θ*), N×C, where they are known; nil takes a pass over the source.
	Outputs *mat.Dense
	// Tolerance is the Match.Error at which the search ends; 0 means .01.
	Tolerance float64
	// Least is the smallest factor; 0 means 1e-6. Networks that interpolate their targets
	// have a smaller one, or none.
	Least float64
	// Directions bounds the vectors that span the search, each of P + N·C numbers; 0 means
	// 32, fewer than 8 count as 8, and short memory lowers the bound. Fewer take more passes.
	Directions int
	// MaxPasses bounds the products with J and Jᵀ; 0 means 2000.
	MaxPasses int
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of what the machine has
	// free (gp.MemoryBudget).
	MaxMemory int64
	// Workers bounds the goroutines, but not those of Products; 0 means GOMAXPROCS.
	Workers int
	// Progress, if not nil, is called with StageMatch as passes are done; their number is
	// not known: total 0.
	Progress func(stage string, done, total int)
}

// StageMatch counts the passes of FindMatch.
const StageMatch = "match"

// near is |log Factor| below which the stated precisions are kept (E21). A search ends where
// this is certain.
const near = .1

// fewest directions span a search.
const fewest = 8

// directions returns how many directions fit into memory.
func (o *MatchOptions) directions(n, c, p int) (int, error) {
	bytes := func(n, directions int) int64 {
		// Beside the directions: m, f, r, and J̃d; q, z, and scratch.
		return memory.Mul(8*int64(directions+8), memory.Add(memory.Mul(int64(n), int64(c)), int64(p)))
	}
	if err := gp.CheckMemory("a match", gp.TrainingExamples, n, o.MaxMemory, func(n int) int64 { return bytes(n, fewest) }); err != nil {
		return 0, err
	}
	budget := gp.MemoryBudget(o.MaxMemory)
	return max(fewest, memory.Largest(o.Directions+1, budget, func(k int) int64 { return bytes(n, k) })), nil
}

// FindMatch returns the match of a network to a prior without forming J, H or K (E21). prior
// is the stated one; parameters of no variance stay at its mean. y is N×Targets(C), and theta
// is θ*, P.
//
// As ½‖z‖² = ½(v−μ₀)ᵀΣ₀⁻¹(v−μ₀) and −ℓ are convex, the match is the least ‖z‖ of all v with
// the network's ℓ, and 1/ρ is the multiplier of that, with ρ the factor. The search finds both
// at once among the combinations of at most Directions directions for which J v is known, so
// that neither a Newton step nor another ρ takes a pass. It begins with the direction of θ*,
// and each round adds the gradient q of ℓ − ½ρ‖z‖², for a product with Jᵀ and one with J. That
// is the method of conjugate gradients, which needs no restart where ρ or Λ changes.
//
// With A = H + ρI, ℓ at the mode differs from ℓ in the span by ρ eᵀA⁻¹q for some e no longer than
// z, and by at most ½qᵀA⁻¹q of second order; −dℓ/dlog ρ is at least what it is in the span.
// qᵀA⁻¹q is estimated from what the last rounds gained, and of the cosine between e and q three
// standard deviations of that between two random vectors are allowed for. Match.Error is what
// this makes of log ρ, or the range of log ρ over the last four rounds if that is more. It is an
// estimate and no bound. The search ends where it is within the tolerance, or where with it
// |log Factor| < .1, so that the stated precisions are kept.
//
// Where the network is no better than the prior mean, the error is a *gp.NoMatchError. A
// gp.Scored likelihood, which is not concave, is an error, and others are those of
// gp.NewSites; a *gp.MemoryError where not even 8 directions fit. The numbers are the same for any number of workers. Besides src, FindMatch holds
// the directions and a few more vectors of length P and N·C.
func FindMatch(ctx context.Context, src linearize.Source, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *MatchOptions) (*Match, error) {
	if _, ok := lik.(gp.Scored); ok {
		return nil, errors.New("mode: a match needs a likelihood that is concave in f, and noise that depends on the input has none; state the prior precision")
	}
	var d MatchOptions
	if o != nil {
		d = *o
	}
	if !(d.Tolerance >= 0 && d.Least >= 0) || math.IsInf(d.Least, 1) || d.Directions < 0 || d.MaxPasses < 0 || d.MaxMemory < 0 || d.Workers < 0 {
		panic("mode: invalid options of FindMatch")
	}
	d.Tolerance, d.Least, d.MaxPasses = cmp.Or(d.Tolerance, .01), cmp.Or(d.Least, 1e-6), cmp.Or(d.MaxPasses, 2000)
	d.Directions = max(cmp.Or(d.Directions, 32), fewest)
	if d.Products == nil {
		d.Products = linearize.ProductsOf(src)
	}
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	m := &matchSearch{o: d, tolerance: d.Tolerance, least: math.Log(d.Least)}
	m.white = newton.NewWhitened(prior, len(theta))
	var err error
	outputs := d.Outputs
	if outputs == nil {
		if outputs, err = linearize.Outputs(ctx, src); err != nil {
			return nil, err
		}
	}
	n, c := outputs.Dims()
	if n != src.Len() {
		panic("mode: outputs and examples differ in number")
	}
	if err := gp.CheckTargets(y, n, c, lik); err != nil {
		return nil, err
	}
	f := dense.Flat(outputs)
	if i := dense.NotFinite(f); i >= 0 {
		return nil, &gp.NotFiniteError{What: "network output", Row: i / c, Output: i % c, Value: f[i]}
	}
	if m.network = newton.LogLik(lik, y, f); math.IsNaN(m.network) || math.IsInf(m.network, 0) {
		return nil, &gp.NotFiniteError{What: "log p(y|f)", Value: m.network}
	}
	directions, err := d.directions(n, c, len(theta))
	if err != nil {
		return nil, err
	}
	p := len(theta)
	workers := d.Workers
	s := &span{y: y, lik: lik, n: n, c: c, workers: workers, mean: make([]float64, n*c), v: dense.New(directions, p), w: dense.New(n*c, directions)}
	s.v.Rows, s.w.Cols = 0, 0
	m.span = s
	if err := m.start(ctx, f, theta); err != nil {
		return nil, err
	}
	return m.find(ctx)
}

// A matchSearch looks for z and the factor e^t, where v = μ₀ + Σ₀^½ z.
type matchSearch struct {
	o         MatchOptions
	white     newton.Whitened
	span      *span
	tolerance float64 // of t
	least     float64 // t
	network   float64 // ℓ of the network
	prior     float64 // ℓ of the prior mean
	passes    int

	t    float64    // log factor
	coef []float64  // z = Vᵀ coef
	at   *expansion // at coef
}

// start finds the prior mean and makes θ* the first direction.
func (m *matchSearch) start(ctx context.Context, f, theta []float64) error {
	// m = f + J(μ₀ − θ*)
	if err := m.push(ctx, m.span.mean, newton.Minus(m.white.Mean, theta)); err != nil {
		return err
	}
	floats.Add(m.span.mean, f)
	if i := dense.NotFinite(m.span.mean); i >= 0 {
		return &gp.NotFiniteError{What: "prior mean", Row: i / m.span.c, Output: i % m.span.c, Value: m.span.mean[i]}
	}
	m.prior = newton.LogLik(m.span.lik, m.span.y, m.span.mean)
	if !(m.network > m.prior) {
		return &gp.NoMatchError{Network: m.network, Prior: m.prior}
	}
	z := m.white.Of(theta)
	norm := floats.Norm(z, 2)
	if norm > 0 {
		if err := m.add(ctx, z, norm); err != nil {
			return err
		}
		m.coef[0] = norm
		return nil
	}
	// The gradient at the prior mean is another one.
	r := make([]float64, len(f))
	if err := m.span.residuals(ctx, r, nil); err != nil {
		return err
	}
	z, err := m.pull(ctx, r)
	if err != nil {
		return err
	}
	if norm = floats.Norm(z, 2); norm == 0 {
		return &gp.NoMatchError{Network: m.network, Prior: m.prior}
	}
	return m.add(ctx, z, norm)
}

// find returns the match.
func (m *matchSearch) find(ctx context.Context) (*Match, error) {
	var rounds []round
	steps, settles := firstSteps, 0
	for {
		step, err := m.settle(ctx, steps)
		if err != nil {
			return nil, err
		}
		// q = J̃ᵀr − ρz
		z, r := m.span.vector(m.coef), make([]float64, len(m.span.mean))
		if err := m.span.residuals(ctx, r, m.coef); err != nil {
			return nil, err
		}
		q, err := m.pull(ctx, r)
		if err != nil {
			return nil, err
		}
		rho := math.Exp(m.t)
		floats.AddScaled(q, -rho, z)
		// What of q is in the span, settle knows to second order.
		// Subtract from d what of it is in the span, and find the norm of the rest. It returns false where
		// that is only rounding.
		s := m.span
		var norm float64
		whole := floats.Norm(q, 2)
		for range 2 {
			for i := range s.v.Rows {
				v := dense.Row(s.v, i)
				floats.AddScaled(q, -floats.Dot(v, q), v)
			}
		}
		norm = floats.Norm(q, 2)
		open := norm > inSpan*whole
		rounds = append(rounds, round{t: m.t, norm: norm, gain: step.gain})
		fall := rho * rho * floats.Dot(m.coef, step.b)
		missed := math.Abs(step.left) + step.ahead/fall + m.missed(rounds, z, fall)
		ends := missed <= m.tolerance || math.Abs(m.t)+missed < near || m.t <= m.least && step.wants < -missed
		if !ends && m.passes < m.o.MaxPasses {
			if open {
				if m.span.full() {
					// Shrink the span to z, b, the last directions and the directions of the largest curvature.
					b := step.b
					if m.at == nil {
						var err error
						if m.at, err = m.span.expand(ctx, m.coef, true); err != nil {
							return nil, err
						}
					}
					keep, err := m.at.essential(m.coef, b)
					if err != nil {
						return nil, err
					}
					// Replace the directions by their orthonormal combinations u.
					s := m.span
					k := s.w.Cols
					to := dense.New(k, len(keep)) // Uᵀ
					v := dense.New(len(keep), s.v.Cols)
					for j, a := range keep {
						copy(dense.Row(v, j), s.vector(a))
						for i, t := range a {
							to.Data[i*to.Stride+j] = t
						}
					}
					err = s.each(ctx, func(_, lo, hi int) {
						w := dense.Rows(s.w, lo*s.c, hi*s.c)
						all := dense.New(w.Rows, k)
						dense.Copy(all, w)
						dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, all, to, 0, dense.Cols(w, 0, len(keep)))
					})
					s.v.Rows, s.w.Cols = len(keep), len(keep)
					dense.Copy(s.v, v)
					if err != nil {
						return nil, err
					}
					coef := make([]float64, len(keep))
					for i, u := range keep {
						coef[i] = floats.Dot(u, m.coef)
					}
					m.coef, m.at = coef, nil
				}
				if err := m.add(ctx, q, norm); err != nil {
					return nil, err
				}
				steps = laterSteps
				continue
			}
			if settles++; steps == laterSteps || step.cut && settles < mostSettles {
				// What is left of the way is in the span.
				steps, rounds = firstSteps, nil
				continue
			}
		}
		found := &Match{
			Factor: rho, Error: missed, Bounded: m.t <= m.least, LogLik: m.at.logLik, Network: m.network, Prior: m.prior,
			Theta: m.white.Theta(z), Passes: m.passes,
		}
		if !ends {
			found.Warnings = append(found.Warnings, linearize.NewWarning("match-rough", math.Exp(missed), math.Exp(m.tolerance), "Raise MatchOptions.MaxPasses or MatchOptions.Least.",
				"The match is known to a factor of %.3g and not %.3g after %d passes over the training examples. Answers are at a precision off by as much.", math.Exp(missed), math.Exp(m.tolerance), m.passes))
		}
		return found, nil
	}
}

// missed estimates the error of t. fall is −dℓ/dt in the span, which is at most that of all
// directions.
func (m *matchSearch) missed(rounds []round, z []float64, fall float64) float64 {
	k := len(rounds) - 1
	rho := math.Exp(m.t)
	rest := remainder(rounds, rho)
	outside := math.Max(1, math.Min(float64(len(m.white.Root)), float64(len(m.span.mean)))-float64(m.span.w.Cols))
	cosine := math.Min(1, chance/math.Sqrt(outside))
	missed := (cosine*math.Sqrt(rho)*floats.Norm(z, 2)*rest + rest*rest/2) / fall
	if rest > 0 {
		for _, r := range rounds[max(0, k-delay+1):] {
			missed = math.Max(missed, math.Abs(r.t-m.t))
		}
	}
	return missed
}

// chance is how many standard deviations of the cosine of two directions drawn at random are
// allowed for.
const chance = 3

// A round is what the search knows after a direction was added.
type round struct {
	t    float64 // log factor
	norm float64 // ‖q‖ outside the span
	gain float64 // by which ‖q‖² in the norm of A⁻¹ has fallen
}

// remainder estimates ‖q‖ in the norm of A⁻¹. What it fell by in the last rounds is known
// (Strakoš and Tichý, "On error estimation in the conjugate gradient method and why it works
// in finite precision computations", ETNA 13, 2002); that it goes on to fall like
// ‖q‖² is assumed, with a factor for safety. It is at most ‖q‖/√ρ.
func remainder(rounds []round, rho float64) float64 {
	k := len(rounds) - 1
	most := rounds[k].norm / math.Sqrt(rho)
	if k < delay {
		return most
	}
	fell, known := rounds[k].norm/rounds[k-delay].norm, 0.0
	for _, r := range rounds[k-delay+1:] {
		known += r.gain
	}
	if fell *= fell; fell > slowest {
		return most
	}
	return math.Min(most, math.Sqrt(safety*known*fell/(1-fell)))
}

const (
	delay   = 4  // rounds from whose gains a remainder is estimated
	slowest = .9 // fall of ‖q‖² over these, above which it says nothing
	safety  = 2
)

const (
	// firstSteps and laterSteps bound the Newton steps in the span: at first, and after a
	// direction was added. What the later ones leave is for the next direction.
	firstSteps, laterSteps = 30, 3
	// mostSettles bounds how often firstSteps may not do where no direction is left to add.
	mostSettles = 10
	// farthest bounds |Δ log ρ| of a Newton step.
	farthest = 2
	// hidden bounds the relative rounding error of ℓ.
	hidden = 1e-13
	// smallest is the part of a Newton step below which a search along it ends.
	smallest = 1e-10
)

// A settled tells where the Newton steps in the span ended.
type settled struct {
	b     []float64 // (G + ρI)⁻¹ coef
	gain  float64   // twice what the first step promised to gain
	ahead float64   // what the step that was not made would gain
	left  float64   // its part in t
	wants float64   // that step where it may go below the least t
	cut   bool      // whether there were as many steps as may be
}

// settle makes up to limit Newton steps in t and coef towards the match in the span. Each
// chooses ρ by what the quadratic model at coef says of ℓ at the mode, and then climbs
// ℓ − ½ρ‖coef‖².
func (m *matchSearch) settle(ctx context.Context, limit int) (*settled, error) {
	most, last, first := float64(farthest), 0.0, math.NaN()
	for i := 0; ; i++ {
		if m.at == nil {
			var err error
			if m.at, err = m.span.expand(ctx, m.coef, true); err != nil {
				return nil, err
			}
		}
		x, rho := m.at, math.Exp(m.t)
		q := floats.AddScaledTo(make([]float64, len(m.coef)), x.gradient, -rho, m.coef)
		solve, err := x.shifted(rho)
		if err != nil {
			return nil, err
		}
		a, b := solve(q), solve(m.coef)
		gain := floats.Dot(q, a)
		if i == 0 {
			first = gain
		}
		s := &settled{b: b, gain: first, ahead: gain / 2}
		fall := rho * rho * floats.Dot(m.coef, b)
		if fall > 0 {
			// ℓ + gᵀa = ℓ* + fall·Δt at the mode
			s.wants = (x.logLik + floats.Dot(x.gradient, a) - m.network) / fall
		}
		s.left = math.Max(s.wants, m.least-m.t)
		arrived := math.Abs(s.left) <= m.tolerance/20 && gain <= first/100 && (limit == laterSteps || gain <= m.tolerance/100*fall)
		if s.cut = i == limit && !arrived; s.cut || arrived {
			return s, nil
		}
		dt := math.Max(-most, math.Min(most, s.left))
		if dt*last < 0 {
			most = math.Min(most, math.Abs(last)/2)
		}
		to := m.t + dt
		last = dt
		// The mode of the quadratic model at the new ρ: (G + ρI)⁻¹(g + G coef).
		rho = math.Exp(to)
		if solve, err = x.shifted(rho); err != nil {
			return nil, err
		}
		end := solve(floats.AddTo(make([]float64, len(m.coef)), x.gradient, x.curvatureTimes(m.coef)))
		start := x.logLik - rho/2*floats.Dot(m.coef, m.coef)
		for part := 1.0; ; part /= 2 {
			if part < smallest {
				return s, nil // rounding allows no gain
			}
			next := newton.Mix(m.coef, end, part)
			y, err := m.span.expand(ctx, next, part == 1)
			if err != nil {
				return nil, err
			}
			if newton.Finite(y.logLik-rho/2*floats.Dot(next, next)) >= start-hidden*(2*math.Abs(x.logLik)+math.Abs(start)) {
				m.coef, m.t, m.at = next, to, y
				if part < 1 {
					m.at = nil
				}
				break
			}
		}
	}
}

// add adds a direction of this norm that is orthogonal to the span.
func (m *matchSearch) add(ctx context.Context, d []float64, norm float64) error {
	floats.Scale(1/norm, d)
	f := make([]float64, len(m.span.mean))
	if err := m.push(ctx, f, floats.MulTo(make([]float64, len(d)), m.white.Root, d)); err != nil {
		return err
	}
	if dense.NotFinite(f) >= 0 {
		return errors.New("mode: a product with the Jacobian is not finite; check the network")
	}
	// Add a unit vector that is orthogonal to the span, with f = J̃d, N·C.
	s := m.span
	k := s.v.Rows
	s.v.Rows, s.w.Cols = k+1, k+1
	copy(dense.Row(s.v, k), d)
	for i, v := range f {
		s.w.Data[i*s.w.Stride+k] = v
	}
	m.coef, m.at = append(slices.Clone(m.coef), 0), nil
	return nil
}

// push writes J v.
func (m *matchSearch) push(ctx context.Context, dst, v []float64) error {
	m.passes++
	m.o.Progress(StageMatch, m.passes, 0)
	return m.o.Products.MulVecTo(ctx, dst, v)
}

// pull returns J̃ᵀu.
func (m *matchSearch) pull(ctx context.Context, u []float64) ([]float64, error) {
	m.passes++
	m.o.Progress(StageMatch, m.passes, 0)
	g := make([]float64, len(m.white.Root))
	if err := m.o.Products.MulTransVecTo(ctx, g, u); err != nil {
		return nil, err
	}
	floats.Mul(g, m.white.Root)
	return g, nil
}
