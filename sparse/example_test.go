package sparse_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

func Example() {
	ctx := context.Background()
	// f(x;θ) = θ·(1, x, x²) at θ* = 0, and 1000 examples of sin x.
	const n = 1000
	x, y := mat.NewDense(n, 1, nil), mat.NewDense(n, 1, nil)
	for i := range n {
		v := 3*float64(i)/n - 1.5
		x.Set(i, 0, v)
		y.Set(i, 0, math.Sin(v))
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	kernel := ntk.New(prior, make([]float64, 3))
	// The data are linearized 100 at a time.
	data := linearize.NewSource(parabola{}, n, 100, func(lo, hi int) (*mat.Dense, error) {
		return x.Slice(lo, hi, 0, 1).(*mat.Dense), nil
	})
	lik, err := glm.NewGaussian(0.01)
	if err != nil {
		log.Fatal(err)
	}
	sites, err := gp.NewSites(gp.NewTargets(y, lik), mat.NewDense(n, 1, nil))
	if err != nil {
		log.Fatal(err)
	}
	z, err := sparse.Select(ctx, sparse.Greedy{}, kernel, data, 3, nil)
	if err != nil {
		log.Fatal(err)
	}
	post, err := sparse.Fit(ctx, kernel, data, sites, z, &sparse.Options{Mean: gp.LinearGaussian})
	if err != nil {
		log.Fatal(err)
	}
	test, err := parabola{}.Linearize(ctx, mat.NewDense(1, 1, []float64{1}))
	if err != nil {
		log.Fatal(err)
	}
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, test); err != nil {
		log.Fatal(err)
	}
	// Three examples explain a kernel of rank three.
	fmt.Printf("mean %.3f, trace error %.1f\n", mean.At(0, 0), post.TraceError())
	// Output: mean 0.793, trace error 0.0
}

// A parabola is f(x;θ) = θ₀ + θ₁x + θ₂x² at θ* = 0.
type parabola struct{}

func (parabola) Dims() (d, c, p int) { return 1, 1, 3 }

func (parabola) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, _ := x.Dims()
	j := mat.NewDense(n, 3, nil)
	for i := range n {
		v := x.At(i, 0)
		j.SetRow(i, []float64{1, v, v * v})
	}
	span := linearize.Span{Name: "θ", Rows: 1, Cols: 3}
	return &linearize.Batch{X: x, F: mat.NewDense(n, 1, nil), P: 3,
		Blocks: []linearize.Block{&linearize.Full{J: j, Params: []linearize.Span{span}, C: 1}}}, nil
}

// A posterior is saved to a file and loaded from it, in any process, with the
// kernel and the training examples it was fitted with.
func ExampleLoad() {
	ctx := context.Background()
	x, y := mat.NewDense(50, 1, nil), mat.NewDense(50, 1, nil)
	for i := range 50 {
		x.Set(i, 0, float64(i)/25-1)
		y.Set(i, 0, math.Cos(x.At(i, 0)))
	}
	data, err := parabola{}.Linearize(ctx, x)
	if err != nil {
		log.Fatal(err)
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	kernel := ntk.New(prior, make([]float64, 3))
	lik, err := glm.NewGaussian(0.01)
	if err != nil {
		log.Fatal(err)
	}
	z, err := sparse.Select(ctx, sparse.Greedy{}, kernel, data, 3, nil)
	if err != nil {
		log.Fatal(err)
	}
	post, err := sparse.Refit(ctx, kernel, data, gp.NewTargets(y, lik), z, nil)
	if err != nil {
		log.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "cosine.gp")
	if err := store.Write(path, "my posterior", 1, post.Save); err != nil {
		log.Fatal(err)
	}
	file, err := store.Open(path, "my posterior", 1)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close() // after the last use of loaded
	loaded, err := sparse.Load(ctx, file, kernel, data, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	var mean, same mat.Dense
	if err := post.PredictTo(ctx, &mean, nil, data); err != nil {
		log.Fatal(err)
	}
	if err := loaded.PredictTo(ctx, &same, nil, data); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same to the last bit:", mat.Equal(&mean, &same))
	// Output: the same to the last bit: true
}
