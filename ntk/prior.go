package ntk

import (
	"fmt"
	"math"
	"slices"
)

// Isotropic is the prior N(μ₀, I/δ).
type Isotropic struct {
	precision float64
	mean      priorMean
}

var _ Prior = (*Isotropic)(nil)

// NewIsotropic returns the prior of precision δ for every parameter. mean is
// nil for zero, one number for all parameters, or one per parameter; it is
// copied. A precision that is not positive and finite, or so small that its
// inverse is not finite, is an error, and so is a mean that is not finite.
func NewIsotropic(precision float64, mean []float64) (*Isotropic, error) {
	if err := checkPrecision(precision); err != nil {
		return nil, fmt.Errorf("ntk: isotropic prior: %w", err)
	}
	m, err := newMean(mean)
	if err != nil {
		return nil, fmt.Errorf("ntk: isotropic prior: %w", err)
	}
	return &Isotropic{precision: precision, mean: m}, nil
}

// Precision returns δ.
func (p *Isotropic) Precision() float64 { return p.precision }

// MeanTo implements Prior. dst may have any length unless the mean has one number
// per parameter.
func (p *Isotropic) MeanTo(dst []float64) { p.mean.to(dst) }

// VarianceTo implements Prior for any length.
func (p *Isotropic) VarianceTo(dst []float64) {
	for i := range dst {
		dst[i] = 1 / p.precision
	}
}

// Diagonal is the prior N(μ₀, Σ₀) with one variance per parameter.
type Diagonal struct {
	variance []float64
	mean     priorMean
}

var _ Prior = (*Diagonal)(nil)

// NewDiagonal returns the prior with these variances, one per parameter in θ
// order. mean is as in NewIsotropic. Both are copied. A variance that is not
// positive and finite is an error that names the parameter.
func NewDiagonal(variance, mean []float64) (*Diagonal, error) {
	for i, v := range variance {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("ntk: diagonal prior: the variance of parameter %d is %v; it must be positive and finite", i, v)
		}
	}
	m, err := newMean(mean)
	if err != nil {
		return nil, fmt.Errorf("ntk: diagonal prior: %w", err)
	}
	if len(m) > 1 && len(m) != len(variance) {
		return nil, fmt.Errorf("ntk: diagonal prior: %d means for %d variances", len(m), len(variance))
	}
	return &Diagonal{variance: slices.Clone(variance), mean: m}, nil
}

// MeanTo implements Prior.
func (p *Diagonal) MeanTo(dst []float64) {
	checkPriorLen(len(dst), len(p.variance))
	p.mean.to(dst)
}

// VarianceTo implements Prior.
func (p *Diagonal) VarianceTo(dst []float64) {
	checkPriorLen(len(dst), len(p.variance))
	copy(dst, p.variance)
}

// priorMean is μ₀: empty for zero, one number for all, or one per parameter.
type priorMean []float64

func newMean(mean []float64) (priorMean, error) {
	for i, v := range mean {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("mean %d is %v; it must be finite", i, v)
		}
	}
	return slices.Clone(mean), nil
}

func (m priorMean) to(dst []float64) {
	switch len(m) {
	case 0:
		clear(dst)
	case 1:
		for i := range dst {
			dst[i] = m[0]
		}
	default:
		checkPriorLen(len(dst), len(m))
		copy(dst, m)
	}
}

func checkPriorLen(got, want int) {
	if got != want {
		panic("ntk: prior is for another number of parameters")
	}
}

// checkPrecision returns an error unless v is positive and finite and has a finite
// inverse.
func checkPrecision(v float64) error {
	if !(v > 0) || math.IsInf(v, 1) || math.IsInf(1/v, 1) {
		return fmt.Errorf("the precision is %v; it must be positive and finite", v)
	}
	return nil
}
