package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
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
	Kept       int `json:",omitempty"` // rows of an exact posterior (E16)
	Tuned      bool
	Precision  float64
	TraceError float64 // NaN does not exist in JSON: -1 where there is none
	ValidNLL   float64
	verdict             // by the multi-class probit, or of the network alone
	QMC        *verdict `json:",omitempty"` // by the integral over all of the covariance; nil for the network alone
}

// A verdict judges one predictive.
type verdict struct {
	NLL      float64
	ECE      float64
	Accuracy float64
	KMNIST   float64 // AUROC by entropy
	Rotated  float64
}

// An entry is a predictive being judged.
type entry struct {
	row
	post   *sparse.Projected // nil for the network alone
	judged []*judged         // by each link, in the order of row's verdicts
}

// A judged is what one link makes of a posterior.
type judged struct {
	link predictive.Link
	logp []float64
	prob *mat.Dense           // of the test rows
	ent  map[string][]float64 // entropies of a set
}

func judgedBy(links ...predictive.Link) []*judged {
	var all []*judged
	for _, l := range links {
		all = append(all, &judged{link: l, ent: map[string][]float64{}})
	}
	return all
}

var lik = glm.Categorical{}

// qmc is the integral over the whole covariance, to a tolerance that half a million
// of them can afford.
var qmc = predictive.QMC{Tol: 1e-3, MaxPoints: 4096}

func measure(ctx context.Context, o *options) (*results, error) {
	p, err := openProblem(ctx, o)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(p.delta, nil)
	if err != nil {
		return nil, err
	}
	k := ntk.New(prior, p.net.Theta())
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

// measureDistance prints how far sparse posteriors are from the exact one.
func measureDistance(ctx context.Context, o *options) error {
	p, err := openProblem(ctx, o)
	if err != nil {
		return err
	}
	prior, err := ntk.NewIsotropic(p.delta, nil)
	if err != nil {
		return err
	}
	return distance(ctx, p, ntk.New(prior, p.net.Theta()), o.distance)
}

// fit passes over the training rows once, at the largest M, and chooses
// precisions.
func fit(ctx context.Context, p *problem, k *ntk.NTK, o *options) ([]*entry, *results, error) {
	r := &results{Train: p.train.n, Precision: p.delta}
	train := p.train.source(0, p.train.n)
	sites, err := gp.SitesFrom(ctx, train, gp.NewTargets(p.train.targets(), lik))
	if err != nil {
		return nil, nil, err
	}
	from := time.Now()
	so := &sparse.Options{Limits: linearize.Limits{Progress: progress()}}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: p.train.labels}, k, train, o.sizes[len(o.sizes)-1], so)
	if err != nil {
		return nil, nil, err
	}
	whole, err := passOrRead(ctx, o.keep, k, z, train, sites, so)
	if err != nil {
		return nil, nil, err
	}
	z = whole.Inducing() // the features of all posteriors are those of these examples
	r.FitSeconds = time.Since(from).Seconds()
	t := &tuning{prepared: nil, y: p.valid.targets()}
	if t.prepared, err = whole.Prepare(ctx, p.valid.source(0, p.valid.n)); err != nil {
		return nil, nil, err
	}
	logp := make([]float64, p.valid.n)
	if err := (predictive.MAP{}).LogPredictiveTo(logp, lik, t.y, t.prepared.F(), nil); err != nil {
		return nil, nil, err
	}
	entries := []*entry{{row: row{Method: mapMethod, TraceError: -1, ValidNLL: score.NLL(logp)}, judged: judgedBy(predictive.MAP{})}}
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

// passOrRead passes over the training rows, or reads the posterior that an
// earlier run kept.
func passOrRead(ctx context.Context, path string, k ntk.Kernel, z *sparse.Inducing, train linearize.Source, s *gp.Sites, o *sparse.Options) (*sparse.Projected, error) {
	const kind = "sparse posterior"
	if _, err := os.Stat(path); err == nil {
		f, err := store.Open(path, kind, 1) // stays open as long as the posterior is used
		if err != nil {
			return nil, err
		}
		return sparse.LoadProjected(ctx, f, k, z, o)
	}
	b, err := sparse.NewBuilder(ctx, k, z, o)
	if err != nil {
		return nil, err
	}
	if err := b.Add(ctx, train, s); err != nil {
		return nil, err
	}
	p, err := b.Posterior(ctx)
	if err != nil || path == "" {
		return p, err
	}
	return p, store.Write(path, kind, 1, p.Save)
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
	err := predictive.Probit{}.LogPredictiveTo(logp, lik, t.y, mean, cov)
	return score.NLL(logp), err
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
	return []*entry{
		{row: r, post: p, judged: judgedBy(predictive.Probit{}, qmc)},
		{row: at, post: tuned.Posterior, judged: judgedBy(predictive.Probit{}, qmc)},
	}, nil
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
		err = par.Do(ctx, len(entries), func(i int) error { return entries[i].predict(ctx, prepared, set, lo, hi) })
		if err != nil {
			return err
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
	for _, j := range e.judged {
		if err := j.predict(mean, cov, set, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

func (j *judged) predict(mean, cov *mat.Dense, set rows, lo, hi int) error {
	prob := new(mat.Dense)
	if err := j.link.PredictTo(prob, nil, lik, mean, cov); err != nil {
		return err
	}
	ent := make([]float64, hi-lo)
	score.EntropyTo(ent, prob)
	j.ent[set.name] = append(j.ent[set.name], ent...)
	if set.name != "test" {
		return nil
	}
	y := set.targets().Slice(lo, hi, 0, 1).(*mat.Dense)
	logp := make([]float64, hi-lo)
	if err := j.link.LogPredictiveTo(logp, lik, y, mean, cov); err != nil {
		return err
	}
	j.logp = append(j.logp, logp...)
	_, c := mean.Dims()
	if j.prob == nil {
		j.prob = mat.NewDense(set.n, c, nil)
	}
	j.prob.Slice(lo, hi, 0, c).(*mat.Dense).Copy(prob)
	return nil
}

func (e *entry) finish(p *problem) {
	e.verdict = e.judged[0].verdict(p)
	if len(e.judged) > 1 {
		v := e.judged[1].verdict(p)
		e.QMC = &v
	}
}

func (j *judged) verdict(p *problem) verdict {
	v := verdict{NLL: score.NLL(j.logp), ECE: score.ECE(j.prob, p.test.labels), Accuracy: score.Accuracy(j.prob, p.test.labels),
		KMNIST: score.AUROC(j.ent[p.test.name], j.ent[p.kmnist.name]), Rotated: score.AUROC(j.ent[p.test.name], j.ent[p.rotated.name])}
	for _, x := range []*float64{&v.NLL, &v.ECE, &v.KMNIST, &v.Rotated} {
		if math.IsNaN(*x) {
			*x = -1
		}
	}
	return v
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
