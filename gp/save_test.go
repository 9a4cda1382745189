package gp_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// answers is a list of all numbers that a posterior gives.
func (q *problem) answers(t *testing.T, e *gp.Exact) []float64 {
	t.Helper()
	var mean, cov, joint mat.Dense
	require.NoError(t, e.PredictTo(t.Context(), &mean, &cov, q.test))
	require.NoError(t, e.JointTo(t.Context(), nil, &joint, q.test))
	removal := make([]float64, q.n*q.c)
	require.NoError(t, testkit.RemovalTo(t.Context(), e, removal))
	var left, leftCov mat.Dense
	require.NoError(t, e.LeaveOneOutTo(t.Context(), &left, &leftCov, []int{1, q.n - 1}, q.some(t, 1, q.n-1)))
	grad := testref.Must(testkit.GradientLinearGaussian(t.Context(), e, []ntk.Kernel{q.kernel}))(t)
	s, ev := e.Sites(), linearGaussian(t, e)
	out := append(grad, ev.Value, ev.LogLik, ev.Scatter, ev.LogDet, e.EvidenceAtTheta(3).Value, s.LogLik)
	if e.Refitted() {
		out = append(out, e.EvidenceRefit().Value)
	}
	for _, m := range []mat.Matrix{&mean, &cov, &joint, &left, &leftCov, q.cross(t, e, q.test, gp.RawTerms), q.cross(t, e, q.test, gp.PosteriorTerms), s.F, s.Residual, s.Lambda, s.Root} {
		out = append(out, column(mat.DenseCopyOf(m)).RawMatrix().Data...)
	}
	for _, v := range [][]float64{removal, e.Alpha(), e.PseudoTargets(), e.PriorMean()} {
		out = append(out, v...)
	}
	for _, w := range e.Warnings() {
		out = append(out, float64(len(w.Error())))
	}
	return out
}

func (q *problem) saved(e *gp.Exact) gptest.SavedCase[*gp.Exact] {
	return gptest.SavedCase[*gp.Exact]{
		Posterior: e,
		Save:      (*gp.Exact).Save,
		Load:      func(f *store.File) (*gp.Exact, error) { return gp.Load(f, q.kernel, q.train, nil) },
		Answers:   q.answers,
	}
}

func TestSaved(t *testing.T) {
	all := problems(t)
	for _, q := range []*problem{all[1], all[3], all[5]} {
		t.Run(q.name, func(t *testing.T) {
			t.Run("fit", func(t *testing.T) {
				e := testref.Must(gp.Fit(t.Context(), q.kernel, q.train, q.sites(t), nil))(t)
				gptest.Saved(t, q.saved(e))
			})
			t.Run("linear", func(t *testing.T) { gptest.Saved(t, q.saved(q.fit(t, &gp.Options{Mean: gp.LinearGaussian}))) })
			t.Run("refit", func(t *testing.T) { gptest.Saved(t, q.saved(q.refit(t, nil))) })
		})
	}
}

// Warnings keep their text.
func TestSavedWarnings(t *testing.T) {
	q := problems(t)[5]
	e := testref.Must(gp.Refit(t.Context(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), &gp.Options{MaxIter: 1}))(t)
	require.Len(t, e.Warnings(), 2)
	back := q.loaded(t, e)
	for i, w := range e.Warnings() {
		require.EqualError(t, back.Warnings()[i], w.Error())
	}
}

// loaded is what comes back from a file.
func (q *problem) loaded(t *testing.T, e *gp.Exact) *gp.Exact {
	t.Helper()
	f := written(t, e)
	return testref.Must(gp.Load(f, q.kernel, q.train, nil))(t)
}

func written(t *testing.T, e *gp.Exact) *store.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, store.Write(path, "test", 1, e.Save))
	f := testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// A loaded posterior can be refitted: the file's memory is not written to.
func TestSavedIsRefitted(t *testing.T) {
	q := problems(t)[5]
	back := q.loaded(t, q.fit(t, nil))
	again := testref.Must(back.Refit(t.Context(), gp.NewTargets(q.y, q.lik)))(t)
	require.Equal(t, q.answers(t, q.refit(t, nil)), q.answers(t, again))
}

// Other data, another network and another prior are refused.
func TestSavedRefusesOtherData(t *testing.T) {
	q := problems(t)[5]
	f := written(t, q.fit(t, nil))
	_, err := gp.Load(f, q.kernel, q.train.Slice(0, q.n-1), nil)
	require.ErrorContains(t, err, "14 training examples, the data 13")
	require.ErrorContains(t, testref.Err(gp.Load(f, q.kernel, q.train.Output(1), nil)), "4 outputs, the data 1")
	backwards, err := linearize.Gather(t.Context(), q.train, []int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	require.NoError(t, err)
	require.ErrorContains(t, testref.Err(gp.Load(f, q.kernel, backwards, nil)), "the order of the rows is another")
	other := q.kernel
	other.variance = append([]float64{2 * q.variance[0]}, q.variance[1:]...)
	require.ErrorContains(t, testref.Err(gp.Load(f, other, q.train, nil)), "prior")
}

func FuzzLoad(f *testing.F) {
	q := newProblem("fuzz", 6, 2, likelihoodFor(2), 1)
	e := testref.Must(gp.Refit(context.Background(), q.kernel, q.train, gp.NewTargets(q.y, q.lik), nil))(f)
	predict := func(e *gp.Exact) error {
		var mean, cov mat.Dense
		return e.PredictTo(context.Background(), &mean, &cov, q.test)
	}
	gptest.FuzzSaved(f, predict, q.saved(e))
}
