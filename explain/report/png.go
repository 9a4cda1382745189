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
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	fixedpoint "golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The chart is laid out in points and drawn at 144 dots an inch.
const (
	pngDPI   = 144
	pngWidth = 760
	pngEdge  = 34
	pngRow   = 36
	pngRows  = 24 // largest number of terms
	pngDigit = 152
)

var (
	pngInk     = color.RGBA{0x1b, 0x24, 0x30, 0xff}
	pngSoft    = color.RGBA{0x58, 0x64, 0x74, 0xff}
	pngLine    = color.RGBA{0xdf, 0xe2, 0xe6, 0xff}
	pngFor     = color.RGBA{0x21, 0x66, 0xac, 0xff}
	pngAgainst = color.RGBA{0xb3, 0x58, 0x06, 0xff}
)

// WritePNG writes a picture of the first explanation, that of the predicted class:
// the row, the prediction with its uncertainty, and bars of up to 24 of the
// largest terms.
func (p *Page) WritePNG(w io.Writer) error {
	v, err := p.view()
	if err != nil {
		return err
	}
	section := &v.sections[0]
	note := wrapped(typeset(v.cancellation(section)), 10.5, pngWidth-2*pngEdge)
	rows := min(len(section.lines), pngRows)
	s := newSheet(pngWidth, pngEdge+pngDigit+60+pngRow*(float64(rows)+1)+16*float64(len(note))+pngEdge)
	y := s.head(v, section)
	y = s.bars(v, section, rows, y)
	for _, l := range note {
		y += 16
		s.text(pngEdge, y, 10.5, pngSoft, l)
	}
	if err := png.Encode(w, s.img); err != nil {
		return fmt.Errorf("report: writing PNG: %w", err)
	}
	return nil
}

// A sheet is a white picture that is drawn in points; y runs downwards.
type sheet struct{ img *image.RGBA }

func newSheet(width, height float64) *sheet {
	img := image.NewRGBA(image.Rect(0, 0, int(dots(width)), int(dots(height))))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	return &sheet{img}
}

// dots converts points to pixels.
func dots(points float64) float64 { return points * pngDPI / 72 }

var pngFonts = sync.OnceValue(func() (fonts struct{ regular, bold *opentype.Font }) {
	parse := func(ttf []byte) *opentype.Font {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic(err) // the fonts are compiled in
		}
		return f
	}
	fonts.regular, fonts.bold = parse(liberationsansregular.TTF), parse(liberationsansbold.TTF)
	return fonts
})

// face returns the font, which is bold from 11 points on.
func face(size float64) font.Face {
	f := pngFonts().regular
	if size >= 11 {
		f = pngFonts().bold
	}
	// NewFace has no errors to give.
	face, _ := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: pngDPI})
	return face
}

// text writes t from x on, with its baseline at y, and returns where it ends.
func (s *sheet) text(x, y, size float64, c color.Color, t string) float64 {
	at := fixedpoint.Point26_6{X: fixedpoint.Int26_6(64 * dots(x)), Y: fixedpoint.Int26_6(64 * dots(y))}
	d := font.Drawer{Dst: s.img, Src: image.NewUniform(c), Face: face(size), Dot: at}
	d.DrawString(t)
	return x + width(t, size)
}

// width returns the length of a text in points.
func width(t string, size float64) float64 {
	return float64(font.MeasureString(face(size), t)) / dots(64)
}

// right writes text that ends at x.
func (s *sheet) right(x, y, size float64, c color.Color, t string) {
	s.text(x-width(t, size), y, size, c, t)
}

// box fills a rectangle given by its upper left corner.
func (s *sheet) box(x, y, w, h float64, c color.Color) {
	left, top, right, bottom := dots(x), dots(y), dots(x+w), dots(y+h)
	cover := image.Rect(int(left), int(top), int(math.Ceil(right)), int(math.Ceil(bottom)))
	r := vector.NewRasterizer(cover.Dx(), cover.Dy())
	corner := func(x, y float64) (float32, float32) {
		return float32(x) - float32(cover.Min.X), float32(y) - float32(cover.Min.Y)
	}
	r.MoveTo(corner(left, top))
	r.LineTo(corner(right, top))
	r.LineTo(corner(right, bottom))
	r.LineTo(corner(left, bottom))
	r.ClosePath()
	r.Draw(s.img, cover, image.NewUniform(c), image.Point{})
}

// picture draws p into a framed square of the given size, without smoothing.
func (s *sheet) picture(p Picture, profile *profile, invert bool, x, y, size float64) {
	if p.isEmpty() {
		return
	}
	s.box(x-1, y-1, size+2, size+2, pngLine)
	s.box(x, y, size, size, color.White)
	if p.Image != nil {
		s.pixels(p.Image, invert, x, y, size)
		return
	}
	bars := profile.bars(p)
	step := (size - 6) / float64(len(bars))
	for i, v := range bars {
		s.box(x+3+step*float64(i), y+3+(size-6)*(1-v), 0.8*step, (size-6)*v, pngSoft)
	}
}

func (s *sheet) pixels(img image.Image, invert bool, x, y, size float64) {
	from := img.Bounds()
	if from.Empty() {
		return
	}
	dot := func(v float64) int { return int(math.Round(dots(v))) }
	to := image.Rect(dot(x), dot(y), dot(x+size), dot(y+size))
	// The longer side fills the square.
	longer := max(from.Dx(), from.Dy())
	width, height := to.Dx()*from.Dx()/longer, to.Dy()*from.Dy()/longer
	to = image.Rect(0, 0, width, height).Add(to.Min).Add(image.Pt((to.Dx()-width)/2, (to.Dy()-height)/2))
	for j := to.Min.Y; j < to.Max.Y; j++ {
		for i := to.Min.X; i < to.Max.X; i++ {
			c := color.RGBAModel.Convert(img.At(from.Min.X+(i-to.Min.X)*from.Dx()/width, from.Min.Y+(j-to.Min.Y)*from.Dy()/height)).(color.RGBA)
			if invert {
				c.R, c.G, c.B = c.A-c.R, c.A-c.G, c.A-c.B
			}
			s.img.Set(i, j, c)
		}
	}
}

// head draws the row and the prediction, and returns the y where they end.
func (s *sheet) head(v *view, t *section) float64 {
	x, y := float64(pngEdge), float64(pngEdge)
	if !v.page.Test.isEmpty() {
		s.picture(v.page.Test, &v.profile, v.page.Invert, x, y, pngDigit)
		x += pngDigit + 28
	}
	head, badge, wrong := v.head()
	s.text(x, y+24, 24, pngInk, head)
	about, c := v.title(), pngSoft
	if badge != "" {
		about += ", " + strings.ToLower(strings.TrimLeft(badge, "✓✗ "))
	}
	if wrong {
		c = pngAgainst
	}
	s.text(x, y+44, 10.5, c, about)
	if p, sd, network := v.certainty(v.predicted); !math.IsNaN(p) {
		s.text(x, y+76, 14, pngInk, fmt.Sprintf("P(%s) = %s ± %s", v.page.Classes[v.predicted], probability(p), probability(sd)))
		if !math.IsNaN(network) {
			s.text(x, y+92, 10.5, pngSoft, "the trained network on its own says "+probability(network))
		}
	}
	s.text(x, y+124, 14, pngInk, typeset(fmt.Sprintf("%s = %s + %s + %s", fixed(t.f, t.digits),
		bracketed(t.m, t.digits), bracketed(t.s, t.digits), bracketed(t.remainder, t.digits))))
	s.text(x, y+140, 10.5, pngSoft, fmt.Sprintf("f, %s = prior mean + %s contributions + remainder", t.quantity, count(v.page.Report.Fit.Examples)))
	return y + pngDigit + 34
}

// bars draws the largest terms and returns the y where they end.
func (s *sheet) bars(v *view, t *section, rows int, y float64) float64 {
	const (
		names, left, right, value, removal = pngEdge + 40, 190, 580, 656, pngWidth - pngEdge
		middle, half                       = (left + right) / 2, (right - left) / 2
	)
	lines := t.lines[:rows]
	largest := 0.0
	for _, l := range lines {
		largest = math.Max(largest, math.Abs(l.term))
	}
	d := listDecimals(largest)
	up, down := v.sideTitles(t)
	colour := map[string]color.Color{"for": pngFor, "against": pngAgainst}
	s.right(middle-8, y, 11, colour[t.side(-1)], "− "+down)
	s.text(middle+8, y, 11, colour[t.side(+1)], "+ "+up)
	s.right(value, y, 10.5, pngSoft, "value")
	s.right(removal, y, 10.5, pngSoft, "without it")
	y += 12
	s.box(middle-0.5, y, 1, float64(pngRow*rows), pngLine)
	for _, l := range lines {
		s.picture(l.picture, &v.profile, v.page.Invert, pngEdge, y+4, pngRow-8)
		at := float64(names)
		if l.label != "" {
			s.text(at, y+22, 12, pngInk, typeset(l.label))
			at += 10 + 7*float64(len([]rune(l.label)))
		}
		s.text(at, y+22, 10.5, pngSoft, l.row)
		long := half * portion(l.term, largest)
		if l.term < 0 {
			s.box(middle-long, y+11, long, 14, colour[t.side(-1)])
		} else {
			s.box(middle, y+11, long, 14, colour[t.side(+1)])
		}
		s.right(value, y+22, 12, colour[t.side(l.term)], typeset(signed(l.term, d)))
		s.right(removal, y+22, 10.5, pngSoft, typeset(signed(float64(l.Removal), d)))
		y += pngRow
	}
	if n, rest := v.without(t.s, lines); n > 0 {
		s.text(names, y+22, 10.5, pngSoft, "the other "+some(n, "training example", "training examples")+" together")
		s.right(value, y+22, 12, pngSoft, typeset(signed(rest, d)))
	}
	return y + pngRow
}

// wrapped breaks text into lines of at most the given width.
func wrapped(t string, size, limit float64) []string {
	var lines []string
	for _, word := range strings.Fields(t) {
		if k := len(lines) - 1; k >= 0 && width(lines[k]+" "+word, size) <= limit {
			lines[k] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
