package cg_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// answersCG is a list of all that a posterior gives.
func (q *problem) answersCG(t *testing.T, p *cg.Posterior) []float64 {
	t.Helper()
	out := append(q.everything(t, p), flat(crossOf(t, p, q.Test, q.Train, 7, gp.RawTerms))...)
	var mean mat.Dense
	b := testref.Must(p.PredictBounded(t.Context(), &mean, nil, q.Test))(t)
	e := testref.Must(p.EvidenceLinearGaussian(t.Context()))(t)
	s := p.Sites()
	for _, m := range []*mat.Dense{b.Mean, s.F, s.Residual, s.Lambda, s.Root} {
		out = append(out, flat(m)...)
	}
	if p.Refitted() {
		at := testref.Must(p.EvidenceRefit(t.Context()))(t)
		out = append(out, at.Value)
	}
	for _, w := range p.Warnings() {
		out = append(out, float64(len(w.Error())))
	}
	out = append(append(out, p.PseudoTargets()...), p.PriorMean()...)
	solved := p.Solved()
	return append(out, e.Value, e.StdErr, float64(p.Rank()), float64(solved.Steps), solved.Residual, float64(p.Data().Len()))
}

func (q *problem) savedCG(ctx context.Context, p *cg.Posterior, x linearize.Source, o *cg.Options) gptest.SavedCase[*cg.Posterior] {
	return gptest.SavedCase[*cg.Posterior]{
		Posterior: p,
		Save:      (*cg.Posterior).Save,
		Load:      func(f *store.File) (*cg.Posterior, error) { return cg.Load(ctx, f, q.Kernel, x, o) },
		Answers:   q.answersCG,
	}
}

// A posterior by conjugate gradients goes through a file without a
// preconditioner, with a weak one and with one of all rows, from a batch and
// from streams whose Jacobian is kept or not.
func TestSavedCG(t *testing.T) {
	all := problems(t)
	for i, rank := range []int{-1, 0, 1} { // no features, all, and few
		for j, q := range []*problem{all[2], all[5]} {
			if rank > 0 {
				rank = 2 * q.C
			}
			if (i+j)%2 == 0 {
				t.Run(fmt.Sprintf("%s/fit of rank %d", q.Name, rank), func(t *testing.T) {
					p := q.fitPosterior(t, linearMean(rank))
					require.NoError(t, testref.Err(p.LogDet(t.Context())))
					gptest.Saved(t, q.savedCG(t.Context(), p, q.Train, nil))
				})
				continue
			}
			t.Run(fmt.Sprintf("%s/refit of rank %d", q.Name, rank), func(t *testing.T) {
				p := q.refitPosterior(t, &cg.Options{Rank: rank, Seed: 7, Probes: 3, MaxIter: 2})
				gptest.Saved(t, q.savedCG(t.Context(), p, testkit.InTiles(q.Train, 3), nil))
			})
		}
	}
}

// A Jacobian that was not kept is not kept either after loading, whatever the
// memory, since products would have other bits.
func TestSavedCGStreamed(t *testing.T) {
	q := newProblemOf("several-chunks", 43, 530, 2, glm.Categorical{}, 1, 4)
	o := &cg.Options{Rank: 40, MaxMemory: cg.Bytes(q.N, q.C, q.Train.P, 40, 4) + 1000, MaxIter: 2, Probes: 3}
	x := testkit.InTiles(q.Train, 64)
	p := testref.Must(cg.Refit(t.Context(), q.Kernel, x, q.Targets(), o))(t)
	want := q.everything(t, p)
	for _, c := range []struct {
		x linearize.Source
		o *cg.Options
	}{{x, o}, {x, nil}, {q.Train, nil}} {
		back := testref.Must(cg.Load(t.Context(), written(t, p.Save), q.Kernel, c.x, c.o))(t)
		gptest.RequireBits(t, "loaded", q.everything(t, back), want)
	}
}

// What does not belong to the saved posterior is refused.
func TestSavedCGRefusesOthers(t *testing.T) {
	q := problems(t)[5]
	f := written(t, q.fitPosterior(t, nil).Save)
	load := func(k cg.MulKernel, x linearize.Source, o *cg.Options) error {
		_, err := cg.Load(t.Context(), f, k, x, o)
		return err
	}
	require.NoError(t, load(q.Kernel, q.Train, nil))
	require.ErrorContains(t, load(q.Kernel, q.Train.Slice(1, 20), nil), "20 training examples, the data 19")
	require.ErrorContains(t, load(q.Kernel, q.Train.Output(0), nil), "the number of outputs is not")
	backwards, err := q.Train.Gather(t.Context(), []int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
	require.NoError(t, err)
	require.ErrorContains(t, load(q.Kernel, backwards, nil), "the order of the rows is another")
	require.ErrorContains(t, load(ntk.New(q.Prior, make([]float64, q.Train.P)), q.Train, nil), "the prior is another")
	testref.As[*gp.MemoryError](t, load(q.Kernel, q.Train, &cg.Options{MaxMemory: 1000}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(cg.Load(ctx, f, q.Kernel, q.Train, nil)), context.Canceled)
}

func FuzzLoadCG(f *testing.F) {
	q := newProblemOf("fuzz", 31, 9, 2, glm.Bernoulli{}, 1, 3)
	var cases []gptest.SavedCase[*cg.Posterior]
	for _, rank := range []int{-1, 3} {
		p, err := cg.Refit(context.Background(), q.Kernel, q.Train, q.Targets(), &cg.Options{Rank: rank, MaxSteps: 20})
		if err != nil {
			f.Fatal(err)
		}
		if rank > 0 {
			if _, err := p.LogDet(context.Background()); err != nil {
				f.Fatal(err)
			}
		}
		cases = append(cases, q.savedCG(context.Background(), p, q.Train, nil))
	}
	predict := func(p *cg.Posterior) error {
		var mean, cov mat.Dense
		return p.PredictTo(context.Background(), &mean, &cov, q.Test)
	}
	gptest.FuzzSaved(f, predict, cases...)
}
