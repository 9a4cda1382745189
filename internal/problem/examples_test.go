package problem

import (
	"image/color"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/testref"
)

// Pictures of one channel are grey, of three in colour, of others the mean in grey.
func TestPixels(t *testing.T) {
	pix := []byte{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170}
	at := func(channels int) color.Color {
		d := &dataset.Data{Shape: []int{channels, 2, 3}}
		p := Pixels(d, pix[:6*channels])
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
		d := testref.Must(dataset.Open(t.Context(), filepath.Join("..", "..", "testdata", "corpus", name), nil))(t)
		grey := testref.Must((&Examples{Data: d}).Grey(t.Context()))(t)
		require.Equal(t, want, grey, name)
	}
}
