package linearize_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/linearize"
)

// What may be used is what is said, else a part of what is free, and more is an error with the largest number that fits.
func TestLimitsOfMemory(t *testing.T) {
	l := linearize.Limits{Memory: 1000}
	require.EqualValues(t, 1000, l.Budget())
	require.Positive(t, (&linearize.Limits{}).Budget())
	need := func(n int) int64 { return 300 * int64(n) }
	require.NoError(t, l.Check("training", "rows", 3, need))
	require.Equal(t, &linearize.MemoryError{Op: "training", Needed: 1200, Available: 1000, Largest: 3, Unit: "rows"}, l.Check("training", "rows", 4, need))
}
