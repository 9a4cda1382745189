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

// Bounds on all bodies together. A slow client delays others only until its body is the oldest of
// the mostRead bodies that are being read.
const (
	smallBody  = 64 << 10         // bytes of a body that needs no large buffer
	mostRead   = 256              // bodies that are being read at a time
	mostLarge  = 4                // large buffers, of bodies being read and of requests that wait or run
	bodyGrace  = 5 * time.Second  // time before bodyRate is demanded of a body
	bodyRate   = 256 << 10        // bytes a second that a body must arrive with
	bufferTime = 10 * time.Second // longest time that a body waits for a large buffer
)

// bodies reads the bodies of requests. Its memory is bounded whatever clients send: mostRead small
// bodies and mostLarge large ones. Reading of a body that is larger than smallBody pauses until a
// large buffer is free. A body that arrives more slowly than bodyRate is refused. If mostRead
// bodies are being read, a new one ends the oldest: an honest client sends its body as fast as it
// can, and is never the oldest for long.
type bodies struct {
	large chan []byte // free large buffers; nil if not allocated yet

	mutex  sync.Mutex
	unread []*unread // the oldest first
}

// An unread is a body that is being read.
type unread struct {
	end func() // ends its reading
}

// reading returns the number of bodies that are being read.
func (b *bodies) reading() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.unread)
}

// leave removes a body from the list. Its end is not called afterwards.
func (b *bodies) leave(u *unread) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if at := slices.Index(b.unread, u); at >= 0 {
		b.unread = slices.Delete(b.unread, at, at+1)
	}
}

// errCrowded is the error of a body whose reading ended because it was the oldest of too many.
var errCrowded = fmt.Errorf("%d other requests are sent at the same time, all of them later; send it faster, or again in a second", mostRead)

// read reads the body of a request. The body belongs to the caller until release is called.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	tooLarge := refusef(http.StatusRequestEntityTooLarge, "too_large", "the request has more than %d bytes; send a smaller one", bodyBytes)
	if r.ContentLength > bodyBytes {
		return nil, nil, tooLarge
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A writer without a connection, as in tests, supports no deadline; its body is in memory already.
	limit := http.NewResponseController(w)
	u := &unread{end: func() {
		cancel(errCrowded)
		_ = limit.SetReadDeadline(time.Now())
	}}
	// Add the body to the list of bodies that are being read.
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
		if ctx.Err() != nil { // another body called end before this deadline was set
			_ = limit.SetReadDeadline(time.Now())
		}
		n, err := r.Body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err == io.EOF {
			b.leave(u) // from here on no other body ends this one
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
