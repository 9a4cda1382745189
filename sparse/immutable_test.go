package sparse_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// An interruption ends an operation at one of its calls of Progress: by a
// cancel, or by an error of the data.
type interruption struct {
	after  int // calls that are let pass; negative: all
	calls  int
	cancel context.CancelFunc
}

func (i *interruption) progress(string, int, int) {
	if i.calls++; i.cancel != nil && i.calls == i.after {
		i.cancel()
	}
}

// during does something to a posterior that a cancel may end midway.
type during struct {
	name string
	do   func(ctx context.Context) error
}

var errBroken = errors.New("the data end here")

// breaking is a Source that fails after its first batch.
type breaking struct{ linearize.Source }

func (s breaking) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	return linearize.Rebatch(s.Source, 2).Batches(ctx, func(first int, b *linearize.Batch) error {
		if first > 0 {
			return errBroken
		}
		return yield(first, b)
	})
}

// oneAndSeveral are problems of one output and of several.
func oneAndSeveral(t *testing.T, f func(t *testing.T, q *problem)) {
	all := problems(t)
	for _, q := range []*problem{all[2], all[5]} {
		t.Run(q.Name, func(t *testing.T) { f(t, q) })
	}
}

// Whatever is made from a posterior or done with it, finished, cancelled at
// every call of Progress, or failed, the posterior answers as it did before, bit
// for bit.
func TestPosteriorIsImmutable(t *testing.T) {
	oneAndSeveral(t, func(t *testing.T, q *problem) {
		i := new(interruption)
		o := linear()
		o.Progress = i.progress
		p := q.refit(t, q.some(t), o)
		b := testref.Must(sparse.NewBuilder(t.Context(), q.Kernel, q.some(t), o))(t)
		head, headSites := q.rows(t, seq(0, 14))
		tail, tailSites := q.rows(t, seq(14, q.N))
		require.NoError(t, b.Add(t.Context(), head, headSites))
		built := testref.Must(b.Posterior(t.Context()))(t)
		before, builtBefore := q.answers(t, p), q.projectedAnswers(t, built)
		for _, d := range []during{
			{"WithData", func(ctx context.Context) error { _, err := p.WithData(ctx, q.Train, p.Sites()); return err }},
			{"Refit", func(ctx context.Context) error {
				_, err := sparse.Refit(ctx, q.Kernel, p.Data(), q.Targets(), p.Inducing(), o)
				return err
			}},
			{"Leading", func(context.Context) error { _, _ = p.Leading(t.Context(), 3); return nil }},
			{"At", func(context.Context) error { _, _ = p.At(t.Context(), 0.2); return nil }},
			{"Report", func(ctx context.Context) error {
				_, err := p.Report(ctx, q.Test, 9, 0)
				return err
			}},
			{"Prepare", func(ctx context.Context) error { _, err := p.Prepare(ctx, q.Test); return err }},
			{"Builder.Add", func(ctx context.Context) error { return b.Add(ctx, tail, tailSites) }},
			{"Builder.Merge", func(context.Context) error { return b.Merge(p.Sums()) }},
		} {
			*i = interruption{}
			require.NoError(t, d.do(t.Context()), d.name)
			for cut := 1; cut <= min(i.calls, 4); cut++ {
				ctx, cancel := context.WithCancel(t.Context())
				*i = interruption{after: cut, cancel: cancel}
				_ = d.do(ctx) // the last call may come when all is done
				cancel()
				*i = interruption{}
				gptest.RequireBits(t, d.name, q.answers(t, p), before)
				gptest.RequireBits(t, d.name, q.projectedAnswers(t, built), builtBefore)
			}
			gptest.RequireBits(t, d.name, q.answers(t, p), before)
		}
		require.ErrorIs(t, b.Add(t.Context(), breaking{tail}, tailSites), errBroken)
		broken := *tailSites
		broken.Residual = mat.DenseCopyOf(broken.Residual)
		broken.Residual.Set(1, 0, math.Inf(1))
		require.ErrorAs(t, b.Add(t.Context(), tail, &broken), new(*gp.NotFiniteError))
		gptest.RequireBits(t, "failed", q.projectedAnswers(t, built), builtBefore)
	})
}

// A Builder whose Add fails or is cancelled holds what it held.
func TestBuilderKeepsItsSums(t *testing.T) {
	oneAndSeveral(t, func(t *testing.T, q *problem) {
		head, headSites := q.rows(t, seq(0, 14))
		tail, tailSites := q.rows(t, seq(14, q.N))
		for name, prepare := range map[string]func(b *sparse.Builder){
			"nothing": func(*sparse.Builder) {},
			"some":    func(b *sparse.Builder) { require.NoError(t, b.Add(t.Context(), head, headSites)) },
			"merged": func(b *sparse.Builder) {
				other := q.builder(t, q.some(t), linear())
				require.NoError(t, other.Add(t.Context(), head, headSites))
				require.NoError(t, b.Merge(other.Sums()))
			},
		} {
			b := q.builder(t, q.some(t), linear())
			prepare(b)
			before := numbers(t, b.Sums())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for _, change := range []func() error{
				func() error { return b.Add(t.Context(), breaking{tail}, tailSites) },
				func() error { return b.Add(ctx, tail, tailSites) },
			} {
				require.Error(t, change(), name)
				require.Equal(t, before, numbers(t, b.Sums()), name)
			}
		}
	})
}

// numbers are the sums as they are written.
func numbers(t *testing.T, s *sparse.Sums) []byte {
	t.Helper()
	return testref.Must(s.MarshalBinary())(t)
}
