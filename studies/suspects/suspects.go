// Package suspects measures which score of training rows finds wrong labels and targets: a twentieth of the
// labels of tables is flipped, or of the targets shifted, networks are trained on them, and scores say which rows
// to look at first.
package suspects

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/steps"
	"github.com/funcgp/funcgp/studies/trained"
)

// Run is the study with its flags.
func Run(ctx context.Context, out io.Writer, args []string) error {
	s := &study{out: out}
	for _, t := range slices.Concat(trained.Reference, trained.UCI) {
		if _, counts := t.Likelihood.(glm.Poisson); !counts {
			s.tables = append(s.tables, t)
		}
	}
	f := flag.NewFlagSet("suspects", flag.ContinueOnError)
	f.SetOutput(out)
	s.On(f)
	f.IntVar(&s.seeds, "seeds", 3, "sets of wrong labels of each table, and a network on each")
	f.IntVar(&s.rows, "rows", 400, "training rows of a table, drawn at random")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.tables = s.Chosen(s.tables)
	return s.run(ctx)
}

// A study is a list of tables with what the flags say.
type study struct {
	out io.Writer
	trained.Flags
	seeds, rows int
	tables      []trained.Table
}

// wrongShare is the share of the targets that are made wrong, and inspected the shares of the rows that are looked at.
const wrongShare = 0.05

var inspected = []float64{0.05, 0.1}

// A found is how well each score finds the wrong targets of one network.
type found map[string]evaluate.Detection

func (s *study) run(ctx context.Context) error {
	all := map[string][]found{}
	for i := range s.tables {
		t := &s.tables[i]
		for seed := range s.seeds {
			one, err := s.suspect(ctx, t, uint64(seed))
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", t.Name, seed, err)
			}
			all[t.Name] = append(all[t.Name], one)
			fmt.Fprintf(s.out, "%s %d:", t.Name, seed)
			for _, name := range scores {
				if d, ok := one[name]; ok {
					fmt.Fprintf(s.out, " %s %.2f/%.2f,", name, d.Found[0], d.Found[1])
				}
			}
			fmt.Fprintln(s.out)
		}
	}
	return s.record(all)
}

// suspect makes targets wrong, trains a network on them and judges the scores.
func (s *study) suspect(ctx context.Context, t *trained.Table, seed uint64) (found, error) {
	r, err := t.Open(ctx, s.Shared)
	if err != nil {
		return nil, err
	}
	n, _ := r.X.Dims()
	rows := rand.New(rand.NewPCG(0, 0x5e1ec7)).Perm(n)[:min(n, s.rows)]
	x, y := pick(r.X, rows), pick(r.Y, rows)
	wrong := spoil(y, t, seed)
	key := sha256.Sum256(fmt.Appendf(nil, "%+v %x %x", *t, linearize.SumOf(dense.Contiguous(x)), linearize.SumOf(dense.Contiguous(y))))
	return steps.Do(ctx, filepath.Join(s.Cache, "suspects"), fmt.Sprintf("%s-%d-%x", t.Name, seed, key[:6]), func(ctx context.Context) (found, error) {
		list, err := suspicions(ctx, t, x, y, seed)
		if err != nil {
			return nil, err
		}
		f := found{}
		for name, v := range list {
			f[name] = evaluate.Detect(v, wrong, inspected...)
		}
		return f, nil
	})
}

func pick(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for i, at := range rows {
		to.SetRow(i, m.RawRowView(at))
	}
	return to
}

// spoil makes a share of the targets wrong: labels become another class at random, and real targets move up or
// down by one to two of their standard deviations. It says which.
func spoil(y *mat.Dense, t *trained.Table, seed uint64) (wrong []bool) {
	n, _ := y.Dims()
	count := int(math.Round(wrongShare * float64(n)))
	if _, real := t.Likelihood.(*glm.Gaussian); !real {
		_, wrong = evaluate.FlipLabels(y, max(2, t.Outputs), count, seed)
		return wrong
	}
	wrong = make([]bool, n)
	rng := rand.New(rand.NewPCG(seed, 0x5b1f7))
	for _, i := range rng.Perm(n)[:count] {
		wrong[i] = true
		y.Set(i, 0, y.At(i, 0)+(1+rng.Float64())*float64(2*rng.IntN(2)-1))
	}
	return wrong
}

// The scores, in the order of the record.
const (
	ofNetwork  = "training loss"
	ofMatch    = "posterior at the match"
	ofScaled   = "posterior at the match, calibrated"
	ofTuned    = "posterior at δ by leave-one-out"
	ofLabels   = "labels, shuffled"
	ofTheta    = "labels at θ*"
	ofFolds    = "out of fold"
	matchAnd   = "match + labels"
	networkAnd = "loss + labels"
)

var scores = []string{ofNetwork, ofScaled, ofMatch, ofTuned, ofLabels, ofTheta, ofFolds, matchAnd, networkAnd}

// shuffles are those of the audit by labels, and folds the networks of the score out of fold.
const (
	shuffles = 4
	folds    = 5
)

// factors are the precisions, in matches, of which leave-one-out chooses one.
var factors = []float64{1, 4, 16, 64, 256, 1024}

// suspicions are the scores of all rows, larger ones first.
func suspicions(ctx context.Context, t *trained.Table, x, y *mat.Dense, seed uint64) (map[string][]float64, error) {
	n, _ := x.Dims()
	training, err := t.Retraining(&trained.Rows{X: x, Y: y, TestX: x, TestY: y}, n, "")
	if err != nil {
		return nil, err
	}
	net, err := training.Train(ctx, evaluate.Run{Seed: seed})
	if err != nil {
		return nil, err
	}
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	losses := func(f *mat.Dense, rows []int) []float64 {
		var v []float64
		for i, row := range rows {
			v = append(v, -t.Likelihood.LogProb(y.RawRowView(row), f.RawRowView(i)))
		}
		return v
	}
	list := map[string][]float64{ofNetwork: losses(b.F, dense.Range(n))}

	// Out of fold: networks of the other rows.
	out := make([]float64, n)
	for k := range folds {
		var in, rest []int
		for i := range n {
			if i%folds == k {
				rest = append(rest, i)
			} else {
				in = append(in, i)
			}
		}
		of, err := training.Train(ctx, evaluate.Run{Rows: in, Seed: seed})
		if err != nil {
			return nil, err
		}
		f, err := of.Forward(ctx, pick(x, rest))
		if err != nil {
			return nil, err
		}
		for i, v := range losses(f, rest) {
			out[rest[i]] = v
		}
	}
	list[ofFolds] = out

	if err := posteriors(ctx, t, net, b, y, list); err != nil {
		return nil, err
	}
	for name, at := range map[string]bool{ofLabels: true, ofTheta: false} {
		if list[name], err = labels(ctx, t, net, b, y, at); err != nil {
			return nil, err
		}
	}
	both := func(a, b []float64) []float64 {
		ra, rb := make([]float64, n), make([]float64, n)
		evaluate.RanksTo(ra, a)
		evaluate.RanksTo(rb, b)
		floats.Add(ra, rb)
		return ra
	}
	list[matchAnd], list[networkAnd] = both(list[ofScaled], list[ofLabels]), both(list[ofNetwork], list[ofLabels])
	return list, nil
}

// densities are −log p of each row without it.
func densities(a *audit.Audit) []float64 {
	var v []float64
	for _, x := range a.Examples {
		v = append(v, -x.LogDensity)
	}
	return v
}

// posteriors are the scores by the posterior at the match and at the precision that leave-one-out chooses.
func posteriors(ctx context.Context, t *trained.Table, net *network.Network, b *linearize.Batch, y *mat.Dense, list map[string][]float64) error {
	kernel := func(factor float64) (ntk.Kernel, error) {
		prior, err := ntk.NewIsotropic(factor, nil)
		return ntk.New(prior, net.Theta()), err
	}
	match, err := trained.Match(ctx, net, b.X, y, t.Likelihood)
	if err != nil {
		return err
	}
	best := math.Inf(1)
	for _, k := range factors {
		prior, err := kernel(k * match)
		if err != nil {
			return err
		}
		post, err := gp.Refit(ctx, prior, b, gp.NewTargets(y, t.Likelihood), nil)
		if err != nil {
			return err
		}
		n, c := b.F.Dims()
		mean, cov := mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
		if err := post.LeaveOneOutTo(ctx, mean, cov, dense.Range(n), b); err != nil {
			return err
		}
		scales, err := score.Calibrate(ctx, t.Likelihood, y, mean, cov, nil)
		if err != nil {
			return err
		}
		of := &audit.Options{Calibration: scales, MostPaired: -1, Supports: -1}
		scaled, err := audit.Of(ctx, post, t.Likelihood, y, of)
		if err != nil {
			return err
		}
		if k == 1 {
			list[ofScaled] = densities(scaled)
			of.Calibration = nil
			plain, err := audit.Of(ctx, post, t.Likelihood, y, of)
			if err != nil {
				return err
			}
			list[ofMatch] = densities(plain)
		}
		if scales.NLL < best {
			best = scales.NLL
			list[ofTuned] = densities(scaled)
		}
	}
	return nil
}

// labels are the scores by a regression of the targets on the Jacobian.
func labels(ctx context.Context, t *trained.Table, net *network.Network, b *linearize.Batch, y *mat.Dense, shuffled bool) ([]float64, error) {
	kernel, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	draws := func(yield func(*linearize.Batch, error) bool) { yield(b, nil) }
	if shuffled {
		draws = audit.Shuffles(net.Theta(), net.Params(), shuffles, 0, func(theta []float64) (*linearize.Batch, error) {
			moved, err := net.WithTheta(theta)
			if err != nil {
				return nil, err
			}
			return moved.Linearize(ctx, b.X)
		})
	}
	classes := max(2, t.Outputs)
	if _, real := t.Likelihood.(*glm.Gaussian); real {
		classes = 0
	}
	found, err := audit.OfLabels(ctx, ntk.New(kernel, net.Theta()), draws, y, classes, &audit.Options{MostPaired: -1, Supports: -1})
	if err != nil {
		return nil, err
	}
	return densities(&found.Audit), nil
}
