package par

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryTileOnce checks that each tile runs once, whatever the workers, and
// that a worker's number is below their count.
func TestEveryTileOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 100} {
		for _, n := range []int{0, 1, 2, 50} {
			ran := make([]atomic.Int32, n)
			require.NoError(t, DoWorker(t.Context(), workers, n, func(w, i int) error {
				require.Less(t, w, workers)
				ran[i].Add(1)
				return nil
			}))
			for i := range ran {
				require.EqualValues(t, 1, ran[i].Load())
			}
		}
	}
}

// TestFirstErrorWins checks that of the tiles that fail the one with the
// lowest number is reported, and that no further tiles start.
func TestFirstErrorWins(t *testing.T) {
	boom := errors.New("boom")
	var ran atomic.Int32
	err := DoWorker(t.Context(), 1, 100, func(_, i int) error {
		ran.Add(1)
		if i == 3 {
			return boom
		}
		return nil
	})
	require.ErrorIs(t, err, boom)
	require.EqualValues(t, 4, ran.Load())
	low, high := errors.New("low"), errors.New("high")
	both := make(chan struct{})
	err = DoWorker(t.Context(), 2, 2, func(_, i int) error {
		if i == 0 {
			<-both // fails after tile 1 did
			return low
		}
		close(both)
		return high
	})
	require.ErrorIs(t, err, low)
}

// TestPanic checks that a panic arrives on the goroutine that called, with what and where, for any number of workers.
func TestPanic(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		func() {
			defer func() { require.Contains(t, recover(), "boom") }()
			_ = DoWorker(t.Context(), workers, 20, func(_, i int) error {
				if i == 13 {
					panic("boom")
				}
				return nil
			})
		}()
	}
}

// TestCancelStops checks that a cancelled context ends the work.
func TestCancelStops(t *testing.T) {
	for _, workers := range []int{1, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		var ran atomic.Int32
		err := DoWorker(ctx, workers, 1000, func(_, i int) error {
			switch k := ran.Add(1); {
			case k == 5:
				cancel()
			case k > 5: // a tile that was started before the cancel was seen
				<-ctx.Done()
			}
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, ran.Load(), int32(10))
	}
}

func TestTiles(t *testing.T) {
	require.Equal(t, 0, Tiles(0, 4))
	require.Equal(t, 3, Tiles(9, 4))
	lo, hi := Bounds(2, 9, 4)
	require.Equal(t, []int{8, 9}, []int{lo, hi})
}
