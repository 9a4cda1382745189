package steps_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/studies/steps"
)

// TestDoComputesAStepOnce checks that a second call reads what the first one kept, that a damaged
// file is refused by its name, and that a cancelled context computes nothing.
func TestDoComputesAStepOnce(t *testing.T) {
	ctx, dir, calls := context.Background(), t.TempDir(), 0
	step := func(context.Context) ([]float64, error) {
		calls++
		return []float64{1.0 / 3, 2}, nil
	}
	for range 2 {
		got, err := steps.Do(ctx, dir, "part/one", step)
		require.NoError(t, err)
		require.Equal(t, []float64{1.0 / 3, 2}, got)
	}
	require.Equal(t, 1, calls)

	path := filepath.Join(dir, "part", "one.json")
	require.NoError(t, os.WriteFile(path, []byte("[1,"), 0o644))
	_, err := steps.Do(ctx, dir, "part/one", step)
	require.ErrorContains(t, err, path)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = steps.Do(ended, dir, "other", step)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)
}
