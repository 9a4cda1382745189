package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestTargetsInUnits checks that results do not depend on the units in which the targets
// were standardized, but for the units of the results: volts and millivolts.
func TestTargetsInUnits(t *testing.T) {
	e := corpus(t, "standardized-targets")
	mv := t.TempDir()
	for _, part := range []string{e.Train, e.Test} {
		lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(e.dir, part)))), "\n")
		for i, line := range lines[1:] {
			at := strings.LastIndex(line, ",") + 1
			v := testref.Must(strconv.ParseFloat(line[at:], 64))(t)
			lines[i+1] = line[:at] + strconv.FormatFloat(1000*v, 'g', -1, 64)
		}
		write(t, filepath.Join(mv, part), []byte(strings.Join(lines, "\n")+"\n"))
	}
	run := func(dir string, unit float64) *result.Report {
		args := []string{"explain", "--json", "--model", filepath.Join(e.dir, "model.onnx"), "--data", filepath.Join(dir, e.Train), "--test-data", filepath.Join(dir, e.Test), "--standardize", "yes",
			"--weight-decay", "1e-4", "--target-mean", strconv.FormatFloat(unit*e.TargetMean[0], 'g', -1, 64), "--target-sd", strconv.FormatFloat(unit*e.TargetSD[0], 'g', -1, 64)}
		r := decode[result.Report](t, succeed(t, args...))
		return &r
	}
	volts, milli := run(e.dir, 1), run(mv, 1000)
	near := func(want, got result.Float, what string) {
		t.Helper()
		require.InEpsilon(t, float64(want), float64(got), 1e-7, what)
	}
	a, b := volts.Outputs[0], milli.Outputs[0]
	near(1000*a.Network, b.Network, "network")
	near(1000*a.PriorMean, b.PriorMean, "prior mean")
	near(1000*a.ContributionSum, b.ContributionSum, "sum")
	for i := range a.Contributions {
		x, y := a.Contributions[i], b.Contributions[i]
		require.Equal(t, x.Index, y.Index)
		near(1000*x.Value, y.Value, "contribution")
		near(1000*x.Removal, y.Removal, "removal")
		near(x.Similarity, y.Similarity, "similarity")
		near(1000*x.Label, y.Label, "label")
	}
	p, q := volts.Prediction, milli.Prediction
	near(1000*p.Mean[0], q.Mean[0], "mean")
	near(1e6*p.Covariance[0][0], q.Covariance[0][0], "covariance")
	near(1000*p.ObservationSD[0], q.ObservationSD[0], "deviation of an observation")
	near(1000*p.FunctionSD[0], q.FunctionSD[0], "deviation of the function")
	f, g := volts.Fit, milli.Fit
	near(f.PriorPrecision, g.PriorPrecision, "precision")
	near(1e6**f.NoiseVariance, *g.NoiseVariance, "noise")
	near(1000**f.Preflight.TrainRMSE, *g.Preflight.TrainRMSE, "RMSE")
	n := float64(f.Examples)
	near(f.LogEvidence-result.Float(n*math.Log(1000)), g.LogEvidence, "evidence: a density a millivolt")
	near(f.LogDet, g.LogDet, "log det")
	near(f.Calibration.Scale, g.Calibration.Scale, "calibration")
	near(f.Calibration.LOO.NLL+result.Float(math.Log(1000)), g.Calibration.LOO.NLL, "NLL")
}

// TestTrainOnStandardizedTargets checks that a network trained on standardized targets is
// that of the same search on targets standardized in the file, and that its metadata bring
// answers back to the units of the data without a flag.
func TestTrainOnStandardizedTargets(t *testing.T) {
	e, dir := corpus(t, "house-prices"), t.TempDir()
	lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(e.dir, e.Train)))), "\n")
	header := strings.Join(strings.Split(lines[0], ",")[1:], ",") // without the names of rows
	raw, scaled := []string{header}, []string{header}
	for _, line := range lines[1:] {
		_, line, _ = strings.Cut(line, ",")
		at := strings.LastIndex(line, ",") + 1
		v := testref.Must(strconv.ParseFloat(line[at:], 64))(t)
		raw = append(raw, line)
		scaled = append(scaled, line[:at]+strconv.FormatFloat((v-e.TargetMean[0])/e.TargetSD[0], 'g', -1, 64))
	}
	train := func(name string, rows []string, noise float64, args ...string) (string, string, trainReport) {
		data, model := filepath.Join(dir, name+".csv"), filepath.Join(dir, name+".onnx")
		write(t, data, []byte(strings.Join(rows, "\n")+"\n"))
		text := succeed(t, append([]string{"train", "--json", "--data", data, "--likelihood", "gaussian", "--arch", "mlp:6-1", "--activation", "tanh", "--epochs", "5", "--lbfgs", "500",
			"--noise-variance", strconv.FormatFloat(noise, 'g', -1, 64), "--out", model}, args...)...)
		return data, model, decode[trainReport](t, text)
	}
	mean, sd := strconv.FormatFloat(e.TargetMean[0], 'g', -1, 64), strconv.FormatFloat(e.TargetSD[0], 'g', -1, 64)
	data, model, got := train("raw", raw, 0.05*e.TargetSD[0]*e.TargetSD[0], "--target-mean", mean, "--target-sd", sd)
	_, _, want := train("scaled", scaled, 0.05)
	require.InEpsilon(t, float64(want.TrainNLL)+math.Log(e.TargetSD[0]), float64(got.TrainNLL), 1e-4)
	meta := decode[result.Inspection](t, succeed(t, "inspect", "--json", "--model", model)).Metadata
	require.Equal(t, mean+";"+sd, meta["funcgp.target_scaling"])
	r := decode[result.Report](t, succeed(t, "explain", "--json", "--calibrate", "none", "--model", model, "--data", data, "--test-data", data, "--index", "3"))
	require.InDelta(t, float64(r.Input.Label), float64(r.Prediction.Mean[0]), e.TargetSD[0])
	require.Greater(t, float64(r.Outputs[0].PriorMean), 1e4)
	require.Equal(t, "ok", r.Fit.Preflight.Verdict, r.Fit.Warnings)
	require.Contains(t, r.Fit.Preprocessing.Targets, "results are in the units of the data")
	require.InEpsilon(t, float64(got.TrainNLL), float64(r.Fit.Preflight.TrainNLL), 1e-9)
}

// TestScalingFlags checks the flags that say how inputs and targets were scaled.
func TestScalingFlags(t *testing.T) {
	e := corpus(t, "standardized-outside")
	auto, _ := predictions(t, append(e.args(), e.decay()...)...)
	list := func(v []float64) string {
		out := make([]string, len(v))
		for i, x := range v {
			out[i] = strconv.FormatFloat(x, 'g', -1, 64)
		}
		return strings.Join(out, ",")
	}
	both := testref.Must(json.Marshal(map[string][]float64{"mean": e.InputMean, "sd": e.InputSD}))(t)
	file := write(t, filepath.Join(t.TempDir(), "scaling.json"), both)
	for _, flags := range [][]string{{"--standardize", "yes"}, {"--input-mean", list(e.InputMean), "--input-sd", list(e.InputSD)}, {"--input-mean", file}, {"--input-sd", file}, {"--input-mean", file, "--input-sd", list(e.InputSD)}} {
		args := append(append([]string{"predict", "--json"}, e.args()...), append(e.decay(), flags...)...)
		lines := strings.Split(strings.TrimSpace(succeed(t, args...)), "\n")
		for i := range auto {
			got := decode[prediction](t, lines[i])
			for k := range got.Mean {
				require.InDelta(t, float64(auto[i].Mean[k]), float64(got.Mean[k]), 1e-9)
			}
		}
	}
	for want, flags := range map[string][]string{
		"--standardize": {"--standardize", "maybe"},
		"--standardize no and --input-mean exclude": {"--standardize", "no", "--input-mean", "1"},
		"neither a list of numbers":                 {"--input-mean", "a,b"},
		"--input-sd is empty":                       {"--input-sd", ""},
		"deviation 0 is 0":                          {"--input-sd", "0"},
		"2 means but 3 deviations":                  {"--input-mean", "1,2", "--input-sd", "1,2,3"},
		"mean 0 is NaN":                             {"--target-mean", "NaN"},
	} {
		require.Contains(t, refuse(t, 2, append(append([]string{"predict"}, e.args()...), flags...)...), want)
	}
	for want, flags := range map[string][]string{
		"3 means and deviations, but the data have 4 columns": {"--input-mean", "1,2,3"},
		"none.json": {"--input-mean", "none.json"},
		"standardized targets are for the gaussian likelihood": {"--target-sd", "2"},
	} {
		require.Contains(t, refuse(t, 1, append(append([]string{"predict"}, e.args()...), flags...)...), want)
	}
}
