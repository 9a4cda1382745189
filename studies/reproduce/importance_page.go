package reproduce

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// page shows the curve, the digits and what is lost without some.
func (s *importanceStudy) page(r *Results) (*Page, error) {
	all := make([]importanceResult, s.seeds)
	for seed := range all {
		if err := r.Get(s.key(seed), &all[seed]); err != nil {
			return nil, err
		}
	}
	p := &Page{Title: "Which training digits hold the function in place",
		Lead: []string{"The mean of the refitted posterior is m(x) + Σ κ(x, x_i) α_i (E12): a training digit with α_i = 0 could be left out without a change of the function. At the mode α_i is the residual y_i − p_i, so that |α_i| is the probability that the model gives to the other digit."}}
	p.Setting("data", fmt.Sprintf("MNIST's digits 4 and 9: the first %d of the training part, %d of the test part", s.rows, all[0].Test))
	p.Setting("network", fmt.Sprintf("the CNN of the source (3 and 8 filters of 5×5, 25 and 25 hidden units) with one output, %d parameters; %d epochs of Adam, then at most %d iterations of L-BFGS", all[0].Parameters, s.epochs, s.lbfgs))
	p.Setting("prior precision δ", strconv.Itoa(importanceDelta))
	p.Setting("networks", fmt.Sprintf("%d, from different seeds", s.seeds))
	curve, err := s.curve(all)
	if err != nil {
		return nil, err
	}
	p.Sections = append(p.Sections, curve)
	digits, err := s.digits(&all[0])
	if err != nil {
		return nil, err
	}
	without, err := s.without(all)
	if err != nil {
		return nil, err
	}
	p.Sections = append(p.Sections, digits, s.predictions(&all[0]), without)
	return p, nil
}

// absolute returns |α| of a network.
func (r *importanceResult) absolute() []float64 {
	v := make([]float64, len(r.Alpha))
	for i, a := range r.Alpha {
		v[i] = math.Abs(float64(a))
	}
	return v
}

// shareOf is the part of the sum that the largest numbers hold; v falls.
func shareOf(v []float64, part float64) float64 {
	top, sum := 0.0, 0.0
	n := int(math.Round(part * float64(len(v))))
	for i, x := range v {
		if sum += x; i < n {
			top += x
		}
	}
	return top / sum
}

// curve is the sorted curve of |α| with what it says in numbers.
func (s *importanceStudy) curve(all []importanceResult) (Section, error) {
	section := Section{Title: "The sorted curve"}
	c := NewPlot("", "rank of the training digit", "|α|")
	LogAxis(&c.Y)
	c.Legend.Left, c.Legend.Top = true, false
	table := &Table{Name: "curve", Caption: "Share of Σ|α| that the digits of largest |α| hold, and how alike two networks rank the digits.",
		Head: []string{"seed", "‖gradient‖ at θ*", "1 % hold", "10 % hold", "50 % hold", "|α| < 0.001", "largest |α − r|", "rank correlation with seed 0", "of the 100 first, shared with seed 0"}}
	first := all[0].absolute()
	for seed := range all {
		v := all[seed].absolute()
		gap := 0.0
		for i, a := range all[seed].Alpha {
			gap = math.Max(gap, math.Abs(float64(a-all[seed].Residual[i])))
		}
		row := []Cell{Count(seed), Number(float64(all[seed].GradientNorm))}
		rank, shared := stat.Correlation(ranks(v), ranks(first), nil), shared(v, first, 100)
		falling := slices.Sorted(slices.Values(v))
		slices.Reverse(falling)
		small := 0
		at := make([]float64, len(falling))
		for i, a := range falling {
			at[i] = float64(i + 1)
			if a < 1e-3 {
				small++
			}
		}
		for _, part := range []float64{.01, .1, .5} {
			row = append(row, Number(shareOf(falling, part)))
		}
		table.Rows = append(table.Rows, append(row, Number(float64(small)/float64(len(v))), Number(gap), Number(rank), Count(shared)))
		for i := range falling {
			falling[i] = math.Max(falling[i], 1e-12) // of a saturated digit
		}
		if err := AddLine(c, fmt.Sprintf("seed %d", seed), Colour(seed), false, at, falling); err != nil {
			return section, err
		}
	}
	strip := Strip{Caption: "Digits of seed 0 along its curve: rank, label and |α|, which is the probability that the model gives to the other label."}
	for _, d := range all[0].Along {
		strip.Digits = append(strip.Digits, Digit{Pixels: d.Pixels, Name: fmt.Sprintf("training row %d", d.Row), Label: strconv.Itoa(d.Label), Says: []string{fmt.Sprintf("rank %d", d.Rank), "|α| " + brief(math.Abs(float64(d.Alpha)))}})
	}
	section.Strips = []Strip{strip}
	section.Tables = []*Table{table}
	section.Plots = []*Plot{{Name: "curve", Caption: "The |α_i| of all training digits in falling order, one curve a network.", Grid: One(c)}}
	return section, nil
}

// ranks are the ranks of numbers, the smallest 0.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case v[i] < v[j]:
			return -1
		case v[i] > v[j]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(v))
	for rank, i := range order {
		out[i] = float64(rank)
	}
	return out
}

// shared counts the places that are among the n largest of both.
func shared(a, b []float64, n int) int {
	first, ra, rb := float64(len(a)-n), ranks(a), ranks(b)
	count := 0
	for i := range a {
		if ra[i] >= first && rb[i] >= first {
			count++
		}
	}
	return count
}

// digits shows the pictures of the most and the least important digits.
func (s *importanceStudy) digits(r *importanceResult) (Section, error) {
	section := Section{Title: "The most and the least important digits", Text: []string{"Those of the network of seed 0. Above each digit stand its label and |α|, which is what the model gives to the other label."}}
	for _, group := range []struct {
		name, caption, numbers string
		digits                 []digitShown
	}{
		{"most", "The digits with the largest |α|, the largest first: ambiguous or mislabelled ones.", "The digits with the largest |α| in numbers.", r.Most},
		{"least", "The digits with the smallest |α|, the smallest first: the function hardly depends on them.", "The digits with the smallest |α| in numbers.", r.Least},
	} {
		picture, err := gallery(group.digits)
		if err != nil {
			return section, err
		}
		height := vg.Length(math.Ceil(float64(len(group.digits))/galleryColumns)) * 2.3 * vg.Centimeter
		section.Plots = append(section.Plots, &Plot{Name: group.name, Caption: group.caption, Width: 22 * vg.Centimeter, Height: height, Grid: One(picture)})
		t := &Table{Name: group.name, Caption: group.numbers, Head: []string{"training row", "label", "α", "probability of the label"}}
		for _, d := range group.digits {
			t.Rows = append(t.Rows, []Cell{Count(d.Row), Count(d.Label), Number(float64(d.Alpha)), Number(float64(d.Right))})
		}
		section.Folded = append(section.Folded, t)
	}
	return section, nil
}

// brief shows a number with two significant digits, and a probability near 1 by its distance.
func brief(x float64) string {
	if x > .995 && x < 1 {
		return "1 − " + strconv.FormatFloat(1-x, 'g', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

// predictions shows test digits with their most similar training digits.
func (s *importanceStudy) predictions(r *importanceResult) Section {
	section := Section{Title: "A right and two wrong predictions", Text: []string{
		fmt.Sprintf("The first test digit that the network of seed 0 predicts right and the first two that it predicts wrong, each with the %d training digits most similar to it. Similarity is the correlation of f at the two digits under the posterior of the refit, from −1 to 1 and without a unit: near 1, whatever is learnt about one holds for the other; where it is negative, what speaks for 9 at the one speaks for 4 at the other. An orange frame marks a wrong prediction, and training digits with another label than the predicted one.", similarShown)}}
	for _, x := range r.Predictions {
		verdict := "right"
		if x.Class != x.Label {
			verdict = "wrong"
		}
		strip := Strip{Caption: fmt.Sprintf("Test row %d, labelled %d: predicted %d, %s, with probability %s by the network and %s ± %s on average over the posterior (not calibrated).", x.Row, x.Label, x.Class, verdict, brief(float64(x.Network)), brief(float64(x.Refit)), brief(float64(x.SD)))}
		strip.Digits = append(strip.Digits, Digit{Pixels: x.Pixels, Name: fmt.Sprintf("test row %d", x.Row), Label: fmt.Sprintf("predicted %d", x.Class), Says: []string{fmt.Sprintf("labelled %d", x.Label)}, Large: true, Wrong: x.Class != x.Label})
		for _, d := range x.Similar {
			strip.Digits = append(strip.Digits, Digit{Pixels: d.Pixels, Name: fmt.Sprintf("training row %d", d.Row), Label: strconv.Itoa(d.Label), Says: []string{"similarity " + strconv.FormatFloat(float64(d.Similarity), 'f', 2, 64), fmt.Sprintf("row %d", d.Row)}, Wrong: d.Label != x.Class})
		}
		section.Strips = append(section.Strips, strip)
	}
	table := &Table{Name: "similar", Caption: "The three predictions in numbers.", Head: []string{"test row", "label", "predicted", "rank", "training row", "label of it", "similarity", "α"}}
	for _, x := range r.Predictions {
		for k, d := range x.Similar {
			table.Rows = append(table.Rows, []Cell{Count(x.Row), Count(x.Label), Count(x.Class), Count(k + 1), Count(d.Row), Count(d.Label), Number(float64(d.Similarity)), Number(float64(d.Alpha))})
		}
	}
	section.Folded = []*Table{table}
	return section
}

const galleryColumns = 12

// gallery draws digits in rows, dark on white, with their labels above.
func gallery(digits []digitShown) (*plot.Plot, error) {
	p := plot.New()
	p.HideAxes()
	var labels plotter.XYLabels
	for k, d := range digits {
		x, y := float64(k%galleryColumns), -1.25*float64(k/galleryColumns)
		p.Add(plotter.NewImage(pictureOf(d.Pixels), x+.05, y, x+.95, y+.9))
		labels.XYs = append(labels.XYs, plotter.XY{X: x + .5, Y: y + .95})
		labels.Labels = append(labels.Labels, fmt.Sprintf("%d: %s", d.Label, strconv.FormatFloat(math.Abs(float64(d.Alpha)), 'g', 2, 64)))
	}
	l, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].Font.Size, l.TextStyle[i].XAlign = vg.Points(8), text.XCenter
	}
	p.Add(l)
	rows := (len(digits) + galleryColumns - 1) / galleryColumns
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, galleryColumns, -1.25*float64(rows-1), 1.2
	return p, nil
}

// pictureOf is a digit of 28×28 pixels, dark on white.
func pictureOf(pixels []byte) image.Image {
	const side = 28
	img := image.NewGray(image.Rect(0, 0, side, side))
	for i, v := range pixels {
		img.SetGray(i%side, i/side, color.Gray{Y: 255 - v})
	}
	return img
}

// dropWords are the orders for people.
var dropWords = map[string]string{"least": "least important first", "most": "most important first", "random": "at random"}

// without shows the test scores of refits without some digits.
func (s *importanceStudy) without(all []importanceResult) (Section, error) {
	section := Section{Title: "Without some of the digits", Text: []string{"The linearized model is refitted to the digits that are left, at the same θ* and prior. Those of small |α| can go, those of large |α| cannot."}}
	table := &Table{Name: "without", Caption: "Test negative log likelihood, accuracy and ECE of the refit, mean ± standard error over the networks.", Digits: 4, Head: []string{"dropped first", "share dropped", "NLL", "accuracy", "ECE"}}
	row := func(name string, share float64, of func(r *importanceResult) ClassScores) float64 {
		var nll, accuracy, ece []float64
		for i := range all {
			c := of(&all[i])
			nll, accuracy, ece = append(nll, float64(c.NLL)), append(accuracy, float64(c.Accuracy)), append(ece, float64(c.ECE))
		}
		table.Rows = append(table.Rows, []Cell{Text(name), Number(share), Mean(nll), Mean(accuracy), Mean(ece)})
		return stat.Mean(nll, nil)
	}
	row("the network alone", 0, func(r *importanceResult) ClassScores { return r.Network })
	whole := row("none", 0, func(r *importanceResult) ClassScores { return r.Refit })
	c := NewPlot("", "share of the training digits that is dropped", "test negative log likelihood")
	for i, name := range importanceOrders {
		x, y := []float64{0}, []float64{whole}
		for k, share := range s.dropped {
			x = append(x, share)
			y = append(y, row(dropWords[name], share, func(r *importanceResult) ClassScores { return r.Without[i*len(s.dropped)+k].Scores }))
		}
		if err := AddLine(c, dropWords[name], Colour(i), true, x, y); err != nil {
			return section, err
		}
	}
	c.Legend.Left = true
	section.Tables = []*Table{table}
	section.Plots = []*Plot{{Name: "without", Caption: "Test negative log likelihood of refits without some training digits, mean over the networks.", Grid: One(c)}}
	return section, nil
}
