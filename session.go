package funcgp

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize"
)

// A Session is a model and data that were read and checked, before the posterior is fitted to them or read from its
// file. Rows that it reads are rows of its posterior, so that a program hears of wrong rows before a long fit.
//
//	s, err := funcgp.Start(ctx, model, data, nil)
//	...
//	defer s.Close()
//	rows, err := s.Select(ctx, &funcgp.Query{Index: "3,5-7"}, 1)
//	...
//	p, err := s.Posterior(ctx, rows)
type Session struct {
	problem *problem
	options FitOptions
	file    string // of the posterior; "" fits one
	job     *job.Job
	held    bool // the network or the rows are in memory

	several bool               // networks, whose posteriors have warnings of their own
	warned  linearize.Warnings // of one of these when it was read
}

// Start reads a model and data for a fit. The options may be nil.
func Start(ctx context.Context, m Model, d Data, o *FitOptions) (*Session, error) {
	if o == nil {
		o = &FitOptions{}
	}
	if err := checkCheckpoint(o.Checkpoint, o.Memory); err != nil { // before the model is read
		return nil, named(err)
	}
	return start(ctx, Source{Model: m, Data: d, Fit: *o}, posteriorKind.open)
}

// StartFrom reads the model and the data of a posterior that Save or gpexplain fit wrote. The options may be nil. The
// errors are those of Open.
func StartFrom(ctx context.Context, path string, o *OpenOptions) (*Session, error) {
	return start(ctx, o.source(path), posteriorKind.open)
}

// source returns the Source of a posterior's file, with options that may be nil.
func (o *OpenOptions) source(path string) Source {
	if o == nil {
		return Source{File: path}
	}
	x := Source{Model: o.Model, Data: o.Data, Fit: o.Fit, File: path}
	if x.Fit.Memory == 0 && x.Fit.Progress == nil {
		x.Fit.Limits = o.Limits
	}
	return x
}

// A Source is one of several networks.
type Source struct {
	Model Model
	Data  Data
	Fit   FitOptions
	File  string // of its posterior; "" fits one
}

// StartEach starts a session of each of several networks, which must be about the same function of the same rows, so that
// ExplainMean can explain the mean of their posteriors. Data that are the same are read once.
func StartEach(ctx context.Context, sources []Source) ([]*Session, error) {
	return startEach(ctx, sources, posteriorKind.open)
}

// An opener reads the model and the data of a session.
type opener func(ctx context.Context, c *job.Job, f *asked) (*problem, error)

// start does for one source what startEach does for several.
func start(ctx context.Context, x Source, open opener) (*Session, error) {
	list, err := startEach(ctx, []Source{x}, open)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// startEach does what StartEach does, with sources that open reads.
func startEach(ctx context.Context, sources []Source, open opener) ([]*Session, error) {
	c, shared, several := job.FromContext(ctx), new(sharedData), len(sources) > 1
	options := make([]*asked, len(sources))
	for k := range sources {
		x := &sources[k]
		var err error
		if options[k], err = checked(&x.Model, &x.Data, &x.Fit, x.File); err != nil {
			return nil, named(err)
		}
		if x.Fit.Progress != nil {
			c.Listener = job.Progress(x.Fit.Progress)
		}
		if several {
			options[k].shared = shared
		}
	}
	var list []*Session
	for k, x := range sources {
		s := &Session{options: x.Fit, file: x.File, job: c, held: x.Model.Network != nil || x.Data.X != nil, several: several}
		before := c.Warnings
		if several {
			c.Warnings = nil
		}
		var err error
		s.problem, err = open(ctx, c, options[k])
		for _, other := range list {
			if err != nil {
				break
			}
			a, b := other.problem.Model, s.problem.Model
			if err = s.problem.alike(other.problem); err == nil && (a.Path == "" && b.Path == "" || a.Path != "" && job.SameFile(a.Path, b.Path)) {
				err = fmt.Errorf("%s and %s are posteriors of the same network, %s; the mean needs one of each network", other.file, s.file, b.Name)
			}
		}
		if err != nil {
			s.Close()
			return nil, s.named(err)
		}
		if list = append(list, s); several {
			s.warned, c.Warnings = c.Warnings, before
		}
	}
	return list, nil
}

// Close closes the files of a session that has no posterior, which closes them otherwise.
func (s *Session) Close() { s.job.Close() }

// Select returns the rows that a query asks for, and where it asks for none the first test row, or the first count ones,
// 0 for all. What was done to pictures to fit them to the network is noted.
func (s *Session) Select(ctx context.Context, q *Query, count int) (*Rows, error) {
	asked, err := q.pick(ctx, s.job, s.problem, count)
	if err != nil {
		return nil, s.named(err)
	}
	return &Rows{asked: asked}, nil
}

// Posterior fits the posterior, or reads it from its file. Rows that the session selected become rows of the posterior,
// and say by their probabilities which of many classes are told apart; where they are nil, the training rows do. Call it
// once.
func (s *Session) Posterior(ctx context.Context, rows *Rows) (*Posterior, error) {
	p, err := s.Deferred(ctx, rows)
	if err == nil {
		err = s.named(p.ready(ctx))
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Deferred does what Posterior does, except that the fit begins with the first question, so that a question
// that cannot be answered costs no fit. Before that, the posterior has no warnings, and Dual, Latent, Kernel
// and Calibration panic.
func (s *Session) Deferred(ctx context.Context, rows *Rows) (*Posterior, error) {
	p, c := s.problem, s.job
	var err error
	if rows == nil {
		p, err = p.Grouped(ctx, c)
	} else {
		p, rows.asked, err = p.GroupedFor(ctx, c, rows.asked)
	}
	if err == nil && s.options.Prior.G {
		p, err = withGPrior(ctx, c, p)
	}
	if err != nil {
		return nil, s.named(err)
	}
	out := deferred(c, p, func(ctx context.Context) (*solution, error) {
		if s.several {
			c.Warnings = s.warned
		}
		return s.fit(ctx, p)
	})
	if out.held = s.held; rows != nil {
		rows.own = out
	}
	return out, nil
}

// named returns err, which may be nil, with what to do about a limit of memory.
func (s *Session) named(err error) error { return named(withLessMemory(err, s.file != "")) }

// fit computes or reads the posterior of a problem.
func (s *Session) fit(ctx context.Context, p *problem) (*solution, error) {
	o := s.options
	if p.Saved != nil && !o.AtTheta {
		return loadPosterior(ctx, s.job, p, o.Calibrate)
	}
	if p.Saved != nil {
		m, err := p.savedMethod()
		if err != nil {
			return nil, err
		}
		o = FitOptions{Method: m, AtTheta: true}
	}
	return solve(ctx, s.job, p, &o)
}

// opened returns the session's posterior. It closes the session if the posterior cannot be computed.
func opened(ctx context.Context, s *Session, err error) (*Posterior, error) {
	if err != nil {
		return nil, err
	}
	p, err := s.Posterior(ctx, nil)
	if err != nil {
		s.Close()
	}
	return p, err
}
