package dataset

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"slices"
)

// InputOptions says what the data expect of a single input from a file.
type InputOptions struct {
	Shape   []int    // of the data: [1 h w] for images, [D] for features
	Columns []string // names of the features, to match a CSV header; nil keeps the order of the file
	Invert  bool     // invert a picture of dark ink on light paper
}

// Input is a single input from a file of its own.
type Input struct {
	X      []float64 // D numbers: pixels divided by 255, features unscaled
	Pixels []byte    // grey levels as the network sees them; nil for features
	Light  bool      // the picture's border is light, so it may need Invert
}

// maxInputPixels bounds a picture before it is decoded.
const maxInputPixels = 1 << 24

// ReadInput reads one input from a PNG picture or from a CSV file with one row
// of D numbers, with or without a header. A picture is converted to grey levels,
// with transparent pixels as background; one that is larger than the shape, in
// the same proportion, is averaged down. A CSV row of an image holds grey levels
// from 0 to 255. The error is an *Error or, if ctx is done, its error.
func ReadInput(ctx context.Context, path string, o *InputOptions) (*Input, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readInput(f, path, o)
}

func readInput(r io.ReadSeeker, name string, o *InputOptions) (*Input, error) {
	b := bufio.NewReader(r)
	if head, _ := b.Peek(8); string(head) == "\x89PNG\r\n\x1a\n" {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return nil, &Error{File: name, Problem: "cannot be read", Err: err}
		}
		return readPicture(r, name, o)
	}
	return readRow(b, name, o)
}

// imageShape returns height and width of [1 h w] and [h w].
func imageShape(shape []int) (h, w int, ok bool) {
	if len(shape) == 3 && shape[0] == 1 {
		shape = shape[1:]
	}
	if len(shape) != 2 {
		return 0, 0, false
	}
	return shape[0], shape[1], true
}

// readPicture decodes a PNG after it has checked the size in the header.
func readPicture(r io.ReadSeeker, name string, o *InputOptions) (*Input, error) {
	h, w, ok := imageShape(o.Shape)
	if !ok {
		return nil, &Error{File: name, Problem: fmt.Sprintf("a picture, but inputs have shape %v", o.Shape), Remedy: "give a CSV file with one row"}
	}
	fail := func(problem string, err error, remedy string) (*Input, error) {
		return nil, &Error{File: name, Problem: problem, Err: err, Remedy: remedy}
	}
	c, err := png.DecodeConfig(r)
	if err != nil {
		return fail("not a readable PNG", err, "save it again as PNG")
	}
	if c.Width < w || c.Width > maxInputPixels || c.Height > maxInputPixels/c.Width || c.Width*h != c.Height*w {
		return fail(fmt.Sprintf("%d×%d pixels do not fit inputs of %d×%d", c.Width, c.Height, w, h), nil,
			fmt.Sprintf("crop or scale it to %d×%d, or larger in the same proportion, up to %d pixels in all", w, h, maxInputPixels))
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return fail("cannot be read", err, "")
	}
	img, err := png.Decode(r)
	if err != nil {
		return fail("not a readable PNG", err, "save it again as PNG")
	}
	level, light := levels(img, o.Invert)
	in := &Input{X: make([]float64, h*w), Pixels: make([]byte, h*w), Light: light}
	shrinkTo(in.Pixels, w, h, level, c.Width, c.Height)
	for i, p := range in.Pixels {
		in.X[i] = grey[p]
	}
	if slices.Min(in.Pixels) == slices.Max(in.Pixels) {
		return fail(fmt.Sprintf("blank: every pixel has grey level %d", in.Pixels[0]), nil,
			"draw light on dark, or dark on light and ask to invert it")
	}
	return in, nil
}

// levels returns the grey levels of a picture, 0 to 255, row-major, and whether
// its border is light. Transparent pixels are 0, inverted or not.
func levels(img image.Image, invert bool) (level []float64, light bool) {
	b := img.Bounds()
	level = make([]float64, 0, b.Dx()*b.Dy())
	var border, count float64
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, a := img.At(x, y).RGBA()
			// Luma of ITU-R BT.601, weights in 1/65536 as in image/color.
			v := float64((19595*uint64(r) + 38470*uint64(g) + 7471*uint64(bl) + 1<<15) >> 16)
			if invert {
				v = float64(a) - v
			}
			v = max(v, 0) / 257
			if x == b.Min.X || x == b.Max.X-1 || y == b.Min.Y || y == b.Max.Y-1 {
				border += v
				count++
			}
			level = append(level, v)
		}
	}
	return level, border > 127.5*count
}

// shrinkTo averages a picture of bigW×bigH pixels down to w×h. A pixel that lies in
// several boxes counts in each by its area there.
func shrinkTo(dst []byte, w, h int, src []float64, bigW, bigH int) {
	for y := range h {
		y0, y1 := float64(y)*float64(bigH)/float64(h), float64(y+1)*float64(bigH)/float64(h)
		for x := range w {
			x0, x1 := float64(x)*float64(bigW)/float64(w), float64(x+1)*float64(bigW)/float64(w)
			var sum, area float64
			for j := int(y0); j < bigH && float64(j) < y1; j++ {
				wy := min(y1, float64(j+1)) - max(y0, float64(j))
				for i := int(x0); i < bigW && float64(i) < x1; i++ {
					wx := min(x1, float64(i+1)) - max(x0, float64(i))
					sum += wy * wx * src[j*bigW+i]
					area += wy * wx
				}
			}
			dst[y*w+x] = byte(sum/area + 0.5)
		}
	}
}

// readRow reads the one row of a CSV file.
func readRow(r io.Reader, name string, o *InputOptions) (*Input, error) {
	in := newRecords(r, name)
	rec, err := in.next()
	if err == io.EOF {
		return nil, &Error{File: name, Problem: "is empty", Remedy: "write one row of numbers, or give a PNG picture"}
	}
	if err != nil {
		return nil, err
	}
	d := size(o.Shape)
	if d < 1 {
		panic("dataset: input of no numbers")
	}
	header, named := make([]string, len(rec)), false
	take := make([]int, d)
	for j := range take {
		take[j] = j
	}
	if noNumbers(rec, in.Comma) {
		header = trimAll(rec)
		if named = o.Columns != nil; named {
			if take, err = matchColumns(name, header, o.Columns); err != nil {
				return nil, err
			}
		}
		if rec, err = in.next(); err == io.EOF {
			return nil, &Error{File: name, Line: 1, Problem: "there is no row below the header", Remedy: "write one row of numbers"}
		} else if err != nil {
			return nil, err
		}
	}
	if len(rec) != len(header) || len(rec) != d && !named {
		return nil, &Error{
			File: name, Line: in.line(0), Problem: fmt.Sprintf("%d numbers, want %d", len(rec), d),
			Remedy: fmt.Sprintf("write one row of inputs of shape %v", o.Shape),
		}
	}
	return in.input(rec, header, take, o)
}

// matchColumns returns the column of each feature in the header, which may have
// further columns.
func matchColumns(name string, header, columns []string) ([]int, error) {
	take := make([]int, len(columns))
	for i, c := range columns {
		if take[i] = slices.Index(header, c); take[i] < 0 {
			return nil, &Error{File: name, Line: 1, Problem: "there is no column " + quote(c), Remedy: "use the column names of the data, or no header"}
		}
	}
	return take, nil
}

// input turns one record into an Input and checks that no other follows.
func (in *records) input(rec, header []string, take []int, o *InputOptions) (*Input, error) {
	_, _, isImage := imageShape(o.Shape)
	out := &Input{X: make([]float64, len(take))}
	if isImage {
		out.Pixels = make([]byte, len(take))
	}
	for i, j := range take {
		v, err := in.number(j, header[j], rec[j])
		if err != nil {
			return nil, err
		}
		out.X[i] = v
		if !isImage {
			continue
		}
		if v != math.Trunc(v) || v < 0 || v > 255 {
			return nil, &Error{
				File: in.name, Line: in.line(j), Place: fmt.Sprintf("column %d", j+1),
				Problem: quote(rec[j]) + " is not a grey level", Remedy: "write integers from 0 to 255",
			}
		}
		out.Pixels[i], out.X[i] = byte(v), grey[byte(v)]
	}
	if _, err := in.next(); err == nil {
		return nil, &Error{File: in.name, Line: in.line(0), Problem: "there is a second row", Remedy: "give one row a file"}
	} else if err != io.EOF {
		return nil, err
	}
	return out, nil
}
