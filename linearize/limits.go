package linearize

import "github.com/funcgp/funcgp/internal/memory"

// Limits bound what a call may take, and hear how far it is. The zero value bounds memory alone, and tells nobody.
type Limits struct {
	// Memory is the most bytes that a computation may take; 0 is 80 % of what the machine has free. One that needs more
	// ends with a *MemoryError, which says how much, before anything large is allocated.
	Memory int64
	// Progress, if not nil, is called from one goroutine with a stage, the work done in it and the total work, which is 0
	// where it is not known. Packages name their stages.
	Progress func(stage string, done, total int) `json:"-"`
}

// Show tells Progress, if there is one.
func (l *Limits) Show(stage string, done, total int) {
	if l.Progress != nil {
		l.Progress(stage, done, total)
	}
}

// Budget is the number of bytes that a computation may take: Memory, or what stands for 0.
func (l *Limits) Budget() int64 { return memory.Budget(l.Memory) }

// Check is CheckMemory within the limits.
func (l *Limits) Check(op, unit string, n int, need func(n int) int64) error {
	return CheckMemory(op, unit, n, l.Memory, need)
}
