package weightspace_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A kroneckerProblem is a linearized network with sites that are not those of a mode.
type kroneckerProblem struct {
	name        string
	train, test *linearize.Batch // with factors
	sites       *gp.Sites
	theta       []float64
}

func newKroneckerProblem(t testing.TB, name string, train, test *linearize.Batch, lik glm.Likelihood) *kroneckerProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(len(name))))
	q := &kroneckerProblem{name: name, train: train, test: test, theta: make([]float64, train.P)}
	train.Model, test.Model = linearize.ModelFingerprint{}, linearize.ModelFingerprint{} // theta is drawn
	for i := range q.theta {
		q.theta[i] = 0.3 * rng.NormFloat64()
	}
	var err error
	q.sites, err = gp.NewSites(gp.NewTargets(randomTargets(rng, lik, train.Len(), train.Outputs()), lik), train.F)
	require.NoError(t, err)
	return q
}

// modelProblem linearizes a network, with its convolutions as factors, at random
// inputs.
func modelProblem(t testing.TB, name string, net *network.Network, n int, lik glm.Likelihood) *kroneckerProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 1))
	d, _, _ := net.Dims()
	linearized := func(n int) *linearize.Batch {
		x := mat.NewDense(n, d, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		return testref.Must(net.Factored().Linearize(t.Context(), x))(t)
	}
	return newKroneckerProblem(t, name, linearized(n), linearized(6), lik)
}

// kroneckerProblems are dense layers of every kind, scales and shifts, and networks
// with convolutions: strides, padding, groups, transposed ones and one position.
func kroneckerProblems(t testing.TB) []*kroneckerProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	random := func(n, c int, layers ...gptest.Layer) (train, test *linearize.Batch) {
		train = gptest.RandomBatch(rng, n, c, layers...)
		return train, gptest.Another(rng, train, 6)
	}
	build := func(in network.Shape, layers ...network.Layer) *network.Network {
		return testref.Must(network.Sequential(in, layers...))(t)
	}
	var all []*kroneckerProblem
	train, test := random(12, 3, gptest.Layer{In: 5, Out: 4}, gptest.Layer{In: 4, Out: 6, Transposed: true}, gptest.Layer{In: 6, Out: 2, NoBias: true})
	all = append(all, newKroneckerProblem(t, "dense", train, test, glm.Categorical{}))
	train, test = random(9, 1, gptest.Layer{In: 3, Out: 4, NoWeight: true}, gptest.Layer{Out: 7}, gptest.Layer{In: 7, Out: 3, Transposed: true, NoBias: true}, gptest.Layer{Out: 3, Hidden: true})
	all = append(all, newKroneckerProblem(t, "scales and shifts", train, test, glm.Bernoulli{}))
	all = append(all,
		modelProblem(t, "convolutions", build(network.Shape{2, 7, 7}, network.Conv2D{Filters: 4, Kernel: 3, Padding: 1, Stride: 2}, network.Tanh,
			network.Conv2D{Filters: 6, Kernel: 2, Groups: 2}, network.ReLU, network.Flatten{}, network.Dense{Units: 3}), 37, glm.Categorical{}),
		modelProblem(t, "without biases", build(network.Shape{1, 5, 5}, network.Conv2D{Filters: 3, Kernel: 3, NoBias: true}, network.Tanh,
			network.Flatten{}, network.LayerNorm{}, network.Dense{Units: 2, NoBias: true}), 7, glm.Poisson{}),
	)
	for _, name := range []string{"layers/autoencoder-conv", "layers/cnn-stride-batchnorm-gap", "layers/residual-layernorm"} {
		net := testref.Must(network.ReadONNX(bytes.NewReader(testref.Open(t, name).Model(t)), nil))(t)
		q := modelProblem(t, name, net, 8, scalarNoise(t))
		if q.train.Outputs() > 4 { // one of the autoencoder's 64 outputs, whose rows have gaps between them
			q = newKroneckerProblem(t, name, q.train.Output(7), q.test.Output(7), scalarNoise(t))
		}
		all = append(all, q)
	}
	return all
}

func scalarNoise(t testing.TB) glm.Likelihood {
	t.Helper()
	return testref.Must(glm.NewGaussian(0.3))(t)
}

func eachKroneckerProblem(t *testing.T, f func(t *testing.T, q *kroneckerProblem)) {
	for _, q := range kroneckerProblems(t) {
		t.Run(q.name, func(t *testing.T) { f(t, q) })
	}
}

// priors are one variance for all parameters, one for each tensor, of which one is
// zero, and one for each parameter.
func (q *kroneckerProblem) priors(t testing.TB) map[string]ntk.Prior {
	t.Helper()
	isotropic := testref.Must(ntk.NewIsotropic(0.7, []float64{0.2}))(t)
	tensors := make([]float64, q.train.P)
	each := make([]float64, q.train.P)
	for i, s := range ntk.Spans(q.train) {
		for k := range s.Len() {
			tensors[s.Offset+k] = float64(i%4) * 0.4
			each[s.Offset+k] = math.Exp(math.Sin(float64(s.Offset + k)))
		}
	}
	return map[string]ntk.Prior{"isotropic": isotropic, "tensors": heldPrior{tensors}, "parameters": heldPrior{each}}
}

// A heldPrior has mean 0 and these variances, of which some may be 0.
type heldPrior struct{ variance []float64 }

func (p heldPrior) MeanTo(dst []float64)     { clear(dst) }
func (p heldPrior) VarianceTo(dst []float64) { copy(dst, p.variance) }

func (q *kroneckerProblem) fit(t testing.TB, s weightspace.Structure, prior ntk.Prior, o *weightspace.Options) *weightspace.Kronecker {
	t.Helper()
	w, err := weightspace.FitStructure(t.Context(), s, testkit.InTiles(q.train, 3), q.sites, prior, q.theta, o)
	require.NoError(t, err)
	require.Empty(t, w.Warnings())
	return w.(*weightspace.Kronecker)
}

// [glm eq. 8]: mean, covariances and determinant are those of the matrix written out,
// with the factors by their definition.
func TestKroneckerAgainstDense(t *testing.T) {
	eachKroneckerProblem(t, func(t *testing.T, q *kroneckerProblem) {
		for name, prior := range q.priors(t) {
			t.Run(name, func(t *testing.T) {
				w := q.fit(t, weightspace.KFAC, prior, nil)
				q.requireDense(t, w, prior, denseKronecker(t, q.train, q.sites))
			})
		}
	})
}

// requireDense compares a posterior with the one whose precision is h + Σ₀⁻¹.
func (q *kroneckerProblem) requireDense(t *testing.T, w weightspace.Weights, prior ntk.Prior, h *mat.SymDense) {
	t.Helper()
	variance := make([]float64, q.train.P)
	prior.VarianceTo(variance)
	var j, v mat.Dense
	q.test.JacobianTo(&j)
	whitened := mat.NewSymDense(q.train.P, nil)
	for a, va := range variance {
		for b := a; b < len(variance); b++ {
			whitened.SetSym(a, b, math.Sqrt(va)*h.At(a, b)*math.Sqrt(variance[b]))
		}
		whitened.SetSym(a, a, whitened.At(a, a)+1)
	}
	j.Apply(func(_, p int, x float64) float64 { return x * math.Sqrt(variance[p]) }, &j)
	var c mat.Cholesky
	require.True(t, c.Factorize(whitened))
	require.NoError(t, c.SolveTo(&v, j.T()))
	var want mat.Dense
	want.Mul(&j, &v)
	requireNear(t, "log det", w.LogDet(), c.LogDet(), 1e-10)
	var mean, cov, joint mat.Dense
	require.NoError(t, w.JointTo(t.Context(), &mean, &joint, q.test))
	requireMatrix(t, "joint covariance", &joint, &want, 1e-10)
	requireMatrix(t, "mean", &mean, q.test.F, 0)
	require.NoError(t, w.PredictTo(t.Context(), nil, &cov, q.test))
	k := q.test.Outputs()
	for n := range q.test.Len() {
		requireMatrix(t, "covariance", cov.Slice(n*k, (n+1)*k, 0, k), want.Slice(n*k, (n+1)*k, n*k, (n+1)*k), 1e-10)
	}
}

// A convolution whose kernel covers its whole input is a dense layer, with few filters
// and with so many that their factors are summed in another way.
func TestKroneckerOfOnePosition(t *testing.T) {
	for _, filters := range []int{4, 260} {
		conv, err := network.Sequential(network.Shape{2, 3, 3}, network.Conv2D{Filters: filters, Kernel: 3}, network.Tanh, network.Flatten{}, network.Dense{Units: 3})
		require.NoError(t, err)
		dense, err := network.Sequential(network.Shape{2, 3, 3}, network.Flatten{}, network.Dense{Units: filters}, network.Tanh, network.Dense{Units: 3})
		require.NoError(t, err)
		dense = testref.Must(dense.WithTheta(conv.Theta()))(t)
		a, b := modelProblem(t, "same", conv, 41, glm.Categorical{}), modelProblem(t, "same", dense, 41, glm.Categorical{})
		requireMatrix(t, "outputs", a.train.F, b.train.F, 1e-14)
		for name, prior := range a.priors(t) {
			if filters > 4 && name == "parameters" {
				continue // a dense sum of 5,000 parameters
			}
			w, v := a.fit(t, weightspace.KFAC, prior, nil), b.fit(t, weightspace.KFAC, prior, nil)
			requireNear(t, name, w.LogDet(), v.LogDet(), 1e-12)
			var cov, want mat.Dense
			require.NoError(t, w.PredictTo(t.Context(), nil, &cov, a.test))
			require.NoError(t, v.PredictTo(t.Context(), nil, &want, b.test))
			requireMatrix(t, name, &cov, &want, 1e-10)
		}
	}
}

// Where the inputs are those of one example, G ⊗ A is the layer's block of H, and so
// it is for a linear network with a Gaussian likelihood, whose gradients are the same
// for all examples.
func TestKroneckerIsExact(t *testing.T) {
	one := kroneckerProblems(t)[0]
	one.train, one.sites = one.train.Slice(2, 3), one.sites.Rows([]int{2})
	deep, err := network.Sequential(network.Shape{4}, network.Dense{Units: 3, NoBias: true}, network.Dense{Units: 5}, network.Dense{Units: 2})
	require.NoError(t, err)
	linear := modelProblem(t, "linear", deep, 11, scalarNoise(t))
	for _, q := range []*kroneckerProblem{one, linear} {
		for name, prior := range q.priors(t) {
			w := q.fit(t, weightspace.KFAC, prior, nil)
			block, err := weightspace.FitStructure(t.Context(), weightspace.Block, q.train, q.sites, prior, q.theta, nil)
			require.NoError(t, err)
			requireSamePosterior(t, name, w, block, q.test)
		}
	}
	// With one layer the block is all of H.
	shallow := testref.Must(network.Sequential(network.Shape{4}, network.Dense{Units: 2}))(t)
	q := modelProblem(t, "one layer", shallow, 11, scalarNoise(t))
	for name, prior := range q.priors(t) {
		full := testref.Must(weightspace.Fit(t.Context(), q.train, q.sites, prior, q.theta, nil))(t)
		requireSamePosterior(t, name, q.fit(t, weightspace.KFAC, prior, nil), full, q.test)
	}
}

func requireSamePosterior(t *testing.T, what string, got, want weightspace.Weights, x *linearize.Batch) {
	t.Helper()
	requireNear(t, what+" log det", got.LogDet(), want.LogDet(), 1e-11)
	var a, b mat.Dense
	require.NoError(t, got.JointTo(t.Context(), nil, &a, x))
	require.NoError(t, want.JointTo(t.Context(), nil, &b, x))
	requireMatrix(t, what+" covariance", &a, &b, 1e-10)
}

// The chain is that of Martens and Grosse written out, its precision has the blocks of
// the layers and of neighbouring layers, and its inverse none beyond them.
func TestChainAgainstDense(t *testing.T) {
	net, err := network.Sequential(network.Shape{3}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 3}, network.Tanh, network.Dense{Units: 5, NoBias: true}, network.Tanh, network.Dense{Units: 2})
	require.NoError(t, err)
	q := modelProblem(t, "chain", net, 30, glm.Categorical{})
	var groups []ntk.Group
	for i, g := range ntk.ByLayer(ntk.Spans(q.train), 1) {
		g.Precision = 0.5 + float64(i)
		groups = append(groups, g)
	}
	layers := testref.Must(ntk.NewLayerwise(q.train.P, groups, nil))(t)
	for name, prior := range map[string]ntk.Prior{"isotropic": q.priors(t)["isotropic"], "layers": layers} {
		t.Run(name, func(t *testing.T) {
			d := newDenseChain(t, q.train, q.sites, prior)
			covariance, block := d.chain(t)
			var precision mat.Dense
			require.NoError(t, precision.Inverse(covariance))
			for i := range d.layers {
				for j := range d.layers {
					part, inverse := d.part(&precision, i, j), d.part(covariance, i, j)
					if i-j > 1 || j-i > 1 {
						require.Zero(t, mat.Norm(inverse, 2))
						require.NotZero(t, mat.Norm(part, 2))
						continue
					}
					requireMatrix(t, "block of the precision", part, block(i, j), 1e-9)
				}
			}
			w := q.fit(t, weightspace.Chain, prior, nil)
			var j, want, got mat.Dense
			q.test.JacobianTo(&j)
			want.Product(&j, covariance, j.T())
			require.NoError(t, w.JointTo(t.Context(), nil, &got, q.test))
			requireMatrix(t, "covariance", &got, &want, 1e-10)
			logDet, sign := mat.LogDet(covariance)
			require.Equal(t, 1.0, sign)
			for _, v := range d.variance {
				logDet -= math.Log(v)
			}
			requireNear(t, "log det", w.LogDet(), -logDet, 1e-10)
		})
	}
}

// eachKronecker calls f with every structure of Kronecker factors on every network that
// has it, and with a prior that takes dense sums.
func eachKronecker(t *testing.T, f func(t *testing.T, q *kroneckerProblem, s weightspace.Structure, prior ntk.Prior)) {
	eachKroneckerProblem(t, func(t *testing.T, q *kroneckerProblem) {
		priors := q.priors(t)
		for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.KFACDampedMean, weightspace.Chain} {
			if s == weightspace.Chain && q.name != "dense" {
				continue
			}
			t.Run(s.String(), func(t *testing.T) { f(t, q, s, priors["isotropic"]) })
		}
		t.Run("dense sums", func(t *testing.T) { f(t, q, weightspace.KFAC, priors["parameters"]) })
	})
}

// All numbers are the same bit for bit for any number of processors and any batches of
// the source, and a loaded posterior answers as the saved one did.
func TestKroneckerBits(t *testing.T) {
	eachKronecker(t, func(t *testing.T, q *kroneckerProblem, s weightspace.Structure, prior ntk.Prior) {
		testref.Procs(t, 1)
		want := weightAnswers(t, q.fit(t, s, prior, nil), q.test)
		for _, procs := range []int{2, 5} {
			testref.Procs(t, procs)
			w, err := weightspace.FitStructure(t.Context(), s, testkit.InTiles(q.train, procs), q.sites, prior, q.theta, nil)
			require.NoError(t, err)
			gptest.RequireBits(t, "other processors and batches", weightAnswers(t, w, q.test), want)
		}
	})
}

// Draws are the center plus a linear map of standard normal numbers whose covariance
// is Q⁻¹: as many draws as parameters determine it.
func TestKroneckerSamples(t *testing.T) {
	eachKronecker(t, func(t *testing.T, q *kroneckerProblem, s weightspace.Structure, prior ntk.Prior) {
		if q.train.P > 250 {
			t.Skip("too many parameters to invert the draws")
		}
		w := q.fit(t, s, prior, nil)
		p := q.train.P
		draws, z := mat.NewDense(p, p, nil), mat.NewDense(p, p, nil)
		require.NoError(t, w.SampleTo(t.Context(), draws, rand.New(rand.NewPCG(4, 4))))
		rng := rand.New(rand.NewPCG(4, 4))
		z.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, z)
		draws.Apply(func(_, j int, v float64) float64 { return v - w.Center()[j] }, draws)
		var l, jl, got, want, j mat.Dense
		require.NoError(t, l.Solve(z, draws)) // draws = Z Lᵀ
		q.test.JacobianTo(&j)
		jl.Mul(&l, j.T())
		got.Mul(jl.T(), &jl)
		require.NoError(t, w.JointTo(t.Context(), nil, &want, q.test))
		requireMatrix(t, "covariance of draws", &got, &want, 1e-7)
	})
}

// One sum of factors serves all priors, also at once, with the bits of a fit for each.
func TestFactorsServeEveryPrior(t *testing.T) {
	q := kroneckerProblems(t)[0]
	f := testref.Must(weightspace.SumFactors(t.Context(), q.train, q.sites, true, nil))(t)
	priors := q.priors(t)
	priors["other"] = testref.Must(ntk.NewIsotropic(30, nil))(t)
	for name, prior := range priors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.Chain} {
				w, err := f.Posterior(t.Context(), s, prior, q.theta, nil)
				if err != nil {
					require.NotEqual(t, weightspace.KFAC, s)
					continue
				}
				gptest.RequireBits(t, s.String(), weightAnswers(t, w, q.test), weightAnswers(t, q.fit(t, s, prior, nil), q.test))
			}
		})
	}
}

// A network's own batches keep a convolution with few weights as columns: they predict
// the same, and sources are asked for factors, but a batch cannot be.
func TestKroneckerOfColumns(t *testing.T) {
	net, err := network.Sequential(network.Shape{1, 6, 6}, network.Conv2D{Filters: 2, Kernel: 3}, network.Tanh, network.MaxPool2D{Size: 2}, network.Flatten{}, network.Dense{Units: 3})
	require.NoError(t, err)
	q := modelProblem(t, "columns", net, 9, glm.Categorical{})
	prior := q.priors(t)["isotropic"]
	plain := testref.Must(net.Linearize(t.Context(), q.train.X))(t)
	require.IsType(t, (*linearize.Full)(nil), plain.Blocks[len(plain.Blocks)-1])
	require.IsType(t, (*linearize.Conv)(nil), q.train.Blocks[0])

	_, err = weightspace.FitStructure(t.Context(), weightspace.KFAC, plain, q.sites, prior, q.theta, nil)
	missing := testref.As[*weightspace.NoFactorsError](t, err)
	require.Equal(t, "Conv2D1", missing.Layer)
	require.ErrorContains(t, err, "Network.Factored")

	src := linearize.NewSource(net, 9, 4, func(lo, hi int) (*mat.Dense, error) { return q.train.X.Slice(lo, hi, 0, 36).(*mat.Dense), nil })
	w := testref.Must(weightspace.FitStructure(t.Context(), weightspace.KFAC, src, q.sites, prior, q.theta, nil))(t)
	gptest.RequireBits(t, "a source", weightAnswers(t, w, q.test), weightAnswers(t, q.fit(t, weightspace.KFAC, prior, nil), q.test))
	test := testref.Must(net.Linearize(t.Context(), q.test.X))(t)
	test.Model = linearize.ModelFingerprint{} // theta is drawn
	var cov, want mat.Dense
	require.NoError(t, w.JointTo(t.Context(), nil, &cov, test))
	require.NoError(t, w.JointTo(t.Context(), nil, &want, q.test))
	requireMatrix(t, "covariance from columns", &cov, &want, 1e-11)
}

func TestKroneckerRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	problem := func(layers ...gptest.Layer) *kroneckerProblem {
		train := gptest.RandomBatch(rng, 6, 2, layers...)
		return newKroneckerProblem(t, "refused", train, train, glm.Categorical{})
	}
	fit := func(q *kroneckerProblem, s weightspace.Structure, prior ntk.Prior, o *weightspace.Options) error {
		_, err := weightspace.FitStructure(t.Context(), s, q.train, q.sites, prior, q.theta, o)
		return err
	}
	var missing *weightspace.NoFactorsError
	table := problem(gptest.Layer{In: 3, Out: 2}, gptest.Layer{In: 3, Out: 4, Table: 5})
	require.ErrorAs(t, fit(table, weightspace.KFAC, table.priors(t)["isotropic"], nil), &missing)
	require.Equal(t, "1", missing.Layer)
	require.ErrorContains(t, missing, "rows of a table")

	wide := problem(gptest.Layer{Out: 5000})
	require.ErrorAs(t, fit(wide, weightspace.KFAC, wide.priors(t)["isotropic"], nil), &missing)
	require.ErrorContains(t, missing, "at most 4096")

	scales := problem(gptest.Layer{In: 3, Out: 2}, gptest.Layer{Out: 4})
	require.ErrorAs(t, fit(scales, weightspace.Chain, scales.priors(t)["isotropic"], nil), &missing)
	require.Equal(t, "1", missing.Layer)
	require.ErrorAs(t, fit(scales, weightspace.KFACDamped, scales.priors(t)["parameters"], nil), &missing)
	require.ErrorContains(t, missing, "one prior variance")

	// The dense sum of a layer is planned.
	large := problem(gptest.Layer{In: 60, Out: 50})
	var memory *gp.MemoryError
	require.NoError(t, fit(large, weightspace.KFAC, large.priors(t)["isotropic"], &weightspace.Options{Limits: linearize.Limits{Memory: 40 << 20}}))
	require.ErrorAs(t, fit(large, weightspace.KFAC, large.priors(t)["parameters"], &weightspace.Options{Limits: linearize.Limits{Memory: 40 << 20}}), &memory)
	require.Equal(t, int64(8*3050*3050), memory.Needed)
	require.ErrorAs(t, fit(large, weightspace.KFAC, large.priors(t)["isotropic"], &weightspace.Options{Limits: linearize.Limits{Memory: 1 << 20}}), &memory)

	// Numbers that are not finite are found where they are.
	bad := problem(gptest.Layer{In: 3, Out: 2})
	bad.train.Blocks[0].(*linearize.Outer).G.Set(7, 1, math.NaN())
	at := testref.As[*gp.NotFiniteError](t, fit(bad, weightspace.KFAC, bad.priors(t)["isotropic"], nil))
	require.Equal(t, [2]int{3, 1}, [2]int{at.Row, at.Output})

	// So are numbers that overflow.
	huge := problem(gptest.Layer{In: 3, Out: 2})
	huge.train.Blocks[0].(*linearize.Outer).A.Scale(1e200, huge.train.Blocks[0].(*linearize.Outer).A)
	var overflow *gp.NotPDError
	for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.Chain} {
		require.ErrorAs(t, fit(huge, s, huge.priors(t)["isotropic"], nil), &overflow)
	}
	wide = problem(gptest.Layer{In: 3, Out: 2})
	vague := testref.Must(ntk.NewIsotropic(1e-308, nil))(t)
	wide.train.Blocks[0].(*linearize.Outer).A.Scale(1e10, wide.train.Blocks[0].(*linearize.Outer).A)
	for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.KFACDamped, weightspace.Chain} {
		if err := fit(wide, s, vague, nil); err != nil {
			require.ErrorAs(t, err, &overflow, s.String())
		}
	}

	f := testref.Must(weightspace.SumFactors(t.Context(), scales.train, scales.sites, false, nil))(t)
	prior := scales.priors(t)["isotropic"]
	require.PanicsWithValue(t, "weightspace: a chain needs factors between layers", func() { f.Posterior(t.Context(), weightspace.Chain, prior, scales.theta, nil) })
	require.PanicsWithValue(t, "weightspace: block is no structure of Kronecker factors", func() { f.Posterior(t.Context(), weightspace.Block, prior, scales.theta, nil) })
	_, err := weightspace.SumFactors(t.Context(), scales.train.Slice(0, 0), scales.sites, false, nil)
	require.ErrorIs(t, err, gp.ErrNoExamples)
}

// Summing stops between batches, and combining between layers.
func TestKroneckerStops(t *testing.T) {
	testref.Procs(t, 1)
	q := kroneckerProblems(t)[0]
	prior := q.priors(t)["isotropic"]
	for _, s := range []weightspace.Structure{weightspace.KFAC, weightspace.Chain} {
		testkit.Stops(t, s.String(), 4, func(ctx context.Context) error {
			_, err := weightspace.FitStructure(ctx, s, q.train, q.sites, prior, q.theta, nil)
			return err
		})
	}
}

// eachToy calls f with the references that have Kronecker factors, the networks of
// dense layers.
func eachToy(t *testing.T, f func(t *testing.T, q *testkit.Reference, want *testref.Ref)) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) { f(t, testkit.OpenReference(t, name), testref.Open(t, "structures/"+name)) })
	}
}

func sumFactors(t *testing.T, q *testkit.Reference) *weightspace.Factors {
	t.Helper()
	return testref.Must(weightspace.SumFactors(t.Context(), q.Train, q.Sites(t), true, nil))(t)
}

// [glm eq. 8]: the factors of every layer, against PyTorch.
func TestKroneckerFactorsAgainstReference(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		layers := sumFactors(t, q).Layers()
		require.False(t, want.Has(fmt.Sprintf("kfac_a_%d", len(layers))))
		for i, l := range layers {
			requireMatrix(t, "A of "+l.Name, l.A, want.Matrix(fmt.Sprintf("kfac_a_%d", i)), 1e-12)
			requireMatrix(t, "G of "+l.Name, l.G, want.Matrix(fmt.Sprintf("kfac_g_%d", i)), 1e-11)
		}
	})
}

// [glm eq. 8, A.1] and sec. 2: the posteriors with the prior combined exactly, which
// is by a dense sum for one variance per parameter, and with both dampings, against
// PyTorch.
func TestKroneckerAgainstReference(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		f, tests := sumFactors(t, q), want.Shape("kfac_cov_test")[0]
		for key, structure := range map[string]weightspace.Structure{
			"kfac": weightspace.KFAC, "kfac_damped": weightspace.KFACDamped, "kfac_damped_mean": weightspace.KFACDampedMean,
		} {
			w, err := f.Posterior(t.Context(), structure, q.Prior, q.Net.Theta(), nil)
			if !want.Has(key + "_cov_test") {
				var missing *weightspace.NoFactorsError
				require.ErrorAs(t, err, &missing, "damping has no meaning with one variance per parameter")
				continue
			}
			require.NoError(t, err)
			requireStructure(t, key, w, q, want, tests)
		}
	})
}

// [note 4.1]: the block-tridiagonal part of G ⊗ A and of the GGN is indefinite on
// every toy, and the chain of Martens and Grosse is not.
func TestPlainTridiagonalIsIndefinite(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		plain := newDenseChain(t, q.Train, q.Sites(t), q.Prior)
		if q.Train.P > 1000 && testing.Short() {
			t.Skip("matrices of 2,700 parameters are not short")
		}
		for key, m := range map[string]*mat.SymDense{"kfac_tridiagonal": plain.truncated(t), "tridiagonal": plain.truncatedGGN(t)} {
			require.Zero(t, want.Scalar(key+"_positive_definite"))
			var c mat.Cholesky
			require.False(t, c.Factorize(m), "%s has a Cholesky factor", key)
			if want.HasMeta(key + "_min_eigenvalue") {
				// The least eigenvalue is the shift at which the matrix becomes definite.
				least, largest := want.Scalar(key+"_min_eigenvalue"), 0.0
				require.Negative(t, least)
				for i := range m.SymmetricDim() {
					largest = max(largest, m.At(i, i))
				}
				for _, side := range []float64{-1, 1} {
					shifted := mat.NewSymDense(m.SymmetricDim(), nil)
					shifted.CopySym(m)
					for i := range m.SymmetricDim() {
						shifted.SetSym(i, i, m.At(i, i)-(least+side*(1e-13*largest+1e-9)))
					}
					require.Equal(t, side < 0, c.Factorize(shifted), key)
				}
			}
		}
		w, err := weightspace.FitStructure(t.Context(), weightspace.Chain, q.Train, q.Sites(t), q.Prior, q.Net.Theta(), nil)
		if q.Has("prior_variance") {
			testref.As[*weightspace.NoFactorsError](t, err)
			return
		}
		require.NoError(t, err)
		require.Positive(t, w.LogDet())
	})
}
