package archtest

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A job is one that other tools were timed on: the posterior of n training
// digits at θ* (outputs and Jacobian, kernel, factor) and mean and covariance
// of t test digits.
type job struct {
	name    string
	n, t, c int
	classes []int
	layers  []network.Layer
}

func jobs() []job {
	conv := func(first, second, c int, dense ...int) []network.Layer {
		l := []network.Layer{network.Conv2D{Filters: first, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
			network.Conv2D{Filters: second, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2}, network.Flatten{}}
		for _, k := range dense {
			l = append(l, network.Dense{Units: k}, network.ReLU)
		}
		return append(l, network.Dense{Units: c})
	}
	ten := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	mlp := []network.Layer{network.Flatten{}, network.Dense{Units: 128}, network.ReLU, network.Dense{Units: 64}, network.ReLU, network.Dense{Units: 10}}
	return []job{
		{"thesis-cnn", 3000, 1991, 1, []int{4, 9}, conv(3, 8, 1, 25, 25)},
		{"lenet5", 200, 200, 10, ten, conv(6, 16, 10, 120, 84)},
		{"mlp", 300, 200, 10, ten, mlp},
	}
}

// prepared is a job with its network and digits.
type prepared struct {
	net         *network.Network
	kernel      *ntk.NTK
	lik         gp.Likelihood
	x, y, xTest *mat.Dense
}

func (j job) prepare(b *testing.B) *prepared {
	b.Helper()
	data := dataset.Digits(0, 20000, 12000)
	train := testref.Must(data.Train.Select(j.classes, j.n))(b)
	test := testref.Must(data.Test.Select(j.classes, j.t))(b)
	net := testref.Must(network.Sequential(network.Shape{1, 28, 28}, j.layers...))(b)
	prior := testref.Must(ntk.NewIsotropic(10, nil))(b)
	p := &prepared{net: net, kernel: ntk.New(prior, net.Theta()), lik: glm.Bernoulli{}, x: train.Matrix(), xTest: test.Matrix()}
	p.y = mat.NewDense(j.n, 1, train.Targets)
	if j.c > 1 {
		p.lik = glm.Categorical{}
	}
	return p
}

func (p *prepared) fit(b *testing.B) *gp.Exact {
	batch := testref.Must(p.net.Linearize(b.Context(), p.x))(b)
	sites := testref.Must(gp.NewSites(gp.NewTargets(p.y, p.lik), batch.F))(b)
	return testref.Must(gp.Fit(b.Context(), p.kernel, batch, sites, nil))(b)
}

func (p *prepared) predict(b *testing.B, post *gp.Exact) {
	x := testref.Must(p.net.Linearize(b.Context(), p.xTest))(b)
	var mean, cov mat.Dense
	if err := post.PredictTo(b.Context(), &mean, &cov, x); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkJob times whole jobs; BenchmarkGonumDgemm in the same run gives the
// scale of the machine (15.2 GF/s where the other tools were timed).
func BenchmarkJob(b *testing.B) {
	for _, j := range jobs() {
		p := j.prepare(b)
		_, c, params := p.net.Dims()
		name := fmt.Sprintf("net=%s/N=%d/C=%d/P=%d", j.name, j.n, c, params)
		b.Run(name+"/fit", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.fit(b)
			}
		})
		post := p.fit(b)
		b.Run(fmt.Sprintf("%s/predict=%d", name, j.t), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.predict(b, post)
			}
		})
	}
}

// BenchmarkGonumDgemm is gonum's own product of two 2000×2000 matrices.
func BenchmarkGonumDgemm(b *testing.B) {
	const n = 2000
	a, c := make([]float64, n*n), make([]float64, n*n)
	for i := range a {
		a[i] = float64(i%7) - 3
	}
	for b.Loop() {
		gonum.Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, a, n, a, n, 0, c, n)
	}
	b.ReportMetric(2*n*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}
