package dataset

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

// labelled is a part with the given labels, its rows spread over a file of
// three times the length: position p is row 3p+1.
func labelled(labels ...int) *Rows {
	s := &Rows{Part: "test", File: "a.csv", Shape: []int{1}, Labels: labels, n: len(labels), fileRows: 3 * len(labels), inputs: new(inputs)}
	for p := range labels {
		s.Index = append(s.Index, 3*p+1)
		s.Targets = append(s.Targets, float64(labels[p]))
		s.x = append(s.x, float64(p)/8)
	}
	return s
}

func TestSelectClasses(t *testing.T) {
	s := labelled(9, 3, 4, 9, 4, 0)
	sub := testref.Must(s.Select([]int{4, 9}, 0))(t)
	require.Equal(t, []int{0, 2, 3, 4}, sub.places)
	require.Equal(t, []int{1, 7, 10, 13}, sub.Index) // file order
	require.Equal(t, []int{9, 4, 9, 4}, sub.Labels)
	require.Equal(t, []int{1, 0, 1, 0}, sub.Class)
	require.Equal(t, []float64{1, 0, 1, 0}, sub.Targets)
	require.Equal(t, []float64{0, 0.25, 0.375, 0.5}, sub.Matrix().RawMatrix().Data)

	// The order of the classes is the order of the numbers.
	sub = testref.Must(s.Select([]int{9, 4}, 2))(t)
	require.Equal(t, []int{9, 4}, sub.Labels)
	require.Equal(t, []int{0, 1}, sub.Class)

	// Rows keep the order they are asked for in.
	sub = testref.Must(s.Pick([]int{4, 9}, []int{13, 1, 7}, ""))(t)
	require.Equal(t, []int{13, 1, 7}, sub.Index)
	require.Equal(t, []float64{0, 1, 0}, sub.Targets)
}

func TestSelectAll(t *testing.T) {
	s := labelled(9, 3, 4)
	sub := testref.Must(s.Select(nil, 0))(t)
	require.Equal(t, 3, sub.Len())
	require.Nil(t, sub.Class)
	require.Equal(t, []float64{9, 3, 4}, sub.Targets) // counts for Poisson
	s.Labels, s.Targets = nil, []float64{0.5, 1.5, 2.5}
	sub = testref.Must(s.Pick(nil, []int{4}, ""))(t)
	require.Equal(t, []float64{1.5}, sub.Targets)
	require.Nil(t, sub.Labels)
}

func TestSelectErrors(t *testing.T) {
	for _, c := range []struct {
		classes []int
		count   int
		rows    []int
		from    option.Text
		want    string
	}{
		{nil, -1, nil, "", "count of rows -1"},
		{nil, 7, nil, "", "a.csv: 7 test rows asked for, but there are 6; ask for fewer"},
		{[]int{4, 9}, 5, nil, "", "5 test rows asked for, but there are 4 of the classes 4,9"},
		{[]int{4, 4}, 0, nil, "", "class 4 is in the list of classes twice"},
		{[]int{4, 7}, 0, nil, "", "class 7 is not in the data, which have classes 0,3,4,9"},
		{nil, 0, []int{}, "r.txt", "r.txt: the list of rows is empty"},
		{nil, 0, []int{1, 18}, "r.txt", "r.txt: row 18 of a.csv: is past the end: the test rows are 0 to 17"},
		{nil, 0, []int{-1}, "", "a.csv: row -1: is past the end"},
		{nil, 0, []int{2}, "--index", "--index: row 2 of a.csv: is not one of the 6 test rows"},
		{nil, 0, []int{1, 4, 1}, "r.txt", "r.txt: row 1 of a.csv: is listed twice; name another row"},
		{[]int{9, 4}, 0, []int{4}, "r.txt", "r.txt: row 4 of a.csv: has label 3, which is not one of the classes 9,4"},
	} {
		_, err := labelled(9, 3, 4, 9, 4, 0).Select(c.classes, c.count)
		if c.rows != nil {
			_, err = labelled(9, 3, 4, 9, 4, 0).Pick(c.classes, c.rows, c.from)
		}
		require.ErrorContains(t, err, c.want)
		require.IsType(t, &Error{}, err)
	}
	s := labelled(1, 2)
	s.known = []int{1, 2, 3}
	require.ErrorContains(t, testref.Err(s.Select([]int{3}, 0)), "no test row has a class in 3")
	s.Labels = nil
	require.ErrorContains(t, testref.Err(s.Select([]int{1}, 0)), "the targets are real numbers")
}

// Select against a plain scan, on random labels, classes and rows.
func TestSelectRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		labels := make([]int, 1+r.IntN(40))
		for i := range labels {
			labels[i] = r.IntN(5)
		}
		s := labelled(labels...)
		classes := r.Perm(5)[:1+r.IntN(4)]
		var rows, class []int
		for p, l := range labels {
			if k := slices.Index(classes, l); k >= 0 {
				rows, class = append(rows, 3*p+1), append(class, k)
			}
		}
		sub, err := s.Select(classes, 0)
		if len(rows) == 0 || slices.ContainsFunc(classes, func(c int) bool { return !slices.Contains(labels, c) }) {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, rows, sub.Index)
		require.Equal(t, class, sub.Class)
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		again := testref.Must(s.Pick(classes, rows, ""))(t)
		require.Equal(t, rows, again.Index)
	}
}

func TestMatrixPanics(t *testing.T) {
	s := labelled(1, 2)
	require.PanicsWithValue(t, "dataset: matrix of no rows", func() { s.At([]int{}).Matrix() })
	require.PanicsWithValue(t, "dataset: dimension mismatch", func() { s.MatrixTo(s.At([]int{1}).Matrix()) })
}

// TestGrouped checks that classes, targets and labels follow the map, and that rows of
// a regression stay as they are.
func TestGrouped(t *testing.T) {
	s := &Rows{n: 3, Class: []int{2, 0, 1}, Classes: []int{7, 8, 9}, Labels: []int{9, 7, 8}, Targets: []float64{2, 0, 1}}
	g := s.Grouped([]int{1, 1, 0}, []int{9, -1})
	require.Equal(t, []int{0, 1, 1}, g.Class)
	require.Equal(t, []float64{0, 1, 1}, g.Targets)
	require.Equal(t, []int{9, -1, -1}, g.Labels)
	require.Equal(t, []int{9, -1}, g.Classes)
	require.Equal(t, []int{2, 0, 1}, s.Class)
	require.Equal(t, []int{7, 8}, []int{g.OwnLabel(1), g.OwnLabel(2)})
	r := &Rows{n: 1, Targets: []float64{.5}}
	require.Same(t, r, r.Grouped([]int{0}, []int{1}))
}

// TestCountClasses checks which labels are taken for numbers of classes.
func TestCountClasses(t *testing.T) {
	of := func(names []string, labels ...int) *Data {
		d := &Data{IntegerLabels: true, Names: names, Train: noRows("", ""), Valid: noRows("", ""), Test: noRows("", "")}
		d.Train.known = labels
		return d
	}
	d := of(nil, 0, 3)
	require.True(t, d.CountClasses(5))
	require.Equal(t, []int{0, 1, 2, 3, 4}, d.Classes())
	for _, d := range []*Data{of(nil, 0, 1, 2, 3, 4), of(nil, -1, 3), of(nil, 1, 5), of(nil), of([]string{"a", "b"}, 0, 1)} {
		require.False(t, d.CountClasses(5))
	}
}

// A slice has the rows, labels and targets of its positions, whichever there are.
func TestSlice(t *testing.T) {
	s := labelled(9, 3, 4, 9, 4, 0)
	s.IDs = []string{"a", "b", "c", "d", "e", "f"}
	sub := testref.Must(s.Select([]int{4, 9}, 0))(t)
	want := testref.Must(s.Pick([]int{4, 9}, sub.Index[1:3], ""))(t)
	require.Equal(t, want, sub.Slice(1, 3))
	s.Labels, s.IDs, s.Targets = nil, nil, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} // two targets a row
	sub = testref.Must(s.Select(nil, 0))(t)
	require.Equal(t, []float64{3, 4, 5, 6}, sub.Slice(1, 3).Targets)
	require.Nil(t, sub.Slice(1, 3).Class)
}

func TestReadRows(t *testing.T) {
	path := write(t, t.TempDir(), "rows.txt", []byte("\ufeff# chosen by hand\r\n12\r\n\r\n  3 # a seven\n0"))
	rows := testref.Must(ReadRows(t.Context(), path))(t)
	require.Equal(t, []int{12, 3, 0}, rows)
}

func TestReadRowsErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "r.txt: holds no row numbers"},
		{"# nothing\n\n", "r.txt: holds no row numbers"},
		{"1\n-2\n", `r.txt:2: "-2" is not a row number`},
		{"1\n2 3\n", `r.txt:2: "2 3" is not a row number`},
		{"1.5", `r.txt:1: "1.5" is not a row number`},
		{"99999999999999999999", `r.txt:1: "99999999999999999999" is not a row number`},
		{"1\n" + strings.Repeat("1", 1<<17), "r.txt:2: the line is too long"},
	} {
		require.ErrorContains(t, testref.Err(readRows(strings.NewReader(c.text), "r.txt")), c.want)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("1\n2\n")
	f.Add("# a\n 7 # b\n\n")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readRows(strings.NewReader(text), "r.txt")
		if err != nil {
			require.IsType(t, &Error{}, err)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, rows)
		for _, r := range rows {
			require.GreaterOrEqual(t, r, 0)
		}
	})
}

func TestOpenSplit(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("u,y\n10,0\n11,1\n12,0\n13,1\n14,2\n"))
	write(t, dir, "a.splits.csv", []byte("split,row,part\n0,0,train\n3,4,train\n3,1,train\n3,0,test\n3,2,valid\n0,1,test\n"))
	split := 3
	d := testref.Must(Open(context.Background(), path, &OpenOptions{Split: &split}))(t)
	// Rows are those of a.csv, in its order; row 3 is in no part.
	require.Equal(t, []float64{11, 14}, d.Train.Matrix().RawMatrix().Data)
	require.Equal(t, []int{1, 2}, d.Train.Labels)
	require.Equal(t, []int{1, 4}, []int{d.Train.Row(0), d.Train.Row(1)})
	require.Equal(t, 0, d.Test.Row(0))
	require.Equal(t, 2, d.Valid.Row(0))
	pos := testref.Must(d.Train.Lookup(4))(t)
	require.Equal(t, 1, pos)
	require.ErrorContains(t, testref.Err(d.Train.Lookup(0)), "row 0: is not one of the 2 train rows")
	require.ErrorContains(t, testref.Err(d.Train.Lookup(5)), "row 5: is past the end: the train rows are 0 to 4")

	// A part without rows is empty.
	split = 0
	d = testref.Must(Open(context.Background(), path, &OpenOptions{Split: &split}))(t)
	require.Zero(t, d.Valid.Len())
	require.Equal(t, 1, d.Test.Len())
}

func TestReadSplitsErrors(t *testing.T) {
	const head = "split,row,part\n"
	for _, c := range []struct{ text, want string }{
		{"", "s.csv:1: the header is not split,row,part"},
		{"row,split,part\n", "s.csv:1: the header is not split,row,part"},
		{head, "s.csv: there is no split 0; the file has no rows"},
		{head + "2,0,train\n1,0,train\n", "s.csv: there is no split 0; choose from 1,2"},
		{head + "0,0,test\n", "s.csv: split 0 has no training rows"},
		{head + "0,0\n", "s.csv:2: 2 fields"},
		{head + "a,0,train\n", `s.csv:2: column 1: "a" is not a split number`},
		{head + "0,-1,train\n", `s.csv:2: column 2: "-1" is not a row number`},
		{head + "0,4,train\n", "s.csv:2: column 2: row 4 is past the end: the data have rows 0 to 3"},
		{head + "0,1,train\n0,1,test\n", "s.csv:3: row 1 is in split 0 twice"},
		{head + "0,1,learn\n", `s.csv:2: column 3: "learn" is not a part; write train, valid or test`},
	} {
		_, err := readSplits(strings.NewReader(c.text), "s.csv", 0, 4)
		require.ErrorContains(t, err, c.want, "%q", c.text)
	}
}

func TestOpenSplitAbsent(t *testing.T) {
	path := write(t, t.TempDir(), "a.csv", []byte("u,y\n1,0\n"))
	split := 0
	_, err := Open(context.Background(), path, &OpenOptions{Split: &split})
	require.ErrorContains(t, err, "a.splits.csv: a split was asked for, but its file cannot be opened: no such file")
}

// The UCI files: every split covers every row once, 70/15/15, and the classes
// are 0 to C-1 (../shared/reference/README.md, Data).
func TestOpenUCI(t *testing.T) {
	for name, want := range map[string]struct{ n, d, c int }{
		"australian": {690, 14, 2}, "banana": {5300, 2, 2}, "breast_cancer": {683, 10, 2},
		"digits": {1797, 64, 10}, "glass": {214, 9, 6}, "ionosphere": {351, 34, 2}, "satellite": {6435, 36, 6},
	} {
		path := shared(t, "uci", name+".csv")
		for _, split := range []int{0, 9} {
			d, err := Open(context.Background(), path, &OpenOptions{Split: &split})
			require.NoError(t, err, name)
			require.Equal(t, []int{want.d}, d.Shape)
			require.Len(t, d.Classes(), want.c)
			require.Equal(t, want.n, d.Train.Len()+d.Valid.Len()+d.Test.Len())
			require.InDelta(t, 0.7, float64(d.Train.Len())/float64(want.n), 0.02, name)
			seen := make([]bool, want.n)
			for _, s := range d.parts() {
				for p := range s.Len() {
					require.False(t, seen[s.Row(p)])
					seen[s.Row(p)] = true
				}
			}
		}
		split := 10
		_, err := Open(context.Background(), path, &OpenOptions{Split: &split})
		require.ErrorContains(t, err, "there is no split 10; choose from 0,1,2,3,4,5,6,7,8,9")
	}
}
