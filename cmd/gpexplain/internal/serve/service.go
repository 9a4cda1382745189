package serve

import (
	"context"
	"errors"
	"sync"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// A Config is what a Service answers from.
type Config struct {
	Problem   *problem.Problem
	Posterior *inference.Posterior // in function space

	Rows      result.Rows                              // names of the training rows
	LabelName func(rows *dataset.Subset, i int) string // name of the label of row i, "" for none
	Columns   []string                                 // names of the outputs of a regression, nil for none
	Version   string                                   // of the program
	Warnings  linearize.Warnings                       // of the fit
	Progress  func(stage string, done, total int)      // nil for none
}

// A Service answers questions about one posterior. Several goroutines may use it.
type Service struct {
	Config
	link      predictive.Link
	explainer *explain.Explainer
	tests     *dataset.Subset // kept test rows; nil where there are none
	position  map[int]int     // of training rows by their number in the file
	most      int             // terms that may be listed of each side
	remover   remover

	// serial is held by an explanation where the explainer does not yet know the
	// variance of every training example, and so remembers those it computes.
	serial *sync.Mutex
}

// mostPrepared is the number of outputs of training examples up to which their
// posterior variances are computed before the first request: about three factorizations
// for an exact posterior.
const mostPrepared = 40_000

// New prepares what does not depend on a request.
func New(ctx context.Context, c *Config) (*Service, error) {
	p := c.Problem
	if c.Posterior.Dual == nil {
		panic("serve: the posterior is not one over functions")
	}
	s := &Service{Config: *c, link: predictive.DefaultLink(p.Task.Likelihood, p.Model.Outputs), position: map[int]int{}}
	for i, row := range p.Examples.Train.Rows {
		s.position[row] = i
	}
	if p.Examples.TestPart().Len() > 0 {
		var err error
		if s.tests, err = p.Examples.Test(dataset.SelectOptions{}); err != nil {
			s.tests = nil // no test row is of these classes
		}
	}
	late := c.Posterior.How.Name == "cg" || p.Examples.Train.Len()*p.Model.Outputs > mostPrepared
	s.most = mostTerms
	if late {
		s.most, s.serial = defaultTerms, new(sync.Mutex)
	}
	// By conjugate gradients an error bar takes solves of its own.
	o := &explain.Options{Top: s.most, Sides: true, ErrorBars: c.Posterior.How.Name != "cg"}
	s.Rows.ErrorBars = o.ErrorBars
	if c.Progress != nil {
		o.Progress = func(done, total int) { c.Progress("prepare", done, total) }
	}
	var err error
	if s.explainer, err = explain.New(c.Posterior.Dual, c.Posterior.Kernel, o); err != nil {
		return nil, err
	}
	if s.remover, err = s.newRemover(ctx); err != nil || late {
		return s, err
	}
	return s, s.explainer.Prepare(ctx)
}

// An answer is what a posterior says of one input.
type answer struct {
	batch     *linearize.Batch
	predicted *inference.Predictions
}

// ask predicts an input, 1×D.
func (s *Service) ask(ctx context.Context, in *input) (*answer, error) {
	b, err := s.Problem.Model.Net.Linearize(ctx, in.x)
	if err != nil {
		return nil, in.explain(ctx, err)
	}
	pred, err := s.Posterior.Predict(ctx, s.Problem.Task, b, s.link)
	if err != nil {
		return nil, in.explain(ctx, err)
	}
	return &answer{b, pred}, nil
}

// Predict answers a request for a prediction.
func (s *Service) Predict(ctx context.Context, r *Request) (*Prediction, error) {
	in, err := s.input(ctx, r)
	if err != nil {
		return nil, err
	}
	a, err := s.ask(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.prediction(in, a), nil
}

func (s *Service) prediction(in *input, a *answer) *Prediction {
	return &Prediction{Schema: "funcgp/serve-predict/1", Input: in.Input, Classes: s.Problem.Task.ClassNames(), Prediction: s.Posterior.Prediction(s.Problem.Task, a.predicted, 0)}
}

// Explain answers a request for an explanation.
func (s *Service) Explain(ctx context.Context, r *Request) (*Explanation, error) {
	rows, err := s.removed(r.Without)
	if err != nil {
		return nil, err
	}
	in, err := s.input(ctx, r)
	if err != nil {
		return nil, err
	}
	a, err := s.ask(ctx, in)
	if err != nil {
		return nil, err
	}
	about, err := s.question(r, a)
	if err != nil {
		return nil, err
	}
	if s.serial != nil {
		s.serial.Lock()
		defer s.serial.Unlock()
	}
	list, err := s.explainer.ExplainTargets(ctx, a.batch, a.predicted.Cov, []explain.Target{about.target})
	if err != nil {
		return nil, in.explain(ctx, err)
	}
	top := defaultTerms
	if r.Top != nil {
		top = min(*r.Top, s.most)
	}
	x := &Explanation{Prediction: *s.prediction(in, a), Score: about.Score, Sum: about.sum(&list[0][0], s.Problem.Examples.Train.Len())}
	x.Schema = "funcgp/serve-explain/1"
	x.For, x.Against = s.terms(about, list[0][0].For, top), s.terms(about, list[0][0].Against, top)
	if about.sign < 0 {
		x.For, x.Against = s.terms(about, list[0][0].Against, top), s.terms(about, list[0][0].For, top)
	}
	if len(rows) > 0 {
		if x.Without, err = s.without(ctx, in, a, rows); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// interrupted tells whether an error is that of a context.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
