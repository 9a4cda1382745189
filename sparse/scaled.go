package sparse

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A scaled kernel is the prior with all variances times a factor.
type scaled struct {
	ntk.Kernel
	factor float64
}

// scale returns k with its variances times factor.
func scale(k ntk.Kernel, factor float64) ntk.Kernel {
	switch s := k.(type) {
	case scaled:
		k, factor = s.Kernel, s.factor*factor
	case scaledMul:
		k, factor = s.Kernel, s.factor*factor
	}
	if m, ok := k.(ntk.MulToer); ok {
		return scaledMul{scaled{k, factor}, m}
	}
	return scaled{k, factor}
}

func (s scaled) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	s.Kernel.BlockTo(dst, a, b)
	s.times(dst)
}

func (s scaled) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	s.Kernel.DiagTo(dst, b)
	s.times(dst)
}

func (s scaled) times(m *mat.Dense) {
	rows, _ := m.Dims()
	for i := range rows {
		floats.Scale(s.factor, m.RawRowView(i))
	}
}

// scaledMul is a scaled kernel that multiplies without being formed.
type scaledMul struct {
	scaled
	m ntk.MulToer
}

func (s scaledMul) MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense) {
	s.m.MulTo(dst, a, b, v)
	s.times(dst)
}
