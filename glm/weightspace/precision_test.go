package weightspace

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
)

// An asked context is cancelled after its error was asked for left times.
type asked struct {
	context.Context
	left int
}

func (a *asked) Err() error {
	if a.left--; a.left < 0 {
		return context.Canceled
	}
	return nil
}

func randomRows(rows, p int) blas64.General {
	rng := rand.New(rand.NewPCG(4, 4))
	a := blas64.General{Rows: rows, Cols: p, Stride: p, Data: make([]float64, rows*p)}
	for i := range a.Data {
		a.Data[i] = rng.NormFloat64()
	}
	return a
}

// A U⁻¹ is that of Trsm, and stops between its panels.
func TestPrecisionHalfStops(t *testing.T) {
	const p = 2118
	u := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p, Stride: p, Data: randomRows(p, p).Data}
	floats.Scale(0.01, u.Data)
	for i := range p {
		u.Data[i*p+i] += 2
	}
	h := &precision{u: u}
	want, got := randomRows(40, p), randomRows(40, p)
	dense.Trsm(blas.Right, blas.NoTrans, 1, u, want)
	require.NoError(t, h.half(t.Context(), got))
	require.Equal(t, want.Data, got.Data)
	for left := range 3 {
		a := &asked{t.Context(), left}
		require.ErrorIs(t, h.half(a, randomRows(40, p)), context.Canceled)
		require.Greater(t, a.left, -8)
	}
}
