package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
)

// Parts of a CSV file keep the rows of the original file, everywhere.
func TestSplitRows(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("x,y\n")
	for i := range 40 {
		rows.WriteString(string(rune('0'+i%7)) + "." + string(rune('0'+i%3)) + "," + string(rune('0'+i%2)) + "\n")
	}
	data := write(t, filepath.Join(dir, "d.csv"), []byte(rows.String()))
	split(t, data, 40)
	model := filepath.Join(dir, "net.onnx")
	run := func(verb string, args ...string) []string {
		return append([]string{verb, "--data", data, "--split", "0", "--json"}, args...)
	}
	succeed(t, run("train", "--arch", "mlp:4-1", "--epochs", "0", "--lbfgs", "5", "--out", model)...)

	importances := decode[result.ImportanceReport](t, succeed(t, run("importances", "--model", model, "--top", "99")...))
	require.Len(t, importances.Importances, 24)
	for _, x := range importances.Importances {
		require.Contains(t, []int{0, 1, 3}, int(x.Index)%5)
		require.EqualValues(t, int(x.Index)%2, x.Label)
	}
	predictions, _ := predicted(t, succeed(t, run("predict", "--model", model)...))
	require.Len(t, predictions, 8)
	for i, x := range predictions {
		require.EqualValues(t, 5*i+4, x.Index)
	}
	require.EqualValues(t, 9, decode[result.Report](t, succeed(t, run("explain", "--model", model, "--index", "9")...)).Input.Index)
	for _, row := range []string{"0", "2"} {
		require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--index", row)...), "is not one of the 8 test rows")
	}
	require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--index", "40")...), "past the end")

	// --train-index takes rows of the original file too, in order.
	index := write(t, filepath.Join(dir, "rows.txt"), []byte("13\n0\n31\n"))
	few := decode[result.Report](t, succeed(t, run("explain", "--model", model, "--train-index", index, "--top", "9")...))
	require.Equal(t, 3, few.Fit.Examples)
	write(t, index, []byte("13\n4\n"))
	require.Contains(t, refuse(t, 1, run("explain", "--model", model, "--train-index", index)...), "row 4")
}

// A split without test rows is tried on its validation rows.
func TestValidationRows(t *testing.T) {
	dir, data, model := csvModel(t)
	write(t, filepath.Join(dir, "data.splits.csv"), []byte("split,row,part\n0,0,train\n0,1,train\n0,2,train\n0,3,valid\n0,4,valid\n"))
	r := decode[result.Report](t, succeed(t, "explain", "--json", "--model", model, "--data", data, "--split", "0", "--index", "4"))
	require.Equal(t, "valid", r.Input.Split)
	require.EqualValues(t, 4, r.Input.Index)
}

// --train-count counts kept rows in the order of the file; index files keep
// their order, whatever --classes says about the labels.
func TestTrainingRows(t *testing.T) {
	rows := func(args ...string) []int {
		r := decode[result.ImportanceReport](t, succeed(t, append([]string{"importances", "--json", "--top", "999", "--data", "digits:400,100"}, args...)...))
		var list []int
		for _, x := range r.Importances {
			list = append(list, int(x.Index))
		}
		slices.Sort(list)
		return list
	}
	first := rows("--train-count", "5")
	require.Len(t, first, 5)
	all := rows("--train-count", "80")
	require.Equal(t, first, all[:5])
	require.Equal(t, all, rows(), "all kept rows without a flag, for data the model does not know")
	require.Equal(t, first, rows("--train-count", "5", "--model", untold(t), "--classes", "9,4", "--quiet"))
	index := write(t, filepath.Join(t.TempDir(), "rows"), lines([]int{first[4], first[1], first[3], first[2], first[0]}))
	require.Equal(t, first, rows("--train-index", index))
}

// lines writes an index file.
func lines(rows []int) []byte {
	return []byte(strings.ReplaceAll(problem.FormatInts(rows), ",", "\n") + "\n")
}
