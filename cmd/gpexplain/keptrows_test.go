package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Through few inducing examples the network seems to predict every training row as well
// without it as with it. The means by kept rows are those of the exact posterior, of
// which every row is kept here.
func TestLeaveOneOutThroughFewInducing(t *testing.T) {
	fit := func(more ...string) fitReport {
		args := append([]string{"fit", "--json", "--refit=false", "--train-count", "300", "--out", filepath.Join(t.TempDir(), "a.gp")}, more...)
		return decode[fitReport](t, succeed(t, args...))
	}
	exact, few := fit().Fit.Calibration, fit("--method", "nystrom", "--inducing", "5").Fit.Calibration
	require.InEpsilon(t, float64(exact.Network.NLL), float64(few.Network.NLL), 1e-3)
	require.InEpsilon(t, float64(exact.LOO.NLL), float64(few.LOO.NLL), .2)
	r := gpexplain(t.Context(), "fit", "--verbose", "--refit=false", "--train-count", "300", "--method", "nystrom", "--inducing", "5", "--out", filepath.Join(t.TempDir(), "a.gp"))
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "leave-one-out means by 300 rows of the training data, with 100 % of tr Λ")
	require.False(t, strings.Contains(r.stderr, "too large"), r.stderr)
}
