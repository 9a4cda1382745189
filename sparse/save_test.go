package sparse_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// answers is a list of all that a posterior gives and can become.
func (q *problem) answers(t *testing.T, p *sparse.Posterior) []float64 {
	t.Helper()
	out := append(q.everything(t, p), flat(crossOf(t, p, q.Test, q.Train, 7, gp.RawTerms))...)
	s := p.Sites()
	for _, m := range []*mat.Dense{s.F, s.Residual, s.Lambda, s.Root} {
		out = append(out, flat(m)...)
	}
	out = append(out, s.LogLik, float64(p.Data().Len()), float64(p.Rank()), p.EvidenceAtTheta(2).Value)
	for _, w := range p.Warnings() {
		out = append(out, float64(len(w.Error())))
	}
	if p.Refitted() {
		out = append(out, p.EvidenceRefit().Value)
	}
	at := testref.Must(p.At(t.Context(), 2))(t)
	out = append(out, q.projectedAnswers(t, at)...)
	if p.IsSubset() {
		return out
	}
	out = append(out, p.EvidenceLowerBound().Value)
	r := testref.Must(p.Report(t.Context(), q.Test, 9, 0))(t)
	return append(out, r.TraceError, r.ResidualMean, r.Sample.ShiftRMS, r.Sample.RatioMax)
}

// projectedAnswers is a list of all that a posterior gives without its data.
func (q *problem) projectedAnswers(t *testing.T, p *sparse.Projected) []float64 {
	t.Helper()
	var mean, cov, joint, self mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
	require.NoError(t, p.SplitTo(t.Context(), nil, &self, nil, q.Test))
	out := append(flat(&mean), flat(&cov)...)
	out = append(append(out, flat(&joint)...), flat(&self)...)
	sums := testref.Must(p.Sums().MarshalBinary())(t)
	for _, b := range sums {
		out = append(out, float64(b))
	}
	return append(out, p.EvidenceLinearGaussian().Value, p.TraceError())
}

func (q *problem) saved(ctx context.Context, p *sparse.Posterior, z *sparse.Inducing) gptest.SavedCase[*sparse.Posterior] {
	return gptest.SavedCase[*sparse.Posterior]{
		Posterior: p,
		Save:      (*sparse.Posterior).Save,
		Load: func(f *store.File) (*sparse.Posterior, error) {
			return sparse.Load(ctx, f, q.Kernel, q.Train, z, nil)
		},
		Answers: q.answers,
	}
}

// fitAs fits to all data or to a subset.
func (q *problem) fitAs(t *testing.T, z *sparse.Inducing, subset bool, o sparse.Options) *sparse.Posterior {
	t.Helper()
	if !subset {
		return q.fit(t, z, &o)
	}
	s := testref.Must(gp.NewSites(gp.NewTargets(pick(q.Y, z.Rows), q.Likelihood), z.Batch.F))(t)
	return testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, &o))(t)
}

// refitAs refits to all data or to a subset.
func (q *problem) refitAs(t *testing.T, z *sparse.Inducing, subset bool, o sparse.Options) *sparse.Posterior {
	t.Helper()
	if !subset {
		return q.refit(t, z, &o)
	}
	return testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(pick(q.Y, z.Rows), q.Likelihood), z, &o))(t)
}

// savedProblems have one output, several with saturated sites, and a singular
// K_ZZ.
func savedProblems(t *testing.T) []*problem {
	all := problems(t)
	return []*problem{all[2], all[6], newProblemOf("singular", 31, 20, 3, glm.Categorical{}, 1, 4)}
}

// Every posterior goes through a file, fitted and refitted, with inducing
// examples that are gathered or given.
func TestSaved(t *testing.T) {
	for _, q := range savedProblems(t) {
		for _, subset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/subset=%t", q.Name, subset), func(t *testing.T) {
				z := q.inducing(t, 9, 2, 17, 5, 0, 12, 13, 1, 3)
				t.Run("fit", func(t *testing.T) {
					p := q.fitAs(t, z, subset, sparse.Options{})
					gptest.Saved(t, q.saved(t.Context(), p, nil))
				})
				t.Run("refit", func(t *testing.T) {
					p := q.refitAs(t, z, subset, sparse.Options{MaxIter: 2})
					gptest.Saved(t, q.saved(t.Context(), p, &sparse.Inducing{Batch: z.Batch}))
				})
			})
		}
	}
}

// A posterior is loaded without its training examples, and one that never
// knew them, under another prior or through fewer inducing examples, is too.
func TestSavedProjected(t *testing.T) {
	for _, q := range savedProblems(t) {
		t.Run(q.Name, func(t *testing.T) {
			z := q.some(t)
			for _, subset := range []bool{false, true} {
				p := q.refitAs(t, z, subset, sparse.Options{})
				back := testref.Must(sparse.LoadProjected(t.Context(), written(t, p.Save), q.Kernel, z, nil))(t)
				gptest.RequireBits(t, "without data", q.projectedAnswers(t, back), q.projectedAnswers(t, p.Projected))
				require.Equal(t, p.Projected.Warnings(), back.Warnings())
			}
			t.Run("under another prior", func(t *testing.T) {
				p := testref.Must(q.fit(t, z, linear()).At(t.Context(), 0.3))(t)
				gptest.Saved(t, q.savedProjected(t.Context(), p, z))
			})
			t.Run("leading", func(t *testing.T) {
				p := testref.Must(q.fit(t, z, linear()).Leading(t.Context(), 3))(t)
				gptest.Saved(t, q.savedProjected(t.Context(), p, q.inducing(t, z.Rows[:3]...)))
			})
		})
	}
}

func (q *problem) savedProjected(ctx context.Context, p *sparse.Projected, z *sparse.Inducing) gptest.SavedCase[*sparse.Projected] {
	return gptest.SavedCase[*sparse.Projected]{
		Posterior: p,
		Save:      (*sparse.Projected).Save,
		Load: func(f *store.File) (*sparse.Projected, error) {
			return sparse.LoadProjected(ctx, f, q.Kernel, z, nil)
		},
		Answers: q.projectedAnswers,
	}
}

// What does not belong to the saved posterior is refused.
func TestSavedRefusesOthers(t *testing.T) {
	q := problems(t)[5]
	z := q.some(t)
	p := q.fit(t, z, nil)
	f := written(t, p.Save)
	load := func(x linearize.Source, z *sparse.Inducing, o *sparse.Options) error {
		_, err := sparse.Load(t.Context(), f, q.Kernel, x, z, o)
		return err
	}
	require.NoError(t, load(q.Train, nil, nil))
	require.NoError(t, load(testkit.InTiles(q.Train, 3), z, nil))
	require.ErrorContains(t, load(q.Train.Slice(0, 19), z, nil), "20 training examples, the data 19")
	require.ErrorContains(t, load(q.Train.Output(0), nil, nil), "the number of outputs is not")
	require.ErrorContains(t, load(q.Train, q.inducing(t, 9, 2, 17, 5, 0, 12, 14), nil), "other rows")
	require.ErrorContains(t, load(q.Train, &sparse.Inducing{Batch: q.Train.Slice(0, 6)}, nil), "given are 6, 3")
	require.ErrorContains(t, load(q.Train, &sparse.Inducing{Batch: q.Train.Slice(0, 7)}, nil), "inputs")
	testref.As[*gp.MemoryError](t, load(q.Train, z, &sparse.Options{Limits: linearize.Limits{Memory: 1000}}))
	prior := testref.Must(ntk.NewIsotropic(3, nil))(t)
	_, err := sparse.Load(t.Context(), f, ntk.New(prior, q.Theta), q.Train, z, nil)
	require.ErrorContains(t, err, "the prior is another")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(sparse.Load(ctx, f, q.Kernel, q.Train, nil, nil)), context.Canceled)
	_, err = sparse.Load(t.Context(), written(t, p.Projected.Save), q.Kernel, q.Train, z, nil)
	require.ErrorContains(t, err, `no section "sparse.data"`)
	require.Panics(t, func() { sparse.LoadProjected(t.Context(), f, q.Kernel, nil, nil) })
}

// Inducing examples that are no rows of the data must be given.
func TestSavedWithOtherInducing(t *testing.T) {
	q := problems(t)[1]
	z := &sparse.Inducing{Batch: q.Test}
	p := q.fit(t, z, nil)
	_, err := sparse.Load(t.Context(), written(t, p.Save), q.Kernel, q.Train, nil, nil)
	require.ErrorContains(t, err, "not rows of the data")
	require.ErrorContains(t, err, "give the inducing examples")
	gptest.Saved(t, q.saved(t.Context(), p, z))
}

func FuzzLoad(f *testing.F) {
	// K_ZZ has full rank, and less.
	q := newProblemOf("fuzz", 31, 9, 2, glm.Bernoulli{}, 1, 3)
	var cases []gptest.SavedCase[*sparse.Posterior]
	for _, rows := range [][]int{{1, 4}, {0, 1, 2, 3, 4, 5, 6, 7}} {
		z := testref.Must(q.Train.Gather(context.Background(), rows))(f)
		p, err := sparse.Refit(context.Background(), q.Kernel, q.Train, q.Targets(), &sparse.Inducing{Rows: rows, Batch: z}, nil)
		if err != nil {
			f.Fatal(err)
		}
		subset, err := sparse.RefitSubset(context.Background(), q.Kernel, q.Train, gp.NewTargets(pick(q.Y, rows), q.Likelihood), &sparse.Inducing{Rows: rows, Batch: z}, nil)
		if err != nil {
			f.Fatal(err)
		}
		cases = append(cases, q.saved(context.Background(), p, nil), q.saved(f.Context(), subset, nil))
	}
	predict := func(p *sparse.Posterior) error {
		var mean, cov mat.Dense
		if err := p.PredictTo(context.Background(), &mean, &cov, q.Test); err != nil {
			return err
		}
		_, err := p.Cross(context.Background(), q.Test)
		return err
	}
	gptest.FuzzSaved(f, predict, cases...)
}
