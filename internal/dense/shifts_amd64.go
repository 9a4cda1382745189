//go:build gc && !noasm

package dense

//go:noescape
func shiftMulAVX512(k int, a, src *float64, offset *int, from *[shiftVectors]int, c *float64, ldc int, to *[shiftVectors]int, bias *[shiftRows]float64, rows int)

//go:noescape
func shiftMulAVX2(k int, a, src *float64, offset *int, from *[shiftVectors]int, c *float64, ldc int, to *[shiftVectors]int, bias *[shiftRows]float64, rows int)

//go:noescape
func shiftDotsAVX512(n int, left *float64, rows *[dotRows]int, src *float64, from *int, taps *[dotTaps]int, tile *[dotRows * dotTaps]float64)

//go:noescape
func shiftDotsAVX2(n int, left *float64, rows *[dotRows]int, src *float64, from *int, taps *[dotTaps]int, tile *[dotRows * dotTaps]float64)

// mul computes a tile of Mul.
func (p *positions) mul(k int, a, src []float64, offset []int, from *[shiftVectors]int, c []float64, ldc int, to *[shiftVectors]int, bias *[shiftRows]float64, rows int) {
	if p.lanes == 8 {
		shiftMulAVX512(k, &a[0], &src[0], &offset[0], from, &c[0], ldc, to, bias, rows)
		return
	}
	shiftMulAVX2(k, &a[0], &src[0], &offset[0], from, &c[0], ldc, to, bias, rows)
}

// dots computes a tile of MulTrans.
func (p *positions) dots(g []float64, rows *[dotRows]int, src []float64, taps *[dotTaps]int, tile *[dotRows * dotTaps]float64) {
	if p.lanes == 8 {
		shiftDotsAVX512(len(p.from), &g[0], rows, &src[0], &p.from[0], taps, tile)
		return
	}
	shiftDotsAVX2(len(p.from), &g[0], rows, &src[0], &p.from[0], taps, tile)
}
