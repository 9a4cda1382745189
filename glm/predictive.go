package glm

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Distribution likelihood has the predictive distribution of each output of y
// for f ~ N(m, v), v ≥ 0. *Gaussian and Poisson have one.
type Distribution interface {
	// PredictiveCDF returns P(y ≤ at).
	PredictiveCDF(output int, at, m, v float64) float64
	// PredictiveQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	PredictiveQuantile(output int, p, m, v float64) float64
}

var (
	_ Distribution = (*Gaussian)(nil)
	_ Distribution = Poisson{}
)

// CoupledQuantities are what a Distribution has for a Coupled likelihood, by target and
// for f ~ N(f, cov), cov C·C row-major. Heteroscedastic has them.
type CoupledQuantities interface {
	// CoupledCDF returns P(y ≤ at).
	CoupledCDF(target int, at float64, f, cov []float64) float64
	// CoupledQuantile returns the smallest y with P(y' ≤ y) ≥ p, 0 < p < 1.
	CoupledQuantile(target int, p float64, f, cov []float64) float64
}

// ofOutputs are the quantities of a Distribution, whose targets are its outputs.
type ofOutputs struct{ Distribution }

// CoupledCDF implements CoupledQuantities.
func (d ofOutputs) CoupledCDF(target int, at float64, f, cov []float64) float64 {
	return d.PredictiveCDF(target, at, f[target], cov[target*len(f)+target])
}

// CoupledQuantile implements CoupledQuantities.
func (d ofOutputs) CoupledQuantile(target int, p float64, f, cov []float64) float64 {
	return d.PredictiveQuantile(target, p, f[target], cov[target*len(f)+target])
}

// DistributionOf returns the predictive distribution of the targets of a likelihood that
// is a Distribution or has CoupledQuantities; ok is false for others.
func DistributionOf(lik Likelihood) (d CoupledQuantities, ok bool) {
	switch l := lik.(type) {
	case CoupledQuantities:
		return l, true
	case Distribution:
		return ofOutputs{l}, true
	}
	return nil, false
}

// IntervalTo writes equal-tailed predictive intervals, lo ≤ y ≤ hi, of each target,
// both T×Targets(C): each tail has at most the probability (1 − coverage)/2,
// 0 < coverage < 1. The error is an *UnsupportedError where DistributionOf has nothing
// for the likelihood, or one of a Link. Workers 0 means GOMAXPROCS.
func IntervalTo(ctx context.Context, lo, hi *mat.Dense, coverage float64, lik Likelihood, f, cov *mat.Dense, workers int) error {
	if !(coverage > 0 && coverage < 1) {
		panic("glm: coverage is not between 0 and 1")
	}
	d, ok := DistributionOf(lik)
	if !ok {
		return &UnsupportedError{Link: "exact", Likelihood: lik.Name(), What: "interval"}
	}
	t, c := f.Dims()
	targets := lik.Targets(c)
	dense.SizeTo(lo, t, targets)
	dense.SizeTo(hi, t, targets)
	tail := (1 - coverage) / 2
	return eachRow(ctx, workers, f, cov, func(t int, f, cov []float64) error {
		for j := range targets {
			dense.SetAt(lo, t, j, d.CoupledQuantile(j, tail, f, cov))
			dense.SetAt(hi, t, j, d.CoupledQuantile(j, 1-tail, f, cov))
		}
		return nil
	})
}

// PredictiveCDF returns Φ((at − m)/√(v + σ²)).
func (g *Gaussian) PredictiveCDF(output int, at, m, v float64) float64 {
	return 0.5 * math.Erfc((m-at)/math.Sqrt(2*(v+g.variance(output))))
}

// PredictiveQuantile returns m + √(v + σ²) Φ⁻¹(p).
func (g *Gaussian) PredictiveQuantile(output int, p, m, v float64) float64 {
	return m + math.Sqrt(v+g.variance(output))*mathext.NormalQuantile(p)
}

// PredictiveCDF returns E Q(⌊at⌋+1, eᶠ), where Q is the regularized upper incomplete
// gamma function, to about 1e-10.
func (Poisson) PredictiveCDF(_ int, at, m, v float64) float64 {
	if at < 0 {
		return 0
	}
	k := math.Floor(at) + 1
	p := Expectation(func(f float64) float64 {
		rate := math.Exp(f)
		switch {
		case rate == 0:
			return 1
		case math.IsInf(rate, 1):
			return 0
		}
		return mathext.GammaIncRegComp(k, rate)
	}, m, v)
	return min(max(p, 0), 1)
}

// PredictiveQuantile returns a count, +Inf where it is beyond the range of a float64.
// Above 2⁵³ it is right to a few units in the last place.
func (l Poisson) PredictiveQuantile(output int, p, m, v float64) float64 {
	reaches := func(k float64) bool { return l.PredictiveCDF(output, k, m, v) >= p }
	// The quantile of the rate, and twelve standard deviations of a count beside it.
	rate := math.Exp(m + math.Sqrt(v)*mathext.NormalQuantile(p))
	if math.IsInf(rate, 1) {
		return rate
	}
	width := 1 + math.Sqrt(rate)
	lo, hi := math.Floor(max(rate-width, 0)), math.Ceil(rate+width)
	for ; lo > 0 && reaches(lo-1); width *= 2 {
		hi, lo = lo-1, math.Floor(max(lo-width, 0))
	}
	for ; !reaches(hi); width *= 2 {
		lo, hi = hi+1, math.Ceil(hi+width)
	}
	for lo < hi { // P(y ≤ lo − 1) < p ≤ P(y ≤ hi)
		mid := lo + math.Floor((hi-lo)/2)
		if mid >= hi {
			break
		}
		if reaches(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return hi
}
