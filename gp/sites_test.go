package gp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func TestE3(t *testing.T) { // r and Λ are derivatives of Σ log p(y|f)
	each(t, func(t *testing.T, q *problem) {
		s := q.sites(t)
		logLik := 0.0
		// Central differences of step h are off by h²/6 of the third
		// derivative, which is at most of the size of exp(f).
		const h = 1e-5
		for i := range q.n {
			f := append([]float64(nil), q.train.F.RawRowView(i)...)
			at := func(c int, step float64, grad []float64) float64 {
				g := append([]float64(nil), f...)
				g[c] += step
				return q.lik.Expand(grad, nil, nil, q.y.RawRowView(i), g)
			}
			logLik += at(0, 0, nil)
			for c := range q.c {
				up, down := make([]float64, q.c), make([]float64, q.c)
				diff := (at(c, h, up) - at(c, -h, down)) / (2 * h)
				requireNumber(t, "r", s.Residual.At(i, c), diff, 1e-6)
				for o := range q.c {
					if _, scored := q.lik.(gp.Scored); scored {
						continue // TestLikelihoodsConform of package glm
					}
					requireNumber(t, "Λ", s.Lambda.At(i*q.c+o, c), -(up[o]-down[o])/(2*h), 1e-6)
				}
			}
		}
		require.Equal(t, logLik, s.LogLik)
	})
}

func TestNewSitesErrors(t *testing.T) {
	f := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})
	y := mat.NewDense(3, 2, []float64{0, 1, 1, 0, 1, 1})
	change := func(m *mat.Dense, i, j int, v float64) *mat.Dense {
		m = mat.DenseCopyOf(m)
		m.Set(i, j, v)
		return m
	}
	_, err := gp.NewSites(gp.NewTargets(change(y, 2, 1, math.Inf(1)), glm.Bernoulli{}), f)
	requireNotFinite(t, err, "target", 2, 1)
	_, err = gp.NewSites(gp.NewTargets(y, glm.Bernoulli{}), change(f, 1, 0, math.NaN()))
	requireNotFinite(t, err, "network output", 1, 0)
	_, err = gp.NewSites(gp.NewTargets(y, glm.Poisson{}), change(f, 1, 1, 1e4))
	requireNotFinite(t, err, "log p(y|f)", 1, 0)
	_, err = gp.NewSites(gp.NewTargets(y, broken{}), change(f, 1, 0, 0))
	requireNotFinite(t, err, "root of Λ", 1, 1)
	_, err = gp.NewSites(gp.NewTargets(mat.NewDense(2, 2, nil), glm.Bernoulli{}), f)
	require.EqualError(t, err, "gp: 2 rows of targets for 3 examples")
	_, err = gp.NewSites(gp.NewTargets(new(mat.Dense), glm.Bernoulli{}), new(mat.Dense))
	require.EqualError(t, err, "gp: there are no training examples")
	_, err = gp.NewSites(gp.NewTargets(change(y, 1, 1, 1.5), glm.Bernoulli{}), f)
	require.ErrorContains(t, err, "gp: target of example 1: glm:")
}

// broken is a likelihood whose root of Λ is NaN at f = 0.
type broken struct{}

func (broken) Expand(residual, lambda, root, _, f []float64) float64 {
	clear(residual)
	clear(lambda)
	clear(root)
	if f[0] == 0 {
		root[3] = math.NaN()
	}
	return 0
}

func (broken) MeanTo(dst, f []float64) { copy(dst, f) }

// TestE1SitesMoved compares the sites at f_lin(x;θ*+move) with those at F + J·move by a dense Jacobian.
func TestE1SitesMoved(t *testing.T) {
	for _, q := range problems(t) {
		move := make([]float64, q.p)
		for i := range move {
			move[i] = .1 * math.Cos(float64(i))
		}
		f := plus(q.fTrain, 1, product(q.jTrain, vec(move)))
		want, err := gp.NewSites(gp.NewTargets(q.y, q.lik), mat.NewDense(q.n, q.c, flat(f)))
		require.NoError(t, err, q.name)
		got, err := gp.SitesMoved(t.Context(), linearize.Rebatch(q.train, 5), move, gp.NewTargets(q.y, q.lik))
		require.NoError(t, err, q.name)
		requireClose(t, q.name+": f", got.F, want.F, 1e-12)
		requireClose(t, q.name+": Λ", got.Lambda, want.Lambda, 1e-10)
		requireClose(t, q.name+": r", got.Residual, want.Residual, 1e-10)
		requireNumber(t, q.name+": log likelihood", got.LogLik, want.LogLik, 1e-10)
	}
}

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
		for _, x := range []linearize.Source{q.train, stream} {
			got := testref.Must(gp.SitesFrom(t.Context(), x, gp.NewTargets(q.y, q.lik)))(t)
			require.Equal(t, want, got)
		}
		require.Zero(t, linearized)
		got := testref.Must(gp.SitesFrom(t.Context(), linearize.NewSource(m, q.n, 3, load), gp.NewTargets(q.y, q.lik)))(t)
		require.Equal(t, want, got)
		require.Positive(t, linearized)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, testref.Err(gp.SitesFrom(ctx, stream, gp.NewTargets(q.y, q.lik))), context.Canceled)
		_, err := gp.SitesFrom(t.Context(), stream, gp.NewTargets(mat.NewDense(q.n+1, 1, nil), q.lik))
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
