package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
)

// labelWord returns the noun for what the data say about a row: label or target.
func (v *view) labelWord() string {
	if v.kind == regression {
		return "target"
	}
	return "label"
}

// title returns the row's name with a capital letter, or the name of an input file unchanged.
func (v *view) title() string {
	if i := v.page.Report.Input; i.Index < 0 || i.ID != "" {
		return v.row
	}
	return capital(v.row)
}

// capital returns the sentence with a capital first letter.
func capital(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:size]) + s[size:]
}

// side returns the name of a term's colour: for if it is positive, against if it is negative.
func side(x float64) string {
	if x < 0 {
		return "against"
	}
	return "for"
}

// pull says in which direction terms of this sign move the prediction.
func (v *view) pull(s *section, sign int) string {
	switch {
	case v.kind == regression && s.out.Contrast == nil && sign > 0:
		return "up"
	case v.kind == regression && s.out.Contrast == nil:
		return "down"
	case sign > 0:
		return "for " + s.plus
	case (v.kind == classes || v.kind == labels) && s.out.Contrast == nil:
		return "against " + s.plus
	}
	return "for " + s.minus
}

// sideTitles returns the headings of the lists of positive and negative terms.
func (v *view) sideTitles(s *section) (up, down string) {
	if v.kind == regression && s.out.Contrast == nil {
		return "Raise it", "Lower it"
	}
	return capital(v.pull(s, +1)), capital(v.pull(s, -1))
}

// words sets the texts of a section, in terms of the data's classes or quantity, and the section's
// sign.
func (v *view) words(s *section) error {
	o, class := s.out, v.page.Classes
	c := v.page.Report.Fit.Outputs
	switch {
	case o.Contrast != nil:
		a, b := o.Contrast.Plus, o.Contrast.Minus
		if min(a, b) < 0 || max(a, b) >= c {
			return fmt.Errorf("report: the report contrasts outputs %d and %d of %d", a, b, c)
		}
		if s.plus, s.minus = v.page.column(a), v.page.column(b); v.kind == classes {
			s.plus, s.minus = class[a], class[b]
			s.quantity = fmt.Sprintf("log-odds of %s against %s", s.plus, s.minus)
		} else {
			s.quantity = s.plus + " minus " + s.minus
		}
		s.title = fmt.Sprintf("Why %s rather than %s", s.plus, s.minus)
	case int(o.Output) < 0 || int(o.Output) >= c:
		return fmt.Errorf("report: the report explains output %d of %d", o.Output, c)
	case v.kind == binary:
		s.plus, s.minus = class[v.predicted], class[1-v.predicted]
		if v.predicted == 0 {
			s.sign = -1
		}
		s.title = fmt.Sprintf("Why %s rather than %s", s.plus, s.minus)
		s.quantity = fmt.Sprintf("log-odds of %s against %s", s.plus, s.minus)
	case v.kind == labels:
		s.plus = v.page.column(int(o.Output))
		s.minus = "not " + s.plus
		s.title = "What speaks for and against " + s.plus
		s.quantity = "log-odds of " + s.plus
	case v.kind == classes:
		s.plus, s.minus = class[o.Output], "other classes"
		s.title = fmt.Sprintf("What speaks for and against %s", class[o.Output])
		s.quantity = fmt.Sprintf("score of %s", class[o.Output])
	default:
		s.quantity = cmp.Or(v.page.Quantity, "prediction")
		s.title = "What raises and lowers the " + s.quantity
		if c > 1 {
			s.title = "What raises and lowers " + v.page.column(int(o.Output))
			if s.quantity += ", " + v.page.column(int(o.Output)); v.page.Columns != nil {
				s.quantity = v.page.column(int(o.Output))
			}
		}
		s.plus, s.minus = "higher values", "lower values"
	}
	return nil
}

// column names an output of a regression.
func (p *Page) column(k int) string {
	if k < len(p.Columns) {
		return p.Columns[k]
	}
	return fmt.Sprintf("output %d", k)
}

// novelty says how far the row is from the training data, or "" if that is not known.
func (v *view) novelty() string {
	n := v.page.Report.Prediction.Novelty
	if n == nil || !n.Score.Finite() || !n.Rank.Finite() {
		return ""
	}
	than := percent(float64(n.Rank)) + " of the training rows are"
	if n.Rank == 1 {
		than = "any training row"
	}
	return "This row is farther from the training data than " + than + " from the others (novelty " + result.Short(float64(n.Score)) + " nats)."
}

// changes describes in sentences what would be predicted with other training data.
func (v *view) changes() []string {
	var say []string
	if c := v.page.Report.Without; c != nil {
		say = append(say, v.changed(c, fmt.Sprintf("Without %s, row%s %s,", examples(len(c.Rows)), plural(len(c.Rows)), result.List(c.Rows))))
	}
	if c := v.page.Report.Flip; c != nil {
		say = append(say, v.changed(c, fmt.Sprintf("With %s, row%s %s, labelled %s,", examples(len(c.Rows)), plural(len(c.Rows)), result.List(c.Rows), labelList(c))))
	}
	if c := v.page.Report.SmallestFlip; c != nil {
		say = append(say, v.smallestFlip(c))
	}
	return say
}

// smallestFlip names the training rows whose removal changes the class.
func (v *view) smallestFlip(c *result.SmallestFlip) string {
	if !c.Found {
		return fmt.Sprintf("No set of training examples was found without which the class is another: without %s chosen greedily f is %s from another class, instead of %s.",
			result.Some(c.Left, "example", "examples"), result.Short(float64(c.Margin[1])), result.Short(float64(c.Margin[0])))
	}
	lead := fmt.Sprintf("Without %s, row%s %s, the smallest set found whose removal changes the class,", examples(len(c.Rows)), plural(len(c.Rows)), result.List(c.Rows))
	text := v.changed(&c.Changed, lead)
	if c.Confirmed {
		text += " A fit from scratch without them has that class too."
	}
	return text + " The search is greedy: a smaller set may exist."
}

// changed describes the prediction after a change of the training data.
func (v *view) changed(c *result.Changed, lead string) string {
	const how = ": changed by what the linearized model changes by when it is fitted again to these data, with the trained features as they are."
	if v.kind == labels {
		var list []string
		for k, p := range c.Probability {
			before, _, _ := v.certainty(k)
			list = append(list, fmt.Sprintf("%s %s instead of %s", v.page.column(k), Probability(float64(p)), Probability(before)))
		}
		return lead + " the probabilities would be " + strings.Join(list, ", ") + how
	}
	if v.kind == regression {
		var list []string
		for k, m := range c.Mean {
			before, _ := v.latent(k)
			d := decimals(before, math.Abs(float64(m)-before)/10)
			list = append(list, fixed(float64(m), d)+" instead of "+fixed(before, d))
		}
		return lead + " the mean of f would be " + strings.Join(list, ", ") + how
	}
	name := v.page.Classes
	k := 0
	for i, p := range c.Probability {
		if p > c.Probability[k] {
			k = i
		}
	}
	after := float64(c.Probability[k])
	before, _, _ := v.certainty(v.average)
	if mean, _ := v.latent(0); v.kind == binary && len(c.Mean) == 1 && len(v.sections) > 0 {
		sign := v.sections[0].sign
		d := decimals(mean, float64(c.Mean[0])-mean)
		lead += fmt.Sprintf(" f would be %s instead of %s, and", fixed(sign*float64(c.Mean[0]), d), fixed(sign*mean, d))
	}
	if k == v.average {
		return fmt.Sprintf("%s the prediction would stay %s, with probability %s instead of %s%s", lead, name[k], Probability(after), Probability(before), how)
	}
	return fmt.Sprintf("%s the prediction would be %s with probability %s instead of %s with %s%s", lead, name[k], Probability(after), name[v.average], Probability(before), how)
}

// examples names n training examples.
func examples(n int) string {
	if n == 1 {
		return "this training example"
	}
	return fmt.Sprintf("these %d training examples", n)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// labelList lists the labels of the rows of a flip, or a single label if all are the same.
func labelList(c *result.Changed) string {
	var list []string
	for i, l := range c.Labels {
		if c.LabelNames != nil {
			list = append(list, c.LabelNames[i])
		} else {
			list = append(list, label(l))
		}
	}
	if slices.Equal(list, slices.Repeat(list[:1], len(list))) {
		return list[0]
	}
	if len(list) > result.MostListed {
		list = append(list[:result.MostListed], "…")
	}
	return strings.Join(list, ", ")
}

// meaning explains the scores of the listed terms: what they are, their unit and their sign. It uses the given
// minus sign and the given name of the similarity.
func (s *section) meaning(minus, similarity string) string {
	together := ""
	if s.hasInfluence() {
		together = "influence: f with the example less without it, the other examples at half of their weight, in the same unit: its sums say what many examples do together; "
	}
	return fmt.Sprintf("Value: what the example adds to f, in the unit of f: + speaks for %s, %s for %s; removal: change of f without the example, in the same unit; %s%s: posterior correlation, no unit, %s1 to 1.", s.plus, minus, s.minus, together, similarity, minus)
}

// errorBarMeaning and layerMeaning explain error bars and layers to the reader of a page.
const (
	errorBarMeaning = "± sd, in the unit of f: how much the term would vary had the example's label been drawn anew from what the other examples predict for it; its square is what the example takes off the variance of f before calibration. * the term is more than two of these from 0."
	layerMeaning    = "Layer: the part of f that the examples contribute through its parameters, in the unit and with the sign of the terms. Each column adds up to the sum over all examples, or to the term of its row."
)

// hasErrorBars tells whether the listed terms have error bars.
func (s *section) hasErrorBars() bool { return len(s.lines) > 0 && s.lines[0].spread != nil }

// hasInfluence tells whether the listed terms have an influence.
func (s *section) hasInfluence() bool { return len(s.lines) > 0 && s.lines[0].Influence != nil }

// influence formats the influence of a term. It is "" if it was not asked for.
func (l *line) influence(d int) string {
	if l.Influence == nil {
		return ""
	}
	return signed(float64(*l.Influence), d)
}

// errorBar formats the standard deviation of a term, "" if it has none.
func (l *line) errorBar(d int) string {
	if l.spread == nil {
		return ""
	}
	return "± " + fixed(float64(*l.spread), d)
}

// mark returns a star for a term that is distinguishable from 0.
func (l *line) mark() string {
	if l.spread != nil && l.Distinguishable != nil && *l.Distinguishable {
		return "*"
	}
	return ""
}

// cancellation says how much the terms cancel, and explains what this means.
func (v *view) cancellation(s *section) string {
	c, other := float64(s.out.Cancellation), float64(s.out.RawCancellation)
	kernel := "prior"
	if v.page.Terms == gp.RawTerms {
		c, other, kernel = other, c, "posterior"
	}
	n := v.page.Report.Fit.Examples
	if math.IsNaN(c) || math.IsInf(c, 0) {
		return fmt.Sprintf("The %s contributions sum to zero, so the ratio by which they cancel is not defined.", result.Count(n))
	}
	// Σ|v| = c|s| = up + down, s = up − down
	up, down := (c*math.Abs(s.s)+s.s)/2, (c*math.Abs(s.s)-s.s)/2
	d := decimals(up, down)
	text := fmt.Sprintf("All %s contributions pull %s by %s and %s by %s, which leaves %s: they cancel %s to 1. ",
		result.Count(n), v.pull(s, +1), fixed(up, d), v.pull(s, -1), fixed(down, d), signed(s.s, d), ratio(c))
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

// closing explains the remainder of the sum.
func (v *view) closing(s *section) string {
	if k := v.networks(); k > 1 {
		return fmt.Sprintf("f is the mean output of the %d networks as trained, and every number the mean over them. Prior mean and contributions are those of the refits, the linearized models at their optimum for the training rows. The remainder is %s.", k, remainderMeaning)
	}
	f := &v.page.Report.Fit
	if f.Inference != "" {
		return "Prior mean and contributions add up to the mean of the variational posterior of the linearized model, which is the prediction; the remainder is 0."
	}
	if f.Refit {
		return "Prior mean and contributions add up to the refit, the linearized model at its optimum for the training rows, which is the prediction; the remainder is 0."
	}
	if f.Match == nil {
		return "f is the network as trained. The remainder is how far its parameters are from the optimum at which the contributions would add up to it."
	}
	text := "f is the network as trained. Prior mean and contributions are those of the refit, the linearized model at its optimum for the training rows. The remainder is " + remainderMeaning + "."
	if f.Match.Remainder > largeShare {
		text += fmt.Sprintf(" Over the training rows the remainders are %s of the outputs (RMS): so much of this network the contributions do not explain.", result.Short(float64(f.Match.Remainder)))
	}
	return text
}

// remainderMeaning is the remainder in plain words.
const remainderMeaning = "the rest of the network's output, which no training example explains"

// largeShare is the share of the outputs of training rows above which a page mentions the remainders.
const largeShare = 0.2

// largeRemainder is the ratio of remainder to f, or to the sum of contributions if
// that is larger, above which the text mentions it.
const largeRemainder = 0.25

// posteriorText says what a reader of the text should know about the posterior,
// or nothing.
func (v *view) posteriorText() string {
	f, text := &v.page.Report.Fit, ""
	if how := fittedBy(f); how != "" && (f.Inducing >= 0 || f.Certificate != nil) {
		text = "The posterior is " + how + "."
		if k := f.Certificate; k != nil {
			text += " " + k.Text()
		}
		if f.TraceError.Finite() && f.TraceError > 0 {
			text += fmt.Sprintf(" They leave %.2g %% of the prior variance of the training examples unexplained.", 100*float64(f.TraceError))
		}
	}
	for i := range v.sections {
		if s := &v.sections[i]; !f.Refit && math.Abs(s.remainder) > largeRemainder*math.Max(math.Abs(s.f), math.Abs(s.s)) {
			return strings.TrimSpace(text + " The remainder is large: the contributions explain the linearized model at its optimum for the training rows, and no training example explains the rest of this output.")
		}
	}
	return text
}
