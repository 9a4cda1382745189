package result

import "image"

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
		panic("result: grey values do not fill the picture")
	}
	return Picture{Image: &image.Gray{Pix: pix, Stride: w, Rect: image.Rect(0, 0, w, h)}}
}

// RGB returns the picture of h×w pixels whose red, green and blue values are three
// planes, each row-major. It panics if their number is not 3·h·w.
func RGB(pix []byte, w, h int) Picture {
	if w <= 0 || h <= 0 || len(pix) != 3*w*h {
		panic("result: values of colours do not fill the picture")
	}
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(img.Pix[4*i:], []byte{pix[i], pix[w*h+i], pix[2*w*h+i], 255})
	}
	return Picture{Image: img}
}
