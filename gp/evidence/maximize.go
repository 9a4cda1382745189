package evidence

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Result is the highest maximum of the evidence that Maximize found.
type Result struct {
	*Point            // the evidence at the maximum
	Form       Form   // the form that was maximized
	Start      *Point // the evidence at the given prior and noise
	Prior      *ntk.Scaled
	Likelihood gp.Likelihood // with the noise variance found
	// Zero has the positions of the groups whose variance tends to 0. There the evidence falls with the variance,
	// and LogFactor is −Inf.
	Zero []int
	// AtEdge has the variables at an end of the range, as positions of their groups. The noise has the position
	// after the last group.
	AtEdge []int
	// Curvature is the second derivative of the evidence in the variables that are neither at an edge nor 0, in
	// order, the noise last; nil without such variables. In Laplace's approximation, minus its inverse is the
	// covariance of these logarithms.
	Curvature *mat.SymDense
	// Settled tells whether this is a maximum in the variables that are neither at an edge nor 0: the curvature is
	// negative, and the last Newton step in the logarithms was below 1e-6, or below the tolerance if that is
	// larger.
	Settled bool
	Maxima  []Maximum // distinct ends of all starts, the highest first
	Trials  []Trial   // all evaluations, in order
	// Iterations is the number of quasi-Newton and Newton steps of all starts.
	Iterations int
	// Warnings holds the warnings variance-zero, variance-edge, maxima and unsettled, and the warnings of the
	// posterior at the maximum.
	Warnings []error
}

// A Maximum is the end of one or several starts.
type Maximum struct {
	LogFactor []float64
	LogNoise  float64
	Evidence  float64
	Settled   bool // as in Result
	Starts    int  // number of starts that ended here
}

// A Trial is one evaluation of the evidence.
type Trial struct {
	LogFactor []float64
	LogNoise  float64
	Evidence  float64 // −Inf where rounding left no posterior
}

// Maximize finds the factors on the prior variances, and with Options.Noise on the noise variance, at which the
// evidence is highest. It climbs from several starts, first by L-BFGS and then by Newton steps. If the evidence has
// no value at the given prior, it returns an error of Evaluate.
func Maximize(ctx context.Context, p *Problem, form Form, o *Options) (*Result, error) {
	m, err := New(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return m.Maximize(ctx, form)
}

// Maximize does for m what the function Maximize does for a Problem.
func (m *Model) Maximize(ctx context.Context, form Form) (*Result, error) {
	if m.o.Noise && !m.p.hasNoise() {
		_, err := m.p.noise(2)
		return nil, err
	}
	s := &search{ctx: ctx, m: m, form: form, groups: len(m.scatter)}
	s.variables = s.groups
	if m.o.Noise {
		s.variables++
	}
	start, err := m.At(ctx, form, make([]float64, s.groups), 0)
	if err != nil {
		return nil, err
	}
	s.record(make([]float64, s.variables), start.Evidence.Value)
	starts, err := s.starts()
	if err != nil {
		return nil, err
	}
	var ends []*end
	for _, x := range starts {
		// Climb from x. Hold variables that leave the range at its end, and groups that vanish at 0, until the
		// derivatives there say otherwise.
		e := &end{x: slices.Clone(x), held: make([]hold, len(x)), step: math.NaN()}
		tried := make([]bool, len(x)) // groups that were tried at 0
		for range 4 * (len(x) + 1) {
			if err := s.climb(e, tried); err != nil {
				return nil, err
			}
			// Hold variables that have left the range at its end. vanish then tries groups at the lower end at 0.
			var changed bool
			for _, j := range e.free() {
				switch {
				case e.x[j] >= s.m.o.Highest:
					e.x[j], e.held[j], changed = s.m.o.Highest, atHighest, true
				case e.x[j] <= s.m.o.Lowest:
					e.x[j], e.held[j], changed = s.m.o.Lowest, atLowest, true
				}
			}
			zeroed, err := s.vanish(e, tried, changed)
			if err != nil {
				return nil, err
			}
			if changed || zeroed {
				continue
			}
			if released, err := s.release(e, tried); err != nil {
				return nil, err
			} else if !released {
				break
			}
		}
		err := s.polish(e)
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	// The first of several that agree counts, whatever their rounding.
	slices.SortStableFunc(ends, func(a, b *end) int { return cmp.Compare(b.value, a.value) })
	return s.result(start, ends)
}

// A search looks for the maximum. Its variables are the log factors of the groups, and then the log factor of the
// noise.
type search struct {
	ctx               context.Context
	m                 *Model
	form              Form
	groups, variables int
	trials            []Trial
	iterations        int
	last              *state    // last evaluation, with derivatives if they were asked for
	lastX             []float64 // its variables
}

// starts returns the points at which climbs start.
func (s *search) starts() ([][]float64, error) {
	if s.variables == 1 && s.m.o.Starts == 0 {
		// Find a point near every maximum of one variable that a grid shows.
		type node struct{ x, value, slope float64 }
		var grid []node
		for x := -gridReach; x <= gridReach; x += gridStep {
			if x <= s.m.o.Lowest || x >= s.m.o.Highest {
				continue
			}
			value, grad, err := s.at([]float64{x}, true)
			if err != nil {
				return nil, err
			}
			if finite(value) {
				grid = append(grid, node{x, value, grad[0]})
			}
		}
		var starts [][]float64
		for i, n := range grid {
			if i == 0 && n.slope < 0 || i == len(grid)-1 && n.slope > 0 {
				starts = append(starts, []float64{n.x})
			}
			if i > 0 && grid[i-1].slope > 0 && n.slope <= 0 {
				before := grid[i-1]
				// zero of the chord of the derivative
				starts = append(starts, []float64{before.x + (n.x-before.x)*before.slope/(before.slope-n.slope)})
			}
		}
		if len(starts) == 0 {
			starts = [][]float64{{0}}
		}
		return starts, nil
	}
	starts := [][]float64{make([]float64, s.variables)}
	rng := rand.New(rand.NewPCG(1, uint64(s.variables)))
	for len(starts) < cmp.Or(s.m.o.Starts, 4) {
		x := make([]float64, s.variables)
		for j := range x {
			lo, hi := max(-3, s.m.o.Lowest), min(3, s.m.o.Highest)
			x[j] = lo + (hi-lo)*rng.Float64()
		}
		starts = append(starts, x)
	}
	return starts, nil
}

// The grid for a search in one variable.
const gridStep, gridReach = 1.5, 9.

// at returns the evidence at x, and its gradient if asked for. It is −Inf where rounding left no posterior.
func (s *search) at(x []float64, gradient bool) (value float64, grad []float64, err error) {
	if !slices.Equal(x, s.lastX) || s.last == nil {
		s.last, s.lastX = nil, slices.Clone(x)
		if s.last, err = s.m.value(s.ctx, s.form, x[:s.groups], s.noiseOf(x)); err != nil {
			if s.ctx.Err() != nil || !gp.Unstable(err) {
				return 0, nil, err
			}
			s.record(x, math.Inf(-1))
			return math.Inf(-1), make([]float64, len(x)), nil
		}
		s.record(x, s.last.Evidence.Value)
	}
	if gradient && s.last.Gradient == nil {
		if err := s.m.differentiate(s.ctx, s.last); err != nil {
			return 0, nil, err
		}
	}
	if gradient {
		grad = slices.Clone(s.last.Gradient)
		if s.m.o.Noise {
			grad = append(grad, s.last.NoiseGradient)
		}
	}
	return s.last.Evidence.Value, grad, nil
}

func (s *search) record(x []float64, value float64) {
	s.trials = append(s.trials, Trial{LogFactor: slices.Clone(x[:s.groups]), LogNoise: s.noiseOf(x), Evidence: value})
}

// noiseOf returns the log factor of the noise in x.
func (s *search) noiseOf(x []float64) float64 {
	if s.m.o.Noise {
		return x[s.groups]
	}
	return 0
}

// result builds the Result from ends, the points at which the climbs from all starts ended, sorted by evidence, the highest
// first.
func (s *search) result(start *Point, ends []*end) (*Result, error) {
	best := ends[0]
	x, err := s.m.value(s.ctx, s.form, best.x[:s.groups], s.noiseOf(best.x))
	if err != nil {
		return nil, err
	}
	if err := s.m.differentiate(s.ctx, x); err != nil {
		return nil, err
	}
	r := &Result{Point: x.Point, Form: s.form, Start: start, Prior: x.prior, Likelihood: x.y.Likelihood, Curvature: best.curvature, Settled: best.settled,
		Trials: s.trials, Iterations: s.iterations}
	for j, f := range best.held {
		switch f {
		case atZero:
			r.Zero = append(r.Zero, j)
			r.Warnings = append(r.Warnings, linearize.NewWarning("variance-zero", r.Slope[j], 0, "",
				"The evidence is highest where the prior variance of group %q is 0: it changes by %.3g times the variance's factor there. The data want these parameters at their prior mean.", r.Groups[j].Name, r.Slope[j]))
		case atLowest, atHighest:
			r.AtEdge = append(r.AtEdge, j)
			what := "noise variance"
			if j < s.groups {
				what = fmt.Sprintf("prior variance of group %q", r.Groups[j].Name)
			}
			r.Warnings = append(r.Warnings, linearize.NewWarning("variance-edge", math.Exp(best.x[j]), math.NaN(), "Widen Options.Lowest and Options.Highest, or keep the given variance.",
				"The %s ended at %.3g times the given one, the end of the range. The data do not determine it.", what, math.Exp(best.x[j])))
		}
	}
	for _, e := range ends {
		i := slices.IndexFunc(r.Maxima, func(m Maximum) bool {
			// An end is the maximum m if no factor differs by 1e-5, and if each pair of logarithms differs by less
			// than 1e-3 or both factors are below 1e-5.
			for j, x := range e.x {
				y := m.LogNoise
				if j < s.groups {
					y = m.LogFactor[j]
				}
				if x == y {
					continue
				}
				if !(math.Abs(math.Exp(x)-math.Exp(y)) <= 1e-5*max(1, math.Exp(y))) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			i = len(r.Maxima)
			r.Maxima = append(r.Maxima, Maximum{LogFactor: e.x[:s.groups], LogNoise: s.noiseOf(e.x), Evidence: e.value, Settled: e.settled})
		}
		r.Maxima[i].Starts++
	}
	if !r.Settled {
		r.Warnings = append(r.Warnings, linearize.NewWarning("unsettled", best.step, math.NaN(), "Raise Options.MaxIter, or begin elsewhere.",
			"The variances found are not known to be a maximum of the evidence: the last step was %.3g in their logarithms. Better ones may be near.", best.step))
	}
	// Collect the evidences of the other settled maxima.
	var v []float64
	for _, m := range r.Maxima[1:] {
		if m.Settled {
			v = append(v, m.Evidence)
		}
	}
	if others := v; len(others) > 0 {
		r.Warnings = append(r.Warnings, linearize.NewWarning("maxima", others[0], best.value, "Compare Result.Maxima.",
			"The evidence has %d maxima: the highest is %.6g, the next %.6g. Where they are near, the data do not choose.", len(others)+1, best.value, others[0]))
	}
	r.Warnings = append(r.Warnings, x.Warnings...)
	return r, nil
}
