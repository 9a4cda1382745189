package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/funcgp/funcgp/explain/result"
)

// An EvidencePage shows the evidences of a model as functions of its prior precision. The Curve of its evidence
// must be set.
type EvidencePage struct {
	*result.Evidence
	Timings result.Timings
	result.Origin
}

type htmlEvidence struct {
	Eyebrow   string
	Head      string
	Sentences []string
	Figure    *htmlFigure
	Table     *htmlRows
	TableNote string
	htmlFrame
}

// WriteHTML writes the page as one self-contained HTML document.
func (p *EvidencePage) WriteHTML(w io.Writer) error {
	var list []string
	say := func(format string, args ...any) { list = append(list, typeset(fmt.Sprintf(format, args...))) }
	if o := p.Optimum; o != nil {
		say("The log evidence %s is highest here: %s, against %s at the start. %s", formNames[o.Form], result.Short(float64(o.Best.LogEvidence)), result.Short(float64(o.Start.LogEvidence)), p.found())
		if len(o.Zero) > 0 {
			say("The prior variance of %s runs to 0: the evidence is highest with these parameters at their prior mean, where they add no uncertainty. It says that the data do not ask for their freedom under this prior, not that the layer is useless.", names(o.Zero))
		}
		if len(o.Edge) > 0 {
			say("The search ended at the edge of its range for %s, where the evidence still rises: the data do not determine it.", names(o.Edge))
		}
		if !o.Settled {
			say("The last steps did not settle, so that this need not be the maximum.")
		}
		if len(o.Maxima) > 1 {
			say("%s were found; the next has log evidence %s.", capital(result.Some(len(o.Maxima), "maximum", "maxima")), result.Short(float64(o.Maxima[1].LogEvidence)))
		}
	}
	if len(p.Normalized) > 0 {
		say("The outputs do not depend on the scale of %s, as before a normalization. The trained parameters are then no mode under any Gaussian prior, and the evidence at them is not to be used. Choose a precision by that of the refit with the sites held.", names(p.Normalized))
	}
	h := &htmlEvidence{Eyebrow: result.Some(p.Fit.Examples, "training example", "training examples"), Head: p.heading(),
		Sentences: list, Figure: p.figure(), htmlFrame: originWriter(p.Origin, &p.Fit, &p.Timings).frame("Evidence of the model", evidenceGuide)}
	h.Table, h.TableNote = p.table()
	return execute(w, "evidence.html", h)
}

// formNames maps each evidence to its name in words.
var formNames = map[string]string{"at-theta": "at the trained parameters", "linear-gaussian": "of the linear-Gaussian model", "refit": "of the refit", "held-sites": "of the refit with the sites held"}

func (p *EvidencePage) heading() string {
	o := p.Optimum
	switch {
	case o == nil:
		return "Log evidence " + typeset(result.Short(float64(p.Curve.Values.Refit)))
	case len(o.Groups) > 1 || p.Curve.Several:
		return "Log evidence " + typeset(result.Short(float64(o.Best.LogEvidence))) + " at the best prior"
	}
	text := "Prior precision " + typeset(result.Short(1/float64(o.Best.Variances[0])))
	if o.Best.Noise != nil {
		text += ", noise variance " + typeset(result.Short(float64(*o.Best.Noise)))
	}
	return text
}

// names lists names in a sentence.
func names(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// found summarizes in a phrase how much was computed.
func (p *EvidencePage) found() string {
	o := p.Optimum
	return fmt.Sprintf("It took %s and %s of the evidence.", result.Some(o.Iterations, "step", "steps"), result.Some(len(o.Trajectory), "evaluation", "evaluations"))
}

// An evidenceLine is one of the curves of the figure.
type evidenceLine struct {
	form, class, dash, name string
	of                      func(v *result.EvidenceValues) result.Float
}

var evidenceLines = []evidenceLine{
	{"refit", "for", "", "at the optimum of the linearized model (refit)", func(v *result.EvidenceValues) result.Float { return v.Refit }},
	{"held-sites", "for", "dashed", "there with the curvature of the likelihood at the trained parameters (sites held), dashed", func(v *result.EvidenceValues) result.Float { return v.HeldSites }},
	{"linear-gaussian", "ink", "dashed", "of the linear-Gaussian model at the trained parameters, dashed", func(v *result.EvidenceValues) result.Float { return v.LinearGaussian }},
	{"at-theta", "against", "dotted", "at the trained parameters, dotted", func(v *result.EvidenceValues) result.Float { return v.AtTheta }},
}

// figure draws the evidences as functions of the precision.
func (p *EvidencePage) figure() *htmlFigure {
	var points []result.EvidenceCurvePoint
	var all []float64
	for _, c := range p.Curve.Points {
		if c.PriorPrecision > 0 && c.PriorPrecision.Finite() {
			points = append(points, c)
		}
	}
	slices.SortFunc(points, func(a, b result.EvidenceCurvePoint) int { return cmp.Compare(a.PriorPrecision, b.PriorPrecision) })
	for i := range points {
		for _, l := range evidenceLines {
			if v := l.of(&points[i].EvidenceValues); v.Finite() {
				all = append(all, float64(v))
			}
		}
	}
	if len(points) < 2 || len(all) == 0 {
		return nil
	}
	// Draw the upper three quarters of the values, and those that are marked.
	slices.Sort(all)
	lo, hi := all[len(all)/4], all[len(all)-1]
	for _, l := range evidenceLines {
		if v := l.of(&p.Curve.Values); v.Finite() {
			lo, hi = min(lo, float64(v)), max(hi, float64(v))
		}
	}
	room := 0.05 * max(hi-lo, 1e-3*math.Abs(hi), 1e-9)
	f := plotFrame{left: 78, top: 8, width: 350, height: 300}
	x, y := newAxis([]float64{float64(points[0].PriorPrecision), float64(points[len(points)-1].PriorPrecision)}), axis{lo: lo - room, hi: hi + room}
	name := "prior precision δ"
	if p.Curve.Several {
		name = "mean prior precision"
	}
	d := htmlDiagram{Class: "ink", Height: "328", XName: name, YName: "log evidence, nats",
		Label: "Log evidences over the precision of the prior"}
	d.frame(f, x.ticks(), y.ticks())
	g := &htmlFigure{Title: "The evidence over the precision of the prior"}
	for _, l := range evidenceLines {
		var px, py []float64
		for i := range points {
			px = append(px, x.at(float64(points[i].PriorPrecision)))
			py = append(py, y.at(float64(l.of(&points[i].EvidenceValues))))
		}
		px, py = above(px, py)
		for i := range px {
			px[i], py[i] = f.x(px[i]), f.y(py[i])
		}
		if line := path(px, py); line != "" {
			d.Lines = append(d.Lines, htmlCurve{l.class, l.dash, line})
			g.Legend = append(g.Legend, htmlKey{l.class, l.name})
		}
	}
	// Mark the prior shown, which is the optimum where there is one.
	if at := x.at(float64(p.Curve.At)); at >= 0 && at <= 1 {
		what := "the prior as given"
		if p.Optimum != nil {
			what = "the optimum"
		}
		d.Guide = path([]float64{f.x(at), f.x(at)}, []float64{f.y(0), f.y(1)})
		for _, l := range evidenceLines {
			v := l.of(&p.Curve.Values)
			if !v.Finite() || p.Optimum != nil && l.form != p.Optimum.Form {
				continue
			}
			d.Points = append(d.Points, htmlPoint{X: coordinate(f.x(at)), Y: coordinate(f.y(y.at(float64(v)))), R: "5",
				Title: fmt.Sprintf("%s: precision %s, log evidence %s", what, result.Short(float64(p.Curve.At)), result.Short(float64(v)))})
		}
	}
	g.Diagrams = []htmlDiagram{d}
	mark := "The dashed line marks the prior as given."
	if p.Optimum != nil {
		mark = "The dashed line and the point mark the optimum of the evidence " + formNames[p.Optimum.Form] + "."
	}
	list := []string{mark, "Higher is better. A difference of 1 nat is a factor of 2.7 in the probability of the training targets; differences of less decide little."}
	if !slices.ContainsFunc(p.Curve.Points, func(c result.EvidenceCurvePoint) bool { return c.AtTheta.Finite() }) {
		list = append(list, "The evidence at the trained parameters is −∞ under this prior, which holds parameters elsewhere.")
	}
	if p.Curve.Several {
		list = append(list, "All variances are scaled together here, in the proportions of the prior shown.")
	}
	g.Notes = append(list, "Only those at the optimum of the linearized model compare precisions fairly: at other precisions than that of training the trained parameters are no mode.")
	return g
}

// above cuts a curve into pieces where it falls below 0 or is not defined; NaN marks the cuts.
func above(x, y []float64) (cx, cy []float64) {
	add := func(a, b float64) { cx, cy = append(cx, a), append(cy, b) }
	for i := range x {
		in := y[i] >= 0
		if i > 0 && in != (y[i-1] >= 0) && !math.IsNaN(y[i]-y[i-1]) && !math.IsInf(y[i]-y[i-1], 0) {
			add(x[i-1]+(x[i]-x[i-1])*y[i-1]/(y[i-1]-y[i]), 0)
		}
		if in {
			add(x[i], y[i])
		} else {
			add(math.NaN(), math.NaN())
		}
	}
	return cx, cy
}

// mostFound is the largest number of groups that are listed in text.
const mostFound = 40

// WriteText writes the evidences as text. It does not wrap lines.
func (p *EvidencePage) WriteText(out io.Writer, _ int) error {
	e := p.Evidence
	return WriteFit(out, &e.Fit, func(w *tabwriter.Writer) {
		line := func(name string, v result.Float) {
			if v.Finite() || math.IsInf(float64(v), 0) {
				fmt.Fprintf(w, "%s\t%.6g\n", name, float64(v))
			}
		}
		line("log evidence at θ*", e.AtTheta)
		line("  log likelihood", e.LogLikelihood)
		line("  scatter", e.Scatter)
		line("  log det B", e.LogDet)
		line("log evidence, linear-Gaussian", e.LinearGaussian)
		line("log evidence, refit", e.Refit)
		line("log evidence, refit, sites held", e.HeldSites)
		elboText(w, e.ELBO)
		if e.Prior != nil {
			fmt.Fprintf(w, "prior variances\t%s\n", clean(PriorText(e.Prior)))
		} else {
			line("prior precision", e.PriorPrecision)
		}
		if e.AtThetaLower != nil {
			line("lower bound of that at θ*", *e.AtThetaLower)
			line("lower bound, linear-Gaussian", *e.LinearGaussianLower)
		}
		if k := e.Certificate; k != nil && k.Dropped > 0 {
			// The evidences have log det B of the kept rows.
			of := func(logDet result.Float) float64 { return float64(e.AtTheta) - float64(logDet-e.LogDet)/2 }
			fmt.Fprintf(w, "that at θ* of all rows\t%.6g to %.6g\n", of(k.LogDet[1]), of(k.LogDet[0]))
		}
		line("noise variance", e.NoiseVariance)
		if e.Optimum != nil {
			optimumText(w, e.Optimum)
		}
	})
}

// optimumText writes the variances under which the evidence is highest.
func optimumText(w io.Writer, o *result.EvidenceOptimum) {
	fmt.Fprintf(w, "\nlog evidence (%s) %.6g at the optimum, %.6g at the start, after %d steps and %d evaluations\n", o.Form, float64(o.Best.LogEvidence), float64(o.Start.LogEvidence), o.Iterations, len(o.Trajectory))
	table := optimumTable(o)
	for i, line := range table {
		if i == mostFound+1 && len(o.Groups) > mostFound+1 {
			fmt.Fprintf(w, "and %d more, which --json lists\n", len(table)-i)
			break
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	if o.Held > 0 {
		fmt.Fprintf(w, "%d parameters are held at their trained values: no training output depends on them\n", o.Held)
	}
	if o.File != "" {
		fmt.Fprintf(w, "wrote %s: give --prior %s to fit, predict, explain and others\n", o.File, o.File)
	}
}

// optimumTable lists groups of parameters with the variances found, under a line of column names.
func optimumTable(o *result.EvidenceOptimum) [][]string {
	what := "variance"
	if o.Kind == "g" {
		what = "g"
	}
	list := [][]string{{"group", "size", what + " at the start", what + " found", "inverse", "remark"}}
	add := func(name, size string, start, found result.Float) {
		inverse, remark := "infinite", ""
		if found != 0 {
			inverse = result.Short(1 / float64(found))
		}
		switch {
		case slices.Contains(o.Zero, name):
			remark = "runs to 0"
		case slices.Contains(o.Edge, name):
			remark = "at the edge of the range"
		}
		list = append(list, []string{clean(name), size, result.Short(float64(start)), result.Short(float64(found)), inverse, remark})
	}
	for i, name := range o.Groups {
		add(name, result.Count(o.Parameters[i]), o.Start.Variances[i], o.Best.Variances[i])
	}
	if o.Best.Noise != nil {
		add("noise", "", *o.Start.Noise, *o.Best.Noise)
	}
	return list
}

// table lists the groups, with what was found or the derivatives; nil for none.
func (p *EvidencePage) table() (*htmlRows, string) {
	note := "Size is the number of parameters."
	lines := [][]string{{"group", "size", "variance", "refit", "at θ*"}}
	switch o := p.Optimum; {
	case o != nil:
		if lines = optimumTable(o); o.Kind == "g" {
			note += " The factor g is the prior variance of a parameter times its mean Fisher information."
		}
	case len(p.Groups) == 0:
		return nil, ""
	default:
		note += " The last two columns are derivatives of the evidence of the refit and of that at the trained parameters in the logarithm of the variance: positive where a larger one would be better."
		for _, g := range p.Groups {
			lines = append(lines, []string{g.Name, result.Count(g.Parameters), result.Short(float64(g.Variance)), result.Short(float64(g.Gradient.Refit)), result.Short(float64(g.Gradient.AtTheta))})
		}
	}
	t := &htmlRows{}
	for _, name := range lines[0] {
		t.Columns = append(t.Columns, htmlCell{Value: capital(name)})
	}
	t.Columns[0].Class = "text"
	for _, line := range lines[1:] {
		var row []htmlCell
		for _, v := range line {
			row = append(row, htmlCell{Value: typeset(v)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t, note
}

// evidenceGuide explains the terms of the page.
var evidenceGuide = []fact{
	{Name: "Evidence", Value: "The probability of the training targets under the model, averaged over the prior. It rewards a model that fits and charges for freedom that it does not need, without validation data."},
	{Name: "Refit", Value: "The evidence at the optimum of the linearized model, which is found anew for every prior. With the sites held it takes the curvature of the likelihood at the trained parameters. The others hold these parameters."},
	{Name: "Sites held", Value: "Where the linearized model fits every training row, as networks with normalization often let it, the curvature at its optimum vanishes and the refit asks for far too small a precision. Held curvature does not vanish."},
	{Name: "Trust", Value: "On small problems leave-one-out predictions often choose a better precision than the evidence, and both tend to choose a small one: compare with --tune-prior loo."},
}
