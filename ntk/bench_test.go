package ntk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// benchmarks are the jobs that other libraries were measured on.
var benchmarks = []struct {
	name    string
	n, t, c int
	layers  []gptest.Layer
}{
	{"thesis-cnn", 3000, 1991, 1, []gptest.Layer{{Out: 686}, {In: 128, Out: 25}, {In: 25, Out: 25}, {In: 25, Out: 1}}},
	{"mlp-784-128-64-10", 300, 200, 10, []gptest.Layer{{In: 784, Out: 128}, {In: 128, Out: 64}, {In: 64, Out: 10}}},
}

// eachBenchmark runs a benchmark on every job with an isotropic prior, and
// with one variance a parameter.
func eachBenchmark(b *testing.B, run func(b *testing.B, k *ntk.NTK, train, test *linearize.Batch)) {
	one := func(name string, train, test *linearize.Batch) {
		all := priors(b, newRand(1), train)
		for _, prior := range []string{"isotropic", "diagonal"} {
			b.Run(fmt.Sprintf("%s/N=%d/C=%d/P=%d/%s", name, train.Len(), train.Outputs(), train.P, prior), func(b *testing.B) {
				run(b, ntk.New(all[prior], make([]float64, train.P)), train, test)
			})
		}
	}
	for _, job := range benchmarks {
		rng := newRand(1)
		train := gptest.RandomBatch(rng, job.n, job.c, job.layers...)
		one(job.name, train, gptest.Another(rng, train, job.t))
	}
	lenet := leNet(b, 400)
	one("lenet5", lenet.Slice(0, 200), lenet.Slice(200, 400))
}

// leNet is LeNet-5 without padding at n random images.
func leNet(b testing.TB, n int) *linearize.Batch {
	b.Helper()
	net, err := network.Sequential(network.Shape{1, 28, 28},
		network.Conv2D{Filters: 6, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 16, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 120}, network.ReLU, network.Dense{Units: 84}, network.ReLU, network.Dense{Units: 10})
	require.NoError(b, err)
	return linearized(b, net, mat.NewDense(n, 784, normal(newRand(2), n*784)))
}

// report adds bytes written and the rate at which the planned flops are done.
func report(b *testing.B, bytes int, flops float64) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ReportMetric(flops/1e9, "Gflop/op")
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
}

func BenchmarkKernel(b *testing.B) {
	eachBenchmark(b, func(b *testing.B, k *ntk.NTK, train, _ *linearize.Batch) {
		var dst mat.Dense
		for b.Loop() {
			k.BlockTo(&dst, train, train)
		}
		n := train.Len() * train.Outputs()
		// One triangle of two flops a multiply-add.
		report(b, 8*n*n, k.Cost(train, train))
	})
}

func BenchmarkCross(b *testing.B) {
	eachBenchmark(b, func(b *testing.B, k *ntk.NTK, train, test *linearize.Batch) {
		var dst mat.Dense
		for b.Loop() {
			k.BlockTo(&dst, test, train)
		}
		report(b, 8*test.Len()*train.Len()*train.Outputs()*train.Outputs(), 2*k.Cost(test, train))
	})
}

func BenchmarkDiag(b *testing.B) {
	eachBenchmark(b, func(b *testing.B, k *ntk.NTK, _, test *linearize.Batch) {
		var dst mat.Dense
		for b.Loop() {
			k.DiagTo(&dst, test)
		}
		b.SetBytes(int64(8 * test.Len() * test.Outputs() * test.Outputs()))
		b.ReportAllocs()
	})
}

func BenchmarkMul(b *testing.B) {
	eachBenchmark(b, func(b *testing.B, k *ntk.NTK, train, _ *linearize.Batch) {
		rows := train.Len() * train.Outputs()
		v, dst := mat.NewDense(rows, 16, normal(newRand(2), 16*rows)), new(mat.Dense)
		for b.Loop() {
			k.MulTo(dst, train, train, v)
		}
		report(b, 2*8*16*rows, 4*16*float64(train.P)*float64(train.Len()))
	})
}

// BenchmarkPrepared is a product with a right side prepared beforehand.
func BenchmarkPrepared(b *testing.B) {
	eachBenchmark(b, func(b *testing.B, k *ntk.NTK, train, test *linearize.Batch) {
		rows := train.Len() * train.Outputs()
		p, dst := k.Prepare(train, mat.NewDense(rows, 20, normal(newRand(2), 20*rows))), new(mat.Dense)
		for b.Loop() {
			p.MulTo(dst, test)
		}
		report(b, 8*20*test.Len()*test.Outputs(), 2*20*float64(train.P)*float64(test.Len()))
	})
}
