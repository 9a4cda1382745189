package protocols

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// quick runs a protocol at its reduced size and returns its page.
func quick(t *testing.T, o Options, dir, name string) string {
	t.Helper()
	path, err := reproduce.Run(t.Context(), io.Discard, reproduce.Find(All(&o), name), dir, &reproduce.Options{Quick: true}, reproduce.Part{})
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Every protocol runs at its reduced size, and its page has every method.
func TestProtocols(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; TestProtocolGoesOn runs the same code")
	}
	methods := []string{"random", "gradient dot", "gradient cosine", "TracIn", "TRAK", "EK-FAC", "representer points", "nearest neighbours",
		"contributions", "raw", "removal", "contributions at θ*", "removal at θ*", "removal along the training",
		"contributions at θ* along the training", "removal at θ* along the training"}
	for _, study := range All(&Options{Models: 1, Runs: 1}) {
		o, want := Options{Models: 1, Runs: 1}, methods
		switch study.Name {
		case "4-9":
			o = Options{Models: 2, Runs: 2}
		case "4-9-relu": // 4-9 but for the activation
			continue
		case "leave-one-out":
			o.Runs = 2
		case "brittleness":
			want = nil
			for _, k := range rankings {
				want = append(want, k.name)
			}
		}
		if study.Name == "mislabelled" {
			o.Models = 2
			want = append(want, "suggested label right")
		}
		dir := t.TempDir()
		page := quick(t, o, dir, study.Name)
		for _, text := range append(want, "gpstudies evaluate "+study.Name) {
			require.Contains(t, page, text)
		}
		require.NotContains(t, page, "NaN")
		if study.Name == "brittleness" {
			requireBrittleRefuses(t, &o, dir)
		}
	}
}

// A result that is gone is computed again, bit for bit, from the outputs that are kept.
func TestProtocolGoesOn(t *testing.T) {
	dir := t.TempDir()
	o := Options{Models: 1, Runs: 1, Dir: filepath.Join(dir, "retrained")}
	result := func(key string) string {
		text, err := os.ReadFile(filepath.Join(dir, "steps", "4-9."+key+".json"))
		require.NoError(t, err)
		var have struct{ Result json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &have))
		return string(have.Result)
	}
	quick(t, o, dir, "4-9")
	want := map[string]string{}
	for _, key := range []string{"run-0", "path-0", "model-0", "precision-3"} {
		want[key] = result(key)
		require.NoError(t, os.Remove(filepath.Join(dir, "steps", "4-9."+key+".json")))
	}
	files, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Len(t, files, 20)
	require.NoError(t, os.Remove(filepath.Join(o.Dir, files[3].Name())))
	quick(t, o, dir, "4-9")
	for key, text := range want {
		require.Equal(t, text, result(key), key)
	}
	files, err = os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Len(t, files, 20)
}

// Matrices keep every bit, and one of another size than its numbers is an error.
func TestMatrix(t *testing.T) {
	m := mat.NewDense(2, 3, []float64{0.1, -1e300, 3, 1. / 3, 0, 7})
	text, err := json.Marshal(keep(m))
	require.NoError(t, err)
	var have matrix
	require.NoError(t, json.Unmarshal(text, &have))
	got, err := have.dense()
	require.NoError(t, err)
	require.True(t, mat.Equal(m, got))
	have.Rows = 4
	_, err = have.dense()
	require.ErrorContains(t, err, "48 bytes for 4×3 numbers")
}

// The precision of the length of the training, by hand: 4-9 makes 50·15 steps of .01
// with momentum .9 on 1,000 rows, so δ = 1000·.1/(.01·750).
func TestPrecision(t *testing.T) {
	p := protocol{train: 1000, epochs: 50}
	require.InEpsilon(t, 100/7.5, p.precision(), 1e-12)
	require.InEpsilon(t, 200/7.5, p.halved(), 1e-12)
}

// The median counts rows that no size flips as larger than all, and their logarithm is
// that of twice the largest size.
func TestFlips(t *testing.T) {
	require.EqualValues(t, 5, median([]int{0, 5, 0, 2, 1}))
	require.EqualValues(t, 2, median([]int{0, 5, 2, 1}))
	require.True(t, math.IsNaN(median([]int{0, 0, 3})))
	require.InDeltaSlice(t, []float64{math.Log(7), math.Log(40)}, logSizes(&brittle{Flips: []int{7, 0}}, []int{1, 7, 20}), 1e-15)
	p := protocol{train: 40}
	require.Equal(t, []int{1, 2, 3, 5, 7, 10, 15, 20}, p.sizes())
	require.Equal(t, 1, p.percent())
}

// Scores of a row for itself, and of the others, by hand.
func TestSuspect(t *testing.T) {
	a := evaluate.Attribution{Name: "x", Scores: mat.NewDense(3, 3, []float64{1, 5, 5, 2, 9, -3, 4, 0, 2})}
	require.Equal(t, suspicion{"x", 1, 1}, suspect(a, []bool{false, true, false}))
	require.Equal(t, suspicion{"x", 0, 0}, suspect(a, []bool{true, false, false}))
	require.Equal(t, suspicion{"x", 0.5, 0.5}, suspect(a, []bool{false, false, true}))
}

// requireBrittleRefuses gives a result another test row: an error, not a table.
func requireBrittleRefuses(t *testing.T, o *Options, dir string) {
	t.Helper()
	path := filepath.Join(dir, "steps", "brittleness.removed-4.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var have map[string]any
	require.NoError(t, json.Unmarshal(text, &have))
	result := have["result"].(map[string]any)
	result["flips"] = append(result["flips"].([]any), 1)
	text, err = json.Marshal(have)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o666))
	_, err = reproduce.Run(t.Context(), io.Discard, reproduce.Find(All(o), "brittleness"), dir, &reproduce.Options{Quick: true}, reproduce.Part{})
	require.ErrorContains(t, err, "other test rows")
}
