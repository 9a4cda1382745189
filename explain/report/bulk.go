package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
)

// A bulk is the sum of the contributions of those training examples of one class, or of a range of targets,
// that are not listed.
type bulk struct {
	name     string
	n        int
	up, down float64 // sums of the positive and of the negative terms
}

// bulkLines is the largest number of groups that each have a line of their own.
const bulkLines = 12

// bulk returns the subtotals of the examples that are not listed.
func (s *section) bulk(listed []line) []bulk {
	var list []bulk
	for _, g := range s.out.Subtotals {
		b := bulk{name: "no example", n: g.Examples, up: float64(g.Positive), down: float64(g.Negative)}
		switch {
		case g.Label.Finite():
			b.name = "labelled " + labelNamed(g.LabelName, g.Label)
		case len(g.Range) == 2 && g.Range[0] == g.Range[1]:
			b.name = "target " + name(g.Range[0])
		case len(g.Range) == 2:
			b.name = "target " + name(g.Range[0]) + " to " + name(g.Range[1])
		}
		if s.sign < 0 {
			b.up, b.down = -b.down, -b.up
		}
		for _, l := range listed {
			has := l.Label == g.Label
			if len(g.Range) == 2 {
				has = g.Range[0] <= l.Label && l.Label <= g.Range[1]
			}
			if !has {
				continue
			}
			b.n--
			if l.term < 0 {
				b.down -= l.term
			} else {
				b.up -= l.term
			}
		}
		list = append(list, b)
	}
	if len(list) <= bulkLines {
		return list
	}
	// Merge the groups that matter least into one.
	slices.SortStableFunc(list, func(a, b bulk) int { return cmp.Compare(b.up-b.down, a.up-a.down) })
	rest := bulk{name: fmt.Sprintf("the other %d groups", len(list)-bulkLines+1)}
	for _, b := range list[bulkLines-1:] {
		rest.n, rest.up, rest.down = rest.n+b.n, rest.up+b.up, rest.down+b.down
	}
	return append(list[:bulkLines-1:bulkLines-1], rest)
}

// concentration says how many examples carry half of all pull, "" without a curve.
func (s *section) concentration(listed []line) string {
	curve := s.out.Curve
	if len(curve) == 0 {
		return ""
	}
	last := curve[len(curve)-1]
	if !(last.Abs > 0) {
		return ""
	}
	k := slices.IndexFunc(curve, func(p explain.CurvePoint) bool { return 2*p.Abs >= last.Abs })
	about := ""
	if curve[k].Terms > 32 {
		about = "about "
	}
	size := 0.0
	for _, l := range listed {
		size += math.Abs(l.term)
	}
	text := fmt.Sprintf("Half of all pull comes from %s%s of the %s examples", about, result.Count(curve[k].Terms), result.Count(last.Terms))
	if n := len(listed); n > 0 && n < last.Terms {
		text += fmt.Sprintf("; the %s listed carry %s of it", result.Count(n), percent(min(1, size/last.Abs)))
	}
	return text + "."
}

// curveFrame is the part of the curve's drawing that holds the data.
var curveFrame = plotFrame{left: 52, top: 10, width: 376, height: 214}

// curveDiagram draws the prior mean plus the largest terms, against their number. The
// dashed line is the network.
func (v *view) curveDiagram(s *section) *htmlDiagram {
	curve := s.out.Curve
	if len(curve) < 2 || !isFinite(s.m) || !isFinite(s.f) {
		return nil
	}
	at, n := func(p explain.CurvePoint) float64 { return s.m + s.sign*p.Sum }, curve[len(curve)-1].Terms
	var values []float64
	for _, p := range curve {
		values = append(values, at(p))
	}
	ends := append(slices.Clone(values), s.f)
	if v.kind != regression {
		ends = append(ends, 0) // even odds
	}
	// An axis over the values with some room.
	lo, hi := slices.Min(ends), slices.Max(ends)
	room := 0.04 * (hi - lo)
	if room == 0 {
		room = 0.5
	}
	y := axis{lo: lo - room, hi: hi + room}
	scale := func(k int) float64 { return math.Log1p(float64(k)) / math.Log1p(float64(n)) }
	ticks := map[float64]string{0: "0"}
	for k := 1; k <= n; k *= 10 {
		ticks[scale(k)] = result.Count(k)
	}
	f := curveFrame
	d := &htmlDiagram{Class: "for", Height: "248", XName: "number of training examples counted, the largest first", YName: "f with them alone"}
	d.frame(f, ticks, y.ticks())
	var px, py []float64
	for i, p := range curve {
		px, py = append(px, f.x(scale(p.Terms))), append(py, f.y(y.at(values[i])))
	}
	d.Line = path(px, py)
	d.Guide = path([]float64{f.x(0), f.x(1)}, []float64{f.y(y.at(s.f)), f.y(y.at(s.f))})
	d.Label = fmt.Sprintf("Curve of f with the largest contributions alone, from %s with none, the prior mean, to %s with all %s; dashed: the network, %s",
		fixed(s.m, s.digits), fixed(s.m+s.s, s.digits), result.Count(n), fixed(s.f, s.digits))
	return d
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
