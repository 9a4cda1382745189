package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/gp"
)

// head returns the heading, the badge with the true label, and whether the
// prediction is wrong.
func (v *view) head() (head, badge string, wrong bool) {
	p := v.page
	if v.kind == regression {
		var parts []string
		quantity := p.Quantity
		for c := range p.Report.Fit.Outputs {
			mean, sd := v.observation(c)
			if math.IsNaN(mean) {
				mean, sd = v.latent(c)
			} else if target, ok := strings.CutPrefix(quantity, "log rate"); ok {
				// A count is observed, not its log rate.
				quantity = strings.TrimPrefix(target, " of ")
			}
			d := decimals(mean, sd)
			parts = append(parts, typeset(fixed(mean, d))+"\u00a0±\u00a0"+fixed(sd, d))
		}
		if v.label != "" {
			badge = "Target " + typeset(v.label)
		}
		head = "Predicted"
		if quantity != "" {
			head += " " + quantity
		}
		return head + " " + strings.Join(parts, ", "), badge, false
	}
	head = "Predicted " + p.Classes[v.predicted]
	switch {
	case v.label == "":
	case v.correct:
		badge = "✓ Correct: labelled " + v.label
	default:
		badge, wrong = "✗ Misclassified: labelled "+v.label, true
	}
	return head, badge, wrong
}

// labelWord names what the data say about a row.
func (v *view) labelWord() string {
	if v.kind == regression {
		return "target"
	}
	return "label"
}

// title returns the row's name with a capital, or the name of an input file as it
// is.
func (v *view) title() string {
	if v.page.Report.Input.Index < 0 {
		return v.row
	}
	return strings.ToUpper(v.row[:1]) + v.row[1:]
}

// side says whether a term of the sign of x speaks for the prediction.
func (s *section) side(x float64) string {
	if (x < 0) == s.forPlus && x != 0 {
		return "against"
	}
	return "for"
}

// pull says in which direction terms of a sign pull.
func (v *view) pull(s *section, sign int) string {
	switch {
	case v.kind == regression && sign > 0:
		return "up"
	case v.kind == regression:
		return "down"
	case sign > 0:
		return "for " + s.plus
	case v.kind == classes && s.out.Contrast == nil:
		return "against " + s.plus
	}
	return "for " + s.minus
}

// sideTitles returns the headings of the lists of positive and negative terms.
func (v *view) sideTitles(s *section) (up, down string) {
	switch {
	case v.kind == regression:
		return "Raise it", "Lower it"
	case s.out.Contrast != nil:
		return "For " + s.plus, "For " + s.minus
	case v.kind == classes:
		return "For " + s.plus, "Against " + s.plus
	case s.forPlus:
		return "For " + s.plus + ", the prediction", "Against it, for " + s.minus
	}
	return "Against it, for " + s.plus, "For " + s.minus + ", the prediction"
}

// scale finds the range of each feature among the rows of the page.
func (v *view) scale() {
	v.profile.include(v.page.Test)
	for _, s := range v.sections {
		for _, l := range slices.Concat(s.up, s.down, s.similar) {
			v.profile.include(l.picture)
		}
	}
}

// words sets the texts of a section in terms of the data's classes or quantity.
func (v *view) words(s *section) error {
	o, class := s.out, v.page.Classes
	c := v.page.Report.Fit.Outputs
	switch {
	case o.Contrast != nil:
		a, b := o.Contrast.Plus, o.Contrast.Minus
		if min(a, b) < 0 || max(a, b) >= c {
			return fmt.Errorf("report: the report contrasts outputs %d and %d of %d", a, b, c)
		}
		s.plus, s.minus = fmt.Sprintf("output %d", a), fmt.Sprintf("output %d", b)
		if v.kind == classes {
			s.plus, s.minus = class[a], class[b]
		}
		s.title = fmt.Sprintf("Why %s rather than %s", s.plus, s.minus)
		s.quantity = fmt.Sprintf("score of %s minus score of %s", s.plus, s.minus)
		s.forPlus = s.f > 0
	case int(o.Output) < 0 || int(o.Output) >= c:
		return fmt.Errorf("report: the report explains output %d of %d", o.Output, c)
	case v.kind == binary:
		s.plus, s.minus = class[1], class[0]
		s.title = fmt.Sprintf("Why %s rather than %s", class[v.predicted], class[1-v.predicted])
		s.quantity = fmt.Sprintf("log-odds of %s against %s", class[1], class[0])
		s.forPlus = v.predicted == 1
	case v.kind == classes:
		s.plus, s.minus = class[o.Output], "other classes"
		s.title = fmt.Sprintf("What speaks for and against %s", class[o.Output])
		s.quantity = fmt.Sprintf("score of %s", class[o.Output])
		s.forPlus = true
	default:
		s.quantity = cmp.Or(v.page.Quantity, "prediction")
		s.title = "What raises and lowers the " + s.quantity
		if c > 1 {
			s.quantity += fmt.Sprintf(", output %d", o.Output)
			s.title = fmt.Sprintf("What raises and lowers output %d", o.Output)
		}
		s.plus, s.minus = "higher values", "lower values"
		s.forPlus = true
	}
	return nil
}

// novelty says how far the row is from the training data, "" where that is not
// known.
func (v *view) novelty() string {
	n := v.page.Report.Prediction.Novelty
	if n == nil || !n.Score.Finite() {
		return ""
	}
	measure := "entropy " + short(float64(n.Score)) + " nats"
	if v.kind == regression {
		measure = "predictive variance " + short(float64(n.Score))
	}
	if n.MutualInformation.Finite() {
		measure += ", mutual information " + short(float64(n.MutualInformation)) + " nats"
	}
	switch rank := float64(n.Rank); {
	case math.IsNaN(rank):
		return "Novelty: " + measure + "."
	case rank == 1:
		return "This row is farther from the training data than any training row from the others (" + measure + ")."
	default:
		return "This row is farther from the training data than " + percent(rank) + " of the training rows are from the others (" + measure + ")."
	}
}

// facts are the lines of a table about the calibration.
func (c *Calibration) facts() []fact {
	by := some(c.Rows, "training row", "training rows") + " by leave-one-out"
	scores := c.LOO
	if c.Method == "heldout" {
		by, scores = some(c.Rows, "held-out row", "held-out rows"), c.HeldOut
	}
	list := []fact{{"Scale of the covariance", short(float64(c.Scale)), "makes " + by + " most probable"}}
	if c.NoiseScale != 1 {
		list = append(list, fact{"Scale of the noise variance", short(float64(c.NoiseScale)), ""})
	}
	if scores != nil {
		list = append(list, fact{"NLL of these rows", score(scores.NLL), "network alone " + score(c.Network.NLL)})
	}
	return list
}

// cancellation says how much the terms cancel and what that means.
func (v *view) cancellation(s *section) string {
	c, other := float64(s.out.Cancellation), float64(s.out.RawCancellation)
	kernel := "prior"
	if v.page.Terms == gp.Raw {
		c, other, kernel = other, c, "posterior"
	}
	n := v.page.Report.Fit.Examples
	if math.IsNaN(c) || math.IsInf(c, 0) {
		return fmt.Sprintf("The %s contributions sum to zero, so the ratio by which they cancel is not defined.", count(n))
	}
	// Σ|v| = c|s| = up + down, s = up − down
	up, down := (c*math.Abs(s.s)+s.s)/2, (c*math.Abs(s.s)-s.s)/2
	d := decimals(up, down)
	text := fmt.Sprintf("All %s contributions pull up by %s and down by %s, which leaves %s: they cancel %s to 1. ",
		count(n), fixed(up, d), fixed(down, d), signed(s.s, d), ratio(c))
	switch {
	case c <= 3:
		text += "That is little, so the terms listed can be read one by one."
	case c <= 10:
		text += "That is a good deal: read the terms for and against together, not one by one."
	default:
		text += "That is nearly everything: what pulls up and what pulls down are almost in balance, and no single term decides."
	}
	if !math.IsNaN(other) && !math.IsInf(other, 0) {
		text += fmt.Sprintf(" (The same sum written in the %s kernel cancels %s to 1.)", kernel, ratio(other))
	}
	return text
}

func ratio(c float64) string { return fixed(c, max(0, decimals(c)-2)) }

// closing says what the remainder is.
func (v *view) closing(s *section) string {
	if v.page.Report.Fit.Refit {
		return "f is the network as trained. The contributions explain the posterior mean, prior mean + contributions; the remainder is what the network says beyond it."
	}
	return "f is the network as trained. The remainder is how far its parameters are from the optimum at which the contributions would add up to it."
}

// how names the method by which a posterior was computed, "" for the exact one.
func (f *Fit) how() string {
	switch f.Method {
	case "subset":
		return fmt.Sprintf("exact for a subset of %s", some(int(f.Inducing), "example", "examples"))
	case "nystrom":
		return fmt.Sprintf("a Nyström approximation with %s", some(int(f.Inducing), "inducing example", "inducing examples"))
	case "cg":
		return "exact, by conjugate gradients"
	}
	return ""
}

// bounded says on which side of the exact evidence a bound lies.
func (f *Fit) bounded() string {
	switch f.Bound {
	case "upper":
		return "; not below the exact one"
	case "lower":
		return "; not above the exact one"
	}
	return ""
}

// largeRemainder is the ratio of remainder to f, or to the sum of contributions if
// that is larger, above which the text mentions it.
const largeRemainder = 0.25

// posteriorText says what a reader of the text should know about the posterior,
// or nothing.
func (v *view) posteriorText() string {
	f, text := &v.page.Report.Fit, ""
	if how := f.how(); how != "" && f.Inducing >= 0 {
		text = "The posterior is " + how + "."
		if f.TraceError.Finite() && f.TraceError > 0 {
			text += fmt.Sprintf(" They leave %.2g %% of the prior variance of the training examples unexplained.", 100*float64(f.TraceError))
		}
	}
	for i := range v.sections {
		if s := &v.sections[i]; (s.open || v.kind != classes) && !f.Refit && math.Abs(s.remainder) > largeRemainder*math.Max(math.Abs(s.f), math.Abs(s.s)) {
			return strings.TrimSpace(text + " The remainder is large: the network's parameters are far from the optimum under this prior precision. A refit explains without one.")
		}
	}
	return text
}
