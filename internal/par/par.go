// Package par runs independent tiles of work on several goroutines.
//
// A tile writes only to its own part of the result, so the result does not
// depend on which worker runs it or on how many there are: every caller in
// funcgp is bit-identical for any GOMAXPROCS. Sums over tiles are the
// caller's to take, in tile order.
package par

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Workers returns n when it is positive and GOMAXPROCS otherwise.
func Workers(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// Do calls tile(i) once for each i in [0, n) on at most workers goroutines
// (workers ≤ 0 means GOMAXPROCS) and returns when all are done. It stops
// handing out tiles when ctx is done or a tile fails, and returns the error
// of the lowest-numbered tile that failed, or ctx.Err().
func Do(ctx context.Context, workers, n int, tile func(i int) error) error {
	return DoWorker(ctx, workers, n, func(_, i int) error { return tile(i) })
}

// DoWorker is Do with the worker's number, 0 ≤ w < Workers(workers), passed
// to the tile so that it can use scratch memory of its own.
func DoWorker(ctx context.Context, workers, n int, tile func(w, i int) error) error {
	workers = min(Workers(workers), n)
	if workers <= 1 {
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
	)
	for w := range workers {
		wg.Go(func() {
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
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// Tiles returns how many tiles of the given size cover n items.
func Tiles(n, size int) int { return (n + size - 1) / size }

// Bounds returns the half-open range of tile i of the given size over n items.
func Bounds(i, n, size int) (lo, hi int) { return i * size, min((i+1)*size, n) }
