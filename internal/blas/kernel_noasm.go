//go:build !amd64 || !gc || noasm

package blas

// isas lists the kernels this machine can run.
func isas() []isa { return []isa{portable} }

// full updates one whole tile of C.
func (s isa) full(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	gemm4x4(k, a, ars, acs, b, brs, c, ldc, alpha, beta)
}

// edge updates the first rows × cols elements of a tile of C.
func (s isa) edge(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64, rows, cols int) {
	s.patch(k, a, ars, acs, b, brs, c, ldc, alpha, beta, span{rows: rows, cols: cols})
}

// solve replaces the tile x by T⁻¹x.
func (s isa) solve(t, x []float64, ldx int) { trsm4x4(t, x, ldx) }
