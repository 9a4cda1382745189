package coder

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// strips are the pictures of rows: the input, what of it was given, mean and standard
// deviation, and samples. Input and Start are nil where there are none.
type strips struct {
	Input, Start, Mean, SD *mat.Dense
	Samples                []*mat.Dense
}

// A page shows the strips of rows.
type page struct {
	Title   string
	session *session
	shape   []int // of a picture
	Heads   []string
	Rows    []strip
}

// A strip is a line of the page.
type strip struct {
	Name, Text string
	Tiles      []image.Image
}

// add adds row i.
func (p *page) add(r *Row, s *strips, i int) {
	var t strip
	heads := []string{}
	tile := func(head string, v []float64) {
		heads = append(heads, head)
		t.Tiles = append(t.Tiles, p.picture(v))
	}
	if s.Input != nil {
		tile("input", s.Input.RawRowView(i))
	}
	if s.Start != nil {
		tile("given", s.Start.RawRowView(i))
	}
	tile("mean", s.Mean.RawRowView(i))
	sd := append([]float64(nil), s.SD.RawRowView(i)...)
	most := floats.Max(sd)
	if most > 0 {
		floats.Scale(1/most, sd)
	}
	tile("sd", sd)
	for k, m := range s.Samples {
		tile(fmt.Sprintf("draw %d", k+1), m.RawRowView(i))
	}
	p.Heads = heads
	t.Name, t.Text = p.name(r), p.text(r, most)
	if s.Start != nil {
		// Say how well row i was filled in.
		sum, n := 0.0, 0
		input, start, mean := s.Input.RawRowView(i), s.Start.RawRowView(i), s.Mean.RawRowView(i)
		for j, v := range input {
			if start[j] != v {
				sum, n = sum+(mean[j]-v)*(mean[j]-v), n+1
			}
		}
		t.Text = fmt.Sprintf("mean squared error of a hidden pixel %.3g, of nothing there (black) %.3g; largest pixel sd over the draws %.3g", sum/float64(max(n, 1)), hiddenSquares(input, start)/float64(max(n, 1)), most)
	}
	p.Rows = append(p.Rows, t)
}

func (p *page) name(r *Row) string {
	if !r.SquaredError.Finite() {
		return fmt.Sprintf("picture %d", r.Index)
	}
	name := fmt.Sprintf("row %d", r.Index)
	if r.Label.Finite() {
		name += fmt.Sprintf(", label %v", float64(r.Label))
	}
	return name
}

// hiddenSquares is the sum of the squares of the hidden pixels.
func hiddenSquares(input, start []float64) float64 {
	sum := 0.0
	for j, v := range input {
		if start[j] != v {
			sum += v * v
		}
	}
	return sum
}

// text says in a line what the numbers of a row are.
func (p *page) text(r *Row, most float64) string {
	var code []string
	for _, v := range r.Latent {
		code = append(code, fmt.Sprintf("%.3g", float64(v)))
	}
	text := fmt.Sprintf("code (%s); largest pixel sd %.3g; sum of pixel sd %.4g", strings.Join(code, ", "), most, float64(r.Scores.OutputSD))
	if !r.SquaredError.Finite() {
		return text
	}
	return fmt.Sprintf("%s; latent sd %.3g; squared error %.4g; −log likelihood %.4g, %.3g from that of training rows", text, float64(r.Scores.LatentSD), float64(r.SquaredError), float64(r.Scores.NegLogLikelihood), float64(r.Scores.Typicality))
}

// picture turns pixels from 0 to 1 into an image; numbers outside are clipped.
func (p *page) picture(v []float64) image.Image {
	pix := make([]byte, len(v))
	for i, x := range v {
		pix[i] = byte(255*min(max(x, 0), 1) + 0.5)
	}
	w, h := p.shape[len(p.shape)-1], p.shape[len(p.shape)-2]
	if len(pix) == 3*w*h {
		return result.RGB(pix, w, h).Image
	}
	return result.Gray(pix[:w*h], w, h).Image
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"uri": uri}).Parse(pageText))

// uri returns an image as a PNG inside a URL.
func uri(img image.Image) (template.URL, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return "", err
	}
	// Base64 of a PNG that was made here holds no text of the caller.
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// write writes the files that are asked for.
func (p *page) write(o *Shown) error {
	if o.HTML != "" {
		view := struct {
			*page
			Model, Data, Made, Lead string
			Samples                 int
		}{p, p.session.Model.Name, p.session.Examples.Data.Source, p.session.made, lead(o), p.session.flags.samples}
		if err := atomicfile.Write(o.HTML, func(w io.Writer) error { return pageTemplate.Execute(w, view) }); err != nil {
			return err
		}
	}
	if o.PNG == "" {
		return nil
	}
	return atomicfile.Write(o.PNG, func(w io.Writer) error { return png.Encode(w, p.sheet()) })
}

// lead says what the columns are.
func lead(o *Shown) string {
	switch {
	case o.Generate > 0:
		return "Codes are drawn from the Gaussian with the mean and the covariance of the codes of training rows, and decoded by networks that are drawn from the posterior."
	case o.Hide != "":
		return "The " + o.Hide + " half was replaced by noise (given). Each drawn network fills it in ten times over, and the known half is put back each time; the mean of all drawn networks gives the pictures on the right."
	}
	return "The mean and the standard deviation of each pixel are over networks that are drawn from the posterior over the weights; the first of these are on the right."
}

const (
	tileSide = 84 // pixels of a tile on the sheet
	tileGap  = 6
	headLine = 18
	nameLine = 16
)

// sheet draws all strips below one another.
func (p *page) sheet() image.Image {
	const wordWidth = 7 // of basicfont
	width := tileGap + len(p.Heads)*(tileSide+tileGap)
	for _, r := range p.Rows {
		width = max(width, 2*tileGap+wordWidth*len([]rune(r.Name+": "+r.Text)))
	}
	img := image.NewRGBA(image.Rect(0, 0, width, headLine+len(p.Rows)*(nameLine+tileSide+tileGap)+tileGap))
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	write := func(x, y int, text string) {
		d := font.Drawer{Dst: img, Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(x, y)}
		d.DrawString(strings.ReplaceAll(text, "−", "-"))
	}
	for k, head := range p.Heads {
		write(tileGap+k*(tileSide+tileGap), headLine-5, head)
	}
	for i, r := range p.Rows {
		top := headLine + i*(nameLine+tileSide+tileGap)
		write(tileGap, top+nameLine-4, r.Name+": "+r.Text)
		for k, t := range r.Tiles {
			at := image.Pt(tileGap+k*(tileSide+tileGap), top+nameLine)
			// Draw an image into a rectangle without smoothing.
			to := image.Rectangle{at, at.Add(image.Pt(tileSide, tileSide))}
			from := t.Bounds()
			longer := max(from.Dx(), from.Dy())
			for y := range to.Dy() * from.Dy() / longer {
				for x := range to.Dx() * from.Dx() / longer {
					img.Set(to.Min.X+x, to.Min.Y+y, color.RGBAModel.Convert(t.At(from.Min.X+x*longer/to.Dx(), from.Min.Y+y*longer/to.Dy())))
				}
			}
		}
	}
	return img
}
