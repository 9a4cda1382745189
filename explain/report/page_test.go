package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func text(t *testing.T, p *Page, columns int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.WriteText(&b, columns))
	return b.String()
}

func html(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	return b.String()
}

func TestTextFitsItsColumns(t *testing.T) {
	for name, p := range pages(t) {
		for _, columns := range []int{0, 60, 72, 100, 140} {
			limit := columns
			if limit == 0 {
				limit = 80
			}
			for line := range strings.Lines(text(t, p, columns)) {
				line = strings.TrimRight(line, "\n")
				require.LessOrEqual(t, utf8.RuneCountInString(line), limit, "%s at %d: %q", name, columns, line)
				require.Equal(t, strings.TrimRight(line, " "), line, "trailing space")
			}
		}
	}
}

func TestTextSaysWhatMatters(t *testing.T) {
	all := pages(t)
	for name, want := range map[string][]string{
		"right":      {"test row 247, label 9: predicted 9, correct", "P(9) = 0.986 ± 0.038", "Why 9 rather than 4", "the other 192 together", "they cancel"},
		"wrong":      {"predicted 4, WRONG", "Why 4 rather than 9"},
		"many":       {"Why 3 rather than 8", "labelled 5: 25", "explains each of the 4 outputs"},
		"table":      {"test row 5, target 1.25\n", "alcohol", "What raises and lowers the prediction", "warning: the kernel matrix was factored with jitter 1e-10"},
		"unlabelled": {"mine.png: predicted"},
		"bare":       {"test row 247"},
	} {
		got := text(t, all[name], 0)
		for _, w := range want {
			require.Contains(t, got, w, name)
		}
	}
	require.NotContains(t, text(t, all["bare"], 0), "the other", "all 30 are listed")
	require.NotContains(t, text(t, all["unlabelled"], 0), "WRONG")
}

func TestHTMLSaysWhatMatters(t *testing.T) {
	all := pages(t)
	for name, want := range map[string][]string{
		"right":      {"<h1>Predicted 9 <span>with probability 0.986</span></h1>", "✓ Correct: labelled 9", "For 9<", "For 4<", "the other 184 training examples", "most similar", ">0.460<", "data:image/png;base64,", "labelled 9."},
		"wrong":      {"✗ Misclassified: labelled 9", "Why 4 rather than 9"},
		"many":       {"Why 3 rather than 8", "Not listed above"},
		"table":      {"Predicted −1.338\u00a0±\u00a00.200", "Target 1.25", "malic acid", "Raise it", "Lower it", "factored with jitter 1e-10"},
		"unlabelled": {"mine.png", "the 1 largest"},
		"bare":       {"Predicted"},
	} {
		got := html(t, all[name])
		for _, w := range want {
			require.Contains(t, strings.ToLower(got), strings.ToLower(w), name)
		}
		for _, no := range []string{"ZgotmplZ", "NaN", "Inf", "<no value>", "%!", "http://", "https://", "<script"} {
			require.NotContains(t, got, no, name)
		}
	}
	require.NotContains(t, html(t, all["unlabelled"]), "badge\"")
}

// The printed numbers of the equation add up, apart from rounding of the last digit.
func TestEquationAddsUp(t *testing.T) {
	for name, p := range pages(t) {
		v := testref.Must(p.view())(t)
		for i := range v.sections {
			s, terms := 0.0, (&htmlWriter{view: v}).equation(&v.sections[i])
			number := func(x htmlTerm) (f float64) {
				require.NoError(t, testref.Err(fmt.Sscan(strings.ReplaceAll(x.Op+x.Value, "−", "-"), &f)))
				return f
			}
			for _, x := range terms[:len(terms)-1] {
				s += number(x)
			}
			last := terms[len(terms)-1]
			last.Op = ""
			unit := math.Pow(10, -float64(v.sections[i].digits))
			require.InDelta(t, number(last), s, 0.5*unit*float64(len(terms))+1e-9, name)
		}
	}
}

// Text from files is escaped on the page and cannot control a terminal.
func TestNamesAreEscaped(t *testing.T) {
	evil := "<script>alert('x')</script>\x1b[31m\u202e\"&"
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, &explain.Options{Similar: 2})
	p.Classes = []string{evil + "a", evil + "b"}
	p.Model, p.Data, p.Record.Command = evil, evil, evil
	p.Report.Input = result.Input{Split: evil, Index: -1, File: evil}
	p.Report.Fit.Warnings = linearize.Warnings{errors.New(evil)}
	page := html(t, p)
	require.NotContains(t, page, "<script")
	require.Contains(t, page, "&lt;script&gt;")

	out := text(t, p, 0)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")

	table := tablePage(t)
	table.Test.Names[0] = evil
	require.NotContains(t, html(t, table), "<script")
	require.NotContains(t, text(t, table, 0), "\x1b")
}

func TestPagesAreTheSameEachTime(t *testing.T) {
	testref.Long(t, "draws every page four times, by one goroutine")
	for name, p := range pages(t) {
		for kind, write := range map[string]func(io.Writer) error{"HTML": p.WriteHTML} {
			var a, b bytes.Buffer
			require.NoError(t, write(&a))
			require.NoError(t, write(&b))
			require.Equal(t, a.Bytes(), b.Bytes(), name+" "+kind)
		}
	}
}

// With raw terms the pages list κα.
func TestRawTermsAreListed(t *testing.T) {
	p := newDemo(1, 60, 9, 4, 9).page(t, 9, &explain.Options{Terms: gp.RawTerms, Top: 3})
	p.Terms = gp.RawTerms
	v := testref.Must(p.view())(t)
	s := v.sections[0]
	for _, l := range s.lines {
		require.Equal(t, float64(l.Raw), l.term)
	}
	// κα closes to 1e-9, so what is not listed is the sum less the list.
	testkit.RequireNear(t, s.s, total(s.lines)+s.otherSum, 1e-9, "sum")
	require.Contains(t, html(t, p), "times the example&#39;s dual weight")
}

// A page limits its length, however many terms are asked for.
func TestLongListsAreCut(t *testing.T) {
	p := newDemo(1, 400, 9, 4, 9).page(t, 9, &explain.Options{Top: 400, Sides: true})
	require.Len(t, p.Report.Outputs[0].Contributions, 400)
	page := html(t, p)
	require.Equal(t, 1+2*sideLines, strings.Count(page, "<img "))
	require.Contains(t, page, "the other 200 training examples")
	require.Equal(t, 400, strings.Count(text(t, p, 0), "│"), "the text has what was asked for")
}

// Undefined numbers are dashes and empty bars, not crashes.
func TestUndefinedNumbers(t *testing.T) {
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, &explain.Options{Top: 4})
	o := &p.Report.Outputs[0]
	for i := range o.Contributions {
		o.Contributions[i].Value, o.Contributions[i].Removal, o.Contributions[i].Similarity = 0, result.Undefined(), result.Undefined()
	}
	o.Cancellation, o.RawCancellation, o.Remainder = result.Float(math.Inf(1)), result.Undefined(), result.Undefined()
	p.Report.Prediction = result.Prediction{Class: 9}
	require.Contains(t, text(t, p, 0), "sum to zero")
	require.NotContains(t, html(t, p), "NaN")

	o.Contributions = nil
	text(t, p, 0)
	html(t, p)
}

func TestReportsThatCannotBeShown(t *testing.T) {
	good := func() *Page { return newDemo(3, 20, 3, 0, 3, 5, 8).page(t, 3, nil) }
	for want, breakIt := range map[string]func(p *Page){
		"explains no output":                   func(p *Page) { p.Report.Outputs = nil },
		"3 class names for a model of 4":       func(p *Page) { p.Classes = p.Classes[:3] },
		"explains output 9 of 4":               func(p *Page) { p.Report.Outputs[0].Output = 9 },
		"contrasts outputs 1 and 4 of 4":       func(p *Page) { p.Report.Outputs[0].Contrast = &result.Contrasted{Plus: 1, Minus: 4} },
		"the report explains output -1 of 4":   func(p *Page) { p.Report.Outputs[0].Output = -1 },
		"2 class names for a model of 4 outpu": func(p *Page) { p.Classes = []string{"a", "b"} },
	} {
		p := good()
		breakIt(p)
		for _, write := range []func(io.Writer) error{p.WriteHTML, func(w io.Writer) error { return p.WriteText(w, 0) }} {
			require.ErrorContains(t, write(io.Discard), want)
		}
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorsAreReported(t *testing.T) {
	p := pages(t)["right"]
	i := newDemo(1, 20, 4, 4, 9).importances(5)
	for _, write := range []func(io.Writer) error{
		p.WriteHTML, p.Report.WriteJSON, i.WriteHTML,
		func(w io.Writer) error { return p.WriteText(w, 0) },
		func(w io.Writer) error { return i.WriteText(w, 0) },
	} {
		require.ErrorIs(t, write(full{}), errFull)
	}
}

func TestImportancePage(t *testing.T) {
	p := newDemo(2, 200, 4, 4, 9).importances(24)
	var b, c bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	require.Equal(t, 24, strings.Count(b.String(), "data:image/png"))
	require.Contains(t, b.String(), "Half of the sum of all |α| comes from 20 examples, 10\u00a0% of the training data.")
	require.NoError(t, p.WriteText(&c, 0))
	require.Len(t, regexp.MustCompile(`\n  \d+ +[49] +0\.\d+`).FindAllString(c.String(), -1), 24)

	// Nothing to show: no example, or a dual vector of zeros.
	for _, list := range [][]explain.Importance{nil, {{Index: 0, Alpha: []float64{0}}}} {
		p := ImportancePage(result.Rows{}.Importances(list, 5))
		require.NoError(t, p.WriteHTML(io.Discard))
		require.NoError(t, p.WriteText(io.Discard, 0))
	}
}

// half holds half of Σ|α| and half−1 does not; the curve is thinned, not cut.
func TestSortedCurve(t *testing.T) {
	curve := make([]result.Float, 10000)
	for i := range curve {
		curve[i] = result.Float(math.Exp(-float64(i) / 1000))
	}
	half, _ := halfOf(curve)
	sum := func(n int) (s float64) {
		for _, v := range curve[:n] {
			s += float64(v)
		}
		return s
	}
	require.GreaterOrEqual(t, sum(half), sum(10000)/2)
	require.Less(t, sum(half-1), sum(10000)/2)
	path := ImportancePage(&result.ImportanceReport{Curve: curve}).figure.Diagrams[0].Line
	require.Less(t, strings.Count(path, "L"), 2*curvePoints+2)
	require.Contains(t, path, fmt.Sprintf("L410 %.2f", 208-200*float64(curve[9999])), "to the last example")
}

// The table of rows that were left out says what they could change and whether that is
// exact, a bound or an estimate.
func TestCertificateTable(t *testing.T) {
	k := &result.Certificate{Threshold: .25, Ratio: 1.04, Kept: 18298, Dropped: 581702, Trace: .99, DroppedTrace: 312.5, DroppedTraceError: 4.5, Norm: [2]result.Float{.4, .75}, VarianceAtMost: 1.75, LogDet: [2]result.Float{1000, 1012}, Failure: .05, Sampled: true, Rows: 2000}
	value := func(name string) string {
		list := certificateFacts(k)
		at := slices.IndexFunc(list, func(f fact) bool { return f.Name == name })
		require.GreaterOrEqual(t, at, 0, name)
		return list[at].Value
	}
	require.Equal(t, result.Count(18298), value("Rows kept"))
	require.Equal(t, result.Count(581702), value("Rows left out"))
	require.Equal(t, "312.5 ± 4.5", value("What they could still tell, tr M"))
	require.Equal(t, "0.4 to 0.75", value("of it in one direction, ‖M‖₂"))
	require.Equal(t, "1.75 times", value("Variance, at most"))
	require.Equal(t, "1000 to 1012", value("Log determinant of all rows"))
	require.Contains(t, value("How sure this is"), "intervals of 95 %, from a sample of 2000 of the rows left out. They are no bounds")
	k.Sampled, k.Failure = false, 1e-6
	require.Equal(t, "Bounds from all rows left out; the probability that one does not hold is 1e-06.", value("How sure this is"))
	k.Failure, k.DroppedTraceError, k.Norm = 0, 0, [2]result.Float{.5, .5}
	require.Equal(t, "Exact, from all rows left out.", value("How sure this is"))
	require.Equal(t, "312.5", value("What they could still tell, tr M"))
	require.Equal(t, "0.5", value("of it in one direction, ‖M‖₂"))
	k.Dropped = 0
	require.Equal(t, "the posterior is exact", certificateFacts(k)[1].Note)
	k = nil
	require.Empty(t, certificateFacts(k))
	page := newDemo(1, 40, 4, 4, 9).page(t, 4, nil)
	page.Report.Fit.Method, page.Report.Fit.Certificate = "kept", &result.Certificate{Kept: 30, Dropped: 10, Sampled: true, Rows: 10}
	require.Contains(t, html(t, page), "What was left out of the data")
}

// evidencePage is a page of two layers, of which one runs to 0 and one to the edge.
func evidencePage() *EvidencePage {
	noise := result.Float(.1)
	start := result.EvidencePoint{Variances: []result.Float{1, 1}, Noise: &noise, LogEvidence: -30}
	best := result.EvidencePoint{Variances: []result.Float{0, 40}, Noise: &noise, LogEvidence: -12}
	p := &EvidencePage{Evidence: &result.Evidence{Fit: result.Fit{Examples: 40, Outputs: 1, Parameters: 12, PriorPrecision: 1},
		Curve: &result.EvidenceCurve{Values: result.EvidenceValues{AtTheta: result.Float(math.Inf(-1)), LinearGaussian: -14, Refit: -12, HeldSites: -13}, At: .025, Several: true},
		Optimum: &result.EvidenceOptimum{Form: "refit", Kind: "groups", Start: start, Best: best, Groups: []string{"one", "two"}, Parameters: []int{8, 4}, Zero: []string{"one"}, Edge: []string{"two", "noise"},
			Iterations: 3, Settled: true, Maxima: []result.EvidencePoint{best, start}, Trajectory: []result.EvidencePoint{start, best}}, Normalized: []string{"one"}}, Origin: result.Origin{Model: "<b>net</b>"}}
	for k := range 13 {
		x := float64(k-6) / 2
		p.Curve.Points = append(p.Curve.Points, result.EvidenceCurvePoint{PriorPrecision: result.Float(.025 * math.Exp(x)), EvidenceValues: result.EvidenceValues{AtTheta: result.Float(math.Inf(-1)), LinearGaussian: result.Float(-14 - 30*x*x), Refit: result.Float(-12 - x*x), HeldSites: result.Float(-13 - 2*x*x)}})
	}
	return p
}

func TestEvidencePage(t *testing.T) {
	var b strings.Builder
	p := evidencePage()
	require.NoError(t, p.WriteHTML(&b))
	text := b.String()
	for _, want := range []string{"The prior variance of one runs to 0", "The search ended at the edge of its range for two and noise", "2 maxima were found; the next has log evidence −30",
		"do not depend on the scale of one", "is −∞ under this prior", "runs to 0", "at the edge of the range", "the optimum: precision 0.025, log evidence -12", "&lt;b&gt;net"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 3, strings.Count(text, `class="curveline`), "that at θ* is nowhere finite")
	require.Equal(t, 1, strings.Count(text, "<circle"))
	// No curve leaves the frame, although one falls far below it.
	for _, m := range regexp.MustCompile(`class="curveline[^"]*" d="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		numbers := regexp.MustCompile(`-?[\d.]+`).FindAllString(m[1], -1)
		require.Greater(t, len(numbers), 8)
		for i := 1; i < len(numbers); i += 2 {
			y := testref.Must(strconv.ParseFloat(numbers[i], 64))(t)
			require.True(t, y >= 8 && y <= 308, m[1])
		}
	}

	p.Optimum, p.Curve.Several, p.Curve.Points = nil, false, nil
	p.Groups = []result.EvidenceGroup{{Name: "layer", Parameters: 8, Variance: 1, Gradient: result.EvidenceValues{AtTheta: 3, LinearGaussian: 2, Refit: -1.5, HeldSites: 1}}}
	b.Reset()
	require.NoError(t, p.WriteHTML(&b))
	require.Contains(t, b.String(), "Log evidence −12")
	require.Contains(t, b.String(), "−1.5")
	require.NotContains(t, b.String(), "<svg viewBox=\"0 0 440")
	require.ErrorIs(t, p.WriteHTML(full{}), errFull)
}

// A curve is cut where it crosses the lower end, and where it is not defined.
func TestAbove(t *testing.T) {
	nan, low := math.NaN(), math.Inf(-1)
	x, y := above([]float64{0, 1, 2, 3, 4, 5}, []float64{-1, 1, 3, -1, low, 2})
	require.Equal(t, []float64{.5, 1, 2, 2.75, 5}, finiteOf(x))
	require.Equal(t, []float64{0, 1, 3, 0, 2}, finiteOf(y))
	require.Equal(t, "M0.5 0L1 1L2 3L2.75 0M5 2", path(x, y))
	_, y = above([]float64{0, 1}, []float64{nan, 1})
	require.Equal(t, []float64{1}, finiteOf(y))
}

func finiteOf(v []float64) []float64 {
	var out []float64
	for _, x := range v {
		if !math.IsNaN(x) {
			out = append(out, x)
		}
	}
	return out
}

// listPage has rows with pictures, with others beside them or not, and an empty list.
func listPage() *ListPage {
	pixels := make([]byte, 64)
	for i := range pixels {
		pixels[i] = byte(4 * i)
	}
	row := func(i result.Index, label string) ListedRow { return ListedRow{Index: i, Label: label, Value: "+1.25"} }
	long := strings.Repeat("unbroken", 12)
	p := &ListPage{Title: "Rows worth a look", Eyebrow: "12 rows", Note: "What the lists are.", Fit: &result.Fit{Examples: 12, Outputs: 1}, Timings: &result.Timings{},
		Picture: func(result.Index) result.Picture { return result.Gray(pixels, 8, 8) }, Origin: result.Origin{Invert: true, Model: strings.Repeat("path/", 60)}}
	beside := List{Title: "With others", Note: "In nats.", Columns: []string{"suggested", "log density"}, Beside: "the rows that say so"}
	alone := List{Title: "Alone", Note: "No unit.", Columns: []string{"leverage"}}
	for i := range result.Index(9) {
		beside.Items = append(beside.Items, ListItem{Row: row(i, "<script>alert(1)</script>"), Values: []string{long, "-3.2"}, Beside: []ListedRow{row(i+1, "a"), row(i+2, long), row(i+3, "c"), row(i+4, "d")}})
		alone.Items = append(alone.Items, ListItem{Row: ListedRow{Index: i, ID: long}, Values: []string{"0.93"}})
	}
	p.Lists = []List{beside, {Title: "Empty", Note: "None.", Empty: "No two rows are equal."}, alone}
	return p
}

func listHTMLOf(t *testing.T, p *ListPage) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	return b.String()
}

// Every row, value and note is on the page, escaped, as pictures or as a table.
func TestListPage(t *testing.T) {
	pictures := listHTMLOf(t, listPage())
	require.Equal(t, 9*5+9, strings.Count(pictures, "<img "))
	tabled := listPage()
	tabled.Picture = func(i result.Index) result.Picture {
		return result.Picture{Names: []string{"x", "<b>"}, Values: []float64{float64(i), -2}}
	}
	table := listHTMLOf(t, tabled)
	require.Zero(t, strings.Count(table, "<img "))
	require.Equal(t, 2, strings.Count(table, `<table class="rows">`))
	bare := listPage()
	bare.Picture = nil
	for _, page := range []string{pictures, table, listHTMLOf(t, bare)} {
		require.False(t, strings.Contains(page, "<script>"))
		for _, text := range []string{"In nats.", "No unit.", "No two rows are equal.", "−3.2", "0.93", "&lt;script&gt;", "row\u00a011", "1.25"} {
			require.True(t, strings.Contains(page, text), text)
		}
	}
}
