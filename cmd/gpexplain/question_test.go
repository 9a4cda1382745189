package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
)

// own asks for a file of the user's.
func own(t *testing.T, path string, args ...string) result.Report {
	t.Helper()
	return decode[result.Report](t, succeed(t, small("explain", append([]string{"--json", "--input", path}, args...)...)...))
}

// A test digit, saved as a file, gets the explanation of its row, whichever
// way it is drawn.
func TestOwnInput(t *testing.T) {
	dir := t.TempDir()
	pix := dataset.Digits(0, 0, 100).Test.Image(24)
	light, dark := image.NewGray(image.Rect(0, 0, 28, 28)), image.NewGray(image.Rect(0, 0, 28, 28))
	var row strings.Builder
	for i, p := range pix {
		light.SetGray(i%28, i/28, color.Gray{Y: p})
		dark.SetGray(i%28, i/28, color.Gray{Y: 255 - p})
		row.WriteString(strconv.Itoa(int(p)))
		row.WriteByte(",\n"[i/783])
	}
	encode := func(name string, m image.Image) string {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		return write(t, filepath.Join(dir, name), b.Bytes())
	}
	paper := encode("paper.png", dark)
	want := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "24")...))
	for name, got := range map[string]result.Report{
		"light on dark": own(t, encode("black.png", light)),
		"inverted":      own(t, paper, "--invert"),
		"csv":           own(t, write(t, filepath.Join(dir, "row.csv"), []byte(row.String()))),
	} {
		require.Equal(t, want.Outputs, got.Outputs, name)
		require.Equal(t, "file", got.Input.Split, name)
		require.EqualValues(t, -1, got.Input.Index, name)
		require.False(t, got.Input.Label.Finite(), name)
		require.Equal(t, fmt.Sprint(want.Fit.Warnings), fmt.Sprint(got.Fit.Warnings), name)
	}
	// Dark ink on paper is noticed and said, here and in the JSON, unless forbidden.
	got := own(t, paper, "--quiet")
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, fmt.Sprint(want.Fit.Warnings), fmt.Sprint(got.Fit.Warnings))
	note := paper + ": inverted, since its border has grey level 255, that of the training pictures 0"
	require.Equal(t, []string{note}, got.Input.Notes)
	require.Equal(t, note+"\n", gpexplain(t.Context(), small("explain", "--json", "--input", paper)...).stderr)
	got = own(t, paper, "--invert=no", "--quiet")
	require.NotEqual(t, want.Outputs, got.Outputs)
	require.Contains(t, got.Input.Notes[0], "not inverted, as asked, though its border has grey level 255")
	require.Contains(t, succeed(t, small("explain", "--quiet", "--json", "--input", paper)...), `"input":{"split":"file","index":null,"label":null,"file":"`)
}

// Features of a file of the user's are scaled like the training rows, and
// found by the names of its header.
func TestOwnFeatures(t *testing.T) {
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "data.csv"), []byte("a,b,y\n1,10,0\n2,30,1\n3,20,0\n4,60,1\n5,50,1\n6,40,0\n"))
	model := filepath.Join(dir, "net.onnx")
	succeed(t, "train", "--data", data, "--arch", "mlp:3-1", "--activation", "tanh", "--epochs", "0", "--lbfgs", "20", "--out", model)
	explained := func(args ...string) result.Report {
		return decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--model", model, "--data", data}, args...)...))
	}
	want := explained("--test-data", data, "--index", "3")
	plain := write(t, filepath.Join(dir, "own.csv"), []byte("4,60\n"))
	named := write(t, filepath.Join(dir, "named.csv"), []byte("b,more,a\n60,7,4\n"))
	require.Equal(t, want.Outputs, explained("--input", plain).Outputs)
	require.Equal(t, want.Outputs, explained("--input", named).Outputs)
}
