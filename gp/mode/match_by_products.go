package mode

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Match is the prior under which the mode of the linearized model explains the training targets as well as the
// network does (E21). It is given by the common factor on the prior precisions for which ℓ = Σ log p(y|f_lin(x;v))
// at the mode v equals Σ log p(y|f(x;θ*)).
type Match struct {
	Factor  float64   // factor on the stated precisions, δ_m/δ
	Error   float64   // estimated error of log Factor
	Bounded bool      // the root is below 1e-6, and Factor is that
	LogLik  float64   // ℓ of the linearized model at Theta
	Network float64   // ℓ of the network
	Prior   float64   // ℓ of the prior mean
	Theta   []float64 // approximate mode v under the precisions times Factor, P numbers
	Passes  int       // number of products with J and with Jᵀ
	// Warnings holds the warning match-rough where the search ended with an Error above the tolerance.
	Warnings []error
}

// searchBounds bound the search for a match.
type searchBounds struct {
	tolerance  float64 // Match.Error at which the search ends
	least      float64 // the smallest factor; networks that interpolate their targets have a smaller one, or none
	directions int     // most vectors that span the search, each with P + N·C numbers
	passes     int     // most products with J and Jᵀ
}

// bounds are those of FindMatch. With fewer directions, which small memory allows, the search takes more passes.
var bounds = searchBounds{tolerance: .01, least: 1e-6, directions: 32, passes: 2000}

// StageMatch counts the passes of FindMatch.
const StageMatch = "match"

// near is the |log Factor| below which the stated precisions are kept (E21). A search ends when it is certain to be
// below.
const near = .1

// fewest is the fewest directions that may span a search.
const fewest = 8

// fit returns how many of the directions fit into memory.
func (b *searchBounds) fit(n, c, p int, limit int64) (int, error) {
	bytes := func(n, directions int) int64 {
		// Besides the directions: m, f, r and J̃d; q, z and scratch.
		return memory.Mul(8*int64(directions+8), memory.Add(memory.Mul(int64(n), int64(c)), int64(p)))
	}
	if err := gp.CheckMemory("a match", gp.TrainingExamples, n, limit, func(n int) int64 { return bytes(n, fewest) }); err != nil {
		return 0, err
	}
	budget := gp.MemoryBudget(limit)
	return max(fewest, memory.Largest(b.directions+1, budget, func(k int) int64 { return bytes(n, k) })), nil
}

// FindMatch returns the match of a network for the stated prior without forming J, H or K (E21). Parameters without
// prior variance stay at the prior mean. theta is θ*, P numbers.
//
// Let z be the whitened parameters, so that ½‖z‖² = ½(v−μ₀)ᵀΣ₀⁻¹(v−μ₀), and ρ the factor. ½‖z‖² and −ℓ are convex.
// The match is therefore the v with the least ‖z‖ among those with the network's ℓ, and 1/ρ is the Lagrange
// multiplier of this constraint. The search finds both at once, among combinations of at most 32 directions
// d with known J̃d, so that neither a Newton step nor another ρ needs a pass:
//
//  1. The first direction is the direction of θ*.
//  2. Newton steps in the span find z and ρ.
//  3. Each round adds one more direction: the gradient q of ℓ − ½ρ‖z‖², with one product by Jᵀ and one by J. This
//     is the method of conjugate gradients, but it needs no restart when ρ or Λ changes.
//
// The error is estimated as follows. With A = H + ρI, ℓ at the mode differs from ℓ in the span by ρ eᵀA⁻¹q for some
// e with ‖e‖ ≤ ‖z‖, and by at most ½qᵀA⁻¹q in second order; −dℓ/dlog ρ is at least as large as in the span. qᵀA⁻¹q
// is estimated from the gains of the last rounds. The cosine between e and q is taken to be at most three standard
// deviations of the cosine between two random vectors. Match.Error is the resulting error of log ρ, or the range of
// log ρ over the last four rounds if that is larger. It is an estimate and not a bound. The search ends when
// Match.Error is within the tolerance, or when |log Factor| < .1 despite this error, so that the stated precisions
// are kept.
//
// Where the network is no better than the prior mean, the error is a *gp.NoMatchError. Other errors: a gp.Scored
// likelihood, which is not concave; an error of gp.NewSites; a *gp.MemoryError where not even 8 directions fit. The
// result does not depend on the number of processors. Besides src, FindMatch holds the directions and a few more
// vectors of P and N·C numbers. Of o, it uses Products, whose J v need not be exact, Outputs and Limits.
func FindMatch(ctx context.Context, src linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Match, error) {
	return findMatch(ctx, src, y, prior, theta, o, bounds)
}

func findMatch(ctx context.Context, src linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options, within searchBounds) (*Match, error) {
	if y.Scored() {
		return nil, errors.New("mode: a match needs a likelihood that is concave in f, and noise that depends on the input has none; state the prior precision")
	}
	d := o.withDefaults(src, len(theta))
	m := &matchSearch{o: d, passesMost: within.passes, tolerance: within.tolerance, least: math.Log(within.least)}
	var f []float64
	var err error
	if m.jacobian, f, err = newJacobian(ctx, src, prior, theta, d.Outputs); err != nil {
		return nil, err
	}
	n, c := m.n, m.c
	if err := y.CheckFor(n, c); err != nil {
		return nil, err
	}
	if i := dense.NotFinite(f); i >= 0 {
		return nil, &gp.NotFiniteError{What: "network output", Row: i / c, Output: i % c, Value: f[i]}
	}
	if m.network = y.LogLik(f); math.IsNaN(m.network) || math.IsInf(m.network, 0) {
		return nil, &gp.NotFiniteError{What: "log p(y|f)", Value: m.network}
	}
	directions, err := within.fit(n, c, len(theta), d.Memory)
	if err != nil {
		return nil, err
	}
	p := len(theta)
	s := &span{y: y, n: n, c: c, mean: make([]float64, n*c), v: dense.New(directions, p), w: dense.New(n*c, directions)}
	s.v.Rows, s.w.Cols = 0, 0
	m.span = s
	if err := m.start(ctx, f, theta); err != nil {
		return nil, err
	}
	return m.find(ctx)
}

// A matchSearch looks for whitened parameters z and the factor e^t, where v = μ₀ + Σ₀^½ z.
type matchSearch struct {
	o          Options
	passesMost int
	jacobian
	span      *span
	tolerance float64 // for t
	least     float64 // least t
	network   float64 // ℓ of the network
	prior     float64 // ℓ of the prior mean
	passes    int

	t    float64    // log factor
	coef []float64  // z = Vᵀ coef
	at   *expansion // ℓ around coef to second order
}

// start computes the prior mean and makes θ* the first direction.
func (m *matchSearch) start(ctx context.Context, f, theta []float64) error {
	// m = f + J(μ₀ − θ*)
	if err := m.pass().MulVecTo(ctx, m.span.mean, newton.Minus(m.white.Mean, theta)); err != nil {
		return err
	}
	floats.Add(m.span.mean, f)
	if i := dense.NotFinite(m.span.mean); i >= 0 {
		return &gp.NotFiniteError{What: "prior mean", Row: i / m.span.c, Output: i % m.span.c, Value: m.span.mean[i]}
	}
	m.prior = m.span.y.LogLik(m.span.mean)
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
	// θ* is the prior mean: take the gradient at the prior mean as the first direction.
	r := make([]float64, len(f))
	if err := m.span.residuals(ctx, r, nil); err != nil {
		return err
	}
	z, err := m.pull(ctx, m.pass(), r)
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
		q, err := m.pull(ctx, m.pass(), r)
		if err != nil {
			return nil, err
		}
		rho := math.Exp(m.t)
		floats.AddScaled(q, -rho, z)
		// settle already accounts for the part of q in the span, to second order. Subtract this part, and find the
		// norm of the rest. open tells whether that is more than rounding.
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
		if !ends && m.passes < m.passesMost {
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
					// Replace the directions by orthonormal combinations; keep has their coefficients.
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
				// The remaining way is in the span.
				steps, rounds = firstSteps, nil
				continue
			}
		}
		found := &Match{
			Factor: rho, Error: missed, Bounded: m.t <= m.least, LogLik: m.at.logLik, Network: m.network, Prior: m.prior,
			Theta: m.white.Theta(z), Passes: m.passes,
		}
		if !ends {
			found.Warnings = append(found.Warnings, linearize.NewWarning("match-rough", math.Exp(missed), math.Exp(m.tolerance), "State the prior precision.",
				"The match is known to a factor of %.3g and not %.3g after %d passes over the training examples. Answers are at a precision off by as much.", math.Exp(missed), math.Exp(m.tolerance), m.passes))
		}
		return found, nil
	}
}

// missed estimates the error of t. fall is −dℓ/dt in the span, a lower bound of −dℓ/dt in all directions.
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

// chance is the number of standard deviations of the cosine of two random directions that are allowed for.
const chance = 3

// A round has the results of the search after a direction was added.
type round struct {
	t    float64 // log factor
	norm float64 // ‖q‖ outside the span
	gain float64 // decrease of ‖q‖² in the norm of A⁻¹
}

// remainder estimates ‖q‖ in the norm of A⁻¹. Its decrease in the last rounds is known (Strakoš and Tichý, "On
// error estimation in the conjugate gradient method and why it works in finite precision computations", ETNA 13,
// 2002). It is assumed to go on decreasing like ‖q‖², with a safety factor. It is at most ‖q‖/√ρ.
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
	delay   = 4  // rounds whose gains are used for the estimate
	slowest = .9 // ratio of ‖q‖² over these rounds above which the gains say nothing
	safety  = 2
)

const (
	// firstSteps and laterSteps are the most Newton steps in the span: at first, and after a direction was added.
	// The next direction makes up for what later steps leave.
	firstSteps, laterSteps = 30, 3
	// mostSettles is how often firstSteps may fail to be enough when no direction is left to add.
	mostSettles = 10
	// farthest is the largest |Δ log ρ| of a Newton step.
	farthest = 2
	// hidden bounds the relative rounding error of ℓ.
	hidden = 1e-13
	// smallest is the part of a Newton step at which a search along it ends.
	smallest = 1e-10
)

// A settled describes the end of the Newton steps in the span.
type settled struct {
	b     []float64 // (G + ρI)⁻¹ coef
	gain  float64   // twice the predicted gain of the first step
	ahead float64   // predicted gain of the step that was not made
	left  float64   // change of t in that step
	wants float64   // change of t in that step without the limit m.least
	cut   bool      // the limit on the number of steps ended them
}

// settle makes up to limit Newton steps in t and coef towards the match in the span. Each step chooses ρ such that
// ℓ at the mode, by the quadratic model at coef, is the network's, and then climbs ℓ − ½ρ‖coef‖².
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

// add adds the direction d to the span. d must be orthogonal to the span, and norm must be ‖d‖.
func (m *matchSearch) add(ctx context.Context, d []float64, norm float64) error {
	floats.Scale(1/norm, d)
	f, err := m.push(ctx, m.pass(), d)
	if err != nil {
		return err
	}
	if dense.NotFinite(f) >= 0 {
		return errors.New("mode: a product with the Jacobian is not finite; check the network")
	}
	// Append the unit vector d to V, and f = J̃d, N·C numbers, to W.
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

// pass counts a product with J or Jᵀ.
func (m *matchSearch) pass() linearize.Products {
	m.passes++
	m.o.Show(StageMatch, m.passes, 0)
	return m.o.Products
}
