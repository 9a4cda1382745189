//go:build gc && !noasm

package dense

import "golang.org/x/sys/cpu"

// isas returns the instruction sets that this machine has kernels for, the fastest first.
func isas() []isa {
	var s []isa
	if cpu.X86.HasAVX512F {
		s = append(s, avx512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		s = append(s, avx2)
	}
	return append(s, portable)
}

//go:noescape
func gemm8x24(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)

//go:noescape
func gemm8x8(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64, rows, mask int)

//go:noescape
func gemm4x12(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)

//go:noescape
func trsm8x24(t, x *float64, ldx int)

//go:noescape
func trsm4x12(t, x *float64, ldx int)

//go:noescape
func interleave4x4(dst *float64, step int, a, b, c, d *float64, n int)

// full updates a whole tile of C.
func (s isa) full(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	switch s {
	case avx512:
		gemm8x24(k, &a[0], ars, acs, &b[0], brs, &c[0], ldc, alpha, beta)
	case avx2:
		gemm4x12(k, &a[0], ars, acs, &b[0], brs, &c[0], ldc, alpha, beta)
	default:
		gemm4x4(k, a, ars, acs, b, brs, c, ldc, alpha, beta)
	}
}

// edge updates the first rows × cols elements of a tile of C.
func (s isa) edge(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64, rows, cols int) {
	if s != avx512 {
		s.patch(k, a, ars, acs, b, brs, c, ldc, alpha, beta, span{rows: rows, cols: cols})
		return
	}
	for j := 0; j < cols; j += 8 {
		mask := 1<<min(8, cols-j) - 1
		gemm8x8(k, &a[0], ars, acs, &b[j], brs, &c[j], ldc, alpha, beta, rows, mask)
	}
}

// solve replaces the tile x by T⁻¹x.
func (s isa) solve(t, x []float64, ldx int) {
	switch s {
	case avx512:
		trsm8x24(&t[0], &x[0], ldx)
	case avx2:
		trsm4x12(&t[0], &x[0], ldx)
	default:
		trsm4x4(t, x, ldx)
	}
}

// interleave is interleave4 for slices whose length is a multiple of 4. It tells whether it did the work.
func (s isa) interleave(dst []float64, at, step int, a, b, c, d []float64) bool {
	n := len(a)
	if s == portable || n == 0 {
		return false
	}
	last := at + (n-1)*step
	_, _ = dst[at:at+4], dst[last:last+4]
	interleave4x4(&dst[at], step, &a[0], &b[:n][0], &c[:n][0], &d[:n][0], n)
	return true
}
