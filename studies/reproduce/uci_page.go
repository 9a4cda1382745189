package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// A uciTable is what was found for one set: for each split and precision a result.
type uciTable struct {
	set     uciSet
	results [][]uciResult // split, precision
}

// A uciChoice is the precision that was chosen on a split, with the result there.
type uciChoice struct {
	precision float64
	scale     float64     // of the covariance of ours
	scores    ClassScores // of the test rows
}

// choose returns the precision of each split at which the column's criterion is
// smallest.
func (t *uciTable) choose(c uciColumn) []uciChoice {
	var list []uciChoice
	for _, path := range t.results {
		criterion := make([]float64, len(path))
		for k := range path {
			criterion[k] = c.criterion(&path[k])
		}
		if k := ArgMin(criterion); k >= 0 {
			list = append(list, uciChoice{float64(path[k].Precision), float64(path[k].LeaveOneOut.Scale), path[k].Methods[c.method].Test})
		}
	}
	return list
}

// test returns a score of the test rows of each split.
func (t *uciTable) test(column uciColumn, score func(ClassScores) float64) []float64 {
	var values []float64
	for _, c := range t.choose(column) {
		values = append(values, score(c.scores))
	}
	return values
}

func nllOf(s ClassScores) float64 { return float64(s.NLL) }

// A uciColumn is a method with the way in which it chooses its precision.
type uciColumn struct {
	method, title string
	criterion     func(r *uciResult) float64 // the smallest is chosen; NaN where the method is left out
}

func validated(method, title string) uciColumn {
	return uciColumn{method, title, func(r *uciResult) float64 {
		if s, ok := r.Methods[method]; ok {
			return float64(s.Valid.NLL)
		}
		return math.NaN()
	}}
}

// uciColumns are those of the tables. Those of ours choose the precision by
// leave-one-out before the scale of the covariance, or both together.
func uciColumns() []uciColumn {
	var list []uciColumn
	for _, m := range uciMethods {
		list = append(list, validated(m.key, m.title))
	}
	return append(list,
		uciColumn{ours, "ours", func(r *uciResult) float64 { return float64(r.LeaveOneOut.Unscaled) }},
		uciColumn{ours, "ours, jointly", func(r *uciResult) float64 { return float64(r.LeaveOneOut.NLL) }})
}

// pageUCI makes the page of the study uci.
func pageUCI(tables []*uciTable, size *uciSize) (*Page, error) {
	page := &Page{Title: "Predictives on tables of classes", Lead: []string{
		"A network with tanh units is trained on each split at each prior precision δ, and every method predicts from it. Each method but ours chooses its δ by its own negative log likelihood (NLL) of the validation rows.",
		"MAP is the network alone. MFVI is variational inference of the network with independent parameters. BNN draws parameters from the Laplace posterior with the full generalized Gauss–Newton matrix and runs the network with them. GLM draws from the same posterior of the linearized model, GLM diagonal from that with the diagonal of the precision, and GLM refined from the Laplace posterior at the mode of the linearized model. At an optimum of the training objective θ* is that mode, so that GLM and GLM refined agree; the variational refinements of the source are those of the study refine. " +
			"Ours is that posterior with its covariance scaled. δ and then the scale are chosen by leave-one-out in closed form over the training rows, and no validation row is looked at; in the last column both are chosen together.",
	}}
	page.Sections = append(page.Sections, scoresUCI(tables), comparisonUCI(tables))
	curves, err := curvesUCI(tables)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, *curves)
	settingsUCI(page, tables, size)
	return page, nil
}

func readUCI(r *Results, sets []uciSet, splits func(uciSet) int, size *uciSize) ([]*uciTable, error) {
	var tables []*uciTable
	for _, set := range sets {
		t := &uciTable{set: set}
		for split := range min(splits(set), size.splits) {
			path := make([]uciResult, len(size.precisions))
			for k := range path {
				if err := r.Get(uciKey(set.name, split, k), &path[k]); err != nil {
					return nil, err
				}
			}
			t.results = append(t.results, path)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// scoresUCI are the tables of test scores, each with the mean over splits and its
// standard error.
func scoresUCI(tables []*uciTable) Section {
	s := Section{Title: "Scores of the test rows", Text: []string{"Mean over the splits ± its standard error; the best mean of a set stands out. Rows of published figures are those of the source."}}
	for _, kind := range []struct {
		name, caption string
		score         func(ClassScores) float64
		higher        bool
	}{
		{"nll", "Negative log likelihood, lower is better.", nllOf, false},
		{"accuracy", "Accuracy.", func(s ClassScores) float64 { return float64(s.Accuracy) }, true},
		{"ece", "Expected calibration error with 10 bins.", func(s ClassScores) float64 { return float64(s.ECE) }, false},
	} {
		table := &Table{Name: kind.name, Caption: kind.caption, Head: []string{"set", "training rows", "splits"}}
		for _, c := range uciColumns() {
			table.Head = append(table.Head, c.title)
		}
		for _, t := range tables {
			row := []Cell{Text(t.set.name), Text(fmt.Sprint(t.results[0][0].Examples)), Text(fmt.Sprint(len(t.results)))}
			for _, c := range uciColumns() {
				row = append(row, Mean(t.test(c, kind.score)))
			}
			markBest(row[3:], kind.higher)
			table.Rows = append(table.Rows, row)
			if kind.name == "nll" && t.set.published != nil {
				table.Rows = append(table.Rows, publishedRow(t.set))
			}
		}
		s.Tables = append(s.Tables, table)
	}
	return s
}

func publishedRow(set uciSet) []Cell {
	row := []Cell{Text(set.name + ", published"), {}, {}}
	for _, c := range uciColumns() {
		if v, ok := set.published[c.method]; ok {
			row = append(row, Number(v))
		} else {
			row = append(row, Cell{})
		}
	}
	return row
}

// markBest marks the cell with the smallest or the largest value.
func markBest(cells []Cell, higher bool) {
	values := make([]float64, len(cells))
	for i, c := range cells {
		if values[i] = c.Value(); higher {
			values[i] = -values[i]
		}
	}
	if best := ArgMin(values); best >= 0 {
		cells[best].Best = true
	}
}

// comparisonUCI are the differences to the published figures and of the BNN to the
// GLM, and the precisions.
func comparisonUCI(tables []*uciTable) Section {
	s := Section{Title: "Beside the source"}
	published := &Table{Name: "published", Caption: "Test NLL, the published figure, and their difference in standard errors of the mean over our splits.",
		Head: []string{"set", "method", "NLL", "published", "difference", "in standard errors"}}
	bnn := &Table{Name: "bnn", Caption: "The source finds GLM above BNN everywhere: the difference of their test NLL on the same split, BNN minus GLM.", Head: []string{"set", "BNN − GLM", "splits on which GLM is better"}}
	chosen := &Table{Name: "precision", Caption: "The geometric mean over splits of the precision δ that was chosen, and for ours of the scale of the covariance.", Digits: 2, Head: []string{"set"}}
	for _, c := range uciColumns() {
		if chosen.Head = append(chosen.Head, c.title); c.method == ours {
			chosen.Head = append(chosen.Head, "its scale")
		}
	}
	for _, t := range tables {
		precisions := []Cell{Text(t.set.name)}
		for _, c := range uciColumns() {
			precisions = append(precisions, Number(geometric(t.choose(c), func(c uciChoice) float64 { return c.precision })))
			if c.method == ours {
				precisions = append(precisions, Number(geometric(t.choose(c), func(c uciChoice) float64 { return c.scale })))
			}
			values := t.test(c, nllOf)
			want, ok := t.set.published[c.method]
			if !ok {
				continue
			}
			m, se := MeanSE(values)
			published.Rows = append(published.Rows, []Cell{Text(t.set.name), Text(c.title), Mean(values), Number(want), Number(m - want), Number((m - want) / se)})
		}
		chosen.Rows = append(chosen.Rows, precisions)
		a, b := t.test(validated("bnn", ""), nllOf), t.test(validated("glm", ""), nllOf)
		var difference []float64
		wins := 0
		for i := range min(len(a), len(b)) {
			difference = append(difference, a[i]-b[i])
			if a[i] > b[i] {
				wins++
			}
		}
		bnn.Rows = append(bnn.Rows, []Cell{Text(t.set.name), Mean(difference), Text(fmt.Sprintf("%d of %d", wins, len(difference)))})
	}
	if len(published.Rows) > 0 {
		s.Tables = append(s.Tables, published)
	}
	s.Tables = append(s.Tables, bnn, chosen)
	return s
}

// geometric is the geometric mean of a number of each choice.
func geometric(choices []uciChoice, of func(uciChoice) float64) float64 {
	var v []float64
	for _, c := range choices {
		v = append(v, of(c))
	}
	if len(v) == 0 {
		return math.NaN()
	}
	return stat.GeometricMean(v, nil)
}

// curvesUCI draws the NLL of the test rows over the precision, mean over splits.
func curvesUCI(tables []*uciTable) (*Section, error) {
	var panels []*plot.Plot
	var names []string
	for i, t := range tables {
		p := NewPlot(t.set.name, "prior precision δ", "test NLL")
		LogAxis(&p.X)
		lowest := math.Inf(1)
		for m, c := range uciCurves() {
			var x, y []float64
			for k := range t.results[0] {
				var nll []float64
				for _, path := range t.results {
					if s, ok := path[k].Methods[c.method]; ok {
						nll = append(nll, float64(s.Test.NLL))
					}
				}
				v, _ := MeanSE(nll)
				x, y = append(x, float64(t.results[0][k].Precision)), append(y, v)
				if finite(v) {
					lowest = min(lowest, v)
				}
			}
			if err := AddLine(p, "", Colour(m), true, x, y); err != nil {
				return nil, err
			}
			if i == 0 {
				names = append(names, c.title)
			}
		}
		p.Y.Min, p.Y.Max = 0.8*lowest, min(p.Y.Max, 5*lowest)
		panels = append(panels, p)
	}
	legend, err := LegendPanel(names)
	if err != nil {
		return nil, err
	}
	const perRow = 3
	var grid [][]*plot.Plot
	for row := range slices.Chunk(append(panels, legend), perRow) {
		grid = append(grid, append(slices.Clone(row), make([]*plot.Plot, perRow-len(row))...))
	}
	return &Section{Title: "Over the prior precision", Text: []string{"Mean over the splits. The axis ends at five times the lowest value of any method."},
		Plots: []*Plot{{Name: "precision", Caption: "Test NLL of every method over δ.", Grid: grid, Width: 28 * vg.Centimeter, Height: vg.Length(len(grid)) * 8 * vg.Centimeter}}}, nil
}

// uciCurves are the columns with curves of their own.
func uciCurves() []uciColumn {
	return slices.DeleteFunc(uciColumns(), func(c uciColumn) bool { return c.title == "ours, jointly" })
}

// settingsUCI says how the table was made, and what may matter.
func settingsUCI(page *Page, tables []*uciTable, size *uciSize) {
	var names []string
	worst, steps, examples, warnings := 0.0, 0, 0, 0
	for _, t := range tables {
		names = append(names, t.set.name)
		for _, path := range t.results {
			for _, r := range path {
				worst, steps, examples = max(worst, float64(r.GradientNorm)), max(steps, r.Iterations), max(examples, r.Examples)
				if len(r.Warnings) > 0 {
					warnings++
				}
			}
		}
	}
	page.Setting("sets", strings.Join(names, ", "))
	page.Setting("network", fmt.Sprintf("hidden layers of %v tanh units; one output and the Bernoulli likelihood for two classes, else one output a class", size.hidden))
	page.Setting("training", fmt.Sprintf("−Σ log p + ½δ‖θ‖², biases included, to its optimum by full-batch L-BFGS in place of the source's 10,000 Adam steps; at most %d iterations, largest gradient norm at the end %.1e", steps, worst))
	page.Setting("precisions", fmt.Sprintf("%d, equally spaced in the logarithm from %.4g to %.4g", len(size.precisions), size.precisions[0], size.precisions[len(size.precisions)-1]))
	page.Setting("samples", fmt.Sprintf("%d of the BNN and the GLM predictives; ours integrates without samples", size.samples))
	page.Setting("mean-field", fmt.Sprintf("%d steps of Adam from the initial parameters, one draw of the parameters each, where the source draws the activations of each row", size.meanField))
	page.Setting("leave-one-out", fmt.Sprintf("over %d random training rows where there are more", mostLeftOut))
	page.Setting("splits", "those of the source's seeds, 70/15/15 stratified, as many as the table says; of waveform seeds of its own")
	page.Setting("steps with warnings", fmt.Sprint(warnings))
}
