package result

// A Validation compares a posterior with the one of weight space, and with its own sums over training rows.
type Validation struct {
	Schema   string       `json:"schema"`
	OK       bool         `json:"ok"` // of all Rows
	Rows     []Comparison `json:"rows"`
	Warnings Warnings     `json:"warnings"`
	Fit      *Fit         `json:"fit,omitempty"` // nil for the exact method

	LeaveOneOut *LeaveOneOut `json:"leave_one_out,omitempty"` // of the exact method, else nil
	Preflight   *Preflight   `json:"preflight"`

	Of Fit `json:"-"` // the posterior, by whatever method
}

// A Comparison has the values of the entry of a quantity that differs most. Difference is relative to the largest entry.
type Comparison struct {
	Quantity      string `json:"quantity"`
	WeightSpace   Float  `json:"weight_space"`
	FunctionSpace Float  `json:"function_space"`
	Difference    Float  `json:"difference"`
	Tolerance     Float  `json:"tolerance"`
	OK            bool   `json:"ok"`
}

// A LeaveOneOut compares leave-one-out in closed form (E17) with refits without the row.
type LeaveOneOut struct {
	Rows   []int           `json:"rows"` // of the original file
	Values []LeftOutValues `json:"values"`
}

// LeftOutValues are the values of the entry that differs most. Difference is relative to the largest entry, and
// absolute for the log density. Tolerance is null where the closed form is one Newton step and not exact.
type LeftOutValues struct {
	Quantity   string `json:"quantity"`
	Refit      Float  `json:"refit"`
	FirstOrder Float  `json:"first_order"`
	Difference Float  `json:"difference"`
	Tolerance  Float  `json:"tolerance"`
	OK         bool   `json:"ok"`
}

// OK tells whether all differences are within their tolerance; there are none in a nil comparison.
func (l *LeaveOneOut) OK() bool {
	if l == nil {
		return true
	}
	for _, r := range l.Values {
		if !r.OK {
			return false
		}
	}
	return true
}
