package explain

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/testkit"
)

func TestImportances(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	d := testkit.NewDual(rng, 20, 3, 10)
	clear(d.DualVector[6:9]) // examples 2 and 5 tie at zero
	clear(d.DualVector[15:18])
	list := Importances(d)
	require.Len(t, list, 20)
	var norms []float64
	for i := range 20 {
		norms = append(norms, floats.Norm(d.DualVector[3*i:3*i+3], 2))
	}
	for k, i := range sortedBy(norms, func(v float64) float64 { return v }) {
		require.Equal(t, i, list[k].Index)
		testkit.RequireNear(t, norms[i], list[k].Norm, 1e-15, "norm")
		require.Equal(t, d.DualVector[3*i:3*i+3], list[k].Alpha)
	}
	require.Equal(t, []int{2, 5}, []int{list[18].Index, list[19].Index})
}
