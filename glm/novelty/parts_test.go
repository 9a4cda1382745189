package novelty_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestParts scores by the parts of a detector alone, as they are described, and compares with the detector.
func TestParts(t *testing.T) {
	for _, q := range problems() {
		for name, post := range posteriors(t, q) {
			d := testref.Must(novelty.Fit(t.Context(), q.Kernel, post, &novelty.Options{Standardize: q.N == 40}))(t)
			p, err := d.Parts(t.Context())
			require.NoError(t, err, "%s %s", q.Name, name)
			require.Equal(t, d.Training(), p.Training)
			// All training examples are its rows, so the kernel is KCross.
			require.Equal(t, q.N, p.Function.Rows.Len())
			v := testkit.Product(q.KCross, p.Function.S)
			distances := [][]float64{relative(testkit.Plus(q.KTest, -1, testkit.Product(v, v.T())), q.KTest, q.C), nil, nil}
			for i := range q.T {
				z := mat.Row(nil, i, q.Test.X)
				floats.Sub(z, p.Inputs.Mean)
				floats.Div(z, p.Inputs.Scale)
				var half, products mat.VecDense
				products.MulVec(p.Inputs.Z, mat.NewVecDense(len(z), z))
				var inner mat.VecDense
				far := 0.0
				if p.Inputs.Ridge == 0 {
					half.MulVec(p.Inputs.Half.T(), mat.NewVecDense(len(z), z))
					far = mat.Dot(&half, &half)
					var full mat.VecDense
					full.MulVec(p.Inputs.Half, &half)
					inner.MulVec(p.Inputs.Z, &full)
				} else {
					half.MulVec(p.Inputs.Half.T(), &products)
					far = (floats.Dot(z, z) - mat.Dot(&half, &half)) / p.Inputs.Ridge
					inner.MulVec(p.Inputs.Half, &half)
				}
				near := math.Inf(1)
				for j, own := range p.Inputs.Own {
					near = min(near, far+own-2*inner.AtVec(j))
				}
				distances[1] = append(distances[1], math.Sqrt(near))
				products.DivElemVec(&products, mat.NewVecDense(len(p.Inputs.Norm), p.Inputs.Norm))
				distances[2] = append(distances[2], math.Sqrt(2-2*mat.Max(&products)/floats.Norm(z, 2)))
			}
			got := make([]float64, q.T)
			require.NoError(t, d.ScoreTo(t.Context(), got, q.Test))
			for i := range q.T {
				sum := 0.0
				for k, tail := range p.Tails {
					if x := distances[k][i]; x >= tail.From {
						sum += (x-tail.From)/tail.Mean - math.Log(tail.Share)
					} else {
						sum += surprise(tail.Sorted, x)
					}
				}
				require.InEpsilon(t, sum/3, got[i], 1e-6, "%s %s", q.Name, name)
			}
		}
	}
}
