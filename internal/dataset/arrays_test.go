package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/testref"
)

// The files are those of testdata/make.py.
func TestOpenNPZ(t *testing.T) {
	d := testref.Must(Open(t.Context(), "testdata/table.npz", &OpenOptions{ID: "id"}))(t)
	require.Equal(t, "table", d.Name)
	require.Equal(t, []string{"length", "width", "height"}, d.Columns)
	require.Equal(t, "y_train", d.Target)
	require.Equal(t, []string{"aster", "iris", "rose"}, d.Names)
	require.Equal(t, []int{2, 0, 2, 1, 0, 2}, d.Train.Labels)
	require.Equal(t, []string{"100", "101", "102", "103", "104", "105"}, d.Train.IDs)
	require.Equal(t, 6, d.Train.Len())
	require.Zero(t, d.Valid.Len())
	require.Equal(t, 2, d.Test.Len())
	require.False(t, d.Test.Labelled())
	// The test rows are the first training rows, in another order of bytes and elements.
	require.Equal(t, d.Train.At([]int{0, 1}).Matrix(), d.Test.Matrix())

	// Arrays without names, and rows with a single one as labels.
	d = testref.Must(Open(t.Context(), "testdata/default.npz", &OpenOptions{TestFile: "testdata/table.npz"}))(t)
	require.Equal(t, []string{"x0", "x1", "x2"}, d.Columns)
	require.Equal(t, []int{0, 2, 1, 1, 0, 2}, d.Train.Labels)
	require.Equal(t, []string{"each row of targets has a single one, which is taken as the label"}, d.Notes)
	require.Equal(t, 2, d.Test.Len())
}

func TestOpenNPYPictures(t *testing.T) {
	d := testref.Must(Open(t.Context(), "testdata/x_pictures.npy", nil))(t)
	require.Equal(t, []int{2, 3, 5}, d.Shape)
	require.True(t, d.Images())
	require.True(t, d.Train.Images())
	require.Equal(t, []int{3, 1, 3, 0}, d.Train.Labels)
	require.Equal(t, []int{0, 1, 3}, d.Classes())
	require.Equal(t, byte(30*7%256), d.Train.Image(1)[0])
	require.Equal(t, float64(byte(30*7%256))/255, d.Train.Matrix().At(1, 0))
	require.Equal(t, []string{"pictures of the type uint8 are grey levels, which are divided by 255"}, d.Notes)

	// Real numbers are taken as they are, and shown in their range.
	d = testref.Must(Open(t.Context(), "testdata/floats.npz", nil))(t)
	require.Equal(t, []int{1, 3, 5}, d.Shape)
	require.True(t, d.Images())
	require.False(t, d.IntegerLabels)
	require.Equal(t, 2, d.Train.Width())
	require.Equal(t, []float64{.5, 1.5, 2, 3}, d.Train.Targets)
	require.Equal(t, -1.0, d.Train.Matrix().At(0, 0))
	require.Equal(t, byte(0), d.Train.Image(0)[0])
	require.Equal(t, byte(255), d.Train.Image(1)[14])
}

// Stored rows of every kind of data come back, whatever other words the data have.
func TestStoredKinds(t *testing.T) {
	dir := t.TempDir()
	multi := write(t, dir, "multi.csv", []byte("u,a,b,id\n1,2,3,p\n4,5,6,q\n"))
	for path, o := range map[string]*OpenOptions{
		"testdata/table.npz": {ID: "id_train"}, "testdata/floats.npz": nil, "testdata/x_pictures.npy": nil, multi: {Target: "a,b", ID: "id"},
	} {
		d := testref.Must(Open(t.Context(), path, o))(t)
		s := testref.Must(d.Train.Pick(nil, []int{1}, ""))(t)
		back, err := d.WithTrain(kept(t, s), "saved")
		require.NoError(t, err, path)
		got := testref.Must(back.Train.Select(nil, 0))(t)
		require.Equal(t, s.Targets, got.Targets)
		require.Equal(t, s.Labels, got.Labels)
		require.Equal(t, s.IDs, got.IDs)
		require.Equal(t, s.Index, got.Index)
		require.Equal(t, s.Matrix(), got.Matrix())
		require.Equal(t, s.Width(), got.Width())
	}
	some := write(t, dir, "some.csv", []byte("length,width,height,y\n1,2,3,violet\n"))
	d := testref.Must(Open(t.Context(), "testdata/table.npz", nil))(t)
	all := testref.Must(d.Train.Select(nil, 0))(t)
	other := testref.Must(Open(t.Context(), some, &OpenOptions{ClassNames: []string{"aster", "rose"}}))(t)
	_, err := other.WithTrain(kept(t, all), "saved")
	require.ErrorContains(t, err, `saved: its training rows have the label "iris", which those of `+some+` do not have`)
	other = testref.Must(Open(t.Context(), some, &OpenOptions{ClassNames: d.Names}))(t)
	back := testref.Must(other.WithTrain(kept(t, all), "saved"))(t)
	require.Equal(t, []string{"aster", "iris", "rose", "violet"}, back.Names)
	require.Equal(t, d.Train.Labels, back.Train.Labels)
}

func TestOpenNumPyErrors(t *testing.T) {
	dir := t.TempDir()
	alone := testref.Must(os.ReadFile("testdata/x_pictures.npy"))(t)
	path := write(t, dir, "x.npy", alone)
	labels := testref.Must(os.ReadFile("testdata/y_pictures.npy"))(t)
	short := write(t, dir, "short.npy", bytes.Replace(bytes.Clone(labels[:len(labels)-8]), []byte("(4,)"), []byte("(3,)"), 1))
	split := 1
	for _, c := range []struct {
		path string
		o    *OpenOptions
		want string
	}{
		{path, nil, "x.npy: there are no targets; call the inputs x and the targets y, or name the targets"},
		{path, &OpenOptions{Target: short}, "x.npy: targets have shape [3], but there are 4 rows"},
		{path, &OpenOptions{Target: filepath.Join(dir, "absent.npy")}, "absent.npy: cannot be opened"},
		{path, &OpenOptions{Target: short, MaxBytes: 100}, "x.npy: what is kept of its 4 rows takes 192 bytes of memory, of which 100 may be used"},
		{write(t, dir, "z.npy", []byte("text")), nil, "z.npy: it ends within the header"},
		{write(t, dir, "z.npz", []byte("text")), nil, "z.npz: it is no readable .npz file"},
		{"testdata/table.npz", &OpenOptions{Split: &split}, "splits need data from a .csv file"},
		{"testdata/table.npz", &OpenOptions{Target: "species"}, `table.npz: there is no array "species"; choose from "columns", "extra", "id_train", "x_test"`},
		{"testdata/table.npz", &OpenOptions{Target: "extra"}, "table.npz: targets have shape [2], but there are 6 rows"},
		{"testdata/table.npz", &OpenOptions{ID: "columns"}, "table.npz: names of rows have shape [3], but there are 6 rows"},
		{"testdata/default.npz", &OpenOptions{TestFile: "testdata/floats.npz"}, "training inputs have shape [3], test inputs [1 3 5]"},
	} {
		_, err := Open(t.Context(), c.path, c.o)
		require.ErrorContains(t, err, c.want)
		require.IsType(t, &Error{}, err)
	}
	write(t, dir, "y.npy", labels)
	var wide bytes.Buffer
	require.NoError(t, npy.Write(&wide, make([]float64, 36), 4, 9))
	_, err := Open(t.Context(), path, &OpenOptions{MaxBytes: 200, Target: filepath.Join(dir, "y.npy")})
	require.NoError(t, err)
	_, err = Open(t.Context(), write(t, dir, "wide.npy", wide.Bytes()), &OpenOptions{MaxBytes: 200, Target: filepath.Join(dir, "y.npy")})
	require.ErrorContains(t, err, "wide.npy: its 4 rows of 9 numbers take 288 bytes of memory, of which 200 may be used; give fewer rows, or allow more memory")
	d := testref.Must(Open(t.Context(), path, nil))(t)
	require.Equal(t, []int{3, 1, 3, 0}, d.Train.Labels)
}

func FuzzOpenNumPy(f *testing.F) {
	for _, name := range []string{"table.npz", "default.npz", "floats.npz", "y_pictures.npy"} {
		b := testref.Must(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(b, filepath.Ext(name) == ".npz")
	}
	f.Fuzz(func(t *testing.T, file []byte, archive bool) {
		name := "x.npy"
		if archive {
			name = "a.npz"
		}
		path := write(t, t.TempDir(), name, file)
		d, err := Open(t.Context(), path, &OpenOptions{MaxBytes: 1 << 20, Target: map[bool]string{false: path}[archive]})
		if err != nil {
			require.IsType(t, &Error{}, err)
			return
		}
		require.Equal(t, d.Train.Len() > 0, d.Train.Labelled())
	})
}

// Grey levels are divided by 255, or go in as they are where a network takes whole numbers, whatever type they are
// written in; the same picture of one's own gives the same numbers, with channels first and last.
func TestWholePictures(t *testing.T) {
	dir := t.TempDir()
	const c, h, w = 3, 2, 4
	levels := make([]byte, 2*c*h*w)
	for i := range levels {
		levels[i] = byte(i * 37 % 251)
	}
	levels[5] = 250
	header := func(kind string, shape string) string {
		text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (2, %s), }", kind, shape)
		text += strings.Repeat(" ", 117-len(text)) + "\n"
		return "\x93NUMPY\x01\x00\x76\x00" + text
	}
	doubles := make([]byte, 0, 8*len(levels))
	for _, b := range levels {
		doubles = binary.LittleEndian.AppendUint64(doubles, math.Float64bits(float64(b)))
	}
	write(t, dir, "y.npy", []byte(header("|u1", "")+"\x00\x01"))
	for _, last := range []bool{false, true} {
		shape := "3, 2, 4"
		if last {
			shape = "2, 4, 3"
		}
		img := image.NewRGBA(image.Rect(0, 0, w, h))
		for i := range h * w {
			at := func(k int) byte {
				if last {
					return levels[i*c+k]
				}
				return levels[k*h*w+i]
			}
			img.SetRGBA(i%w, i/w, color.RGBA{at(0), at(1), at(2), 255})
		}
		var file bytes.Buffer
		require.NoError(t, png.Encode(&file, img))
		own := write(t, dir, "own.png", file.Bytes())
		for kind, data := range map[string]string{"|u1": string(levels), "<f8": string(doubles)} {
			path := write(t, dir, "x.npy", []byte(header(kind, shape)+data))
			for _, far := range []int64{0, 1} {
				for _, whole := range []bool{false, true} {
					d := testref.Must(Open(t.Context(), path, &OpenOptions{ByRange: far, Target: filepath.Join(dir, "y.npy")}))(t)
					if whole {
						d.TakeWhole()
					}
					if last {
						d.ChannelsLast()
					}
					channels, height, width := d.Train.Picture()
					require.Equal(t, [3]int{c, h, w}, [3]int{channels, height, width})
					unit := 1.
					if kind == "|u1" && !whole {
						unit = 255
					}
					x := testref.Must(d.Train.Read(t.Context()))(t)
					for i, b := range levels {
						require.InDelta(t, float64(b)/unit, x.RawMatrix().Data[i], 1e-15)
					}
					if far == 0 || kind == "|u1" {
						in := testref.Must(ReadInputs(t.Context(), own, &InputOptions{Like: d}))(t)
						require.Equal(t, x.RawRowView(0), in.Matrix().RawRowView(0), "%v %v %v %v", kind, far, whole, last)
					}
					by := testref.Must(d.Train.At([]int{0, 1}).Scaling(t.Context()))(t)
					require.Len(t, by.Mean, c)
					by = d.Train.PerChannel(by)
					by.Apply(x)
					var sum float64
					for i, v := range x.RawMatrix().Data {
						if first := i%(h*w*c) < h*w; !last && first || last && i%c == 0 {
							sum += v
						}
					}
					require.InDelta(t, 0, sum, 1e-12, "the first channel")
					require.NoError(t, d.Close())
				}
			}
		}
	}
}
