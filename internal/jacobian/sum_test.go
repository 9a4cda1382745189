package jacobian_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// Sums over batches of any size are vᵀJ, added to what stood there before.
func TestSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	b := gptest.RandomBatch(rng, 30, 2, gptest.Layer{In: 4, Out: 3}, gptest.Layer{Out: 3}, gptest.Layer{In: 5, Out: 3, Table: 7})
	x := gptest.Another(rng, b, 2)
	var j, start, want, got mat.Dense
	b.JacobianTo(&j)
	x.JacobianTo(&start)
	v := mat.NewDense(60, 4, nil)
	v.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(3*i + j)) }, v)
	want.Mul(v.T(), &j)
	want.Add(&want, &start)
	testref.Procs(t, 3)
	var sum jacobian.Sum
	sum.Copy(x)
	for _, part := range []struct{ lo, hi int }{{0, 1}, {1, 17}, {17, 30}} {
		require.NoError(t, sum.Add(t.Context(), b.Slice(part.lo, part.hi), v.Slice(2*part.lo, 2*part.hi, 0, 4).(*mat.Dense).RawMatrix()))
	}
	sum.Batch.JacobianTo(&got)
	require.True(t, mat.EqualApprox(&got, &want, 1e-12))
	require.Equal(t, 1, sum.Batch.Outputs())
	got.Reset()
	sum.Batch.Slice(1, 3).JacobianTo(&got)
	require.True(t, mat.EqualApprox(&got, want.Slice(1, 3, 0, b.P), 1e-12))
	require.Equal(t, jacobian.Bytes(b), jacobian.Bytes(linearize.Concat(b)))
	require.Greater(t, jacobian.Bytes(b), jacobian.Bytes(b.Slice(0, 7)))
}
