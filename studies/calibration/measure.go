package calibration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// path is where the cache keeps what belongs to a case and split.
func (k *kase) path(o *options, split int) string {
	return filepath.Join(o.cache, fmt.Sprintf("%s-split%d", strings.ReplaceAll(k.name, "/", "-"), split))
}

// measure measures one split of a case and keeps the result, unless it is kept
// already.
func (k *kase) measure(ctx context.Context, o *options, split int) error {
	file := k.path(o, split) + ".json"
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	from := time.Now()
	p, err := k.open(ctx, o, split)
	if err != nil {
		return err
	}
	nets, err := p.networks(ctx, k.path(o, split))
	if err != nil || o.trainOnly {
		return err
	}
	_, c, params := nets[0].Dims()
	r := &outcome{Case: k.name, Split: split, Likelihood: p.lik.Name(), Examples: p.train.len(), Outputs: c, Parameters: params, Test: p.test.len()}
	alone, err := p.baselines(ctx, nets, r)
	if err != nil {
		return err
	}
	for _, f := range k.fits {
		post, err := p.judge(ctx, nets[0], f, k.path(o, split)+"-"+strings.ReplaceAll(f.name, " ", "-")+".posterior", alone)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		r.Posteriors = append(r.Posteriors, post)
		fmt.Fprintf(os.Stderr, "%s %d %s: network %.4f, s = 1 %.4f, calibrated %.4f at s = %.3g (best %.4f at %.3g), leave-one-out %.4f; fit %.1f s, loo %.1f s, scale %.1f s\n",
			k.name, split, f.name, r.Network.NLL, post.Unscaled.NLL, post.Calibrated.NLL, post.Scale, post.BestNLL, post.BestScale, post.LOO.NLL, post.FitSeconds, post.LOOSeconds, post.ScaleTime)
	}
	fmt.Fprintf(os.Stderr, "%s %d: %.0f s\n", k.name, split, time.Since(from).Seconds())
	return writeJSON(file, r)
}
