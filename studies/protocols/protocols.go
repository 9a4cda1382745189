// Package protocols judges attributions as published work does: it trains networks again on random halves of the
// training rows and correlates predicted with observed outputs (the linear datamodeling score), for every method on the
// same networks. Each protocol is a reproduce.Study.
package protocols

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/funcgp/funcgp/internal/inputfile"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/descent"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// Options are those of all protocols.
type Options struct {
	Models int    // networks trained on all rows whose attributions are judged, at least 1
	Runs   int    // trainings on each set of rows, at least 1; the second one gives the ceiling
	Dir    string // directory of the outputs of networks trained again; "" keeps none
}

// All are the protocols, in the order in which they are listed.
func All(o *Options) []*reproduce.Study {
	var list []*reproduce.Study
	for _, p := range []*protocol{
		{name: "4-9", short: "an MLP 784-64-1 of tanh for MNIST's 4 and 9: 1,000 rows, 100 halves", source: "the protocol of linear datamodeling scores (Park et al. 2023)",
			classes: []int{4, 9}, train: 1000, test: 200, halves: 100, hidden: []int{64}, activation: network.Tanh, likelihood: glm.Bernoulli{}, outputs: 1,
			epochs: 50, shares: []float64{0.02, 0.1, 0.3, 0.6, 1}, deltas: []float64{0.3, 1, 3, 10, 30, 100, 300}, projection: 512,
			early: []float64{0.02, 0.05, 0.1, 0.2}},
		{name: "4-9-relu", short: "the same with ReLU in place of tanh", source: "the protocol of linear datamodeling scores (Park et al. 2023)",
			classes: []int{4, 9}, train: 1000, test: 200, halves: 100, hidden: []int{64}, activation: network.ReLU, likelihood: glm.Bernoulli{}, outputs: 1,
			epochs: 50, shares: []float64{0.02, 0.1, 0.3, 0.6, 1}, deltas: []float64{0.3, 1, 3, 10, 30, 100, 300}, projection: 512,
			early: []float64{0.02, 0.05, 0.1, 0.2}},
		{name: "dattri", short: "an MLP 784-128-64-10 for MNIST: 5,000 rows, 100 halves", source: "the MNIST MLP benchmark of dattri (Deng et al. 2024)",
			train: 5000, test: 500, halves: 100, hidden: []int{128, 64}, activation: network.ReLU, dropout: 0.1, likelihood: glm.Categorical{}, outputs: 10,
			epochs: 50, shares: []float64{0.1, 0.3, 0.6, 1}, scale: [2]float64{0.1307, 0.3081}, deltas: []float64{10, 30, 100}, strength: 4, projection: 512,
			early: []float64{0.02, 0.05, 0.1, 0.2}},
		{name: "leave-one-out", short: "the networks of 4-9 without one of 50 rows: linearized, trained on from θ*, and trained again", source: "influence functions against leave-one-out (Koh and Liang 2017)",
			classes: []int{4, 9}, train: 1000, test: 200, left: 50, hidden: []int{64}, activation: network.Tanh, likelihood: glm.Bernoulli{}, outputs: 1,
			epochs: 50, shares: []float64{0.02, 0.1, 0.3, 0.6, 1}, projection: 512, early: []float64{0.02, 0.05, 0.1, 0.2}, build: (*protocol).leaveOneOut},
		{name: "brittleness", short: "dattri's MLP on 1,000 rows, without the rows that scores rank first", source: "the counterfactuals of TRAK (Park et al. 2023)",
			train: 1000, test: 60, asked: 20, hidden: []int{128, 64}, activation: network.ReLU, dropout: 0.1, likelihood: glm.Categorical{}, outputs: 10,
			epochs: 50, shares: []float64{0.1, 0.3, 0.6, 1}, scale: [2]float64{0.1307, 0.3081}, strength: 0.5, projection: 512,
			early: []float64{0.05, 0.1, 0.2, 0.4}, build: (*protocol).brittleness},
		{name: "mislabelled", short: "dattri's MLP on 1,000 rows, a tenth of the labels wrong: which rows scores suspect", source: "self-influence as a detector of wrong labels (Pruthi et al. 2020)",
			train: 1000, test: 1, hidden: []int{128, 64}, activation: network.ReLU, dropout: 0.1, likelihood: glm.Categorical{}, outputs: 10,
			epochs: 50, shares: []float64{0.1, 0.3, 0.6, 1}, scale: [2]float64{0.1307, 0.3081}, strength: 0.5, projection: 512,
			early: []float64{0.05, 0.1, 0.2, 0.4}, build: (*protocol).mislabelled},
	} {
		if p.build == nil {
			p.build = (*protocol).datamodels
		}
		p.options = *o
		list = append(list, p.study())
	}
	return list
}

// A protocol is a data set, a network and how it is trained.
type protocol struct {
	name, short, source string
	options             Options
	data                string
	quick               bool

	classes     []int // nil means all
	train, test int   // the first rows of each part
	halves      int
	left        int        // rows that are left out, one at a time
	asked       int        // test rows that shall get another class, the first of test that are right
	scale       [2]float64 // what pixels between 0 and 1 are diminished and divided by; zero for nothing
	hidden      []int
	activation  network.Activation
	dropout     float64 // after each activation
	likelihood  glm.Likelihood
	outputs     int
	epochs      int
	shares      []float64 // of the steps after which there is a checkpoint; the last is 1

	// early are the shares of the steps of another path, whose posteriors have the sites
	// of the checkpoint: there, residuals are not yet zero, nor Λ.
	early []float64

	deltas     []float64 // precisions that are compared
	strength   float64   // of the rows that the covariance keeps (E16)
	projection int       // columns of TRAK's projection

	build func(p *protocol, add step) (page func(r *reproduce.Results) (*reproduce.Page, error))
}

// A step adds a step to a plan.
type step func(key string, cost int, run func(ctx context.Context, progress reproduce.Progress) (any, error))

// The step size, its momentum and the size of a minibatch of both protocols.
const (
	rate     = 0.01
	momentum = 0.9
	batch    = 64
)

// study returns the protocol as a study.
func (p *protocol) study() *reproduce.Study {
	return &reproduce.Study{Verb: "evaluate", Name: p.name, Short: p.short, Source: p.source, Data: "MNIST's four files in the directory mnist",
		Plan: func(ctx context.Context, o *reproduce.Options) (*reproduce.Plan, error) {
			q := *p
			q.data, q.quick = o.Data, o.Quick
			if q.quick {
				q.train, q.test, q.epochs, q.projection = 40, min(q.test, 10), 3, 16
				q.halves, q.left, q.asked = min(q.halves, 20), min(q.left, 8), min(q.asked, 3)
				q.hidden, q.strength = []int{6}, min(q.strength, 0.1)
				if q.deltas != nil {
					q.deltas = []float64{3, 30}
				}
			}
			return q.plan(ctx)
		}}
}

// precision is δ at which a ridge is like the training, which has no weight decay.
func (p *protocol) precision() float64 {
	delta, err := descent.Descent{Rate: rate, Momentum: momentum, Steps: p.epochs * (p.train / min(batch, p.train))}.Precision(p.train)
	if err != nil {
		panic("protocols: " + err.Error()) // of constants
	}
	return delta
}

// halved is precision for removals that add up to half of the rows: with half the rows,
// JᵀΛJ + δI is about half of JᵀΛJ + 2δI with all of them.
func (p *protocol) halved() float64 { return 2 * p.precision() }

// retraining returns how the networks are trained on rows of d.
func (p *protocol) retraining(d *rows) (*evaluate.Retraining, error) {
	r := &evaluate.Retraining{X: d.x, Y: d.y, Test: d.testX, Loss: p.likelihood, Dir: p.options.Dir,
		Network: func(seed uint64) (*network.Network, error) {
			return network.Seeded(seed, network.Shape{1, side, side}, p.layers()...)
		}}
	net, err := r.Network(0)
	if err != nil {
		return nil, err
	}
	_, _, params := net.Dims()
	r.Options = train.Options{Precision: make([]float64, params), Optimizer: train.SGD{Momentum: momentum}, Schedule: train.Constant{},
		LearningRate: rate, Batch: batch, Epochs: p.epochs, LBFGS: -1}
	return r, nil
}

// side is that of the digits, in pixels.
const side = 28

func (p *protocol) layers() []network.Layer {
	list := []network.Layer{network.Flatten{}}
	for _, units := range p.hidden {
		list = append(list, network.Dense{Units: units}, p.activation)
		if p.dropout > 0 {
			list = append(list, network.Dropout{Ratio: p.dropout})
		}
	}
	return append(list, network.Dense{Units: p.outputs})
}

// subsets are those whose outcomes are predicted: the halves of the training rows, or
// single rows that are left out.
func (p *protocol) subsets() [][]int {
	if p.left == 0 {
		return evaluate.Subsets(p.train, p.train/2, p.halves, 0)
	}
	var list [][]int
	for _, i := range evaluate.Subsets(p.train, p.left, 1, 0)[0] {
		list = append(list, []int{i})
	}
	return list
}

// seed is that of training number k on a set of rows. It is none of those of the networks
// that are attributed.
func seed(k, set int) uint64 { return uint64(1000*(k+1) + set) }

// runs are the trainings number k of all halves.
func (p *protocol) runs(k int) []evaluate.Run {
	var list []evaluate.Run
	for i, half := range p.subsets() {
		list = append(list, evaluate.Run{Rows: half, Seed: seed(k, i)})
	}
	return list
}

// plan returns the steps.
func (p *protocol) plan(ctx context.Context) (*reproduce.Plan, error) {
	var inputs []string
	if !p.quick {
		var files []string
		for _, name := range []string{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"} {
			files = append(files, filepath.Join(p.data, "mnist", name))
		}
		sum, err := inputfile.Sum(ctx, files...)
		if err != nil {
			return nil, err
		}
		inputs = []string{"MNIST " + sum}
	}
	plan := &reproduce.Plan{Version: 1}
	plan.Page = p.build(p, func(key string, cost int, run func(ctx context.Context, progress reproduce.Progress) (any, error)) {
		plan.Steps = append(plan.Steps, reproduce.Step{Key: key, Cost: cost, Inputs: inputs, Run: run})
	})
	return plan, nil
}

// datamodels are the steps of linear datamodeling scores.
func (p *protocol) datamodels(add step) (page func(r *reproduce.Results) (*reproduce.Page, error)) {
	for k := range p.options.Runs {
		add(fmt.Sprintf("run-%d", k), 10, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.outcomes(ctx, k, progress)
		})
	}
	p.attributions(add)
	for _, delta := range p.deltas {
		add(precisionKey(delta), 2, func(ctx context.Context, _ reproduce.Progress) (any, error) { return p.try(ctx, delta) })
	}
	return p.page
}

// attributions are the steps of what scores predict.
func (p *protocol) attributions(add step) {
	for m := range p.options.Models {
		add(fmt.Sprintf("path-%d", m), 2, func(ctx context.Context, _ reproduce.Progress) (any, error) { return p.path(ctx, m) })
	}
	for m := range p.options.Models {
		add(fmt.Sprintf("model-%d", m), 5, func(ctx context.Context, progress reproduce.Progress) (any, error) {
			return p.attribute(ctx, m, progress)
		})
	}
}

func precisionKey(delta float64) string { return fmt.Sprintf("precision-%g", delta) }
