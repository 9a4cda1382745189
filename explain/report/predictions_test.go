package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/linearize"
)

func predictionHTML(t *testing.T, p *PredictionPage) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, p.WriteHTML(&b))
	return b.String()
}

func predictionText(t *testing.T, p *PredictionPage, columns int) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, p.WriteText(&b, columns))
	return b.String()
}

// The scores are those of package glm on the matrices of the same rows, to the order
// of the sums.
func TestPredictionScores(t *testing.T) {
	for _, classes := range [][]result.Float{{4, 9}, {3, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		m, k := newDrawnModel(3, classes...), len(classes)
		p := &result.Predictions{Classes: classes}
		prob, network := mat.NewDense(300, k, nil), mat.NewDense(300, k, nil)
		var labels []int
		var logp, mapLogp []float64
		var one, two []float64
		for i := range 300 {
			r := m.predicted(result.Index(i))
			for c := range classes {
				prob.Set(i, c, float64(r.Probability[c]))
				network.Set(i, c, float64(r.MAPProbability[c]))
			}
			labels = append(labels, slices.Index(classes, r.Label))
			logp, mapLogp = append(logp, float64(r.LogDensity)), append(mapLogp, float64(r.MAPLogDensity))
			if r.Label == classes[0] {
				one = append(one, prob.At(i, 1))
			} else {
				two = append(two, prob.At(i, 1))
			}
			p.Add(r)
			p.AddLeaveOneOut(r)
		}
		alone, calibrated, expected := p.Scores()
		require.Equal(t, fmt.Sprint(expected), fmt.Sprint(calibrated), "the same rows")
		for _, x := range []struct {
			got  result.Scores
			prob *mat.Dense
			logp []float64
		}{{calibrated, prob, logp}, {alone, network, mapLogp}} {
			require.Equal(t, 300, x.got.Rows)
			require.InDelta(t, score.NLL(x.logp), float64(x.got.NLL), 1e-13)
			require.InDelta(t, score.Accuracy(x.prob, labels), float64(x.got.Accuracy), 1e-15)
			require.InDelta(t, score.Brier(x.prob, labels), float64(x.got.Brier), 1e-14)
			require.InDelta(t, score.ECE(x.prob, labels), float64(x.got.ECE), 1e-15)
			classwise := 0.0
			for c := range k {
				is := make([]bool, len(labels))
				for i, y := range labels {
					is[i] = y == c
				}
				classwise += score.ECEOf(mat.Col(nil, c, x.prob), is) / float64(k)
			}
			require.InDelta(t, classwise, float64(x.got.Classes), 1e-14)
			square := 0.0
			for _, v := range x.logp {
				square += math.Pow(-v-score.NLL(x.logp), 2)
			}
			require.InDelta(t, math.Sqrt(square/299/300), float64(x.got.NLLSE), 1e-14)
			require.False(t, x.got.RMSE.Finite() || x.got.Covered.Finite())
		}
		if k == 2 {
			require.InDelta(t, score.AUROC(one, two), float64(calibrated.AUROC), 1e-15)
		} else {
			require.False(t, calibrated.AUROC.Finite())
		}
	}
}

// TestLabelScores checks the scores of several labels against those of two classes with a row for each label.
func TestLabelScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	several, each := &result.Predictions{Labels: []string{"a", "b", "c"}}, &result.Predictions{Classes: []result.Float{0, 1}}
	undefined, novelty := result.Undefined(), &result.Novelty{Score: result.Undefined(), Rank: result.Undefined()}
	for i := range 200 {
		row := &result.Prediction{NamedRow: &result.NamedRow{Index: result.Index(i), Label: undefined}, Novelty: novelty}
		for range 3 {
			p, y := rng.Float64(), 0.
			if rng.Float64() < p {
				y = 1
			}
			logp := result.Float(math.Log(math.Abs(1 - y - p)))
			row.Probability, row.Targets, row.LogDensity = append(row.Probability, result.Float(p)), append(row.Targets, result.Float(y)), row.LogDensity+logp
			both := []result.Float{result.Float(1 - p), result.Float(p)}
			each.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: result.Float(y)},
				LogDensity: logp, MAPLogDensity: logp, Probability: both, MAPProbability: both, Novelty: novelty})
		}
		row.MAPProbability, row.MAPLogDensity = row.Probability, row.LogDensity
		several.Add(row)
	}
	several.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: undefined},
		Probability: []result.Float{.5, .5, .5}, MAPProbability: []result.Float{.5, .5, .5}, Novelty: novelty}) // without labels
	_, got, _ := several.Scores()
	_, want, _ := each.Scores()
	require.Equal(t, 200, got.Rows)
	require.InEpsilon(t, 3*float64(want.NLL), float64(got.NLL), 1e-12)
	for _, x := range [][2]result.Float{{want.Accuracy, got.Accuracy}, {want.ECE, got.ECE}, {want.Brier, got.Brier}, {want.AUROC, got.AUROC}} {
		require.InDelta(t, float64(x[0]), float64(x[1]), 1e-12)
	}
	require.False(t, math.IsNaN(float64(got.Classes)))
	page := &PredictionPage{Predictions: several}
	require.Contains(t, predictionHTML(t, page), "of the labels predicted correctly")
	require.Contains(t, predictionText(t, page, 80), "label-wise ECE")
}

func TestRegressionScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := &result.Predictions{Coverage: &result.Coverage{Share: 0.8}}
	square, inside, held, width, n := 0.0, 0.0, 0.0, 0.0, 400.0
	for i := range 400 {
		r := predictedTarget(rng, result.Index(i))
		square += math.Pow(float64(r.Expected-r.Label), 2)
		if r.CDF >= 0.1 && r.CDF <= 0.9 {
			inside++
		}
		if r.Interval[0] <= r.Label && r.Label <= r.Interval[1] {
			held++
		}
		width += float64(r.Interval[1] - r.Interval[0])
		p.Add(r)
	}
	alone, s, expected := p.Scores()
	require.InDelta(t, math.Sqrt(square/n), float64(s.RMSE), 1e-14)
	require.InDelta(t, inside/n, float64(s.Covered), 1e-15)
	require.Equal(t, result.Float(0.8), s.Level)
	require.Less(t, alone.Covered, s.Covered, "the network's error bars are too narrow")
	require.Zero(t, expected.Rows)
	c := p.Covered()
	require.Equal(t, []int{400, 0}, []int{c.Rows, c.Empty})
	require.InDelta(t, held/n, float64(c.Measured), 1e-15)
	require.InDelta(t, width/n, float64(*c.Width), 1e-12)
	require.Nil(t, c.Size)
}

// The calibration gives the expected scores where no training row is given.
func TestExpectedScoresOfTheCalibration(t *testing.T) {
	page := drawnPage(50, 0, 4, 9)
	_, _, expected := page.Predictions.Scores()
	require.Equal(t, result.Float(0.0243), expected.NLL)
	require.Zero(t, expected.Rows, "a calibration on no rows")
	c := page.Predictions.Fit.Calibration
	c.Rows = 600
	_, _, expected = page.Predictions.Scores()
	require.Equal(t, []result.Float{0.0243, 0.002, 0.9927, 0.004}, []result.Float{expected.NLL, expected.NLLSE, expected.Accuracy, expected.ECE})
	require.Contains(t, predictionText(t, page, 0), "expected by leave-one-out")
	c.Method, c.HeldOut, c.LOO = "heldout", &result.RowScores{NLL: 0.5, Accuracy: 0.75, ECE: 0.125}, nil
	out := predictionText(t, page, 0)
	require.Contains(t, out, "expected by held-out rows")
	require.Contains(t, out, "0.5000 ± 0.0020")
	require.Contains(t, out, "on 600 held-out rows")
}

// Rows without a label or with NaN are shown, counted and not scored.
func TestRowsThatCannotBeScored(t *testing.T) {
	page := drawnPage(60, 30, 4, 9)
	_, before, _ := page.Predictions.Scores()
	nan := result.Undefined()
	page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Index: 1, Label: nan},
		Class: 4, Probability: []result.Float{.5, .5}, MAPProbability: []result.Float{.5, .5},
		Novelty: &result.Novelty{Score: 1, Rank: 1, Entropy: 1, MutualInformation: 1}, LogDensity: -1, MAPLogDensity: -1})
	page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Index: 2, Label: 9},
		Class: 4, Probability: []result.Float{nan, .5}, MAPProbability: []result.Float{.5, .5},
		Novelty: &result.Novelty{Score: nan, Rank: nan, Entropy: nan, MutualInformation: nan}, LogDensity: -1, MAPLogDensity: -1})
	_, after, _ := page.Predictions.Scores()
	require.Equal(t, fmt.Sprint(before), fmt.Sprint(after))
	out := predictionText(t, page, 100)
	require.Contains(t, out, "1 row without a label is not scored.")
	require.Contains(t, out, "The prediction of 1 row is not a number; it is not scored.")
	page = &PredictionPage{Predictions: &result.Predictions{Classes: []result.Float{4, 9}}}
	page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: nan},
		Class: 4, Probability: []result.Float{.75, .25}, MAPProbability: []result.Float{.5, .5},
		Novelty: &result.Novelty{}, LogDensity: nan, MAPLogDensity: nan})
	require.Contains(t, predictionText(t, page, 0), "No label is known")
	require.Contains(t, predictionHTML(t, page), "Predicted 4")
	require.NotContains(t, predictionHTML(t, page), "<table class=\"scores\">")
	require.Panics(t, func() {
		page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: 5},
			Probability: []result.Float{.75, .25}, MAPProbability: []result.Float{.5, .5}, Novelty: &result.Novelty{}})
	})
	require.Panics(t, func() {
		page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: 4},
			Probability: []result.Float{1}, MAPProbability: []result.Float{.5, .5}, Novelty: &result.Novelty{}})
	})
}

// A density of zero is an infinite score, not a dash and not NaN.
func TestInfiniteScore(t *testing.T) {
	page := drawnPage(60, 0, 4, 9)
	page.Predictions.Add(&result.Prediction{NamedRow: &result.NamedRow{Label: 9},
		Class: 4, Probability: []result.Float{.9, .1}, MAPProbability: []result.Float{1, 0},
		Novelty: &result.Novelty{Score: 1, Rank: 1, Entropy: 1, MutualInformation: 1}, LogDensity: result.Float(math.Log(.1)), MAPLogDensity: result.Float(math.Inf(-1))})
	network, calibrated, _ := page.Predictions.Scores()
	require.True(t, math.IsInf(float64(network.NLL), 1))
	require.True(t, calibrated.NLL.Finite())
	require.Contains(t, predictionText(t, page, 0), "Inf")
	predictionHTML(t, page)
}

var (
	numberOf  = regexp.MustCompile(`NaN|Inf`)
	reference = regexp.MustCompile(`(?i)(src|href|url|@import|xlink)\s*[=(]\s*["']?([^"')\s>]*)`)
)

// Pages of all sizes and kinds can be written, load nothing, have no script, and
// show no NaN.
func TestPredictionPagesOfAllKinds(t *testing.T) {
	digits := []result.Float{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	thousand := make([]result.Float, 1000)
	for k := range thousand {
		thousand[k] = result.Float(k)
	}
	few := drawnPage(300, 50, 4, 9)
	same := &PredictionPage{Predictions: &result.Predictions{Classes: []result.Float{4, 9}}}
	m := newDrawnModel(1, 4, 9)
	for i := 0; same.Predictions.Len() < 80; i++ {
		if r := m.predicted(result.Index(i)); r.Label == 9 {
			same.Predictions.Add(r)
		}
	}
	constant := drawnPage(40, 0, 4, 9)
	for i := range constant.Predictions.Test {
		constant.Predictions.Test[i].Novelty.Score = 0.5
	}
	for name, x := range map[string]struct {
		page     *PredictionPage
		want     []string
		diagrams int
	}{
		"none":       {&PredictionPage{Predictions: &result.Predictions{}}, []string{"0 test rows"}, 0},
		"one row":    {drawnPage(1, 0, 4, 9), []string{"1 test row", "With 1 row that cannot be told", "The predictions"}, 0},
		"one target": {drawnPage(1, 0), []string{"Expected ", ">Target<"}, 0},
		"ten":        {drawnPage(10000, 100, digits...), []string{"10\u202f000 test rows", "predicted correctly", "largest probability of a row"}, 3},
		"two":        {few, []string{"AUROC", "probability of 9; below", "The most surprising training rows"}, 3},
		"one class":  {same, []string{"share of rows labelled 9"}, 3},
		"thousand":   {drawnPage(60, 20, thousand...), []string{"The test rows farthest"}, 3},
		"regression": {drawnPage(200, 100), []string{"Predicted price, RMSE", "90 % coverage", "intervals hold the target of", "rooms"}, 3},
		"constant":   {constant, []string{"novelty, nats"}, 3},
	} {
		page := predictionHTML(t, x.page)
		for _, want := range x.want {
			require.Contains(t, strings.ReplaceAll(page, "\u00a0", " "), want, name)
		}
		require.Equal(t, x.diagrams, strings.Count(page, `<figure class="diagram">`), name)
		require.NotRegexp(t, numberOf, page, name)
		require.NotContains(t, page, "<script")
		for _, m := range reference.FindAllStringSubmatch(page, -1) {
			require.Regexp(t, "^(data:image/png;base64,|#)", m[2], name)
		}
		require.NotContains(t, page, "http")
		require.Less(t, len(page), 1<<20, name)
		require.Equal(t, page, predictionHTML(t, x.page), "the same each time")
		for _, columns := range []int{0, 60, 72, 120} {
			for line := range strings.Lines(predictionText(t, x.page, columns)) {
				limit := columns
				if limit == 0 {
					limit = 80
				}
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), limit, "%s at %d: %q", name, columns, line)
			}
		}
	}
}

// The table of the page and that of the text have the scores, in the same order.
func TestTablesHaveTheScores(t *testing.T) {
	for _, p := range []*PredictionPage{drawnPage(500, 200, 4, 9), drawnPage(500, 200)} {
		network, calibrated, expected := p.Predictions.Scores()
		page, out := predictionHTML(t, p), strings.Join(strings.Fields(predictionText(t, p, 0)), " ")
		for _, of := range []func(result.Scores) result.Float{
			func(s result.Scores) result.Float { return s.NLL }, func(s result.Scores) result.Float { return s.Accuracy }, func(s result.Scores) result.Float { return s.ECE }, func(s result.Scores) result.Float { return s.Brier },
			func(s result.Scores) result.Float { return s.AUROC }, func(s result.Scores) result.Float { return s.RMSE }, func(s result.Scores) result.Float { return s.Covered },
		} {
			var cells, plain []string
			for _, s := range []result.Scores{network, calibrated, expected} {
				x := scoreText(of(s))
				if of(s) == s.NLL {
					plain = append(plain, x+" ± "+fixed(float64(s.NLLSE), 4))
				} else {
					plain = append(plain, x)
				}
				cells = append(cells, "<b>"+x+"</b>")
			}
			if !of(calibrated).Finite() {
				continue
			}
			at := 0
			for _, c := range cells {
				k := strings.Index(page[at:], c)
				require.GreaterOrEqual(t, k, 0, c)
				at += k
			}
			require.Contains(t, out, strings.Join(plain, " "))
		}
	}
}

// A diagram has a point for each bin with rows, where the bin's numbers say.
func TestReliabilityDiagram(t *testing.T) {
	prob, happened := []float64{0.1, 0.12, 0.95, 0.97, 0.99}, []bool{false, true, true, true, false}
	bins := score.Reliability(prob, happened, 1000)
	d := reliabilityDiagram("Calibrated", "for", bins, "x", "y")
	require.Len(t, d.Points, 2)
	require.Equal(t, coordinate(plot.x(0.11)), d.Points[0].X)
	require.Equal(t, coordinate(plot.y(0.5)), d.Points[0].Y)
	require.Equal(t, coordinate(plot.x(0.97)), d.Points[1].X)
	require.Equal(t, coordinate(plot.y(2.0/3)), d.Points[1].Y)
	require.Equal(t, "3 rows between 0.93 and 1.00: mean 0.970, share 0.667", d.Points[1].Title)
	require.Len(t, d.Bars, 2)
	require.Equal(t, 2, strings.Count(d.Line, "M")+strings.Count(d.Line, "L"))
}

// An axis has between two and eight ticks within [0, 1], whatever its range.
func TestAxisTicks(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		lo, span := math.Pow(10, 8*rng.Float64()-6), math.Pow(10, 8*rng.Float64()-4)
		if rng.IntN(2) == 0 {
			lo = -lo
		}
		a := newAxis([]float64{lo, lo + span})
		ticks := a.ticks()
		require.LessOrEqual(t, len(ticks), 8, "%v", a)
		require.NotEmpty(t, ticks, "%v", a)
		for v := range ticks {
			require.True(t, v >= -1e-9 && v <= 1+1e-9, "%v at %v", a, v)
		}
	}
	var texts []string
	for _, text := range ordered(newAxis([]float64{0.1, 10}).ticks()) {
		texts = append(texts, text)
	}
	require.Equal(t, []string{"0.1", "1", "10"}, texts)
	// Numbers so close together that steps between them are lost end as well.
	newAxis([]float64{1e17, 1e17 + 16}).ticks()
}

// The strip counts at least one bar for each row and the whole height for the most.
func TestLogHeight(t *testing.T) {
	require.Zero(t, logHeight(0, 10))
	require.Greater(t, logHeight(1, 1000000), 0.04)
	require.InDelta(t, 1, logHeight(1000, 1000), 1e-15)
	for _, most := range []int{1, 9, 10, 999, 12345, 10000000} {
		require.LessOrEqual(t, len(powers(most)), 4, most)
		require.NotEmpty(t, powers(most))
	}
}

func TestPredictionNamesAreEscaped(t *testing.T) {
	evil := "<script>alert('x')</script>\x1b[31m\u202e\"&"
	p := drawnPage(40, 30)
	p.Quantity, p.Model, p.Data, p.Record.Command = evil, evil, evil, evil
	p.Predictions.Fit.Warnings = linearize.Warnings{errors.New(evil)}
	p.Test = func(result.Index) result.Picture { return result.Picture{Names: []string{evil}, Values: []float64{1}} }
	page := predictionHTML(t, p)
	require.NotContains(t, page, "<script")
	require.Contains(t, page, "&lt;script&gt;")
	out := predictionText(t, p, 0)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")
}

func TestPredictionWriteErrors(t *testing.T) {
	p := drawnPage(30, 0, 4, 9)
	require.ErrorIs(t, p.WriteHTML(full{}), errFull)
	require.ErrorIs(t, p.WriteText(full{}, 0), errFull)
	require.NoError(t, p.WriteHTML(io.Discard))
}

// The verdict names the better one only beyond two standard errors.
func TestVerdict(t *testing.T) {
	require.Equal(t, "Calibrated predictions are better than the network alone: their NLL is lower by 0.1000 ± 0.0400 nats a row.", verdict(-0.1, 0.04))
	require.Equal(t, "Calibrated predictions are worse than the network alone: their NLL is higher by 0.1000 ± 0.0400 nats a row.", verdict(0.1, 0.04))
	require.Contains(t, verdict(-0.1, 0.06), "are as good as the network alone, up to chance: their NLL is lower by 0.1000 ± 0.0600 nats")
}

// A test score far from the expected one is said to be so.
func TestMissedExpectation(t *testing.T) {
	p := drawnPage(400, 0, 4, 9)
	p.Predictions.Fit.Calibration.Rows = 600
	_, test, _ := p.Predictions.Scores()
	c := p.Predictions.Fit.Calibration
	c.LOO.NLL, c.NLLSE = test.NLL+test.NLLSE, 0
	require.NotContains(t, predictionText(t, p, 0), "than expected by")
	c.LOO.NLL = test.NLL - 4*test.NLLSE
	require.Contains(t, predictionText(t, p, 0), "The calibrated NLL is higher than expected by leave-one-out, by")
	c.LOO.NLL = test.NLL + 4*test.NLLSE
	require.Contains(t, predictionText(t, p, 0), "The calibrated NLL is lower than expected by leave-one-out, by")
	c.LOO.NLL = result.Undefined()
	require.NotContains(t, predictionText(t, p, 0), "than expected by")
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.5: "50 %", 0.9915: "99.2 %", 0.9997: "99.97 %", 0.99996: "99.996 %", 0.0002: "0.02 %", 0.95: "95 %", 0.0512: "5.1 %", 2e-10: "2e-08 %"} {
		require.Equal(t, want, percent(share))
	}
	require.Equal(t, "– %", percent(math.NaN()))
}

// Rows show their interval or the first labels of their set.
func TestIntervalsAndSetsAreShown(t *testing.T) {
	targets := drawnPage(2, 0)
	r := predictedTarget(rand.New(rand.NewPCG(1, 1)), 3)
	r.Interval = []result.Float{-1.25, 2.5}
	targets.Predictions.Add(r)
	for _, ends := range [][]result.Float{{result.Float(math.Inf(-1)), 2}, {3, 1}} {
		r.Interval = ends
		targets.Predictions.Add(r)
	}
	for _, want := range []string{">90 %<", ">−1.250 to 2.500<", ">−∞ to 2.000<", ">no value<"} {
		require.Contains(t, strings.ReplaceAll(predictionHTML(t, targets), "\u00a0", " "), want)
	}
	require.Contains(t, strings.Join(strings.Fields(predictionText(t, targets, 0)), " "), ", 1 is empty.")
	p := &PredictionPage{Predictions: &result.Predictions{Classes: []result.Float{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Coverage: &result.Coverage{Share: 0.95}}}
	m := newDrawnModel(1, p.Predictions.Classes...)
	for _, set := range [][]result.Float{{}, {3, 7}, p.Predictions.Classes} {
		r := m.predicted(1)
		r.Set = set
		p.Predictions.Add(r)
	}
	page := strings.ReplaceAll(predictionHTML(t, p), "\u00a0", " ")
	for _, want := range []string{">95 %<", ">no class<", ">3, 7<", ">0, 1, 2, 3, 4, 5, 6, 7, and 2 more<"} {
		require.Contains(t, page, want)
	}
	out := strings.Join(strings.Fields(predictionText(t, p, 0)), " ")
	require.Contains(t, out, "The 95 % sets hold the label of ")
	require.Contains(t, out, "they have 4.00 classes on average, 1 is empty.")
}

// The calibration is among the facts of every page.
func TestCalibrationIsAFact(t *testing.T) {
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, nil)
	p.Report.Fit.Calibration = &result.Calibration{Method: "loo", Scales: result.Scales{Scale: 0.05, Temperature: 0.5, NoiseScale: 1.5}, Rows: 30}
	p.Report.Prediction.Novelty = &result.Novelty{Score: 2.75, Rank: 0.945, Entropy: 0.25, MutualInformation: result.Undefined()}
	page := strings.ReplaceAll(html(t, p), "\u00a0", " ")
	for _, want := range []string{"Scale of the covariance</th><td>0.05 <small>makes 30 training rows by leave-one-out most probable", "Scale of the noise variance</th><td>1.5", "This row is farther from the training data than 94.5 % of the training rows are from the others (novelty 2.75 nats)."} {
		require.Contains(t, page, want)
	}
	b := new(strings.Builder)
	require.NoError(t, p.Report.WriteJSON(b))
	require.Contains(t, b.String(), `"warnings":[],"calibration":{"method":"loo","scale":0.05,"temperature":0.5,"noise_scale":1.5,"rows":30,"nll_se":0,"network":{"nll":0,"accuracy":0,"ece":0}}`)
}
