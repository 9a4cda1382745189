package dataset

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

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
	d := testref.Must(Open(context.Background(), "digits", &OpenOptions{Seed: 3, DigitsTrain: 10, DigitsTest: 20}))(t)
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
		{other, nil, "is neither a .csv, .svm, .npy or .npz file nor a directory"},
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
