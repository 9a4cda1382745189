package testkit

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireSameJSON compares two JSON answers of the command. Numbers may differ by tol, relative to
// numbers above 1. The members timings, record and sum_residual are not compared.
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
