package weightspace_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// eachToy calls f with the references that have Kronecker factors, the networks of
// dense layers.
func eachToy(t *testing.T, f func(t *testing.T, q *testkit.Reference, want *testref.Ref)) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) { f(t, testkit.OpenReference(t, name), testref.Open(t, "structures/"+name)) })
	}
}

func sumFactors(t *testing.T, q *testkit.Reference) *weightspace.Factors {
	t.Helper()
	f := testref.Must(weightspace.SumFactors(t.Context(), q.Train, q.Sites(t), true, nil))(t)
	return f
}

// [glm eq. 8]: the factors of every layer, against PyTorch.
func TestKroneckerFactorsAgainstReference(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		layers := sumFactors(t, q).Layers()
		require.False(t, want.Has(fmt.Sprintf("kfac_a_%d", len(layers))))
		for i, l := range layers {
			requireMatrix(t, "A of "+l.Name, l.A, want.Matrix(fmt.Sprintf("kfac_a_%d", i)), 1e-12)
			requireMatrix(t, "G of "+l.Name, l.G, want.Matrix(fmt.Sprintf("kfac_g_%d", i)), 1e-11)
		}
	})
}

// [glm eq. 8, A.1] and sec. 2: the posteriors with the prior combined exactly, which
// is by a dense sum for one variance per parameter, and with both dampings, against
// PyTorch.
func TestKroneckerAgainstReference(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		f, tests := sumFactors(t, q), want.Shape("kfac_cov_test")[0]
		for key, structure := range map[string]weightspace.Structure{
			"kfac": weightspace.KFAC, "kfac_damped": weightspace.KFACDamped, "kfac_damped_mean": weightspace.KFACDampedMean,
		} {
			w, err := f.Posterior(t.Context(), structure, q.Prior, q.Net.Theta(), nil)
			if !want.Has(key + "_cov_test") {
				var missing *weightspace.NoFactorsError
				require.ErrorAs(t, err, &missing, "damping has no meaning with one variance per parameter")
				continue
			}
			require.NoError(t, err)
			requireStructure(t, key, w, q, want, tests)
		}
	})
}

// [note 4.1]: the block-tridiagonal part of G ⊗ A and of the GGN is indefinite on
// every toy, and the chain of Martens and Grosse is not.
func TestPlainTridiagonalIsIndefinite(t *testing.T) {
	eachToy(t, func(t *testing.T, q *testkit.Reference, want *testref.Ref) {
		plain := newDenseChain(t, q.Train, q.Sites(t), q.Prior)
		if q.Train.P > 1000 && testing.Short() {
			t.Skip("matrices of 2,700 parameters are not short")
		}
		for key, m := range map[string]*mat.SymDense{"kfac_tridiagonal": plain.truncated(t), "tridiagonal": plain.truncatedGGN(t)} {
			require.Zero(t, want.Scalar(key+"_positive_definite"))
			var c mat.Cholesky
			require.False(t, c.Factorize(m), "%s has a Cholesky factor", key)
			if want.HasMeta(key + "_min_eigenvalue") {
				// The least eigenvalue is the shift at which the matrix becomes definite.
				least, largest := want.Scalar(key+"_min_eigenvalue"), 0.0
				require.Negative(t, least)
				for i := range m.SymmetricDim() {
					largest = max(largest, m.At(i, i))
				}
				for _, side := range []float64{-1, 1} {
					shifted := mat.NewSymDense(m.SymmetricDim(), nil)
					shifted.CopySym(m)
					for i := range m.SymmetricDim() {
						shifted.SetSym(i, i, m.At(i, i)-(least+side*(1e-13*largest+1e-9)))
					}
					require.Equal(t, side < 0, c.Factorize(shifted), key)
				}
			}
		}
		w, err := weightspace.FitStructure(t.Context(), weightspace.Chain, q.Train, q.Sites(t), q.Prior, q.Net.Theta(), nil)
		if q.Has("prior_variance") {
			testref.As[*weightspace.NoFactorsError](t, err)
			return
		}
		require.NoError(t, err)
		require.Positive(t, w.LogDet())
	})
}
