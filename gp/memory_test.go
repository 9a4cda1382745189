package gp

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	// 3000·3001 numbers, and 9 vectors of 3000.
	require.Equal(t, int64(8*3000*3001+8*9*3000), Bytes(3000, 1))
	require.Equal(t, int64(math.MaxInt64), Bytes(math.MaxInt64, 2))
	last := int64(0)
	for n := range 50 {
		require.Greater(t, Bytes(n+1, 3), last)
		last = Bytes(n+1, 3)
	}
}

func TestMemoryBudget(t *testing.T) {
	require.Equal(t, int64(7), MemoryBudget(7))
	require.Positive(t, MemoryBudget(0))
}

func TestCheckMemory(t *testing.T) {
	need := func(n int) int64 { return int64(n) * 10 }
	require.NoError(t, CheckMemory("it", TestExamples, 7, 70, need))
	err := CheckMemory("it", TestExamples, 1<<40, 79, need)
	require.Equal(t, &MemoryError{Op: "it", Needed: 10 << 40, Available: 79, Largest: 7, Unit: TestExamples}, err)
	require.EqualError(t, err, "it takes 10.0 TiB of memory and 79 B may be used; at most 7 test examples fit; use fewer, or raise the memory limit")
	require.Zero(t, CheckMemory("it", TestExamples, 5, 9, need).(*MemoryError).Largest)
}

// What is garbage does not count against a plan: it is given back before one is refused.
func TestCheckMemoryWithoutGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const size = 64 << 20
	released := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapReleased
	}
	garbage := make([]byte, size)
	garbage[0] = 1
	runtime.KeepAlive(garbage)
	before := released()
	require.Error(t, CheckMemory("it", TestExamples, 1, 0, func(int) int64 { return math.MaxInt64 }))
	require.GreaterOrEqual(t, released(), before+size/2)
}
