package sparse_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// leNet is LeNet-5 at n random images, as a source of tiles.
func leNet(b *testing.B, n int) (linearize.Source, *gp.Sites, *ntk.NTK) {
	b.Helper()
	net, err := network.Sequential(network.Shape{1, 28, 28},
		network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: 10})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(n, 784, nil), mat.NewDense(n, 1, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return max(0, rng.NormFloat64()) }, x)
	y.Apply(func(_, _ int, _ float64) float64 { return float64(rng.IntN(10)) }, y)
	f := testref.Must(net.Forward(b.Context(), x))(b)
	s := testref.Must(gp.NewSites(gp.NewTargets(y, glm.Categorical{}), f))(b)
	prior := testref.Must(ntk.NewIsotropic(1, nil))(b)
	src := linearize.NewSource(net, n, 500, func(lo, hi int) (*mat.Dense, error) {
		return x.Slice(lo, hi, 0, 784).(*mat.Dense), nil
	})
	return src, s, ntk.New(prior, net.Theta())
}

// BenchmarkAdd is one pass over the data: linearization, cross-kernel,
// triangular solve and product. A second and the examples it takes give the
// time of any number.
func BenchmarkAdd(b *testing.B) {
	const n, m, c = 1000, 200, 10
	x, s, k := leNet(b, n)
	z := testref.Must(sparse.Select(b.Context(), sparse.Uniform{}, k, x, m, nil))(b)
	b.Run(fmt.Sprintf("lenet5/N=%d/M=%d/C=%d", n, m, c), func(b *testing.B) {
		sum := testref.Must(sparse.NewBuilder(b.Context(), k, z, nil))(b)
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, sum.Add(b.Context(), x, s))
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "examples/s")
	})
}

// BenchmarkLeaveOneOut takes examples that are linearized already, as a sample of the
// data is; BenchmarkLinearize is what that costs.
func BenchmarkLeaveOneOut(b *testing.B) {
	const n, m, c = 500, 200, 10
	x, s, k := leNet(b, n)
	z := testref.Must(sparse.Select(b.Context(), sparse.Uniform{}, k, x, m, nil))(b)
	p := testref.Must(sparse.Fit(b.Context(), k, x, s, z, nil))(b)
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	some := testref.Must(linearize.Gather(b.Context(), x, rows))(b)
	b.Run(fmt.Sprintf("lenet5/rows=%d/M=%d/C=%d", n, m, c), func(b *testing.B) {
		var mean, cov mat.Dense
		for b.Loop() {
			require.NoError(b, p.LeaveOneOutTo(b.Context(), &mean, &cov, rows, some))
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "examples/s")
	})
}

// BenchmarkLinearize is the part of BenchmarkAdd that is not this package's.
func BenchmarkLinearize(b *testing.B) {
	const n = 1000
	x, _, _ := leNet(b, n)
	for b.Loop() {
		require.NoError(b, x.Batches(b.Context(), func(int, *linearize.Batch) error { return nil }))
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "examples/s")
}

// BenchmarkSolve is what another prior variance costs, given the sums.
func BenchmarkSolve(b *testing.B) {
	const m = 200
	x, s, k := leNet(b, 300)
	z := testref.Must(sparse.Select(b.Context(), sparse.Uniform{}, k, x, m, nil))(b)
	p := testref.Must(sparse.Fit(b.Context(), k, x, s, z, nil))(b)
	b.Run(fmt.Sprintf("M=%d/C=10", m), func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, testref.Err(p.At(b.Context(), 2)))
		}
	})
}

// BenchmarkFit is a whole fit, and predictions of as many examples as are inducing.
func BenchmarkFit(b *testing.B) {
	const n, m, c = 1000, 200, 10
	x, s, k := leNet(b, n)
	z := testref.Must(sparse.Select(b.Context(), sparse.Uniform{}, k, x, m, nil))(b)
	b.Run(fmt.Sprintf("lenet5/N=%d/M=%d/C=%d", n, m, c), func(b *testing.B) {
		var mean, cov mat.Dense
		for b.Loop() {
			p := testref.Must(sparse.Fit(b.Context(), k, x, s, z, nil))(b)
			require.NoError(b, p.PredictTo(b.Context(), &mean, &cov, z.Batch))
		}
	})
}
