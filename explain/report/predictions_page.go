package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
)

// A PredictionPage shows Predictions as text or HTML.
type PredictionPage struct {
	Predictions *result.Predictions
	// Quantity names the target of a regression, such as "price"; empty means
	// "target".
	Quantity string
	// Test and Train return the pictures of a test and of a training row; nil shows
	// none.
	Test, Train func(row result.Index) result.Picture
	result.Origin
}

// These types hold the data of the template.
type (
	htmlPredictions struct {
		Eyebrow   string
		Head      string
		Columns   []string
		Scores    []htmlScore
		Sentences []string
		Diagrams  *htmlFigure
		Novelty   *htmlFigure
		Lists     []htmlListed
		htmlFrame
	}
	htmlScore struct {
		Name, Note string
		Values     []htmlValue
	}
	htmlValue  struct{ Value, SE string }
	htmlFigure struct {
		Title    string
		Notes    []string
		Legend   []htmlKey
		Diagrams []htmlDiagram
	}
	htmlKey struct{ Class, Text string }
)

const (
	listedRows = 24 // rows of a list at most
	fewRows    = 20 // fewest rows for which a diagram is drawn
)

// WriteHTML writes the page as one HTML document that contains its styles and
// images, loads nothing, and has no script.
func (p *PredictionPage) WriteHTML(w io.Writer) error {
	r := p.Predictions
	out, rows := originWriter(p.Origin, &r.Fit, &r.Timings), result.Some(r.Len(), "test row", "test rows")
	table := p.table()
	h := &htmlPredictions{
		Eyebrow: rows, Head: p.heading(), Columns: table.columns,
		Sentences: p.sentences(), Diagrams: p.diagrams(), Novelty: p.noveltyFigure(), htmlFrame: out.frame("Predictions of "+rows, p.guide()),
	}
	for _, l := range table.lines {
		s := htmlScore{Name: l.name, Note: l.note}
		for _, x := range l.values {
			value, se, _ := strings.Cut(x, " ± ")
			s.Values = append(s.Values, htmlValue{Value: typeset(value), SE: se})
		}
		h.Scores = append(h.Scores, s)
	}
	for i, say := range h.Sentences {
		h.Sentences[i] = typeset(say)
	}
	texts := [][]string{h.Sentences}
	for _, f := range []*htmlFigure{h.Diagrams, h.Novelty} {
		if f != nil {
			texts = append(texts, f.Notes)
		}
	}
	for _, list := range texts {
		for i := range list {
			list[i] = together(list[i])
		}
	}
	var err error
	if h.Lists, err = p.lists(out); err != nil {
		return err
	}
	return execute(w, "predictions.html", h)
}

// heading states the most important result in words.
func (p *PredictionPage) heading() string {
	r := p.Predictions
	_, s, _ := r.Scores()
	switch {
	case r.Len() == 1:
		if r.Classes == nil && r.Labels == nil {
			return "Expected " + p.predicted(&r.Test[0])
		}
		return "Predicted " + p.predicted(&r.Test[0])
	case s.Rows == 0:
		return "Predictions"
	case r.Labels != nil:
		return percent(float64(s.Accuracy)) + " of the labels predicted correctly"
	case r.Classes == nil:
		return fmt.Sprintf("Predicted %s, RMSE %s", cmp.Or(p.Quantity, "target"), scoreText(s.RMSE))
	case s.Rows < fewRows:
		return fmt.Sprintf("%.0f of %d predicted correctly", float64(s.Accuracy)*float64(s.Rows), s.Rows)
	}
	return percent(float64(s.Accuracy)) + " predicted correctly"
}

// truth names the kind of true answer that the data hold for a row: label or target.
func (p *PredictionPage) truth() string {
	if p.Predictions.Classes == nil && p.Predictions.Labels == nil {
		return "target"
	}
	return "label"
}

// truthOf returns the true label or target of a row in words.
func (p *PredictionPage) truthOf(d *result.Digest) string {
	if p.Predictions.Labels != nil {
		return d.Truth
	}
	if p.Predictions.Classes == nil {
		return typeset(p.nameOf(d.Label))
	}
	return p.nameOf(d.Label)
}

// diagrams returns diagrams that show whether the predicted probabilities are right, or a text that says why this
// cannot be checked.
func (p *PredictionPage) diagrams() *htmlFigure {
	r := p.Predictions
	f := &htmlFigure{Title: "Are the probabilities right?"}
	if r.Classes == nil && r.Labels == nil {
		f.Title = "Are the error bars right?"
	}
	_, s, _ := r.Scores()
	if s.Rows < fewRows {
		if s.Rows > 0 {
			f.Notes = []string{fmt.Sprintf("Whether they are shows in how often predictions come true. With %s that cannot be told, so no diagram is drawn.", result.Some(s.Rows, "row", "rows"))}
			return f
		}
		return nil
	}
	two := []struct {
		title, class string
		of           func(*result.Digest) *result.Outcome
	}{{"Network alone", "against", result.NetworkAlone}, {"Calibrated", "for", result.WithCovariance}}
	f.Legend = []htmlKey{{"band", "where 95 % of the points would lie if the probabilities were right"}}
	if r.Classes == nil && r.Labels == nil {
		for _, x := range two {
			// Take the distribution functions at the targets of the test rows, where they are numbers.
			of := x.of
			var v []float64
			for i := range r.Test {
				if u := of(&r.Test[i]).CDF; !math.IsNaN(u) {
					v = append(v, u)
				}
			}
			if cdf := v; len(cdf) >= fewRows {
				// Draw the share of targets inside the central interval of each probability, with the band in which
				// it lies if the intervals are right, and the histogram of the distribution function at the targets
				// in a strip.
				title := x.title
				class := x.class
				d := htmlDiagram{Title: title, Class: class, Height: "440", XName: "probability of the interval; below: predicted P(Y < target)", YName: "share of targets inside"}
				d.frame(plot, shares, shares)
				d.Guide = path([]float64{plot.x(0), plot.x(1)}, []float64{plot.y(0), plot.y(1)})
				n := len(cdf)
				points := score.CoverageOf(cdf, coverageLevels)
				px, py, lo, hi := []float64{plot.x(0)}, []float64{plot.y(0)}, []float64{plot.y(0)}, []float64{plot.y(0)}
				for k, c := range points {
					px, py, lo, hi = append(px, plot.x(c.Nominal)), append(py, plot.y(c.Empirical)), append(lo, plot.y(c.BandLo)), append(hi, plot.y(c.BandHi))
					if k%2 == 1 {
						d.Points = append(d.Points, htmlPoint{X: coordinate(px[k+1]), Y: coordinate(py[k+1]), R: "3.5",
							Title: fmt.Sprintf("the %s interval holds %s of %s", percent(c.Nominal), percent(c.Empirical), result.Some(n, "target", "targets"))})
					}
				}
				px, py, lo, hi = append(px, plot.x(1)), append(py, plot.y(1)), append(lo, plot.y(1)), append(hi, plot.y(1))
				d.Line, d.Band = path(px, py), bandPath(px, lo, hi)
				// Draw the histogram of the distribution function at the targets, which is flat if the predictive
				// distributions are right.
				const bars = 20
				var rows [bars]int
				most := 0
				for _, u := range cdf {
					b := min(bars-1, max(0, int(u*bars)))
					rows[b]++
					most = max(most, rows[b])
				}
				top := 1.05 * math.Max(float64(most), 1.5*float64(len(cdf))/bars)
				d.frame(strip, shares, map[float64]string{0: "0", float64(most) / top: result.Count(most)})
				for b, n := range rows {
					h := float64(n) / top
					lo, hi := float64(b)/bars, float64(b+1)/bars
					d.Bars = append(d.Bars, htmlBox{X: coordinate(strip.x(lo) + 1), W: coordinate(strip.x(hi) - strip.x(lo) - 2), Y: coordinate(strip.y(h)), H: coordinate(strip.height * h),
						Title: fmt.Sprintf("%s between %s and %s", result.Some(n, "target", "targets"), fixed(lo, 2), fixed(hi, 2))})
				}
				flat := strip.y(float64(len(cdf)) / bars / top)
				d.Guide += path([]float64{strip.x(0), strip.x(1)}, []float64{flat, flat})
				d.Label = fmt.Sprintf("Coverage, %s, %s", strings.ToLower(title), result.Some(n, "row", "rows"))
				f.Diagrams = append(f.Diagrams, d)
			}
		}
		if f.Diagrams == nil {
			return nil
		}
		f.Notes = []string{
			"The central interval of each probability, from the narrowest to the widest, should hold that share of the targets: the points should follow the dashed line. A curve under it means that the error bars are too narrow, over it that they are too wide.",
			"The bars below count where in its predictive distribution each target lies. They should be level; high ends mean that many targets are farther out than predicted.",
		}
		return f
	}
	x, y := "largest probability of a row; below: number of rows", "share where that class is the label"
	points := "Rows with about the same largest probability form a point. If 90 % is said, 90 % should be right: the points should follow the dashed line. Points under it mean too much confidence, over it too little."
	if len(r.Classes) == 2 {
		name := signs(p.nameOf(r.Classes[1]))
		x, y = fmt.Sprintf("probability of %s; below: number of rows", shorten(name, 24)), fmt.Sprintf("share of rows labelled %s", shorten(name, 24))
		points = fmt.Sprintf("Rows with about the same probability of %s form a point. Of the rows for which it is 90 %%, 90 %% should be labelled %s: the points should follow the dashed line.", name, name)
	}
	if r.Labels != nil {
		x, y = "probability of a label; below: number of labels", "share of them that the rows have"
		points = "Labels with about the same probability, of all rows, form a point. Of the labels for which it is 90 %, rows should have 90 %: the points should follow the dashed line."
	}
	for sums, d := range two {
		// With two classes the event is that the label is the second class, and with more that it is the most
		// probable one.
		var prob []float64
		var happened []bool
		if r.Labels != nil {
			prob, happened = r.Labelled(sums == 1)
		} else if len(r.Classes) != 2 {
			prob, happened = r.Hits(r.Test, d.of)
		} else {
			for i := range r.Test {
				if o := d.of(&r.Test[i]); !math.IsNaN(o.LogDensity) {
					prob, happened = append(prob, o.Second), append(happened, r.Test[i].Label == r.Classes[1])
				}
			}
		}
		// 1000 resamples for the band, and fewer but at least 200 for more than 5000 rows, to keep the time bounded
		resamples := max(200, min(1000, 5_000_000/max(1, len(prob))))
		f.Diagrams = append(f.Diagrams, reliabilityDiagram(d.title, d.class, score.Reliability(prob, happened, resamples), x, y))
	}
	f.Notes = []string{points, "The bars below count the rows of each point on a logarithmic scale. Small points of few rows scatter, so compare with the band, which is drawn by simulation for exactly these rows."}
	return f
}

// noveltyFigure compares the distances of test rows and of training rows from the training data.
func (p *PredictionPage) noveltyFigure() *htmlFigure {
	r := p.Predictions
	test, training := scoresOf(r.Test), scoresOf(r.Training)
	if len(test) < fewRows {
		return nil
	}
	f := &htmlFigure{Title: "How far from the training data?", Legend: []htmlKey{{"for", "test rows"}}, Diagrams: []htmlDiagram{histogram(test, training, "novelty, nats")}}
	f.Notes = []string{noveltyMeaning + " It does not say that a prediction is wrong."}
	if len(training) > 0 {
		f.Legend = append(f.Legend, htmlKey{"outline", "training rows, each predicted without itself"})
		f.Notes = append(f.Notes, "Where test rows come from the same source as the training rows, bars and outline agree. Bars beyond the outline are rows unlike any in training.")
	}
	if share, n := r.Beyond(result.NoveltyTail); n >= fewRows {
		f.Notes = append(f.Notes, fmt.Sprintf("%s of the test rows are farther out than %s of the training rows; about %s is to be expected.", percent(share), percent(result.NoveltyTail), percent(1-result.NoveltyTail)))
	}
	return f
}

// scoresOf returns the novelty of the rows, without rows whose novelty is not a number.
func scoresOf(rows []result.Digest) []float64 {
	var v []float64
	for i := range rows {
		if rows[i].Novelty.Score.Finite() {
			v = append(v, float64(rows[i].Novelty.Score))
		}
	}
	return v
}

// lists returns a list of all rows if they are few, and otherwise lists of the rows that surprise most.
func (p *PredictionPage) lists(w *htmlWriter) (lists []htmlListed, err error) {
	r := p.Predictions
	add := func(title, note string, rows []*result.Digest, picture func(result.Index) result.Picture) {
		if len(rows) == 0 || err != nil {
			return
		}
		var list *htmlListed
		list, err = w.list(p.list(title, note, rows), picture)
		if err == nil {
			lists = append(lists, *list)
		}
	}
	if r.Len() <= listedRows {
		add("The predictions", "", pointers(r.Test), p.Test)
	} else {
		add("The most surprising test rows", fmt.Sprintf("The rows whose %[1]s the calibrated prediction thinks least likely. If the %[1]ss are right, these are its worst mistakes.", p.truth()), least(r.Test, surprise), p.Test)
		add("The test rows farthest from the training data", "The rows of largest novelty. What the model says of them rests on little.", least(r.Test, func(d *result.Digest) float64 { return -float64(d.Novelty.Score) }), p.Test)
	}
	add("The most surprising training rows", fmt.Sprintf("The training rows that the model predicts worst when it is fitted without them. Look here first for wrong %ss and for examples that are one of a kind.", p.truth()), least(r.Training, surprise), p.Train)
	return lists, err
}

// list returns a list of rows with their predictions and their labels or targets. It leaves out columns without
// information.
func (p *PredictionPage) list(title, note string, rows []*result.Digest) *List {
	r := p.Predictions
	l := &List{Title: title, Note: note, Label: p.truth()}
	for _, d := range rows {
		l.Items = append(l.Items, ListItem{Row: ListedRow{Index: d.Index, ID: d.ID, Label: p.truthOf(d)}})
	}
	column := func(name string, value func(d *result.Digest) string) {
		if !slices.ContainsFunc(rows, func(d *result.Digest) bool { return value(d) != "" }) {
			return
		}
		l.Columns = append(l.Columns, name)
		for i, d := range rows {
			l.Items[i].Values = append(l.Items[i].Values, value(d))
		}
	}
	number := func(x float64, show func(float64) string) string {
		if math.IsNaN(x) {
			return ""
		}
		return show(x)
	}
	if r.Labels != nil {
		column("predicted", func(d *result.Digest) string {
			if d.Calibrated.Right < 1 {
				return "✗ " + p.predicted(d)
			}
			return p.predicted(d)
		})
		column("labels right", func(d *result.Digest) string { return number(d.Calibrated.Right, percent) })
	} else if r.Classes == nil {
		column("expected", p.predicted)
	} else {
		column("predicted", func(d *result.Digest) string {
			if d.Label.Finite() && d.Calibrated.Top >= 0 && r.Classes[d.Calibrated.Top] != d.Label {
				return "✗ " + p.predicted(d)
			}
			return p.predicted(d)
		})
		column("with probability", func(d *result.Digest) string { return number(d.Calibrated.Confidence, Probability) })
		column("of its label", func(d *result.Digest) string { return number(d.Calibrated.Truth, Probability) })
	}
	if r.Coverage != nil {
		column(percent(float64(r.Coverage.Share)), p.region)
	}
	column("novelty", func(d *result.Digest) string { return number(float64(d.Novelty.Rank), percent) })
	return l
}

// surprise returns the log density of the label. Sorted by it, the least expected rows come first.
func surprise(d *result.Digest) float64 { return d.Calibrated.LogDensity }

func pointers(rows []result.Digest) []*result.Digest {
	list := make([]*result.Digest, len(rows))
	for i := range rows {
		list[i] = &rows[i]
	}
	return list
}

// least returns the rows of the smallest values, smallest first, without those whose
// value is NaN. Ties stay in order.
func least(rows []result.Digest, value func(*result.Digest) float64) []*result.Digest {
	list := slices.DeleteFunc(pointers(rows), func(d *result.Digest) bool { return math.IsNaN(value(d)) })
	slices.SortStableFunc(list, func(a, b *result.Digest) int { return cmp.Compare(value(a), value(b)) })
	return list[:min(listedRows, len(list))]
}

// predicted names the class that is predicted for a row, or the expected target.
func (p *PredictionPage) predicted(d *result.Digest) string {
	o := &d.Calibrated
	switch {
	case p.Predictions.Labels != nil:
		return d.Says
	case p.Predictions.Classes == nil:
		k := decimals(o.Expected, o.SD)
		return typeset(fixed(o.Expected, k)) + "\u00a0±\u00a0" + typeset(fixed(o.SD, k))
	case o.Top < 0:
		return "–"
	}
	return signs(p.nameOf(p.Predictions.Classes[o.Top]))
}

// region returns the interval or the set of a row as text, or "" if it has none.
func (p *PredictionPage) region(d *result.Digest) string {
	switch {
	case d.Region.Interval != nil && d.Region.Empty():
		return "no value"
	case d.Region.Interval != nil:
		lo, hi := float64(d.Region.Interval[0]), float64(d.Region.Interval[1])
		k := decimals(lo, hi)
		end := func(x float64) string {
			if math.IsInf(x, 0) {
				return strings.Replace(fmt.Sprintf("%+g", x), "Inf", "∞", 1)
			}
			return fixed(x, k)
		}
		return typeset(end(lo)) + " to " + typeset(end(hi))
	case d.Size == 0:
		return "no class"
	case d.Size > 0:
		var labels []string
		for _, k := range d.Region.Set {
			labels = append(labels, signs(p.nameOf(k)))
		}
		if more := int(d.Size) - len(labels); more > 0 {
			labels = append(labels, fmt.Sprintf("and %d more", more))
		}
		return strings.Join(labels, ", ")
	}
	return ""
}

// nameOf names a label by its class, if classes have names.
func (p *PredictionPage) nameOf(l result.Float) string {
	return cmp.Or(p.Predictions.NameOf(l), label(l))
}

// guide explains the terms that the page uses.
func (p *PredictionPage) guide() []fact {
	r := p.Predictions
	list := []fact{
		{Name: "Network alone", Value: "What the trained network says by itself, with no uncertainty about its parameters."},
		{Name: "Calibrated", Value: "Averaged over the networks that fit the training data. How much they may differ, the posterior covariance, is scaled, and for classes the outputs are taken times a temperature of at most 1, and shifted where the shares of the classes are not those of the data, so that rows the model was not fitted to are as probable as possible."},
	}
	if len(r.Training) > 0 || r.Fit.Calibration != nil {
		list = append(list, fact{Name: "Expected by " + p.source(), Value: "The calibrated scores on rows that the model has not seen, estimated before any test row is looked at. " +
			"By leave-one-out, every training row is predicted by the model fitted without it, in closed form."})
	}
	list = append(list, fact{Name: "NLL", Value: "Mean of −log of the probability, or density, given to what turned out true. It rewards being right and knowing how sure to be. After ± stands its standard error."})
	if r.Labels != nil {
		list = append(list, fact{Name: "ECE", Value: "Expected calibration error: the labels of all rows are put in 15 bins by the larger of the probabilities that the row has it and has it not, and in each bin this probability is compared with the share that is right."},
			fact{Name: "Label-wise ECE", Value: "The same for each label by itself: rows are put in 15 bins by its probability, which is compared with the share of rows that have it. The mean over the labels. It shows labels that are expected too often, which ECE may hide."})
	}
	if r.Classes != nil {
		list = append(list, fact{Name: "ECE", Value: "Expected calibration error: rows are put in 15 bins by their largest probability, and in each bin this probability is compared with the share that is right."},
			fact{Name: "Class-wise ECE", Value: "The same for each class by itself: rows are put in 15 bins by its probability, which is compared with the share of rows of that class. The mean over the classes. It shows classes that are expected too often, which ECE may hide."})
	}
	return append(list, fact{Name: "Novelty in per cent", Value: "The rank of a row's novelty: the share of the training rows that are less novel when each is predicted without itself."})
}
