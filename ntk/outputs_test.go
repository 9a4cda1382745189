package ntk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

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
				k, want := ntk.New(prior, make([]float64, b.P), nil), ntk.Dense(prior, make([]float64, b.P))
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
			k := ntk.New(prior, make([]float64, x.P), nil)
			b.Run(fmt.Sprintf("%s/C=%d", name, c), func(b *testing.B) {
				var dst mat.Dense
				for b.Loop() {
					k.DiagTo(&dst, x)
				}
			})
		}
	}
}
