package funcgp

import (
	"context"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

func TestParseClasses(t *testing.T) {
	list := testref.Must(parseClasses(" 9, 4,-1"))(t)
	require.Equal(t, []int{9, 4, -1}, list)
	require.Equal(t, "9,4,-1", formatInts(list))
	for _, text := range []string{"4", "4,4", "a,b", "4,", ",", "4 9", "1e3,2"} {
		require.Error(t, testref.Err(parseClasses(text)), text)
	}
}

// Pictures of one channel are grey, of three in colour, of others the mean in grey.
func TestPixels(t *testing.T) {
	pix := []byte{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170}
	at := func(channels int) color.Color {
		d := &dataset.Data{Shape: []int{channels, 2, 3}}
		p := pixels(d, pix[:6*channels])
		require.Equal(t, 3, p.Image.Bounds().Dx())
		require.Equal(t, 2, p.Image.Bounds().Dy())
		return p.Image.At(1, 1) // the fifth pixel
	}
	require.Equal(t, color.Gray{Y: 40}, at(1))
	require.Equal(t, color.Gray{Y: 70}, at(2))
	require.Equal(t, color.NRGBA{R: 40, G: 100, B: 160, A: 255}, at(3))
}

// Pages turn grey pictures of light ink into dark ink on paper, and nothing else.
func TestGrey(t *testing.T) {
	for name, want := range map[string]bool{"photo": true, "pictures-colour/x_train.npy": false, "two-logits/train.csv": false} {
		d := testref.Must(dataset.Open(t.Context(), filepath.Join("testdata", "corpus", name), nil))(t)
		grey := testref.Must((&examples{Data: d}).Grey(t.Context()))(t)
		require.Equal(t, want, grey, name)
	}
}

// Of several bad entries the same one is named in every run.
func TestBadMetadataIsNamedInOrder(t *testing.T) {
	bad := map[string]string{}
	for _, key := range []string{keyScaling, keyClasses, keyNoise, keyPrecision, keyLikelihood} {
		bad[key] = "x"
		for range 50 {
			require.ErrorContains(t, testref.Err(readMetadata(bad)), "its metadata entry "+key+" is ")
		}
	}
}

func TestMetadataNumbers(t *testing.T) {
	m := testref.Must(readMetadata(map[string]string{keyPrecision: "1e-3", keyNoise: "2"}))(t)
	require.Equal(t, [2]float64{1e-3, 2}, [2]float64{m.Precision, m.Noise})
	m = testref.Must(readMetadata(nil))(t)
	require.Equal(t, [2]float64{}, [2]float64{m.Precision, m.Noise})
	for _, text := range []string{"0", "-1", "NaN", "Inf", "1e300", "one"} {
		_, err := readMetadata(map[string]string{keyNoise: text})
		require.ErrorContains(t, err, "its metadata entry "+keyNoise+" is ", text)
	}
}

func TestPlanOverflow(t *testing.T) {
	err := gp.CheckMemory("x", gp.TrainingExamples, 10, 1000, func(int) int64 { return wholeBytes(math.Inf(1)) })
	require.ErrorContains(t, withLessMemory(err, false), "raise Limits.Memory")
}

// A context that ended says nothing of the rows, and its error has no remedy.
func TestCancelledHasNoRemedy(t *testing.T) {
	err := fmt.Errorf("gp: %w", context.Canceled)
	require.Equal(t, err, explainError(nil, err))
	require.Equal(t, err, modelError("net.onnx", err))
	require.EqualError(t, modelError("net.onnx", option.New("an input is open; give it with {ReadOptions.Bind bind}")), "net.onnx: an input is open; give it with ReadOptions.Bind")
}
