package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// An owner is the program that a server works for, which need not outlive it.
type owner struct {
	parent int           // its process, the parent of this one; 0 for none
	idle   time.Duration // after which a server ends that nobody asks; 0 for none
}

// errUnneeded is the reason why a server ends that nobody needs any more.
var errUnneeded = errors.New("nobody needs the server any more")

// needed returns a context that ends with ctx, or when nobody needs the server any more. That is so when the
// server has another parent process; when the parent has closed the standard input and no request is under way;
// or when there was no request for a long time. A process whose parent ends gets another parent, which in a
// container may have any number. On Windows the number of the parent does not change, so there it tells
// nothing.
func (o *owner) needed(ctx context.Context, asked *tally) (needed context.Context, end func()) {
	needed, cancel := context.WithCancelCause(ctx)
	var input chan struct{} // closed at the end of the standard input
	if o.parent != 0 {
		// Who reads what this process says may be gone, which is no reason to end without order.
		signal.Ignore(syscall.SIGPIPE)
		if info, err := os.Stdin.Stat(); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
			input = make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
				close(input)
			}()
		}
	}
	go func() {
		closed, tick := input, time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			gone := o.parent != 0 && runtime.GOOS != "windows" && os.Getppid() != o.parent
			quiet, ready := asked.quiet()
			if gone || input != nil && closed == nil && quiet >= 0 || o.idle > 0 && ready && quiet >= o.idle {
				cancel(errUnneeded)
			}
			select {
			case <-needed.Done():
				return
			case <-closed:
				closed = nil
			case <-tick.C:
			}
		}
	}()
	return needed, func() { cancel(nil) }
}

// A tally counts the requests under way to a handler.
type tally struct {
	http.Handler

	mutex    sync.Mutex
	underway int
	ready    bool
	last     time.Time // when it was ready, or the last request ended
}

// ServeHTTP implements http.Handler.
func (t *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.add(1)
	defer t.add(-1)
	t.Handler.ServeHTTP(w, r)
}

func (t *tally) add(n int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.underway += n
	t.last = time.Now()
}

// begin records that the handler is ready to answer.
func (t *tally) begin() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.ready, t.last = true, time.Now()
}

// quiet returns for how long no request has been under way, which is negative if one is, and whether the
// handler is ready.
func (t *tally) quiet() (time.Duration, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.underway > 0 {
		return -1, t.ready
	}
	return time.Since(t.last), t.ready
}
