package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func decode(t testing.TB, path string) *Picture {
	t.Helper()
	f := testref.Must(os.Open(filepath.Join("testdata", path)))(t)
	defer f.Close()
	return testref.Must(Decode(f, 0))(t)
}

// A picture that a camera held at any angle wrote is upright.
func TestDecodeOrientation(t *testing.T) {
	names := []string{"turned-6.png"}
	for k := 1; k <= 8; k++ {
		names = append(names, fmt.Sprintf("turned-%d.jpg", k))
	}
	for _, name := range names {
		p := decode(t, name)
		require.Equal(t, image.Rect(0, 0, 16, 32), p.Image.Bounds(), name)
		for y := range 32 {
			for x := range 16 {
				want := [][]float64{{250, 20}, {130, 190}}[y/16][x/8]
				r, _, _, _ := p.Image.At(x, y).RGBA()
				require.InDelta(t, want, float64(r)/257, 4, "%s at %d, %d", name, x, y) // JPEG of quality 95
			}
		}
		if name == "turned-1.jpg" {
			require.Empty(t, p.Notes)
		} else {
			require.Equal(t, []string{fmt.Sprintf("turned upright, as its EXIF orientation %c says", name[7])}, p.Notes)
		}
		in := testref.Must(Fit(p, &Options{Channels: 1, Height: 4, Width: 4}))(t)
		for i, want := range []float64{147.5, 250, 20, 147.5, 147.5, 250, 20, 147.5, 147.5, 130, 190, 147.5, 147.5, 130, 190, 147.5} {
			require.InDelta(t, want, in.Pixels[i], 4, name)
		}
		require.Contains(t, in.Notes, "16×32 pixels averaged down to 2×4, with a border of grey level 148 to fill 4×4")
	}
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

// huge is a header that claims 2^16 × 2^16 pixels.
func huge() []byte {
	head := []byte("IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x00\x00\x00\x00")
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

func TestDecodeErrors(t *testing.T) {
	small := encoded(t, image.NewGray(image.Rect(0, 0, 28, 28)))
	jpg := testref.Must(os.ReadFile(filepath.Join("testdata", "turned-1.jpg")))(t)
	for _, c := range []struct {
		file []byte
		most int64
		want string
	}{
		{nil, 0, "it is neither PNG nor JPEG"},
		{[]byte("GIF89a plus more"), 0, "it is neither PNG nor JPEG"},
		{small[:30], 0, "it is no readable PNG: "},
		{small[:45], 0, "it is no readable PNG: "},
		{jpg[:200], 0, "it is no readable JPEG: "},
		{huge(), 0, "it has 65536×65536 pixels, and pictures of at most 67108864 are read"},
		{small, 16 * 783, "it has 28×28 pixels, and pictures of at most 783 are read"},
	} {
		require.ErrorContains(t, testref.Err(Decode(bytes.NewReader(c.file), c.most)), c.want)
	}
}

// grey returns the input of one grey picture and its notes.
func grey(t *testing.T, img image.Image, o Options) ([]byte, []string) {
	t.Helper()
	o.Channels = 1
	in := testref.Must(Fit(&Picture{Image: img}, &o))(t)
	return in.Pixels, in.Notes
}

func random(r *rand.Rand, w, h int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = byte(r.IntN(256))
	}
	return img
}

// Whole multiples of a picture come back to the last bit.
func TestFitMultiple(t *testing.T) {
	img := random(rand.New(rand.NewPCG(1, 1)), 9, 7)
	for _, z := range []int{1, 2, 10} {
		big := image.NewGray(image.Rect(0, 0, 9*z, 7*z))
		for i := range big.Pix {
			big.Pix[i] = img.Pix[i/(9*z)/z*9+i%(9*z)/z]
		}
		got, notes := grey(t, big, Options{Width: 9, Height: 7})
		require.Equal(t, img.Pix, got)
		require.Len(t, notes, min(z-1, 1))
	}
}

// Averaging down weighs every pixel by the area it shares with the box.
func TestShrinkAgainstAreas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	overlap := func(i, box, big, small int) float64 {
		scale := float64(big) / float64(small)
		return max(0, min(float64(i+1), float64(box+1)*scale)-max(float64(i), float64(box)*scale))
	}
	for range 30 {
		big, small := image.Pt(1+r.IntN(40), 1+r.IntN(40)), image.Point{}
		small.X, small.Y = 1+r.IntN(big.X), 1+r.IntN(big.Y)
		img := random(r, big.X, big.Y)
		for i, p := range shrink(img, small.X, small.Y).v {
			var want, area float64
			for k, level := range img.Pix {
				a := overlap(k%big.X, i%small.X, big.X, small.X) * overlap(k/big.X, i/small.X, big.Y, small.Y)
				want += a * float64(level)
				area += a
			}
			require.InDelta(t, want/area, p[0]/257, 1e-10*255)
			require.InDelta(t, 65535, p[3], 1e-10*65535)
		}
	}
}

// Averaging over boxes that share pixels keeps the mean grey level.
func TestShrinkMean(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 50 {
		img := random(r, 1+r.IntN(50), 1+r.IntN(50))
		got := shrink(img, 1+r.IntN(img.Rect.Dx()), 1+r.IntN(img.Rect.Dy()))
		var want, sum float64
		for _, p := range img.Pix {
			want += float64(p) / float64(len(img.Pix))
		}
		for _, p := range got.v {
			sum += p[0] / 257 / float64(len(got.v))
		}
		require.InDelta(t, want, sum, 1e-9)
	}
}

// A smaller picture is enlarged without new extremes and keeps its corners.
func TestFitEnlarge(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.Pix = []byte{0, 255, 100, 200}
	got, notes := grey(t, img, Options{Width: 8, Height: 10})
	require.Equal(t, []string{"2×2 pixels enlarged to 8×8, with a border of grey level 139 to fill 8×10"}, notes)
	got = got[8 : 9*8]
	for _, at := range []struct {
		i    int
		want byte
	}{{0, 0}, {7, 255}, {56, 100}, {63, 200}} {
		require.Equal(t, at.want, got[at.i])
	}
	for y := range 8 {
		for x := 1; x < 8; x++ {
			require.GreaterOrEqual(t, got[8*y+x], got[8*y+x-1])
		}
	}
}

// ink is a bar of one level on paper of another.
func ink(w, h int, paper, bar byte) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = paper
		if x, y := i%w, i/w; x > w/3 && x < 2*w/3 && y > h/4 && y < 3*h/4 {
			img.Pix[i] = bar
		}
	}
	return img
}

// A picture is inverted only where its border is clearly the opposite of that of
// the training pictures, and never in silence.
func TestFitInvert(t *testing.T) {
	for _, c := range []struct {
		paper, bar byte
		border     []float64
		choice     Choice
		inverted   bool
		note       string
	}{
		{255, 0, []float64{0}, Auto, true, "inverted, since its border has grey level 255, that of the training pictures 0"},
		{0, 255, []float64{255}, Auto, true, "inverted, since its border has grey level 0, that of the training pictures 255"},
		{200, 30, []float64{2}, Auto, true, "its background has grey level 55, that of the training pictures 2: more contrast may help"},
		{170, 0, []float64{0}, Auto, false, "its background has grey level 170, that of the training pictures 0: more contrast may help"},
		{255, 0, []float64{120}, Auto, false, ""},
		{255, 0, []float64{255}, Auto, false, ""},
		{255, 0, nil, Auto, false, ""},
		{255, 0, nil, Yes, true, ""},
		{255, 0, []float64{0}, No, false, "not inverted, as asked, though its border has grey level 255, that of the training pictures 0"},
		{0, 255, []float64{0}, No, false, ""},
		{0, 255, []float64{0}, Yes, true, "its background has grey level 255, that of the training pictures 0: more contrast may help"},
	} {
		got, notes := grey(t, ink(12, 12, c.paper, c.bar), Options{Width: 12, Height: 12, Border: c.border, Invert: c.choice})
		want := ink(12, 12, c.paper, c.bar)
		if c.inverted {
			want = ink(12, 12, 255-c.paper, 255-c.bar)
		}
		require.Equal(t, want.Pix, got, "%+v", c)
		if c.note == "" {
			require.Empty(t, notes)
		} else {
			require.Contains(t, notes, c.note)
		}
	}
}

// Transparent pixels show the background of the training pictures, inverted or not.
func TestFitTransparent(t *testing.T) {
	for _, c := range []struct {
		ink    color.NRGBA
		invert Choice
		border []float64
		level  byte
	}{
		{color.NRGBA{255, 255, 255, 255}, Auto, nil, 255},
		{color.NRGBA{0, 0, 0, 255}, Yes, nil, 255},
		{color.NRGBA{0, 0, 0, 51}, Yes, nil, 51},
		{color.NRGBA{255, 0, 0, 255}, Auto, nil, 76}, // 0.299·255
		{color.NRGBA{0, 0, 0, 255}, Auto, []float64{255}, 0},
		{color.NRGBA{0, 0, 0, 51}, No, []float64{200}, 160},
	} {
		img := image.NewNRGBA(image.Rect(0, 0, 9, 9))
		img.Set(4, 5, c.ink)
		got, _ := grey(t, img, Options{Width: 9, Height: 9, Invert: c.invert, Border: c.border})
		require.Equal(t, c.level, got[5*9+4])
		want := byte(0)
		if c.border != nil {
			want = byte(c.border[0])
		}
		require.Equal(t, want, got[0])
	}
}

// Colours stay where the network has three channels, and become grey where it has
// one, with a note.
func TestFitColour(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	img.Set(0, 0, color.NRGBA{10, 20, 30, 255})
	img.Set(1, 0, color.NRGBA{40, 50, 60, 255})
	in := testref.Must(Fit(&Picture{Image: img}, &Options{Channels: 3, Height: 1, Width: 2}))(t)
	require.Equal(t, []byte{10, 40, 20, 50, 30, 60}, in.Pixels)
	require.Empty(t, in.Notes)
	got, notes := grey(t, img, Options{Height: 1, Width: 2})
	require.Equal(t, []byte{18, 48}, got)
	require.Equal(t, []string{"colours turned to grey"}, notes)

	shades := ink(6, 6, 9, 200)
	in = testref.Must(Fit(&Picture{Image: shades}, &Options{Channels: 3, Height: 6, Width: 6}))(t)
	for c := range 3 {
		require.Equal(t, shades.Pix, in.Pixels[36*c:36*(c+1)])
	}
}

func TestFitBlank(t *testing.T) {
	_, err := Fit(&Picture{Image: image.NewGray(image.Rect(0, 0, 3, 3))}, &Options{Channels: 1, Height: 2, Width: 2})
	require.ErrorIs(t, err, ErrBlank)
	require.EqualError(t, err, "blank: every pixel has grey level 0")
}

func FuzzPicture(f *testing.F) {
	for _, name := range []string{"turned-6.jpg", "turned-6.png"} {
		b := testref.Must(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(b, byte(0))
	}
	f.Add(huge(), byte(1))
	var b bytes.Buffer
	require.NoError(f, jpeg.Encode(&b, ink(7, 9, 200, 10), nil))
	f.Add(b.Bytes(), byte(2))
	f.Fuzz(func(t *testing.T, file []byte, choice byte) {
		p, err := Decode(bytes.NewReader(file), 1<<24)
		if err != nil {
			return
		}
		for _, o := range []*Options{{Channels: 1, Height: 3, Width: 5}, {Channels: 3, Height: 4, Width: 2, Border: []float64{1, 2, 3}}} {
			o.Invert = Choice(choice % 3)
			in, err := Fit(p, o)
			if err != nil {
				require.ErrorIs(t, err, ErrBlank)
				continue
			}
			require.Len(t, in.Pixels, o.Channels*o.Height*o.Width)
		}
	})
}
