package funcgp

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// askedRows is the largest number of test rows for which the variances are compared with those given all
// training rows, as Method.Within demands.
const askedRows = 200

// sampledRows is the number of training examples, and also of their rows, in the sample that chooses inducing
// rows.
const sampledRows = 6000

// kept conditions on the informative rows of all training data (E16).
func (f *fit) kept(ctx context.Context) (*solution, error) {
	stated := f.precision
	var err error
	if f.choice, err = f.readChoice(); err != nil {
		return nil, err
	}
	if err := f.prepare(ctx, f.problem.KeepsJacobian(), f.settle); err != nil {
		return nil, err
	}
	products, err := f.products(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := f.askedRows(ctx)
	if err != nil {
		return nil, err
	}
	var near *kept.Posterior // of the precision before
	if err := f.tuneBy(ctx, func(ctx context.Context, g *fit) (*solution, error) {
		q, _, err := g.keptPosterior(ctx, asked, nil, &kept.Options{Products: products, Near: near})
		if err == nil && !f.atTheta {
			near = q.kept
		}
		return q, err
	}); err != nil {
		return nil, err
	}
	// Only the refit at the precision that is settled goes through FitOptions.Checkpoint.
	var before *kept.Threshold
	if c := f.choice; c != nil {
		// Refuse a choice of other training rows, another network or another prior than f has now.
		r := f.resume.Reader("choice.")
		f.identity().Check(ctx, r, "")
		if e := (*store.Error)(nil); errors.As(r.Err(), &e) {
			return nil, badCheckpoint(f.asked.Checkpoint, r.Err())
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
		if c.Within == f.asked.Method.Within && c.Seed == f.problem.Seed {
			before = &c.Threshold
		}
	}
	o, c := &kept.Options{Products: products}, (*choice)(nil)
	if f.asked.Checkpoint != "" && !f.atTheta && !f.frozen {
		c = &choice{Stated: stated, Match: f.matched, Within: f.asked.Method.Within, Seed: f.problem.Seed, near: f.near}
		if before != nil {
			c.Threshold = *before
		}
		if err := f.useKeptCheckpoint(ctx, o, c); err != nil {
			return nil, err
		}
	}
	q, threshold, err := f.keptPosterior(ctx, asked, c, o)
	if e := (*store.Error)(nil); errors.As(err, &e) && f.resume != nil {
		return nil, badCheckpoint(f.asked.Checkpoint, err)
	}
	if why := (*losing)(nil); errors.As(err, &why) {
		f.chooses = nil
		if f.fewParameters() {
			f.asked.Method.Name, f.asked.Method.Within = "parameters", 0
			long, err := f.parametersTime(ctx)
			if err != nil {
				return nil, err
			}
			f.took(long, job.NewWarning("method-chosen", math.NaN(), math.NaN(), "",
				"{method=auto} takes parameters: %v. The network has %s parameters, whose precision says the same of all rows.", why, job.Count(f.problem.Model.Parameters())))
			return f.parameters(ctx)
		}
		if f.asked, err = f.throughInducing(); err != nil {
			return nil, err
		}
		long, err := f.sparseTime(ctx, float64(elementRows(f.asked.Method.takesRows(), f.asked.Method.Inducing, f.problem.Model.Outputs)))
		if err != nil {
			return nil, err
		}
		f.took(long, job.NewWarning("method-chosen", math.NaN(), math.NaN(), "",
			"{method=auto} takes nystrom: %v.", why))
		return f.sparse(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := f.con.EndPart(ctx, "kernel"); err != nil {
		return nil, err
	}
	if threshold.Needed > threshold.Available {
		q.checkpoint = "" // with more memory a fit goes on from there
		f.warnShort(q.kept.Kept().Len(), threshold)
	}
	return q, f.certify(ctx, q, threshold, products)
}

// products returns fast products with the Jacobian of training examples that each pass linearizes anew, and nil
// for other training examples. Where the inputs take much of the memory, each product reads them anew.
func (f *fit) products(ctx context.Context) (linearize.Products, error) {
	if _, ok := f.source.(*linearize.Batch); ok {
		return nil, nil
	}
	e, n, net := f.problem.Examples, f.source.Len(), f.problem.Model.Net
	d, _, _ := net.Dims()
	if 8*float64(n)*float64(d) > float64(gp.MemoryBudget(f.problem.Memory))/8 {
		return net.LoadedProducts(n, max(1, loadedFloats/d), func(lo, hi int) (*mat.Dense, error) { return e.Inputs(ctx, e.Train, lo, hi) }), nil
	}
	x, err := e.Inputs(ctx, e.Train, 0, n)
	if err != nil {
		return nil, err
	}
	return net.Products(x)
}

// loadedFloats is how many numbers of the inputs a product reads at a time: 32 MiB.
const loadedFloats = 1 << 22

// askedRows linearizes the test rows on which Within is measured, or where there are none the first training rows.
func (f *fit) askedRows(ctx context.Context) (*linearize.Batch, error) {
	rows := f.problem.Examples.Train
	if f.problem.Examples.TestPart().Len() > 0 {
		if test, err := f.problem.Examples.Test(0, nil, ""); err == nil {
			rows = test
		}
	}
	n := f.problem.Within(min(askedRows, rows.Len()), f.problem.Model.Net.BatchBytes)
	x, err := f.problem.Linearize(ctx, rows, 0, n)
	return x, explainError(rows.Slice(0, n), err)
}

// thresholdOptions returns the options for the search of the threshold of kept rows.
func (f *fit) thresholdOptions() *kept.ThresholdOptions {
	return &kept.ThresholdOptions{Within: f.asked.Method.Within, Limits: f.problem.Bounds(f.con), Seed: f.problem.Seed}
}

// threshold finds the threshold τ that satisfies Method.Within at the sites s. c, if not nil, has what a checkpoint
// recorded about τ, and receives the result.
func (f *fit) threshold(ctx context.Context, asked *linearize.Batch, s *gp.Sites, c *choice) (*kept.Threshold, error) {
	var before *kept.Threshold
	if c != nil && c.Threshold.Of > 0 {
		if before = &c.Threshold; before.Ratio <= 1+f.asked.Method.Within && before.Representatives == 0 {
			return before, nil
		}
	}
	o := f.thresholdOptions()
	o.Before = before
	o.Worth = func(t *kept.Threshold) bool { return f.losing(t) == nil }
	if f.asked.Method.Name == "nystrom" {
		// A pass through inducing examples is not to wait for a factor of many rows.
		o.Examples, o.Most = sampledRows, sampledRows
	}
	t, err := kept.FindThreshold(ctx, f.kernel, f.source, s, asked, o)
	if err != nil {
		return nil, err
	}
	f.con.Clear()
	if t.Needed > t.Available {
		f.con.Note("{within=%v} takes about %s rows and %s, of which %s may be used: %s rows give variances up to %.3g times those of all rows",
			f.asked.Method.Within, job.Count(t.Wanted), job.SizeText(t.Needed), job.SizeText(t.Available), job.Count(t.Rows+t.Representatives), t.Ratio)
	}
	if t.Representatives > 0 {
		f.con.Detail("rows with s > %.3g are kept: %d, and %d stand for the others, which gives variances within a factor of %.4g of those of all rows", t.Strength, t.Rows, t.Representatives, t.Ratio)
		return t, nil
	}
	f.con.Detail("rows with s > %.3g are kept: %d, which give variances up to %.4g times those of all rows, by the %d strongest", t.Strength, t.Rows, t.Ratio, t.Of)
	return t, nil
}

// quickOutputs is the number of outputs of training rows up to which method auto chooses the exact method.
const quickOutputs = 5000

// keptCosts bounds the work that method auto spends on kept rows: this many times the multiplications of a
// pass through inducing examples. Kept rows are worth more because they come with a bound on their distance
// from all rows.
const keptCosts = 4

// A losing error says why method auto does not keep the rows above a threshold.
type losing struct{ why option.Text }

func (e *losing) Error() string { return e.why.String() }

// Message is why.
func (e *losing) Message() option.Text { return e.why }

// losing tells whether method auto does not keep the rows above a threshold: they do not fit into memory, or take
// much longer than a pass through inducing examples.
func (f *fit) losing(t *kept.Threshold) error {
	if f.chooses == nil {
		return nil
	}
	examples, c, _ := f.sizes()
	work := f.keptWork(float64(t.Wanted))
	pass := 1.5 * examples * c * inducingOutputs * inducingOutputs
	about := option.Textf("{within=%v} takes about %s rows (example, direction of Λ) and ", f.asked.Method.Within, job.Count(t.Wanted))
	_, err := f.throughInducing()
	switch {
	case err != nil: // inducing examples do not fit at all
	case t.Needed > t.Available:
		return &losing{option.Textf("%s%s, of which %s may be used", about, job.SizeText(t.Needed), job.SizeText(t.Available))}
	case work > keptCosts*pass:
		return &losing{option.Textf("%sup to some %.2g times as long", about, work/pass)}
	}
	return nil
}

// fewParameters tells whether the precision of the parameters fits into memory and takes not much longer than a pass
// through inducing examples, which are not exact.
func (f *fit) fewParameters() bool {
	_, _, p := f.sizes()
	fits := weightspace.Bytes(int(p), f.problem.Model.Outputs) <= gp.MemoryBudget(f.problem.Memory)
	return fits && p*p <= keptCosts*1.5*inducingOutputs*inducingOutputs && f.asked.Checkpoint == ""
}

// keptWork is the number of multiplications of a posterior of kept rows: the factor twice, and the half-solves of rows
// that are asked about, left out or predicted without themselves.
func (f *fit) keptWork(rows float64) float64 {
	examples, c, _ := f.sizes()
	return 2./3*rows*rows*rows + rows*rows*(2*askedRows*c+8000+c*math.Min(examples, mostLeftOutRows))
}

// throughInducing returns the options of a pass through inducing examples, as many as fit.
func (f *fit) throughInducing() (FitOptions, error) {
	o := f.asked
	o.Method.Name, o.Method.Within = "nystrom", 0
	var err error
	if o.Method, err = o.Method.withDefaults(f.problem); err != nil {
		return o, err
	}
	err = planInducing(f.con, f.problem, &o, f.heldOut)
	if e := (*gp.MemoryError)(nil); errors.As(err, &e) && e.Largest > 0 {
		o.Method.Inducing, err = e.Largest, nil
	}
	return o, err
}

// keptPosterior fits, or refits at the mode, with the rows that Method.Within selects by the sites there, and
// completes the options o. It uses c as threshold does. Where memory holds fewer rows than that, it measures
// the accuracy with those that fit.
func (f *fit) keptPosterior(ctx context.Context, asked *linearize.Batch, c *choice, o *kept.Options) (*solution, *kept.Threshold, error) {
	y, s := f.problem.TrainTargets(), f.sites
	o.Mean, o.Outputs, o.Start, o.Limits = f.meanAtTheta(), f.outputs, f.near, f.problem.Bounds(f.con)
	if !f.atTheta {
		var err error
		if f.mode, err = kept.FindMode(ctx, f.source, y, f.prior, f.theta, mode.Close(y), o); err != nil {
			return nil, nil, err
		}
		s = f.mode.Sites
	}
	t, err := f.threshold(ctx, asked, s, c)
	if err == nil {
		err = f.losing(t)
	}
	if err == nil && f.chooses != nil && t.Needed <= t.Available {
		f.chooses.Do(func() {
			var long string
			rows := t.Rows + t.Representatives
			if long, err = f.keptTime(ctx, rows); err == nil {
				f.took(long, job.NewWarning("method-chosen", math.NaN(), math.NaN(), "",
					"{method=auto} takes kept: %s of the rows (example, direction of Λ) are enough for {within=%v}.", job.Count(rows), f.asked.Method.Within))
			}
		})
	}
	if err == nil && c != nil {
		c.Threshold = *t
		err = f.saveThreshold(ctx, c)
	}
	if err != nil {
		return nil, nil, err
	}
	o.Found = t
	var dual *kept.Posterior
	if !f.atTheta {
		dual, err = kept.AtMode(ctx, f.source, y, f.prior, f.theta, f.mode, o)
		f.mode = nil
	} else {
		dual, err = kept.Fit(ctx, f.source, f.sites, f.prior, f.theta, o)
	}
	if err != nil {
		return nil, nil, err
	}
	if short := dual.Short(); short != nil {
		t.Wanted, t.Needed, t.Available = max(t.Wanted, short.Above), max(t.Needed, short.Needed), short.Available
		if t.Ratio, err = dual.RatioAt(ctx, asked, f.thresholdOptions()); err != nil {
			return nil, nil, err
		}
	}
	q := f.posterior(dual)
	q.kept = dual
	return q, t, nil
}

// keptAgain refits the rows of a posterior at the precision of f.
func (f *fit) keptAgain(ctx context.Context, near *kept.Posterior) (fitted, error) {
	products, err := f.products(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := f.askedRows(ctx)
	if err != nil {
		return nil, err
	}
	q, _, err := f.keptPosterior(ctx, asked, nil, &kept.Options{Products: products, Near: near})
	if err != nil {
		return nil, err
	}
	return q.Dual, nil
}

// warnShort warns that memory holds fewer rows than Method.Within needs, and reports the accuracy with these rows.
func (f *fit) warnShort(rows int, t *kept.Threshold) {
	var more option.Text
	if f.asked.Checkpoint != "" {
		more = option.Textf(" with {checkpoint=%s}, which goes on from here", f.asked.Checkpoint)
	}
	if less := t.Ratio - 1; less < option.MostWithin/2 {
		more += option.Textf(", or give {within=%.2g}", 1.05*less)
	}
	f.con.Warn(job.NewWarning("within-missed", t.Ratio, 1+f.asked.Method.Within, "Raise {max-memory}"+more+".",
		"{within=%v} takes about %s rows and %s, of which %s may be used. With the %s rows that are kept, variances are up to %.3g times those of all rows for 99 %% of the rows asked about.",
		f.asked.Method.Within, job.Count(t.Wanted), job.SizeText(t.Needed), job.SizeText(t.Available), job.Count(rows), t.Ratio))
}

// certify says how much the rows that were left out could change.
func (f *fit) certify(ctx context.Context, q *solution, t *kept.Threshold, products linearize.Products) error {
	dual := q.kept
	k, err := certificate.Certify(ctx, dual.Thinned(), f.source, dual.Sites(), f.prior, f.theta, &certificate.Options{
		All: f.asked.Method.Certify, Seed: f.problem.Seed, Limits: f.problem.Bounds(f.con), Products: products})
	if err != nil {
		return err
	}
	f.con.Clear()
	q.certificate = &result.Certificate{Within: result.Float(f.asked.Method.Within), Threshold: result.Float(t.Strength), Against: t.Of, Ratio: result.Float(t.Ratio),
		Kept: k.Kept, Dropped: k.Dropped, Representatives: dual.Kept().Representatives, Trace: result.Float(k.Trace), DroppedTrace: result.Float(k.TraceM), DroppedTraceError: result.Float(k.TraceMError),
		VarianceAtMost: result.Float(k.VarianceAtMost), Failure: result.Float(k.Failure), Sampled: k.Sampled, Rows: k.Rows}
	for i := range k.Norm {
		q.certificate.Norm[i], q.certificate.LogDet[i] = result.Float(k.Norm[i]), result.Float(k.LogDet[i])
	}
	f.con.Detail("%s", q.certificate.Text())
	return nil
}
