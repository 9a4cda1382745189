package weightspace_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// A structureProblem is a small random model with data, in which some parameters have
// no prior variance.
type structureProblem struct {
	name        string
	train, test *linearize.Batch
	sites       *gp.Sites
	theta       []float64
	prior       ntk.Prior
	layer       string // the last one
}

// zeros is a prior with some variances of zero.
type zeros struct{ mean, variance []float64 }

func (z zeros) MeanTo(dst []float64)     { copy(dst, z.mean) }
func (z zeros) VarianceTo(dst []float64) { copy(dst, z.variance) }

func newStructureProblem(t testing.TB, name string, train, test *linearize.Batch, lik gp.Likelihood, layer string) *structureProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, uint64(len(name))))
	q := &structureProblem{name: name, train: train, test: test, layer: layer}
	train.Model, test.Model = linearize.ModelFingerprint{}, linearize.ModelFingerprint{} // theta is drawn
	z := zeros{}
	for p := range train.P {
		q.theta = append(q.theta, 0.3*rng.NormFloat64())
		z.mean = append(z.mean, 0.1*rng.NormFloat64())
		v := 0.2 * math.Exp(0.5*rng.NormFloat64())
		if p%7 == 3 { // a dead parameter
			v, z.mean[p] = 0, q.theta[p]
		}
		z.variance = append(z.variance, v)
	}
	q.prior = z
	var err error
	q.sites, err = gp.NewSites(gp.NewTargets(testkit.Targets(rng, lik, train.F), lik), train.F)
	require.NoError(t, err)
	return q
}

// structureProblems have dense, hidden, embedding, convolution and normalization
// layers, one and several outputs, and more examples than a tile.
func structureProblems(t testing.TB) []*structureProblem {
	t.Helper()
	gauss := testref.Must(glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{0.3, 0.1, 0.1, 0.2})))(t)
	random := func(seed uint64, n, c int, layers ...gptest.Layer) (train, test *linearize.Batch) {
		rng := rand.New(rand.NewPCG(seed, 77))
		train = gptest.RandomBatch(rng, n, c, layers...)
		return train, gptest.Another(rng, train, 5)
	}
	mixed := []gptest.Layer{{In: 4, Out: 3}, {Out: 5}, {In: 3, Table: 6, Out: 2}, {In: 2, Out: 3, Hidden: true}, {In: 5, Out: 4, Transposed: true, NoBias: true}, {In: 2, Out: 3, NoWeight: true}}
	var all []*structureProblem
	add := func(name string, lik gp.Likelihood, layer string, train, test *linearize.Batch) {
		all = append(all, newStructureProblem(t, name, train, test, lik, layer))
	}
	a, b := random(1, 40, 1, mixed...)
	add("bernoulli", glm.Bernoulli{}, "4", a, b)
	a, b = random(2, 30, 3, mixed...)
	add("categorical", glm.Categorical{}, "0", a, b)
	a, b = random(3, 12, 2, mixed...)
	add("gaussian", gauss, "4", a, b)
	a, b = random(4, 1100, 2, gptest.Layer{In: 3, Out: 4}, gptest.Layer{Out: 6})
	add("several tiles", gauss, "0", a, b)
	net, err := network.Sequential(network.Shape{2, 6, 6}, network.Conv2D{Filters: 3, Kernel: 3}, network.Tanh, network.Conv2D{Filters: 40, Kernel: 2, Stride: 2}, network.ReLU,
		network.Flatten{}, network.Dense{Units: 5}, network.LayerNorm{}, network.Tanh, network.Dense{Units: 3})
	require.NoError(t, err)
	inputs := func(seed uint64, n int) *linearize.Batch {
		rng := rand.New(rand.NewPCG(seed, 78))
		x := mat.NewDense(n, 72, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		return testref.Must(net.Linearize(t.Context(), x))(t)
	}
	add("network", glm.Categorical{}, "", inputs(1, 30), inputs(2, 4))
	return all
}

// structureOptions are the options that suit a problem.
func (q *structureProblem) options(s weightspace.Structure) *weightspace.Options {
	o := &weightspace.Options{Layer: q.layer, Size: 9}
	if s == weightspace.Full { // a BlockPosterior
		o.Center = q.theta
	}
	return o
}

var structuresOfBlocks = []weightspace.Structure{weightspace.Full, weightspace.Block, weightspace.LastLayer, weightspace.Subnetwork}

func (q *structureProblem) fit(t testing.TB, s weightspace.Structure, x linearize.Source, o *weightspace.Options) weightspace.Weights {
	t.Helper()
	return testref.Must(weightspace.FitStructure(t.Context(), s, x, q.sites, q.prior, q.theta, o))(t)
}

func eachStructure(t *testing.T, f func(t *testing.T, q *structureProblem, s weightspace.Structure)) {
	for _, q := range structureProblems(t) {
		for _, s := range append([]weightspace.Structure{weightspace.Diagonal}, structuresOfBlocks...) {
			t.Run(q.name+"/"+s.String(), func(t *testing.T) { f(t, q, s) })
		}
	}
}

// covariance returns Q⁻¹ and log det Q + log det Σ₀ the dumb way: the entries of
// H̃ = I + Σ₀^½JᵀΛJΣ₀^½ of which keep tells that Q has them, inverted as a whole.
func (q *structureProblem) covariance(t *testing.T, keep func(i, j int) bool) (*mat.Dense, float64) {
	t.Helper()
	p := len(q.theta)
	root := make([]float64, p)
	q.prior.VarianceTo(root)
	j := jacobian(q.train)
	c := q.train.Outputs()
	var lj mat.Dense
	lj.CloneFrom(j)
	for n := range q.train.Len() {
		var rows mat.Dense
		rows.Mul(q.sites.Lambda.Slice(n*c, (n+1)*c, 0, c), j.Slice(n*c, (n+1)*c, 0, p))
		lj.Slice(n*c, (n+1)*c, 0, p).(*mat.Dense).Copy(&rows)
	}
	var h, inv mat.Dense
	h.Mul(j.T(), &lj)
	for a := range p {
		for b := range p {
			v := 0.0
			if keep(a, b) {
				v = math.Sqrt(root[a]*root[b]) * h.At(a, b)
			}
			if a == b {
				v++
			}
			h.Set(a, b, v)
		}
	}
	require.NoError(t, inv.Inverse(&h))
	logDet, _ := mat.LogDet(&h)
	inv.Apply(func(a, b int, v float64) float64 { return math.Sqrt(root[a]*root[b]) * v }, &inv)
	return &inv, logDet
}

// Every structure is the inverse of the entries of H that it keeps.
func TestStructuresAgainstDenseMatrices(t *testing.T) {
	eachStructure(t, func(t *testing.T, q *structureProblem, s weightspace.Structure) {
		w := q.fit(t, s, testkit.InTiles(q.train, 11), q.options(s))
		of := make([]int, len(q.theta)) // the number of each parameter's block; zero for none
		for p := range of {
			of[p] = -p
		}
		if b, ok := w.(*weightspace.BlockPosterior); ok {
			clear(of)
			_, parameters := b.Layers()
			for i, index := range parameters {
				for _, p := range index {
					require.Zero(t, of[p], "parameter %d is in two blocks", p)
					of[p] = i + 1
				}
			}
		}
		inv, logDet := q.covariance(t, func(a, b int) bool { return of[a] == of[b] && (of[a] > 0 || s == weightspace.Diagonal) })
		for p, block := range of { // parameters in no block are fixed
			if block == 0 && s != weightspace.Diagonal {
				for k := range of {
					inv.Set(p, k, 0)
					inv.Set(k, p, 0)
				}
			}
		}
		requireNear(t, "log det", w.LogDet(), logDet, 1e-11)
		var want, cov mat.Dense
		want.Product(jacobian(q.test), inv, jacobian(q.test).T())
		require.NoError(t, w.JointTo(t.Context(), nil, &cov, q.test))
		requireMatrix(t, "joint covariance", &cov, &want, 1e-11)
		require.False(t, math.IsNaN(w.EvidenceAtTheta().Value))
	})
}

// Full as a stream of blocks is Fit.
func TestFullStructureIsFit(t *testing.T) {
	for _, q := range structureProblems(t) {
		w := q.fit(t, weightspace.Full, q.train, nil)
		require.IsType(t, (*weightspace.Posterior)(nil), w)
		b := q.fit(t, weightspace.Full, testkit.InTiles(q.train, 13), nil)
		require.IsType(t, (*weightspace.BlockPosterior)(nil), b)
		requireNear(t, "log det", b.LogDet(), w.LogDet(), 1e-12)
		requireNear(t, "evidence", b.EvidenceAtTheta().Value, w.EvidenceAtTheta().Value, 1e-12)
		requireSameJoint(t, b, w, q.test)
	}
}

// The diagonal of a network's examples, which forms no Jacobian, is that of a batch.
func TestDiagonalOfNetworkSource(t *testing.T) {
	net, err := network.Sequential(network.Shape{6}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 2}, network.SiLU, network.Dense{Units: 3})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(2, 79))
	x := mat.NewDense(900, 6, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	train := testref.Must(net.Linearize(t.Context(), x))(t)
	q := newStructureProblem(t, "source", train, train.Slice(0, 4), glm.Categorical{}, "")
	want := q.fit(t, weightspace.Diagonal, train, nil)
	var bits []float64
	for _, tile := range []int{13, 1000} {
		src := linearize.NewSource(net, 900, tile, func(lo, hi int) (*mat.Dense, error) { return x.Slice(lo, hi, 0, 6).(*mat.Dense), nil })
		steps := 0
		got := q.fit(t, weightspace.Diagonal, src, &weightspace.Options{Limits: linearize.Limits{Progress: func(stage string, done, total int) {
			require.Equal(t, weightspace.StagePrecision, stage)
			require.Equal(t, 900, total)
			steps++
		}}})
		require.Greater(t, steps, 2)
		requireNear(t, "log det", got.LogDet(), want.LogDet(), 1e-12)
		requireSameJoint(t, got, want, q.test)
		h := got.(*weightspace.DiagonalPosterior).GGN()
		requireMatrix(t, "diagonal", vector(h), vector(want.(*weightspace.DiagonalPosterior).GGN()), 1e-12)
		if bits == nil {
			bits = h
		}
		gptest.RequireBits(t, "the diagonal", h, bits)
	}
}

func TestStructuresConform(t *testing.T) {
	eachStructure(t, func(t *testing.T, q *structureProblem, s weightspace.Structure) {
		o := q.options(s)
		o.Center = append([]float64(nil), q.theta...)
		o.Center[0]++
		q.conforms(t, q.fit(t, s, q.train, o))
	})
}

func (q *structureProblem) conforms(t *testing.T, w weightspace.Weights) {
	gptest.Weights(t, gptest.WeightsCase{
		LatentCase: gptest.LatentCase{Kernel: ntk.New(q.prior, q.theta), Test: q.test, Tol: 1e-12},
		Weights:    w, Theta: q.theta, Draws: 1000,
	})
}

// Fit, a refit and the Kronecker-factored structures pass the same suite.
func TestOtherWeightsConform(t *testing.T) {
	testref.Long(t, "takes long under the race detector; shorter tests run the same code")
	all := structureProblems(t)
	for _, q := range []*structureProblem{all[1], all[4]} {
		t.Run("full/"+q.name, func(t *testing.T) { q.conforms(t, q.fit(t, weightspace.Full, q.train, nil)) })
	}
	eachKroneckerProblem(t, func(t *testing.T, q *kroneckerProblem) {
		for name, prior := range q.priors(t) {
			for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.Chain} {
				p := &structureProblem{train: q.train, test: q.test, sites: q.sites, theta: q.theta, prior: prior}
				w, err := weightspace.FitStructure(t.Context(), s, q.train, q.sites, prior, q.theta, nil)
				if err != nil {
					require.NotEqual(t, weightspace.KFAC, s) // the others refuse some layers and priors
					continue
				}
				t.Run(name+"/"+s.String(), func(t *testing.T) { p.conforms(t, w) })
			}
		}
	})
}

// A fit has the same bits for any number of processors and any batches of the source.
func TestStructuresDoNotDependOnProcessors(t *testing.T) {
	eachStructure(t, func(t *testing.T, q *structureProblem, s weightspace.Structure) {
		want := weightAnswers(t, q.fit(t, s, q.train, q.options(s)), q.test)
		for i, procs := range []int{1, 2, 4} {
			testref.Procs(t, procs)
			got := q.fit(t, s, testkit.InTiles(q.train, 7+5*i), q.options(s))
			gptest.RequireBits(t, "the posterior", weightAnswers(t, got, q.test), want)
		}
	})
}

// weightAnswers is a list of all that a posterior over parameters gives.
func weightAnswers(t *testing.T, w weightspace.Weights, x *linearize.Batch) []float64 {
	t.Helper()
	var mean, cov, joint mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), &mean, &cov, x))
	require.NoError(t, w.JointTo(t.Context(), nil, &joint, x))
	draws := mat.NewDense(3, x.P, nil)
	require.NoError(t, w.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(1, 2))))
	out := append([]float64{w.LogDet(), w.EvidenceAtTheta().Value}, w.Center()...)
	for _, m := range []*mat.Dense{&mean, &cov, &joint, draws} {
		out = append(out, mat.DenseCopyOf(m).RawMatrix().Data...)
	}
	switch w := w.(type) {
	case *weightspace.BlockPosterior:
		for _, p := range w.Selected() {
			out = append(out, float64(p))
		}
	case *weightspace.DiagonalPosterior:
		out = append(append(out, w.GGN()...), w.Variance()...)
	}
	return out
}

// What a structure cannot be fitted to is an error or, where the caller is at fault, a
// panic.
func TestStructuresRefuse(t *testing.T) {
	all := structureProblems(t)
	q := all[0]
	fit := func(s weightspace.Structure, x linearize.Source, sites *gp.Sites, o *weightspace.Options) error {
		w, err := weightspace.FitStructure(t.Context(), s, x, sites, q.prior, q.theta, o)
		if err != nil {
			require.Nil(t, w)
		}
		return err
	}
	var memory *gp.MemoryError
	for _, s := range []weightspace.Structure{weightspace.Diagonal, weightspace.Full, weightspace.Block, weightspace.LastLayer, weightspace.Subnetwork} {
		o := q.options(s)
		o.Memory = 1000
		require.ErrorAs(t, fit(s, testkit.InTiles(q.train, 9), q.sites, o), &memory, "%v", s)
		require.Equal(t, gp.Parameters, memory.Unit)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := weightspace.FitStructure(ctx, s, q.train, q.sites, q.prior, q.theta, q.options(s))
		require.ErrorIs(t, err, context.Canceled)

		bad := linearize.Concat(q.train)
		bad.F.Set(7, 0, math.NaN())
		at := testref.As[*gp.NotFiniteError](t, fit(s, testkit.InTiles(bad, 5), q.sites, q.options(s)))
		require.Equal(t, 7, at.Row)
		if s != weightspace.Diagonal {
			require.Panics(t, func() { fit(s, testkit.InTiles(q.train, 9), q.sites, &weightspace.Options{Mean: gp.LinearGaussian}) })
		}
		require.Panics(t, func() { fit(s, q.train.Slice(0, 5), q.sites, nil) })
	}
	for _, c := range []struct {
		s    weightspace.Structure
		o    weightspace.Options
		text string
	}{
		{weightspace.LastLayer, weightspace.Options{}, "name the layer"},
		{weightspace.LastLayer, weightspace.Options{Layer: "none"}, `no layer "none"`},
		{weightspace.Subnetwork, weightspace.Options{Size: len(q.theta)}, "have a prior variance"},
		{weightspace.Subnetwork, weightspace.Options{Parameters: []int{1, 1}}, "twice"},
		{weightspace.Subnetwork, weightspace.Options{Parameters: []int{len(q.theta)}}, "the parameters are 0 to"},
	} {
		require.ErrorContains(t, fit(c.s, q.train, q.sites, &c.o), c.text)
	}
	for _, s := range append([]weightspace.Structure{weightspace.Diagonal}, structuresOfBlocks...) {
		again := testref.Must(weightspace.ParseStructure(s.String()))(t)
		require.Equal(t, s, again)
	}
	require.ErrorContains(t, testref.Err(weightspace.ParseStructure("none")), `"last-layer"`)
}

// A draw of a network can come from any structure. With all but a last layer held, the
// network at draws is its own linearization, and the two predictives are the same.
func TestBNNOfLastLayerIsGLM(t *testing.T) {
	net, err := network.Sequential(network.Shape{3}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(9, 9))
	x := mat.NewDense(15, 3, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	train := testref.Must(net.Linearize(t.Context(), x))(t)
	q := newStructureProblem(t, "bnn", train, train.Slice(0, 4), glm.Categorical{}, "")
	q.theta = net.Theta()
	q.prior = testref.Must(ntk.NewIsotropic(1, nil))(t)
	w := q.fit(t, weightspace.LastLayer, train, nil)
	bnn := weightspace.NewBNN(net, w)
	bnn.Samples = 4000
	var f, cov, want, wantSD mat.Dense
	require.NoError(t, w.PredictTo(t.Context(), &f, &cov, q.test))
	mc := predictive.MonteCarlo{Samples: 10000}
	require.NoError(t, mc.PredictTo(&want, &wantSD, glm.Categorical{}, &f, &cov))
	d := testref.Must(bnn.Draw(t.Context(), glm.Categorical{}, nil, x.Slice(0, 4, 0, 3).(*mat.Dense)))(t)
	for i := range 4 {
		for c := range 2 {
			// Five standard errors of 4000 draws.
			require.InDelta(t, want.At(i, c), d.Mean.At(i, c), 6*wantSD.At(i, c)/math.Sqrt(4000))
			require.InEpsilon(t, wantSD.At(i, c), math.Sqrt(d.Epistemic.At(i, c)), 0.1)
		}
	}
}

// The posteriors of a network are latent, and refuse inputs of another network; θ* must be
// that of the training examples.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	s := r.Sites(t)
	w := testref.Must(weightspace.Fit(t.Context(), r.Train, s, r.Prior, r.Net.Theta(), nil))(t)
	d, err := weightspace.FitStructure(t.Context(), weightspace.Diagonal, r.Train, s, r.Prior, r.Net.Theta(), nil)
	require.NoError(t, err)
	for name, l := range map[string]gp.Latent{"full": w, "diagonal": d} {
		t.Run(name, func(t *testing.T) {
			gptest.Latent(t, gptest.LatentCase{Latent: l, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9, AnyGraph: true})
		})
	}
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		w, err := weightspace.Fit(t.Context(), r.Train, s, prior, theta, &weightspace.Options{Mean: mean})
		return w.Warnings(), err
	}})
	theta := r.Net.Theta()
	theta[0]++
	require.Panics(t, func() {
		_, _ = weightspace.FitStructure(t.Context(), weightspace.Diagonal, r.Train, s, r.Prior, theta, nil)
	})
}

// All refits by Fisher scoring end at the mode of gp.Refit, with the same predictions and
// evidence: by conjugate gradients, through inducing examples, from their features in
// memory, and over the parameters.
func TestHeteroscedasticRefitsAgree(t *testing.T) {
	q := testkit.Heteroscedastic()
	ctx := t.Context()
	exact := testref.Must(gp.Refit(ctx, q.Kernel, q.Train, q.Targets(), nil))(t)
	require.Empty(t, exact.Warnings())
	var mean, cov mat.Dense
	require.NoError(t, exact.PredictTo(ctx, &mean, &cov, q.Test))
	agrees := func(name string, l gp.Latent) {
		t.Helper()
		var m, v mat.Dense
		require.NoError(t, l.PredictTo(ctx, &m, &v, q.Test))
		testkit.RequireClose(t, name+": mean", &m, &mean, 1e-7)
		testkit.RequireClose(t, name+": covariance", &v, &cov, 1e-7)
	}
	bySums := testref.Must(weightspace.RefitSums(ctx, q.Train, q.Targets(), q.Prior, q.Theta, nil, nil))(t)
	agrees("sums by parameters", bySums)
	all := &sparse.Inducing{Rows: dense.Range(q.N), Batch: q.Train}
	inducing := testref.Must(sparse.Refit(ctx, q.Kernel, q.Train, q.Targets(), all, nil))(t)
	agrees("inducing examples", inducing)
	require.InDelta(t, exact.EvidenceRefit().Value, inducing.EvidenceRefit().Value, 1e-7)
	weights := testref.Must(weightspace.Refit(ctx, q.Train, q.Targets(), q.Prior, q.Theta, nil))(t)
	agrees("weight space", weights)
	require.InDelta(t, exact.EvidenceRefit().Value, weights.EvidenceRefit().Value, 1e-7)
}

// The posterior over the last layer of a network is that over all parameters of the network that has no others.
func TestLastLayerIsANetworkOfIt(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{3}, network.Dense{Units: 40}, network.Tanh, network.Dense{Units: 40}, network.Tanh, network.Dense{Units: 2}))(t)
	last := testref.Must(net.WithLayers(network.LastLayer))(t)
	rng := rand.New(rand.NewPCG(9, 9))
	x := mat.NewDense(15, 3, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	var f, cov [2]mat.Dense
	for i, of := range []*network.Network{net, last} {
		train := testref.Must(of.Linearize(t.Context(), x))(t)
		q := newStructureProblem(t, "last layer", train, train.Slice(0, 4), glm.Categorical{}, "")
		q.theta, q.prior = of.Theta(), testref.Must(ntk.NewIsotropic(1, nil))(t)
		w := q.fit(t, []weightspace.Structure{weightspace.LastLayer, weightspace.Full}[i], train, nil)
		require.NoError(t, w.PredictTo(t.Context(), &f[i], &cov[i], q.test))
	}
	testref.RequireClose(t, f[1].RawMatrix().Data, f[0].RawMatrix().Data, 1e-12, "mean")
	testref.RequireClose(t, cov[1].RawMatrix().Data, cov[0].RawMatrix().Data, 1e-8, "covariance")
}
