package dataset

import (
	"bufio"
	"context"
	"io"
	"sync"
)

// arriving are the images of an IDX file that is decompressed while the program goes on. Whoever
// wants a row waits until it has come. The last rows come when the whole file has been found
// to be sound.
type arriving struct {
	rows, rowBytes int
	tile           int // rows of a chunk

	mu     sync.Mutex
	more   *sync.Cond
	chunks [][]byte // each of tile rows, but the last
	ended  bool
	err    error
}

var _ pixels = (*arriving)(nil)

// arrivingBytes is about the size of a chunk.
const arrivingBytes = 1 << 20

// read takes all chunks from b.
func (a *arriving) read(b *bufio.Reader, path string, rank int) error {
	for lo := 0; lo < a.rows; lo += a.tile {
		chunk := make([]byte, min(a.tile, a.rows-lo)*a.rowBytes)
		n, err := io.ReadFull(b, chunk)
		if err != nil {
			return bodyError(path, rank, a.rowBytes, a.rows, lo*a.rowBytes+n, err)
		}
		if lo+a.tile >= a.rows {
			if err := endError(b, path, rank, a.rowBytes, a.rows); err != nil {
				return err
			}
		}
		a.mu.Lock()
		a.chunks = append(a.chunks, chunk)
		a.more.Broadcast()
		a.mu.Unlock()
	}
	return nil
}

// imageTo implements pixels. Rows are waited for before, where an error has a place to go.
func (a *arriving) imageTo(dst []byte, pos int) {
	a.mu.Lock()
	var chunk []byte
	if i := pos / a.tile; i < len(a.chunks) {
		chunk = a.chunks[i]
	}
	a.mu.Unlock()
	if chunk == nil {
		panic("dataset: an image that has not been read")
	}
	at := pos % a.tile * a.rowBytes
	copy(dst, chunk[at:at+a.rowBytes])
}

// wait waits until the inputs at these positions are there; nil is all.
func (s *Set) wait(ctx context.Context, pos []int) error {
	a, ok := s.px.(*arriving)
	if !ok {
		return nil
	}
	last := a.rows
	if pos != nil {
		last = 0
		for _, p := range pos {
			last = max(last, p)
		}
	}
	i, there := last/a.tile, last < a.rows // else the end of the file is waited for
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.more.Broadcast()
	})
	defer stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !(there && i < len(a.chunks)) && !a.ended && ctx.Err() == nil {
		a.more.Wait()
	}
	switch {
	case there && i < len(a.chunks):
		return nil
	case a.ended:
		return a.err
	}
	return ctx.Err()
}

// Complete waits until all files have been read, and says what is wrong with them: see
// OpenOptions.Beside.
func (d *Data) Complete(ctx context.Context) error {
	for _, s := range d.parts() {
		if err := s.wait(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
