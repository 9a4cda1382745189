package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// leftOutRows is how many training rows are predicted without themselves, to calibrate.
const leftOutRows = 500

// An exactFit is an exact posterior of kept rows at a precision (E16).
type exactFit struct {
	p         *problem
	delta     float64
	train     linearize.Source
	sites     *gp.Sites
	prior     ntk.Prior
	kernel    *ntk.NTK
	threshold *kept.Threshold
	post      *gp.Thinned
}

// measureExact prints what exact posteriors of kept rows take and what they are worth, and
// how far Nyström posteriors of the pass in -keep are from them.
func measureExact(ctx context.Context, o *options) error {
	p, err := openProblem(ctx, o)
	if err != nil {
		return err
	}
	train := p.train.source(0, p.train.n)
	from := now()
	sites, err := gp.SitesFrom(ctx, train, gp.NewTargets(p.train.targets(), lik))
	if err != nil {
		return err
	}
	fmt.Printf("%d training rows, %d test rows and as many letters; sites %s\n", p.train.n, p.test.n, from.since())
	var whole *sparse.Projected
	if o.keep != "" {
		k, err := kernelAt(p, p.delta)
		if err != nil {
			return err
		}
		so := &sparse.Options{Limits: linearize.Limits{Progress: progress()}}
		z, err := sparse.Select(ctx, sparse.Stratified{Labels: p.train.labels}, k, train, o.sizes[len(o.sizes)-1], so)
		if err != nil {
			return err
		}
		if whole, err = passOrRead(ctx, o.keep, k, z, train, sites, so); err != nil {
			return err
		}
	}
	for text := range strings.SplitSeq(o.precisions, ",") {
		delta, err := strconv.ParseFloat(text, 64)
		if err != nil || !(delta > 0) {
			return fmt.Errorf("-precisions %s must be positive numbers", o.precisions)
		}
		f := &exactFit{p: p, delta: delta, train: train, sites: sites}
		if err := f.fit(ctx, o.exact); err != nil {
			return err
		}
		v, err := f.judge(ctx, whole, o.sizes)
		if err != nil {
			return err
		}
		if err := addTo(o.add, v); err != nil {
			return err
		}
	}
	return nil
}

// addTo puts a row in the place of the one of its method and precision in a file of
// results, or at the end; "" is no file.
func addTo(path string, x *row) error {
	if path == "" {
		return nil
	}
	r, err := readResults(path)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(r.Rows, func(y row) bool { return y.Method == x.Method && y.Precision == x.Precision })
	if at < 0 {
		r.Rows = append(r.Rows, *x)
	} else {
		r.Rows[at] = *x
	}
	return writeJSON(path, r)
}

// fit finds the threshold, conditions on the rows above it and certifies them.
func (f *exactFit) fit(ctx context.Context, within float64) error {
	var err error
	if f.prior, err = ntk.NewIsotropic(f.delta, nil); err != nil {
		return err
	}
	f.kernel = ntk.New(f.prior, f.p.net.Theta())
	asked, err := f.p.net.Linearize(ctx, f.p.test.inputs(0, min(200, f.p.test.n)))
	if err != nil {
		return err
	}
	show := progress()
	all, from := now(), now()
	if f.threshold, err = kept.FindThreshold(ctx, f.kernel, f.train, f.sites, asked, &kept.ThresholdOptions{Within: within, Limits: linearize.Limits{Progress: show}}); err != nil {
		return err
	}
	fmt.Printf("\nδ = %.4g: τ = %.3g, %d of %d rows of %d examples, ratio %.4f: %s\n", f.delta, f.threshold.Strength, f.threshold.Rows, f.threshold.Of, f.threshold.Examples, f.threshold.Ratio, from.since())
	from = now()
	post, err := kept.Fit(ctx, f.train, f.sites, f.prior, f.p.net.Theta(), &kept.Options{Found: f.threshold, Limits: linearize.Limits{Progress: show}})
	if err != nil {
		return err
	}
	f.post = post.Thinned()
	rows := f.post.Kept()
	fmt.Printf("%d rows, %.4f of tr Λ, and %d representatives: %s; in all %s\n", rows.Own(), rows.Trace/rows.Total, rows.Representatives, from.since(), all.since())
	from = now()
	c, err := certificate.Certify(ctx, f.post, f.train, f.sites, f.prior, f.p.net.Theta(), &certificate.Options{Limits: linearize.Limits{Progress: show}})
	if err != nil {
		return err
	}
	fmt.Printf("certificate %+v: %s\n", *c, from.since())
	return nil
}

// judge scores predictions as they are and calibrated by leave-one-out, and compares
// those of Nyström posteriors with them. It returns the row of the exact posterior.
func (f *exactFit) judge(ctx context.Context, whole *sparse.Projected, sizes []int) (*row, error) {
	scale, err := f.calibrate(ctx)
	if err != nil {
		return nil, err
	}
	from := now()
	names := []string{"exact", "exact, calibrated"}
	posts := []gp.Latent{f.post, f.post}
	scales := []float64{1, scale}
	if whole != nil {
		for _, m := range sizes {
			post, err := whole.Leading(ctx, m)
			if err != nil {
				return nil, err
			}
			if post, err = post.At(ctx, f.p.delta/f.delta); err != nil {
				return nil, err
			}
			names, posts, scales = append(names, fmt.Sprintf("Nyström, M = %d", m)), append(posts, post), append(scales, 1)
		}
	}
	all := make([]*judged, len(posts))
	for i := range all {
		all[i] = judgedBy(qmc)[0]
	}
	probit := judgedBy(predictive.Probit{})[0]
	for _, set := range []rows{f.p.test, f.p.kmnist, f.p.rotated} {
		if err := f.predict(ctx, set, posts, scales, all, probit); err != nil {
			return nil, err
		}
	}
	fmt.Printf("predictions %s\n\n| posterior, δ = %.4g | NLL | ECE | accuracy | AUROC Kuzushiji | AUROC rotated | divergence from exact |\n|---|---|---|---|---|---|---|\n", from.since(), f.delta)
	for i, j := range all {
		v := j.verdict(f.p)
		fmt.Printf("| %s | %.4f | %.4f | %.4f | %.4f | %.4f | %.5f |\n", names[i], v.NLL, v.ECE, v.Accuracy, v.KMNIST, v.Rotated, divergence(all[0].prob, j.prob))
	}
	v := all[0].verdict(f.p)
	return &row{Method: "exact", Kept: f.post.Rows().Len(), Tuned: f.delta != f.p.delta, Precision: f.delta, TraceError: -1, ValidNLL: -1, verdict: probit.verdict(f.p), QMC: &v}, nil
}

// calibrate finds the scale of the covariance by leave-one-out.
func (f *exactFit) calibrate(ctx context.Context) (float64, error) {
	from := now()
	at := make([]int, min(leftOutRows, f.p.train.n))
	for i := range at {
		at[i] = i * f.p.train.n / len(at)
	}
	x, err := linearize.Gather(ctx, f.train, at)
	if err != nil {
		return 0, err
	}
	var mean, cov mat.Dense
	if err := f.post.LeaveOneOutTo(ctx, &mean, &cov, at, x); err != nil {
		return 0, err
	}
	y := mat.NewDense(len(at), 1, nil)
	for i, row := range at {
		y.Set(i, 0, float64(f.p.train.labels[row]))
	}
	c, err := score.Calibrate(ctx, lik, y, &mean, &cov, &score.CalibrateOptions{Link: qmc, KeepMean: true})
	if err != nil {
		return 0, err
	}
	fmt.Printf("scale %.3g by leave-one-out over %d rows: %s\n", c.Scale, len(at), from.since())
	return c.Scale, nil
}

// predict takes the rows of a set a few at a time, the first posterior also by the probit.
func (f *exactFit) predict(ctx context.Context, set rows, posts []gp.Latent, scales []float64, to []*judged, probit *judged) error {
	const chunk = 250
	show := progress()
	for lo := 0; lo < set.n; lo += chunk {
		hi := min(lo+chunk, set.n)
		x, err := f.p.net.Linearize(ctx, set.inputs(lo, hi))
		if err != nil {
			return err
		}
		var mean, cov mat.Dense
		for i, post := range posts {
			if i == 0 || post != posts[i-1] {
				if err := post.PredictTo(ctx, &mean, &cov, x); err != nil {
					return err
				}
			}
			var scaled mat.Dense
			scaled.Scale(scales[i], &cov)
			if err := to[i].predict(&mean, &scaled, set, lo, hi); err != nil {
				return err
			}
			if i > 0 {
				continue
			}
			if err := probit.predict(&mean, &cov, set, lo, hi); err != nil {
				return err
			}
		}
		show(set.name, hi, set.n)
	}
	fmt.Fprintln(os.Stderr, set.name)
	return nil
}
