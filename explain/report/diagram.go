package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
)

// A plotFrame is the part of a diagram in which data are drawn, in the units of the SVG. Callers
// scale data to [0, 1]; its methods x and y map them to the SVG.
type plotFrame struct{ left, top, width, height float64 }

func (f plotFrame) x(v float64) float64 { return f.left + f.width*v }
func (f plotFrame) y(v float64) float64 { return f.top + f.height*(1-v) }

// The frames of a diagram: the plot, and the strip of counts under it.
var (
	plot  = plotFrame{left: 46, top: 8, width: 382, height: 300}
	strip = plotFrame{left: 46, top: 352, width: 382, height: 64}
)

// The data of the template that draws a diagram. All numbers are coordinates.
type (
	htmlDiagram struct {
		Title, Label, Class string // Class names the colour of line, points and bars
		Height              string // of the view box
		Frames              []htmlBox
		Ticks               []htmlTick
		XName, YName        string  // names of the axes, which stand beside the drawing and may be long
		wide                float64 // space that the longest tick of a y axis needs beyond the left edge
		Band                string  // SVG paths
		Guide, Line         string
		Faint               bool // whether Line only guides the eye
		Lines               []htmlCurve
		Outline             string
		Points              []htmlPoint
		Bars                []htmlBox
		Notes               []htmlTick
	}
	htmlCurve struct{ Class, Dash, Path string } // Dash is dashed, dotted, or empty
	htmlBox   struct{ X, Y, W, H, Title string }
	htmlPoint struct{ X, Y, R, Title string }
	htmlTick  struct{ X, Y, Text, Anchor, X1, Y1, X2, Y2 string }
)

// coordinate formats a position in an SVG.
func coordinate(v float64) string { return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64) }

// path returns the SVG path that joins the points by straight lines. NaN breaks the line.
func path(x, y []float64) string {
	var b strings.Builder
	pen := "M"
	for i := range x {
		if math.IsNaN(x[i]) || math.IsNaN(y[i]) {
			pen = "M"
			continue
		}
		b.WriteString(pen + coordinate(x[i]) + " " + coordinate(y[i]))
		pen = "L"
	}
	return b.String()
}

// bandPath returns the SVG path around the band between two curves over the same x. It is "" for
// fewer than two points.
func bandPath(x, lo, hi []float64) string {
	if len(x) < 2 {
		return ""
	}
	rx, ry := make([]float64, 0, 2*len(x)), make([]float64, 0, 2*len(x))
	rx, ry = append(rx, x...), append(ry, hi...)
	for i := len(x) - 1; i >= 0; i-- {
		rx, ry = append(rx, x[i]), append(ry, lo[i])
	}
	return path(rx, ry) + "Z"
}

// frame adds a frame with ticks; the maps hold the text of each tick by its place.
func (d *htmlDiagram) frame(f plotFrame, xTicks, yTicks map[float64]string) {
	d.Frames = append(d.Frames, htmlBox{X: coordinate(f.left), Y: coordinate(f.top), W: coordinate(f.width), H: coordinate(f.height)})
	for v, text := range ordered(xTicks) {
		x := coordinate(f.x(v))
		d.Ticks = append(d.Ticks, htmlTick{X: x, Y: coordinate(f.y(0) + 16), Text: text, Anchor: "middle",
			X1: x, X2: x, Y1: coordinate(f.y(0)), Y2: coordinate(f.y(1))})
	}
	for v, text := range ordered(yTicks) {
		y := f.y(v)
		d.wide = max(d.wide, tickWidth*float64(utf8.RuneCountInString(text))-f.left+7)
		d.Ticks = append(d.Ticks, htmlTick{X: coordinate(f.left - 7), Y: coordinate(y + 4), Text: text, Anchor: "end",
			X1: coordinate(f.x(0)), X2: coordinate(f.x(1)), Y1: coordinate(y), Y2: coordinate(y)})
	}
}

// tickWidth is the width of one character of a tick label, in the large type of narrow screens.
const tickWidth = 11

// ViewBox returns the value of the SVG's viewBox attribute.
func (d *htmlDiagram) ViewBox() string {
	return fmt.Sprintf("%s 0 %s %s", coordinate(-d.wide), coordinate(440+d.wide), d.Height)
}

// ordered iterates over ticks from left to right.
func ordered(ticks map[float64]string) func(func(float64, string) bool) {
	return func(yield func(float64, string) bool) {
		for _, v := range slices.Sorted(maps.Keys(ticks)) {
			if !yield(v, ticks[v]) {
				return
			}
		}
	}
}

// shares are the ticks of an axis from 0 to 1.
var shares = map[float64]string{0: "0", .2: "0.2", .4: "0.4", .6: "0.6", .8: "0.8", 1: "1"}

// reliabilityDiagram draws the frequency of a class in each bin against its mean
// probability, with the band in which the points lie if the probabilities are right,
// and the number of rows of each bin in a strip.
func reliabilityDiagram(title, class string, bins []score.ReliabilityBin, x, y string) htmlDiagram {
	d := htmlDiagram{Title: title, Class: class, Height: "440", XName: x, YName: y}
	d.frame(plot, shares, shares)
	d.Guide = path([]float64{plot.x(0), plot.x(1)}, []float64{plot.y(0), plot.y(1)})
	most, rows := 0, 0
	for _, b := range bins {
		most, rows = max(most, b.Count), rows+b.Count
	}
	d.frame(strip, shares, powers(most))
	var px, py, lo, hi []float64
	for _, b := range bins {
		if b.Count == 0 {
			continue
		}
		what := fmt.Sprintf("%s between %s and %s: mean %s, share %s", result.Some(b.Count, "row", "rows"), fixed(b.Lo, 2), fixed(b.Hi, 2), fixed(b.Confidence, 3), fixed(b.Accuracy, 3))
		px, py = append(px, plot.x(b.Confidence)), append(py, plot.y(b.Accuracy))
		lo, hi = append(lo, plot.y(b.BandLo)), append(hi, plot.y(b.BandHi))
		h := logHeight(b.Count, most)
		d.Points = append(d.Points, htmlPoint{X: coordinate(px[len(px)-1]), Y: coordinate(py[len(py)-1]), R: coordinate(2.4 + 3.6*h), Title: what})
		left, right := strip.x(b.Lo)+1, strip.x(b.Hi)-1
		d.Bars = append(d.Bars, htmlBox{X: coordinate(left), W: coordinate(right - left), Y: coordinate(strip.y(h)), H: coordinate(strip.height * h), Title: what})
	}
	d.Line, d.Faint, d.Band = path(px, py), true, bandPath(px, lo, hi)
	d.Label = fmt.Sprintf("Reliability diagram, %s, %s", strings.ToLower(title), result.Some(rows, "row", "rows"))
	return d
}

// logHeight returns the height of a bar for n rows, where most is the largest number, on a
// logarithmic scale on which one row still shows as a low bar.
func logHeight(n, most int) float64 {
	if n == 0 {
		return 0
	}
	return math.Log(2*float64(n)) / math.Log(2*float64(max(most, 2)))
}

// powers returns at most four ticks at powers of ten, for logHeight.
func powers(most int) map[float64]string {
	t := map[float64]string{}
	if most > 1 && most < 10 {
		t[1] = result.Count(most)
	}
	step := 1
	for top := most; top >= 10000; top /= 1000 {
		step++
	}
	for n, k := 1, 0; n <= most; n, k = n*10, k+1 {
		if k%step == 0 {
			t[logHeight(n, most)] = result.Count(n)
		}
	}
	return t
}

// coverageLevels are the probabilities of the intervals, in steps of 0.05.
var coverageLevels = func() (levels []float64) {
	for k := 1; k < 20; k++ {
		levels = append(levels, float64(k)/20)
	}
	return levels
}()

// histogram draws the scores of test rows as bars and the scores of training rows as an
// outline, each as shares of its rows.
func histogram(test, training []float64, x string) htmlDiagram {
	f := plotFrame{left: 60, top: 8, width: 368, height: 200}
	d := htmlDiagram{Class: "for", Height: "232", XName: x, YName: "share of rows"}
	across := newAxis(test, training)
	// Take twice the cube root of the length of the shorter nonempty list as the number of bars, between 8 and 30.
	n := min(len(test), len(training))
	if n == 0 {
		n = max(len(test), len(training))
	}
	bars := min(30, max(8, int(2*math.Cbrt(float64(n)))))
	share := func(values []float64) []float64 {
		h := make([]float64, bars)
		for _, v := range values {
			h[min(bars-1, max(0, int(float64(bars)*across.at(v))))] += 1 / float64(len(values))
		}
		return h
	}
	a, b, top := share(test), share(training), 0.0
	for k := range bars {
		top = math.Max(top, math.Max(a[k], b[k]))
	}
	top *= 1.05
	shares := axis{hi: 100 * top}.ticks() // in per cent
	for v := range shares {
		shares[v] += " %"
	}
	d.frame(f, across.ticks(), shares)
	var px, py []float64
	for k := range bars {
		lo, hi := float64(k)/float64(bars), float64(k+1)/float64(bars)
		if a[k] > 0 {
			d.Bars = append(d.Bars, htmlBox{X: coordinate(f.x(lo)), W: coordinate(f.x(hi) - f.x(lo)), Y: coordinate(f.y(a[k] / top)), H: coordinate(f.height * a[k] / top),
				Title: fmt.Sprintf("%s of test rows, %s of training rows", percent(a[k]), percent(b[k]))})
		}
		px, py = append(px, f.x(lo), f.x(hi)), append(py, f.y(b[k]/top), f.y(b[k]/top))
	}
	if len(training) > 0 {
		d.Outline = path(px, py)
	}
	d.Label = fmt.Sprintf("Histogram of novelty: %s as bars, %s as an outline", result.Some(len(test), "test row", "test rows"), result.Some(len(training), "training row", "training rows"))
	return d
}

// An axis maps scores to [0, 1]. It uses their logarithms if all are positive and the largest is
// more than 20 times the smallest.
type axis struct {
	lo, hi float64
	log    bool
}

func newAxis(lists ...[]float64) axis {
	a := axis{lo: math.Inf(1), hi: math.Inf(-1)}
	for _, list := range lists {
		for _, v := range list {
			a.lo, a.hi = math.Min(a.lo, v), math.Max(a.hi, v)
		}
	}
	if a.lo > 0 && a.hi > 20*a.lo {
		return axis{lo: math.Log10(a.lo), hi: math.Log10(a.hi), log: true}
	}
	if !(a.hi > a.lo) {
		a.lo, a.hi = a.lo-0.5, a.hi+0.5
	}
	return a
}

func (a axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// ticks returns ticks at powers of ten, or at multiples of 1, 2 or 5 times a power of ten.
func (a axis) ticks() map[float64]string {
	t := map[float64]string{}
	step := 1.0
	if a.log {
		for (a.hi-a.lo)/step > 6 {
			step++
		}
	} else {
		step = math.Pow(10, math.Floor(math.Log10((a.hi-a.lo)/3)))
		for _, k := range []float64{5, 2} {
			if (a.hi-a.lo)/(k*step) >= 3 {
				step *= k
				break
			}
		}
	}
	const slack = 1e-9 // keeps a tick at an end of the axis in spite of rounding
	first := math.Ceil(a.lo/step - slack)
	for k := range int((a.hi-a.lo)/step+slack) + 1 {
		v := (first + float64(k)) * step
		if v > a.hi+slack*step {
			break
		}
		at := (v - a.lo) / (a.hi - a.lo)
		switch {
		case !a.log:
			t[at] = typeset(result.Short(v))
		case v >= -3 && v <= 4:
			t[at] = result.Short(math.Pow(10, v))
		default:
			t[at] = "10" + raised.Replace(strconv.Itoa(int(v)))
		}
	}
	return t
}
