package funcgp

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse"
)

// planWhole returns an error if an operation needs more memory than allowed and cannot be made smaller.
func planWhole(op string, memory, need int64) error {
	if budget := gp.MemoryBudget(memory); need > budget {
		return &gp.MemoryError{Op: op, Needed: need, Available: budget}
	}
	return nil
}

// wholeBytes is a number of bytes that an int64 holds.
func wholeBytes(need float64) int64 { return int64(math.Min(need, math.MaxInt64/2)) }

// Within returns how many of n examples to process at once, at least one, so that they need no more than a
// quarter of the allowed memory.
func (p *problem) Within(n int, need func(n int) int64) int {
	quarter := gp.MemoryBudget(p.Memory) / 4
	return max(1, sort.Search(n, func(i int) bool { return need(i+1) > quarter }))
}

// ExactBytes is the memory that the training inputs of n examples, their Jacobian and the posterior take.
func (p *problem) ExactBytes(n int) int64 {
	d, c, _ := p.Model.Net.Dims()
	return wholeBytes(float64(gp.Bytes(n, c)) + float64(p.Model.Net.BatchBytes(n)) + 8*float64(n)*float64(d))
}

// SparseBytes returns the memory, in bytes, of a posterior with m inducing examples, of their Jacobian, and of
// the Jacobian of a tile of data.
func (p *problem) SparseBytes(m int, refit bool) int64 {
	n, c, bytes := p.Examples.Train.Len(), p.Model.Outputs, p.Model.Net.BatchBytes
	return wholeBytes(float64(sparse.Bytes(m, n, c, refit)) + float64(bytes(m)) + 2*float64(bytes(min(n, linearize.Tile(c)))))
}

// keepBytes bounds two Jacobians: that of training examples if it is computed once and kept, and that of the
// rows that are predicted at once.
const keepBytes = 1 << 30

// KeepsJacobian tells whether the training examples are linearized once. Beside the Jacobian that also keeps
// their inputs, which count as memory unless they are in memory anyway.
func (p *problem) KeepsJacobian() bool {
	n := p.Examples.Train.Len()
	need := p.Model.Net.BatchBytes(n)
	if p.Examples.Train.ByRange() {
		need += 8 * int64(n) * int64(p.Examples.Train.Dim())
	}
	return need <= keepBytes && need <= gp.MemoryBudget(p.Memory)/4
}

// predictRows is the number of rows that are processed at once where no other limit is lower.
const predictRows = 256

// withLessMemory adds to a memory error the options that reduce the need of memory. For a saved posterior
// nothing can be reduced.
func withLessMemory(err error, saved bool) error {
	var e *gp.MemoryError
	if already := (*memoryError)(nil); errors.As(err, &already) || !errors.As(err, &e) {
		return err
	}
	return &memoryError{lessMemory(e, saved), e}
}

// A memoryError is the error of an exceeded memory limit, with a remedy.
type memoryError struct {
	error
	cause *gp.MemoryError
}

// Message is its text with options.
func (e *memoryError) Message() option.Text { return option.Of(e.error) }

// Unwrap returns the limit.
func (e *memoryError) Unwrap() error { return e.cause }

func lessMemory(e *gp.MemoryError, saved bool) error {
	text, most := e.Op+" takes "+takes(e)+"; ", job.Count(e.Largest)
	switch {
	case e.Largest < 1 || saved:
		return option.Errorf("%sraise {max-memory}", text)
	case e.Unit == gp.InducingExamples || e.Unit == gp.InducingPairs:
		return option.Errorf("%sat most %s %s fit: give {inducing=%d}, or raise {max-memory}", text, most, e.Unit, e.Largest)
	case e.Unit == gp.Parameters:
		return option.Errorf("%sat most %s parameters fit: choose a smaller model, or raise {max-memory}", text, most)
	}
	return option.Errorf("%sat most %s examples fit: give {method=nystrom}, {train-count=%d}, or raise {max-memory}", text, most, e.Largest)
}

// takes words how much memory an operation needs and how much it may use.
func takes(e *gp.MemoryError) string {
	need, have := job.SizeText(e.Needed), job.SizeText(e.Available)
	if need == have {
		need, have = job.Count(int(e.Needed))+" bytes", job.Count(int(e.Available))
	}
	return fmt.Sprintf("%s of memory, of which %s may be used", need, have)
}
