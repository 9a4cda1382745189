package serve

import (
	"bytes"
	"compress/gzip"
	"image"
	"image/color"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/draw"

	"github.com/funcgp/funcgp/internal/picture"
	"github.com/funcgp/funcgp/internal/testref"
)

// blob draws random thick strokes on a canvas.
func blob(rng *rand.Rand, w, h int, paper, ink uint8) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Rect, image.NewUniform(color.Gray{Y: paper}), image.Point{}, draw.Src)
	for range 3 + rng.IntN(4) {
		x, y := w/4+rng.IntN(w/2), h/4+rng.IntN(h/2)
		r := image.Rect(x, y, min(w-2, x+4+rng.IntN(w/4)), min(h-2, y+4+rng.IntN(h/4)))
		draw.Draw(img, r, image.NewUniform(color.Gray{Y: ink}), image.Point{}, draw.Src)
	}
	return img
}

// A drawing comes out in a box of 20 pixels, with its centre of mass at pixel 14 wherever
// there is room for it.
func TestCentred(t *testing.T) {
	rng, drawings := rand.New(rand.NewPCG(1, 2)), 200
	if testing.Short() {
		drawings = 20
	}
	for range drawings {
		img := blob(rng, 100+rng.IntN(200), 100+rng.IntN(200), 0, 255)
		out := testref.Must(centred(img, 28, true))(t)
		var box image.Rectangle
		for i, v := range out.Pix {
			if v > 0 {
				box = box.Union(image.Rect(i%28, i/28, i%28+1, i/28+1))
			}
		}
		require.Contains(t, []int{19, 20}, max(box.Dx(), box.Dy()), "the faintest column may round to nothing")
		x, y := centreOfMass(out)
		if box.Min.X > 0 && box.Max.X < 28 {
			require.InDelta(t, 14.5, x, 0.51)
		}
		if box.Min.Y > 0 && box.Max.Y < 28 {
			require.InDelta(t, 14.5, y, 0.51)
		}
		require.Equal(t, byte(0), out.Pix[0])
	}
}

// It does not matter where on the canvas a drawing is, or whether it is light or dark; and
// where the training pictures are dark on light, the same comes out inverted.
func TestCentredInvariance(t *testing.T) {
	rng, drawings := rand.New(rand.NewPCG(3, 4)), 50
	if testing.Short() {
		drawings = 5
	}
	for range drawings {
		img := blob(rng, 120, 120, 0, 200)
		want := testref.Must(centred(img, 28, true))(t)
		moved := image.NewGray(image.Rect(-5, 7, 315, 327))
		draw.Draw(moved, img.Rect.Add(image.Pt(rng.IntN(150), 10+rng.IntN(150))), img, image.Point{}, draw.Src)
		got := testref.Must(centred(moved, 28, true))(t)
		require.Equal(t, want.Pix, got.Pix)

		dark := image.NewGray(img.Rect)
		for i, v := range img.Pix {
			dark.Pix[i] = 255 - v
		}
		got = testref.Must(centred(dark, 28, true))(t)
		require.Equal(t, want.Pix, got.Pix)

		light := testref.Must(centred(img, 28, false))(t)
		for i, v := range want.Pix {
			require.Equal(t, 255-v, light.Pix[i])
		}
	}
}

func TestCentredBlank(t *testing.T) {
	for _, level := range []uint8{0, 128, 255} {
		img := image.NewGray(image.Rect(0, 0, 50, 40))
		draw.Draw(img, img.Rect, image.NewUniform(color.Gray{Y: level}), image.Point{}, draw.Src)
		require.ErrorIs(t, testref.Err(centred(img, 28, true)), picture.ErrBlank)
	}
	_, err := centred(image.NewGray(image.Rect(0, 0, mostDrawn+1, 1)), 28, true)
	require.ErrorContains(t, err, "4097×1 pixels")
}

// mnistPixels are the pixels of the test pictures of MNIST, 784 each.
func mnistPixels(t *testing.T) []byte {
	t.Helper()
	name := filepath.Join(testref.MNIST(t), "t10k-images-idx3-ubyte")
	file, err := os.ReadFile(name)
	if err != nil {
		packed := testref.Must(os.Open(name + ".gz"))(t)
		defer packed.Close()
		file = testref.Must(io.ReadAll(testref.Must(gzip.NewReader(packed))(t)))(t)
	}
	return file[16:] // after the header
}

// A digit of MNIST that is enlarged tenfold, moved and centred again is that digit.
func TestCentredIsThatOfMNIST(t *testing.T) {
	testref.Long(t, "one goroutine, long under the race detector")
	pixels := mnistPixels(t)
	rng := rand.New(rand.NewPCG(5, 6))
	worst, total := 0.0, 0.0
	const n = 100
	for i := range n {
		pix := pixels[784*i:][:784]
		digit := &image.Gray{Pix: pix, Stride: 28, Rect: image.Rect(0, 0, 28, 28)}
		canvas := image.NewGray(image.Rect(0, 0, 400, 400))
		draw.NearestNeighbor.Scale(canvas, image.Rect(0, 0, 280, 280).Add(image.Pt(rng.IntN(120), rng.IntN(120))), digit, digit.Rect, draw.Src, nil)
		out := testref.Must(centred(canvas, 28, true))(t)
		diff := 0.0
		for k := range pix {
			d := float64(pix[k]) - float64(out.Pix[k])
			diff += d * d / 784
		}
		worst, total = max(worst, diff), total+diff/n
	}
	t.Logf("mean squared difference %.1f on average, %.1f at worst, of grey levels from 0 to 255", total, worst)
	// A digit moved by one pixel differs by some 2000.
	require.Less(t, total, 250.0)
	require.True(t, bytes.Contains([]byte(inkNote(28)), []byte("20×20")))
}
