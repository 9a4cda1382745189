package cg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Diagonal blocks, full ones, and their transposes.
func TestSiteBlocks(t *testing.T) {
	for _, c := range []struct {
		blocks      []float64
		diagonal    bool
		mul, transp []float64
	}{
		{[]float64{2, 0, 0, 3, 5, 0, 0, 7}, true, []float64{2, 6, 15, 28}, []float64{2, 6, 15, 28}},
		{[]float64{2, 1, 0, 3, 5, 0, 4, 7}, false, []float64{4, 6, 15, 40}, []float64{2, 7, 31, 28}},
	} {
		b := newSiteBlocks(c.blocks, 2)
		require.Equal(t, c.diagonal, b.diagonal)
		for trans, want := range map[bool][]float64{false: c.mul, true: c.transp} {
			v := []float64{1, 2, 3, 4}
			b.mul(columnwise{}, column(v), 0, trans)
			require.Equal(t, want, v)
			v = []float64{3, 4}
			b.mul(columnwise{}, column(v), 1, trans)
			require.Equal(t, want[2:], v)
		}
	}
}
