package serve

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize/network"
)

// fitted are the flags of the verb that fit a posterior.
type fitted struct {
	common      problem.Flags
	posterior   inference.Flags
	calibration inference.CalibrationFlags
}

// services are those of newService by their arguments. Tests run one after the other.
var services = map[string]*Service{}

// newService fits the posterior that the arguments of gpexplain serve ask for, once for
// all tests: a service does not change.
func newService(t testing.TB, args ...string) *Service {
	t.Helper()
	key := strings.Join(args, " ")
	if s := services[key]; s != nil {
		return s
	}
	con := console.New(args, io.Discard, io.Discard)
	var f fitted
	c := &cobra.Command{}
	flags.Problem(c, con, &f.common, true)
	flags.Method(c, &f.posterior)
	flags.Answer(c, &f.posterior)
	flags.Tune(c, &f.posterior)
	flags.Posterior(c, &f.posterior)
	flags.Calibration(c, &f.calibration)
	require.NoError(t, c.ParseFlags(args))
	require.NoError(t, flags.CheckProblem(c, &f.common))
	require.NoError(t, f.posterior.Check(c.Flags().Changed))
	con.Begin()
	p, err := problem.Open(t.Context(), con.Job, &f.common, f.posterior.File)
	require.NoError(t, err)
	q, err := inference.Answer(t.Context(), con.Job, p, &f.posterior, f.calibration.Method)
	require.NoError(t, err)
	rows := result.Rows{Index: p.Examples.Train.Rows, ID: p.Examples.Train.IDs, Classes: p.Task.Labels(), ClassNames: p.Task.Names, Label: problem.Labels(p.Examples.Train)}
	s, err := New(t.Context(), &Config{Problem: p, Posterior: q, Rows: rows, LabelName: func(rows *dataset.Subset, i int) string {
		if rows.Labels == nil {
			return ""
		}
		return p.Task.Name(rows.Labels[i])
	}})
	require.NoError(t, err)
	services[key] = s
	return s
}

// newServer serves that posterior.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	server := NewServer(&Limits{Failed: func(what string) { t.Errorf("a request panicked: %s", what) }})
	server.Ready(newService(t, args...))
	return server
}

// ask sends a request to a handler.
func ask(h http.Handler, method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answered asks for JSON that must come.
func get[T any](t testing.TB, h http.Handler, method, path, body string) T {
	t.Helper()
	w := ask(h, method, path, "application/json", body)
	require.Equal(t, 200, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var v T
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v))
	return v
}

func BenchmarkExplain(b *testing.B) {
	for _, n := range []int{300, 3000} {
		b.Run("N="+strconv.Itoa(n), func(b *testing.B) {
			s := newServer(b, "--data", "digits:16000,500", "--classes", "4,9", "--train-count", strconv.Itoa(n))
			row := get[Rows](b, s, "GET", "/v1/rows", "").Rows[0].Index
			for _, path := range []string{"/v1/predict", "/v1/explain"} {
				b.Run(path[4:], func(b *testing.B) {
					for b.Loop() {
						get[any](b, s, "POST", path, `{"row":`+strconv.Itoa(row)+`}`)
					}
				})
			}
		})
	}
}

// tableOfNames writes a table whose classes, rows and columns have names that contain
// one, trains a network on it, and returns the arguments that serve it.
func tableOfNames(t testing.TB, name string) []string {
	t.Helper()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	require.NoError(t, w.Write([]string{"id", "a " + name, "b", "class"}))
	for i := range 60 {
		class := []string{"no " + name, "yes " + name}[i%2]
		require.NoError(t, w.Write([]string{strconv.Itoa(i) + " " + name, strconv.Itoa(i%7 + 3*(i%2)), strconv.Itoa(i % 5), class}))
	}
	w.Flush()
	table := filepath.Join(t.TempDir(), "table.csv")
	require.NoError(t, os.WriteFile(table, b.Bytes(), 0o600))
	test := filepath.Join(t.TempDir(), "test.csv")
	require.NoError(t, os.WriteFile(test, b.Bytes(), 0o600))
	net, err := network.Sequential(network.Shape{2}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	model := filepath.Join(t.TempDir(), "net.onnx")
	f, err := os.Create(model)
	require.NoError(t, err)
	require.NoError(t, net.WriteONNX(f))
	require.NoError(t, f.Close())
	return []string{"--model", model, "--data", table, "--test-data", test, "--target", "class", "--id", "id"}
}
