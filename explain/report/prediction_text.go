package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// WriteText writes the scores as plain text of at most the given number of columns, which is raised
// to 60 if smaller; 0 means 80. First comes a table of scores: of the network alone, of the
// calibrated predictions, and as expected by leave-one-out.
func (p *PredictionPage) WriteText(w io.Writer, columns int) error {
	fit := &p.Predictions.Fit
	t := newText(fit, columns)
	table := p.table()
	lines := [][]string{append([]string{result.Some(p.Predictions.Len(), "test row", "test rows")}, table.columns...)}
	for _, m := range table.lines {
		lines = append(lines, append([]string{"  " + m.name}, m.values...))
	}
	width := -len(columnGap)
	for _, w := range columnWidths(lines) {
		width += len(columnGap) + w
	}
	if width > t.columns {
		// Without standard errors and with shorter headings it fits in 60 columns.
		for i, line := range lines {
			for k := range line {
				line[k], _, _ = strings.Cut(strings.TrimPrefix(line[k], "expected by "), " ± ")
			}
			lines[i] = line
		}
	}
	t.grid("", lines, true)
	t.gap()
	for _, say := range p.sentences() {
		t.wrap("", clean(say))
	}
	t.wrap("", originWriter(p.Origin, fit, &p.Predictions.Timings).posteriorText())
	t.wrap("", clean(Basis(fit)))
	return t.end(w, fit)
}

// WriteRows writes the predictions as a table, one line for each row in order. Names are shortened to fit the given
// number of columns if possible; 0 means 80.
func (p *PredictionPage) WriteRows(w io.Writer, columns int) error {
	t := &textWriter{columns: max(60, cmp.Or(columns, 80))}
	lines := listLines(p.list("", "", pointers(p.Predictions.Test)))
	const shortest = 12
	widths := columnWidths(lines)
	most := slices.Max(widths)
	for ; most > shortest; most-- {
		width := 0
		for _, w := range widths {
			width += len(columnGap) + min(w, most)
		}
		if width <= t.columns {
			break
		}
	}
	for _, line := range lines {
		for i := range line {
			line[i] = shorten(line[i], most)
		}
	}
	t.grid("  ", lines, false)
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("report: writing text: %w", err)
	}
	return nil
}

// A scoreTable has a line for each score that applies.
type scoreTable struct {
	columns []string
	lines   []scoreLine
}

type scoreLine struct {
	name, note string
	values     []string
}

// table compares the scores of the network alone, those of calibrated predictions, and the expected scores.
func (p *PredictionPage) table() scoreTable {
	network, calibrated, expected := p.Predictions.Scores()
	all := []*result.Scores{&network, &calibrated}
	t := scoreTable{columns: []string{"network alone", p.averaged()}}
	if expected.Rows > 0 {
		all, t.columns = append(all, &expected), append(t.columns, "expected by "+p.source())
	}
	line := func(name, note string, value func(*result.Scores) (string, bool)) {
		l, any := scoreLine{name: name, note: note}, false
		for _, s := range all {
			x, known := value(s)
			any = any || known
			l.values = append(l.values, x)
		}
		if any {
			t.lines = append(t.lines, l)
		}
	}
	plain := func(of func(*result.Scores) result.Float) func(*result.Scores) (string, bool) {
		return func(s *result.Scores) (string, bool) { return scoreText(of(s)), !math.IsNaN(float64(of(s))) }
	}
	nll, right, classwise, each, ranks := "mean negative log likelihood, in nats: the lower the better", "share of rows whose most probable class is the label", "class-wise ECE", "the same of each class's probability against its share, mean over the classes", "a row of the second class ranks above one of the first"
	if p.Predictions.Labels != nil {
		nll, right, classwise, each, ranks = "mean negative log likelihood of all labels of a row, in nats: the lower the better", "share of all labels of all rows that are right, by a probability above or below one half", "label-wise ECE", "the same of each label's probability against its share, mean over the labels", "a label that a row has ranks above one that it has not"
	}
	line("accuracy", right, plain(func(s *result.Scores) result.Float { return s.Accuracy }))
	line("RMSE", "root mean squared distance of the target from the one expected", plain(func(s *result.Scores) result.Float { return s.RMSE }))
	line("NLL", nll, func(s *result.Scores) (string, bool) {
		if !s.NLLSE.Finite() {
			return scoreText(s.NLL), !math.IsNaN(float64(s.NLL))
		}
		return scoreText(s.NLL) + " ± " + fixed(float64(s.NLLSE), scoreDecimals(float64(s.NLL))), true
	})
	line("ECE", "how far confidence and accuracy are apart on average, 0 at best", plain(func(s *result.Scores) result.Float { return s.ECE }))
	line(classwise, each, plain(func(s *result.Scores) result.Float { return s.Classes }))
	line("Brier", "mean squared distance of the probabilities from 0 and 1", plain(func(s *result.Scores) result.Float { return s.Brier }))
	line("AUROC", "probability that "+ranks, plain(func(s *result.Scores) result.Float { return s.AUROC }))
	line(percent(float64(calibrated.Level))+" coverage", "share of targets inside the central interval of that probability", plain(func(s *result.Scores) result.Float { return s.Covered }))
	return t
}

// scoreText formats a score with four decimals, or with four figures where it is above ten or below a thousandth.
func scoreText(f result.Float) string {
	if math.IsInf(float64(f), 0) {
		return strings.TrimPrefix(fmt.Sprint(float64(f)), "+")
	}
	return fixed(float64(f), scoreDecimals(float64(f)))
}

func scoreDecimals(x float64) int {
	if a := math.Abs(x); a < 10 && (a >= 1e-3 || a == 0) {
		return 4
	}
	return decimals(x)
}

// percent formats a share in per cent with at most one decimal, or with more near 0 and 1, so that
// the text is 0 or 100 only if the share is.
func percent(share float64) string {
	for d := 1; d <= 6; d++ {
		s := fixed(100*share, d)
		if v, err := strconv.ParseFloat(s, 64); err != nil || (v != 0 || share == 0) && (v != 100 || share == 1) {
			return strings.TrimSuffix(s, ".0") + " %"
		}
	}
	return strconv.FormatFloat(100*share, 'g', 9, 64) + " %"
}

// source names the rows from which the expected scores come.
func (p *PredictionPage) source() string {
	if c := p.Predictions.Fit.Calibration; c != nil && c.Method == "heldout" && len(p.Predictions.Training) == 0 {
		return "held-out rows"
	}
	return "leave-one-out"
}

// averaged returns the adjective for predictions that average over the posterior: calibrated, or averaged for
// a posterior over the parameters without calibration.
func (p *PredictionPage) averaged() string {
	if f := &p.Predictions.Fit; f.Method == "weights" && f.Calibration == nil {
		return "averaged"
	}
	return "calibrated"
}

// sentences returns sentences that explain the table and the calibration.
func (p *PredictionPage) sentences() []string {
	r := p.Predictions
	var say []string
	unlabelled, undefined := 0, 0
	for i := range r.Test {
		switch d := &r.Test[i]; {
		case !d.Scored:
			unlabelled++
		case math.IsNaN(d.Calibrated.LogDensity):
			undefined++
		}
	}
	switch n := unlabelled; {
	case n == r.Len() && n > 0:
		say = append(say, "No label is known, so nothing can be scored.")
	case n == 1:
		say = append(say, "1 row without a label is not scored.")
	case n > 1:
		say = append(say, result.Count(n)+" rows without a label are not scored.")
	}
	switch n := undefined; {
	case n == 1:
		say = append(say, "The prediction of 1 row is not a number; it is not scored.")
	case n > 1:
		say = append(say, "The predictions of "+result.Count(n)+" rows are not numbers; they are not scored.")
	}
	if d, se := r.Gain(); d.Finite() && se.Finite() {
		word := p.averaged()
		say = append(say, strings.Replace(verdict(float64(d), float64(se)), "Calibrated", strings.ToUpper(word[:1])+word[1:], 1))
	}
	if text := calibrationText(r.Fit.Calibration); text != "" {
		say = append(say, "Calibration: "+text+".")
	}
	if r.Fit.Method == "weights" {
		say = append(say, "The posterior is "+fittedBy(&r.Fit)+".")
	}
	if text := p.missed(); text != "" {
		say = append(say, text)
	}
	if c := r.Covered(); c != nil && c.Rows > 0 {
		// Say how many targets the intervals or sets contain.
		kind, size := "intervals", ""
		if c.Size != nil {
			kind, size = "sets", "they have "+fixed(float64(*c.Size), 2)+" classes on average"
		} else {
			size = "their mean width is " + result.Short(float64(*c.Width))
		}
		text := fmt.Sprintf("The %s %s hold the %s of %s of the rows (95 %% band %s to %s); %s", percent(float64(c.Share)), kind, p.truth(),
			percent(float64(c.Measured)), percent(float64(c.Band[0])), percent(float64(c.Band[1])), size)
		if c.Empty > 0 {
			text += ", " + result.Some(c.Empty, "is empty", "are empty")
		}
		say = append(say, (text + "."))
	}
	if share, n := r.Beyond(result.NoveltyTail); n >= fewRows {
		say = append(say, fmt.Sprintf("%s of the test rows are farther from the training data than %s of the training rows (%s would be, if both came from the same source).",
			percent(share), percent(result.NoveltyTail), percent(1-result.NoveltyTail)))
	}
	return say
}

// missed says that the scores of test rows differ from the expected scores by more than chance explains. It is
// "" otherwise.
func (p *PredictionPage) missed() string {
	_, test, expected := p.Predictions.Scores()
	d, se := float64(test.NLL-expected.NLL), math.Hypot(float64(test.NLLSE), float64(expected.NLLSE))
	if rounding := 1e-9 * math.Abs(float64(test.NLL)); !(math.Abs(d) > 3*se+rounding) || math.IsInf(d, 0) {
		return ""
	}
	k, side, also := scoreDecimals(d), "lower", ""
	if d > 0 {
		side, also = "higher", ", or the network has fitted the noise of these, which leave-one-out cannot take out of its features"
	}
	return fmt.Sprintf("The calibrated NLL is %s than expected by %s, by %s ± %s: the test rows may be unlike the training rows%s.",
		side, p.source(), fixed(math.Abs(d), k), fixed(se, k), also)
}

// verdict says whether calibrated predictions are better than those of the network. d is the mean difference of
// the negative log likelihoods, and se its standard error.
func verdict(d, se float64) string {
	k, side := scoreDecimals(d), "higher"
	if d < 0 {
		side = "lower"
	}
	text := fmt.Sprintf("their NLL is %s by %s ± %s nats a row.", side, fixed(math.Abs(d), k), fixed(se, k))
	switch {
	case d < -2*se:
		return "Calibrated predictions are better than the network alone: " + text
	case d > 2*se:
		return "Calibrated predictions are worse than the network alone: " + text
	}
	return "Calibrated predictions are as good as the network alone, up to chance: " + text
}

// calibrationText says how the covariance was scaled, or "" without a calibration.
func calibrationText(c *result.Calibration) string {
	if c == nil {
		return ""
	}
	by := "by leave-one-out over " + result.Some(c.Rows, "training row", "training rows")
	if c.Method == "heldout" {
		by = "on " + result.Some(c.Rows, "held-out row", "held-out rows")
	}
	text := "posterior covariance × " + result.Short(float64(c.Scale))
	if tempered(c) {
		text += ", mean × " + result.Short(float64(c.Temperature))
	}
	if c.Shift != nil {
		text += ", outputs + (" + shiftText(c) + ") before"
	}
	if c.NoiseScale.Finite() && c.NoiseScale != 1 {
		text += ", noise variance × " + result.Short(float64(c.NoiseScale))
	}
	return text + ", " + by
}
