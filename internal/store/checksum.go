package store

import (
	"context"
	"hash/crc32"

	"github.com/funcgp/funcgp/internal/par"
)

// checksumPart is the number of bytes in one goroutine's part of a checksum.
const checksumPart = 4 << 20

// checksum returns the CRC-32C of bytes whose CRC-32C is sum, followed by b. Several goroutines take parts of b
// with part bytes each.
func checksum(sum uint32, b []byte, part int) uint32 {
	if len(b) <= part {
		return crc32.Update(sum, castagnoli, b)
	}
	sums := make([]uint32, par.Tiles(len(b), part))
	// Neither the parts nor a context that never ends give an error.
	_ = par.Do(context.Background(), len(sums), func(i int) error {
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

// shifted returns the contribution of bytes with CRC-32C sum to the CRC-32C of these bytes followed by n more
// bytes: sum·x^(8n) modulo the polynomial.
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

// product32 returns the product of two polynomials modulo the polynomial of CRC-32C.
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
