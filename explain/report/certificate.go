package report

import "fmt"

// Certificate says which rows of the training data a posterior is built on, a row being an
// example with an eigenvector of Λ, and how much the rows left out could change (E16).
type Certificate struct {
	Within            Float    `json:"within"`              // how much larger than that of all rows a variance may be, as a part of it
	Threshold         Float    `json:"threshold"`           // τ: rows with s > τ are kept
	Against           int      `json:"against"`             // rows, the strongest, that τ was compared with
	Ratio             Float    `json:"ratio"`               // v_k/v by the rows above τ and by these
	Kept              int      `json:"kept"`                // rows
	Dropped           int      `json:"dropped"`             // rows with λ > 0 that are left out
	Trace             Float    `json:"trace"`               // part of tr Λ in kept rows
	DroppedTrace      Float    `json:"dropped_trace"`       // t = tr M
	DroppedTraceError Float    `json:"dropped_trace_error"` // half the width of its interval
	Norm              [2]Float `json:"norm"`                // interval of ‖M‖₂
	VarianceAtMost    Float    `json:"variance_at_most"`    // no variance is more than this times that of all rows
	LogDet            [2]Float `json:"log_det"`             // interval of log det B of all rows
	Failure           Float    `json:"failure"`             // probability that one of these does not hold
	Sampled           bool     `json:"sampled"`             // whether they are estimates from a sample of dropped rows
	Rows              int      `json:"rows"`                // dropped rows that were looked at
}

// Text says in sentences what is left out and what it could change.
func (k *Certificate) Text() string {
	if k.Dropped == 0 {
		return "No row is left out."
	}
	text := fmt.Sprintf("The %s left out hold %.2g %% of tr Λ. ", some(k.Dropped, "row", "rows"), 100*max(0, 1-float64(k.Trace)))
	text += fmt.Sprintf("Variances are at most %.3g times those of all rows", float64(k.VarianceAtMost))
	if k.Sampled {
		text += fmt.Sprintf(", by a sample of %s (95 %%)", some(k.Rows, "of these", "of these"))
	}
	return text + fmt.Sprintf("; for 99 %% of the rows asked about they are at most %.4g times, by the %s strongest rows and a sample of the others.", float64(k.Ratio), count(k.Against))
}
