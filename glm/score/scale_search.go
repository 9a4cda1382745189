package score

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/internal/par"
)

// The ranges of the scales of Calibrate, and the grid on which its search begins.
const (
	minScale       = 1e-4
	maxScale       = 1e2
	minTemperature = 1e-3
	scaleSteps     = 12 // steps of log s, two a decade
	noiseSteps     = 24 // steps of log t
	// coarseRows is the most rows that the grid is evaluated on; they are enough to find its best part.
	coarseRows = 2000
)

func pointAt(scale, other float64) predictive.ScalePoint {
	return predictive.ScalePoint{Scale: scale, Other: other}
}

// A surface is the mean of −log p(y|x) over the rows, as a function of the scales.
type surface interface {
	// Values returns the surface at each of the points, from every n-th row, n = every.
	Values(ctx context.Context, at []predictive.ScalePoint, every int) ([]float64, error)
	Expand(ctx context.Context, at predictive.ScalePoint) (predictive.ScaleSlopes, error)
	// Settle moves the integration points to where the surface is most accurate at the scales at, and tells whether
	// this changed the surface.
	Settle(ctx context.Context, at predictive.ScalePoint) (bool, error)
}

// A scaleSearch minimizes a surface plus the penalties of the priors (E18).
type scaleSearch struct {
	surface
	n           int
	precision   float64 // 1/(n·Spread²), n the sum of the weights, for the logarithms that have a prior
	lo, hi      predictive.ScalePoint
	others      []float64 // grid of log τ or log t
	temperature bool      // Other is log τ
	flat        bool      // the surface does not depend on the scale of the covariance
	done        int
	progress    func(scales int)
}

// errNowhereFinite reports a surface that is finite nowhere on the grid.
var errNowhereFinite = errors.New("score: every scale has a density of zero")

func newScaleSearch(ctx context.Context, link predictive.Link, lik glm.Likelihood, rows *scoredRows, strays strays, o *CalibrateOptions) (s *scaleSearch, err error) {
	spread := o.Spread
	if spread == 0 {
		spread = 2
	}
	s = &scaleSearch{n: len(rows.kept), others: []float64{0}, progress: o.Progress}
	s.precision = 1 / (spread * spread * rows.total())
	s.lo.Scale, s.hi.Scale = math.Log(minScale), math.Log(maxScale)
	if g, ok := lik.(*glm.Gaussian); ok {
		s.lo.Other, s.hi.Other = s.lo.Scale, s.hi.Scale
		s.others = withZero(minimize.Grid(s.lo.Other, s.hi.Other, noiseSteps+1))
		s.surface, err = whiten(ctx, g, rows)
		return s, err
	}
	if _, classes := lik.(glm.Logistic); classes && !o.KeepMean {
		s.temperature = true
		s.lo.Other = math.Log(minTemperature)
		s.others = withZero(minimize.Grid(s.lo.Other, 0, 11))
	}
	if c := predictive.NewClassSurface(link, lik, rows.y, rows.mean); c != nil {
		c.Weigh(rows.weights)
		s.surface, err = c, rows.each(ctx, func(lo, _ int, y, mean, cov *mat.Dense) error { return c.Load(lo, y, mean, cov) })
	} else {
		s.surface = &linkSurface{link: link, lik: lik, rows: rows, strays: strays, temperature: s.temperature}
	}
	return s, err
}

// withZero replaces the number nearest to zero by zero.
func withZero(grid []float64) []float64 {
	at := 0
	for i, v := range grid {
		if math.Abs(v) < math.Abs(grid[at]) {
			at = i
		}
	}
	grid[at] = 0
	return grid
}

// report adds n to the number of scales tried, and reports it.
func (s *scaleSearch) report(n int) {
	s.done += n
	if s.progress != nil {
		s.progress(s.done)
	}
}

const (
	// equalValues is the relative difference up to which two values count as equal.
	equalValues = 1e-12
	// sureWorse is the relative margin by which a point must be worse than the best one to be left out.
	sureWorse = 1e-9
)

// find returns the point of the search with the smallest value.
func (s *scaleSearch) find(ctx context.Context) (predictive.ScalePoint, error) {
	var grid, surface []predictive.ScalePoint
	for _, x := range withZero(minimize.Grid(s.lo.Scale, s.hi.Scale, scaleSteps+1)) {
		for _, y := range s.others {
			grid = append(grid, pointAt(x, y))
			surface = append(surface, s.onSurface(pointAt(x, y)))
		}
	}
	values, err := s.grid(ctx, grid, surface)
	if err != nil {
		return predictive.ScalePoint{}, err
	}
	s.report(len(grid))
	// Of equal values, prefer the one whose scales are nearest to 1.
	order := make([]int, len(grid))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(math.Abs(grid[i].Scale), math.Abs(grid[j].Scale)), cmp.Compare(math.Abs(grid[i].Other), math.Abs(grid[j].Other)))
	})
	s.flat = true
	one := values[order[0]]
	for i, v := range values {
		if grid[i].Other == 0 && !(math.Abs(v-one) <= equalValues*math.Abs(one)) {
			s.flat = false
		}
	}
	var best predictive.ScalePoint
	least := math.Inf(1)
	for _, i := range order {
		v := values[i] + s.priorAt(grid[i]).Value
		if (math.IsInf(least, 1) && v < least || v < least-equalValues*math.Abs(least)) && (!s.flat || grid[i].Scale == 0) {
			best, least = grid[i], v
		}
	}
	if math.IsInf(least, 1) {
		return best, errNowhereFinite
	}
	// Descend twice. The second time the integration points are settled where the first descent ended, so that the
	// result does not depend on the grid point where that began.
	for range 2 {
		changed, err := s.Settle(ctx, s.onSurface(best))
		if err != nil {
			return best, err
		}
		if best, err = s.descend(ctx, best); err != nil || !changed {
			return best, err
		}
	}
	return best, nil
}

// grid returns the surface at the points of the grid. For classes it saves time: no row has a density above 1, so the
// sum over a part of the rows is a lower bound of the sum over all. A point whose lower bound is above the value of
// another point is not the best one, and its value is +Inf. Points with log τ = 0 are always evaluated, because flat
// depends on them.
func (s *scaleSearch) grid(ctx context.Context, grid, surface []predictive.ScalePoint) ([]float64, error) {
	every := (s.n + coarseRows - 1) / coarseRows
	if !s.temperature {
		return s.Values(ctx, surface, every)
	}
	const part = 8
	total := func(i int, v float64) float64 { return v + s.priorAt(grid[i]).Value }
	least, err := s.Values(ctx, surface, every*part) // the lower bounds, after the factor below
	if err != nil {
		return nil, err
	}
	best := 0
	for i := range least {
		least[i] *= float64(par.Tiles(s.n, every*part)) / float64(par.Tiles(s.n, every))
		if total(i, least[i]) < total(best, least[best]) {
			best = i
		}
	}
	v, err := s.Values(ctx, surface[best:best+1], every)
	if err != nil {
		return nil, err
	}
	most := total(best, v[0])
	most += sureWorse * math.Abs(most)
	var rest []int
	var at []predictive.ScalePoint
	for i := range least {
		if grid[i].Other == 0 || !(total(i, least[i]) > most) {
			rest, at = append(rest, i), append(at, surface[i])
		}
	}
	if v, err = s.Values(ctx, at, every); err != nil {
		return nil, err
	}
	values := slices.Repeat([]float64{math.Inf(1)}, len(grid))
	for k, i := range rest {
		values[i] = v[k]
	}
	return values, nil
}

// priorAt returns the penalty ½ x²/(n·Spread²) of the priors and its derivatives. x is log s; or, with a
// temperature, log s/τ² and log τ.
func (s *scaleSearch) priorAt(at predictive.ScalePoint) predictive.ScaleSlopes {
	a, b := s.precision, 0.0
	if s.temperature {
		b = a
	}
	return predictive.ScaleSlopes{Value: (a*at.Scale*at.Scale + b*at.Other*at.Other) / 2, Scale: a * at.Scale, Other: b * at.Other, ScaleScale: a, OtherOther: b}
}

// onSurface returns the point of the surface for a point of the search. With a temperature the Scale of the search
// is log s/τ².
func (s *scaleSearch) onSurface(at predictive.ScalePoint) predictive.ScalePoint {
	if s.temperature {
		at.Scale += 2 * at.Other
	}
	return at
}

// slopes returns the objective and its derivatives at a point of the search.
func (s *scaleSearch) slopes(ctx context.Context, at predictive.ScalePoint) (predictive.ScaleSlopes, error) {
	d, err := s.Expand(ctx, s.onSurface(at))
	if s.temperature {
		d.OtherOther += 4 * (d.Both + d.ScaleScale)
		d.Both += 2 * d.ScaleScale
		d.Other += 2 * d.Scale
	}
	d.Add(s.priorAt(at))
	s.report(1)
	return d, err
}

const (
	// smallStep is the move of a logarithm at which the search ends.
	smallStep = 1e-10
	// shortStep is the longest move that is accepted by the derivatives alone.
	shortStep = differenceStep
	// longStep is the longest move, about the spacing of the grid.
	longStep = 1.0
	// descendSteps is the most steps; a search rarely takes ten.
	descendSteps = 200
)

// descend minimizes the objective from a point by Newton's method within the bounds. A step is at most longest, which
// shrinks where the value would rise. The search looks for the zero of the derivatives. Near it values differ only by
// rounding, and where the derivatives are differences, the smallest value is about 1e-5 away from it. A short step is
// therefore also accepted where the Newton step from its end is shorter than the Newton step from its start.
func (s *scaleSearch) descend(ctx context.Context, at predictive.ScalePoint) (predictive.ScalePoint, error) {
	here, err := s.slopes(ctx, at)
	if err != nil {
		return at, err
	}
	if math.IsNaN(here.Value) || math.IsInf(here.Value, 0) {
		return at, errNowhereFinite // a row that was not part of the grid's rows
	}
	longest := longStep
	for range descendSteps {
		next, length := s.move(at, here, longest)
		if !(length > smallStep) { // or NaN
			if length <= smallStep {
				at = next
			}
			return at, nil
		}
		there, err := s.slopes(ctx, next)
		if err != nil {
			return at, err
		}
		good := there.Value <= here.Value
		if !good && length <= shortStep {
			_, before := s.move(at, here, longStep)
			_, after := s.move(next, there, longStep)
			good = after < before
		}
		if good {
			at, here, longest = next, there, min(2*max(longest, length), longStep)
		} else if longest = length / 4; longest < smallStep {
			return at, nil
		}
	}
	return at, nil
}

// move returns the end of Newton's step of at most the given length, within the bounds, and the larger change of
// the two logarithms.
func (s *scaleSearch) move(at predictive.ScalePoint, d predictive.ScaleSlopes, longest float64) (next predictive.ScalePoint, length float64) {
	step := s.step(at, d, longest)
	next = pointAt(min(max(at.Scale+step.Scale, s.lo.Scale), s.hi.Scale), min(max(at.Other+step.Other, s.lo.Other), s.hi.Other))
	return next, max(math.Abs(next.Scale-at.Scale), math.Abs(next.Other-at.Other))
}

// step returns Newton's step, of at most the given length in each logarithm. It takes the absolute value of a
// negative curvature. A logarithm at a bound stays if its step would leave the bounds.
func (s *scaleSearch) step(at predictive.ScalePoint, d predictive.ScaleSlopes, longest float64) predictive.ScalePoint {
	stays := func(x, lo, hi, slope float64) bool { return lo == hi || x <= lo && slope >= 0 || x >= hi && slope <= 0 }
	alone := func(slope, curvature float64) float64 {
		if slope == 0 {
			return 0
		}
		return min(max(-slope/math.Abs(curvature), -longest), longest)
	}
	noScale := s.flat || stays(at.Scale, s.lo.Scale, s.hi.Scale, d.Scale)
	noOther := stays(at.Other, s.lo.Other, s.hi.Other, d.Other)
	switch {
	case noScale && noOther:
		return predictive.ScalePoint{}
	case noScale:
		return pointAt(0, alone(d.Other, d.OtherOther))
	case noOther:
		return pointAt(alone(d.Scale, d.ScaleScale), 0)
	}
	// Step along the eigenvectors (cos, sin) and (−sin, cos) of the Hessian.
	angle := math.Atan2(2*d.Both, d.ScaleScale-d.OtherOther) / 2
	sin, cos := math.Sincos(angle)
	middle, half := (d.ScaleScale+d.OtherOther)/2, math.Hypot((d.ScaleScale-d.OtherOther)/2, d.Both)
	a := alone(cos*d.Scale+sin*d.Other, middle+half)
	b := alone(cos*d.Other-sin*d.Scale, middle-half)
	return pointAt(cos*a-sin*b, sin*a+cos*b)
}
