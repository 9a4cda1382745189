package dataset

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// quartileNumbers bounds the numbers that Quartiles holds at a time.
const quartileNumbers = 1 << 25

// Quartiles returns the minimum, lower quartile, median, upper quartile and maximum of each feature over these rows
// and others together, with linear interpolation between ranks as in NumPy's percentile. The error is one of
// Rows.Read.
func (s *Rows) Quartiles(ctx context.Context, others ...*Rows) (q [5][]float64, err error) {
	d, n := s.Dim(), s.lenWith(others)
	for k := range q {
		q[k] = make([]float64, d)
	}
	block := max(1, quartileNumbers/max(1, n))
	for first := 0; first < d; first += block {
		columns := make([][]float64, min(block, d-first))
		for j := range columns {
			columns[j] = make([]float64, 0, n)
		}
		if err := s.each(ctx, others, func(x *mat.Dense) {
			for i := range x.RawMatrix().Rows {
				for j := range columns {
					columns[j] = append(columns[j], x.At(i, first+j))
				}
			}
		}); err != nil {
			return q, err
		}
		for j, v := range columns {
			slices.Sort(v)
			for k := range q {
				at := float64(k) / 4 * float64(n-1)
				i := int(at)
				q[k][first+j] = v[i]
				if i+1 < n {
					q[k][first+j] += (at - float64(i)) * (v[i+1] - v[i])
				}
			}
		}
	}
	return q, nil
}
