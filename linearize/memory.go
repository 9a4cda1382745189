package linearize

import (
	"fmt"

	"github.com/funcgp/funcgp/internal/memory"
)

// Examples and Parameters are units of a MemoryError.
const (
	Examples   = "examples"
	Parameters = "parameters"
)

// MemoryError reports that an operation would take more memory than allowed.
type MemoryError struct {
	Op                string // what was asked
	Needed, Available int64  // bytes
	Largest           int    // the most that fit
	Unit              string // what Largest counts
}

var _ error = (*MemoryError)(nil)

// Error says what was asked, the bytes and the remedy.
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

// CheckMemory returns a *MemoryError where need(n) bytes are more than maxMemory, which 0
// makes 80 % of the memory that the machine has free, with that of garbage given back. op names the operation for the
// error, and unit says what n counts. need must grow with n.
func CheckMemory(op, unit string, n int, maxMemory int64, need func(n int) int64) error {
	fits, budget := memory.Fit(n, maxMemory, need)
	if need(n) <= budget {
		return nil
	}
	return &MemoryError{Op: op, Needed: need(n), Available: budget, Largest: fits, Unit: unit}
}
