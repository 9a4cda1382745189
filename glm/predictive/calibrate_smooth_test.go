package predictive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Eigenvectors of the covariance with the opposite sign, or in another order where eigenvalues
// meet, are another way to write the same Gaussian, with the same points.
func TestClassRowDoesNotDependOnEigenvectors(t *testing.T) {
	rng := testref.Rand(22)
	for _, c := range []int{3, 5, 10} {
		mean, cov := testref.Moments(rng, 1, c, 2, 1)
		row := func(change func(r *softmaxRow)) *classRow {
			r := testref.Must(newSoftmaxRow(0, mean.RawRowView(0), append([]float64(nil), cov.RawMatrix().Data...)))(t)
			change(r)
			return newClassRowOf(r, 1)
		}
		want := row(func(*softmaxRow) {})
		for name, change := range map[string]func(r *softmaxRow){
			"sign": func(r *softmaxRow) {
				for j := range c {
					r.a[j*r.rank+1] *= -1
				}
			},
			"order": func(r *softmaxRow) {
				for j := range c {
					a := r.a[j*r.rank:]
					a[0], a[1] = a[1], a[0]
				}
			},
			"rotation": func(r *softmaxRow) {
				for j := range c {
					a := r.a[j*r.rank:]
					a[0], a[1] = 0.6*a[0]+0.8*a[1], 0.8*a[0]-0.6*a[1]
				}
			},
		} {
			require.InDeltaSlice(t, want.a, row(change).a, 1e-13, "C = %d: %s", c, name)
		}
	}
}
