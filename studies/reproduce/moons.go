package reproduce

import (
	"context"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/vg"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
)

// moonsStudy is the classification of [thesis].
var moonsStudy = &Study{Verb: "reproduce",
	Name:   "moons",
	Short:  "evidence against held-out likelihood, and two predictives of four posteriors, for two classes",
	Source: "[thesis] figures 5.3 and 5.5",
	Plan:   moonsPlan,
}

// moonsDelta is the prior precision that the source chose.
const moonsDelta = 0.13

// moonsPanels are a precision that fits the noise, the chosen one, and one that fits too little.
var moonsPanels = []float64{1e-4, moonsDelta, 100}

func moonsPlan(_ context.Context, o *Options) (*Plan, error) {
	d := moonsData().full()
	deltas, seeds := Logspace(-4, 2, 19), 3
	if o.Quick {
		d = d.quick()
		deltas, seeds = Logspace(-2, 1, 4), 1
	}
	p := &Plan{Version: 2}
	plane := moonsPlane()
	for _, name := range toyAlgorithms {
		p.Steps = append(p.Steps, d.algorithmStep(name, glm.Bernoulli{}, moonsDelta, plane.points()))
	}
	for _, delta := range moonsPanels {
		p.Steps = append(p.Steps, d.panelStep(glm.Bernoulli{}, delta, plane.points()))
	}
	for seed := range seeds {
		for _, delta := range deltas {
			p.Steps = append(p.Steps, Step{Key: moonsKey(delta, seed), Run: func(ctx context.Context, progress Progress) (any, error) {
				return d.gridPoint(ctx, delta, 0, uint64(seed+1), progress)
			}})
		}
	}
	p.Page = func(r *Results) (*Page, error) { return moonsPage(r, d, deltas, seeds, plane) }
	return p, nil
}

func moonsKey(delta float64, seed int) string {
	return fmt.Sprintf("delta%.2f-seed%d", math.Log10(delta)+10, seed+1)
}

// A plane is a grid of points in the plane.
type plane struct{ x, y []float64 }

func moonsPlane() plane {
	const n = 40
	var s plane
	for i := range n {
		s.x = append(s.x, -2.5+6*float64(i)/(n-1))
		s.y = append(s.y, -2.5+5.5*float64(i)/(n-1))
	}
	return s
}

// points are the points, row by row.
func (s plane) points() *mat.Dense {
	m := mat.NewDense(len(s.x)*len(s.y), 2, nil)
	for i, y := range s.y {
		for j, x := range s.x {
			m.SetRow(i*len(s.x)+j, []float64{x, y})
		}
	}
	return m
}

func moonsPage(r *Results, d *toy, deltas []float64, seeds int, s plane) (*Page, error) {
	page := &Page{Title: "Two classes: what the evidence chooses, and which predictive goes with which posterior"}
	page.Lead = []string{
		"Networks of their own are trained for each prior precision, and their evidence and their held-out log likelihood are compared [thesis, figure 5.3]. " +
			"Then four posteriors are each sampled in two ways [thesis, figure 5.5]: NN runs the network with parameters drawn from the posterior, GLM integrates over the network linearized at the posterior's mean.",
	}
	d.settings(page)
	page.Setting("data", fmt.Sprintf("two half circles with noise of standard deviation 0.3, %d training and %d held-out points", rowsOf(d.x), rowsOf(d.xTest)))
	page.Setting("precisions", fmt.Sprintf("%d from %.4g to %.4g, %d networks each", len(deltas), deltas[0], deltas[len(deltas)-1], seeds))
	section, err := moonsEvidence(r, deltas, seeds)
	if err != nil {
		return nil, err
	}
	all, err := readPredictives(r)
	if err != nil {
		return nil, err
	}
	table, verdict := predictiveTable(all)
	plots, err := moonsPredictives(all, d, s)
	if err != nil {
		return nil, err
	}
	fits, err := moonsFits(r, d, s)
	if err != nil {
		return nil, err
	}
	section.Plots = append(section.Plots, fits)
	page.Sections = append(page.Sections, *section,
		Section{Title: "Two predictives of four posteriors", Text: []string{fmt.Sprintf("δ = %v. ", moonsDelta) + verdict}, Tables: []*Table{table}, Plots: plots})
	return page, nil
}

// plateau is the difference from the best score, in nats a row, up to which a precision
// counts as good.
const plateau = 0.02

// goodRange returns the ends of the precisions around the best one whose score is within
// the plateau, and the best.
func goodRange(deltas, score []float64) (lo, best, hi float64) {
	at := 0
	for i, v := range score {
		if v > score[at] {
			at = i
		}
	}
	i, j := at, at
	for i > 0 && score[i-1] >= score[at]-plateau {
		i--
	}
	for j+1 < len(score) && score[j+1] >= score[at]-plateau {
		j++
	}
	return deltas[i], deltas[at], deltas[j]
}

// moonsEvidence is figure 5.3.
func moonsEvidence(r *Results, deltas []float64, seeds int) (*Section, error) {
	curves := make([][]float64, len(snelsonCriteria))
	all := &Table{Name: "precisions", Caption: fmt.Sprintf("Means over %d networks, with standard errors.", seeds), Head: []string{"δ", "evidence (E7) a row", "refit evidence (E9) a row", "held-out, GLM", "held-out, network"}, Digits: 4}
	for _, delta := range deltas {
		row := []Cell{Number(delta)}
		scores := make([]toyScore, seeds)
		for seed := range seeds {
			if err := r.Get(moonsKey(delta, seed), &scores[seed]); err != nil {
				return nil, err
			}
		}
		for k, c := range snelsonCriteria {
			values := make([]float64, seeds)
			for seed := range seeds {
				values[seed] = c.of(&scores[seed])
			}
			mean, _ := MeanSE(values)
			curves[k] = append(curves[k], mean)
			row = append(row, Mean(values))
		}
		all.Rows = append(all.Rows, row)
	}
	t := &Table{Name: "peaks", Caption: fmt.Sprintf("The best precision by each criterion, and the range around it within %v nats a row. The source found 0.02 to 2 good, and 0.13 best.", plateau),
		Head: []string{"criterion", "from", "best δ", "to"}}
	p := NewPlot("", "prior precision δ", "log density a row")
	LogAxis(&p.X)
	top := math.Inf(-1)
	ends := make([][2]float64, len(curves))
	for k, c := range snelsonCriteria {
		lo, best, hi := goodRange(deltas, curves[k])
		ends[k] = [2]float64{lo, hi}
		t.Rows = append(t.Rows, []Cell{Text(c.name), Number(lo), Number(best), Number(hi)})
		if err := AddLine(p, "", Colour(k), true, deltas, curves[k]); err != nil {
			return nil, err
		}
		for _, v := range curves[k] {
			top = max(top, v)
		}
	}
	frameCurves(p, top)
	legend, err := criteriaLegend()
	if err != nil {
		return nil, err
	}
	e, l := ends[0], ends[2]
	verdict := fmt.Sprintf("The evidence is within %v nats a row of its maximum from δ = %.3g to %.3g, and the held-out log likelihood of the GLM predictive from %.3g to %.3g: the ranges ", plateau, e[0], e[1], l[0], l[1])
	if max(e[0], l[0]) <= min(e[1], l[1]) {
		verdict += "overlap."
	} else {
		verdict += "do not overlap."
	}
	return &Section{Title: "Evidence and held-out likelihood", Text: []string{verdict}, Tables: []*Table{t, all},
		Plots: []*Plot{{Name: "precisions", Caption: "Means over the networks of each precision.", Width: 26 * vg.Centimeter, Grid: [][]*plot.Plot{{p, legend}}}}}, nil
}

// moonsPredictives is figure 5.5.
func moonsPredictives(all []toyPredictive, d *toy, s plane) ([]*Plot, error) {
	probability := make([][]*plot.Plot, 2)
	spread := make([][]*plot.Plot, 2)
	parts := make([][]*plot.Plot, 5)
	for i, name := range toyAlgorithms {
		for row, surface := range []toySurface{all[i].NN, all[i].GLM} {
			title := name + ", " + []string{"NN", "GLM"}[row]
			p, err := s.panel(d, title, floatsOf(surface.Mean), moreland.SmoothBlueTan(), 0, 1)
			if err != nil {
				return nil, err
			}
			q, err := s.panel(d, title, floatsOf(surface.SD), moreland.Kindlmann(), 0, 20)
			if err != nil {
				return nil, err
			}
			probability[row], spread[row] = append(probability[row], p), append(spread[row], q)
		}
		for row, part := range []struct {
			title  string
			values []result.Float
			most   float64
		}{{"sd of the logit", all[i].GLM.SD, 20}, {"Λ", all[i].GLM.LinearAleatoric, 0.25}, {"ΛJΣJᵀΛ", all[i].GLM.LinearEpistemic, 0.25},
			{"E[p(1 − p)]", all[i].GLM.Aleatoric, 0.25}, {"Var[p]", all[i].GLM.Epistemic, 0.25}} {
			p, err := s.panel(d, name+", "+part.title, floatsOf(part.values), moreland.Kindlmann(), 0, part.most)
			if err != nil {
				return nil, err
			}
			parts[row] = append(parts[row], p)
		}
	}
	size := func(name, caption string, grid [][]*plot.Plot) *Plot {
		return &Plot{Name: name, Caption: caption, Width: 30 * vg.Centimeter, Height: 15 * vg.Centimeter, Grid: grid}
	}
	return []*Plot{
		size("probability", "The probability of the second class, from 0 (blue) to 1 (brown), and the training points of the first (black) and the second class (white). Above networks drawn from each posterior, below the linearized network.", probability),
		size("deviation", "The standard deviation of the logit, from 0 (dark) to 20 and more (bright).", spread),
		{Name: "parts", Caption: "Of the linearized network: the standard deviation of the logit, from 0 to 20 and more, and the parts of the variance of the class to first order, from 0 to .25 and more: " +
			"Λ, which is large where the classes meet, and ΛJΣJᵀΛ, which also needs a logit that is not known [thesis, figure 5.5b]. Far from the data the logit is not known and large at once, so that neither part shows it. " +
			"The last two rows are the parts with the whole distribution of the logit, aleatoric and epistemic [glm, figure 4], which do.",
			Width: 30 * vg.Centimeter, Height: 37 * vg.Centimeter, Grid: parts},
	}, nil
}

// moonsFits are the panels of figure 5.3.
func moonsFits(r *Results, d *toy, s plane) (*Plot, error) {
	list, err := panels(r, moonsPanels)
	if err != nil {
		return nil, err
	}
	grid := make([][]*plot.Plot, 1)
	for i, delta := range moonsPanels {
		p, err := s.panel(d, fmt.Sprintf("δ = %g", delta), floatsOf(list[i].Mean), moreland.SmoothBlueTan(), 0, 1)
		if err != nil {
			return nil, err
		}
		grid[0] = append(grid[0], p)
	}
	return &Plot{Name: "fits", Caption: "The probability of the second class by the linearized network, from 0 (blue) to 1 (brown): networks trained with too small a precision, with the chosen one and with too large a one.",
		Width: 26 * vg.Centimeter, Height: 9 * vg.Centimeter, Grid: grid}, nil
}

// panel is a map of values at the points with the training points, those of the first class black and those of the second white.
func (s plane) panel(d *toy, title string, values []float64, colours palette.ColorMap, lo, hi float64) (*plot.Plot, error) {
	var x, y [2][]float64
	for i := range rowsOf(d.x) {
		k := int(d.y.At(i, 0))
		x[k], y[k] = append(x[k], d.x.At(i, 0)), append(y[k], d.x.At(i, 1))
	}
	p := NewPlot(title, "", "")
	addHeat(p, field{s.x, s.y, func(col, row int) float64 { return values[row*len(s.x)+col] }}, colours, lo, hi)
	for k := range x {
		if err := AddPoints(p, "", color.Gray{Y: 128}, vg.Points(1.8), x[k], y[k]); err != nil { // a rim, to be seen on any colour
			return nil, err
		}
		if err := AddPoints(p, "", []color.Color{color.Black, color.White}[k], vg.Points(1.3), x[k], y[k]); err != nil {
			return nil, err
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = s.x[0], s.x[len(s.x)-1], s.y[0], s.y[len(s.y)-1]
	return p, nil
}
