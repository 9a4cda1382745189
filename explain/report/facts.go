package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
)

// madeFromTitle is the heading of the names of files and commands that a page was made from.
const madeFromTitle = "What it was made from"

// A factGroup is a table of facts under a heading.
type factGroup struct {
	Title string
	Facts []fact
}

// facts returns the facts on a page or a card: what it was made from, what was assumed, what was checked, which
// rows were left out, and numbers for specialists. Facts without a value are left out.
func (v *view) facts() []factGroup {
	// Facts of the fit, or of the fits of several networks. A fact has one line if all networks agree, and
	// otherwise the value of each network in their order.
	of := func(facts func(f *result.Fit) []fact) []fact {
		r := v.page.Report
		if r.Networks == nil {
			return facts(&r.Fit)
		}
		var list []fact
		at := map[string]int{}
		same := map[string]bool{}
		for k := range r.Networks.Models {
			for _, x := range facts(&r.Networks.Models[k].Fit) {
				i, seen := at[x.Name]
				if !seen {
					at[x.Name], same[x.Name] = len(list), true
					list = append(list, x)
					continue
				}
				if first := &list[i]; same[x.Name] && (x.Value != first.Value || x.Note != first.Note) {
					same[x.Name] = false
				}
			}
		}
		for i := range list {
			x := &list[i]
			if same[x.Name] {
				continue
			}
			var values []string
			for k := range r.Networks.Models {
				for _, one := range facts(&r.Networks.Models[k].Fit) {
					if one.Name == x.Name {
						values = append(values, one.Value)
					}
				}
			}
			x.Value, x.Note = strings.Join(values, "; "), "network by network"
		}
		return list
	}
	list := []factGroup{
		{madeFromTitle, v.madeFrom()},
		{"What was assumed", of(assumptions)},
		{"What was checked", slices.Concat(of(checks), testFacts(v.page.Record.Test), decisionFacts(v.page.Report, v.page.Record.Scored))},
		{"What was left out of the data", of(func(f *result.Fit) []fact { return certificateFacts(f.Certificate) })},
		{"For specialists", of(numbersOf)},
	}
	for i := range list {
		list[i].Facts = slices.DeleteFunc(list[i].Facts, func(x fact) bool { return x.Value == "" || x.Value == "–" })
	}
	return slices.DeleteFunc(list, func(g factGroup) bool { return len(g.Facts) == 0 })
}

func (v *view) madeFrom() []fact {
	p := v.page
	r := &p.Record
	list := []fact{{"Model", p.Model, checksumText(r.ModelSHA256)}, {"Data", p.Data, ""}}
	for i, x := range r.Networks {
		list = append(list, fact{fmt.Sprintf("Network %d", i+1), x.Name, checksumText(x.SHA256)})
	}
	for i, x := range r.DataSHA256 {
		if i == 0 && (len(r.DataSHA256) == 1 || x.Name == p.Data) {
			list[1].Note = checksumText(x.SHA256)
			continue
		}
		list = append(list, fact{"File of the data", x.Name, checksumText(x.SHA256)})
	}
	if n := p.Report.Fit.Examples; n > 0 {
		list = append(list, fact{"Training rows", result.Count(n), "rows are numbered as in their file, from 0"})
	}
	if x := p.Report.Fit.Preprocessing; x != nil {
		list = append(list, fact{"Inputs", x.Inputs, x.Origin}, fact{"Target", x.Target, ""}, fact{"Targets", x.Targets, ""})
	}
	list = append(list, fact{"Classes", groupedText(p.Report.Fit.Grouped), ""})
	for _, note := range p.Report.Input.Notes {
		list = append(list, fact{"The row's file", note, ""})
	}
	made := ""
	if !r.Date.IsZero() {
		made = r.Date.Format("2 January 2006, 15:04 UTC") + strings.Replace(strings.TrimSuffix(r.Date.Format("-07:00"), "+00:00"), "-", "−", 1)
	}
	return append(list, fact{"Made", made, ""}, fact{"Program", r.Version, ""}, fact{"Command", r.Command, ""})
}

// decisionFacts returns the facts on which the decision for the row depends, and how exactly the sum adds up.
func decisionFacts(r *result.Report, x *result.Scored) (list []fact) {
	if x == nil {
		return nil
	}
	if x.Margin != nil {
		note := ""
		if x.Threshold != nil {
			note = "the threshold is a probability of " + result.Short(float64(*x.Threshold))
		}
		list = append(list, fact{"Margin of the class", result.Short(float64(*x.Margin)) + " of probability over the next", note})
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		name := "The sum adds up to"
		if len(r.Outputs) > 1 {
			name = fmt.Sprintf("The sum of output %d adds up to", o.Output)
			if o.Contrast != nil {
				name = "The sum of the difference adds up to"
			}
		}
		list = append(list, fact{name, result.Short(math.Abs(float64(o.Residual))), "rounding explains " + result.Short(float64(o.Tolerance))})
	}
	return list
}

// checksumText returns the text of a checksum, "" for none.
func checksumText(sum string) string {
	if sum == "" {
		return ""
	}
	return "SHA-256 " + sum
}

// assumptions returns the assumptions on which the numbers of the page rest.
func assumptions(f *result.Fit) []fact {
	list := []fact{{"Prior precision δ", result.Short(float64(f.PriorPrecision)), f.PriorPrecisionOrigin}}
	if f.Prior != nil {
		list[0] = fact{"Prior variances", PriorText(f.Prior), f.PriorPrecisionOrigin}
	}
	if f.NoiseVariance != nil {
		list = append(list, fact{"Noise variance σ²", result.Short(float64(*f.NoiseVariance)), f.NoiseVarianceOrigin})
	}
	posterior := "at the trained parameters (Laplace)"
	switch {
	case f.Inference != "":
		posterior = "the Gaussian with the largest lower bound on the evidence of the linearized model (variational)"
	case f.Refit:
		posterior = "at the optimum of the linearized model (refit)"
	case f.Match != nil:
		posterior = "mean of the network, covariance of the linearized model at its optimum (refit)"
	}
	if how := fittedBy(f); how != "" {
		posterior = how + ", " + posterior
	}
	list = append(list, fact{"Posterior", posterior, ""})
	if c := f.Calibration; c != nil {
		by, _ := calibratedBy(c)
		list = append(list, fact{"Scale of the covariance", result.Short(float64(c.Scale)), "makes " + by + " most probable"})
		if tempered(c) {
			list = append(list, fact{"Temperature of the mean", result.Short(float64(c.Temperature)), "probabilities are those of the outputs times this"})
		}
		if c.Shift != nil {
			list = append(list, fact{"Shift of the mean", shiftText(c), "added to the outputs before, so that each class is expected as often as it occurs"})
		}
		if c.NoiseScale != 1 {
			list = append(list, fact{"Scale of the noise variance", result.Short(float64(c.NoiseScale)), ""})
		}
	}
	return list
}

// checks returns the results that speak for or against trusting the numbers.
func checks(f *result.Fit) []fact {
	var list []fact
	if p := f.Preflight; p != nil {
		verdict := "✓ passed"
		if p.Verdict != "ok" {
			verdict = "✗ warnings: see the top of the page"
		}
		list = append(list, fact{"Network and data belong together", verdict, ""})
		if p.TrainAccuracy != nil {
			list = append(list, fact{"Accuracy on the training rows", percent(float64(*p.TrainAccuracy)), "the network alone, NLL " + scoreText(p.TrainNLL)})
		}
		if p.TrainRMSE != nil {
			list = append(list, fact{"RMSE on the training rows", result.Short(float64(*p.TrainRMSE)), "the network alone, NLL " + scoreText(p.TrainNLL)})
		}
		list = append(list, fact{"Largest input", result.Short(float64(p.LargestInput)), "in size, as the network sees it"})
	}
	list = append(list, fact{"Gradient norm at θ*", result.Short(float64(f.GradientNorm)), "0 where training has converged under its prior"})
	if m := f.Match; m != nil && m.Remainder.Finite() {
		list = append(list, fact{"Remainder of the training rows", result.Short(float64(m.Remainder)), "of the network's outputs (RMS): what the contributions do not explain"})
	}
	if c := f.Calibration; c != nil {
		by, scores := calibratedBy(c)
		if scores != nil {
			note := "NLL " + scoreText(scores.NLL) + ", network alone " + scoreText(c.Network.NLL)
			if scores.Accuracy.Finite() {
				list = append(list, fact{"Accuracy to expect", percent(float64(scores.Accuracy)), by + ", " + note})
			} else {
				list = append(list, fact{"NLL to expect", scoreText(scores.NLL), by + ", network alone " + scoreText(c.Network.NLL)})
			}
		}
	}
	return list
}

// testFacts returns the scores on test rows; t may be nil.
func testFacts(t *result.TestScores) []fact {
	if t == nil {
		return nil
	}
	on := "the network alone, on " + result.Some(t.Rows, "test row", "test rows") + ", NLL " + scoreText(t.NLL)
	if t.Accuracy.Finite() {
		return []fact{{"Test accuracy", percent(float64(t.Accuracy)), on}}
	}
	return []fact{{"Test RMSE", result.Short(float64(t.RMSE)), on}}
}

// numbersOf returns numbers for readers who know the theory.
func numbersOf(f *result.Fit) []fact {
	g := func(x result.Float) string { return result.Short(float64(x)) }
	parts := fmt.Sprintf("log likelihood %s, scatter %s, log determinant %s", g(f.LogLikelihood), g(f.Scatter), g(f.LogDet))
	if e := f.ELBO; e != nil {
		parts = fmt.Sprintf("expected log likelihood %s, less KL divergence %s", g(e.ExpectedLogLikelihood), g(e.KL))
	}
	list := []fact{
		{"Outputs C, parameters P", result.Count(f.Outputs) + ", " + result.Count(f.Parameters), ""},
		{"Log evidence", g(f.LogEvidence), "higher is a better model for the data" + map[string]string{"upper": "; not below the exact one", "lower": "; not above the exact one"}[f.Bound]},
		{"its parts", parts, ""},
	}
	if f.TraceError.Finite() && f.TraceError > 0 {
		list = append(list, fact{"Trace error", g(f.TraceError), "part of the prior variance of the training examples that the inducing ones do not explain"})
	}
	return list
}

// calibratedBy returns the name of the rows that a calibration was fitted to, and their scores.
func calibratedBy(c *result.Calibration) (rows string, scores *result.RowScores) {
	if c.Method == "heldout" {
		return result.Some(c.Rows, "held-out row", "held-out rows"), c.HeldOut
	}
	return result.Some(c.Rows, "training row", "training rows") + " by leave-one-out", c.LOO
}

// tempered tells whether the mean is scaled.
func tempered(c *result.Calibration) bool {
	return c.Temperature.Finite() && c.Temperature != 0 && c.Temperature != 1
}

// shiftText lists the shift of the mean of each output.
func shiftText(c *result.Calibration) string {
	var parts []string
	for _, v := range c.Shift {
		parts = append(parts, result.Short(float64(v)))
	}
	return strings.Join(parts, ", ")
}

// Basis says in sentences what the numbers of a fit rest on: the prior and its origin, the preprocessing, how
// well the network fits its training rows, and how the model and the data were interpreted.
func Basis(f *result.Fit) string {
	of := func(name string, value result.Float, origin string) string {
		if !(value > 0) {
			return "" // the fit does not state it
		}
		text := name + " = " + result.Short(float64(value))
		if origin != "" {
			text += " (" + origin + ")"
		}
		return text
	}
	parts := []string{of("δ", f.PriorPrecision, f.PriorPrecisionOrigin)}
	if f.Prior != nil {
		parts[0] = fmt.Sprintf("prior variances %s (%s)", PriorText(f.Prior), f.PriorPrecisionOrigin)
	}
	if f.NoiseVariance != nil {
		parts = append(parts, of("σ²", *f.NoiseVariance, f.NoiseVarianceOrigin))
	}
	if x := f.Preprocessing; x != nil {
		inputs := "inputs: " + x.Inputs
		if x.Origin != "" {
			inputs += " (" + x.Origin + ")"
		}
		parts = append(parts, inputs)
		if x.Target != "" {
			parts = append(parts, "target: "+x.Target)
		}
		if x.Targets != "" {
			parts = append(parts, "targets: "+x.Targets)
		}
	}
	if text := groupedText(f.Grouped); text != "" {
		parts = append(parts, text)
	}
	parts = append(parts, lossText(f.Loss))
	if p := f.Preflight; p != nil {
		fits := "the network on its training rows: "
		if p.TrainAccuracy != nil {
			fits += "accuracy " + percent(float64(*p.TrainAccuracy)) + ", "
		}
		if p.TrainRMSE != nil {
			fits += "RMSE " + result.Short(float64(*p.TrainRMSE)) + ", "
		}
		parts = append(parts, fits+"NLL "+scoreText(p.TrainNLL)+", gradient norm "+result.Short(float64(p.GradientNorm)))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	text := ""
	if len(parts) > 0 {
		text = strings.Join(parts, "; ") + "."
	}
	for _, w := range f.Remarks {
		text += " " + clean(w.Error())
	}
	return strings.TrimSpace(text)
}

// lossText describes how the loss differs from −log of the likelihood of the labels. It is "" if it does not.
func lossText(l *result.Loss) string {
	if l == nil {
		return ""
	}
	const most = 10
	var parts []string
	if n := len(l.ClassWeights); n > 0 {
		text := "class weights "
		for i, w := range l.ClassWeights[:min(n, most)] {
			if i > 0 {
				text += ", "
			}
			text += result.Short(float64(w))
		}
		if n > most {
			text += ", …"
		}
		parts = append(parts, text+" ("+l.ClassWeightsOrigin+")")
	}
	if l.LabelSmoothing > 0 {
		parts = append(parts, "label smoothing "+result.Short(float64(l.LabelSmoothing)))
	}
	if l.RowWeights != "" {
		parts = append(parts, "weights of rows "+l.RowWeights)
	}
	return "loss: " + strings.Join(parts, ", ")
}

// fittedBy names the method by which a posterior was computed, "" for the exact one.
func fittedBy(f *result.Fit) string {
	switch f.Method {
	case "subset":
		return fmt.Sprintf("exact for a subset of %s", result.Some(int(f.Inducing), "example", "examples"))
	case "kept":
		return fmt.Sprintf("exact for the %s of the training data that say most", result.Some(f.Certificate.Kept, "row", "rows"))
	case "nystrom":
		return fmt.Sprintf("a Nyström approximation with %s", inducingOf(f))
	case "parameters":
		return "exact, by the precision of the parameters"
	case "weights":
		text := fmt.Sprintf("over the parameters, with the structure %s", f.Structure)
		if f.Draws > 0 {
			text += fmt.Sprintf(" and %s of networks", result.Some(f.Draws, "draw", "draws"))
		}
		return text
	}
	return ""
}

// inducingOf says in words how many inducing elements there are.
func inducingOf(f *result.Fit) string {
	if f.Approximation != nil && f.Approximation.Select == result.SelectStrength {
		return result.Some(int(f.Inducing), "inducing row", "inducing rows") + " (an example with a direction of its Λ)"
	}
	return result.Some(int(f.Inducing), "inducing example", "inducing examples")
}

// groupedText says how many classes a posterior of grouped classes distinguishes. It is "" if it distinguishes all.
func groupedText(g *result.Grouped) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%s of %s classes told apart; the others, with probability %s in the mean, are one", result.Count(len(g.Kept)), result.Count(g.Of), result.Short(float64(g.Others)))
}

// priorMeaning is the prior mean in plain words.
const priorMeaning = "what the trained features say before any label is used"

// noveltyMeaning says what novelty is.
const noveltyMeaning = "How surprising it is that a training row lies so far from the others, by what they leave unknown of the function and by the inputs: about 1 for rows like the training rows, 4.6 for one farther out than 99 % of them. It does not depend on labels."

// guide explains the words that the page uses.
func (h *htmlWriter) guide() []fact {
	list := h.terms()
	if h.novelty() != "" {
		list = append(list, fact{Name: "Novelty, in nats", Value: noveltyMeaning})
	}
	return list
}

func (h *htmlWriter) terms() []fact {
	n := result.Count(h.page.Report.Fit.Examples)
	what := "the covariance of what is still unknown at the example and at this row, times what the example's label asks of the function there"
	if h.page.Terms == gp.RawTerms {
		what = "the prior kernel between the example and this row, times the example's dual weight"
	}
	retrained := ""
	if h.kind == regression {
		retrained = " What a network becomes that is trained without them they do not foretell in a regression."
	}
	list := []fact{
		{Name: "Contribution", Value: "The prediction is a sum: what the trained features say before any label is used, plus one term for each of the " + n + " training examples, plus a remainder. A term is " + what + ". All are counted, the largest are listed: these examples hold the prediction together." + retrained},
		{Name: "Before any label is used", Value: "The prior mean: what the network, linearized where training ended, says with its parameters set back to the prior mean. Its features were learnt from the same data, so it is no view from outside, and it differs from row to row."},
		{Name: "Without it", Value: "Removal: how far f would move if the example were taken out and the model fitted again, to first order. It is usually smaller than the contribution, because other examples make up for the loss. Go by it for single examples."},
		{Name: "Similarity", Value: "The posterior correlation, −1 to 1: near 1, whatever is learnt about one row holds for the other. A negative one turns the example's label round."},
		{Name: "Remainder", Value: "What the trained network says beyond the sum, which is the linearized model at its optimum for the training rows. No training example explains it. Where it is large, the sum explains another function than the network."},
	}
	if h.sections[0].hasInfluence() {
		list = slices.Insert(list, 3, fact{Name: "Influence", Value: "How far f with the example is from f without it, to first order, when every other example has half of its weight, as on average over halves of the examples. Its sums go with what networks become that are trained on halves: go by it for many examples together."})
	}
	if h.kind == regression {
		return append(list,
			fact{Name: "±", Value: "One standard deviation. That of f says how much networks that fit the training data differ; that of a new observation has the noise of the targets in it as well."},
			fact{Name: "95 % interval", Value: "Where a new observation lies with probability 95 %, if noise and prior are as assumed."},
			prior)
	}
	more, speaks := "one class is than the other", "the predicted class"
	if h.kind == labels {
		more, speaks = "it is that the row has the label than that it has not", "the label"
	}
	return append(list,
		fact{Name: "Log-odds, f", Value: "The logarithm of how many times more probable " + more + ": 0 is even, 2.2 is 9 to 1, 4.6 is 99 to 1. Positive speaks for " + speaks + "."},
		fact{Name: "±", Value: "One posterior standard deviation: how much the number differs between networks that fit the training data."},
		fact{Name: "Against its own label", Value: "An example may speak against the class it is labelled with. Either it is unlike this row, or the model already goes too far for it and it pulls back."},
		prior)
}

var prior = fact{Name: "Prior precision δ", Value: "How strongly the linearized model holds the parameters near zero, as weight decay does in training. Unless another was asked for, it is the precision at which this model fits the training rows as the network does. Small δ means wide error bars, large δ narrow ones."}

// certificateFacts returns a table of the most informative rows and of how much the other rows could change.
func certificateFacts(k *result.Certificate) []fact {
	if k == nil {
		return nil
	}
	list := []fact{{"Rows kept", result.Count(k.Kept), fmt.Sprintf("hold %.4g %% of tr Λ; a row is a training example with an eigenvector of its Λ", 100*float64(k.Trace))}}
	if k.Dropped == 0 {
		return append(list, fact{"Rows left out", "0", "the posterior is exact"})
	}
	of := result.Short(float64(k.DroppedTrace))
	if k.DroppedTraceError > 0 {
		of += " ± " + result.Short(float64(k.DroppedTraceError))
	}
	sure := "Exact, from all rows left out."
	switch {
	case k.Sampled:
		sure = fmt.Sprintf("Estimated: intervals of 95 %%, from a sample of %s of the rows left out. They are no bounds; --certify looks at all of them.", result.Count(k.Rows))
	case k.Failure > 0:
		sure = fmt.Sprintf("Bounds from all rows left out; the probability that one does not hold is %.1g.", float64(k.Failure))
	}
	list = append(list, fact{"Rows left out", result.Count(k.Dropped), "the strength of each is at most " + result.Short(float64(k.Threshold)) + ": its λ times its prior variance"})
	never, below, measured := ", and never below it", "that of the kept rows is below, with the log evidence", "at most, for 99 % of the rows asked about"
	if k.Representatives > 0 {
		list = append(list, fact{"Representatives", result.Count(k.Representatives), "rows that stand for those left out: a sample, each with the weight of several"})
		never, below, measured = "", "that of the rows with representatives is near", "at most, it or that of all rows, for 99 % of the rows asked about: two standard errors"
	}
	return append(list,
		fact{"What they could still tell, tr M", of, "λ times the posterior variance, summed over them: 0 where they would change nothing"},
		fact{"of it in one direction, ‖M‖₂", between(k.Norm), "the most"},
		fact{"Variance, at most", fmt.Sprintf("%.4g times", float64(k.VarianceAtMost)), "that of all rows, for any input" + never + ": 1 + ‖M‖₂"},
		fact{"Variance, measured", fmt.Sprintf("%.4g times", float64(k.Ratio)), measured},
		fact{"Log determinant of all rows", between(k.LogDet), below},
		fact{"How sure this is", sure, ""},
	)
}

// between shows an interval, or a single number if its ends look the same.
func between(v [2]result.Float) string {
	lo, hi := result.Short(float64(v[0])), result.Short(float64(v[1]))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}

// mostGroups is the largest number of groups of a prior that are listed in text.
const mostGroups = 6

// PriorText lists the variances of the groups.
func PriorText(p *result.Prior) string {
	var list []string
	for i, g := range p.Groups {
		if i == mostGroups && len(p.Groups) > mostGroups+1 {
			list = append(list, fmt.Sprintf("and of %s", result.Some(len(p.Groups)-i, "more group", "more groups")))
			break
		}
		list = append(list, g.Name+": "+result.Short(float64(g.Variance)))
	}
	text := strings.Join(list, ", ")
	if p.Kind == "g" {
		text += " over the mean Fisher information of each parameter"
	}
	if p.Held > 0 {
		text += "; " + result.Some(p.Held, "parameter is", "parameters are") + " held, as no training output depends on them"
	}
	return text
}
