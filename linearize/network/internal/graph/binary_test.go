package graph

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBinaryRuns compares the loops over runs of results, bit by bit, with those that look up each element.
func TestBinaryRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	// table is that of an operand of the given shape, with dimensions of 1, in a result of another.
	table := func(of, shape []int) []int32 {
		var list []int32
		for i := range Product(shape) {
			at, step, rest := 0, 1, i
			for d := len(shape) - 1; d >= 0; d-- {
				at += rest % shape[d] % of[d] * step
				rest, step = rest/shape[d], step*of[d]
			}
			list = append(list, int32(at))
		}
		return list
	}
	found := map[bool]int{}
	for range 300 {
		var shape []int
		for range 3 {
			shape = append(shape, []int{1, 2, 3, 8, 20}[r.IntN(5)])
		}
		n := Product(shape)
		fn := []BinaryFunc{Add, Sub, Mul, Div, Max, PRelu}[r.IntN(6)]
		p := &Program{}
		var static [][]float64
		var tables [2][]int32
		for side := range tables {
			of := []int{1, 1, 1}
			for d := range of {
				if r.IntN(3) > 0 {
					of[d] = shape[d]
				}
			}
			if tables[side] = table(of, shape); r.IntN(2) == 0 && Product(of) == n {
				tables[side] = nil
			}
			p.Slots = append(p.Slots, Slot{Size: Product(of), NeedsGrad: true})
		}
		p.Slots = append(p.Slots, Slot{Size: n, NeedsGrad: true})
		p.Output = 2
		fast := NewBinary(fn, tables[0], tables[1], n)
		found[fast.run > 0]++
		values, seed := make([][]float64, 2), make([]float64, 2*n)
		for side := range values {
			values[side] = make([]float64, 2*p.Slots[side].Size)
			for i := range values[side] {
				values[side][i] = r.NormFloat64()
			}
		}
		for i := range seed {
			seed[i] = r.NormFloat64() * Step(r.IntN(4) > 0)
		}
		var out, left, right [2][]float64
		for k, o := range []Op{fast, &Binary{Fn: fn, Left: tables[0], Right: tables[1]}} {
			p.Nodes = []Node{{Op: o, In: []int{0, 1}, Out: 2}}
			s := NewState(p, static)
			s.N, s.vals = 2, [][]float64{values[0], values[1], make([]float64, 2*n)}
			s.forwardNodes(0, 1)
			s.Backward(seed, func(int) {})
			out[k], left[k], right[k] = s.vals[2], s.grad(0), s.grad(1)
		}
		what := fmt.Sprint(fn.Name(), shape, p.Slots, fast.run)
		require.Equal(t, out[1], out[0], what)
		require.Equal(t, left[1], left[0], what)
		require.Equal(t, right[1], right[0], what)
	}
	require.Greater(t, min(found[true], found[false]), 50)
}
