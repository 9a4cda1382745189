package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// batchModel is a model whose inputs are the numbers of examples of a batch.
type batchModel struct {
	b          *linearize.Batch
	linearized *int
}

func (m batchModel) Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error) {
	*m.linearized++
	return m.b.Gather(ctx, m.rows(x))
}

func (m batchModel) Dims() (d, c, p int) { return 1, m.b.Outputs(), m.b.P }

func (m batchModel) rows(x *mat.Dense) []int {
	n, _ := x.Dims()
	rows := make([]int, n)
	for i := range rows {
		rows[i] = int(x.At(i, 0))
	}
	return rows
}

// forwardModel gives outputs alone, too.
type forwardModel struct{ batchModel }

func (m forwardModel) Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error) {
	b, err := m.b.Gather(ctx, m.rows(x))
	return b.F, err
}

// The sites from a Source are those at its outputs, however it gives them, and a
// model that gives outputs alone is not linearized.
func TestSitesFrom(t *testing.T) {
	for _, q := range problems(t) {
		want := q.sites(t)
		load := func(lo, hi int) (*mat.Dense, error) {
			x := mat.NewDense(hi-lo, 1, nil)
			for i := range hi - lo {
				x.Set(i, 0, float64(lo+i))
			}
			return x, nil
		}
		linearized := 0
		m := batchModel{q.train, &linearized}
		stream := linearize.NewSource(forwardModel{m}, q.n, 3, load)
		for _, x := range []linearize.Source{q.train, stream, linearize.Rebatch(stream, 2)} {
			got := testref.Must(gp.SitesFrom(t.Context(), x, q.y, q.lik))(t)
			require.Equal(t, want, got)
		}
		require.Zero(t, linearized)
		got := testref.Must(gp.SitesFrom(t.Context(), linearize.NewSource(m, q.n, 3, load), q.y, q.lik))(t)
		require.Equal(t, want, got)
		require.Positive(t, linearized)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, testref.Err(gp.SitesFrom(ctx, stream, q.y, q.lik)), context.Canceled)
		_, err := gp.SitesFrom(t.Context(), stream, mat.NewDense(q.n+1, 1, nil), q.lik)
		require.ErrorContains(t, err, "rows of targets")
	}
}

// Rows are the sites of the examples asked for, and flat ones for −1.
func TestSitesRows(t *testing.T) {
	q := problems(t)[2]
	s := q.sites(t)
	got := s.Rows([]int{3, -1, 0})
	require.True(t, math.IsNaN(got.LogLik))
	for _, m := range [][2]*mat.Dense{{got.F, s.F}, {got.Residual, s.Residual}, {got.Lambda, s.Lambda}, {got.Root, s.Root}} {
		rows, _ := m[0].Dims()
		per := rows / 3
		_, c := m[0].Dims()
		require.Equal(t, mat.DenseCopyOf(m[1].Slice(3*per, 4*per, 0, c)), mat.DenseCopyOf(m[0].Slice(0, per, 0, c)))
		require.Zero(t, mat.Norm(m[0].Slice(per, 2*per, 0, c), 1))
		require.Equal(t, mat.DenseCopyOf(m[1].Slice(0, per, 0, c)), mat.DenseCopyOf(m[0].Slice(2*per, 3*per, 0, c)))
	}
}
