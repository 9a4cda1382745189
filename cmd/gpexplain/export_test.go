package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testkit"
)

// exportedFile runs the verb with these flags and returns what it says and the file.
func exportedFile(t *testing.T, args ...string) (*result.Exported, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "explained.onnx")
	r := new(result.Exported)
	ran := gpexplain(t.Context(), append([]string{"export", "--json", "-o", path}, args...)...)
	require.Equal(t, 0, ran.code, ran.stderr)
	requireSchema(t, "export", ran.stdout)
	require.NoError(t, json.Unmarshal([]byte(ran.stdout), r))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, info.Size(), r.Bytes)
	return r, path
}

// TestExport compares the exported graph, run by this program's own reader, with its answers: for each network of the
// corpus, and each kind of posterior. The integral over several classes is that of other points.
func TestExport(t *testing.T) {
	check := func(t *testing.T, r *result.Exported, outputs ...string) {
		t.Helper()
		for _, name := range append(outputs, "mean", "covariance") {
			require.Contains(t, r.Errors, name)
		}
		for name, e := range r.Errors {
			limit := 1e-8
			if strings.HasPrefix(name, "probability") && slices.Contains(r.Outputs, "contrast") {
				limit = .002
			}
			require.LessOrEqual(t, float64(e), limit, "%s: %v", name, r.Errors)
			if limit < float64(r.Bounds[name]) {
				limit = float64(r.Bounds[name])
			}
			require.LessOrEqual(t, float64(r.FarErrors[name]), limit, "%s far from the data: %v", name, r.FarErrors)
		}
	}
	for _, name := range []string{"all-in-graph", "house-prices", "learnt-scale", "one-logit", "several-labels", "pictures-outside",
		"standardized-outside", "standardized-targets", "two-targets"} {
		t.Run(name, func(t *testing.T) {
			e := corpus(t, name)
			r, _ := exportedFile(t, slices.Concat(e.args(), e.decay())...)
			if e.Likelihood == "gaussian" {
				check(t, r, "function_sd", "observation_sd")
				return
			}
			check(t, r, "probability", "probability_sd")
		})
	}
	for _, args := range []string{"--method nystrom --inducing 20", "--method subset --inducing 30", "--method kept", "--refit",
		"--at stated", "--calibrate none", "--structure last-layer", "--structure subnetwork"} {
		t.Run(args, func(t *testing.T) {
			r, _ := exportedFile(t, append(strings.Fields(args), small("")[1:]...)...)
			check(t, r, "probability", "probability_sd")
			parameters := strings.HasPrefix(args, "--structure") // of which there is no novelty
			require.Equal(t, args != "--method kept" && !parameters, r.Terms == 10)
			require.Equal(t, !parameters, slices.Contains(r.Outputs, "novelty_rank"))
		})
	}
}

// TestExportRefuses: what has no such graph is refused, and says what has one.
func TestExportRefuses(t *testing.T) {
	out, ref := filepath.Join(t.TempDir(), "x.onnx"), openReference(t, "two-moons")
	for _, c := range []struct {
		code       int
		args, says string
	}{
		{2, "", "-o FILE is needed"},
		{2, "--top=-1 -o " + out, "--top"},
		{1, "--posterior x.gp -o " + out, "x.gp"},
		{1, "--method parameters -o " + out, "export is not for --method parameters; take exact, nystrom, subset or kept"},
		{2, "--structure kfac -o " + out, "--structure"},
		{1, "--structure full --refit -o " + out, "without --refit"},
		{1, "--method kept --refit -o " + out, "leave --refit out"},
	} {
		require.Contains(t, refuse(t, c.code, slices.Concat([]string{"export"}, strings.Fields(c.args), ref.args)...), c.says, c.args)
	}
	require.NoFileExists(t, out)
}

// TestExportRuns runs an exported graph by onnxruntime, where the environment names a folder with its package for Node,
// and compares terms and the rest with explain.
func TestExportRuns(t *testing.T) {
	if os.Getenv("FUNCGP_ONNXRUNTIME") == "" {
		t.Skip("FUNCGP_ONNXRUNTIME is not the folder of npm's onnxruntime-web")
	}
	args := small("")[1:]
	_, path := exportedFile(t, args...)
	var e struct {
		Prediction result.Prediction
		Outputs    []struct {
			Sum           float64 `json:"contribution_sum"`
			Contributions []struct {
				Index int
				Value float64
			}
		}
		Record struct{ Scored struct{ Input []float64 } }
	}
	require.NoError(t, json.Unmarshal([]byte(succeed(t, append([]string{"explain", "--json", "--index", "6"}, args...)...)), &e))
	x := mat.NewDense(1, len(e.Record.Scored.Input), e.Record.Scored.Input)
	x.Scale(255, x) // white is 1 there
	graph, err := os.ReadFile(path)
	require.NoError(t, err)
	got := testkit.Onnxruntime(t, graph, x)
	for i, v := range e.Prediction.Probability {
		require.InDelta(t, float64(v), got["probability"][i], 1e-10)
		require.InDelta(t, float64(e.Prediction.ProbabilitySD[i]), got["probability_sd"][i], 1e-10)
	}
	require.InDelta(t, float64(e.Prediction.Covariance[0][0]), got["covariance"][0], 1e-10)
	require.InDelta(t, float64(e.Prediction.Novelty.Score), got["novelty"][0], 1e-10)
	require.InDelta(t, float64(e.Prediction.Novelty.Rank), got["novelty_rank"][0], 1e-10)
	require.InDelta(t, e.Outputs[0].Sum, got["term_sum"][0], 1e-8)
	for i, term := range e.Outputs[0].Contributions {
		require.EqualValues(t, term.Index, got["term_row"][i])
		require.InDelta(t, term.Value, got["term"][i], 1e-9)
	}
}
