package audit

import "fmt"

// An UnsupportedError reports a likelihood with which there is nothing to rank.
type UnsupportedError struct {
	Likelihood string
	Outputs    int
	Reason     string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("audit: the %s likelihood with %d outputs: %s", e.Likelihood, e.Outputs, e.Reason)
}

// A PairsWarning reports that training examples were not compared in pairs because
// there are too many. Equal inputs are found nevertheless.
type PairsWarning struct {
	Outputs int // N·C
	Most    int // Options.MostPaired
}

func (w *PairsWarning) Error() string {
	return fmt.Sprintf("audit: only equal inputs are listed as duplicates: %d training outputs are more than the %d that are compared in pairs", w.Outputs, w.Most)
}

// A BatchError reports a batch that a pool cannot give.
type BatchError struct{ Batch, Pool int }

func (e *BatchError) Error() string {
	if e.Pool == 0 {
		return "audit: the pool is empty"
	}
	return fmt.Sprintf("audit: a batch of %d from a pool of %d rows; ask for at most %d", e.Batch, e.Pool, e.Pool)
}

// A CandidatesWarning reports that a batch was chosen among the rows with the largest
// gains, since the joint covariance of more does not fit into memory, and that another
// row might have been better for some of its steps.
type CandidatesWarning struct {
	Candidates, Pool int
	Step             int     // first step, from 0, that may differ from that of the whole pool
	Gain             float64 // of that step, nats
	Bound            float64 // of the rows that were no candidates: the largest gain that one has by itself
}

func (w *CandidatesWarning) Error() string {
	return fmt.Sprintf("audit: the batch was chosen among %d of %d rows; from its row %d on, which adds %.3g nats, another row could add up to %.3g", w.Candidates, w.Pool, w.Step+1, w.Gain, w.Bound)
}
