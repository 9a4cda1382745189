package serve

import (
	"fmt"
	"image"
	"image/color"
	"math"

	"golang.org/x/image/draw"

	"github.com/funcgp/funcgp/internal/picture"
)

// inkBox is the share of the side that the ink of a digit of MNIST may fill: 20 of 28
// pixels.
const inkBox = 20.0 / 28

// inkNote tells the user what centred did.
func inkNote(side int) string {
	box := int(math.Round(inkBox * float64(side)))
	return fmt.Sprintf("what is drawn was scaled to fit %d×%d pixels, and its centre of mass moved to the middle of %d×%d", box, box, side, side)
}

// leastInk is the smallest difference from the background, from 0 to 255, at which a pixel of a
// drawing counts as ink.
const leastInk = 24

// mostDrawn is the longest side of a drawing, in pixels.
const mostDrawn = 4096

// centred prepares a drawing as the digits of MNIST were prepared. It scales the box around the
// ink, with its proportions kept, so that the longer side is 20 of 28 pixels; each new pixel is the
// average of those it covers. Then it moves the box by whole pixels so that the centre of mass of
// the ink is nearest to the middle of side×side pixels (LeCun, Cortes and Burges, The MNIST
// database of handwritten digits). Ink is every pixel that is lighter or darker than the mean of
// the border. The result is light on dark, or dark on light where dark is false.
func centred(img image.Image, side int, dark bool) (*image.Gray, error) {
	if size := img.Bounds().Size(); max(size.X, size.Y) > mostDrawn {
		return nil, fmt.Errorf("%d×%d pixels, and drawings of at most %d×%d are taken", size.X, size.Y, mostDrawn, mostDrawn)
	}
	// Compute how much each pixel differs from the mean of the border, and the box around the pixels
	// that count as ink.
	b := img.Bounds()
	ink := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	// Transparent pixels are black.
	draw.Draw(ink, ink.Rect, image.NewUniform(color.Black), image.Point{}, draw.Src)
	draw.Draw(ink, ink.Rect, img, b.Min, draw.Over)
	border, count := 0, 0
	for y := range b.Dy() {
		for x := range b.Dx() {
			if x == 0 || y == 0 || x == b.Dx()-1 || y == b.Dy()-1 {
				border += int(ink.GrayAt(x, y).Y)
				count++
			}
		}
	}
	background := (border + count/2) / count
	var box image.Rectangle
	for y := range b.Dy() {
		row := ink.Pix[y*ink.Stride:][:b.Dx()]
		for x, v := range row {
			d := int(v) - background
			d = max(d, -d)
			row[x] = byte(d)
			if d >= leastInk {
				box = box.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if box.Empty() {
		return nil, fmt.Errorf("%w: nothing is drawn on it", picture.ErrBlank)
	}
	most := math.Round(inkBox * float64(side))
	scale := most / float64(max(box.Dx(), box.Dy()))
	fit := func(n int) int { return max(1, int(math.Round(scale*float64(n)))) }
	small := image.NewGray(image.Rect(0, 0, fit(box.Dx()), fit(box.Dy())))
	draw.BiLinear.Scale(small, small.Rect, ink, box, draw.Src, nil)
	x, y := centreOfMass(small)
	// The centres of mass of MNIST lie within half a pixel of the middle of pixel 14, the
	// first one right of and below the middle.
	middle := float64(side)/2 + 0.5
	dx, dy := int(math.Round(middle-x)), int(math.Round(middle-y))
	// Keep a lopsided drawing inside the picture.
	dx = min(max(dx, 0), side-small.Rect.Dx())
	dy = min(max(dy, 0), side-small.Rect.Dy())
	out := image.NewGray(image.Rect(0, 0, side, side))
	draw.Draw(out, small.Rect.Add(image.Pt(dx, dy)), small, image.Point{}, draw.Src)
	if !dark {
		for i, v := range out.Pix {
			out.Pix[i] = 255 - v
		}
	}
	return out, nil
}

// centreOfMass is the mean position of the ink, in pixels from the upper left corner of
// the picture: the middle of the first pixel is at ½.
func centreOfMass(img *image.Gray) (x, y float64) {
	var mass, sx, sy float64
	for i, v := range img.Pix {
		mass += float64(v)
		sx += float64(v) * (float64(i%img.Stride) + 0.5)
		sy += float64(v) * (float64(i/img.Stride) + 0.5)
	}
	if mass == 0 {
		return float64(img.Rect.Dx()) / 2, float64(img.Rect.Dy()) / 2
	}
	return sx / mass, sy / mass
}
