package dataset

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestOpenCSV(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "pets.csv", []byte("\ufeffage, kind,\"weight\"\r\n1,0,2.5\r\n\r\n 2 ,1, -1e1\n"))
	d := testref.Must(Open(context.Background(), path, nil))(t)
	require.Equal(t, "pets", d.Name)
	require.Equal(t, []string{"age", "kind"}, d.Columns)
	require.Equal(t, "weight", d.Target)
	require.Equal(t, []float64{2.5, -10}, d.Train.Targets)
	require.False(t, d.IntegerLabels)
	require.Nil(t, d.Train.Labels)
	require.Nil(t, d.Classes())
	require.False(t, d.Images())
	require.Nil(t, d.Train.Image(0))
	require.Equal(t, []float64{1, 0, 2, 1}, d.Train.Matrix().RawMatrix().Data)
	require.Zero(t, d.Test.Len())

	d = testref.Must(Open(context.Background(), path, &OpenOptions{Target: "kind"}))(t)
	require.Equal(t, []string{"age", "weight"}, d.Columns)
	require.Equal(t, []int{0, 1}, d.Train.Labels)
	require.Equal(t, []float64{1, 2.5, 2, -10}, d.Train.Matrix().RawMatrix().Data)
}

func TestOpenCSVTestFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("u,v,y\n1,2,0\n3,4,1\n"))
	good := write(t, dir, "good.csv", []byte("u,v,y\n5,6,3\n"))
	d := testref.Must(Open(context.Background(), path, &OpenOptions{TestFile: good}))(t)
	require.Equal(t, []int{3}, d.Test.Labels)
	require.Equal(t, []int{0, 1, 3}, d.Classes())
	require.Equal(t, []float64{5, 6}, d.Test.Matrix().RawRowView(0))

	// A real target anywhere makes the whole set a regression.
	reals := write(t, dir, "reals.csv", []byte("u,v,y\n5,6,3.5\n"))
	d = testref.Must(Open(context.Background(), path, &OpenOptions{TestFile: reals}))(t)
	require.False(t, d.IntegerLabels)
	require.Nil(t, d.Train.Labels)

	for text, want := range map[string]string{
		"u,w,y\n1,2,3\n":     `:1: the feature columns are not those of ` + path + `: feature 1, "v", is missing`,
		"u,v,t,y\n1,2,3,4\n": `:1: column "t" is not in ` + path + `; leave it out, or name it as the ID`,
		"u,v,z\n1,2,3\n":     `:1: column "z" is not in ` + path + `; call it "y" if it is the target`,
	} {
		other := write(t, dir, "other.csv", []byte(text))
		_, err := Open(context.Background(), path, &OpenOptions{TestFile: other})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "other.csv")
	}

	// The columns of another file may be in another order.
	other := write(t, dir, "order.csv", []byte("y,v,u\n2,6,5\n"))
	d = testref.Must(Open(context.Background(), path, &OpenOptions{TestFile: other}))(t)
	require.Equal(t, []int{2}, d.Test.Labels)
	require.Equal(t, []float64{5, 6}, d.Test.Matrix().RawRowView(0))
}

// The validation rows come from a file of their own, beside a test file or not.
func TestOpenCSVValidFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", []byte("u,v,y\n1,2,0\n3,4,1\n"))
	valid := write(t, dir, "valid.csv", []byte("u,v,y\n5,6,1\n7,8,0\n"))
	test := write(t, dir, "test.csv", []byte("u,v,y\n9,10,1\n"))
	for _, o := range []*OpenOptions{{ValidFile: valid}, {ValidFile: valid, TestFile: test}} {
		d := testref.Must(Open(context.Background(), path, o))(t)
		require.Equal(t, 2, d.Train.Len())
		require.Equal(t, []int{1, 0}, d.Valid.Labels)
		require.Equal(t, "valid", d.Valid.Part)
		require.Equal(t, valid, d.Valid.File)
		require.Equal(t, []float64{5, 6, 7, 8}, d.Valid.Matrix().RawMatrix().Data)
		require.Equal(t, o.TestFile != "", d.Test.Len() == 1)
	}
	other := write(t, dir, "other.csv", []byte("u,w,y\n1,2,3\n"))
	_, err := Open(context.Background(), path, &OpenOptions{ValidFile: other})
	require.ErrorContains(t, err, `other.csv:1: the feature columns are not those of `+path)
}

func TestReadCSVErrors(t *testing.T) {
	for _, c := range []struct{ text, target, want string }{
		{"", "", "a.csv: is empty"},
		{"u,y\n", "", "a.csv:1: there are no rows below the header"},
		{"u\n1\n", "", "a.csv:1: one column only"},
		{"1,2\n3,4\n", "", "a.csv:1: numbers where the column names should be: \"1\", \"2\"; begin the file with a header line"},
		{"u,u,y\n1,2,3\n", "", `a.csv:1: columns 1 and 2 have the same name "u"`},
		{"u,y\n1,2\n", "z", `a.csv:1: there is no column "z"; choose from "u", "y"`},
		{"u,y\n1,2\n3\n", "", "a.csv:3: 1 fields, but the header has 2"},
		{"u,y\n1,2,3\n", "", "a.csv:2: 3 fields, but the header has 2"},
		{"u,y\n1,2\n,4\n", "", "a.csv:3: column 1 (u): missing value"},
		{"u,y\n1,2\n3, \n", "", "a.csv:3: column 2 (y): missing value"},
		{"u,y\nNaN,2\n", "", `a.csv:2: column 1 (u): "NaN" stands for a missing value`},
		{"u,y\n1,-inf\n", "", `a.csv:2: column 2 (y): "-inf" is not finite`},
		{"u,y\n1e400,2\n", "", `a.csv:2: column 1 (u): "1e400" is too large`},
		{"u,y\nred,1\n", "", `a.csv:2: column 1 (u): "red" is not a number; code words as numbers, name a column`},
		{"u,y\n1,2\n1,setosa\n", "", `a.csv:3: column 2 (y): "setosa" is not a number, but the targets above it are numbers; write all of them as`},
		{"u,y\n1,setosa\n1,2\n", "", `a.csv:3: column 2 (y): "2" is a number, but the targets above it are words`},
		{"u,y\n1,setosa\n1,\n", "", `a.csv:3: column 2 (y): missing value`},
		{"u,y\n1,\"$1,000\"\n", "", `a.csv:2: column 2 (y): "$1,000" has a comma where a number has a decimal point`},
		{"u,y\n1,12 %\n", "", `a.csv:2: column 2 (y): "12 %" is not a decimal number`},
		{"u,y\n1,\"1,5\"\n", "", `a.csv:2: column 2 (y): "1,5" has a comma where`},
		{"u,a,b\n1,2,red\n", "a,b", `a.csv:2: column 3 (b): "red" is not a number`},
		{"u,a,b\n1,2,3\n", "a,c", `a.csv:1: there is no column "c"`},
		{"u,a,b\n1,2,3\n", "a,a", `a.csv:1: column "a" is asked for twice`},
		{"a,b\n1,2\n", "a,b", "a.csv:1: no column is left for the features"},
		{"u v y\n1 2 3\n", "", "a.csv:1: one column only; give at least one feature and a target, separated by commas, semicolons or tabs"},
		{"u,y\n1_000,2\n", "", `a.csv:2: column 1 (u): "1_000" is not a`},
		{"u,y\n1,0x1p3\n", "", `a.csv:2: column 2 (y): "0x1p3" is not a decimal number; write it as 1000, 0.5 or 1.5e-3`},
		{"u,y\n1,2\n1,0x_1Fp-2\n", "", `a.csv:3: column 2 (y): "0x_1Fp-2" is not a decimal number`},
		{"u,y\n1,Infinity\n", "", `a.csv:2: column 2 (y): "Infinity" is not finite`},
		{"u,y\n1,2\n1,0b1\n", "", `a.csv:3: column 2 (y): "0b1" is not a number`},
		{"u,y\n\"1,2\n3,4\n", "", "a.csv:"},
		{"u,y\n1\"2,3\n", "", `a.csv:2: byte 2 of the line: bare " in non-quoted-field`},
	} {
		_, err := readCSV(strings.NewReader(c.text), "a.csv", layout{target: c.target}, 0)
		require.ErrorContains(t, err, c.want, "%q", c.text)
		require.IsType(t, &Error{}, err)
	}
}

// Decimal numbers are read in every spelling of a spreadsheet.
func TestReadCSVNumbers(t *testing.T) {
	got, err := readCSV(strings.NewReader("u,y\n+1.5,-.5\n2.,1E3\n1e+2,1.25E-02\n 007 ,-0\n"), "a.csv", layout{}, 0)
	require.NoError(t, err)
	require.Equal(t, []float64{1.5, 2, 100, 7}, got.x)
	require.Equal(t, []float64{-.5, 1000, .0125, 0}, got.Targets)
}

func FuzzCSV(f *testing.F) {
	f.Add("u,v,y\n1,2,0\n3,4,1\n", "split,row,part\n0,0,train\n0,1,test\n", "", 0)
	f.Add("\ufeffu,\"v\"\r\n1,2\r\n", "split,row,part\n1,0,valid\n", "u", 1)
	f.Add("u,y\nNaN,1\n", "", "y", -1)
	f.Add("u,y\n1e400,1\n", "split,row,part\n0,99999999999,train\n", "", 0)
	f.Add("1,2\n", "a,b,c\n", "", 0)
	f.Fuzz(func(t *testing.T, text, splits, target string, k int) {
		check := func(err error) bool {
			if err != nil {
				require.IsType(t, &Error{}, err)
				require.NotContains(t, err.Error(), "\n")
			}
			return err == nil
		}
		n := 3
		tab, err := readCSV(strings.NewReader(text), "a.csv", layout{target: target}, 0)
		if check(err) {
			n = tab.n
			require.Len(t, tab.x, n*len(tab.Columns))
			require.Equal(t, n*len(tab.targets), len(tab.Targets)+len(tab.words))
			for _, v := range append(tab.x, tab.Targets...) {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
			}
		}
		parts, err := readSplits(strings.NewReader(splits), "a.splits.csv", k, n)
		if !check(err) {
			return
		}
		seen := map[int]bool{}
		for _, rows := range parts {
			for _, r := range rows {
				require.False(t, seen[r])
				seen[r] = true
				require.Less(t, r, n)
			}
		}
		rows, err := likeOf(2).table(strings.NewReader(text), "a.csv")
		if check(err) {
			require.Len(t, rows.x, 2*rows.n)
		}
	})
}

// Several columns of which each row has a single one are labels, also where no row has one of them; others are numbers,
// of which TargetKind says what they seem to be.
func TestOneHot(t *testing.T) {
	dir := t.TempDir()
	open := func(text string, o OpenOptions) *Data {
		o.Target = "b,a,c"
		return testref.Must(Open(t.Context(), write(t, dir, "a.csv", []byte("u,a,b,c\n"+text)), &o))(t)
	}
	const single = "1,1,0,0\n2,0,0,1\n3,1,0,0\n"
	d := open(single, OpenOptions{})
	require.Equal(t, []string{"b", "a", "c"}, d.OneHot)
	require.Equal(t, []int{1, 2, 1}, d.Train.Labels)
	require.Equal(t, []int{0, 1, 2}, d.Classes())
	require.Equal(t, []string{oneHotNote}, d.Notes)
	require.Equal(t, 1, d.Train.Width())
	require.Equal(t, []float64{1, 2, 3}, d.Train.Matrix().RawMatrix().Data)
	_, several := d.SeveralLabels()
	require.False(t, several)
	sub := testref.Must(d.Train.Select([]int{2, 0, 1}, 0))(t)
	require.Equal(t, []float64{2, 0, 2}, sub.Targets)

	d = open(single, OpenOptions{RealTargets: true})
	require.Nil(t, d.OneHot)
	require.Equal(t, []float64{0, 1, 0, 0, 0, 1, 0, 1, 0}, d.Train.Targets)
	file := write(t, dir, "several.csv", []byte("u,a,b,c\n1,1,1,0\n"))
	for i, c := range []struct {
		text string
		o    OpenOptions
		row  int // −1 where there are not several labels
	}{
		{single, OpenOptions{TestFile: file}, 0}, {single + "4,0,0,0\n", OpenOptions{}, 3}, {"1,1,1,1\n", OpenOptions{}, 0},
		{single + "4,.5,.25,.75\n", OpenOptions{}, -1}, {single + "4,2,-1,0\n", OpenOptions{}, -1}, {single + "4,.5,.25,.25\n", OpenOptions{RealTargets: true}, -1},
	} {
		d := open(c.text, c.o)
		require.Nil(t, d.OneHot)
		row, ok := d.SeveralLabels()
		require.Equal(t, c.row >= 0, ok, i)
		if ok {
			require.Equal(t, c.row, row, i)
		}
	}

	// Shares of 1 are soft labels, with the label of the largest.
	d = open(single+"4,.1,.3005,.6\n", OpenOptions{})
	require.Equal(t, []int{1, 2, 1, 2}, d.Train.Labels)
	require.InDeltaSlice(t, []float64{0, 1, 0, 0, 0, 1, 0, 1, 0, .3005 / 1.0005, .1 / 1.0005, .6 / 1.0005}, d.Train.Shares, 1e-15)
	require.Equal(t, []string{SharesNote}, d.Notes)
	sub = testref.Must(d.Train.Pick(nil, []int{3}, ""))(t)
	require.Equal(t, d.Train.Shares[9:], sub.Shares)
	require.Equal(t, d.Train.Shares[9:], testref.Must(sub.Kept(t.Context(), nil))(t).Shares)
}
