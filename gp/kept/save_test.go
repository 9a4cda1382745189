package kept_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// answers lists all that a posterior gives.
func answers(t *testing.T, q *testkit.Problem, p *kept.Posterior) []float64 {
	t.Helper()
	var out []float64
	var mean, cov, joint, h, removal, left, leftCov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
	require.NoError(t, p.InfluenceTo(t.Context(), &h, &removal, dense.Range(q.N), q.Train))
	require.NoError(t, p.LeaveOneOutTo(t.Context(), &left, &leftCov, dense.Range(q.N), q.Train))
	s := p.Sites()
	for _, m := range []*mat.Dense{&mean, &cov, &joint, &h, &removal, &left, &leftCov, s.F, s.Residual, s.Lambda, s.Root,
		testkit.CrossOf(t, p, q.Test, q.Train, 7, gp.PosteriorTerms), testkit.CrossOf(t, p, q.Test, q.Train, 7, gp.RawTerms)} {
		out = append(out, dense.Flat(m)...)
	}
	out = append(append(out, p.Alpha()...), p.PseudoTargets()...)
	out = append(out, p.Distance(), p.EvidenceAtTheta(3).Value, p.Thinned().LogDet())
	if p.Refitted() {
		out = append(out, p.EvidenceRefit().Value)
	}
	for _, w := range p.Warnings() {
		out = append(out, float64(len(w.Error())))
	}
	for i, at := range p.Kept().Examples {
		out = append(out, float64(at), p.Kept().Lambda[i], p.Kept().Strength[i])
	}
	return out
}

func savedCase(t *testing.T, q *testkit.Problem, p *kept.Posterior) gptest.SavedCase[*kept.Posterior] {
	return gptest.SavedCase[*kept.Posterior]{
		Posterior: p,
		Save:      (*kept.Posterior).Save,
		Load: func(f *store.File) (*kept.Posterior, error) {
			return kept.Load(t.Context(), f, testkit.InTiles(q.Train, 7), q.Prior, q.Theta, nil)
		},
		Answers: func(t *testing.T, p *kept.Posterior) []float64 { return answers(t, q, p) },
	}
}

// A posterior goes through a file to the last bit, with its warnings.
func TestSaved(t *testing.T) {
	all := testkit.Problems(t)
	for _, q := range []*testkit.Problem{all[2], all[5]} {
		t.Run(q.Name, func(t *testing.T) {
			strength := median(fit(t, q, nil).Kept().Strength)
			t.Run("fit", func(t *testing.T) { gptest.Saved(t, savedCase(t, q, fit(t, q, &kept.Options{Strength: strength}))) })
			path := filepath.Join(t.TempDir(), "posterior")
			written := fit(t, q, &kept.Options{Strength: strength})
			require.NoError(t, store.Write(path, "test", 1, written.Save))
			info := testref.Must(os.Stat(path))(t)
			// Names, fingerprints and paddings of sections are a few kilobytes.
			require.InDelta(t, float64(written.SavedBytes()), float64(info.Size()), 8e3)
			p := refit(t, q, &kept.Options{Strength: strength, MaxNewton: 1})
			require.NotEmpty(t, p.Warnings())
			t.Run("refit", func(t *testing.T) { gptest.Saved(t, savedCase(t, q, p)) })
		})
	}
}

// Representatives go through a file too.
func TestSavedRepresented(t *testing.T) {
	kept.SetFirstMost(t, 40)
	kept.SetMostAlone(t, 0, 200, 100)
	q := testkit.NewProblem("many", 11, 120, 3, glm.Categorical{}, 3)
	s := q.Sites(t)
	found := testref.Must(kept.FindThreshold(t.Context(), q.Kernel, q.Train, s, q.Test, &kept.ThresholdOptions{Within: 2}))(t)
	p := testref.Must(kept.Fit(t.Context(), q.Train, s, q.Prior, q.Theta, &kept.Options{Found: found}))(t)
	require.Positive(t, p.Kept().Representatives)
	gptest.Saved(t, savedCase(t, q, p))
}

// What does not belong to the saved posterior is refused.
func TestSavedRefusesOthers(t *testing.T) {
	q := testkit.Problems(t)[5]
	path := filepath.Join(t.TempDir(), "posterior")
	require.NoError(t, store.Write(path, "test", 1, fit(t, q, nil).Save))
	f := testref.Must(store.Open(path, "test", 1))(t)
	defer f.Close()
	load := func(x linearize.Source, prior ntk.Prior, theta []float64, o *kept.Options) error {
		_, err := kept.Load(t.Context(), f, x, prior, theta, o)
		return err
	}
	require.NoError(t, load(q.Train, q.Prior, q.Theta, &kept.Options{Targets: &gp.Targets{Y: q.Y, Likelihood: q.Likelihood}}))
	require.ErrorContains(t, load(q.Train.Slice(1, 20), q.Prior, q.Theta, nil), "20 training examples")
	require.ErrorContains(t, load(q.Train.Output(0), q.Prior, q.Theta, nil), "the number of outputs is not")
	backwards, err := q.Train.Gather(t.Context(), []int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
	require.NoError(t, err)
	require.ErrorContains(t, load(backwards, q.Prior, q.Theta, nil), "the order of the rows is another")
	require.ErrorContains(t, load(q.Train, q.Prior, make([]float64, q.Train.P), nil), "the prior is another")
	other := mat.DenseCopyOf(q.Y)
	other.Set(0, 0, float64((int(other.At(0, 0))+1)%q.C))
	require.ErrorContains(t, load(q.Train, q.Prior, q.Theta, &kept.Options{Targets: &gp.Targets{Y: other, Likelihood: q.Likelihood}}), "the targets or the likelihood are others")
}

var errInterrupted = errors.New("interrupted")

// checkpointed writes the checkpoint before the Newton step at and ends the refit there; ok
// is false where the refit ends earlier.
func checkpointed(t *testing.T, q *testkit.Problem, o kept.Options, at int) (f *store.File, ok bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	o.Checkpoint = func(save func(w *store.Writer) error) error {
		if at--; at >= 0 {
			return nil
		}
		if err := store.Write(path, "test", 1, save); err != nil {
			return err
		}
		return errInterrupted
	}
	if _, err := kept.Refit(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, &o); err == nil {
		return nil, false
	} else {
		require.ErrorIs(t, err, errInterrupted)
	}
	f = testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f, true
}

// A refit that was interrupted before any of its Newton steps goes on to the same posterior,
// bit for bit, on any number of processors.
func TestRefitResumes(t *testing.T) {
	for _, q := range append(testkit.Problems(t), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)) {
		t.Run(q.Name, func(t *testing.T) {
			all := refit(t, q, nil)
			o := kept.Options{Strength: median(all.Kept().Strength)}
			want := answers(t, q, refit(t, q, &o))
			steps := 0
			for ; ; steps++ {
				f, ok := checkpointed(t, q, o, steps)
				if !ok {
					break
				}
				resumed := o
				resumed.Resume = f
				testref.Procs(t, 1+steps%3)
				require.Equal(t, want, answers(t, q, refit(t, q, &resumed)), "from step %d", steps)
				require.NotNil(t, resumed.Resume)
			}
			require.Positive(t, steps)
		})
	}
}

// A checkpoint of another refit is refused with what differs.
func TestRefitResumesNoOther(t *testing.T) {
	q := testkit.Problems(t)[5]
	f, ok := checkpointed(t, q, kept.Options{}, 1)
	require.True(t, ok)
	ask := func(q *testkit.Problem, y *mat.Dense, prior ntk.Prior) error {
		_, err := kept.Refit(t.Context(), q.Train, gp.NewTargets(y, q.Likelihood), prior, q.Theta, &kept.Options{Resume: f})
		return err
	}
	require.NoError(t, ask(q, q.Y, q.Prior))
	other := mat.DenseCopyOf(q.Y)
	other.Set(0, 0, float64((int(other.At(0, 0))+1)%q.C))
	require.ErrorContains(t, ask(q, other, q.Prior), "differs in the targets")
	prior := testref.Must(ntk.NewIsotropic(123, nil))(t)
	require.ErrorContains(t, ask(q, q.Y, prior), "the prior is another")
	fewer := *q
	fewer.Train = q.Train.Slice(0, q.N-1)
	require.ErrorContains(t, ask(&fewer, q.Y.Slice(0, q.N-1, 0, 1).(*mat.Dense), q.Prior), "training examples")
}
