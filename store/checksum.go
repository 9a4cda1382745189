package store

import (
	"context"
	"hash/crc32"

	"github.com/funcgp/funcgp/internal/par"
)

// checksumPart is how many bytes a goroutine takes of a checksum.
const checksumPart = 4 << 20

// checksum returns the CRC-32C of what had the CRC-32C sum and of b behind it. It takes
// the parts of b on several goroutines.
func checksum(sum uint32, b []byte, part int) uint32 {
	if len(b) <= part {
		return crc32.Update(sum, castagnoli, b)
	}
	sums := make([]uint32, par.Tiles(len(b), part))
	// The parts return no error and the context is never done.
	_ = par.Do(context.Background(), 0, len(sums), func(i int) error {
		lo, hi := par.Bounds(i, len(b), part)
		sums[i] = crc32.Checksum(b[lo:hi], castagnoli)
		return nil
	})
	for i, s := range sums {
		lo, hi := par.Bounds(i, len(b), part)
		sum = shifted(sum, hi-lo) ^ s
	}
	return sum
}

// shifted returns the part that bytes with the CRC-32C sum have in that of them and of n
// bytes behind them: sum·x^(8n) modulo the polynomial.
func shifted(sum uint32, n int) uint32 {
	// Bit 31−k is the coefficient of x^k.
	for power := uint32(1 << (31 - 8)); n > 0; n >>= 1 {
		if n&1 != 0 {
			sum = product32(sum, power)
		}
		power = product32(power, power)
	}
	return sum
}

// product32 returns the product of two polynomials modulo that of CRC-32C.
func product32(a, b uint32) uint32 {
	p := uint32(0)
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			p ^= b
		}
		// b·x
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return p
}
