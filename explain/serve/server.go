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
	Waiting int      // requests that wait for it, with their whole bodies; default 128
	Version string   // of the program, as /v1/version and /v1/model show it; default funcgp
	Command []string // arguments of the program, from which pages have its command line; nil for none
	Token   string   // that every request must have as its bearer token; "" for none
	Python  bool     // refusals name arguments of the package of Python in place of flags and members
	// Failed is told of a request that panicked; nil for nobody.
	Failed func(what string)
	// Decisions gets a line of JSON for each answer of /v1/predict and /v1/explain, in one Write before the answer is
	// given: a result.Record with the date, and path, the rows as they were scored, and the answer. After an
	// error of Write the answer is not given. nil logs nothing.
	Decisions io.Writer
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

// Handler returns a Server that answers by a posterior. The options may be nil.
func Handler(ctx context.Context, p *funcgp.Posterior, o *Options) (http.Handler, error) {
	s := NewServer(o)
	return s, s.Ready(ctx, p)
}

// NewServer returns a server of nothing yet. The options may be nil.
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

// Ready lets the server answer by a posterior, once what does not depend on a request is computed. Requests that
// begin later have it, and those under way end with the one before, whose Close waits for them.
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
		v.tests = nil // there is none, or none of these classes
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

// Serve lets an HTTP server, whose handler the caller sets, answer on l until ctx is done. Then it takes no more
// requests, and returns once those that run are answered, or after 15 seconds. It sets the server's bounds on slow
// clients.
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
	<-stopped // l is closed, also where the server was told to stop before it had begun
	return nil
}

// A gate lets some requests be computed at a time, and some more wait.
type gate struct {
	running chan struct{}
	inside  atomic.Int64 // that wait or run
	most    int64
}
