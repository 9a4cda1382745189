package coder

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/png"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// A page shows the pictures of rows.
type page struct {
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

// add adds row i: the input, what it is with its missing pixels filled in, mean and standard deviation, and what the
// first drawn networks make of it.
func (p *page) add(r *Row, input, x *mat.Dense, d *autoencoder.Drawn, i int) {
	var t strip
	heads := []string{}
	tile := func(head string, v []float64) {
		heads = append(heads, head)
		// Turn pixels from 0 to 1 into an image; numbers outside are clipped.
		pix := make([]byte, len(v))
		for i, x := range v {
			pix[i] = byte(255*min(max(x, 0), 1) + 0.5)
		}
		w, h := p.shape[len(p.shape)-1], p.shape[len(p.shape)-2]
		if len(pix) == 3*w*h {
			t.Tiles = append(t.Tiles, result.RGB(pix, w, h).Image)
		} else {
			t.Tiles = append(t.Tiles, result.Gray(pix[:w*h], w, h).Image)
		}
	}
	tile("input", input.RawRowView(i))
	if r.Filled != nil {
		tile("filled in", x.RawRowView(i))
	}
	tile("mean", d.Mean.RawRowView(i))
	sd := slices.Clone(d.SD.RawRowView(i))
	most := floats.Max(sd)
	if most > 0 {
		floats.Scale(1/most, sd)
	}
	tile("sd", sd)
	for k, m := range d.Samples {
		tile(fmt.Sprintf("draw %d", k+1), m.RawRowView(i))
	}
	p.Heads = heads
	t.Name = fmt.Sprintf("row %d", r.Index)
	if r.Label.Finite() {
		t.Name += fmt.Sprintf(", label %v", float64(r.Label))
	}
	var code []string
	for _, v := range r.Latent {
		code = append(code, fmt.Sprintf("%.3g", float64(v)))
	}
	t.Text = fmt.Sprintf("code (%s); largest pixel sd %.3g; sum of pixel sd %.4g; latent sd %.3g; squared error %.4g; −log likelihood %.4g, %.3g from that of training rows", strings.Join(code, ", "), most,
		float64(r.Scores.OutputSD), float64(r.Scores.LatentSD), float64(r.SquaredError), float64(r.Scores.NegLogLikelihood), float64(r.Scores.Typicality))
	p.Rows = append(p.Rows, t)
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

// write writes the page to a file.
func (p *page) write(path string) error {
	model, data := p.session.set.Names()
	view := struct {
		*page
		Model, Data, Made string
		Samples           int
	}{p, model, data, p.session.made, p.session.flags.samples}
	return atomicfile.Write(path, func(w io.Writer) error { return pageTemplate.Execute(w, view) })
}
