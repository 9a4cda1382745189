package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// Bounds of all bodies together. A client that is slow can hold up others only until it is
// the one that has been read the longest among as many as may be.
const (
	smallBody  = 64 << 10         // bytes of a body that needs no large buffer
	mostRead   = 256              // bodies that are read at a time
	mostLarge  = 4                // of these, with all that wait or run, that have large buffers
	bodyGrace  = 5 * time.Second  // after which a body must have come at bodyRate
	bodyRate   = 256 << 10        // bytes a second
	bufferTime = 10 * time.Second // that a body waits for a large buffer
)

// bodies reads the bodies of requests into memory that is bounded whatever clients send:
// mostRead small bodies and mostLarge large ones. A larger body than a small one is not
// read on, so that its client has to wait, until a large buffer is free. A body that comes
// more slowly than bodyRate is refused. Where mostRead are read, another one ends the
// oldest of them: an honest client sends its body as soon as it can, and is never the
// oldest for long.
type bodies struct {
	large chan []byte // the large buffers that are free; those not made yet are nil

	mutex  sync.Mutex
	unread []*unread // from the oldest on
}

// An unread is a body that is being read.
type unread struct {
	end func() // ends its reading
}

// reading is the number of bodies that are read.
func (b *bodies) reading() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.unread)
}

// leave takes a body away, after which nobody calls its end.
func (b *bodies) leave(u *unread) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if at := slices.Index(b.unread, u); at >= 0 {
		b.unread = slices.Delete(b.unread, at, at+1)
	}
}

// errCrowded is why the reading of the oldest body was ended.
var errCrowded = fmt.Errorf("%d other requests are sent at the same time, all of them later; send it faster, or again in a second", mostRead)

// read reads the body of a request. It belongs to the caller until release is called.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	tooLarge := refusef(http.StatusRequestEntityTooLarge, "too_large", "the request has more than %d bytes; send a smaller one", bodyBytes)
	if r.ContentLength > bodyBytes {
		return nil, nil, tooLarge
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A writer that is no connection has no deadline, and its body is there already.
	limit := http.NewResponseController(w)
	u := &unread{end: func() {
		cancel(errCrowded)
		_ = limit.SetReadDeadline(time.Now())
	}}
	// Enter it in the list of bodies that are read.
	b.mutex.Lock()
	if len(b.unread) == mostRead {
		b.unread[0].end()
		b.unread = slices.Delete(b.unread, 0, 1)
	}
	b.unread = append(b.unread, u)
	b.mutex.Unlock()
	defer b.leave(u)

	release = func() {}
	began := time.Now()
	for buffer := make([]byte, 0, min(max(r.ContentLength+1, 512), smallBody)); ; {
		if len(buffer) == cap(buffer) && cap(buffer) < smallBody {
			buffer = append(make([]byte, 0, min(2*cap(buffer), smallBody)), buffer...)
		}
		if len(buffer) == cap(buffer) {
			if len(buffer) > bodyBytes {
				release()
				return nil, nil, tooLarge
			}
			waited := time.Now()
			large, err := b.buffer(ctx)
			if err != nil {
				return nil, nil, err
			}
			release = func() { b.large <- large }
			buffer = append(large[:0], buffer...)
			began = began.Add(time.Since(waited))
		}
		_ = limit.SetReadDeadline(began.Add(bodyGrace + time.Duration(len(buffer))*time.Second/bodyRate))
		if ctx.Err() != nil { // ended before this deadline was set
			_ = limit.SetReadDeadline(time.Now())
		}
		n, err := r.Body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err == io.EOF {
			b.leave(u) // so that nobody ends it any more
			_ = limit.SetReadDeadline(time.Time{})
			return buffer, release, nil
		}
		if err != nil {
			release()
			return nil, nil, unreadable(ctx, err)
		}
	}
}

// buffer waits for a large buffer.
func (b *bodies) buffer(ctx context.Context) ([]byte, error) {
	wait := time.NewTimer(bufferTime)
	defer wait.Stop()
	select {
	case large := <-b.large:
		if large == nil {
			large = make([]byte, 0, bodyBytes+1)
		}
		return large, nil
	case <-ctx.Done():
		return nil, unreadable(ctx, ctx.Err())
	case <-wait.C:
		r := refusef(http.StatusServiceUnavailable, "busy", "%d other large requests are sent or wait; try again in a second", mostLarge)
		r.wait = 1
		return nil, r
	}
}

// unreadable says why a body was not read to its end.
func unreadable(ctx context.Context, err error) *refusal {
	switch {
	case context.Cause(ctx) == errCrowded:
		r := refuse(http.StatusServiceUnavailable, "busy", errCrowded)
		r.wait = 1
		return r
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusef(http.StatusRequestTimeout, "slow_body", "the request came more slowly than %d bytes a second; send it faster, or send less", bodyRate)
	}
	return refusef(http.StatusBadRequest, "cut_off", "the request could not be read to its end: %w", err)
}
