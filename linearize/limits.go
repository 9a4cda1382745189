package linearize

import "github.com/funcgp/funcgp/internal/memory"

// Limits bound the memory of a call and report its progress. The zero value bounds the memory and reports nothing.
type Limits struct {
	// Memory is the most bytes that a computation may take; 0 is 80 % of the machine's free memory. A computation
	// that needs more returns a *MemoryError, which says how much, before anything large is allocated.
	Memory int64
	// Progress, if not nil, is called from one goroutine with a stage, the work done in it and the total work, which
	// is 0 if unknown. Packages name their stages.
	Progress func(stage string, done, total int) `json:"-"`
}

// Show calls Progress unless it is nil.
func (l *Limits) Show(stage string, done, total int) {
	if l.Progress != nil {
		l.Progress(stage, done, total)
	}
}

// Budget returns the number of bytes that a computation may take: Memory, or the default if that is 0.
func (l *Limits) Budget() int64 { return memory.Budget(l.Memory) }

// Check calls CheckMemory with the memory limit.
func (l *Limits) Check(op, unit string, n int, need func(n int) int64) error {
	return CheckMemory(op, unit, n, l.Memory, need)
}
