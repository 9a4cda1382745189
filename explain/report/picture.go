package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/png"
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

// RGB returns the picture of h×w pixels whose red, green and blue values are three
// planes, each row-major. It panics if their number is not 3·h·w.
func RGB(pix []byte, w, h int) Picture {
	if w <= 0 || h <= 0 || len(pix) != 3*w*h {
		panic("report: values of colours do not fill the picture")
	}
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(img.Pix[4*i:], []byte{pix[i], pix[w*h+i], pix[2*w*h+i], 255})
	}
	return Picture{Image: img}
}

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
		fmt.Fprintf(&b, "%s %s", p.name(i), datum(v))
	}
	return b.String()
}
