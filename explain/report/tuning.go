package report

// Tuning says how the prior precision was chosen.
type Tuning struct {
	Method string  `json:"method"` // loo, evidence or heldout
	Start  Float   `json:"start"`  // the precision at which the search began
	Edge   bool    `json:"edge"`   // the choice is the smallest or largest precision searched
	Trials []Trial `json:"trials"` // in the order tried

	// Root mean square, over the training outputs, of the difference between the
	// refit and the network, at the choice and at Start. Nil without a refit.
	Shift      *Float `json:"shift,omitempty"`
	StartShift *Float `json:"start_shift,omitempty"`
}

// Trial is a prior precision that was tried. It has one of the scores.
type Trial struct {
	PriorPrecision Float  `json:"prior_precision"`
	NLL            *Float `json:"nll,omitempty"`
	LogEvidence    *Float `json:"log_evidence,omitempty"`
}

// Score returns the score, of which less is better: the negative log likelihood of
// an example, or the negative log evidence.
func (t *Trial) Score() float64 {
	if t.NLL != nil {
		return float64(*t.NLL)
	}
	return -float64(*t.LogEvidence)
}
