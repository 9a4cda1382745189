package sparse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// A report answers a cancel, with a sample and without.
func TestReportContext(t *testing.T) {
	q := problems(t)[2]
	p := q.fit(t, q.some(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []*sparse.ReportOptions{nil, {Sample: 5}} {
		r, err := p.Report(ctx, q.Test, o)
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, r)
	}
}

// counted is a Source that gathers, and counts its passes.
type counted struct {
	linearize.Source
	passes, gathers *int
}

func (s counted) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	*s.passes++
	return s.Source.Batches(ctx, yield)
}

func (s counted) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	*s.gathers++
	return linearize.Gather(ctx, s.Source, rows)
}

// Where the data gather, no pass is made for a few examples: a removal passes
// once, for the dual vector, and a report of a sample not at all.
func TestGatherersAreAsked(t *testing.T) {
	q := problems(t)[2]
	var passes, gathers int
	s := q.Sites(t)
	p := testref.Must(sparse.Fit(t.Context(), q.Kernel, counted{q.Train, &passes, &gathers}, s, q.some(t), nil))(t)
	passes, gathers = 0, 0
	require.NoError(t, testref.Err(p.Report(t.Context(), q.Test, &sparse.ReportOptions{Sample: 5})))
	require.Equal(t, []int{0, 1}, []int{passes, gathers})
	passes, gathers = 0, 0
	gone := testref.Must(gp.NewSites(pick(q.Y, []int{4}), pick(s.F, []int{4}), q.Likelihood))(t)
	require.NoError(t, testref.Err(p.Remove(t.Context(), []int{4}, gone)))
	require.Equal(t, []int{1, 1}, []int{passes, gathers})
}
