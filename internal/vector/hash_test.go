package vector_test

import (
	"math"
	"slices"
	"testing"

	"github.com/funcgp/funcgp/internal/vector"
)

// The checksum tells every number, its place and its sign, and is the same for the same numbers.
func TestHash(t *testing.T) {
	x := make([]float64, 300)
	for i := range x {
		x[i] = math.Sqrt(float64(i))
	}
	want := vector.Hash(x)
	if vector.Hash(slices.Clone(x)) != want {
		t.Error("the same numbers have two checksums")
	}
	for i := range x {
		y := slices.Clone(x)
		y[i] = math.Nextafter(y[i], 100)
		if vector.Hash(y) == want {
			t.Errorf("number %d does not count", i)
		}
	}
	if vector.Hash([]float64{0}) == vector.Hash([]float64{math.Copysign(0, -1)}) || vector.Hash(nil) == vector.Hash([]float64{0}) || vector.Hash(nil) == 0 {
		t.Error("zeros are not told apart")
	}
}
