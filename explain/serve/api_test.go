package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// digits are the arguments of a posterior that takes no time.
func digits(more ...string) []string {
	return append([]string{"--data", "digits:2000,100", "--classes", "4,9", "--train-count", "120"}, more...)
}

// parameters are the flags of a posterior over the parameters of the built-in network but its largest matrix.
var parameters = []string{"--method", "parameters", "--freeze", "Dense1.weight"}

// marshal is an object as JSON.
func marshal(t testing.TB, object any) string {
	t.Helper()
	b := testref.Must(json.Marshal(object))(t)
	return string(b)
}

// asked returns requests that all ask about one test row: by its number, as numbers, as
// a picture and as a table.
func asked(t *testing.T, s *Server) []map[string]any {
	t.Helper()
	row := int(get[rows](t, s, "GET", "/v1/rows", "").Rows[3].Index)
	file := ask(s, "GET", fmt.Sprintf("/v1/test/%d/picture", row), "", "").Body.Bytes()
	img := testref.Must(png.Decode(bytes.NewReader(file)))(t)
	var values []int
	var line []string
	for y := range 28 {
		for x := range 28 {
			r, _, _, _ := img.At(x, y).RGBA()
			values = append(values, int(r>>8))
			line = append(line, strconv.Itoa(int(r>>8)))
		}
	}
	return []map[string]any{{"row": row}, {"values": values}, {"picture": file}, {"table": strings.Join(line, ",")}}
}

// A row is answered alike, to the last bit, however it is given; and with a body that is
// the file itself.
func TestInputs(t *testing.T) {
	s := newServer(t, digits()...)
	list := asked(t, s)
	want := get[explanation](t, s, "POST", "/v1/explain", marshal(t, list[0]))
	require.Equal(t, "test", want.Input.Split)
	for _, request := range list[1:] {
		got := get[explanation](t, s, "POST", "/v1/explain", marshal(t, request))
		require.Equal(t, "request", got.Input.Split)
		require.Equal(t, want.Input.Picture, got.Input.Picture)
		got.Input = want.Input
		require.Equal(t, marshal(t, want), marshal(t, got))
		require.Equal(t, marshal(t, want.prediction.Prediction), marshal(t, get[prediction](t, s, "POST", "/v1/predict", marshal(t, request)).Prediction))
	}
	for kind, body := range map[string]string{"image/png": string(list[2]["picture"].([]byte)), "text/csv": list[3]["table"].(string)} {
		w := ask(s, "POST", "/v1/explain?top=3&without="+strconv.Itoa(int(want.For[0].Index)), kind, body)
		require.Equal(t, 200, w.Code, w.Body)
		var got explanation
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, marshal(t, want.For[:3]), marshal(t, got.For))
		require.Equal(t, []int{int(want.For[0].Index)}, got.Without.Rows)
	}
}

// The scores are those of package explain, with the sign of the predicted class, and sum
// to the network's output (E14).
func TestScores(t *testing.T) {
	s := newServer(t, "--data", "digits:2000,100", "--classes", "4,9", "--train-count", "90")
	v := s.service.Load()
	for _, row := range get[rows](t, s, "GET", "/v1/rows?count=12", "").Rows {
		got := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"top":100}`, row.Index))
		in := testref.Must(v.testRow(t.Context(), int(row.Index)))(t)
		batch := testref.Must(linearize.Gather(t.Context(), in.rows.Source(t.Context()), []int{0}))(t)
		ex, err := explain.New(v.front.Dual(), v.front.Kernel(), &explain.Options{Top: 90, ErrorBars: true})
		require.NoError(t, err)
		want := testref.Must(ex.Explain(t.Context(), batch))(t)
		sign := 1.0
		if got.prediction.Prediction.Class == 4 {
			sign = -1
		}
		require.Equal(t, map[float64]string{1: "for 9", -1: "for 4"}[sign], got.Score.Positive)
		require.InDelta(t, sign*want[0][0].Network, float64(got.Sum.Network), 0)
		sum := 0.0
		for _, x := range want[0][0].Terms {
			list := got.For
			if sign*x.Value < 0 {
				list = got.Against
			}
			at := slices.IndexFunc(list, func(y term) bool { return int(y.Index) == trainingNumbers(t, v.front)[x.Index] })
			require.GreaterOrEqual(t, at, 0)
			require.InDelta(t, sign*x.Value, float64(list[at].Value), 0)
			require.InDelta(t, sign*x.Removal, float64(list[at].Removal), 0)
			require.InEpsilon(t, x.SD(), float64(*list[at].SD), 1e-12)
			require.Equal(t, x.Distinguishable(), *list[at].Distinguishable)
			sum += float64(list[at].Value)
		}
		require.Len(t, append(got.For, got.Against...), 90)
		require.InDelta(t, float64(got.Sum.ContributionSum), sum, 1e-9, "rounding: 90 terms of size 1")
		require.InDelta(t, float64(got.Sum.Network), float64(got.Sum.PriorMean)+float64(got.Sum.ContributionSum)+float64(got.Sum.Remainder), 1e-12)
	}
}

// Without training rows, the prediction is that of a posterior that was never given them.
func TestWithout(t *testing.T) {
	s := newServer(t, digits("--refit", "--calibrate", "none")...)
	v := s.service.Load()
	train := trainingNumbers(t, v.front)
	gone := []int{train[100], train[3], train[4]}
	var rest strings.Builder
	for _, row := range train {
		if !slices.Contains(gone, row) {
			fmt.Fprintln(&rest, row)
		}
	}
	file := filepath.Join(t.TempDir(), "rest.txt")
	require.NoError(t, os.WriteFile(file, []byte(rest.String()), 0o600))
	other := newServer(t, "--data", "digits:2000,100", "--classes", "4,9", "--train-index", file, "--refit", "--calibrate", "none")
	for _, row := range get[rows](t, s, "GET", "/v1/rows?count=6", "").Rows {
		got := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"without":%s}`, row.Index, marshal(t, gone))).Without
		want := get[prediction](t, other, "POST", "/v1/predict", fmt.Sprintf(`{"row":%d}`, row.Index)).Prediction
		require.Equal(t, "refit", got.Order)
		slices.Sort(gone)
		require.Equal(t, gone, got.Rows)
		require.InDelta(t, float64(want.Mean[0]), float64(got.Mean[0]), 1e-6, "the refit's own tolerance")
		require.InDelta(t, float64(want.Probability[1]), float64(got.Probability[1]), 1e-6)
		require.InDelta(t, float64(want.ProbabilitySD[1]), float64(got.ProbabilitySD[1]), 1e-6)
	}
}

// Of a posterior that its factor does not change, the removals of the rows are added.
func TestWithoutFirstOrder(t *testing.T) {
	s := newServer(t, digits("--method", "nystrom", "--inducing", "40")...)
	row := int(get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d}`, row))
	sign := 1.0
	if x.prediction.Prediction.Class == 4 {
		sign = -1
	}
	rows := []int{int(x.For[0].Index), int(x.Against[1].Index)}
	got := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"without":%s}`, row, marshal(t, rows))).Without
	require.Equal(t, "first", got.Order)
	want := float64(x.prediction.Prediction.Mean[0]) + sign*float64(x.For[0].Removal+x.Against[1].Removal)
	require.InDelta(t, want, float64(got.Mean[0]), 1e-9)
}

// Rows of a table are answered with their features, which a request may give as numbers
// or as a table of its own.
func TestTables(t *testing.T) {
	s := newServer(t, tableOfNames(t, "name")...)
	x := get[explanation](t, s, "POST", "/v1/explain", `{"row":0}`)
	require.Equal(t, []string{"no name", "yes name"}, x.Classes)
	require.Contains(t, x.Score.Says, "nats")
	require.Len(t, x.Input.Values, 2)
	require.Len(t, x.For[0].Values, 2)
	require.Contains(t, x.For[0].ID, "name")
	same := get[explanation](t, s, "POST", "/v1/explain", marshal(t, map[string]any{"values": x.Input.Values}))
	require.Equal(t, marshal(t, x.For), marshal(t, same.For))
	table := get[explanation](t, s, "POST", "/v1/explain", marshal(t, map[string]any{"table": "b,a name,other\n" + fmt.Sprintf("%g,%g,7\n", x.Input.Values[1], x.Input.Values[0])}))
	require.Equal(t, marshal(t, x.For), marshal(t, table.For), "columns are found by their names")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// corpus are the arguments that serve a case of testdata/corpus.
func corpus(name string, more ...string) []string {
	dir := filepath.Join("..", "..", "testdata", "corpus", name)
	args := []string{"--model", filepath.Join(dir, "model.onnx"), "--data", filepath.Join(dir, "train.csv"), "--test-data", filepath.Join(dir, "test.csv")}
	if array := filepath.Join(dir, "x_train.npy"); exists(array) {
		args = []string{"--model", args[1], "--data", array, "--test-data", filepath.Join(dir, "x_test.npy")}
	}
	return append(args, more...)
}

// A regression is explained by what raises and lowers an output, classes with an output
// each by the contrast of the predicted one with the next, or as asked.
func TestOtherLikelihoods(t *testing.T) {
	s := newServer(t, corpus("two-targets", "--target", "voltage,power")...)
	row := int(get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	for output := range 2 {
		x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"output":%d,"without":[3]}`, row, output))
		require.Nil(t, x.prediction.Prediction.Probability)
		require.Len(t, x.prediction.Prediction.ObservationSD, 2)
		require.Len(t, x.Without.ObservationMean, 2)
		require.Contains(t, x.Score.Says, "raises")
		require.InDelta(t, float64(x.Sum.Network), float64(x.Sum.PriorMean+x.Sum.ContributionSum+x.Sum.Remainder), 1e-9)
		require.False(t, x.Without.Class.Finite())
	}
	x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"contrast":["power","voltage"]}`, row))
	one := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"output":1}`, row))
	two := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"output":0}`, row))
	require.InDelta(t, float64(one.Sum.ContributionSum-two.Sum.ContributionSum), float64(x.Sum.ContributionSum), 1e-9)

	// Each of several labels by itself
	s = newServer(t, corpus("several-labels", "--target", "comedy,drama,family")...)
	row = int(get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
	for output, label := range []string{"comedy", "drama", "family"} {
		x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"output":%d,"without":[3]}`, row, output))
		require.Equal(t, label, x.Labels[output])
		require.Nil(t, x.Classes)
		require.Equal(t, "What speaks for and against "+label, x.Score.Title)
		require.Len(t, x.Without.Probability, 3)
		require.InDelta(t, float64(x.Sum.Network), float64(x.Sum.PriorMean+x.Sum.ContributionSum+x.Sum.Remainder), 1e-9)
	}
	x = get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d}`, row))
	likeliest := 0
	for k, v := range x.prediction.Prediction.Probability {
		if v > x.prediction.Prediction.Probability[likeliest] {
			likeliest = k
		}
	}
	require.Equal(t, "What speaks for and against "+x.Labels[likeliest], x.Score.Title)
	refused(t, ask(s, "POST", "/v1/explain", "application/json", fmt.Sprintf(`{"row":%d,"flip":true}`, row)), 422, "there is no class to change; leave it out")

	s = newServer(t, corpus("pictures-colour")...)
	x = get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d}`, get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index))
	p := x.prediction.Prediction.Probability
	require.Greater(t, len(p), 2)
	best, second := 0, -1
	for k := range p {
		if p[k] > p[best] {
			best = k
		}
	}
	for k := range p {
		if k != best && (second < 0 || p[k] > p[second]) {
			second = k
		}
	}
	require.Equal(t, fmt.Sprintf("Why %s rather than %s", x.Classes[best], x.Classes[second]), x.Score.Title)
	require.Equal(t, "image/png", ask(s, "GET", fmt.Sprintf("/v1/train/%d/picture", x.For[0].Index), "", "").Header().Get("Content-Type"))
}

// Many goroutines get the same answers as one.
func TestConcurrent(t *testing.T) {
	s := newServer(t, digits()...)
	var bodies, want []string
	train := trainingNumbers(t, s.service.Load().front)
	for i, row := range get[rows](t, s, "GET", "/v1/rows", "").Rows[:10] {
		bodies = append(bodies, fmt.Sprintf(`{"row":%d,"without":[%d]}`, row.Index, train[i%3]))
		want = append(want, ask(s, "POST", "/v1/explain", "application/json", bodies[i]).Body.String())
	}
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := range bodies {
				at := (i + k) % len(bodies)
				if got := ask(s, "POST", "/v1/explain", "application/json", bodies[at]).Body.String(); got != want[at] {
					t.Errorf("another answer: %s", got)
				}
			}
		})
	}
	all.Wait()
}

// base64 in JSON is what encoding/json and Python's json with base64 write.
func TestPictureIsBase64(t *testing.T) {
	var r request
	require.NoError(t, r.decode([]byte(`{"picture":"`+base64.StdEncoding.EncodeToString([]byte{1, 2, 255})+`"}`), nil, 1, 1))
	require.Equal(t, []byte{1, 2, 255}, r.Picture)
}

// The smallest flip is a set of rows without which the class is another.
func TestSmallestFlip(t *testing.T) {
	s := newServer(t, digits()...)
	found := 0
	for _, row := range get[rows](t, s, "GET", "/v1/rows?count=4", "").Rows {
		x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"flip":true}`, row.Index))
		flip := x.SmallestFlip
		require.NotNil(t, flip)
		if !flip.Found {
			require.Empty(t, flip.Rows)
			continue
		}
		found++
		require.NotEqual(t, x.Prediction.Class, flip.Class)
		y := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"without":%s}`, row.Index, marshal(t, flip.Rows)))
		require.Equal(t, marshal(t, flip.Mean), marshal(t, y.Without.Mean))
		require.Equal(t, flip.Class, y.Without.Class)
		require.Nil(t, y.SmallestFlip)
	}
	require.Positive(t, found)
	s = newServer(t, corpus("two-targets", "--target", "voltage,power")...)
	refused(t, ask(s, "POST", "/v1/explain", "application/json", `{"row":0,"flip":true}`), 422, "no class")
	s = newServer(t, digits(parameters...)...)
	refused(t, ask(s, "POST", "/v1/explain", "application/json", fmt.Sprintf(`{"row":%d,"flip":true}`, s.service.Load().tests.Index(0))), 422, "parameters")
}

// Influence is there where it is asked for, has the sign of the score as removal has the other one, and is on the page.
func TestInfluence(t *testing.T) {
	s := newServer(t, digits()...)
	for _, row := range get[rows](t, s, "GET", "/v1/rows?count=8", "").Rows { // of both classes, one of which turns signs
		x := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"top":3,"influence":true}`, row.Index))
		y := get[explanation](t, s, "POST", "/v1/explain", fmt.Sprintf(`{"row":%d,"top":3}`, row.Index))
		require.Len(t, append(x.For, x.Against...), 6)
		for i, one := range x.For {
			require.NotNil(t, one.Influence)
			require.LessOrEqual(t, float64(*one.Influence*one.Removal), 0.)
			one.Influence = nil
			require.Equal(t, y.For[i], one)
		}
	}
	page := httptest.NewRequest("POST", "http://localhost/v1/explain", strings.NewReader(fmt.Sprintf(`{"row":%d,"influence":true}`, s.service.Load().tests.Index(0))))
	page.Header.Set("Content-Type", "application/json")
	page.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, page)
	require.Contains(t, w.Body.String(), "<span>influence ")
	s = newServer(t, digits(parameters...)...)
	refused(t, ask(s, "POST", "/v1/explain", "application/json", fmt.Sprintf(`{"row":%d,"influence":true}`, s.service.Load().tests.Index(0))), 422, "exact or kept")
}

// A page is of any kind of data, loads nothing, and says what it cannot show.
func TestPages(t *testing.T) {
	for name, args := range map[string][]string{"digits": digits(), "words": corpus("string-labels", "--id", "id"), "targets": corpus("two-targets", "--target", "voltage,power"), "labels": corpus("several-labels", "--target", "comedy,drama,family"), "prices": corpus("standardized-targets"), "parameters": digits(parameters...)} {
		s := newServer(t, args...)
		asks := func(body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "http://localhost/v1/explain", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "text/html")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		body := marshal(t, map[string]any{"values": numbersOf(t, s, 1)[0], "top": 3})
		w := asks(body)
		require.Equal(t, 200, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "<html", name)
		require.NotRegexp(t, `<script|src="http|href="http`, w.Body.String())
		require.Equal(t, w.Body.String(), asks(body).Body.String(), name)
		if name == "digits" {
			// What a page says of training rows is what the JSON says.
			train := trainingNumbers(t, s.service.Load().front)
			ask := fmt.Sprintf(`{"row":%d,"flip":true,"without":[%d,%d]}`, s.service.Load().tests.Index(0), train[0], train[1])
			x := get[explanation](t, s, "POST", "/v1/explain", ask)
			text := asks(ask).Body.String()
			require.Contains(t, text, fmt.Sprintf("rows %d, %d, f would be %.3f", train[0], train[1], math.Abs(float64(x.Without.Mean[0]))))
			require.Contains(t, text, strings.Trim(strings.ReplaceAll(marshal(t, x.SmallestFlip.Rows), ",", ", "), "[]"))
		}
		if name == "parameters" {
			train := trainingNumbers(t, s.service.Load().front)
			refused(t, asks(fmt.Sprintf(`{"row":%d,"without":[%d]}`, s.service.Load().tests.Index(0), train[0])), 422, "parameters")
		}
	}
}
