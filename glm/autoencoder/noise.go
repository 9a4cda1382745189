package autoencoder

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/funcgp/funcgp/internal/par"
)

// blockSize is the number of parameters in a block. Blocks are updated by several goroutines. Each block has its
// own stream of random numbers, so that the result does not depend on the number of goroutines.
const blockSize = 1 << 13

// The purposes of random numbers. Each purpose has its own streams.
const (
	trainNoise = iota
	validationNoise
	orderNoise
	drawNoise
	imputeNoise
)

// stream returns the random numbers for a purpose and the counters a and b. The key of ChaCha8 holds seed, purpose
// and both counters. Streams are therefore independent, and each can be made without the others.
func stream(seed uint64, purpose int, a, b uint64) *rand.Rand {
	var key [32]byte
	for i, v := range []uint64{seed, uint64(purpose), a, b} {
		binary.LittleEndian.PutUint64(key[8*i:], v)
	}
	return rand.New(rand.NewChaCha8(key))
}

// A noise writes standard normal numbers for the parameters [lo, lo+len(dst)) to dst.
type noise func(dst []float64, lo int)

// normals returns the noise of draw a for a purpose. math/rand/v2 draws by a ziggurat with 32 bits, so that
// neighbouring numbers are about 1e-9 apart.
func normals(seed uint64, purpose int, a uint64) noise {
	return func(dst []float64, lo int) {
		rng := stream(seed, purpose, a, uint64(lo/blockSize))
		for i := range dst {
			dst[i] = rng.NormFloat64()
		}
	}
}

// blocks calls do for each block of n parameters, on all processors. It takes no context, so that no vector is left
// half updated.
func blocks(n int, do func(lo, hi int)) {
	must(par.Do(uninterrupted, par.Tiles(n, blockSize), func(i int) error {
		lo, hi := par.Bounds(i, n, blockSize)
		do(lo, hi)
		return nil
	}))
}
