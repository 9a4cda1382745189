package testkit

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// A Countdown is a context whose method Err returns context.Canceled from call Left+1 on. Asked
// counts the calls of all goroutines.
type Countdown struct {
	context.Context
	Left  int64
	Asked atomic.Int64
}

// Err implements context.Context.
func (c *Countdown) Err() error {
	if c.Asked.Add(1) > c.Left {
		return context.Canceled
	}
	return nil
}

// Stops tests that call ends soon after its context is cancelled, which happens after a random
// number of calls of Err. On its way out it may call Err a few more times. Without cancellation it
// must call Err at least least times.
func Stops(t *testing.T, name string, least int64, call func(ctx context.Context) error) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	whole := &Countdown{Context: t.Context(), Left: 1 << 40}
	require.NoError(t, call(whole), name)
	all := whole.Asked.Load()
	require.GreaterOrEqual(t, all, least, name)
	for range 5 {
		ctx := &Countdown{Context: t.Context(), Left: rng.Int64N(all)}
		require.ErrorIs(t, call(ctx), context.Canceled, name)
		require.LessOrEqual(t, ctx.Asked.Load(), ctx.Left+16, "%s of %d", name, all)
	}
}

// NoGoroutines tests that call starts no goroutine if there is one processor.
func NoGoroutines(t *testing.T, call func()) {
	t.Helper()
	testref.Procs(t, 1)
	runtime.GC() // the first collection starts goroutines of its own
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(created)
	before := created[0].Value.Uint64()
	call()
	metrics.Read(created)
	require.Equal(t, before, created[0].Value.Uint64())
}
