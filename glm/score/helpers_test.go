package score

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
)

func logPredictive(t testing.TB, l predictive.Link, lik glm.Likelihood, y, f, cov *mat.Dense) []float64 {
	t.Helper()
	n, _ := f.Dims()
	dst := make([]float64, n)
	require.NoError(t, l.LogPredictiveTo(dst, lik, y, f, cov))
	return dst
}
