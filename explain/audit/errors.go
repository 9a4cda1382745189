package audit

import "fmt"

// An UnsupportedError reports a likelihood for which the ranking is not defined.
type UnsupportedError struct {
	Likelihood string
	Outputs    int
	Reason     string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("audit: the %s likelihood with %d outputs: %s", e.Likelihood, e.Outputs, e.Reason)
}

// A BatchError reports an empty pool, or a batch larger than the pool.
type BatchError struct{ Batch, Pool int }

func (e *BatchError) Error() string {
	if e.Pool == 0 {
		return "audit: the pool is empty"
	}
	return fmt.Sprintf("audit: a batch of %d from a pool of %d rows; ask for at most %d", e.Batch, e.Pool, e.Pool)
}
