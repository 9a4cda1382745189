package dataset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// labelled is a part with the given labels, its rows spread over a file of
// three times the length: position p is row 3p+1.
func labelled(labels ...int) *Set {
	s := &Set{Part: "test", File: "a.csv", Shape: []int{1}, Labels: labels, n: len(labels), fileRows: 3 * len(labels)}
	for p := range labels {
		s.rows = append(s.rows, 3*p+1)
		s.Targets = append(s.Targets, float64(labels[p]))
		s.x = append(s.x, float64(p)/8)
	}
	return s
}

func TestSelectClasses(t *testing.T) {
	s := labelled(9, 3, 4, 9, 4, 0)
	sub := testref.Must(s.Select(&SelectOptions{Classes: []int{4, 9}}))(t)
	require.Equal(t, []int{0, 2, 3, 4}, sub.Pos) // file order
	require.Equal(t, []int{1, 7, 10, 13}, sub.Rows)
	require.Equal(t, []int{9, 4, 9, 4}, sub.Labels)
	require.Equal(t, []int{1, 0, 1, 0}, sub.Class)
	require.Equal(t, []float64{1, 0, 1, 0}, sub.Targets)
	require.Equal(t, []float64{0, 0.25, 0.375, 0.5}, sub.Matrix().RawMatrix().Data)

	// The order of the classes is the order of the numbers.
	sub = testref.Must(s.Select(&SelectOptions{Classes: []int{9, 4}, Count: 2}))(t)
	require.Equal(t, []int{9, 4}, sub.Labels)
	require.Equal(t, []int{0, 1}, sub.Class)

	// Rows keep the order they are asked for in.
	sub = testref.Must(s.Select(&SelectOptions{Classes: []int{4, 9}, Rows: []int{13, 1, 7}}))(t)
	require.Equal(t, []int{13, 1, 7}, sub.Rows)
	require.Equal(t, []float64{0, 1, 0}, sub.Targets)
}

func TestSelectAll(t *testing.T) {
	s := labelled(9, 3, 4)
	sub := testref.Must(s.Select(nil))(t)
	require.Equal(t, 3, sub.Len())
	require.Nil(t, sub.Class)
	require.Equal(t, []float64{9, 3, 4}, sub.Targets) // counts for Poisson
	s.Labels, s.Targets = nil, []float64{0.5, 1.5, 2.5}
	sub = testref.Must(s.Select(&SelectOptions{Rows: []int{4}}))(t)
	require.Equal(t, []float64{1.5}, sub.Targets)
	require.Nil(t, sub.Labels)
}

func TestSelectErrors(t *testing.T) {
	for _, c := range []struct {
		o    SelectOptions
		want string
	}{
		{SelectOptions{Count: -1}, "count of rows -1"},
		{SelectOptions{Count: 1, Rows: []int{1}}, "not both"},
		{SelectOptions{Count: 7}, "a.csv: 7 test rows asked for, but there are 6; ask for fewer"},
		{SelectOptions{Count: 5, Classes: []int{4, 9}}, "5 test rows asked for, but there are 4 of the classes 4,9"},
		{SelectOptions{Classes: []int{4, 4}}, "class 4 is in the list of classes twice"},
		{SelectOptions{Classes: []int{4, 7}}, "class 7 is not in the data, which have classes 0,3,4,9"},
		{SelectOptions{Rows: []int{}, From: "r.txt"}, "r.txt: the list of rows is empty"},
		{SelectOptions{Rows: []int{1, 18}, From: "r.txt"}, "r.txt: row 18 of a.csv: is past the end: the test rows are 0 to 17"},
		{SelectOptions{Rows: []int{-1}}, "a.csv: row -1: is past the end"},
		{SelectOptions{Rows: []int{2}, From: "--index"}, "--index: row 2 of a.csv: is not one of the 6 test rows"},
		{SelectOptions{Rows: []int{1, 4, 1}, From: "r.txt"}, "r.txt: row 1 of a.csv: is listed twice; name another row"},
		{SelectOptions{Rows: []int{4}, Classes: []int{9, 4}, From: "r.txt"}, "r.txt: row 4 of a.csv: has label 3, which is not one of the classes 9,4"},
	} {
		_, err := labelled(9, 3, 4, 9, 4, 0).Select(&c.o)
		require.ErrorContains(t, err, c.want)
		require.IsType(t, &Error{}, err)
	}
	s := labelled(1, 2)
	s.known = []int{1, 2, 3}
	require.ErrorContains(t, testref.Err(s.Select(&SelectOptions{Classes: []int{3}})), "no test row has a class in 3")
	s.Labels = nil
	require.ErrorContains(t, testref.Err(s.Select(&SelectOptions{Classes: []int{1}})), "the targets are real numbers")
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
		sub, err := s.Select(&SelectOptions{Classes: classes})
		if len(rows) == 0 || slices.ContainsFunc(classes, func(c int) bool { return !slices.Contains(labels, c) }) {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, rows, sub.Rows)
		require.Equal(t, class, sub.Class)
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		again := testref.Must(s.Select(&SelectOptions{Classes: classes, Rows: rows}))(t)
		require.Equal(t, rows, again.Rows)
	}
}

func TestMatrixPanics(t *testing.T) {
	s := labelled(1, 2)
	require.PanicsWithValue(t, "dataset: matrix of no rows", func() { s.Matrix([]int{}) })
	require.PanicsWithValue(t, "dataset: dimension mismatch", func() { s.MatrixTo(s.Matrix([]int{1}), nil) })
}

// TestGrouped checks that classes, targets and labels follow the map, and that rows of
// a regression stay as they are.
func TestGrouped(t *testing.T) {
	s := &Subset{Pos: []int{4, 5, 6}, Class: []int{2, 0, 1}, Classes: []int{7, 8, 9}, Labels: []int{9, 7, 8}, Targets: []float64{2, 0, 1}}
	g := s.Grouped([]int{1, 1, 0}, []int{9, -1})
	require.Equal(t, []int{0, 1, 1}, g.Class)
	require.Equal(t, []float64{0, 1, 1}, g.Targets)
	require.Equal(t, []int{9, -1, -1}, g.Labels)
	require.Equal(t, []int{9, -1}, g.Classes)
	require.Equal(t, []int{2, 0, 1}, s.Class)
	r := &Subset{Pos: []int{1}, Targets: []float64{.5}}
	require.Same(t, r, r.Grouped([]int{0}, []int{1}))
}

// TestCountClasses checks which labels are taken for numbers of classes.
func TestCountClasses(t *testing.T) {
	of := func(names []string, labels ...int) *Data {
		d := &Data{IntegerLabels: true, Names: names, Train: &Set{}, Valid: &Set{}, Test: &Set{}}
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

// A slice of a subset has the rows, labels and targets of its positions, whichever there are.
func TestSubsetSlice(t *testing.T) {
	s := labelled(9, 3, 4, 9, 4, 0)
	s.IDs = []string{"a", "b", "c", "d", "e", "f"}
	sub := testref.Must(s.Select(&SelectOptions{Classes: []int{4, 9}}))(t)
	want := testref.Must(s.Select(&SelectOptions{Classes: []int{4, 9}, Rows: sub.Rows[1:3]}))(t)
	require.Equal(t, want, sub.Slice(1, 3))
	s.Labels, s.IDs, s.Targets = nil, nil, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} // two targets a row
	sub = testref.Must(s.Select(nil))(t)
	require.Equal(t, []float64{3, 4, 5, 6}, sub.Slice(1, 3).Targets)
	require.Nil(t, sub.Slice(1, 3).Class)
}
