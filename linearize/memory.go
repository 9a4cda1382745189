package linearize

import (
	"fmt"

	"github.com/funcgp/funcgp/internal/memory"
)

// Units of a MemoryError.
const (
	Examples   = "examples"
	Parameters = "parameters"
)

// MemoryError reports an operation that needs more memory than it may use.
type MemoryError struct {
	Op                string // the operation
	Needed, Available int64  // bytes
	Largest           int    // the most units that fit
	Unit              string // what Largest counts
}

var _ error = (*MemoryError)(nil)

// Error names the operation, the bytes and a remedy.
func (e *MemoryError) Error() string {
	remedy := "use fewer, or raise the memory limit"
	if e.Unit == Parameters {
		remedy = "raise the memory limit, or work in function space, whose memory grows with the examples"
	}
	return fmt.Sprintf("%s takes %s of memory and %s may be used; at most %d %s fit; %s",
		e.Op, bytesText(e.Needed), bytesText(e.Available), e.Largest, e.Unit, remedy)
}

func bytesText(b int64) string {
	const unit = "KMGTPE"
	v, at := float64(b), -1
	for v >= 1024 && at < len(unit)-1 {
		v, at = v/1024, at+1
	}
	if at < 0 {
		return fmt.Sprintf("%d B", b)
	}
	return fmt.Sprintf("%.1f %ciB", v, unit[at])
}

// CheckMemory returns a *MemoryError where need(n) bytes are more than maxMemory. maxMemory 0 means 80 % of the
// free memory of the machine after garbage collection. op names the operation in the error, and unit is what n
// counts. need must grow with n.
func CheckMemory(op, unit string, n int, maxMemory int64, need func(n int) int64) error {
	fits, budget := memory.Fit(n, maxMemory, need)
	if need(n) <= budget {
		return nil
	}
	return &MemoryError{Op: op, Needed: need(n), Available: budget, Largest: fits, Unit: unit}
}
