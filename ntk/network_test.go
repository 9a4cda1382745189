package ntk_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

func readNetwork(t testing.TB, ref *testref.Ref) *network.Network {
	t.Helper()
	return testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
}

func linearized(t testing.TB, net *network.Network, x *mat.Dense) *linearize.Batch {
	t.Helper()
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	b.Model = linearize.ModelFingerprint{} // tests draw θ
	return b
}

// TestReferenceKernels compares with kernels that PyTorch computed from dense
// Jacobians in float64. 1e-10 covers the rounding of the activations.
func TestReferenceKernels(t *testing.T) {
	for _, name := range []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs", "mnist10-mlp", "thesis-cnn"} {
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			net := readNetwork(t, ref)
			x, test := inputs(t, ref)
			train, tests := linearized(t, net, x), linearized(t, net, test)
			k := ntk.New(referencePrior(t, ref), net.Theta())
			c := train.Outputs()
			block := ref.Matrix("kernel_train_block")
			n, _ := block.Dims()
			head := train.Slice(0, n/c)
			var got mat.Dense
			k.BlockTo(&got, head, head)
			requireMatrix(t, &got, block, "kernel_train_block")
			cross := ref.Matrix("kernel_test_train")
			rows, cols := cross.Dims()
			got.Reset()
			k.BlockTo(&got, tests.Slice(0, rows/c), train.Slice(0, cols/c))
			requireMatrix(t, &got, cross, "kernel_test_train")
			if ref.Has("kernel_test_diag") {
				got.Reset()
				k.DiagTo(&got, tests)
				requireMatrix(t, &got, ref.Matrix("kernel_test_diag"), "kernel_test_diag")
			}
			if ref.Has("prior_mean_test") {
				mean := make([]float64, tests.Len()*c)
				k.MeanTo(mean, tests)
				testref.RequireClose(t, mean, ref.Floats("prior_mean_test"), 1e-10, "prior_mean_test")
			}
		})
	}
}

func requireMatrix(t *testing.T, got, want *mat.Dense, what string) {
	t.Helper()
	r, c := got.Dims()
	wr, wc := want.Dims()
	require.Equal(t, []int{wr, wc}, []int{r, c}, what)
	testref.RequireClose(t, got.RawMatrix().Data, want.RawMatrix().Data, 1e-10, what)
}

func referencePrior(t *testing.T, ref *testref.Ref) ntk.Prior {
	t.Helper()
	if ref.Has("prior_variance") {
		return testref.Must(ntk.NewDiagonal(ref.Floats("prior_variance"), nil))(t)
	}
	return testref.Must(ntk.NewIsotropic(ref.Scalar("delta"), nil))(t)
}

// inputs returns training and test rows, those of MNIST by their numbers.
func inputs(t *testing.T, ref *testref.Ref) (train, test *mat.Dense) {
	t.Helper()
	if ref.Has("x_train") {
		return ref.Matrix("x_train"), ref.Matrix("x_test")
	}
	data := testref.Must(dataset.Open(t.Context(), testref.MNIST(t), nil))(t)
	return data.Train.At(ref.Ints("train_index")).Matrix(), data.Test.At(ref.Ints("test_index")).Matrix()
}

// TestExportedKernels compares J Jᵀ of networks as users export them, in
// float32 weights: 1e-8 of the float64 kernel.
func TestExportedKernels(t *testing.T) {
	one := testref.Must(ntk.NewIsotropic(1, nil))(t)
	for _, name := range testref.References(t) {
		ref := testref.Open(t, name)
		if !strings.HasPrefix(name, "exports/") || !ref.Has("kernel") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			net := readNetwork(t, ref)
			b := linearized(t, net, ref.Matrix("x"))
			var got mat.Dense
			ntk.New(one, net.Theta()).BlockTo(&got, b, b)
			testref.RequireClose(t, got.RawMatrix().Data, ref.Matrix("kernel").RawMatrix().Data, 1e-8, "kernel")
		})
	}
}

var theNetworks map[string]*linearize.Batch

// convNetworks have blocks of every kind and every use of a convolution.
func convNetworks(t testing.TB) map[string]*linearize.Batch {
	t.Helper()
	if theNetworks != nil {
		return theNetworks
	}
	out := make(map[string]*linearize.Batch)
	for name, layers := range map[string][]network.Layer{
		"conv": {network.Conv2D{Filters: 6, Kernel: 3}, network.Tanh, network.Conv2D{Filters: 8, Kernel: 3}, network.Tanh,
			network.AvgPool2D{Size: 2}, network.Flatten{}, network.Dense{Units: 3}},
		"groups": {network.Conv2D{Filters: 8, Kernel: 3, Padding: 1}, network.SiLU, network.Conv2D{Filters: 12, Kernel: 3, Stride: 2, Groups: 4},
			network.Tanh, network.Conv2D{Filters: 12, Kernel: 2, Groups: 12}, network.Flatten{}, network.Dense{Units: 2}},
		"few positions": {network.Conv2D{Filters: 16, Kernel: 4, Stride: 3, NoBias: true}, network.Tanh, network.Conv2D{Filters: 20, Kernel: 2}, network.Tanh,
			network.Flatten{}, network.Dense{Units: 1}},
		"many channels": {network.Conv2D{Filters: 24, Kernel: 2, Stride: 2}, network.Tanh, network.Conv2D{Filters: 10, Kernel: 3, Padding: 1}, network.Tanh,
			network.Flatten{}, network.Dense{Units: 2}},
	} {
		net, err := network.Sequential(network.Shape{2, 9, 9}, layers...)
		require.NoError(t, err, name)
		out[name] = linearized(t, net, mat.NewDense(6, 162, normal(newRand(3), 6*162)))
	}
	for _, name := range testref.References(t) {
		if ref := testref.Open(t, name); strings.HasPrefix(name, "layers/") || strings.HasPrefix(name, "exports/") {
			x := ref.Matrix("x")
			rows, cols := x.Dims()
			// Six examples from the few: the reference's own, moved a little.
			six := mat.NewDense(6, cols, normal(newRand(4), 6*cols))
			for i := range 6 {
				for j, v := range x.RawRowView(i % rows) {
					six.Set(i, j, v+0.3*six.At(i, j))
				}
			}
			out[name] = linearized(t, readNetwork(t, ref), six)
		}
	}
	theNetworks = out
	return out
}

// TestNetworks compares with the dense kernel on networks that were read or
// built, each with a mixed prior and, in turn, with another kind.
func TestNetworks(t *testing.T) {
	seen := make(map[string]bool)
	networks := convNetworks(t)
	for i, name := range slices.Sorted(maps.Keys(networks)) {
		b := networks[name]
		if b.Outputs() > 20 {
			b = b.Slice(0, 4)
		}
		rng := newRand(12)
		theta := normal(rng, b.P)
		other, p := priorOf(t, rng, b, i)
		for prior, p := range map[string]ntk.Prior{"mixed": mixed(rng, b), other: p} {
			t.Run(name+"/"+prior, func(t *testing.T) {
				k, want := ntk.New(p, theta), ntk.Dense(p, theta)
				requireSame(t, k, want, b.Slice(1, 4), b)
				requireSame(t, k.WithBudget(1<<12), want, b.Slice(1, 4), b)
				requireSame(t, k, want, b.Output(0), b.Slice(0, 3))
			})
		}
		for _, block := range b.Blocks {
			seen[fmt.Sprintf("%T", block)] = true
		}
	}
	for _, kind := range []string{"*linearize.Outer", "*linearize.Conv", "*linearize.Full"} {
		require.True(t, seen[kind], "no network has a %s", kind)
	}
}

// TestConvConformance runs the suite where convolutions are blocks, with each kind of prior in turn.
func TestConvConformance(t *testing.T) {
	networks := convNetworks(t)
	for i, name := range slices.Sorted(maps.Keys(networks)) {
		b := networks[name]
		if !slices.ContainsFunc(b.Blocks, isConv) || b.Outputs() > 10 {
			continue
		}
		rng := newRand(13)
		theta := normal(rng, b.P)
		prior, p := priorOf(t, rng, b, i)
		t.Run(name+"/"+prior, func(t *testing.T) { gptest.Kernel(t, ntk.New(p, theta), b) })
	}
}

func isConv(b linearize.Block) bool { _, ok := b.(*linearize.Conv); return ok }

// TestContraction: both ways to a convolution's kernel agree, whichever the
// cost model prefers.
func TestContraction(t *testing.T) {
	preferred := make(map[bool]int)
	for name, b := range convNetworks(t) {
		if !slices.ContainsFunc(b.Blocks, isConv) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rng := newRand(14)
			for _, prior := range []string{"isotropic", "tensorwise"} {
				k := ntk.New(priors(t, rng, b)[prior], make([]float64, b.P))
				var contracted, columns mat.Dense
				k.ContractedTo(&contracted, b, b, true)
				k.ContractedTo(&columns, b, b, false)
				testref.RequireClose(t, contracted.RawMatrix().Data, columns.RawMatrix().Data, tol, prior)
				contracted.Reset()
				columns.Reset()
				k.ContractedTo(&contracted, b.Slice(0, 2), b.Output(0), true)
				k.ContractedTo(&columns, b.Slice(0, 2), b.Output(0), false)
				testref.RequireClose(t, contracted.RawMatrix().Data, columns.RawMatrix().Data, tol, prior+", two batches")
				_, _, _, n, _ := k.Ways(b, b)
				preferred[n > 0]++
			}
		})
	}
	require.Positive(t, preferred[true], "no network prefers the contraction")
	require.Positive(t, preferred[false], "no network prefers columns")
}

// layerOf is a dense layer from some inputs to c outputs at n random inputs:
// the gradients of its results are unit matrices.
func layerOf(t testing.TB, n, in, c int) *linearize.Batch {
	t.Helper()
	net := testref.Must(network.Sequential(network.Shape{in}, network.Dense{Units: c}))(t)
	return linearized(t, net, mat.NewDense(n, in, normal(newRand(c), n*in)))
}

// Many outputs against the definition of the kernel, with gradients that are
// diagonal, full, and of fewer columns than outputs.
func TestManyOutputs(t *testing.T) {
	const c = 37
	rng := newRand(8)
	for name, b := range map[string]*linearize.Batch{
		"last layer":  layerOf(t, 5, 3, c),
		"any layers":  gptest.RandomBatch(rng, 5, c, gptest.Layer{In: 4, Out: c}, gptest.Layer{In: 3, Out: 6}),
		"wide layers": gptest.RandomBatch(rng, 5, c, gptest.Layer{In: 20, Out: 50}),
	} {
		for kind, prior := range priors(t, rng, b) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				k, want := ntk.New(prior, make([]float64, b.P)), ntk.Dense(prior, make([]float64, b.P))
				for _, other := range []*linearize.Batch{b, b.Slice(1, 3)} {
					var got, ref mat.Dense
					k.BlockTo(&got, b, other)
					want.BlockTo(&ref, b, other)
					require.True(t, mat.EqualApprox(&got, &ref, tol*mat.Max(&ref)))
				}
				var got, ref mat.Dense
				k.DiagTo(&got, b)
				want.DiagTo(&ref, b)
				require.True(t, mat.EqualApprox(&got, &ref, tol*mat.Max(&ref)))
			})
		}
	}
}

// The diagonal block of one example of a last layer and of a hidden one.
func BenchmarkDiagOutputs(b *testing.B) {
	for _, c := range []int{10, 30, 100, 1000, 2000} {
		for name, x := range map[string]*linearize.Batch{
			"last":   layerOf(b, 1, 2, c),
			"hidden": gptest.RandomBatch(newRand(1), 1, c, gptest.Layer{In: 2, Out: c}),
		} {
			prior := testref.Must(ntk.NewIsotropic(1, nil))(b)
			k := ntk.New(prior, make([]float64, x.P))
			b.Run(fmt.Sprintf("%s/C=%d", name, c), func(b *testing.B) {
				var dst mat.Dense
				for b.Loop() {
					k.DiagTo(&dst, x)
				}
			})
		}
	}
}
