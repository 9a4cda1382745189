package report

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// Two classes are explained so that what speaks for the predicted one is positive,
// whichever it is, and the JSON keeps the sign of the output.
func TestForIsPositive(t *testing.T) {
	for _, digit := range []int{4, 9} {
		p := newDemo(uint64(digit), 80, digit, 4, 9).page(t, float64(digit), &explain.Options{Sides: true, Similar: 3})
		v := testref.Must(p.view())(t)
		s, o := &v.sections[0], &p.Report.Outputs[0]
		require.Equal(t, digit == 9, o.Network > 0, "the demo predicts the digit")
		require.Positive(t, s.f)
		require.Equal(t, p.Classes[v.predicted], s.plus)
		require.InDelta(t, math.Abs(float64(o.Network)), s.f, 0)
		require.InDelta(t, s.f, s.m+s.s+s.remainder, 1e-12)
		fit, network := &p.Report.Fit, o.Network
		fit.Refit, o.Network = true, network+1
		refitted := testref.Must(p.view())(t)
		require.InDelta(t, s.f, refitted.sections[0].f, 1e-12, "the sum of a refit is its mean")
		fit.Refit, o.Network = false, network
		for _, l := range s.up {
			require.GreaterOrEqual(t, l.term, 0.0)
			require.Negative(t, float64(l.Removal)*l.term, "without it the prediction is less certain")
		}
		for _, l := range s.down {
			require.Negative(t, l.term)
		}
		require.Contains(t, text(t, p, 0), "Why "+s.plus+" rather than "+s.minus)
		require.Contains(t, text(t, p, 200), "log-odds of "+s.plus+" against "+s.minus)
	}
}

// What is listed and the subtotals of the rest add up to the sum of all, and their
// numbers of examples to N.
func TestUnlistedAddUp(t *testing.T) {
	for name, p := range pages(t) {
		v := testref.Must(p.view())(t)
		for i := range v.sections {
			s := &v.sections[i]
			listed := append(append([]line{}, s.up...), s.down...)
			n, sum := len(listed), total(listed)
			for _, b := range s.bulk(listed) {
				n, sum = n+b.n, sum+b.up+b.down
				require.GreaterOrEqual(t, b.up, -1e-12, name)
				require.LessOrEqual(t, b.down, 1e-12, name)
			}
			require.Equal(t, p.Report.Fit.Examples, n, name)
			require.InDelta(t, s.s, sum, 1e-9*float64(s.out.Cancellation)*math.Abs(s.s), name)
		}
	}
}

// Of many groups, those that matter least are shown as one, and nothing is lost.
func TestManyGroupsAreFolded(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	s := &section{sign: -1, out: &result.Output{}}
	var want bulk
	for k := range 40 {
		g := result.Subtotal{Label: result.Float(k), Examples: 1 + k, Positive: result.Float(rng.Float64()), Negative: result.Float(-rng.Float64())}
		s.out.Subtotals = append(s.out.Subtotals, g)
		want.n, want.up, want.down = want.n+g.Examples, want.up-float64(g.Negative), want.down-float64(g.Positive)
	}
	list := s.bulk(nil)
	require.Len(t, list, bulkLines)
	require.Equal(t, "the other 29 groups", list[bulkLines-1].name)
	for _, b := range list {
		want.n, want.up, want.down = want.n-b.n, want.up-b.up, want.down-b.down
	}
	require.Zero(t, want.n)
	require.InDelta(t, 0, want.up, 1e-12)
	require.InDelta(t, 0, want.down, 1e-12)
}

// Where network and average predict different classes, every form says so first.
func TestDisagreementComesFirst(t *testing.T) {
	p := newDemo(1, 60, 9, 4, 9).page(t, 4, nil)
	p.Classes = []string{"default", "repaid"}
	p.Report.Input.LabelName = "default"
	require.Equal(t, result.Float(9), p.Report.Prediction.Class)
	p.Report.Prediction.Probability = []result.Float{0.6, 0.4}
	out := text(t, p, 200)
	require.True(t, strings.HasPrefix(out, "test row 247, label default: UNDECIDED, repaid by the network, default on average\n"), out)
	require.Less(t, strings.Index(out, "Take the prediction as undecided."), strings.Index(out, "P(default)"))
	page := strings.ReplaceAll(html(t, p), "\u00a0", " ")
	require.Contains(t, page, "<h1>repaid or default: network and average disagree</h1>")
	require.Contains(t, page, "Calibrated and averaged over the networks that fit the training data, default is more probable: 0.600 ± ")
	require.Contains(t, page, "Labelled default: the average is right, the network is not")
	require.NotContains(t, page, "Correct")
	p.Report.Prediction.Probability = []result.Float{0.5, 0.5}
	require.NotContains(t, text(t, p, 0), "UNDECIDED", "an even average does not disagree")
}

// The warnings of the check of network and data come before everything else, once.
func TestAlarmsComeFirst(t *testing.T) {
	accuracy := result.Float(0.61)
	fit := result.Fit{Examples: 30, Outputs: 1, PriorPrecision: 1.5, PriorPrecisionOrigin: "N·λ = 1500 × 0.001, from --weight-decay",
		Preprocessing: &result.Preprocessing{Inputs: "(x − 0.1307)/0.3081", Targets: "as they are", Origin: "from --input-mean"},
		Preflight:     &result.Preflight{Verdict: "warning", TrainNLL: 1.25, TrainAccuracy: &accuracy, GradientNorm: 213, LargestInput: 9},
		Warnings:      linearize.Warnings{errors.New("a jitter"), &linearize.Warning{Code: "bad-fit", Text: "fits its rows badly"}}}
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, nil)
	p.Report.Fit = fit
	i := newDemo(1, 30, 9, 4, 9).importances(3)
	i.Fit = &fit
	d := drawnPage(30, 30, 4, 9)
	d.Predictions.Fit = fit
	for name, x := range map[string]interface {
		WriteText(io.Writer, int) error
		WriteHTML(io.Writer) error
	}{"explain": p, "importances": i, "predict": d} {
		var b, h bytes.Buffer
		require.NoError(t, x.WriteText(&b, 400))
		require.True(t, strings.HasPrefix(b.String(), "WARNING: fits its rows badly\n"), name)
		require.Equal(t, 1, strings.Count(b.String(), "fits its rows badly"), name)
		require.Contains(t, b.String(), "\nwarning: a jitter\n", name)
		require.Contains(t, b.String(), "δ = 1.5 (N·λ = 1500 × 0.001, from --weight-decay); inputs: (x − 0.1307)/0.3081 (from --input-mean); targets: as they are; the network on its training rows: accuracy 61 %, NLL 1.2500, gradient norm 213.", name)
		require.NoError(t, x.WriteHTML(&h))
		page := h.String()
		require.Equal(t, 1, strings.Count(strings.ToLower(page), "fits its rows badly"), name)
		require.Less(t, strings.Index(page, "Fits its rows badly"), strings.Index(page, "<h1>"), name)
		for _, want := range []string{"✗ warnings: see the top of the page", "from --weight-decay</small>", "Accuracy on the training rows", "from --input-mean</small>", "<li>a jitter</li>"} {
			require.Contains(t, page, want, name)
		}
	}
	p.Report.Fit.Preflight = &result.Preflight{Verdict: "ok", TrainNLL: 0.1, GradientNorm: 1, LargestInput: 2}
	p.Report.Fit.Warnings = p.Report.Fit.Warnings[:1]
	require.Contains(t, html(t, p), "✓ passed")
	require.NotContains(t, html(t, p), "class=\"alarm\"")
}

// A page says when, by what and from which files it was made.
func TestRecord(t *testing.T) {
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, nil)
	sum := strings.Repeat("0123456789abcdef", 4)
	p.Record = result.Record{Date: time.Date(2026, 3, 9, 14, 5, 0, 0, time.FixedZone("", -5400)), Version: "gpexplain v1.2.3", ModelSHA256: sum,
		DataSHA256: []result.FileSum{{Name: "a.csv", SHA256: sum}, {Name: "b.csv", SHA256: sum}}, Test: &result.TestScores{Rows: 1991, Accuracy: 0.992, RMSE: result.Undefined(), NLL: 0.0189}}
	page := html(t, p)
	for _, want := range []string{"9 March 2026, 14:05 UTC−01:30", "gpexplain v1.2.3", "<td>demo.onnx <small>SHA-256 " + sum, "<td>a.csv <small>SHA-256 " + sum, "<td>b.csv <small>SHA-256 " + sum,
		"Test accuracy</th><td>99.2 % <small>the network alone, on 1991 test rows, NLL 0.0189"} {
		require.Contains(t, page, want)
	}
	p.Record.DataSHA256 = p.Record.DataSHA256[:1]
	require.Contains(t, html(t, p), "<td>drawn digits <small>SHA-256 "+sum)
	p.Record.Test = &result.TestScores{Rows: 5, Accuracy: result.Undefined(), RMSE: 12.5, NLL: 3}
	require.Contains(t, html(t, p), "Test RMSE</th><td>12.5")
}

// A regression shows whether the target lies in the 95 % interval.
func TestInterval(t *testing.T) {
	p := tablePage(t)
	p.Report.Prediction.ObservationMean, p.Report.Prediction.ObservationSD, p.Report.Prediction.FunctionSD = []result.Float{1}, []result.Float{2}, []result.Float{0.5}
	p.Report.Prediction.Mean = []result.Float{1}
	p.Interval = []float64{-2.92, 4.92}
	v := testref.Must(p.view())(t)
	require.InDelta(t, 1+0.5*1.959964, v.interval().fhi, 1e-5)
	page := html(t, p)
	require.Contains(t, page, "Target 1.25, inside the 95 % interval")
	require.Contains(t, page, "95 % interval of a new observation: −2.92 to 4.92.")
	require.Contains(t, text(t, p, 0), "-2.920 to 4.920 with probability 95 %")
	p.Report.Input.Label = 5
	require.Contains(t, html(t, p), "Target 5, outside the 95 % interval")
	p.Interval = nil
	require.NotContains(t, html(t, p), "95 % interval of")
	p.Quantity, p.Interval, p.Report.Prediction.Mean = "log rate of visits", []float64{0, 7}, []result.Float{0}
	require.NotContains(t, html(t, p), "inner band")
	require.Contains(t, html(t, p), "95 % interval of a new observation: 0.00 to 7.00.")
}

// The table beside other rows marks what is at least half a standard deviation away
// and shows at most 20 features, those that differ most.
func TestComparison(t *testing.T) {
	p := tablePage(t)
	v := testref.Must(p.view())(t)
	h := &htmlWriter{view: v}
	p.Spread = []float64{10}
	for _, c := range []struct {
		here, there float64
		mark, class string
	}{{5, 5, "", "same"}, {5, 9.9, "", ""}, {5, 10, "▲", "differs"}, {5, 0, "▼", "differs"}, {5, 25, "▲▲", "far"}, {5, -15, "▼▼", "far"}, {5, math.NaN(), "", ""}} {
		got := h.cell(c.here, c.there, 0, false)
		require.Equal(t, [2]string{c.mark, c.class}, [2]string{got.Mark, got.Class}, c.there)
	}
	require.Equal(t, "3.14", h.feature(3.14159, 0), "no finer than a thousandth of the spread")
	require.Equal(t, "3.14159", h.feature(3.14159, 1), "as in the data")

	const features = 50
	rng := rand.New(rand.NewPCG(5, 5))
	var names []string
	values := make([][]float64, 60)
	for i := range values {
		values[i] = make([]float64, features)
	}
	p.Spread = make([]float64, features)
	for k := range features {
		names = append(names, strings.Repeat("very long feature name ", 2)+string(rune('A'+k%26)))
		p.Spread[k] = 1
		for i := range values {
			values[i][k] = rng.NormFloat64()
			if k < 20 {
				values[i][k] *= 30
			}
		}
	}
	p.Test = result.Picture{Names: names, Values: values[0]}
	p.Train = func(row result.Index) result.Picture { return result.Picture{Names: names, Values: values[row]} }
	v = testref.Must(p.view())(t)
	c := (&htmlWriter{view: v}).comparison(&v.sections[0])
	require.Len(t, c.Rows, comparedFeatures)
	require.Len(t, c.More, features-comparedFeatures)
	require.Equal(t, names[19], c.Rows[19].Name)
	require.Contains(t, c.Note, "The 20 of 50 features in which these rows differ most.")
	require.Len(t, c.Columns, 2*comparedRows)
	require.Contains(t, html(t, p), "The other 30 features of this row")
}

// Names of classes and rows are wherever a class or row is, on all pages.
func TestNamesAreShown(t *testing.T) {
	p := newDemo(1, 60, 9, 4, 9).page(t, 9, &explain.Options{Sides: true, Similar: 3})
	p.Classes = []string{"default", "covid-19"}
	p.Report.Input.LabelName, p.Report.Input.ID = "covid-19", "A-1031"
	for _, list := range [][]result.Contribution{p.Report.Outputs[0].Contributions, p.Report.Outputs[0].For, p.Report.Outputs[0].Against, p.Report.Outputs[0].Similar} {
		for i := range list {
			list[i].LabelName, list[i].ID = map[result.Float]string{4: "default", 9: "covid-19"}[list[i].Label], "B-7"
		}
	}
	out := text(t, p, 0)
	require.True(t, strings.HasPrefix(out, "A-1031, test row 247, label covid-19: predicted covid-19, correct\n"), out)
	require.Regexp(t, `\n +\d+  B-7  covid-19 `, out)
	page := html(t, p)
	require.Contains(t, page, "A-1031, test row 247")
	require.Contains(t, page, "<b>covid-19</b> <small>B-7, row\u00a0")
	require.NotContains(t, page, "covid−19")

	d := drawnPage(40, 40, 4, 9)
	d.Predictions.ClassNames = []string{"default", "covid-19"}
	page = predictionHTML(t, d)
	require.Contains(t, page, "probability of covid-19")
	require.Contains(t, page, "<b>default</b>")
	require.NotContains(t, page, "labelled 9")
}

// Rows of features are listed as a table, their first features beside them.
func TestRowsOfFeaturesAreATable(t *testing.T) {
	p := drawnPage(60, 40)
	page := predictionHTML(t, p)
	require.Equal(t, 3, strings.Count(page, `<table class="rows">`), "two lists of test rows, one of training rows")
	require.NotContains(t, page, "<figcaption>")
	rows := []result.Picture{{Values: []float64{1, 2, 3, 4, 5, 6, 7}, Names: []string{"a"}}, {Values: []float64{-1.5}}}
	table := newRowTable(rows, "Row")
	table.add(rows[0], htmlCell{Value: "row 3"})
	require.Len(t, table.Columns, 1+tableFeatures)
	require.Len(t, table.Rows[0], 1+tableFeatures)
	require.Equal(t, "and 2 other features", table.Columns[tableFeatures].Says)
	require.Nil(t, newRowTable([]result.Picture{result.Gray([]byte{1}, 1, 1)}))
	require.Nil(t, newRowTable([]result.Picture{{}}))
}

var (
	headings = regexp.MustCompile(`<h([1-6])`)
	ids      = regexp.MustCompile(` id="([^"]*)"`)
	cells    = regexp.MustCompile(`<th[ >][^>]*`)
	pictured = regexp.MustCompile(`<img [^>]*`)
	drawings = regexp.MustCompile(`<svg [^>]*`)
)

// What a screen reader needs: one first heading and no level left out, a scope for
// each heading of a table, a text or none for each picture, a language, and one
// landmark.
func TestPagesCanBeHeard(t *testing.T) {
	all := map[string]string{"importances": "", "predictions": predictionHTML(t, drawnPage(60, 40, 4, 9)), "targets": predictionHTML(t, drawnPage(60, 40))}
	var b bytes.Buffer
	require.NoError(t, newDemo(2, 30, 4, 4, 9).importances(6).WriteHTML(&b))
	all["importances"] = b.String()
	for name, p := range pages(t) {
		all[name] = html(t, p)
	}
	for name, page := range all {
		require.Contains(t, page, `<html lang="en">`)
		require.Equal(t, 1, strings.Count(page, "<main>"))
		last := byte('0')
		for i, h := range headings.FindAllStringSubmatch(page, -1) {
			require.True(t, h[1][0] <= last+1, "%s: h%s after h%c", name, h[1], last)
			require.Equal(t, i == 0, h[1] == "1", name)
			last = h[1][0]
		}
		seen := map[string]bool{}
		for _, id := range ids.FindAllStringSubmatch(page, -1) {
			require.False(t, seen[id[1]], "%s: id %s is there twice", name, id[1])
			seen[id[1]] = true
		}
		for _, c := range cells.FindAllString(page, -1) {
			require.Contains(t, c, "scope=", name)
		}
		for _, i := range pictured.FindAllString(page, -1) {
			require.Contains(t, i, "alt=", name)
		}
		for _, s := range drawings.FindAllString(page, -1) {
			require.True(t, strings.Contains(s, `aria-hidden="true"`) || strings.Contains(s, `role="img" aria-label="`), "%s: %s", name, s)
		}
	}
}

var pdfPage = regexp.MustCompile(`/Type\s*/Page[^s]`)

// A page prints on at most three sheets of paper.
func TestPagesPrintOnThreeSheets(t *testing.T) {
	findBrowser(t) // before any page is made
	all := map[string]string{"predictions": predictionHTML(t, drawnPage(3000, 300, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9))}
	for _, name := range []string{"many", "table"} {
		all[name] = html(t, pages(t)[name])
	}
	all["long"] = html(t, newDemo(1, 400, 9, 4, 9).page(t, 9, &explain.Options{Top: 60, Sides: true, Similar: 8}))
	browser, dir := findBrowser(t), t.TempDir()
	for name, page := range all {
		in, out := filepath.Join(dir, name+".html"), filepath.Join(dir, name+".pdf")
		require.NoError(t, os.WriteFile(in, []byte(page), 0o644))
		cmd := exec.CommandContext(t.Context(), browser, append(headless(t), "--no-pdf-header-footer", "--print-to-pdf="+out, "file://"+in)...)
		require.NoError(t, cmd.Run())
		pdf := testref.Must(os.ReadFile(out))(t)
		sheets := len(pdfPage.FindAll(pdf, -1))
		require.Positive(t, sheets, name)
		require.LessOrEqual(t, sheets, 3, name)
	}
}
