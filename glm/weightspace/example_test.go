package weightspace_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A posterior that knows less of H predicts other variances: one that drops the
// covariances between parameters, and one that holds all but the last layer.
func ExampleFitStructure() {
	ctx := context.Background()
	net, err := network.Sequential(network.Shape{1}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		log.Fatal(err)
	}
	x, y := mat.NewDense(30, 1, nil), mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.Set(i, 0, float64(i)/10-1.5)
		y.Set(i, 0, float64(i%2))
	}
	source := linearize.NewSource(net, 30, 10, func(lo, hi int) (*mat.Dense, error) { return x.Slice(lo, hi, 0, 1).(*mat.Dense), nil })
	f, err := linearize.Outputs(ctx, source)
	if err != nil {
		log.Fatal(err)
	}
	sites, err := gp.NewSites(gp.NewTargets(y, glm.Bernoulli{}), f)
	if err != nil {
		log.Fatal(err)
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	test, err := net.Linearize(ctx, mat.NewDense(1, 1, []float64{4}))
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range []weightspace.Structure{weightspace.Full, weightspace.Diagonal, weightspace.LastLayer} {
		w, err := weightspace.FitStructure(ctx, s, source, sites, prior, net.Theta(), nil)
		if err != nil {
			log.Fatal(err)
		}
		var cov mat.Dense
		if err := w.PredictTo(ctx, nil, &cov, test); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-10v variance at 4: %.2f, log evidence %.1f\n", s, cov.At(0, 0), w.EvidenceAtTheta().Value)
	}
	// Output:
	// full       variance at 4: 1.49, log evidence -25.2
	// diag       variance at 4: 2.88, log evidence -28.2
	// last-layer variance at 4: 1.30, log evidence -25.1
}
