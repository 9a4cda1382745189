package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/png"
	"math"
	"strconv"
	"strings"
)

// A Picture shows a row as an image or as feature values. The zero Picture shows
// nothing.
type Picture struct {
	Image  image.Image
	Names  []string // of the features; may be shorter than Values
	Values []float64
}

// Gray returns the picture of h×w grey values, row-major, which it does not copy.
// It panics if their number is not h·w.
func Gray(pix []byte, w, h int) Picture {
	if w <= 0 || h <= 0 || len(pix) != w*h {
		panic("report: grey values do not fill the picture")
	}
	return Picture{Image: &image.Gray{Pix: pix, Stride: w, Rect: image.Rect(0, 0, w, h)}}
}

// isEmpty reports whether there is nothing to show.
func (p Picture) isEmpty() bool { return p.Image == nil && len(p.Values) == 0 }

// dataURI returns the image as a PNG inside a URL, or "" without an image.
func (p Picture) dataURI() (template.URL, error) {
	if p.Image == nil {
		return "", nil
	}
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&b, p.Image); err != nil {
		return "", fmt.Errorf("report: encoding a picture: %w", err)
	}
	// Base64 of our own PNG contains no text of the caller, so it is safe.
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

func (p Picture) name(i int) string {
	if i < len(p.Names) {
		return p.Names[i]
	}
	return "x" + strconv.Itoa(i+1)
}

// brief lists the first n feature values.
func (p Picture) brief(n int) string {
	var b strings.Builder
	for i, v := range p.Values {
		if i == n {
			fmt.Fprintf(&b, " and %d more", len(p.Values)-n)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", p.name(i), short(v))
	}
	return b.String()
}

// A profile holds the range of each feature among the pictures of a page, to draw
// values as bars.
type profile struct{ lo, hi []float64 }

func (r *profile) include(p Picture) {
	for i, v := range p.Values {
		if i == len(r.lo) {
			r.lo, r.hi = append(r.lo, v), append(r.hi, v)
		}
		r.lo[i], r.hi[i] = math.Min(r.lo[i], v), math.Max(r.hi[i], v)
	}
}

// maxBars is the largest number of features that a thumbnail draws.
const maxBars = 48

// bars returns the height of each feature, 0.05 to 1.
func (r *profile) bars(p Picture) []float64 {
	var h []float64
	for i, v := range p.Values {
		if i == maxBars {
			break
		}
		if d := r.hi[i] - r.lo[i]; d > 0 && !math.IsNaN(v) {
			h = append(h, 0.05+0.95*(v-r.lo[i])/d)
		} else {
			h = append(h, 0.5)
		}
	}
	return h
}
