package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// A headline is the result in a few words.
type headline struct {
	head  string
	sure  string // how probable the result is, "" if unknown
	badge string // the true label, "" if unknown
	wrong bool
}

// headline returns the result in the words of a page. Where the network and the
// average over networks predict different classes, it says so.
func (v *view) headline() headline {
	if v.kind == regression {
		p := v.page
		quantity := p.Quantity
		var parts []string
		for c := range p.Report.Fit.Outputs {
			mean, sd := v.observation(c)
			if math.IsNaN(mean) {
				mean, sd = v.latent(c)
			} else if target, ok := strings.CutPrefix(quantity, "log rate"); ok {
				// A count is observed, not its log rate.
				quantity = strings.TrimPrefix(target, " of ")
			}
			d := decimals(mean, sd)
			part := typeset(fixed(mean, d)) + "\u00a0±\u00a0" + typeset(fixed(sd, d))
			if p.Columns != nil {
				part = p.column(c) + " " + part
			}
			parts = append(parts, part)
		}
		if p.Columns != nil {
			quantity = ""
		}
		h := headline{head: strings.TrimSpace("Predicted "+quantity) + " " + strings.Join(parts, ", ")}
		if targets := p.Report.Input.Targets; v.label == "" && targets != nil {
			var list []string
			for c, y := range targets {
				list = append(list, p.column(c)+" "+typeset(label(y)))
			}
			h.badge = "Targets: " + strings.Join(list, ", ")
		}
		if v.label == "" {
			return h
		}
		h.badge = "Target " + typeset(v.label)
		if i := v.interval(); i != nil {
			if y := float64(p.Report.Input.Label); i.lo <= y && y <= i.hi {
				h.badge += ", inside the 95 % interval"
			} else {
				h.badge, h.wrong = h.badge+", outside the 95 % interval", true
			}
		}
		return h
	}
	if v.kind == labels {
		r := v.page.Report
		h := headline{head: "Predicted " + result.Labelled(r.Labels, r.Prediction.Probability)}
		switch wrong, known := v.wrongLabels(); {
		case known && wrong == 0:
			h.badge = "✓ Correct: labelled " + v.label
		case known:
			h.badge, h.wrong = fmt.Sprintf("✗ %d of %d labels wrong: labelled %s", wrong, len(r.Labels), v.label), true
		}
		return h
	}
	name := v.page.Classes
	h := headline{head: "Predicted " + name[v.predicted]}
	if p, _, _ := v.certainty(v.predicted); v.agree() && !math.IsNaN(p) {
		h.sure = "with probability " + Probability(p)
	}
	if !v.agree() {
		h.head = fmt.Sprintf("%s or %s: network and average disagree", name[v.predicted], name[v.average])
	}
	if v.label == "" {
		return h
	}
	h.badge, h.wrong = v.verdict()
	return h
}

// wrongLabels counts the labels that are predicted wrongly: labels of the row whose probability is not above
// one half, and other labels whose probability is. known is false if the labels of the row are unknown.
func (v *view) wrongLabels() (wrong int, known bool) {
	r := v.page.Report
	for k, y := range r.Input.Targets {
		if (y > .5) != (r.Prediction.Probability[k] > .5) {
			wrong++
		}
	}
	return wrong, r.Input.Targets != nil
}

// verdict compares the label of the row with the predictions of the network and of the average over networks.
func (v *view) verdict() (text string, wrong bool) {
	name := v.page.Classes
	switch {
	case v.agree() && v.correct:
		return "✓ Correct: labelled " + v.label, false
	case v.agree():
		return "✗ Misclassified: labelled " + v.label, true
	case v.label == name[v.predicted]:
		return "Labelled " + v.label + ": the network is right, the average is not", true
	case v.label == name[v.average]:
		return "Labelled " + v.label + ": the average is right, the network is not", true
	}
	return "✗ Labelled " + v.label + ": both are wrong", true
}

// A predictive holds the central 95 % interval of a new observation, and that of the function
// without noise if it is known.
type predictive struct {
	mean, lo, hi float64
	flo, fhi     float64 // NaN where unknown
}

// normal95 is the 97.5 % quantile of the standard normal distribution.
const normal95 = 1.959963984540054

// interval returns the interval of a regression of one output, nil where there is
// none.
func (v *view) interval() *predictive {
	p, ends := v.page.Report.Prediction, v.page.Interval
	if v.kind != regression || len(p.ObservationMean) != 1 || len(ends) != 2 || !isFinite(ends[0]) || !isFinite(ends[1]) {
		return nil
	}
	i := &predictive{mean: float64(p.ObservationMean[0]), lo: ends[0], hi: ends[1], flo: math.NaN(), fhi: math.NaN()}
	// The function of a count is its log rate, on another scale.
	if len(p.FunctionSD) == 1 && p.ObservationMean[0] == p.Mean[0] {
		i.flo, i.fhi = i.mean-normal95*float64(p.FunctionSD[0]), i.mean+normal95*float64(p.FunctionSD[0])
	}
	return i
}

// disagreement says that the network and the average over networks predict different classes. It is "" if they
// agree.
func (v *view) disagreement() string {
	if v.kind == regression || v.agree() {
		return ""
	}
	_, _, alone := v.certainty(v.predicted)
	p, sd, _ := v.certainty(v.average)
	return fmt.Sprintf("%s says %s, with probability %s. Calibrated and averaged over the networks that fit the training data, %s is more probable: %s ± %s. Take the prediction as undecided.",
		v.trained(), v.page.Classes[v.predicted], Probability(alone), v.page.Classes[v.average], Probability(p), Probability(sd))
}
