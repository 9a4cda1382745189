package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// results are what is measured.
type results struct {
	Train      int
	Precision  float64 // of training
	FitSeconds float64 // one pass at the largest M
	Rows       []row
}

// A row is one predictive.
type row struct {
	Method     string
	M          int
	Tuned      bool
	Precision  float64
	TraceError float64 // NaN does not exist in JSON: -1 where there is none
	ValidNLL   float64
	NLL        float64
	ECE        float64
	Accuracy   float64
	KMNIST     float64 // AUROC by entropy
	Rotated    float64
}

// An entry is a predictive being judged.
type entry struct {
	row
	post *sparse.Projected // nil for the network alone
	link glm.Link
	logp []float64
	prob *mat.Dense           // of the test rows
	ent  map[string][]float64 // entropies of a set
}

var lik = glm.Categorical{}

func measure(ctx context.Context, o *options) (*results, error) {
	p, err := openProblem(ctx, o)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(p.delta, nil)
	if err != nil {
		return nil, err
	}
	k := ntk.New(prior, p.net.Theta(), nil)
	entries, r, err := fit(ctx, p, k, o)
	if err != nil {
		return nil, err
	}
	for _, set := range []rows{p.test, p.kmnist, p.rotated} {
		if err := predictSet(ctx, entries, set); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		e.finish(p)
		r.Rows = append(r.Rows, e.row)
		fmt.Fprintf(os.Stderr, "%+v\n", e.row)
	}
	return r, nil
}

// fit passes over the training rows once, at the largest M, and chooses
// precisions.
func fit(ctx context.Context, p *problem, k *ntk.NTK, o *options) ([]*entry, *results, error) {
	r := &results{Train: p.train.n, Precision: p.delta}
	train := p.train.source(0, p.train.n)
	sites, err := gp.SitesFrom(ctx, train, p.train.targets(), lik)
	if err != nil {
		return nil, nil, err
	}
	from := time.Now()
	so := &sparse.Options{Progress: progress()}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: p.train.labels}, k, train, o.sizes[len(o.sizes)-1], so)
	if err != nil {
		return nil, nil, err
	}
	b, err := sparse.NewBuilder(ctx, k, z, so)
	if err != nil {
		return nil, nil, err
	}
	if err := b.Add(ctx, train, sites); err != nil {
		return nil, nil, err
	}
	whole, err := b.Posterior(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.FitSeconds = time.Since(from).Seconds()
	t := &tuning{prepared: nil, y: p.valid.targets()}
	if t.prepared, err = whole.Prepare(ctx, p.valid.source(0, p.valid.n)); err != nil {
		return nil, nil, err
	}
	logp := make([]float64, p.valid.n)
	if err := (glm.MAP{}).LogPredictiveTo(logp, lik, t.y, t.prepared.F(), nil); err != nil {
		return nil, nil, err
	}
	entries := []*entry{{row: row{Method: "MAP", TraceError: -1, ValidNLL: glm.NLL(logp)}, link: glm.MAP{}}}
	for _, m := range o.sizes {
		subset, err := subsetOf(ctx, k, z, m, sites, so)
		if err != nil {
			return nil, nil, err
		}
		nystrom, err := whole.Leading(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range []struct {
			name string
			post *sparse.Projected
		}{{"subset", subset}, {"Nyström", nystrom}} {
			both, err := t.entries(ctx, c.name, c.post, p.delta)
			if err != nil {
				return nil, nil, err
			}
			entries = append(entries, both...)
		}
	}
	return entries, r, nil
}

// subsetOf returns the exact posterior of the first m inducing examples. It
// shares their features with the other posteriors.
func subsetOf(ctx context.Context, k ntk.Kernel, z *sparse.Inducing, m int, s *gp.Sites, o *sparse.Options) (*sparse.Projected, error) {
	b, err := sparse.NewBuilder(ctx, k, z, o)
	if err != nil {
		return nil, err
	}
	if err := b.Add(ctx, z.Batch.Slice(0, m), s.Rows(z.Rows[:m])); err != nil {
		return nil, err
	}
	p, err := b.Posterior(ctx)
	if err != nil {
		return nil, err
	}
	return p.Leading(ctx, m)
}

// tuning chooses precisions on held-out rows.
type tuning struct {
	prepared *sparse.Prepared
	y        *mat.Dense
}

func (t *tuning) score(mean, cov *mat.Dense) (float64, error) {
	logp := make([]float64, t.prepared.Len())
	err := glm.Probit{}.LogPredictiveTo(logp, lik, t.y, mean, cov)
	return glm.NLL(logp), err
}

// entries returns the predictive at the precision of training and tuned.
func (t *tuning) entries(ctx context.Context, name string, p *sparse.Projected, delta float64) ([]*entry, error) {
	tuned, err := p.Tune(ctx, t.prepared, t.score)
	if err != nil {
		return nil, err
	}
	traceError := p.TraceError()
	if name == "subset" {
		traceError = -1
	}
	r := row{Method: name, M: p.Inducing().Len(), Precision: delta, TraceError: traceError, ValidNLL: tuned.Trials[0].Score}
	fmt.Fprintf(os.Stderr, "%s M=%d: %d trials, factor %.3g\n", name, r.M, len(tuned.Trials), tuned.Factor)
	at := r
	at.Tuned, at.Precision, at.ValidNLL = true, delta/tuned.Factor, tuned.Score
	return []*entry{{row: r, post: p, link: glm.Probit{}}, {row: at, post: tuned.Posterior, link: glm.Probit{}}}, nil
}

// predictSet predicts all rows of a set by all entries, a chunk of features at
// a time.
func predictSet(ctx context.Context, entries []*entry, set rows) error {
	show := progress()
	const chunk = 1000
	whole := entries[len(entries)-1].post
	for lo := 0; lo < set.n; lo += chunk {
		hi := min(lo+chunk, set.n)
		prepared, err := whole.Prepare(ctx, set.source(lo, hi))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := e.predict(ctx, prepared, set, lo, hi); err != nil {
				return err
			}
		}
		show(set.name, hi, set.n)
	}
	return nil
}

func (e *entry) predict(ctx context.Context, t *sparse.Prepared, set rows, lo, hi int) error {
	mean, cov := mat.DenseCopyOf(t.F()), new(mat.Dense)
	_, c := mean.Dims()
	if e.post == nil {
		cov = mat.NewDense((hi-lo)*c, c, nil)
	} else if err := e.post.PredictPreparedTo(ctx, mean, cov, t); err != nil {
		return err
	}
	prob := new(mat.Dense)
	if err := e.link.PredictTo(prob, nil, lik, mean, cov); err != nil {
		return err
	}
	if e.ent == nil {
		e.ent = map[string][]float64{}
	}
	ent := make([]float64, hi-lo)
	glm.EntropyTo(ent, prob)
	e.ent[set.name] = append(e.ent[set.name], ent...)
	if set.name != "test" {
		return nil
	}
	y := set.targets().Slice(lo, hi, 0, 1).(*mat.Dense)
	logp := make([]float64, hi-lo)
	if err := e.link.LogPredictiveTo(logp, lik, y, mean, cov); err != nil {
		return err
	}
	e.logp = append(e.logp, logp...)
	if e.prob == nil {
		e.prob = mat.NewDense(set.n, c, nil)
	}
	e.prob.Slice(lo, hi, 0, c).(*mat.Dense).Copy(prob)
	return nil
}

func (e *entry) finish(p *problem) {
	e.NLL, e.ECE, e.Accuracy = glm.NLL(e.logp), glm.ECE(e.prob, p.test.labels), glm.Accuracy(e.prob, p.test.labels)
	e.KMNIST = glm.AUROC(e.ent[p.test.name], e.ent[p.kmnist.name])
	e.Rotated = glm.AUROC(e.ent[p.test.name], e.ent[p.rotated.name])
	for _, v := range []*float64{&e.NLL, &e.ECE, &e.KMNIST, &e.Rotated} {
		if math.IsNaN(*v) {
			*v = -1
		}
	}
}

// progress writes a line now and then.
func progress() func(stage string, done, total int) {
	from, last := time.Now(), time.Now()
	return func(stage string, done, total int) {
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			fmt.Fprintf(os.Stderr, "%s %d of %d, %.0f s\n", stage, done, total, time.Since(from).Seconds())
		}
	}
}
