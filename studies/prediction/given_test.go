package prediction

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/studies/command"
)

// TestGiven judges a network that is given: by itself it is as good as the formulas here say, and differences are
// those of the figures.
func TestGiven(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := small(t, dir)
	p := &s.sets[0]
	r, err := p.open(ctx, s.reference, s.pictures, dir, 0)
	require.NoError(t, err)
	net, err := p.fit(ctx, &p.trainings[0], r.shape, r.x, r.y, 1)
	require.NoError(t, err)
	folder := filepath.Join(dir, "reference", "defaults")
	require.NoError(t, command.WriteModel(filepath.Join(folder, "a.onnx"), net, command.Training{Likelihood: p.likelihood, Inputs: r.inputs}))
	for _, part := range []string{"train", "test"} {
		b, err := os.ReadFile(filepath.Join(dir, "classes-0-"+part+".csv"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "a."+part+".csv"), b, 0o644))
	}
	s.reference, s.dir = dir, dir
	s.gpexplain, err = command.Build(ctx, dir)
	require.NoError(t, err)
	f, err := net.Forward(ctx, r.testX)
	require.NoError(t, err)
	alone := p.alone(r, f, 0)

	g, err := s.given(ctx, &givenSet{}, "defaults/a")
	require.NoError(t, err)
	require.InDelta(t, float64(alone.NLL), float64(g.Network.NLL), 1e-9)
	require.InDelta(t, float64(alone.ECE), float64(g.Network.ECE), 1e-9)
	require.InDelta(t, float64(g.Default.NLL-g.Network.NLL), float64(g.OverNetwork), 5e-3)
	require.Greater(t, float64(g.NetworkSE), 0.)
	require.Less(t, float64(g.Best), float64(g.Default.NLL)+5e-3)
	require.True(t, math.IsNaN(float64(g.Temperature)), "no recipe")

	require.NoError(t, os.WriteFile(filepath.Join(folder, "figures.json"), []byte(`{"a": {"temp": {"nll": 0.5}}}`), 0o644))
	g, err = s.given(ctx, &givenSet{}, "defaults/a")
	require.NoError(t, err)
	require.EqualValues(t, 0.5, g.Temperature)
	require.Equal(t, g.Default.NLL-0.5, g.OverTemperature)
}

// TestSummaryOfGiven misses what is worse by more than the slack and two standard errors, or by more than the slack
// where there is none.
func TestSummaryOfGiven(t *testing.T) {
	nan := result.Undefined()
	for _, c := range []struct {
		over, se, overT, seT result.Float
		missed               string
	}{
		{.002, .0001, nan, nan, ""},
		{.01, .02, .019, .001, ""},
		{.01, .005, .03, .03, "network"}, // two networks: the error of the mean is smaller
		{-.1, .01, .03, nan, "temperature"},
		{.1, nan, .05, .001, "network, temperature"},
	} {
		one := given{Network: none(), Default: none(), OverNetwork: c.over, NetworkSE: c.se, OverTemperature: c.overT, TemperatureSE: c.seT}
		row := summary("x", []given{one, one})
		require.Equal(t, c.missed, row[len(row)-1], "%+v", c)
	}
	d, se := paired([]float64{-1, -2, -3}, []float64{-1, -1, -1})
	require.InDelta(t, 1, float64(d), 1e-15)
	require.InDelta(t, 1/math.Sqrt(3), float64(se), 1e-15)
	require.True(t, strings.Contains((&study{}).files("match/a"), "match/a-%s.csv"))
}
