package funcgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

type (
	// A Prediction is what a posterior says of one row.
	Prediction = result.Prediction
	// A Novelty says how unlike the training rows a row is, whatever the network is sure of.
	Novelty = result.Novelty
	// A Region is where the target of a row lies with the probability that was asked for.
	Region = result.Region
)

// PredictOptions are the options of Predictions. With the zero value Predictions computes the same as Predict.
type PredictOptions struct {
	// Link leads from outputs to probabilities and expected targets: exact; qmc, quasi–Monte Carlo over the whole
	// covariance of a softmax; probit; mc; or bridge. "" is exact for one output, and otherwise qmc.
	Link    string
	Samples int // draws of the link mc; 0 is 1000
	// Coverage, between 0 and 1, is the probability with which the Region of each row is to hold its target; 0 asks for
	// none. Regions come from predictions of each training row without itself, by the jackknife+ [Barber, Candès, Ramdas,
	// Tibshirani, Annals of Statistics 49, 2021]: where training rows and new ones are exchangeable, the probability is at
	// least 1 − 2(1 − Coverage), and usually close to Coverage; with Calibrate heldout at least Coverage. The trained
	// parameters have seen all training rows, so that a network that fits them too closely gets regions that are too
	// narrow. The first call with a coverage leaves out every training row, and the posterior keeps what it found for the
	// latest one. More coverage than so few training rows can give is an error, and so is any where a row has several
	// labels or targets.
	Coverage float64
}

// CheckFor returns an error for a link that cannot be computed for a likelihood, named as in
// FitOptions.Likelihood, with this number of outputs.
func (o *PredictOptions) CheckFor(likelihood string, outputs int) error {
	return o.suits(likelihoodNamed(likelihood), outputs)
}

func (o *PredictOptions) suits(lik glm.Likelihood, outputs int) error {
	ok := true
	switch o.Link {
	case "", "mc":
	case "exact":
		ok = predictive.HasExact(lik, outputs)
	case "qmc", "probit", "bridge":
		_, ok = lik.(glm.Logistic)
	default:
		return option.Errorf("{link=%q} must be exact, qmc, probit, mc or bridge", o.Link)
	}
	if !ok {
		return option.Errorf("{link=%s} is not for the %s likelihood; leave it out, or give {link=mc}", o.Link, lik.Name())
	}
	return nil
}

// A predicting holds what all predictions by the same options share.
type predicting struct {
	link    predictive.Link
	covered *covered // nil where none was asked for
}

// predicting checks the options, which may be nil, and computes what does not depend on rows.
func (p *Posterior) predicting(ctx context.Context, o *PredictOptions) (*predicting, error) {
	if o == nil {
		o = &PredictOptions{}
	}
	if err := o.suits(p.problem.Task.Likelihood, p.problem.Model.Outputs); err != nil {
		return nil, err
	}
	if err := p.covering.suits(p, o.Coverage); err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		return nil, err
	}
	s := &predicting{link: p.link}
	if _, linear := p.link.(predictive.Linear); linear {
		o = &PredictOptions{Coverage: o.Coverage} // which has no other link
	}
	switch o.Link {
	case "exact":
		s.link = predictive.Exact{}
	case "qmc":
		s.link = predictive.QMC{}
	case "probit":
		s.link = predictive.Probit{}
	case "bridge":
		s.link = predictive.Bridge{}
	case "mc":
		s.link = predictive.MonteCarlo{Samples: cmp.Or(o.Samples, 1000), Seed: p.problem.Seed}
	}
	var err error
	s.covered, err = p.covering.of(ctx, p, o.Coverage)
	return s, err
}

// A covering caches what is needed to compute regions of the coverage last asked for.
type covering struct {
	sync.Mutex
	latest *covered
}

// suits returns an error for a coverage that there are too few training rows to give.
func (k *covering) suits(p *Posterior, coverage float64) error {
	switch {
	case coverage == 0:
		return nil
	case !(coverage > 0 && coverage < 1):
		return option.Errorf("{coverage=%v} must be between 0 and 1", coverage)
	}
	return p.problem.suitsCoverage(coverage, p.problem.Examples.Train.Len(), "training rows")
}

// of returns the data from which regions of a coverage are computed, or nil for a coverage of 0.
func (k *covering) of(ctx context.Context, p *Posterior, coverage float64) (*covered, error) {
	if coverage == 0 {
		return nil, nil
	}
	k.Lock()
	defer k.Unlock()
	if k.latest != nil && k.latest.Share == coverage {
		return k.latest, nil
	}
	found, err := p.post.covers(ctx, job.FromContext(ctx), p.problem, coverage)
	if err == nil {
		k.latest = found
	}
	return found, err
}

// Predict predicts each of the rows. They must be of this posterior. It returns the error of a context that is
// done.
func (p *Posterior) Predict(ctx context.Context, rows *Rows) ([]Prediction, error) {
	var out []Prediction
	for x, err := range p.Predictions(ctx, rows, nil) {
		if err != nil {
			return nil, err
		}
		out = append(out, *x)
	}
	return out, nil
}

// Predictions predicts the rows one after another, in memory for some rows at a time. The options may be nil. The rows
// must be of this posterior. An error, as of a context that is done or of a posterior that is closed meanwhile, is the last
// of the sequence.
func (p *Posterior) Predictions(ctx context.Context, rows *Rows, o *PredictOptions) iter.Seq2[*Prediction, error] {
	return func(yield func(*Prediction, error) bool) {
		if err := p.owns(rows); err != nil {
			yield(nil, err)
			return
		}
		c := job.FromContext(ctx)
		defer c.Clear()
		var s *predicting
		var y *mat.Dense // nil where targets are unknown
		n, atOnce := rows.Len(), 0
		prepare := func() error {
			end, err := p.begin()
			if err != nil {
				return err
			}
			defer end()
			if s, err = p.predicting(ctx, o); err != nil {
				return err
			}
			if atOnce = p.post.RowsAtOnce(p.problem); rows.asked.Labelled() {
				y, err = p.problem.Targets(rows.asked)
			}
			return err
		}
		if err := prepare(); err != nil {
			yield(nil, p.named(err))
			return
		}
		tile := func(lo, hi int) (list []*Prediction, err error) {
			end, err := p.begin()
			if err != nil {
				return nil, err
			}
			defer end()
			b, pred, err := p.post.Tile(ctx, p.problem, rows.asked, lo, hi, y, nil, s.link)
			if err != nil {
				return nil, err
			}
			regions, err := s.covered.Regions(ctx, b)
			if err != nil {
				return nil, explainError(rows.asked.Slice(lo, hi), err)
			}
			for i := range hi - lo {
				x := p.post.PredictionOf(p.problem, pred, i, rows.asked, lo+i)
				x.Region = regions[i]
				list = append(list, x)
			}
			return list, nil
		}
		for t := range par.Tiles(n, atOnce) {
			lo, hi := par.Bounds(t, n, atOnce)
			list, err := tile(lo, hi)
			if err != nil {
				yield(nil, p.named(err))
				return
			}
			for _, x := range list {
				if err := ctx.Err(); err != nil {
					yield(nil, p.named(err))
					return
				}
				if !yield(x, nil) {
					return
				}
			}
			c.Show("predict", hi, n)
		}
		c.Clear()
		if err := c.EndPart(ctx, "predict"); err != nil {
			yield(nil, err)
		}
	}
}

// Summary returns a summary without test rows, to which the caller adds the predictions of the rows by these
// options, which may be nil. Scores and pages are made from it. It already has the leave-one-out predictions of
// the training rows, from which the scores to expect on new rows are computed.
func (p *Posterior) Summary(ctx context.Context, rows *Rows, o *PredictOptions) (*result.Predictions, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if err := p.owns(rows); err != nil {
		return nil, err
	}
	s, err := p.predicting(ctx, o)
	if err != nil {
		return nil, p.named(err)
	}
	task := p.problem.Task
	out := &result.Predictions{Classes: task.Labels(), ClassNames: slices.Clone(task.Names), Labels: p.Labels(), IDs: rows.asked.IDs != nil, Fit: p.Report(ctx), Coverage: s.covered.Report()}
	if task.Classes == nil {
		out.Targets = task.Likelihood.Targets(p.problem.Model.Outputs)
	}
	if k := p.post.Calibration; k != nil {
		for i := range k.LeftOutRows {
			out.AddLeaveOneOut(&k.LeftOutRows[i])
		}
	}
	return out, nil
}

// predict predicts rows by a function, nil for the posterior's own.
func (p *Posterior) predict(ctx context.Context, rows *Rows, function gp.Latent) ([]Prediction, error) {
	var out []Prediction
	err := p.each(ctx, rows, function, func(lo int, b *linearize.Batch, pred *predictions) error {
		for i := range b.Len() {
			out = append(out, p.prediction(rows.asked, lo+i, pred, i))
		}
		return nil
	})
	return out, err
}

// each predicts rows in tiles by a function, nil for the posterior's own.
func (p *Posterior) each(ctx context.Context, rows *Rows, function gp.Latent, do func(lo int, b *linearize.Batch, pred *predictions) error) error {
	end, err := p.begun(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := p.owns(rows); err != nil {
		return err
	}
	n, atOnce := rows.Len(), p.post.RowsAtOnce(p.problem)
	for t := range par.Tiles(n, atOnce) {
		lo, hi := par.Bounds(t, n, atOnce)
		b, pred, err := p.post.Tile(ctx, p.problem, rows.asked, lo, hi, nil, function, p.link)
		if err == nil {
			err = do(lo, b, pred)
		}
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return p.named(err)
		}
	}
	return nil
}

// owns refuses rows that another posterior read.
func (p *Posterior) owns(rows *Rows) error {
	if rows == nil || rows.own != p {
		return errors.New("funcgp: the rows were read for another posterior; read them with this one")
	}
	return nil
}

// prediction returns prediction i of a tile. at is the row's position among the rows asked for.
func (p *Posterior) prediction(rows *dataset.Rows, at int, pred *predictions, i int) Prediction {
	return *p.post.PredictionOf(p.problem, pred, i, rows, at)
}

// ClassName is the name of the class of a label, as Prediction.Class and Region.Set have them, and the label in words where
// classes have no names; "" for NaN.
func (p *Posterior) ClassName(label result.Float) string {
	return cmp.Or(p.problem.NameOf(label), number(float64(label)))
}

// number is a number in words, "" for NaN.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprint(v)
}
