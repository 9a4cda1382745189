package cg

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/linearize"
)

// What is kept of a stream is what was streamed.
func TestStore(t *testing.T) {
	eachTestCase(t, func(t *testing.T, s *testCase) {
		store := batchBuilder{n: s.data.n}
		require.NoError(t, linearize.Rebatch(s.x, 4).Batches(t.Context(), func(first int, b *linearize.Batch) error {
			store.add(first, b)
			return nil
		}))
		var got mat.Dense
		store.batch.JacobianTo(&got)
		require.True(t, mat.Equal(&got, s.j))
		require.True(t, mat.Equal(store.batch.F, s.x.F))
		require.Equal(t, jacobian.Bytes(s.x), jacobian.Bytes(store.batch))
	})
}
