package vector

import (
	"math"
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
		const n, ld = 7, 9
		at := make([]int, c*ld)
		for i := range at {
			at[i] = r.IntN(len(cdf) - LargestNodes + 1)
		}
		sums, squares := make([]float64, c*LargestLanes), make([]float64, c*LargestLanes)
		sums[0], squares[c*LargestLanes-1] = 1, 2
		AddLargest(sums, squares, cdf, first, second, nil, c, ld, 0)
		AddLargest(sums, squares, cdf, first, second, at, c, ld, n)
		for j := range c {
			want, want2 := 0.0, 0.0
			for k := range n {
				for i := range LargestNodes {
					p := 1.0
					for l := range c {
						p *= cdf[at[l*ld+k]+i]
					}
					want += p * first[at[j*ld+k]+i]
					want2 += p * second[at[j*ld+k]+i]
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
	for _, a := range []int{-1, len(cdf) - LargestNodes + 1} {
		require.Panics(t, func() {
			AddLargest(make([]float64, 8), make([]float64, 8), cdf, first, second, []int{a}, 1, 1, 1)
		})
	}
}

// Places are those by definition, but for what rounding moves from one to the next.
func TestLargestPlaces(t *testing.T) {
	const columns, last, scale, ld = 50, 40*LargestPhases + 7, 21.7, 45
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []int{1, 3, 10} {
		for _, n := range []int{1, 8, 11, 45} {
			l, at := make([]float64, c*ld), make([]int, c*ld)
			for i := range l {
				l[i] = 40 * r.NormFloat64()
				at[i] = -1
			}
			LargestPlaces(at, l, scale, last, columns, c, ld, n)
			for k := range ld {
				top := math.Inf(-1)
				for i := range c {
					top = max(top, l[i*ld+k])
				}
				for i := range c {
					if k >= n {
						require.Equal(t, -1, at[i*ld+k])
						continue
					}
					u := at[i*ld+k]/columns + at[i*ld+k]%columns*LargestPhases
					require.InDelta(t, min((top-l[i*ld+k])*scale, last), u, .5+1e-9)
				}
			}
		}
	}
}
