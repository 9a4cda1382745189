package cg

import (
	"cmp"
	"sort"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// A memoryPlan says what the memory allowed is used for.
type memoryPlan struct {
	rank    int  // most features of the preconditioner
	columns int  // right-hand sides solved for at once
	keep    bool // the Jacobian of a stream is kept
}

const (
	mostColumns = 64 // more columns make products hardly more efficient
	mostBlock   = 64 // features made at once, unless one example has more
)

// Bytes returns the memory that conjugate gradients take for n training
// examples with c outputs, p parameters and the given rank of the
// preconditioner, when they solve for the given number of right-hand sides at
// once. The Jacobian of the training examples is not in it. A number too
// large for an int64 is returned as the largest int64.
func Bytes(n, c, p, rank, columns int) int64 {
	nc, r := memory.Mul(int64(n), int64(c)), int64(rank)
	// F, r, f, m, b, α, Kα and vectors of scratch; Λ, R, κ(x_i,x_i), its
	// residual, and another Λ and R during a refit.
	vectors := memory.Mul(nc, 12+6*int64(c))
	// Right-hand sides, solutions and scratch for each column; vᵀJ twice.
	solver := memory.Mul(int64(columns), memory.Add(memory.Mul(8, nc), memory.Mul(2, int64(p))))
	// Features, those being made, and rank×rank matrices.
	features := memory.Add(memory.Mul(nc, r), memory.Mul(4, memory.Mul(r, r)))
	if rank > 0 {
		features = memory.Add(features, memory.Mul(2*max(mostBlock, int64(c)), nc))
	}
	return memory.Mul(8, memory.Add(vectors, memory.Add(solver, features)))
}

// CheckMemory returns a *gp.MemoryError where no posterior by conjugate gradients of n
// training examples with c outputs and p parameters fits into maxMemory bytes, where 0
// means what Options.MaxMemory says: not even one without a preconditioner that solves
// for the outputs of one example at once.
func CheckMemory(n, c, p int, maxMemory int64) error {
	return gp.CheckMemory("a matrix-free posterior", gp.TrainingExamples, n, maxMemory, func(n int) int64 { return Bytes(n, c, p, 0, c) })
}

// planMemory returns the plan for n examples, given a batch b of some of them.
// streamed says that their Jacobian is not in memory.
func planMemory(n int, b *linearize.Batch, streamed bool, o *Options) (memoryPlan, error) {
	c, p, budget := b.Outputs(), b.P, gp.MemoryBudget(o.MaxMemory)
	if err := CheckMemory(n, c, p, budget); err != nil {
		return memoryPlan{}, err
	}
	rank := min(cmp.Or(o.Rank, defaultRank), n*c)
	plan := memoryPlan{rank: sort.Search(max(0, rank), func(r int) bool { return Bytes(n, c, p, r+1, c) > budget })}
	left := budget - Bytes(n, c, p, plan.rank, c)
	if whole := memory.Mul(int64(n), jacobian.Bytes(b)/int64(b.Len())+1); streamed && whole <= left {
		plan.keep = true
		left -= whole
	}
	plan.columns = max(c, int(min(mostColumns, int64(c)+left/(8*(8*int64(n)*int64(c)+2*int64(p))))))
	return plan, nil
}
