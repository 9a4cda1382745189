package reproduce

import (
	"context"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/dataset"
)

// side is the width and height of a picture of MNIST.
const side = 28

// Rotate returns the pictures of x, a row of 28×28 pixels each, turned by degrees
// against the clock about their centre. Each pixel takes the nearest one, and those that
// come from outside are zero, as torchvision's rotate does it by default.
func Rotate(x *mat.Dense, degrees float64) *mat.Dense {
	rows, _ := x.Dims()
	out := mat.NewDense(rows, side*side, nil)
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	const centre = float64(side-1) / 2
	for r := range side {
		for c := range side {
			dx, dy := float64(c)-centre, float64(r)-centre // y downwards
			from, row := nearest(cos*dx-sin*dy+centre), nearest(sin*dx+cos*dy+centre)
			if from < 0 || from >= side || row < 0 || row >= side {
				continue
			}
			for i := range rows {
				out.Set(i, r*side+c, x.At(i, row*side+from))
			}
		}
	}
	return out
}

// nearest is the nearest whole number, with numbers that rounding errors have put on
// either side of a half rounded alike.
func nearest(v float64) int { return int(math.RoundToEven(math.Round(v*1e9) / 1e9)) }

// openLetters returns the first test pictures of Kuzushiji-MNIST.
func openLetters(ctx context.Context, dir string, n int) (*mat.Dense, error) {
	d, err := dataset.Open(ctx, filepath.Join(dir, "kmnist"), nil)
	if err != nil {
		return nil, err
	}
	rows, err := d.Test.Select(nil, n)
	if err != nil {
		return nil, err
	}
	return rows.Matrix(), nil
}

// entropies are those of rows of class probabilities, in nats.
func entropies(prob *mat.Dense) []float64 {
	e := make([]float64, prob.RawMatrix().Rows)
	score.EntropyTo(e, prob)
	return e
}

// entropyBins is the number of bins of a histogram of entropies.
const entropyBins = 20

// shares are those of the values in bins of equal width from 0 to most.
func shares(values []float64, most float64) []result.Float {
	out := make([]result.Float, entropyBins)
	for _, v := range values {
		out[min(max(int(v/most*entropyBins), 0), entropyBins-1)] += result.Float(1 / float64(len(values)))
	}
	return out
}
