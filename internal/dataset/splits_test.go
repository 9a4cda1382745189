package dataset

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestOpenSplit(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("u,y\n10,0\n11,1\n12,0\n13,1\n14,2\n"))
	write(t, dir, "a.splits.csv", []byte("split,row,part\n0,0,train\n3,4,train\n3,1,train\n3,0,test\n3,2,valid\n0,1,test\n"))
	split := 3
	d := testref.Must(Open(context.Background(), path, &OpenOptions{Split: &split}))(t)
	// Rows are those of a.csv, in its order; row 3 is in no part.
	require.Equal(t, []float64{11, 14}, d.Train.Matrix(nil).RawMatrix().Data)
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
