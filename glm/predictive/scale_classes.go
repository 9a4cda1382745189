package predictive

import (
	"context"
	"math"
	"runtime"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/par"
)

// A ScalePoint is log s and, where there is a second scale, log τ or log t. In the search of package score, Scale
// is log s/τ² in place of log s.
type ScalePoint struct{ Scale, Other float64 }

// ScaleSlopes are a value at a ScalePoint and its first and second derivatives in Scale and Other.
type ScaleSlopes struct{ Value, Scale, Other, ScaleScale, Both, OtherOther float64 }

// Add adds the value and the derivatives of another row.
func (d *ScaleSlopes) Add(e ScaleSlopes) { d.AddScaled(1, e) }

// AddScaled adds w·e.
func (d *ScaleSlopes) AddScaled(w float64, e ScaleSlopes) {
	d.Value += w * e.Value
	d.Scale += w * e.Scale
	d.Other += w * e.Other
	d.ScaleScale += w * e.ScaleScale
	d.Both += w * e.Both
	d.OtherOther += w * e.OtherOther
}

// Over returns d divided by n.
func (d ScaleSlopes) Over(n float64) ScaleSlopes {
	w := 1 / n
	return ScaleSlopes{w * d.Value, w * d.Scale, w * d.Other, w * d.ScaleScale, w * d.Both, w * d.OtherOther}
}

// A ClassSurface is −log p(y|x) for classes, averaged over the rows, as a function of the scales (E18). It uses the
// same integration points for all scales. log p is therefore a smooth function of the scales and of the moments,
// and its derivatives are exact.
type ClassSurface struct {
	rows    []classDensity
	weights []float64 // one weight for each row; nil for 1 each
	softmax bool
}

// A classDensity is the density of one row's target. It is E softmax(f)_y, or a product of powers of E σ(f).
type classDensity struct {
	logits  []logit
	classes *classRow
}

// A logit stands for the term weight · log E σ(f), f ~ N(m, s²), of a log density.
type logit struct{ weight, m, s float64 }

// NewClassSurface returns a surface for targets y, T×1 or T×C, and means f, T×C. Load must then set its rows. It
// returns nil where the link or the likelihood needs other integrals.
func NewClassSurface(link Link, lik glm.Likelihood, y, f *mat.Dense) *ClassSurface {
	l, ok := lik.(glm.Logistic)
	if _, whole := link.(ScaleLink); !ok || !whole {
		return nil
	}
	n, _ := f.Dims()
	for i := range n {
		if l.Softmax() {
			_, ok = classOf(lik, y.RawRowView(i), f.RawRowView(i))
		} else {
			ok = isBernoulli(lik, y.RawRowView(i), f.RawRowView(i))
		}
		if !ok {
			return nil
		}
	}
	return &ClassSurface{rows: make([]classDensity, n), softmax: l.Softmax()}
}

// Weigh gives the rows weights in the average; nil stands for 1 each.
func (s *ClassSurface) Weigh(weights []float64) { s.weights = weights }

// weight returns the weight of a row.
func (s *ClassSurface) weight(i int) float64 {
	if s.weights == nil {
		return 1
	}
	return s.weights[i]
}

// Load sets the rows from first on, with targets y and moments f and cov. The error is an error of a Link. Several
// goroutines may load different rows.
func (s *ClassSurface) Load(first int, y, f, cov *mat.Dense) error {
	return EachRow(context.Background(), f, cov, func(t int, f, block []float64) (err error) {
		s.rows[first+t], err = newClassDensity(s.softmax, t, y.RawRowView(t), f, block)
		return err
	})
}

// isBernoulli tells whether p(y|f) is the density of glm.Bernoulli.
func isBernoulli(lik glm.Likelihood, y, f []float64) bool {
	if len(y) != len(f) || (glm.Bernoulli{}).CheckY(y, len(f)) != nil {
		return false
	}
	want := glm.Bernoulli{}.LogProb(y, f)
	return math.Abs(lik.LogProb(y, f)-want) <= 1e-12*(1+math.Abs(want))
}

// newClassDensity returns the classDensity of row t. It overwrites cov.
func newClassDensity(softmax bool, t int, y, f, cov []float64) (d classDensity, err error) {
	c := len(f)
	switch {
	case !softmax:
		for j, m := range f {
			s := math.Sqrt(cov[j*c+j])
			if y[j] > 0 {
				d.logits = append(d.logits, logit{y[j], m, s})
			}
			if y[j] < 1 {
				d.logits = append(d.logits, logit{1 - y[j], -m, s})
			}
		}
	case c == 2:
		m, s := contrast(f, cov)
		d.logits = []logit{{1, (2*y[0] - 1) * m, s}}
	default:
		d.classes, err = newClassRow(t, int(y[0]), f, cov)
	}
	return d, err
}

const (
	// coarsePairs is the number of pairs of points ±z for the grid of scales, which only has to find the start of
	// Newton's method.
	coarsePairs = 64
	// classTile is the number of rows in a tile of work.
	classTile = 4
)

// Values returns the surface at each of the points, from every n-th row, n = every.
func (s *ClassSurface) Values(ctx context.Context, at []ScalePoint, every int) ([]float64, error) {
	n := (len(s.rows) + every - 1) / every
	all := make([]float64, n*len(at))
	err := s.each(ctx, coarsePairs, n, func(nodes *classNodes, i int) {
		// Write log p at each point.
		d := &s.rows[i*every]
		to := all[i*len(at) : (i+1)*len(at)]
		if d.classes != nil {
			own := *d.classes
			own.z0 = make([]float64, len(own.z0))
			nodes.take(&own)
		}
		for k, p := range at {
			tau, root := math.Exp(p.Other), math.Exp(p.Scale/2)
			if d.classes != nil {
				to[k] = nodes.logDensity(tau, root)
				continue
			}
			to[k] = 0
			for _, l := range d.logits {
				to[k] += l.weight * integral.LogMeanSigmoid(tau*l.m, root*l.s)
			}
		}
	})
	to := make([]float64, len(at))
	total := 0.0
	for i := range n {
		total += s.weight(i * every)
	}
	for i := range n {
		for k := range to {
			to[k] -= s.weight(i*every) * all[i*len(at)+k] / total
		}
	}
	return to, err
}

// each calls do for n rows on several workers. Each worker has its own nodes.
func (s *ClassSurface) each(ctx context.Context, pairs, n int, do func(nodes *classNodes, i int)) error {
	nodes := make([]*classNodes, runtime.GOMAXPROCS(0))
	return par.DoWorker(ctx, len(nodes), par.Tiles(n, classTile), func(w, tile int) error {
		if nodes[w] == nil {
			nodes[w] = newClassNodes(pairs)
		}
		lo, hi := par.Bounds(tile, n, classTile)
		for i := lo; i < hi; i++ {
			do(nodes[w], i)
		}
		return nil
	})
}

// Settle moves the integration points of each row to the mode at these scales. It tells whether any row has points.
func (s *ClassSurface) Settle(ctx context.Context, at ScalePoint) (bool, error) {
	var moved bool
	for i := range s.rows {
		moved = moved || s.rows[i].classes != nil
	}
	if !moved {
		return false, nil
	}
	return true, par.Do(ctx, len(s.rows), func(i int) error {
		if w := s.rows[i].classes; w != nil {
			w.centre(math.Exp(at.Other), math.Exp(at.Scale/2))
		}
		return nil
	})
}

// Expand returns the surface and its derivatives.
func (s *ClassSurface) Expand(ctx context.Context, at ScalePoint) (sum ScaleSlopes, err error) {
	all := make([]ScaleSlopes, len(s.rows))
	tau, root := math.Exp(at.Other), math.Exp(at.Scale/2)
	err = s.each(ctx, sweepPairs, len(s.rows), func(nodes *classNodes, i int) {
		d := &s.rows[i]
		var slopes logSlopes
		if d.classes != nil {
			nodes.take(d.classes)
			slopes = nodes.slopes(tau, root)
		}
		for _, l := range d.logits {
			// Add weight · log E σ(f), f ~ N(τ m, r²s²).
			g := integral.LogMeanSigmoidSlopes(tau*l.m, root*l.s)
			slopes.value += l.weight * g.Value
			slopes.tau += l.weight * l.m * g.M
			slopes.root += l.weight * l.s * g.S
			slopes.tauTau += l.weight * l.m * l.m * g.MM
			slopes.tauRoot += l.weight * l.m * l.s * g.MS
			slopes.rootRoot += l.weight * l.s * l.s * g.SS
		}
		all[i] = slopes.byLogarithms(tau, root)
	})
	total := 0.0
	for i, d := range all {
		sum.AddScaled(s.weight(i), d)
		total += s.weight(i)
	}
	return sum.Over(total), err
}

// logSlopes are a log density and its derivatives in the factor τ of the mean and in the root r = √s of the factor
// of the covariance.
type logSlopes struct{ value, tau, root, tauTau, tauRoot, rootRoot float64 }

// byLogarithms returns minus the log density and its derivatives in log s and log τ.
func (d *logSlopes) byLogarithms(tau, root float64) ScaleSlopes {
	return ScaleSlopes{
		Value: -d.value, Scale: -root / 2 * d.root, Other: -tau * d.tau,
		ScaleScale: -root / 4 * (root*d.rootRoot + d.root),
		Both:       -tau * root / 2 * d.tauRoot,
		OtherOther: -tau * (tau*d.tauTau + d.tau),
	}
}
