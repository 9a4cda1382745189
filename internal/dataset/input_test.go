package dataset

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var sheetShape = []int{1, side, side}

func pngBytes(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

// scaled returns a digit with z×z pixels for each pixel.
func scaled(pixels []byte, z int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, side*z, side*z))
	for i := range img.Pix {
		x, y := i%(side*z), i/(side*z)
		img.Pix[i] = pixels[y/z*side+x/z]
	}
	return img
}

// A digit saved as a picture, at any whole multiple of its size, comes back
// to the last bit, and equals the data's own row.
func TestReadInputPicture(t *testing.T) {
	d := Digits(1, 1, 0)
	want := d.Train.Image(0)
	for _, z := range []int{1, 2, 10} {
		path := write(t, t.TempDir(), "mine.png", pngBytes(t, scaled(want, z)))
		in, err := ReadInput(t.Context(), path, &InputOptions{Shape: d.Shape})
		require.NoError(t, err)
		require.Equal(t, want, in.Pixels)
		require.Equal(t, d.Train.Matrix(nil).RawRowView(0), in.X)
		require.False(t, in.Light)
	}
}

// Dark ink on light paper is inverted on request only.
func TestReadInputInvert(t *testing.T) {
	want := Digits(1, 1, 0).Train.Image(0)
	paper := make([]byte, len(want))
	for i, p := range want {
		paper[i] = 255 - p
	}
	file := pngBytes(t, scaled(paper, 1))
	in, err := readInput(bytes.NewReader(file), "x", &InputOptions{Shape: sheetShape})
	require.NoError(t, err)
	require.Equal(t, paper, in.Pixels)
	require.True(t, in.Light)
	in, err = readInput(bytes.NewReader(file), "x", &InputOptions{Shape: sheetShape, Invert: true})
	require.NoError(t, err)
	require.Equal(t, want, in.Pixels)
	require.False(t, in.Light)
}

// Transparent pixels are background, inverted or not.
func TestReadInputTransparent(t *testing.T) {
	for _, c := range []struct {
		ink    color.NRGBA
		invert bool
		level  byte
	}{
		{color.NRGBA{255, 255, 255, 255}, false, 255},
		{color.NRGBA{0, 0, 0, 255}, true, 255},
		{color.NRGBA{0, 0, 0, 51}, true, 51},
		{color.NRGBA{255, 0, 0, 255}, false, 76}, // 0.299·255
	} {
		img := image.NewNRGBA(image.Rect(0, 0, side, side))
		img.Set(10, 12, c.ink)
		in, err := readInput(bytes.NewReader(pngBytes(t, img)), "x", &InputOptions{Shape: sheetShape, Invert: c.invert})
		require.NoError(t, err)
		require.Equal(t, c.level, in.Pixels[12*side+10])
		require.Zero(t, in.Pixels[0])
	}
}

// Averaging over boxes that share pixels keeps the mean grey level.
func TestShrinkMean(t *testing.T) {
	const big, small = 45, 28
	src := make([]float64, big*big)
	var want float64
	for i := range src {
		src[i] = float64(i * 7919 % 256)
		want += src[i] / (big * big)
	}
	dst := make([]byte, small*small)
	shrinkTo(dst, small, small, src, big, big)
	var got float64
	for _, b := range dst {
		got += float64(b) / (small * small)
	}
	require.InDelta(t, want, got, 0.1) // each of 784 pixels is rounded
}

func TestReadInputPictureErrors(t *testing.T) {
	grey := func(w, h int) []byte { return pngBytes(t, image.NewGray(image.Rect(0, 0, w, h))) }
	for _, c := range []struct {
		file  []byte
		shape []int
		want  string
	}{
		{grey(28, 28), []int{4}, "x: a picture, but inputs have shape [4]; give a CSV file with one row"},
		{grey(28, 28), []int{3, 28, 28}, "a picture, but inputs have shape [3 28 28]"},
		{grey(30, 28), sheetShape, "30×28 pixels do not fit inputs of 28×28; crop or scale it to 28×28"},
		{grey(14, 14), sheetShape, "14×14 pixels do not fit"},
		{grey(28, 28), sheetShape, "blank: every pixel has grey level 0"},
		{grey(28, 28)[:30], sheetShape, "x: not a readable PNG: "},
		{grey(28, 28)[:45], sheetShape, "x: not a readable PNG: "},
		{hugePNG(), sheetShape, "65536×65536 pixels do not fit"},
	} {
		_, err := readInput(bytes.NewReader(c.file), "x", &InputOptions{Shape: c.shape})
		require.ErrorContains(t, err, c.want)
	}
}

// hugePNG is a header that claims 2^16 × 2^16 pixels.
func hugePNG() []byte {
	head := []byte("IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x00\x00\x00\x00")
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

func TestReadInputRow(t *testing.T) {
	columns := []string{"u", "v"}
	for _, c := range []struct {
		text string
		o    InputOptions
		want []float64
	}{
		{"1,2\n", InputOptions{Shape: []int{2}}, []float64{1, 2}},
		{"a,b\n1,2", InputOptions{Shape: []int{2}}, []float64{1, 2}},
		{"v,u\n1,2\n", InputOptions{Shape: []int{2}, Columns: columns}, []float64{2, 1}},
		{"v,y,u\n1,0,2\n", InputOptions{Shape: []int{2}, Columns: columns}, []float64{2, 1}},
		{"1,2\n", InputOptions{Shape: []int{2}, Columns: columns}, []float64{1, 2}},
		{"0,51,255,1\n", InputOptions{Shape: []int{1, 2, 2}}, []float64{0, 0.2, 1, 1. / 255}},
	} {
		in, err := readInput(strings.NewReader(c.text), "x", &c.o)
		require.NoError(t, err)
		require.Equal(t, c.want, in.X)
		require.Equal(t, len(c.o.Shape) == 3, in.Pixels != nil)
	}
}

func TestReadInputRowErrors(t *testing.T) {
	two := InputOptions{Shape: []int{2}, Columns: []string{"u", "v"}}
	pixels := InputOptions{Shape: []int{1, 1, 2}}
	for _, c := range []struct {
		text string
		o    InputOptions
		want string
	}{
		{"", two, "x: is empty"},
		{"u,v\n", two, "x:1: there is no row below the header"},
		{"1,2,3\n", two, "x:1: 3 numbers, want 2; write one row of inputs of shape [2]"},
		{"u,v\n1\n", two, "x:2: 1 numbers, want 2"},
		{"u,w\n1,2\n", two, `x:1: there is no column "v"`},
		{"1,\n", two, "x:1: column 2: missing value"},
		{"u,v\n1,nan\n", two, `x:2: column 2 (v): "nan" is not finite`},
		{"1,2\n3,4\n", two, "x:2: there is a second row"},
		{"1,2\n\"", two, "x:"},
		{"0.5,1\n", pixels, `x:1: column 1: "0.5" is not a grey level; write integers from 0 to 255`},
		{"0,256\n", pixels, `x:1: column 2: "256" is not a grey level`},
	} {
		_, err := readInput(strings.NewReader(c.text), "x", &c.o)
		require.ErrorContains(t, err, c.want, "%q", c.text)
		require.IsType(t, &Error{}, err)
	}
}

func FuzzInput(f *testing.F) {
	f.Add(pngBytes(f, scaled(Digits(1, 1, 0).Train.Image(0), 1)), false)
	f.Add(hugePNG(), true)
	f.Add([]byte("1,2\n"), false)
	f.Fuzz(func(t *testing.T, file []byte, invert bool) {
		in, err := readInput(bytes.NewReader(file), "x", &InputOptions{Shape: []int{1, 2, 2}, Invert: invert})
		if err != nil {
			require.IsType(t, &Error{}, err)
			return
		}
		require.Len(t, in.X, 4)
		require.Len(t, in.Pixels, 4)
	})
}
