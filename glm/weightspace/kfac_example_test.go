package weightspace_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// One pass over the examples sums the Kronecker factors, and the posterior and the
// evidence of each prior precision come from them.
func ExampleFactors_Posterior() {
	ctx := context.Background()
	net, err := network.Sequential(network.Shape{2}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 3})
	if err != nil {
		log.Fatal(err)
	}
	x, y := mat.NewDense(60, 2, nil), mat.NewDense(60, 1, nil)
	for i := range 60 {
		x.SetRow(i, []float64{math.Sin(float64(i)), math.Cos(2 * float64(i))})
		y.Set(i, 0, float64(i%3))
	}
	batch, err := net.Linearize(ctx, x)
	if err != nil {
		log.Fatal(err)
	}
	sites, err := gp.NewSites(gp.NewTargets(y, glm.Categorical{}), batch.F)
	if err != nil {
		log.Fatal(err)
	}
	factors, err := weightspace.SumFactors(ctx, batch, sites, false, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, delta := range []float64{0.1, 1, 10, 100} {
		prior, err := ntk.NewIsotropic(delta, nil)
		if err != nil {
			log.Fatal(err)
		}
		w, err := factors.Posterior(ctx, weightspace.KFAC, prior, net.Theta(), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("precision %5v: log evidence %.2f\n", delta, w.EvidenceAtTheta().Value)
	}
	// Output:
	// precision   0.1: log evidence -93.81
	// precision     1: log evidence -82.53
	// precision    10: log evidence -92.31
	// precision   100: log evidence -266.53
}
