package weightspace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A streamedProblem is LeNet-5 with random weights at random inputs, linearized tile by
// tile.
type streamedProblem struct {
	net   *network.Network
	src   linearize.Source
	sites *gp.Sites
	prior ntk.Prior
}

func newStreamedProblem(b *testing.B, n int) *streamedProblem {
	b.Helper()
	net, err := network.Sequential(network.Shape{1, 28, 28}, network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2}, network.Flatten{},
		network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: 10})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(4, 4))
	x, y := mat.NewDense(n, 784, nil), mat.NewDense(n, 1, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.Float64() }, x)
	for i := range n {
		y.Set(i, 0, float64(rng.IntN(10)))
	}
	q := &streamedProblem{net: net, src: linearize.NewSource(net, n, linearize.Tile(10), func(lo, hi int) (*mat.Dense, error) {
		return x.Slice(lo, hi, 0, 784).(*mat.Dense), nil
	})}
	f := testref.Must(net.Forward(b.Context(), x))(b)
	q.sites = testref.Must(gp.NewSites(gp.NewTargets(y, glm.Categorical{}), f))(b)
	q.prior = testref.Must(ntk.NewIsotropic(5, nil))(b)
	return q
}

// BenchmarkStructures fits posteriors over the parameters of LeNet-5 and predicts.
// N = 60,000 is all of MNIST.
func BenchmarkStructures(b *testing.B) {
	for _, n := range []int{1020, 60000} {
		for _, s := range []weightspace.Structure{weightspace.Diagonal, weightspace.LastLayer} {
			b.Run(fmt.Sprintf("fit/%v/lenet5/N=%d", s, n), func(b *testing.B) {
				q := newStreamedProblem(b, n)
				for b.Loop() {
					_, err := weightspace.FitStructure(b.Context(), s, q.src, q.sites, q.prior, q.net.Theta(), nil)
					require.NoError(b, err)
				}
			})
		}
	}
	for _, n := range []int{1020, 20000} {
		for _, s := range []weightspace.Structure{weightspace.Diagonal, weightspace.LastLayer} {
			b.Run(fmt.Sprintf("predict/%v/lenet5/N=%d", s, n), func(b *testing.B) {
				q := newStreamedProblem(b, n)
				first := testref.Must(linearize.Gather(b.Context(), q.src, []int{0, 1, 2}))(b)
				sites := &gp.Sites{F: first.F, Residual: q.sites.Residual.Slice(0, 3, 0, 10).(*mat.Dense), Lambda: q.sites.Lambda.Slice(0, 30, 0, 10).(*mat.Dense), Root: q.sites.Root.Slice(0, 30, 0, 10).(*mat.Dense)}
				w, err := weightspace.FitStructure(b.Context(), s, first, sites, q.prior, q.net.Theta(), nil)
				require.NoError(b, err)
				for b.Loop() {
					require.NoError(b, q.src.Batches(b.Context(), func(_ int, x *linearize.Batch) error {
						var mean, cov mat.Dense
						return w.PredictTo(b.Context(), &mean, &cov, x)
					}))
				}
			})
		}
	}
}
