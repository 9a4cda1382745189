package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"
)

// Limits bound what a server does. Zero values mean the defaults.
type Limits struct {
	Running int      // requests that are computed at a time; default GOMAXPROCS
	Waiting int      // requests that wait for it, with their whole bodies; default 128
	Hosts   []string // names, beside localhost and addresses, that the Host header may have

	// Failed is told of a request that panicked; nil for nobody.
	Failed func(what string)
}

const (
	headerTime  = 5 * time.Second  // to read the header of a request
	readTime    = 20 * time.Second // to read all of it, where no body is expected
	computeTime = 30 * time.Second // to answer it, once it was read
	writeTime   = 2 * time.Minute  // from the header's end to the last byte of the answer
	idleTime    = 2 * time.Minute  // between requests of a connection
	stopTime    = 15 * time.Second // to answer running requests when the server stops
	headerBytes = 16 << 10         // of the header of a request
	bodyBytes   = 8 << 20          // of its body
)

// A Server answers over HTTP. Until Ready it answers only the paths of health and
// metrics, and 503 elsewhere.
type Server struct {
	limits  Limits
	service atomic.Pointer[Service]
	gate    *gate
	bodies  *bodies
	counts  *counts
	handler http.Handler
}

// NewServer returns a server of nothing yet.
func NewServer(l *Limits) *Server {
	s := &Server{limits: *l, counts: newCounts(), bodies: newBodies()}
	if s.limits.Running == 0 {
		s.limits.Running = runtime.GOMAXPROCS(0)
	}
	if s.limits.Waiting == 0 {
		s.limits.Waiting = 128
	}
	s.gate = &gate{running: make(chan struct{}, s.limits.Running), most: int64(s.limits.Running + s.limits.Waiting)}
	s.handler = s.guarded(s.routes())
	return s
}

// Ready lets the server answer by a service.
func (s *Server) Ready(service *Service) { s.service.Store(service) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests until ctx is done. Then it takes no more, and returns once those
// that run are answered, or after 15 seconds.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerBytes, DisableGeneralOptionsHandler: true, ErrorLog: s.log()}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	s.service.Store(nil)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return errors.Join(fmt.Errorf("serve: some requests were still running %v after the server was told to stop", stopTime), server.Close())
	}
	return nil
}

// A gate lets some requests be computed at a time, and some more wait.
type gate struct {
	running chan struct{}
	inside  atomic.Int64 // that wait or run
	most    int64
}

// admit lets a request in, or refuses it where too many are inside already.
func (g *gate) admit() (leave func(), err error) {
	if g.inside.Add(1) > g.most {
		g.inside.Add(-1)
		r := refusef(http.StatusServiceUnavailable, "busy", "%d requests are waiting or running, and no more are taken; try again in a second", g.most)
		r.wait = 1
		return nil, r
	}
	return func() { g.inside.Add(-1) }, nil
}

// turn waits until the request may be computed.
func (g *gate) turn(ctx context.Context) (end func(), err error) {
	select {
	case g.running <- struct{}{}:
		return func() { <-g.running }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
