package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

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

	calibration inference.CalibrationFlags

	addr  string
	hosts []string
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
they are, and whoever reaches it can see the training examples. SIGINT (Ctrl-C) or
SIGTERM ends it once running requests are answered, with exit status 0.`,
		example: `  gpexplain serve
  gpexplain serve --addr 127.0.0.1:0 --train-count 500`,
		flags: s.add, check: s.check, run: s.run,
		complete: inference.MethodValues(map[string][]string{"calibrate": inference.Calibrations}),
	}
	return v.command(con, &s.common)
}

func (s *serveVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "listen on this `HOST:PORT`; port 0 takes a free one, which is said")
	f.StringSliceVar(&s.hosts, "host", nil, "`NAMES`, beside localhost and addresses, by which pages and programs ask for this server")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Tune(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
	flags.Calibration(c, &s.calibration)
}

func (s *serveVerb) check(c *cobra.Command) error {
	if _, port, err := net.SplitHostPort(s.addr); err != nil || port == "" {
		return job.Usagef("--addr %q must be a host and a port, such as 127.0.0.1:8080", s.addr)
	}
	if err := s.posterior.Check(c.Flags().Changed); err != nil {
		return err
	}
	return s.calibration.Check()
}

func (s *serveVerb) run(ctx context.Context, c *console.Console) error {
	// The address is taken before long work, which it could be in vain.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return fmt.Errorf("--addr %s: %w; give another one", s.addr, cause(err))
	}
	s.warnOpen(c, l.Addr())
	server := serve.NewServer(&serve.Options{Hosts: s.hosts, Version: "gpexplain " + programVersion(), Failed: func(what string) { fmt.Fprintln(c.Stderr, "gpexplain: a bug ended a request:", what) }})
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

// cause is an error of package net without the address, which the message has.
func cause(err error) error {
	if op, ok := err.(*net.OpError); ok {
		return op.Err
	}
	return err
}

// warnOpen warns where other machines may reach the server.
func (s *serveVerb) warnOpen(c *console.Console, addr net.Addr) {
	if a, ok := addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		fmt.Fprintf(c.Stderr, "gpexplain: warning: %s can be reached from other machines; gpexplain asks nobody who they are, and shows whoever asks the training examples\n", addr)
	}
}

// announce says where the page is, once it can be asked for.
func (s *serveVerb) announce(c *console.Console, addr net.Addr) error {
	url := fmt.Sprintf("http://%s/", addr)
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(map[string]string{"schema": "funcgp/serve/1", "url": url})
	}
	_, err := fmt.Fprintf(c.Out, "gpexplain answers at %s; Ctrl-C ends it\n", url)
	return err
}

// posteriorOf fits or loads the posterior.
func (s *serveVerb) posteriorOf(ctx context.Context, c *console.Console) (*funcgp.Posterior, error) {
	s.common.Data.InMemory = true
	p, err := problem.Open(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return nil, err
	}
	if p, err = p.Grouped(ctx, c.Job); err != nil {
		return nil, err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, s.calibration.Method)
	if err != nil {
		return nil, err
	}
	return inference.Front(c.Job, p, q).(*funcgp.Posterior), nil
}
