package reproduce

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/glm"
)

// The studies of the toys write their pages with tables and plots.
func TestToysQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; shorter tests run the same code")
	}
	for _, s := range []struct {
		study *Study
		files []string
	}{
		{snelson, []string{"peaks.csv", "grid.csv", "predictives.csv", "maps.png", "profiles.png", "predictives.png"}},
		{moonsStudy, []string{"peaks.csv", "precisions.csv", "predictives.csv", "precisions.png", "probability.png", "deviation.png"}},
	} {
		t.Run(s.study.Name, func(t *testing.T) {
			dir := t.TempDir()
			page, err := Run(t.Context(), io.Discard, s.study, dir, &Options{Quick: true}, Part{})
			require.NoError(t, err)
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			require.Contains(t, string(text), "VOGGN")
			for _, name := range s.files {
				info, err := os.Stat(filepath.Join(dir, s.study.Name+"-"+name))
				require.NoError(t, err)
				require.Positive(t, info.Size())
			}
		})
	}
}

// The points are those that the source's figures show.
func TestSnelsonData(t *testing.T) {
	d := snelsonData()
	require.Equal(t, 150, rowsOf(d.x))
	require.Equal(t, 150, rowsOf(d.y))
	require.Equal(t, 1000, rowsOf(d.xTest))
	gap := 0
	for i := range 150 {
		x := d.x.At(i, 0)
		require.True(t, x > 0.05 && x < 6)
		require.False(t, x > 1.5 && x < 2.4)
	}
	for i := range 1000 {
		if x := d.xTest.At(i, 0); x > 1.5 && x < 2.4 {
			gap++
		}
	}
	require.InDelta(t, 150, gap, 40) // held-out points lie everywhere
}

// Each half circle has its center, its radius and its noise.
func TestMoonsData(t *testing.T) {
	d := moonsData()
	require.Equal(t, 150, rowsOf(d.x))
	require.Equal(t, 75.0, mat.Sum(d.y))
	require.Equal(t, 500.0, mat.Sum(d.yTest))
	var radius [2][]float64
	for i := range 1000 {
		x, y, k := d.xTest.At(i, 0), d.xTest.At(i, 1), int(d.yTest.At(i, 0))
		if k == 1 {
			x, y = 1-x, 0.5-y
		}
		radius[k] = append(radius[k], math.Hypot(x, y))
	}
	for k := range radius {
		require.InDelta(t, 1.05, stat.Mean(radius[k], nil), 0.05) // E|1 + noise| in the plane
		require.InDelta(t, 0.3, stat.StdDev(radius[k], nil), 0.04)
	}
	again := moonsData()
	require.Equal(t, d.x, again.x)
}

// The scores of a point of the grid are those of its parts: at a network without
// training, evidence and held-out density follow from the kernel by hand.
func TestToyScore(t *testing.T) {
	d := snelsonData().quick()
	d.adam, d.lbfgs = 1, -1
	lik, err := glm.NewGaussian(0.5)
	require.NoError(t, err)
	m, err := d.fit(t.Context(), lik, 2, 1, func(int, int) {})
	require.NoError(t, err)
	s, err := m.score(t.Context())
	require.NoError(t, err)
	var j, k mat.Dense
	m.train.JacobianTo(&j)
	k.Mul(&j, j.T())
	b := mat.NewSymDense(150, nil)
	for i := range 150 {
		for l := i; l < 150; l++ {
			b.SetSym(i, l, k.At(i, l)/2/0.5)
		}
		b.SetSym(i, i, b.At(i, i)+1)
	}
	var chol mat.Cholesky
	require.True(t, chol.Factorize(b))
	want := -0.5 * chol.LogDet()
	for _, v := range m.net.Theta() {
		want -= 0.5 * 2 * v * v
	}
	for i := range 150 {
		r := m.y.At(i, 0) - m.train.F.At(i, 0)
		want -= 0.5*r*r/0.5 + 0.5*math.Log(2*math.Pi*0.5)
	}
	require.InEpsilon(t, want/150, float64(s.Evidence), 1e-10)
	require.Greater(t, float64(s.Refit), float64(s.Evidence)) // the mode is better than a network without training
}

// The range of good values is contiguous around the best one.
func TestGoodRange(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	lo, best, hi := goodRange(x, []float64{-0.5, -1, -0.51, -0.5, -0.515, -1})
	require.Equal(t, []float64{1, 1, 1}, []float64{lo, best, hi})
	lo, best, hi = goodRange(x, []float64{-0.6, -1, -0.51, -0.5, -0.515, -1})
	require.Equal(t, []float64{3, 4, 5}, []float64{lo, best, hi})
}
