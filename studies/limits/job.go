package limits

import (
	"context"
	"runtime"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Names of stages.
const (
	outputs     = "outputs and Jacobian"
	gramKernel  = "kernel"
	factorOfB   = "B, its factor, dual vector"
	crossKernel = "cross-kernel"
	solve       = "solve"
	covariance  = "covariance"
	integral    = "integral"
)

// A stage is a part of the fit or the prediction of a job.
type stage struct {
	Part, Name   string
	Flops, Bytes float64 // at least
	Seconds      float64
}

// A job is a network of 5×5 convolutions, each with a rectifier and a pool of 2, and dense layers with rectifiers
// between them, on N training digits and T to predict: a 4 or a 9 with one output, and all ten with ten.
type job struct {
	Name           string
	N, T, C        int
	Filters, Units []int
	Inducing       int // number of inducing examples; 0 for the exact posterior
}

// jobs are those of the benchmark of whole jobs, and predictions from inducing examples.
var jobs = []job{
	{Name: "thesis-cnn", N: 3000, T: 1991, C: 1, Filters: []int{3, 8}, Units: []int{25, 25, 1}},
	{Name: "lenet5", N: 200, T: 200, C: 10, Filters: []int{6, 16}, Units: []int{120, 84, 10}},
	{Name: "mlp", N: 300, T: 200, C: 10, Units: []int{128, 64, 10}},
	{Name: "nystrom-lenet5", N: 1000, T: 500, C: 10, Filters: []int{6, 16}, Units: []int{120, 84, 10}, Inducing: 200},
}

// precision is that of the prior.
const precision = 10

// A prepared is a job with its network, digits and kernel, and for inducing examples with its posterior.
type prepared struct {
	job
	net      *network.Network
	shape    *shape
	x, y, xt *mat.Dense
	lik      glm.Likelihood
	clock    clock
	kernel   timedKernel
	post     *sparse.Projected
}

func (j job) prepare(ctx context.Context) (*prepared, error) {
	p, classes := &prepared{job: j, lik: glm.Bernoulli{}}, []int{4, 9}
	if j.C > 1 {
		p.lik, classes = glm.Categorical{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	}
	data := dataset.Digits(0, 20000, 12000)
	digits, err := data.Train.Select(classes, j.N)
	if err != nil {
		return nil, err
	}
	test, err := data.Test.Select(classes, j.T)
	if err != nil {
		return nil, err
	}
	p.x, p.xt, p.y = digits.Matrix(), test.Matrix(), mat.NewDense(j.N, 1, digits.Targets)
	var layers []network.Layer
	for _, f := range j.Filters {
		layers = append(layers, network.Conv2D{Filters: f, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2})
	}
	layers = append(layers, network.Flatten{})
	for i, u := range j.Units {
		if i > 0 {
			layers = append(layers, network.ReLU)
		}
		layers = append(layers, network.Dense{Units: u})
	}
	if p.net, err = network.Sequential(network.Shape{1, 28, 28}, layers...); err != nil {
		return nil, err
	}
	if j.Inducing > 0 { // the width of the covariance decides how many points the integral takes
		o := &train.Options{Precision: slices.Repeat([]float64{precision}, len(p.net.Theta())), Batch: min(50, j.N), Epochs: 10, LBFGS: -1}
		if p.net, _, err = train.MAP(ctx, p.net, p.x, p.y, p.lik, o); err != nil {
			return nil, err
		}
	}
	one, err := p.net.Factored().Linearize(ctx, mat.NewDense(1, 784, p.x.RawRowView(0)))
	if err != nil {
		return nil, err
	}
	if p.shape, err = shapeOf(one); err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(precision, nil)
	if err != nil {
		return nil, err
	}
	p.kernel = timedKernel{NTK: ntk.New(prior, p.net.Theta()), clock: &p.clock}
	if j.Inducing == 0 {
		p.shape.choose(p.shape.gram(float64(j.N)), float64(j.N))
		return p, nil
	}
	p.shape.choose(p.shape.cross(float64(j.T), float64(j.Inducing)), float64(j.T))
	src := linearize.NewSource(p.net, p.N, linearize.Tile(p.C), func(lo, hi int) (*mat.Dense, error) { return dense.Slice(p.x, lo, hi), nil })
	sites, err := gp.SitesFrom(ctx, src, gp.NewTargets(p.y, p.lik))
	if err != nil {
		return nil, err
	}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: digits.Class}, p.kernel, src, j.Inducing, nil)
	if err != nil {
		return nil, err
	}
	b, err := sparse.NewBuilder(ctx, p.kernel, z, nil)
	if err != nil {
		return nil, err
	}
	if err := b.Add(ctx, src, sites); err != nil {
		return nil, err
	}
	p.post, err = b.Posterior(ctx)
	return p, err
}

// stages are those of the job, in order.
func (p *prepared) stages() []stage {
	n, t := float64(p.N), float64(p.T)
	if p.Inducing > 0 {
		return part("predict", p.shape.inducing(t, float64(p.Inducing)))
	}
	return append(part("fit", p.shape.fit(n)), part("predict", p.shape.predict(t, n))...)
}

func part(name string, s []stage) []stage {
	for i := range s {
		s[i].Part = name
	}
	return s
}

// run does the job once. check is the trace of the covariances, by which another implementation is compared.
func (p *prepared) run(ctx context.Context) (done []stage, check float64, err error) {
	runtime.GC()
	p.clock = clock{spent: map[string]time.Duration{}}
	var mean, cov mat.Dense
	latent := gp.Latent(p.post)
	if p.Inducing == 0 {
		if latent, err = p.fit(ctx); err != nil {
			return nil, 0, err
		}
	}
	p.clock.to("predict" + outputs)
	x, err := p.net.Linearize(ctx, p.xt)
	if err != nil {
		return nil, 0, err
	}
	p.clock.predicting, p.clock.after = true, solve
	if p.Inducing > 0 {
		p.clock.after = covariance
	}
	p.clock.to("predict" + covariance)
	if err := latent.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, 0, err
	}
	if p.Inducing > 0 {
		p.clock.to("predict" + integral)
		var prob, sd mat.Dense
		if err := (predictive.QMC{}).PredictTo(&prob, &sd, p.lik, &mean, &cov); err != nil {
			return nil, 0, err
		}
	}
	p.clock.to("")
	for i := range dense.Count(&cov) {
		check += cov.At(i, i%p.C)
	}
	done = p.stages()
	for i := range done {
		done[i].Seconds = p.clock.spent[done[i].Part+done[i].Name].Seconds()
	}
	return done, check, nil
}

func (p *prepared) fit(ctx context.Context) (*gp.Exact, error) {
	p.clock.to("fit" + outputs)
	x, err := p.net.Linearize(ctx, p.x)
	if err != nil {
		return nil, err
	}
	p.clock.to("fit" + factorOfB)
	sites, err := gp.NewSites(gp.NewTargets(p.y, p.lik), x.F)
	if err != nil {
		return nil, err
	}
	p.clock.to("fit" + gramKernel)
	return gp.Fit(ctx, p.kernel, x, sites, &gp.Options{Limits: linearize.Limits{Progress: func(_ string, done, total int) {
		if done == total {
			p.clock.to("fit" + factorOfB)
		}
	}}})
}

// A clock adds up the time of stages.
type clock struct {
	spent      map[string]time.Duration
	stage      string
	since      time.Time
	predicting bool
	after      string // stage that follows a cross-kernel
}

// to begins a stage, which ends the one before.
func (c *clock) to(stage string) {
	now := time.Now()
	c.spent[c.stage] += now.Sub(c.since)
	c.stage, c.since = stage, now
}

// A timedKernel tells the clock when a prediction begins and ends a cross-kernel, and when it takes the prior variances,
// after which it subtracts.
type timedKernel struct {
	*ntk.NTK
	clock *clock
}

func (k timedKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	_ = k.BlockContextTo(context.Background(), dst, a, b)
}

// BlockContextTo is what ntk.BlockContextTo looks for.
func (k timedKernel) BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error {
	if k.clock.predicting {
		k.clock.to("predict" + crossKernel)
		defer func() { k.clock.to("predict" + k.clock.after) }()
	}
	return k.NTK.BlockContextTo(ctx, dst, a, b)
}

func (k timedKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	if k.clock.predicting {
		k.clock.to("predict" + covariance)
	}
	k.NTK.DiagTo(dst, b)
}
