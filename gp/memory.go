package gp

import (
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// tileBytes bounds the cross-kernel between a tile of test examples and the
// training examples.
const tileBytes = 64 << 20

// Bytes returns the memory that Fit and Refit take for n training examples
// with c outputs: 8·(N·C)² for the kernel and its factor, and a few vectors. It
// leaves out the Jacobian of the batch and the scratch memory of the kernel. A
// prediction takes up to 64 MiB more. A number too large for an int64 is returned
// as the largest int64.
func Bytes(n, c int) int64 {
	nc := memory.Mul(int64(n), int64(c))
	// K and U: NC×(NC+1).
	whole := memory.Mul(8, memory.Mul(nc, memory.Add(nc, 1)))
	// F, r, m, α, b and two scratch vectors; Λ and R.
	vectors := memory.Mul(8, memory.Mul(nc, memory.Add(7, 2*int64(c))))
	return memory.Add(whole, vectors)
}

// MemoryBudget returns max where it is positive, and otherwise 80 % of the
// memory that the machine has free: MemAvailable of /proc/meminfo on Linux,
// within what the control group allows, and 4 GiB where neither is known.
func MemoryBudget(max int64) int64 { return memory.Budget(max) }

// CheckMemory returns a *MemoryError where need(n) bytes are more than
// MemoryBudget(maxMemory), with what garbage holds given back. op names the operation for the error, and unit says
// what n counts. need must grow with n.
func CheckMemory(op, unit string, n int, maxMemory int64, need func(n int) int64) error {
	return linearize.CheckMemory(op, unit, n, maxMemory, need)
}
