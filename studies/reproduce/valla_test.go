package reproduce

import (
	"io"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// A picture turned by 90° is that of numpy's rot90, and four quarters are none; a turn
// of 30° takes the pixel that lies there.
func TestRotate(t *testing.T) {
	x := mat.NewDense(2, side*side, nil)
	for i := range 2 {
		for j := range side * side {
			x.Set(i, j, float64(i+1)*float64(j+1))
		}
	}
	turned := Rotate(x, 90)
	for r := range side {
		for c := range side {
			require.Equal(t, x.At(1, c*side+side-1-r), turned.At(1, r*side+c))
		}
	}
	for range 3 {
		turned = Rotate(turned, 90)
	}
	require.True(t, mat.Equal(x, turned))
	require.True(t, mat.Equal(x, Rotate(x, 0)))
	by := Rotate(x, 30)
	require.Zero(t, by.At(0, 0), "from outside")
	// Against the clock, what is right of the centre goes up: (6, 0) to (6 cos 30°, 6 sin 30°).
	const r, c = 13.5, 13.5
	row, col := int(math.Round(r-3)), int(math.Round(c+6*math.Cos(math.Pi/6)))
	from := by.At(0, row*side+col) - 1
	fromRow, fromCol := math.Floor(from/side), math.Mod(from, side)
	require.InDelta(t, r, fromRow, 1)
	require.InDelta(t, c+6, fromCol, 1)
}

// The study runs at its reduced size, each method gives finite scores, and the page has
// every method.
func TestValla(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; shorter tests run the same code")
	}
	o := Options{Quick: true, Only: []string{"sum", "matched"}}
	path, err := Run(t.Context(), io.Discard, valla, t.TempDir(), &o, Part{})
	require.NoError(t, err)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(page)
	for _, m := range vallaShown {
		require.Contains(t, text, m.long)
	}
	require.Contains(t, text, "LLA Kronecker")
	require.NotContains(t, text, "NaN")
}
