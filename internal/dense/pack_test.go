package dense

import "testing"

// Four columns are interleaved in either direction, and nothing else is written.
func TestInterleave(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for seed := range uint64(200) {
			rnd := source(seed)
			n, step := rnd.IntN(20), 4+rnd.IntN(9)
			first := rnd.IntN(3)
			at := first
			if rnd.IntN(2) == 0 && n > 0 {
				at, step = first+(n-1)*step, -step
			}
			from := general(rnd, 4, n, 0)
			row := func(i int) []float64 { return from.Data[i*n : (i+1)*n] }
			if n == 0 {
				row = func(int) []float64 { return nil }
			}
			got := general(rnd, 1, first+n*max(step, -step)+4, 0).Data
			want := append([]float64(nil), got...)
			for q := range n {
				for i := range 4 {
					want[at+q*step+i] = row(i)[q]
				}
			}
			interleave4(got, at, step, row(0), row(1), row(2), row(3))
			sameBits(t, "interleaved", want, got)
		}
	})
}
