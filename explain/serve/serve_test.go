package serve

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// posteriors and servers are those of their arguments, made once for all tests: neither changes. Tests run one after the
// other.
var (
	posteriors = map[string]*funcgp.Posterior{}
	services   = map[string]*service{}
)

// newPosterior fits the posterior that arguments of gpexplain serve ask for.
func newPosterior(t testing.TB, args ...string) *funcgp.Posterior {
	t.Helper()
	key := strings.Join(args, " ")
	if posteriors[key] == nil {
		posteriors[key] = fit(t, args...)
	}
	return posteriors[key]
}

// fit is newPosterior of one's own, which may be closed.
func fit(t testing.TB, args ...string) *funcgp.Posterior {
	t.Helper()
	var m funcgp.Model
	var d funcgp.Data
	var o funcgp.FitOptions
	f := flag.NewFlagSet("", flag.ContinueOnError)
	for name, to := range map[string]*string{"data": &d.Source, "test-data": &d.TestFile, "target": &d.Target, "id": &d.ID, "model": &m.File, "train-index": &d.TrainFile, "method": &o.Method.Name, "calibrate": &o.Calibrate} {
		f.StringVar(to, name, "", "")
	}
	f.Func("classes", "", func(list string) error { d.Classes = strings.Split(list, ","); return nil })
	f.Func("freeze", "", func(list string) error { m.Freeze = strings.Split(list, ","); return nil })
	f.IntVar(&d.TrainCount, "train-count", 0, "")
	f.IntVar(&o.Method.Inducing, "inducing", 0, "")
	f.BoolVar(&o.Refit, "refit", false, "")
	require.NoError(t, f.Parse(args))
	return testref.Must(funcgp.Fit(t.Context(), m, d, &o))(t)
}

// newServer serves that posterior.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s := NewServer(&Options{Failed: func(what string) { t.Errorf("a request panicked: %s", what) }})
	key := strings.Join(args, " ")
	if services[key] == nil {
		require.NoError(t, s.Ready(t.Context(), newPosterior(t, args...)))
		services[key] = s.service.Load()
	}
	s.service.Store(services[key])
	return s
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
			row := int(get[rows](b, s, "GET", "/v1/rows", "").Rows[0].Index)
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
	f := testref.Must(os.Create(model))(t)
	require.NoError(t, net.WriteONNX(f))
	require.NoError(t, f.Close())
	return []string{"--model", model, "--data", table, "--test-data", test, "--target", "class", "--id", "id"}
}

// The counts are in the text format of Prometheus: each metric has its help and type
// before its samples, buckets grow, and the last one is the count.
func TestMetrics(t *testing.T) {
	s := NewServer(nil)
	for range 3 {
		ask(s, "GET", "/healthz", "", "")
	}
	ask(s, "GET", "/%3Cb%3E%22%0A", "", "")
	ask(s, "POST", "/v1/predict", "", "")
	s.counts.add("/v1/predict", 200, 70*time.Millisecond)
	s.counts.add("/v1/predict", 200, time.Hour)
	w := ask(s, "GET", "/metrics", "", "")
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	text := w.Body.String()
	require.True(t, strings.HasSuffix(text, "\n"))
	sample := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? ([-+0-9.eE]+)$`)
	typed, values := map[string]string{}, map[string]float64{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if f := strings.Fields(line); f[0] == "#" {
			require.Contains(t, []string{"HELP", "TYPE"}, f[1])
			if f[1] == "TYPE" {
				require.NotContains(t, typed, f[2])
				typed[f[2]] = f[3]
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		name := m[1]
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && typed[base] == "histogram" {
				name = base
			}
		}
		require.Contains(t, typed, name, "samples come after the type")
		v, err := strconv.ParseFloat(m[4], 64)
		require.NoError(t, err)
		values[m[1]+m[2]] = v
	}
	require.EqualValues(t, 3, values[`gpexplain_requests_total{path="/healthz",code="200"}`])
	require.EqualValues(t, 1, values[`gpexplain_requests_total{path="other",code="404"}`])
	require.EqualValues(t, 1, values[`gpexplain_requests_total{path="/v1/predict",code="503"}`])
	require.EqualValues(t, 1, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="0.05"}`])
	require.EqualValues(t, 2, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="0.1"}`])
	require.EqualValues(t, 2, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="30"}`])
	require.EqualValues(t, 3, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="+Inf"}`])
	require.EqualValues(t, 3, values[`gpexplain_request_seconds_count{path="/v1/predict"}`])
	require.InDelta(t, 3600.07, values[`gpexplain_request_seconds_sum{path="/v1/predict"}`], .1)
	require.Contains(t, values, "gpexplain_ready")
}

// trainingNumbers are the numbers of the training rows in the file of the data.
func trainingNumbers(t testing.TB, p *funcgp.Posterior) []int {
	t.Helper()
	rows := testref.Must(p.TrainingRows(t.Context()))(t)
	list := make([]int, rows.Len())
	for i := range list {
		list[i] = rows.Index(i)
	}
	return list
}
