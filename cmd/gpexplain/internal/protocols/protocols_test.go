package protocols

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/reproduce"
)

// quick runs a protocol at its reduced size and returns its page.
func quick(t *testing.T, o Options, dir, name string) string {
	t.Helper()
	var out, messages bytes.Buffer
	con := console.New(nil, &out, &messages)
	con.Begin()
	path, err := reproduce.Run(t.Context(), con, reproduce.Find(All(&o), name), dir, &reproduce.Options{Quick: true}, reproduce.Part{})
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
		case "4-9", "leave-one-out":
			o = Options{Models: 2, Runs: 2}
		case "brittleness":
			want = nil
			for _, k := range rankings {
				want = append(want, k.name)
			}
		}
		page := quick(t, o, t.TempDir(), study.Name)
		for _, text := range append(want, "gpexplain evaluate "+study.Name) {
			require.Contains(t, page, text)
		}
		require.NotContains(t, page, "NaN")
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
