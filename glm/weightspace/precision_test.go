package weightspace

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	fblas "github.com/funcgp/funcgp/internal/blas"
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

// The sum AᵀA in tiles is that of Syrk bit for bit. A cancelled one leaves the
// tiles to come as they were.
func TestPrecisionTiles(t *testing.T) {
	const p = tileColumns + 70
	a := randomRows(3, p)
	whole := blas64.Symmetric{Uplo: blas.Upper, N: p, Stride: p, Data: make([]float64, p*p)}
	fblas.Syrk(blas.Trans, 1, a, 1, whole)
	h := whole
	for asks, last := range [][2]int{{0, tileColumns - 1}, {0, p - 1}, {p - 1, p - 1}} { // an element of each tile
		h.Data = make([]float64, p*p)
		require.ErrorIs(t, addGram(&asked{t.Context(), asks}, a, h), context.Canceled)
		require.Zero(t, h.Data[last[0]*p+last[1]], "tile %d", asks)
		require.Equal(t, asks > 0, h.Data[0] != 0)
	}
	h.Data = make([]float64, p*p)
	require.NoError(t, addGram(&asked{t.Context(), 3}, a, h))
	require.True(t, slices.Equal(h.Data, whole.Data))
}

// A U⁻¹ in tiles is that of Trsm, and its cancellation leaves the columns to
// come unsolved.
func TestPrecisionHalfTiles(t *testing.T) {
	const p = tileColumns + 70
	u := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p, Stride: p, Data: randomRows(p, p).Data}
	floats.Scale(0.01, u.Data)
	for i := range p {
		u.Data[i*p+i] += 2
	}
	h := &precision{u: u}
	want, got, part := randomRows(4, p), randomRows(4, p), randomRows(4, p)
	fblas.Trsm(blas.Right, blas.NoTrans, 1, u, want)
	require.NoError(t, h.half(t.Context(), got))
	require.InDeltaSlice(t, want.Data, got.Data, 1e-13) // entries are of order one
	require.ErrorIs(t, h.half(&asked{t.Context(), 1}, part), context.Canceled)
	require.Equal(t, got.Data[0], part.Data[0])
	require.NotEqual(t, got.Data[p-1], part.Data[p-1])
}
