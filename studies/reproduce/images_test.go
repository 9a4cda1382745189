package reproduce

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
)

func TestImagesQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; shorter tests run the same code")
	}
	page, dir := quick(t, images, "mlp", "cnn")
	for _, want := range []string{"MLP", "CNN", "GLM refined", "ours", "AUROC, letters", "<svg"} {
		require.Contains(t, page, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "images-cnn.csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "method,accuracy,accuracy standard error,NLL")
	for _, name := range []string{"images-mlp-turned.png", "images-cnn-precision.svg", "images-mlp-ordering.csv", "images-cnn-entropy.csv"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
}

// A method is scored at the precision of its own validation NLL on each seed.
func TestImagesChoice(t *testing.T) {
	result := func(valid, test float64) imagesResult {
		s := imagesScores{Valid: ClassScores{NLL: result.Float(valid)}, Test: ClassScores{NLL: result.Float(test)}}
		other := s
		other.Valid.NLL = -s.Valid.NLL
		return imagesResult{Precision: 1, Methods: map[string]imagesScores{"map": s, "bnn": s, "glm": s, ours: other}}
	}
	table := &imagesTable{kind: "mlp", results: [][]imagesResult{{result(2, 5), result(1, 4)}, {result(1, 3), result(2, 7)}}}
	rows := imagesRows()
	require.Equal(t, []float64{4, 3}, table.scores(rows[0], imagesColumns[1]))
	require.Equal(t, []float64{5, 7}, table.scores(rows[len(rows)-1], imagesColumns[1]))
	order := table.ordering()
	require.Equal(t, "NLL", order.Rows[1][0].text)
	require.Zero(t, order.Rows[1][1].Value())
}

// Bins of the entropy have all values, the largest too.
func TestEntropyShares(t *testing.T) {
	got := shares([]float64{0, 1, 2, 4}, 4)
	require.Len(t, got, entropyBins)
	for bin, want := range map[int]float64{0: 0.25, entropyBins / 4: 0.25, entropyBins / 2: 0.25, entropyBins - 1: 0.25} {
		require.EqualValues(t, want, got[bin])
	}
}

// Rows are cut and joined in order.
func TestRows(t *testing.T) {
	r := Rows{mat.NewDense(4, 2, []float64{1, 2, 3, 4, 5, 6, 7, 8}), mat.NewDense(4, 1, []float64{1, 2, 3, 4})}
	both := r.slice(2, 4).then(r.slice(0, 1))
	require.Equal(t, []float64{5, 6, 7, 8, 1, 2}, both.X.RawMatrix().Data)
	require.Equal(t, []float64{3, 4, 1}, both.Y.RawMatrix().Data)
	var some mat.Dense
	rowsTo(&some, r.X, []int{3, 1})
	require.Equal(t, []float64{7, 8, 3, 4}, some.RawMatrix().Data)
	require.Equal(t, []int{0, 1, 2}, sampleRows(3, 5, 1))
	require.Len(t, sampleRows(100, 7, 1), 7)
}

func TestDampedQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; shorter tests run the same code")
	}
	_, dir := quick(t, damped, "mlp")
	text, err := os.ReadFile(filepath.Join(dir, "damped-mlp.csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "BNN damped")
	require.Contains(t, string(text), "GP of a subset")
}
