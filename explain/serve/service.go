package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// A service answers questions about one posterior. It is safe for concurrent use.
type service struct {
	front *funcgp.Posterior

	info     funcgp.Info
	version  string          // of the program
	record   result.Record   // identifies model, data and posterior, if answers are logged
	warnings result.Warnings // of the fit
	outputs  []string        // names of the outputs of a regression, nil for none
	tests    *funcgp.Rows    // test rows held in memory; nil for none
	position map[int]int     // positions of training rows by their number in the file
	most     int             // largest number of terms of each side that may be listed
	dark     bool            // pictures are light on dark
	refits   bool            // whether the posterior can be refitted without examples; otherwise they are left out to first order

	// serial is locked during an explanation if the posterior does not yet know the variance of every training
	// example and caches those that it computes.
	serial *sync.Mutex

	command []string // the arguments of the program, nil for none
	pages   pages
}

// predictions predicts rows, with regions if the request asks for a coverage. The predictions have no class names;
// the answer holds the names once.
func (s *service) predictions(ctx context.Context, r *request, rows *funcgp.Rows) (list []funcgp.Prediction, err error) {
	o := &funcgp.PredictOptions{}
	if r.Coverage != nil {
		if o.Coverage = *r.Coverage; o.Coverage == 0 {
			return nil, refusef(unprocessable, "bad_coverage", "{coverage} 0 must be between 0 and 1")
		}
	}
	for x, err := range s.front.Predictions(ctx, rows, o) {
		if err != nil {
			return nil, failed(err)
		}
		x.NamedRow = nil
		list = append(list, *x)
	}
	return list, nil
}

// failed returns the refusal for an error of the posterior. The error of a context is returned unchanged.
func failed(err error) error {
	if interrupted(err) {
		return err
	}
	bad := refuse(unprocessable, "not_computable", err)
	if slices.Contains([]string{"contrast", "coverage", "flip", "influence"}, bad.Field) {
		bad.Code = "bad_" + bad.Field
	}
	return bad
}

// predict answers a request for a prediction, or for several.
func (s *service) predict(ctx context.Context, r *request) (any, error) {
	if (r.Rows != nil || r.Array != nil) && r.inputs() == 1 {
		return s.predictRows(ctx, r)
	}
	in, err := s.input(ctx, r)
	if err != nil {
		return nil, err
	}
	list, err := s.predictions(ctx, r, in.rows)
	if err != nil {
		return nil, err
	}
	return s.prediction(in, &list[0]), nil
}

func (s *service) prediction(in *input, p *funcgp.Prediction) *prediction {
	return &prediction{Schema: "funcgp/serve-predict/1", Input: in.subject, Classes: s.info.Classes, Labels: s.info.Labels, Prediction: *p}
}

// question returns what a request asks to be explained: a contrast or an output. The default is the predicted class
// against the next most probable one, the first output of a regression, or the most probable label.
func (s *service) question(r *request) (*funcgp.ExplainOptions, error) {
	top := defaultTerms
	if r.Top != nil {
		top = *r.Top
	}
	o := &funcgp.ExplainOptions{Top: min(top, s.most), Influence: r.Influence, Only: !r.page, Sides: true, Page: r.page}
	switch outputs := s.info.Outputs; {
	case r.Contrast != nil && r.Output != nil:
		return nil, refusef(unprocessable, "contradiction", "{contrast} and {output} exclude each other; give one of them")
	case r.Contrast != nil && outputs == 1:
		return nil, refusef(unprocessable, "one_output", "{contrast}: the network has one output, which already weighs its two classes against each other; leave {contrast} out")
	case r.Contrast != nil && len(r.Contrast) != 2:
		return nil, refusef(unprocessable, "bad_contrast", "{contrast}: %d names; give two", len(r.Contrast))
	case r.Contrast != nil:
		o.For, o.Against = r.Contrast[0], r.Contrast[1]
	case r.Output != nil && (*r.Output < 0 || *r.Output >= outputs):
		return nil, refusef(unprocessable, "bad_output", "{output} %d: the network has outputs 0 to %d", *r.Output, outputs-1)
	case r.Output != nil && !r.page:
		o.For = s.outputName(*r.Output)
	}
	if r.Influence && !s.refits {
		return nil, refusef(unprocessable, "bad_influence", "{influence}: a posterior by %s is not fitted again at half of the weights; leave it out, or serve one by exact or kept", s.info.Method)
	}
	if o.SmallestFlip = r.Flip; r.Flip {
		switch {
		case s.info.Classes == nil:
			return nil, refusef(unprocessable, "bad_flip", "{flip}: there is no class to change; leave it out")
		case !s.refits:
			return nil, refusef(unprocessable, "bad_flip", "{flip}: a posterior by %s is not fitted again without training rows; leave it out", s.info.Method)
		}
	}
	return o, nil
}

// explain answers a request for an explanation.
func (s *service) explain(ctx context.Context, r *request) (any, error) {
	if err := s.removed(r.Without); err != nil {
		return nil, err
	}
	in, err := s.input(ctx, r)
	if err != nil {
		return nil, err
	}
	o, err := s.question(r)
	if err != nil {
		return nil, err
	}
	if s.serial != nil {
		s.serial.Lock()
		defer s.serial.Unlock()
	}
	list, err := s.front.Explain(ctx, in.rows, o)
	if err != nil {
		return nil, failed(err)
	}
	x := &list[0]
	if r.Coverage != nil {
		list, err := s.predictions(ctx, r, in.rows)
		if err != nil {
			return nil, err
		}
		x.Prediction.Region = list[0].Region
	}
	if r.page {
		return s.page(ctx, r, in, x)
	}
	main := x.Main()
	about := s.about(x)
	out := &explanation{prediction: *s.prediction(in, &x.Prediction), Score: about.score, Sum: about.sum(main, s.info.Examples), SmallestFlip: x.SmallestFlip}
	out.Schema = "funcgp/serve-explain/1"
	more, less := main.For, main.Against
	if about.sign < 0 {
		more, less = less, more
	}
	if out.For, err = s.terms(ctx, about, more); err != nil {
		return nil, err
	}
	if out.Against, err = s.terms(ctx, about, less); err != nil {
		return nil, err
	}
	if len(r.Without) > 0 {
		out.Without, err = s.without(ctx, in, &x.Prediction, r.Without)
	}
	return out, err
}

// about returns the texts that explain the scores of an explanation.
func (s *service) about(x *funcgp.Explanation) *question {
	q, main, names, n := &question{sign: 1}, x.Main(), s.info.Classes, s.info.Examples
	switch {
	case names != nil && s.info.Outputs == 1:
		predicted := x.Prediction.Best()
		if predicted == 0 {
			q.sign = -1
		}
		q.odds(names[predicted], names[1-predicted], n)
	case names != nil && main.Contrast != nil:
		q.odds(main.Name, main.Other, n)
	case names != nil:
		q.score = score{Title: "What speaks for and against " + main.Name, Quantity: "score of " + main.Name, Unit: "nats", Positive: "for " + main.Name, Negative: "against " + main.Name}
		q.Says = fmt.Sprintf("A score is what one training example adds to the network's output for %s, in nats: positive speaks for it, negative against it. The scores of all %s examples, the prior mean and the remainder add up to that output.", main.Name, job.Count(n))
	case s.info.Labels != nil && main.Contrast == nil:
		q.score = score{Title: "What speaks for and against " + main.Name, Quantity: "log-odds of " + main.Name, Unit: "nats", Positive: "for " + main.Name, Negative: "against " + main.Name}
		q.Says = fmt.Sprintf("A score is what one training example adds to the log-odds of %s, in nats: positive speaks for it, negative against it. The scores of all %s examples, the prior mean and the remainder add up to the network's output.", main.Name, job.Count(n))
	default:
		quantity := cmp.Or(s.front.Quantity(), "prediction")
		if main.Contrast != nil {
			quantity = s.output(main.Contrast.Plus) + " minus " + s.output(main.Contrast.Minus)
		} else if s.info.Outputs > 1 {
			quantity = s.output(int(main.Output))
		}
		q.score = score{Title: "What raises and lowers " + quantity, Quantity: quantity, Unit: "the units of " + quantity, Positive: "raises it", Negative: "lowers it"}
		q.Says = fmt.Sprintf("A score is what one training example adds to the predicted %s, in its own units: positive raises it, negative lowers it. The scores of all %s examples, the prior mean and the remainder add up to the network's prediction.", quantity, job.Count(n))
	}
	return q
}

// interrupted tells whether an error comes from a context.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
