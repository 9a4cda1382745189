package score

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/linearize"
)

// CalibrateOptions are options of Calibrate. Nil and zero fields have their defaults.
type CalibrateOptions struct {
	Link predictive.Link // nil means DefaultLink; ignored for a Gaussian likelihood
	// Spread is the standard deviation of two log-normal priors with median 1: one of the temperature τ, which
	// scales the mean, and one of s/τ², the scale of the covariance before τ. 0 means 2, and +Inf means no priors.
	// The priors matter where the rows tell little. Without them, few rows can choose a scale of almost zero, which
	// makes predictions sure even for inputs unlike all of these rows.
	Spread float64
	// Weights has a weight for each of the T rows; nil means 1 each. A row of weight 2 counts as two equal rows, and
	// a row of weight 0 does not count (E23).
	Weights []float64
	// KeepMean leaves the mean as it is: τ = 1, and counts are scored without RateKept and without the mixture
	// that Calibrate describes.
	KeepMean bool
	// Progress, if not nil, is called with the number of scales tried so far.
	Progress func(scales int)
}

// A Calibration has the scale of the predictive covariance, and for classes the temperature of the mean, under
// which the targets are likeliest (E18, E21). It predicts counts with the rate exp(mean) whatever the covariance is.
// It belongs to the posterior whose moments it was computed from. The zero value scales nothing.
type Calibration struct {
	Scale       float64   // s: predict with s·cov; 0 means 1
	Temperature float64   // τ ≤ 1: predict with τ·mean; 0 means 1; 1 unless the likelihood is Logistic
	Shift       []float64 // β, one number an output: predict with τ·(mean + β); nil means none; see WithShift
	NoiseScale  float64   // t: predict with t·σ²; 0 means 1; 1 unless the likelihood is Gaussian
	RateKept    bool      // for counts: predict with mean − s·v/2, v the variances, so that E exp f = exp(mean)
	NLL         float64   // mean of −log p(y|x) under the calibration, in nats
	StdErr      float64   // standard error of NLL; NaN for one row
	Unscaled    float64   // NLL at s = τ = t = 1, with the same RateKept
	Edge        bool      // a scale is at an end of its range
	Rows        int       // rows that were used
	LeftOut     int       // rows left out because their moments are NaN
	// Warnings holds the warnings worse-than-constant, scale-edge, scale-flat and rows-left-out, in this order.
	Warnings []error
}

// ZeroDensityError reports a target whose density is zero in float64 under every scale of the covariance.
type ZeroDensityError struct{ Row int }

func (e *ZeroDensityError) Error() string {
	return fmt.Sprintf("score: row %d: the density of the target is zero at every scale of the covariance; the target or the mean of f is out of range", e.Row)
}

// Calibrate returns the scale s of the covariance and the temperature τ ≤ 1 of the mean that minimize
//
//	−Σ log p(y_i | τ·mean_i, s·cov_i) + ½ (log s/τ²)²/Spread² + ½ (log τ)²/Spread²
//
// (E18, E21). mean, T×C, and cov, T·C×C, are the moments of f at rows with targets y, T×Targets(C): the moments by
// leave-one-out at training rows, or the moments at held-out rows. The rows may be a random sample of more rows;
// StdErr is then the standard error of the sample's NLL.
//
// Only a Logistic likelihood has a temperature. τ > 1, which would sharpen the prediction, is not tried: training
// rows would choose it without reason, because the features were learnt with them. A *Gaussian likelihood has two
// scales, s·cov + t·σ², and any other likelihood has s alone.
//
// A Counting likelihood predicts with RateKept. Without it, a wide covariance of the log rate would raise the mean
// e^{mean + s·v/2} far above the rate of the network. The search takes the mixture density
//
//	.95 p(y_i | mean_i − s·v_i/2, s·cov_i) + .05 q(y_i)
//
// for each row, where q is geometric with the mean of each target. A few rows whose rates are far off therefore do
// not widen the predictions of all others. NLL is computed from p alone.
//
// s/τ² and t are between 10⁻⁴ and 100, τ is between 10⁻³ and 1. The objective may have several minima. The search
// takes the best point of a grid, on at most 2,000 of the rows, and from it runs Newton's method on all rows until
// no logarithm moves by more than 10⁻¹⁰. For classes under Exact and QMC the integration points are fixed and the
// derivatives are exact. For other links and likelihoods the derivatives are differences over ±0.02 in the
// logarithms. Both ways make the result a smooth function of the moments. Rows with a NaN are left out.
//
// Where errors of integration make the unscaled moments score better than the result, all scales are 1. A warning
// says where the score is worse than the score of a constant prediction; no other scales are better then.
//
// The error is an error of the link or of Likelihood.CheckY, which name the row, a *RowsError, a *ZeroDensityError,
// or ctx.Err().
func Calibrate(ctx context.Context, lik glm.Likelihood, y, mean, cov *mat.Dense, o *CalibrateOptions) (*Calibration, error) {
	if o == nil {
		o = new(CalibrateOptions)
	}
	if o.Spread < 0 {
		panic("score: negative spread")
	}
	if cov == nil {
		panic("score: calibration needs a covariance")
	}
	rows, err := newScoredRows(lik, y, mean, cov, o.Weights)
	if err != nil {
		return nil, err
	}
	lik = rows.lik
	link := o.Link
	if _, ok := lik.(*glm.Gaussian); ok {
		link = predictive.Exact{}
	} else if link == nil {
		link = predictive.DefaultLink(lik, rows.c)
	}
	_, counts := lik.(glm.Counting)
	c := &Calibration{Scale: 1, Temperature: 1, NoiseScale: 1, RateKept: counts && !o.KeepMean, Rows: len(rows.kept), LeftOut: rows.leftOut}
	var strays strays
	if c.RateKept {
		strays = newStrays(rows)
	}
	unscaled, err := c.logDensities(ctx, link, lik, rows)
	if err != nil {
		return nil, err
	}
	s, err := newScaleSearch(ctx, link, lik, rows, strays, o)
	if err != nil {
		return nil, err
	}
	best, err := s.find(ctx)
	if errors.Is(err, errNowhereFinite) {
		for k, v := range unscaled {
			if math.IsInf(v, 0) || math.IsNaN(v) {
				return nil, &ZeroDensityError{Row: rows.kept[k]}
			}
		}
	}
	if err != nil {
		return nil, err
	}
	// exp returns the scale of the logarithm x, and exactly the end of the range where x is at the end.
	exp := func(x, lo, hi, least, most float64) float64 {
		switch {
		case x <= lo:
			return least
		case x >= hi:
			return most
		}
		return math.Exp(x)
	}
	c.Scale = exp(best.Scale, s.lo.Scale, s.hi.Scale, minScale, maxScale)
	switch {
	case s.temperature:
		c.Temperature = exp(best.Other, s.lo.Other, s.hi.Other, minTemperature, 1)
		c.Scale *= c.Temperature * c.Temperature
	case len(s.others) > 1:
		c.NoiseScale = exp(best.Other, s.lo.Other, s.hi.Other, minScale, maxScale)
	}
	logp, err := c.logDensities(ctx, link, lik, rows)
	if err != nil {
		return nil, err
	}
	if c.Unscaled = rows.nll(unscaled); strays.nll(unscaled, rows.weights, 1) < strays.nll(logp, rows.weights, 1) {
		c.Scale, c.Temperature, c.NoiseScale, logp = 1, 1, 1, unscaled
	}
	c.NLL, c.StdErr = rows.nll(logp), rows.standardError(logp)
	c.warn(constantNLL(lik, rows.y, rows.c, rows.weights), s.flat, rows.rows)
	return c, nil
}

// logDensities returns log p(y|x) of each row under the calibration, in nats.
func (c *Calibration) logDensities(ctx context.Context, link predictive.Link, lik glm.Likelihood, rows *scoredRows) ([]float64, error) {
	logp := make([]float64, len(rows.kept))
	return logp, rows.each(ctx, func(lo, hi int, y, mean, cov *mat.Dense) error {
		lik, mean, cov, err := c.Apply(lik, mean, cov)
		if err != nil {
			return err
		}
		return link.LogPredictiveTo(logp[lo:hi], lik, y, mean, cov)
	})
}

// warn sets Edge and Warnings. constant is the NLL of the best constant prediction (constantNLL). flat says that
// the targets have the same density under every scale of the covariance. rows is the number of all rows.
func (c *Calibration) warn(constant float64, flat bool, rows int) {
	if w := worseThanConstant(c.NLL, constant); w != nil {
		c.Warnings = append(c.Warnings, w)
	}
	const rounding = 1 + 1e-12
	for k, scale := range [3]float64{c.Scale / (c.Temperature * c.Temperature), c.Temperature, c.NoiseScale} {
		if scale > [3]float64{minScale, minTemperature, minScale}[k]*rounding && scale < maxScale/rounding {
			continue
		}
		c.Edge = true
		end, limit := "largest", maxScale
		means := [3]string{"The posterior is far too narrow.", "The outputs say nothing of the classes.", "Intervals may still be too narrow."}[k]
		if scale < 1 {
			end, limit = "smallest", [3]float64{minScale, minTemperature, minScale}[k]
			means = [3]string{"Where these rows lie, the network alone predicts best.", means, "Intervals may still be too wide."}[k]
		}
		c.Warnings = append(c.Warnings, linearize.NewWarning("scale-edge", scale, limit, "Choose another prior precision.",
			"The best scale of the %s is %.3g, the %s that is tried (%.4g nats a row, and %.4g unscaled). %s", [3]string{"covariance", "mean", "noise variance"}[k], scale, end, c.NLL, c.Unscaled, means))
	}
	if flat {
		c.Warnings = append(c.Warnings, linearize.NewWarning("scale-flat", c.NLL, math.NaN(), "", "Every scale of the covariance predicts as well (%.4g nats a row). It stays unscaled.", c.NLL))
	}
	c.Warnings = append(c.Warnings, leftOutWarnings(c.LeftOut, rows)...)
}

// worseThanConstant returns the warning worse-than-constant for predictions with this NLL, or nil where they are no
// worse than the best constant one.
func worseThanConstant(nll, constant float64) error {
	if !(nll > constant) {
		return nil
	}
	return linearize.NewWarning("worse-than-constant", nll, constant, "Check targets and scaling of inputs, or train the model further.",
		"Calibrated predictions are worse than a constant that knows no inputs: %.4g nats a row against %.4g. Their probabilities and intervals say little of single rows.", nll, constant)
}

// Apply returns the scaled likelihood and moments to predict with: the likelihood with scaled noise, and the mean,
// T×C, and the covariance, T·C×C, scaled and shifted in new matrices. A nil Calibration returns its arguments. mean
// and cov may be nil, but a mean with RateKept needs cov. The error is a *NoiseError where the noise variance is
// outside the range of a float64.
func (c *Calibration) Apply(lik glm.Likelihood, mean, cov *mat.Dense) (glm.Likelihood, *mat.Dense, *mat.Dense, error) {
	if c == nil {
		return lik, mean, cov, nil
	}
	if g, ok := lik.(*glm.Gaussian); ok {
		noisy, err := g.ScaleNoise(orOne(c.NoiseScale))
		if err != nil {
			return nil, nil, nil, err
		}
		lik = noisy
	}
	if c.Shift != nil && mean != nil {
		mean = mat.DenseCopyOf(mean)
		for i := range mean.RawMatrix().Rows {
			floats.Add(mean.RawRowView(i), c.Shift)
		}
	}
	if c.Temperature != 0 && c.Temperature != 1 {
		mean = scaledMatrix(mean, c.Temperature)
	}
	cov = scaledMatrix(cov, orOne(c.Scale))
	if c.RateKept && mean != nil {
		if cov == nil {
			panic("score: a mean whose rate is kept needs a covariance")
		}
		mean = mat.DenseCopyOf(mean)
		n, outputs := mean.Dims()
		for i := range n {
			for j := range outputs {
				// E exp f = exp(mean) for f ~ N(mean − v/2, v)
				mean.Set(i, j, mean.At(i, j)-cov.At(i*outputs+j, j)/2)
			}
		}
	}
	return lik, mean, cov, nil
}

// orOne returns s, or 1 where s is 0.
func orOne(s float64) float64 {
	if s == 0 {
		return 1
	}
	return s
}

// scaledMatrix returns s·m in a new matrix, or nil if m is nil.
func scaledMatrix(m *mat.Dense, s float64) *mat.Dense {
	if m == nil {
		return nil
	}
	to := mat.DenseCopyOf(m)
	for i := range to.RawMatrix().Rows {
		floats.Scale(s, to.RawRowView(i))
	}
	return to
}
