package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	require.NoError(t, testref.Err(w.Write([]byte(text))))
	require.NoError(t, w.Close())
	return b.Bytes()
}

// Words are labels, numbered in the sorted order of the words of all parts.
func TestOpenCSVWords(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "iris.csv", []byte("width,kind\n1,virginica\n2,\"setosa, wild\"\n3, virginica \n"))
	test := write(t, dir, "test.csv", []byte("width,kind\n4,aster\n"))
	d, err := Open(t.Context(), path, nil)
	require.NoError(t, err)
	require.True(t, d.IntegerLabels)
	require.Equal(t, []string{"setosa, wild", "virginica"}, d.Names)
	require.Equal(t, []int{1, 0, 1}, d.Train.Labels)
	require.Nil(t, d.Train.Targets)
	require.Equal(t, 1, d.Train.Width())
	require.Equal(t, "virginica", d.Train.ClassName(1))
	require.Equal(t, "2", d.Train.ClassName(2))

	d, err = Open(t.Context(), path, &OpenOptions{TestFile: test, ClassNames: []string{"setosa, wild", "rose"}})
	require.NoError(t, err)
	require.Equal(t, []string{"aster", "rose", "setosa, wild", "virginica"}, d.Names)
	require.Equal(t, []int{0, 1, 2, 3}, d.Classes())
	require.Equal(t, []int{3, 2, 3}, d.Train.Labels)
	require.Equal(t, []int{0}, d.Test.Labels)

	// A class of which there is no row may be selected beside others.
	s := testref.Must(d.Train.Select([]int{1, 3}, 0))(t)
	require.Equal(t, []int{0, 2}, s.Index)
	require.Equal(t, []float64{1, 1}, s.Targets)
	_, err = d.Train.Pick([]int{1, 3}, []int{1}, "rows.txt")
	require.ErrorContains(t, err, `has label setosa, wild, which is not one of the classes rose,virginica`)

	numbers := write(t, dir, "numbers.csv", []byte("width,kind\n4,1\n"))
	_, err = Open(t.Context(), path, &OpenOptions{TestFile: numbers})
	require.ErrorContains(t, err, "numbers.csv: its targets are numbers, but those of "+path+" are words")
	_, err = Open(t.Context(), numbers, &OpenOptions{TestFile: path})
	require.ErrorContains(t, err, "iris.csv: its targets are words, but those of "+numbers+" are numbers")
}

// What a target may be: a number, a word, or a mistake.
func TestIsWord(t *testing.T) {
	for field, want := range map[string]bool{
		"setosa": true, "<=50K": true, ">30": true, "18-25": true, "+": true, "-": true, "no": true, "3+": true, "?": true, "b-1": true,
		"": false, "1": false, "-0.5": false, "1e3": false, "nan": false, "Inf": false, "1e999": false,
		"1,5": false, "1.234,5": false, "$1,000": false, "12%": false, "12 %": false, "1 000": false, "1_000": false, "€5": false, "-€5": false, "1'000": false,
	} {
		require.Equal(t, want, isWord(field, ','), field)
	}
}

// The ID column is no feature, wherever it is.
func TestOpenCSVID(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("u,v,y,id\n1,2,0,Müller\n3,4,1,\n"))
	test := write(t, dir, "test.csv", []byte("id,u,v\nX-1,5,6\n"))
	bare := write(t, dir, "bare.csv", []byte("u,v\n5,6\n"))
	d := testref.Must(Open(t.Context(), path, &OpenOptions{ID: "id", TestFile: test, ValidFile: bare}))(t)
	require.Equal(t, []string{"u", "v"}, d.Columns)
	require.Equal(t, "y", d.Target)
	require.Equal(t, []string{"Müller", ""}, d.Train.IDs)
	require.Equal(t, []string{"X-1"}, d.Test.IDs)
	require.Nil(t, d.Valid.IDs)
	s := testref.Must(d.Train.Pick(nil, []int{1, 0}, ""))(t)
	require.Equal(t, []string{"", "Müller"}, s.IDs)
	_, err := Open(t.Context(), path, &OpenOptions{ID: "name"})
	require.ErrorContains(t, err, `there is no column "name"`)
	_, err = Open(t.Context(), path, &OpenOptions{ID: "y", Target: "y"})
	require.ErrorContains(t, err, `column "y" is asked for twice`)
}

// Several targets are numbers, whether integers or not. A column whose name has a
// comma is one target.
func TestOpenCSVTargets(t *testing.T) {
	path := write(t, t.TempDir(), "a.csv", []byte("north,u,east,\"a,b\"\n1,2,3,4\n5,6,7,8\n"))
	d := testref.Must(Open(t.Context(), path, &OpenOptions{Target: "east, north"}))(t)
	require.Equal(t, []string{"east", "north"}, d.TargetColumns)
	require.Equal(t, "east, north", d.Target)
	require.Equal(t, []string{"u", "a,b"}, d.Columns)
	require.False(t, d.IntegerLabels)
	require.Equal(t, 2, d.Train.Width())
	require.Equal(t, []float64{3, 1, 7, 5}, d.Train.Targets)
	s := testref.Must(d.Train.Pick(nil, []int{1}, ""))(t)
	require.Equal(t, []float64{7, 5}, s.Targets)

	d = testref.Must(Open(t.Context(), path, &OpenOptions{Target: "a,b"}))(t)
	require.Equal(t, []string{"a,b"}, d.TargetColumns)
	require.True(t, d.IntegerLabels)
}

// Test rows may lack the target: they are there, without labels.
func TestOpenCSVUnlabelled(t *testing.T) {
	dir := t.TempDir()
	for _, targets := range []string{"0\n3,4,1", "no\n3,4,yes", "0.5\n3,4,1"} {
		path := write(t, dir, "a.csv", []byte("u,v,y\n1,2,"+targets+"\n"))
		test := write(t, dir, "test.csv", []byte("v,u\n6,5\n"))
		d := testref.Must(Open(t.Context(), path, &OpenOptions{TestFile: test}))(t)
		require.Equal(t, 1, d.Test.Len())
		require.False(t, d.Test.Labelled())
		require.Zero(t, d.Test.Width())
		require.True(t, d.Train.Labelled())
		require.Equal(t, []float64{5, 6}, d.Test.Matrix().RawRowView(0))
		var classes []int
		if d.IntegerLabels {
			classes = []int{1, 0}
		}
		s := testref.Must(d.Test.Select(classes, 0))(t)
		require.Equal(t, 1, s.Len())
		require.Nil(t, s.Targets)
		require.Nil(t, s.Labels)
		require.Nil(t, s.Class)
	}
	path := write(t, dir, "a.csv", []byte("u,y,z\n1,2,3\n"))
	test := write(t, dir, "test.csv", []byte("u,z\n6,5\n"))
	_, err := Open(t.Context(), path, &OpenOptions{Target: "y,z", TestFile: test})
	require.ErrorContains(t, err, `test.csv:1: 1 of the target columns "y", "z"; give all of them, or none`)
}

// A gzipped file is the file itself, and its splits lie beside it.
func TestOpenCSVGzip(t *testing.T) {
	dir := t.TempDir()
	const text = "u,v,y\n1,2,0\n3,4,1\n"
	plain := testref.Must(Open(t.Context(), write(t, dir, "a.csv", []byte(text)), nil))(t)
	path := write(t, dir, "b.csv.gz", gzipped(t, text))
	d := testref.Must(Open(t.Context(), path, nil))(t)
	require.Equal(t, "b", d.Name)
	require.Equal(t, plain.Train.x, d.Train.x)
	require.Equal(t, plain.Train.Labels, d.Train.Labels)
	write(t, dir, "b.splits.csv", []byte("split,row,part\n0,1,train\n0,0,test\n"))
	zero := 0
	d = testref.Must(Open(t.Context(), path, &OpenOptions{Split: &zero}))(t)
	require.Equal(t, []int{0}, d.Test.Labels)

	for _, file := range [][]byte{append([]byte("\x1f\x8b"), make([]byte, 20)...), gzipped(t, strings.Repeat(text, 9))[:30]} {
		_, err := Open(t.Context(), write(t, dir, "c.csv.gz", file), nil)
		require.ErrorContains(t, err, "its gzip compression is damaged")
		require.IsType(t, &Error{}, err)
	}
}

// Files with semicolons or tabs, decimal commas and all, are the same tables.
func TestSeparators(t *testing.T) {
	want := testref.Must(readCSV(strings.NewReader("\"a;b\",u,y\n1,2.5,no\n-3,0.125,yes\n"), "a.csv", layout{}, 0))(t)
	for _, text := range []string{
		"\"a;b\";u;y\n1;2.5;no\n-3;0.125;yes\n", "\"a;b\";u;y\n1;2,5;no\n-3;0,125;yes\n", "\ufeff\"a;b\"\tu\ty\r\n1\t2,5\tno\r\n-3\t,125\tyes\r\n",
	} {
		got := testref.Must(readCSV(strings.NewReader(text), "a.csv", layout{}, 0))(t)
		require.Equal(t, want, got, text)
	}
	for head, want := range map[string]rune{
		"a,b;c,d\n": ',', "a;b": ';', "\"a,b\";c": ';', "a;b,c": ';', "1,5;2,5;3": ';', "1,5;2,5,7": ',', "a\tb,c": '\t', "": ',', "a\nb;c": ',', "\n\na;b": ';',
	} {
		require.Equal(t, want, separator([]byte(head)), head)
	}
}

// A comma between semicolons is decimal only where it cannot be anything else.
func TestDecimalCommas(t *testing.T) {
	for rows, want := range map[string]string{
		"1,5;1":         "",
		"1,500;0,25":    "",
		"0,500;1":       "",
		"-,500;1":       "",
		"1234,500;1":    "",
		"1,500;1":       `a.csv:2: column 1 (u): "1,500" has a comma that may be decimal or separate thousands`,
		"1,500;2,250":   `a.csv:2: column 1 (u): "1,500" has a comma that may be`,
		"1.5;2,5":       `a.csv:2: column 2 (y): "2,5" has a comma, but line 2 has "1.5" with a point; write decimal points`,
		"1;2,5\n1;2.5":  `a.csv:2: column 2 (y): "2,5" has a comma, but line 3 has "2.5"`,
		"1.234,5;1":     `a.csv:2: column 1 (u): "1.234,5" has a comma where a number has a decimal point`,
		"1,234,567;1":   `a.csv:2: column 1 (u): "1,234,567" has a comma where`,
		"1,234,567.8;1": `a.csv:2: column 1 (u): "1,234,567.8" has a comma where`,
		"1,;1":          "",
		",;1":           `a.csv:2: column 1 (u): "," is not a number`,
	} {
		_, err := readCSV(strings.NewReader("u;y\n"+rows+"\n"), "a.csv", layout{}, 0)
		if want == "" {
			require.NoError(t, err, rows)
			continue
		}
		require.ErrorContains(t, err, want, rows)
	}
}

// Random tables come back from every way to write them.
func TestReadCSVRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		d, n := 1+r.IntN(4), 1+r.IntN(6)
		comma, point := []string{",", ";", "\t"}[r.IntN(3)], "."
		if comma != "," && r.IntN(2) == 0 {
			point = ","
		}
		order := r.Perm(d + 2)
		want := newTable("")
		var text strings.Builder
		line := func(field func(j int) string) {
			for i, j := range order {
				if i > 0 {
					text.WriteString(comma)
				}
				f := field(j)
				if r.IntN(3) == 0 || strings.ContainsAny(f, ",;") && j >= d || strings.Contains(f, comma) { // quotes change nothing
					f = `"` + f + `"`
				}
				text.WriteString(f)
			}
			text.WriteString([]string{"\n", "\r\n"}[r.IntN(2)])
		}
		line(func(j int) string { return fmt.Sprintf("c%d", j) })
		for range n {
			x := make([]float64, d)
			for j := range x {
				x[j] = float64(r.IntN(2000)-1000)/4 + 0.0625
			}
			id, word := fmt.Sprintf("row,%d;", r.IntN(9)), []string{"yes", "no", "per haps"}[r.IntN(3)]
			want.IDs, want.words = append(want.IDs, id), append(want.words, word)
			for _, j := range order {
				if j < d {
					want.x = append(want.x, x[j])
				}
			}
			line(func(j int) string {
				switch j {
				case d:
					return id
				case d + 1:
					return word
				}
				return strings.Replace(fmt.Sprint(x[j]), ".", point, 1)
			})
		}
		got, err := readCSV(strings.NewReader(text.String()), "a.csv", layout{target: fmt.Sprintf("c%d", d+1), id: fmt.Sprintf("c%d", d)}, 0)
		require.NoError(t, err, text.String())
		require.Equal(t, n, got.n)
		require.Equal(t, want.x, got.x, text.String())
		require.Equal(t, want.IDs, got.IDs)
		require.Equal(t, want.words, got.words)
		require.False(t, slices.Contains(got.Columns, fmt.Sprintf("c%d", d)))
	}
}
