// Package par runs independent tiles of work on several goroutines.
//
// A tile writes only to its own part of the result, and callers add sums over tiles in the order of the tiles.
// Results are therefore the same bit for bit for any number of workers.
package par

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Do calls tile(i) once for each i from 0 to n−1 on at most GOMAXPROCS goroutines, and returns when all are done. If
// ctx is done or a tile fails, it starts no more tiles. It returns the error of the failed tile with the lowest
// number, or ctx.Err(). A panic of a tile is one of Do.
func Do(ctx context.Context, n int, tile func(i int) error) error {
	return DoWorker(ctx, runtime.GOMAXPROCS(0), n, func(_, i int) error { return tile(i) })
}

// DoWorker is Do on at most workers goroutines, for tiles that need scratch memory: it passes the worker's number w,
// 0 ≤ w < workers, to the tile.
func DoWorker(ctx context.Context, workers, n int, tile func(w, i int) error) error {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := tile(0, i); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		first  error
		failed = n
		stop   atomic.Bool
		bug    atomic.Pointer[string] // what panicked, and where
	)
	work := func(w int) {
		defer func() {
			if v := recover(); v != nil {
				says := fmt.Sprintf("%v\n%s", v, debug.Stack())
				bug.CompareAndSwap(nil, &says)
				stop.Store(true)
			}
		}()
		for !stop.Load() && ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := tile(w, i); err != nil {
				mu.Lock()
				if i < failed {
					first, failed = err, i
				}
				mu.Unlock()
				stop.Store(true)
			}
		}
	}
	for w := 1; w < workers; w++ {
		wg.Go(func() { work(w) })
	}
	work(0) // which for little work ends before the others begin
	wg.Wait()
	if says := bug.Load(); says != nil {
		panic(*says)
	}
	if first != nil {
		return first
	}
	return ctx.Err()
}

// Tiles returns the number of tiles of the given size that cover n items.
func Tiles(n, size int) int { return (n + size - 1) / size }

// Bounds returns the items of tile i: lo to hi−1, for tiles of the given size over n items.
func Bounds(i, n, size int) (lo, hi int) { return i * size, min((i+1)*size, n) }
