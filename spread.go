package funcgp

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/internal/par"
)

// Spread are the standard deviations of the features over the training rows, in the
// units of the data; nil for images.
func (p *problem) Spread(ctx context.Context) ([]float64, error) {
	if p.Examples.Data.Images() {
		return nil, nil
	}
	train := p.Examples.Train
	n, d := train.Len(), len(p.Examples.Data.Columns)
	mean, square := make([]float64, d), make([]float64, d)
	seen := 0.0
	for t := range par.Tiles(n, predictRows) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := par.Bounds(t, n, predictRows)
		x, err := train.Slice(lo, hi).Read(ctx)
		if err != nil {
			return nil, err
		}
		for i := range hi - lo {
			seen++
			for j, v := range x.RawRowView(i) {
				// Welford's running mean and sum of squares
				delta := v - mean[j]
				mean[j] += delta / seen
				square[j] += delta * (v - mean[j])
			}
		}
	}
	for j := range square {
		square[j] = math.Sqrt(square[j] / seen)
	}
	return square, nil
}
