package onnx

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values from IEEE 754-2008 binary16 and from bfloat16 as a cut float32.
func TestHalfKnownValues(t *testing.T) {
	for _, c := range []struct {
		f    format
		bits uint16
		v    float64
	}{
		{binary16, 0x3c00, 1},
		{binary16, 0xc000, -2},
		{binary16, 0x7bff, 65504},
		{binary16, 0x0400, 0x1p-14}, // smallest normal
		{binary16, 0x03ff, 0x1p-14 - 0x1p-24},
		{binary16, 0x0001, 0x1p-24}, // smallest subnormal
		{binary16, 0x3555, 0.333251953125},
		{binary16, 0x7c00, math.Inf(1)},
		{binary16, 0xfc00, math.Inf(-1)},
		{binary16, 0x0000, 0},
		{bfloat16, 0x3f80, 1},
		{bfloat16, 0x4049, 3.140625},
		{bfloat16, 0x7f7f, 0x1.fep127},
		{bfloat16, 0x0001, 0x1p-133},
		{bfloat16, 0xff80, math.Inf(-1)},
	} {
		require.Equal(t, c.v, c.f.widen(c.bits), "%#x", c.bits)
		require.Equal(t, c.bits, c.f.narrow(c.v), "%g", c.v)
	}
}

// Every bit pattern survives widening and narrowing; the NaNs become one.
func TestHalfRoundTrip(t *testing.T) {
	for _, f := range []format{binary16, bfloat16} {
		for i := range 1 << 16 {
			bits := uint16(i)
			v := f.widen(bits)
			if math.IsNaN(v) {
				require.True(t, math.IsNaN(f.widen(f.narrow(v))))
				continue
			}
			require.Equal(t, bits, f.narrow(v), "%#x is %g", bits, v)
		}
	}
}

// bfloat16 is the upper half of a float32.
func TestBFloat16IsHalfAFloat32(t *testing.T) {
	for i := range 1 << 16 {
		want := float64(math.Float32frombits(uint32(i) << 16))
		got := bfloat16.widen(uint16(i))
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(got))
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%#x", i)
	}
}

// Narrowing rounds to the nearest number, with ties to even. The test takes the
// middle of any two neighbours a < b and the numbers just beside it.
func TestHalfNarrowRounds(t *testing.T) {
	for _, f := range []format{binary16, bfloat16} {
		infinity := uint16((1<<f.exp - 1) << f.man)
		for lo := uint16(0); lo < infinity-1; lo++ {
			a, b := f.widen(lo), f.widen(lo+1)
			middle := (a + b) / 2 // exact: one bit more than a and b have
			even := lo + lo&1
			require.Equal(t, even, f.narrow(middle), "middle above %g", a)
			require.Equal(t, lo, f.narrow(math.Nextafter(middle, a)), "below the middle above %g", a)
			require.Equal(t, lo+1, f.narrow(math.Nextafter(middle, b)), "above the middle above %g", a)
			require.Equal(t, even|1<<15, f.narrow(-middle), "middle below %g", -a)
		}
		largest, next := f.widen(infinity-1), 2*f.widen(infinity-1)-f.widen(infinity-2)
		require.Equal(t, infinity-1, f.narrow(math.Nextafter((largest+next)/2, 0)))
		require.Equal(t, infinity, f.narrow((largest+next)/2))
		require.Equal(t, infinity, f.narrow(math.MaxFloat64))
		require.Equal(t, uint16(0), f.narrow(math.SmallestNonzeroFloat64))
		require.Equal(t, uint16(1<<15), f.narrow(math.Copysign(0, -1)))
	}
}
