//go:build gc && !noasm

package elementary

import "golang.org/x/sys/cpu"

var (
	fast   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	widest = fast && cpu.X86.HasAVX512F
)

// tanh is Tanh of n elements, a multiple of width.
func tanh(dst, x *float64, n int) {
	if widest {
		tanhAVX512(dst, x, n)
		return
	}
	tanhAVX2(dst, x, n)
}

//go:noescape
func tanhAVX512(dst, x *float64, n int)

//go:noescape
func tanhAVX2(dst, x *float64, n int)
