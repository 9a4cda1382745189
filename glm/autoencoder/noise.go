package autoencoder

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/funcgp/funcgp/internal/par"
)

// blockSize is the number of parameters of a block. Blocks are updated on several
// goroutines, and each has a stream of random numbers of its own, so that the result
// does not depend on the number of goroutines.
const blockSize = 1 << 13

// Purposes of random numbers, which have streams of their own.
const (
	trainNoise = iota
	validationNoise
	orderNoise
	drawNoise
	imputeNoise
)

// stream returns the random numbers of a purpose for counters a and b. The key of
// ChaCha8 holds all four, so that streams are independent and any of them can be had
// without those before.
func stream(seed uint64, purpose int, a, b uint64) *rand.Rand {
	var key [32]byte
	for i, v := range []uint64{seed, uint64(purpose), a, b} {
		binary.LittleEndian.PutUint64(key[8*i:], v)
	}
	return rand.New(rand.NewChaCha8(key))
}

// A noise writes standard normal numbers for the parameters [lo, lo+len(dst)) to dst.
type noise func(dst []float64, lo int)

// normals returns the noise of draw a for a purpose. The numbers are from
// math/rand/v2, by a ziggurat with 32 bits: between two neighbours are about 1e-9.
func normals(seed uint64, purpose int, a uint64) noise {
	return func(dst []float64, lo int) {
		rng := stream(seed, purpose, a, uint64(lo/blockSize))
		for i := range dst {
			dst[i] = rng.NormFloat64()
		}
	}
}

// blocks calls do for the blocks of n parameters, on all processors. It cannot be
// interrupted, so that vectors are never half changed.
func blocks(n int, do func(lo, hi int)) {
	must(par.Do(uninterrupted, 0, par.Tiles(n, blockSize), func(i int) error {
		lo, hi := par.Bounds(i, n, blockSize)
		do(lo, hi)
		return nil
	}))
}
