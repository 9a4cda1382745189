package prediction

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// TestLastLayer compares evidence and variance with those of the precision of all parameters, written out.
func TestLastLayer(t *testing.T) {
	const width, outputs = 4, 3
	rng := rand.New(rand.NewPCG(1, 2))
	square := func(n int) *mat.SymDense {
		x := mat.NewDense(n+2, n, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		s := mat.NewSymDense(n, nil)
		s.SymOuterK(1, x.T())
		return s
	}
	a, g := square(width), square(outputs)
	l := &layer{logLik: -3, scatter: 2, delta: 0.7}
	var err error
	l.a, l.u, err = eigen(a)
	require.NoError(t, err)
	l.g, l.v, err = eigen(g)
	require.NoError(t, err)

	phi := []float64{0.3, -1, 2, 0.1}
	// The parameters are the columns of [W β], the bias with an input of its own.
	var both mat.Dense
	inputs := mat.NewSymDense(width+1, nil)
	inputs.SetSym(width, width, 1)
	for i := range width {
		for j := i; j < width; j++ {
			inputs.SetSym(i, j, a.At(i, j))
		}
	}
	both.Kronecker(inputs, g)
	n, _ := both.Dims()
	for i := range n {
		both.Set(i, i, both.At(i, i)+l.delta)
	}
	logDet, _ := mat.LogDet(&both)
	require.InDelta(t, -3-0.5*(logDet-float64(n)*math.Log(l.delta)+l.delta*2), l.evidence(), 1e-12)

	var jacobian, half, cov mat.Dense
	identity := mat.NewDiagDense(outputs, []float64{1, 1, 1})
	jacobian.Kronecker(mat.NewDense(1, width+1, append(phi, 1)), identity)
	require.NoError(t, half.Solve(&both, jacobian.T()))
	cov.Mul(&jacobian, &half)
	for c, v := range l.variance(phi[:width]) {
		require.InDelta(t, cov.At(c, c), v, 1e-12)
	}
}
