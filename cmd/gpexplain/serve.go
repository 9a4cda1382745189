package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/serve"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

type serveVerb struct {
	common    problem.Flags
	posterior inference.Flags

	calibrate string

	addr, socket, decisions string
	hosts                   []string
}

func serveCommand(con *console.Console) *cobra.Command {
	s := &serveVerb{}
	v := &verb{
		name:  "serve",
		short: "Answer predictions and explanations over HTTP, with a page to try them on",
		long: `Serve fits or loads a posterior once, and then answers over HTTP: a page on which
to choose a test row, draw a digit or upload a picture or a table, with the
training examples that speak for and against the prediction, which can be taken
out; and a JSON API, /v1/predict and /v1/explain, which /openapi.json describes.
There are /metrics for Prometheus, /healthz and /readyz.

It listens on this machine alone, unless --addr says otherwise: it asks nobody who
they are, and whoever reaches it can see the training examples. A Unix socket of
--socket is its user's alone. --decisions keeps what was answered, when, of which rows and
by which files: an answer that cannot be written there is not given. SIGINT (Ctrl-C) or
SIGTERM ends it once running requests are answered, with exit status 0.`,
		example: `  gpexplain serve
  gpexplain serve --addr 127.0.0.1:0 --train-count 500`,
		flags: s.add, check: s.check, run: s.run,
		rules: []flags.Rule{
			flags.Apart(": both say where to listen", "addr", "socket"),
		},
	}
	return v.command(con, &s.common)
}

func (s *serveVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "listen on this `HOST:PORT`; port 0 takes a free one, which is said")
	f.StringVar(&s.socket, "socket", "", "listen on a Unix socket at `PATH`, which nobody else may use, in place of --addr")
	f.StringVar(&s.decisions, "decisions", "", "append a line of JSON to `FILE` for each answer before it is given")
	f.StringSliceVar(&s.hosts, "host", nil, "`NAMES`, beside localhost and addresses, by which pages and programs ask for this server; * is any")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Tune(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
	flags.Calibration(c, &s.calibrate)
}

func (s *serveVerb) check(c *cobra.Command) error {
	if _, port, err := net.SplitHostPort(s.addr); err != nil || port == "" {
		return job.Usagef("--addr %q must be a host and a port, such as 127.0.0.1:8080", s.addr)
	}
	return console.Distinct([]job.FlagPath{{Flag: "--decisions", Path: s.decisions}}, append(s.common.Files(), job.FlagPath{Flag: "--posterior", Path: s.posterior.File}))
}

func (s *serveVerb) run(ctx context.Context, c *console.Console) error {
	o := &serve.Options{Hosts: s.hosts, Version: "gpexplain " + programVersion(), Failed: func(what string) { fmt.Fprintln(c.Stderr, "gpexplain: a bug ended a request:", what) }}
	if s.decisions != "" {
		f, err := os.OpenFile(s.decisions, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("--decisions %s: %w; give another file", s.decisions, job.CauseOf(err))
		}
		defer f.Close()
		o.Decisions = f
	}
	// The address is taken before long work, which it could be in vain.
	l, err := s.listen(ctx)
	if err != nil {
		return err
	}
	if s.socket != "" {
		o.Hosts = []string{"*"} // which no page of another site can reach
	}
	// Warn where other machines may reach the server.
	addr := l.Addr()
	if a, ok := addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintf(c.Stderr, "gpexplain: warning: %s can be reached from other machines; gpexplain asks nobody who they are, and shows whoever asks the training examples\n", addr)
	}
	server := serve.NewServer(o)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		// net/http tells its log of connections that break off.
		ended <- serve.Serve(listening, &http.Server{Handler: server, ErrorLog: log.New(io.Discard, "", 0)}, l)
	}()
	p, err := s.posteriorOf(ctx, c)
	if err == nil {
		err = server.Ready(ctx, p)
	}
	if err == nil {
		err = s.announce(c, l.Addr())
	}
	if err != nil {
		stop()
		<-ended
		return err
	}
	return <-ended
}

// listen takes the address or the socket.
func (s *serveVerb) listen(ctx context.Context) (net.Listener, error) {
	if s.socket == "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.addr)
		if err != nil {
			return nil, fmt.Errorf("--addr %s: %w; give another one", s.addr, cause(err))
		}
		return l, nil
	}
	l, err := listenSocket(ctx, s.socket)
	if err != nil {
		return nil, fmt.Errorf("--socket %s: %w; give another path", s.socket, cause(err))
	}
	return l, nil
}

// listenSocket listens on a Unix socket that its user alone may use. It is made in a folder of its own, so that nobody
// reaches it before, and takes the place of a socket on which nobody listens. Close removes it.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, errors.New("there is a file that is no socket")
		}
		if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			_ = c.Close() // nothing was asked
			return nil, errors.New("another program listens there")
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, job.CauseOf(err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(job.CauseOf(err), l.Close())
	}
	is, err := os.Lstat(path)
	return &socket{l, path, is}, err
}

// A socket is a listener on a Unix socket.
type socket struct {
	net.Listener
	path string
	is   os.FileInfo
}

// Close implements net.Listener: it removes the socket, unless another is there by now.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(s.is, now) {
		_ = os.Remove(s.path) // whoever asks finds nobody there
	}
	return s.Listener.Close()
}

// cause is an error of package net without the address, which the message has.
func cause(err error) error {
	if op, ok := err.(*net.OpError); ok {
		return op.Err
	}
	return err
}

// announce says where the page is, once it can be asked for.
func (s *serveVerb) announce(c *console.Console, addr net.Addr) error {
	what, name, at := "", "url", fmt.Sprintf("http://%s/", addr)
	if s.socket != "" {
		what, name, at = "the socket ", "socket", s.socket
	}
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(map[string]string{"schema": "funcgp/serve/1", name: at})
	}
	_, err := fmt.Fprintf(c.Out, "gpexplain answers at %s%s; Ctrl-C ends it\n", what, at)
	return err
}

// posteriorOf fits or loads the posterior.
func (s *serveVerb) posteriorOf(ctx context.Context, c *console.Console) (*funcgp.Posterior, error) {
	s.common.Data.InMemory = true
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return nil, err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, s.calibrate)
	if err != nil {
		return nil, err
	}
	return inference.Front(c.Job, p, q).(*funcgp.Posterior), nil
}
