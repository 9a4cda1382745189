package certificate_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept/certificate"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A straight line through five points, of which the posterior keeps the outermost two.
func ExampleCertify() {
	ctx := context.Background()
	j := mat.NewDense(5, 2, nil)
	for i, x := range []float64{-2, -0.1, 0, 0.1, 2} {
		j.SetRow(i, []float64{1, x})
	}
	train := &linearize.Batch{F: mat.NewDense(5, 1, nil), P: 2, Blocks: []linearize.Block{
		&linearize.Full{J: j, Params: []linearize.Span{{Name: "θ", Rows: 1, Cols: 2}}, C: 1},
	}}
	theta := []float64{0, 0}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel := ntk.New(prior, theta)
	lik, err := glm.NewGaussian(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := gp.NewSites(gp.NewTargets(mat.NewDense(5, 1, []float64{-2, 0, 0, 0, 2}), lik), train.F)
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := gp.Keep(ctx, kernel, train, sites, &gp.KeepOptions{Strength: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	post, err := gp.FitKept(ctx, kernel, train, sites, rows, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := certificate.Certify(ctx, post, train, sites, prior, theta, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows kept of %d: no variance is more than %.2f times that of all\n", c.Kept, c.Kept+c.Dropped, c.VarianceAtMost)
	fmt.Printf("log determinant %.3f with those kept, %.3f with all\n", post.LogDet(), c.LogDet[0])
	// Output:
	// 2 rows kept of 5: no variance is more than 2.00 times that of all
	// log determinant 3.296 with those kept, 3.991 with all
}
