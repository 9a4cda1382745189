package reproduce

import (
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// A toy is a small data set with held-out rows, and how much work its study does.
type toy struct {
	x, y, xTest, yTest *mat.Dense
	hidden, layers     int // of the network
	adam, lbfgs        int // full-batch steps of training, iterations after it
	updates            int // what the updates in toyRuns are divided by
	samples            int // networks drawn for a prediction
}

// full and quick set how much work there is.
func (d *toy) full() *toy {
	d.hidden, d.layers, d.adam, d.lbfgs, d.updates, d.samples = 25, 5, 1500, 1500, 1, 1000
	return d
}

func (d *toy) quick() *toy {
	d.hidden, d.layers, d.adam, d.lbfgs, d.updates, d.samples = 6, 2, 200, 100, 10, 50
	return d
}

//go:embed snelson.csv
var snelsonText string

// snelsonData returns the points of the clipped one-dimensional data set that [thesis]
// takes after Snelson and Ghahramani: a smooth function with noise of variance 0.09,
// without training points between 1.5 and 2.4. They were drawn from the spline of the
// source's code, which is not at hand, so they are kept as they are.
func snelsonData() *toy {
	rows, err := csv.NewReader(strings.NewReader(snelsonText)).ReadAll()
	if err != nil {
		panic("reproduce: " + err.Error())
	}
	var parts [2][]float64 // x and y of the training and of the held-out rows
	for _, row := range rows[1:] {
		part := 0
		if row[0] == "test" {
			part = 1
		}
		for _, text := range row[1:] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic("reproduce: " + err.Error())
			}
			parts[part] = append(parts[part], v)
		}
	}
	d := &toy{}
	split := func(v []float64) (x, y *mat.Dense) {
		both := mat.NewDense(len(v)/2, 2, v)
		return mat.DenseCopyOf(both.ColView(0)), mat.DenseCopyOf(both.ColView(1))
	}
	d.x, d.y = split(parts[0])
	d.xTest, d.yTest = split(parts[1])
	return d
}

// moonsData returns two interleaved half circles with Gaussian noise of standard
// deviation 0.3, 150 training and 1,000 held-out points.
func moonsData() *toy {
	rng := rand.New(rand.NewPCG(6, 0x600d5))
	d := &toy{}
	d.x, d.y = moons(rng, 150)
	d.xTest, d.yTest = moons(rng, 1000)
	return d
}

// moons draws n points, half of them of each class, in random order.
func moons(rng *rand.Rand, n int) (x, y *mat.Dense) {
	x, y = mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
	for to, i := range rng.Perm(n) {
		class, of := 0, n/2
		if i >= of {
			class, i, of = 1, i-of, n-of
		}
		angle := math.Pi * float64(i) / float64(of-1)
		a, b := math.Cos(angle), math.Sin(angle)
		if class == 1 {
			a, b = 1-a, 0.5-b
		}
		x.SetRow(to, []float64{a + 0.3*rng.NormFloat64(), b + 0.3*rng.NormFloat64()})
		y.Set(to, 0, float64(class))
	}
	return x, y
}

// network returns an untrained tanh network.
func (d *toy) network(seed uint64) (*network.Network, error) {
	_, inputs := d.x.Dims()
	var layers []network.Layer
	for range d.layers {
		layers = append(layers, network.Dense{Units: d.hidden}, network.Tanh)
	}
	return network.Seeded(seed, network.Shape{inputs}, append(layers, network.Dense{Units: 1})...)
}

// A toyModel is a trained network with its prior and its likelihood.
type toyModel struct {
	*toy
	net      *network.Network
	initial  []float64 // parameters before training
	prior    *ntk.Isotropic
	lik      glm.Likelihood
	train    *linearize.Batch
	gradient float64 // norm of the MAP objective's gradient
}

// fit trains a network of prior precision delta by Adam and then L-BFGS.
func (d *toy) fit(ctx context.Context, lik glm.Likelihood, delta float64, seed uint64, progress Progress) (*toyModel, error) {
	net, err := d.network(seed)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(delta, nil)
	if err != nil {
		return nil, err
	}
	initial := net.Theta()
	_, _, p := net.Dims()
	precision := make([]float64, p)
	prior.VarianceTo(precision)
	for i, v := range precision {
		precision[i] = 1 / v
	}
	n, _ := d.x.Dims()
	done := func(stage string, at, _ int) {
		if stage == train.StageLBFGS {
			at += d.adam
		}
		progress(at, d.adam+d.lbfgs)
	}
	net, result, err := train.MAP(ctx, net, d.x, d.y, lik, &train.Options{Precision: precision, Epochs: d.adam, Batch: n, LearningRate: 5e-3, LBFGS: d.lbfgs, Tolerance: 1e-7, Seed: seed, Progress: done})
	if err != nil {
		return nil, err
	}
	m := &toyModel{toy: d, net: net, initial: initial, prior: prior, lik: lik, gradient: result.GradientNorm}
	m.train, err = net.Linearize(ctx, d.x)
	return m, err
}

// A toyScore is what the evidence and the held-out rows say of a model.
type toyScore struct {
	Evidence result.Float // (E7), for each training row
	Refit    result.Float // (E9), for each training row
	LogLik   result.Float // mean log density of the held-out rows under the GLM predictive
	Network  result.Float // the same under the network alone
	Gradient result.Float // norm at the end of training
}

// add adds share times the scores of another network.
func (s *toyScore) add(o *toyScore, share result.Float) {
	s.Evidence += share * o.Evidence
	s.Refit += share * o.Refit
	s.LogLik += share * o.LogLik
	s.Network += share * o.Network
	s.Gradient += share * o.Gradient
}

// score fits the Laplace posterior over functions and scores it.
func (m *toyModel) score(ctx context.Context) (*toyScore, error) {
	kernel := ntk.New(m.prior, m.net.Theta())
	sites, err := gp.NewSites(gp.NewTargets(m.y, m.lik), m.train.F)
	if err != nil {
		return nil, err
	}
	e, err := gp.Fit(ctx, kernel, m.train, sites, nil)
	if err != nil {
		return nil, err
	}
	n := float64(m.train.Len())
	s := &toyScore{Gradient: result.Float(m.gradient)}
	s.Evidence = result.Float(e.EvidenceAtTheta(gp.Scatter(m.prior, m.net.Theta())).Value / n)
	refit, err := e.Refit(ctx, gp.NewTargets(m.y, m.lik))
	if err != nil {
		return nil, err
	}
	s.Refit = result.Float(refit.EvidenceRefit().Value / n)
	test, err := m.net.Linearize(ctx, m.xTest)
	if err != nil {
		return nil, err
	}
	logp, err := m.marginal(ctx, e, test)
	s.LogLik = result.Float(logp)
	s.Network = result.Float(m.networkLogLik(test.F))
	return s, err
}

// marginal returns the mean log density of the held-out rows under the GLM predictive of
// a posterior, which integrates over f exactly.
func (m *toyModel) marginal(ctx context.Context, post gp.Latent, test *linearize.Batch) (float64, error) {
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, test); err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range test.Len() {
		logp, err := m.lik.(glm.Marginal).LogMarginal(m.yTest.RawRowView(i), mean.RawRowView(i), cov.RawRowView(i))
		if err != nil {
			return 0, err
		}
		sum += logp
	}
	return sum / float64(test.Len()), nil
}

// networkLogLik returns the mean log density of the held-out rows at outputs f.
func (m *toyModel) networkLogLik(f *mat.Dense) float64 {
	n, _ := f.Dims()
	sum := 0.0
	for i := range n {
		sum += m.lik.LogProb(m.yTest.RawRowView(i), f.RawRowView(i))
	}
	return sum / float64(n)
}

// toyAlgorithms are the posteriors of [thesis fig. 5.4 and 5.5], in their order.
var toyAlgorithms = []string{"Laplace", "OGGN", "LGVA", "VOGGN"}

// laplace returns N(θ*, (H + raised·I)⁻¹). H is the precision after an update of OGGN with
// rate one.
func (m *toyModel) laplace(ctx context.Context, raised float64) (*variational.Gaussian, error) {
	theta := m.net.Theta()
	start, err := variational.NewPriorGaussian(theta, m.prior)
	if err != nil {
		return nil, err
	}
	update := variational.NewNatural(variational.OGGN, m.net, m.prior, 1)
	q, err := update.Step(ctx, start, nil, m.x, gp.NewTargets(m.y, m.lik), 1)
	if err != nil {
		return nil, err
	}
	precision := mat.NewSymDense(len(theta), nil)
	precision.CopySym(q.Precision())
	for i := range theta {
		precision.SetSym(i, i, precision.At(i, i)+raised)
	}
	return variational.NewGaussian(theta, precision)
}

// start returns where a run starts.
func (m *toyModel) start(ctx context.Context, run toyRun) (*variational.Gaussian, error) {
	if !run.initial {
		return m.laplace(ctx, run.raised) // raised by 0 for Laplace, which has no run
	}
	precision := make([]float64, len(m.initial))
	m.prior.VarianceTo(precision)
	for i, v := range precision {
		precision[i] = 1/v + run.raised
	}
	return variational.NewGaussian(m.initial, mat.NewDiagDense(len(precision), precision))
}

// posterior returns the Gaussian over the parameters of an algorithm.
func (m *toyModel) posterior(ctx context.Context, name string, progress Progress) (*variational.Gaussian, error) {
	run := toyRuns[name]
	q, err := m.start(ctx, run)
	if err != nil {
		return nil, err
	}
	before, total := 0, 0
	for _, phase := range run.phases {
		total += phase.updates / m.updates
	}
	for k, phase := range run.phases {
		v := variational.NewNatural(run.algorithm, m.net, m.prior, phase.rate)
		v.Steps, v.Draws, v.Seed = phase.updates/m.updates, run.draws, uint64(k)
		v.Progress = func(_ string, done, _ int) { progress(before+done, total) }
		q, err = v.Run(ctx, q, m.x, gp.NewTargets(m.y, m.lik))
		if err != nil {
			return nil, err
		}
		before += phase.updates / m.updates
	}
	return q, nil
}

// A toyRun is how a variational algorithm is run: in phases of falling rate γ, from the
// Laplace posterior, or from the prior's variances around the parameters before training,
// with a precision that is raised, so that the first draws stay near. The last update has
// forgotten what it was raised by.
type toyRun struct {
	algorithm variational.Algorithm
	initial   bool // from the parameters before training
	raised    float64
	draws     int // of the parameters in each update
	phases    []toyPhase
}

type toyPhase struct {
	rate    float64
	updates int
}

// toyRuns are the runs of the algorithms. LGVA runs no network at its draws, so it can
// take many. It starts before training: at θ* its draws under the
// linearized model are so wide that the first updates leave the trained network.
var toyRuns = map[string]toyRun{
	"OGGN":  {variational.OGGN, false, 100, 1, []toyPhase{{0.1, 40}, {0.03, 40}, {0.01, 40}}},
	"LGVA":  {variational.LGVA, true, 100, 40, []toyPhase{{0.03, 200}, {0.01, 50}}},
	"VOGGN": {variational.VOGGN, false, 500, 6, []toyPhase{{0.05, 120}, {0.02, 50}, {0.01, 50}}},
}

// panelStep is the step of the linearized network's surface under the Laplace posterior of a network that is trained with this
// prior precision, a panel of figures 5.2 and 5.3.
func (d *toy) panelStep(lik glm.Likelihood, delta float64, grid *mat.Dense) Step {
	return Step{Key: panelKey(delta), Cost: 2, Run: func(ctx context.Context, progress Progress) (any, error) {
		m, err := d.fit(ctx, lik, delta, 1, progress)
		if err != nil {
			return nil, err
		}
		q, err := m.laplace(ctx, 0)
		if err != nil {
			return nil, err
		}
		return m.glmSurface(ctx, q.Linearized(q.Center()), m.net, grid)
	}}
}

func panelKey(delta float64) string { return fmt.Sprintf("panel%.2f", math.Log10(delta)+10) }

// panels are the surfaces at these precisions.
func panels(r *Results, deltas []float64) ([]toySurface, error) {
	list := make([]toySurface, len(deltas))
	for i, delta := range deltas {
		if err := r.Get(panelKey(delta), &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A toyPredictive compares predictions by networks drawn from the posterior over parameters (NN) with those of the
// network linearized at its mean (GLM), beside those of its mean alone (MAP), on the held-out rows and on a grid.
type toyPredictive struct {
	LogLikMAP, LogLikNN, LogLikGLM result.Float // mean log density of the held-out rows
	NN, GLM                        toySurface
	Distance                       result.Float // of the mean of the parameters from θ*, relative to its norm
}

// A toySurface is E g⁻¹(f) and the standard deviation of f at the inputs of a grid, and for the linearized network the parts of
// the variance of y, E Var[y|f] and Var g⁻¹(f) [glm fig. 4] and to first order Λ and ΛJΣJᵀΛ [thesis 3.16].
type toySurface struct {
	Mean, SD                         []result.Float
	Aleatoric, Epistemic             []result.Float
	LinearAleatoric, LinearEpistemic []result.Float
}

// predict predicts with networks that are drawn from q (NN), and from the network
// linearized at the mean of q (GLM).
func (m *toyModel) predict(ctx context.Context, q *variational.Gaussian, grid *mat.Dense) (*toyPredictive, error) {
	center, err := m.net.WithTheta(q.Center())
	if err != nil {
		return nil, err
	}
	r := &toyPredictive{}
	test, err := center.Linearize(ctx, m.xTest)
	if err != nil {
		return nil, err
	}
	r.LogLikMAP = result.Float(m.networkLogLik(test.F))
	latent := q.Linearized(q.Center())
	glmLogLik, err := m.marginal(ctx, latent, test)
	if err != nil {
		return nil, err
	}
	r.LogLikGLM = result.Float(glmLogLik)
	if r.GLM, err = m.glmSurface(ctx, latent, center, grid); err != nil {
		return nil, err
	}
	drawn, surface, err := m.drawn(ctx, q, grid)
	r.LogLikNN, r.NN = result.Float(drawn), surface
	away := mat.NewVecDense(len(q.Center()), nil)
	theta := mat.NewVecDense(len(q.Center()), m.net.Theta())
	away.SubVec(mat.NewVecDense(len(q.Center()), q.Center()), theta)
	r.Distance = result.Float(mat.Norm(away, 2) / mat.Norm(theta, 2))
	return r, err
}

func (m *toyModel) glmSurface(ctx context.Context, latent gp.Latent, center *network.Network, grid *mat.Dense) (s toySurface, err error) {
	b, err := center.Linearize(ctx, grid)
	if err != nil {
		return s, err
	}
	var mean, cov, response mat.Dense
	if err := latent.PredictTo(ctx, &mean, &cov, b); err != nil {
		return s, err
	}
	if err := (predictive.Exact{}).PredictTo(&response, nil, m.lik, &mean, &cov); err != nil {
		return s, err
	}
	for _, of := range []struct {
		split                predictive.Splitter
		aleatoric, epistemic *[]result.Float
	}{{predictive.Exact{}, &s.Aleatoric, &s.Epistemic}, {predictive.Linear{}, &s.LinearAleatoric, &s.LinearEpistemic}} {
		var aleatoric, epistemic mat.Dense
		if err := of.split.SplitTo(&aleatoric, &epistemic, m.lik, &mean, &cov); err != nil {
			return s, err
		}
		*of.aleatoric, *of.epistemic = result.Floats(mat.Col(nil, 0, &aleatoric)), result.Floats(mat.Col(nil, 0, &epistemic))
	}
	for i := range b.Len() {
		s.Mean, s.SD = append(s.Mean, result.Float(response.At(i, 0))), append(s.SD, result.Float(math.Sqrt(cov.At(i, 0))))
	}
	return s, nil
}

// drawn returns the mean log density of the held-out rows under networks drawn from q, and
// their surface.
func (m *toyModel) drawn(ctx context.Context, q *variational.Gaussian, grid *mat.Dense) (logLik float64, s toySurface, err error) {
	bnn := weightspace.NewBNN(m.net, q)
	bnn.Samples, bnn.Seed = m.samples, 2
	held, err := bnn.Draw(ctx, m.lik, m.yTest, m.xTest)
	if err != nil {
		return 0, s, err
	}
	for _, v := range held.LogDensity {
		logLik += v / float64(len(held.LogDensity))
	}
	d, err := bnn.Draw(ctx, m.lik, nil, grid)
	if err != nil {
		return 0, s, err
	}
	for i := range rowsOf(grid) {
		s.Mean, s.SD = append(s.Mean, result.Float(d.Mean.At(i, 0))), append(s.SD, result.Float(math.Sqrt(d.Cov.At(i, 0))))
	}
	return logLik, s, nil
}

// frameCurves cuts off what is far below the top of curves.
func frameCurves(p *plot.Plot, top float64) {
	low := max(p.Y.Min, top-2*heatDepth)
	p.Y.Min, p.Y.Max = low, top+0.1*(top-low)
}

// readPredictives reads the results of the four posteriors.
func readPredictives(r *Results) ([]toyPredictive, error) {
	all := make([]toyPredictive, len(toyAlgorithms))
	for i, name := range toyAlgorithms {
		if err := r.Get(strings.ToLower(name), &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// predictiveTable compares the negative log likelihoods, and says what they show.
func predictiveTable(all []toyPredictive) (*Table, string) {
	t := &Table{Name: "predictives", Caption: "Negative log likelihood of a held-out row. The source finds NN sampling sound for VOGGN and unsound for Laplace and OGGN, and GLM sampling sound for all.",
		Head: []string{"posterior", "network at the mean", "NN", "GLM", "distance of the mean from θ*"}}
	var worse []string
	for i, name := range toyAlgorithms {
		a := &all[i]
		nn, glm := -float64(a.LogLikNN), -float64(a.LogLikGLM)
		row := []Cell{Text(name), Number(-float64(a.LogLikMAP)), Number(nn), Number(glm), Number(float64(a.Distance))}
		row[2].Best, row[3].Best = nn < glm, glm <= nn
		t.Rows = append(t.Rows, row)
		worse = append(worse, fmt.Sprintf("%+.3f with %s", nn-glm, name))
	}
	return t, "The negative log likelihood with NN less that with GLM is " + strings.Join(worse, ", ") + "."
}

func floatsOf(v []result.Float) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}
