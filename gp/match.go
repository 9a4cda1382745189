package gp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// MatchKeeps is the largest distance, in the logarithm, between a match and the precision at which the search
// begins, for which that precision is kept (E21).
const MatchKeeps = .1

const (
	matchTolerance = 1e-3 // of log δ
	longestMatch   = 4    // most that one step moves log δ
	widestMatch    = 30   // most that all steps move it
	mostMatchSteps = 60
	// certainLeverage is the largest leverage of a training example at which leave-one-out keeps
	// its digits.
	certainLeverage = 1 - 1e-6
)

// A MatchEnd says how the search for a match ended.
type MatchEnd int

const (
	MatchFound MatchEnd = iota // ℓ(f̂) is that of the network
	MatchKept                  // the match is so near the precision at the start that this is kept
	MatchNone                  // the network fits the training examples no better than the prior mean: the start is kept
	MatchBelow                 // the match is below the smallest precision at which the refit arrives and keeps its digits
)

// A Match is the prior precision at which the linearized model fits the training examples as well
// as the network does (E21): the log likelihood at the mode, ℓ(f̂), is that of the network,
// ℓ(f(x;θ*)). Where θ* is a mode it is the precision of the training.
type Match struct {
	Factor  float64 // the precisions found, in parts of those at the start
	Root    float64 // the same before a near match is given up for the start; NaN where there is none
	Network float64 // ℓ(f(x;θ*)), in nats
	LogLik  float64 // ℓ(f̂) at the precisions found
	Refits  int
	End     MatchEnd
}

// A MatchTrial holds the numbers that the search for a match needs from a refit.
type MatchTrial struct {
	LogLik  float64 // ℓ(f̂)
	Slope   float64 // dℓ(f̂)/d log δ = −αᵀC(X,X)α
	Arrived bool    // the refit came to rest
}

// FindMatch finds the match by Newton's method on t, the logarithm of a common factor on the prior
// precisions. network is ℓ(f(x;θ*)) and prior is ℓ(m), that of the prior mean. at refits at a
// factor e^t and is called for t = 0 first; the last t that it is called for is the result. ℓ(f̂)
// falls in t for a concave likelihood, so that the root is unique. sound is asked whether the last
// refit of at can be used where its error bars are in doubt; nil stands for yes. An error of at
// that Unstable holds for counts as a refit that did not arrive.
//
// best is the most that the log likelihood of all targets can be, at any function: 0 for classes.
// Newton's method works with the logarithm of what ℓ is short of it. With root the search looks for
// the match itself, and does not keep a near start.
func FindMatch(ctx context.Context, network, prior, best float64, root bool, at func(ctx context.Context, t float64) (MatchTrial, error), sound func(ctx context.Context) (bool, error)) (*Match, error) {
	m := &Match{Factor: 1, Root: math.NaN(), Network: network}
	usable := false
	try := func(t float64) (MatchTrial, error) {
		if err := ctx.Err(); err != nil {
			return MatchTrial{}, stopped("matching the network", err)
		}
		m.Refits++
		r, err := at(ctx, t)
		if err != nil && (ctx.Err() != nil || !Unstable(err)) {
			return r, err
		}
		usable = err == nil && r.Arrived
		if usable && sound != nil {
			if usable, err = sound(ctx); err != nil {
				return r, err
			}
		}
		m.Factor, m.LogLik = math.Exp(t), r.LogLik
		return r, nil
	}
	r, err := try(0)
	if err != nil {
		return nil, err
	}
	if !(network > prior) {
		m.End = MatchNone
		return m, nil
	}
	// The match is in (lo, hi). blocked says that the refit at lo cannot be used.
	t, lo, hi, blocked := 0.0, math.Inf(-1), math.Inf(1), false
	for m.Refits < mostMatchSteps {
		step := float64(longestMatch)
		if usable {
			step = matchStep(r, network, best)
			if math.Abs(step) <= matchTolerance || t == 0 && !root && math.Abs(step) < MatchKeeps/2 {
				break
			}
		}
		switch {
		case !usable:
			lo, blocked = t, true
		case step > 0:
			lo, blocked = t, false
		default:
			hi = t
		}
		next := t + math.Copysign(math.Min(math.Abs(step), longestMatch), step)
		if !(lo < next && next < hi) {
			next = lo + (hi-lo)/2
		}
		if blocked && hi-lo < MatchKeeps/2 || next < -widestMatch {
			m.End = MatchBelow
			if t == hi {
				break
			}
			next = hi
		} else if next > widestMatch {
			m.End = MatchNone
			next = 0
		}
		t = next
		if r, err = try(t); err != nil {
			return nil, err
		}
		if m.End != MatchFound {
			break
		}
	}
	if m.End == MatchFound {
		m.Root = math.Exp(t)
		if usable {
			m.Root = math.Exp(t + matchStep(r, network, best))
		}
	}
	if m.End == MatchFound && !root && math.Abs(math.Log(m.Root)) < MatchKeeps {
		m.End = MatchKept
		if t != 0 {
			if _, err = try(0); err != nil {
				return nil, err
			}
		}
	}
	if !usable {
		return nil, fmt.Errorf("gp: no refit near the precision at which the linearized model fits as the network does can be used: %w", newton.ErrNoObjective)
	}
	return m, nil
}

// matchStep is Newton's step of t = log δ from a refit. The logarithm of what ℓ is short of its best
// value is nearly linear in t: its derivative is −ℓ'/(best − ℓ).
func matchStep(r MatchTrial, network, best float64) float64 {
	gap, want := best-r.LogLik, best-network
	switch step := math.Log(want/gap) * gap / -r.Slope; {
	case gap > 0 && want > 0 && r.Slope < 0 && !math.IsNaN(step):
		return step
	case network > r.LogLik:
		return -longestMatch // ℓ falls in t
	}
	return longestMatch
}

// Unstable tells whether an error comes from rounding or overflow, as with a far too small prior precision, so
// that another precision may still work.
func Unstable(err error) bool {
	var (
		notPD     *NotPDError
		notFinite *NotFiniteError
		negative  *NegativeVarianceError
	)
	return errors.As(err, &notPD) || errors.As(err, &notFinite) || errors.As(err, &negative) || errors.Is(err, newton.ErrNoObjective)
}

// Match returns the refit of e's training examples at their match (E21), and what was found. e is a
// refit of the targets y, whose likelihood is concave; kernel returns the kernel under
// prior precisions multiplied by a factor, with the same mean function. The search begins at e.
//
// K is scaled in its place, so the result takes the memory of e, which must not be used after the
// call, whatever its error. A step takes a refit that starts at the mode of the one before. The
// errors are those of Refit. best and root are those of FindMatch. Match panics on a posterior that
// was not refitted.
func (e *Exact) Match(ctx context.Context, kernel func(factor float64) (ntk.Kernel, error), y *Targets, best float64, root bool) (*Exact, *Match, error) {
	if !e.Refitted() {
		panic("gp: a match begins with a refit")
	}
	x, options, factor := e.s.x, e.s.o, 1.0
	at := func(ctx context.Context, t float64) (MatchTrial, error) {
		if next := math.Exp(t); next != factor || e == nil {
			k, err := kernel(next)
			if err != nil {
				return MatchTrial{}, err
			}
			last := e
			e = nil
			if last != nil {
				e, err = last.Rescale(ctx, k, factor/next, y)
			} else {
				e, err = Refit(ctx, k, x, y, &options) // the refit before failed, and its memory is gone
			}
			if err != nil {
				return MatchTrial{}, err
			}
			factor = next
		}
		slope, err := e.MatchSlope(ctx)
		return MatchTrial{LogLik: e.Sites().LogLik, Slope: slope, Arrived: linearize.FindWarning(e.Warnings(), "refit-steps") == nil}, err
	}
	m, err := FindMatch(ctx, y.LogLik(dense.Flat(x.F)), y.LogLik(e.s.prior), best, root, at, func(ctx context.Context) (bool, error) {
		// Tell whether the leverages of all training examples, the eigenvalues of Rᵀ C(x_i,x_i) R, are at
		// most certainLeverage.
		n, c := x.Len(), x.Outputs()
		var doubtful []int
		for i := range n {
			// A leverage is at most s/(1+s) with s = tr RᵀκR.
			s, block := 0.0, e.s.lambda.block(i)
			for a := range c {
				row := e.s.g.data[(i*c+a)*(e.s.g.n+1)+i*c:]
				s += block[a*c+a] * row[a]
				for b := range a {
					s += 2 * block[a*c+b] * row[b]
				}
			}
			if s/(1+s) > certainLeverage {
				doubtful = append(doubtful, i)
			}
		}
		if len(doubtful) == 0 {
			return true, nil
		}
		h := mat.NewDense(len(doubtful)*c, c, nil)
		x, err := x.Gather(ctx, doubtful)
		if err != nil {
			return false, err
		}
		if err := e.InfluenceTo(ctx, h, mat.NewDense(len(doubtful), c, nil), doubtful, x); err != nil {
			return false, err
		}
		for k, i := range doubtful {
			root := e.Sites().Root.Slice(i*c, (i+1)*c, 0, c)
			var rhr mat.Dense
			rhr.Product(root.T(), h.Slice(k*c, (k+1)*c, 0, c), root)
			var eigen mat.EigenSym
			sym := mat.NewSymDense(c, nil)
			for a := range c {
				for b := a; b < c; b++ {
					sym.SetSym(a, b, (rhr.At(a, b)+rhr.At(b, a))/2)
				}
			}
			if !eigen.Factorize(sym, false) {
				return false, nil
			}
			if floats.Max(eigen.Values(nil)) > certainLeverage {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return e, m, nil
}

// MatchSlope returns the derivative of the log likelihood at the mode, ℓ(f̂), in the logarithm of a
// common factor on the prior precisions, −αᵀC(X,X)α (E21). It takes one solve, and belongs to a refit.
func (e *Exact) MatchSlope(ctx context.Context) (float64, error) {
	// C α = K (I + ΛK)⁻¹ α
	_, calpha, _, err := e.s.dual(ctx, e.s.alpha)
	if err != nil {
		return 0, err
	}
	return -floats.Dot(e.s.alpha, calpha), nil
}
