package cg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// steep is a likelihood with one constant residual and no curvature.
type steep struct{ residual float64 }

func (l steep) Expand(residual, lambda, root, _, _ []float64) float64 {
	for i := range residual {
		residual[i] = l.residual
	}
	clear(lambda)
	clear(root)
	return 0
}

func (l steep) MeanTo(dst, f []float64) { copy(dst, f) }

// A dual vector and K α that are finite may have a product that is not.
func TestRefitChecksScatter(t *testing.T) {
	q := problems(t)[0]
	prior := testref.Must(ntk.NewIsotropic(1e-20, nil))(t)
	k := ntk.New(prior, q.Theta, nil)
	at := testref.As[*gp.NotFiniteError](t, testref.Err(gp.Refit(t.Context(), k, q.Train, q.Y, steep{1e150}, nil)))
	require.Equal(t, "scatter αᵀKα", at.What)
	require.ErrorAs(t, testref.Err(cg.Refit(t.Context(), k, q.Train, q.Y, steep{1e150}, nil)), &at)
	require.Equal(t, "scatter αᵀKα", at.What)
	require.NoError(t, testref.Err(cg.Refit(t.Context(), k, q.Train, q.Y, steep{1e100}, nil)))
}
