package vector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpAffine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][5]int{{3, 0, 1, 16, 0}, {10, 0, 9, 128, 0}, {11, 1, 9, 32, 5}, {6, 2, 16, 48, 3}} {
		rows, extra, rank, n, more := size[0], size[1], size[2], size[3], size[4]
		ld, ldz := n+more, n+2*more
		a, z := make([]float64, rows*(rank+1)), make([]float64, rank*ldz)
		for i := range a {
			a[i] = 20 * r.NormFloat64()
		}
		for i := range z {
			z[i] = min(max(r.NormFloat64(), -2), 2)
		}
		l, e, inverse := make([]float64, rows*ld), make([]float64, rows*ld), make([]float64, n)
		ExpAffine(l, e, inverse, a, z, rows, extra, rank, ld, ldz, n)
		for k := range n {
			total := 0.0
			for i := range rows {
				want := a[i*(rank+1)]
				for q := range rank {
					want += a[i*(rank+1)+q+1] * z[q*ldz+k]
				}
				require.InDelta(t, want, l[i*ld+k], 1e-11)
				require.InEpsilon(t, math.Exp(l[i*ld+k]), e[i*ld+k], 4e-14)
				if i < rows-extra {
					total += e[i*ld+k]
				}
			}
			require.InEpsilon(t, 1/total, inverse[k], 1e-14)
		}
		for i := range rows - 1 { // what lies between rows stays
			for k := n; k < ld; k++ {
				require.Zero(t, l[i*ld+k])
				require.Zero(t, e[i*ld+k])
			}
		}
	}
	require.Panics(t, func() { ExpAffine(nil, nil, nil, nil, nil, 1, 0, 1, 8, 8, 8) })
	require.Panics(t, func() { ExpAffine(make([]float64, 16), nil, nil, nil, nil, 1, 0, 1, 16, 16, 16) })
}

// The largest and the smallest logits that are allowed keep their digits.
func TestExpAffineOfFarLogits(t *testing.T) {
	l, e, inverse, z := make([]float64, 16), make([]float64, 16), make([]float64, 16), make([]float64, 16)
	for k := range z {
		z[k] = -700 + 1400*float64(k)/15
	}
	ExpAffine(l, e, inverse, []float64{0, 1}, z, 1, 0, 1, 16, 16, 16)
	for k, v := range z {
		require.Equal(t, v, l[k])
		require.InEpsilon(t, math.Exp(v), e[k], 4e-14)
	}
}

func TestDeviations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 16, 112, 256} {
		x, y, want := make([]float64, n), make([]float64, n), make([]float64, n)
		var sum, square float64
		for i := range x {
			x[i], y[i] = r.Float64(), r.Float64()
			want[i] = x[i]*y[i] - 0.3
			sum += want[i]
			square += want[i] * want[i]
		}
		gotSum, gotSquare := Deviations(x, y, 0.3)
		require.InDeltaSlice(t, append(want, sum, square), append(x, gotSum, gotSquare), 1e-13)
	}
	require.Panics(t, func() { Deviations(make([]float64, 8), make([]float64, 8), 0) })
}
