package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// A network that was trained on the data with the prior raises no alarm: the built-in
// one, and those of the references.
func TestNoFalseAlarm(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a.gp")
	require.Equal(t, "ok", decode[result.Saved](t, succeed(t, "fit", "--json", "--strict", "-o", out)).Fit.Preflight.Verdict)
	for _, name := range toys {
		r := decode[result.Evidence](t, openReference(t, name).run(t, "evidence", "--json"))
		require.Equal(t, "ok", r.Preflight.Verdict, name)
	}
}

// A mistake raises its alarm with the flags that mend it: at once on standard error, in JSON, and
// first in the text. With --strict it ends the command, before the work. TestCorpusMistakes has the
// other mistakes.
func TestAlarms(t *testing.T) {
	args := openExported(t, "standardized-targets").args("explain", "--weight-decay", "0.0001", "--target-mean", "0", "--target-sd", "1")
	const want = "it was trained on scaled targets and with inputs standardized by the training rows. Give --standardize yes --target-mean 3.5161 --target-sd 0.116502."
	r := gpexplain(t.Context(), append(args, "--json")...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stderr, "gpexplain: warning: ")
	require.Contains(t, r.stderr, want)
	fit := decode[result.Report](t, r.stdout).Fit
	require.Equal(t, "warning", fit.Preflight.Verdict)
	require.Contains(t, fmt.Sprint(fit.Warnings), want)
	text := gpexplain(t.Context(), append(args, "--quiet")...)
	require.Empty(t, text.stderr)
	require.True(t, strings.HasPrefix(text.stdout, "WARNING: "), text.stdout)
	require.Contains(t, refuse(t, 1, append(args, "--strict", "--quiet")...), "gpexplain: --strict: ")
}

// Networks for real digits, one class an output or one output, raise none either: their inputs,
// pixels from 0 to 1, are found by themselves.
func TestNoFalseAlarmOnMNIST(t *testing.T) {
	testref.Long(t, "reads MNIST twice; run without -short")
	data := testref.MNIST(t)
	for name, classes := range map[string]string{"thesis-cnn": "4,9", "mnist10-mlp": "0,1,2,3,4,5,6,7,8,9"} {
		ref, dir := testref.Open(t, name), t.TempDir()
		model := write(t, filepath.Join(dir, "net.onnx"), ref.Model(t))
		r := decode[result.Evidence](t, succeed(t, "evidence", "--json", "--quiet", "--strict", "--method", "subset", "--inducing", "5",
			"--model", model, "--data", data, "--classes", classes, "--prior-precision", ref.Meta("delta"), "--train-index", write(t, filepath.Join(dir, "train.txt"), lines(ref.Ints("train_index")))))
		require.Equal(t, "ok", r.Preflight.Verdict, name)
		require.Equal(t, "pixels from 0 to 1", r.Preprocessing.Inputs, name)
		require.InDelta(t, 1, float64(r.Preflight.LargestInput), 1e-12)
	}
}

// A posterior of some of the rows of a training is said to be one.
func TestFewerRows(t *testing.T) {
	report := func(args ...string) *linearize.Warning {
		_, summary := linesOf[prediction](t, succeed(t, append([]string{"predict", "--json", "--quiet", "--index", "6"}, args...)...))
		return linearize.FindWarning(summary.Fit.Warnings, "fewer-rows")
	}
	require.Nil(t, report())
	w := report("--train-count", "120")
	require.Equal(t, [2]float64{120, 1500}, [2]float64{w.Value, w.Limit})
	require.Nil(t, report("--train-count", "1510", "--method", "subset", "--inducing", "20"), "with rows that it was not trained on")
}
