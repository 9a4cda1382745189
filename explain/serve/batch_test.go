package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/testref"
)

// numbersOf are the inputs of the first test rows as a request gives them, N×D.
func numbersOf(t testing.TB, s *Server, n int) (list [][]float64) {
	t.Helper()
	v := s.service.Load()
	x := testref.Must(v.tests.Slice(0, n).Values(t.Context()))(t)
	for i := range n {
		row := slices.Clone(x.RawRowView(i))
		for j := range row {
			if v.info.Columns == nil {
				row[j] = math.Round(255 * row[j]) // grey levels
			}
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
	for name, args := range map[string][]string{"digits": digits(), "words": corpus("string-labels", "--id", "id"), "targets": corpus("two-targets", "--target", "voltage,power"), "labels": corpus("several-labels", "--target", "comedy,drama,family")} {
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
	refused(t, ask(s, "POST", "/v1/explain", "application/json", `{"rows":[`+row+`,`+row+`]}`), 422, "2 rows; send one")
	refused(t, ask(s, "POST", "/v1/explain", npyType, many), 422, "1001 rows; send one")
	refused(t, ask(s, "POST", "/v1/predict", npyType, many), 422, "at most 1000")
	refused(t, ask(s, "POST", "/v1/predict", npyType, array(t, ones(100_000, 4))), 422, "at most 1000")
	refused(t, ask(s, "POST", "/v1/predict", npyType, many[:200]), 422, "")
	refused(t, ask(s, "POST", "/v1/predict", npyType, "PK\x03\x04"), 422, "no .npy file")
	refused(t, ask(s, "POST", "/v1/predict", "application/octet-stream", "1,2,3,4"), 422, "no .npy file")
	refused(t, ask(s, "POST", "/v1/predict", npyType, array(t, ones(3, 3))), 422, "an input has 4 numbers")
}

// typed is a .npy file of rows in NumPy's own type of numbers.
func typed(t testing.TB, descr string, rows [][]float64, shape ...int) string {
	t.Helper()
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,)}\n", descr, strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]"))
	b := bytes.NewBufferString("\x93NUMPY\x01\x00")
	require.NoError(t, binary.Write(b, binary.LittleEndian, uint16(len(dict))))
	b.WriteString(dict)
	for _, row := range rows {
		for _, v := range row {
			require.NoError(t, binary.Write(b, binary.LittleEndian, map[string]any{"<f8": v, "<f4": float32(v), "<i2": int16(v), "|u1": uint8(v)}[descr]))
		}
	}
	return b.String()
}

// asks sends rows and asks for a structured array.
func asks(h http.Handler, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://localhost/v1/predict", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json;q=0.1, application/x-npy; fields=all")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// readTable reads a structured array of numbers: a map from field to numbers for each row, for a field of fields too.
func readTable(t testing.TB, file []byte) (rows []map[string][]float64) {
	t.Helper()
	begin := 10 + int(binary.LittleEndian.Uint16(file[8:]))
	require.Zero(t, begin%64)
	head := string(file[10:begin])
	require.Contains(t, head, "'fortran_order': False")
	n, err := strconv.Atoi(regexp.MustCompile(`'shape': \((\d+), \)`).FindStringSubmatch(head)[1])
	require.NoError(t, err)
	numbers := make([]float64, (len(file)-begin)/8)
	require.NoError(t, binary.Read(bytes.NewReader(file[begin:]), binary.LittleEndian, numbers))
	for range n {
		row := map[string][]float64{}
		for _, f := range regexp.MustCompile(`\('(\w+)', '<f8', \(([\d, ]*)\)\)`).FindAllStringSubmatch(head, -1) {
			size := 1
			for _, k := range regexp.MustCompile(`\d+`).FindAllString(f[2], -1) {
				m, err := strconv.Atoi(k)
				require.NoError(t, err)
				size *= m
			}
			require.NotContains(t, row, f[1])
			row[f[1]], numbers = numbers[:size], numbers[size:]
		}
		rows = append(rows, row)
	}
	require.Empty(t, numbers)
	return rows
}

// flat are the numbers of a JSON object by member, those of an inner object too; null is none.
func flat(object map[string]any, into map[string][]float64) map[string][]float64 {
	for name, v := range object {
		var add func(v any)
		add = func(v any) {
			switch v := v.(type) {
			case float64:
				into[name] = append(into[name], v)
			case []any:
				for _, one := range v {
					add(one)
				}
			case map[string]any:
				flat(v, into)
			}
		}
		add(v)
	}
	return into
}

// A structured array holds what the JSON answer has, to the last bit, with the same fields for any rows.
func TestStructuredArrays(t *testing.T) {
	for name, args := range map[string][]string{"digits": digits(), "words": corpus("string-labels", "--id", "id"), "targets": corpus("two-targets", "--target", "voltage,power"), "labels": corpus("several-labels", "--target", "comedy,drama,family"), "prices": corpus("standardized-targets"), "parameters": digits(parameters...)} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, args...)
			given := map[string]any{"rows": numbersOf(t, s, 9)}
			if name == "words" || name == "prices" {
				given["coverage"] = .8
			}
			body := marshal(t, given)
			want := get[struct {
				Schema      string
				Classes     []string
				Labels      []string
				Predictions []map[string]any
			}](t, s, "POST", "/v1/predict", body)
			w := asks(s, "application/json", body)
			require.Equal(t, npyType, w.Header().Get("Content-Type"), w.Body)
			got := readTable(t, w.Body.Bytes())
			require.Len(t, got, 9)
			for i, one := range want.Predictions {
				members := flat(one, map[string][]float64{})
				for field, numbers := range got[i] {
					k := len(members[field])
					require.Equal(t, members[field], append([]float64(nil), numbers[:k]...), field)
					for _, v := range numbers[k:] {
						require.True(t, math.IsNaN(v) || math.IsInf(v, 0), field)
					}
				}
				for member := range members {
					require.Contains(t, got[i], member)
				}
			}
			require.Contains(t, want.Predictions[0], "novelty")
			require.Equal(t, given["coverage"] != nil && name == "words", want.Predictions[0]["set"] != nil)
			require.Equal(t, given["coverage"] != nil && name == "prices", want.Predictions[0]["interval"] != nil)
		})
	}
}

// Rows come as numbers of any type and in the shape of an input.
func TestArraysOfAnyType(t *testing.T) {
	s := newServer(t, corpus("string-labels", "--id", "id")...)
	rows := [][]float64{{1, 2, 3, 4}, {5, 6, 7, 8}}
	want := asks(s, npyType, typed(t, "<f8", rows, 2, 4))
	require.Equal(t, 200, want.Code, want.Body)
	for _, descr := range []string{"<f4", "<i2", "|u1"} {
		require.Equal(t, want.Body.String(), asks(s, npyType, typed(t, descr, rows, 2, 4)).Body.String())
	}
	for address, members := range map[string]string{
		"top=3&without=1,2&flip=true&coverage=0.9": `"top":3,"without":[1,2],"flip":true,"coverage":0.9`,
		"influence=true":                `"influence":true`,
		"contrast=repaid,default&top=1": `"contrast":["repaid","default"],"top":1`,
		"output=1":                      `"output":1`,
	} {
		one := ask(s, "POST", "/v1/explain?"+address, npyType, typed(t, "<f4", rows[:1], 1, 4))
		require.Equal(t, 200, one.Code, one.Body)
		require.Equal(t, ask(s, "POST", "/v1/explain", "application/json", `{"values":[1,2,3,4],`+members+`}`).Body.String(), one.Body.String())
	}
	refused(t, ask(s, "POST", "/v1/explain", "application/json", `{"values":[1e300,-1e300,1e300,1e300]}`), 422, "its input income is 1e+300, too large to compute with")
	s = newServer(t, digits()...)
	rows = numbersOf(t, s, 3)
	want = asks(s, "application/json", marshal(t, map[string]any{"rows": rows}))
	require.Equal(t, 200, want.Code, want.Body)
	for _, shape := range [][]int{{3, 784}, {3, 28, 28}, {3, 1, 28, 28}} {
		require.Equal(t, want.Body.String(), asks(s, npyType, typed(t, "|u1", rows, shape...)).Body.String())
	}
}

// A coverage gives the regions of Posterior.Predictions, again when it is asked for again and of another.
func TestCoverage(t *testing.T) {
	for _, args := range [][]string{corpus("string-labels", "--id", "id"), corpus("standardized-targets")} {
		s, p := newServer(t, args...), newPosterior(t, args...)
		rows := numbersOf(t, s, 5)
		x := mat.NewDense(len(rows), len(rows[0]), nil)
		for i, r := range rows {
			x.SetRow(i, r)
		}
		own, err := p.Rows(t.Context(), x)
		require.NoError(t, err)
		for _, coverage := range []float64{.5, .9, .9, .5} {
			var want []funcgp.Prediction
			for x, err := range p.Predictions(t.Context(), own, &funcgp.PredictOptions{Coverage: coverage}) {
				require.NoError(t, err)
				want = append(want, *x)
			}
			got := get[predictions](t, s, "POST", "/v1/predict", marshal(t, map[string]any{"rows": rows, "coverage": coverage}))
			for i, one := range got.Predictions {
				require.Equal(t, marshal(t, want[i].Region), marshal(t, one.Region))
			}
		}
		row := marshal(t, rows[0])
		for _, bad := range []string{"0", "1", "-1", "0.99999999"} {
			w := ask(s, "POST", "/v1/predict", "application/json", `{"rows":[`+row+`],"coverage":`+bad+`}`)
			require.Contains(t, w.Body.String(), `"field":"coverage"`)
			refused(t, w, 422, "coverage "+bad[:1])
		}
		w := ask(s, "POST", "/v1/predict?coverage=x", npyType, array(t, rows))
		refused(t, w, 400, "no number")
	}
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
	from := testref.Must(p.Record(t.Context()))(t)
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
	open := func(i int) *funcgp.Posterior {
		return fit(t, append(args, [][]string{nil, {"--calibrate", "none"}}[i%2]...)...)
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
	p := fit(t, digits()...)
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
	refused(t, ask(h, "POST", "/v1/predict", "application/json", fmt.Sprintf(`{"row":%d}`, v.tests.Index(0))), 503, "not ready")
}
