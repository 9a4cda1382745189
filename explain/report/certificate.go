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

// facts are the rows that say most and what the others could change, as a table.
func (k *Certificate) facts() []fact {
	if k == nil {
		return nil
	}
	list := []fact{{"Rows kept", count(k.Kept), fmt.Sprintf("hold %.4g %% of tr Λ; a row is a training example with an eigenvector of its Λ", 100*float64(k.Trace))}}
	if k.Dropped == 0 {
		return append(list, fact{"Rows left out", "0", "the posterior is exact"})
	}
	of := short(float64(k.DroppedTrace))
	if k.DroppedTraceError > 0 {
		of += " ± " + short(float64(k.DroppedTraceError))
	}
	return append(list,
		fact{"Rows left out", count(k.Dropped), "the strength of each is at most " + short(float64(k.Threshold)) + ": its λ times its prior variance"},
		fact{"What they could still tell, tr M", of, "λ times the posterior variance, summed over them: 0 where they would change nothing"},
		fact{"of it in one direction, ‖M‖₂", between(k.Norm), "the most"},
		fact{"Variance, at most", fmt.Sprintf("%.4g times", float64(k.VarianceAtMost)), "that of all rows, for any input, and never below it: 1 + ‖M‖₂"},
		fact{"Variance, measured", fmt.Sprintf("%.4g times", float64(k.Ratio)), "at most, for 99 % of the rows asked about"},
		fact{"Log determinant of all rows", between(k.LogDet), "that of the kept rows is below, with the log evidence"},
		fact{"How sure this is", k.sureness(), ""},
	)
}

// sureness says whether the intervals are bounds.
func (k *Certificate) sureness() string {
	switch {
	case k.Sampled:
		return fmt.Sprintf("Estimated: intervals of 95 %%, from a sample of %s of the rows left out. They are no bounds; --certify looks at all of them.", count(k.Rows))
	case k.Failure > 0:
		return fmt.Sprintf("Bounds from all rows left out; the probability that one does not hold is %.1g.", float64(k.Failure))
	}
	return "Exact, from all rows left out."
}

// between shows an interval, or a number where it has no width.
func between(v [2]Float) string {
	lo, hi := short(float64(v[0])), short(float64(v[1]))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}
