package picture

import (
	"errors"
	"fmt"
	"image"
	"math"
	"slices"

	"golang.org/x/image/draw"
)

// Options says what a network takes, and what its training pictures look like.
type Options struct {
	Channels      int // 1 for grey, 3 for red, green and blue
	Height, Width int // in pixels

	// Border is the mean grey level of the border of the training pictures, from 0 to
	// 255, one a channel. It shows through transparent pixels. Nil means unknown: then
	// it is black, and Auto never inverts.
	Border []float64

	Invert Choice
}

// Choice says whether to invert a picture.
type Choice int

// Auto inverts a picture whose border is clearly the opposite of the border of the
// training pictures.
const (
	Auto Choice = iota
	Yes
	No
)

// Input is a picture as the network takes it.
type Input struct {
	Pixels []byte   // grey levels, Channels×Height×Width
	Notes  []string // what was done to the picture, and what is odd about it
}

// ErrBlank is the cause of a Fit that fails because nothing is to be seen.
var ErrBlank = errors.New("blank")

// opposite is by how many grey levels inverting must bring the border nearer to that
// of the training pictures.
const opposite = 96

// Fit turns a picture into an input. Its proportions are kept: a larger picture is
// averaged down, each pixel counting by its area in every box it touches; a smaller
// one is enlarged bilinearly; and the rest is filled with the mean of its border. It is
// inverted where Options.Invert says so, or where its border is then clearly nearer to that of the
// training pictures. The error is ErrBlank where all pixels come out alike, and another where there are none.
func Fit(p *Picture, o *Options) (*Input, error) {
	if o.Channels != 1 && o.Channels != 3 || o.Height < 1 || o.Width < 1 || o.Border != nil && len(o.Border) != o.Channels {
		panic("picture: impossible input")
	}
	in := &Input{Pixels: make([]byte, o.Channels*o.Height*o.Width), Notes: append([]string(nil), p.Notes...)}
	note := func(format string, a ...any) { in.Notes = append(in.Notes, fmt.Sprintf(format, a...)) }

	// The size of the picture within the input.
	size := p.Image.Bounds().Size()
	if size.X < 1 || size.Y < 1 {
		return nil, fmt.Errorf("it has %d×%d pixels", size.X, size.Y)
	}
	scale := min(float64(o.Width)/float64(size.X), float64(o.Height)/float64(size.Y))
	fit := func(n, most int) int { return min(max(int(math.Round(float64(n)*scale)), 1), most) }
	w, h := fit(size.X, o.Width), fit(size.Y, o.Height)
	img := p.Image
	if w > size.X || h > size.Y {
		big := image.NewRGBA64(image.Rect(0, 0, w, h))
		draw.BiLinear.Scale(big, big.Rect, img, img.Bounds(), draw.Src, nil)
		img = big
	}
	s := shrink(img, w, h)

	const eye = 4 * 257 // up to which a difference of colours is a shade of grey, to the eye
	if o.Channels == 1 && slices.ContainsFunc(s.v, func(p [4]float64) bool { return max(p[0], p[1], p[2])-min(p[0], p[1], p[2]) > eye }) {
		note("colours turned to grey")
	}
	levels := s.levels(o, false)
	border := ring(levels, w, h, o.Channels)
	invert := o.Invert == Yes
	if o.Border != nil {
		own, train := mean(border), mean(o.Border)
		why := fmt.Sprintf("its border has grey level %.0f, that of the training pictures %.0f", own, train)
		switch far := math.Abs(own-train)-math.Abs(255-own-train) > opposite; {
		case o.Invert == No && far:
			note("not inverted, as asked, though %s", why)
		case o.Invert == Auto && far:
			note("inverted, since %s", why)
			invert = true
		}
	}
	if invert {
		levels = s.levels(o, true)
		border = ring(levels, w, h, o.Channels)
	}
	if w != o.Width || h != o.Height || size.X != w || size.Y != h {
		text := fmt.Sprintf("%d×%d pixels averaged down to %d×%d", size.X, size.Y, w, h)
		if w > size.X || h > size.Y {
			text = fmt.Sprintf("%d×%d pixels enlarged to %d×%d", size.X, size.Y, w, h)
		} else if size.X == w && size.Y == h {
			text = fmt.Sprintf("%d×%d pixels", w, h)
		}
		if w < o.Width || h < o.Height {
			text += fmt.Sprintf(", with a border of grey level %.0f to fill %d×%d", mean(border), o.Width, o.Height)
		}
		note("%s", text)
	}

	// The levels go into the middle of the input.
	left, top := (o.Width-w)/2, (o.Height-h)/2
	for c := range o.Channels {
		plane := in.Pixels[c*o.Height*o.Width : (c+1)*o.Height*o.Width]
		for i := range plane {
			v, x, y := border[c], i%o.Width-left, i/o.Width-top
			if x >= 0 && x < w && y >= 0 && y < h {
				v = levels[(c*h+y)*w+x]
			}
			plane[i] = byte(min(max(v, 0), 255) + 0.5)
		}
	}
	if o.Border != nil {
		plain := mean(o.Border) < 64 || mean(o.Border) > 191 // a plain dark or light background
		if plain && math.Abs(mean(border)-mean(o.Border)) > 32 {
			note("its background has grey level %.0f, that of the training pictures %.0f: more contrast may help", mean(border), mean(o.Border))
		}
	}
	if slices.ContainsFunc(in.Pixels, func(v byte) bool { return v != in.Pixels[0] }) {
		return in, nil
	}
	return nil, fmt.Errorf("%w: every pixel has grey level %d", ErrBlank, in.Pixels[0])
}

// ring returns the mean of the outermost pixels of each channel.
func ring(levels []float64, w, h, channels int) []float64 {
	out := make([]float64, channels)
	for c := range out {
		n := 0.0
		for y := range h {
			for x := range w {
				if x == 0 || y == 0 || x == w-1 || y == h-1 {
					out[c] += levels[(c*h+y)*w+x]
					n++
				}
			}
		}
		out[c] /= n
	}
	return out
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// samples are the pixels of a picture at the size of the input: red, green, blue
// and opacity, from 0 to 65535, the colours times the opacity.
type samples struct {
	w, h int
	v    [][4]float64
}

// shrink averages a picture down. A pixel that lies in several boxes counts in each
// by its area there.
func shrink(img image.Image, w, h int) *samples {
	b := img.Bounds()
	s := &samples{w: w, h: h, v: make([][4]float64, w*h)}
	across, down := weights(b.Dx(), w), weights(b.Dy(), h)
	row := make([][4]float64, w)
	for y := range b.Dy() {
		clear(row)
		for x := range b.Dx() {
			r, g, bl, a := img.At(b.Min.X+x, b.Min.Y+y).RGBA()
			for _, part := range across[x] {
				p := &row[part.box]
				p[0] += part.weight * float64(r)
				p[1] += part.weight * float64(g)
				p[2] += part.weight * float64(bl)
				p[3] += part.weight * float64(a)
			}
		}
		for _, part := range down[y] {
			for x := range row {
				for k, v := range row[x] {
					s.v[part.box*w+x][k] += part.weight * v
				}
			}
		}
	}
	// The weights of a box sum to big/small pixels each way.
	area := float64(b.Dx()) / float64(w) * float64(b.Dy()) / float64(h)
	for i := range s.v {
		for k := range s.v[i] {
			s.v[i][k] /= area
		}
	}
	return s
}

// share is the length of a pixel that lies in a box.
type share struct {
	box    int
	weight float64
}

// weights returns for each of big pixels in a line the boxes it lies in, when the
// line is divided into small boxes of one length.
func weights(big, small int) [][]share {
	out := make([][]share, big)
	for i := range out {
		for box := i * small / big; box < small; box++ {
			lo, hi := float64(box)*float64(big)/float64(small), float64(box+1)*float64(big)/float64(small)
			if lo >= float64(i+1) {
				break
			}
			if part := min(hi, float64(i+1)) - max(lo, float64(i)); part > 0 {
				out[i] = append(out[i], share{box, part})
			}
		}
	}
	return out
}

// levels returns grey levels from 0 to 255, one plane a channel. Transparent pixels
// show the border of the training pictures, inverted or not.
func (s *samples) levels(o *Options, invert bool) []float64 {
	out := make([]float64, o.Channels*len(s.v))
	for c := range o.Channels {
		behind := 0.0
		if o.Border != nil {
			behind = o.Border[c]
		}
		for i, p := range s.v {
			v := p[c]
			if o.Channels == 1 {
				// Luma of ITU-R BT.601, weights in 1/65536 as in image/color.
				v = (19595*p[0] + 38470*p[1] + 7471*p[2]) / 65536
			}
			if invert {
				v = p[3] - v
			}
			out[c*len(s.v)+i] = v/257 + (1-p[3]/65535)*behind
		}
	}
	return out
}
