package report

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/explain/result"
)

// ImportancePage is the list of a report of importances, under the sorted curve of all |α|. The caller says from where
// the rows have pictures, and the Origin.
func ImportancePage(r *result.ImportanceReport) *ListPage {
	half, share := halfOf(r.Curve)
	n := len(r.Curve)
	list := List{Title: "The " + result.Count(len(r.Importances)) + " largest", Note: together(share) + " " + result.ImportanceMeaning, Columns: []string{"|α|"}, Empty: "There is no training example."}
	for _, x := range r.Importances {
		list.Items = append(list.Items, ListItem{Row: ListedRow{Index: x.Index, ID: x.ID, Label: labelNamed(x.LabelName, x.Label)},
			Values: []string{fixed(float64(x.Norm), listDecimals(float64(r.Importances[0].Norm)))}})
	}
	p := &ListPage{Title: "Important training examples", Eyebrow: result.Some(n, "training example", "training examples"), Lists: []List{list}, Fit: &r.Fit, Timings: &r.Timings}
	if n == 0 || !(r.Curve[0] > 0) {
		return p
	}
	f := plotFrame{left: 60, top: 8, width: 350, height: 200}
	x, y := axis{hi: float64(n)}, axis{hi: float64(r.Curve[0])}
	d := htmlDiagram{Class: "for", Height: "262", XName: "training examples, the largest first", YName: "|α|", YSide: coordinate(f.top + f.height/2), XMid: coordinate(f.left + f.width/2), NameY: "254",
		Label: fmt.Sprintf("Sorted |α|, from %s down to %s. %s", result.Short(float64(r.Curve[0])), result.Short(float64(r.Curve[n-1])), share)}
	d.frame(f, x.ticks(), y.ticks())
	var px, py []float64
	for points, k := min(n, curvePoints), 0; k < points; k++ {
		i := k * (n - 1) / max(1, points-1)
		// Each example is a step 1/n wide.
		px, py = append(px, f.x(x.at(float64(i))), f.x(x.at(float64(i+1)))), append(py, f.y(y.at(float64(r.Curve[i]))), f.y(y.at(float64(r.Curve[i]))))
	}
	d.Line = path(px, py)
	d.Guide = path([]float64{f.x(x.at(float64(half))), f.x(x.at(float64(half)))}, []float64{f.y(0), f.y(1)})
	p.figure = &htmlFigure{Title: "All examples, sorted", Diagrams: []htmlDiagram{d}, Notes: []string{"The examples to the left of the dashed line make up half of the sum of all |α|."}}
	return p
}

// curvePoints is the largest number of points of the curve.
const curvePoints = 500

// halfOf returns how many examples make up half of Σ|α|, and says so in a sentence.
func halfOf(curve []result.Float) (half int, say string) {
	sum, part := 0.0, 0.0
	for _, a := range curve {
		sum += float64(a)
	}
	if !(sum > 0) {
		return 0, "No example pulls on the model."
	}
	for part < sum/2 && half < len(curve) {
		part += float64(curve[half])
		half++
	}
	return half, fmt.Sprintf("Half of the sum of all |α| comes from %s, %s %% of the training data.",
		result.Some(half, "example", "examples"), result.Short(math.Round(1000*float64(half)/float64(len(curve)))/10))
}
