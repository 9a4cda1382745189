package glm

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/minimize"
)

// CalibrateOptions are options of Calibrate. Nil and zero mean the defaults.
type CalibrateOptions struct {
	Link      Link    // nil means DefaultLink; a Gaussian likelihood needs none
	Workers   int     // 0 means GOMAXPROCS; the result does not depend on it
	Tolerance float64 // of the logarithm of a scale; 0 means 0.002
	// Spread is the standard deviation of a log-normal prior of the scale of the
	// covariance, with median 1; 0 means 2, and +Inf no prior. It decides where the
	// rows say little: without it, few rows can choose a scale of almost zero, which
	// takes the uncertainty away from inputs that are unlike all of them.
	Spread float64
	// Progress is called after each scale, with the number of scales so far.
	Progress func(scales int)
}

// The scales that Calibrate admits, and the points of its grid.
const (
	minScale   = 1e-4
	maxScale   = 1e2
	scaleSteps = 12 // in the logarithm, two a decade
	// A scale closer to the smallest or the largest one is at the edge.
	edgeRatio = 1.01
)

// A Calibration is the scale of the predictive covariance under which targets are
// likeliest (E18). It belongs to the posterior whose moments it was found with. It
// scales no mean.
type Calibration struct {
	Scale      float64 // s: predict with s·cov
	NoiseScale float64 // t: predict with t·σ²; 1 but for a Gaussian likelihood
	NLL        float64 // mean of −log p(y|x) at these scales
	StdErr     float64 // standard error of NLL; NaN for one row
	Unscaled   float64 // NLL at s = t = 1
	Edge       bool    // a scale is the smallest or the largest one admitted
	Rows       int     // rows that count
	LeftOut    int     // rows whose moments are NaN
	Trials     []ScaleTrial
	// Warnings holds *ScaleEdgeWarning, *ScaleFlatWarning and *RowsWarning.
	Warnings []error
}

// A ScaleTrial is one pair of scales that was tried, with its NLL to the accuracy of
// ScaleLink.
type ScaleTrial struct{ Scale, NoiseScale, NLL float64 }

// ScaleEdgeWarning reports that the best scale is the smallest or the largest one
// that Calibrate admits.
type ScaleEdgeWarning struct {
	What          string // "covariance" or "noise variance"
	Scale         float64
	NLL, Unscaled float64
}

func (e *ScaleEdgeWarning) Error() string {
	text := fmt.Sprintf("glm: the best scale of the %s is %.3g, the %s that is tried (NLL %.4g; unscaled %.4g)",
		e.What, e.Scale, map[bool]string{true: "smallest", false: "largest"}[e.Scale < 1], e.NLL, e.Unscaled)
	switch {
	case e.What == "covariance" && e.Scale < 1:
		text += "; where these rows lie, the network alone predicts best"
	case e.What == "covariance":
		text += "; the posterior is far too narrow, and a smaller prior precision may predict better"
	}
	return text
}

// ScaleFlatWarning reports that the density of the targets is the same at every
// scale, as where the covariance is zero or the link does not use it. The scale
// stays 1.
type ScaleFlatWarning struct{ NLL float64 }

func (e *ScaleFlatWarning) Error() string {
	return fmt.Sprintf("glm: every scale of the covariance predicts as well (NLL %.4g); it stays unscaled", e.NLL)
}

// ZeroDensityError reports a target whose density is zero in float64 at every scale of
// the covariance.
type ZeroDensityError struct{ Row int }

func (e *ZeroDensityError) Error() string {
	return fmt.Sprintf("glm: row %d: the density of the target is zero at every scale of the covariance; the target or the mean of f is out of range", e.Row)
}

// Calibrate returns the scale s of the covariance that minimizes
// −Σ log p(y_i | mean_i, s·cov_i) + ½ (log s)²/Spread² (E18). mean, T×C, and cov,
// T·C×C, are the moments of f by leave-one-out at training rows, or at held-out
// rows; y is T×Targets(C).
// They may also be those of a random sample of rows; StdErr is then the error of
// estimating the expected NLL by the sample. A *Gaussian likelihood gets two
// scales, s·cov + t·σ².
//
// Scales lie between 10⁻⁴ and 100. The objective may have several minima: a grid of
// two scales a decade is tried, and Brent's method refines around the best. Rows
// with a NaN are left out.
//
// The errors are those of the link and of Likelihood.CheckY, which name the row,
// *RowsError, *ZeroDensityError, and ctx.Err().
func Calibrate(ctx context.Context, lik Likelihood, y, mean, cov *mat.Dense, o *CalibrateOptions) (*Calibration, error) {
	if o == nil {
		o = new(CalibrateOptions)
	}
	if o.Tolerance < 0 || o.Spread < 0 {
		panic("glm: negative tolerance or spread")
	}
	if cov == nil {
		panic("glm: calibration needs a covariance")
	}
	rows, err := newScoredRows(lik, y, mean, cov)
	if err != nil {
		return nil, err
	}
	s := &scaleSearch{o: o, lik: lik, rows: rows, tol: o.Tolerance, spread: o.Spread}
	if s.tol == 0 {
		s.tol = 0.002
	}
	if s.spread == 0 {
		s.spread = 2
	}
	c := &Calibration{Rows: len(rows.kept), LeftOut: rows.rows - len(rows.kept)}
	if g, ok := lik.(*Gaussian); ok {
		err = s.gaussian(ctx, g, c)
	} else {
		err = s.covariance(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	c.warn(rows.rows)
	return c, nil
}

// warn sets Edge and adds the warnings about rows and edges.
func (c *Calibration) warn(rows int) {
	if c.LeftOut > 0 {
		c.Warnings = append(c.Warnings, &RowsWarning{LeftOut: c.LeftOut, Rows: rows})
	}
	for what, scale := range [2]float64{c.Scale, c.NoiseScale} {
		if scale > minScale*edgeRatio && scale < maxScale/edgeRatio {
			continue
		}
		c.Edge = true
		c.Warnings = append(c.Warnings, &ScaleEdgeWarning{
			What: [2]string{"covariance", "noise variance"}[what], Scale: scale, NLL: c.NLL, Unscaled: c.Unscaled,
		})
	}
}

// Apply returns the likelihood with its noise scaled, and the covariance of some
// predictions, T·C×C, scaled in a new matrix. A nil Calibration returns what it is
// given. The error is a *NoiseError, where the noise leaves the range of a float64.
func (c *Calibration) Apply(lik Likelihood, cov *mat.Dense) (Likelihood, *mat.Dense, error) {
	if c == nil {
		return lik, cov, nil
	}
	if g, ok := lik.(*Gaussian); ok {
		scaled, err := g.ScaleNoise(c.NoiseScale)
		if err != nil {
			return nil, nil, err
		}
		lik = scaled
	}
	return lik, scaledCovariance(cov, c.Scale), nil
}

// scaledCovariance returns s·cov in a new matrix; nil stays nil.
func scaledCovariance(cov *mat.Dense, s float64) *mat.Dense {
	if cov == nil {
		return nil
	}
	to := mat.DenseCopyOf(cov)
	for i := range to.RawMatrix().Rows {
		floats.Scale(s, to.RawRowView(i))
	}
	return to
}

// A scaleSearch is what the search for one or two scales needs.
type scaleSearch struct {
	o    *CalibrateOptions
	lik  Likelihood
	rows *scoredRows
	tol  float64
	done int

	spread float64
}

// penalty returns ½ (log s)²/spread², divided by the number of rows as the NLL is.
func (s *scaleSearch) penalty(logScale float64) float64 {
	return logScale * logScale / (2 * s.spread * s.spread * float64(len(s.rows.kept)))
}

// progress reports that n more scales are done.
func (s *scaleSearch) progress(n int) {
	s.done += n
	if s.o.Progress != nil {
		s.o.Progress(s.done)
	}
}

// covariance finds the scale of the covariance for any likelihood.
func (s *scaleSearch) covariance(ctx context.Context, c *Calibration) error {
	link := s.o.Link
	if link == nil {
		link = DefaultLink(s.lik, s.rows.c)
	}
	var atOne []float64 // log densities of the rows at s = 1, a point of the grid
	found, err := minimize.Search(ctx, scaleGrid(), s.tol, func(ctx context.Context, logs []float64) ([]float64, error) {
		scales, nll := make([]float64, len(logs)), make([]float64, len(logs))
		for k, v := range logs {
			scales[k] = scaleOf(v)
		}
		logp, err := s.logDensities(ctx, link, scales)
		if err != nil {
			return nil, err
		}
		for k, v := range logs {
			nll[k] = NLL(logp[k])
			c.Trials = append(c.Trials, ScaleTrial{scales[k], 1, nll[k]})
			if nll[k] += s.penalty(v); v == 0 {
				atOne = logp[k]
			}
		}
		return nll, nil
	})
	if err != nil {
		return s.zeroDensity(err, atOne)
	}
	c.Scale, c.NoiseScale = scaleOf(found.X), 1
	// The search may have used fewer points than the link does.
	logp, err := s.logDensitiesAt(ctx, link, c.Scale)
	if err != nil {
		return err
	}
	unscaled, err := s.logDensitiesAt(ctx, link, 1)
	if err != nil {
		return err
	}
	c.NLL, c.StdErr, c.Unscaled = NLL(logp), standardError(logp), NLL(unscaled)
	if c.flat() {
		c.Warnings = append(c.Warnings, &ScaleFlatWarning{NLL: c.NLL})
	}
	return nil
}

// flat tells whether the NLL is the same at every scale that was tried, up to rounding.
func (c *Calibration) flat() bool {
	for _, t := range c.Trials {
		if math.Abs(t.NLL-c.NLL) > 1e-12*math.Abs(c.NLL) {
			return false
		}
	}
	return true
}

// zeroDensity turns the error that no scale has a finite NLL into one that names the
// first row at fault.
func (s *scaleSearch) zeroDensity(err error, logp []float64) error {
	var none *minimize.NoMinimumError
	if !errors.As(err, &none) {
		return err
	}
	for k, v := range logp {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return &ZeroDensityError{Row: s.rows.kept[k]}
		}
	}
	return err
}

// scaleGrid returns the logarithms of the scales of the grid, one of which is 0.
func scaleGrid() []float64 {
	grid := minimize.Grid(math.Log(minScale), math.Log(maxScale), scaleSteps+1)
	grid[scaleSteps*2/3] = 0
	return grid
}

// scaleOf returns eˣ, at the ends of the grid without rounding.
func scaleOf(x float64) float64 {
	switch {
	case x <= math.Log(minScale):
		return minScale
	case x >= math.Log(maxScale):
		return maxScale
	}
	return math.Exp(x)
}

// logDensities returns the log densities of the rows at each scale.
func (s *scaleSearch) logDensities(ctx context.Context, link Link, scales []float64) ([][]float64, error) {
	n := len(s.rows.kept)
	logp := make([][]float64, len(scales))
	if l, ok := link.(ScaleLink); ok {
		all := mat.NewDense(n, len(scales), nil)
		if err := l.LogPredictiveScalesTo(ctx, all, scales, s.lik, s.rows.y, s.rows.mean, s.rows.cov, s.o.Workers); err != nil {
			return nil, s.rows.locate(err, 0)
		}
		for k := range logp {
			logp[k] = mat.Col(nil, k, all)
		}
		s.progress(len(scales))
		return logp, nil
	}
	for k, scale := range scales {
		var err error
		if logp[k], err = s.logDensitiesAt(ctx, link, scale); err != nil {
			return nil, err
		}
		s.progress(1)
	}
	return logp, nil
}

// logDensitiesAt returns the log densities of the rows at one scale, to the full
// accuracy of the link.
func (s *scaleSearch) logDensitiesAt(ctx context.Context, link Link, scale float64) ([]float64, error) {
	logp := make([]float64, len(s.rows.kept))
	return logp, s.rows.each(ctx, s.o.Workers, func(lo, hi int, y, mean, cov *mat.Dense) error {
		return link.LogPredictiveTo(logp[lo:hi], s.lik, y, mean, scaledCovariance(cov, scale))
	})
}

// gaussian finds the scales of the covariance and of the noise. With ρ = s/t the
// variance is t(ρ·cov + σ²), and for each ρ the objective has one minimum in t. It
// searches ρ alone, and no other pair of scales is better.
func (s *scaleSearch) gaussian(ctx context.Context, g *Gaussian, c *Calibration) error {
	w, err := whiten(ctx, g, s.rows, s.o.Workers)
	if err != nil {
		return err
	}
	limit := math.Log(maxScale / minScale)
	grid := minimize.Grid(-limit, limit, 8*scaleSteps+1)
	found, err := minimize.Search(ctx, grid, s.tol, func(_ context.Context, logs []float64) ([]float64, error) {
		nll := make([]float64, len(logs))
		for k, v := range logs {
			t := w.trial(math.Exp(v), s.spread)
			c.Trials, nll[k] = append(c.Trials, t), t.NLL+s.penalty(math.Log(t.Scale))
		}
		s.progress(len(logs))
		return nll, nil
	})
	logp := make([]float64, w.n)
	w.logDensityTo(logp, 1, 1)
	if err != nil {
		return s.zeroDensity(err, logp)
	}
	c.Unscaled = NLL(logp)
	best := w.trial(math.Exp(found.X), s.spread)
	c.Scale, c.NoiseScale, c.NLL = best.Scale, best.NoiseScale, best.NLL
	if floats.Max(w.v) == 0 {
		best = w.trial(1, math.Inf(1))
		c.Scale, c.NoiseScale, c.NLL = 1, best.NoiseScale, best.NLL
		c.Warnings = append(c.Warnings, &ScaleFlatWarning{NLL: c.NLL})
	}
	w.logDensityTo(logp, c.Scale, c.NoiseScale)
	c.StdErr = standardError(logp)
	return nil
}

// whitened are the rows in coordinates in which noise and covariance are diagonal.
// With the noise precision R Rᵀ, Rᵀcov R = U diag(v) Uᵀ and u = UᵀRᵀ(y − mean).
type whitened struct {
	n, c    int
	v, u    []float64 // n·c
	logNorm float64   // ½ log det 2π noise
}

func whiten(ctx context.Context, g *Gaussian, rows *scoredRows, workers int) (*whitened, error) {
	n, c := len(rows.kept), rows.c
	w := &whitened{n: n, c: c, v: make([]float64, n*c), u: make([]float64, n*c), logNorm: g.logNorm}
	if g.c == 0 {
		w.logNorm *= float64(c)
	}
	root := mat.NewDense(c, c, nil)
	g.fill(root.RawMatrix().Data, g.root, c)
	return w, rows.each(ctx, workers, func(lo, _ int, y, mean, cov *mat.Dense) error {
		return newPosterior(mean, cov).each(func(t int, f, block []float64) error {
			at := (lo + t) * c
			return whitenRow(w.v[at:at+c], w.u[at:at+c], root, dense.View(dense.Of(block, c, c)), y.RawRowView(t), f, t)
		})
	})
}

// whitenRow writes the eigenvalues v and the coordinates u of row t.
func whitenRow(v, u []float64, root, cov *mat.Dense, y, f []float64, t int) error {
	c := len(f)
	d := make([]float64, c)
	floats.SubTo(d, y, f)
	if c == 1 {
		r := root.At(0, 0)
		v[0], u[0] = r*cov.At(0, 0)*r, r*d[0]
		return nil
	}
	var half, full mat.Dense
	half.Mul(root.T(), cov)
	full.Mul(&half, root)
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(c, full.RawMatrix().Data), true) {
		return &NotPDError{N: c, Row: t}
	}
	eig.Values(v)
	if v[0] < -psdTol*(1+v[c-1]) {
		return &NotPDError{N: c, Row: t}
	}
	for j := range v {
		v[j] = max(v[j], 0)
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	var white mat.VecDense
	white.MulVec(root.T(), mat.NewVecDense(c, d))
	mat.NewVecDense(c, u).MulVec(vectors.T(), &white)
	return nil
}

// trial returns the best scales with s = ρt under the prior of log s, and their NLL.
func (w *whitened) trial(rho, spread float64) ScaleTrial {
	// NLL = log norm + mean of ½ Σ_j log(1+ρv_j) + ½ c log t + ½ q/t, q = mean of Σ_j u_j²/(1+ρv_j)
	logDet, q := 0.0, 0.0
	for k, v := range w.v {
		logDet += math.Log1p(rho * v)
		q += w.u[k] * w.u[k] / (1 + rho*v)
	}
	n, c := float64(w.n), float64(w.c)
	logDet, q = logDet/n, q/n
	lo, hi := max(minScale, minScale/rho), min(maxScale, maxScale/rho)
	t := min(max(bestNoise(rho, q, c, 1/(n*spread*spread)), lo), hi)
	s := min(max(rho*t, minScale), maxScale)
	return ScaleTrial{s, t, w.logNorm + logDet/2 + c/2*math.Log(t) + q/t/2}
}

// bestNoise returns the t that minimizes ½ c log t + ½ q/t + ½ b (log ρt)². The
// objective is convex in log t, so that the best t in an interval is the nearest.
func bestNoise(rho, q, c, b float64) float64 {
	if b == 0 {
		return q / c
	}
	// Its derivative in x = log t, c/2 − q/2 e^{−x} + b(log ρ + x), is concave and
	// rises: from a point where it is negative Newton's steps go up to its zero.
	shift := math.Log(rho)
	x := -shift - c/(2*b) // the zero for q = 0, where t has no effect on the fit
	if q > 0 {
		x = max(x, min(math.Log(q/c), -shift))
	}
	for range 100 {
		e := q / 2 * math.Exp(-x)
		step := -(c/2 - e + b*(shift+x)) / (e + b)
		if x += step; math.Abs(step) <= 1e-14*(1+math.Abs(x)) {
			break
		}
	}
	return math.Exp(x)
}

// logDensityTo writes log N(y; mean, s·cov + t·noise) of each row.
func (w *whitened) logDensityTo(logp []float64, s, t float64) {
	for i := range logp {
		logp[i] = -w.logNorm
		for k := i * w.c; k < (i+1)*w.c; k++ {
			total := t + s*w.v[k]
			logp[i] -= (math.Log(total) + w.u[k]*w.u[k]/total) / 2
		}
	}
}
