package sparse_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// stacked joins matrices one below the other.
func stacked(a, b *mat.Dense) *mat.Dense {
	if a == nil {
		return b
	}
	var m mat.Dense
	m.Stack(a, b)
	return &m
}

// refitInRounds makes the passes of a refit over parts of the data, and merges their sums.
func refitInRounds(t *testing.T, q *problem, z *sparse.Inducing, o *sparse.Options, bounds []int) (*sparse.Posterior, int) {
	t.Helper()
	empty, err := q.builder(t, z, o).Posterior(t.Context())
	require.NoError(t, err)
	first := empty.Builder()
	sites := q.Sites(t)
	require.NoError(t, first.Add(t.Context(), q.Train, sites))
	p, err := first.Posterior(t.Context())
	require.NoError(t, err)
	for r, rounds := sparse.FirstRound(p), 1; ; rounds++ {
		total, pass := empty.Builder(), &sparse.Pass{Sites: &gp.Sites{}}
		for i, lo := range bounds[:len(bounds)-1] {
			b := empty.Builder()
			_, width := q.Y.Dims()
			s, step, err := b.AddAt(t.Context(), r.W, testkit.InTiles(q.Train.Slice(lo, bounds[i+1]), 3), q.Y.Slice(lo, bounds[i+1], 0, width).(*mat.Dense), q.Likelihood)
			require.NoError(t, err)
			require.NoError(t, total.Merge(b.Sums()))
			all := pass.Sites
			pass.Step = append(pass.Step, step...)
			pass.Sites = &gp.Sites{F: stacked(all.F, s.F), Residual: stacked(all.Residual, s.Residual), Lambda: stacked(all.Lambda, s.Lambda), Root: stacked(all.Root, s.Root), LogLik: all.LogLik + s.LogLik}
		}
		next, err := total.Posterior(t.Context())
		require.NoError(t, err)
		then, end, err := r.Next(next, sites, pass, q.Y, q.Likelihood, 0)
		require.NoError(t, err)
		if then == nil {
			got, err := p.Refit(q.Train, sites, pass, end)
			require.NoError(t, err)
			return got, rounds
		}
		p, sites, r = next, pass.Sites, then
		require.Less(t, rounds, 100)
	}
}

// A refit in rounds over any parts of the data is that of one process (E9): its mode,
// evidence, b and α.
func TestRefitInRounds(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		for _, z := range []*sparse.Inducing{q.some(t), q.all(t)} {
			o := linear(sparse.Nystrom)
			want := q.refit(t, z, o)
			for _, bounds := range [][]int{{0, q.N}, {0, 3, 4, q.N}} {
				got, rounds := refitInRounds(t, q, z, o, bounds)
				require.Greater(t, rounds, 1)
				require.True(t, got.Refitted())
				var mean, cov, wantMean, wantCov mat.Dense
				require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
				require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
				// both end where a step is 1e-12 of f̂
				requireClose(t, "mean", &mean, &wantMean, shardTol)
				requireClose(t, "covariance", &cov, &wantCov, shardTol)
				requireNumber(t, "evidence", got.EvidenceRefit().Value, want.EvidenceRefit().Value, shardTol)
				requireClose(t, "α", vec(got.Alpha()), vec(want.Alpha()), 1e-8)
				requireClose(t, "b", vec(got.PseudoTargets()), vec(want.PseudoTargets()), 1e-8)
				require.Len(t, got.Warnings(), len(want.Warnings()))
			}
		}
	})
}

// FITC, and likelihoods with Fisher information, need the passes of one process.
func TestRoundsRefuse(t *testing.T) {
	q := problems(t)[2]
	b := q.builder(t, q.some(t), linear(sparse.FITC))
	_, _, err := b.AddAt(t.Context(), nil, q.Train, q.Y, q.Likelihood)
	require.ErrorContains(t, err, "a refit in rounds is one of a Nyström posterior")
	p, err := b.Posterior(t.Context())
	require.NoError(t, err)
	_, _, err = sparse.FirstRound(p).Next(p, q.Sites(t), &sparse.Pass{}, q.Y, q.Likelihood, 0)
	require.ErrorContains(t, err, "a refit in rounds is one of a Nyström posterior")
	h := &problem{testkit.Heteroscedastic()}
	p, err = h.builder(t, h.inducing(t, 1, 2), nil).Posterior(t.Context())
	require.NoError(t, err)
	_, _, err = sparse.FirstRound(p).Next(p, nil, &sparse.Pass{}, h.Y, h.Likelihood, 0)
	require.ErrorContains(t, err, "Fisher scoring")
	n := q.builder(t, q.some(t), nil)
	require.Panics(t, func() {
		_, _, _ = n.AddAt(t.Context(), nil, linearize.Source(q.Train), q.Y, q.Likelihood)
	})
}
