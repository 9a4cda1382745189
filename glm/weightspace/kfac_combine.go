package weightspace

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
)

// A combination combines Factors with a prior, layer by layer, into a Kronecker.
type combination struct {
	*Factors
	*Kronecker // the posterior that is built
}

// checkMemory returns a *gp.MemoryError where the dense sums of layers need more memory than the budget.
func (c *combination) checkMemory() error {
	dense, largest, name := int64(0), 0, ""
	for _, s := range c.Factors.layers {
		if _, _, ok := rankOne(c.variances(s.matrixLayer), s.out, s.cols()); ok || c.structure != KFAC {
			continue
		}
		n := s.size()
		dense = memory.Add(dense, memory.Mul(8, memory.Mul(int64(n), int64(n))))
		if n > largest {
			largest, name = n, s.name
		}
	}
	if dense == 0 {
		return nil
	}
	op := fmt.Sprintf("the dense sum of factors and prior of layer %s, whose prior variances are not a product of one for each row and one for each column,", name)
	return gp.CheckMemory(op, gp.Parameters, largest, c.Kronecker.o.Memory, func(n int) int64 {
		rest := memory.Mul(8, memory.Mul(int64(largest), int64(largest)))
		return memory.Add(dense-rest, memory.Mul(8, memory.Mul(int64(n), int64(n))))
	})
}

// variances returns the prior variances of a layer's matrix, out×cols.
func (w *structured) variances(l *matrixLayer) []float64 {
	v := make([]float64, l.size())
	l.gather(v, w.white.Root)
	for i, r := range v {
		v[i] = r * r
	}
	return v
}

// layer combines one layer with its prior, for a structure other than Chain.
func (c *combination) layer(ctx context.Context, s *factorSum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	variance := c.variances(s.matrixLayer)
	if c.structure != KFAC {
		// Damp each factor by itself, with A times ratio and G divided by ratio.
		v, err := s.oneVariance(variance)
		if err != nil {
			return err
		}
		ratio := 1.0
		if c.structure == KFACDamped {
			ratio = math.Sqrt(float64(c.Factors.n))
		}
		l, la, lg, err := s.eigen(filled(s.out, math.Sqrt(v)), filled(s.cols(), math.Sqrt(v)))
		if err != nil {
			return err
		}
		for i, g := range lg {
			for j, a := range la {
				// (1 + λ_i/ratio)(1 + ratio·μ_j)
				dense.Row(l.d, i)[j] = 1 / ((1 + g/ratio) * (1 + a*ratio))
			}
			c.logDet += float64(s.cols()) * math.Log1p(g/ratio)
		}
		for _, a := range la {
			c.logDet += float64(s.out) * math.Log1p(a*ratio)
		}
		c.Kronecker.layers = append(c.Kronecker.layers, l)
		return nil
	}
	row, col, ok := rankOne(variance, s.out, s.cols())
	if !ok {
		// I + Σ₀^½ (G ⊗ A) Σ₀^½
		w := s.cols()
		return c.exactly(ctx, s.index(), func(i, j int) float64 { return upper(s.g, i/w, j/w) * upper(s.a, i%w, j%w) })
	}
	l, la, lg, err := s.eigen(row, col)
	if err != nil {
		return err
	}
	for i, g := range lg {
		for j, a := range la {
			// log det(I + G̃ ⊗ Ã) = Σ log(1 + λ_i μ_j)
			dense.Row(l.d, i)[j] = 1 / (1 + g*a)
			c.logDet += math.Log1p(g * a)
		}
	}
	c.Kronecker.layers = append(c.Kronecker.layers, l)
	return nil
}

// oneVariance returns the prior variance that all parameters of the layer share, or a *NoFactorsError.
func (s *factorSum) oneVariance(variance []float64) (float64, error) {
	for _, v := range variance {
		if v != variance[0] {
			return 0, &NoFactorsError{Layer: s.name, Reason: "damping needs one prior variance for all parameters of a layer",
				Remedy: "use the structure kfac, or a prior with one precision for each layer"}
		}
	}
	return variance[0], nil
}

// filled returns n numbers equal to v.
func filled(n int, v float64) []float64 {
	c := make([]float64, n)
	for i := range c {
		c[i] = v
	}
	return c
}

// rankOne returns row and col with v_ij = row_i·col_j up to rounding, for the rows×cols matrix v. ok is false where
// there are none.
func rankOne(v []float64, rows, cols int) (row, col []float64, ok bool) {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	row, col = make([]float64, rows), slices.Clone(v[best/cols*cols:][:cols])
	if v[best] == 0 {
		return row, col, true
	}
	for i := range rows {
		row[i] = v[i*cols+best%cols] / v[best]
		for j, x := range v[i*cols : (i+1)*cols] {
			if math.Abs(x-row[i]*col[j]) > 1e-15*4*x {
				return nil, nil, false
			}
		}
	}
	return row, col, true
}

// upper returns entry (i, j) of a symmetric matrix.
func upper(s blas64.Symmetric, i, j int) float64 {
	if i > j {
		i, j = j, i
	}
	return s.Data[i*s.Stride+j]
}

// A spectrum has the eigenvectors of a symmetric matrix, the columns of u, and the eigenvalues.
type spectrum struct {
	u      blas64.General
	values []float64
}

// eigen returns the layer in the basis of the eigenvectors of its whitened factors, without D, and the eigenvalues
// la of A and lg of G. row and col are the prior variances as in rankOne.
func (s *factorSum) eigen(row, col []float64) (l *kroneckerLayer, la, lg []float64, err error) {
	var a, g spectrum
	if isConstant(row) && isConstant(col) {
		// Constant variances only scale the eigenvalues, so one decomposition serves every prior.
		s.once.Do(func() {
			if s.spectra[0], s.spectraErr = spectrumOf(s.a, filled(s.a.N, 1)); s.spectraErr == nil {
				s.spectra[1], s.spectraErr = spectrumOf(s.g, filled(s.g.N, 1))
			}
		})
		a, g, err = s.spectra[0].times(col[0]), s.spectra[1].times(row[0]), s.spectraErr
	} else if a, err = spectrumOf(s.a, col); err == nil {
		g, err = spectrumOf(s.g, row)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("weightspace: layer %s: %w", s.name, err)
	}
	return &kroneckerLayer{matrixLayer: s.matrixLayer, a: a.u, g: g.u, d: dense.New(s.out, s.cols())}, a.values, g.values, nil
}

func isConstant(v []float64) bool { return slices.Min(v) == slices.Max(v) }

// times returns V^½U and the eigenvalues for V^½ S V^½, given the spectrum of S, for V = v·I.
func (s spectrum) times(v float64) spectrum {
	t := spectrum{u: s.u, values: slices.Clone(s.values)}
	t.u.Data = slices.Clone(s.u.Data)
	scaleAll(t.u.Data, math.Sqrt(v))
	scaleAll(t.values, v)
	return t
}

// spectrumOf returns V^½U and λ with V^½ S V^½ = U diag(λ) Uᵀ, for V = diag(variance). An eigenvalue that is
// negative by rounding becomes 0.
func spectrumOf(s blas64.Symmetric, variance []float64) (spectrum, error) {
	root := make([]float64, s.N)
	for i, v := range variance {
		root[i] = math.Sqrt(v)
	}
	m := mat.NewSymDense(s.N, nil)
	for i := range s.N {
		for j := i; j < s.N; j++ {
			m.SetSym(i, j, root[i]*s.Data[i*s.Stride+j]*root[j])
		}
	}
	if dense.NotFinite(m.RawSymmetric().Data) >= 0 {
		return spectrum{}, tooLarge("a Kronecker factor times the prior variance", s.N)
	}
	var e mat.EigenSym
	if !e.Factorize(m, true) {
		return spectrum{}, &gp.NotPDError{What: "a Kronecker factor", N: s.N, Reason: "its eigenvalues were not found"}
	}
	t := spectrum{values: e.Values(nil)}
	for i, v := range t.values {
		t.values[i] = math.Max(v, 0)
	}
	var u mat.Dense
	e.VectorsTo(&u)
	t.u = u.RawMatrix()
	for i := range s.N {
		for j, row := 0, dense.Row(t.u, i); j < s.N; j++ {
			row[j] *= root[i]
		}
	}
	return t, nil
}

// index returns the positions in θ of the layer's parameters, row by row of its matrix.
func (l *matrixLayer) index() []int {
	at := make([]int, 0, l.size())
	for i := range l.out {
		for j := range l.cols() {
			at = append(at, l.at(i, j))
		}
	}
	return at
}
