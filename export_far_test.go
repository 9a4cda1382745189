package funcgp

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// farFrom returns rows near and far from x: up to 10⁸ in size with signs of their own, rows of x scaled, with one huge
// number, with a number that is not finite, up to 10²⁰⁰, and zeros.
func farFrom(x *mat.Dense, n int) *mat.Dense {
	rng := rand.New(rand.NewPCG(7, 8))
	rows, d := x.Dims()
	far := mat.NewDense(n, d, nil)
	for i := range n {
		row := far.RawRowView(i)
		copy(row, x.RawRowView(rng.IntN(rows)))
		by := math.Pow(10, 8*rng.Float64())
		switch i % 10 {
		case 0: // as it is
		case 1, 2:
			for j := range row {
				row[j] = 1e8 * (2*rng.Float64() - 1)
			}
		case 3, 4:
			for j := range row {
				row[j] = by * (2*rng.Float64() - 1)
			}
		case 5:
			for j := range row {
				row[j] *= by
			}
		case 6:
			row[rng.IntN(d)] = by * float64(2*rng.IntN(2)-1)
		case 7:
			row[rng.IntN(d)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
		case 8:
			row[rng.IntN(d)] = math.Pow(10, 8+192*rng.Float64())
		case 9:
			clear(row)
			if i%20 == 9 {
				row[rng.IntN(d)] = by
			}
		}
	}
	return far
}

// TestExportFar runs the graphs of all networks of the corpus by onnxruntime, where the environment names a folder with its
// package for Node, and compares all outputs of rows far from the data with the posterior's. FUNCGP_EXPORT_ROWS is how
// many rows, 40 without it.
func TestExportFar(t *testing.T) {
	if os.Getenv("FUNCGP_ONNXRUNTIME") == "" {
		t.Skip("FUNCGP_ONNXRUNTIME is not the folder of npm's onnxruntime-web")
	}
	n := 40
	if s := os.Getenv("FUNCGP_EXPORT_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	cases := testref.Must(filepath.Glob(filepath.Join("testdata", "corpus", "*", "expected.json")))(t)
	require.NotEmpty(t, cases)
	for _, path := range cases {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var e struct {
				Train, Test, Target, ID string
				WeightDecay             float64 `json:"weight_decay"`
				Learn                   []string
			}
			require.NoError(t, json.Unmarshal(testref.Must(os.ReadFile(path))(t), &e))
			o := FitOptions{}
			if e.WeightDecay > 0 {
				o.Prior.WeightDecay = &e.WeightDecay
			}
			m := Model{File: filepath.Join(dir, "model.onnx"), Learn: e.Learn}
			d := Data{Source: filepath.Join(dir, e.Train), ID: e.ID}
			if e.Test != "" {
				d.TestFile = filepath.Join(dir, e.Test)
			}
			if strings.Contains(e.Target, ",") {
				d.Target = e.Target
			}
			post := testref.Must(Fit(t.Context(), m, d, &o))(t)
			defer post.Close()
			p, q := post.problem, post.post
			graph, r, err := q.Export(t.Context(), p, 10)
			require.NoError(t, err)
			train := p.Examples.Train
			x, err := train.Read(t.Context())
			require.NoError(t, err)
			if p.Examples.Data.Images() {
				x.Scale(255, x)
			}
			x = farFrom(x, n)
			want, err := q.GraphAnswers(context.WithoutCancel(t.Context()), p, x)
			require.NoError(t, err)
			got := map[string][]float64{}
			for lo := 0; lo < n; lo += 200 {
				part := mat.DenseCopyOf(x.Slice(lo, min(lo+200, n), 0, x.RawMatrix().Cols))
				for name, v := range testkit.Onnxruntime(t, graph, part) {
					got[name] = append(got[name], v...)
				}
			}
			none := 0
			worst := map[string]float64{}
			for i := range n {
				row := func(name string, width int) []float64 { return got[name][i*width : (i+1)*width] }
				for name, m := range want {
					width := m.RawMatrix().Cols
					v := exportError(name, m.RawRowView(i), row(name, width))
					require.False(t, math.IsNaN(v), "%s of row %d: %v, not %v; input %v", name, i, row(name, width), m.RawRowView(i), x.RawRowView(i))
					limit := 1e-8
					if b, ok := r.Bounds[name]; ok {
						limit = max(limit, float64(b))
					}
					if name == "novelty_rank" { // a score that is a training row's but for rounding
						limit = 1.01 / float64(train.Len())
					}
					require.LessOrEqual(t, v, limit, "%s of row %d: %v, not %v; input %v", name, i, row(name, width), m.RawRowView(i), x.RawRowView(i))
					worst[name] = max(worst[name], v)
				}
				if !math.IsNaN(want["mean"].At(i, 0)) {
					continue
				}
				none++
				for name := range got {
					v := row(name, len(got[name])/n)
					switch {
					case name == "novelty_rank":
						require.Equal(t, []float64{1}, v)
					case name == "term_row" || name == "contrast" || name == "label":
						require.Equal(t, slices.Repeat([]float64{-1}, len(v)), v)
					default:
						require.True(t, !slices.ContainsFunc(v, func(v float64) bool { return v == v }), "%s of row %d: %v", name, i, v)
					}
				}
			}
			require.GreaterOrEqual(t, none, n/10)
			var text []string
			for _, name := range slices.Sorted(maps.Keys(worst)) {
				text = append(text, name+" "+strconv.FormatFloat(worst[name], 'g', 2, 64))
			}
			t.Logf("%d rows, %d without an answer; largest differences: %s", n, none, strings.Join(text, ", "))
		})
	}
}
