package picture

import (
	"image"
	"image/color"
)

// turned is an image shown in one of the eight orientations of EXIF. From 5 on,
// rows and columns are exchanged.
type turned struct {
	image.Image
	orientation int
}

var _ image.Image = (*turned)(nil)

// Bounds implements image.Image.
func (t *turned) Bounds() image.Rectangle {
	b := t.Image.Bounds()
	if t.orientation >= 5 {
		return image.Rect(0, 0, b.Dy(), b.Dx())
	}
	return image.Rect(0, 0, b.Dx(), b.Dy())
}

// At implements image.Image.
func (t *turned) At(x, y int) color.Color {
	b := t.Image.Bounds()
	right, bottom := b.Dx()-1, b.Dy()-1
	switch t.orientation {
	case 2: // mirrored
		x = right - x
	case 3: // upside down
		x, y = right-x, bottom-y
	case 4:
		y = bottom - y
	case 5:
		x, y = y, x
	case 6: // a quarter turn clockwise makes it upright
		x, y = y, bottom-x
	case 7:
		x, y = right-y, bottom-x
	case 8:
		x, y = right-y, x
	}
	return t.Image.At(b.Min.X+x, b.Min.Y+y)
}
