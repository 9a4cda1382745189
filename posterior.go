package funcgp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A Posterior is a Gaussian process over functions that is conditioned on training rows, with the names,
// units and calibration that its answers need. Several goroutines may use one.
type Posterior struct {
	problem *problem
	post    *solution
	link    predictive.Link
	fit     result.Fit
	names   result.Rows
	job     *job.Job
	later   func(ctx context.Context) (*solution, error) // makes post, of Deferred; nil of others
	making  sync.Mutex                                   // of post while it is made
	held    bool                                         // the network or the rows were in memory

	shared atomic.Pointer[explain.Explainer] // by Prepare; nil before
	refits refits
	half   struct { // the refit at half of the weights; nil before the first call that needs it
		sync.Mutex
		dual gp.Dual
	}

	covering covering

	mutex  sync.Mutex    // of what follows
	calls  int           // that are under way
	closed chan struct{} // closed once the last call after Close ends; nil while the posterior is open
}

// OpenOptions are the options of Open. Where they give a value for the model, the data or the fit, it must
// agree with the file.
type OpenOptions struct {
	Limits
	Model Model // in place of the one that the file remembers
	Data  Data  // in place of what the file remembers
	Fit   FitOptions
}

// Open opens a posterior that Save or gpexplain fit wrote, by any method. The options may be nil. Model and data are where the file
// remembers them, or as the options say, and must be what they were. The error names the file.
func Open(ctx context.Context, path string, o *OpenOptions) (*Posterior, error) {
	s, err := StartFrom(ctx, path, o)
	return opened(ctx, s, err)
}

// Fit computes the posterior of a model given training rows, and calibrates it. The options may be nil. Look at
// Warnings before you trust its answers: a network that does not suit the data is no error, unless its outputs are those of the classes in another
// order: see FitOptions.Force.
func Fit(ctx context.Context, m Model, d Data, o *FitOptions) (*Posterior, error) {
	s, err := Start(ctx, m, d, o)
	return opened(ctx, s, err)
}

// answering returns the Posterior of a solution whose files the job has open.
func answering(c *job.Job, post *solution) *Posterior {
	q := deferred(c, post.Problem, nil)
	q.made(post)
	return q
}

// made sets the posterior over functions, and the problem with the decisions of its fit.
func (p *Posterior) made(post *solution) {
	p.problem, p.post = post.Problem, post
	p.link, p.fit = post.DefaultLink(p.problem), post.Report(p.problem, p.job.Warnings)
}

// deferred returns a posterior that is computed when an explanation first needs it, after the question was
// checked. For ExplainMean, the posteriors of several networks are computed one after another, so that only one
// is in memory at a time.
func deferred(c *job.Job, p *problem, later func(ctx context.Context) (*solution, error)) *Posterior {
	q := &Posterior{problem: p, names: p.TrainingRows(), job: c, later: later}
	q.names.ErrorBars = true
	return q
}

// ready computes a posterior that was deferred.
func (p *Posterior) ready(ctx context.Context) error {
	p.making.Lock()
	defer p.making.Unlock()
	if p.post != nil {
		return nil
	}
	post, err := p.later(ctx)
	if err != nil {
		return err
	}
	p.made(post)
	return nil
}

// solved returns the posterior over functions. A deferred posterior has it after the first question.
func (p *Posterior) solved() *solution {
	if p.post == nil {
		panic("funcgp: the posterior is deferred: ask it for a prediction or an explanation first")
	}
	return p.post
}

// File returns the name of the file that the posterior was opened from, or "" if it was fitted.
func (p *Posterior) File() string {
	if p.problem.Saved == nil {
		return ""
	}
	return p.problem.Saved.File.Path()
}

// heard returns a context that carries a job: the context's own job, or else one that reports progress to
// whoever opened the posterior.
func (p *Posterior) heard(ctx context.Context) context.Context {
	if job.Carried(ctx) {
		return ctx
	}
	return job.NewContext(ctx, job.New(p.job.Listener))
}

// begin marks the start of a call; the caller calls end at its end. Calls may be nested.
func (p *Posterior) begin() (end func(), err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed != nil {
		return nil, ErrClosed
	}
	p.calls++
	return func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.calls--; p.calls == 0 && p.closed != nil {
			p.shut()
		}
	}, nil
}

// begun does what begin does, for calls that need the posterior: it computes a deferred one first.
func (p *Posterior) begun(ctx context.Context) (end func(), err error) {
	if end, err = p.begin(); err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		end()
		return nil, p.named(err)
	}
	return end, nil
}

// functions does what begun does, and returns an error for a posterior over the parameters. what names what
// such a posterior lacks.
func (p *Posterior) functions(ctx context.Context, what string) (end func(), err error) {
	if end, err = p.begun(ctx); err == nil && p.post.Dual == nil {
		end()
		return nil, p.named(noFunctions(what))
	}
	return end, err
}

// noFunctions returns the error that a posterior over the parameters does not have the named thing.
func noFunctions(what string) error {
	return option.Errorf("%s is of posteriors over functions, and this one is over the parameters; leave {structure} and {predictive} out of the fit", what)
}

// Hold keeps the posterior open until release is called, once, for which Close waits. It returns ErrClosed after Close.
func (p *Posterior) Hold() (release func(), err error) { return p.begin() }

// shut closes the files.
func (p *Posterior) shut() {
	p.job.Close()
	close(p.closed)
}

// Close waits for calls under way and closes the files. Later calls return ErrClosed.
func (p *Posterior) Close() error {
	p.mutex.Lock()
	if p.closed == nil {
		if p.closed = make(chan struct{}); p.calls == 0 {
			p.shut()
		}
	}
	p.mutex.Unlock()
	<-p.closed
	return nil
}

// Warnings returns what users of the answers should know, such as a jitter, a network that is not at an
// optimum, or rows that were left out. Each is a *linearize.Warning, which marshals itself as JSON;
// doc/warnings.md explains the codes.
func (p *Posterior) Warnings() []error { return plain(p.fit.Warnings) }

// Remarks returns messages on how the network was read and the fit chosen, where nothing is wrong: for example
// a head that was removed, or a part of the network that no training example explains. Each is a
// *linearize.Warning.
func (p *Posterior) Remarks() []error { return plain(p.fit.Remarks) }

// plain returns the warnings as *linearize.Warning.
func plain(list []error) []error {
	out := make([]error, len(list))
	for i, err := range list {
		out[i] = linearize.WarningOf(err)
	}
	return out
}

// Report describes how the posterior was computed and what its answers rest on. Its warnings include those of
// the calls made with the context.
func (p *Posterior) Report(ctx context.Context) result.Fit {
	return p.reportOf(job.FromContext(ctx), p.post)
}

// reportOf returns what Report returns, for another posterior of the same problem.
func (p *Posterior) reportOf(c *job.Job, q *solution) result.Fit {
	f := p.fit
	if q != p.post {
		f = q.Report(p.problem, nil)
	}
	all := slices.Concat(f.Warnings, f.Remarks)
	for _, w := range c.Warnings {
		if !slices.ContainsFunc(all, func(o error) bool { return o.Error() == w.Error() }) {
			all = append(all, w)
		}
	}
	f.Warnings, f.Remarks = result.Remarks(all)
	return f
}

// Labels are the names of the labels of which a row has any number, in the order of the outputs and of probabilities; nil
// where a row has one class, or numbers.
func (p *Posterior) Labels() []string { return append([]string(nil), p.problem.Task.LabelNames...) }

// Classes are the names of the classes in the order of probabilities, nil for a regression.
func (p *Posterior) Classes() []string { return append([]string(nil), p.problem.Task.ClassNames()...) }

// SaveOptions choose what a file holds beside the posterior. With the zero value it holds only the places of
// the model and the data, and opening it needs both.
type SaveOptions struct {
	Inputs bool // the training inputs
	Bundle bool // the training inputs and the network, so that Open needs nothing else
	// WithoutInputs leaves the training inputs out of a bundle, except those of inducing rows. Such a file
	// predicts, but without Novelty.Score and Rank, and names all rows; it explains only where OpenOptions.Data
	// has the training data.
	WithoutInputs bool
}

// CheckFor returns an error if the options leave out training inputs that predictions by the method need.
func (o *SaveOptions) CheckFor(m Method) error {
	if !o.WithoutInputs {
		return nil
	}
	return named(checkWithout(m.Name, m.Select))
}

// Save writes the posterior to a file for Open and for gpexplain, under a temporary name first. The options
// may be nil. Training inputs may be personal data.
func (p *Posterior) Save(ctx context.Context, path string, o *SaveOptions) error {
	if o == nil {
		o = &SaveOptions{}
	}
	if o.WithoutInputs && !o.Bundle {
		return errors.New("funcgp: SaveOptions.WithoutInputs is for a Bundle")
	}
	if p.held && !o.Bundle {
		return errors.New("funcgp: no file is there to remember of a network or rows in memory; save with Bundle")
	}
	end, err := p.functions(ctx, "Save")
	if err != nil {
		return err
	}
	defer end()
	if err := p.post.Save(ctx, p.job, path, p.fit, *o); err != nil {
		return named(err)
	}
	return nil
}

// Dual returns the posterior of the linearized model, from which explanations come. It is nil if
// FitOptions.Structure or draws of the parameters were asked for. It must not be used after Close.
func (p *Posterior) Dual() gp.Dual { return p.solved().Dual }

// Latent returns the posterior over functions that predicts rows. Its mean is the mean of the answers, and it
// is not calibrated. It must not be used after Close.
func (p *Posterior) Latent() gp.Latent { return p.solved().Latent() }

// Likelihood returns the likelihood of the outputs, without calibration.
func (p *Posterior) Likelihood() glm.Likelihood { return p.problem.Task.Likelihood }

// ClassOf returns the class of the largest of C outputs, or of a single output by its sign: its label in the
// data, and its name if it has one. For a regression the label is NaN.
func (p *Posterior) ClassOf(outputs []float64) (label result.Float, name string) {
	label = p.problem.Task.Class(outputs)
	return label, p.problem.NameOf(label)
}

// Kernel is the kernel of the posterior's prior.
func (p *Posterior) Kernel() *ntk.NTK { return p.solved().Kernel }

// Network is the network at its trained parameters.
func (p *Posterior) Network() *network.Network { return p.problem.Model.Net }

// Calibration returns the scales that predictions apply to the mean and the covariance, or nil for none.
func (p *Posterior) Calibration() *score.Calibration {
	k := p.solved().Calibration.Scales()
	if k == nil {
		return nil
	}
	copied := *k
	copied.Shift = slices.Clone(k.Shift)
	return &copied
}
