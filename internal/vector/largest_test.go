package vector

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sums of products of table values are those by definition.
func TestAddLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	table := func() []float64 {
		v := make([]float64, 300)
		for i := range v {
			v[i] = r.Float64()
		}
		return v
	}
	cdf, first, second := table(), table(), table()
	for _, c := range []int{1, 3, 10} {
		at := make([]int, 7*c)
		for i := range at {
			at[i] = r.IntN(len(cdf) - LargestNodes + 1)
		}
		sums, squares := make([]float64, c*LargestLanes), make([]float64, c*LargestLanes)
		sums[0], squares[c*LargestLanes-1] = 1, 2
		AddLargest(sums, squares, cdf, first, second, nil, c)
		AddLargest(sums, squares, cdf, first, second, at, c)
		for j := range c {
			want, want2 := 0.0, 0.0
			for lo := 0; lo < len(at); lo += c {
				for i := range LargestNodes {
					p := 1.0
					for _, a := range at[lo : lo+c] {
						p *= cdf[a+i]
					}
					want += p * first[at[lo+j]+i]
					want2 += p * second[at[lo+j]+i]
				}
			}
			if j == 0 {
				want++
			}
			if j == c-1 {
				want2 += 2
			}
			require.InEpsilon(t, want, Sum(sums[j*LargestLanes:(j+1)*LargestLanes]), 1e-13)
			require.InEpsilon(t, want2, Sum(squares[j*LargestLanes:(j+1)*LargestLanes]), 1e-13)
		}
	}
	require.Panics(t, func() {
		AddLargest(make([]float64, 8), make([]float64, 8), cdf, first, second, []int{len(cdf) - LargestNodes + 1}, 1)
	})
}
