package cg

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/testref"
)

// The plan uses what there is: first for the right-hand sides of an example,
// then for the preconditioner, the Jacobian and more right-hand sides.
func TestPlan(t *testing.T) {
	const n, c = 40, 2
	b := newTestCase(t, n, c, 4).x
	bytes := func(rank, columns int) int64 { return Bytes(n, c, b.P, rank, columns) }
	plan := func(memory int64, rank int) (memoryPlan, error) {
		return planMemory(n, b, true, &Options{MaxMemory: memory, Rank: rank})
	}
	m := testref.As[*gp.MemoryError](t, testref.Err(plan(bytes(0, c)-1, 0)))
	require.Equal(t, n-1, m.Largest)
	for _, p := range []struct {
		memory int64
		rank   int
		want   memoryPlan
	}{
		{bytes(0, c), 0, memoryPlan{columns: c}},
		{bytes(33, c), 0, memoryPlan{rank: 33, columns: c}},
		{bytes(33, 40) + jacobian.Bytes(b) + n, 33, memoryPlan{rank: 33, columns: 40, keep: true}},
		{1 << 30, -1, memoryPlan{columns: mostColumns, keep: true}},
		{1 << 30, 0, memoryPlan{rank: n * c, columns: mostColumns, keep: true}}, // no more than there are rows
	} {
		got, err := plan(p.memory, p.rank)
		require.NoError(t, err)
		require.Equal(t, p.want, got)
	}
	require.Equal(t, int64(math.MaxInt64), Bytes(math.MaxInt, 10, 10, 10, 10))
}
