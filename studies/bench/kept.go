package bench

import (
	"context"
	"fmt"
	"os"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A thinning is a posterior of kept rows (E16) with what it took.
type thinning struct {
	entry
	within               float64
	rows                 int
	strength             float64
	search, choose, pass seconds
	median, high         float64 // ratios of variances to those of all rows: the middle, and 99 in 100
}

// measureKept compares Nyström posteriors of all rows of Λ with those of kept rows, at
// the precision of training and at another one, by time and by predictions.
func measureKept(ctx context.Context, o *options) error {
	p, err := openProblem(ctx, o)
	if err != nil {
		return err
	}
	k, err := kernelAt(p, p.delta)
	if err != nil {
		return err
	}
	train := p.train.source(0, p.train.n)
	sites, err := gp.SitesFrom(ctx, train, gp.NewTargets(p.train.targets(), lik))
	if err != nil {
		return err
	}
	so := &sparse.Options{Limits: linearize.Limits{Progress: progress()}}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: p.train.labels}, k, train, o.sizes[len(o.sizes)-1], so)
	if err != nil {
		return err
	}
	from := now()
	whole, err := passOrRead(ctx, o.keep, k, z, train, sites, so)
	if err != nil {
		return err
	}
	fmt.Printf("all rows: %s\n", from.since())
	asked, err := p.net.Linearize(ctx, p.test.inputs(0, 200))
	if err != nil {
		return err
	}
	prepared, err := whole.Prepare(ctx, p.test.source(0, min(1000, p.test.n)))
	if err != nil {
		return err
	}
	var entries []*entry
	precisions := []float64{o.other}
	if !o.otherOnly {
		precisions = append([]float64{p.delta}, precisions...)
	}
	for _, delta := range precisions {
		at, err := whole.At(ctx, p.delta/delta)
		if err != nil {
			return err
		}
		entries = append(entries, &entry{row: row{Method: "all rows", Precision: delta}, post: at, judged: judgedBy(qmc)})
		for _, within := range o.within {
			t, err := thin(ctx, p, k, whole.Inducing(), train, sites, asked, delta, within, o.search)
			if err != nil {
				return err
			}
			if err := t.compare(ctx, at, prepared); err != nil {
				return err
			}
			fmt.Printf("δ = %.3g, within %.2g: τ = %.3g, %d rows; search %s, choice %s, pass %s; variance ratio %.4f, %.4f\n",
				delta, within, t.strength, t.rows, t.search, t.choose, t.pass, t.median, t.high)
			entries = append(entries, &t.entry)
		}
	}
	if o.limit == 0 {
		return nil
	}
	for _, set := range []rows{p.test, p.kmnist} {
		if err := predictSet(ctx, entries, set); err != nil {
			return err
		}
	}
	p.rotated = p.kmnist
	p.rotated.name = p.kmnist.name
	fmt.Println("| posterior | precision | NLL | ECE | accuracy | AUROC Kuzushiji |\n|---|---|---|---|---|---|")
	for _, e := range entries {
		v := e.judged[0].verdict(p)
		fmt.Printf("| %s | %.3g | %.4f | %.4f | %.4f | %.4f |\n", e.Method, e.Precision, v.NLL, v.ECE, v.Accuracy, v.KMNIST)
	}
	return nil
}

// mostRows of the examples of the search stand for all of them: four each of 1,500,
// because a softmax is sure of most directions.
const mostRows = 6000

func kernelAt(p *problem, delta float64) (*ntk.NTK, error) {
	prior, err := ntk.NewIsotropic(delta, nil)
	if err != nil {
		return nil, err
	}
	return ntk.New(prior, p.net.Theta()), nil
}

// String writes both clocks.
func (s seconds) String() string { return fmt.Sprintf("%.1f s (%.1f s of processors)", s.wall, s.cpu) }

// thin fits the kept rows under the precision delta.
func thin(ctx context.Context, p *problem, k *ntk.NTK, z *sparse.Inducing, train linearize.Source, s *gp.Sites, asked *linearize.Batch, delta, within float64, examples int) (*thinning, error) {
	at, err := kernelAt(p, delta)
	if err != nil {
		return nil, err
	}
	t := &thinning{entry: entry{row: row{Method: fmt.Sprintf("within %.2g", within), Precision: delta}, judged: judgedBy(qmc)}, within: within}
	show := progress()
	from := now()
	found, err := kept.FindThreshold(ctx, at, train, s, asked, &kept.ThresholdOptions{Within: within, Examples: examples, Most: mostRows, Limits: linearize.Limits{Progress: show}})
	if err != nil {
		return nil, err
	}
	t.search, t.strength = from.since(), found.Strength
	fmt.Fprintf(os.Stderr, "%+v %s\n", *found, t.search)
	from = now()
	o := found.KeepOptions()
	o.Progress = show
	rows, err := gp.Keep(ctx, at, train, s, o)
	if err != nil {
		return nil, err
	}
	t.choose, t.rows = from.since(), rows.Len()
	fmt.Fprintf(os.Stderr, "%d rows %s\n", t.rows, t.choose)
	from = now()
	b, err := sparse.NewBuilder(ctx, k, z, &sparse.Options{Limits: linearize.Limits{Progress: show}})
	if err != nil {
		return nil, err
	}
	if err := b.AddKept(ctx, train, s, rows); err != nil {
		return nil, err
	}
	post, err := b.Posterior(ctx)
	if err != nil {
		return nil, err
	}
	// The pass takes as long at every precision, and At needs none.
	if t.post, err = post.At(ctx, p.delta/delta); err != nil {
		return nil, err
	}
	t.pass = from.since()
	return t, nil
}

// compare computes the ratios of variances to those of the posterior of all rows, over
// all outputs of prepared rows.
func (t *thinning) compare(ctx context.Context, whole *sparse.Projected, prepared *sparse.Prepared) error {
	var few, all mat.Dense
	if err := t.post.PredictPreparedTo(ctx, nil, &few, prepared); err != nil {
		return err
	}
	if err := whole.PredictPreparedTo(ctx, nil, &all, prepared); err != nil {
		return err
	}
	n, c := all.Dims()
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = few.At(i, i%c) / all.At(i, i%c)
	}
	slices.Sort(ratios)
	t.median, t.high = ratios[n/2], ratios[n*99/100]
	return nil
}
