package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
)

// The full posterior over the parameters predicts as function space does, at θ* and at
// the mode of the linearized model, and each structure and each way to predict answers
// for every row.
func TestPredictStructures(t *testing.T) {
	for _, name := range []string{"categorical", "poisson"} {
		ref := openReference(t, name)
		predict := func(args ...string) ([]prediction, predictSummary) {
			return predicted(t, ref.run(t, "predict", append([]string{"--json", "--calibrate", "none"}, args...)...))
		}
		for _, refit := range []string{"--refit=false", "--refit"} {
			want, wantSum := predict(refit)
			got, sum := predict(refit, "--structure", "full")
			require.Equal(t, "weights", sum.Fit.Method)
			require.Equal(t, "full", sum.Fit.Structure)
			require.Equal(t, wantSum.Fit.Refit, sum.Fit.Refit)
			require.InDelta(t, float64(wantSum.NLL), float64(sum.NLL), 1e-6, name+refit)
			require.InEpsilon(t, float64(wantSum.Fit.LogDet), float64(sum.Fit.LogDet), 1e-6)
			for i := range want {
				require.Equal(t, want[i].Class.Finite(), got[i].Class.Finite())
				if want[i].Class.Finite() {
					require.Equal(t, want[i].Class, got[i].Class)
				}
				for j := range want[i].Mean {
					require.InDelta(t, float64(want[i].Mean[j]), float64(got[i].Mean[j]), 1e-5)
					require.InDelta(t, float64(want[i].Covariance[j][0]), float64(got[i].Covariance[j][0]), 1e-5)
				}
			}
		}
		for _, structure := range option.Values("structure") {
			if structure == "full" {
				continue
			}
			rows, sum := predict("--structure", structure, "--index", "0,1")
			require.Equal(t, structure, sum.Fit.Structure)
			require.False(t, math.IsNaN(float64(sum.NLL)), structure)
			require.Len(t, rows[0].Mean, ref.c)
			if structure != "kfac" {
				continue
			}
			rows, sum = predict("--structure", structure, "--predictive", "bnn", "--samples", "20", "--seed", "3", "--index", "0")
			require.Equal(t, 20, sum.Fit.Draws)
			require.Equal(t, "bnn", sum.Fit.Predictive)
			again, _ := predict("--structure", structure, "--predictive", "bnn", "--samples", "20", "--seed", "3", "--index", "0")
			require.Equal(t, rows[0].Mean, again[0].Mean)
			other, _ := predict("--structure", structure, "--predictive", "bnn", "--samples", "20", "--seed", "4", "--index", "0")
			require.NotEqual(t, rows[0].Mean, other[0].Mean)
		}
	}
}

// Draws of the full posterior predict about as its linearization does where the posterior
// is narrow.
func TestPredictiveBNNOfNarrowPosterior(t *testing.T) {
	for _, name := range []string{"categorical", "snelson"} {
		ref := openReference(t, name)
		run := func(args ...string) ([]prediction, predictSummary) {
			return predicted(t, ref.run(t, "predict", append([]string{"--json", "--calibrate", "none", "--refit=false", "--quiet", "--prior-precision", "1e5"}, args...)...))
		}
		want, wantSum := run()
		got, sum := run("--predictive", "bnn", "--samples", "2000")
		require.Equal(t, "full", sum.Fit.Structure)
		require.InDelta(t, float64(wantSum.NLL), float64(sum.NLL), .01*math.Abs(float64(wantSum.NLL))+.01)
		for i := range want {
			for j, v := range want[i].Covariance[0] {
				require.InDelta(t, float64(v), float64(got[i].Covariance[0][j]), .2*float64(want[i].Covariance[0][0])+1e-12)
			}
			if want[i].ObservationSD != nil {
				require.InEpsilon(t, float64(want[i].ObservationSD[0]), float64(got[i].ObservationSD[0]), .02)
			}
		}
	}
}

// The closed form has the mean of the regression on the linearization: that of a refit,
// which for a Gaussian is one step.
func TestPredictiveLinear(t *testing.T) {
	ref := openReference(t, "snelson")
	run := func(args ...string) []prediction {
		rows, _ := predicted(t, ref.run(t, "predict", append([]string{"--json", "--calibrate", "none"}, args...)...))
		return rows
	}
	want, functions := run("--refit"), run("--refit=false", "--predictive", "linear")
	parameters := run("--predictive", "linear", "--structure", "full")
	for i := range want {
		require.InDelta(t, float64(want[i].Mean[0]), float64(functions[i].Mean[0]), 1e-6)
		require.InDelta(t, float64(want[i].Mean[0]), float64(parameters[i].Mean[0]), 1e-6)
		require.InDelta(t, float64(want[i].ObservationSD[0]), float64(parameters[i].ObservationSD[0]), 1e-6)
	}
	require.Contains(t, refuse(t, 1, append([]string{"predict", "--predictive", "linear", "--structure", "kfac"}, ref.args...)...), "give --structure full")
}

// Of classes and counts the closed form has the network's own mean, and the covariance to first order [thesis 3.16].
func TestThesis316PredictiveLinear(t *testing.T) {
	for _, name := range []string{"categorical", "two-moons", "poisson"} {
		ref := openReference(t, name)
		for _, structure := range []string{"", "diag"} {
			args := []string{"--json", "--calibrate", "none", "--predictive", "linear"}
			if structure != "" {
				args = append(args, "--structure", structure)
			}
			rows, sum := predicted(t, ref.run(t, "predict", args...))
			require.Equal(t, "linear", sum.Fit.Predictive)
			for _, r := range rows {
				if name == "poisson" {
					rate := math.Exp(float64(r.Mean[0]))
					require.InEpsilon(t, rate, float64(r.ObservationMean[0]), 1e-12)
					require.InEpsilon(t, math.Sqrt(rate+rate*rate*float64(r.Covariance[0][0])), float64(r.ObservationSD[0]), 1e-12)
					continue
				}
				require.Equal(t, r.MAPProbability, r.Probability)
				if name == "two-moons" {
					p := float64(r.Probability[1])
					require.InDelta(t, p*float64(r.Probability[0])*math.Sqrt(float64(r.Covariance[0][0])), float64(r.ProbabilitySD[1]), 1e-12)
				}
			}
			if name != "poisson" {
				require.InDelta(t, float64(sum.MAPNLL), float64(sum.NLL), 1e-12)
			}
		}
	}
}

// Held-out rows calibrate a posterior over the parameters, and give coverage.
func TestStructureHeldOut(t *testing.T) {
	rows, sum := predicted(t, succeed(t, small("predict", "--json", "--structure", "kfac", "--calibrate", "heldout", "--coverage", "0.9")...))
	require.Equal(t, "heldout", sum.Fit.Calibration.Method)
	require.Positive(t, float64(sum.Fit.Calibration.Scale))
	require.InDelta(t, .9, float64(sum.Coverage.Measured), .1)
	require.NotNil(t, rows[0].Set)
}

// The text says where the answers come from, and does not call them calibrated.
func TestStructureText(t *testing.T) {
	r := gpexplain(t.Context(), small("predict", "--structure", "diag", "--predictive", "bnn", "--samples", "20")...)
	require.Zero(t, r.code, r.stderr)
	text := strings.Join(strings.Fields(r.stderr), " ")
	require.Contains(t, text, "The posterior is over the parameters, with the structure diag and 20 draws of networks.")
	require.Contains(t, text, "Averaged predictions are")
	require.NotContains(t, text, "alibrated")
}

func TestStructureRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"--structure band":                                      "must be full, diag,",
		"--predictive exact":                                    "must be glm, bnn or linear",
		"--structure diag --method nystrom":                     "--method is for posteriors over functions",
		"--structure diag --tune-prior loo":                     "--tune-prior is for posteriors over functions",
		"--structure diag --calibrate loo":                      "give --calibrate heldout or none",
		"--structure diag --coverage 0.9":                       "give --calibrate heldout too",
		"--predictive bnn --calibrate heldout":                  "leave one of them out",
		"--predictive bnn --link mc":                            "--link is for --predictive glm",
		"--predictive bnn --posterior x":                        "cannot be given with --posterior",
		"--structure diag --posterior x":                        "--posterior is for posteriors over functions",
		"--predictive linear --likelihood heteroscedastic":      "is not for the heteroscedastic likelihood",
		"--structure full --samples 10":                         "--samples is for --link mc, --predictive bnn, --latent or --decoder",
		"--predictive bnn --structure last-layer --inducing 10": "--inducing is for posteriors over functions",
	} {
		require.Contains(t, refuse(t, 2, append([]string{"predict"}, strings.Fields(args)...)...), want, args)
	}
}
