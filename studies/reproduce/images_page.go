package reproduce

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/funcgp/funcgp/explain/result"
)

// An imagesTable is what was found for one network: for each seed and precision a
// result.
type imagesTable struct {
	kind    string
	results [][]imagesResult
}

// imagesTitles name the networks.
var imagesTitles = map[string]string{"mlp": "MLP", "cnn": "CNN"}

// An imagesColumn is a score of a table. It is better where it is higher or lower.
type imagesColumn struct {
	title  string
	score  func(s *imagesScores) result.Float
	higher bool
}

var imagesColumns = []imagesColumn{
	{"accuracy", func(s *imagesScores) result.Float { return s.Test.Accuracy }, true},
	{"NLL", func(s *imagesScores) result.Float { return s.Test.NLL }, false},
	{"ECE", func(s *imagesScores) result.Float { return s.Test.ECE }, false},
	{"AUROC, letters", func(s *imagesScores) result.Float { return s.Letters }, true},
	{"AUROC, turned by 90°", func(s *imagesScores) result.Float { return s.Right }, true},
}

// An imagesRow is a method of a table.
type imagesRow struct{ method, title string }

func imagesRows() []imagesRow {
	var rows []imagesRow
	for _, m := range imagesMethods {
		rows = append(rows, imagesRow{m.key, m.title})
	}
	return append(rows, imagesRow{ours, "ours"})
}

// chosen returns the result of each seed at the precision at which the validation rows
// have the smallest NLL.
func (t *imagesTable) chosen(row imagesRow) []*imagesResult {
	var list []*imagesResult
	for _, path := range t.results {
		criterion := make([]float64, len(path))
		for k := range path {
			criterion[k] = math.NaN()
			if s, ok := path[k].Methods[row.method]; ok {
				criterion[k] = float64(s.Valid.NLL)
			}
		}
		if k := ArgMin(criterion); k >= 0 {
			list = append(list, &path[k])
		}
	}
	return list
}

// scores are a score of each seed.
func (t *imagesTable) scores(row imagesRow, column imagesColumn) []float64 {
	var values []float64
	for _, r := range t.chosen(row) {
		s := r.Methods[row.method]
		values = append(values, float64(column.score(&s)))
	}
	return values
}

// readImages reads what was found.
func readImages(r *Results, kinds []string, size *imagesSize) ([]*imagesTable, error) {
	var tables []*imagesTable
	for _, kind := range kinds {
		t := &imagesTable{kind: kind}
		for seed := range size.seeds {
			path := make([]imagesResult, len(size.precisions))
			for k := range path {
				if err := r.Get(imagesKey(kind, seed, k), &path[k]); err != nil {
					return nil, err
				}
			}
			t.results = append(t.results, path)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// pageImages makes the page of the study images.
func pageImages(tables []*imagesTable, size *imagesSize) (*Page, error) {
	page := &Page{Title: "Predictives of digits and of what is none", Lead: []string{
		"Networks are trained on MNIST at each prior precision δ, and every method predicts from them: test digits, test digits that are turned, and letters of Kuzushiji-MNIST. Each method chooses its δ by its own negative log likelihood (NLL) of validation rows.",
		"MAP is the network alone. BNN draws parameters from the Laplace posterior with Kronecker factors and runs the network with them; GLM draws from the same posterior of the linearized model. GLM diagonal has independent parameters, GLM refined is at the mode of the linearized model, and ours is GLM refined with the scale of its covariance that suits the validation rows best. AUROC says how well the entropy of the predictive tells foreign pictures from test digits; that of ours is of the unscaled covariance.",
	}}
	for _, t := range tables {
		section, err := t.section(size)
		if err != nil {
			return nil, err
		}
		page.Sections = append(page.Sections, *section)
	}
	settingsImages(page, tables, size)
	return page, nil
}

// section shows one network.
func (t *imagesTable) section(size *imagesSize) (*Section, error) {
	title := imagesTitles[t.kind]
	entropy, histograms, err := t.entropy()
	if err != nil {
		return nil, err
	}
	section := &Section{Title: title, Tables: []*Table{t.scored(imagesRows()), t.ordering(), entropy}}
	section.Plots, err = t.plots(size)
	section.Plots = append(section.Plots, histograms)
	return section, err
}

// scored is the table of the scores of methods.
func (t *imagesTable) scored(rows []imagesRow) *Table {
	scores := &Table{Name: t.kind, Caption: fmt.Sprintf("%s: mean over the seeds ± its standard error.", imagesTitles[t.kind]), Digits: 4, Head: []string{"method"}}
	for _, c := range imagesColumns {
		scores.Head = append(scores.Head, c.title)
	}
	scores.Head = append(scores.Head, "δ", "scale")
	for _, row := range rows {
		cells := []Cell{Text(row.title)}
		for _, c := range imagesColumns {
			cells = append(cells, Mean(t.scores(row, c)))
		}
		precision, scale := 0.0, 0.0
		chosen := t.chosen(row)
		for _, r := range chosen {
			precision += math.Log(float64(r.Precision)) / float64(len(chosen))
			scale += math.Log(float64(r.Scale)) / float64(len(chosen))
		}
		cells = append(cells, Number(math.Exp(precision)))
		if row.method == ours || row.method == "subset" {
			cells = append(cells, Number(math.Exp(scale)))
		} else {
			cells = append(cells, Cell{})
		}
		scores.Rows = append(scores.Rows, cells)
	}
	for c, column := range imagesColumns {
		cells := make([]Cell, len(scores.Rows))
		for i := range scores.Rows {
			cells[i] = scores.Rows[i][c+1]
		}
		markBest(cells, column.higher)
		for i := range scores.Rows {
			scores.Rows[i][c+1] = cells[i]
		}
	}
	return scores
}

// entropy shows the histograms of the entropy of test digits and of letters, and their overlap.
func (t *imagesTable) entropy() (*Table, *Plot, error) {
	table := &Table{Name: t.kind + "-entropy", Digits: 3, Head: []string{"method", "mean entropy of test digits", "of letters", "overlap of the histograms"}}
	plots, overlaps := make([]*plot.Plot, 0, 3), map[string]float64{}
	for _, row := range imagesRows() {
		var means [2][]float64
		var overlap []float64
		sum := [2][]float64{make([]float64, entropyBins), make([]float64, entropyBins)}
		for _, r := range t.chosen(row) {
			var mean [2]float64
			common, shares := 0.0, r.Methods[row.method].Entropy
			for bin := range entropyBins {
				common += min(float64(shares[0][bin]), float64(shares[1][bin]))
				for i := range shares {
					mean[i] += float64(shares[i][bin]) * entropyBin(bin)
					sum[i][bin] += float64(shares[i][bin]) / float64(len(t.results))
				}
			}
			means[0], means[1], overlap = append(means[0], mean[0]), append(means[1], mean[1]), append(overlap, common)
		}
		overlaps[row.method], _ = MeanSE(overlap)
		table.Rows = append(table.Rows, []Cell{Text(row.title), Mean(means[0]), Mean(means[1]), Mean(overlap)})
		if row.method != "map" && row.method != "bnn" && row.method != "glm" {
			continue
		}
		panel := NewPlot(row.title, "entropy, nats", "share of pictures")
		for i, name := range []string{"test digits", "letters"} {
			if err := addHistogram(panel, name, Colour(i), sum[i]); err != nil {
				return nil, nil, err
			}
		}
		panel.Y.Min, panel.Y.Max = 0, 1
		plots = append(plots, panel)
	}
	holds := "holds"
	if overlaps["glm"] >= min(overlaps["map"], overlaps["bnn"]) {
		holds = "does not hold"
	}
	table.Caption = "Entropy of the predictive, from the histograms below. The source's claim, that MAP is too sure of foreign pictures and BNN unsure of test digits, so that GLM tells them apart best, " + holds + " by the overlap."
	return table, &Plot{Name: t.kind + "-entropy", Caption: "Histograms of the entropy of the predictive, each method at the precision that it chose, mean over the seeds [glm fig. 6].", Grid: [][]*plot.Plot{plots}, Width: 30 * vg.Centimeter}, nil
}

// entropyBin is the middle of a bin, in nats.
func entropyBin(bin int) float64 { return (float64(bin) + 0.5) / entropyBins * math.Log(10) }

// addHistogram draws the shares of bins of the entropy.
func addHistogram(p *plot.Plot, name string, colour color.Color, shares []float64) error {
	var x, y []float64
	width := math.Log(10) / entropyBins
	for bin, v := range shares {
		x, y = append(x, float64(bin)*width, float64(bin+1)*width), append(y, v, v)
	}
	if err := AddBand(p, "", colour, x, make([]float64, len(x)), y); err != nil {
		return err
	}
	return AddLine(p, name, colour, false, x, y)
}

// ordering compares the BNN with the GLM, as the source orders them.
func (t *imagesTable) ordering() *Table {
	table := &Table{Name: t.kind + "-ordering", Caption: "The source finds GLM above BNN in NLL, ECE and AUROC: how much better GLM is here, with the sign so that more is better.", Digits: 4,
		Head: []string{"score", "GLM better than BNN by", "seeds on which it is"}}
	var bnn, glm imagesRow
	for _, row := range imagesRows() {
		switch row.method {
		case "bnn":
			bnn = row
		case "glm":
			glm = row
		}
	}
	for _, c := range imagesColumns {
		a, b := t.scores(bnn, c), t.scores(glm, c)
		var gain []float64
		wins := 0
		for i := range min(len(a), len(b)) {
			d := a[i] - b[i]
			if c.higher {
				d = -d
			}
			gain = append(gain, d)
			if d > 0 {
				wins++
			}
		}
		table.Rows = append(table.Rows, []Cell{Text(c.title), Mean(gain), Text(fmt.Sprintf("%d of %d", wins, len(gain)))})
	}
	return table
}

// plots draw the NLL of turned digits over the angle, and the NLL and the AUROC over
// the precision.
func (t *imagesTable) plots(size *imagesSize) ([]*Plot, error) {
	turned := NewPlot("", "degrees", "NLL of turned digits")
	nll, auroc := NewPlot("", "prior precision δ", "test NLL"), NewPlot("", "prior precision δ", "AUROC, letters")
	LogAxis(&nll.X)
	LogAxis(&auroc.X)
	var names []string
	mean := func(values []float64) float64 { m, _ := MeanSE(values); return m }
	for i, row := range imagesRows() {
		names = append(names, row.title)
		var y []float64
		for a := range size.angles {
			var values []float64
			for _, r := range t.chosen(row) {
				values = append(values, float64(r.Methods[row.method].Turned[a]))
			}
			y = append(y, mean(values))
		}
		if err := AddLine(turned, "", Colour(i), true, size.angles, y); err != nil {
			return nil, err
		}
		var byNLL, byAUROC []float64
		for k := range size.precisions {
			var values, letters []float64
			for _, path := range t.results {
				values, letters = append(values, float64(path[k].Methods[row.method].Test.NLL)), append(letters, float64(path[k].Methods[row.method].Letters))
			}
			byNLL, byAUROC = append(byNLL, mean(values)), append(byAUROC, mean(letters))
		}
		if err := AddLine(nll, "", Colour(i), true, size.precisions, byNLL); err != nil {
			return nil, err
		}
		if err := AddLine(auroc, "", Colour(i), true, size.precisions, byAUROC); err != nil {
			return nil, err
		}
	}
	LogAxis(&nll.Y)
	legend, err := LegendPanel(names)
	if err != nil {
		return nil, err
	}
	return []*Plot{
		{Name: t.kind + "-turned", Caption: "NLL of test digits that are turned against the clock, each method at the precision that it chose.", Grid: [][]*plot.Plot{{turned, legend}}, Width: 24 * vg.Centimeter},
		{Name: t.kind + "-precision", Caption: "Test NLL and AUROC against letters at every precision, mean over the seeds.", Grid: [][]*plot.Plot{{nll, auroc, legend}}, Width: 30 * vg.Centimeter},
	}, nil
}

// settingsImages says how the tables were made.
func settingsImages(page *Page, tables []*imagesTable, size *imagesSize) {
	parameters := ""
	gradient, mode, warnings := 0.0, 0.0, 0
	for _, t := range tables {
		parameters += fmt.Sprintf(" %s with %d parameters;", imagesTitles[t.kind], t.results[0][0].Parameters)
		for _, path := range t.results {
			for _, r := range path {
				gradient, mode = max(gradient, float64(r.GradientNorm)), max(mode, float64(r.ModeGradient))
				if len(r.Warnings) > 0 {
					warnings++
				}
			}
		}
	}
	page.Setting("networks", parameters[1:]+fmt.Sprintf(" tanh; two hidden layers of %d, or two 5×5 convolutions of 4 and 8 filters with stride 2 and a hidden layer of 32", size.units))
	page.Setting("data", fmt.Sprintf("the first %d training rows, the next %d for validation, the first %d test rows, the first %d test letters and as many digits turned by 90°; %d digits at each angle", size.train, size.valid, size.test, size.letters, size.turned))
	page.Setting("training", fmt.Sprintf("−Σ log p + ½δ‖θ‖², %d epochs of Adam and up to %d iterations of L-BFGS; largest gradient norm at the end %.1e", size.epochs, size.iterations, gradient))
	page.Setting("precisions", fmt.Sprintf("%d, equally spaced in the logarithm from %.4g to %.4g", len(size.precisions), size.precisions[0], size.precisions[len(size.precisions)-1]))
	page.Setting("samples", fmt.Sprintf("%d of the BNN and the GLM predictives; ours integrates without samples", size.samples))
	page.Setting("refined", fmt.Sprintf("at most %d Newton steps of %d products; largest gradient norm where they ended %.1e", imagesNewton, imagesProducts, mode))
	page.Setting("seeds", fmt.Sprint(size.seeds))
	page.Setting("steps with warnings", fmt.Sprint(warnings))
}
