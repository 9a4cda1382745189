package store

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChecksum checks that parts give the checksum of the whole, whatever they are.
func TestChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := make([]byte, rng.IntN(3000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want := crc32.Checksum(b, castagnoli)
		cut, part := rng.IntN(len(b)+1), 1+rng.IntN(600)
		require.Equal(t, want, checksum(0, b, part))
		require.Equal(t, want, checksum(checksum(0, b[:cut], part), b[cut:], part), "%d of %d bytes, parts of %d", cut, len(b), part)
	}
}
