package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/picture"
	"github.com/funcgp/funcgp/internal/testref"
)

func pngBytes(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

// scaled returns a digit with z×z pixels for each pixel.
func scaled(pixels []byte, z int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, 28*z, 28*z))
	for i := range img.Pix {
		x, y := i%(28*z), i/(28*z)
		img.Pix[i] = pixels[y/z*28+x/z]
	}
	return img
}

// likeOf returns options for data of d features, or for pictures of a shape.
func likeOf(shape ...int) *InputOptions {
	d := &Data{Source: "like", Shape: shape, Train: &Rows{Shape: shape, inputs: new(inputs)}, Valid: noRows("", ""), Test: noRows("", "")}
	if len(shape) == 1 {
		for j := range shape[0] {
			d.Columns = append(d.Columns, fmt.Sprint("c", j))
		}
	} else {
		d.Train.n, d.Train.px = 1, make([]byte, size(shape))
	}
	return &InputOptions{Like: d}
}

func write2(t testing.TB, name string, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return path
}

// A digit saved as a picture, at any whole multiple of its size, comes back
// to the last bit, and equals the data's own row.
func TestReadInputsPicture(t *testing.T) {
	d := Digits(1, 1, 0)
	want := d.Train.Image(0)
	for _, z := range []int{1, 2, 10} {
		file := pngBytes(t, scaled(want, z))
		for _, path := range []string{write2(t, "mine.png", file), "-"} {
			in, err := ReadInputs(t.Context(), path, &InputOptions{Like: d, Standard: bytes.NewReader(file)})
			require.NoError(t, err)
			require.Equal(t, want, in.Image(0))
			require.Equal(t, d.Train.Matrix(), in.Matrix())
			require.Equal(t, "file", in.Part)
			require.False(t, in.Labelled())
			require.Len(t, in.Notes, min(1, z-1))
		}
	}
}

// A photograph of dark ink on paper is turned into what the network was trained
// on, and every step is said.
func TestReadInputsPhotograph(t *testing.T) {
	d := Digits(1, 50, 0)
	want := d.Train.Image(0)
	const z = 12
	paper := image.NewGray(image.Rect(0, 0, 28*z, 28*z+120))
	for i := range paper.Pix {
		x, y := i%(28*z), i/(28*z)-60
		paper.Pix[i] = 240
		if y >= 0 && y < 28*z {
			paper.Pix[i] = 240 - want[y/z*28+x/z]/16*15
		}
	}
	var file bytes.Buffer
	require.NoError(t, jpeg.Encode(&file, paper, &jpeg.Options{Quality: 95}))
	path := write2(t, "photo.jpg", file.Bytes())
	in := testref.Must(ReadInputs(t.Context(), path, &InputOptions{Like: d}))(t)
	require.Equal(t, []string{path + ": inverted, since its border has grey level 240, that of the training pictures 0; " +
		"336×456 pixels averaged down to 21×28, with a border of grey level 15 to fill 28×28"}, in.Notes)
	got := in.Image(0)
	require.Equal(t, byte(15), got[0])
	// Where the digit is bright, so is the input, nearly.
	var inside, n float64
	for i, v := range got {
		x, y := i%28, i/28
		if sx, sy := (float64(x)+.5-3.5)*16, (float64(y)+.5)*456/28-60; sx > 0 && sx < 336 && sy > 0 && sy < 336 && want[int(sy)/z*28+int(sx)/z] > 200 {
			inside += float64(v)
			n++
		}
	}
	require.Greater(t, inside/n, 180.0)

	in = testref.Must(ReadInputs(t.Context(), path, &InputOptions{Like: d, Invert: picture.No}))(t)
	require.Equal(t, byte(240), in.Image(0)[0])
	require.Contains(t, in.Notes[0], "not inverted, as asked, though its border has grey level 240")
}

func TestReadInputsFolder(t *testing.T) {
	d := Digits(1, 3, 0)
	dir := t.TempDir()
	for i, name := range []string{"c.PNG", "a.png", "b.png"} {
		write(t, dir, name, pngBytes(t, scaled(d.Train.Image(i), 1+i%2)))
	}
	write(t, dir, "readme.txt", nil)
	write(t, dir, ".hidden", nil)
	in := testref.Must(ReadInputs(t.Context(), dir, &InputOptions{Like: d}))(t)
	require.Equal(t, []string{"a.png", "b.png", "c.PNG"}, in.IDs)
	require.Equal(t, d.Train.At([]int{1, 2, 0}).Matrix(), in.Matrix())
	require.Equal(t, []string{dir + ": a.png: 56×56 pixels averaged down to 28×28", dir + ": left out what is no picture (1 of 4)"}, in.Notes)

	_, err := ReadInputs(t.Context(), t.TempDir(), &InputOptions{Like: d})
	require.ErrorContains(t, err, "holds no pictures; put .png, .jpg or .jpeg files there")
	write(t, dir, "z.jpg", []byte("text"))
	_, err = ReadInputs(t.Context(), dir, &InputOptions{Like: d})
	require.ErrorContains(t, err, "z.jpg: it is neither PNG nor JPEG")
	require.ErrorContains(t, testref.Err(ReadInputs(t.Context(), dir, &InputOptions{Like: d, MaxBytes: 100})), "a.png")
}

// huge is a header that claims 2^16 × 2^16 pixels.
func hugePNG() []byte {
	head := []byte("IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x00\x00\x00\x00")
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

func TestReadInputsPictureErrors(t *testing.T) {
	grey := func(w, h int) []byte { return pngBytes(t, image.NewGray(image.Rect(0, 0, w, h))) }
	floats := testref.Must(Open(t.Context(), "testdata/floats.npz", nil))(t)
	for _, c := range []struct {
		file []byte
		o    *InputOptions
		want string
	}{
		{grey(28, 28), likeOf(4), "x: a picture, but inputs have shape [4]; give a CSV or NumPy file"},
		{grey(28, 28), likeOf(2, 28, 28), "a picture, but inputs have shape [2 28 28]"},
		{grey(28, 28), likeOf(1, 28, 28), "x: blank: every pixel has grey level 0"},
		{grey(28, 28)[:30], likeOf(1, 28, 28), "x: it is no readable PNG: "},
		{grey(28, 28)[:45], likeOf(1, 28, 28), "x: it is no readable PNG: "},
		{hugePNG(), likeOf(1, 28, 28), "x: it has 65536×65536 pixels"},
		{grey(5, 3), &InputOptions{Like: floats}, "x: a picture, whose grey levels are from 0 to 1, but the pictures of testdata/floats.npz hold numbers from -1 to 1.9; prepare it as they were"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), c.file, 0o600))
		t.Chdir(dir)
		_, err := ReadInputs(t.Context(), "x", c.o)
		require.ErrorContains(t, err, c.want)
		require.IsType(t, &Error{}, err)
	}
}

func TestReadInputsTable(t *testing.T) {
	for _, c := range []struct {
		text string
		o    *InputOptions
		id   string
		want []float64
		ids  []string
	}{
		{"1,2\n", likeOf(2), "", []float64{1, 2}, nil},
		{"1,2\n3,4\n5,6", likeOf(2), "", []float64{1, 2, 3, 4, 5, 6}, nil},
		{"c0,c1\n1,2", likeOf(2), "", []float64{1, 2}, nil},
		{"c1,c0\n1,2\n3,4\n", likeOf(2), "", []float64{2, 1, 4, 3}, nil},
		{"c1,y,c0\n1,red,2\n", likeOf(2), "", []float64{2, 1}, nil},
		{"c1;id;c0\n1,5;p;2,25\n1;q r;2\n", likeOf(2), "id", []float64{2.25, 1.5, 2, 1}, []string{"p", "q r"}},
		{"c1,c0\n1,2\n", likeOf(2), "id", []float64{2, 1}, nil},
		{"0,51,255,1\n", likeOf(1, 2, 2), "", []float64{0, .2, 1, 1. / 255}, nil},
		{"p,q,r,s\n0,51,255,1\n", likeOf(1, 2, 2), "", []float64{0, .2, 1, 1. / 255}, nil},
		{"p,name,q,r,s\n0,a,51,255,1\n", likeOf(1, 2, 2), "name", []float64{0, .2, 1, 1. / 255}, []string{"a"}},
	} {
		c.o.ID = c.id
		for _, file := range []io.Reader{strings.NewReader(c.text), bytes.NewReader(gzipped(t, c.text))} {
			c.o.Standard = file
			in, err := ReadInputs(t.Context(), "-", c.o)
			require.NoError(t, err, c.text)
			require.Equal(t, c.want, in.Matrix().RawMatrix().Data)
			require.Equal(t, c.ids, in.IDs)
			require.Equal(t, len(c.o.Like.Shape) == 3, in.Image(0) != nil)
		}
	}
}

func TestReadInputsTableErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		o    *InputOptions
		want string
	}{
		{"", likeOf(2), "standard input: is empty"},
		{"PAR1\x00\x01", likeOf(2), "standard input: is a Parquet file, which is not read; convert it"},
		{"c0,c1\n", likeOf(2), "standard input:1: there are no rows below the header"},
		{"1,2,3\n", likeOf(2), "standard input:1: 3 numbers, want 2; write rows of inputs of shape [2]"},
		{"c0,c1\n1\n", likeOf(2), "standard input:2: 1 fields, but the header has 2"},
		{"c0,w\n1,2\n", likeOf(2), `standard input:1: there is no column "c1"`},
		{"c0,c1,c0\n1,2,3\n", likeOf(2), `standard input:1: two columns have the same name "c0"; rename one`},
		{"1,\n", likeOf(2), "standard input:1: column 2: missing value"},
		{"c0,c1\n1,nan\n", likeOf(2), `standard input:2: column 2 (c1): "nan" stands for a missing value`},
		{"1,2\n\"", likeOf(2), "standard input:"},
		{"1;1,500\n", likeOf(2), "may be decimal or separate thousands"},
		{"0.5,1\n", likeOf(1, 1, 2), `standard input:1: column 1: "0.5" is not a grey level; write integers from 0 to 255`},
		{"0,256\n", likeOf(1, 1, 2), `standard input:1: column 2: "256" is not a grey level`},
	} {
		c.o.Standard = strings.NewReader(c.text)
		_, err := ReadInputs(t.Context(), "-", c.o)
		require.ErrorContains(t, err, c.want, "%q", c.text)
		require.IsType(t, &Error{}, err)
	}
	require.ErrorContains(t, testref.Err(ReadInputs(t.Context(), "absent", likeOf(2))), "absent: cannot be opened")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testref.Err(ReadInputs(ctx, write2(t, "a.csv", []byte("1,2\n")), likeOf(2))), context.Canceled)
	o := likeOf(2)
	o.MaxBytes, o.Standard = 80, strings.NewReader("1,2\n3,4\n5,6\n")
	_, err := ReadInputs(t.Context(), "-", o)
	require.ErrorContains(t, err, "standard input:3: the rows up to here take more than the 80 bytes of memory")
}

// Inputs of NumPy are any number of rows, or a single one of the shape of the data.
func TestReadInputsNumPy(t *testing.T) {
	d := testref.Must(Open(t.Context(), "testdata/table.npz", nil))(t)
	file := testref.Must(os.ReadFile("testdata/table.npz"))(t)
	for _, path := range []string{"testdata/table.npz", "-"} {
		in, err := ReadInputs(t.Context(), path, &InputOptions{Like: d, ID: "id", Standard: bytes.NewReader(file)})
		require.NoError(t, err)
		require.Equal(t, d.Test.Matrix(), in.Matrix()) // x_test before x_train
		require.Nil(t, in.IDs)
	}
	pictures := testref.Must(Open(t.Context(), "testdata/x_pictures.npy", nil))(t)
	in := testref.Must(ReadInputs(t.Context(), "testdata/x_pictures.npy", &InputOptions{Like: pictures}))(t)
	require.Equal(t, pictures.Train.Matrix(), in.Matrix())
	in = testref.Must(ReadInputs(t.Context(), "testdata/x_pictures.npy", likeOf(4, 2, 3, 5)))(t)
	require.Equal(t, 1, in.Len())
	_, err := ReadInputs(t.Context(), "testdata/x_pictures.npy", &InputOptions{Like: d})
	require.ErrorContains(t, err, "inputs have shape [4 2 3 5] and the type |u1, but an input has 3 numbers; save N×3 numbers")
	_, err = ReadInputs(t.Context(), "testdata/default.npz", &InputOptions{Like: pictures})
	require.ErrorContains(t, err, "inputs have shape [6 3] and the type <f8, but an input has 30 numbers")
}

// The columns of an archive are taken by the names that it has, in the order of the data and among others.
func TestReadInputsByName(t *testing.T) {
	d := testref.Must(Open(t.Context(), "testdata/table.npz", nil))(t)
	want := testref.Must(ReadInputs(t.Context(), "testdata/table.npz", &InputOptions{Like: d}))(t).Matrix()
	require.Equal(t, []string{"length", "width", "height"}, d.Columns)
	read := func(columns ...string) (*Rows, error) {
		other := *d
		other.Columns, other.Shape = columns, []int{len(columns)}
		return ReadInputs(t.Context(), "testdata/table.npz", &InputOptions{Like: &other})
	}
	swapped := testref.Must(read("height", "length", "width"))(t)
	some := testref.Must(read("height", "width"))(t)
	unnamed := testref.Must(read("x0", "x1", "x2"))(t)
	require.Equal(t, want, unnamed.Matrix())
	for i := range want.RawMatrix().Rows {
		require.Equal(t, []float64{want.At(i, 2), want.At(i, 0), want.At(i, 1)}, swapped.Matrix().RawRowView(i))
		require.Equal(t, []float64{want.At(i, 2), want.At(i, 1)}, some.Matrix().RawRowView(i))
	}
	_, err := read("length", "depth", "height")
	require.ErrorContains(t, err, `there is no column "depth"`)

	x := &npy.Array{Shape: []int{1, 2}, Floats: []float64{1, 2}}
	_, err = byName(x, []string{"a", "a"}, []string{"b", "a"}, "f")
	require.ErrorContains(t, err, `f: there is no column "b"`)
	_, err = byName(x, []string{"a", "a"}, []string{"a"}, "f")
	require.ErrorContains(t, err, `f: two columns have the same name "a"`)
}

func FuzzInputs(f *testing.F) {
	f.Add(pngBytes(f, scaled(Digits(1, 1, 0).Train.Image(0), 1)), byte(0))
	f.Add(hugePNG(), byte(1))
	f.Add([]byte("1,2,3,4\n"), byte(2))
	f.Add([]byte("c0;c1;c2;id;c3\n1,5;2;3;a;4\n"), byte(3))
	for _, name := range []string{"testdata/y_pictures.npy", "testdata/default.npz"} {
		b := testref.Must(os.ReadFile(name))(f)
		f.Add(b, byte(3))
	}
	f.Fuzz(func(t *testing.T, file []byte, choice byte) {
		for _, o := range []*InputOptions{likeOf(1, 2, 2), likeOf(4)} {
			o.Invert, o.MaxBytes, o.Standard, o.ID = picture.Choice(choice%3), 1<<22, bytes.NewReader(file), "id"
			in, err := ReadInputs(t.Context(), "-", o)
			if err != nil {
				require.IsType(t, &Error{}, err)
				require.NotContains(t, err.Error(), "\n")
				continue
			}
			n, d := in.Matrix().Dims()
			require.Equal(t, 4, d)
			require.Equal(t, n, in.Len())
		}
	})
}
