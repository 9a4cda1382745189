package onnx

import "math"

// format is an IEEE 754 binary floating-point format with a sign bit, exp
// exponent bits and man mantissa bits.
type format struct{ exp, man int }

var (
	binary16 = format{exp: 5, man: 10}
	bfloat16 = format{exp: 8, man: 7}
)

func (f format) bias() int { return 1<<(f.exp-1) - 1 }

// widen returns the number that the bits stand for, exactly. Every NaN becomes
// math.NaN().
func (f format) widen(bits uint16) float64 {
	e := int(bits>>f.man) & (1<<f.exp - 1)
	m := int(bits) & (1<<f.man - 1)
	var v float64
	switch {
	case e == 1<<f.exp-1 && m != 0:
		return math.NaN()
	case e == 1<<f.exp-1:
		v = math.Inf(1)
	case e == 0:
		// m·2^(1−bias−man)
		v = math.Ldexp(float64(m), 1-f.bias()-f.man)
	default:
		// (2^man + m)·2^(e−bias−man)
		v = math.Ldexp(float64(1<<f.man+m), e-f.bias()-f.man)
	}
	if bits>>(f.exp+f.man) != 0 {
		v = -v
	}
	return v
}

// narrow returns the bits of the number nearest to v, with ties to even. A v
// beyond the largest finite number becomes an infinity.
func (f format) narrow(v float64) uint16 {
	infinity := (1<<f.exp - 1) << f.man
	bits := infinity
	switch {
	case math.IsNaN(v):
		return uint16(infinity | 1<<(f.man-1))
	case !math.IsInf(v, 0) && v != 0:
		_, e := math.Frexp(v)
		e = max(e-1, 1-f.bias())
		// |v| = q·2^(e−man) with q < 2^(man+1); q below 2^man is subnormal, and
		// a carry out of the mantissa steps the exponent as it should.
		q := int(math.RoundToEven(math.Ldexp(math.Abs(v), f.man-e)))
		bits = min((e+f.bias()-1)<<f.man+q, infinity)
	case v == 0:
		bits = 0
	}
	if math.Signbit(v) {
		bits |= 1 << (f.exp + f.man)
	}
	return uint16(bits)
}
