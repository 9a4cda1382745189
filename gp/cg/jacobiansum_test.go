package cg

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
)

// The image of v has the Jacobian Jᵀv, and κ with it is K v: (E2) is linear.
func TestImage(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		rows := s.data.n * s.data.c
		v := mat.NewDense(rows, 5, nil)
		v.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(3*i + j)) }, v)
		var image jacobian.Sum
		got, err := s.data.jacobianOf(t.Context(), &image, v.RawMatrix())
		require.NoError(t, err)
		var j, want, kv mat.Dense
		got.JacobianTo(&j)
		want.Mul(v.T(), s.j)
		requireNear(t, "Jᵀv", &j, &want, 1e-13)
		part := new(mat.Dense)
		image.Part(2, 4).Batch.JacobianTo(part)
		require.True(t, mat.Equal(part, j.Slice(2, 4, 0, s.data.p)))
		kv.Mul(s.k, v)
		for _, kept := range []bool{true, false} {
			d := *s.data
			if !kept {
				d.whole = nil
			}
			out := dense.New(rows, 5)
			require.NoError(t, d.mulTo(t.Context(), out, v.RawMatrix(), &image))
			requireNear(t, "K v", dense.View(out), &kv, 1e-12)
		}
	})
}
