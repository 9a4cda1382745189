package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// schemas are those that were read.
var schemas = map[string]*jsonschema.Schema{}

// requireSchema checks a JSON object against doc/schema/NAME.json, which knows every
// member, and that it is on one line.
func requireSchema(t testing.TB, name, text string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, "\n"), "one object on one line")
	s := schemas[name]
	if s == nil {
		var err error
		s, err = jsonschema.NewCompiler().Compile(filepath.Join(repository, "doc", "schema", name+".json"))
		require.NoError(t, err)
		schemas[name] = s
	}
	v := testref.Must(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
	require.NoError(t, s.Validate(v), "doc/schema/%s.json; where a member is new, describe it there and run go test ./doc/schema -update", name)
}

// requirePredictions checks the output of predict --json.
func requirePredictions(t testing.TB, text string) {
	t.Helper()
	lines := slices.Collect(strings.Lines(text))
	for _, row := range lines[:len(lines)-1] {
		requireSchema(t, "predict-row", row)
	}
	requireSchema(t, "predict-summary", lines[len(lines)-1])
}

// The JSON of every verb is what doc/schema says, for every method and likelihood: that of fit in
// TestFitJSON, and from a file in TestSavedPosterior, which finds the same text.
func TestSchemas(t *testing.T) {
	testref.Long(t, "many whole commands")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	methods := [][]string{nil, {"--method", "subset", "--inducing", "20"}, {"--method", "nystrom", "--inducing", "20"}, fewParameters}
	for _, m := range methods {
		for _, verb := range []string{"explain", "importances", "evidence"} {
			requireSchema(t, verb, succeed(t, small(verb, append(m, "--json")...)...))
		}
		requirePredictions(t, succeed(t, small("predict", append(m, "--json", "--quiet")...)...))
	}
	for _, tune := range []string{"loo", "evidence", "heldout"} {
		requireSchema(t, "fit", succeed(t, "fit", "--data", "digits:400,100", "--train-count", "20", "--json", "--quiet", "-o", file("tuned.gp"), "--tune-prior", tune))
	}
	for _, how := range []string{"none", "heldout"} {
		requirePredictions(t, succeed(t, small("predict", "--json", "--quiet", "--calibrate", how)...))
		requireSchema(t, "explain", succeed(t, small("explain", "--json", "--calibrate", how)...))
	}
	requirePredictions(t, succeed(t, small("predict", "--json", "--quiet", "--coverage", ".8")...))
	requirePredictions(t, succeed(t, small("predict", "--json", "--quiet", "--structure", "diag", "--calibrate", "heldout")...))
	requirePredictions(t, succeed(t, small("predict", "--json", "--quiet", "--structure", "kfac", "--predictive", "bnn", "--samples", "20")...))
	for _, m := range methods[:3:3] {
		requireSchema(t, "validate", succeed(t, small("validate", append(m, "--json", "--freeze", "Dense1.weight")...)...))
	}
	requireSchema(t, "train", succeed(t, "train", "--json", "--data", "digits:100,20", "--arch", "mlp:3-10", "--epochs", "1", "--lbfgs", "1", "--out", file("net.onnx")))
	requireSchema(t, "inspect", succeed(t, "inspect", "--json"))
	requireSchema(t, "operators", succeed(t, "inspect", "--operators", "--json"))
	requireSchema(t, "version", succeed(t, "version", "--json"))
}

// The same for several classes, regressions and counts, and for networks that other
// programs exported.
func TestSchemasOfReferences(t *testing.T) {
	testref.Long(t, "many whole commands")
	for _, name := range toys {
		ref := openReference(t, name)
		ref.writeTest(t, 4)
		for _, verb := range []string{"explain", "importances", "evidence", "validate"} {
			if verb == "validate" && name == "two-moons" {
				continue // TestSchemas has it of two classes
			}
			requireSchema(t, verb, ref.run(t, verb, "--json"))
		}
		requirePredictions(t, ref.run(t, "predict", "--json", "--quiet", "--coverage", ".9"))
		requirePredictions(t, ref.run(t, "predict", "--json", "--quiet", "--predictive", "bnn", "--samples", "20"))
		requireSchema(t, "explain", ref.run(t, "explain", "--json", "--without", "3,5"))
		if ref.c > 1 {
			requireSchema(t, "explain", ref.run(t, "explain", "--json", "--contrast", "0,1"))
		}
		one := bytes.SplitAfter([]byte(read(t, ref.test)), []byte("\n"))
		row := write(t, filepath.Join(t.TempDir(), "row.csv"), slices.Concat(one[0], one[1]))
		requireSchema(t, "explain", ref.run(t, "explain", "--json", "--input", row))
	}
	for _, name := range testref.References(t) {
		model := write(t, filepath.Join(t.TempDir(), "model.onnx"), testref.Open(t, name).Model(t))
		requireSchema(t, "inspect", succeed(t, "inspect", "--json", "--model", model))
	}
}

// The same for tables with names, units and IDs, and for rows without a target, from a
// table and from pictures.
func TestSchemasOfExports(t *testing.T) {
	testref.Long(t, "many whole commands")
	for name, args := range map[string][]string{
		"string-labels": {"--id", "id", "--data", "train.csv", "--test-data", "test.csv"},
		"house-prices":  {"--id", "id", "--data", "train.csv", "--test-data", "test.csv"},
	} {
		t.Chdir(filepath.Join(repository, "testdata", "corpus", name))
		args = append(args, "--json", "--quiet", "--model", "model.onnx", "--weight-decay", "2e-3")
		run := func(verb string, more ...string) string {
			return gpexplain(t.Context(), slices.Concat([]string{verb}, args, more)...).stdout
		}
		for line := range strings.Lines(run("explain", "--index", "1,3")) {
			requireSchema(t, "explain", line)
		}
		requirePredictions(t, run("predict"))
		requireSchema(t, "importances", run("importances"))
		requireSchema(t, "evidence", run("evidence"))
		requireSchema(t, "fit", run("fit", "-o", filepath.Join(t.TempDir(), "a.gp")))
		requirePredictions(t, run("predict", "--input", "test.csv"))
		for line := range strings.Lines(run("explain", "--input", "test.csv")) {
			requireSchema(t, "explain", line)
		}
	}
	t.Chdir(filepath.Join(repository, "testdata", "corpus", "photo"))
	args := []string{"--json", "--quiet", "--model", "model.onnx", "--data", ".", "--weight-decay", "2e-3", "--input"}
	requireSchema(t, "explain", succeed(t, append(append([]string{"explain"}, args...), "ring.jpg")...))
	requirePredictions(t, succeed(t, append(append([]string{"predict"}, args...), ".")...))
}
