package ntk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

func TestPriorsConform(t *testing.T) {
	const p = 12
	variance, mean := make([]float64, p), make([]float64, p)
	for i := range p {
		variance[i], mean[i] = float64(i+1)/7, float64(i)-3
	}
	spans := []linearize.Span{
		{Name: "0.bias", Offset: 9, Rows: 1, Cols: 3}, {Name: "0.weight", Rows: 3, Cols: 2}, {Name: "1.weight", Offset: 6, Rows: 1, Cols: 3},
	}
	layers := ntk.ByLayer(spans, 2)
	layers[0].Precision = 0.1
	prior := func(p ntk.Prior, err error) ntk.Prior {
		t.Helper()
		require.NoError(t, err)
		return p
	}
	isotropic, err := ntk.NewIsotropic(3, nil)
	shifted, err2 := ntk.NewIsotropic(3, []float64{0.5})
	moved, err3 := ntk.NewIsotropic(3, mean)
	diagonal, err4 := ntk.NewDiagonal(variance, mean)
	layerwise, err5 := ntk.NewLayerwise(p, layers, mean)
	tensors, err6 := ntk.NewLayerwise(p, ntk.ByTensor(spans, 5), nil)
	for name, c := range map[string]ntk.Prior{
		"isotropic": prior(isotropic, err), "isotropic/mean": prior(shifted, err2), "isotropic/means": prior(moved, err3),
		"diagonal": prior(diagonal, err4), "layerwise": prior(layerwise, err5), "tensors": prior(tensors, err6),
	} {
		t.Run(name, func(t *testing.T) { gptest.Prior(t, c, p) })
	}
}
