package sparse

import (
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// Bytes returns the memory that a posterior of n training examples takes with
// m inducing examples and c outputs: K_ZZ, which counts twice because it takes
// two matrices where it is singular to working precision, the sums, their
// factor and I − A'⁻¹, each 8·(M·C)² bytes, the last three once more while a
// refit compares two sums; the features of a chunk of data, in three matrices;
// and the sites and vectors of the N examples. The Jacobians
// of the inducing examples and of a batch of data are not in it. A number too
// large for an int64 is returned as the largest int64.
func Bytes(m, n, c int, refit bool) int64 { return RowBytes(memory.MulInt(m, c), n, c, refit) }

// RowBytes is Bytes for so many rows of K_ZZ: M·C, or the number of inducing
// (example, output) pairs.
func RowBytes(rows, n, c int, refit bool) int64 {
	mc, nc := int64(rows), memory.Mul(int64(n), int64(c))
	squares := int64(5)
	copies := int64(1)
	if refit {
		squares, copies = squares+3, copies+1
	}
	whole := memory.Mul(squares, memory.Mul(mc, mc))
	// Cross-kernel, φ, Rᵀφ.
	tile := memory.Mul(3, memory.Mul(memory.Mul(int64(min(n, linearize.Tile(c))), int64(c)), mc))
	// F, r, Λ and R; m, b, α and f.
	vectors := memory.Mul(nc, memory.Add(memory.Mul(copies, 2+2*int64(c)), 4))
	return memory.Mul(8, memory.Add(whole, memory.Add(tile, vectors)))
}

// checkMemory is gp.CheckMemory for the number of inducing elements.
func (z *Inducing) checkMemory(op string, maxMemory int64, need func(m int) int64) error {
	return gp.CheckMemory(op, unit(z.Pairs()), z.Len(), maxMemory, need)
}

// unit says what inducing elements are.
func unit(pairs bool) string {
	if pairs {
		return gp.InducingPairs
	}
	return gp.InducingExamples
}
