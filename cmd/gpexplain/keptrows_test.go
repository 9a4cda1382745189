package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// Through few inducing examples the network seems to predict every training row as well
// without it as with it. The means by kept rows are those of the exact posterior, of
// which every row is kept here.
func TestLeaveOneOutThroughFewInducing(t *testing.T) {
	fit := func(more ...string) result.Saved {
		args := append([]string{"fit", "--json", "--train-count", "300", "--out", filepath.Join(t.TempDir(), "a.gp")}, more...)
		return decode[result.Saved](t, succeed(t, args...))
	}
	exact, few := fit().Fit.Calibration, fit("--method", "nystrom", "--inducing", "5").Fit.Calibration
	require.InEpsilon(t, float64(exact.Network.NLL), float64(few.Network.NLL), 1e-3)
	require.InEpsilon(t, float64(exact.LOO.NLL), float64(few.LOO.NLL), .2)
	r := gpexplain(t.Context(), "fit", "--verbose", "--train-count", "300", "--method", "nystrom", "--inducing", "5", "--out", filepath.Join(t.TempDir(), "a.gp"))
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "leave-one-out means by 300 rows of the training data, with 100 % of tr Λ")
	require.False(t, strings.Contains(r.stderr, "too large"), r.stderr)
}

// With --within the posterior is that of the rows that say something: variances are those
// of all rows or a little more, explanations add up over all training rows, the evidence of
// all rows is in its interval, and a refit goes to the same optimum.
func TestKept(t *testing.T) {
	const within = .05
	decodeRows := func(text string) (rows []prediction) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "funcgp/predict-row/1") {
				rows = append(rows, decode[prediction](t, line))
			}
		}
		return rows
	}
	for name, refit := range map[string]string{"network": "--refit=false", "refit": "--refit"} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--data", "digits:1500,200", "--train-count", "300", refit, "--quiet"}
			run := func(verb string, more ...string) string {
				return succeed(t, slices.Concat([]string{verb}, args, more)...)
			}
			text := run("fit", "--json", "--within", "0.05", "--out", filepath.Join(t.TempDir(), "a.gp"))
			requireSchema(t, "fit", text)
			all, some := decode[result.Saved](t, run("fit", "--json", "--out", filepath.Join(t.TempDir(), "b.gp"))).Fit, decode[result.Saved](t, text).Fit
			k := some.Certificate
			require.Equal(t, "kept", some.Method)
			require.EqualValues(t, within, k.Within)
			require.Equal(t, 300, k.Kept+k.Dropped)
			require.Greater(t, k.Dropped, 20)
			require.LessOrEqual(t, float64(k.Ratio), 1+within)
			require.Greater(t, float64(k.Trace), .99)
			require.GreaterOrEqual(t, float64(all.LogDet), float64(k.LogDet[0])-1e-8)
			require.LessOrEqual(t, float64(all.LogDet), float64(k.LogDet[1])+1e-8)
			require.InEpsilon(t, float64(all.LogLikelihood), float64(some.LogLikelihood), 1e-9)
			exact, kept := decodeRows(run("predict", "--calibrate", "none")), decodeRows(run("predict", "--calibrate", "none", "--within", "0.05"))
			require.Len(t, kept, len(exact))
			over := 0
			for i := range exact {
				require.InDelta(t, float64(exact[i].Mean[0]), float64(kept[i].Mean[0]), 1e-7)
				ratio := float64(kept[i].Covariance[0][0] / exact[i].Covariance[0][0])
				require.GreaterOrEqual(t, ratio, 1-1e-9)
				require.LessOrEqual(t, ratio, float64(k.VarianceAtMost)+1e-9)
				if ratio > 1+within {
					over++
				}
			}
			require.LessOrEqual(t, over, len(exact)/50)
			r := decode[result.Report](t, run("explain", "--json", "--within", "0.05", "--top", "300"))
			for _, out := range r.Outputs {
				sum, raw := 0.0, 0.0
				for _, c := range out.Contributions {
					sum, raw = sum+float64(c.Value), raw+float64(c.Raw)
				}
				f := float64(out.PriorMean) + sum
				require.InEpsilon(t, float64(out.PriorMean)+raw, f, 1e-8)
				if refit == "--refit" {
					require.InEpsilon(t, float64(r.Prediction.Mean[0]), f, 1e-8)
				}
			}
		})
	}
}

// The bounds of --certify come from all rows that are left out, and are no wider for
// the truth than what a sample says; the method is named in words.
func TestKeptCertificate(t *testing.T) {
	args := []string{"--data", "digits:1500,200", "--train-count", "300", "--quiet"}
	r := decode[result.Evidence](t, succeed(t, append([]string{"evidence", "--json", "--method", "kept", "--within", "0.5", "--certify"}, args...)...))
	exact := decode[result.Evidence](t, succeed(t, append([]string{"evidence", "--json"}, args...)...))
	require.False(t, r.Certificate.Sampled)
	require.Equal(t, r.Certificate.Dropped, r.Certificate.Rows)
	require.Equal(t, "upper", r.Bound)
	require.GreaterOrEqual(t, float64(r.AtTheta), float64(exact.AtTheta))
	lo, hi := float64(r.AtTheta)-float64(r.Certificate.LogDet[1]-r.LogDet)/2, float64(r.AtTheta)-float64(r.Certificate.LogDet[0]-r.LogDet)/2
	require.LessOrEqual(t, lo, float64(exact.AtTheta)+1e-7)
	require.GreaterOrEqual(t, hi, float64(exact.AtTheta)-1e-7)
	text := gpexplain(t.Context(), append([]string{"predict", "--index", "24", "--within", "0.5"}, "--data", "digits:1500,200", "--train-count", "300")...)
	require.Zero(t, text.code, text.stderr)
	require.Contains(t, strings.Join(strings.Fields(text.stderr), " "), "of the training data that say most")
}

// A Nyström pass over kept rows has variances that are not smaller than that over all.
func TestNystromOfKeptRows(t *testing.T) {
	run := func(more ...string) []float64 {
		var v []float64
		text := succeed(t, slices.Concat([]string{"predict", "--quiet", "--calibrate", "none", "--data", "digits:1500,60", "--train-count", "300", "--method", "nystrom", "--inducing", "40"}, more)...)
		for line := range strings.Lines(text) {
			if strings.Contains(line, "funcgp/predict-row/1") {
				v = append(v, float64(decode[prediction](t, line).Covariance[0][0]))
			}
		}
		return v
	}
	all, kept := run(), run("--within", "0.05")
	require.Len(t, kept, len(all))
	for i := range all {
		require.GreaterOrEqual(t, kept[i], all[i]*(1-1e-9))
		require.LessOrEqual(t, kept[i], all[i]*1.2)
	}
}

func TestWithinRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"fit -o a --within 0":                                     "--within 0 must be above 0, and at most 10",
		"fit -o a --within 0.1 --method parameters":               "--within is for --method exact, kept, nystrom or auto, not parameters",
		"fit -o a --certify":                                      "--certify is for --method kept, or exact with --within, not exact",
		"fit -o a --within 0.1 --method nystrom --tune-prior loo": "--within with --method nystrom is not for --tune-prior loo; give --method kept",
		"fit -o a --within 0.1 --method nystrom --checkpoint b":   "--checkpoint is for passes over all rows; leave --within out",
	} {
		require.Equal(t, "gpexplain: "+want+"\n", refuse(t, 2, strings.Fields(line)...), line)
	}
}
