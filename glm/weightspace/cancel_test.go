package weightspace_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// manyParameters has so many parameters that the precision matrix takes panels.
func manyParameters(t *testing.T) *spaceProblem {
	q := newSpaceProblem(t, "wide", 3, 300, 1, glm.Bernoulli{}, 1)
	rng := rand.New(rand.NewPCG(3, 9))
	q.train = gptest.RandomBatch(rng, 300, 1, gptest.Layer{In: 30, Out: 30})
	q.test = gptest.Another(rng, q.train, 9)
	q.theta = make([]float64, q.train.P)
	variance := make([]float64, q.train.P)
	for i := range variance {
		variance[i] = 0.1
	}
	var err error
	q.prior, err = ntk.NewDiagonal(variance, q.theta)
	require.NoError(t, err)
	return q
}

// Forming and factoring the precision stops between panels.
func TestStopsBetweenPanels(t *testing.T) {
	q := manyParameters(t)
	s := q.sites(t)
	testref.Procs(t, 1)
	testkit.Stops(t, "Fit", 20, func(ctx context.Context) error {
		_, err := weightspace.Fit(ctx, q.train, s, q.prior, q.theta, nil)
		return err
	})
	testkit.Stops(t, "Refit", 20, func(ctx context.Context) error {
		_, err := weightspace.Refit(ctx, q.train, gp.NewTargets(q.y, q.lik), q.prior, q.theta, nil)
		return err
	})
}

// On one processor nothing that weightspace does starts a goroutine.
func TestOneProcessor(t *testing.T) {
	q := manyParameters(t)
	s := q.sites(t)
	testkit.NoGoroutines(t, func() {
		w, err := weightspace.Fit(t.Context(), q.train, s, q.prior, q.theta, nil)
		require.NoError(t, err)
		var mean, cov, joint mat.Dense
		require.NoError(t, w.PredictTo(t.Context(), &mean, &cov, q.test))
		require.NoError(t, w.JointTo(t.Context(), &mean, &joint, q.test))
		require.NoError(t, w.SampleTo(t.Context(), mat.NewDense(40, q.train.P, nil), rand.New(rand.NewPCG(1, 1))))
	})
}

// A posterior answers to the last bit as before after a refit from it that was
// finished and after one that was cancelled in its second step.
func TestRefitLeavesItsReceiver(t *testing.T) {
	eachSpaceProblem(t, func(t *testing.T, q *spaceProblem) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := false
		w := q.fit(t, &weightspace.Options{Limits: linearize.Limits{Progress: func(stage string, done, _ int) {
			if stop && stage == gp.StageNewton && done == 2 {
				cancel()
			}
		}}})
		before := q.answers(t, w)
		refit, err := w.Refit(t.Context(), gp.NewTargets(q.y, q.lik))
		require.NoError(t, err)
		require.Equal(t, before, q.answers(t, w))
		after := q.answers(t, refit)
		stop = true
		if _, err = w.Refit(ctx, gp.NewTargets(q.y, q.lik)); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, before, q.answers(t, w))
		require.Equal(t, after, q.answers(t, refit))
	})
}

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
