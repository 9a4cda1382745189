package report

import (
	"fmt"
	"math"
	"strings"
)

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

// Chosen is the precision of the best trial.
func (t *Tuning) Chosen() float64 {
	chosen, best := math.NaN(), math.Inf(1)
	for i := range t.Trials {
		if score := t.Trials[i].Score(); score < best {
			chosen, best = float64(t.Trials[i].PriorPrecision), score
		}
	}
	return chosen
}

// Prior describes a Gaussian prior whose variances are not all the same.
type Prior struct {
	Kind   string       `json:"kind"` // groups, or g where the variance of a group is times a scale of each parameter
	Groups []PriorGroup `json:"groups"`
	Held   int          `json:"held"` // parameters of variance 0, which are held at their trained values
}

// PriorGroup is a set of parameter tensors with one variance.
type PriorGroup struct {
	Name       string `json:"name"`
	Parameters int    `json:"parameters"`
	Variance   Float  `json:"variance"`
}

// mostGroups is how many groups of a prior are listed in text.
const mostGroups = 6

// String lists the variances of the groups.
func (p *Prior) String() string {
	var list []string
	for i, g := range p.Groups {
		if i == mostGroups && len(p.Groups) > mostGroups+1 {
			list = append(list, fmt.Sprintf("and of %s", some(len(p.Groups)-i, "more group", "more groups")))
			break
		}
		list = append(list, g.Name+": "+short(float64(g.Variance)))
	}
	text := strings.Join(list, ", ")
	if p.Kind == "g" {
		text += " over the mean Fisher information of each parameter"
	}
	if p.Held > 0 {
		text += "; " + some(p.Held, "parameter is", "parameters are") + " held, as no training output depends on them"
	}
	return text
}
