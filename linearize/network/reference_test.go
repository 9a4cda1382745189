package network_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

func read(t *testing.T, ref *testref.Ref) *network.Network {
	t.Helper()
	return testref.Must(network.ReadONNX(bytes.NewReader(ref.Model(t)), nil))(t)
}

// TestReferenceLayers compares f and J of one network per layer family with
// PyTorch's reverse mode. 1e-10 relative: both are float64 sums of at most a
// few hundred terms.
func TestReferenceLayers(t *testing.T) {
	for _, name := range testref.References(t) {
		if !strings.HasPrefix(name, "layers/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			net := read(t, ref)
			_, c, p := net.Dims()
			x := ref.Matrix("x")
			b := testref.Must(net.Linearize(t.Context(), x))(t)
			testref.RequireClose(t, b.F.RawMatrix().Data, ref.Floats("f"), 1e-10, "f")
			require.Equal(t, ref.Shape("jacobian")[2], p)
			testref.RequireClose(t, net.Theta(), ref.Floats("theta"), 0, "theta")
			var j mat.Dense
			b.JacobianTo(&j)
			n, _ := x.Dims()
			require.Equal(t, n*c, j.RawMatrix().Rows)
			testref.RequireClose(t, j.RawMatrix().Data, ref.Floats("jacobian"), 1e-10, "J")
		})
	}
}

// TestReferenceExports reads networks as users export them: float32, folded
// constants, several opsets. f to 1e-6 because PyTorch's float64 reference
// differs from the exporter's folded float32 arithmetic; the kernel, which
// does not depend on the parameters' order, to 1e-8.
func TestReferenceExports(t *testing.T) {
	for _, name := range testref.References(t) {
		if !strings.HasPrefix(name, "exports/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			net := read(t, ref)
			b := testref.Must(net.Linearize(t.Context(), ref.Matrix("x")))(t)
			testref.RequireClose(t, b.F.RawMatrix().Data, ref.Floats("f"), 1e-6, "f")
			if strings.Contains(name, "softmax") {
				require.Len(t, net.Warnings(), 1)
				require.ErrorContains(t, net.Warnings()[0], "Softmax")
			}
			if !ref.Has("kernel") {
				return
			}
			var j, k mat.Dense
			b.JacobianTo(&j)
			k.Mul(&j, j.T())
			testref.RequireClose(t, k.RawMatrix().Data, ref.Floats("kernel"), 1e-8, "J Jᵀ")
		})
	}
}

// TestReferenceToys compares f and the first rows of J where the folder holds
// its inputs.
func TestReferenceToys(t *testing.T) {
	for _, name := range testref.References(t) {
		if strings.Contains(name, "/") {
			continue
		}
		ref := testref.Open(t, name)
		if !ref.Has("x_train") {
			continue // needs MNIST's pixels
		}
		t.Run(name, func(t *testing.T) {
			net := read(t, ref)
			b := testref.Must(net.Linearize(t.Context(), ref.Matrix("x_train")))(t)
			testref.RequireClose(t, b.F.RawMatrix().Data, ref.Floats("f_train"), 1e-10, "f")
			head := ref.Shape("jacobian_train_head")[0]
			var j mat.Dense
			b.Slice(0, head).JacobianTo(&j)
			testref.RequireClose(t, j.RawMatrix().Data, ref.Floats("jacobian_train_head"), 1e-10, "J")
		})
	}
}
