package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// A service answers questions about one posterior. Several goroutines may use it.
type service struct {
	front     *funcgp.Posterior
	problem   *problem.Problem
	posterior *inference.Posterior
	begin     func() (end func(), err error) // keeps the posterior open

	version   string        // of the program
	record    result.Record // of what is behind the posterior, where answers are logged
	link      predictive.Link
	explainer *explain.Explainer
	warnings  linearize.Warnings // of the fit
	names     result.Rows        // of the training rows
	outputs   []string           // names of the outputs of a regression, nil for none
	tests     *dataset.Rows      // kept test rows; nil where there are none
	position  map[int]int        // of training rows by their number in the file
	most      int                // terms that may be listed of each side
	refits    *refits            // nil where examples are left out to first order alone

	// serial is held by an explanation where the explainer does not yet know the
	// variance of every training example, and so remembers those it computes.
	serial *sync.Mutex

	halved  halved
	command []string // the arguments of the program, nil for none
	pages   pages
}

// mostPrepared is the number of outputs of training examples up to which their
// posterior variances are computed before the first request: about three factorizations
// for an exact posterior.
const mostPrepared = 40_000

// An answer is what a posterior says of one input.
type answer struct {
	batch      *linearize.Batch
	predicted  *inference.Predictions
	prediction funcgp.Prediction
}

// predictions predicts rows, with the regions of the coverage that a request may ask for. They have no names, which the
// answer has beside them.
func (s *service) predictions(ctx context.Context, r *request, rows *dataset.Rows) (list []funcgp.Prediction, err error) {
	o := &funcgp.PredictOptions{}
	if r.Coverage != nil {
		if o.Coverage = *r.Coverage; o.Coverage == 0 {
			return nil, refusef(422, "bad_coverage", "coverage 0 must be between 0 and 1")
		}
	}
	for x, err := range s.front.Predictions(ctx, inference.FrontRows(s.front, rows).(*funcgp.Rows), o) {
		if err != nil {
			if interrupted(err) {
				return nil, err
			}
			bad := refuse(422, "not_computable", err)
			if bad.Field == "coverage" {
				bad.Code = "bad_coverage"
			}
			return nil, bad
		}
		x.NamedRow = nil
		list = append(list, *x)
	}
	return list, nil
}

// ask reads the one input of a request and predicts it.
func (s *service) ask(ctx context.Context, r *request) (in *input, a *answer, err error) {
	if in, err = s.input(ctx, r); err != nil {
		return nil, nil, err
	}
	list, err := s.predictions(ctx, r, in.rows)
	if err != nil {
		return nil, nil, err
	}
	return in, &answer{prediction: list[0]}, nil
}

// predict answers a request for a prediction, or for several.
func (s *service) predict(ctx context.Context, r *request) (any, error) {
	if (r.Rows != nil || r.Array != nil) && r.inputs() == 1 {
		return s.predictRows(ctx, r)
	}
	in, a, err := s.ask(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.prediction(in, a), nil
}

func (s *service) prediction(in *input, a *answer) *prediction {
	return &prediction{Schema: "funcgp/serve-predict/1", Input: in.subject, Classes: s.front.Classes(), Labels: s.front.Labels(), Prediction: a.prediction}
}

// explain answers a request for an explanation.
func (s *service) explain(ctx context.Context, r *request) (any, error) {
	rows, err := s.removed(r.Without)
	if err != nil {
		return nil, err
	}
	in, a, err := s.ask(ctx, r)
	if err != nil {
		return nil, err
	}
	if a.batch, a.predicted, err = s.posterior.Tile(ctx, s.problem, in.rows, 0, 1, nil, nil, s.link); err != nil {
		return nil, in.explain(ctx, err)
	}
	// Decide what to explain: what was asked for, or why the predicted class rather than the next most
	// probable one, or an output of a regression, or the most probable label.
	t, outputs := s.problem.Task, s.problem.Model.Outputs
	about := &question{sign: 1}
	names := t.ClassNames()
	switch {
	case r.Contrast != nil && r.Output != nil:
		return nil, refusef(422, "contradiction", "contrast and output exclude each other; give one of them")
	case r.Contrast != nil && outputs == 1:
		return nil, refusef(422, "one_output", "contrast: the network has one output, which already weighs its two classes against each other; leave contrast out")
	case r.Contrast != nil && len(r.Contrast) != 2:
		return nil, refusef(422, "bad_contrast", "contrast: %d names; give two", len(r.Contrast))
	case r.Contrast != nil:
		plus, minus, err := s.problem.Contrasted(r.Contrast[0], r.Contrast[1])
		if err != nil {
			return nil, refuse(422, "bad_contrast", err)
		}
		about.target = explain.Contrast(plus, minus)
	case r.Output != nil && (*r.Output < 0 || *r.Output >= outputs):
		return nil, refusef(422, "bad_output", "output %d: the network has outputs 0 to %d", *r.Output, outputs-1)
	case r.Output != nil:
		about.target = explain.Single(*r.Output)
	case t.MultiLabel():
		about.target = explain.Single(a.predicted.Best(0))
	case names != nil && outputs > 1:
		about.target = explain.Contrast(a.predicted.Best(0), a.predicted.RunnerUp(0))
	}
	plus, minus := about.target.Plus, about.target.Minus()
	n := s.problem.Examples.Train.Len()
	switch {
	case names != nil && outputs == 1:
		predicted := a.predicted.Best(0)
		if predicted == 0 {
			about.sign = -1
		}
		about.odds(names[predicted], names[1-predicted], n)
	case names != nil && minus >= 0:
		about.odds(names[plus], names[minus], n)
	case names != nil:
		about.score = score{Title: "What speaks for and against " + names[plus], Quantity: "score of " + names[plus], Unit: "nats", Positive: "for " + names[plus], Negative: "against " + names[plus]}
		about.Says = fmt.Sprintf("A score is what one training example adds to the network's output for %s, in nats: positive speaks for it, negative against it. The scores of all %s examples, the prior mean and the remainder add up to that output.", names[plus], job.Count(n))
	case t.MultiLabel() && minus < 0:
		label := s.output(plus)
		about.score = score{Title: "What speaks for and against " + label, Quantity: "log-odds of " + label, Unit: "nats", Positive: "for " + label, Negative: "against " + label}
		about.Says = fmt.Sprintf("A score is what one training example adds to the log-odds of %s, in nats: positive speaks for it, negative against it. The scores of all %s examples, the prior mean and the remainder add up to the network's output.", label, job.Count(n))
	default:
		quantity := cmp.Or(t.Quantity(s.problem.Examples.Data.Target), "prediction")
		if outputs > 1 {
			quantity = s.output(plus)
		}
		if minus >= 0 {
			quantity = s.output(plus) + " minus " + s.output(minus)
		}
		about.score = score{Title: "What raises and lowers " + quantity, Quantity: quantity, Unit: "the units of " + quantity, Positive: "raises it", Negative: "lowers it"}
		about.Says = fmt.Sprintf("A score is what one training example adds to the predicted %s, in its own units: positive raises it, negative lowers it. The scores of all %s examples, the prior mean and the remainder add up to the network's prediction.", quantity, job.Count(n))
	}
	if r.page {
		if r.Contrast == nil {
			return s.page(ctx, r, in, a, rows, nil)
		}
		return s.page(ctx, r, in, a, rows, &about.target)
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
	x := &explanation{prediction: *s.prediction(in, a), Score: about.score, Sum: about.sum(&list[0][0], s.problem.Examples.Train.Len())}
	x.Schema = "funcgp/serve-explain/1"
	if err = s.cut(ctx, r, a, list[0], top); err != nil {
		return nil, err
	}
	more, less := list[0][0].For, list[0][0].Against
	if about.sign < 0 {
		more, less = less, more
	}
	if x.For, err = s.terms(ctx, about, more); err != nil {
		return nil, err
	}
	if x.Against, err = s.terms(ctx, about, less); err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		if x.Without, err = s.without(ctx, in, a, rows); err != nil {
			return nil, err
		}
	}
	if r.Flip {
		if x.SmallestFlip, err = s.smallestFlip(ctx, in, a); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// cut leaves so many terms of each sign and in all in the explanations of one input, and adds their influence where it is asked for.
func (s *service) cut(ctx context.Context, r *request, a *answer, list []explain.Explanation, top int) error {
	for i := range list {
		for _, terms := range []*[]explain.Term{&list[i].Terms, &list[i].For, &list[i].Against} {
			*terms = (*terms)[:min(top, len(*terms))]
		}
	}
	if !r.Influence {
		return nil
	}
	half, err := s.atHalf(ctx)
	if err != nil {
		return err
	}
	return explain.AddInfluence(ctx, half, a.batch, list)
}

// A halved keeps the posterior at half weights, which takes another factor, from the first request for it on.
type halved struct {
	mutex sync.Mutex
	dual  gp.Dual
}

// atHalf is the posterior at half weights.
func (s *service) atHalf(ctx context.Context) (gp.Dual, error) {
	s.halved.mutex.Lock()
	defer s.halved.mutex.Unlock()
	if s.halved.dual != nil {
		return s.halved.dual, nil
	}
	if s.refits == nil {
		return nil, refusef(422, "bad_influence", "influence: a posterior by %s is not fitted again at half of the weights; leave it out, or serve one by exact or kept", s.posterior.How.Name)
	}
	half, err := s.posterior.AtHalfWeights(ctx, job.New(nil), s.problem)
	if err != nil && !interrupted(err) {
		err = refuse(422, "bad_influence", err)
	}
	if err == nil {
		s.halved.dual = half
	}
	return half, err
}

// interrupted tells whether an error comes from a context.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
