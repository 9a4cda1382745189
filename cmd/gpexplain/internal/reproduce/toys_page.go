package reproduce

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/funcgp/funcgp/explain/report"
)

// heatDepth is how far below the maximum the colours of a map of scores go.
const heatDepth = 1.0

// field is a function on a rectangular grid.
type field struct {
	x, y []float64
	z    func(col, row int) float64
}

func (f field) Dims() (cols, rows int) { return len(f.x), len(f.y) }
func (f field) X(col int) float64      { return f.x[col] }
func (f field) Y(row int) float64      { return f.y[row] }
func (f field) Z(col, row int) float64 { return f.z(col, row) }
func logs(values []float64) (l []float64) {
	for _, v := range values {
		l = append(l, math.Log10(v))
	}
	return l
}

// addHeat fills a plot with a field, with colours from lo to hi.
func addHeat(p *plot.Plot, f field, colours palette.ColorMap, lo, hi float64) {
	colours.SetMin(0)
	colours.SetMax(1)
	clipped := f
	clipped.z = func(col, row int) float64 {
		v := f.z(col, row)
		if !(v >= lo) {
			return lo
		}
		return min(v, hi)
	}
	h := plotter.NewHeatMap(clipped, colours.Palette(128))
	h.Rasterized = len(f.x) > 20
	h.Min, h.Max = lo, hi
	p.Add(h)
}

// heat draws a score by δ and σ².
func (g *toyGrid) heat(title string, of func(s *toyScore) float64) (*plot.Plot, error) {
	p := NewPlot(title, "log10 δ", "log10 σ²")
	row, col := g.peak(of)
	top := of(&g.scores[row][col])
	x, y := logs(g.deltas), logs(g.sigmas)
	addHeat(p, field{x, y, func(col, row int) float64 { return of(&g.scores[row][col]) }}, moreland.Kindlmann(), top-heatDepth, top)
	cross, err := plotter.NewScatter(plotter.XYs{{X: x[col], Y: y[row]}})
	if err != nil {
		return nil, err
	}
	cross.GlyphStyle = draw.GlyphStyle{Color: Colour(6), Radius: vg.Points(6), Shape: draw.CrossGlyph{}}
	p.Add(cross)
	return p, nil
}

// frameCurves cuts off what is far below the top of curves, and leaves room for the
// legend below them.
func frameCurves(p *plot.Plot, top float64) {
	low := max(p.Y.Min, top-2*heatDepth)
	p.Y.Min, p.Y.Max = low-0.5*(top-low), top+0.1*(top-low)
	p.Legend.Top = false
}

// readPredictives reads the results of the four posteriors.
func readPredictives(r *Results) ([]toyPredictive, error) {
	all := make([]toyPredictive, len(toyAlgorithms))
	for i, name := range toyAlgorithms {
		if err := r.Get(strings.ToLower(name), &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// predictiveTable compares the negative log likelihoods, and says what they show.
func predictiveTable(all []toyPredictive) (*Table, string) {
	t := &Table{Name: "predictives", Caption: "Negative log likelihood of a held-out row. The source finds NN sampling sound for VOGGN and unsound for Laplace and OGGN, and GLM sampling sound for all.",
		Head: []string{"posterior", "network at the mean", "NN", "GLM", "distance of the mean from θ*"}}
	var worse []string
	for i, name := range toyAlgorithms {
		a := &all[i]
		nn, glm := -float64(a.LogLikNN), -float64(a.LogLikGLM)
		row := []Cell{Text(name), Number(-float64(a.LogLikMAP)), Number(nn), Number(glm), Number(float64(a.Distance))}
		row[2].Best, row[3].Best = nn < glm, glm <= nn
		t.Rows = append(t.Rows, row)
		worse = append(worse, fmt.Sprintf("%+.3f with %s", nn-glm, name))
	}
	return t, "The negative log likelihood with NN less that with GLM is " + strings.Join(worse, ", ") + "."
}

// snelsonPredictives is figure 5.4.
func snelsonPredictives(all []toyPredictive, d *toy, line *mat.Dense) (*Plot, error) {
	x := mat.Col(nil, 0, line)
	grid := make([][]*plot.Plot, 2)
	for i, name := range toyAlgorithms {
		for row, s := range []toySurface{all[i].NN, all[i].GLM} {
			p := NewPlot(name+", "+[]string{"NN", "GLM"}[row], "", "")
			mean, lo, hi := floatsOf(s.Mean), make([]float64, len(x)), make([]float64, len(x))
			for k, sd := range floatsOf(s.SD) {
				lo[k], hi[k] = max(mean[k]-2*sd, -4), min(mean[k]+2*sd, 4)
				lo[k], hi[k] = min(lo[k], 4), max(hi[k], -4)
			}
			if err := AddBand(p, "", Colour(0), x, lo, hi); err != nil {
				return nil, err
			}
			if err := AddLine(p, "", Colour(0), false, x, mean); err != nil {
				return nil, err
			}
			if err := AddPoints(p, "", Colour(6), vg.Points(1.2), mat.Col(nil, 0, d.x), mat.Col(nil, 0, d.y)); err != nil {
				return nil, err
			}
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x[0], x[len(x)-1], -4, 4
			grid[row] = append(grid[row], p)
		}
	}
	return &Plot{Name: "predictives", Caption: "Mean and two standard deviations of the function, which both predictives have before noise, and the training points. Above networks drawn from each posterior, below the linearized network.",
		Width: 30 * vg.Centimeter, Height: 14 * vg.Centimeter, Grid: grid}, nil
}

func floatsOf(v []report.Float) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}
