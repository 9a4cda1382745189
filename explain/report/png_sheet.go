package report

import (
	"image"
	"image/color"
	"math"
	"sort"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	fixedpoint "golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"github.com/funcgp/funcgp/explain/result"
)

// A sheet is a white picture that is drawn in points; y runs downwards.
type sheet struct{ img *image.RGBA }

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
	t = drawable(t)
	at := fixedpoint.Point26_6{X: fixedpoint.Int26_6(64 * dots(x)), Y: fixedpoint.Int26_6(64 * dots(y))}
	d := font.Drawer{Dst: s.img, Src: image.NewUniform(c), Face: face(size), Dot: at}
	d.DrawString(t)
	return x + width(t, size)
}

// width returns the length of a text in points.
func width(t string, size float64) float64 {
	return float64(font.MeasureString(face(size), drawable(t))) / dots(64)
}

// drawable replaces the spaces that the fonts do not have.
var drawable = strings.NewReplacer("\u202f", " ", "\u00a0", " ").Replace

// fit shortens text to a length in points, the last character an ellipsis.
func fit(t string, size, limit float64) string {
	if width(t, size) <= limit {
		return t
	}
	runes := []rune(t)
	n := sort.Search(len(runes), func(n int) bool { return width(string(runes[:n+1])+"…", size) > limit })
	return strings.TrimRight(string(runes[:n]), " ") + "…"
}

// paragraph writes text in lines of at most the given length, at most a number of
// them, and returns the baseline of the last.
func (s *sheet) paragraph(x, y, size, limit float64, lines int, c color.Color, t string) float64 {
	// Break text into lines of at most the given width.
	var list []string
	for _, word := range strings.Fields(t) {
		if k := len(list) - 1; k >= 0 && width(list[k]+" "+word, size) <= limit {
			list[k] += " " + word
		} else {
			list = append(list, word)
		}
	}
	for i, l := range list {
		if i == lines {
			return y
		}
		if i == lines-1 {
			l = strings.Join(list[i:], " ")
		}
		y += 1.25 * size
		s.text(x, y, size, c, fit(l, size, limit))
	}
	return y
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

// picture draws the image of p into a framed square of the given size, without
// smoothing.
func (s *sheet) picture(p result.Picture, invert bool, x, y, size float64) {
	if p.Image == nil {
		return
	}
	s.box(x-1, y-1, size+2, size+2, pngLine)
	s.box(x, y, size, size, color.White)
	s.pixels(p.Image, invert, x, y, size)
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
