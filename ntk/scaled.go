package ntk

import (
	"fmt"
	"math"
	"slices"
)

// Scaled is another prior with the variances of each group of parameters multiplied
// by a factor. A factor of 0 holds the group at its prior mean.
type Scaled struct {
	mean, variance []float64 // variance before the factors
	groups         []Group
	factor         []float64
}

var _ Grouped = (*Scaled)(nil)

// NewScaled returns the prior over p parameters with one factor for each group. The
// groups must partition θ, as for NewLayerwise, and their precisions are ignored. A
// factor that is negative or not finite is an error that names its group, and so is a
// factor that makes a variance overflow.
func NewScaled(prior Prior, p int, groups []Group, factor []float64) (*Scaled, error) {
	if len(groups) != len(factor) {
		panic("ntk: groups and factors differ in number")
	}
	if err := checkPartition(p, groups); err != nil {
		return nil, fmt.Errorf("ntk: scaled prior: %w", err)
	}
	s := &Scaled{mean: make([]float64, p), variance: make([]float64, p), groups: cloneGroups(groups)}
	prior.MeanTo(s.mean)
	prior.VarianceTo(s.variance)
	return s.With(factor)
}

// With returns the prior with other factors. The errors are those of NewScaled.
func (s *Scaled) With(factor []float64) (*Scaled, error) {
	if len(s.groups) != len(factor) {
		panic("ntk: groups and factors differ in number")
	}
	to := &Scaled{mean: s.mean, variance: s.variance, groups: s.groups, factor: slices.Clone(factor)}
	for g, f := range factor {
		if !(f >= 0) || math.IsInf(f, 1) {
			return nil, fmt.Errorf("ntk: scaled prior: the factor of group %q is %v; it must be finite and not negative", s.groups[g].Name, f)
		}
		if _, largest := s.extremes(g); math.IsInf(f*largest, 1) {
			return nil, fmt.Errorf("ntk: scaled prior: the factor of group %q, %v, makes a variance of %v overflow", s.groups[g].Name, f, largest)
		}
	}
	return to, nil
}

// Factors returns a copy of the factors, one for each group.
func (s *Scaled) Factors() []float64 { return slices.Clone(s.factor) }

// Groups implements Grouped. The precision of a group whose parameters have different
// variances is NaN, and that of a group held at its prior mean is +Inf.
func (s *Scaled) Groups() []Group {
	groups := cloneGroups(s.groups)
	for g := range groups {
		least, largest := s.extremes(g)
		groups[g].Precision = 1 / (s.factor[g] * largest)
		if least != largest {
			groups[g].Precision = math.NaN()
		}
	}
	return groups
}

// extremes returns the least and the largest variance of a group before its factor, 0
// for an empty group.
func (s *Scaled) extremes(g int) (least, largest float64) {
	least = math.Inf(1)
	for _, span := range s.groups[g].Spans {
		for _, v := range s.variance[span.Offset : span.Offset+span.Len()] {
			least, largest = min(least, v), max(largest, v)
		}
	}
	return min(least, largest), largest
}

// MeanTo implements Prior.
func (s *Scaled) MeanTo(dst []float64) {
	checkPriorLen(len(dst), len(s.mean))
	copy(dst, s.mean)
}

// VarianceTo implements Prior.
func (s *Scaled) VarianceTo(dst []float64) {
	checkPriorLen(len(dst), len(s.variance))
	for g, group := range s.groups {
		for _, span := range group.Spans {
			for i := span.Offset; i < span.Offset+span.Len(); i++ {
				dst[i] = s.factor[g] * s.variance[i]
			}
		}
	}
}
