package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// onlyReads hides that files can be read at an offset or positioned.
type onlyReads struct{ fs.FS }

func (f onlyReads) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return struct{ fs.File }{file}, err
}

func (f onlyReads) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) }

// npyFile returns a .npy file.
func npyFile(descr string, shape []int, fortran bool, data []byte) []byte {
	order := "False"
	if fortran {
		order = "True"
	}
	text := strings.NewReplacer("[", "(", "]", ",)", " ", ", ").Replace(fmt.Sprint(shape))
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, order, text)
	out := append([]byte("\x93NUMPY"), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(head)))
	return append(append(out, head...), data...)
}

// cuts splits n rows into files of one row or more.
func cuts(rng *rand.Rand, n int) []int {
	ends := []int{n}
	for k := 1; k < n; k++ {
		if rng.IntN(max(2, n/4)) == 0 {
			ends = append(ends, k)
		}
	}
	slices.Sort(ends)
	return ends
}

// splitArray writes the rows of an array into files x-000.npy, x-001.npy, ….
func splitArray(files fstest.MapFS, name, descr string, shape, ends []int, data []byte) {
	row, from := len(data)/shape[0], 0
	for k, end := range ends {
		own := slices.Clone(shape)
		own[0] = end - from
		files[fmt.Sprintf("d/%s-%03d.npy", name, k)] = &fstest.MapFile{Data: npyFile(descr, own, false, data[from*row:end*row])}
		from = end
	}
}

// requireSame compares data that were read into memory with those whose inputs are read by
// range.
func requireSame(t *testing.T, rng *rand.Rand, want, got *Data) {
	t.Helper()
	require.NotNil(t, got.Train.far)
	require.Equal(t, want.Shape, got.Shape)
	require.Equal(t, want.Columns, got.Columns)
	require.Equal(t, want.Names, got.Names)
	require.Equal(t, want.Notes, got.Notes)
	require.Equal(t, want.Classes(), got.Classes())
	a := testref.Must(want.Train.Select(nil, 0))(t)
	b := testref.Must(got.Train.Select(nil, 0))(t)
	require.Equal(t, a.Labels, b.Labels)
	require.Equal(t, a.Targets, b.Targets)
	require.Equal(t, a.IDs, b.IDs)
	require.Equal(t, a.Index, b.Index)
	for range 6 {
		pos := rng.Perm(a.Len())[:1+rng.IntN(a.Len())]
		if rng.IntN(2) == 0 {
			lo := rng.IntN(a.Len())
			pos = b.Index[lo : lo+1+rng.IntN(a.Len()-lo)]
		}
		x := testref.Must(got.Train.At(pos).Read(t.Context()))(t)
		requireBits(t, want.Train.At(pos).Matrix().RawMatrix().Data, x.RawMatrix().Data)
		img := testref.Must(got.Train.ReadImage(t.Context(), pos[0]))(t)
		require.Equal(t, want.Train.Image(pos[0]), img)
	}
	s := testref.Must(a.Scaling(t.Context()))(t)
	o := testref.Must(b.Scaling(t.Context()))(t)
	requireBits(t, append(s.Mean, s.Scale...), append(o.Mean, o.Scale...))
	require.Equal(t, kept(t, a), kept(t, b))
	dark := testref.Must(want.Dark(t.Context()))(t)
	same := testref.Must(got.Dark(t.Context()))(t)
	require.Equal(t, dark, same)
	require.NoError(t, got.Close())
}

func requireBits(t *testing.T, want, got []float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]))
	}
}

// places are the same files as an fs.FS of each kind.
func places(t *testing.T, files fstest.MapFS) (all map[string]fs.FS, dir string) {
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, files))
	return map[string]fs.FS{"MapFS": files, "DirFS": os.DirFS(dir), "only reads": onlyReads{files}}, dir
}

// Arrays in any number of files, cut anywhere, give the data of one file that is read whole, bit
// for bit: features and pictures, of real numbers and of grey levels.
func TestArraysByRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		descr string
		row   []int
	}{{"<f4", []int{5}}, {"<f8", []int{3}}, {"|u1", []int{4}}, {"|u1", []int{4, 6}}, {"<f4", []int{2, 4, 3}}, {"<i2", nil}} {
		for range 2 {
			n, d := 2+rng.IntN(150), size(c.row)
			shape := append([]int{n}, c.row...)
			var b bytes.Buffer
			for range n * d {
				switch c.descr {
				case "<f4":
					require.NoError(t, binary.Write(&b, binary.LittleEndian, float32(rng.NormFloat64())))
				case "<f8":
					require.NoError(t, binary.Write(&b, binary.LittleEndian, rng.NormFloat64()))
				case "<i2":
					require.NoError(t, binary.Write(&b, binary.LittleEndian, int16(rng.IntN(99))))
				default:
					b.WriteByte(byte(rng.IntN(256)))
				}
			}
			y := make([]byte, n)
			for i := range y {
				y[i] = byte(rng.IntN(3))
			}
			ends := cuts(rng, n)
			files := fstest.MapFS{"x.npy": {Data: npyFile(c.descr, shape, false, b.Bytes())}, "y.npy": {Data: npyFile("|u1", []int{n}, false, y)}}
			splitArray(files, "x", c.descr, shape, ends, b.Bytes())
			splitArray(files, "y", "|u1", []int{n}, ends, y)
			splitArray(files, "labels", "|u1", []int{n}, cuts(rng, n), y)
			all, whole := places(t, files)
			want := testref.Must(Open(t.Context(), filepath.Join(whole, "x.npy"), nil))(t)
			for name, fsys := range all {
				for _, o := range []*OpenOptions{{}, {Target: "d/labels-*.npy"}, {Target: "y.npy"}} {
					o.FS, o.ByRange = fsys, 1
					got, err := Open(t.Context(), "d/x-*.npy", o)
					require.NoError(t, err, name)
					requireSame(t, rng, want, got)
					require.Equal(t, len(ends), len(got.Train.files))
				}
			}
			// Of the operating system's files one that is large enough is read by range, and
			// several can be read into memory.
			got := testref.Must(Open(t.Context(), filepath.Join(whole, "x.npy"), &OpenOptions{ByRange: 64}))(t)
			requireSame(t, rng, want, got)
			require.Equal(t, want.Files(), got.Files())
			got = testref.Must(Open(t.Context(), filepath.Join(whole, "d", "x-*.npy"), nil))(t)
			require.Nil(t, got.Train.far)
			requireBits(t, want.Train.Matrix().RawMatrix().Data, got.Train.Matrix().RawMatrix().Data)
			require.Len(t, got.Files(), len(ends))
		}
	}
}

// Tables in any number of files give the data of one, whatever separates their fields, with
// quotes, comments in blank lines, byte order marks and compression.
func TestTablesByRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		comma, decimal, end string
		words, zipped       bool
	}{{",", ".", "\n", false, false}, {";", ",", "\r\n", true, false}, {"\t", ".", "\n\n", true, true}} {
		for range 2 {
			n, ends := 200+rng.IntN(200), []int(nil)
			ends = cuts(rng, n)
			if len(ends) > 5 {
				ends = append(ends[:4:4], n)
			}
			var whole bytes.Buffer
			head := strings.Join([]string{"id", "a", "\"b\nc\"", "d", "y"}, c.comma) + c.end
			whole.WriteString(head)
			files, from := fstest.MapFS{}, 0
			for k, end := range ends {
				var own bytes.Buffer
				if k%2 == 0 {
					own.WriteString(bom)
				}
				own.WriteString(head)
				for i := from; i < end; i++ {
					y := fmt.Sprint(rng.IntN(3))
					if c.words {
						y = []string{"no", "yes", "\"per\nhaps\""}[rng.IntN(3)]
					}
					row := fmt.Sprintf("r%d", i)
					for range 3 {
						row += c.comma + "\"" + strings.Replace(fmt.Sprintf("%.4f", rng.NormFloat64()), ".", c.decimal, 1) + "\""
					}
					for _, b := range []*bytes.Buffer{&whole, &own} {
						b.WriteString(row + c.comma + y + c.end)
					}
				}
				data := own.Bytes()
				if c.zipped && k%2 == 1 {
					var z bytes.Buffer
					w := gzip.NewWriter(&z)
					require.NoError(t, testref.Err(w.Write(data)))
					require.NoError(t, w.Close())
					data = z.Bytes()
				}
				files[fmt.Sprintf("part%d.csv", k)] = &fstest.MapFile{Data: data}
				from = end
			}
			all, dir := places(t, files)
			want, err := Open(t.Context(), write(t, dir, "whole.csv", whole.Bytes()), &OpenOptions{ID: "id"})
			require.NoError(t, err)
			for name, fsys := range all {
				got, err := Open(t.Context(), "part*.csv", &OpenOptions{ID: "id", FS: fsys, ByRange: 1})
				require.NoError(t, err, name)
				requireSame(t, rng, want, got)
			}
		}
	}
}

// What is wrong with one of several files is one error that names it.
func TestByRangeErrors(t *testing.T) {
	array := func(descr string, shape []int, n int) *fstest.MapFile {
		return &fstest.MapFile{Data: npyFile(descr, shape, false, make([]byte, n))}
	}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	nan := npyFile("<f4", []int{2, 1}, false, binary.LittleEndian.AppendUint32(make([]byte, 4), math.Float32bits(float32(math.NaN()))))
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"x-*.npy", fstest.MapFS{}, "x-*.npy: no file has such a name; check the pattern and its folder"},
		{"x-[.npy", fstest.MapFS{}, "x-[.npy: is no pattern of file names: syntax error in pattern"},
		{"x-0.npy,", fstest.MapFS{}, "x-0.npy,: has an empty name between its commas"},
		{"x-0.npy,x-0.npy", fstest.MapFS{}, "x-0.npy: is named twice"},
		{"x-0.npy,x-1.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6)}, "x-1.npy: cannot be opened: file does not exist"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": text(""), "x-1.npy": text(""), "x-3.npy": text("")}, "x-2.npy: is missing: the files of x-*.npy are numbered from 0 to 3; put it there, or leave it out by naming the others with commas between them"},
		{"x-*.npy", fstest.MapFS{"x-001-of-004.npy": text(""), "x-002-of-004.npy": text("")}, "x-000-of-004.npy: is missing: the files of x-*.npy are numbered from 0 to 3"},
		{"x-*.npy", fstest.MapFS{"x-1-of-3.npy": text(""), "x-3-of-3.npy": text("")}, "x-2-of-3.npy: is missing: the files of x-*.npy are numbered from 1 to 3"},
		{"*", fstest.MapFS{"x-0.npy": text(""), "x-1.csv": text("")}, "x-1.csv: is not a file of the kind of x-0.npy"},
		{"*", fstest.MapFS{"x-0.txt": text("")}, "x-0.txt: is neither a .csv nor a .npy file"},
		{"*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("|u1", []int{2, 4}, 8)}, "x-1.npy: its rows have shape [4], but those of x-0.npy have [3]"},
		{"*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("<f4", []int{2, 3}, 24)}, "x-1.npy: its elements are of the type <f4, but those of x-0.npy of |u1"},
		{"*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("|u1", []int{2, 3}, 5)}, "x-1.npy: it ends after 5 of 6 elements"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("|u1", []int{2, 3}, 6)}, "x-*.npy: there are no targets"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("|u1", []int{2, 3}, 6), "y-0.npy": array("|u1", []int{2}, 2)}, "x-1.npy: there is no file of its targets beside it"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "x-1.npy": array("|u1", []int{2, 3}, 6), "y-1.npy": array("|u1", []int{2}, 2)}, "x-0.npy: there is no file of its targets beside it"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "y-0.npy": array("|u1", []int{3}, 3)}, "x-*.npy: targets have shape [3], but there are 2 rows"},
		{"x-*.npy", fstest.MapFS{"x-0.npy": array("|u1", []int{1, 3}, 3), "x-1.npy": array("|u1", []int{1, 3}, 3), "y-0.npy": array("|u1", []int{1}, 1), "y-1.npy": array("<f4", []int{1}, 4)}, "y-1.npy: has shape [1] and the type <f4"},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("a,y\n1,2\n\n3\n")}, "a-1.csv:4: 1 fields, but the header has 2"},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("a,b,y\n1,2,3\n")}, `a-1.csv:1: column "b" is not in *.csv`},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("a\n1\n")}, "a-1.csv:1: the target or the ID column of a-0.csv is missing"},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("y,a\n")}, "a-1.csv:1: there are no rows below the header"},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("y,a\nno,2\n")}, `a-1.csv:2: column 1 (y): "no" is not a number, but the targets above it are numbers`},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("")}, "a-1.csv: is empty"},
		{"*.csv", fstest.MapFS{"a-0.csv": text("a,y\n1,2\n"), "a-1.csv": text("y,a\n1,x\n")}, `a-1.csv:2: column 2 (a): "x" is not a number`},
		{"*.csv", fstest.MapFS{"a-0.csv": text("\x1f\x8bno")}, "a-0.csv: cannot be read: unexpected EOF"},
	} {
		_, err := Open(t.Context(), c.name, &OpenOptions{FS: c.files, ByRange: 1})
		var e *Error
		require.ErrorAs(t, err, &e, c.want)
		require.ErrorContains(t, err, c.want)
	}

	// A number that is none, and a file that has changed, are found when they are read.
	files := fstest.MapFS{"x-0.npy": {Data: nan}, "y-0.npy": array("|u1", []int{2}, 2), "a-0.csv": text("a,y\n1,2\n2,3\n")}
	read := func(name string, pos ...int) error {
		d := testref.Must(Open(t.Context(), name, &OpenOptions{FS: files, ByRange: 1}))(t)
		files["a-0.csv"] = text("a,y\n1,2\nx,3\n")
		_, err := d.Train.At(pos).Read(t.Context())
		require.Panics(t, func() { d.Train.Matrix() })
		return err
	}
	require.EqualError(t, read("x-*.npy", 0, 1), "x-0.npy: row 1, feature 0: NaN is not finite; fill it in or leave the row out")
	require.NoError(t, read("x-*.npy", 0))
	files["a-0.csv"] = text("a,y\n1,2\n2,3\n")
	require.ErrorContains(t, read("a-*.csv", 1), `a-0.csv:3: column 1 (a): "x" is not a number`)

	ctx, cancel := context.WithCancel(t.Context())
	d := testref.Must(Open(ctx, "x-*.npy", &OpenOptions{FS: files, ByRange: 1}))(t)
	cancel()
	require.ErrorIs(t, testref.Err(d.Train.Read(ctx)), context.Canceled)
	require.ErrorIs(t, testref.Err(Open(ctx, "a-*.csv", &OpenOptions{FS: files, ByRange: 1})), context.Canceled)
	_, err := Open(t.Context(), "x-*.npy", &OpenOptions{FS: fstest.MapFS{"x-0.npy": array("|u1", []int{2, 3}, 6), "y-0.npy": array("|u1", []int{2}, 2)}, MaxBytes: 40})
	require.ErrorContains(t, err, "x-*.npy: what is kept of its 2 rows takes 96 bytes of memory, of which 40 may be used")
}

// The rows of files that are no one's parts are not numbered.
func TestComplete(t *testing.T) {
	for _, files := range [][]string{{"a.npy"}, {"x-17.npy", "x-42.npy"}, {"x-0.npy", "y-2.npy"}, {"x-0.npy", "x-2.csv"}, {"x-99999999999999999999.npy"}, {"v2/a.npy", "v2/b.npy"}, {"x-0-of-99999999.npy"}, {path.Join("part0", "x.npy"), path.Join("part1", "x.npy")}} {
		require.NoError(t, complete("*", files), "%v", files)
	}
}

// The name of built-in data with sizes, and of a file that has a comma, is one name.
func TestListOfOne(t *testing.T) {
	for _, name := range []string{"digits:800,100", "a,b", "x.npz", "[a].npy", "a,1.npy"} {
		files, several, err := storage{fstest.MapFS{"[a].npy": {}, "a,1.npy": {}}}.list(name)
		require.NoError(t, err)
		require.False(t, several)
		require.Equal(t, []string{name}, files)
	}
}

// FuzzTableByRange compares the rows of any CSV file with those that are read whole.
func FuzzTableByRange(f *testing.F) {
	f.Add([]byte("a,b,y\n1,2,3\n\"4\",5,6\n"), uint16(1))
	f.Add([]byte(bom+"a;y\r\n1,5;no\r\n\r\n2,5;yes\r\n"), uint16(1))
	f.Add([]byte("\x1f\x8b"), uint16(0))
	f.Add([]byte("a,y\n"+strings.Repeat("1,2\n", 70)), uint16(65))
	f.Fuzz(func(t *testing.T, data []byte, from uint16) {
		fsys := fstest.MapFS{"a.csv": {Data: data}}
		got, err := Open(t.Context(), "a.csv", &OpenOptions{FS: fsys, ByRange: 1})
		want, wantErr := readCSV(bytes.NewReader(data), "a.csv", layout{}, 0)
		if err != nil || wantErr != nil {
			require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
			return
		}
		require.Equal(t, want.n, got.Train.Len())
		lo := int(from) % want.n
		x := testref.Must(got.Train.At([]int{lo, want.n - 1, 0}).Read(t.Context()))(t)
		d := len(want.Columns)
		for i, r := range []int{lo, want.n - 1, 0} {
			requireBits(t, want.x[r*d:(r+1)*d], x.RawRowView(i))
		}
	})
}
