package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

func TestOpenDigits(t *testing.T) {
	for name, want := range map[string][2]int{
		"": {DigitsTrain, DigitsTest}, "digits": {DigitsTrain, DigitsTest},
		"digits:70": {70, DigitsTest}, "digits:70,0": {70, 0},
	} {
		d := testref.Must(Open(context.Background(), name, nil))(t)
		require.Equal(t, want, [2]int{d.Train.Len(), d.Test.Len()}, name)
		require.Equal(t, "digits", d.Name)
	}
	d := testref.Must(Open(context.Background(), "digits:10,20", &OpenOptions{Seed: 3}))(t)
	require.Equal(t, Digits(3, 10, 20).Test.Image(19), d.Test.Image(19))
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	other := write(t, dir, "a.txt", nil)
	split := 0
	for _, c := range []struct {
		name string
		o    *OpenOptions
		want string
	}{
		{"minst", nil, "minst: no such data: no such file or directory; name digits, mnist, a directory"},
		{other, nil, "is neither a .csv, .npy or .npz file nor a directory"},
		{write(t, t.TempDir(), "a.parquet", []byte("PAR1")), nil, "a.parquet: is a Parquet file, which is not read; convert it, for example with pandas.read_parquet"},
		{"digits:a", nil, `digits:a: "a" is not a number of rows; write digits:TRAIN,TEST`},
		{"digits:1,2,3", nil, "more than two numbers"},
		{"digits:-1", nil, "-1 rows of digits; ask for 0 to 10000000"},
		{"digits:1000000000000", nil, "1000000000000 rows of digits"},
		{"digits", &OpenOptions{Target: "y"}, "a target, split, test or validation file was asked for; they need data from a .csv or .npz file"},
		{dir, &OpenOptions{Split: &split}, "a target, split, test or validation file was asked for"},
		{"digits", &OpenOptions{ValidFile: "b.csv"}, "a target, split, test or validation file was asked for"},
		{"a.csv", &OpenOptions{Split: &split, TestFile: "b.csv"}, "a split and a test or validation file were both asked for"},
		{"a.csv", &OpenOptions{Split: &split, ValidFile: "b.csv"}, "a split and a test or validation file were both asked for"},
	} {
		_, err := Open(context.Background(), c.name, c.o)
		require.ErrorContains(t, err, c.want)
		require.IsType(t, &Error{}, err)
	}
}

// BenchmarkOpenMNIST opens the directory of MNIST's four compressed files, and
// the largest of them.
func BenchmarkOpenMNIST(b *testing.B) {
	dir := shared(b, "mnist")
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := Open(context.Background(), dir, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("train-images", func(b *testing.B) {
		for b.Loop() {
			if _, err := readIDXFile(b.Context(), filepath.Join(dir, idxStems[0]+".gz"), 3, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{File: "a.csv", Line: 3, Place: "column 2 (x)", Problem: "missing value", Remedy: "fill it in"}, "a.csv:3: column 2 (x): missing value; fill it in"},
		{Error{File: "a", Problem: "bad", Err: errors.New("two\nlines")}, "a: bad: two lines"},
		{Error{Place: "feature 1", Problem: "bad"}, "feature 1: bad"},
	} {
		require.Equal(t, c.want, c.err.Error())
	}
}

// The path of a file is named once, and the cause stays reachable.
func TestErrorCause(t *testing.T) {
	_, err := ReadRows(t.Context(), "absent.txt")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "absent.txt: cannot be opened: no such file or directory; check the path and its permissions", err.Error())
}

func TestQuoteAndList(t *testing.T) {
	require.Equal(t, `"a\nb"`, option.Quote("a\nb"))
	require.Len(t, option.Quote(string(make([]byte, 1000))), 2+4*40+3)
	require.Equal(t, "4,9", listOf([]int{4, 9}, strconv.Itoa))
	require.Contains(t, listOf(make([]int, 1000), strconv.Itoa), "...")
}

// A table is one file, with its test rows two, and data that were made have none.
func TestFilesOfData(t *testing.T) {
	dir := t.TempDir()
	train, test := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	for _, path := range []string{train, test} {
		require.NoError(t, os.WriteFile(path, []byte("x,y\n1,2\n3,4\n"), 0o644))
	}
	d := testref.Must(Open(t.Context(), train, &OpenOptions{}))(t)
	require.Equal(t, []string{train}, d.Files())
	d = testref.Must(Open(t.Context(), train, &OpenOptions{TestFile: test}))(t)
	require.Equal(t, []string{train, test}, d.Files())
	d = testref.Must(Open(t.Context(), "digits:20,10", &OpenOptions{}))(t)
	require.Empty(t, d.Files())
}

// shared returns a path below ../shared/data beside the repository, or skips:
// the real data sets are not part of the project.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "data"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the shared data beside the repository: %v", err)
	}
	return path
}

// write puts a file into a temporary directory and returns its path.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
