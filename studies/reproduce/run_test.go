package reproduce

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// A squares study has one step a number, whose result is its square.
type squares struct {
	n       int
	version int
	inputs  []string
	runs    atomic.Int64
	fail    map[int]error // of steps
	during  func(i int)   // called in each step
}

type square struct{ Value result.Float }

func (q *squares) study() *Study {
	return &Study{Verb: "reproduce", Name: "squares", Short: "squares", Source: "arithmetic", Plan: func(context.Context, *Options) (*Plan, error) {
		p := &Plan{Version: q.version}
		for i := range q.n {
			p.Steps = append(p.Steps, Step{Key: fmt.Sprintf("n-%d", i), Cost: i, Inputs: q.inputs, Run: func(_ context.Context, progress Progress) (any, error) {
				q.runs.Add(1)
				if q.during != nil {
					q.during(i)
				}
				progress(1, 2)
				return square{result.Float(i * i)}, q.fail[i]
			}})
		}
		p.Page = func(r *Results) (*Page, error) {
			t := &Table{Name: "all", Caption: "Squares", Head: []string{"number", "square", "both"}}
			var x, y []float64
			for i := range q.n {
				var s square
				if err := r.Get(fmt.Sprintf("n-%d", i), &s); err != nil {
					return nil, err
				}
				x, y = append(x, float64(i)), append(y, float64(s.Value))
				t.Rows = append(t.Rows, []Cell{Text(fmt.Sprint(i)), Number(float64(s.Value)), Mean([]float64{x[i], y[i]})})
			}
			plot := NewPlot("", "number", "square")
			if err := AddLine(plot, "square", Colour(0), true, x, y); err != nil {
				return nil, err
			}
			page := &Page{Title: "Squares <of> numbers", Sections: []Section{{Title: "All", Tables: []*Table{t}, Plots: []*Plot{{Name: "curve", Caption: "A parabola", Grid: One(plot)}}}}}
			page.Setting("numbers", fmt.Sprint(q.n))
			return page, nil
		}
		return p, nil
	}}
}

func runStudy(t *testing.T, ctx context.Context, q *squares, dir string, o Options, part Part) (string, error) {
	t.Helper()
	return Run(ctx, io.Discard, q.study(), dir, &o, part)
}

// A call makes the page, and another one of the same study computes nothing again and
// makes the same page.
func TestResume(t *testing.T) {
	q, dir := &squares{n: 7}, t.TempDir()
	page, err := runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "squares.html"), page)
	require.EqualValues(t, 7, q.runs.Load())
	first, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(first), "Squares &lt;of&gt; numbers")
	require.Contains(t, string(first), `<td class="num">36.000</td>`)
	require.Contains(t, string(first), "<svg")
	text, err := os.ReadFile(filepath.Join(dir, "squares-all.csv"))
	require.NoError(t, err)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{{"number", "square", "both", "both standard error"}, {"0", "0", "0", "0"}, {"1", "1", "1", "0"}, {"2", "4", "3", "1"}}, rows[:4])
	for _, name := range []string{"squares-curve.png", "squares-curve.svg"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Positive(t, info.Size())
	}
	_, err = runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.EqualValues(t, 7, q.runs.Load())
	second, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// Parts divide the steps among them, each done once, and only a call for all of them
// makes the page.
func TestParts(t *testing.T) {
	q, dir := &squares{n: 7}, t.TempDir()
	for k, want := range []int64{3, 5, 7} {
		page, err := runStudy(t, t.Context(), q, dir, Options{}, Part{k, 3})
		require.NoError(t, err)
		require.Empty(t, page)
		require.Equal(t, want, q.runs.Load())
		require.NoFileExists(t, filepath.Join(dir, "squares.html"))
	}
	page, err := runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.FileExists(t, page)
	require.EqualValues(t, 7, q.runs.Load())
}

// What another process has done meanwhile is not done again.
func TestSharedDirectory(t *testing.T) {
	dir := t.TempDir()
	other := &squares{n: 7}
	q := &squares{n: 7, during: func(i int) {
		if i == 2 {
			_, err := runStudy(t, t.Context(), other, dir, Options{}, Part{1, 2})
			require.NoError(t, err)
		}
	}}
	_, err := runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.EqualValues(t, 2, other.runs.Load(), "steps 3 and 5: 1 was there")
	require.EqualValues(t, 5, q.runs.Load())
}

// An interruption keeps the steps that are done, and the next call does the others.
func TestInterruption(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	q := &squares{n: 7, during: func(i int) {
		if i == 3 {
			cancel()
		}
	}}
	_, err := runStudy(t, ctx, q, dir, Options{}, Part{})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 4, q.runs.Load())
	q.during = nil
	_, err = runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.EqualValues(t, 8, q.runs.Load(), "the step that was interrupted is done again")
}

// A step that fails is named, does not stop the others, and leaves nothing behind.
func TestFailedStep(t *testing.T) {
	dir := t.TempDir()
	q := &squares{n: 5, fail: map[int]error{1: errors.New("no luck"), 2: errors.New("none here either")}}
	_, err := runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.EqualError(t, err, "2 steps failed, the first of them: step n-1 of squares: no luck")
	require.EqualValues(t, 5, q.runs.Load())
	q.fail = nil
	_, err = runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	require.EqualValues(t, 7, q.runs.Load())
}

// Results of other settings, and files that are none, are refused with what to do.
func TestRefusedResults(t *testing.T) {
	dir := t.TempDir()
	q := &squares{n: 2, version: 1, inputs: []string{"a"}}
	_, err := runStudy(t, t.Context(), q, dir, Options{}, Part{})
	require.NoError(t, err)
	refused := func(q *squares, o Options, want string) {
		t.Helper()
		_, err := runStudy(t, t.Context(), q, dir, o, Part{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, filepath.Join(dir, "steps", "squares.n-0.json"))
		require.Zero(t, q.runs.Load()-map[bool]int64{true: 2}[q.version == 1 && q.inputs[0] == "a"])
	}
	refused(q, Options{Quick: true}, "without --quick")
	refused(&squares{n: 2, version: 2, inputs: []string{"a"}}, Options{}, "version 1 of the study, which is at version 2")
	refused(&squares{n: 2, version: 1, inputs: []string{"b"}}, Options{}, "made from a, and now there is b")
	path := filepath.Join(dir, "steps", "squares.n-0.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text[:len(text)/2], 0o666))
	refused(q, Options{}, "damaged")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte("n-0"), []byte("n-1")), 0o666))
	refused(q, Options{}, "it holds step n-1")
}

// A directory that cannot be made is an error that names it.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	_, err := runStudy(t, t.Context(), &squares{n: 1}, filepath.Join(file, "sub"), Options{}, Part{})
	require.ErrorContains(t, err, file)
}

// A plan with a key twice, or one that is no name of a file, is a programming error.
func TestWrongPlans(t *testing.T) {
	run := func(context.Context, Progress) (any, error) { return nil, nil }
	for _, steps := range [][]Step{{{Key: "a", Run: run}, {Key: "a", Run: run}}, {{Key: "../a", Run: run}}, {{Key: "A", Run: run}}, {{Key: "a"}}} {
		require.Panics(t, func() { (&Plan{Steps: steps}).check(&Study{}) })
	}
}

func TestMeanSE(t *testing.T) {
	m, se := MeanSE([]float64{1, 2, 4, 9})
	require.Equal(t, 4.0, m)
	// deviations −3, −2, 0, 5: 38/3 is the variance, over 4
	require.InDelta(t, math.Sqrt(38.0/3/4), se, 1e-15)
	m, se = MeanSE([]float64{3})
	require.Equal(t, 3.0, m)
	require.True(t, math.IsNaN(se))
	m, _ = MeanSE(nil)
	require.True(t, math.IsNaN(m))
}

func TestLogspace(t *testing.T) {
	v := Logspace(-2, 2, 10)
	require.InDelta(t, 0.01, v[0], 1e-17)
	require.InDelta(t, 100, v[9], 1e-12)
	require.InDelta(t, math.Pow(10, 4.0/9), v[5]/v[4], 1e-12)
	require.Equal(t, []float64{10}, Logspace(1, 2, 1))
}

func TestArgMin(t *testing.T) {
	nan := math.NaN()
	require.Equal(t, 2, ArgMin([]float64{nan, 3, 1, 1, math.Inf(1)}))
	require.Equal(t, -1, ArgMin([]float64{nan}))
}

func TestCells(t *testing.T) {
	table := &Table{Rows: [][]Cell{{Text("a<b"), Number(math.NaN()), Number(-0.12345), Number(1e-9), Mean([]float64{1, 2}), Mean([]float64{3}), {}, Number(math.Inf(1)), Count(12)}}}
	var b strings.Builder
	for _, cell := range table.Shown()[0] {
		b.WriteString(strings.NewReplacer(`<td class="num">`, "|", `<td class="">`, "|", "</td>", "").Replace(string(cell)))
	}
	require.Equal(t, "|a&lt;b|–|−0.123|1.0e−09|1.500 ± 0.500|3.000||∞|12", b.String())
}

func TestLogTicks(t *testing.T) {
	labels := func(lo, hi float64) (list []string) {
		for _, tick := range (logTicks{}).Ticks(lo, hi) {
			if tick.Label != "" {
				list = append(list, tick.Label)
			}
		}
		return list
	}
	require.Equal(t, []string{"0.01", "0.1", "1", "10", "100"}, labels(0.01, 100))
	require.Equal(t, []string{"0.5", "1", "2", "5"}, labels(0.3, 6))
	require.Equal(t, []string{"1.5", "2.5"}, labels(1.5, 2.5))
	require.Equal(t, []string{"2", "3", "4"}, labels(1.7, 4.5))
	require.Equal(t, []string{"1.21", "1.34"}, labels(1.21, 1.34))
	require.Len(t, (logTicks{}).Ticks(1, 10), 10)
}
