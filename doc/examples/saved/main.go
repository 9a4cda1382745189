// Command saved fits a sparse posterior and saves it ("saved fit FILE"), and
// explains a prediction from the file in another process ("saved explain FILE").
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

func main() {
	ctx, verb, path := context.Background(), os.Args[1], os.Args[2]
	x, y := mat.NewDense(300, 1, nil), mat.NewDense(300, 1, nil)
	for i := range 300 {
		x.Set(i, 0, float64(i)/50-3)
		y.Set(i, 0, math.Sin(2*x.At(i, 0)))
	}
	lik := must(glm.NewGaussian(0.01))
	net := must(network.Sequential(network.Shape{1}, network.Dense{Units: 20}, network.Tanh, network.Dense{Units: 1}))
	net, _, err := train.MAP(ctx, net, x, y, lik, nil) // the same in both processes, to the last bit
	check(err)
	data := must(net.Linearize(ctx, x))
	kernel := ntk.New(must(ntk.NewIsotropic(1, nil)), net.Theta())
	if verb == "fit" {
		z := must(sparse.Select(ctx, sparse.Greedy{}, kernel, data, 12, nil))
		post := must(sparse.Refit(ctx, kernel, data, gp.NewTargets(y, lik), z, nil))
		check(store.Write(path, "sine", 1, post.Save))
		return
	}
	file := must(store.Open(path, "sine", 1))
	defer file.Close()
	post := must(sparse.Load(ctx, file, kernel, data, nil, nil))
	e := must(explain.New(post, kernel, &explain.Options{Top: 3}))
	f := must(e.Explain(ctx, must(net.Linearize(ctx, mat.NewDense(1, 1, []float64{0.8})))))[0][0] // first row, first output
	fmt.Printf("f(0.8) = %.3f = %.3f + %.3f from 300 examples\n", f.PriorMean+f.Sum, f.PriorMean, f.Sum)
	for _, t := range f.Terms {
		fmt.Printf("x = %+.2f, y = %+.3f: %+.4f\n", x.At(t.Index, 0), y.At(t.Index, 0), t.Value)
	}
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
