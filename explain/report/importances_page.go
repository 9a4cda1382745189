package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
)

// An ImportancePage shows an ImportanceReport as text or HTML.
type ImportancePage struct {
	Report *result.ImportanceReport
	// Train returns the picture of a training row; nil shows none.
	Train func(row result.Index) result.Picture
	Origin
}

type htmlImportances struct {
	Eyebrow, Meaning, N, Listed, Highest, Lowest string
	Share, Half, Path                            string
	Rows                                         []htmlLine
	Table                                        *htmlRows // in place of Rows where rows have features
	htmlFrame
}

// WriteHTML writes the page as one self-contained HTML document.
func (p *ImportancePage) WriteHTML(w io.Writer) error {
	out := p.writer(&p.Report.Fit, &p.Report.Timings)
	n := len(p.Report.Curve)
	h := &htmlImportances{
		Eyebrow:   result.Some(n, "training example", "training examples"),
		Meaning:   result.ImportanceMeaning,
		N:         result.Count(n),
		Listed:    result.Count(len(p.Report.Importances)),
		Path:      area(p.Report.Curve),
		htmlFrame: out.frame("Important training examples", nil),
	}
	if n > 0 {
		h.Highest, h.Lowest = result.Short(float64(p.Report.Curve[0])), result.Short(float64(p.Report.Curve[n-1]))
	}
	half, share := p.share()
	h.Share, h.Half = share, fixed(1000*float64(half)/float64(max(1, n)), 2)
	largest := 0.0
	pictures := make([]result.Picture, len(p.Report.Importances))
	for i, x := range p.Report.Importances {
		largest = math.Max(largest, float64(x.Norm))
		if p.Train != nil {
			pictures[i] = p.Train(x.Index)
		}
	}
	h.Table = newRowTable(pictures, "Row", "Label", "|α|")
	for i, x := range p.Report.Importances {
		row := named(x.ID, fmt.Sprintf("row %d", x.Index))
		pic, err := out.picture(pictures[i], "training "+row, "thumb")
		if err != nil {
			return err
		}
		if h.Table != nil {
			h.Table.add(pictures[i], htmlCell{Value: row}, htmlCell{Value: (&line{Contribution: result.Contribution{LabelName: x.LabelName}, label: label(x.Label)}).shown(), Class: "text"},
				htmlCell{Value: fixed(float64(x.Norm), listDecimals(largest)), Class: "text"})
			continue
		}
		line := htmlLine{Label: grouped(typeset(labelNamed(x.LabelName, x.Label))), Row: row, Value: fixed(float64(x.Norm), listDecimals(largest)), Picture: pic}
		h.Rows = append(h.Rows, line)
	}
	return execute(w, "importances.html", h)
}

// WriteText writes the list as plain text of at most the given number of
// columns; 0 means 80.
func (p *ImportancePage) WriteText(w io.Writer, columns int) error {
	t := newText(&p.Report.Fit, columns)
	width, largest := len("row"), 0.0
	for _, x := range p.Report.Importances {
		width, largest = max(width, len(fmt.Sprint(x.Index))), math.Max(largest, float64(x.Norm))
	}
	names := len("label")
	for _, x := range p.Report.Importances {
		names = max(names, min(24, utf8.RuneCountInString(clean(labelNamed(x.LabelName, x.Label)))))
	}
	t.line("  %*s  %*s %10s", width, "row", names, "label", "|alpha|")
	for _, x := range p.Report.Importances {
		bar := strings.Repeat("█", int(math.Round(24*portion(float64(x.Norm), largest))))
		t.line("  %*d  %*s %10s  %-24s  %s", width, x.Index, names, shorten(clean(labelNamed(x.LabelName, x.Label)), names), fixed(float64(x.Norm), listDecimals(largest)), bar, shorten(clean(x.ID), max(0, t.columns-width-names-42)))
	}
	t.line("")
	_, share := p.share()
	t.wrap("", share)
	t.wrap("", result.ImportanceMeaning)
	t.wrap("", clean(Basis(&p.Report.Fit)))
	return t.end(w, &p.Report.Fit)
}

// share returns how many examples make up half of Σ|α|, and says so in a sentence.
func (p *ImportancePage) share() (half int, say string) {
	sum, part := 0.0, 0.0
	for _, a := range p.Report.Curve {
		sum += float64(a)
	}
	if !(sum > 0) {
		return 0, "No example pulls on the model."
	}
	for part < sum/2 && half < len(p.Report.Curve) {
		part += float64(p.Report.Curve[half])
		half++
	}
	return half, fmt.Sprintf("Half of the sum of all |α| comes from %s, %s %% of the training data.",
		result.Some(half, "example", "examples"), result.Short(math.Round(1000*float64(half)/float64(len(p.Report.Curve)))/10))
}

// curvePoints is the largest number of points of the curve.
const curvePoints = 500

// area returns the SVG path of the area under a sorted curve, 1000×240.
func area(curve []result.Float) string {
	n := len(curve)
	if n == 0 || !(curve[0] > 0) {
		return ""
	}
	var b strings.Builder
	b.WriteString("M0 240")
	points := min(n, curvePoints)
	for k := range points {
		i := k * (n - 1) / max(1, points-1)
		// Each example is a step 1/n wide.
		y := fixed(240-232*float64(curve[i]/curve[0]), 2)
		fmt.Fprintf(&b, "L%s %sL%s %s", fixed(1000*float64(i)/float64(n), 2), y, fixed(1000*float64(i+1)/float64(n), 2), y)
	}
	b.WriteString("L1000 240Z")
	return b.String()
}
