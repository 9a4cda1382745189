//go:build (!amd64 && !arm64) || !gc || noasm

package dense

// isas returns the instruction sets that this machine has kernels for.
func isas() []isa { return []isa{portable} }

// full updates a whole tile of C.
func (s isa) full(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	gemm4x4(k, a, ars, acs, b, brs, c, ldc, alpha, beta)
}

// edge updates the first rows × cols elements of a tile of C.
func (s isa) edge(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64, rows, cols int) {
	s.patch(k, a, ars, acs, b, brs, c, ldc, alpha, beta, span{rows: rows, cols: cols})
}

// solve replaces the tile x by T⁻¹x.
func (s isa) solve(t, x []float64, ldx int) { trsm4x4(t, x, ldx) }

// interleave does nothing, and returns false.
func (s isa) interleave(_ []float64, _, _ int, _, _, _, _ []float64) bool { return false }

// mul and dots are never called, because Shifts is not usable without kernels.
func (p *positions) mul(_ int, _, _ []float64, _ []int, _ *[shiftVectors]int, _ []float64, _ int, _ *[shiftVectors]int, _ *[shiftRows]float64, _ int) {
	panic("dense: shifts need a kernel")
}

func (p *positions) dots(_ []float64, _ *[dotRows]int, _ []float64, _ *[dotTaps]int, _ *[dotRows * dotTaps]float64) {
	panic("dense: shifts need a kernel")
}
