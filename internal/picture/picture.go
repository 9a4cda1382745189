// Package picture turns pictures into inputs of a network: it decodes PNG and JPEG,
// turns them upright, and fits any size and colour to the shape that the network
// takes. It says in plain words what it changed.
//
//	img, err := picture.Decode(file, 0)
//	if err != nil { … }
//	in := picture.Fit(img, &picture.Options{Channels: 1, Height: 28, Width: 28})
//	in.Pixels // 784 grey levels
//	in.Notes  // ["300×200 pixels averaged down to 28×19, with a border of grey level 0"]
package picture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"github.com/bep/imagemeta"
)

// Picture is a decoded picture, upright.
type Picture struct {
	Image image.Image
	Notes []string // what was done to it
}

// Is reports whether a file with these first bytes is a picture that Decode reads.
func Is(head []byte) bool { return isPNG(head) || isJPEG(head) }

func isPNG(head []byte) bool  { return bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")) }
func isJPEG(head []byte) bool { return bytes.HasPrefix(head, []byte("\xff\xd8\xff")) }

// MaxPixels is the largest picture that is decoded where no memory limit asks for
// less.
const MaxPixels = 1 << 26

// bytesAPixel is what decoding takes at most: the coefficients of a progressive
// JPEG and the pixels of a 16-bit PNG.
const bytesAPixel = 16

// Decode reads a PNG or JPEG picture, which may take at most the given bytes of
// memory; 0 is no limit. The orientation that a camera records is followed. The
// error says what is wrong with the file, or comes from the reader.
func Decode(r io.ReadSeeker, most int64) (*Picture, error) {
	head, err := bufio.NewReaderSize(r, 16).Peek(8)
	if err != nil && err != io.EOF {
		return nil, err
	}
	kind, config, decode := "PNG", png.DecodeConfig, png.Decode
	if isJPEG(head) {
		kind, config, decode = "JPEG", jpeg.DecodeConfig, jpeg.Decode
	} else if !isPNG(head) {
		return nil, errors.New("it is neither PNG nor JPEG")
	}
	unreadable := func(err error) error { return fmt.Errorf("it is no readable %s: %w", kind, err) }
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	c, err := config(r)
	if err != nil {
		return nil, unreadable(err)
	}
	limit := int64(MaxPixels)
	if most > 0 {
		limit = min(limit, most/bytesAPixel)
	}
	if c.Width < 1 || c.Height < 1 || int64(c.Width) > limit || int64(c.Height) > limit/int64(c.Width) {
		return nil, fmt.Errorf("it has %d×%d pixels, and pictures of at most %d are read", c.Width, c.Height, limit)
	}
	turn := orientation(r, isJPEG(head))
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	img, err := decode(r)
	if err != nil {
		return nil, unreadable(err)
	}
	p := &Picture{Image: img}
	if turn > 1 {
		p.Image = &turned{img, turn}
		p.Notes = []string{fmt.Sprintf("turned upright, as its EXIF orientation %d says", turn)}
	}
	return p, nil
}

// orientation returns the EXIF orientation, 1 to 8, and 1 where there is none that
// can be read.
func orientation(r io.ReadSeeker, isJPEG bool) int {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return 1
	}
	o := imagemeta.Options{R: r, ImageFormat: imagemeta.PNG, Sources: imagemeta.EXIF, Warnf: func(string, ...any) {}}
	if isJPEG {
		o.ImageFormat = imagemeta.JPEG
	}
	turn := 1
	o.ShouldHandleTag = func(tag imagemeta.TagInfo) bool { return tag.Namespace == "IFD0" && tag.Tag == "Orientation" }
	o.HandleTag = func(tag imagemeta.TagInfo) error {
		if v, ok := tag.Value.(uint16); ok && v >= 1 && v <= 8 {
			turn = int(v)
		}
		return imagemeta.ErrStopWalking
	}
	// A picture whose metadata cannot be read is shown as it lies in the file.
	if _, err := imagemeta.Decode(o); err != nil {
		return 1
	}
	return turn
}
