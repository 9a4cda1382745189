package calibration

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// leftOut predicts rows without each training row in turn. mean has the predictions
// at the training rows themselves, N×C, and each calls do with those at every test
// row, N×C, possibly from several goroutines.
type leftOut struct {
	mean *mat.Dense
	each func(ctx context.Context, do func(t int, mean *mat.Dense) error) error
}

// measure counts with the mean f(x;θ*), with that of the refit, and with networks
// that were trained without each part of the training rows.
func (k *coverageCase) measure(ctx context.Context, o *options, split int) ([]coverageResult, error) {
	p, err := k.open(ctx, o, split)
	if err != nil {
		return nil, err
	}
	p.members = 1
	path := k.path(o, strings.TrimSuffix(k.name, "-training"), split) // of the same network
	nets, err := p.networks(ctx, path)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(k.delta, nil)
	if err != nil {
		return nil, err
	}
	kernel := ntk.New(prior, nets[0].Theta())
	x, err := nets[0].Linearize(ctx, p.train.x)
	if err != nil {
		return nil, err
	}
	sites, err := gp.NewSites(gp.NewTargets(p.train.y, p.lik), x.F)
	if err != nil {
		return nil, err
	}
	var all []coverageResult
	for _, name := range []string{"network", "refit", "folds"} {
		if name == "folds" && (k.folds == 0 || split >= k.foldSplits) {
			continue
		}
		r := coverageResult{Case: k.name, What: k.what, Split: split, Without: name, Examples: p.train.len(), Precision: result.Float(k.delta),
			Gradient: result.Float(gp.GradientNorm(x, sites, prior, nets[0].Theta()))}
		from := time.Now()
		var post *gp.Exact
		var left *leftOut
		switch name {
		case "network":
			post, err = gp.Fit(ctx, kernel, x, sites, nil)
		case "refit":
			post, err = gp.Refit(ctx, kernel, x, gp.NewTargets(p.train.y, p.lik), nil)
		case "folds":
			left, err = k.retrained(ctx, p, path)
		}
		if err != nil {
			return nil, err
		}
		r.FitSeconds = result.Float(time.Since(from).Seconds())
		from = time.Now()
		if post != nil {
			if left, err = oneStep(ctx, p, nets[0], post, kernel); err != nil {
				return nil, err
			}
		}
		rows, err := k.count(ctx, p, left, r)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			r.Seconds = result.Float(time.Since(from).Seconds())
			all = append(all, r)
			fmt.Fprintf(os.Stderr, "%s %d %s: %g wanted, %.4f of %d in [%.4f, %.4f], mean size %.4f, %d empty, %.1f s\n", r.Case, r.Split, r.Without, r.Wanted, r.Share, r.Test, r.Band[0], r.Band[1], r.MeanSize, r.Empty, r.Seconds)
		}
	}
	return all, nil
}

// coverageTile is how many test rows are linearized at a time.
const coverageTile = 500

// oneStep leaves out each row by a step from the posterior.
func oneStep(ctx context.Context, p *problem, net *network.Network, post gp.Dual, kernel *ntk.NTK) (*leftOut, error) {
	e, err := explain.New(post, kernel, nil)
	if err != nil {
		return nil, err
	}
	w, err := e.Without(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &leftOut{w.Mean(), func(ctx context.Context, do func(t int, mean *mat.Dense) error) error {
		_, d := p.test.x.Dims()
		for lo := 0; lo < p.test.len(); lo += coverageTile {
			hi := min(lo+coverageTile, p.test.len())
			b, err := net.Linearize(ctx, p.test.x.Slice(lo, hi, 0, d).(*mat.Dense))
			if err != nil {
				return err
			}
			if err := w.Each(ctx, b, func(t int, mean *mat.Dense) error { return do(lo+t, mean) }); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// retrained leaves out row i by a network that was trained without the rows j with
// the same j mod folds, as CV+ does.
func (k *coverageCase) retrained(ctx context.Context, p *problem, path string) (*leftOut, error) {
	n, test := p.train.len(), make([]*mat.Dense, k.folds)
	var mean *mat.Dense
	for fold := range k.folds {
		q := *p
		q.recipe.file = ""
		var out []int
		q.train, out = p.train.withoutFold(fold, k.folds)
		nets, err := q.networks(ctx, fmt.Sprintf("%s-fold%d", path, fold))
		if err != nil {
			return nil, err
		}
		f, err := nets[0].Forward(ctx, p.train.x)
		if err != nil {
			return nil, err
		}
		if mean == nil {
			_, c := f.Dims()
			mean = mat.NewDense(n, c, nil)
		}
		for _, i := range out {
			mean.SetRow(i, f.RawRowView(i))
		}
		if test[fold], err = nets[0].Forward(ctx, p.test.x); err != nil {
			return nil, err
		}
	}
	return &leftOut{mean, func(ctx context.Context, do func(t int, mean *mat.Dense) error) error {
		at := mat.DenseCopyOf(mean)
		for t := range p.test.len() {
			for i := range n {
				at.SetRow(i, test[i%k.folds].RawRowView(t))
			}
			if err := do(t, at); err != nil {
				return err
			}
		}
		return ctx.Err()
	}}, nil
}

// withoutFold returns the rows i whose i mod folds is another, and the others.
func (p part) withoutFold(fold, folds int) (part, []int) {
	var keep, out []int
	for i := range p.len() {
		if i%folds == fold {
			out = append(out, i)
		} else {
			keep = append(keep, i)
		}
	}
	of := func(m *mat.Dense) *mat.Dense {
		_, c := m.Dims()
		to := mat.NewDense(len(keep), c, nil)
		for at, i := range keep {
			to.SetRow(at, m.RawRowView(i))
		}
		return to
	}
	return part{of(p.x), of(p.y)}, out
}

// count counts for each coverage that is wanted. r has what is the same for all.
func (k *coverageCase) count(ctx context.Context, p *problem, left *leftOut, r coverageResult) ([]coverageResult, error) {
	all, made, sizes := make([]coverageResult, len(k.wanted)), make([]*score.Jackknife, len(k.wanted)), make([][]float64, len(k.wanted))
	for i, wanted := range k.wanted {
		var err error
		if made[i], err = score.NewJackknife(p.lik, wanted, p.train.y, left.mean); err != nil {
			return nil, err
		}
		all[i], sizes[i] = r, make([]float64, p.test.len())
		all[i].Wanted, all[i].Unknown, all[i].Test = result.Float(wanted), made[i].Unknown(), p.test.len()
	}
	var mu sync.Mutex
	err := left.each(ctx, func(t int, mean *mat.Dense) error {
		for i, j := range made {
			size, holds := sizeOf(j, mean, p.test.y.At(t, 0))
			mu.Lock()
			sizes[i][t] = size
			if holds {
				all[i].Held++
			}
			if size == 0 {
				all[i].Empty++
			}
			mu.Unlock()
		}
		return nil
	})
	for i := range all {
		a := &all[i]
		for _, v := range sizes[i] {
			a.MeanSize += result.Float(v / float64(a.Test))
		}
		lo, hi := score.ClopperPearson(a.Held, a.Test, .95)
		a.Share, a.Band = result.Float(float64(a.Held)/float64(a.Test)), []result.Float{result.Float(lo), result.Float(hi)}
	}
	return all, err
}

// sizeOf returns the width of an interval, or the number of classes of a set, and
// whether it holds y.
func sizeOf(j *score.Jackknife, mean *mat.Dense, y float64) (size float64, holds bool) {
	if j.Classes() == 0 {
		lo, hi := j.Interval(0, mean)
		return math.Max(0, hi-lo), lo <= y && y <= hi
	}
	in := j.Set(0, mean)
	for _, v := range in {
		if v {
			size++
		}
	}
	return size, in[int(y)]
}
