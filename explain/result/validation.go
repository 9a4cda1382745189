package result

// A Validation compares a posterior with the same posterior in weight space, and with its own sums over
// training rows.
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

// A Comparison has both values of the entry of a quantity in which two computations differ most. Difference is
// relative to the largest entry.
type Comparison struct {
	Quantity      string `json:"quantity"`
	WeightSpace   Float  `json:"weight_space"`
	FunctionSpace Float  `json:"function_space"`
	Difference    Float  `json:"difference"`
	Tolerance     Float  `json:"tolerance"`
	OK            bool   `json:"ok"`
}

// A LeaveOneOut compares leave-one-out in closed form (E17) with refits that leave the row out.
type LeaveOneOut struct {
	Rows   []int           `json:"rows"` // of the original file
	Values []LeftOutValues `json:"values"`
}

// LeftOutValues has both values of the entry that differs most. Difference is relative to the largest entry,
// but absolute for the log density. Tolerance is null if the closed form is one Newton step and so not exact.
type LeftOutValues struct {
	Quantity   string `json:"quantity"`
	Refit      Float  `json:"refit"`
	FirstOrder Float  `json:"first_order"`
	Difference Float  `json:"difference"`
	Tolerance  Float  `json:"tolerance"`
	OK         bool   `json:"ok"`
}

// OK tells whether all differences are within their tolerance. A nil comparison has no differences.
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
