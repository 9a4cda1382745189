package kept_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

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
	if _, err := kept.Refit(t.Context(), testkit.InTiles(q.Train, 7), q.Y, q.Likelihood, q.Prior, q.Theta, &o); err == nil {
		return nil, false
	} else {
		require.ErrorIs(t, err, errInterrupted)
	}
	f = testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f, true
}

// A refit that was interrupted before any of its Newton steps goes on to the same posterior,
// bit for bit, on any number of workers.
func TestRefitResumes(t *testing.T) {
	for _, q := range append(testkit.Problems(t), testkit.NewProblem("many", 11, 60, 3, glm.Categorical{}, 3)) {
		t.Run(q.Name, func(t *testing.T) {
			t.Parallel()
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
				resumed.Resume, resumed.Workers = f, 1+steps%3
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
		_, err := kept.Refit(t.Context(), q.Train, y, q.Likelihood, prior, q.Theta, &kept.Options{Resume: f})
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
