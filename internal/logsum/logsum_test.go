package logsum

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSum(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		logs []float64
		want float64
	}{
		"empty":                   {nil, -inf},
		"zeros only":              {[]float64{-inf, -inf}, -inf},
		"a zero first":            {[]float64{-inf, 0}, 0},
		"ascending":               {[]float64{math.Log(1), math.Log(2), math.Log(4)}, math.Log(7)},
		"descending":              {[]float64{math.Log(4), math.Log(2), math.Log(1)}, math.Log(7)},
		"numbers above a float64": {[]float64{1e4, 1e4}, 1e4 + math.Ln2},
		"numbers below a float64": {[]float64{-1e4, -1e4, -1e4, -1e4}, -1e4 + 2*math.Ln2},
		"far apart":               {[]float64{-1e4, 1e4}, 1e4},
	} {
		s := New()
		for _, g := range c.logs {
			s.Add(g)
		}
		if math.IsInf(c.want, 0) {
			require.Equal(t, c.want, s.Value(), name)
			continue
		}
		// one rounding of the exponentials and one of the result
		require.InDelta(t, c.want, s.Value(), 4e-16*(1+math.Abs(c.want)), name)
	}
}

func TestSumOfNaN(t *testing.T) {
	for _, logs := range [][]float64{{math.NaN()}, {0, math.NaN()}, {math.NaN(), 0}} {
		s := New()
		for _, g := range logs {
			s.Add(g)
		}
		require.True(t, math.IsNaN(s.Value()), "%v", logs)
	}
}
