package weightspace_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// answers is a list of all that a posterior gives.
func (q *spaceProblem) answers(t *testing.T, w *weightspace.Posterior) []float64 {
	t.Helper()
	var mean, cov, joint mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), &mean, &cov, q.test))
	require.NoError(t, w.JointTo(t.Context(), nil, &joint, q.test))
	draws := mat.NewDense(3, len(q.theta), nil)
	require.NoError(t, w.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(1, 2))))
	s := w.Sites()
	out := []float64{s.LogLik, w.LogDet(), w.EvidenceAtTheta().Value, w.EvidenceLinearGaussian().Value}
	for _, m := range []*mat.Dense{&mean, &cov, &joint, draws, s.F, s.Residual, s.Lambda, s.Root} {
		out = append(out, mat.DenseCopyOf(m).RawMatrix().Data...)
	}
	if w.Refitted() {
		out = append(out, w.EvidenceRefit().Value)
	}
	for _, warning := range w.Warnings() {
		out = append(out, float64(len(warning.Error())))
	}
	return append(append(out, w.Mean()...), w.Center()...)
}

func (q *spaceProblem) saved(w *weightspace.Posterior) gptest.SavedCase[*weightspace.Posterior] {
	return gptest.SavedCase[*weightspace.Posterior]{
		Posterior: w,
		Save:      (*weightspace.Posterior).Save,
		Load:      func(f *store.File) (*weightspace.Posterior, error) { return weightspace.Load(f, q.train, q.prior, nil) },
		Answers:   q.answers,
	}
}

// Weight-space posteriors go through a file.
func TestSavedWeights(t *testing.T) {
	all := spaceProblems(t)
	for _, q := range []*spaceProblem{all[3], all[4], all[9]} {
		t.Run(q.name, func(t *testing.T) {
			t.Run("fit", func(t *testing.T) { gptest.Saved(t, q.saved(q.fit(t, nil))) })
			t.Run("linear", func(t *testing.T) { gptest.Saved(t, q.saved(q.fit(t, linearGaussian))) })
			t.Run("refit", func(t *testing.T) {
				w, err := weightspace.Refit(t.Context(), q.train, q.y, q.lik, q.prior, q.theta, &weightspace.Options{MaxIter: 1})
				require.NoError(t, err)
				gptest.Saved(t, q.saved(w))
			})
		})
	}
}

func written(t *testing.T, w *weightspace.Posterior) *store.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, store.Write(path, "test", 1, w.Save))
	f, err := store.Open(path, "test", 1)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// A loaded posterior can be refitted: the file's memory is not written to.
func TestSavedWeightsAreRefitted(t *testing.T) {
	q := spaceProblems(t)[8]
	w, err := weightspace.Load(written(t, q.fit(t, nil)), q.train, q.prior, nil)
	require.NoError(t, err)
	again, err := w.Refit(t.Context(), q.y, q.lik)
	require.NoError(t, err)
	gptest.RequireBits(t, "the refit", q.answers(t, again), q.answers(t, q.refit(t)))
}

// Other data and another prior are refused.
func TestSavedWeightsRefuseOthers(t *testing.T) {
	q := spaceProblems(t)[8]
	f := written(t, q.fit(t, nil))
	_, err := weightspace.Load(f, q.train.Slice(1, 20), q.prior, nil)
	require.ErrorContains(t, err, "25 training examples")
	_, err = weightspace.Load(f, q.train.Output(1), q.prior, nil)
	require.ErrorContains(t, err, "4 outputs")
	prior, err := ntk.NewIsotropic(2, nil)
	require.NoError(t, err)
	_, err = weightspace.Load(f, q.train, prior, nil)
	require.ErrorContains(t, err, "the prior is another")
}

func FuzzLoadWeights(f *testing.F) {
	q := newSpaceProblem(f, "fuzz", 8, 6, 2, glm.Categorical{}, 1)
	w, err := weightspace.Refit(context.Background(), q.train, q.y, q.lik, q.prior, q.theta, nil)
	if err != nil {
		f.Fatal(err)
	}
	predict := func(w *weightspace.Posterior) error {
		var mean, cov mat.Dense
		return w.PredictTo(context.Background(), &mean, &cov, q.test)
	}
	gptest.FuzzSaved(f, predict, q.saved(w))
}
