package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
)

var toys = []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"}

// The moments at the refit are those of PyTorch (E17). For a Gaussian likelihood
// they are those of the refits without each example.
func TestLeaveOneOutReferences(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			r := openReference(t, name)
			want := testref.Open(t, "selection/"+name)
			e, err := gp.Refit(t.Context(), r.Kernel, r.Train, r.Y, r.Likelihood, nil)
			require.NoError(t, err)
			var mean, cov mat.Dense
			require.NoError(t, e.LeaveOneOutTo(t.Context(), &mean, &cov, dense.Range(r.Train.Len()), r.Train))
			testref.RequireClose(t, flat(&mean), want.Floats("loo_first_order_mean"), 1e-8, "mean")
			testref.RequireClose(t, flat(&cov), want.Floats("loo_first_order_cov"), 1e-8, "covariance")
		})
	}
}
