package report

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// The chart is laid out in points and drawn at 144 dots an inch.
const (
	pngDPI     = 144
	pngWidth   = 760
	pngEdge    = 34
	pngRow     = 36
	pngRows    = 24 // largest number of terms
	pngDigit   = 152
	pngText    = 10.5
	pngHighest = 1000 // of all but the terms
)

var (
	pngInk     = color.RGBA{0x1b, 0x24, 0x30, 0xff}
	pngSoft    = color.RGBA{0x58, 0x64, 0x74, 0xff}
	pngLine    = color.RGBA{0xdf, 0xe2, 0xe6, 0xff}
	pngFor     = color.RGBA{0x21, 0x66, 0xac, 0xff}
	pngAgainst = color.RGBA{0xb3, 0x58, 0x06, 0xff}
	pngFlag    = color.RGBA{0x8a, 0x1c, 0x1c, 0xff}
)

// WritePNG writes a picture of the first explanation: the row, the prediction with
// its uncertainty, bars of up to 24 of the largest terms and, of rows of features,
// the row beside those that speak most for and against it.
func (p *Page) WritePNG(w io.Writer) error {
	v, err := p.view()
	if err != nil {
		return err
	}
	section := &v.sections[0]
	rows := min(len(section.lines), pngRows)
	height := pngHighest + pngRow*float64(rows)
	img := image.NewRGBA(image.Rect(0, 0, int(dots(pngWidth)), int(dots(height))))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	s := &sheet{img}
	y := s.alarms(v, pngEdge)
	y = s.head(v, section, y)
	y = s.bars(v, section, rows, y+34)
	y = s.comparison(v, section, y)
	y = s.paragraph(pngEdge, y+8, pngText, pngWidth-2*pngEdge, 5, pngSoft, typeset(v.cancellation(section)))
	y = s.paragraph(pngEdge, y+6, pngText, pngWidth-2*pngEdge, 4, pngSoft, strings.Join(bases(p.Report), " "))
	size := img.Bounds()
	size.Max.Y = min(size.Max.Y, int(dots(y+pngEdge)))
	if err := png.Encode(w, img.SubImage(size)); err != nil {
		return fmt.Errorf("report: writing PNG: %w", err)
	}
	return nil
}

// alarms writes the warnings that must not be missed and returns where they end.
func (s *sheet) alarms(v *view, y float64) float64 {
	list, _ := v.page.Report.Fit.Alarms()
	if list == nil {
		return y
	}
	for _, w := range list {
		end := s.paragraph(pngEdge+12, y, pngText, pngWidth-2*pngEdge-12, 3, pngFlag, "Warning: "+w)
		s.box(pngEdge, y+3, 4, end-y, pngFlag)
		y = end + 4
	}
	return y + 14
}

// head draws the row and the prediction, and returns the y where they end.
func (s *sheet) head(v *view, t *section, top float64) float64 {
	x, y := float64(pngEdge), top
	if v.page.Test.Image != nil {
		s.picture(v.page.Test, v.page.Invert, x, y, pngDigit)
		x += pngDigit + 28
	}
	limit := pngWidth - pngEdge - x
	h := v.headline()
	y = s.paragraph(x, y, 22, limit, 2, pngInk, strings.TrimSpace(h.head+" "+h.sure))
	about, c := v.title(), pngSoft
	if h.badge != "" {
		about += ". " + strings.TrimLeft(h.badge, "✓✗ ")
	}
	if h.wrong {
		c = pngAgainst
	}
	y = s.paragraph(x, y+6, pngText, limit, 2, c, about)
	if text := v.disagreement(); text != "" {
		y = s.paragraph(x, y+10, pngText, limit, 4, pngInk, text)
	} else if p, sd, network := v.certainty(v.predicted); !math.IsNaN(p) {
		y = s.paragraph(x, y+12, 14, limit, 1, pngInk, fmt.Sprintf("P(%s) = %s ± %s", fit(v.page.Classes[v.predicted], 14, limit/2), Probability(p), Probability(sd)))
		if !math.IsNaN(network) {
			y = s.paragraph(x, y+3, pngText, limit, 1, pngSoft, v.trained()+" says "+Probability(network))
		}
	}
	if i := v.interval(); i != nil {
		d := max(0, decimals(i.lo, i.hi)-1)
		y = s.paragraph(x, y+12, pngText, limit, 1, pngInk, fmt.Sprintf("95 %% interval of a new observation: %s to %s", typeset(fixed(i.lo, d)), typeset(fixed(i.hi, d))))
	}
	y = s.paragraph(x, y+10, 14, limit, 1, pngInk, typeset(fmt.Sprintf("%s = %s + %s + %s", fixed(t.f, t.digits),
		bracketed(t.m, t.digits), bracketed(t.s, t.digits), bracketed(t.remainder, t.digits))))
	y = s.paragraph(x, y+3, pngText, limit, 3, pngSoft, fmt.Sprintf("f, %s = prior mean, %s + %s contributions + remainder", t.quantity, priorMeaning, result.Count(v.page.Report.Fit.Examples)))
	if v.page.Test.Image != nil {
		y = math.Max(y, top+pngDigit)
	}
	return y
}

// bars draws the largest terms and returns the y where they end.
func (s *sheet) bars(v *view, t *section, rows int, y float64) float64 {
	const (
		left, right, value, removal = 262, 570, 648, pngWidth - pngEdge
		middle, half                = (left + right) / 2, (right - left) / 2
	)
	lines := t.lines[:rows]
	names, largest := float64(pngEdge), 0.0
	for _, l := range lines {
		largest = math.Max(largest, math.Abs(l.term))
		if l.picture.Image != nil {
			names = pngEdge + 40
		}
	}
	d := listDecimals(largest)
	up, down := v.sideTitles(t)
	colour := map[string]color.Color{"for": pngFor, "against": pngAgainst}
	s.right(middle-8, y, 11, pngAgainst, "− "+fit(down, 11, 1.6*half))
	s.text(middle+8, y, 11, pngFor, "+ "+fit(up, 11, half))
	s.right(value, y, pngText, pngSoft, "value")
	s.right(removal, y, pngText, pngSoft, "without it")
	y += 12
	s.box(middle-0.5, y, 1, float64(pngRow*rows), pngLine)
	for _, l := range lines {
		s.picture(l.picture, v.page.Invert, pngEdge, y+4, pngRow-8)
		at := names
		if l.label != "" {
			at = s.text(at, y+22, 12, pngInk, fit(l.shown(), 12, 0.6*(left-8-names))) + 7
		}
		s.text(at, y+22, pngText, pngSoft, fit(l.row, pngText, left-8-at))
		long := half * portion(l.term, largest)
		if l.term < 0 {
			s.box(middle-long, y+11, long, 14, pngAgainst)
		} else {
			s.box(middle, y+11, long, 14, pngFor)
		}
		s.right(value, y+22, 12, colour[side(l.term)], typeset(signed(l.term, d)))
		s.right(removal, y+22, pngText, pngSoft, typeset(signed(float64(l.Removal), d)))
		y += pngRow
	}
	if n, rest := v.without(t.s, lines); n > 0 {
		s.text(names, y+22, pngText, pngSoft, "the other "+result.Some(n, "training example", "training examples")+" together")
		s.right(value, y+22, 12, pngSoft, typeset(signed(rest, d)))
		y += pngRow
	}
	return y
}

// pngFeatures is the largest number of features in the table of a picture.
const pngFeatures = 14

// comparison draws the features of the row beside those of the rows that speak most
// for and against it, and returns the y where they end.
func (s *sheet) comparison(v *view, t *section, y float64) float64 {
	c := (&htmlWriter{view: v}).comparison(t)
	if c == nil {
		return y
	}
	ends := []float64{420, 573, pngWidth - pngEdge}
	const gap, names = 14, 300
	y += 26
	s.right(ends[0], y, 11, pngInk, "this row")
	shown := make([]int, 0, 2)
	for k, col := range c.Columns {
		if !col.Extra && len(shown) < 2 {
			s.right(ends[1+len(shown)], y, 11, map[string]color.Color{"for": pngFor, "against": pngAgainst}[col.Class], fit(col.Row, 11, 150-gap))
			shown = append(shown, k)
		}
	}
	for i, f := range c.Rows {
		if i == pngFeatures {
			y += 18
			s.text(pngEdge, y, pngText, pngSoft, "and "+result.Some(len(c.Rows)+len(c.More)-i, "other feature", "other features"))
			break
		}
		y += 18
		s.box(pngEdge, y-13, pngWidth-2*pngEdge, 0.6, pngLine)
		s.text(pngEdge, y, pngText, pngInk, fit(f.Name, pngText, names-pngEdge))
		s.right(ends[0], y, pngText, pngInk, fit(f.This, pngText, ends[0]-names-gap))
		for n, k := range shown {
			cell := f.Cells[k]
			text := strings.TrimSpace(cell.Mark + " " + cell.Value)
			ink := map[bool]color.Color{true: pngInk, false: pngSoft}[cell.Mark != ""]
			s.right(ends[1+n], y, pngText, ink, fit(text, pngText, 153-gap))
		}
	}
	return y + 12
}
