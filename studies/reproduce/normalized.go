package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// normalized chooses the prior precision of networks with batch normalization by the
// evidence at θ*, and by two at the mode v* of the linearized model.
var normalized = &Study{Verb: "reproduce",
	Name: "normalized", Short: "the evidence of networks with batch normalization, at θ* and at the mode v* of their linearization",
	Source: "[gprior] figures 1 and 5, appendix A", Data: "MNIST's four files, in the directory mnist",
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		s := &normalizedStudy{rows: 2000, test: 1000, epochs: 20, seeds: 5, filters: 4, hidden: 10, deltas: Logspace(-1, 4, 11), factors: 5, turned: 200, angles: []float64{0, 30, 60, 90, 120, 150, 180}, data: o.Data, quick: o.Quick}
		if o.Quick {
			s.rows, s.test, s.epochs, s.seeds, s.filters, s.hidden, s.deltas, s.factors, s.turned, s.angles = 60, 50, 20, 1, 2, 6, Logspace(-2, 4, 3), 2, 20, []float64{0, 90}
		}
		inputs, err := digitsInputs(ctx, o)
		if err != nil {
			return nil, err
		}
		p := &Plan{Version: 3, Page: s.page}
		for seed := range s.seeds {
			p.Steps = append(p.Steps, Step{Key: s.key(seed), Inputs: inputs, Run: func(ctx context.Context, progress Progress) (any, error) {
				return s.run(ctx, uint64(seed), progress)
			}})
		}
		return p, nil
	},
}

type normalizedStudy struct {
	rows, test, epochs, seeds int
	filters, hidden           int // of the network
	deltas                    []float64
	factors                   int // of the g-prior that are tried
	turned                    int // test rows that are turned by each angle
	angles                    []float64
	data                      string
	quick                     bool
}

func (*normalizedStudy) key(seed int) string { return fmt.Sprintf("seed-%d", seed) }

// A normalizedResult is what one trained network gives.
type normalizedResult struct {
	Parameters int             `json:"parameters"`
	Network    ClassScores     `json:"network"`
	Layers     []layerScale    `json:"layers"`
	Points     []normalizedAt  `json:"points"` // one for each δ
	Apart      normalizedPrior `json:"apart"`  // a precision of the flagged layers and one of the others
	GPrior     normalizedPrior `json:"gprior"` // g of the neural g-prior
	Dead       int             `json:"dead"`   // parameters that the g-prior drops
	Norm       result.Float    `json:"norm"`   // ‖θ*‖²
	Tensors    []tensorScale   `json:"tensors"`
	// Turned has for each of turnedBy the test log likelihood at each angle.
	Turned [][]result.Float `json:"turned"`
}

// A tensorScale says what s, the diagonal of JᵀΛJ over the number of rows, is in a tensor.
type tensorScale struct {
	Name   string       `json:"name"`
	Count  int          `json:"parameters"`
	Share  result.Float `json:"share"`  // of the sum of s over all parameters
	Median result.Float `json:"median"` // of s that is not 0
}

// turnedBy names the predictives of turned digits.
var turnedBy = []string{"network alone", "evidence at θ* (E7)", "evidence at v*, Λ of θ*", "evidence at v*, g-prior"}

// A layerScale is the diagnosis of one layer.
type layerScale struct {
	Name      string       `json:"name"`
	Norm      result.Float `json:"norm"`       // ‖w‖
	InUse     result.Float `json:"in_use"`     // ‖J w‖/(‖J‖‖w‖) with running statistics
	InBatches result.Float `json:"in_batches"` // with the statistics of the rows
	Scales    int          `json:"scales"`     // groups of its nodes that may each be scaled then
	Flagged   bool         `json:"flagged"`

	spans []linearize.Span
}

// A normalizedAt are the evidences and the test scores under one prior.
type normalizedAt struct {
	Delta   result.Float `json:"delta,omitempty"`
	AtTheta result.Float `json:"at_theta"` // (E7)
	AtMode  result.Float `json:"at_mode"`  // at v*, with log det B at the sites of θ*
	Refit   result.Float `json:"refit"`    // (E9): at v*, with log det B at the sites of v*
	Norm    result.Float `json:"norm"`     // ‖v*‖²
	Theta   ClassScores  `json:"theta"`    // mean f(x;θ*), covariance at the sites of θ*
	Mode    ClassScores  `json:"mode"`     // mean and covariance at v*
}

// A normalizedPrior is a prior that the evidence at v* chose.
type normalizedPrior struct {
	Log []result.Float `json:"log"` // δ of the flagged layers and of the others, or g, as powers of ten
	At  normalizedAt   `json:"at"`
}

// layers is a convolutional network whose convolutions and hidden layer are normalized.
func (s *normalizedStudy) layers() []network.Layer {
	norm := network.BatchNorm{}
	return []network.Layer{
		network.Conv2D{Filters: s.filters, Kernel: 5, NoBias: true}, norm, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 2 * s.filters, Kernel: 5, NoBias: true}, norm, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: s.hidden, NoBias: true}, norm, network.ReLU, network.Dense{Units: 10},
	}
}

func (s *normalizedStudy) run(ctx context.Context, seed uint64, progress Progress) (*normalizedResult, error) {
	e, err := openDigits(ctx, s.data, s.quick, s.rows, s.test)
	if err != nil {
		return nil, err
	}
	net, err := network.Seeded(seed, []int{1, 28, 28}, s.layers()...)
	if err != nil {
		return nil, err
	}
	lik := glm.Categorical{}
	_, _, p := net.Dims()
	// Training is as it is usual: a little weight decay, whatever prior the evidence then chooses.
	net, _, err = train.MAP(ctx, net, e.Train.X, e.Train.Y, lik, &train.Options{
		Precision: slices.Repeat([]float64{trainDecay}, p), Epochs: s.epochs, Batch: 100, LBFGS: -1, Seed: seed})
	if err != nil {
		return nil, err
	}
	r := &normalizedResult{Parameters: p}
	if r.Layers, err = layerScales(ctx, net, e.Train.X); err != nil {
		return nil, err
	}
	train, err := net.Linearize(ctx, e.Train.X)
	if err != nil {
		return nil, err
	}
	test, err := net.Linearize(ctx, e.Test.X)
	if err != nil {
		return nil, err
	}
	if r.Network, err = scoreMAP(lik, e.Test.Y, test.F); err != nil {
		return nil, err
	}
	r.Norm = result.Float(floats.Dot(net.Theta(), net.Theta()))
	sites, err := gp.NewSites(gp.NewTargets(e.Train.Y, lik), train.F)
	if err != nil {
		return nil, err
	}
	data := &normalizedData{e: e, train: train, test: test, sites: sites, theta: net.Theta()}
	for i, delta := range s.deltas {
		prior, err := ntk.NewIsotropic(delta, nil)
		if err != nil {
			return nil, err
		}
		at, err := data.point(ctx, prior)
		if err != nil {
			return nil, err
		}
		at.Delta = result.Float(delta)
		r.Points = append(r.Points, *at)
		progress(i+1, 2*len(s.deltas))
	}
	if err := s.apart(ctx, data, r); err != nil {
		return nil, err
	}
	if err := s.gprior(ctx, data, r); err != nil {
		return nil, err
	}
	return r, s.turn(ctx, net, data, r)
}

// turn predicts test rows that are turned, under the priors that the evidences chose.
func (s *normalizedStudy) turn(ctx context.Context, net *network.Network, d *normalizedData, r *normalizedResult) error {
	lik, rows := glm.Categorical{}, d.e.Test.slice(0, s.turned)
	fits := []*weightspace.Posterior{nil} // the network alone
	for _, delta := range []result.Float{r.Points[chosen(r.Points, evidenceTheta)].Delta, r.Points[chosen(r.Points, evidenceMode)].Delta, 0} {
		var prior ntk.Prior
		var err error
		if delta > 0 {
			prior, err = ntk.NewIsotropic(float64(delta), nil)
		} else {
			prior, err = ntk.NewGPrior(d.ggn, d.train.Len(), d.theta, math.Pow(10, float64(r.GPrior.Log[0])))
		}
		if err != nil {
			return err
		}
		w, err := weightspace.Fit(ctx, d.train, d.sites, prior, d.theta, nil)
		if err != nil {
			return err
		}
		fits = append(fits, w)
	}
	r.Turned = make([][]result.Float, len(fits))
	for _, angle := range s.angles {
		b, err := net.Linearize(ctx, Rotate(rows.X, angle))
		if err != nil {
			return err
		}
		for i, w := range fits {
			scores, err := scoreMAP(lik, rows.Y, b.F)
			if w != nil {
				scores, err = scoreLatent(ctx, w, lik, rows.Y, b)
			}
			if err != nil {
				return err
			}
			r.Turned[i] = append(r.Turned[i], -scores.NLL)
		}
	}
	return nil
}

// tensorScales returns what s = ggn/N is in each tensor of the layers.
func tensorScales(layers []layerScale, ggn []float64, n int) []tensorScale {
	var out []tensorScale
	for _, l := range layers {
		for _, span := range l.spans {
			of := slices.Clone(ggn[span.Offset : span.Offset+span.Len()])
			t := tensorScale{Name: span.Name, Count: len(of), Share: result.Float(floats.Sum(of) / floats.Sum(ggn))}
			if of = slices.DeleteFunc(of, func(v float64) bool { return v == 0 }); len(of) > 0 {
				slices.Sort(of)
				t.Median = result.Float(of[len(of)/2] / float64(n))
			}
			out = append(out, t)
		}
	}
	return out
}

// normalizedData are the linearized rows of a network.
type normalizedData struct {
	e           *Examples
	train, test *linearize.Batch
	sites       *gp.Sites // at θ*
	theta       []float64
	ggn         []float64 // diagonal of Σ JᵀΛJ
}

// apart finds a precision for the flagged layers, beside that which the evidence at v*
// chose for all.
func (s *normalizedStudy) apart(ctx context.Context, d *normalizedData, r *normalizedResult) error {
	best := r.Points[chosen(r.Points, evidenceMode)]
	groups := []ntk.Group{{Name: "normalized layers"}, {Name: "other layers"}}
	for _, l := range r.Layers {
		g := &groups[1]
		if l.Flagged {
			g = &groups[0]
		}
		g.Spans = append(g.Spans, l.spans...)
	}
	return d.best(ctx, &r.Apart, Logspace(-2, 2, s.factors), func(ratio float64) (ntk.Prior, []float64, error) {
		groups[0].Precision, groups[1].Precision = float64(best.Delta)*ratio, float64(best.Delta)
		prior, err := ntk.NewLayerwise(len(d.theta), groups, nil)
		return prior, []float64{groups[0].Precision, groups[1].Precision}, err
	})
}

// gprior finds the g of the neural g-prior.
func (s *normalizedStudy) gprior(ctx context.Context, d *normalizedData, r *normalizedResult) error {
	unit, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return err
	}
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, d.train, d.sites, unit, d.theta, nil)
	if err != nil {
		return err
	}
	d.ggn = w.(*weightspace.DiagonalPosterior).GGN()
	r.Tensors = tensorScales(r.Layers, d.ggn, d.train.Len())
	return d.best(ctx, &r.GPrior, Logspace(-3, 3, s.factors), func(g float64) (ntk.Prior, []float64, error) {
		prior, err := ntk.NewGPrior(d.ggn, d.train.Len(), d.theta, g)
		if err == nil {
			r.Dead = len(prior.Dead())
		}
		return prior, []float64{g}, err
	})
}

// best keeps the prior with the largest evidence at v*.
func (d *normalizedData) best(ctx context.Context, to *normalizedPrior, values []float64, at func(value float64) (ntk.Prior, []float64, error)) error {
	for i, value := range values {
		prior, log, err := at(value)
		if err != nil {
			return err
		}
		point, err := d.point(ctx, prior)
		if err != nil {
			return err
		}
		if i > 0 && point.AtMode <= to.At.AtMode {
			continue
		}
		to.At, to.Log = *point, nil
		for _, v := range log {
			to.Log = append(to.Log, result.Float(math.Log10(v)))
		}
	}
	return nil
}

// trainDecay is the prior precision of training.
const trainDecay = 0.1

// point computes the evidences and predictives under a prior, in weight space, since
// there are many more rows than parameters.
func (d *normalizedData) point(ctx context.Context, prior ntk.Prior) (*normalizedAt, error) {
	lik := glm.Categorical{}
	at := &normalizedAt{}
	w, err := weightspace.Fit(ctx, d.train, d.sites, prior, d.theta, nil)
	if err != nil {
		return nil, err
	}
	theta := w.EvidenceAtTheta()
	at.AtTheta = result.Float(theta.Value)
	if at.Theta, err = scoreLatent(ctx, w, lik, d.e.Test.Y, d.test); err != nil {
		return nil, err
	}
	refit, err := w.Refit(ctx, gp.NewTargets(d.e.Train.Y, lik))
	if err != nil {
		return nil, err
	}
	mode := refit.EvidenceRefit()
	at.AtMode = result.Float(gp.NewEvidence(mode.LogLik, mode.Scatter, theta.LogDet).Value)
	at.Refit = result.Float(mode.Value)
	for _, v := range refit.Mean() {
		at.Norm += result.Float(v * v)
	}
	at.Mode, err = scoreLatent(ctx, refit, lik, d.e.Test.Y, d.test)
	return at, err
}

// scoreMAP scores the plain network.
func scoreMAP(lik glm.Likelihood, y, f *mat.Dense) (ClassScores, error) {
	n, _ := f.Dims()
	var response mat.Dense
	logp := make([]float64, n)
	if err := (predictive.MAP{}).PredictTo(&response, nil, lik, f, nil); err != nil {
		return ClassScores{}, err
	}
	if err := (predictive.MAP{}).LogPredictiveTo(logp, lik, y, f, nil); err != nil {
		return ClassScores{}, err
	}
	return ScoreClasses(lik, y, &response, logp, 15), nil
}

// scoreLatent scores a posterior's predictive on the test rows.
func scoreLatent(ctx context.Context, w gp.Latent, lik glm.Likelihood, y *mat.Dense, test *linearize.Batch) (ClassScores, error) {
	var mean, cov, response mat.Dense
	if err := w.PredictTo(ctx, &mean, &cov, test); err != nil {
		return ClassScores{}, err
	}
	link := predictive.QMC{MaxPoints: 4096}
	logp := make([]float64, test.Len())
	if err := link.PredictTo(&response, nil, lik, &mean, &cov); err != nil {
		return ClassScores{}, err
	}
	if err := link.LogPredictiveTo(logp, lik, y, &mean, &cov); err != nil {
		return ClassScores{}, err
	}
	return ScoreClasses(lik, y, &response, logp, 15), nil
}

// layerScales diagnoses each layer on the first rows.
func layerScales(ctx context.Context, net *network.Network, x *mat.Dense) ([]layerScale, error) {
	rows, d := x.Dims()
	x = x.Slice(0, min(rows, 500), 0, d).(*mat.Dense)
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	inUse, err := linearize.Invariances(ctx, b, net.Theta())
	if err != nil {
		return nil, err
	}
	training, err := net.TrainingInvariances(ctx, x)
	if err != nil {
		return nil, err
	}
	var out []layerScale
	for i, l := range training {
		out = append(out, layerScale{Name: l.Name, Norm: result.Float(l.W), InUse: result.Float(inUse[i].Ratio()), InBatches: result.Float(l.Ratio()), Scales: len(l.Scales()), Flagged: l.Invariant(), spans: l.Spans})
	}
	return out, nil
}
