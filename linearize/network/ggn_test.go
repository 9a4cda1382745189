package network_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// ggn returns the diagonal of Σ_n J_nᵀΛ_nJ_n or an approximation of it.
func ggn(t *testing.T, net *network.Network, x, roots *mat.Dense, b network.Backpropagation) []float64 {
	t.Helper()
	_, _, p := net.Dims()
	h := slices.Repeat([]float64{math.NaN()}, p)
	require.NoError(t, net.GGNDiagonal(t.Context(), h, x, roots, b))
	return h
}

// jacobianSquares returns the diagonal of Σ_n J_nᵀR_nR_nᵀJ_n from the Jacobian.
func jacobianSquares(t *testing.T, net *network.Network, x, roots *mat.Dense) []float64 {
	t.Helper()
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	var j mat.Dense
	b.JacobianTo(&j)
	c := b.Outputs()
	h := make([]float64, b.P)
	for n := range b.Len() {
		rows := mat.DenseCopyOf(j.Slice(n*c, (n+1)*c, 0, b.P))
		if roots != nil {
			rows.Mul(roots.Slice(n*c, (n+1)*c, 0, c).T(), j.Slice(n*c, (n+1)*c, 0, b.P))
		}
		for i := range c {
			for p, v := range rows.RawRowView(i) {
				h[p] += v * v
			}
		}
	}
	return h
}

func requireDiagonal(t *testing.T, what string, got, want []float64, rel float64) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		largest = math.Max(largest, v)
	}
	for p, v := range want {
		if !(math.Abs(got[p]-v) <= rel*(math.Abs(v)+1e-9*largest)) {
			t.Fatalf("%s: parameter %d has %v, want %v", what, p, got[p], v)
		}
	}
}

// The exact backpropagation is the sum of the squares in each column of RᵀJ, for every
// operator, and the approximate ones are the same without shortcuts.
func TestGGNDiagonalOfOperators(t *testing.T) {
	for _, c := range operatorCases() {
		t.Run(c.name, func(t *testing.T) {
			net := mustLoad(t, c.model())
			rows := 5
			if c.batch > 0 {
				rows = c.batch
			}
			rng := rand.New(rand.NewPCG(3, 5))
			requireExactGGN(t, net, inputsOf(net, rng, rows), rng)
		})
	}
}

func requireExactGGN(t *testing.T, net *network.Network, x *mat.Dense, rng *rand.Rand) {
	t.Helper()
	n, _ := x.Dims()
	_, c, p := net.Dims()
	if p == 0 {
		return
	}
	for _, roots := range []*mat.Dense{nil, gaussianMatrix(rng, n*c, c)} {
		requireDiagonal(t, "exact", ggn(t, net, x, roots, network.Exact), jacobianSquares(t, net, x, roots), 1e-9)
		for b := network.Diagonals; b <= network.FullAtConvolutions; b++ {
			requireDiagonal(t, "shortcuts", ggn(t, net, x, roots, b), network.SlowGGN(t, net, x, roots, b), 1e-9)
		}
	}
}

// The same for whole networks: chains, residual blocks, and outputs more and fewer than
// the elements between layers.
func TestGGNDiagonalOfNetworks(t *testing.T) {
	nets := zoo()
	for _, units := range []int{1, 3, 9} {
		nets = append(nets, zooEntry{"narrow", network.Shape{6}, []network.Layer{network.Dense{Units: 8}, network.Tanh, network.Dense{Units: units}, network.SiLU,
			network.Dense{Units: 5}, network.Residual{Layers: []network.Layer{network.Tanh, network.Dense{Units: 5}}}, network.ReLU, network.Dense{Units: 7}}})
	}
	for _, e := range nets {
		t.Run(e.name, func(t *testing.T) {
			net := build(t, e)
			rng := rand.New(rand.NewPCG(7, 5))
			requireExactGGN(t, net, inputsOf(net, rng, 9), rng)
		})
	}
}

// [lae E.4.1] on dense layers, by explicit matrices: M ← diag(M), H = diag(M) (a²)ᵀ,
// M ← diag(JᵀMJ). The mixed diagonals of a network without convolutions are exact.
func TestGGNDiagonalsOfDenseLayers(t *testing.T) {
	sizes := []int{4, 6, 3, 5, 2, 7}
	var layers []network.Layer
	for _, units := range sizes[1:] {
		layers = append(layers, network.Dense{Units: units}, network.Tanh)
	}
	layers = layers[:len(layers)-1]
	net := testref.Must(network.Sequential(network.Shape{4}, layers...))(t)
	rng := rand.New(rand.NewPCG(8, 5))
	x, roots := gaussianMatrix(rng, 3, 4), gaussianMatrix(rng, 3*7, 7)

	want := make([]float64, len(net.Theta()))
	for n := range 3 {
		theta, at := net.Theta(), 0
		a := [][]float64{x.RawRowView(n)} // inputs of the dense layers
		var w []*mat.Dense
		var offsets []int
		for l, out := range sizes[1:] {
			in := sizes[l]
			w = append(w, mat.NewDense(out, in, theta[at:at+out*in]))
			offsets = append(offsets, at)
			var z mat.VecDense
			z.MulVec(w[l], mat.NewVecDense(in, a[l]))
			z.AddVec(&z, mat.NewVecDense(out, theta[at+out*in:at+out*in+out]))
			at += out*in + out
			act := make([]float64, out)
			for i := range act {
				act[i] = math.Tanh(z.AtVec(i))
			}
			a = append(a, act)
		}
		m := make([]float64, 7)
		for i := range 7 {
			for k := range 7 {
				m[i] += roots.At(n*7+i, k) * roots.At(n*7+i, k)
			}
		}
		for l := len(w) - 1; l >= 0; l-- {
			out, in := w[l].Dims()
			below := make([]float64, in)
			for i := range out {
				for j := range in {
					want[offsets[l]+i*in+j] += m[i] * a[l][j] * a[l][j]
					below[j] += m[i] * w[l].At(i, j) * w[l].At(i, j)
				}
				want[offsets[l]+out*in+i] += m[i]
			}
			for j := range below {
				d := 1 - a[l][j]*a[l][j]
				below[j] *= d * d
			}
			m = below
		}
	}
	requireDiagonal(t, "diagonals", ggn(t, net, x, roots, network.Diagonals), want, 1e-12)
	exact := jacobianSquares(t, net, x, roots)
	requireDiagonal(t, "mixed", ggn(t, net, x, roots, network.ConvolutionDiagonals), exact, 1e-11)
	requireDiagonal(t, "mixed with full convolutions", ggn(t, net, x, roots, network.FullAtConvolutions), exact, 1e-11)
	require.Greater(t, math.Abs(want[0]-exact[0]), 1e-3*exact[0])
}

// [lae algorithm 1, E.4.1] against PyTorch, whose layers are dense Jacobians.
func TestGGNDiagonalAgainstReference(t *testing.T) {
	ref := testref.Open(t, "structures/autoencoder")
	net := read(t, ref)
	x := ref.MatrixRC("x_train", 40, 64)
	for b, name := range map[network.Backpropagation]string{network.Exact: "exact", network.Diagonals: "approximate", network.ConvolutionDiagonals: "mixed", network.FullAtConvolutions: "mixed_full_at_conv"} {
		requireDiagonal(t, name, ggn(t, net, x, nil, b), ref.Floats("ggn_diagonal_"+name), 1e-10)
	}
}

// The sums have the same bits for any number of processors.
func TestGGNDiagonalDoesNotDependOnProcessors(t *testing.T) {
	ref := testref.Open(t, "structures/autoencoder")
	net := read(t, ref)
	x := ref.MatrixRC("x_train", 40, 64)
	testref.Procs(t, 1)
	for b := network.Exact; b <= network.FullAtConvolutions; b++ {
		testref.Procs(t, 1)
		want := ggn(t, net, x, nil, b)
		testref.Procs(t, 5)
		require.Equal(t, want, ggn(t, net, x, nil, b))
	}
}

func TestGGNDiagonalRefusesBadInput(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{2}, network.Dense{Units: 3}))(t)
	h, x := make([]float64, 9), mat.NewDense(2, 2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, net.GGNDiagonal(ctx, h, x, nil, network.Exact), context.Canceled)
	require.Error(t, net.GGNDiagonal(t.Context(), h, new(mat.Dense), nil, network.Exact))
	require.Panics(t, func() { net.GGNDiagonal(t.Context(), h[:8], x, nil, network.Exact) })
	require.Panics(t, func() { net.GGNDiagonal(t.Context(), h, x, mat.NewDense(2, 3, nil), network.Exact) })
	require.Panics(t, func() { net.GGNDiagonal(t.Context(), h, x, nil, network.FullAtConvolutions+1) })
	x.Set(1, 0, math.NaN())
	require.ErrorContains(t, net.GGNDiagonal(t.Context(), h, x, nil, network.Exact), "row 1")
}
