// Package prediction measures what gpexplain predict predicts with: the network's output with the
// covariance, the scale and the temperature of the match (E21), against the network by itself,
// the mode of the linearized model, other precisions, temperature scaling and ensembles.
package prediction

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/nearest"
	"github.com/funcgp/funcgp/studies/steps"
)

// Run is the study with its flags.
func Run(ctx context.Context, out io.Writer, args []string) error {
	s := &study{out: out, sets: all}
	f := flag.NewFlagSet("prediction", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.cache, "cache", "cache", "`DIR` of the results of steps")
	f.StringVar(&s.records, "out", "records", "`DIR` of the record")
	f.StringVar(&s.reference, "reference", "../../shared/reference", "`DIR` of the tables and networks of the reference")
	f.StringVar(&s.pictures, "data", "../../shared/data/mnist", "`DIR` of MNIST's four files")
	f.StringVar(&s.program, "program", "", "`FILE` of the gpexplain that is asked (default built from the sources)")
	f.IntVar(&s.seeds, "seeds", 3, "networks of each set and training, and splits of its rows")
	f.StringVar(&s.only, "only", "", "`NAMES` of sets, with commas between them (default all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.only != "" {
		s.sets = slices.DeleteFunc(slices.Clone(all), func(p set) bool { return !slices.Contains(strings.Split(s.only, ","), p.name) })
	}
	return s.run(ctx)
}

// A study is a list of sets with what the flags say.
type study struct {
	out                                                     io.Writer
	cache, records, reference, pictures, program, dir, only string
	seeds                                                   int
	sets                                                    []set

	gpexplain *command.Command
}

func (s *study) run(ctx context.Context) (err error) {
	s.dir = filepath.Join(s.cache, "prediction")
	if s.program == "" {
		s.gpexplain, err = command.Build(ctx, s.cache)
	} else {
		s.gpexplain, err = command.Open(s.program)
	}
	if err != nil {
		return err
	}
	var list []judged
	for i := range s.sets {
		for k := range s.sets[i].trainings {
			for seed := range s.seeds {
				one, err := s.judge(ctx, &s.sets[i], &s.sets[i].trainings[k], seed)
				if err != nil {
					return fmt.Errorf("%s, %s, seed %d: %w", s.sets[i].name, s.sets[i].trainings[k].name, seed, err)
				}
				list = append(list, one...)
			}
		}
	}
	checks, err := s.checks(ctx)
	if err != nil {
		return err
	}
	return s.record(list, checks)
}

// Ways to predict.
const (
	networkAlone = "network"
	byDefault    = "default"
	refitted     = "refit"
	atNearest    = "nearest"
	atStated     = "stated"
	heldOutFifth = "held-out fifth"
	ensembleOf5  = "ensemble"
	ofLastLayer  = "last layer"
)

var ways = []string{networkAlone, byDefault, refitted, atNearest, atStated, heldOutFifth, ensembleOf5, ofLastLayer}

// A judged way is that of one network on one split.
type judged struct {
	Set, Training string
	Seed          int
	Way           string
	answer
}

// An answer has the figures of one way, and what the command says of it; NaN of the others.
type answer struct {
	figures
	Precision, Scale, Temperature result.Float // δ, s and τ
}

// key names a training on a set by all that its networks and predictions depend on.
func key(s *set, t *training, r *split, seed int) string {
	own := *s
	own.trainings, own.drawn = nil, nil
	text := fmt.Appendf(nil, "%+v %+v", own, *t)
	for _, m := range []*mat.Dense{r.x, r.y, r.testX, r.testY} {
		text = fmt.Appendf(text, " %x", linearize.SumOf(dense.Contiguous(m)))
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s-%s-%x-%d", s.name, t.name, sum[:4], seed)
}

// judge returns all ways to predict with one network.
func (s *study) judge(ctx context.Context, p *set, t *training, seed int) ([]judged, error) {
	r, err := p.open(ctx, s.reference, s.pictures, filepath.Join(s.dir, "tables"), seed)
	if err != nil {
		return nil, err
	}
	net, err := p.fit(ctx, t, r.shape, r.x, r.y, uint64(seed))
	if err != nil {
		return nil, err
	}
	name := key(p, t, r, seed)
	model := filepath.Join(s.dir, "networks", name+".onnx")
	about := command.Training{Likelihood: p.likelihood, Precision: t.delta, Classes: p.classes, Inputs: r.inputs, Targets: r.targets}
	if err := command.WriteModel(model, net, about); err != nil {
		return nil, err
	}
	f, err := net.Forward(ctx, r.testX)
	if err != nil {
		return nil, err
	}
	noise, err := p.noise(ctx, net, r.x, r.y)
	if err != nil {
		return nil, err
	}
	alone := p.alone(r, f, noise)
	undefined := result.Undefined()
	var list []judged
	add := func(way string, a answer) {
		list = append(list, judged{p.name, t.name, seed, way, a})
		fmt.Fprintf(s.out, "%s %s %d %s: NLL %.4f ECE %.4f RMSE %.4f δ %.3g s %.3g τ %.3g\n", p.name, t.name, seed, way, a.NLL, a.ECE, a.RMSE, a.Precision, a.Scale, a.Temperature)
	}
	add(networkAlone, answer{alone, undefined, undefined, undefined})

	plain := append([]string{"--model", model, "--quiet"}, r.flags...)
	described := slices.Clone(plain)
	if t.lambda > 0 {
		described = append(described, "--weight-decay", strconv.FormatFloat(t.lambda, 'g', -1, 64))
	}
	answers := filepath.Join(s.dir, "answers-"+s.gpexplain.Version(), name)
	var first result.Fit
	ask := func(way string, args ...string) error {
		type said struct {
			Answer answer
			Fit    result.Fit
			MAP    result.Float
		}
		a, err := steps.Do(ctx, answers, way, func(ctx context.Context) (said, error) {
			rows, sum, err := s.gpexplain.Predict(ctx, args)
			if err != nil {
				return said{}, err
			}
			a := answer{p.answered(rows, sum), sum.Fit.PriorPrecision, undefined, undefined}
			if k := sum.Fit.Calibration; k != nil {
				a.Scale, a.Temperature = k.Scale, k.Temperature
			}
			fit := sum.Fit
			fit.Calibration = nil
			return said{a, fit, sum.MAPNLL}, nil
		})
		if err != nil {
			return err
		}
		// The command must mean the same network, rows and scaling as the study does.
		if p.likelihood != "gaussian" && math.Abs(float64(a.MAP-alone.NLL)) > 1e-6*(1+math.Abs(float64(alone.NLL))) {
			return fmt.Errorf("the network by itself has the NLL %v, and %v by gpexplain", alone.NLL, a.MAP)
		}
		if way == byDefault {
			first = a.Fit
		}
		add(way, a.Answer)
		return nil
	}
	if err := ask(byDefault, described...); err != nil {
		return nil, err
	}
	if err := ask(refitted, append(slices.Clone(described), "--refit")...); err != nil {
		return nil, err
	}
	near, err := s.nearest(ctx, p, r, net, name, &first)
	if err != nil {
		return nil, err
	}
	if err := ask(atNearest, append(plain, near...)...); err != nil {
		return nil, err
	}
	if err := ask(atStated, append(described, "--at", "stated")...); err != nil {
		return nil, err
	}
	for _, b := range []struct {
		way string
		of  func(ctx context.Context, t *training, r *split, seed uint64) (figures, error)
	}{{heldOutFifth, p.heldOut}, {ensembleOf5, p.ensemble}} {
		f, err := steps.Do(ctx, filepath.Join(s.dir, "baselines", name), b.way, func(ctx context.Context) (figures, error) {
			return b.of(ctx, t, r, uint64(seed))
		})
		if err != nil {
			return nil, err
		}
		add(b.way, answer{f, undefined, undefined, undefined})
	}
	of, err := p.lastLayer(ctx, net, r)
	if err != nil {
		return nil, err
	}
	add(ofLastLayer, answer{of, undefined, undefined, undefined})
	return list, nil
}

// nearest returns the flags of the precision at which the linearized model is nearest to the
// network. Of a regression it finds λ = δσ², and takes the noise variance that the command used.
func (s *study) nearest(ctx context.Context, p *set, r *split, net *network.Network, name string, first *result.Fit) ([]string, error) {
	lik := p.lik()
	if p.likelihood == "gaussian" {
		var err error
		if lik, err = glm.NewGaussian(1); err != nil {
			return nil, err
		}
	}
	m, err := steps.Do(ctx, filepath.Join(s.dir, "nearest"), name, func(ctx context.Context) (nearest.Mode, error) {
		m, _, err := nearest.Find(ctx, net, r.x, r.y, lik)
		return m, err
	})
	if err != nil {
		return nil, err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if p.likelihood != "gaussian" {
		return []string{"--prior-precision", number(m.Precision)}, nil
	}
	noise := float64(*first.NoiseVariance)
	sd := r.targets.Scale[0]
	return []string{"--prior-precision", number(m.Precision * sd * sd / noise), "--noise-variance", number(noise)}, nil
}
