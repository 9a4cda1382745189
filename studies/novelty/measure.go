package novelty

import (
	"context"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Our scores, in the order of the table: the entropy of the unscaled predictive, or the
// variance of a regression; the three distances of package novelty; the largest of their
// surprises; and their mean, which is the score.
var ours = []string{"entropy", "function", "inputs, near", "inputs, angle", "largest", "novelty"}

// A result is what one case gives.
type result struct {
	Case     string
	Rows     int // training rows
	Outputs  int
	Inducing int // 0 is exact
	Group    string
	Sets     []set // of rows that are told from the test rows
	// Seconds of the posterior, of the detector beside it, of the posterior's prediction of
	// the test rows and of their scores, and the memory that the posterior and the detector
	// hold.
	Fit, Detector, Predict, Score float64
	FitBytes, DetectorBytes       int64
	TestRows                      int
}

// A set has the AUROC of each score.
type set struct {
	Name  string
	AUROC map[string]float64
}

// best returns the largest AUROC of the baselines.
func (s *set) best() float64 {
	best := 0.0
	for _, name := range baselines {
		best = max(best, s.AUROC[name])
	}
	return best
}

// measure fits the posterior of p, through inducing examples where their number is not 0,
// and scores all sets.
func measure(ctx context.Context, p *problem, inducing int) (*result, error) {
	train, err := p.net.Linearize(ctx, p.train)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(p.precision, nil)
	if err != nil {
		return nil, err
	}
	k := ntk.New(prior, p.net.Theta())
	r := &result{Case: p.name, Rows: train.Len(), Outputs: train.Outputs(), Inducing: inducing}
	var post gp.Dual
	before := heap()
	r.Fit, err = timed(func() (err error) {
		post, err = fit(ctx, k, p, train, inducing)
		return err
	})
	if err != nil {
		return nil, err
	}
	fitted := heap()
	var detector *novelty.Detector
	r.Detector, err = timed(func() (err error) {
		detector, err = novelty.Fit(ctx, k, post, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.FitBytes, r.DetectorBytes = fitted-before, heap()-fitted
	base := newBaseline(p, train)
	of := func(x *mat.Dense) (scores, float64, float64, error) {
		b, err := p.net.Linearize(ctx, x)
		if err != nil {
			return nil, 0, 0, err
		}
		s := scores{}
		base.addTo(s, b)
		var cov, surprises mat.Dense
		predict, err := timed(func() error { return post.PredictTo(ctx, nil, &cov, b) })
		if err != nil {
			return nil, 0, 0, err
		}
		novel := make([]float64, b.Len())
		scoring, err := timed(func() error { return detector.ScoreTo(ctx, novel, b) })
		if err != nil {
			return nil, 0, 0, err
		}
		if err := detector.SurprisesTo(ctx, &surprises, b); err != nil {
			return nil, 0, 0, err
		}
		// The entropy of several classes does not take the link.
		entropy, err := score.NoveltyOf(ctx, linkOf(b.Outputs()), p.lik, b.F, &cov)
		if err != nil {
			return nil, 0, 0, err
		}
		s["entropy"], s["novelty"], s["largest"] = entropy.Score, novel, make([]float64, b.Len())
		for i, name := range []string{novelty.Function: "function", novelty.Mahalanobis: "inputs, near", novelty.Angle: "inputs, angle"} {
			s[name] = mat.Col(nil, i, &surprises)
		}
		for i := range novel {
			s["largest"][i] = slices.Max(surprises.RawRowView(i))
		}
		return s, predict, scoring, nil
	}
	test, predict, scoring, err := of(p.test)
	if err != nil {
		return nil, err
	}
	r.TestRows, r.Predict, r.Score = len(test["novelty"]), predict, scoring
	for _, o := range p.others {
		rows, _, _, err := of(o.x)
		if err != nil {
			return nil, err
		}
		s := set{o.name, map[string]float64{}}
		for name, v := range rows {
			s.AUROC[name] = score.AUROC(test[name], v)
		}
		r.Sets = append(r.Sets, s)
	}
	return r, nil
}

// fit returns the posterior at the mode of the linearized model.
func fit(ctx context.Context, k ntk.Kernel, p *problem, train *linearize.Batch, inducing int) (gp.Dual, error) {
	if inducing == 0 {
		return gp.Refit(ctx, k, train, gp.NewTargets(p.y, p.lik), nil)
	}
	z, err := sparse.Select(ctx, sparse.Uniform{}, k, train, inducing, nil)
	if err != nil {
		return nil, err
	}
	return sparse.Refit(ctx, k, train, gp.NewTargets(p.y, p.lik), z, &sparse.Options{Mean: gp.Network})
}

// linkOf is the link of the mutual information, which is not used: a fast one.
func linkOf(c int) predictive.Link {
	if c > 2 {
		return predictive.Probit{}
	}
	return nil
}

// timed returns how many seconds do takes.
func timed(do func() error) (float64, error) {
	start := time.Now()
	err := do()
	return time.Since(start).Seconds(), err
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
