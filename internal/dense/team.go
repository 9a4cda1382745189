package dense

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// workersFor returns the number of goroutines that pay for the given work in multiplications: limit 1 is one, and
// limit 0 is at most GOMAXPROCS.
func workersFor(work float64, limit int) int {
	if limit == 1 || work < 2*grain {
		return 1
	}
	if limit == 0 {
		limit = runtime.GOMAXPROCS(0)
	}
	return int(min(work/grain, float64(limit)))
}

// team computes one block on several goroutines. They take packing tasks until none is left, wait until all packing
// is done, and then take tiles. Each tile is computed by one worker, and does not depend on other tiles.
type team struct {
	block
	nextPack, nextTile atomic.Int64
	packing, tiling    sync.WaitGroup
}

func newTeam(b *block) *team { return &team{block: *b} }

// run works on the caller's goroutine and workers−1 others, and returns when the last tile is done. A goroutine
// that starts later finds nothing to do.
func (t *team) run(workers int) {
	t.packing.Add(t.packs())
	t.tiling.Add(t.tiles())
	for range workers - 1 {
		go t.work()
	}
	t.work()
	t.tiling.Wait()
}

func (t *team) work() {
	take(&t.nextPack, t.packs(), func(i int) {
		t.pack(i)
		t.packing.Done()
	})
	t.packing.Wait()
	take(&t.nextTile, t.tiles(), func(i int) {
		t.tile(i)
		t.tiling.Done()
	})
}

// take calls f with numbers below n, until all of them are taken. Goroutines that share next take each number once.
func take(next *atomic.Int64, n int, f func(int)) {
	for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
		f(i)
	}
}

// share calls f(i) for i = 0 … n−1 on several goroutines.
func share(n, workers int, f func(int)) {
	var (
		next atomic.Int64
		left sync.WaitGroup
	)
	left.Add(n)
	work := func() {
		take(&next, n, func(i int) {
			f(i)
			left.Done()
		})
	}
	for range workers - 1 {
		go work()
	}
	work()
	left.Wait()
}

// parallel solves for all panels of X on several goroutines.
func (d diagonal) parallel(panels, workers int) { share(panels, workers, d.panel) }

// parallel computes column j of the factor on several goroutines.
func (p pivoting) parallel(j int, scale float64, workers int) {
	share((p.n-j-1+pivotRows-1)/pivotRows, workers, func(i int) {
		lo := j + 1 + i*pivotRows
		p.rows(j, lo, min(lo+pivotRows, p.n), scale)
	})
}
