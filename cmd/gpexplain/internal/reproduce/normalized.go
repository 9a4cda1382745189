package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// normalized chooses the prior precision of networks with batch normalization by the
// evidence at θ*, and by that at the mode v* of the linearized model.
var normalized = &Study{
	Name: "normalized", Short: "the evidence of networks with batch normalization, at θ* and at the mode v* of their linearization",
	Source: "[gprior] figures 1 and 5", Data: "MNIST's four files, in the directory mnist",
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		s := &normalizedStudy{rows: 1000, test: 1000, epochs: 40, seeds: 5, filters: 4, hidden: 24, deltas: Logspace(-2, 4, 13), factors: 7, data: o.Data, quick: o.Quick}
		if o.Quick {
			s.rows, s.test, s.epochs, s.seeds, s.filters, s.hidden, s.deltas, s.factors = 60, 50, 20, 1, 2, 6, Logspace(-2, 4, 3), 2
		}
		inputs, err := digitsInputs(ctx, o)
		if err != nil {
			return nil, err
		}
		p := &Plan{Version: 1, Page: s.page}
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
	data                      string
	quick                     bool
}

func (*normalizedStudy) key(seed int) string { return fmt.Sprintf("seed-%d", seed) }

// A normalizedResult is what one trained network gives.
type normalizedResult struct {
	Parameters int             `json:"parameters"`
	Network    ClassScores     `json:"network"`
	Layers     []layerScale    `json:"layers"`
	Points     []normalizedAt  `json:"points"`  // one for each δ
	Apart      normalizedPrior `json:"apart"`   // a precision of the flagged layers and one of the others, by (E9)
	GPrior     normalizedPrior `json:"gprior"`  // g of the neural g-prior, by (E9)
	Dead       int             `json:"dead"`    // parameters that the g-prior drops
	Scatter    report.Float    `json:"scatter"` // ‖θ*‖²
}

// A layerScale is the diagnosis of one layer.
type layerScale struct {
	Name      string       `json:"name"`
	Norm      report.Float `json:"norm"`       // ‖w‖
	InUse     report.Float `json:"in_use"`     // ‖J w‖/(‖J‖‖w‖) with running statistics
	InBatches report.Float `json:"in_batches"` // with the statistics of the rows
	Flagged   bool         `json:"flagged"`

	spans []linearize.Span
}

// A normalizedAt are the evidences and the test scores at one prior precision.
type normalizedAt struct {
	Delta   report.Float `json:"delta"`
	AtTheta report.Float `json:"at_theta"` // (E7)
	AtMode  report.Float `json:"at_mode"`  // (E9)
	Scatter report.Float `json:"scatter"`  // ‖v*‖²
	Theta   ClassScores  `json:"theta"`    // mean f(x;θ*), covariance at the sites of θ*
	Mode    ClassScores  `json:"mode"`     // mean and covariance at v*
}

// A normalizedPrior is a prior that the evidence at v* chose.
type normalizedPrior struct {
	Log      []report.Float `json:"log"` // δ of the flagged layers and of the others, or g, as powers of ten
	Evidence report.Float   `json:"evidence"`
	Theta    ClassScores    `json:"theta"`
	Mode     ClassScores    `json:"mode"`
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
	net, _, err = net.Train(ctx, e.Train.X, e.Train.Y, lik, &network.TrainOptions{
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
	r.Scatter = report.Float(mat.Dot(mat.NewVecDense(p, net.Theta()), mat.NewVecDense(p, net.Theta())))
	for i, delta := range s.deltas {
		at, err := normalizedPoint(ctx, e, train, test, net.Theta(), delta)
		if err != nil {
			return nil, err
		}
		r.Points = append(r.Points, *at)
		progress(i+1, 2*len(s.deltas))
	}
	data := &normalizedData{e, train, test, net.Theta()}
	if err := s.apart(ctx, data, r); err != nil {
		return nil, err
	}
	return r, s.gprior(ctx, data, r)
}

// normalizedData are the linearized rows of a network.
type normalizedData struct {
	e           *Examples
	train, test *linearize.Batch
	theta       []float64
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
	prior, err := ntk.NewIsotropic(float64(best.Delta), nil)
	if err != nil {
		return err
	}
	p := &evidence.Problem{X: d.train, Y: d.e.Train.Y, Likelihood: glm.Categorical{}, Theta: d.theta, Prior: prior, Groups: groups}
	m, err := evidence.New(ctx, p, &evidence.Options{PerGroup: true})
	if err != nil {
		return err
	}
	highest, ratio := math.Inf(-1), 1.0
	for _, try := range Logspace(-2, 2, min(s.factors, 5)) {
		e, err := m.Value(ctx, evidence.Refit, []float64{-math.Log(try), 0}, 0)
		if err != nil {
			return err
		}
		if e.Value > highest {
			highest, ratio = e.Value, try
		}
	}
	groups[0].Precision, groups[1].Precision = float64(best.Delta)*ratio, float64(best.Delta)
	chosen, err := ntk.NewLayerwise(len(d.theta), groups, nil)
	if err != nil {
		return err
	}
	r.Apart.Evidence = report.Float(highest)
	r.Apart.Log = []report.Float{report.Float(math.Log10(groups[0].Precision)), report.Float(math.Log10(groups[1].Precision))}
	return d.score(ctx, chosen, &r.Apart)
}

// gprior finds the g of the neural g-prior.
func (s *normalizedStudy) gprior(ctx context.Context, d *normalizedData, r *normalizedResult) error {
	sites, err := gp.NewSites(d.e.Train.Y, d.train.F, glm.Categorical{})
	if err != nil {
		return err
	}
	unit, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return err
	}
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, d.train, sites, unit, d.theta, nil)
	if err != nil {
		return err
	}
	ggn := w.(*weightspace.DiagonalPosterior).GGN()
	at := func(g float64) (*ntk.GPrior, error) { return ntk.NewGPrior(ggn, d.train.Len(), d.theta, g) }
	best, bestG := math.Inf(-1), 1.0
	for _, g := range Logspace(-3, 3, s.factors) {
		prior, err := at(g)
		if err != nil {
			return err
		}
		r.Dead = len(prior.Dead())
		point, err := evidence.Evaluate(ctx, &evidence.Problem{X: d.train, Y: d.e.Train.Y, Likelihood: glm.Categorical{}, Theta: d.theta, Prior: prior}, evidence.Refit, nil)
		if err != nil {
			return err
		}
		if point.Evidence.Value > best {
			best, bestG = point.Evidence.Value, g
		}
	}
	prior, err := at(bestG)
	if err != nil {
		return err
	}
	r.GPrior.Log, r.GPrior.Evidence = []report.Float{report.Float(math.Log10(bestG))}, report.Float(best)
	return d.score(ctx, prior, &r.GPrior)
}

// score scores both predictives under a prior.
func (d *normalizedData) score(ctx context.Context, prior ntk.Prior, to *normalizedPrior) error {
	lik := glm.Categorical{}
	sites, err := gp.NewSites(d.e.Train.Y, d.train.F, lik)
	if err != nil {
		return err
	}
	w, err := weightspace.Fit(ctx, d.train, sites, prior, d.theta, nil)
	if err != nil {
		return err
	}
	if to.Theta, err = scoreLatent(ctx, w, lik, d.e.Test.Y, d.test); err != nil {
		return err
	}
	refit, err := w.Refit(ctx, d.e.Train.Y, lik)
	if err != nil {
		return err
	}
	to.Mode, err = scoreLatent(ctx, refit, lik, d.e.Test.Y, d.test)
	return err
}

// trainDecay is the prior precision of training.
const trainDecay = 0.1

// normalizedPoint computes both evidences and predictives at one precision, in weight
// space: P is a fifth of N·C.
func normalizedPoint(ctx context.Context, e *Examples, train, test *linearize.Batch, theta []float64, delta float64) (*normalizedAt, error) {
	lik := glm.Categorical{}
	prior, err := ntk.NewIsotropic(delta, nil)
	if err != nil {
		return nil, err
	}
	sites, err := gp.NewSites(e.Train.Y, train.F, lik)
	if err != nil {
		return nil, err
	}
	at := &normalizedAt{Delta: report.Float(delta)}
	w, err := weightspace.Fit(ctx, train, sites, prior, theta, nil)
	if err != nil {
		return nil, err
	}
	at.AtTheta = report.Float(w.EvidenceAtTheta().Value)
	if at.Theta, err = scoreLatent(ctx, w, lik, e.Test.Y, test); err != nil {
		return nil, err
	}
	refit, err := w.Refit(ctx, e.Train.Y, lik)
	if err != nil {
		return nil, err
	}
	evidence := refit.EvidenceRefit()
	at.AtMode, at.Scatter = report.Float(evidence.Value), report.Float(evidence.Scatter/delta)
	at.Mode, err = scoreLatent(ctx, refit, lik, e.Test.Y, test)
	return at, err
}

// scoreMAP scores the plain network.
func scoreMAP(lik glm.Likelihood, y, f *mat.Dense) (ClassScores, error) {
	n, _ := f.Dims()
	var response mat.Dense
	logp := make([]float64, n)
	if err := (glm.MAP{}).PredictTo(&response, nil, lik, f, nil); err != nil {
		return ClassScores{}, err
	}
	if err := (glm.MAP{}).LogPredictiveTo(logp, lik, y, f, nil); err != nil {
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
	link := glm.QMC{MaxPoints: 4096}
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
		out = append(out, layerScale{Name: l.Name, Norm: report.Float(l.W), InUse: report.Float(inUse[i].Ratio()), InBatches: report.Float(l.Ratio()), Flagged: l.Invariant(), spans: l.Spans})
	}
	return out, nil
}
