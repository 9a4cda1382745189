package digits

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Uniform and normal draws have the moments they are named for.
func TestHandMoments(t *testing.T) {
	h := newHand(1, 2, 3)
	const n = 200000
	var u, u2, z, z2 float64
	for range n {
		a, b := h.uniform(0, 1), h.normal()
		require.True(t, a >= 0 && a < 1 && math.Abs(b) < 3.5)
		u, u2, z, z2 = u+a, u2+a*a, z+b, z2+b*b
	}
	// Five standard errors of each mean at n draws.
	require.InDelta(t, 0.5, u/n, 5*0.29/math.Sqrt(n))
	require.InDelta(t, 1./3, u2/n, 5*0.30/math.Sqrt(n))
	require.InDelta(t, 0, z/n, 5/math.Sqrt(n))
	require.InDelta(t, 1, z2/n, 5*1.3/math.Sqrt(n))
}
