package dataset

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// A column of weights is no feature and no target, of one file or several, and goes with its rows.
func TestWeights(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return write(t, dir, name, []byte(text)) }
	one := file("a.csv", "u,y,w\n1,0,.5\n2,1,0\n3,0,2\n")
	test := file("test.csv", "u,y\n1,0\n")
	for _, name := range []string{one, one + "," + file("b.csv", "w,u,y\n3,4,1\n")} {
		d := testref.Must(Open(t.Context(), name, &OpenOptions{Weights: "w", TestFile: test}))(t)
		require.Equal(t, []string{"u"}, d.Columns)
		require.Equal(t, "y", d.Target, "the last column that is not of weights")
		require.Equal(t, []float64{.5, 0, 2, 3}[:d.Train.Len()], d.Train.Weights)
		require.Nil(t, d.Test.Weights)
		sub := testref.Must(d.Train.Pick(nil, []int{2, 0}, ""))(t)
		require.Equal(t, []float64{2, .5}, sub.Weights)
		require.Equal(t, []float64{.5}, sub.Slice(1, 2).Weights)
		stored := testref.Must(sub.Kept(context.Background(), nil))(t)
		require.Equal(t, []float64{.5, 2}, stored.Weights)
		require.Equal(t, []float64{.5, 2}, testref.Must(d.WithTrain(stored, "x"))(t).Train.Weights)
	}
	for text, want := range map[string]string{
		"u,y,w\n1,0,1\n2,1,-.5\n":   `bad.csv:3: column 3 (w): "-.5" is less than 0; write weights of 0 or more`,
		"u,y,w\n1,0,1\n2,1,many\n":  `bad.csv:3: column 3 (w): "many" is not a number`,
		"u,y,w\n1,0,NaN\n":          `bad.csv:2: column 3 (w): `,
		"u,y\n1,0\n":                `bad.csv:1: there is no column "w"; choose from "u", "y"`,
		"u,y,w\n1,0,1\n2,1\n":       `bad.csv:3: 2 fields, but the header has 3`,
		"w,y\n1,0\n":                `no column is left for the features`,
		"u,y,w,v\n1,0,1e400,2\n":    `bad.csv:2: column 3 (w): `,
		"u,y,w\n1,0,\n":             `bad.csv:2: column 3 (w): `,
		"u,y,w\n1,0,1\n2,1,+Inf\n ": `bad.csv:3: column 3 (w): `,
	} {
		_, err := Open(t.Context(), file("bad.csv", text), &OpenOptions{Weights: "w"})
		require.ErrorContains(t, err, want, text)
	}
	_, err := Open(t.Context(), one, &OpenOptions{Weights: "w", ID: "w"})
	require.ErrorContains(t, err, `column "w" is asked for twice`)
	_, err = Open(t.Context(), one, &OpenOptions{Weights: "w", Target: "w"})
	require.ErrorContains(t, err, `column "w" is asked for twice`)
	_, err = Open(t.Context(), "digits:4,2", &OpenOptions{Weights: "w"})
	require.ErrorContains(t, err, "a column of weights was asked for")
	_, err = Open(t.Context(), one+","+file("c.csv", "u,y\n3,4\n"), &OpenOptions{Weights: "w"})
	require.ErrorContains(t, err, "c.csv")

	// Arrays of NumPy
	d := testref.Must(Open(t.Context(), "testdata/table.npz", &OpenOptions{Weights: "id"}))(t)
	require.Equal(t, []float64{100, 101, 102, 103, 104, 105}, d.Train.Weights)
	_, err = Open(t.Context(), "testdata/table.npz", &OpenOptions{Weights: "nothing"})
	require.ErrorContains(t, err, `there is no array "nothing"`)
	_, err = Open(t.Context(), "testdata/table.npz", &OpenOptions{Weights: "x"})
	require.Error(t, err)
}
