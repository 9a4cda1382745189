package integral

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Log E σ(f) has the value of LogMeanSigmoid and its derivatives, in the far tail and for wide
// Gaussians too, against differences.
func TestLogMeanSigmoidSlopes(t *testing.T) {
	for _, s := range []float64{0, 1e-3, 0.3, 2, 7.99, 8.01, 30, 500} {
		for _, m := range []float64{0, 1, -1, 4, -5, 30, -40, -80, 900, -900, -2e5} {
			g := LogMeanSigmoidSlopes(m, s)
			require.InDelta(t, LogMeanSigmoid(m, s), g.Value, 1e-13*(1+math.Abs(g.Value)), "m = %v, s = %v", m, s)
			h := 1e-4 * (1 + s)
			up, down := LogMeanSigmoidSlopes(m+h, s), LogMeanSigmoidSlopes(m-h, s)
			tol := 1e-6 + 1e-13*math.Abs(m)/h
			require.InDelta(t, (up.Value-down.Value)/(2*h), g.M, tol, "∂m at m = %v, s = %v", m, s)
			require.InDelta(t, (up.M-down.M)/(2*h), g.MM, tol, "∂mm at m = %v, s = %v", m, s)
			if s > h {
				up, down = LogMeanSigmoidSlopes(m, s+h), LogMeanSigmoidSlopes(m, s-h)
				require.InDelta(t, (up.Value-down.Value)/(2*h), g.S, tol*(1+math.Abs(g.S)), "∂s at m = %v, s = %v", m, s)
				require.InDelta(t, (up.M-down.M)/(2*h), g.MS, tol*(1+math.Abs(g.MS)), "∂ms at m = %v, s = %v", m, s)
				require.InDelta(t, (up.S-down.S)/(2*h), g.SS, 10*tol*(1+math.Abs(g.SS)), "∂ss at m = %v, s = %v", m, s)
			}
		}
	}
}
