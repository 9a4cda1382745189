package report

import "fmt"

// Certificate says which rows of the training data a posterior is built on, a row being an
// example with an eigenvector of Λ, and how much the rows left out could change (E16).
type Certificate struct {
	Within         Float    `json:"within"`           // how much larger than that of all rows a variance may be, as a part of it
	Threshold      Float    `json:"threshold"`        // τ: rows with s > τ are kept
	Ratio          Float    `json:"ratio"`            // v_k/v on the sample that chose τ
	Kept           int      `json:"kept"`             // rows
	Dropped        int      `json:"dropped"`          // rows with λ > 0 that are left out
	Trace          Float    `json:"trace"`            // part of tr Λ in kept rows
	DroppedTrace   Float    `json:"dropped_trace"`    // t = tr M
	Norm           [2]Float `json:"norm"`             // interval of ‖M‖₂
	VarianceAtMost Float    `json:"variance_at_most"` // no variance is more than this times that of all rows
	LogDet         [2]Float `json:"log_det"`          // interval of log det B of all rows
	Sampled        bool     `json:"sampled"`          // whether these are 95 % intervals from a sample of dropped rows
	Rows           int      `json:"rows"`             // dropped rows that were looked at
}

// Text says in two sentences what is left out and what it could change.
func (k *Certificate) Text() string {
	text := fmt.Sprintf("The %s left out hold %.2g %% of the information in the training data.", some(k.Dropped, "row", "rows"), 100*(1-float64(k.Trace)))
	by := "by a pass over them"
	if k.Sampled {
		by = fmt.Sprintf("by a sample of %s, with a confidence of 95 %%", some(k.Rows, "of them", "of them"))
	}
	return text + fmt.Sprintf(" With them no variance would be smaller than %.3g of what is said, %s; those of the rows asked about are near 1/%.3g of it.", 1/float64(k.VarianceAtMost), by, float64(k.Ratio))
}
