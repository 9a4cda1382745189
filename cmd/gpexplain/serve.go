package main

import (
	"context"
	"crypto/rand"
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
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

type serveVerb struct {
	common flags.Common

	addr, socket, portFile, decisions string
	hosts                             []string
	owner                             owner
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
SIGTERM ends it once running requests are answered, with exit status 0, and so does SIGHUP, but
for a server with --decisions and without a terminal, which opens that file again.

A program that starts it as its own process gives --parent-pid, so that the server does not
outlive it, and --socket, or where there are no Unix sockets --addr 127.0.0.1:0 with
--port-file, which tells it the port and a token without which nobody else is answered.`,
		example: `  gpexplain serve
  gpexplain serve --addr 127.0.0.1:0 --train-count 500`,
		flags: s.add, check: s.check, run: s.run, writes: []string{"port-file"},
		rules: []flags.Rule{
			flags.Apart(": both say where to listen", "addr", "socket"),
			flags.Apart(": a socket has no port, and is its user's alone", "port-file", "socket"),
			flags.AtLeast(1, "parent-pid"),
		},
	}
	return v.command(con, &s.common)
}

func (s *serveVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "listen on this `HOST:PORT`; port 0 takes a free one, which is said")
	f.StringVar(&s.socket, "socket", "", "listen on a Unix socket at `PATH`, which nobody else may use, in place of --addr")
	f.StringVar(&s.portFile, "port-file", "", "write to `FILE` the address and a token as JSON, once the server listens, and answer only requests with that token")
	f.IntVar(&s.owner.parent, "parent-pid", 0, "end as soon as process `N`, which started this one, is gone or closes the standard input, where that is a pipe")
	f.DurationVar(&s.owner.idle, "idle-timeout", 0, "end after `TIME`, such as 10m, without a request")
	f.StringVar(&s.decisions, "decisions", "", "append a line of JSON to `FILE` for each answer before it is given")
	f.StringSliceVar(&s.hosts, "host", nil, "`NAMES`, beside localhost and addresses, by which pages and programs ask for this server; * is any")
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior", "calibrate")
}

func (s *serveVerb) check(c *cobra.Command) error {
	if _, port, err := net.SplitHostPort(s.addr); err != nil || port == "" {
		return job.Usagef("{addr} %q must be a host and a port, such as 127.0.0.1:8080", s.addr)
	}
	if s.owner.idle < 0 || c.Flags().Changed("idle-timeout") && s.owner.idle == 0 {
		return job.Usagef("{idle-timeout=%v} must be above 0", s.owner.idle)
	}
	return console.Distinct([]job.FlagPath{{Flag: "{decisions}", Path: s.decisions}}, append(s.common.Files(), job.FlagPath{Flag: "{posterior}", Path: s.common.File}))
}

func (s *serveVerb) run(ctx context.Context, c *console.Console) error {
	asked := &tally{}
	ctx, end := s.owner.needed(ctx, asked)
	defer end()
	err := s.answer(ctx, c, asked)
	if context.Cause(ctx) == errUnneeded && (err == nil || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// answer answers until ctx is done.
func (s *serveVerb) answer(ctx context.Context, c *console.Console, asked *tally) error {
	o := &serve.Options{Hosts: s.hosts, Version: "gpexplain " + programVersion(), Command: c.Args, Python: c.Words == option.Python, Failed: func(what string) { fmt.Fprintln(c.Stderr, "gpexplain: a bug ended a request:", what) }}
	if s.decisions != "" {
		f, err := openDecisions(s.decisions)
		if err != nil {
			return err
		}
		defer f.Close()
		f.reopenOnHangup(c.Stderr)
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
	// If other machines can reach the server, refuse --port-file, whose token would travel in the clear, and warn otherwise.
	addr := l.Addr()
	if a, ok := addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		if s.portFile != "" {
			return errors.Join(job.Usagef("{port-file}: %s can be reached from other machines, and the token would travel in the clear; give {addr=127.0.0.1:0}", addr), l.Close())
		}
		fmt.Fprintf(c.Stderr, "gpexplain: warning: %s can be reached from other machines; gpexplain asks nobody who they are, and shows whoever asks the training examples\n", addr)
	}
	if s.portFile != "" {
		// Every user of this machine reaches the port.
		o.Token = rand.Text()
	}
	server := serve.NewServer(o)
	asked.Handler = server
	listening, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		// net/http tells its log of connections that break off.
		ended <- serve.Serve(listening, &http.Server{Handler: asked, ErrorLog: log.New(io.Discard, "", 0)}, l)
	}()
	if s.portFile != "" {
		var remove func()
		remove, err = writePortFile(s.portFile, addr, o.Token)
		defer remove()
	}
	var p *funcgp.Posterior
	if err == nil {
		p, err = s.posteriorOf(ctx, c)
	}
	if err == nil {
		err = server.Ready(ctx, p)
	}
	if err == nil {
		asked.begin()
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
			return nil, option.Errorf("{addr=%s}: %w; give another one", s.addr, cause(err))
		}
		return l, nil
	}
	l, err := listenSocket(ctx, s.socket)
	if err != nil {
		return nil, option.Errorf("{socket=%s}: %w; give another path", s.socket, cause(err))
	}
	return l, nil
}

// listenSocket listens on a Unix socket that only its user may use. The socket is made in a new folder, so that
// nobody can connect before its mode is set, and then replaces any socket at path on which no program listens.
// Close removes it.
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
	created, err := os.Lstat(path)
	return &socket{l, path, created}, err
}

// A socket is a listener on a Unix socket.
type socket struct {
	net.Listener
	path    string
	created os.FileInfo
}

// Close implements net.Listener. It removes the socket's file, unless another file has taken its place.
func (s *socket) Close() error {
	removeOwn(s.path, s.created)
	return s.Listener.Close()
}

// writePortFile writes a file that only its user may read. remove removes the file, unless another file has
// taken its place.
func writePortFile(path string, addr net.Addr, token string) (remove func(), err error) {
	remove = func() {}
	f, err := os.CreateTemp(filepath.Dir(path), ".port")
	if err != nil {
		return remove, option.Errorf("{port-file=%s}: %w; give another path", path, job.CauseOf(err))
	}
	created, err := f.Stat()
	if err == nil {
		err = json.NewEncoder(f).Encode(map[string]string{"address": addr.String(), "token": token})
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // of no use to anybody
		return remove, option.Errorf("{port-file=%s}: %w; give another path", path, job.CauseOf(err))
	}
	return func() { removeOwn(path, created) }, nil
}

// removeOwn removes the file that was created at path, unless another file has taken its place.
func removeOwn(path string, created os.FileInfo) {
	if now, err := os.Lstat(path); err == nil && os.SameFile(created, now) {
		_ = os.Remove(path) // whoever asks finds nobody there
	}
}

// cause returns the cause of an error of package net without the address, which the caller's message contains.
func cause(err error) error {
	if op, ok := err.(*net.OpError); ok {
		return op.Err
	}
	return err
}

// announce prints the address of the page as soon as the server can answer.
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
	return s.common.Posterior(job.NewContext(ctx, c.Job), nil)
}
