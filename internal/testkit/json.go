package testkit

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireSameJSON compares two answers of the command in JSON up to tol for numbers, relative
// to those above 1, but for what files and clocks say and for what is rounding alone.
func RequireSameJSON(t *testing.T, want, got string, tol float64) {
	t.Helper()
	var a, b any
	require.NoError(t, json.Unmarshal([]byte(want), &a))
	require.NoError(t, json.Unmarshal([]byte(got), &b))
	requireSameValue(t, "", a, b, tol)
}

func requireSameValue(t *testing.T, at string, a, b any, tol float64) {
	t.Helper()
	switch x := a.(type) {
	case map[string]any:
		y := b.(map[string]any)
		require.Len(t, y, len(x), at)
		for k, v := range x {
			if k != "timings" && k != "record" && k != "sum_residual" {
				requireSameValue(t, at+"/"+k, v, y[k], tol)
			}
		}
	case []any:
		y := b.([]any)
		require.Len(t, y, len(x), at)
		for i := range x {
			requireSameValue(t, fmt.Sprintf("%s/%d", at, i), x[i], y[i], tol)
		}
	case float64:
		require.InDelta(t, x, b, tol*math.Max(1, math.Abs(x)), at)
	default:
		require.Equal(t, a, b, at)
	}
}
