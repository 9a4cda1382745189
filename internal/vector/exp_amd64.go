//go:build gc && !noasm

package vector

// exp is Exp for n elements, a multiple of width.
func exp(dst, x *float64, n int) {
	if widest {
		expAVX512(dst, x, n)
		return
	}
	expAVX2(dst, x, n)
}

//go:noescape
func expAVX512(dst, x *float64, n int)

//go:noescape
func expAVX2(dst, x *float64, n int)
