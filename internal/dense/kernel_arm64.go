//go:build gc && !noasm

package dense

// isas returns the instruction sets that this machine has kernels for, the fastest first. Every arm64 has NEON.
func isas() []isa { return []isa{neon, portable} }

//go:noescape
func gemm4x12(k int, a *float64, ars, acs int, b *float64, brs int, c *float64, ldc int, alpha, beta float64)

//go:noescape
func trsm4x12(t, x *float64, ldx int)

//go:noescape
func interleave4x4(dst *float64, step int, a, b, c, d *float64, n int)

//go:noescape
func shiftMul(k int, a, src *float64, offset *int, from *[shiftVectors]int, c *float64, ldc int, to *[shiftVectors]int, bias *[shiftRows]float64, rows int)

//go:noescape
func shiftDots(n int, left *float64, rows *[dotRows]int, src *float64, from *int, taps *[dotTaps]int, tile *[dotRows * dotTaps]float64)

// full updates a whole tile of C.
func (s isa) full(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64) {
	if s == neon {
		gemm4x12(k, &a[0], ars, acs, &b[0], brs, &c[0], ldc, alpha, beta)
		return
	}
	gemm4x4(k, a, ars, acs, b, brs, c, ldc, alpha, beta)
}

// edge updates the first rows × cols elements of a tile of C.
func (s isa) edge(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64, rows, cols int) {
	s.patch(k, a, ars, acs, b, brs, c, ldc, alpha, beta, span{rows: rows, cols: cols})
}

// solve replaces the tile x by T⁻¹x.
func (s isa) solve(t, x []float64, ldx int) {
	if s == neon {
		trsm4x12(&t[0], &x[0], ldx)
		return
	}
	trsm4x4(t, x, ldx)
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

// mul computes a tile of Mul.
func (p *positions) mul(k int, a, src []float64, offset []int, from *[shiftVectors]int, c []float64, ldc int, to *[shiftVectors]int, bias *[shiftRows]float64, rows int) {
	shiftMul(k, &a[0], &src[0], &offset[0], from, &c[0], ldc, to, bias, rows)
}

// dots computes a tile of MulTrans.
func (p *positions) dots(g []float64, rows *[dotRows]int, src []float64, taps *[dotTaps]int, tile *[dotRows * dotTaps]float64) {
	shiftDots(len(p.from), &g[0], rows, &src[0], &p.from[0], taps, tile)
}
