package job

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormatRows(t *testing.T) {
	for text, rows := range map[string][]int{"7": {7}, "1-3": {1, 2, 3}, "3,1-2,9": {3, 1, 2, 9}, "0-1,5": {0, 1, 5}} {
		require.Equal(t, text, FormatRows(rows))
		got, ok := ParseRows(text, len(rows))
		require.True(t, ok)
		require.Equal(t, rows, got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		rows := rng.Perm(50)[:1+rng.IntN(49)]
		if rng.IntN(2) == 0 {
			slices.Sort(rows)
		}
		got, ok := ParseRows(FormatRows(rows), 50)
		require.True(t, ok)
		require.Equal(t, rows, got)
	}
	const last = "9223372036854775806-9223372036854775807"
	got, ok := ParseRows(last, 10)
	require.True(t, ok)
	require.Equal(t, []int{math.MaxInt - 1, math.MaxInt}, got)
	for _, text := range []string{"", "x", "-1", "3-1", "1-", "1,,2", "0-10", "0-9223372036854775807", "1-2-3"} {
		_, ok := ParseRows(text, 10)
		require.False(t, ok, text)
	}
}
