package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// importance is the dual vector of the digits 4 and 9: which of them hold the function in
// place, and what is lost without the others.
var importance = &Study{Verb: "reproduce",
	Name: "importance", Short: "the training digits 4 and 9 that hold the function in place, and what is lost without the others",
	Source: "[thesis] figure 5.6", Data: "MNIST's four files, in the directory mnist",
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		s := &importanceStudy{rows: 3000, test: 1991, shown: 24, seeds: 3, epochs: 30, lbfgs: 200, dropped: []float64{.1, .25, .5, .75, .9}, data: o.Data, quick: o.Quick}
		inputs, err := digitsInputs(ctx, o)
		if err != nil {
			return nil, err
		}
		if o.Quick {
			s.rows, s.test, s.shown, s.seeds, s.epochs, s.lbfgs, s.dropped = 60, 30, 6, 2, 2, 20, []float64{.5}
		}
		p := &Plan{Version: 2, Page: s.page}
		for seed := range s.seeds {
			p.Steps = append(p.Steps, Step{Key: s.key(seed), Inputs: inputs, Run: func(ctx context.Context, progress Progress) (any, error) {
				return s.run(ctx, uint64(seed), progress)
			}})
		}
		return p, nil
	},
}

// importanceDelta is the prior precision of the source.
const importanceDelta = 10

type importanceStudy struct {
	rows, test, shown    int // training and test digits, digits on a picture
	seeds, epochs, lbfgs int
	dropped              []float64 // shares of the training digits that are left out
	data                 string
	quick                bool
}

func (*importanceStudy) key(seed int) string { return fmt.Sprintf("seed-%d", seed) }

// An importanceResult is what one trained network gives.
type importanceResult struct {
	Test         int            `json:"test"` // rows
	Parameters   int            `json:"parameters"`
	GradientNorm result.Float   `json:"gradient_norm"`
	Network      ClassScores    `json:"network"`
	Refit        ClassScores    `json:"refit"`
	Alpha        []result.Float `json:"alpha"`    // of the refit, in the order of the rows
	Residual     []result.Float `json:"residual"` // r at θ*
	Most         []digitShown   `json:"most"`     // the largest |α| first
	Least        []digitShown   `json:"least"`    // the smallest |α| first
	Without      []withoutSome  `json:"without"`
	Along        []rankedDigit  `json:"along"`       // digits along the sorted curve
	Predictions  []shownTest    `json:"predictions"` // one right and two wrong ones
}

// A rankedDigit is a training digit at a place of the sorted curve.
type rankedDigit struct {
	Rank int `json:"rank"` // by |α|, 1 is the largest
	digitShown
}

// A shownTest is a test digit as the network predicts it, with the training digits of the
// largest posterior correlation with it.
type shownTest struct {
	Row     int            `json:"row"` // of MNIST's test part
	Label   int            `json:"label"`
	Class   int            `json:"class"`   // that the network predicts
	Network result.Float   `json:"network"` // probability of the class by the network
	Refit   result.Float   `json:"refit"`   // the same averaged over the posterior of the refit
	SD      result.Float   `json:"sd"`      // its posterior standard deviation
	Pixels  []byte         `json:"pixels"`  // 28×28
	Similar []similarDigit `json:"similar"` // the most similar first
}

type similarDigit struct {
	Similarity result.Float `json:"similarity"` // posterior correlation
	digitShown
}

// A digitShown is a training digit with its picture.
type digitShown struct {
	Row    int          `json:"row"` // of MNIST's training part
	Label  int          `json:"label"`
	Alpha  result.Float `json:"alpha"`
	Right  result.Float `json:"probability"` // that the network gives its label
	Pixels []byte       `json:"pixels"`      // 28×28
}

// A withoutSome is the test score of a refit without some training digits.
type withoutSome struct {
	Order  string       `json:"order"` // least, most or random: which were dropped first
	Share  result.Float `json:"share"`
	Scores ClassScores  `json:"scores"`
}

var importanceOrders = []string{"least", "most", "random"}

// fourNine returns the digits 4 and 9 of both parts.
func (s *importanceStudy) fourNine(ctx context.Context) (train, test *dataset.Rows, err error) {
	name := filepath.Join(s.data, "mnist")
	if s.quick {
		name = fmt.Sprintf("digits:%d,%d", 10*s.rows, 10*s.test)
	}
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, nil, err
	}
	if train, err = d.Train.Select([]int{4, 9}, s.rows); err != nil {
		return nil, nil, err
	}
	test, err = d.Test.Select([]int{4, 9}, s.test)
	return train, test, err
}

// thesisCNN is the network of the source with one output.
func thesisCNN() []network.Layer {
	return []network.Layer{
		network.Conv2D{Filters: 3, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 8, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 25}, network.ReLU, network.Dense{Units: 25}, network.ReLU, network.Dense{Units: 1},
	}
}

// An importanceFit are the linearized digits of a network.
type importanceFit struct {
	y, yTest    *mat.Dense
	train, test *linearize.Batch
	kernel      *ntk.NTK
}

func (s *importanceStudy) run(ctx context.Context, seed uint64, progress Progress) (*importanceResult, error) {
	steps := 4 + len(s.dropped)*len(importanceOrders)
	rows, test, err := s.fourNine(ctx)
	if err != nil {
		return nil, err
	}
	net, err := network.Seeded(seed, []int{1, 28, 28}, thesisCNN()...)
	if err != nil {
		return nil, err
	}
	_, _, params := net.Dims()
	f := &importanceFit{y: mat.NewDense(rows.Len(), 1, rows.Targets), yTest: mat.NewDense(test.Len(), 1, test.Targets)}
	x := rows.Matrix()
	net, trained, err := train.MAP(ctx, net, x, f.y, glm.Bernoulli{}, &train.Options{
		Precision: slices.Repeat([]float64{importanceDelta}, params), Epochs: s.epochs, Batch: 256, LearningRate: 3e-3, LBFGS: s.lbfgs, Seed: seed})
	if err != nil {
		return nil, err
	}
	progress(2, steps)
	if f.train, err = net.Linearize(ctx, x); err != nil {
		return nil, err
	}
	if f.test, err = net.Linearize(ctx, test.Matrix()); err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(importanceDelta, nil)
	if err != nil {
		return nil, err
	}
	f.kernel = ntk.New(prior, net.Theta())
	r := &importanceResult{Test: test.Len(), Parameters: params, GradientNorm: result.Float(trained.GradientNorm)}
	if r.Network, err = scoreMAP(glm.Bernoulli{}, f.yTest, f.test.F); err != nil {
		return nil, err
	}
	post, err := gp.Refit(ctx, f.kernel, f.train, gp.NewTargets(f.y, glm.Bernoulli{}), nil)
	if err != nil {
		return nil, err
	}
	if r.Refit, err = f.score(ctx, post); err != nil {
		return nil, err
	}
	progress(4, steps)
	sites, err := gp.NewSites(gp.NewTargets(f.y, glm.Bernoulli{}), f.train.F)
	if err != nil {
		return nil, err
	}
	r.Alpha, r.Residual = result.Floats(post.Alpha()), result.Floats(sites.Residual.RawMatrix().Data)
	order := explain.Importances(post)
	for k := range min(s.shown, len(order)) {
		r.Most = append(r.Most, shownDigit(rows, f.train.F, order[k]))
		r.Least = append(r.Least, shownDigit(rows, f.train.F, order[len(order)-1-k]))
	}
	r.Along = along(rows, f.train.F, order)
	if r.Predictions, err = f.predictions(ctx, post, rows, test, order); err != nil {
		return nil, err
	}
	done := 4
	for _, name := range importanceOrders {
		ranks := dropOrder(name, order, seed)
		for _, share := range s.dropped {
			scores, err := f.without(ctx, ranks[:int(math.Round(share*float64(len(ranks))))])
			if err != nil {
				return nil, err
			}
			r.Without = append(r.Without, withoutSome{name, result.Float(share), scores})
			done++
			progress(done, steps)
		}
	}
	return r, nil
}

// along are digits at places of the sorted curve that grow by about √10.
func along(train *dataset.Rows, f *mat.Dense, order []explain.Importance) []rankedDigit {
	var list []rankedDigit
	n := len(order)
	for _, rank := range []int{1, 3, 10, 30, 100, 300, 1000, 3000} {
		if rank <= n {
			list = append(list, rankedDigit{rank, shownDigit(train, f, order[rank-1])})
		}
	}
	return list
}

// similarShown is how many training digits a prediction is shown with.
const similarShown = 8

// predictions are the first test digit that the network predicts right and the first two that
// it predicts wrong, as many as there are, with their most similar training digits.
func (f *importanceFit) predictions(ctx context.Context, post *gp.Exact, train, test *dataset.Rows, order []explain.Importance) ([]shownTest, error) {
	var rows []int
	right, wrong := 0, 0
	for i := range test.Len() {
		if predicted := classOf(f.test.F.At(i, 0)); predicted == test.Class[i] && right < 1 {
			rows, right = append(rows, i), right+1
		} else if predicted != test.Class[i] && wrong < 2 {
			rows, wrong = append(rows, i), wrong+1
		}
	}
	// The right one comes first.
	slices.SortStableFunc(rows, func(a, b int) int {
		correct := func(i int) int {
			if classOf(f.test.F.At(i, 0)) == test.Class[i] {
				return 0
			}
			return 1
		}
		return correct(a) - correct(b)
	})
	x, err := linearize.Gather(ctx, f.test, slices.Sorted(slices.Values(rows)))
	if err != nil {
		return nil, err
	}
	e, err := explain.New(post, f.kernel, &explain.Options{Similar: similarShown, Top: 1})
	if err != nil {
		return nil, err
	}
	explained, err := e.Explain(ctx, x)
	if err != nil {
		return nil, err
	}
	var mean, cov, p, sd mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, err
	}
	if err := (predictive.Exact{}).PredictTo(&p, &sd, glm.Bernoulli{}, &mean, &cov); err != nil {
		return nil, err
	}
	alpha := make([]explain.Importance, len(order))
	for _, one := range order {
		alpha[one.Index] = one
	}
	at := slices.Sorted(slices.Values(rows))
	var list []shownTest
	for _, i := range rows {
		t := slices.Index(at, i)
		own := []float64{0}
		glm.Bernoulli{}.MeanTo(own, f.test.F.RawRowView(i))
		class, refit := classOf(f.test.F.At(i, 0)), p.At(t, 0)
		if class == 0 {
			own[0], refit = 1-own[0], 1-refit
		}
		one := shownTest{Row: test.Index[i], Label: test.Labels[i], Class: test.Labels[i], Network: result.Float(own[0]), Refit: result.Float(refit), SD: result.Float(sd.At(t, 0)), Pixels: slices.Clone(test.Image(i))}
		if class != test.Class[i] {
			one.Class = 4 + 9 - one.Label
		}
		for _, s := range explained[t][0].Similar {
			one.Similar = append(one.Similar, similarDigit{result.Float(s.Similarity), shownDigit(train, f.train.F, alpha[s.Index])})
		}
		list = append(list, one)
	}
	return list, nil
}

// classOf is the class that one output predicts.
func classOf(f float64) int {
	if f > 0 {
		return 1
	}
	return 0
}

// shownDigit is a training digit as the page shows it.
func shownDigit(train *dataset.Rows, f *mat.Dense, i explain.Importance) digitShown {
	at := i.Index
	p := []float64{0}
	glm.Bernoulli{}.MeanTo(p, f.RawRowView(at))
	if train.Class[at] == 0 {
		p[0] = 1 - p[0]
	}
	return digitShown{Row: train.Index[at], Label: train.Labels[at], Alpha: result.Float(i.Alpha[0]), Right: result.Float(p[0]), Pixels: slices.Clone(train.Image(at))}
}

// dropOrder are the training digits in the order in which they are dropped.
func dropOrder(name string, order []explain.Importance, seed uint64) []int {
	rows := make([]int, len(order))
	for k := range order {
		rows[k] = order[k].Index
	}
	switch name {
	case "least":
		slices.Reverse(rows)
	case "random":
		rng := rand.New(rand.NewPCG(seed, 56))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return rows
}

// without refits to the training digits that are not dropped.
func (f *importanceFit) without(ctx context.Context, dropped []int) (ClassScores, error) {
	out := make([]bool, f.train.Len())
	for _, i := range dropped {
		out[i] = true
	}
	var kept []int
	for i, gone := range out {
		if !gone {
			kept = append(kept, i)
		}
	}
	x, err := f.train.Gather(ctx, kept)
	if err != nil {
		return ClassScores{}, err
	}
	y := mat.NewDense(len(kept), 1, nil)
	for k, i := range kept {
		y.Set(k, 0, f.y.At(i, 0))
	}
	post, err := gp.Refit(ctx, f.kernel, x, gp.NewTargets(y, glm.Bernoulli{}), nil)
	if err != nil {
		return ClassScores{}, err
	}
	return f.score(ctx, post)
}

// score scores the exact predictive of a refit at the test digits.
func (f *importanceFit) score(ctx context.Context, post *gp.Exact) (ClassScores, error) {
	var mean, cov, response mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, f.test); err != nil {
		return ClassScores{}, err
	}
	lik, logp := glm.Bernoulli{}, make([]float64, f.test.Len())
	if err := (predictive.Exact{}).LogPredictiveTo(logp, lik, f.yTest, &mean, &cov); err != nil {
		return ClassScores{}, err
	}
	if err := (predictive.Exact{}).PredictTo(&response, nil, lik, &mean, &cov); err != nil {
		return ClassScores{}, err
	}
	return ScoreClasses(lik, f.yTest, &response, logp, 15), nil
}
