package bench

import (
	"image/color"
	"math"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// A panel is one measure over the number of inducing examples.
type panel struct {
	title string
	of    func(x row) float64
	log   bool
}

var panels = []panel{
	{"Test NLL", func(x row) float64 { return x.NLL }, true},
	{"AUROC, Kuzushiji-MNIST", func(x row) float64 { return x.KMNIST }, false},
	{"AUROC, digits rotated by 90°", func(x row) float64 { return x.Rotated }, false},
}

// A series is a predictive for several M.
type series struct {
	name, method string
	tuned        bool
	color        color.Color
	dashes       []vg.Length
}

var (
	blue, orange, green, grey = color.RGBA{0x1f, 0x77, 0xb4, 0xff}, color.RGBA{0xd9, 0x5f, 0x02, 0xff}, color.RGBA{0x1b, 0x7f, 0x3b, 0xff}, color.RGBA{0x55, 0x55, 0x55, 0xff}
	dashed                    = []vg.Length{vg.Points(4), vg.Points(3)}
	allSeries                 = []series{
		{"Nyström, tuned", "Nyström", true, blue, nil},
		{"Nyström, precision of training", "Nyström", false, blue, dashed},
		{"subset, tuned", "subset", true, orange, nil},
		{"subset, precision of training", "subset", false, orange, dashed},
		{"exact, kept rows, tuned", "exact", true, green, nil},
		{"exact, kept rows, precision of training", "exact", false, green, dashed},
		{"network alone", mapMethod, false, grey, []vg.Length{vg.Points(1), vg.Points(2)}},
	}
)

// writePlot draws the panels side by side; "" is no file.
func (r *results) writePlot(path string) error {
	if path == "" {
		return nil
	}
	plots := make([]*plot.Plot, len(panels))
	for i, p := range panels {
		var err error
		if plots[i], err = r.panel(p, i == 0); err != nil {
			return err
		}
	}
	img := vgimg.NewWith(vgimg.UseWH(30*vg.Centimeter, 10*vg.Centimeter), vgimg.UseDPI(110))
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Points(14), PadTop: vg.Points(8), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	for i, c := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(img))[0] {
		plots[i].Draw(c)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (r *results) panel(of panel, legend bool) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = of.title, "inducing examples M"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(r.sizeTicks())
	if of.log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks([]plot.Tick{
			{Value: .02, Label: ".02"}, {Value: .03, Label: ".03"}, {Value: .05, Label: ".05"}, {Value: .1, Label: ".1"}, {Value: .2, Label: ".2"}, {Value: .5, Label: ".5"}, {Value: 1, Label: "1"}, {Value: 2, Label: "2"}})
	}
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.YOffs, p.Legend.TextStyle.Font.Size = true, -vg.Points(100), vg.Points(9)
	for _, s := range allSeries {
		points := r.points(s, of)
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes, line.Width = s.color, s.dashes, vg.Points(1.6)
		dots.Color, dots.Shape, dots.Radius = s.color, draw.CircleGlyph{}, vg.Points(2.4)
		p.Add(line)
		if points[0].Y != points[len(points)-1].Y || len(points) == 1 { // not a line that M does not change
			p.Add(dots)
		}
		if legend {
			p.Legend.Add(s.name, line)
		}
	}
	return p, nil
}

// sizes are the numbers of inducing examples, ascending.
func (r *results) sizes() []int {
	var list []int
	for _, x := range r.Rows {
		if x.M > 0 && !slices.Contains(list, x.M) {
			list = append(list, x.M)
		}
	}
	slices.Sort(list)
	return list
}

func (r *results) sizeTicks() []plot.Tick {
	var ticks []plot.Tick
	for _, m := range r.sizes() {
		ticks = append(ticks, plot.Tick{Value: float64(m), Label: strconv.Itoa(m)})
	}
	return ticks
}

func (r *results) points(s series, of panel) plotter.XYs {
	var xy plotter.XYs
	for _, x := range r.Rows {
		if x.Method != s.method || x.Tuned != s.tuned || math.IsNaN(of.of(x)) {
			continue
		}
		if x.M > 0 {
			xy = append(xy, plotter.XY{X: float64(x.M), Y: of.of(x)})
			continue
		}
		for _, m := range r.sizes() {
			xy = append(xy, plotter.XY{X: float64(m), Y: of.of(x)})
		}
	}
	return xy
}
