// Command saved fits a posterior through inducing examples to a network of its own and saves both ("saved fit FILE"), and
// explains a prediction from the file in another process ("saved explain FILE").
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

func main() {
	ctx, verb, path := context.Background(), os.Args[1], os.Args[2]
	x, y := mat.NewDense(300, 1, nil), mat.NewDense(300, 1, nil)
	for i := range 300 {
		x.Set(i, 0, float64(i)/50-3)
		y.Set(i, 0, math.Sin(2*x.At(i, 0)))
	}
	if verb == "fit" {
		net := must(network.Sequential(network.Shape{1}, network.Dense{Units: 20}, network.Tanh, network.Dense{Units: 1}))
		net, _, err := train.MAP(ctx, net, x, y, must(glm.NewGaussian(0.01)), nil)
		check(err)
		post := must(funcgp.Fit(ctx, funcgp.Model{Network: net}, funcgp.Data{X: x, Y: y}, &funcgp.FitOptions{
			NoiseVariance: new(0.01), Prior: funcgp.Precision(1), Standardize: "no", Method: funcgp.Method{Name: "nystrom", Inducing: 12, Select: "greedy"}}))
		defer post.Close()
		check(post.Save(ctx, path, &funcgp.SaveOptions{Bundle: true}))
		return
	}
	post := must(funcgp.Open(ctx, path, nil))
	defer post.Close()
	rows := must(post.Rows(ctx, mat.NewDense(1, 1, []float64{0.8})))
	f := must(post.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3}))[0].Main()
	fmt.Printf("f(0.8) = %.3f = %.3f + %.3f from 300 examples + %.3f\n", f.Network, f.PriorMean, f.ContributionSum, f.Remainder)
	for _, t := range f.Contributions {
		fmt.Printf("x = %+.2f, y = %+.3f: %+.4f\n", x.At(int(t.Index), 0), y.At(int(t.Index), 0), t.Value)
	}
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
