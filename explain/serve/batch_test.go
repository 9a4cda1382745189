package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/testref"
)

// numbersOf are the inputs of the first test rows as a request gives them, N×D.
func numbersOf(t testing.TB, s *Server, n int) (list [][]float64) {
	t.Helper()
	v := s.service.Load()
	for _, at := range v.tests.Pos[:n] {
		var row []float64
		if v.problem.Examples.Data.Images() {
			img := testref.Must(v.tests.Set.ReadImage(t.Context(), at))(t)
			for _, p := range img {
				row = append(row, float64(p))
			}
		} else {
			x := testref.Must(v.tests.Set.Read(t.Context(), []int{at}))(t)
			row = append(row, x.RawRowView(0)...)
		}
		list = append(list, row)
	}
	return list
}

// array is a .npy file of rows.
func array(t testing.TB, rows [][]float64) string {
	t.Helper()
	var b bytes.Buffer
	var all []float64
	for _, r := range rows {
		all = append(all, r...)
	}
	require.NoError(t, npy.Write(&b, all, len(rows), len(rows[0])))
	return b.String()
}

// Several rows are answered as Posterior.Predict answers them, to the last bit, and as one at a time up to rounding; as
// JSON and as an array, given either way.
func TestBatches(t *testing.T) {
	for name, args := range map[string][]string{"digits": digits(), "words": corpus("string-labels", "--id", "id"), "targets": corpus("two-targets", "--target", "voltage,power")} {
		t.Run(name, func(t *testing.T) {
			s, p := newServer(t, args...), newPosterior(t, args...)
			rows := numbersOf(t, s, 9)
			got := get[predictions](t, s, "POST", "/v1/predict", marshal(t, map[string]any{"rows": rows}))
			require.Len(t, got.Predictions, len(rows))
			x := mat.NewDense(len(rows), len(rows[0]), nil)
			for i, r := range rows {
				x.SetRow(i, r)
			}
			own := testref.Must(p.Rows(t.Context(), x))(t)
			want := testref.Must(p.Predict(t.Context(), own))(t)
			for i, r := range rows {
				require.Equal(t, marshal(t, want[i].Mean), marshal(t, got.Predictions[i].Mean))
				require.Equal(t, marshal(t, want[i].Novelty), marshal(t, got.Predictions[i].Novelty))
				one := get[prediction](t, s, "POST", "/v1/predict", marshal(t, map[string]any{"values": r})).Prediction
				require.Equal(t, marshal(t, one.Class), marshal(t, got.Predictions[i].Class))
				for k := range one.Mean {
					require.InDelta(t, float64(one.Mean[k]), float64(got.Predictions[i].Mean[k]), 1e-10)
					require.InEpsilon(t, float64(one.Covariance[k][k]), float64(got.Predictions[i].Covariance[k][k]), 1e-8)
				}
			}
			if name != "digits" { // whose numbers in an array are as the network takes them
				w := ask(s, "POST", "/v1/predict", npyType, array(t, rows))
				require.Equal(t, marshal(t, got)+"\n", w.Body.String())
			}
			r := httptest.NewRequest("POST", "http://localhost/v1/predict", strings.NewReader(marshal(t, map[string]any{"rows": rows})))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", npyType)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, 200, w.Code)
			require.Equal(t, npyType, w.Header().Get("Content-Type"))
			a := testref.Must(npy.Read(w.Body, 0))(t)
			require.Equal(t, len(rows), a.Shape[0])
			for i, one := range got.Predictions {
				numbers := append(append(one.Probability, one.ObservationMean...), one.ObservationSD...)
				require.Len(t, numbers, a.Shape[1])
				for k, v := range numbers {
					require.Equal(t, float64(v), a.Float(i*a.Shape[1]+k))
				}
			}
		})
	}
}

// What is no list of rows is refused, and so are too many.
func TestBatchesRefuse(t *testing.T) {
	s := newServer(t, corpus("string-labels", "--id", "id")...)
	row := marshal(t, numbersOf(t, s, 1)[0])
	many := array(t, ones(1001, len(numbersOf(t, s, 1)[0])))
	for _, body := range []string{`{"rows":1}`, `{"rows":[]}`, `{"rows":[1]}`, `{"rows":[[]]}`, `{"rows":[[1,2]]}`, `{"rows":[[1,2,3,4,5]]}`, `{"rows":[[1,2,3,null]]}`, `{"rows":[[1,2,3,"4"]]}`, `{"rows":[[1,2,3,[4]]]}`,
		`{"rows":[` + row + strings.Repeat(","+row, 1000) + `]}`} {
		refused(t, ask(s, "POST", "/v1/predict", "application/json", body), 422, "1 to 1000 rows, each a list of 4 numbers")
	}
	for _, body := range []string{`{"rows":[[1,2,3,4]}`, `{"rows":[[1,2,3,1e999]]}`, `{"rows":[[1,2,3,4]`} {
		refused(t, ask(s, "POST", "/v1/predict", "application/json", body), 400, "not the JSON")
	}
	refused(t, ask(s, "POST", "/v1/predict", "application/json", `{"rows":[`+row+`],"row":1}`), 422, "names 2 inputs")
	refused(t, ask(s, "POST", "/v1/explain", "application/json", `{"rows":[`+row+`]}`), 422, "ask about one")
	refused(t, ask(s, "POST", "/v1/predict", npyType, many), 422, "at most 1000")
	refused(t, ask(s, "POST", "/v1/predict", npyType, array(t, ones(100_000, 4))), 422, "at most 1000")
	refused(t, ask(s, "POST", "/v1/predict", npyType, many[:200]), 422, "")
	refused(t, ask(s, "POST", "/v1/predict", npyType, "PK\x03\x04"), 422, "no .npy file")
	refused(t, ask(s, "POST", "/v1/predict", "application/octet-stream", "1,2,3,4"), 422, "no .npy file")
	refused(t, ask(s, "POST", "/v1/predict", npyType, array(t, ones(3, 3))), 422, "an input has 4 numbers")
}

// ones are n rows of d ones.
func ones(n, d int) [][]float64 {
	list := make([][]float64, n)
	for i := range list {
		list[i] = make([]float64, d)
		for j := range list[i] {
			list[i][j] = 1
		}
	}
	return list
}

// A broken is a writer that fails after n bytes while it is broken.
type broken struct {
	bytes.Buffer
	is bool
}

// Write implements io.Writer.
func (b *broken) Write(p []byte) (int, error) {
	if b.is {
		n, _ := b.Buffer.Write(p[:10])
		return n, errors.New("the disk is full")
	}
	return b.Buffer.Write(p)
}

// Each answer is in the log before it is given, with the rows as they were scored and what it comes from. What cannot be
// logged is not given, and a line that was not written to its end does not spoil the next one.
func TestDecisions(t *testing.T) {
	log := &broken{}
	p := newPosterior(t, corpus("string-labels", "--id", "id")...)
	h := testref.Must(Handler(t.Context(), p, &Options{Decisions: log}))(t)
	rows := numbersOf(t, h.(*Server), 3)
	lines := func() (list []map[string]json.RawMessage) {
		for line := range strings.SplitSeq(strings.TrimSuffix(log.String(), "\n"), "\n") {
			var one map[string]json.RawMessage
			if json.Unmarshal([]byte(line), &one) == nil {
				list = append(list, one)
			}
		}
		return list
	}
	from := testref.Must(inference.Behind(p).Problem.Record(t.Context(), ""))(t)
	for i, body := range []string{marshal(t, map[string]any{"rows": rows}), marshal(t, map[string]any{"values": rows[0]}), `{"row":0,"without":[3]}`} {
		path := []string{"/v1/predict", "/v1/predict", "/v1/explain"}[i]
		refused(t, ask(h, "POST", path, "application/json", `{}`), 422, "")
		w := ask(h, "POST", path, "application/json", body)
		require.Equal(t, 200, w.Code, w.Body)
		list := lines()
		require.Len(t, list, i+1, "a refusal is no answer")
		last := list[i]
		require.JSONEq(t, w.Body.String(), string(last["answer"]))
		require.Equal(t, `"`+path+`"`, string(last["path"]))
		require.Equal(t, `"`+from.ModelSHA256+`"`, string(last["model_sha256"]))
		require.JSONEq(t, marshal(t, from.DataSHA256), string(last["data_sha256"]))
		require.Len(t, from.DataSHA256, 2)
		require.NotContains(t, last, "posterior_sha256", "it was fitted")
		require.Regexp(t, `^"20`, string(last["date"]))
		var again []float64
		if i > 0 {
			rows = rows[:1]
		}
		require.JSONEq(t, marshal(t, rows), string(last["input"]))
		require.NoError(t, json.Unmarshal([]byte(string(last["input"])[1:len(marshal(t, rows[0]))+1]), &again))
		require.Equal(t, rows[0], again)
	}
	log.is = true
	for range 2 {
		w := ask(h, "POST", "/v1/predict", "application/json", `{"row":0}`)
		require.NotContains(t, w.Body.String(), "probability")
		refused(t, w, 500, "the disk is full")
	}
	log.is = false
	require.Equal(t, 200, ask(h, "POST", "/v1/predict", "application/json", `{"row":0}`).Code)
	require.Len(t, lines(), 4)
}

// While 16 clients ask, the posterior is replaced and the one before closed: every answer is one of either posterior,
// none is refused, and after the last Close all are.
func TestHotReload(t *testing.T) {
	args := corpus("string-labels", "--id", "id")
	var bodies, first, second []string
	one, two := newServer(t, args...), newServer(t, append(args, "--calibrate", "none")...)
	for i, row := range numbersOf(t, one, 4) {
		bodies = append(bodies, marshal(t, map[string]any{"rows": [][]float64{row}}))
		first = append(first, ask(one, "POST", "/v1/predict", "application/json", bodies[i]).Body.String())
		second = append(second, ask(two, "POST", "/v1/predict", "application/json", bodies[i]).Body.String())
		require.NotEqual(t, first[i], second[i])
	}
	open := func(i int) *funcgp.Posterior { // each with a lock of its own
		b := inference.Behind(newPosterior(t, append(args, [][]string{nil, {"--calibrate", "none"}}[i%2]...)...))
		return inference.Front(b.Job, b.Problem, b.Posterior).(*funcgp.Posterior)
	}
	var others []*funcgp.Posterior // made before the clients take the processors
	for i := range 6 {
		others = append(others, open(i+1))
	}
	s, old := NewServer(&Options{Hosts: []string{"*"}, Running: 4, Waiting: 100}), open(0)
	require.NoError(t, s.Ready(t.Context(), old))
	mux := http.NewServeMux()
	mux.Handle("/loans/", http.StripPrefix("/loans", s))
	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(body string) (int, string) {
		r, err := server.Client().Post(server.URL+"/loans/v1/predict", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		return r.StatusCode, b.String()
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var answers atomic.Int64
	for k := range 16 {
		all.Go(func() {
			for i := k; ctx.Err() == nil; i++ {
				at := i % len(bodies)
				if status, text := post(bodies[at]); status != 200 || text != first[at] && text != second[at] {
					t.Errorf("%d: %s", status, text)
					return
				}
				answers.Add(1)
			}
		})
	}
	for _, next := range others {
		require.NoError(t, s.Ready(t.Context(), next))
		require.NoError(t, old.Close())
		old = next
		for was := answers.Load(); answers.Load() < was+8 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	stop()
	all.Wait()
	require.NoError(t, old.Close())
	for _, path := range []string{"/loans/v1/model", "/loans/readyz", "/loans/v1/rows"} {
		r := testref.Must(server.Client().Get(server.URL + path))(t)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 503, r.StatusCode, path)
	}
	status, text := post(bodies[0])
	require.Equal(t, 503, status, text)
	require.ErrorIs(t, s.Ready(t.Context(), old), funcgp.ErrClosed)
}

// Close waits for a request that is computed, and the next one is refused.
func TestClose(t *testing.T) {
	b := inference.Behind(newPosterior(t, digits()...))
	p := inference.Front(b.Job, b.Problem, b.Posterior).(*funcgp.Posterior)
	h := testref.Must(Handler(t.Context(), p, nil))(t)
	v := h.(*Server).service.Load()
	_, end, err := h.(*Server).begin() // a request under way
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case <-closed:
		t.Fatal("Close did not wait")
	default:
	}
	end()
	require.NoError(t, <-closed)
	refused(t, ask(h, "POST", "/v1/predict", "application/json", fmt.Sprintf(`{"row":%d}`, v.tests.Rows[0])), 503, "not ready")
}
