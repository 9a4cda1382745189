package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
)

// Of rows that are forgotten no number is in the new file, and its predictions are those of
// a fit without them.
func TestForget(t *testing.T) {
	rows, _ := trained(t)
	slices.SortFunc(rows, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	gone := []string{rows[7], rows[30]}
	dir := t.TempDir()
	d := testref.Must(dataset.Open(t.Context(), "digits:400,100", nil))(t)
	for _, how := range [][]string{{"--with-inputs"}, nil, {"--method", "kept", "--within", ".01"}} {
		old, fewer := filepath.Join(dir, "old.gp"), filepath.Join(dir, "new.gp")
		succeed(t, append(small("fit", "--quiet", "--refit", "-o", old), how...)...)
		text := succeed(t, "forget", strings.Join(gone, ","), "--quiet", "--json", "--posterior", old, "-o", fewer)
		requireSchema(t, "forget", text)
		r := decode[forgetReport](t, text)
		require.Equal(t, 60, r.Before.Examples)
		require.Equal(t, 58, r.After.Examples)
		require.NotEqual(t, r.Before.Inputs, r.After.Inputs)
		require.Less(t, float64(r.Bound), 1e-6)
		require.InDelta(t, float64(r.Distance)*float64(r.PriorSD), float64(r.Bound), 1e-15)
		for _, f := range []forgetFile{r.Before, r.After} {
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, f.File)))), f.SHA256)
		}
		for k, x := range r.Rows {
			require.Equal(t, gone[k], strconv.Itoa(x.Row))
			var b bytes.Buffer
			require.NoError(t, binary.Write(&b, binary.LittleEndian, d.Train.At([]int{x.Row}).Matrix().RawRowView(0)))
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(b.Bytes())), x.Inputs)
			require.NoError(t, binary.Write(&b, binary.LittleEndian, float64(d.Train.Labels[x.Row])))
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(b.Bytes())), x.InputsAndTarget)
			pixels := d.Train.Image(x.Row)
			require.Equal(t, slices.Contains(how, "--with-inputs"), strings.Contains(read(t, old), string(pixels)))
			require.False(t, strings.Contains(read(t, fewer), string(pixels)))
			require.False(t, strings.Contains(read(t, fewer), b.String()))
		}
		require.Contains(t, gone, strconv.Itoa(r.Forgotten.Row))
		require.NotContains(t, gone, strconv.Itoa(r.Staying.Row))

		index := indexOf(t, slices.DeleteFunc(slices.Clone(rows), func(r string) bool { return slices.Contains(gone, r) })...)
		data := []string{"--quiet", "--json", "--data", "digits:400,100"}
		scratch := slices.Concat([]string{"predict", "--refit", "--train-index", index}, data, slices.DeleteFunc(slices.Clone(how), func(s string) bool { return s == "--with-inputs" }))
		requireSamePredictions(t, 1e-8, scratch, append([]string{"predict", "--posterior", fewer}, data...))
		words := strings.Join(strings.Fields(succeed(t, "forget", indexOf(t, gone...), "--quiet", "--posterior", old, "-o", fewer)), " ")
		for _, say := range []string{"2 training rows: " + strings.Join(gone, ", "), "no output f at a training row is farther than", "in the unit of f", ", mean of f from ", r.Rows[1].InputsAndTarget, "Not covered: - The trained parameters of the network have seen these rows", "are not touched: delete them yourself"} {
			require.Contains(t, words, say)
		}
	}
}

// Neither numbers nor names of a table's rows are left, and neither are those of the kernel's
// rows, the sites and the dual vector.
func TestForgetATable(t *testing.T) {
	dir := t.TempDir()
	table := "id,a,b,y\n"
	for i := range 20 {
		table += fmt.Sprintf("row-%c,%.15f,%.15f,%.15f\n", 'a'+i, math.Sin(float64(i)), math.Cos(3*float64(i)), math.Sin(2*float64(i)+.5))
	}
	data, net := write(t, filepath.Join(dir, "t.csv"), []byte(table)), filepath.Join(dir, "net.onnx")
	old, fewer := filepath.Join(dir, "old.gp"), filepath.Join(dir, "new.gp")
	with := []string{"--quiet", "--data", data, "--id", "id"}
	succeed(t, append([]string{"train", "--arch", "mlp:4-1", "--epochs", "2", "--lbfgs", "20", "--out", net}, with...)...)
	succeed(t, append([]string{"fit", "--refit", "--with-inputs", "--model", net, "-o", old}, with...)...)
	r := decode[forgetReport](t, succeed(t, "forget", "5", "--json", "--quiet", "--posterior", old, "-o", fewer))
	require.Less(t, float64(r.Bound), 1e-8)
	was, is := read(t, old), read(t, fewer)
	require.True(t, strings.Contains(was, "row-f"))
	require.False(t, strings.Contains(is, "row-f"))
	require.True(t, strings.Contains(is, "row-g"))
	for _, x := range []float64{math.Sin(5), math.Cos(15), math.Sin(10.5)} {
		x := testref.Must(strconv.ParseFloat(fmt.Sprintf("%.15f", x), 64))(t)
		number := string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		require.True(t, strings.Contains(was, number))
		require.False(t, strings.Contains(is, number))
	}
	// The rows can be deleted from the data too.
	lines := strings.SplitAfter(table, "\n")
	write(t, data, []byte(strings.Join(slices.Delete(lines, 6, 7), "")))
	test := write(t, filepath.Join(dir, "test.csv"), []byte(lines[0]+lines[3]))
	succeed(t, append([]string{"predict", "--posterior", fewer, "--test-data", test}, with...)...)

	for _, test := range []struct{ rows, want string }{{"20", "the list of rows to leave out: train row 20 of"}, {"0-19", "the list of rows to leave out names all 20 training rows"}, {indexOf(t, "1", "1"), "names training row 1 twice"}} {
		require.Contains(t, refuse(t, 1, append([]string{"forget", test.rows, "--posterior", old, "-o", fewer}, with[1:]...)...), test.want)
	}
}

// What cannot be forgotten has one clear error, and no file is written.
func TestForgetRefuses(t *testing.T) {
	rows, nines := trained(t)
	dir := t.TempDir()
	old, fewer := filepath.Join(dir, "old.gp"), filepath.Join(dir, "new.gp")
	say := func(want, rows string) {
		require.Contains(t, refuse(t, 1, "forget", rows, "--posterior", old, "-o", fewer), want)
		require.ErrorIs(t, testref.Err(os.Stat(fewer)), os.ErrNotExist)
	}
	succeed(t, small("fit", append(fewParameters, "--quiet", "--refit", "-o", old)...)...)
	say("fit one by gpexplain fit --method exact or kept", rows[0])
	succeed(t, small("fit", "--quiet", "--refit", "-o", old)...)
	say("is not among the 60 training rows", "100000")
	say("leaves training rows of class 4 alone", strings.Join(nines, ","))
	require.Contains(t, refuse(t, 2, "forget", "--posterior", old, "-o", fewer), "forget needs one argument, ROWS")
	require.Contains(t, refuse(t, 2, "forget", "5-3", "--posterior", old, "-o", fewer), "must list training rows such as 12")
	require.Contains(t, refuse(t, 1, "forget", "a,b", "--posterior", old, "-o", fewer), "a,b: cannot be opened")
	require.Contains(t, refuse(t, 2, "forget", "1"), "--posterior FILE is needed")
}
