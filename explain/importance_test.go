package explain

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
)

func TestImportances(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	d := newDense(rng, 20, 3, 10)
	clear(d.alpha[6:9]) // examples 2 and 5 tie at zero
	clear(d.alpha[15:18])
	list := Importances(d)
	require.Len(t, list, 20)
	var norms []float64
	for i := range 20 {
		norms = append(norms, floats.Norm(d.alpha[3*i:3*i+3], 2))
	}
	for k, i := range sortedBy(norms, func(v float64) float64 { return v }) {
		require.Equal(t, i, list[k].Index)
		requireNear(t, norms[i], list[k].Norm, 1e-15, "norm")
		require.Equal(t, d.alpha[3*i:3*i+3], list[k].Alpha)
	}
	require.Equal(t, []int{2, 5}, []int{list[18].Index, list[19].Index})
}
