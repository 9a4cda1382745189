package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/funcgp/funcgp"
)

// Options are the options of a Server. Zero values mean the defaults.
type Options struct {
	Hosts   []string // names, beside localhost and addresses, that the Host header may have; "*" is any
	Running int      // requests that are computed at a time; default GOMAXPROCS
	Waiting int      // requests that wait for their turn, with their whole bodies in memory; default 128
	Version string   // version of the program, as /v1/version and /v1/model show it; default funcgp
	Command []string // arguments of the program, from which pages show its command line; nil for none
	Token   string   // that every request must have as its bearer token; "" for none
	Python  bool     // whether refusals name arguments of the Python package in place of members
	// Failed, if not nil, is called with a description of each request whose handler panicked.
	Failed func(what string)
	// Decisions gets a line of JSON for each answer of /v1/predict and /v1/explain, in one Write before the answer is
	// given: a result.Record with the date, the path, the rows as they were scored, and the answer. If Write returns
	// an error, the answer is not given. nil logs nothing.
	Decisions io.Writer
}

const (
	headerTime  = 5 * time.Second  // to read the header of a request
	readTime    = 20 * time.Second // to read all of a request without a body
	computeTime = 30 * time.Second // to compute the answer of a request that was read
	writeTime   = 2 * time.Minute  // from the end of the header to the last byte of the answer
	idleTime    = 2 * time.Minute  // between requests of a connection
	stopTime    = 15 * time.Second // to answer running requests when the server stops
	headerBytes = 16 << 10         // largest header of a request
	bodyBytes   = 8 << 20          // largest body of a request
)

// A Server answers over HTTP. It may be mounted at any path by http.StripPrefix. Until Ready, and after the posterior is
// closed, it answers only the page and the paths of health and metrics, and 503 elsewhere.
type Server struct {
	options Options
	service atomic.Pointer[service]
	gate    *gate
	bodies  *bodies
	counts  *counts
	log     *decisions // nil where answers are not logged
	handler http.Handler
}

// Handler returns a Server that answers questions about a posterior. The options may be nil.
func Handler(ctx context.Context, p *funcgp.Posterior, o *Options) (http.Handler, error) {
	s := NewServer(o)
	return s, s.Ready(ctx, p)
}

// NewServer returns a server that has no posterior yet; see Ready. The options may be nil.
func NewServer(o *Options) *Server {
	if o == nil {
		o = &Options{}
	}
	b := &bodies{large: make(chan []byte, mostLarge)}
	for range mostLarge {
		b.large <- nil
	}
	s := &Server{options: *o, counts: &counts{requests: map[answered]int64{}, times: map[string]*histogram{}}, bodies: b}
	if o.Decisions != nil {
		s.log = &decisions{out: o.Decisions}
	}
	s.options.Running = cmp.Or(o.Running, runtime.GOMAXPROCS(0))
	s.options.Waiting = cmp.Or(o.Waiting, 128)
	s.options.Version = cmp.Or(o.Version, "funcgp")
	s.gate = &gate{running: make(chan struct{}, s.options.Running), most: int64(s.options.Running + s.options.Waiting)}
	s.handler = s.guarded(s.routes())
	return s
}

// Ready computes what does not depend on a request and then makes the server answer from this posterior. Later
// requests use it. Requests under way finish with the previous posterior, whose Close waits for them.
func (s *Server) Ready(ctx context.Context, posterior *funcgp.Posterior) error {
	release, err := posterior.Hold()
	if err != nil {
		return err
	}
	defer release()
	v := &service{front: posterior, command: s.options.Command, info: posterior.Info(), version: s.options.Version, warnings: posterior.Warnings(), outputs: posterior.OutputNames(), position: map[int]int{}, most: mostTerms}
	rows, err := posterior.TrainingRows(ctx)
	if err != nil {
		return err
	}
	for i := range rows.Len() {
		v.position[rows.Index(i)] = i
	}
	v.refits = v.info.Method == "exact" || v.info.Method == "kept"
	if v.tests, err = posterior.TestRows(ctx); err != nil {
		v.tests = nil // there are no test rows, or they have other classes
	}
	if s.options.Decisions != nil {
		if v.record, err = posterior.Record(ctx); err != nil {
			return err
		}
		v.record.Version = s.options.Version
	}
	if v.dark, err = posterior.Dark(ctx); err != nil {
		return err
	}
	prepared, err := posterior.Prepare(ctx)
	if err != nil {
		return err
	}
	if !prepared {
		v.most, v.serial = defaultTerms, new(sync.Mutex)
	}
	s.service.Store(v)
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve lets an HTTP server, whose handler the caller sets, answer on l until ctx is done. Then it accepts no more
// requests, and returns when the running ones are answered, or after 15 seconds. It sets the server's timeouts
// against slow clients.
func Serve(ctx context.Context, server *http.Server, l net.Listener) error {
	server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = headerTime, readTime, writeTime, idleTime
	server.MaxHeaderBytes, server.DisableGeneralOptionsHandler = headerBytes, true
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return errors.Join(fmt.Errorf("serve: some requests were still running %v after the server was told to stop", stopTime), server.Close())
	}
	<-stopped // l is closed now, even if Shutdown was called before Serve had begun
	return nil
}

// A gate bounds how many requests are computed at a time, and how many wait.
type gate struct {
	running chan struct{}
	inside  atomic.Int64 // number of requests that wait or run
	most    int64
}
