package reproduce

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// A Plot is shown on the page and written as a PNG and an SVG file.
type Plot struct {
	Name          string // of the files, <study>-<name>.png and .svg
	Caption       string
	Width, Height vg.Length // 0 means 14 by 9 cm
	// Grid are panels in rows and columns. A nil panel leaves its place empty.
	Grid [][]*plot.Plot
}

// One returns the grid of one panel.
func One(p *plot.Plot) [][]*plot.Plot { return [][]*plot.Plot{{p}} }

// BesideLegend is the grid of a plot with its legend in a panel of its own, where it hides
// no curve.
func BesideLegend(p *plot.Plot) [][]*plot.Plot {
	panel := plot.New()
	panel.HideAxes()
	panel.Legend, p.Legend = p.Legend, plot.NewLegend()
	panel.Legend.Top, panel.Legend.Left = true, true
	return [][]*plot.Plot{{p, panel}}
}

// Palette are colours that differ also for the colour-blind (Okabe and Ito).
var Palette = []color.Color{
	color.NRGBA{0, 114, 178, 255}, color.NRGBA{213, 94, 0, 255}, color.NRGBA{0, 158, 115, 255}, color.NRGBA{204, 121, 167, 255},
	color.NRGBA{86, 180, 233, 255}, color.NRGBA{230, 159, 0, 255}, color.NRGBA{60, 60, 60, 255}, color.NRGBA{170, 170, 40, 255},
}

// Colour returns colour i of the palette, which repeats.
func Colour(i int) color.Color { return Palette[i%len(Palette)] }

// dashes are those of line i, none before colours repeat.
func dashes(i int) []vg.Length {
	if i < len(Palette) {
		return nil
	}
	return []vg.Length{vg.Points(5), vg.Points(2.5)}
}

// NewPlot returns an empty plot with these titles.
func NewPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(2)
	return p
}

// LogAxis makes the axis one of powers of ten; all its values must be positive.
func LogAxis(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = logTicks{}
}

// logTicks are ticks at 1 to 9 times the powers of ten. The powers have labels, on a
// short axis 1, 2 and 5 times them, or all, or else its ends.
type logTicks struct{}

var _ plot.Ticker = logTicks{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	var factors []int // of each tick
	for k := int(math.Floor(math.Log10(lo))); k <= int(math.Ceil(math.Log10(hi))); k++ {
		for m := 1; m <= 9; m++ {
			if v := float64(m) * math.Pow10(k); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				ticks, factors = append(ticks, plot.Tick{Value: v}), append(factors, m)
			}
		}
	}
	for _, labelled := range [][]int{{1}, {1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		labels := 0
		for i, m := range factors {
			if slices.Contains(labelled, m) {
				ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', -1, 64)
				labels++
			}
		}
		if labels > 2 {
			return ticks
		}
	}
	ticks = nil
	for _, v := range []float64{lo, hi} {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
	}
	return ticks
}

// LegendPanel is a panel with nothing but a legend of lines in the colours of the
// palette, for the place beside panels whose curves leave no room.
func LegendPanel(names []string) (*plot.Plot, error) {
	p := plot.New()
	p.HideAxes()
	p.Legend.Top, p.Legend.Left = true, true
	for i, name := range names {
		line, err := plotter.NewLine(plotter.XYs{{}, {X: 1}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = Colour(i), vg.Points(1.4), dashes(i)
		p.Legend.Add(name, line)
	}
	return p, nil
}

// AddLine draws a line through points (x_i, y_i), with markers where points is true,
// and names it in the legend unless name is "". Points that are not finite are left
// out.
func AddLine(p *plot.Plot, name string, colour color.Color, points bool, x, y []float64) error {
	return addLine(p, name, draw.LineStyle{Color: colour, Width: vg.Points(1.4)}, points, x, y)
}

// AddCurve is AddLine for curve i of several, with markers: in colour i, and dashed once the
// colours repeat.
func AddCurve(p *plot.Plot, name string, i int, x, y []float64) error {
	return addLine(p, name, draw.LineStyle{Color: Colour(i), Width: vg.Points(1.4), Dashes: dashes(i)}, true, x, y)
}

func addLine(p *plot.Plot, name string, style draw.LineStyle, points bool, x, y []float64) error {
	var xy plotter.XYs
	for i := range x {
		if finite(x[i]) && finite(y[i]) {
			xy = append(xy, plotter.XY{X: x[i], Y: y[i]})
		}
	}
	if len(xy) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.LineStyle = style
	marks.Color, marks.Shape, marks.Radius = style.Color, draw.CircleGlyph{}, vg.Points(2.2)
	p.Add(line)
	if points {
		p.Add(marks)
	}
	if name != "" {
		p.Legend.Add(name, line)
	}
	return nil
}

// AddPoints draws points without a line.
func AddPoints(p *plot.Plot, name string, colour color.Color, radius vg.Length, x, y []float64) error {
	xy := make(plotter.XYs, len(x))
	for i := range x {
		xy[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	s, err := plotter.NewScatter(xy)
	if err != nil {
		return err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: radius, Shape: draw.CircleGlyph{}}
	p.Add(s)
	if name != "" {
		p.Legend.Add(name, s)
	}
	return nil
}

// AddBand fills the area between lo and hi.
func AddBand(p *plot.Plot, name string, colour color.Color, x, lo, hi []float64) error {
	xy := make(plotter.XYs, 0, 2*len(x))
	for i := range x {
		xy = append(xy, plotter.XY{X: x[i], Y: hi[i]})
	}
	for i := len(x) - 1; i >= 0; i-- {
		xy = append(xy, plotter.XY{X: x[i], Y: lo[i]})
	}
	band, err := plotter.NewPolygon(xy)
	if err != nil {
		return err
	}
	r, g, b, _ := colour.RGBA()
	band.Color = color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 60}
	band.LineStyle.Width = 0
	p.Add(band)
	if name != "" {
		p.Legend.Add(name, band)
	}
	return nil
}

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

// write writes stem.png and stem.svg, and returns the SVG without its XML header, as a
// page holds it.
func (p *Plot) write(stem string) ([]byte, error) {
	w, h := p.Width, p.Height
	if w == 0 {
		w = 14 * vg.Centimeter
	}
	if h == 0 {
		h = 9 * vg.Centimeter
	}
	img := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(150))}
	p.drawTo(draw.New(img))
	if err := atomicfile.Write(stem+".png", func(out io.Writer) error {
		_, err := img.WriteTo(out)
		return err
	}); err != nil {
		return nil, err
	}
	svg := vgsvg.New(w, h)
	p.drawTo(draw.New(svg))
	var text bytes.Buffer
	if _, err := svg.WriteTo(&text); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(stem+".svg", func(out io.Writer) error {
		_, err := out.Write(text.Bytes())
		return err
	}); err != nil {
		return nil, err
	}
	at := bytes.Index(text.Bytes(), []byte("<svg"))
	if at < 0 {
		return nil, fmt.Errorf("%s.svg: the drawing has no svg element", stem)
	}
	return text.Bytes()[at:], nil
}

// drawTo draws the panels with their axes aligned.
func (p *Plot) drawTo(c draw.Canvas) {
	if len(p.Grid) == 1 && len(p.Grid[0]) == 1 {
		p.Grid[0][0].Draw(c)
		return
	}
	tiles := draw.Tiles{Rows: len(p.Grid), Cols: len(p.Grid[0]), PadX: 4 * vg.Millimeter, PadY: 4 * vg.Millimeter,
		PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 2 * vg.Millimeter}
	canvases := plot.Align(p.Grid, tiles, c)
	for i, row := range p.Grid {
		for j, panel := range row {
			if panel != nil {
				panel.Draw(canvases[i][j])
			}
		}
	}
}
