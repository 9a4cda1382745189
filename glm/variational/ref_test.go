package variational

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

func TestTry(t *testing.T) {
	for _, name := range []string{"snelson", "poisson", "gaussian-two-outputs", "two-moons", "categorical"} {
		q := testkit.OpenReference(t, name)
		ref := testref.Open(t, "structures/"+name)
		debug = func(k int, it *iterate, step float64, acc bool) {
			fmt.Println(k, it.elbo.Value, it.size, step, acc, floatsMax(it.cov))
		}
		r, err := RefineFunction(t.Context(), q.Kernel, q.Train, q.Y, q.Likelihood, nil)
		require.NoError(t, err)
		fmt.Println(name, r.Iterations, r.Refinement.Warnings, r.ELBO)
		if ref.HasMeta("vi_full_elbo") {
			fmt.Println("want", ref.Scalar("vi_full_elbo"), ref.Scalar("vi_full_kl"), r.ELBO.Value-ref.Scalar("vi_full_elbo"))
			for k, v := range map[string][]float64{"mean_train": r.Mean.RawMatrix().Data, "variance_train": r.Cov.RawMatrix().Data, "site_precision": r.sites.Lambda.RawMatrix().Data} {
				w := ref.Floats("vi_full_" + k)
				if len(w) != len(v) {
					continue
				}
				worst, top := 0.0, 0.0
				for i := range w {
					worst = math.Max(worst, math.Abs(v[i]-w[i]))
					top = math.Max(top, math.Abs(w[i]))
				}
				fmt.Println(k, worst, top)
			}
		}
	}
}

func floatsMax(m *mat.Dense) float64 { return mat.Max(m) }
