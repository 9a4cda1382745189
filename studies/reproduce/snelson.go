package reproduce

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/variational"
)

// snelson is the regression of [thesis]: which prior precision and noise variance the
// evidence chooses, and which predictive goes with which posterior.
var snelson = &Study{Verb: "reproduce",
	Name:   "snelson",
	Short:  "evidence against held-out likelihood, and two predictives of four posteriors, for a regression",
	Source: "[thesis] figures 5.2 and 5.4",
	Plan:   snelsonPlan,
}

// The prior precision and the noise variance that the source chose by the evidence, and
// the variance of the noise in the data.
const snelsonDelta, snelsonSigma2, snelsonNoise = 0.63, 0.1, 0.09

// snelsonPanels are a precision that fits the noise, the chosen one, and one that fits too little.
var snelsonPanels = []float64{1e-4, snelsonDelta, 100}

func snelsonPlan(_ context.Context, o *Options) (*Plan, error) {
	d := snelsonData().full()
	deltas, sigmas, seeds := Logspace(-4, 2, 13), Logspace(-3, 1, 9), 3
	if o.Quick {
		d = d.quick()
		deltas, sigmas, seeds = Logspace(-2, 1, 3), Logspace(-2, 0, 3), 1
	}
	g := &toyGrid{deltas: deltas, sigmas: sigmas, seeds: seeds}
	p := &Plan{Version: 1}
	line := snelsonLine()
	lik, err := glm.NewGaussian(snelsonSigma2)
	if err != nil {
		return nil, err
	}
	for _, name := range toyAlgorithms {
		p.Steps = append(p.Steps, d.algorithmStep(name, lik, snelsonDelta, line))
	}
	for _, delta := range snelsonPanels {
		p.Steps = append(p.Steps, d.panelStep(lik, delta, line))
	}
	for seed := range g.seeds {
		for _, between := range []bool{false, true} { // every second line of the grid first
			for i, sigma2 := range sigmas {
				for j, delta := range deltas {
					if (i%2 == 1 || j%2 == 1) != between {
						continue
					}
					p.Steps = append(p.Steps, Step{Key: gridKey(delta, sigma2, seed), Run: func(ctx context.Context, progress Progress) (any, error) {
						return d.gridPoint(ctx, delta, sigma2, uint64(seed+1), progress)
					}})
				}
			}
		}
	}
	p.Page = func(r *Results) (*Page, error) { return snelsonPage(r, d, g, line) }
	return p, nil
}

// snelsonLine are the inputs at which figure 5.4 is drawn.
func snelsonLine() *mat.Dense {
	const n = 161
	x := mat.NewDense(n, 1, nil)
	for i := range n {
		x.Set(i, 0, -1+8*float64(i)/(n-1))
	}
	return x
}

// gridPoint trains a network for a prior precision and a noise variance, 0 for a
// Bernoulli likelihood, and scores it.
func (d *toy) gridPoint(ctx context.Context, delta, sigma2 float64, seed uint64, progress Progress) (*toyScore, error) {
	var lik glm.Likelihood = glm.Bernoulli{}
	if sigma2 > 0 {
		var err error
		if lik, err = glm.NewGaussian(sigma2); err != nil {
			return nil, err
		}
	}
	m, err := d.fit(ctx, lik, delta, seed, progress)
	if err != nil {
		return nil, err
	}
	return m.score(ctx)
}

// algorithmStep is the step of one posterior of figures 5.4 and 5.5.
func (d *toy) algorithmStep(name string, lik glm.Likelihood, delta float64, grid *mat.Dense) Step {
	cost := 60
	if name == "Laplace" {
		cost = 2
	}
	var inputs []string
	if toyRuns[name].initial {
		inputs = []string{"from the parameters before training"}
	}
	return Step{Key: strings.ToLower(name), Cost: cost, Inputs: inputs, Run: func(ctx context.Context, progress Progress) (any, error) {
		m, err := d.fit(ctx, lik, delta, 1, func(int, int) {})
		if err != nil {
			return nil, err
		}
		q, err := m.posterior(ctx, name, progress)
		if err != nil {
			return nil, err
		}
		return m.predict(ctx, q, grid)
	}}
}

// gridKey names the step of a network of a point of the grid.
func gridKey(delta, sigma2 float64, seed int) string {
	key := fmt.Sprintf("delta%.2f-noise%.2f", math.Log10(delta)+10, math.Log10(sigma2)+10)
	if seed > 0 {
		key += fmt.Sprintf("-seed%d", seed+1)
	}
	return key
}

// A toyGrid holds the scores of a grid of prior precisions and noise variances.
type toyGrid struct {
	deltas, sigmas []float64
	seeds          int          // networks of a point
	scores         [][]toyScore // by noise, then precision; means over the networks
}

// read reads all scores.
func (g *toyGrid) read(r *Results) error {
	g.scores = make([][]toyScore, len(g.sigmas))
	for i, sigma2 := range g.sigmas {
		g.scores[i] = make([]toyScore, len(g.deltas))
		for j, delta := range g.deltas {
			for seed := range g.seeds {
				var one toyScore
				if err := r.Get(gridKey(delta, sigma2, seed), &one); err != nil {
					return err
				}
				g.scores[i][j].add(&one, 1/result.Float(g.seeds))
			}
		}
	}
	return nil
}

// peak returns where a score is largest.
func (g *toyGrid) peak(of func(s *toyScore) float64) (row, col int) {
	best := math.Inf(-1)
	for i := range g.scores {
		for j := range g.scores[i] {
			if v := of(&g.scores[i][j]); v > best {
				best, row, col = v, i, j
			}
		}
	}
	return row, col
}

func evidenceOf(s *toyScore) float64 { return float64(s.Evidence) }
func refitOf(s *toyScore) float64    { return float64(s.Refit) }
func logLikOf(s *toyScore) float64   { return float64(s.LogLik) }
func networkOf(s *toyScore) float64  { return float64(s.Network) }

// snelsonCriteria are what chooses the two numbers.
var snelsonCriteria = []struct {
	name string
	of   func(s *toyScore) float64
}{{"evidence at θ* (E7)", evidenceOf}, {"evidence of the refit (E9)", refitOf}, {"held-out log likelihood, GLM", logLikOf}, {"held-out log likelihood, network alone", networkOf}}

// criteriaLegend names the curves of the criteria.
func criteriaLegend() (*plot.Plot, error) {
	var names []string
	for _, c := range snelsonCriteria {
		names = append(names, c.name)
	}
	return LegendPanel(names)
}

func snelsonPage(r *Results, d *toy, g *toyGrid, line *mat.Dense) (*Page, error) {
	if err := g.read(r); err != nil {
		return nil, err
	}
	page := &Page{Title: "A regression: what the evidence chooses, and which predictive goes with which posterior"}
	page.Lead = []string{
		"Networks of their own are trained for each point of the grid, to the maximum of their log posterior; the means of their evidences and of their held-out log likelihoods are compared [thesis, figure 5.2]. " +
			"Then four posteriors are each sampled in two ways [thesis, figure 5.4]: NN runs the network with parameters drawn from the posterior, GLM integrates over the network linearized at the posterior's mean.",
	}
	d.settings(page)
	page.Setting("data", fmt.Sprintf("%d training and %d held-out points of the source's data, noise variance %v, no training points between 1.5 and 2.4", rowsOf(d.x), rowsOf(d.xTest), snelsonNoise))
	page.Setting("grid", fmt.Sprintf("%d precisions δ from %.4g to %.4g, %d noise variances σ² from %.4g to %.4g, %d networks each", len(g.deltas), g.deltas[0], g.deltas[len(g.deltas)-1], len(g.sigmas), g.sigmas[0], g.sigmas[len(g.sigmas)-1], g.seeds))
	section, err := snelsonEvidence(g)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, *section)
	all, err := readPredictives(r)
	if err != nil {
		return nil, err
	}
	table, verdict := predictiveTable(all)
	plot, err := snelsonPredictives(all, d, line)
	if err != nil {
		return nil, err
	}
	fits, err := snelsonFits(r, d, line)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, Section{Title: "Two predictives of four posteriors", Text: []string{fmt.Sprintf("δ = %v and σ² = %v. ", snelsonDelta, snelsonSigma2) + verdict}, Tables: []*Table{table}, Plots: []*Plot{plot, fits}})
	return page, nil
}

func rowsOf(m *mat.Dense) int {
	n, _ := m.Dims()
	return n
}

// settings adds what all toys have.
func (d *toy) settings(p *Page) {
	p.Setting("network", fmt.Sprintf("%d hidden layers of %d units, tanh", d.layers, d.hidden))
	p.Setting("training", fmt.Sprintf("%d full-batch steps of Adam at 0.005 with a cosine schedule, then up to %d iterations of L-BFGS", d.adam, d.lbfgs))
	for _, name := range toyAlgorithms[1:] {
		run, phases := toyRuns[name], ""
		for _, phase := range run.phases {
			phases += fmt.Sprintf("%d updates with γ = %v, ", phase.updates/d.updates, phase.rate)
		}
		draws := fmt.Sprintf("; %d draws an update", run.draws)
		if run.algorithm == variational.OGGN {
			draws = ""
		}
		from := "the Laplace posterior with its precision"
		if run.initial {
			from = "the parameters before training, with the prior's precision"
		}
		p.Setting(name, phases+fmt.Sprintf("from %s raised by %v", from, run.raised)+draws)
	}
	p.Setting("samples", fmt.Sprintf("%d networks for NN; GLM integrates without samples", d.samples))
}

// snelsonEvidence is figure 5.2.
func snelsonEvidence(g *toyGrid) (*Section, error) {
	t := &Table{Name: "peaks", Caption: "Where each criterion is largest. The source found δ = 0.63 and σ² = 0.1 by the evidence.", Head: []string{"criterion", "δ", "σ²", "evidence (E7) a row there", "held-out log likelihood there"}, Digits: 4}
	for _, c := range snelsonCriteria {
		i, j := g.peak(c.of)
		s := &g.scores[i][j]
		t.Rows = append(t.Rows, []Cell{Text(c.name), Number(g.deltas[j]), Number(g.sigmas[i]), Number(evidenceOf(s)), Number(logLikOf(s))})
	}
	grid := &Table{Name: "grid", Caption: fmt.Sprintf("All points of the grid, means over %d networks.", g.seeds), Head: []string{"σ²", "δ", "evidence (E7) a row", "refit evidence (E9) a row", "held-out, GLM", "held-out, network", "gradient norm"}, Digits: 4}
	for i, sigma2 := range g.sigmas {
		for j, delta := range g.deltas {
			s := &g.scores[i][j]
			grid.Rows = append(grid.Rows, []Cell{Number(sigma2), Number(delta), Number(evidenceOf(s)), Number(refitOf(s)), Number(logLikOf(s)), Number(networkOf(s)), Number(float64(s.Gradient))})
		}
	}
	ei, ej := g.peak(evidenceOf)
	ti, tj := g.peak(logLikOf)
	verdict := fmt.Sprintf("The evidence is largest at δ = %.3g, σ² = %.3g and the held-out log likelihood at δ = %.3g, σ² = %.3g: %d and %d steps of the grid apart.",
		g.deltas[ej], g.sigmas[ei], g.deltas[tj], g.sigmas[ti], abs(ej-tj), abs(ei-ti))
	left, err := g.heat("evidence (E7) a row", evidenceOf)
	if err != nil {
		return nil, err
	}
	right, err := g.heat("held-out log likelihood, GLM", logLikOf)
	if err != nil {
		return nil, err
	}
	maps := &Plot{Name: "maps", Caption: fmt.Sprintf("Both by precision and noise variance. Colours go from %v below the maximum (dark, and all that is less) to the maximum (bright); the cross is the maximum.", heatDepth), Width: 26 * vg.Centimeter, Height: 10 * vg.Centimeter, Grid: [][]*plot.Plot{{left, right}}}
	overDelta, err := g.profile(true, ei)
	if err != nil {
		return nil, err
	}
	overNoise, err := g.profile(false, ej)
	if err != nil {
		return nil, err
	}
	legend, err := criteriaLegend()
	if err != nil {
		return nil, err
	}
	lines := &Plot{Name: "profiles", Caption: "Along the lines of the grid through the maximum of the evidence.", Width: 30 * vg.Centimeter, Height: 9 * vg.Centimeter, Grid: [][]*plot.Plot{{overDelta, overNoise, legend}}}
	return &Section{Title: "Evidence and held-out likelihood", Text: []string{verdict}, Tables: []*Table{t, grid}, Plots: []*Plot{maps, lines}}, nil
}

func abs(i int) int { return max(i, -i) }

// profile draws the criteria along a line of the grid: over δ in row at, or over σ² in
// column at.
func (g *toyGrid) profile(overDelta bool, at int) (*plot.Plot, error) {
	x, title, label := g.deltas, fmt.Sprintf("σ² = %.3g", g.sigmas[at%len(g.sigmas)]), "prior precision δ"
	if !overDelta {
		x, title, label = g.sigmas, fmt.Sprintf("δ = %.3g", g.deltas[at]), "noise variance σ²"
	}
	p := NewPlot(title, label, "log density a row")
	LogAxis(&p.X)
	top := math.Inf(-1)
	for k, c := range snelsonCriteria {
		y := make([]float64, len(x))
		for i := range x {
			s := &g.scores[i%len(g.sigmas)][at]
			if overDelta {
				s = &g.scores[at][i]
			}
			y[i] = c.of(s)
			top = max(top, y[i])
		}
		if err := AddLine(p, "", Colour(k), true, x, y); err != nil {
			return nil, err
		}
	}
	frameCurves(p, top)
	return p, nil
}

// heatDepth is how far below the maximum the colours of a map of scores go.
const heatDepth = 1.0

// heat draws a score by δ and σ².
func (g *toyGrid) heat(title string, of func(s *toyScore) float64) (*plot.Plot, error) {
	p := NewPlot(title, "log10 δ", "log10 σ²")
	row, col := g.peak(of)
	top := of(&g.scores[row][col])
	x, y := logs(g.deltas), logs(g.sigmas)
	addHeat(p, field{x, y, func(col, row int) float64 { return of(&g.scores[row][col]) }}, moreland.Kindlmann(), top-heatDepth, top)
	cross, err := plotter.NewScatter(plotter.XYs{{X: x[col], Y: y[row]}})
	if err != nil {
		return nil, err
	}
	cross.GlyphStyle = draw.GlyphStyle{Color: Colour(6), Radius: vg.Points(6), Shape: draw.CrossGlyph{}}
	p.Add(cross)
	return p, nil
}

// snelsonPredictives is figure 5.4.
func snelsonPredictives(all []toyPredictive, d *toy, line *mat.Dense) (*Plot, error) {
	grid := make([][]*plot.Plot, 2)
	for i, name := range toyAlgorithms {
		for row, s := range []toySurface{all[i].NN, all[i].GLM} {
			p, err := snelsonBand(name+", "+[]string{"NN", "GLM"}[row], &s, d, line)
			if err != nil {
				return nil, err
			}
			grid[row] = append(grid[row], p)
		}
	}
	return &Plot{Name: "predictives", Caption: "Mean and two standard deviations of the function, which both predictives have before noise, and the training points. Above networks drawn from each posterior, below the linearized network.",
		Width: 30 * vg.Centimeter, Height: 14 * vg.Centimeter, Grid: grid}, nil
}

// snelsonFits are the panels of figure 5.2.
func snelsonFits(r *Results, d *toy, line *mat.Dense) (*Plot, error) {
	list, err := panels(r, snelsonPanels)
	if err != nil {
		return nil, err
	}
	grid := make([][]*plot.Plot, 1)
	for i, delta := range snelsonPanels {
		p, err := snelsonBand(fmt.Sprintf("δ = %g", delta), &list[i], d, line)
		if err != nil {
			return nil, err
		}
		grid[0] = append(grid[0], p)
	}
	return &Plot{Name: "fits", Caption: fmt.Sprintf("Mean and two standard deviations of the function at σ² = %g: networks trained with too small a precision, with the chosen one and with too large a one.", snelsonSigma2),
		Width: 26 * vg.Centimeter, Height: 8 * vg.Centimeter, Grid: grid}, nil
}

// snelsonBand is a surface with the training points.
func snelsonBand(title string, s *toySurface, d *toy, line *mat.Dense) (*plot.Plot, error) {
	x := mat.Col(nil, 0, line)
	p := NewPlot(title, "", "")
	mean, lo, hi := floatsOf(s.Mean), make([]float64, len(x)), make([]float64, len(x))
	for k, sd := range floatsOf(s.SD) {
		lo[k], hi[k] = max(mean[k]-2*sd, -4), min(mean[k]+2*sd, 4)
		lo[k], hi[k] = min(lo[k], 4), max(hi[k], -4)
	}
	if err := AddBand(p, "", Colour(0), x, lo, hi); err != nil {
		return nil, err
	}
	if err := AddLine(p, "", Colour(0), false, x, mean); err != nil {
		return nil, err
	}
	if err := AddPoints(p, "", Colour(6), vg.Points(1.2), mat.Col(nil, 0, d.x), mat.Col(nil, 0, d.y)); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x[0], x[len(x)-1], -4, 4
	return p, nil
}
