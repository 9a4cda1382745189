package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func archive(t testing.TB) *Archive {
	t.Helper()
	file := testref.Must(os.ReadFile(filepath.Join("testdata", "arrays.npz")))(t)
	require.True(t, IsArchive(file))
	return testref.Must(Open(bytes.NewReader(file), int64(len(file))))(t)
}

// What NumPy wrote is read, whatever the type, the byte order and the order of the
// elements. testdata/make.py says what the arrays hold.
func TestReadNumPy(t *testing.T) {
	a := archive(t)
	require.False(t, a.Has("readme.txt"))
	types := 0
	for _, name := range a.Names {
		kind, ok := strings.CutPrefix(strings.TrimPrefix(name, "f_"), "le_")
		if !ok {
			if kind, ok = strings.CutPrefix(strings.TrimPrefix(name, "f_"), "be_"); !ok {
				continue
			}
		}
		types++
		got, err := a.Read(name, 0)
		require.NoError(t, err, name)
		require.Equal(t, []int{2, 3, 4}, got.Shape, name)
		require.Equal(t, kind == "u1", got.Bytes != nil)
		require.Equal(t, 24, got.Len())
		for i := range 24 {
			want := float64(i * 7 % 11)
			switch kind[0] {
			case 'b':
				want = math.Mod(want, 2)
			case 'i':
				want = -want
			case 'f':
				want = want/8 - .5
			}
			require.Equal(t, want, got.Float(i), name)
		}
	}
	require.Equal(t, 48, types)

	for name, want := range map[string][]string{"words": {"setosa", "", "Müller", "日本"}, "words_be": {"setosa", "", "Müller", "日本"}, "letters": {"a", "bc", ""}} {
		got := testref.Must(a.Read(name, 0))(t)
		require.Equal(t, want, got.Text)
	}
	for name, want := range map[string][]float64{"single": {2.5}, "none": {}, "unsigned": {1 << 63, 1<<64 - 2048}, "largest": {1 << 53, -1 << 53, 1 << 62}} {
		got := testref.Must(a.Read(name, 0))(t)
		require.Equal(t, want, got.Floats)
	}
	got := testref.Must(a.Read("halves", 0))(t)
	require.Equal(t, []float64{65504, math.Ldexp(1, -24), math.Ldexp(1, -14), 0, math.Inf(1), math.Inf(-1)}, got.Floats[:6])
	require.True(t, math.Signbit(got.Floats[3]))
	require.True(t, math.IsNaN(got.Floats[6]))

	file := testref.Must(os.ReadFile(filepath.Join("testdata", "version3.npy")))(t)
	got = testref.Must(Read(bytes.NewReader(file), 48))(t)
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5}, got.Floats)
	_, err := Read(bytes.NewReader(file), 47)
	require.EqualError(t, err, "an array of shape [2 3] takes 48 bytes of memory, of which 47 may be used")
}

// file returns a .npy file of version 1.
func file(header string, data ...byte) []byte {
	out := append([]byte(magic), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	return append(append(out, header...), data...)
}

const small = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n"

func TestReadErrors(t *testing.T) {
	objects := testref.Must(os.ReadFile(filepath.Join("testdata", "objects.npy")))(t)
	dtype := func(name string) []byte { return file(strings.Replace(small, "|u1", name, 1), make([]byte, 99)...) }
	shape := func(text string) []byte { return file(strings.Replace(small, "(2,)", text, 1), 1, 2) }
	for _, c := range []struct {
		file []byte
		want string
	}{
		{objects, "it holds Python objects, which are pickled and not read; save an array of numbers or of strings"},
		{nil, "it ends within the header"},
		{[]byte("PK\x03\x04 and more"), "it does not begin as NumPy files do"},
		{file(small)[:20], "it ends within the header"},
		{file(small, 1), "it ends after 1 of 2 elements"},
		{file(small, 1, 2, 3), "there is more after the array"},
		{append([]byte(magic), 9, 0, 0, 0), "it has version 9.0 of the format"},
		{append([]byte(magic), 2, 0, 255, 255, 255, 255), "its header of 4294967295 bytes is too long"},
		{file("{'descr': '<f4'}"), `its header "{'descr': '<f4'}" cannot be read`},
		{file("no newline"), "cannot be read"},
		{file(small + "x"), "cannot be read"},
		{file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "its elements are records of several fields; save one array for each"},
		{shape("(-1,)"), "cannot be read"},
		{shape("(2,2"), "cannot be read"},
		{shape("(99999999999999999999,)"), "cannot be read"},
		{shape("(4294967296, 4294967296, 4294967296)"), "its shape [4294967296 4294967296 4294967296] is impossible"},
		{shape("(1000000000,)"), "it ends after 2 of 1000000000 elements"},
		{dtype("<c16"), `its elements are of the type "<c16", which is not read; save numbers or strings`},
		{dtype("<M8[ns]"), `of the type "<M8[ns]"`},
		{dtype("<U99999999"), `of the type "<U99999999"`},
		{dtype("|b1"), ""},
	} {
		_, err := Read(bytes.NewReader(c.file), 0)
		if c.want == "" {
			require.ErrorContains(t, err, "there is more after the array")
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
	for data, want := range map[string]string{
		"|b1" + "\x00\x02": "element 1: the truth value 2 cannot be represented",
		"<i8" + "\x01\x00\x00\x00\x00\x00\x20\x00" + strings.Repeat("\x00", 8): "element 0: 9007199254740993 cannot be represented",
		"|S2" + "\xff\x00ab":                       "element 0: text that is not UTF-8",
		"<U1" + "\x00\xd8\x00\x00\x00\x00\x00\x00": "element 0: the character 0xd800 cannot",
	} {
		_, err := Read(bytes.NewReader(file(strings.Replace(small, "|u1", data[:3], 1), []byte(data[3:])...)), 0)
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, testref.Err(Open(bytes.NewReader([]byte("PK\x03\x04")), 4)), "it is no readable .npz file")
}

// An array in which the first index runs fastest, of any shape, is the one whose
// elements are found by their indices.
func TestRowMajor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		shape := make([]int, 1+r.IntN(4))
		n := 1
		for k := range shape {
			shape[k] = r.IntN(4)
			n *= shape[k]
		}
		v := r.Perm(n)
		got := rowMajor(v, shape)
		for i := range n {
			rest, from := i, 0
			for k := len(shape) - 1; k >= 0; k-- {
				step := 1
				for _, m := range shape[:k] {
					step *= m
				}
				from += rest % shape[k] * step
				rest /= shape[k]
			}
			require.Equal(t, v[from], got[i])
		}
	}
}

// A compressed array of zeros that would fill the memory is refused by its shape,
// or by its end.
func TestOpenBomb(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w := testref.Must(z.Create("x.npy"))(t)
	require.NoError(t, testref.Err(w.Write(file("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000,)}"))))
	require.NoError(t, testref.Err(w.Write(make([]byte, 8_000_000))))
	require.NoError(t, z.Close())
	a := testref.Must(Open(bytes.NewReader(b.Bytes()), int64(b.Len())))(t)
	require.Equal(t, []string{"x"}, a.Names)
	_, err := a.Read("x", 1<<20)
	require.EqualError(t, err, `array "x": an array of shape [1000000] takes 8000000 bytes of memory, of which 1048576 may be used`)
	got := testref.Must(a.Read("x", 1<<23))(t)
	require.Equal(t, 1_000_000, got.Len())
	require.False(t, slices.ContainsFunc(got.Floats, func(v float64) bool { return v != 0 }))
}

func FuzzRead(f *testing.F) {
	f.Add(file(small, 1, 2))
	f.Add(file("{'descr': '<U2', 'fortran_order': True, 'shape': (2, 1), }", make([]byte, 16)...))
	f.Add(file("{\"shape\": (), 'descr': '>f2', 'fortran_order': False}", 1, 2))
	if b, err := os.ReadFile(filepath.Join("testdata", "arrays.npz")); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(a *Array, err error) {
			if err != nil {
				require.NotEmpty(t, err.Error())
				return
			}
			n := 1
			for _, k := range a.Shape {
				n *= k
			}
			require.Equal(t, n, len(a.Floats)+len(a.Bytes)+len(a.Text), fmt.Sprint(a.Shape))
		}
		check(Read(bytes.NewReader(data), 1<<20))
		if z, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
			for _, name := range z.Names {
				check(z.Read(name, 1<<16))
			}
		}
	})
}

// What Write writes is read again, and its data begin where NumPy wants them.
func TestWrite(t *testing.T) {
	for _, shape := range [][]int{{6}, {2, 3}, {1, 2, 3}} {
		var b bytes.Buffer
		v := []float64{1, -2.5, math.Inf(1), math.MaxFloat64, 5e-324, 0}
		require.NoError(t, Write(&b, v, shape...))
		require.Zero(t, (b.Len()-8*len(v))%64)
		a := testref.Must(Read(&b, 0))(t)
		require.Equal(t, &Array{Type: "<f8", Shape: shape, Floats: v}, a)
	}
}

// A table is rows of named fields, as NumPy reads them.
func TestWriteTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteTable(&b, 2, []Field{
		{Name: "a", Values: []float64{1, 2}}, {Name: "b", Shape: []int{1, 2}, Values: []float64{3, 4, 5, 6}}, {Name: "c", Fields: []Field{{Name: "d", Shape: []int{1}, Values: []float64{7, 8}}}},
	}))
	head, body, _ := bytes.Cut(b.Bytes(), []byte("\n"))
	require.Zero(t, (len(head)+1)%64)
	require.Contains(t, string(head), "{'descr': [('a', '<f8', ()), ('b', '<f8', (1, 2, )), ('c', [('d', '<f8', (1, ))])], 'fortran_order': False, 'shape': (2, ), }")
	got := make([]float64, 8)
	require.NoError(t, binary.Read(bytes.NewReader(body), binary.LittleEndian, got))
	require.Equal(t, []float64{1, 3, 4, 7, 2, 5, 6, 8}, got)
}
