package dataset

import (
	"math"
	"math/rand/v2"
)

// hand is the random source of one digit. It uses only the words of PCG, so that
// digits do not change if the samplers of math/rand do.
type hand struct{ pcg rand.PCG }

// newHand returns the random source of a row, given by (seed, part, row) alone.
func newHand(seed, part, row uint64) hand {
	var h hand
	h.pcg.Seed(mix(seed^mix(part)), mix(row+mix(seed)))
	return h
}

// mix is the finalizer of splitmix64: it separates neighbouring seeds.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// uniform draws from [lo, hi).
func (h *hand) uniform(lo, hi float64) float64 {
	u := float64(h.pcg.Uint64()>>11) / (1 << 53)
	return lo + float64((hi-lo)*u)
}

// normal draws a standard deviate as a sum of four 16-bit uniforms: variance
// one, and bounded by 3.5, so that no digit is torn apart.
func (h *hand) normal() float64 {
	w := h.pcg.Uint64()
	sum := w&0xffff + w>>16&0xffff + w>>32&0xffff + w>>48
	return (float64(sum)/65536 - 2) * math.Sqrt(3)
}

// chance is true with probability p.
func (h *hand) chance(p float64) bool { return h.uniform(0, 1) < p }

// below draws an integer from [0, n).
func (h *hand) below(n int) int { return int(h.uniform(0, float64(n))) }
