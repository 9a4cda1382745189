package gp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// givenKernel hands out a matrix that was formed before, so that a benchmark
// measures inference alone.
type givenKernel struct{ k *mat.Dense }

func (k givenKernel) at(b *linearize.Batch) int { return int(b.X.At(0, 0)) * b.Outputs() }

func (k givenKernel) MeanTo(dst []float64, _ *linearize.Batch) { clear(dst) }

func (k givenKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	i, j := k.at(a), k.at(b)
	r, c := dst.Dims()
	dst.Copy(k.k.Slice(i, i+r, j, j+c))
}

func (k givenKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	r, c := dst.Dims()
	for i, at := 0, k.at(b); i < r; i++ {
		for j := range c {
			dst.Set(i, j, k.k.At(at+i, at+i/c*c+j))
		}
	}
}

// given returns n examples numbered in X, their kernel and their targets.
func given(n, c int) (givenKernel, *linearize.Batch, *mat.Dense) {
	rng := rand.New(rand.NewPCG(1, 1))
	j, k := random(rng, n*c, 50, 1), mat.NewDense(n*c, n*c, nil)
	k.Mul(j, j.T())
	x := &linearize.Batch{X: mat.NewDense(n, 1, nil), F: random(rng, n, c, 1)}
	y := mat.NewDense(n, 1, nil)
	for i := range n {
		x.X.Set(i, 0, float64(i))
		y.Set(i, 0, float64(rng.IntN(max(2, c))))
	}
	return givenKernel{k}, x, y
}

func likelihoodFor(c int) gp.Likelihood {
	if c == 1 {
		return glm.Bernoulli{}
	}
	return glm.Categorical{}
}

func BenchmarkFit(b *testing.B) {
	for _, size := range [][2]int{{1000, 1}, {3000, 1}, {300, 10}} {
		n, c := size[0], size[1]
		b.Run(fmt.Sprintf("N=%d/C=%d", n, c), func(b *testing.B) {
			k, x, y := given(n, c)
			s := testref.Must(gp.NewSites(gp.NewTargets(y, likelihoodFor(c)), x.F))(b)
			for b.Loop() {
				if _, err := gp.Fit(b.Context(), k, x, s, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, size := range [][2]int{{3000, 1}, {300, 10}} {
		n, c := size[0], size[1]
		k, x, y := given(n, c)
		s := testref.Must(gp.NewSites(gp.NewTargets(y, likelihoodFor(c)), x.F))(b)
		e := testref.Must(gp.Fit(b.Context(), k, x, s, &gp.Options{Mean: gp.LinearGaussian}))(b)
		test := x.Slice(0, n*2/3)
		var mean, cov mat.Dense
		b.Run(fmt.Sprintf("mean/N=%d/C=%d/T=%d", n, c, test.Len()), func(b *testing.B) {
			for b.Loop() {
				if err := e.PredictTo(b.Context(), &mean, nil, test); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("variance/N=%d/C=%d/T=%d", n, c, test.Len()), func(b *testing.B) {
			for b.Loop() {
				if err := e.PredictTo(b.Context(), &mean, &cov, test); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLeaveOneOut takes all examples of the problems of BenchmarkFit.
func BenchmarkLeaveOneOut(b *testing.B) {
	for _, size := range [][2]int{{1000, 1}, {3000, 1}, {300, 10}} {
		n, c := size[0], size[1]
		b.Run(fmt.Sprintf("N=%d/C=%d", n, c), func(b *testing.B) {
			k, x, y := given(n, c)
			s := testref.Must(gp.NewSites(gp.NewTargets(y, likelihoodFor(c)), x.F))(b)
			e := testref.Must(gp.Fit(b.Context(), k, x, s, nil))(b)
			var mean, cov mat.Dense
			for b.Loop() {
				if err := e.LeaveOneOutTo(b.Context(), &mean, &cov, dense.Range(n), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMatch compares a refit at the stated precision with what the search for the match takes
// beside it, on the reference thesis-cnn. Started at a tenth of the precision of the training, the
// search has a way to go.
func BenchmarkMatch(b *testing.B) {
	r := testkit.OpenReference(b, "thesis-cnn")
	lik := glm.Bernoulli{}
	theta := r.Net.Theta()
	for _, start := range []float64{10, 1} {
		kernel := func(factor float64) (ntk.Kernel, error) {
			prior, err := ntk.NewIsotropic(start*factor, nil)
			if err != nil {
				return nil, err
			}
			return ntk.New(prior, theta), nil
		}
		refit := func(b *testing.B) *gp.Exact {
			k := testref.Must(kernel(1))(b)
			return testref.Must(gp.Refit(b.Context(), k, r.Train, gp.NewTargets(r.Y, lik), nil))(b)
		}
		b.Run(fmt.Sprintf("refit/δ=%v", start), func(b *testing.B) {
			for b.Loop() {
				refit(b)
			}
		})
		b.Run(fmt.Sprintf("match/δ=%v", start), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				e := refit(b)
				b.StartTimer()
				_, m, err := e.Match(b.Context(), kernel, gp.NewTargets(r.Y, lik), 0, false)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(m.Refits), "refits")
			}
		})
	}
}
